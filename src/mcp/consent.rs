//! Consent over MCP: who can be asked, the question in the protocol's own form, and the answer to it.
//!
//! Purpose: a person is asked by the client, never through the model. The answer comes in `inputResponses` and
//! `requestState` beside the arguments of a call (2026-07-28), or as the result of our own
//! `elicitation/create` (older clients); no argument of a tool can carry one. Called by `server.rs`.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, ClientResult, ElicitRequest,
    ElicitRequestParams, ElicitationAction, ElicitationSchema, ErrorData, InputRequest, InputRequests,
    InputRequiredResult, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, RoleServer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::level;
use super::payload;
use super::render::Escapes;
use crate::appliance::{Asker, Means, Outcome, Question};
use crate::policy::consent::{Answer, Decision};

/// Key of the question among the input requests of a result.
const KEY: &str = "consent";
/// What to do with a client that asks nobody.
const NO_ELICITATION: &str =
    "use a client that declares the elicitation capability (form mode), or let a person run it";
/// Who answers, for the records: nobody has said who that is.
const WHO: &str = "the person at the client, not authenticated";

/// Who can be asked about a call of this request, and what was said.
///
/// # Errors
/// An answer that is none, for the client to mend.
pub(super) fn asker(
    params: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    principal: &str,
) -> Result<Asker, ErrorData> {
    let form = context
        .client_capabilities()
        .and_then(|declared| declared.elicitation)
        .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none());
    let answer = if level::is_modern(context) { answer(params)? } else { None };
    Ok(Asker {
        principal: principal.to_owned(),
        means: if form { Means::Elicitation } else { Means::Nobody(NO_ELICITATION) },
        who: form.then(|| WHO.to_owned()),
        answer,
    })
}

/// The answer that a request brings, if it brings one.
fn answer(params: &CallToolRequestParams) -> Result<Option<Answer>, ErrorData> {
    let said = params.input_responses.as_ref().and_then(|responses| responses.get(KEY));
    let (Some(state), Some(said)) = (&params.request_state, said) else { return Ok(None) };
    let decision = match said.get("action").and_then(Value::as_str) {
        Some("accept") => Decision::Accept,
        Some("decline") => Decision::Decline,
        Some("cancel") => Decision::Cancel,
        _ => {
            let message =
                format!("inputResponses.{KEY}.action must be \"accept\", \"decline\" or \"cancel\"");
            return Err(ErrorData::invalid_params(message, None));
        }
    };
    Ok(Some(Answer { state: state.clone(), decision }))
}

/// The outcome of a call as a response; a question is one for the client to put.
pub(super) fn response(program: &str, outcome: Outcome, escapes: Escapes) -> CallToolResponse {
    match outcome {
        Outcome::Ask(question) => {
            let request = InputRequest::Elicitation(ElicitRequest::new(form(&question)));
            let requests = InputRequests::from([(KEY.to_owned(), request)]);
            InputRequiredResult::new(Some(requests), Some(question.state)).into()
        }
        outcome => payload::result_as(program, outcome, escapes).into(),
    }
}

/// A form without fields: to accept it is the consent.
fn form(question: &Question) -> ElicitRequestParams {
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: question.text.clone(),
        requested_schema: ElicitationSchema::new(Default::default()),
    }
}

/// Puts the question by a request of our own, to a client of the older era. A client that goes away, fails or
/// takes too long has not agreed.
pub(super) async fn put(
    peer: &Peer<RoleServer>,
    question: &Question,
    cancel: &CancellationToken,
) -> Decision {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(form(question)));
    let options = PeerRequestOptions::with_timeout(question.time);
    let handle = match peer.send_request_with_option(request, options).await {
        Ok(handle) => handle,
        Err(error) => {
            tracing::warn!(%error, "a question for consent could not be sent");
            return Decision::Cancel;
        }
    };
    let id = handle.id.clone();
    let said = tokio::select! {
        biased;
        () = cancel.cancelled() => {
            // So that the client takes the question off the screen.
            let params = CancelledNotificationParam::new(Some(id), Some("the call was called off".to_owned()));
            if let Err(error) = peer.notify_cancelled(params).await {
                tracing::debug!(%error, "the client is gone");
            }
            return Decision::Cancel;
        }
        said = handle.await_response() => said,
    };
    match said {
        Ok(ClientResult::ElicitResult(result)) => match result.action {
            ElicitationAction::Accept => Decision::Accept,
            ElicitationAction::Decline => Decision::Decline,
            _ => Decision::Cancel,
        },
        Ok(_) => Decision::Cancel,
        Err(error) => {
            tracing::warn!(%error, "a question for consent was not answered");
            Decision::Cancel
        }
    }
}

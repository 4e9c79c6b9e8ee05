//! Calls that need the client's answer before they are complete (multi round-trip requests).

use hmac::{Hmac, Mac};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ErrorData, InputRequiredResult,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};
use sha2::Sha256;

use super::tools::{error, gone, text};
use super::{Fixture, made};

const PREFIX: &str = "test_input_required_result_";

pub(super) fn elicit(message: &str, property: &str, kind: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": {
        "type": "object", "properties": {property: {"type": kind}}, "required": [property]}}})
}

fn sample(question: &str, tokens: u32) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": question}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

pub(super) fn required(requests: Value, state: Option<String>) -> Result<InputRequiredResult, ErrorData> {
    let mut result = Map::new();
    result.insert("resultType".to_owned(), "input_required".into());
    result.insert("inputRequests".to_owned(), requests);
    if let Some(state) = state {
        result.insert("requestState".to_owned(), state.into());
    }
    made(Value::Object(result))
}

/// What was filled in under `key`: a property of an accepted form.
pub(super) fn filled<'a>(answers: Option<&'a Value>, key: &str, property: &str) -> Option<&'a Value> {
    let answer = answers?.get(key)?;
    answer.get("content").filter(|_| answer.get("action") == Some(&json!("accept")))?.get(property)
}

impl Fixture {
    fn sealed(&self, step: &str) -> Result<String, ErrorData> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.shared.key).map_err(gone)?;
        mac.update(step.as_bytes());
        let tag = mac.finalize().into_bytes();
        Ok(format!("{step}.{}", tag.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
    }

    /// The step that a state of ours is about.
    fn step(&self, state: Option<&str>) -> Result<Option<String>, ErrorData> {
        let Some(state) = state else { return Ok(None) };
        let step = state.split_once('.').map_or("", |(step, _)| step);
        if self.sealed(step)? != state {
            return Err(ErrorData::invalid_params("requestState is not one of this server", None));
        }
        Ok(Some(step.to_owned()))
    }

    /// The answer of a tool of this file, if it is one.
    pub(super) fn asking(
        &self,
        params: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<CallToolResponse, ErrorData>> {
        let declared = context.client_capabilities().unwrap_or_default();
        match params.name.as_ref() {
            "test_missing_capability" => Some(missing(&declared)),
            "test_streaming_elicitation" => {
                Some(ask(json!({"user_name": elicit("What is your name?", "name", "string")}), None))
            }
            name => self.round(name.strip_prefix(PREFIX)?, params, &declared),
        }
    }

    fn round(
        &self,
        name: &str,
        params: &CallToolRequestParams,
        declared: &ClientCapabilities,
    ) -> Option<Result<CallToolResponse, ErrorData>> {
        let answers = match params.input_responses.as_ref().map(serde_json::to_value).transpose() {
            Ok(answers) => answers,
            Err(error) => return Some(Err(gone(error))),
        };
        let step = match self.step(params.request_state.as_deref()) {
            Ok(step) => step,
            Err(error) => return Some(Err(error)),
        };
        let (answers, step) = (answers.as_ref(), step.as_deref());
        let has = |key: &str| answers.is_some_and(|answers| answers.get(key).is_some_and(Value::is_object));
        Some(match name {
            "elicitation" => match filled(answers, "user_name", "name").and_then(Value::as_str) {
                Some(name) => text(&format!("Hello, {name}!")),
                None => ask(json!({"user_name": elicit("What is your name?", "name", "string")}), None),
            },
            "sampling" if has("capital_question") => {
                let said = answers.and_then(|answers| answers.pointer("/capital_question/content/text"));
                text(said.and_then(Value::as_str).unwrap_or("(no text)"))
            }
            "sampling" => {
                ask(json!({"capital_question": sample("What is the capital of France?", 100)}), None)
            }
            "list_roots" if has("client_roots") => {
                let there = answers.and_then(|answers| answers.pointer("/client_roots/roots"));
                text(&format!("Roots: {}", there.unwrap_or(&Value::Null)))
            }
            "list_roots" => ask(json!({"client_roots": roots()}), None),
            "request_state" | "tampered_state" => match (step, has("confirm")) {
                (Some("confirm"), true) => text("state-ok"),
                _ => {
                    self.ask_sealed(json!({"confirm": elicit("Please confirm", "ok", "boolean")}), "confirm")
                }
            },
            "multiple_inputs" => match step {
                Some("all") if has("user_name") && has("greeting") && has("client_roots") => {
                    text("all there")
                }
                _ => self.ask_sealed(
                    json!({"user_name": elicit("What is your name?", "name", "string"),
                        "greeting": sample("Generate a greeting", 50), "client_roots": roots()}),
                    "all",
                ),
            },
            "multi_round" => match step {
                Some("two") if has("step2") => text("both rounds are done"),
                Some("one") if has("step1") => {
                    let request = elicit("Step 2: What is your favorite color?", "color", "string");
                    self.ask_sealed(json!({"step2": request}), "two")
                }
                _ => self.ask_sealed(
                    json!({"step1": elicit("Step 1: What is your name?", "name", "string")}),
                    "one",
                ),
            },
            "capabilities" if answers.is_some() => text("answered"),
            "capabilities" => declared_only(declared),
            _ => return None,
        })
    }

    fn ask_sealed(&self, requests: Value, step: &str) -> Result<CallToolResponse, ErrorData> {
        ask(requests, Some(self.sealed(step)?))
    }
}

fn ask(requests: Value, state: Option<String>) -> Result<CallToolResponse, ErrorData> {
    Ok(required(requests, state)?.into())
}

fn missing(declared: &ClientCapabilities) -> Result<CallToolResponse, ErrorData> {
    if declared.sampling.is_some() {
        return text("the capability was declared");
    }
    Err(ErrorData::missing_required_client_capability(made(json!({"sampling": {}}))?))
}

/// Asks for nothing that the client did not declare.
fn declared_only(declared: &ClientCapabilities) -> Result<CallToolResponse, ErrorData> {
    let mut requests = Map::new();
    if declared.elicitation.is_some() {
        requests.insert("user_name".to_owned(), elicit("What is your name?", "name", "string"));
    }
    if declared.sampling.is_some() {
        requests.insert("greeting".to_owned(), sample("Generate a greeting", 50));
    }
    if declared.roots.is_some() {
        requests.insert("client_roots".to_owned(), roots());
    }
    if requests.is_empty() { error("nothing can be asked") } else { ask(Value::Object(requests), None) }
}

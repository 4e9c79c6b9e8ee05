//! Tools that answer at once, tell something on the way, or ask the client by a request in between.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientResult, CreateMessageRequestParams,
    ElicitRequest, ElicitRequestParams, ErrorData, LoggingMessageNotificationParam,
    ProgressNotificationParam, ServerRequest,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::{Change, Fixture, complete, is_modern, made};

/// A picture of one pixel.
pub(super) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A sound without samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn text(text: &str) -> Result<CallToolResponse, ErrorData> {
    content(json!([{"type": "text", "text": text}]))
}

fn content(content: Value) -> Result<CallToolResponse, ErrorData> {
    Ok(complete::<CallToolResult>(json!({"content": content}))?.into())
}

pub(super) fn error(text: &str) -> Result<CallToolResponse, ErrorData> {
    let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
    Ok(complete::<CallToolResult>(result)?.into())
}

/// An argument that is a text.
pub(super) fn argument<'a>(params: &'a CallToolRequestParams, name: &str) -> &'a str {
    let arguments = params.arguments.as_ref();
    arguments.and_then(|arguments| arguments.get(name)).and_then(Value::as_str).unwrap_or("")
}

impl Fixture {
    /// The answer of a tool of this file, if it is one.
    pub(super) async fn plain(
        &self,
        params: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<CallToolResponse, ErrorData>> {
        Some(match params.name.as_ref() {
            "test_simple_text" => text("This is a simple text response for testing."),
            "test_image_content" => content(json!([{"type": "image", "data": PNG, "mimeType": "image/png"}])),
            "test_audio_content" => content(json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}])),
            "test_embedded_resource" => content(json!([{"type": "resource", "resource": {
                "uri": "test://embedded-resource", "mimeType": "text/plain",
                "text": "This is an embedded resource content."}}])),
            "test_multiple_content_types" => content(json!([
                {"type": "text", "text": "Multiple content types test:"},
                {"type": "image", "data": PNG, "mimeType": "image/png"},
                {"type": "resource", "resource": {"uri": "test://mixed-content-resource",
                    "mimeType": "application/json", "text": r#"{"test":"data","value":123}"#}},
            ])),
            "test_error_handling" => error("This tool intentionally returns an error for testing"),
            "test_tool_with_logging" | "test_logging_tool" => self.logging(context).await,
            "test_tool_with_progress" => progress(context).await,
            "test_reconnection" => {
                tokio::time::sleep(PAUSE).await;
                text("Reconnection test completed.")
            }
            "test_sampling" => sampling(params, context).await,
            "test_elicitation" => elicitation(argument(params, "message"), context, "User response:", json!({
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            }), &["username", "email"]).await,
            "test_elicitation_sep1034_defaults" => {
                elicitation("Review the values", context, "Elicitation completed:", json!({
                    "name": {"type": "string", "default": "John Doe"},
                    "age": {"type": "integer", "default": 30},
                    "score": {"type": "number", "default": 95.5},
                    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                    "verified": {"type": "boolean", "default": true},
                }), &[]).await
            }
            "test_elicitation_sep1330_enums" => {
                elicitation("Choose", context, "Elicitation completed:", enums(), &[]).await
            }
            "test_trigger_tool_change" => self.change(Change::Tools),
            "test_trigger_prompt_change" => self.change(Change::Prompts),
            "json_schema_2020_12_tool" | "test_header_param" => text("called"),
            "greet" => text(&format!("Hello, {}!", argument(params, "name"))),
            _ => return None,
        })
    }

    fn change(&self, change: Change) -> Result<CallToolResponse, ErrorData> {
        // Nobody who listens is no fault.
        drop(self.shared.changes.send(change));
        text("changed")
    }

    async fn logging(&self, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let wanted = !is_modern(context) || context.meta.log_level().is_some();
        for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
            if wanted {
                let message = json!({"level": "info", "logger": "conformance", "data": line});
                let message = made::<LoggingMessageNotificationParam>(message)?;
                context.peer.notify_logging_message(message).await.map_err(gone)?;
            }
            tokio::time::sleep(PAUSE).await;
        }
        text("logged")
    }
}

async fn progress(context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    let token = context.meta.get_progress_token();
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = &token {
            let params = ProgressNotificationParam::new(token.clone(), done).with_total(100.0);
            context.peer.notify_progress(params).await.map_err(gone)?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    text("done")
}

async fn sampling(
    params: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    if is_modern(context) || context.client_capabilities().is_none_or(|declared| declared.sampling.is_none())
    {
        return error("the client does not support sampling");
    }
    let message = json!({"role": "user", "content": {"type": "text", "text": argument(params, "prompt")}});
    let asked = made::<CreateMessageRequestParams>(json!({"messages": [message], "maxTokens": 100}))?;
    let said = context.peer.create_message(asked).await.map_err(gone)?;
    let said = serde_json::to_value(said).map_err(gone)?;
    let said = said.pointer("/content/text").and_then(Value::as_str).unwrap_or("");
    text(&format!("LLM response: {said}"))
}

async fn elicitation(
    message: &str,
    context: &RequestContext<RoleServer>,
    prefix: &str,
    properties: Value,
    required: &[&str],
) -> Result<CallToolResponse, ErrorData> {
    if is_modern(context)
        || context.client_capabilities().is_none_or(|declared| declared.elicitation.is_none())
    {
        return error("the client does not support elicitation");
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if let Some(schema) = schema.as_object_mut().filter(|_| !required.is_empty()) {
        schema.insert("required".to_owned(), json!(required));
    }
    let asked = json!({"mode": "form", "message": message, "requestedSchema": schema});
    let asked = ElicitRequest::new(made::<ElicitRequestParams>(asked)?);
    match context.peer.send_request(ServerRequest::ElicitRequest(asked)).await.map_err(gone)? {
        ClientResult::ElicitResult(result) => {
            let said = serde_json::to_value(result).map_err(gone)?;
            let action = said.get("action").and_then(Value::as_str).unwrap_or("");
            text(&format!(
                "{prefix} action={action}, content={}",
                said.get("content").unwrap_or(&Value::Null)
            ))
        }
        _ => error("the answer is none to an elicitation"),
    }
}

fn enums() -> Value {
    let titled = json!([{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"}]);
    let choices = json!([{"const": "value1", "title": "First Choice"}, {"const": "value2", "title": "Second Choice"},
        {"const": "value3", "title": "Third Choice"}]);
    let options = json!(["option1", "option2", "option3"]);
    json!({
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": choices}},
    })
}

/// A client that is gone, or an answer that is none.
pub(super) fn gone(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

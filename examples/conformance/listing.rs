//! What there is: tools, prompts and resources, as JSON.

use serde_json::{Value, json};

use super::tools::PNG;

/// All tools; the first one is harmless, as the suite takes it for its checks of headers.
pub(super) fn tools() -> Value {
    let none = json!({"type": "object", "properties": {}});
    let tool = |name: &str, schema: Value| json!({"name": name, "description": name, "inputSchema": schema});
    let text =
        |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let mut all: Vec<Value> = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_tool_with_logging",
        "test_error_handling",
        "test_tool_with_progress",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_reconnection",
        "test_missing_capability",
        "test_streaming_elicitation",
        "test_logging_tool",
        "test_trigger_tool_change",
        "test_trigger_prompt_change",
        "test_input_required_result_elicitation",
        "test_input_required_result_sampling",
        "test_input_required_result_list_roots",
        "test_input_required_result_request_state",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_multi_round",
        "test_input_required_result_tampered_state",
        "test_input_required_result_capabilities",
        "failing_job",
        "protocol_error_job",
        "multi_input",
        "test_tool_with_task",
    ]
    .into_iter()
    .map(|name| tool(name, none.clone()))
    .collect();
    all.push(tool("test_sampling", text("prompt")));
    all.push(tool("test_elicitation", text("message")));
    all.push(tool("greet", text("name")));
    all.push(tool("confirm_delete", text("filename")));
    all.push(tool(
        "slow_compute",
        json!({"type": "object", "properties": {
        "seconds": {"type": "number"}, "label": {"type": "string"}}}),
    ));
    all.push(tool(
        "test_header_param",
        json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"}}}),
    ));
    all.push(tool(
        "json_schema_2020_12_tool",
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {"$anchor": "addressDef", "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        }),
    ));
    Value::Array(all)
}

pub(super) fn prompts() -> Value {
    let argument = |name: &str| json!({"name": name, "description": name, "required": true});
    json!([
        {"name": "test_simple_prompt", "description": "A prompt without arguments"},
        {"name": "test_prompt_with_arguments", "description": "A prompt with two",
            "arguments": [argument("arg1"), argument("arg2")]},
        {"name": "test_prompt_with_embedded_resource", "description": "A prompt with a resource",
            "arguments": [argument("resourceUri")]},
        {"name": "test_prompt_with_image", "description": "A prompt with a picture"},
        {"name": "test_input_required_result_prompt", "description": "A prompt that asks"},
    ])
}

/// The messages of a prompt.
pub(super) fn prompt(name: &str, argument: impl Fn(&str) -> String) -> Option<Value> {
    let user = |content: Value| json!({"role": "user", "content": content});
    let text = |text: &str| user(json!({"type": "text", "text": text}));
    Some(match name {
        "test_simple_prompt" => json!([text("This is a simple prompt for testing.")]),
        "test_prompt_with_arguments" => {
            let (one, two) = (argument("arg1"), argument("arg2"));
            json!([text(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))])
        }
        "test_prompt_with_embedded_resource" => json!([
            user(json!({"type": "resource", "resource": {"uri": argument("resourceUri"),
                "mimeType": "text/plain", "text": "Embedded resource content for testing."}})),
            text("Please process the embedded resource above."),
        ]),
        "test_prompt_with_image" => json!([
            user(json!({"type": "image", "data": PNG, "mimeType": "image/png"})),
            text("Please analyze the image above."),
        ]),
        _ => return None,
    })
}

pub(super) fn resources() -> Value {
    let one = |name: &str, kind: &str| json!({"uri": format!("test://{name}"), "name": name, "description": name, "mimeType": kind});
    json!([
        one("static-text", "text/plain"),
        one("static-binary", "image/png"),
        one("watched-resource", "text/plain")
    ])
}

pub(super) fn templates() -> Value {
    json!([{"uriTemplate": "test://template/{id}/data", "name": "template", "description": "A template",
        "mimeType": "application/json"}])
}

/// What a resource holds.
pub(super) fn resource(uri: &str) -> Option<Value> {
    let text = |kind: &str, text: String| json!([{"uri": uri, "mimeType": kind, "text": text}]);
    Some(match uri {
        "test://static-text" => {
            text("text/plain", "This is the content of the static text resource.".to_owned())
        }
        "test://watched-resource" => text("text/plain", "This is watched.".to_owned()),
        "test://static-binary" => json!([{"uri": uri, "mimeType": "image/png", "blob": PNG}]),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            text("application/json", data.to_string())
        }
    })
}

//! The fixtures of the protocol's official conformance suite, behind cofferdam's own HTTP transport.
//!
//! ```console
//! $ cargo run --example conformance -- 127.0.0.1:8000
//! ```
//!
//! The suite wants prompts, resources, sampling and more, which the product does not have: they live here alone.
//! What is measured is what lies in front of them: listener, layers, sessions, streams. `tests/conformance/suite`
//! drives it. Prints the address once it listens; port 0 takes a free one.
#![allow(
    deprecated,
    reason = "the protocol keeps logging, sampling and older subscriptions until 2027-07-28"
)]

mod asking;
mod listing;
mod nothing;
mod tasks;
mod tools;

use std::error::Error;
use std::sync::Arc;

use cofferdam::config::HttpConfig;
use cofferdam::mcp::http::{Http, Listener, Principals};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
    ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetTaskParams,
    GetTaskResult, Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use self::nothing::Nothing;
use self::tools::gone;

/// What a subscriber is told of.
#[derive(Debug, Clone, Copy)]
enum Change {
    Tools,
    Prompts,
}

/// What all connections share.
struct Shared {
    tasks: TaskManager,
    changes: broadcast::Sender<Change>,
    /// Of the states that clients bring back.
    key: [u8; 16],
}

/// The server of one request, or of one session.
#[derive(Clone)]
struct Fixture {
    shared: Arc<Shared>,
}

/// Anything of the protocol out of its JSON.
fn made<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(gone)
}

/// A result, which says that it is complete.
fn complete<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    if let Some(object) = value.as_object_mut() {
        object.insert("resultType".to_owned(), "complete".into());
    }
    made(value)
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

/// A list, with how long it may be kept where the protocol knows of it.
fn list<T: DeserializeOwned>(
    key: &str,
    value: Value,
    context: &RequestContext<RoleServer>,
) -> Result<T, ErrorData> {
    complete(if is_modern(context) {
        json!({key: value, "ttlMs": 1000, "cacheScope": "private"})
    } else {
        json!({key: value})
    })
}

type Page = Option<PaginatedRequestParams>;
type Context = RequestContext<RoleServer>;

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities: ServerCapabilities = made(json!({
            "completions": {},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
            "logging": {},
            "prompts": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": true},
            "tools": {"listChanged": true},
        }))
        .unwrap_or_default();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("cofferdam-conformance", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(&self, _: Page, context: Context) -> Result<ListToolsResult, ErrorData> {
        list("tools", listing::tools(), &context)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let all: Vec<Tool> = made(listing::tools()).ok()?;
        all.into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(answer) = self.plain(&params, &context).await {
            return answer;
        }
        if let Some(answer) = self.asking(&params, &context) {
            return answer;
        }
        match self.task(&params, &context).await {
            Some(answer) => answer,
            None => Err(ErrorData::invalid_params(format!("Unknown tool: {}", params.name), None)),
        }
    }

    async fn list_prompts(&self, _: Page, context: Context) -> Result<ListPromptsResult, ErrorData> {
        list("prompts", listing::prompts(), &context)
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        _: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let mut messages = listing::prompt(&params.name, |name| {
            let given = params.arguments.as_ref().and_then(|arguments| arguments.get(name));
            given.and_then(Value::as_str).unwrap_or("").to_owned()
        });
        if params.name == "test_input_required_result_prompt" {
            let answers =
                params.input_responses.as_ref().map(serde_json::to_value).transpose().map_err(gone)?;
            let Some(said) = asking::filled(answers.as_ref(), "user_context", "context") else {
                let question = asking::elicit("What context should the prompt use?", "context", "string");
                return Ok(asking::required(json!({"user_context": question}), None)?.into());
            };
            let said = said.as_str().unwrap_or("");
            messages = Some(json!([{"role": "user", "content": {"type": "text", "text": said}}]));
        }
        let unknown = || ErrorData::invalid_params(format!("Unknown prompt: {}", params.name), None);
        Ok(complete::<GetPromptResult>(json!({"messages": messages.ok_or_else(unknown)?}))?.into())
    }

    async fn list_resources(&self, _: Page, context: Context) -> Result<ListResourcesResult, ErrorData> {
        list("resources", listing::resources(), &context)
    }

    async fn list_resource_templates(
        &self,
        _: Page,
        context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        list("resourceTemplates", listing::templates(), &context)
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = listing::resource(&params.uri).ok_or_else(|| {
            ErrorData::invalid_params("Resource not found", Some(json!({"uri": params.uri})))
        })?;
        Ok(list::<ReadResourceResult>("contents", contents, &context)?.into())
    }

    async fn complete(&self, _: CompleteRequestParams, _: Context) -> Result<CompleteResult, ErrorData> {
        complete(json!({"completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": false}}))
    }

    async fn set_level(&self, _: SetLevelRequestParams, context: Context) -> Result<(), ErrorData> {
        if is_modern(&context) {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "logging/setLevel", None));
        }
        Ok(())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.shared.changes.subscribe();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change.map_err(gone)?,
            };
            let (sink, accepted) = (context.sink(), context.accepted());
            match change {
                Change::Tools if accepted.tools_list_changed == Some(true) => {
                    sink.notify_tool_list_changed().await.map_err(gone)?;
                }
                Change::Prompts if accepted.prompts_list_changed == Some(true) => {
                    sink.notify_prompt_list_changed().await.map_err(gone)?;
                }
                _ => {}
            }
        }
    }

    async fn get_task(&self, params: GetTaskParams, _: Context) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.shared.tasks.get_task(&params.task_id)?))
    }

    async fn update_task(&self, params: UpdateTaskParams, _: Context) -> Result<(), ErrorData> {
        self.shared.tasks.update_task(&params.task_id, params.input_responses)
    }

    async fn cancel_task(&self, params: CancelTaskParams, _: Context) -> Result<(), ErrorData> {
        self.shared.tasks.cancel_task(&params.task_id)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: conformance ADDRESS:PORT")?.parse()?;
    let listener = Listener::tcp(address, false)?;
    let (changes, _) = broadcast::channel(16);
    let shared = Shared { tasks: TaskManager::new(), changes, key: *uuid::Uuid::new_v4().as_bytes() };
    let fixture = Fixture { shared: Arc::new(shared) };
    println!("{listener}");
    tokio::runtime::Runtime::new()?.block_on(async {
        let http = Http::new(Arc::new(Nothing), listener, HttpConfig::default(), Principals::default())?;
        http.answering(move || fixture.clone()).serve(axum::Router::new(), || {}).await?;
        Ok::<_, Box<dyn Error>>(())
    })
}

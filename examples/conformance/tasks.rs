//! Tools that run as tasks, for clients that declare the extension.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, CreateTaskResult, ErrorData,
    InputRequest,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::task_manager::{TaskContext, TaskExit, TaskOptions};
use serde_json::{Value, json};

use super::asking::{elicit, filled, required};
use super::tools::{argument, error, gone, text};
use super::{Fixture, complete, made};

fn said(text: &str) -> Result<CallToolResult, TaskExit> {
    Ok(complete(json!({"content": [{"type": "text", "text": text}]}))?)
}

async fn asked(task: &TaskContext, key: &str, message: &str) -> Result<Value, TaskExit> {
    let request = made::<InputRequest>(elicit(message, "ok", "boolean"))?;
    task.request_input(key, request).await
}

impl Fixture {
    /// The answer of a tool of this file, if it is one.
    pub(super) async fn task(
        &self,
        params: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<CallToolResponse, ErrorData>> {
        let takes_tasks = context
            .client_capabilities()
            .is_some_and(|declared: ClientCapabilities| declared.supports_tasks());
        let needed = || {
            let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
            Err(ErrorData::missing_required_client_capability(made(tasks)?))
        };
        let name = params.name.as_ref();
        Some(match name {
            "slow_compute" => {
                let seconds = params.arguments.as_ref().and_then(|arguments| arguments.get("seconds"));
                let time =
                    Duration::from_secs_f64(seconds.and_then(Value::as_f64).unwrap_or(0.0).clamp(0.0, 600.0));
                if takes_tasks {
                    self.spawn(move |task| async move {
                        tokio::select! {
                            () = tokio::time::sleep(time) => said("computed"),
                            () = task.cancelled() => Err(TaskExit::Cancelled),
                        }
                    })
                } else {
                    tokio::time::sleep(time).await;
                    text("computed")
                }
            }
            "failing_job" | "test_tool_with_task" if !takes_tasks => needed(),
            "failing_job" => self.spawn(|_| async {
                Ok(complete(json!({"content": [{"type": "text", "text": "it failed"}], "isError": true}))?)
            }),
            "confirm_delete" | "multi_input" | "protocol_error_job" if !takes_tasks => {
                error("this tool runs as a task only")
            }
            "protocol_error_job" => self.spawn(|_| async {
                Err(TaskExit::Error(ErrorData::internal_error("it broke on purpose", None)))
            }),
            "confirm_delete" => {
                let file = argument(params, "filename").to_owned();
                self.spawn(move |task| async move {
                    let answer = asked(&task, "confirm", &format!("Delete {file}?")).await?;
                    said(&format!("answered: {answer}"))
                })
            }
            "multi_input" => self.spawn(|task| async move {
                let (one, two) = tokio::join!(asked(&task, "one", "First?"), asked(&task, "two", "Second?"));
                said(&format!("answered: {} {}", one?, two?))
            }),
            "test_tool_with_task" => self.after_asking(params),
            _ => return None,
        })
    }

    fn after_asking(&self, params: &CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
        let answers = params.input_responses.as_ref().map(serde_json::to_value).transpose().map_err(gone)?;
        let name = ["name", "user_name", "value", "input"]
            .into_iter()
            .find_map(|property| filled(answers.as_ref(), "user_name", property));
        match name.and_then(Value::as_str).map(str::to_owned) {
            Some(name) => self.spawn(move |_| async move { said(&format!("Hello, {name}!")) }),
            None => {
                let request = json!({"user_name": elicit("What is your name?", "name", "string")});
                Ok(required(request, None)?.into())
            }
        }
    }

    fn spawn<F>(&self, work: impl FnOnce(TaskContext) -> F) -> Result<CallToolResponse, ErrorData>
    where
        F: Future<Output = Result<CallToolResult, TaskExit>> + Send + 'static,
    {
        let task = self.shared.tasks.spawn(TaskOptions::new(), |context| Box::pin(work(context)));
        Ok(CreateTaskResult::new(task).into())
    }
}

//! A small MCP server with a tool of its own, and cofferdam's beside it.
//!
//! ```console
//! $ cargo run --example embedded -- WORKSPACE AUDIT-FILE
//! ```
//!
//! Speaks MCP on standard input and output. `greet` is the host's own tool; `shell_run`, `shell_start`, … are
//! ours, under a policy that is built here.

use std::error::Error;
use std::sync::Arc;

use cofferdam::{Appliance, PolicyBuilder, Toolbox, Transport};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, ServiceExt};

/// The host's server.
struct Host {
    shell: Arc<Toolbox>,
}

impl ServerHandler for Host {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("embedded", env!("CARGO_PKG_VERSION")))
            .with_instructions(format!("greet says hello. {}", self.shell.instructions()))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = vec![Tool::new(
            "greet",
            "Says hello.",
            JsonObject::from_iter([("type".into(), "object".into())]),
        )];
        tools.extend(self.shell.list());
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "greet" {
            return Ok(CallToolResult::success(vec![ContentBlock::text("hello")]).into());
        }
        self.shell.call(request, context).await
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // First: this process may be the launcher, which is the same executable.
    cofferdam::become_launcher_if_asked();
    let mut arguments = std::env::args_os().skip(1);
    let (workspace, records) =
        arguments.next().zip(arguments.next()).ok_or("usage: embedded WORKSPACE AUDIT-FILE")?;
    let policy = PolicyBuilder::new(workspace)
        .allow(["cat", "ls", "sleep"])
        .command("git", [("subcommands", vec!["log", "status"].into())])
        .prefix("shell")
        .audit_file(records)
        .build()?;
    // Before the runtime and its threads.
    let appliance = Arc::new(Appliance::start(policy)?);
    for warning in appliance.warnings() {
        eprintln!("embedded: {warning}");
    }
    tokio::runtime::Runtime::new()?.block_on(serve(appliance))
}

async fn serve(appliance: Arc<Appliance>) -> Result<(), Box<dyn Error>> {
    appliance.announce(Some(Transport::Stdio.as_str())).await?;
    let shell = Arc::new(Toolbox::new(Arc::clone(&appliance), Transport::Stdio));
    let served = Host { shell: Arc::clone(&shell) }.serve(rmcp::transport::stdio()).await;
    let ended = match served {
        Ok(running) => running.waiting().await.map(|_| ()).map_err(Box::from),
        Err(error) => Err(Box::from(error)),
    };
    // The client is gone: nothing of ours outlives it, and all of it is recorded.
    if !shell.end().await {
        eprintln!("embedded: runs were still not collected when the server ended");
    }
    appliance.stop().await?;
    ended
}

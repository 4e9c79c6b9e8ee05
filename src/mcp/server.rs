//! The server: MCP requests in, calls of the runner out.

use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CustomRequest, CustomResult, ErrorCode, ErrorData, GetTaskParams, GetTaskResult, ListToolsResult,
    MetaObject, PaginatedRequestParams, ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::channel::{Admits, Channel};
use super::cursor::Cursors;
use super::from::Arrival;
use super::in_flight::Asked;
use super::job_end::End;
use super::level::{SessionLevel, SetLevel};
use super::offer::{Ceilings, Kit, Offer};
use super::render::Escapes;
use super::runner::Runner;
use super::tools::{Entry, Verb};
use super::trace::trace;
use super::view::{View, Views};
use super::{arguments, consent, hangup, level, listen, payload, stream, unwound};
use crate::appliance::{Call, Outcome};
use crate::audit::{Context, Secrets};
use crate::policy::Request;
use crate::run::Tap;
use crate::run::jobs::{Bounds, Jobs};

pub(super) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// How long a list of tools is good that does not change while the server runs.
const TOOLS_TTL_MS: u64 = 300_000;
/// The same of one that may: a client that does not listen for changes asks again.
const CHANGING_TTL_MS: u64 = 30_000;
/// Methods that rmcp takes for unknown ones when their parameters have the wrong shape.
const TYPED_METHODS: [&str; 6] =
    ["tools/call", "tools/list", "server/discover", "tasks/get", "tasks/update", "tasks/cancel"];

/// One connection, or one caller with several ([`Server::another`]), which share jobs and places.
pub(super) struct Server<R> {
    pub(super) runner: Arc<R>,
    /// What the client is told of the policy.
    pub(super) views: Arc<Views<R>>,
    /// Who may answer for consent, and in the records the session of a connection without one of its own.
    session: String,
    transport: &'static str,
    places: Arc<Semaphore>,
    most: usize,
    /// Its jobs: they end with it.
    pub(super) jobs: Arc<Jobs<End>>,
    pub(super) cursors: Arc<Cursors>,
    pub(super) level: Arc<SessionLevel>,
    /// Places of subscriptions.
    pub(super) listens: Arc<Semaphore>,
    pub(super) stop: CancellationToken,
}

impl<R: Runner> Server<R> {
    pub(super) fn new(
        runner: Arc<R>,
        transport: &'static str,
        places: Arc<Semaphore>,
        stop: CancellationToken,
    ) -> Self {
        Self::offering(runner, |offer| offer, transport, places, stop)
    }

    /// The same for a caller who is offered less: what `narrow` leaves of any policy.
    pub(super) fn offering(
        runner: Arc<R>,
        narrow: impl Fn(Offer) -> Offer + Send + Sync + 'static,
        transport: &'static str,
        places: Arc<Semaphore>,
        stop: CancellationToken,
    ) -> Self {
        let most = places.available_permits();
        let views = Arc::new(Views::new(Arc::clone(&runner), Box::new(narrow)));
        let offer = Arc::clone(&views.now().offer);
        let bounds = |own: Ceilings| Bounds {
            running: own.max_jobs,
            finished: own.max_finished_jobs,
            ttl: own.job_ttl,
        };
        let own = |kit: &Kit| kit.ceilings.map(|own| (kit.prefix.clone(), bounds(own)));
        let owners = offer.kits.iter().filter_map(own).collect();
        let jobs = Jobs::new(bounds(offer.own()), owners, stop.clone());
        Self {
            runner,
            views,
            session: uuid::Uuid::new_v4().to_string(),
            transport,
            places,
            most,
            jobs: Arc::new(jobs),
            cursors: Arc::default(),
            level: Arc::default(),
            listens: Arc::new(Semaphore::new(listen::MOST)),
            stop,
        }
    }

    /// What the client is told of the policy in force. Take it once a request.
    pub(super) fn view(&self) -> Arc<View> {
        self.views.now()
    }

    /// The same for the connections of one caller, whose name stands for them where consent is asked for.
    pub(super) fn of(mut self, caller: &str) -> Self {
        self.session = caller.to_owned();
        self
    }

    /// One more connection of the same caller: what it wants to hear is its own.
    pub(super) fn another(&self) -> Self {
        Self {
            runner: Arc::clone(&self.runner),
            views: Arc::clone(&self.views),
            session: self.session.clone(),
            transport: self.transport,
            places: Arc::clone(&self.places),
            most: self.most,
            jobs: Arc::clone(&self.jobs),
            cursors: Arc::clone(&self.cursors),
            level: Arc::default(),
            listens: Arc::clone(&self.listens),
            stop: self.stop.clone(),
        }
    }

    /// A place among the calls that are handed on at the same time.
    pub(super) fn place(&self) -> Result<OwnedSemaphorePermit, String> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let most = self.most;
            format!("busy: {most} calls are under way already; call again when one has ended")
        })
    }

    /// The same for a call that may wait for long: such calls take no more than half of the places, and the
    /// rest is there for calls that are answered or refused at once.
    pub(super) fn place_of_batch(&self) -> Result<OwnedSemaphorePermit, String> {
        let most = self.most;
        if self.places.available_permits() <= most / 2 {
            return Err(format!(
                "busy: {most} calls may be under way, and half of them are; call again when one has ended"
            ));
        }
        self.place()
    }

    /// Who asks, for the records.
    pub(super) fn context(&self, tool: &str, request: &RequestContext<RoleServer>) -> Context {
        let asked = request.extensions.get::<Asked>().map_or(&request.id, |asked| &asked.0);
        let client = request.client_info();
        let (client_name, client_version) = client.map(|client| (client.name, client.version)).unzip();
        let from = Arrival::of(&request.extensions);
        Context {
            transport: Some(self.transport),
            tool: Some(tool.to_owned()),
            toolkit: None,
            session_id: from.session(level::is_modern(request), &self.session),
            caller: from.caller(),
            peer: from.peer(),
            request_id: Some(asked.clone().into_json_value().to_string()),
            client_name,
            client_version,
            protocol_version: request.protocol_version().map(|version| version.to_string()),
            trace: request.meta.get_traceparent().and_then(trace),
            batch: None,
            line: None,
            secrets: Secrets::default(),
        }
    }

    /// Who asks in a message that nobody has read.
    pub(super) fn context_of_unread(&self) -> Context {
        Context {
            transport: Some(self.transport),
            tool: Some("unknown".to_owned()),
            session_id: Some(self.session.clone()),
            ..Context::default()
        }
    }

    /// What `run` and `start` have in common: the arguments read, a place taken, the call made.
    ///
    /// # Errors
    /// What is answered at once.
    pub(super) fn begin(
        &self,
        entry: &Entry,
        params: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Begun, Early> {
        let said = |message| Early::new(Ok(payload::error(message).into()));
        let asker =
            consent::asker(&params, context, &self.session).map_err(|error| Early::new(Err(error)))?;
        let asked = arguments::run(params.arguments, self.view().offer.stdin_bytes).map_err(said)?;
        let permit = self.place().map_err(said)?;
        let tap = Arc::new(Tap::default());
        let program = asked.argv.first().map(|name| String::from_utf8_lossy(name).into_owned());
        let escapes = asked.escapes;
        let request = Request {
            argv: asked.argv,
            cwd: asked.cwd,
            timeout: asked.timeout,
            toolkit: Some(entry.kit.prefix.clone()),
            ..Request::default()
        };
        let call = Call {
            request,
            stdin: asked.stdin,
            context: self.context(&entry.tool.name, context),
            tap: Some(Arc::clone(&tap)),
            asker,
            ..Call::default()
        };
        // Only in the older era may a server ask by itself.
        let ask = (!level::is_modern(context)).then(|| context.peer.clone());
        Ok(Begun { program: program.unwrap_or_default(), call, tap, permit, ask, escapes })
    }

    /// The channel of one request: it hears what it opted into, until it is cancelled.
    fn own_channel(&self, entry: &Entry, context: &RequestContext<RoleServer>) -> Result<Channel, ErrorData> {
        Ok(Channel {
            peer: context.peer.clone(),
            logger: entry.tool.name.to_string(),
            admits: Admits::Request(level::asked(context)?),
            closed: context.ct.clone(),
        })
    }

    /// The channel of a job: the session's where there is one, else that of the request that starts it.
    pub(super) fn channel(
        &self,
        entry: &Entry,
        context: &RequestContext<RoleServer>,
    ) -> Result<Channel, ErrorData> {
        let channel = self.own_channel(entry, context)?;
        if level::is_modern(context) {
            return Ok(channel);
        }
        let admits = Admits::Session(Arc::clone(&self.level));
        Ok(Channel { admits, closed: self.stop.clone(), ..channel })
    }

    /// Runs one command in a task of its own: a panic in there is an answer, not a silence.
    async fn run(
        &self,
        entry: &Entry,
        params: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let begun = match self.begin(entry, params, context) {
            Ok(begun) => begun,
            Err(early) => return *early,
        };
        let Begun { program, call, tap, permit, ask, escapes } = begun;
        let (channel, over) = (self.own_channel(entry, context)?, CancellationToken::new());
        let token = context.meta.get_progress_token();
        let teller = tokio::spawn(stream::tell(tap, channel, escapes, token, over.clone()));
        let runner = Arc::clone(&self.runner);
        let work = |cancel| async move { settled(runner.as_ref(), call, cancel, ask).await };
        let done = self.guarded(&entry.tool.name, context, permit, work).await;
        // What ran and is not withheld is told to its end before the answer.
        if matches!(&done, Ok(Outcome::Ran(report)) if !report.cancelled) {
            over.cancel();
        } else {
            teller.abort();
        }
        if let Err(error) = teller.await
            && error.is_panic()
        {
            tracing::error!(%error, tool = %entry.tool.name, "telling of a run ended in a panic");
        }
        Ok(consent::response(&program, done?, escapes))
    }

    /// What the modern era wants on every result.
    fn meta(&self, context: &RequestContext<RoleServer>) -> Option<MetaObject> {
        if !level::is_modern(context) {
            return None;
        }
        let info = serde_json::to_value(&self.view().info.server_info).ok()?;
        let mut meta = MetaObject::new();
        meta.insert(SERVER_INFO.to_owned(), info);
        Some(meta)
    }
}

/// A call that is ready to be handed on.
pub(super) struct Begun {
    pub(super) program: String,
    pub(super) call: Call,
    pub(super) tap: Arc<Tap>,
    pub(super) permit: OwnedSemaphorePermit,
    /// The client, where the server may ask it for consent by itself.
    pub(super) ask: Option<Peer<RoleServer>>,
    /// What becomes of terminal control in the output.
    pub(super) escapes: Escapes,
}

/// An answer that is there before anything was handed on.
pub(super) type Early = Box<Result<CallToolResponse, ErrorData>>;

/// Runs a call to its end. Where a person has to agree to it and `ask` may be asked, asks in between.
pub(super) async fn settled<R: Runner>(
    runner: &R,
    call: Call,
    cancel: CancellationToken,
    ask: Option<Peer<RoleServer>>,
) -> Outcome {
    match (runner.run(call, cancel.clone()).await, ask) {
        (Outcome::Ask(question), Some(peer)) => {
            let decision = consent::put(&peer, &question, &cancel).await;
            runner.run(question.answered(decision), cancel).await
        }
        (outcome, _) => outcome,
    }
}

impl<R: Runner> ServerHandler for Server<R> {
    fn get_info(&self) -> ServerConfig {
        self.view().info.clone()
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.views.tell(context.peer, self.stop.clone());
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.view().tools.iter().map(|entry| entry.tool.clone()).collect();
        let mut result = ListToolsResult::with_all_items(tools);
        result.meta = self.meta(&context);
        if result.meta.is_some() {
            result.ttl_ms = Some(if self.views.may_change() { CHANGING_TTL_MS } else { TOOLS_TTL_MS });
            result.cache_scope = Some(CacheScope::Private);
        }
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.view().tools.iter().find(|entry| entry.tool.name == name).map(|entry| entry.tool.clone())
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _linked = hangup::link(&mut context);
        let view = self.view();
        let Some(entry) = view.tools.iter().find(|entry| entry.tool.name == params.name) else {
            return Err(ErrorData::invalid_params(format!("Unknown tool: {}", params.name), None));
        };
        let work = async {
            Ok(match entry.verb {
                Verb::Run => self.run(entry, params, &context).await?,
                Verb::Start => self.start(entry, params, &context).await?,
                Verb::Batch => self.batch(entry, params, &context).await?.into(),
                Verb::Shell => self.shell_execute(entry, params, &context).await?.into(),
                Verb::Poll => self.poll(entry, params).into(),
                Verb::Output => self.output(entry, params).into(),
                Verb::Kill => self.kill(entry, params).into(),
                Verb::Allowed => match arguments::none(params.arguments) {
                    Ok(()) => {
                        CallToolResult::success(vec![ContentBlock::text(view.offer.allowed(&entry.kit))])
                    }
                    Err(message) => payload::error(message),
                }
                .into(),
            })
        };
        let mut response = unwound::answered(&entry.tool.name, work).await?;
        let meta = self.meta(&context);
        match &mut response {
            CallToolResponse::Complete(result) => result.meta = meta,
            CallToolResponse::InputRequired(result) => result.meta = meta,
            CallToolResponse::Task(result) => result.meta = meta,
            _ => {}
        }
        Ok(response)
    }

    async fn get_task(
        &self,
        params: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let job = self.tasked(&params.task_id)?;
        let mut result = GetTaskResult::new(self.detailed(&job)?);
        result.meta = self.meta(&context);
        Ok(result)
    }

    /// No task of ours waits for an answer: consent is asked for before there is one.
    async fn update_task(
        &self,
        params: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasked(&params.task_id).map(drop)
    }

    async fn cancel_task(
        &self,
        params: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasked(&params.task_id)?.kill();
        Ok(())
    }

    async fn set_level(
        &self,
        params: SetLevel,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if level::is_modern(&context) {
            let method = "logging/setLevel".to_owned();
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None));
        }
        self.level.set(&params);
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method == listen::METHOD {
            return self.listen(request.params.as_ref(), &context).await;
        }
        if TYPED_METHODS.contains(&request.method.as_str()) {
            let arguments = request.params.as_ref().and_then(|params| params.get("arguments"));
            let message = match arguments {
                Some(Value::Object(_)) | None => format!("params of {} have the wrong shape", request.method),
                Some(_) => "arguments must be an object".to_owned(),
            };
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }
}

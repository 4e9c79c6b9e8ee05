//! The audit room: one redacted, chained JSON record a line for every outcome.
//!
//! Purpose: nothing runs unlogged. A `run.start` record is durable before the spawn; exactly one
//! terminal record follows. Records never hold stdout, stderr, stdin or a secret. Inputs: facts
//! handed over by `appliance.rs` and `cli/`; knows nothing of who calls. A sink that cannot write
//! means refusal ([`AuditError`]), never silence.
//!
//! The chain is tamper-evident, not tamper-proof: whoever owns the file can compute it anew, and
//! cutting off the newest records shows only against a head that was kept elsewhere.

mod argv;
mod batch;
mod body;
mod chain;
mod checkpoint;
mod escape;
mod facts;
pub mod hash;
mod instances;
mod key;
mod line;
mod lines;
mod locks;
mod medium;
mod open_run;
mod queue;
pub mod reading;
mod record;
mod recover;
mod redact;
pub mod render;
pub mod report;
mod reserve;
mod rotated;
pub mod signing;
mod sinks;
mod state;
mod store;
pub mod verify;
mod writer;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::config::{AuditConfig, Sink};
use crate::ops::Histogram;

pub use batch::{BatchEnd, BatchOutcome, BatchStart};
pub(crate) use escape::is_risky;
pub use facts::{
    ConsentFacts, Ending, HostFacts, LimitFacts, Origin, PolicyLoad, PolicyReject, RunAsked, RunDenied,
    RunEnd, RunJudged, RunStart, SandboxFacts, SandboxState, ServerStart, Stamps, StopReason, WrapperFacts,
};
pub use open_run::OpenRun;
pub use redact::Secrets;

pub use line::LineEnd;

use body::{Body, Site};
use medium::Medium;
use queue::{Answer, Job, Queue, Reply};
use sinks::{Copies, StdioMedium};
use store::{FileStore, Terms};
use writer::{Conduct, Writer};

pub use state::{AuditState, Readiness};

/// Why a record could not be made durable: the caller must refuse the run.
#[derive(Debug, thiserror::Error)]
#[error("audit_unavailable: {operation} of {sink} failed: {source}")]
pub struct AuditError {
    /// What was tried, such as `open`, `write` or `fdatasync`.
    pub operation: &'static str,
    /// The sink, as people name it.
    pub sink: String,
    /// The kernel's answer.
    pub source: io::Error,
}

impl AuditError {
    /// The same error for one more waiting caller.
    fn again(&self) -> Self {
        let source = match self.source.raw_os_error() {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::new(self.source.kind(), self.source.to_string()),
        };
        Self { operation: self.operation, sink: self.sink.clone(), source }
    }
}

/// Who asks, and how the request came: correlation fields of each record. Client name and version
/// are what the client says of itself: never used for a decision.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// `stdio`, `http` or `unix`; absent for the command line.
    pub transport: Option<&'static str>,
    /// MCP tool name, or `exec` for the command line.
    pub tool: Option<String>,
    /// Prefix of the toolkit that the tool belongs to.
    pub toolkit: Option<String>,
    /// MCP session, or one made for a stdio connection.
    pub session_id: Option<String>,
    /// Who was authenticated, and how; absent: nobody was.
    pub caller: Option<Caller>,
    /// The other end of the connection.
    pub peer: Peer,
    /// JSON-RPC id as JSON text.
    pub request_id: Option<String>,
    /// `clientInfo.name`.
    pub client_name: Option<String>,
    /// `clientInfo.version`.
    pub client_version: Option<String>,
    /// Negotiated protocol version.
    pub protocol_version: Option<String>,
    /// W3C trace id and parent span id.
    pub trace: Option<(String, String)>,
    /// The line that the command is part of.
    pub line: Option<LinePart>,
    /// The batch that it belongs to.
    pub batch: Option<Batch>,
    /// Values that must not stand in its records.
    pub secrets: Secrets,
}

/// Somebody who was authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Name in the policy, or what the kernel or a certificate says.
    pub principal: String,
    /// `bearer`, `mtls` or `peercred`.
    pub auth: &'static str,
}

/// The other end of a connection, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peer {
    /// Address of a TCP peer.
    pub address: Option<std::net::SocketAddr>,
    /// Pid of the process at the other end of a Unix socket, when it connected.
    pub pid: Option<u32>,
    /// Its user.
    pub uid: Option<u32>,
}

/// A command of a line, or the line.
#[derive(Debug, Clone, Default)]
pub struct LinePart {
    /// Shared by all records of the line.
    pub line_id: String,
    /// The command, from 1 in the order of the text; absent: the line as a whole.
    pub stage: Option<u64>,
}

/// Place of a command in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Shared by all of its commands.
    pub id: String,
    /// Place in the request, from 0.
    pub index: usize,
    /// Commands of the batch.
    pub size: usize,
}

/// The open audit log of this process. Clones share one writer; the last one to go waits until all
/// that was queued is written.
#[derive(Debug, Clone)]
pub struct Audit(Arc<Handle>, Arc<Site>);

struct Handle {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
    name: String,
    sinks: Vec<String>,
    new_chain: bool,
    started: Instant,
    runs: AtomicU64,
    failed: AtomicU64,
    /// From the hand-over of a record to the writer's word.
    waited: Histogram,
}

impl fmt::Debug for Handle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The site holds a key.
        out.debug_struct("Audit").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end();
    }
}

impl Handle {
    /// Writes what waits and ends the writer. Once more does nothing.
    fn end(&self) {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("audit: the writer ended in a panic");
        }
    }
}

impl Audit {
    /// Writes what waits and ends the writer, whoever still holds the log: nothing is recorded afterwards.
    pub fn end(&self) {
        self.0.end();
    }

    /// The directories that the sinks of `config` write in, made if they are not there.
    ///
    /// # Errors
    /// When one cannot be made.
    pub fn directories(config: &AuditConfig) -> Result<Vec<PathBuf>, AuditError> {
        config.file().into_iter().map(store::directory).collect()
    }

    /// The TCP ports that the sinks of `config` connect to.
    ///
    /// # Errors
    /// When a name has no address.
    pub fn ports(config: &AuditConfig) -> Result<Vec<u16>, AuditError> {
        sinks::ports(config)
    }

    /// Opens the sinks of `config`, repairs what a crash left behind and starts the writer. A best-effort
    /// sink that nobody listens at is no error: it is tried again, and [`Audit::state`] says so.
    ///
    /// # Errors
    /// When the required sink cannot be opened, read or written, when no sink can be the required one, when
    /// more than one file is named, or standard output while it is not free.
    pub fn open(config: &AuditConfig, origin: Origin) -> Result<Self, AuditError> {
        let is_file = |sink: &&Sink| matches!(sink, Sink::File(_));
        if config.sinks.iter().filter(is_file).count() > 1 {
            return Err(unusable("more than one file is named; name one"));
        }
        if !config.stdout_free && config.sinks.iter().any(|sink| matches!(sink, Sink::Stdout(_))) {
            return Err(unusable("standard output is taken here; `stdout` is for a server over HTTP"));
        }
        let local = |sink: &&Sink| matches!(sink, Sink::Stderr(_) | Sink::Stdout(_));
        let required = config.sinks.iter().find(is_file).or_else(|| config.sinks.iter().find(local));
        let instance = uuid::Uuid::now_v7().to_string();
        let (medium, key): (Box<dyn Medium>, _) = match required {
            Some(Sink::File(path)) => {
                let terms = Terms { rotation: config.rotation, min_free: config.min_free };
                let store = FileStore::open(path, &instance, terms)?;
                (Box::new(store), key::load(&beside(path))?)
            }
            Some(sink @ (Sink::Stderr(form) | Sink::Stdout(form))) => {
                let name = if matches!(sink, Sink::Stdout(_)) { "standard output" } else { "standard error" };
                let failed = |source| AuditError { operation: "open", sink: name.to_owned(), source };
                let fd = sinks::standard(sink).map_err(failed)?;
                let medium = StdioMedium::new(name, fd, *form).map_err(failed)?;
                (Box::new(medium), key::fresh().map_err(failed)?)
            }
            Some(Sink::Forward(_)) | None if config.sinks.is_empty() => {
                return Err(unusable("no sink is named; name a file, or `stderr`"));
            }
            Some(Sink::Forward(_)) | None => {
                return Err(unusable("no sink can be the required one; name a file, or `stderr`"));
            }
        };
        let kind = match required {
            Some(Sink::File(_)) => "file",
            Some(Sink::Stdout(_)) => "stdout",
            _ => "stderr",
        };
        let checkpoints = match &config.checkpoint {
            None => None,
            Some(asked) => Some(Arc::new(checkpoint::Settings {
                signer: signing::Signer::load(&asked.key)?,
                records: asked.records,
                time: asked.time,
            })),
        };
        let keys = Keys { site: key, checkpoints };
        let queue = Arc::new(Queue::default());
        let waker = Arc::clone(&queue);
        let nudge: Arc<dyn Fn() + Send + Sync> = Arc::new(move || waker.nudge(false));
        let copies = match required {
            Some(required) => Copies::start(config, required, &nudge)?,
            None => Copies::default(),
        };
        let conduct = Conduct { on_failure: config.on_failure, sync: config.sync };
        Self::start((medium, kind), (queue, copies, conduct), (origin, &config.redact), instance, keys)
    }

    fn start(
        (medium, kind): (Box<dyn Medium>, &'static str),
        (queue, copies, conduct): (Arc<Queue>, Copies, Conduct),
        (origin, patterns): (Origin, &[regex::Regex]),
        instance: String,
        keys: Keys,
    ) -> Result<Self, AuditError> {
        let hostname =
            nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).map_err(|errno| {
                AuditError { operation: "gethostname", sink: medium.name(), source: errno.into() }
            })?;
        let own = redact::Own::new(&origin.secrets, patterns, keys.site).map_err(|error| AuditError {
            operation: "preparation of redaction",
            sink: medium.name(),
            source: io::Error::other(error),
        })?;
        let (own, checkpoints) = (Arc::new(own), keys.checkpoints);
        let site = Arc::new(Site { hostname, instance, key: keys.site, origin, own, checkpoints });
        let name = medium.name();
        let mut sinks = vec![format!("{kind}:ok")];
        sinks.extend(copies.states().into_iter().map(|(state, _)| state));
        let mut writer = Writer::new(Arc::clone(&queue), medium, copies, Arc::clone(&site), conduct);
        let new_chain = writer.recover()?;
        let thread = std::thread::Builder::new()
            .name("audit-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| AuditError { operation: "thread", sink: name.clone(), source })?;
        let handle = Handle {
            queue,
            thread: Mutex::new(Some(thread)),
            name,
            sinks,
            new_chain,
            started: Instant::now(),
            runs: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            waited: Histogram::default(),
        };
        Ok(Self(Arc::new(handle), site))
    }

    /// The same log for records of another policy: what is written through the value is of `origin`. What was
    /// secret stays so, and the operator's patterns are those the log was opened with.
    ///
    /// # Errors
    /// When the secrets are more than a search can hold.
    pub fn under(&self, mut origin: Origin) -> Result<Self, AuditError> {
        let Site { hostname, instance, key, own, checkpoints, origin: old } = self.1.as_ref();
        origin.secrets.extend(&old.secrets);
        let own = redact::Own::new(&origin.secrets, own.patterns(), *key).map_err(|error| AuditError {
            operation: "preparation of redaction",
            sink: self.0.name.clone(),
            source: io::Error::other(error),
        })?;
        let site = Site {
            hostname: hostname.clone(),
            instance: instance.clone(),
            key: *key,
            origin,
            own: Arc::new(own),
            checkpoints: checkpoints.clone(),
        };
        Ok(Self(Arc::clone(&self.0), Arc::new(site)))
    }

    /// Records and bytes that wait for the writer.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        self.0.queue.waiting()
    }

    /// How long records waited for the writer's word so far.
    #[must_use]
    pub fn waited(&self) -> &Histogram {
        &self.0.waited
    }

    /// Id of this process in its records.
    #[must_use]
    pub fn instance_id(&self) -> &str {
        &self.1.instance
    }

    /// Whether the required sink failed last, so that requests are refused: not ready.
    #[must_use]
    pub fn is_refusing(&self) -> bool {
        self.0.queue.health().refusing.is_some()
    }

    /// How the log is.
    #[must_use]
    pub fn state(&self) -> AuditState {
        AuditState::of(&self.0.queue.health())
    }

    /// Fires when runs that go on are to be killed, because the log fails (`on_failure = "kill"`). One of its
    /// own for each outage: ask for it at each start.
    #[must_use]
    pub fn kill(&self) -> CancellationToken {
        self.0.queue.health().kill.clone()
    }

    /// Goes on in the file that stands at the path now: for whoever moved the log away (SIGHUP). Resolves at
    /// once; what was moved is noticed before the next record.
    pub fn reopen(&self) {
        self.0.queue.nudge(true);
    }

    /// Records that a server serves. Durable.
    ///
    /// # Errors
    /// When the record could not be made durable.
    pub async fn server_start(&self, facts: &ServerStart) -> Result<(), AuditError> {
        self.durable(record::server_start(&self.1, facts, &self.0.sinks, self.0.new_chain)).await
    }

    /// Records that a server ends, with its counts of runs. Durable.
    ///
    /// # Errors
    /// When the record could not be made durable.
    pub async fn server_stop(&self) -> Result<(), AuditError> {
        let runs = self.0.runs.load(Ordering::Relaxed);
        let failed = self.0.failed.load(Ordering::Relaxed);
        self.durable(record::server_stop(&self.1, self.0.started.elapsed(), runs, failed)).await
    }

    /// Records the policy in force. Durable.
    ///
    /// # Errors
    /// When the record could not be made durable.
    pub async fn policy_load(&self, facts: &PolicyLoad) -> Result<(), AuditError> {
        self.durable(record::policy_load(&self.1, facts)).await
    }

    /// Records that a policy was offered and not taken: the one in force stays. Durable.
    ///
    /// # Errors
    /// When the record could not be made durable.
    pub async fn policy_reject(&self, facts: &PolicyReject<'_>) -> Result<(), AuditError> {
        self.durable(record::policy_reject(&self.1, facts)).await
    }

    /// Records that a person is asked for consent. Durable before it resolves: only then may the question be
    /// put.
    ///
    /// # Errors
    /// When the record could not be made durable.
    pub async fn run_asked(&self, context: &Context, facts: &RunAsked<'_>) -> Result<(), AuditError> {
        self.durable(record::run_asked(&self.1, context, facts)).await
    }

    /// Records a refusal. Durable before it resolves.
    ///
    /// # Errors
    /// When the record could not be made durable.
    pub async fn run_denied(&self, context: &Context, facts: &RunDenied<'_>) -> Result<(), AuditError> {
        self.durable(record::run_denied(&self.1, context, facts)).await
    }

    /// Records a verdict that was asked for without a run. Durable before it resolves.
    ///
    /// # Errors
    /// When the record could not be made durable.
    pub async fn run_judged(&self, context: &Context, facts: &RunJudged<'_>) -> Result<(), AuditError> {
        self.durable(record::run_judged(&self.1, context, facts)).await
    }

    /// Records that a run is about to start. Durable before it resolves: only then may anything be
    /// spawned. The value stands for the run and must be handed to [`run_end`](Self::run_end).
    ///
    /// # Errors
    /// When the record could not be made durable: nothing may run.
    pub async fn run_start(&self, context: &Context, facts: &RunStart<'_>) -> Result<OpenRun, AuditError> {
        let (body, shared) = record::run_start(&self.1, context, facts);
        let run = OpenRun::new(Arc::clone(&self.0.queue), Arc::clone(&self.1), shared);
        self.send(body, |to| Reply::Start(Box::new(run), to)).await
    }

    /// Records how a run ended. Written before it resolves, durable within 50 ms. On an error the
    /// record is kept and written as soon as the sink takes records again.
    ///
    /// # Errors
    /// When the record could not be written yet.
    pub async fn run_end(&self, run: OpenRun, facts: &RunEnd) -> Result<(), AuditError> {
        let Some((shared, start)) = run.close() else { return Ok(()) };
        self.0.runs.fetch_add(1, Ordering::Relaxed);
        if facts.ending != Ending::Exited(0) {
            self.0.failed.fetch_add(1, Ordering::Relaxed);
        }
        let body = record::run_end(&self.1, &shared, facts);
        self.send(body, |to| Reply::End(start, Some(to))).await
    }

    async fn durable(&self, body: Body) -> Result<(), AuditError> {
        self.send(body, Reply::Durable).await
    }

    async fn send<T>(&self, body: Body, reply: impl FnOnce(Answer<T>) -> Reply) -> Result<T, AuditError> {
        let (to, answer) = oneshot::channel();
        let fail = |text| AuditError {
            operation: "enqueue",
            sink: self.0.name.clone(),
            source: io::Error::new(io::ErrorKind::WouldBlock, text),
        };
        let job = Job { body: body.as_str().to_owned(), reply: reply(to) };
        if let Err(job) = self.0.queue.push(job) {
            job.forget();
            return Err(fail("too many records wait; try again later"));
        }
        let handed_over = Instant::now();
        let answer = answer.await.unwrap_or_else(|_| Err(fail("the writer is gone")));
        self.0.waited.add(handed_over.elapsed());
        answer
    }
}

/// An argument vector as a record of a site without secrets of its own shows it, and how much was redacted.
#[must_use]
pub fn redacted<T: AsRef<str>>(arguments: &[T]) -> (Vec<String>, u64) {
    let arguments: Vec<Cow<'_, str>> = arguments.iter().map(|one| Cow::Borrowed(one.as_ref())).collect();
    let mut found = redact::Found::default();
    let clean = redact::argv(&arguments, &mut found);
    (clean, found.count)
}

/// What records are hashed and signed with.
struct Keys {
    /// Of `argv_hmac`.
    site: [u8; 32],
    checkpoints: Option<Arc<checkpoint::Settings>>,
}

fn beside(path: &Path) -> PathBuf {
    path.with_file_name("audit.key")
}

fn unusable(text: &'static str) -> AuditError {
    AuditError { operation: "open", sink: "[audit] sinks".to_owned(), source: io::Error::other(text) }
}

//! A stand-in for the appliance and a client of it over in-process pipes, for protocol tests.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cofferdam::appliance::{Call, Judged, LineCall, LineDenied, LineOutcome, NotStarted, Outcome, Report};
use cofferdam::audit::{AuditError, BatchEnd, BatchStart, Context};
use cofferdam::mcp::{Ended, Kit, Offer, Runner, ServeError, serve};
use cofferdam::policy::{Denial, Reason, RuleKind};
use cofferdam::run::{Budget, Exit, Stream, Tap};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Stands in for the appliance: a few names with a behaviour each.
struct Fake {
    calls: mpsc::UnboundedSender<Call>,
    killed: Arc<AtomicUsize>,
    finish: Arc<Notify>,
    names: Vec<String>,
    ttl: Duration,
    kept: usize,
    batches: bool,
}

/// What the stand-in keeps of each stream.
pub(crate) const KEPT: usize = 4096;

impl Runner for Fake {
    fn offer(&self) -> Offer {
        Offer {
            kits: vec![
                Kit { prefix: "sh".to_owned(), names: self.names.clone(), ..Kit::default() },
                Kit { prefix: "git".to_owned(), names: vec!["git".to_owned()], ..Kit::default() },
            ],
            patterns: Vec::new(),
            allow_any: false,
            workspace: "/workspace".to_owned(),
            write: false,
            timeout: Duration::from_secs(30),
            max_timeout: Duration::from_secs(300),
            output_bytes: 1 << 20,
            output_lines: 20_000,
            stdin_bytes: 1 << 20,
            jobs: 2,
            max_jobs: 2,
            max_finished_jobs: 3,
            job_ttl: self.ttl,
            batch: self.batches.then(|| Kit { names: self.names.clone(), ..Kit::default() }),
            ..Offer::default()
        }
    }

    fn run_line(
        &self,
        call: LineCall,
        _cancel: CancellationToken,
    ) -> impl Future<Output = LineOutcome> + Send {
        let no = || Denial::new("line", RuleKind::Allow, Reason::CommandNotAllowed, "no lines here");
        let denial = call.refused.unwrap_or_else(no);
        async move { LineOutcome::Denied(Box::new(LineDenied { denial, stage: None, name: String::new() })) }
    }

    fn judge_line(&self, call: LineCall) -> impl Future<Output = Result<Judged, AuditError>> + Send {
        let refused = call.refused;
        async move { Ok(refused.map_or_else(|| Judged::Allowed("allow".to_owned()), Judged::Denied)) }
    }

    async fn batch_start(&self, _context: &Context, _batch: &BatchStart) -> Result<(), AuditError> {
        Ok(())
    }

    async fn batch_end(
        &self,
        _context: &Context,
        _batch: &BatchStart,
        _end: &BatchEnd,
    ) -> Result<(), AuditError> {
        Ok(())
    }

    fn judge(&self, call: Call) -> impl Future<Output = Result<Judged, AuditError>> + Send {
        let refused = call.refused;
        async move { Ok(refused.map_or_else(|| Judged::Allowed("allow".to_owned()), Judged::Denied)) }
    }

    fn run(&self, call: Call, cancel: CancellationToken) -> impl Future<Output = Outcome> + Send {
        // A message that was thrown away unread has no name.
        let name = call.request.argv.first().cloned().unwrap_or_default();
        let name = String::from_utf8(name).unwrap();
        let arguments: Vec<String> =
            call.request.argv.iter().skip(1).map(|word| String::from_utf8(word.clone()).unwrap()).collect();
        let tap = call.tap.clone().unwrap_or_default();
        let refused = call.refused.clone();
        if refused.is_none() && !["gone", "rm", "panic"].contains(&name.as_str()) {
            tap.begin(Budget { bytes: self.kept, lines: 100_000 }).unwrap();
        }
        self.calls.send(call).unwrap();
        let (killed, finish) = (Arc::clone(&self.killed), Arc::clone(&self.finish));
        async move {
            if let Some(denial) = refused {
                return Outcome::Denied(denial);
            }
            match name.as_str() {
                "echo" => {
                    tap.push(Stream::Stdout, format!("{}\n", arguments.join(" ")).as_bytes());
                    Outcome::Ran(Box::new(report(&tap)))
                }
                // What it writes, the test writes into its tap; it ends when the test says so.
                "hold" => {
                    tokio::select! {
                        () = finish.notified() => return Outcome::Ran(Box::new(report(&tap))),
                        () = cancel.cancelled() => {}
                    }
                    killed.fetch_add(1, Ordering::SeqCst);
                    let mut report = report(&tap);
                    report.exit = Exit::Signal(9);
                    report.cancelled = true;
                    Outcome::Ran(Box::new(report))
                }
                "sleep" => {
                    cancel.cancelled().await;
                    killed.fetch_add(1, Ordering::SeqCst);
                    let mut report = report(&tap);
                    report.exit = Exit::Signal(9);
                    report.cancelled = true;
                    Outcome::Ran(Box::new(report))
                }
                "panic" => panic!("inside of a call"),
                "gone" => Outcome::NotStarted(NotStarted {
                    name: "gone".to_owned(),
                    run_id: String::new(),
                    step: "resolve".to_owned(),
                    errno: 2,
                    message: String::new(),
                }),
                other => Outcome::Denied(Denial::new(
                    "allow",
                    RuleKind::Allow,
                    Reason::CommandNotAllowed,
                    format!("Command '{other}' is not allowlisted. Allowed: echo, sleep"),
                )),
            }
        }
    }
}

fn report(tap: &Tap) -> Report {
    Report {
        run_id: String::new(),
        exit: Exit::Code(0),
        timed_out: false,
        cancelled: false,
        stdout: tap.captured(Stream::Stdout),
        stderr: tap.captured(Stream::Stderr),
        duration: Duration::ZERO,
        killed: 0,
        left: 0,
        denied: Vec::new(),
        hints: Vec::new(),
        wrapped: None,
        limit: None,
        fault: None,
        timeout: Duration::from_secs(30),
        timeout_clamped: false,
    }
}

/// A client that writes lines and reads lines.
pub(crate) struct Client {
    pub(crate) to: Option<DuplexStream>,
    pub(crate) from: tokio::io::Lines<BufReader<DuplexStream>>,
    pub(crate) calls: mpsc::UnboundedReceiver<Call>,
    pub(crate) killed: Arc<AtomicUsize>,
    pub(crate) finish: Arc<Notify>,
    /// Notifications that came before an answer.
    pub(crate) heard: Vec<Value>,
    pub(crate) interrupt: Option<oneshot::Sender<&'static str>>,
    pub(crate) server: tokio::task::JoinHandle<Result<Ended, ServeError>>,
}

impl Client {
    pub(crate) fn start() -> Self {
        Self::with_names(vec!["echo".to_owned(), "gone".to_owned(), "sleep".to_owned()])
    }

    pub(crate) fn with_names(names: Vec<String>) -> Self {
        Self::with(names, Duration::from_secs(600), KEPT, false)
    }

    /// One that may call `command_run`.
    pub(crate) fn with_batches() -> Self {
        Self::with(vec!["echo".to_owned(), "sleep".to_owned()], Duration::from_secs(600), KEPT, true)
    }

    pub(crate) fn with_ttl(ttl: Duration) -> Self {
        Self::with(vec!["echo".to_owned()], ttl, KEPT, false)
    }

    pub(crate) fn with_kept(kept: usize) -> Self {
        Self::with(vec!["hold".to_owned()], Duration::from_secs(600), kept, false)
    }

    fn with(names: Vec<String>, ttl: Duration, kept: usize, batches: bool) -> Self {
        let (calls_in, calls) = mpsc::unbounded_channel();
        let killed = Arc::new(AtomicUsize::new(0));
        let finish = Arc::new(Notify::new());
        let fake = Fake {
            calls: calls_in,
            killed: Arc::clone(&killed),
            finish: Arc::clone(&finish),
            names,
            ttl,
            kept,
            batches,
        };
        let fake = Arc::new(fake);
        let (to, reader) = tokio::io::duplex(1 << 16);
        let (writer, from) = tokio::io::duplex(1 << 16);
        let (interrupt, interrupted) = oneshot::channel();
        let server = tokio::spawn(serve(fake, reader, writer, async {
            match interrupted.await {
                Ok(name) => name,
                Err(_) => std::future::pending().await,
            }
        }));
        let from = BufReader::new(from).lines();
        Self {
            to: Some(to),
            from,
            calls,
            killed,
            finish,
            heard: Vec::new(),
            interrupt: Some(interrupt),
            server,
        }
    }

    pub(crate) async fn write(&mut self, line: &[u8]) {
        let to = self.to.as_mut().unwrap();
        to.write_all(line).await.unwrap();
        to.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.write(message.to_string().as_bytes()).await;
    }

    /// The next message: each line is one JSON-RPC object and nothing else.
    pub(crate) async fn next(&mut self) -> Value {
        let line = self.from.next_line().await.unwrap().expect("an answer, not the end of the stream");
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    pub(crate) async fn ask(&mut self, id: i64, method: &str, params: Value) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        loop {
            let answer = self.next().await;
            if answer["method"].is_string() {
                self.heard.push(answer);
                continue;
            }
            assert_eq!(answer["id"], id, "{answer}");
            return answer;
        }
    }

    pub(crate) async fn legacy(&mut self) -> Value {
        let answer = self
            .ask(
                0,
                "initialize",
                json!({"protocolVersion": "2025-11-25", "capabilities": {},
                    "clientInfo": {"name": "test-client", "version": "9"}}),
            )
            .await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    pub(crate) async fn call(&mut self, id: i64, tool: &str, arguments: Value) -> Value {
        self.ask(id, "tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Starts a job whose output the test writes, and the tap to write it into.
    pub(crate) async fn start_job(&mut self, id: i64) -> (String, Arc<Tap>) {
        let answer = self.call(id, "sh_start", json!({"command": "hold"})).await;
        assert_eq!(answer["result"]["structuredContent"]["state"], "running", "{answer}");
        let job = answer["result"]["structuredContent"]["job"].as_str().unwrap().to_owned();
        (job, self.calls.recv().await.unwrap().tap.unwrap())
    }

    pub(crate) async fn start_sleeper(&mut self, id: i64) {
        let params = json!({"name": "sh_run", "arguments": {"command": "sleep"}});
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
        self.calls.recv().await.unwrap();
    }
}

pub(crate) fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "modern-client", "version": "3"},
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    });
    params
}

pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

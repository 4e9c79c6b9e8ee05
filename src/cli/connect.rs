//! `cofferdam connect`: a bridge from standard input and output to a served socket.
//!
//! Purpose: for clients that can only start a command: each line of JSON-RPC becomes a request of Streamable
//! HTTP, in both protocol eras, and what the server says becomes a line. The bridge holds no policy and decides
//! nothing. Exit status 0 when the client left or a signal came, 125 when the server cannot be reached at start
//! or the client's lines cannot be read. Called by `cli/mod.rs`.

mod events;
mod exchange;
mod message;
mod session;
pub(crate) mod wire;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;
use rmcp::transport::stdio_pipes;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::message::{Kind, Message, failure};
use self::session::Session;
use self::wire::{Endpoint, Wire};
use crate::mcp::MAX_LINE_BYTES;

/// Requests that may be under way at the same time.
const MOST: usize = 256;
/// Lines that may wait for a client that does not read.
const WAITING: usize = 64;
/// How long the end of the session may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// Longest token.
const TOKEN: u64 = 4096;

/// Bridge standard input and output to a server on a Unix socket
///
/// For MCP clients that can only start a command. Ends when the client closes its end; what then still runs for
/// it is killed by the server. A request is never sent twice: one whose connection broke is answered with an
/// error that says so.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cofferdam connect --unix /run/cofferdam/mcp.sock

In the configuration of an MCP client:
  {\"mcpServers\": {\"cofferdam\": {\"command\": \"cofferdam\", \"args\": [\"connect\", \"--unix\", \"/run/cofferdam/mcp.sock\"]}}}")]
pub struct Args {
    /// Unix socket of the server
    #[arg(long, value_name = "PATH")]
    unix: PathBuf,
    /// File with the bearer token that the server wants, if it wants one
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How long to wait for a server that does not listen yet, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    wait: u64,
}

/// What the tasks of one bridge share.
struct Bridge {
    endpoint: Endpoint,
    wire: Wire,
    token: Option<HeaderValue>,
    to_client: mpsc::Sender<String>,
    session: Mutex<Session>,
    /// One new session at a time.
    renewing: tokio::sync::Mutex<()>,
    /// Requests under way, by id.
    under_way: Mutex<HashMap<String, CancellationToken>>,
}

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    let Args { unix, token_file, wait } = args;
    let token = match token_file.as_deref().map(token).transpose() {
        Ok(token) => token,
        Err(error) => return failed(&error),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("start of the async runtime failed: {error}")),
    };
    let status = runtime.block_on(async {
        if let Err(error) = reachable(&unix, Duration::from_secs(wait)).await {
            let path = unix.display();
            return failed(&format!(
                "connecting to {path} failed: {error}; start cofferdam serve --unix {path}"
            ));
        }
        let (reader, writer) = stdio_pipes();
        match bridge(Endpoint::Unix(unix), token, reader, writer).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        }
    });
    // A blocking read of standard input cannot be taken back.
    runtime.shutdown_background();
    status
}

fn failed(error: &str) -> ExitCode {
    eprintln!("cofferdam: {error}");
    ExitCode::from(super::FAILED)
}

fn token(path: &Path) -> Result<HeaderValue, String> {
    use std::io::Read as _;
    let cannot = |e: &dyn std::fmt::Display| format!("reading the token of {} failed: {e}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|e| cannot(&e))?;
    file.take(TOKEN).read_to_string(&mut text).map_err(|e| cannot(&e))?;
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).ok_or("it is empty");
    let first = first.map_err(|e| cannot(&e))?;
    let mut value = HeaderValue::try_from(format!("Bearer {first}")).map_err(|e| cannot(&e))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Waits until somebody listens.
async fn reachable(path: &Path, patience: Duration) -> std::io::Result<()> {
    let start = Instant::now();
    loop {
        match UnixStream::connect(path).await {
            Ok(_) => return Ok(()),
            Err(error) if start.elapsed() >= patience => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Bridges until the client closes its end or a signal comes.
async fn bridge(
    endpoint: Endpoint,
    token: Option<HeaderValue>,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), String> {
    let caught = |kind| signal(kind).map_err(|e| format!("installing a signal handler failed: {e}"));
    let (mut terminate, mut interrupt) = (caught(SignalKind::terminate())?, caught(SignalKind::interrupt())?);
    let (to_client, lines) = mpsc::channel(WAITING);
    let written = tokio::spawn(write(writer, lines));
    let bridge = Arc::new(Bridge {
        wire: Wire::new(endpoint.clone()),
        endpoint,
        token,
        to_client,
        session: Mutex::default(),
        renewing: tokio::sync::Mutex::default(),
        under_way: Mutex::default(),
    });
    let ended = tokio::select! {
        ended = read(&bridge, reader) => ended,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        () = bridge.to_client.closed() => Ok(()),
    };
    // Closing their connections tells the server that nobody waits any more.
    for (_, token) in bridge.calls().drain() {
        token.cancel();
    }
    if tokio::time::timeout(FAREWELL, bridge.close()).await.is_err() {
        eprintln!("cofferdam: the session was not closed in {} s", FAREWELL.as_secs());
    }
    // An empty line is the end: tasks that listen hold the channel still.
    let last = async {
        bridge.say_line(String::new()).await;
        written.await
    };
    if tokio::time::timeout(FAREWELL, last).await.is_err() {
        eprintln!("cofferdam: the client did not read its last answers in {} s", FAREWELL.as_secs());
    }
    ended
}

/// Lines to the client, until an empty one, or it does not read any more.
async fn write(mut writer: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<String>) {
    while let Some(mut line) = lines.recv().await.filter(|line| !line.is_empty()) {
        line.push('\n');
        if writer.write_all(line.as_bytes()).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
}

/// Messages of the client, until its end.
async fn read(bridge: &Arc<Bridge>, reader: impl AsyncRead + Unpin) -> Result<(), String> {
    let mut reader = BufReader::new(reader);
    let most = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
    loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(most.saturating_add(1)).read_until(b'\n', &mut line).await;
        if read.map_err(|e| format!("reading standard input failed: {e}"))? == 0 {
            return Ok(());
        }
        if line.len() > MAX_LINE_BYTES {
            return Err(format!("a line of standard input has more than {MAX_LINE_BYTES} bytes"));
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        match Message::read(line) {
            Ok(message) => bridge.take(message).await,
            Err(answer) => bridge.say(&answer).await,
        }
    }
}

impl Bridge {
    fn calls(&self) -> std::sync::MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one message of the client. What opens a session is through before the next line is read.
    async fn take(self: &Arc<Self>, message: Message) {
        match message.kind {
            Kind::Request if message.method == "initialize" => self.open(&message).await,
            Kind::Request => self.call(message).await,
            Kind::Notification if message.method == "notifications/cancelled" => self.cancel(message),
            Kind::Notification if Self::is_opening(&message) => {
                self.hand_on(&message).await;
                tokio::spawn(Arc::clone(self).listen());
            }
            Kind::Notification | Kind::Answer => {
                let bridge = Arc::clone(self);
                tokio::spawn(async move { bridge.hand_on(&message).await });
            }
        }
    }

    async fn call(self: &Arc<Self>, message: Message) {
        let (key, cancel) = (message.id.to_string(), CancellationToken::new());
        let refused = {
            let mut calls = self.calls();
            if calls.len() >= MOST {
                Some(format!("busy: {MOST} requests are under way already"))
            } else if calls.contains_key(&key) {
                Some("a request of this id is under way already".to_owned())
            } else {
                calls.insert(key.clone(), cancel.clone());
                None
            }
        };
        if let Some(text) = refused {
            self.say(&failure(&message.id, -32600, &text)).await;
            return;
        }
        let bridge = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = bridge.hand_on(&message) => {}
            }
            bridge.calls().remove(&key);
        });
    }

    /// In the older era the server is told of it; in both the connection is closed, which says it too. What is
    /// cancelled is not answered.
    fn cancel(self: &Arc<Self>, message: Message) {
        let id = message.params.get("requestId").map(Value::to_string);
        let call = id.and_then(|id| self.calls().get(&id).cloned());
        let bridge = Arc::clone(self);
        tokio::spawn(async move {
            if !bridge.session_headers().is_empty() && message.version().is_none() {
                bridge.hand_on(&message).await;
            }
            if let Some(call) = call {
                call.cancel();
            }
        });
    }

    /// One message to the client.
    async fn say(&self, message: &Value) {
        self.say_line(message.to_string()).await;
    }

    async fn say_line(&self, line: String) {
        // A client that does not read any more is noticed by the loop.
        drop(self.to_client.send(line).await);
    }
}

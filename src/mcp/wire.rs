//! The wire: one JSON-RPC message a line, in both directions.
//!
//! Purpose: what rmcp's own line transport leaves to its users. A line that is too long or is not
//! JSON is answered instead of ignored, a second use of an id in flight is refused, stray
//! notifications before the first request do not end the server, a request before it is told how to
//! begin, and the end of the input stops every run at once. Inputs: any reader and writer, and where
//! to tell of messages that were thrown away unread. Called by `stdio.rs`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientNotification, ClientRequest, ErrorCode, ErrorData, GetExtensions, GetMeta, JsonRpcMessage,
    ProtocolVersion, RequestId, ServerNotification,
};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, mpsc};
use tokio_util::bytes::{Buf, BytesMut};
use tokio_util::sync::CancellationToken;

use super::in_flight::{InFlight, is_short};
use super::listen;

/// Longest message that is read. Parsing can take a hundred times the size in memory.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

/// What a request is answered that comes too early.
const BEGIN: &str = "the session has not begun: send \"initialize\" and then \"notifications/initialized\" first \
    (protocol 2025-11-25 and older), or give every request params._meta with \
    \"io.modelcontextprotocol/protocolVersion\": \"2026-07-28\" and \
    \"io.modelcontextprotocol/clientCapabilities\": {}";

const READ_BYTES: usize = 16 * 1024;

/// How long the last answers may take once serving has come to its end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Both directions of one connection.
pub(super) struct Wire<R, W> {
    reader: R,
    input: BytesMut,
    /// Bytes of `input` that hold no newline.
    scanned: usize,
    /// The rest of a line that was too long is thrown away.
    discarding: bool,
    /// rmcp has chosen the era: before that, a notification would end its server.
    opened: bool,
    /// Errors of our own, written before anything more is read.
    complaints: Vec<u8>,
    /// Where a line that was too long is told of, so that it is recorded, and how many are not told yet.
    unread: mpsc::Sender<()>,
    untold: usize,
    out: Arc<Mutex<Out<W>>>,
    in_flight: InFlight,
    /// Fired at the end of the input: every run is killed.
    stop: CancellationToken,
}

/// The writer and what it has not taken yet. A write that is dropped half-way leaves the rest here
/// for the next one, so that a frame is never torn.
struct Out<W> {
    writer: Option<W>,
    unwritten: BytesMut,
}

enum Line {
    Whole(BytesMut),
    TooLong,
    End,
}

impl<R, W> Wire<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(reader: R, writer: W, unread: mpsc::Sender<()>, stop: CancellationToken) -> Self {
        Self {
            reader,
            input: BytesMut::new(),
            scanned: 0,
            discarding: false,
            opened: false,
            complaints: Vec::new(),
            unread,
            untold: 0,
            out: Arc::new(Mutex::new(Out { writer: Some(writer), unwritten: BytesMut::new() })),
            in_flight: InFlight::default(),
            stop,
        }
    }

    /// The next line. May be dropped at its only await: what was read stays in `input`.
    async fn line(&mut self) -> Line {
        loop {
            let fresh = self.input.iter().skip(self.scanned);
            if let Some(at) = fresh.into_iter().position(|byte| *byte == b'\n') {
                let line = self.input.split_to(self.scanned + at + 1);
                self.scanned = 0;
                if std::mem::take(&mut self.discarding) {
                    continue;
                }
                return if line.len() > MAX_LINE_BYTES { Line::TooLong } else { Line::Whole(line) };
            }
            self.scanned = self.input.len();
            if self.discarding || self.scanned >= MAX_LINE_BYTES {
                self.input.clear();
                self.scanned = 0;
                if !std::mem::replace(&mut self.discarding, true) {
                    return Line::TooLong;
                }
            }
            self.input.reserve(READ_BYTES);
            match self.reader.read_buf(&mut self.input).await {
                Ok(0) => return Line::End,
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(%error, "read of the client's messages failed");
                    return Line::End;
                }
            }
        }
    }

    /// A message for rmcp, or nothing when it was answered or dropped here.
    fn admit(&mut self, line: &[u8]) -> Option<RxJsonRpcMessage<RoleServer>> {
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let mut message = match serde_json::from_slice::<RxJsonRpcMessage<RoleServer>>(line) {
            Ok(message) => message,
            Err(_) => {
                self.refuse_line(line);
                return None;
            }
        };
        match &mut message {
            JsonRpcMessage::Request(request) => {
                listen::whole(&mut request.request, line);
                if !self.opened
                    && let Some(error) = too_early(&request.request)
                {
                    self.complain(error, Some(request.id.clone()).filter(is_short));
                    return None;
                }
                let (number, asked) = match self.in_flight.begin(&request.id) {
                    Ok(taken) => taken,
                    Err(message) => {
                        let id = Some(request.id.clone()).filter(is_short);
                        self.complain(ErrorData::invalid_request(message, None), id);
                        return None;
                    }
                };
                request.id = number;
                request.request.extensions_mut().insert(asked);
                self.opened = self.opened || opens(&request.request);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &mut notification.notification {
                    // An id that is not in flight must reach nobody: inside, it is another request's.
                    let asked = cancelled.params.request_id.as_ref()?;
                    let number = self.in_flight.cancelled(asked)?;
                    cancelled.params.request_id = Some(number);
                }
                if !self.opened {
                    tracing::debug!("dropped a notification that came before the first request");
                    return None;
                }
            }
            JsonRpcMessage::Response(response) if self.in_flight.settled(Some(&response.id)) => {}
            JsonRpcMessage::Error(error) if self.in_flight.settled(error.id.as_ref()) => {}
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {
                tracing::debug!("dropped an answer to a request that was never made");
                return None;
            }
        }
        Some(message)
    }

    /// Answers a line that is no message, with its id where one can be read.
    fn refuse_line(&mut self, line: &[u8]) {
        match serde_json::from_slice::<Value>(line) {
            Err(error) => self.complain(ErrorData::parse_error(format!("not JSON: {error}"), None), None),
            Ok(Value::Object(object)) if object.contains_key("method") && !object.contains_key("id") => {
                tracing::warn!("ignored a notification of unexpected shape");
            }
            Ok(value) => {
                let id = match value.get("id") {
                    Some(Value::String(id)) => Some(RequestId::String(id.as_str().into())),
                    Some(Value::Number(id)) => id.as_i64().map(RequestId::Number),
                    _ => None,
                };
                let id = id.filter(is_short);
                let message = "not one JSON-RPC 2.0 request or notification (batches are not part of MCP)";
                self.complain(ErrorData::invalid_request(message, None), id);
            }
        }
    }

    fn complain(&mut self, error: ErrorData, id: Option<RequestId>) {
        tracing::warn!(code = error.code.0, message = %error.message, "refused a message");
        let complaint: TxJsonRpcMessage<RoleServer> = JsonRpcMessage::error(error, id);
        match frame(&complaint) {
            Ok(bytes) => self.complaints.extend_from_slice(&bytes),
            Err(error) => tracing::error!(%error, "could not write down an error"),
        }
    }

    /// Tells of lines that were too long. May be dropped while it waits: none is forgotten or told twice.
    async fn tell_unread(&mut self) {
        while self.untold > 0 {
            match self.unread.reserve().await {
                Ok(place) => place.send(()),
                Err(_) => tracing::error!("nobody records messages that were thrown away"),
            }
            self.untold -= 1;
        }
    }

    /// Writes complaints. Taking them over and waiting for the write are separate steps, so that
    /// being dropped in between neither loses nor repeats one.
    async fn write_complaints(&mut self) -> io::Result<()> {
        if self.complaints.is_empty() {
            return Ok(());
        }
        let (out, stop) = (Arc::clone(&self.out), self.stop.clone());
        let written = async {
            let mut out = out.lock().await;
            out.unwritten.extend_from_slice(&std::mem::take(&mut self.complaints));
            out.flush().await
        };
        before_the_end(&stop, written).await
    }
}

impl<W: AsyncWrite + Unpin> Out<W> {
    async fn flush(&mut self) -> io::Result<()> {
        let Some(writer) = &mut self.writer else {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the connection is closed"));
        };
        while !self.unwritten.is_empty() {
            match writer.write(&self.unwritten).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                taken => self.unwritten.advance(taken),
            }
        }
        writer.flush().await
    }
}

impl<R, W> Transport<RoleServer> for Wire<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        mut item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let id = match &mut item {
            JsonRpcMessage::Response(response) => Some(&mut response.id),
            JsonRpcMessage::Error(error) => error.id.as_mut(),
            JsonRpcMessage::Request(request) => {
                self.in_flight.asked(&request.id);
                None
            }
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) = &notification.notification {
                    self.in_flight.settled(cancelled.params.request_id.as_ref());
                }
                None
            }
        };
        let (wanted, place) = match id {
            Some(id) => {
                let asked = self.in_flight.answered(id);
                if let Some(asked) = &asked {
                    *id = asked.0.clone();
                }
                (asked.is_some(), asked)
            }
            None => (true, None),
        };
        let bytes = frame(&item);
        let out = Arc::clone(&self.out);
        let stop = self.stop.clone();
        async move {
            if !wanted {
                return Ok(());
            }
            let bytes = bytes?;
            drop(item);
            let written = async {
                let mut out = out.lock().await;
                out.unwritten.extend_from_slice(&bytes);
                out.flush().await
            };
            let written = before_the_end(&stop, written).await;
            drop(place); // only now may another command take its place
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            self.tell_unread().await;
            if let Err(error) = self.write_complaints().await {
                tracing::error!(%error, "write to the client failed");
                self.stop.cancel();
                return None;
            }
            match self.line().await {
                Line::Whole(line) => {
                    if let Some(message) = self.admit(&line) {
                        return Some(message);
                    }
                }
                Line::TooLong => {
                    self.untold += 1;
                    let message = format!(
                        "message is longer than {MAX_LINE_BYTES} bytes and was thrown away: send less. Long \
                         standard input goes into a file of the workspace, which '<' or the program reads"
                    );
                    self.complain(ErrorData::parse_error(message, None), None);
                }
                Line::End => {
                    self.stop.cancel();
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.out.lock().await.writer = None;
        Ok(())
    }
}

/// A write, given up when serving has come to its end and the client has not read for [`FAREWELL`].
async fn before_the_end(
    stop: &CancellationToken,
    write: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    tokio::select! {
        biased;
        written = write => written,
        () = async { stop.cancelled().await; tokio::time::sleep(FAREWELL).await } => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answers"))
        }
    }
}

fn frame(message: &TxJsonRpcMessage<RoleServer>) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Why a request cannot be answered before anything has said which protocol is spoken. rmcp would name the keys
/// that are missing and not say what to do, and answer a `ping` of the era that has none.
fn too_early(request: &ClientRequest) -> Option<ErrorData> {
    let is_modern = request.get_meta().missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty();
    match request {
        ClientRequest::InitializeRequest(_) => None,
        ClientRequest::PingRequest(_) => {
            is_modern.then(|| ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "ping", None))
        }
        _ => (!is_modern).then(|| ErrorData::invalid_params(BEGIN, None)),
    }
}

/// Whether rmcp leaves its opening phase with this request: the same test as its own.
fn opens(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_) => false,
        other => {
            let meta = other.get_meta();
            meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
                && meta
                    .protocol_version()
                    .is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version))
        }
    }
}

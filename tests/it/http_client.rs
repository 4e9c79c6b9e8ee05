//! A raw HTTP client and a server to talk to, for the tests of Streamable HTTP: sockets and bytes, no library.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::support::{Lab, Rules, eventually, kill};

/// A token that only tests use.
pub(crate) const TOKEN: &str = "token-of-alice-0123456789abcdef";
/// Another one.
pub(crate) const OTHER: &str = "token-of-bob-fedcba9876543210";
/// Longest wait for bytes. Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a server listens.
#[derive(Debug, Clone)]
pub(crate) enum At {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// TLS to an address, as `localhost`.
    Tls(SocketAddr, Arc<ClientConfig>),
}

/// A socket of either kind.
pub(crate) trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

impl At {
    pub(crate) fn connect(&self) -> Box<dyn Wire> {
        match self {
            Self::Tls(address, config) => {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let name = ServerName::try_from("localhost").unwrap();
                let session = ClientConnection::new(Arc::clone(config), name).unwrap();
                Box::new(StreamOwned::new(session, stream))
            }
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_nodelay(true).unwrap();
                Box::new(stream)
            }
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(stream)
            }
        }
    }

    /// Sends bytes as they are and reads the one answer; a server that does not read to the end is no fault.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Answer {
        let mut wire = self.connect();
        if let Err(error) = wire.write_all(bytes) {
            eprintln!("not all was taken: {error}");
        }
        Answer::read(&mut wire)
    }

    /// POSTs a message, with these headers beside the usual ones.
    pub(crate) fn post(&self, headers: &[(&str, &str)], message: &Value) -> Answer {
        self.raw(&post(headers, message.to_string().as_bytes()))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.raw(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
    }
}

/// A POST to the endpoint as bytes. `Host` is `localhost` unless given.
pub(crate) fn post(headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = String::from("POST /mcp HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head.push_str("Host: localhost\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n");
    head.push_str(&format!("Connection: close\r\nContent-Length: {}\r\n\r\n", body.len()));
    [head.as_bytes(), body].concat()
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn read(wire: &mut dyn Wire) -> Self {
        let mut bytes = Vec::new();
        // A reset after the answer, because the rest of the request was not read, is the end as well.
        let mut chunk = [0; 16 * 1024];
        loop {
            match wire.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => bytes.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    eprintln!("the end of an answer: {error}");
                    break;
                }
            }
        }
        Self::parse(&bytes)
    }

    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, rest) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked { unchunked(rest) } else { rest.to_owned() };
        Self { status, head: head.to_owned(), body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }

    /// The last message: of an event stream, or the body.
    pub(crate) fn json(&self) -> Value {
        let last = self.body.lines().filter_map(|line| line.strip_prefix("data:")).next_back();
        let text = last.unwrap_or(&self.body).trim();
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The text of a tool's result, and whether it is an error.
    pub(crate) fn result(&self) -> (String, bool) {
        let message = self.json();
        let text = message["result"]["content"][0]["text"].as_str();
        (text.unwrap_or_else(|| panic!("{self:?}")).to_owned(), message["result"]["isError"] == true)
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || after.len() < size {
            body.push_str(&after[..size.min(after.len())]);
            break;
        }
        body.push_str(&after[..size]);
        rest = after[size..].strip_prefix("\r\n").unwrap_or("");
    }
    body
}

/// A server over HTTP.
#[derive(Debug)]
pub(crate) struct Serving {
    child: Child,
    pub(crate) at: At,
    log: Arc<Mutex<String>>,
}

impl Serving {
    /// On a free port of 127.0.0.1.
    pub(crate) fn tcp(lab: &Lab, flags: &[&str]) -> Self {
        let flags: Vec<&str> = [&["--listen", "127.0.0.1:0"][..], flags].concat();
        Self::with(lab, &flags)
    }

    /// On a socket of the laboratory.
    pub(crate) fn unix(lab: &Lab, flags: &[&str]) -> Self {
        let path = lab.text("mcp.sock");
        let flags: Vec<&str> = [&["--unix", path.as_str()][..], flags].concat();
        Self::with(lab, &flags)
    }

    fn with(lab: &Lab, flags: &[&str]) -> Self {
        let mut command = lab.command("serve");
        let mut child = command.args(flags).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut all = String::new();
        let at = loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "the server did not start: {all}");
            all.push_str(&line);
            if let Some((_, at)) = line.trim_end().split_once("at /mcp on ") {
                break at.parse().map_or_else(|_| At::Unix(at.into()), At::Tcp);
            }
        };
        let log = Arc::new(Mutex::new(all));
        let more = Arc::clone(&log);
        std::thread::spawn(move || {
            let mut line = String::new();
            while said.read_line(&mut line).is_ok_and(|count| count > 0) {
                more.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        Self { child, at, log }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// What it has said on standard error.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal);
    }

    /// Waits until it has said this.
    pub(crate) fn says(&self, text: &str) {
        eventually(text, || self.log().contains(text));
    }

    /// Ends it by SIGTERM and waits: its exit status.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.child.wait().unwrap().code()
    }

    /// Resident memory in KiB.
    pub(crate) fn resident(&self) -> u64 {
        let text = crate::support::status_of(self.pid(), "VmRSS").unwrap();
        text.trim_end_matches(" kB").trim().parse().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }
}

/// A laboratory whose policy has these sections beside the usual ones.
pub(crate) fn lab(sections: &str) -> Lab {
    Lab::new(&Rules { commands: sections.to_owned(), ..Rules::default() })
}

/// SHA-256 in hex.
pub(crate) fn digest(token: &str) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Two principals, alice and bob, each with a token.
pub(crate) fn two(more_of_bob: &str) -> String {
    format!(
        "[principal.alice]\ntoken_sha256 = [\"{}\"]\n[principal.bob]\ntoken_sha256 = [\"{}\"]\n{more_of_bob}\n",
        digest(TOKEN),
        digest(OTHER)
    )
}

/// A client of one era with one token.
pub(crate) struct Caller {
    pub(crate) at: At,
    auth: Option<String>,
    /// Its session; absent in the newer era.
    pub(crate) session: Option<String>,
}

impl Caller {
    pub(crate) fn modern(at: &At, token: Option<&str>) -> Self {
        Self { at: at.clone(), auth: token.map(|token| format!("Bearer {token}")), session: None }
    }

    /// Opens a session.
    pub(crate) fn legacy(at: &At, token: Option<&str>) -> Self {
        let mut caller = Self::modern(at, token);
        let answer = caller.initialize();
        assert_eq!(answer.status, 200, "{answer:?}");
        caller.session = Some(answer.header("mcp-session-id").unwrap().to_owned());
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(at.post(&caller.headers(&done), &done).status, 202);
        caller
    }

    pub(crate) fn initialize(&self) -> Answer {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "it", "version": "1"}}});
        let auth: Vec<(&str, &str)> = self.auth.iter().map(|auth| ("Authorization", auth.as_str())).collect();
        self.at.post(&auth, &hello)
    }

    fn headers<'h>(&'h self, message: &'h Value) -> Vec<(&'h str, &'h str)> {
        let mut headers = Vec::new();
        headers.extend(self.auth.iter().map(|auth| ("Authorization", auth.as_str())));
        match &self.session {
            Some(session) => {
                headers.push(("Mcp-Session-Id", session.as_str()));
                headers.push(("MCP-Protocol-Version", "2025-06-18"));
            }
            None => {
                headers.push(("MCP-Protocol-Version", "2026-07-28"));
                headers.push(("Mcp-Method", message["method"].as_str().unwrap()));
                headers.extend(message["params"]["name"].as_str().map(|name| ("Mcp-Name", name)));
            }
        }
        headers
    }

    /// The bytes of a request.
    pub(crate) fn bytes(&self, id: u64, what: &str, mut params: Value) -> Vec<u8> {
        if self.session.is_none() {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}});
        }
        let message = json!({"jsonrpc": "2.0", "id": id, "method": what, "params": params});
        post(&self.headers(&message), message.to_string().as_bytes())
    }

    pub(crate) fn ask(&self, id: u64, what: &str, params: Value) -> Answer {
        self.at.raw(&self.bytes(id, what, params))
    }

    /// Calls a tool.
    pub(crate) fn call(&self, name: &str, arguments: Value) -> Answer {
        self.ask(1, "tools/call", json!({"name": name, "arguments": arguments}))
    }

    /// A request that was sent and is not answered yet.
    pub(crate) fn begin(&self, id: u64, name: &str, arguments: Value) -> Box<dyn Wire> {
        let mut wire = self.at.connect();
        let params = json!({"name": name, "arguments": arguments});
        wire.write_all(&self.bytes(id, "tools/call", params)).unwrap();
        wire
    }

    /// A notification or any other message of the session.
    pub(crate) fn tell(&self, message: &Value) -> Answer {
        self.at.post(&self.headers(message), message)
    }
}

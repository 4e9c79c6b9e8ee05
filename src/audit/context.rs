//! Who asks, and what a command is part of: the correlation fields of its records.
//!
//! Pure data. Made by the transports and by `appliance/`, read by `record.rs`.

use super::redact::Secrets;

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

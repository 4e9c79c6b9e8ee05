//! The audit room: one redacted, chained JSON record a line for every outcome.
//!
//! Purpose: nothing runs unlogged. A `run.start` record is durable before the spawn; exactly one
//! terminal record follows. Records never hold stdout, stderr, stdin or a secret. Inputs: facts
//! handed over by `appliance.rs` and `cli/`; knows nothing of who calls. A sink that cannot write
//! means refusal ([`AuditError`]), never silence.

/// Why a record could not be made durable: the caller must refuse the run.
#[derive(Debug, thiserror::Error)]
#[error("audit_unavailable: {operation} of {sink} failed: {source}")]
pub struct AuditError {
    /// What was tried, such as `open`, `write` or `fdatasync`.
    pub operation: &'static str,
    /// The sink, as people name it.
    pub sink: String,
    /// The kernel's answer.
    pub source: std::io::Error,
}

/// Who asks, and how the request came: correlation fields of each record. Client name and version
/// are what the client says of itself: never used for a decision.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// `stdio`, `http` or `unix`; absent for the command line.
    pub transport: Option<&'static str>,
    /// MCP tool name, or `exec` for the command line.
    pub tool: Option<String>,
    /// MCP session, or one made for a stdio connection.
    pub session_id: Option<String>,
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
}

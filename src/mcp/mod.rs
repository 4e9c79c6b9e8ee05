//! The MCP room: tools, schemas and transport in front of the appliance.
//!
//! Purpose: speak MCP (both the `initialize` era and the 2026-07-28 era) over standard input and
//! output or over HTTP (`http/`), turn a `tools/call` into one [`Call`](crate::appliance::Call) and its
//! outcome into the promised payload. Inputs: JSON-RPC lines and an [`Appliance`](crate::appliance::Appliance).
//! Called by `cli/serve`; knows nothing of how a process starts or how a verdict comes about.

mod arguments;
mod batch;
#[allow(deprecated, reason = "the protocol deprecates logging and keeps it until 2027-07-28 at the least")]
mod channel;
mod consent;
mod cursor;
mod from;
mod guarded;
mod hangup;
pub mod http;
mod in_flight;
mod instalment;
mod job_arguments;
mod job_end;
mod jobs;
#[allow(deprecated, reason = "the protocol deprecates logging and keeps it until 2027-07-28 at the least")]
mod level;
mod listen;
mod offer;
mod payload;
mod push;
mod render;
mod runner;
mod server;
mod shell_execute;
mod stdio;
mod stream;
mod tasks;
#[allow(deprecated, reason = "the protocol deprecates logging and keeps it until 2027-07-28 at the least")]
mod toolbox;
mod tools;
mod trace;
mod unread;
mod unwound;
mod view;
mod wire;
pub mod words;

pub use offer::{Ceilings, Kit, Offer};
pub use runner::Runner;
pub use stdio::{Ended, ServeError, serve, serve_stdio};
pub use toolbox::{Toolbox, Transport};
pub use wire::MAX_LINE_BYTES;

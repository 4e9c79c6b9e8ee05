//! MCP over HTTP: one endpoint, `/mcp`, on a TCP address or a Unix socket, for principals that are told apart.
//!
//! Purpose: rmcp's Streamable HTTP service behind the layers that it leaves to its users. Outermost first:
//! connections bounded and timed (`accept.rs`), TLS where the policy has it (`tls.rs`), Host and Origin (`origin.rs`, `routes.rs`), authentication
//! (`auth.rs`, `tokens.rs`), rate and requests of a principal (`rate.rs`, `principals.rs`), the body (`body.rs`),
//! the hang-up (`watch.rs`), sessions whose answers do not cross (`sessions.rs`). Inputs: a listener that was
//! bound before the server confined itself (`bind.rs`), the policy's principals. Called by `cli/serve`.

mod accept;
mod auth;
mod bind;
mod body;
mod counters;
mod endpoint;
mod hub;
mod metadata;
mod origin;
mod principals;
mod rate;
mod refusal;
mod routes;
mod serve;
mod sessions;
mod tls;
mod tokens;
mod watch;

pub use bind::{BindError, Listener};
pub use counters::{Count, Counters};
pub use hub::Hub;
pub use principals::{OPERATOR, Principals};
pub use serve::Http;
pub use tls::TlsError;
pub use tokens::TokenError;

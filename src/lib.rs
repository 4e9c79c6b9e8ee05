//! cofferdam runs commands for AI agents that read untrusted input.
//!
//! One straight road, each room knowing only those below it (see `README.md`):
//!
//! ```text
//! main.rs → cli → mcp → appliance → run → launch → sandbox
//!                           ├──→ policy → syntax, config
//!                           └──→ audit
//! ```
//!
//! # In a server of your own
//!
//! A program that embeds this library **must call [`become_launcher_if_asked`] as the first thing in its
//! `main`**: the launcher process is its own executable, started again before any thread or secret exists.
//! [`Appliance::start`] refuses with that sentence where it was not called.
//!
//! ```no_run
//! use std::sync::Arc;
//! use cofferdam::{Appliance, Config, Toolbox, Transport};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     cofferdam::become_launcher_if_asked();
//!     let config = Config::load("policy.toml".as_ref())?; // or cofferdam::PolicyBuilder
//!     let appliance = Arc::new(Appliance::start(config)?);
//!     let runtime = tokio::runtime::Runtime::new()?;
//!     runtime.block_on(async {
//!         appliance.announce(Some("stdio")).await?;
//!         let tools = Toolbox::new(Arc::clone(&appliance), Transport::Stdio);
//!         // In your ServerHandler: list_tools appends tools.list(), and call_tool answers with
//!         // tools.call(request, context) where tools.has(&request.name).
//!         tools.end().await;
//!         appliance.stop().await
//!     })?;
//!     Ok(())
//! }
//! ```
//!
//! `examples/embedded.rs` is a whole server, `docs/library.md` says the rest: what the host keeps, several
//! connections, running commands without MCP ([`Appliance::run`]), and the seam for a wrapper ([`Wrapper`]).
//! What is exported here at the root, and the types that it takes and gives, are the public face; the modules
//! are open for the program, its tests and the curious.

pub mod appliance;
pub mod audit;
#[doc(hidden)]
pub mod cli;
pub mod config;
mod fault;
pub mod launch;
pub mod mcp;
pub mod ops;
pub mod policy;
pub mod run;
pub mod sandbox;
mod seal;
pub mod syntax;
mod sys;

pub use appliance::Appliance;
pub use config::{Config, PolicyBuilder};
pub use launch::become_launcher_if_asked;
pub use launch::seam::{Plan, Wrapper, Wrapping};
pub use mcp::{Toolbox, Transport};

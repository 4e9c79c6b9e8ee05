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
//! Embedders use [`appliance::Appliance`]. A program that embeds this library must call
//! [`launch::become_launcher_if_asked`] as the first thing in its `main`: the launcher process is
//! its own executable, started again before any thread or secret exists.

pub mod appliance;
pub mod audit;
pub mod cli;
pub mod config;
mod fault;
pub mod launch;
pub mod mcp;
pub mod policy;
pub mod run;
pub mod sandbox;
mod seal;
pub mod syntax;
mod sys;

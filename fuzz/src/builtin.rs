//! The built-in policy, over a workspace that is there on any machine.

use std::path::PathBuf;
use std::sync::Arc;

use cofferdam::config::{Config, LoadOptions};
use cofferdam::policy::Policy;

/// Loads and compiles it.
///
/// # Panics
/// When it is broken.
#[must_use]
pub fn policy() -> Policy {
    let options = LoadOptions {
        workspace: Some(PathBuf::from(env!("CARGO_MANIFEST_DIR"))),
        audit_file: Some(PathBuf::from("/nonexistent/audit.jsonl")),
        ..LoadOptions::default()
    };
    let config = Config::builtin_with(&options).expect("the built-in policy loads");
    Policy::new(Arc::new(config), &[]).expect("the built-in policy compiles")
}

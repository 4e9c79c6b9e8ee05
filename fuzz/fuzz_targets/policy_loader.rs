//! Policy texts: each loads and compiles, or is refused in words.

#![no_main]

use std::path::PathBuf;
use std::sync::Arc;

use cofferdam::config::{Config, LoadOptions, Source};
use cofferdam::policy::Policy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let options = LoadOptions {
        workspace: Some(PathBuf::from(env!("CARGO_MANIFEST_DIR"))),
        audit_file: Some(PathBuf::from("/nonexistent/audit.jsonl")),
        ..LoadOptions::default()
    };
    let source = Source::File(PathBuf::from("/nonexistent/policy.toml"));
    match Config::from_str(text, source, &options) {
        Ok(config) => {
            if let Err(problem) = Policy::new(Arc::new(config), &[]) {
                assert!(!problem.to_string().is_empty());
            }
        }
        Err(problem) => assert!(!problem.to_string().is_empty()),
    }
});

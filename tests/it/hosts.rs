//! The example programs that embed the library, as processes to drive.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::BINARY;

/// An example, which `cargo test` builds beside the program.
pub(crate) fn example(name: &str) -> Command {
    let built: PathBuf = Path::new(BINARY).parent().unwrap().join("examples").join(name);
    assert!(built.exists(), "{} is not built: cargo build --examples (cargo test does)", built.display());
    Command::new(built)
}

//! `cofferdam explain`.

use std::process::ExitCode;

/// explain
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> ExitCode {
    ExitCode::from(125)
}

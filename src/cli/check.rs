//! `cofferdam check`.

use std::process::ExitCode;

/// check
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn run(_args: Args) -> ExitCode {
    ExitCode::from(125)
}

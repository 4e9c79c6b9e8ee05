//! The command line: one file a subcommand, clap for everything. Knows no kernel calls.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod check;
pub mod exec;
pub mod explain;

/// Runs commands for AI agents under an allow-list, inside Landlock and seccomp, and records
/// every outcome.
#[derive(Debug, Parser)]
#[command(name = "cofferdam", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Exec(exec::Args),
    Explain(explain::Args),
    Check(check::Args),
}

/// Parses the command line and runs one subcommand.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Exec(args) => exec::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Check(args) => check::run(args),
    }
}

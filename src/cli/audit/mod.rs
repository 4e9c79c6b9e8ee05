//! `cofferdam audit`: read and check audit logs. One file a subcommand.

mod verify;

use std::process::ExitCode;

use clap::Subcommand;

/// Check audit logs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cofferdam audit verify ~/.local/state/cofferdam/audit.jsonl")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Verify(verify::Args),
}

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    match args.command {
        Command::Verify(args) => verify::run(&args),
    }
}

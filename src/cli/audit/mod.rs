//! `cofferdam audit`: read and check audit logs. One file a subcommand.

mod hash;
mod keygen;
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
    Hash(hash::Args),
    Keygen(keygen::Keygen),
    Head(keygen::Head),
}

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    match args.command {
        Command::Verify(args) => verify::run(&args),
        Command::Hash(args) => hash::run(args),
        Command::Keygen(args) => keygen::keygen(&args),
        Command::Head(args) => keygen::head(&args),
    }
}

//! `cofferdam audit`: read and check audit logs. One file a subcommand.

mod hash;
mod keygen;
mod logs;
mod replay;
mod report;
mod show;
mod verify;

use std::process::ExitCode;

use clap::Subcommand;

use super::FAILED;

/// Read and check audit logs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  cofferdam audit verify ~/.local/state/cofferdam/audit.jsonl\n  \
    cofferdam audit show --denied --since 2h\n  cofferdam audit report --html week.html --since 7d")]
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
    Show(show::Args),
    Report(report::Args),
    Replay(replay::Args),
}

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    match args.command {
        Command::Verify(args) => verify::run(&args),
        Command::Hash(args) => hash::run(args),
        Command::Keygen(args) => keygen::keygen(&args),
        Command::Head(args) => keygen::head(&args),
        Command::Show(args) => show::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Replay(args) => replay::run(&args),
    }
}

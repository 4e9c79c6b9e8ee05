//! The command line: one file a subcommand, clap for everything. Knows no kernel calls.
//!
//! Called by `main.rs` only. Each subcommand file has an `Args` and a `run(Args) -> ExitCode`; its
//! help text is the documentation comment of its `Args`. Exit statuses are a contract
//! (see `README.md`): a usage error is a failure of cofferdam itself, 125, because clap's customary 2
//! could not be told from a program's own status.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod audit;
pub mod check;
pub mod connect;
pub mod doctor;
pub mod exec;
pub mod explain;
pub mod generate;
pub mod health;
pub mod learn;
mod line;
mod log;
pub mod policy;
pub mod serve;
mod terminal;

/// Status of a failure of cofferdam itself, a usage error included.
pub const FAILED: u8 = 125;

/// Runs commands for AI agents under an allow-list, inside Landlock and seccomp, and records
/// every outcome.
#[derive(Debug, Parser)]
#[command(
    name = "cofferdam",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = "\
Examples:
  cofferdam exec -- git log --oneline -3        run one command, confined and recorded
  cofferdam serve                               serve an agent over MCP on standard input and output
  cofferdam explain -- git push                 judge it only: allowed or refused, and why
  cofferdam check policy.toml                   validate a policy before it is used
  cofferdam doctor                              what this host enforces, by trying each escape

With no --policy the built-in policy applies to the current directory, read-only."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Exec(exec::Args),
    Serve(serve::Args),
    Explain(explain::Args),
    Check(check::Args),
    Doctor(doctor::Args),
    Learn(learn::Args),
    Audit(audit::Args),
    Connect(connect::Args),
    Health(health::Args),
    Completions(generate::CompletionsArgs),
    Man(generate::ManArgs),
}

/// Parses the command line and runs one subcommand.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match cli.command {
        Command::Exec(args) => exec::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Check(args) => check::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Learn(args) => learn::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Connect(args) => connect::run(args),
        Command::Health(args) => health::run(args),
        Command::Completions(args) => generate::completions(args),
        Command::Man(args) => generate::man(args),
    }
}

/// Help and version go to standard output with status 0, errors to standard error with 125.
fn usage(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    if error.use_stderr() || printed.is_err() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::Cli;

    #[test]
    fn command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}

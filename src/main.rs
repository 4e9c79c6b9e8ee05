//! The `cofferdam` program: launcher first, then the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    cofferdam::launch::become_launcher_if_asked();
    cofferdam::launch::attempts::become_attempt_if_asked();
    cofferdam::cli::main()
}

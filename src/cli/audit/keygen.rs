//! `cofferdam audit keygen` and `head`: what an operator keeps elsewhere.
//!
//! Purpose: the key that signs checkpoints, and the head to compare with. Called by `mod.rs`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::audit::{hash, signing};

/// Make the key that signs checkpoints: FILE (private, mode 600) and FILE.pub.
///
/// Name FILE as `checkpoint_key` in `[audit]`, where no command may read it, and keep FILE.pub with whoever checks
/// the log. Both are PEM files that openssl reads. Nothing that exists is written over.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cofferdam audit keygen /etc/cofferdam/checkpoint.key")]
pub(super) struct Keygen {
    /// The file of the private key.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Print SEQ:HASH of the last whole record of a log, to be kept elsewhere.
///
/// The end alone is read; whether all before it is whole is for `audit verify` to say. Exit status: 0 printed, 1
/// no record yet, 125 the file could not be read or is no log.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cofferdam audit head audit.jsonl >> /mnt/elsewhere/heads")]
pub(super) struct Head {
    /// The log.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Makes a key pair.
pub(super) fn keygen(args: &Keygen) -> ExitCode {
    match signing::generate(&args.file) {
        Ok(id) => {
            println!("{id}\nprivate {0}\npublic  {0}.pub", args.file.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cofferdam: {error}");
            ExitCode::from(125)
        }
    }
}

/// Prints the head.
pub(super) fn head(args: &Head) -> ExitCode {
    match hash::head(&args.file) {
        Ok(Some(head)) => {
            println!("{head}");
            ExitCode::SUCCESS
        }
        Ok(None) => {
            eprintln!("cofferdam: {} holds no record yet", args.file.display());
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("cofferdam: {error}");
            ExitCode::from(125)
        }
    }
}

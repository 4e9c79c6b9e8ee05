//! `cofferdam audit hash`: the keyed hash of a value or a command, and the records that hold it.
//!
//! Purpose: answers "was it this value?" without the log holding it. Called by `mod.rs`.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

use crate::audit::hash::{SiteKey, find};

/// Say what records hold in place of a redacted value or of a command, and find it in logs.
///
/// Without a command the value is read from standard input (one newline at its end is dropped), so that it
/// stands in no list of processes. Exit status: 0 printed, or found; 1 not found; 125 a file could not be read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  cofferdam audit hash --key audit.key < candidate\n  \
    cofferdam audit hash --key audit.key --find audit.jsonl < candidate\n  \
    cofferdam audit hash --key audit.key --find audit.jsonl -- git push origin main")]
pub(super) struct Args {
    /// The site key: the file `audit.key` beside the log.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Look for it in this log; may be given more than once.
    #[arg(long, value_name = "FILE")]
    find: Vec<PathBuf>,
    /// A command, word for word, in place of a value.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the subcommand.
pub(super) fn run(args: Args) -> ExitCode {
    match hash(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cofferdam: {error}");
            ExitCode::from(125)
        }
    }
}

fn hash(args: Args) -> std::io::Result<ExitCode> {
    let key = SiteKey::load(&args.key).map_err(|error| {
        std::io::Error::new(error.kind(), format!("read of the site key {}: {error}", args.key.display()))
    })?;
    let hash = if args.command.is_empty() {
        let mut value = String::new();
        std::io::stdin().take(1 << 20).read_to_string(&mut value)?;
        key.value(value.strip_suffix('\n').unwrap_or(&value))
    } else {
        let words: Vec<Vec<u8>> = args.command.into_iter().map(OsString::into_vec).collect();
        key.argv(&words)
    };
    if args.find.is_empty() {
        println!("{hash}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut found = false;
    find(&args.find, &hash, |hit| {
        found = true;
        let member = |name: &str| hit.record.get(name).map_or(String::new(), plain);
        let (file, line) = &hit.place;
        println!(
            "{}:{line}: {} record {} {} {}",
            file.display(),
            member("timestamp"),
            member("seq"),
            member("event_type"),
            member("run_id")
        );
    })?;
    if !found {
        eprintln!("cofferdam: no record holds {hash}");
    }
    Ok(ExitCode::from(u8::from(!found)))
}

/// A member as plain text: nothing of a log reaches the terminal unescaped.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.escape_debug().to_string(),
        other => other.to_string(),
    }
}

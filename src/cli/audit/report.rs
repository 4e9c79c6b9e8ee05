//! `cofferdam audit report`: the figures of a log, as a page or as JSON.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::logs::{BadLines, Logs, Select};
use crate::audit::reading::{self, Moment, chains};
use crate::audit::report::{ChainState, Figures, page};
use crate::audit::verify::verify;

/// What a page begins with.
const DOCTYPE: &[u8] = b"<!doctype html>";

/// Sum a log up: one self-contained HTML page, or the figures behind it as JSON.
///
/// The page has no script and loads nothing; text of records cannot become markup in it. Exit status: 0 the chain
/// is whole, 1 it is broken or there are bad lines (the page says where, and is made all the same), 125 a file could
/// not be read or written.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  cofferdam audit report --html week.html --since 7d /var/log/cofferdam\n  \
    cofferdam audit report --json audit.jsonl | jq .rules.top"
)]
pub(super) struct Args {
    #[command(flatten)]
    logs: Logs,
    #[command(flatten)]
    select: Select,
    /// Write the page to this file, which is readable by its owner only; `-` is standard output
    #[arg(long, value_name = "FILE", required_unless_present = "json")]
    html: Option<PathBuf>,
    /// Print the figures as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    match report(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("cofferdam: {error}");
            ExitCode::from(super::FAILED)
        }
    }
}

/// Whether the log is as it was written.
fn report(args: &Args) -> io::Result<bool> {
    if let Some(file) = &args.html {
        replaceable(file)?;
    }
    let logs = args.logs.open()?;
    let filter = args.select.filter();
    let mut figures = Figures::default();
    Moment::now().as_str().clone_into(&mut figures.made);
    for chain in chains(&logs) {
        // Standard input can be read once only, and a file without a record has no chain.
        if chain.id.is_some() {
            let names = chain.files.iter().map(|file| file.display().to_string()).collect();
            figures.chains.push(ChainState::new(names, &verify(&chain.files, None)?));
        }
    }
    let mut bad = BadLines::default();
    for entry in reading::entries(logs) {
        let entry = entry?;
        match entry.content {
            Ok(record) => {
                figures.read += 1;
                if filter.admits(&record) {
                    figures.take(&record);
                }
            }
            Err(kind) => bad.note(&entry.place, kind),
        }
    }
    bad.sum_up();
    figures.bad_lines = bad.count;
    figures.finish();
    let whole = bad.count == 0 && figures.chains.iter().all(|chain| chain.whole);
    if let Some(file) = &args.html {
        write(file, &page(&figures))?;
    }
    if args.json {
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &figures)?;
        out.write_all(b"\n")?;
    }
    Ok(whole)
}

/// Nothing but an earlier page is replaced: a log that is named here by mistake stays.
fn replaceable(file: &Path) -> io::Result<()> {
    let told = |error: io::Error| io::Error::new(error.kind(), format!("--html {}: {error}", file.display()));
    let is_file = match std::fs::metadata(file) {
        _ if file.as_os_str() == "-" => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        facts => facts.map_err(told)?.is_file(),
    };
    if is_file {
        let mut begins = [0; DOCTYPE.len()];
        match File::open(file).map_err(told)?.read_exact(&mut begins) {
            Ok(()) if begins.eq_ignore_ascii_case(DOCTYPE) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(told(error)),
            Ok(()) | Err(_) => {}
        }
    }
    Err(told(io::Error::other("there is a file that is no page; remove it, or name another")))
}

/// Writes the page beside `file` and puts it in its place when it is whole.
fn write(file: &Path, page: &str) -> io::Result<()> {
    if file.as_os_str() == "-" {
        return io::stdout().lock().write_all(page.as_bytes());
    }
    let failed = |what: &str, error: &io::Error| {
        io::Error::new(error.kind(), format!("{what} of {} failed: {error}", file.display()))
    };
    let mut name =
        file.file_name().ok_or_else(|| failed("write", &io::ErrorKind::InvalidInput.into()))?.to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = file.with_file_name(name);
    let mut out = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&part)
        .map_err(|error| failed("write", &error))?;
    let written = out.write_all(page.as_bytes()).and_then(|()| out.sync_all());
    let placed = written.and_then(|()| std::fs::rename(&part, file));
    placed.map_err(|error| match std::fs::remove_file(&part) {
        Ok(()) => failed("write", &error),
        Err(left) => {
            failed("write", &io::Error::other(format!("{error}; {} is left: {left}", part.display())))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_named_as_the_page_stays() {
        let lab = tempfile::tempdir().unwrap();
        let log = lab.path().join("audit.jsonl");
        for text in ["{\"schema_version\":1}\n", "", "x"] {
            std::fs::write(&log, text).unwrap();
            let error = replaceable(&log).unwrap_err().to_string();
            assert!(error.contains("audit.jsonl") && error.contains("no page"), "{error}");
        }
        let page = lab.path().join("page.html");
        replaceable(&page).unwrap();
        write(&page, &crate::audit::report::page(&Figures::default())).unwrap();
        replaceable(&page).unwrap();
        replaceable(Path::new("-")).unwrap();
    }
}

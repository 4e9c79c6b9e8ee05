//! `cofferdam audit show`: records for people to read.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use super::logs::{BadLines, Logs, Select};
use crate::audit::reading::{self, Colours, Filter, Followed, Follower, Record};
use crate::audit::render::Format;

/// Show records, one readable line each.
///
/// Nothing in a record can steer the terminal: control, invisible and reordering characters are spelled out.
/// Lines that are no whole records are named on standard error and not shown. Exit status: 0 every line was a
/// whole record, 1 some were not, 125 a file could not be read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  cofferdam audit show --denied --since 2h\n  \
    cofferdam audit show --cmd git --outcome timeout,output_limit /var/log/cofferdam\n  \
    cofferdam audit show --follow --long /var/log/cofferdam/audit.jsonl\n  \
    cofferdam audit show --json --rule git audit.jsonl | jq .argv")]
pub(super) struct Args {
    #[command(flatten)]
    logs: Logs,
    #[command(flatten)]
    select: Select,
    /// All members of each record, below its line
    #[arg(long, conflicts_with_all = ["json", "format"])]
    long: bool,
    /// The records as they stand in the log, byte for byte
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// The records as another schema has them: `ecs` or `ocsf`
    #[arg(long, value_name = "SCHEMA")]
    format: Option<Format>,
    /// Go on with what is being written, through rotations, until interrupted; records of rotated files that were
    /// there before are not shown
    #[arg(long, short)]
    follow: bool,
}

/// Between two looks at a log that is followed.
const LOOK: Duration = Duration::from_millis(200);

pub(super) fn run(args: &Args) -> ExitCode {
    match show(args) {
        Ok(bad) => {
            bad.sum_up();
            if bad.count == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        // Whoever read the lines has gone away.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(super::FAILED),
        Err(error) => {
            eprintln!("cofferdam: {error}");
            ExitCode::from(super::FAILED)
        }
    }
}

struct Printer<'a> {
    args: &'a Args,
    filter: Filter,
    colours: Colours,
    out: io::BufWriter<io::StdoutLock<'static>>,
    bad: BadLines,
}

fn show(args: &Args) -> io::Result<BadLines> {
    let filter = args.select.filter();
    let out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut printer = Printer { args, filter, colours: colours(), out, bad: BadLines::default() };
    if args.follow {
        return printer.follow();
    }
    for entry in reading::entries(args.logs.open()?) {
        let entry = entry?;
        match entry.content {
            Ok(record) => printer.print(&record)?,
            Err(bad) => printer.bad.note(&entry.place, bad),
        }
    }
    printer.out.flush()?;
    Ok(printer.bad)
}

impl Printer<'_> {
    fn print(&mut self, record: &Record) -> io::Result<()> {
        if !self.filter.admits(record) {
            return Ok(());
        }
        if self.args.json {
            self.out.write_all(record.bytes())?;
        } else if let Some(format) = self.args.format {
            self.out.write_all(&format.render(record.members()).map_err(io::Error::other)?)?;
        } else if self.args.long {
            self.out.write_all(reading::long(record, self.colours).as_bytes())?;
        } else {
            self.out.write_all(reading::line(record, self.colours).as_bytes())?;
        }
        self.out.write_all(b"\n")
    }

    fn follow(mut self) -> io::Result<BadLines> {
        let mut follower = Follower::new(&self.args.logs.followed()?)?;
        loop {
            let any = follower.poll(&mut |found| self.followed(found))?;
            self.out.flush()?;
            if !any {
                std::thread::sleep(LOOK);
            }
        }
    }

    fn followed(&mut self, found: Followed) -> io::Result<()> {
        match found {
            Followed::Entry(entry) => match entry.content {
                Ok(record) => return self.print(&record),
                Err(bad) => self.bad.note(&entry.place, bad),
            },
            Followed::Missing(from, to) => eprintln!("cofferdam: records {from} to {to} are not there"),
            Followed::Shrunk(path) => eprintln!(
                "cofferdam: {} became shorter: records were cut off; reading it from its beginning",
                reading::safe(&path.to_string_lossy())
            ),
        }
        Ok(())
    }
}

/// Colour is for terminals whose user does not mind (<https://no-color.org>).
fn colours() -> Colours {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    if io::stdout().is_terminal() && !unwanted && !dumb { Colours::On } else { Colours::Off }
}

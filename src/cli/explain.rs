//! `cofferdam explain`: what the policy says about an argument vector, without running it.
//!
//! Purpose: the answer to "why was that refused" and "what would it be allowed to do", for people,
//! scripts and tests of policies. Inputs: a policy, one argument vector or a stream of them. Called
//! by the command line only; starts nothing and writes no audit record.

mod line;
mod profile;
mod stream;

use std::ffi::OsString;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::sync::Arc;

use super::policy::{PolicyArgs, ToolkitArgs};
use crate::policy::{AllowList, Denial, Policy, Rule};

/// Say whether a command would be allowed, by which rule, and inside which walls
///
/// Exit status: 0 allowed, 1 refused, 125 the policy cannot be loaded. With --stdin: 0 when every
/// line was judged, 2 when a line was not a JSON object with an argument vector.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    toolkits: ToolkitArgs,
    /// Judge as a call through the tools of this prefix
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["allow", "stdin"])]
    toolkit: Option<String>,
    /// Names that stand in for the policy's allow-list and its command tables (they need not be installed)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    allow: Option<Vec<String>>,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Judge one JSON object a line: {"argv":[…],"allow":[…]?,"allow_patterns":[…]?,"env":{…}?,"cwd":"…"?};
    /// answers are JSON
    #[arg(long, conflicts_with_all = ["argv", "line"])]
    stdin: bool,
    /// Judge a line of shell syntax, as exec --line would: an answer for each of its commands. Patterns are
    /// judged as they are written, since no file is looked at
    #[arg(long, value_name = "TEXT", conflicts_with = "argv")]
    line: Option<String>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["stdin", "line"])]
    argv: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  cofferdam explain -- git log --oneline -3
  cofferdam explain --json --allow git,rg -- rm -rf x
  cofferdam explain --config mcp.json --toolkit git -- rg x
  cofferdam explain --line 'rg -n main src | head -n 3'
  echo '{\"argv\":[\"rm\",\"-rf\",\"x\"],\"allow\":[\"git\"]}' | cofferdam explain --json --stdin

In a line of --stdin, \"allow\" replaces the allow-list for that line; other fields are ignored and
blank lines are skipped. Names given so have no command table: no rules for subcommands and options,
no environment but what the grammar of the program sets.";

/// Exit status when cofferdam itself fails.
const FAILED: u8 = 125;
/// Exit status of `--stdin` when a line could not be judged.
const BAD_LINE: u8 = 2;

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    match explain(&args) {
        Ok(code) => code,
        Err(Failure::Policy(problem)) => {
            // Nothing is left to tell when standard error is closed; the exit status still does.
            let _ = writeln!(io::stderr(), "cofferdam: {problem}");
            ExitCode::from(FAILED)
        }
        // Whoever read the answers has gone away.
        Err(Failure::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(FAILED),
        Err(Failure::Io(error)) => {
            let _ = writeln!(io::stderr(), "cofferdam: read or write of a verdict failed: {error}");
            ExitCode::from(FAILED)
        }
    }
}

enum Failure {
    Policy(String),
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn explain(args: &Args) -> Result<ExitCode, Failure> {
    let policy = load_policy(args).map_err(Failure::Policy)?;
    let allow = match &args.allow {
        None => None,
        Some(names) => {
            let names: Vec<&str> =
                names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
            Some(policy.allow_list(&names, &[]).map_err(|error| Failure::Policy(error.to_string()))?)
        }
    };
    let out = io::stdout().lock();
    if args.stdin {
        let bad = judge_lines(&policy, allow, io::stdin().lock(), out)?;
        return Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::from(BAD_LINE) });
    }
    let toolkit = args.toolkit.as_deref();
    let asked = Asked { policy: &policy, allow: allow.as_ref(), toolkit, json: args.json };
    let allowed = match &args.line {
        Some(text) => line::judge(&asked, text, out)?,
        None => {
            let argv: Vec<&[u8]> = args.argv.iter().map(|argument| argument.as_bytes()).collect();
            asked.one(&argv, out)?
        }
    };
    Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Judges each line of `input`, as `--stdin` does. `allow` stands in for the policy's own allow-list.
/// Answers how many lines could not be judged.
///
/// # Errors
/// When `input` or `out` fails.
pub fn judge_lines(
    policy: &Policy,
    allow: Option<AllowList>,
    input: impl Read,
    out: impl Write,
) -> io::Result<u64> {
    stream::judge_lines(policy, allow, BufReader::with_capacity(1 << 16, input), out)
}

/// By what a command is judged, and how the answer is printed.
struct Asked<'a> {
    policy: &'a Policy,
    allow: Option<&'a AllowList>,
    toolkit: Option<&'a str>,
    json: bool,
}

impl Asked<'_> {
    /// Judges one argument vector and prints the answer.
    fn one(&self, argv: &[&[u8]], out: impl Write) -> io::Result<bool> {
        let verdict = match self.toolkit {
            Some(_) => {
                let cwd = self.policy.config().working_directory(self.toolkit, None);
                self.policy.judge_toolkit(argv, self.toolkit, &cwd, &[])
            }
            None => self.policy.judge_argv(argv, self.allow),
        };
        self.answer(argv, &verdict, out)
    }

    fn answer(
        &self,
        argv: &[&[u8]],
        verdict: &Result<Rule<'_>, Denial>,
        out: impl Write,
    ) -> io::Result<bool> {
        print(self.policy, self.toolkit, argv, verdict, self.json, out)
    }
}

/// Prints the answer about one argument vector.
fn print(
    policy: &Policy,
    toolkit: Option<&str>,
    argv: &[&[u8]],
    verdict: &Result<Rule<'_>, Denial>,
    json: bool,
    mut out: impl Write,
) -> io::Result<bool> {
    let words: Vec<_> = argv.iter().map(|argument| String::from_utf8_lossy(argument)).collect();
    let name = words.first().map_or("", AsRef::as_ref);
    let walls = verdict.as_ref().ok().map(|rule| profile::of(policy, &rule.command(name), toolkit));
    if json {
        let mut line = Vec::new();
        let walls = walls.as_ref().map(ToString::to_string);
        stream::write_answer(&mut line, &words, verdict, walls.as_deref())?;
        out.write_all(&line)?;
    } else {
        writeln!(out, "{}", verdict_word(verdict))?;
        writeln!(out, "rule         {}", rule_id(verdict))?;
        writeln!(out, "reason       {}", sentence(verdict, name))?;
        if verdict.as_ref().is_ok_and(|rule| rule.asks) {
            writeln!(out, "consent      ask")?;
        }
        if let Err(denial) = verdict {
            writeln!(out, "layer        {}", denial.layer())?;
            if let Some((at, text)) = stream::triggered(&words, denial) {
                writeln!(out, "argument     {at}: {}", text.escape_debug())?;
            }
            if let Some(instead) = &denial.instead {
                writeln!(out, "instead      {instead}")?;
            }
        }
        if let Some(walls) = &walls {
            profile::write_text(&mut out, walls)?;
        }
    }
    out.flush()?;
    Ok(verdict.is_ok())
}

fn verdict_word(verdict: &Result<Rule<'_>, Denial>) -> &'static str {
    if verdict.is_ok() { "allow" } else { "deny" }
}

fn rule_id<'a>(verdict: &'a Result<Rule<'_>, Denial>) -> &'a str {
    match verdict {
        Ok(rule) => rule.id,
        Err(denial) => &denial.rule,
    }
}

/// Said of a command that is allowed with consent.
const ASKS: &str = " A person is asked before each run.";

/// One sentence for people.
fn sentence(verdict: &Result<Rule<'_>, Denial>, name: &str) -> String {
    match verdict {
        Ok(rule) => {
            let allowed = match rule.id {
                "allow_patterns" => format!("Command '{name}' matches an allow pattern."),
                "allow_any" => format!("Command '{name}' may run because the policy admits any name."),
                _ => format!("Command '{name}' is allowlisted."),
            };
            if rule.asks { allowed + ASKS } else { allowed }
        }
        Err(denial) => denial.message.clone(),
    }
}

/// Loads what `--policy` and `--workspace` name.
fn load_policy(args: &Args) -> Result<Policy, String> {
    let config = args.policy.load_toolkits(&args.toolkits).map_err(|error| error.to_string())?;
    Policy::new(Arc::new(config), &crate::config::server_environment()).map_err(|error| error.to_string())
}

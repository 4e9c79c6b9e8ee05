//! Programs that are scripts: which files the kernel executes for one, from its `#!` line.
//!
//! Purpose: a script starts only when its interpreter may be executed, so a profile grants that by itself;
//! but a shell, which starts whatever the script says, only when the policy lists it. Inputs: the policy and
//! the program file. Called by `sandbox/profile.rs`. Relative interpreters, which depend on the working
//! directory of the caller, and any in the workspace are refused.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::config::program::Program;
use crate::config::{Command, Config};

/// What the kernel reads of a script (execve(2), `BINPRM_BUF_SIZE`).
const LINE: u64 = 256;
/// A script, and one whose interpreter is a script; the kernel goes deeper, nobody should.
const NESTED: usize = 2;
/// Interpreters that start other programs by name, and files that are many programs at once.
const SHELLS: &[&str] = &[
    "ash",
    "bash",
    "busybox",
    "coreutils",
    "csh",
    "dash",
    "fish",
    "ksh",
    "ksh93",
    "lksh",
    "mksh",
    "posh",
    "rbash",
    "rksh",
    "sh",
    "tcsh",
    "toybox",
    "yash",
    "zsh",
];

/// Why a script cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// Its first line could not be read.
    #[error("reading the first line of {} failed: {source}", .file.display())]
    Read {
        /// The script.
        file: PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// Its interpreter is a shell that the policy does not list.
    #[error(
        "{} is a script of the shell {}, which starts whatever the script says: add {} and the programs that \
         the script calls to execute of [command.{command:?}], or allow those programs instead",
        .file.display(), .shell.display(), .shell.display()
    )]
    Shell {
        /// The allow-list entry.
        command: String,
        /// The script.
        file: PathBuf,
        /// The shell, every link followed.
        shell: PathBuf,
    },
    /// Its first line names no program that can be known beforehand.
    #[error("{} is a script of \"{line}\": {what}", .file.display())]
    Line {
        /// The script.
        file: PathBuf,
        /// What follows `#!`.
        line: String,
        /// What is wrong with it, and the remedy.
        what: String,
    },
}

/// Files that must be executable for `program` to start, every link followed: none unless it is a script.
///
/// # Errors
/// A script whose interpreter is unknown, a shell that is not listed, or out of bounds.
pub fn interpreters(
    config: &Config,
    command: &Command,
    program: &Program,
) -> Result<Vec<PathBuf>, ScriptError> {
    let mut found = Vec::new();
    let mut file = program.real.clone();
    for _ in 0..NESTED {
        let Some(line) = first_line(&file)? else { return Ok(found) };
        let fault = |what: String| ScriptError::Line { file: file.clone(), line: line.clone(), what };
        let (path, argument) = match line.split_once([' ', '\t']) {
            Some((path, argument)) => (Path::new(path), argument.trim()),
            None => (Path::new(line.as_str()), ""),
        };
        if !path.is_absolute() {
            return Err(fault("the interpreter is no absolute path; allow the interpreter itself".into()));
        }
        let mut real = settle(config, path).map_err(fault)?;
        let mut name = path.to_owned();
        if base(path) == "env" && base(&real) == "env" {
            found.push(real);
            let word = env_target(argument).map_err(fault)?;
            let target = config.programs.lookup(word).map_err(|absent| {
                fault(format!("{absent}; install it where environment.path finds it, or add that directory"))
            })?;
            (name, real) = (target.path.clone(), target.real.clone());
        }
        let shell = SHELLS.contains(&base(&name)) || SHELLS.contains(&base(&real));
        if shell && !listed(command, &real) {
            return Err(ScriptError::Shell { command: command.name.clone(), file, shell: real });
        }
        found.push(real.clone());
        file = real;
    }
    match first_line(&file)? {
        None => Ok(found),
        Some(line) => {
            let what = "scripts of scripts of scripts are not followed; allow the last one itself".into();
            Err(ScriptError::Line { file, line, what })
        }
    }
}

/// The text after `#!`, trimmed, as far as the kernel reads it; `None` for anything that is no script.
fn first_line(file: &Path) -> Result<Option<String>, ScriptError> {
    let failed = |source| ScriptError::Read { file: file.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(file).map_err(failed)?.take(LINE).read_to_end(&mut bytes).map_err(failed)?;
    let Some(rest) = bytes.strip_prefix(b"#!") else { return Ok(None) };
    let line = rest.split(|byte| *byte == b'\n' || *byte == 0).next().unwrap_or(rest);
    // A name that is no text is none that a policy can list: it is not found below.
    Ok(Some(String::from_utf8_lossy(line).trim_matches([' ', '\t']).to_owned()))
}

/// The interpreter, every link followed.
fn settle(config: &Config, path: &Path) -> Result<PathBuf, String> {
    let real = path.canonicalize().map_err(|e| format!("{}: {e}; install it", path.display()))?;
    if real.starts_with(&config.workspace.path) || path.starts_with(&config.workspace.path) {
        return Err("the interpreter lies in the workspace, where nothing can be executed".into());
    }
    Ok(real)
}

/// The program that `env` starts, from its one argument as the kernel hands it over.
fn env_target(argument: &str) -> Result<&str, String> {
    let remedy = "write the path of the interpreter in its first line, or allow the interpreter itself";
    let split = argument.strip_prefix("-S").or_else(|| argument.strip_prefix("--split-string="));
    let word = match split {
        Some(words) => words.split_whitespace().next().unwrap_or(""),
        // Without -S env takes the whole rest of the line for one name.
        None => argument,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    if word.is_empty() || word.starts_with('-') || !word.chars().all(plain) {
        return Err(format!("only `env NAME` and `env -S NAME …` are followed; {remedy}"));
    }
    Ok(word)
}

fn base(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

/// Whether the policy lists a file for execution, itself or by its directory.
fn listed(command: &Command, real: &Path) -> bool {
    command.execute.iter().any(|path| {
        path.canonicalize()
            .is_ok_and(|listed| listed == real || real.parent() == Some(&listed) && listed.is_dir())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_read_as_the_kernel_reads_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, expected) in [
            ("#!/bin/sh\nx", Some("/bin/sh")),
            ("#! \t/usr/bin/perl -w \t\nprint 1\n", Some("/usr/bin/perl -w")),
            ("#!/bin/sh", Some("/bin/sh")),
            ("#!/bin/sh\0-x\n", Some("/bin/sh")),
            ("# /bin/sh\n", None),
            ("", None),
            ("\x7fELF", None),
        ] {
            std::fs::write(file.path(), text).unwrap();
            assert_eq!(first_line(file.path()).unwrap().as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn env_names_one_program_or_none() {
        for (argument, expected) in [
            ("python3", Some("python3")),
            ("-S perl -w", Some("perl")),
            ("-S  perl", Some("perl")),
            ("--split-string=perl -w", Some("perl")),
            ("perl -w", None),
            ("-i perl", None),
            ("A=b perl", None),
            ("-S A=b perl", None),
            ("-S -i perl", None),
            ("../x", None),
            ("", None),
        ] {
            assert_eq!(env_target(argument).ok(), expected, "{argument:?}");
        }
    }
}

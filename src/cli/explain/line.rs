//! `explain --line`: the verdict on each command of a line of shell syntax.
//!
//! Purpose: what `exec --line` and the tools that take lines would say, without running anything. A line that
//! is refused as a whole has one answer, with its words. Inputs: a policy and the text. Called by `explain`.

use std::io::{self, Write};

use super::Asked;
use crate::appliance::{explain_line, unread_line};
use crate::syntax::{self, shown};

/// Judges and prints; whether every command of the line is allowed.
pub(super) fn judge(asked: &Asked<'_>, text: &str, mut out: impl Write) -> io::Result<bool> {
    let commands = syntax::parse(text, syntax::Options::default())
        .map_err(|refusal| unread_line(&refusal))
        .and_then(|list| explain_line(asked.policy, &list, asked.toolkit).map_err(|denied| denied.denial));
    let commands = match commands {
        Ok(commands) => commands,
        Err(denial) => {
            let words = shown::words(text);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            return asked.answer(&words, &Err(denial), &mut out);
        }
    };
    let mut allowed = true;
    for (at, command) in commands.iter().enumerate() {
        let argv: Vec<&[u8]> = command.argv.iter().map(Vec::as_slice).collect();
        let cwd = asked.policy.config().working_directory(asked.toolkit, command.cwd.as_deref());
        let verdict = match asked.toolkit {
            Some(_) => asked.policy.judge_toolkit(&argv, asked.toolkit, &cwd, &command.env),
            None => asked.policy.judge_call(&argv, asked.allow, &cwd, &command.env),
        };
        if !asked.json {
            let words: Vec<String> =
                argv.iter().map(|word| String::from_utf8_lossy(word).escape_debug().to_string()).collect();
            let before = if at > 0 { "\n" } else { "" };
            writeln!(out, "{before}command      {}: {}", at.saturating_add(1), words.join(" "))?;
        }
        allowed &= asked.answer(&argv, &verdict, &mut out)?;
    }
    Ok(allowed)
}

//! The environment of a command: built up from nothing.
//!
//! Purpose: the effective `NAME=value` entries, and the refusal of what a caller may not set. Order,
//! the last one wins: the safe `PATH`, names passed from the server, fixed values of the policy,
//! presets of the command, the caller's own. `HOME` and `TMPDIR` come from the launcher (scratch).
//! Called by `judge` only.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::words::quoted;
use super::{Denial, Reason, RuleKind};
use crate::config::{Command, Environment};

/// Names that make a loader, an interpreter or a common program run, load or trust something else.
/// They are never taken from a caller or from the server, even when the policy lists them; the
/// operator's own fixed values (`set`, presets) are not concerned. `*` stands for any characters.
const HOOKS: &[(&str, &str)] = &[
    ("LD_*", "the dynamic loader loads code by it"),
    ("GLIBC_TUNABLES", "it changes the C library under the program"),
    ("GCONV_PATH", "the C library loads code by it"),
    ("LOCPATH", "the C library reads files by it"),
    ("NLSPATH", "the C library reads files by it"),
    ("MALLOC_*", "it changes the C library under the program"),
    ("ENV", "shells run the file that it names"),
    ("BASH_ENV", "shells run the file that it names"),
    ("BASH_FUNC_*", "shells take functions from it"),
    ("SHELLOPTS", "it changes how shells read code"),
    ("BASHOPTS", "it changes how shells read code"),
    ("PS4", "shells evaluate it"),
    ("PROMPT_COMMAND", "shells evaluate it"),
    ("IFS", "it changes how shells read code"),
    ("CDPATH", "it changes where shells go"),
    ("ZDOTDIR", "shells run files below it"),
    ("SHELL", "programs start it"),
    ("PYTHON*", "the interpreter loads code by it"),
    ("PERL5*", "the interpreter loads code by it"),
    ("PERL_*", "the interpreter loads code by it"),
    ("PERLLIB", "the interpreter loads code by it"),
    ("RUBY*", "the interpreter loads code by it"),
    ("GEM_*", "the interpreter loads code by it"),
    ("BUNDLE_*", "the interpreter loads code by it"),
    ("NODE_OPTIONS", "the interpreter loads code by it"),
    ("NODE_PATH", "the interpreter loads code by it"),
    ("NODE_REPL_EXTERNAL_MODULE", "the interpreter loads code by it"),
    ("LUA_*", "the interpreter loads code by it"),
    ("PHPRC", "the interpreter loads code by it"),
    ("PHP_INI_SCAN_DIR", "the interpreter loads code by it"),
    ("*JAVA_OPTIONS", "the virtual machine loads code by it"),
    ("JAVA_TOOL_OPTIONS", "the virtual machine loads code by it"),
    ("CLASSPATH", "the virtual machine loads code by it"),
    ("TCLLIBPATH", "the interpreter loads code by it"),
    ("AWKPATH", "the interpreter loads code by it"),
    ("AWKLIBPATH", "the interpreter loads code by it"),
    ("R_*", "the interpreter loads code by it"),
    ("GIT_*EXEC*", "git runs programs by it"),
    ("GIT_CONFIG*", "git runs programs that its configuration names"),
    ("GIT_SSH*", "git runs it"),
    ("GIT_PROXY_COMMAND", "git runs it"),
    ("GIT_EXTERNAL_DIFF", "git runs it"),
    ("GIT_TEMPLATE_DIR", "git installs hooks from it"),
    ("*PAGER", "programs run it"),
    ("*EDITOR", "programs run it"),
    ("VISUAL", "programs run it"),
    ("BROWSER", "programs run it"),
    ("*_ASKPASS", "programs run it"),
    ("*_RSH", "programs run it"),
    ("LESS*", "the pager runs programs by it"),
    ("MANOPT", "it adds options that were not judged"),
    ("TAR_OPTIONS", "it adds options that were not judged"),
    ("TAPE", "it adds operands that were not judged"),
    ("GREP_OPTIONS", "it adds options that were not judged"),
    ("RIPGREP_CONFIG_PATH", "it adds options that were not judged"),
    ("ZIPOPT", "it adds options that were not judged"),
    ("RSYNC_*", "it adds options that were not judged"),
    ("FZF_DEFAULT_*", "the program runs it"),
    ("POSIXLY_CORRECT", "it changes which arguments are options"),
    ("MAKEFLAGS", "it adds options that were not judged"),
    ("MAKEFILES", "make runs recipes from it"),
    ("RUSTC*", "the build tool runs it"),
    ("GCC_EXEC_PREFIX", "the compiler runs programs from it"),
    ("COMPILER_PATH", "the compiler runs programs from it"),
    ("OPENSSL_*", "the library loads code by it"),
    ("GTK_*MODULES", "the library loads code by it"),
    ("GIO_*", "the library loads code by it"),
    ("QT_PLUGIN_PATH", "the library loads code by it"),
    ("SSLKEYLOGFILE", "secrets are written to it"),
    ("HOSTALIASES", "it changes which hosts names mean"),
    ("RES_OPTIONS", "it changes which hosts names mean"),
];

/// What does not change from call to call.
#[derive(Debug)]
pub(super) struct Base {
    pass: BTreeSet<String>,
    fixed: BTreeMap<String, String>,
}

impl Base {
    /// Takes the passed names from the server's environment, once.
    pub(super) fn new(environment: &Environment, server: &[(String, String)]) -> Self {
        let pass: BTreeSet<String> = environment.pass.iter().cloned().collect();
        let mut fixed = BTreeMap::from([("PATH".to_owned(), environment.path.clone())]);
        for (name, value) in server {
            if pass.contains(name) && is_name(name) && hook(name).is_none() {
                fixed.insert(name.clone(), value.clone());
            }
        }
        fixed.extend(environment.set.iter().map(|(name, value)| (name.clone(), value.clone())));
        Self { pass, fixed }
    }

    /// Names that a command finds set, without what a caller adds.
    pub(super) fn names<'a>(&'a self, command: &'a Command) -> BTreeSet<&'a str> {
        self.fixed.keys().chain(command.environment.keys()).map(String::as_str).collect()
    }

    /// Judges what the caller asks for; `most` bounds its bytes.
    pub(super) fn check(&self, asked: &[(String, String)], most: usize) -> Result<(), Denial> {
        let mut bytes = 0usize;
        for (name, value) in asked {
            if !is_name(name) {
                return Err(denial(
                    "environment.name",
                    format!(
                        "Environment name {} is refused: use letters, digits and '_'.",
                        quoted(name.as_bytes())
                    ),
                ));
            }
            if value.contains('\0') {
                return Err(Denial {
                    rule: Cow::Borrowed("environment.nul"),
                    kind: RuleKind::Env,
                    reason: Reason::NulInArgument,
                    message: format!("Value of environment name '{name}' holds a NUL byte."),
                });
            }
            if let Some(why) = hook(name) {
                return Err(denial(
                    "environment.hook",
                    format!("Environment name {} is always refused: {why}.", quoted(name.as_bytes())),
                ));
            }
            if !self.pass.contains(name) {
                return Err(denial("environment.pass", not_passed(name, &self.pass)));
            }
            bytes = bytes.saturating_add(name.len()).saturating_add(value.len()).saturating_add(2);
        }
        if bytes > most {
            return Err(Denial {
                rule: Cow::Borrowed("limits.environment"),
                kind: RuleKind::Limit,
                reason: Reason::ArgvTooLarge,
                message: format!("Environment of {bytes} bytes exceeds the limit of {most}."),
            });
        }
        Ok(())
    }

    /// The complete environment, one entry a name, sorted by name.
    pub(super) fn effective<'a>(
        &'a self,
        command: &'a Command,
        asked: &'a [(String, String)],
    ) -> BTreeMap<&'a str, &'a str> {
        let asked = asked.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let kept = self.fixed.iter().chain(&command.environment);
        kept.map(|(name, value)| (name.as_str(), value.as_str())).chain(asked).collect()
    }
}

fn denial(rule: &'static str, message: String) -> Denial {
    Denial { rule: Cow::Borrowed(rule), kind: RuleKind::Env, reason: Reason::EnvNotAllowed, message }
}

fn not_passed(name: &str, pass: &BTreeSet<String>) -> String {
    let allowed: Vec<&str> = pass.iter().map(String::as_str).collect();
    let allowed = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
    format!("Environment name {} may not be set. Allowed: {allowed}", quoted(name.as_bytes()))
}

/// Why this name is never taken over, if it is one of the hooks.
fn hook(name: &str) -> Option<&'static str> {
    HOOKS.iter().find(|(pattern, _)| fits(pattern.as_bytes(), name.as_bytes())).map(|(_, why)| *why)
}

/// `*` in the pattern stands for any characters, also none.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => {
            (0..=name.len()).any(|skip| name.get(skip..).is_some_and(|tail| fits(rest, tail)))
        }
        Some((byte, rest)) => {
            name.split_first().is_some_and(|(first, tail)| first == byte && fits(rest, tail))
        }
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first == b'_' || first.is_ascii_alphabetic())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;

//! What a record does not say of an argument vector, and whether that could have changed a verdict.
//!
//! Purpose: an argument that was redacted or cut is judged with substitutes in its place. Where the verdict is the
//! same for all of them and for a reason that stands elsewhere it is taken; where not, it is undecidable. Pure.

use crate::audit::reading::Record;
use crate::policy::{Denial, Policy, RuleKind};

/// What a value could be that rules care about: a plain word, options, paths that leave the workspace, an
/// assignment, a list, a command, nothing.
const SUBSTITUTES: [&str; 10] =
    ["x", "--", "-x", "--exec=x", "/etc/shadow", "../../../x", "a=b", "a,b", "@x;e x", ""];

/// The arguments of a record, with the places that are not known.
#[derive(Debug)]
pub(super) struct Arguments {
    words: Vec<String>,
    unknown: Vec<bool>,
    /// Where whole arguments were left out.
    left_out: Option<usize>,
}

/// What a policy says of arguments that are not all known.
#[derive(Debug)]
pub(super) enum Outcome<T> {
    /// The same whatever they are.
    Decided(T),
    /// It depends on them.
    Undecidable,
}

impl Arguments {
    pub(super) fn of(record: &Record) -> Self {
        let words: Vec<String> = record.words("argv").map(str::to_owned).collect();
        let cut = record.flag("argv_truncated");
        let redacted = record.number("redaction_count").is_some();
        // Bytes that are no text stand as %XX, and cannot be told from a text that reads so.
        let bytes = record.flag("argv_unicode_risk");
        let unknown = |word: &String| {
            redacted && word.contains("[REDACTED")
                || cut && word.contains("…[+")
                || bytes && word.contains('%')
        };
        let unknown = words.iter().map(unknown).collect();
        let left_out =
            words.iter().position(|word| cut && word.contains("…[+") && word.contains(" arguments]…"));
        Self { words, unknown, left_out }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Judges by `judge`, as often as it takes.
    pub(super) fn judge<T: PartialEq>(
        &self,
        policy: &Policy,
        judge: impl Fn(&[&[u8]]) -> (T, Option<Denial>),
    ) -> Outcome<(T, Option<Denial>)> {
        let words: Vec<&[u8]> = self.words.iter().map(|word| word.as_bytes()).collect();
        let first = judge(&words);
        if !self.unknown.contains(&true) {
            return Outcome::Decided(first);
        }
        let settled = first.1.as_ref().is_some_and(|denial| self.is_elsewhere(denial));
        if self.unknown.first() == Some(&true) || (self.left_out.is_some() && !settled) {
            return Outcome::Undecidable;
        }
        // A pattern of the operator may be about any text at all.
        let name = self.words.first().map_or("", String::as_str);
        let config = policy.config();
        let patterns = config.commands.get(name).is_some_and(|command| command.argument_rules.has_patterns());
        if patterns && config.argument_rules && !settled {
            return Outcome::Undecidable;
        }
        for substitute in SUBSTITUTES {
            let words: Vec<String> = self.substituted(substitute);
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let other = judge(&words);
            let elsewhere = other.1.as_ref().is_none_or(|denial| self.is_elsewhere(denial));
            if other.0 != first.0 || !elsewhere {
                return Outcome::Undecidable;
            }
        }
        Outcome::Decided(first)
    }

    /// Whether a refusal is about what is known.
    fn is_elsewhere(&self, denial: &Denial) -> bool {
        match (denial.kind, denial.at) {
            (RuleKind::Allow | RuleKind::AllowPattern | RuleKind::Cwd | RuleKind::Env, _) => true,
            (RuleKind::BuiltinDeny, _) if denial.layer() == "name" => true,
            (_, Some(at)) => {
                self.unknown.get(at) == Some(&false) && self.left_out.is_none_or(|left_out| at < left_out)
            }
            (_, None) => false,
        }
    }

    fn substituted(&self, substitute: &str) -> Vec<String> {
        let each = self.words.iter().zip(&self.unknown);
        each.map(|(word, unknown)| if *unknown { replaced(word, substitute) } else { word.clone() }).collect()
    }
}

/// `--password=[REDACTED]` and `head…[+12B]…tail` with another text in place of the mark.
fn replaced(word: &str, substitute: &str) -> String {
    let mut out = String::new();
    let mut rest = word;
    loop {
        let marks = [("[REDACTED", "]"), ("…[+", "]…")];
        let found = marks.iter().filter_map(|(begin, end)| {
            let from = rest.find(begin)?;
            let length = rest.get(from..)?.find(end)?.checked_add(end.len())?;
            Some((from, from + length))
        });
        let Some((from, to)) = found.min() else { break };
        out.push_str(rest.get(..from).unwrap_or(""));
        out.push_str(substitute);
        rest = rest.get(to..).unwrap_or("");
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_replaced_and_the_rest_stays() {
        assert_eq!(replaced("--password=[REDACTED]", "-x"), "--password=-x");
        assert_eq!(replaced("a[REDACTED:url]b…[+12B]…c", "X"), "aXbXc");
        assert_eq!(replaced("[REDACTED", "X"), "[REDACTED");
    }
}

//! Values that are known to be secret: those of variables whose names say so.
//!
//! Purpose: a line may put the value of a variable into an argument (`$API_TOKEN`), where no rule would know
//! it again. Pure. Inputs: names and values of variables. Made by `appliance/line`, applied by `mod.rs`.

use std::fmt;
use std::sync::Arc;

use super::names::{Kind, harmless, kind};

/// Id of the rule in records.
pub(super) const CONFIGURED: &str = "configured";
/// Shorter values stand in too many words by chance.
const SHORTEST: usize = 4;

/// Values that must not stand in records. Shared by all clones.
#[derive(Clone, Default)]
pub struct Secrets(Arc<[String]>);

impl fmt::Debug for Secrets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// The values of those variables whose names stand for secrets.
    pub fn of<'v>(variables: impl Iterator<Item = (&'v String, &'v String)>) -> Self {
        let secret = |(name, value): &(&String, &String)| {
            let kind = kind(name);
            kind != Kind::Plain && value.len() >= SHORTEST && !harmless(kind, value)
        };
        let mut values: Vec<String> = variables.filter(secret).map(|(_, value)| value.clone()).collect();
        // A value that holds another one goes first.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self(values.into())
    }

    /// `text` without them, and how often one stood in it; absent: none did.
    pub(super) fn hidden_in(&self, text: &str) -> Option<(String, u64)> {
        let mut hidden: Option<String> = None;
        let mut count = 0_u64;
        for value in self.0.iter() {
            let before = hidden.as_deref().unwrap_or(text);
            let found = before.matches(value.as_str()).count();
            if found > 0 {
                count = count.saturating_add(found as u64);
                hidden = Some(before.replace(value.as_str(), "[REDACTED:configured]"));
            }
        }
        hidden.map(|hidden| (hidden, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_names_are_hidden_wherever_they_stand() {
        let variables = [
            ("API_TOKEN", "s3cr3t-one"),
            ("TOKEN_LONG", "s3cr3t-one-more"),
            ("LANG", "C.UTF-8"),
            ("PASSWORD", "abc"),
            ("MY_KEY_FILE", "/etc/key"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let secrets = Secrets::of(variables.iter().map(|(name, value)| (name, value)));
        let (hidden, count) =
            secrets.hidden_in("X: s3cr3t-one-more, s3cr3t-one; C.UTF-8 /etc/key abc").unwrap();
        assert_eq!(hidden, "X: [REDACTED:configured], [REDACTED:configured]; C.UTF-8 /etc/key abc");
        assert_eq!(count, 2);
        assert!(secrets.hidden_in("nothing").is_none());
        assert!(!format!("{secrets:?}").contains("s3cr3t"));
    }
}

//! What a grammar says about one option or subcommand by itself.
//!
//! Purpose: rules of a policy file that add nothing, or that mean something else than their author
//! thought, are found before they are relied on. Decides nothing. Called by `cli/check`.

use std::sync::Arc;

use super::library::Grammar;
use super::model::{Node, Opt, Rule, bare};

/// How a name stands in a grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing<'g> {
    /// It knows the name, and allows it at least somewhere.
    Known,
    /// It knows the name and refuses it wherever it may stand: the id of the rule.
    Refused(&'g str),
    /// It does not know the name.
    Unknown,
}

impl Grammar {
    /// How an option (`-o`, `--output`, `-exec`) stands where a command may reach it: everywhere, or in
    /// the program's own options and those `subcommands`.
    #[must_use]
    pub fn option(&self, name: &str, subcommands: Option<&[String]>) -> Standing<'_> {
        let mut standing = Standing::Unknown;
        for node in self.reachable(subcommands).into_iter().filter(|node| node.refused.is_none()) {
            let shorts = node.table.shorts.iter().flatten();
            let own = shorts.chain(node.table.longs.iter().map(|long| &long.option));
            for option in own.filter(|option| option.is_named(name)) {
                match refused(option) {
                    Some(rule) if standing == Standing::Unknown => standing = Standing::Refused(&rule.id),
                    Some(_) => {}
                    None => return Standing::Known,
                }
            }
        }
        standing
    }

    /// Whether the grammar has a single spelling of this option, short or long, beside options that have the
    /// other kind alone: one of those may be the same option.
    #[must_use]
    pub fn is_spelled_once(&self, name: &str, subcommands: Option<&[String]>) -> bool {
        let letter = |option: &Opt| option.names.iter().any(|own| bare(own).len() == 1);
        self.reachable(subcommands).into_iter().any(|node| {
            let all = || {
                let longs = node.table.longs.iter().map(|long| &long.option);
                node.table.shorts.iter().flatten().chain(longs).filter(|option| option.names.len() == 1)
            };
            let mut own = all().filter(|option| option.is_named(name));
            own.any(|own| all().any(|other| letter(other) != letter(own)))
        })
    }

    /// How a subcommand stands. A program without subcommands knows none and refuses none.
    #[must_use]
    pub fn subcommand(&self, name: &str) -> Standing<'_> {
        let mut standing = Standing::Unknown;
        for tree in self.trees() {
            // The entry for all others is no knowledge about this one.
            let Some(node) = tree.children.get(name.as_bytes()) else { continue };
            match &node.refused {
                Some(rule) => return Standing::Refused(&rule.id),
                None => standing = Standing::Known,
            }
        }
        standing
    }

    /// The program's own node and its other readings.
    fn trees(&self) -> Vec<&Node> {
        let mut found = vec![&self.root];
        let mut at = 0;
        while let Some(node) = found.get(at).copied() {
            found.extend(node.also.iter().map(|other| &**other));
            at += 1;
        }
        found
    }

    fn reachable(&self, subcommands: Option<&[String]>) -> Vec<&Node> {
        let mut found = self.trees();
        let tops = found.len();
        let wanted =
            |name: &[u8]| subcommands.is_none_or(|list| list.iter().any(|own| own.as_bytes() == name));
        let mut at = 0;
        while let Some(node) = found.get(at).copied() {
            let top = at < tops;
            let children = node.children.iter().filter(|(name, _)| !top || wanted(name));
            found.extend(children.map(|(_, child)| &**child));
            found.extend(node.any_child.iter().filter(|_| subcommands.is_none()).map(|child| &**child));
            at += 1;
        }
        found
    }
}

/// The rule that refuses an option whatever its value and its company are.
fn refused(option: &Opt) -> Option<&Arc<Rule>> {
    option.rules.iter().find(|rule| rule.value.is_none() && rule.except.is_none() && rule.unless == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::grammar::program;

    #[test]
    fn options_stand_as_the_rules_say() {
        let sort = program(b"sort").unwrap().unwrap();
        assert_eq!(sort.option("--output", None), Standing::Refused("sort.output"));
        assert_eq!(sort.option("-o", None), Standing::Refused("sort.output"));
        assert_eq!(sort.option("-k", None), Standing::Known);
        assert_eq!(sort.option("--no-such", None), Standing::Unknown);
        assert_eq!(sort.subcommand("log"), Standing::Unknown);
    }

    #[test]
    fn subcommands_narrow_where_an_option_may_stand() {
        let git = program(b"git").unwrap().unwrap();
        let only = |name: &str| vec![name.to_owned()];
        let grep = Standing::Refused("git.grep.open-files-in-pager");
        assert_eq!(git.option("--open-files-in-pager", Some(&only("grep"))), grep);
        assert_eq!(git.option("--open-files-in-pager", Some(&only("log"))), Standing::Unknown);
        assert_eq!(git.subcommand("log"), Standing::Known);
        assert_eq!(git.subcommand("no-such-thing"), Standing::Unknown);
        assert!(matches!(git.subcommand("difftool"), Standing::Refused(_)));
    }
}

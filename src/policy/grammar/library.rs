//! A program file, loaded: the face of this room.
//!
//! Purpose: [`Grammar`] is what `judge` asks, what `check` and the rule table print, and what tests run
//! the examples of. Inputs: the text of one file. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::compile;
use super::dialect::Dialect;
use super::event::Finding;
use super::model::{Arity, Node, Rule};
use super::rules::{self, Judged, Operator};
use super::schema;
use crate::config::hooks;

/// How one program reads its arguments, and what is refused among them.
#[derive(Debug)]
pub struct Grammar {
    program: String,
    names: Vec<String>,
    delegated: Option<String>,
    environment: BTreeMap<String, String>,
    helpers: Vec<String>,
    examples: Vec<Example>,
    rules: Vec<Arc<Rule>>,
    pub(super) root: Node,
}

/// A command line of a program file with its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// As written.
    pub line: String,
    /// Whether it is allowed.
    pub allowed: bool,
}

/// A rule in words, for documents.
#[derive(Debug, Clone, Copy)]
pub struct RuleText<'g> {
    /// Stable id, such as `sort.output`.
    pub id: &'g str,
    /// What is refused, as the program's manual spells it: `-o/--output`, `operand 2`.
    pub about: &'g str,
    /// Why, as a clause.
    pub reason: &'g str,
    /// What to do instead, as a clause.
    pub instead: Option<&'g str>,
}

/// An option that the file declares, for tools that make or complete command lines.
#[derive(Debug, Clone)]
pub struct OptionText<'g> {
    /// Subcommands that lead to it; empty for an option of the program itself.
    pub words: Vec<&'g str>,
    /// As the manual spells it: `-o`, `--output`.
    pub names: &'g [String],
    /// Whether it takes a value.
    pub takes: Takes,
    /// Whether a rule may refuse it, or its subcommand.
    pub refused: bool,
}

/// How an option takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// It has none.
    Nothing,
    /// Attached, or the next element.
    Value,
    /// Attached only, and it may be left out.
    Attached,
}

impl Grammar {
    /// Loads a program file.
    ///
    /// # Errors
    /// When it is not TOML of the expected form, or contradicts itself: what and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: schema::Node = toml::from_str(text).map_err(|error| error.to_string())?;
        let program = file.program.clone().ok_or("the file names no program; add program = \"NAME\"")?;
        if !file.aliases.is_empty() {
            return Err(format!("{program}: aliases belong to subcommands; use names"));
        }
        if let Some((name, _)) = file.set.iter().find(|(_, set)| compile::more_than_options(set)) {
            return Err(format!("{program}: set '{name}' may hold options, texts and rules only"));
        }
        if let Some((name, what)) = file.environment.iter().find_map(|(name, value)| bad_preset(name, value))
        {
            return Err(format!("{program}: environment name '{}' {what}", name.escape_debug()));
        }
        let mut rules = Vec::new();
        let root = compile::node(&program, &file, &file.set, &mut rules)?;
        let examples = |lines: &[String], allowed| {
            lines.iter().map(|line| Example { line: line.clone(), allowed }).collect::<Vec<_>>()
        };
        let mut all = examples(&file.examples.allow, true);
        all.extend(examples(&file.examples.deny, false));
        let mut names = file.names;
        if !names.contains(&program) {
            names.insert(0, program.clone());
        }
        Ok(Self {
            names,
            delegated: file.delegated,
            environment: file.environment,
            helpers: file.helpers,
            examples: all,
            rules,
            root,
            program,
        })
    }

    /// Judges the arguments, the program's name left out.
    ///
    /// # Errors
    /// The first argument that a rule refuses.
    pub fn judge(&self, args: &[&[u8]], operator: &Operator<'_>) -> Result<Judged, Finding> {
        rules::judge(&self.root, args, operator)
    }

    /// Canonical name.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Base names that the file is about; the canonical one is among them.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Set when what the program starts or writes is left to the kernel profile: why.
    #[must_use]
    pub fn delegated(&self) -> Option<&str> {
        self.delegated.as_deref()
    }

    /// Environment that makes the program harmless: what a command of it gets, unless the policy file sets
    /// the same name for that command.
    #[must_use]
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// Ids of the program, and of those of its subcommands and other grammars, that refuse options they do
    /// not know.
    #[must_use]
    pub fn strict(&self) -> BTreeSet<&str> {
        let strict = |node: &&Node| node.deny_unknown || node.deny_unknown_short;
        self.nodes(None).into_iter().filter(strict).map(|node| node.id.as_str()).collect()
    }

    /// Whether every element is an operand.
    pub(in crate::policy) fn is_plain(&self) -> bool {
        self.root.dialects.iter().all(|dialect| *dialect == Dialect::Plain)
    }

    /// Names of the two lists that are one option here, or in one of these subcommands.
    pub(in crate::policy) fn same_option<'n>(
        &self,
        subcommands: Option<&[String]>,
        ones: &'n [String],
        others: &'n [String],
    ) -> Option<(&'n str, &'n str)> {
        for node in self.nodes(subcommands) {
            for option in node.table.options() {
                let named = |names: &'n [String]| names.iter().find(|name| option.is_named(name));
                if let Some((one, other)) = named(ones).zip(named(others)) {
                    return Some((one, other));
                }
            }
        }
        None
    }

    /// The program, its other grammars and its subcommands, perhaps of these names only.
    fn nodes(&self, subcommands: Option<&[String]>) -> Vec<&Node> {
        let chosen =
            |name: &[u8]| subcommands.is_none_or(|names| names.iter().any(|own| own.as_bytes() == name));
        let mut found = vec![&self.root];
        let mut at = 0;
        while let Some(node) = found.get(at).copied() {
            let children = node.children.iter().filter(|(name, _)| at > 0 || chosen(name));
            let below = node.also.iter().chain(children.map(|(_, child)| child)).chain(&node.any_child);
            found.extend(below.map(|node| &**node));
            at = at.saturating_add(1);
        }
        found
    }

    /// Programs that it starts for its ordinary work. They are words for the operator, no grant: a program
    /// file must not widen a kernel profile, so that only `execute` of the policy file does.
    #[must_use]
    pub fn helpers(&self) -> &[String] {
        &self.helpers
    }

    /// Command lines with their verdict.
    #[must_use]
    pub fn examples(&self) -> &[Example] {
        &self.examples
    }

    /// Whether it reads subcommands by itself.
    #[must_use]
    pub fn has_subcommands(&self) -> bool {
        self.root.is_tree()
    }

    /// Every option of the file, subcommand by subcommand and alias by alias.
    #[must_use]
    pub fn options(&self) -> Vec<OptionText<'_>> {
        let mut found = Vec::new();
        let mut nodes = vec![(Vec::new(), &self.root)];
        while let Some((words, node)) = nodes.pop() {
            let mut own = BTreeMap::new();
            let longs = node.table.longs.iter().map(|long| &long.option);
            for option in node.table.shorts.iter().flatten().chain(longs) {
                own.insert(Arc::as_ptr(option), option);
            }
            let first = found.len();
            found.extend(own.into_values().map(|option| OptionText {
                words: words.clone(),
                names: &option.names,
                takes: match option.arity {
                    Arity::Flag => Takes::Nothing,
                    Arity::Required => Takes::Value,
                    Arity::Optional => Takes::Attached,
                },
                refused: node.refused.is_some() || !option.rules.is_empty(),
            }));
            // The order of addresses is none.
            let (_, own) = found.split_at_mut(first);
            own.sort_by(|one, other| one.names.cmp(other.names));
            nodes.extend(node.also.iter().map(|other| (words.clone(), &**other)));
            for (name, child) in &node.children {
                let mut below = words.clone();
                below.extend(std::str::from_utf8(name));
                nodes.push((below, child));
            }
        }
        found
    }

    /// Every rule of the file.
    pub fn rules(&self) -> impl Iterator<Item = RuleText<'_>> {
        self.rules.iter().map(|rule| RuleText {
            id: &rule.id,
            about: &rule.about,
            reason: &rule.reason,
            instead: rule.instead.as_deref(),
        })
    }
}

/// What is wrong with a preset, if anything is.
fn bad_preset<'n>(name: &'n str, value: &str) -> Option<(&'n str, &'static str)> {
    let what = if !hooks::is_env_name(name) {
        "is no name: use letters, digits and '_'"
    } else if name == "PATH" {
        "has its own key in the policy file: environment.path"
    } else if value.contains('\0') {
        "has a value with a NUL byte"
    } else {
        hooks::refused(name, true)?
    };
    Some((name, what))
}

//! What a program file may say: the serde types of `policy/programs/*.toml`.
//!
//! Purpose: one file describes how a program reads its arguments and which of them are refused.
//! Unknown keys are errors. Inputs: TOML text. Read by `compile` only; nothing else sees these types.
//!
//! An option is written as `NAME[|NAME…][=|=?]`: `=` takes a value, `=?` only an attached one. A name
//! of one letter is a short option: `"output|o="` is `-o FILE` and `--output FILE`. `=#` and `=#?` take a
//! number and nothing else (`perl`). `=2` takes two elements, the second of which is text (`jq --arg`).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::dialect::Dialect;
use super::text::TextKind;

/// A program, a subcommand of one, or a set of options that several subcommands share.
///
/// `program`, `names`, `delegated`, `set`, `environment`, `helpers` and `examples` belong to the file
/// as a whole, and `aliases` to subcommands; elsewhere they are errors.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    /// Canonical name: rule ids begin with it.
    pub(super) program: Option<String>,
    /// Base names that this file is about.
    #[serde(default)]
    pub(super) names: Vec<String>,
    /// Other names of a subcommand.
    #[serde(default)]
    pub(super) aliases: Vec<String>,
    /// Ways to read the arguments. Any one that reaches a refused option refuses. A subcommand
    /// without any is read as `gnu`.
    #[serde(default)]
    pub(super) dialects: Vec<Dialect>,
    /// Set when what the arguments start is delegated to the kernel profile on purpose: why.
    pub(super) delegated: Option<String>,
    /// Short options without a value.
    #[serde(default)]
    pub(super) flags: String,
    /// Short options with a value, attached or as the next element.
    #[serde(default)]
    pub(super) values: String,
    /// Short options that take an attached value only.
    #[serde(default)]
    pub(super) optional: String,
    /// Options with a long name.
    #[serde(default)]
    pub(super) long: Vec<String>,
    /// Options that passes before the last one read, pass by pass (`perl`).
    #[serde(default)]
    pub(super) passes: Vec<Vec<String>>,
    /// What happens to options that are not named here.
    #[serde(default)]
    pub(super) unknown: Unknown,
    /// The same for short options; absent means as `unknown`.
    pub(super) unknown_short: Option<Unknown>,
    /// Refused options and operands.
    #[serde(default)]
    pub(super) deny: Vec<Deny>,
    /// Values that are program text.
    #[serde(default)]
    pub(super) text: Vec<Text>,
    /// Values that are not file names.
    #[serde(default)]
    pub(super) data: Data,
    /// Operands that are a command of their own.
    pub(super) command: Option<Command>,
    /// Names of `set`s whose options and refusals hold here, too.
    #[serde(default)]
    pub(super) sets: Vec<String>,
    /// Shared sets of options, by name.
    #[serde(default)]
    pub(super) set: BTreeMap<String, Node>,
    /// Subcommands by name; `*` stands for every name without an entry.
    #[serde(default)]
    pub(super) subcommand: BTreeMap<String, Node>,
    /// Other grammars that the same arguments are read under, by name, for programs that share a name and
    /// not their options. Any one that reaches a refused option refuses.
    #[serde(default)]
    pub(super) also: BTreeMap<String, Node>,
    /// Environment that makes the program harmless: every command of it gets these, unless the policy file
    /// sets the same name for the command.
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// Programs that it starts for its ordinary work. No grant: only `execute` of the policy file is one.
    #[serde(default)]
    pub(super) helpers: Vec<String>,
    /// Command lines with their verdict, checked by a test.
    #[serde(default)]
    pub(super) examples: Examples,
}

/// Verdict for what the grammar does not know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unknown {
    #[default]
    Allow,
    Deny,
}

/// One rule: options or an operand that are refused. With neither, the subcommand itself is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Deny {
    /// Last part of the rule id.
    pub(super) id: String,
    /// Refused options, as `-o`, `--output`, `-exec` or `of=`; each must be declared.
    #[serde(default)]
    pub(super) options: Vec<String>,
    /// Refused operand.
    pub(super) operand: Option<Position>,
    /// Refused only when the value (or the operand) matches. A missing value counts as empty.
    pub(super) value: Option<String>,
    /// Not refused when the value (or the operand) matches.
    pub(super) except: Option<String>,
    /// Not refused when one of these options stands anywhere in the arguments of the node.
    #[serde(default)]
    pub(super) unless: Vec<String>,
    /// Why, as a clause: `writes a file`.
    pub(super) reason: String,
    /// What to do instead, as a clause: `use standard output`.
    pub(super) instead: Option<String>,
}

/// Which operand, counted from 1: `2`, `"2.."` (from the second on) or `"any"`. `"element"` is every
/// element after the program's name, options and their values included.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Position {
    Exact(usize),
    Words(String),
}

/// A value that an analyser reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    pub(super) kind: TextKind,
    /// Options whose value is program text.
    #[serde(default)]
    pub(super) options: Vec<String>,
    /// Operand that is program text.
    pub(super) operand: Option<usize>,
    /// Options after which no operand is program text (`awk -f FILE`).
    #[serde(default)]
    pub(super) unless: Vec<String>,
    /// What the analyser may find.
    pub(super) rules: Vec<TextRule>,
}

/// Values that the path rule leaves alone: patterns, messages, formats. Program text is among them anyway.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Data {
    /// Operands.
    pub(super) operands: Option<Position>,
    /// Operands are data only when none of these options stands (`grep -e PATTERN FILE`).
    #[serde(default)]
    pub(super) unless: Vec<String>,
    /// Options.
    #[serde(default)]
    pub(super) options: Vec<String>,
}

/// A finding of an analyser, in words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextRule {
    pub(super) id: String,
    pub(super) reason: String,
    pub(super) instead: Option<String>,
}

/// A command among the operands.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Command {
    /// Operand that names it, counted from 1.
    pub(super) operand: usize,
}

/// Command lines, split at blanks and quotes as a shell would.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Examples {
    #[serde(default)]
    pub(super) allow: Vec<String>,
    #[serde(default)]
    pub(super) deny: Vec<String>,
}

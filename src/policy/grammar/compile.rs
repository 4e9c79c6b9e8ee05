//! From a program file to its tables.
//!
//! Purpose: checks everything that can be wrong in a file when it is loaded, so that walking cannot
//! fail: names that stand twice, refusals of options that are not declared, patterns that do not
//! compile. Inputs: `schema` types. Called by `library`.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::bytes::Regex;

use super::about::{about, text_about};
use super::dialect::Dialect;
use super::model::{self, Arity, DataOperands, LongName, Node, OperandRule, Opt, Rule, Table, bare};
use super::schema::{self, Position, Unknown};

/// How the manual of a program spells its options.
#[derive(Debug, Clone, Copy)]
enum Style {
    /// `-o`, `--output`.
    Dashes,
    /// `-exec`.
    Words,
    /// `of=`.
    Keys,
}

impl Style {
    fn of(dialects: &[Dialect]) -> Self {
        match dialects.first() {
            Some(Dialect::Find | Dialect::LongOnly) => Self::Words,
            Some(Dialect::KeyValue) => Self::Keys,
            _ => Self::Dashes,
        }
    }

    fn spell(self, name: &str, one_letter: bool) -> String {
        match self {
            Self::Keys => format!("{name}="),
            Self::Dashes if !one_letter => format!("--{name}"),
            Self::Dashes | Self::Words => format!("-{name}"),
        }
    }
}

/// Options while they are collected: each by the names it was declared with.
#[derive(Default)]
pub(super) struct Options {
    list: Vec<Opt>,
    /// Index into `list` by bare name; one letter is a short option.
    by_name: BTreeMap<String, usize>,
    /// How many bits of `unless` are given out.
    taken: u32,
}

impl Options {
    /// Declares the options of `source`. Names that another source has already declared stay as they
    /// are; a name that stands twice in one source is an error.
    fn declare(&mut self, source: &schema::Node, style: Style) -> Result<(), String> {
        let mut own = Options::default();
        for (letters, arity) in [
            (&source.flags, Arity::Flag),
            (&source.values, Arity::Required),
            (&source.optional, Arity::Optional),
        ] {
            for letter in letters.chars() {
                own.add(&[&letter.to_string()], arity, style)?;
            }
        }
        for spec in &source.long {
            let plain = spec.replace("=#", "=");
            let number = plain.len() < spec.len();
            let pair = plain.ends_with("=2");
            let plain = plain.replace("=2", "=");
            let spec = &plain;
            let (names, arity) = match spec.strip_suffix("=?") {
                Some(names) => (names, Arity::Optional),
                None => spec.strip_suffix('=').map_or((spec.as_str(), Arity::Flag), |n| (n, Arity::Required)),
            };
            own.add(&names.split('|').collect::<Vec<_>>(), arity, style)?;
            if let Some(option) = own.list.last_mut() {
                option.number = number;
                option.pair = pair;
            }
        }
        for option in own.list {
            let fresh = |name: &String| !self.by_name.contains_key(bare(name));
            if !option.names.iter().all(fresh) {
                continue;
            }
            for name in &option.names {
                self.by_name.insert(bare(name).to_owned(), self.list.len());
            }
            self.list.push(option);
        }
        Ok(())
    }

    fn add(&mut self, names: &[&str], arity: Arity, style: Style) -> Result<(), String> {
        let mut spelled = Vec::new();
        for name in names {
            let one = name.chars().count() == 1;
            if name.is_empty()
                || name.contains(['=', ' '])
                || (one && !name.is_ascii())
                || name.starts_with('-')
            {
                return Err(format!("option '{name}' is not a name; write it without dashes"));
            }
            if self.by_name.insert((*name).to_owned(), self.list.len()).is_some() {
                return Err(format!("option '{name}' stands twice; keep one of them"));
            }
            spelled.push(style.spell(name, one));
        }
        self.list.push(Opt {
            names: spelled,
            arity,
            number: false,
            pair: false,
            pass: None,
            rules: Vec::new(),
            text: None,
            data: false,
            bit: 0,
        });
        Ok(())
    }

    /// Every name of the option behind `name`, short ones first; `name` itself if it is not declared.
    pub(super) fn names(&self, name: &str) -> Vec<String> {
        let option = self.by_name.get(bare(name)).and_then(|index| self.list.get(*index));
        let mut names = option.map_or_else(|| vec![name.to_owned()], |option| option.names.clone());
        names.sort_by_key(String::len);
        names
    }

    /// The declared option behind a name of a rule.
    fn named(&mut self, name: &str, rule: &str) -> Result<&mut Opt, String> {
        let index = self.by_name.get(bare(name)).copied();
        index
            .and_then(|index| self.list.get_mut(index))
            .ok_or_else(|| format!("rule '{rule}' names option '{name}', which is not declared"))
    }

    /// Bits of the options of `unless`, given out as they are asked for.
    fn bits(&mut self, names: &[String], rule: &str) -> Result<u64, String> {
        let mut bits = 0;
        for name in names {
            let taken = self.taken;
            let option = self.named(name, rule)?;
            if option.bit == 0 {
                option.bit = 1u64
                    .checked_shl(taken)
                    .ok_or_else(|| format!("rule '{rule}': more than 64 options stand in `unless`"))?;
                bits |= option.bit;
                self.taken = taken.saturating_add(1);
            } else {
                bits |= option.bit;
            }
        }
        Ok(bits)
    }

    fn table(self) -> Table {
        let mut shorts: Vec<Option<Arc<Opt>>> = vec![None; 256];
        let mut longs = Vec::new();
        for option in self.list {
            let option = Arc::new(option);
            for name in &option.names {
                match bare(name).as_bytes() {
                    [letter] => {
                        if let Some(place) = shorts.get_mut(usize::from(*letter)) {
                            *place = Some(Arc::clone(&option));
                        }
                    }
                    name => longs.push(LongName { name: name.to_vec(), option: Arc::clone(&option) }),
                }
            }
        }
        longs.sort_by(|one, other| one.name.cmp(&other.name));
        Table { shorts, longs }
    }
}

/// Compiles one node and what is below it. `id` begins its rule ids.
pub(super) fn node(
    id: &str,
    source: &schema::Node,
    shared: &BTreeMap<String, schema::Node>,
    rules: &mut Vec<Arc<Rule>>,
) -> Result<Node, String> {
    let dialects = if source.dialects.is_empty() { vec![Dialect::Gnu] } else { source.dialects.clone() };
    let style = Style::of(&dialects);
    let mut sources = vec![source];
    for name in &source.sets {
        sources.push(shared.get(name).ok_or_else(|| format!("{id}: set '{name}' is not in the file"))?);
    }
    let mut options = Options::default();
    let mut operands = Vec::new();
    let mut elements = Vec::new();
    let mut operand_text = None;
    let mut data = Vec::new();
    let mut refused = None;
    for part in &sources {
        options.declare(part, style).map_err(|what| format!("{id}: {what}"))?;
    }
    for (pass, names) in source.passes.iter().enumerate() {
        for name in names {
            options.named(name, &format!("{id}.passes"))?.pass = Some(pass);
        }
    }
    for part in &sources {
        for deny in &part.deny {
            let unless = options.bits(&deny.unless, &format!("{id}.{}", deny.id))?;
            let about = about(id, deny, &options);
            let rule = Arc::new(Rule { unless, about, ..denial(id, deny)? });
            rules.push(Arc::clone(&rule));
            match (deny.options.is_empty(), &deny.operand) {
                (false, Some(_)) => {
                    return Err(format!("rule '{}' must name either options or an operand", rule.id));
                }
                (true, None) if source.program.is_some() || rule.value.is_some() || rule.except.is_some() => {
                    return Err(format!("rule '{}' must name options or an operand", rule.id));
                }
                (true, None) => refused = Some(Arc::clone(&rule)),
                _ => {}
            }
            for name in &deny.options {
                let option = options.named(name, &rule.id)?;
                if !option.rules.iter().any(|own| Arc::ptr_eq(own, &rule)) {
                    option.rules.push(Arc::clone(&rule));
                }
            }
            if let Some(Position::Words(words)) = &deny.operand
                && words == "element"
            {
                if source.program.is_none() || rule.unless != 0 {
                    return Err(format!("rule '{}' about elements belongs to the program alone", rule.id));
                }
                elements.push(rule);
                continue;
            }
            if let Some(position) = &deny.operand {
                let (from, to) = range(position).ok_or_else(|| {
                    format!(
                        "rule '{}': operand must be a number from 1, \"N..\", \"any\" or \"element\"",
                        rule.id
                    )
                })?;
                operands.push(OperandRule { from, to, rule });
            }
        }
        data.extend(data_operands(id, &part.data, &mut options)?);
        for text in &part.text {
            let unless = options.bits(&text.unless, &format!("{id}.program-text"))?;
            let about = text_about(text, &options);
            let compiled = Arc::new(model::Text { unless, ..self::text(id, text, &about, rules) });
            for name in &text.options {
                options.named(name, &compiled.fallback)?.text = Some(Arc::clone(&compiled));
            }
            if let Some(position) = text.operand {
                let index = position.checked_sub(1).ok_or_else(|| format!("{id}: operands count from 1"))?;
                operand_text = Some((index, compiled));
            }
        }
    }
    let command = match &source.command {
        None => None,
        Some(_) if dialects.len() > 1 => {
            return Err(format!("{id}: a command among the operands needs exactly one dialect"));
        }
        Some(command) => {
            Some(command.operand.checked_sub(1).ok_or_else(|| format!("{id}: operands count from 1"))?)
        }
    };
    let mut also = Vec::new();
    for (name, other) in &source.also {
        own_keys(id, name, other)?;
        also.push(Arc::new(node(&format!("{id}.{name}"), other, shared, rules)?));
    }
    let (children, any_child) = children(id, source, shared, rules)?;
    let deny_unknown = source.unknown == Unknown::Deny;
    Ok(Node {
        id: id.to_owned(),
        dialects,
        table: options.table(),
        operands,
        elements,
        data,
        operand_text,
        command,
        refused,
        passes: source.passes.len(),
        deny_unknown,
        also,
        deny_unknown_short: source.unknown_short.unwrap_or(source.unknown) == Unknown::Deny,
        children,
        any_child,
    })
}

/// Marks the options whose values are not file names, and answers which operands are not.
fn data_operands(
    id: &str,
    data: &schema::Data,
    options: &mut Options,
) -> Result<Option<DataOperands>, String> {
    let rule = format!("{id}.data");
    for name in &data.options {
        options.named(name, &rule)?.data = true;
    }
    let unless = options.bits(&data.unless, &rule)?;
    let Some(position) = &data.operands else {
        return if data.unless.is_empty() {
            Ok(None)
        } else {
            Err(format!("{id}: data.unless needs operands"))
        };
    };
    let (from, to) = range(position)
        .ok_or_else(|| format!("{id}: data.operands must be a number from 1, \"N..\" or \"any\""))?;
    Ok(Some(DataOperands { from, to, unless }))
}

/// Whether a node has keys that only the file as a whole may have.
fn file_keys(node: &schema::Node) -> bool {
    node.program.is_some()
        || node.delegated.is_some()
        || !(node.names.is_empty() && node.set.is_empty() && node.environment.is_empty())
        || !(node.helpers.is_empty() && node.examples.allow.is_empty() && node.examples.deny.is_empty())
}

/// A part of a file must not have them.
fn own_keys(id: &str, name: &str, part: &schema::Node) -> Result<(), String> {
    if file_keys(part) {
        return Err(format!("{id}: '{name}' has keys that belong to the whole file"));
    }
    Ok(())
}

/// Whether a shared set says more than options and rules, which nobody would read.
pub(super) fn more_than_options(set: &schema::Node) -> bool {
    file_keys(set)
        || !(set.aliases.is_empty() && set.dialects.is_empty() && set.sets.is_empty())
        || !set.subcommand.is_empty()
        || set.command.is_some()
        || set.unknown_short.is_some()
        || set.unknown != Unknown::Allow
}

type Children = (BTreeMap<Vec<u8>, Arc<Node>>, Option<Arc<Node>>);

fn children(
    id: &str,
    source: &schema::Node,
    shared: &BTreeMap<String, schema::Node>,
    rules: &mut Vec<Arc<Rule>>,
) -> Result<Children, String> {
    let mut by_name = BTreeMap::new();
    let mut any = None;
    for (name, child) in &source.subcommand {
        own_keys(id, name, child)?;
        if name == "*" {
            any = Some(Arc::new(node(id, child, shared, rules)?));
            continue;
        }
        let compiled = Arc::new(node(&format!("{id}.{name}"), child, shared, rules)?);
        for own in std::iter::once(name).chain(&child.aliases) {
            if by_name.insert(own.clone().into_bytes(), Arc::clone(&compiled)).is_some() {
                return Err(format!("{id}: subcommand '{own}' stands twice"));
            }
        }
    }
    Ok((by_name, any))
}

/// Refuses keys of the whole file in one of its nodes.
fn denial(id: &str, deny: &schema::Deny) -> Result<Rule, String> {
    let id = format!("{id}.{}", deny.id);
    let pattern = |text: &Option<String>| {
        text.as_deref()
            .map(|text| Regex::new(text).map_err(|error| format!("rule '{id}': {error}")))
            .transpose()
    };
    Ok(Rule {
        value: pattern(&deny.value)?,
        except: pattern(&deny.except)?,
        reason: deny.reason.clone(),
        instead: deny.instead.clone(),
        about: String::new(),
        unless: 0,
        id,
    })
}

fn text(id: &str, text: &schema::Text, about: &str, all: &mut Vec<Arc<Rule>>) -> model::Text {
    let mut rules = BTreeMap::new();
    for rule in &text.rules {
        let compiled = Arc::new(Rule {
            id: format!("{id}.{}", rule.id),
            about: about.to_owned(),
            reason: rule.reason.clone(),
            instead: rule.instead.clone(),
            value: None,
            except: None,
            unless: 0,
        });
        all.push(Arc::clone(&compiled));
        rules.insert(rule.id.clone(), compiled);
    }
    model::Text { kind: text.kind, rules, unless: 0, fallback: format!("{id}.program-text") }
}

/// First and last index, counted from 0.
fn range(position: &Position) -> Option<(usize, usize)> {
    match position {
        Position::Exact(number) => number.checked_sub(1).map(|index| (index, index)),
        Position::Words(words) if words == "any" => Some((0, usize::MAX)),
        Position::Words(words) => match words.strip_suffix("..")?.parse::<usize>() {
            Ok(number) => Some((number.checked_sub(1)?, usize::MAX)),
            Err(_) => None,
        },
    }
}

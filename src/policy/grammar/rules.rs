//! From the events of a walk to a refusal.
//!
//! Purpose: the only place that decides. It knows the rules of the program file and those of the
//! operator, and stops the walk at the first argument that one of them refuses. Allocates nothing for
//! arguments that are allowed. Called by `library` for `judge`.

use std::ops::ControlFlow;

use super::dialect::walk_all;
use super::event::{Event, Finding, Flow};
use super::model::{DataOperands, Node, OperandRule, Opt, Rule, Text, bare};
use super::operator::{Element, is_negation};
use crate::config::ArgumentRules;
use crate::policy::paths::{self, View};

/// What the policy file adds for a command.
#[derive(Debug, Clone, Copy, Default)]
pub struct Operator<'c> {
    /// Subcommands it narrows the program to.
    pub subcommands: Option<&'c [String]>,
    /// Options it refuses.
    pub deny_options: &'c [String],
    /// Refuses everything that the grammar does not know.
    pub known_only: bool,
    /// What file names may mean; absent when the kernel profile alone decides.
    pub view: Option<View<'c>>,
    /// What else it says of options, operands and values.
    pub rules: Option<&'c ArgumentRules>,
}

/// What an allowed argument vector holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Index of the argument from which on the arguments are a command of their own.
    pub command: Option<usize>,
}

/// Judges `args`, the program's name left out.
pub(super) fn judge(root: &Node, args: &[&[u8]], operator: &Operator<'_>) -> Result<Judged, Finding> {
    for rule in &root.elements {
        if let Some(at) = args.iter().position(|element| rule.refuses(Some(element)))
            && let ControlFlow::Break(finding) = found(rule, String::new(), at)
        {
            return Err(finding);
        }
    }
    let mut judge = Judge {
        root,
        node: root,
        args,
        operator,
        command: None,
        seen: 0,
        deferred: [None; DEFERRED],
        pending: None,
        outside: None,
        climbed: 0,
        entered: true,
    };
    let walked = walk_all(root, None, args, 0, &mut |event| judge.event(&event));
    let flow = match walked {
        ControlFlow::Continue(()) => judge.end_pass(),
        stopped => stopped,
    };
    match flow {
        ControlFlow::Break(finding) => Err(finding),
        ControlFlow::Continue(()) => Ok(Judged { command: judge.command }),
    }
}

/// Options that change the directory which later names are relative to, where they take a value.
const DIRECTORY: &[&str] = &["-C", "--directory"];

/// Places for refusals that wait for the end of a pass; more than these refuse at once.
const DEFERRED: usize = 4;

#[derive(Debug, Clone, Copy)]
struct Deferred<'g> {
    rule: &'g Rule,
    option: Option<&'g Opt>,
    at: usize,
}

struct Judge<'g, 'a, 'c> {
    /// What this pass reads the arguments under.
    root: &'g Node,
    node: &'g Node,
    args: &'c [&'a [u8]],
    operator: &'c Operator<'c>,
    command: Option<usize>,
    /// Bits of the options that were read since the node was entered.
    seen: u64,
    /// Refusals that an option further on may still lift.
    deferred: [Option<Deferred<'g>>; DEFERRED],
    /// The operand that is program text, if no option takes its place until the end.
    pending: Option<(&'g Text, &'a [u8], usize)>,
    /// The first operand that names a file outside, unless it is data at the end; and the bits of which any
    /// one says that some such operand is none.
    outside: Option<(u64, usize)>,
    /// How far options such as `-C ..` led above the working directory.
    climbed: usize,
    /// A subcommand was read in this pass.
    entered: bool,
}

impl<'g, 'a> Judge<'g, 'a, '_> {
    fn event(&mut self, event: &Event<'g, 'a>) -> Flow {
        match *event {
            Event::Enter { node, name, at } => self.enter(node, name, at),
            Event::Option { option, value, at } => self.option(option, value, at),
            Event::Ambiguous { candidates, at } => {
                for candidate in candidates {
                    let option = &*candidate.option;
                    if let Some(rule) = option.rules.first() {
                        return found(rule, subject(Some(option)), at);
                    }
                    self.denied_by_operator(option, at)?;
                }
                self.operator.ambiguous(self.element(at))
            }
            Event::TakenBack { option, at } => {
                let denied = self.operator.deny_options.iter().find(|denied| is_negation(denied, option));
                match denied {
                    Some(denied) => self.operator_refusal(denied, at),
                    None => self.operator.taken_back(self.element(at), option),
                }
            }
            Event::Unknown { text, short, at } => self.unknown(text, short, at),
            Event::Operand { value, index, at } => self.operand(value, index, at),
        }
    }

    fn enter(&mut self, node: &'g Node, name: Option<&'a [u8]>, at: usize) -> Flow {
        let Some(name) = name else {
            self.end_pass()?;
            (self.root, self.node, self.seen, self.entered, self.climbed) = (node, node, 0, false, 0);
            return ControlFlow::Continue(());
        };
        self.finish()?;
        (self.node, self.seen) = (node, 0);
        let first = !std::mem::replace(&mut self.entered, true);
        match self.operator.subcommands {
            Some(allowed) if first && !allowed.iter().any(|own| own.as_bytes() == name) => {
                self.subcommand_refused(at)
            }
            _ => match &node.refused {
                Some(rule) => self.refuse(rule, None, at),
                None => ControlFlow::Continue(()),
            },
        }
    }

    /// A program that the policy narrows to subcommands needs one.
    fn end_pass(&mut self) -> Flow {
        self.finish()?;
        if self.operator.subcommands.is_some() && self.root.is_tree() && !self.entered {
            return self.subcommand_refused(usize::MAX);
        }
        ControlFlow::Continue(())
    }

    /// What can be said only once a pass has seen all arguments.
    fn finish(&mut self) -> Flow {
        for place in &mut self.deferred {
            if let Some(Deferred { rule, option, at }) = place.take()
                && rule.unless & self.seen == 0
            {
                return found(rule, subject(option), at);
            }
        }
        if let Some((text, value, at)) = self.pending.take()
            && text.unless & self.seen == 0
        {
            scan(text, value, None, at)?;
        }
        match self.outside.take() {
            Some((unless, at)) if unless & self.seen != 0 => path_refused(String::new(), at),
            _ => ControlFlow::Continue(()),
        }
    }

    /// Refuses now, or at the end of the pass if an option may still lift the rule.
    fn refuse(&mut self, rule: &'g Rule, option: Option<&'g Opt>, at: usize) -> Flow {
        let waits = |place: &Deferred<'_>| std::ptr::eq(place.rule, rule);
        if rule.unless & self.seen != 0 || self.deferred.iter().flatten().any(waits) {
            return ControlFlow::Continue(());
        }
        match self.deferred.iter_mut().find(|place| place.is_none()) {
            Some(place) if rule.unless != 0 => {
                *place = Some(Deferred { rule, option, at });
                ControlFlow::Continue(())
            }
            _ => found(rule, subject(option), at),
        }
    }

    fn option(&mut self, option: &'g Opt, value: Option<&'a [u8]>, at: usize) -> Flow {
        self.seen |= option.bit;
        for rule in option.rules.iter().filter(|rule| rule.refuses(value)) {
            self.refuse(rule, Some(option), at)?;
        }
        self.denied_by_operator(option, at)?;
        self.operator.option(self.element(at), option, value)?;
        match (&option.text, value) {
            (Some(text), Some(value)) => scan(text, value, Some(option), at)?,
            (None, Some(value)) if !option.data && self.is_outside(value) => {
                // A value of its own is the next element.
                let own = !self.args.get(at).is_some_and(|element| element.ends_with(value));
                return path_refused(subject(Some(option)), if own { at.saturating_add(1) } else { at });
            }
            _ => {}
        }
        let changes = DIRECTORY.iter().any(|name| option.is_named(name));
        if let Some(value) = value.filter(|_| changes) {
            self.climbed = self.climbed.saturating_add(paths::climbed(value));
        }
        ControlFlow::Continue(())
    }

    fn is_outside(&self, value: &[u8]) -> bool {
        self.view().is_some_and(|view| view.is_outside(value))
    }

    fn view(&self) -> Option<View<'_>> {
        let view = self.operator.view?;
        Some(View { depth: view.depth.saturating_sub(self.climbed), ..view })
    }

    /// The path rule for an operand. Text that an option may yet turn into a file name waits for the end.
    fn operand_path(&mut self, value: &[u8], index: usize, at: usize) -> Flow {
        if self.command.is_some_and(|from| at >= from) || !self.is_outside(value) {
            return ControlFlow::Continue(());
        }
        let here = |own: &&DataOperands| (own.from..=own.to).contains(&index);
        let data = self.node.data.iter().filter(here).map(|own| own.unless);
        let text = self.node.operand_text.iter().filter(|(place, _)| *place == index);
        match data.chain(text.map(|(_, text)| text.unless)).reduce(|one, other| one & other) {
            None => path_refused(String::new(), at),
            Some(unless) => {
                let (before, first) = self.outside.unwrap_or((0, at));
                self.outside = Some((before | unless, first));
                ControlFlow::Continue(())
            }
        }
    }

    fn operand(&mut self, value: &'a [u8], index: usize, at: usize) -> Flow {
        let here = |own: &&OperandRule| (own.from..=own.to).contains(&index);
        for own in self.node.operands.iter().filter(here) {
            if own.rule.refuses(Some(value)) {
                self.refuse(&own.rule, None, at)?;
            }
        }
        if let Some((_, text)) = self.node.operand_text.as_ref().filter(|(place, _)| *place == index) {
            self.pending = Some((text, value, at));
        }
        if self.node.command == Some(index) {
            self.command = Some(at);
        }
        self.operator.operand(Element { text: value, ..self.element(at) }, index)?;
        self.operand_path(value, index, at)?;
        // The program has subcommands and this is none of them.
        if !self.entered && self.node.is_tree() {
            if self.operator.subcommands.is_some() {
                return self.subcommand_refused(at);
            }
            if self.operator.known_only {
                return self.subcommand_unknown(at);
            }
        }
        ControlFlow::Continue(())
    }

    fn unknown(&self, text: &[u8], short: bool, at: usize) -> Flow {
        let strict = self.operator.known_only
            || if short { self.node.deny_unknown_short } else { self.node.deny_unknown };
        if strict {
            return ControlFlow::Break(Finding {
                rule: format!("{}.unknown-option", self.node.id),
                subject: String::new(),
                reason: "is not an option that the policy knows".to_owned(),
                instead: None,
                at,
            });
        }
        if let Some(denied) = self.operator.deny_options.iter().find(|denied| may_mean(denied, text)) {
            return self.operator_refusal(denied, at);
        }
        self.operator.unknown(self.element(at))?;
        match self.view() {
            // What one pass does not know another one may take as a value.
            Some(view) if self.node.passes == 0 && view.holds_outside(text) => {
                path_refused(String::new(), at)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn denied_by_operator(&self, option: &Opt, at: usize) -> Flow {
        let element = self.element(at);
        let means = |denied: &&String| option.is_named(denied) || element.is_spelled(denied);
        match self.operator.deny_options.iter().find(means) {
            Some(denied) => self.operator_refusal(denied, at),
            None => ControlFlow::Continue(()),
        }
    }

    fn element(&self, at: usize) -> Element<'g, 'a> {
        Element { node: self.node, text: self.args.get(at).copied().unwrap_or(b""), at }
    }

    fn operator_refusal(&self, denied: &str, at: usize) -> Flow {
        let program = program(&self.node.id);
        ControlFlow::Break(Finding {
            rule: format!("{program}.option.{}", bare(denied)),
            subject: denied.to_owned(),
            reason: "is refused by the policy file".to_owned(),
            instead: None,
            at,
        })
    }

    fn subcommand_unknown(&self, at: usize) -> Flow {
        ControlFlow::Break(Finding {
            rule: format!("{}.unknown-subcommand", program(&self.node.id)),
            subject: String::new(),
            reason: "is not a subcommand that the policy knows".to_owned(),
            instead: None,
            at,
        })
    }

    fn subcommand_refused(&self, at: usize) -> Flow {
        let program = program(&self.node.id);
        let allowed = self.operator.subcommands.unwrap_or(&[]).join(", ");
        ControlFlow::Break(Finding {
            rule: format!("{program}.subcommand"),
            subject: String::new(),
            reason: "is not a subcommand that the policy allows".to_owned(),
            instead: Some(format!("allowed: {allowed}")),
            at,
        })
    }
}

/// The refusal of a file name outside.
fn path_refused(subject: String, at: usize) -> Flow {
    ControlFlow::Break(Finding {
        rule: paths::RULE.to_owned(),
        subject,
        reason: paths::REASON.to_owned(),
        instead: Some(paths::INSTEAD.to_owned()),
        at,
    })
}

/// First part of an id.
pub(super) fn program(id: &str) -> &str {
    id.split_once('.').map_or(id, |(program, _)| program)
}

/// Whether an element that the grammar does not know may mean the denied option, whatever the
/// program's own rules of spelling are.
fn may_mean(denied: &str, text: &[u8]) -> bool {
    let wanted = bare(denied).as_bytes();
    let word = text.strip_prefix(b"--").or_else(|| text.strip_prefix(b"-")).unwrap_or(text);
    let name = word.split(|byte| *byte == b'=').next().unwrap_or(word);
    match wanted {
        [letter] => !text.starts_with(b"--") && word.contains(letter),
        _ => !name.is_empty() && wanted.starts_with(name),
    }
}

/// What a rule is about, as the manual spells it: short names first.
pub(super) fn subject(option: Option<&Opt>) -> String {
    let mut names: Vec<&str> = option.iter().flat_map(|option| &option.names).map(String::as_str).collect();
    names.sort_by_key(|name| name.len());
    names.join("/")
}

fn found(rule: &Rule, subject: String, at: usize) -> Flow {
    ControlFlow::Break(Finding {
        rule: rule.id.clone(),
        subject,
        reason: rule.reason.clone(),
        instead: rule.instead.clone(),
        at,
    })
}

fn scan(text: &Text, value: &[u8], option: Option<&Opt>, at: usize) -> Flow {
    let Some(id) = text.kind.scan(value) else { return ControlFlow::Continue(()) };
    match text.rules.get(id) {
        Some(rule) => found(rule, subject(option), at),
        None => ControlFlow::Break(Finding {
            rule: text.fallback.clone(),
            subject: subject(option),
            reason: format!("does more than compute ({id})"),
            instead: None,
            at,
        }),
    }
}

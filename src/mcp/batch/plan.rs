//! What a batch is as a whole: ids, steps and references, checked before anything runs.
//!
//! Purpose: strictness. An id twice, a reference to a command that is unknown or not of an earlier step, a
//! placeholder in a place where none is bound: any of these refuses the whole batch. Pure. Inputs: what
//! `arguments.rs` read. Called by `batch/mod.rs`; executed by `run.rs`.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use super::super::arguments::refusal;
use super::arguments::{Asked, AskedCommand, What};
use crate::syntax::placeholder::{self, OPEN, Reference};
use crate::syntax::tree::Word;
use crate::syntax::{List, Options, Refusal, parse};

/// Wall clock of a command that names no timeout, unless the policy allows less.
pub(super) const TIMEOUT: Duration = Duration::from_secs(15);
/// Largest timeout of a command, unless the policy allows less.
pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// Wall clock of a batch, and the largest one that it may ask for.
pub(super) const BUDGET: Duration = Duration::from_secs(1800);
/// Placeholders of a batch: each may mean reading a whole output as JSON.
const PLACEHOLDERS: usize = 256;
/// Bytes of an id.
const ID: usize = 64;

/// A batch that may begin.
#[derive(Debug)]
pub(super) struct Plan {
    /// In the order of the request.
    pub(super) items: Vec<Item>,
    /// Places in `items`, a list a step, in the order in which they run.
    pub(super) steps: Vec<Vec<usize>>,
    pub(super) dry_run: bool,
    /// For all of it.
    pub(super) budget: Duration,
    /// The caller asked for more.
    pub(super) budget_clamped: bool,
}

/// One command.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) step: u64,
    pub(super) body: Body,
    pub(super) cwd: Option<PathBuf>,
    pub(super) env: Vec<(String, String)>,
    pub(super) timeout: Duration,
    /// The caller asked for more.
    pub(super) clamped: bool,
    /// What it takes of earlier commands.
    pub(super) references: Vec<Reference>,
}

/// What it runs.
#[derive(Debug, Clone)]
pub(super) enum Body {
    /// The name, which is plain text, and the arguments.
    Argv { program: String, args: Vec<Argument> },
    /// A line that was read, or the reason why it is not run.
    Line { text: String, tree: Result<List, Refusal> },
}

/// An argument as it was written, and as it was read.
#[derive(Debug, Clone)]
pub(super) struct Argument {
    pub(super) text: String,
    pub(super) word: Word,
}

impl Plan {
    /// Checks what was asked for as a whole. `max_timeout` is the policy's.
    pub(super) fn new(asked: Asked, max_timeout: Duration) -> Result<Self, String> {
        let mut wrong = Vec::new();
        let mut items = Vec::new();
        let most = MAX_TIMEOUT.min(max_timeout);
        for (at, command) in asked.commands.into_iter().enumerate() {
            match item(at, command, most) {
                Ok(item) => items.push(item),
                Err(why) => wrong.extend(why.into_iter().map(|why| format!("commands[{at}]: {why}"))),
            }
        }
        if wrong.is_empty() {
            wrong = together(&items);
        }
        if !wrong.is_empty() {
            return Err(refusal(&wrong));
        }
        let mut steps: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (at, item) in items.iter().enumerate() {
            steps.entry(item.step).or_default().push(at);
        }
        let budget = asked.timeout.unwrap_or(BUDGET);
        Ok(Self {
            items,
            steps: steps.into_values().collect(),
            dry_run: asked.dry_run,
            budget: budget.min(BUDGET),
            budget_clamped: budget > BUDGET,
        })
    }
}

fn item(at: usize, command: AskedCommand, most: Duration) -> Result<Item, Vec<String>> {
    let AskedCommand { what, id, step, cwd, env, timeout } = command;
    let mut wrong = Vec::new();
    let id = id.unwrap_or_else(|| format!("cmd{at}"));
    let named = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    if id.is_empty() || id.len() > ID || !id.chars().all(named) {
        wrong.push(format!("id must be 1 to {ID} bytes of letters, digits, '_' and '-'"));
    }
    let mut bare = |what: &str, text: &str| {
        if text.contains(OPEN) {
            wrong.push(format!("no placeholder is bound in {what}; only in args and command_line"));
        }
    };
    if let Some(cwd) = &cwd {
        bare("cwd", &cwd.to_string_lossy());
    }
    for (name, value) in &env {
        bare("env", name);
        bare("env", value);
    }
    if let What::Argv { program, .. } = &what {
        bare("program", program);
    }
    let mut references = Vec::new();
    let body = match what {
        What::Argv { program, args } => {
            let mut words = Vec::with_capacity(args.len());
            for (place, text) in args.into_iter().enumerate() {
                match placeholder::argument(&text) {
                    Ok(word) => {
                        placeholder::in_word(&word, &mut references);
                        words.push(Argument { text, word });
                    }
                    Err(why) => wrong.push(format!("args[{place}]: {why}")),
                }
            }
            Body::Argv { program, args: words }
        }
        What::Line(text) => {
            let tree = parse(&text, Options { placeholders: true });
            match &tree {
                Ok(tree) => references = placeholder::references(tree),
                Err(why) if why.construct.id == "placeholder" => wrong.push(why.to_string()),
                Err(_) => {}
            }
            Body::Line { text, tree }
        }
    };
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let clamped = timeout.is_some_and(|asked| asked > most);
    Ok(Item { id, step, body, cwd, env, timeout: timeout.unwrap_or(TIMEOUT).min(most), clamped, references })
}

/// What is wrong between the commands.
fn together(items: &[Item]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut known: HashMap<&str, (usize, u64)> = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        if let Some((first, _)) = known.insert(&item.id, (at, item.step)) {
            wrong.push(format!(
                "commands[{at}]: id '{}' is that of commands[{first}] too; give each its own",
                item.id
            ));
        }
    }
    let count: usize = items.iter().map(|item| item.references.len()).sum();
    if count > PLACEHOLDERS {
        wrong.push(format!("{count} placeholders; {PLACEHOLDERS} are taken in one call"));
    }
    for (at, item) in items.iter().enumerate() {
        for reference in &item.references {
            let why = match known.get(reference.id.as_str()) {
                None => "which no command of this call has".to_owned(),
                Some((_, step)) if *step >= item.step => format!(
                    "which is of step {step}, and not of an earlier step than this command's ({}); give it a \
                     later step",
                    item.step
                ),
                Some(_) => continue,
            };
            wrong.push(format!(
                "commands[{at}]: placeholder '{reference}' refers to id '{}', {why}",
                reference.id
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::batch::arguments::read;
    use serde_json::{Value, json};

    fn plan(commands: Value) -> Result<Plan, String> {
        let given = json!({ "commands": commands });
        Plan::new(read(given.as_object().cloned()).unwrap(), Duration::from_secs(300))
    }

    fn refused(commands: Value, part: &str) {
        let message = plan(commands).unwrap_err();
        assert!(message.contains(part), "{part:?} is missing in {message:?}");
    }

    #[test]
    fn steps_run_in_the_order_of_their_numbers() {
        let plan = plan(json!([
            {"program": "a", "step": 7}, {"program": "b"}, {"program": "c", "step": 2, "id": "x"},
            {"program": "d", "step": 7, "args": ["#@#${x.stdout}#@#$", "#@#${cmd1.a.0}#@#$"]},
        ]))
        .unwrap();
        assert_eq!(plan.steps, [vec![1], vec![2], vec![0, 3]]);
        let ids: Vec<&str> = plan.items.iter().map(|item| item.id.as_str()).collect();
        assert_eq!(ids, ["cmd0", "cmd1", "x", "cmd3"]);
        assert_eq!((plan.budget, plan.budget_clamped), (BUDGET, false));
    }

    #[test]
    fn references_go_to_earlier_steps_only() {
        let uses =
            |id: &str| json!({"program": "b", "step": 2, "args": [format!("#@#${{{id}.stdout}}#@#$")]});
        refused(json!([{"program": "a"}, uses("nobody")]), "id 'nobody', which no command of this call has");
        refused(
            json!([{"program": "a", "step": 2}, uses("cmd0")]),
            "which is of step 2, and not of an earlier",
        );
        refused(
            json!([{"program": "a", "step": 3}, uses("cmd0")]),
            "which is of step 3, and not of an earlier",
        );
        refused(json!([{"program": "a"}, uses("cmd1")]), "which is of step 2, and not of an earlier");
        refused(
            json!([{"program": "a"}, {"command_line": "ls | grep #@#${cmd1.stdout}#@#$"}]),
            "commands[1]: placeholder 'cmd1.stdout' refers to id 'cmd1', which is of step 1",
        );
        // A circle has no earlier step.
        refused(
            json!([{"command_line": "echo #@#${b.stdout}#@#$", "id": "a"},
                   {"command_line": "echo #@#${a.stdout}#@#$", "id": "b", "step": 2}]),
            "commands[0]: placeholder 'b.stdout'",
        );
    }

    #[test]
    fn an_id_stands_for_one_command() {
        refused(
            json!([{"program": "a", "id": "x"}, {"program": "b", "id": "x"}]),
            "id 'x' is that of commands[0]",
        );
        refused(
            json!([{"program": "a", "id": "cmd1"}, {"program": "b"}]),
            "id 'cmd1' is that of commands[0]",
        );
        for id in ["", "a.b", "a b", "a$", &"a".repeat(65)] {
            refused(json!([{"program": "a", "id": id}]), "id must be");
        }
    }

    #[test]
    fn placeholders_stand_where_they_are_bound_and_nowhere_else() {
        let text = "#@#${cmd0.stdout}#@#$";
        let first = json!({"program": "a"});
        refused(json!([first, {"program": text, "step": 2}]), "no placeholder is bound in program");
        refused(json!([first, {"program": "b", "cwd": text, "step": 2}]), "no placeholder is bound in cwd");
        refused(
            json!([first, {"program": "b", "env": {"A": text}, "step": 2}]),
            "no placeholder is bound in env",
        );
        for bad in ["#@#${", "#@#${cmd0}#@#$", "#@#${cmd0.stdout.x}#@#$", "#@#${a b.stdout}#@#$"] {
            refused(
                json!([first, {"program": "b", "args": ["x", bad], "step": 2}]),
                "commands[1]: args[1]: placeholder",
            );
            refused(
                json!([first, {"command_line": format!("b {bad}"), "step": 2}]),
                "commands[1]: malformed placeholder",
            );
        }
        let many = vec![json!(text.repeat(2)); 129];
        refused(json!([first, {"program": "b", "args": many, "step": 2}]), "258 placeholders");
        // What is not read as a line is the command's own refusal, not the batch's.
        assert!(plan(json!([{"command_line": "echo $(ls)"}])).is_ok());
    }

    #[test]
    fn times_are_clamped_and_it_is_said() {
        let plan = plan(json!([
            {"program": "a"}, {"program": "a", "timeout_ms": 300_000}, {"program": "a", "timeout_ms": 300_001},
            {"program": "a", "timeout_ms": u64::MAX},
        ]))
        .unwrap();
        let times: Vec<_> = plan.items.iter().map(|item| (item.timeout.as_millis(), item.clamped)).collect();
        assert_eq!(times, [(15_000, false), (300_000, false), (300_000, true), (300_000, true)]);
        let given = json!({"commands": [{"program": "a", "timeout_ms": 600_001}], "timeout_ms": 1_800_001});
        let plan = Plan::new(read(given.as_object().cloned()).unwrap(), Duration::from_secs(3600)).unwrap();
        assert_eq!((plan.items[0].timeout, plan.items[0].clamped), (MAX_TIMEOUT, true));
        assert_eq!((plan.budget, plan.budget_clamped), (BUDGET, true));
        let given = json!({"commands": [{"program": "a"}]});
        let plan = Plan::new(read(given.as_object().cloned()).unwrap(), Duration::from_secs(5)).unwrap();
        assert_eq!((plan.items[0].timeout, plan.items[0].clamped), (Duration::from_secs(5), false));
    }
}

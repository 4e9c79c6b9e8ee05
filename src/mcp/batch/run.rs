//! Runs a batch: step by step, the commands of a step side by side, a bounded number at once.
//!
//! Purpose: order, time and bindings. Each command is one call of the runner with records of its own; what it
//! printed is bound into later commands as text of words that were read before (`syntax::placeholder`).
//! Inputs: a checked [`Plan`] and a runner. Called by `mod.rs`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::super::runner::Runner;
use super::outcome;
use super::plan::{Argument, Body, Item, Plan};
use super::result::{Batch, Done, Output, Status, Told, Whole};
use crate::appliance::{Call, Judged, LineCall, unread_line};
use crate::audit::{self, Context};
use crate::policy::{Denial, Reason, Request, RuleKind};
use crate::run::Tap;
use crate::syntax::placeholder::{self, Budget, Field, Reference};
use crate::syntax::{List, Refusal};

/// Commands are killed at their own timeouts, which end with the batch's. Who still waits for a place then
/// is given up a moment later.
const GRACE: Duration = Duration::from_secs(1);

/// What all commands of a batch share.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    /// Shared by the records of the batch.
    pub(super) id: String,
    /// Who asks.
    pub(super) context: Context,
    /// Prefix of the toolkit, if it is of one.
    pub(super) toolkit: Option<String>,
    /// Names of variables that the policy passes; others are left out, and it is said.
    pub(super) variables: Arc<[String]>,
    /// Commands that run side by side.
    pub(super) lanes: usize,
    /// What the text of the answer holds.
    pub(super) told: Told,
}

/// One command and all that it needs.
struct Turn<R> {
    runner: Arc<R>,
    item: Item,
    shared: Shared,
    place: audit::Batch,
    outputs: Arc<HashMap<String, Output>>,
    lanes: Arc<Semaphore>,
    end: Instant,
    /// Fires when the caller goes away.
    cancel: CancellationToken,
    /// Fires then, and when the time of the batch is over.
    over: CancellationToken,
}

/// Runs it to its end. When `cancel` fires, everything that runs is killed.
pub(super) async fn run<R: Runner>(
    runner: &Arc<R>,
    plan: Plan,
    shared: &Shared,
    cancel: &CancellationToken,
) -> Batch {
    let end = Instant::now() + plan.budget;
    let over = cancel.child_token();
    let size = plan.items.len();
    let lanes = Arc::new(Semaphore::new(shared.lanes.max(1)));
    let mut outputs: Arc<HashMap<String, Output>> = Arc::default();
    let mut ends: HashMap<usize, Done> = HashMap::new();
    let mut stopped: Option<String> = None;
    for step in &plan.steps {
        if stopped.is_some() {
            break;
        }
        let mut turns = JoinSet::new();
        let mut places = HashMap::new();
        for (at, item) in step.iter().filter_map(|at| Some((*at, plan.items.get(*at)?))) {
            let turn = Turn {
                runner: Arc::clone(runner),
                item: item.clone(),
                shared: shared.clone(),
                place: audit::Batch { id: shared.id.clone(), index: at, size },
                outputs: Arc::clone(&outputs),
                lanes: Arc::clone(&lanes),
                end,
                cancel: cancel.clone(),
                over: over.clone(),
            };
            let handle = turns.spawn(async move { (at, turn.take(plan.dry_run).await) });
            places.insert(handle.id(), at);
        }
        loop {
            let joined = tokio::select! {
                joined = turns.join_next_with_id() => joined,
                () = tokio::time::sleep_until((end + GRACE).into()), if !over.is_cancelled() => {
                    over.cancel();
                    continue;
                }
            };
            match joined {
                None => break,
                Some(Ok((_, (at, done)))) => drop(ends.insert(at, done)),
                Some(Err(error)) => {
                    tracing::error!(%error, "a command of a batch ended in a panic");
                    if let Some(at) = places.get(&error.id()) {
                        let why = "the call failed inside of the server; its log says more";
                        ends.insert(*at, Done::because(Status::Failed, why));
                    }
                }
            }
        }
        stopped = (!plan.dry_run).then(|| stop(&plan, step, &ends, cancel, Instant::now() >= end)).flatten();
        let mut more = HashMap::clone(&outputs);
        for (at, item) in step.iter().filter_map(|at| Some((at, plan.items.get(*at)?))) {
            if let Some(output) = ends.get_mut(at).and_then(|done| done.output.take()) {
                more.insert(item.id.clone(), output);
            }
        }
        outputs = Arc::new(more);
    }
    let results = plan.items.into_iter().enumerate().map(|(at, item)| {
        (item.id, item.step, ends.remove(&at).unwrap_or_else(|| Done::bare(Status::Skipped)))
    });
    let results: Vec<(String, u64, Done)> = results.collect();
    // What ends with the last step stopped nothing.
    let cut = |done: &Done| matches!(done.status, Status::Skipped | Status::Cancelled);
    let cancel_reason = stopped.filter(|_| results.iter().any(|(_, _, done)| cut(done)));
    let spent = cancel_reason.is_some() && !cancel.is_cancelled() && Instant::now() >= end;
    Batch { results, cancel_reason, spent, clamped: plan.budget_clamped, dry_run: plan.dry_run }
}

/// Why nothing of a later step is begun.
fn stop(
    plan: &Plan,
    step: &[usize],
    ends: &HashMap<usize, Done>,
    cancel: &CancellationToken,
    spent: bool,
) -> Option<String> {
    if cancel.is_cancelled() {
        return Some("the request was cancelled, or the server is stopping".to_owned());
    }
    let mut number = 0;
    let wrong: Vec<String> = step
        .iter()
        .filter_map(|at| {
            let (item, done) = (plan.items.get(*at)?, ends.get(at)?);
            number = item.step;
            (done.status != Status::Succeeded).then(|| format!("{} {}", item.id, done.status.as_str()))
        })
        .collect();
    if spent {
        return Some(format!("the batch's timeout of {} ms is spent", plan.budget.as_millis()));
    }
    (!wrong.is_empty()).then(|| format!("step {number} did not succeed: {}", wrong.join(", ")))
}

impl<R: Runner> Turn<R> {
    async fn take(self, dry_run: bool) -> Done {
        let lane = tokio::select! {
            biased;
            () = self.over.cancelled() => None,
            lane = self.lanes.acquire() => lane.ok(),
        };
        let left = self.end.saturating_duration_since(Instant::now());
        if lane.is_none() || left.is_zero() {
            return self.given_up();
        }
        if dry_run { self.judge().await } else { self.run(left).await }
    }

    /// Not begun any more.
    fn given_up(&self) -> Done {
        Done::bare(if self.cancel.is_cancelled() { Status::Cancelled } else { Status::Skipped })
    }

    async fn run(&self, left: Duration) -> Done {
        let ignored = self.ignored();
        let timeout = self.item.timeout.min(left);
        let tap = Arc::new(Tap::default());
        let kept = Some(Arc::clone(&tap));
        let mut done = match &self.item.body {
            Body::Argv { program, args } => {
                let call = Call { tap: kept, queued: true, ..self.call(program, args, timeout) };
                outcome::of_command(program, self.runner.run(call, self.over.clone()).await, &tap)
            }
            Body::Line { text, tree } => {
                let call = LineCall { tap: kept, queued: true, ..self.line(text, tree, timeout) };
                outcome::of_line(self.runner.run_line(call, self.over.clone()).await, &tap)
            }
        };
        // It waited for a place until nobody wanted it any more.
        let no_place = done.fields.get("rule").is_some_and(|rule| rule == "limits.jobs");
        if no_place && self.over.is_cancelled() {
            done = self.given_up();
        }
        if done.status == Status::Cancelled && !self.cancel.is_cancelled() {
            done.status = Status::TimedOut;
        }
        if done.status == Status::TimedOut {
            done.fields.insert("timeout_ms".to_owned(), millis(timeout).into());
        }
        if self.item.clamped {
            done.fields.insert("timeout_clamped".to_owned(), true.into());
        }
        if !ignored.is_empty() {
            done.fields.insert("env_ignored".to_owned(), ignored.into());
        }
        done
    }

    /// The verdict alone.
    async fn judge(&self) -> Done {
        if !self.item.references.is_empty() {
            let mut done = Done::bare(Status::Skipped);
            done.fields.insert("verdict".to_owned(), "undecided".into());
            let why = "it takes the output of an earlier command, and is judged when that is known";
            done.fields.insert("error".to_owned(), why.into());
            return done;
        }
        let judged = match &self.item.body {
            Body::Argv { program, args } => {
                self.runner.judge(self.call(program, args, self.item.timeout)).await
            }
            Body::Line { text, tree } => {
                self.runner.judge_line(self.line(text, tree, self.item.timeout)).await
            }
        };
        match judged {
            Ok(Judged::Allowed(rule)) => {
                let mut done = Done::bare(Status::Skipped);
                done.fields.insert("verdict".to_owned(), "allow".into());
                done.fields.insert("rule".to_owned(), rule.into());
                done
            }
            Ok(Judged::Denied(denial)) => {
                let mut done = outcome::refused(&denial);
                done.fields.insert("verdict".to_owned(), "deny".into());
                done
            }
            Err(error) => {
                let mut done = outcome::unrecorded(&error);
                done.fields.insert("verdict".to_owned(), "undecided".into());
                done
            }
        }
    }

    /// The call of an argument vector, its placeholders bound; one that is refused is not judged.
    fn call(&self, program: &str, args: &[Argument], timeout: Duration) -> Call {
        let (words, refused) = match self.arguments(args) {
            Ok(words) => (words, None),
            Err(denial) => (args.iter().map(|argument| argument.text.clone()).collect(), Some(denial)),
        };
        let argv = std::iter::once(program.to_owned()).chain(words).map(String::into_bytes).collect();
        let request = Request {
            argv,
            cwd: self.item.cwd.clone(),
            env: self.variables(),
            timeout: Some(timeout),
            toolkit: self.shared.toolkit.clone(),
            ..Request::default()
        };
        let refused = refused.or_else(|| self.misplaced());
        Call { request, context: self.context(), refused, ..Call::default() }
    }

    /// The call of a line, likewise. A refusal of the whole is recorded by its words, as they were written.
    fn line(&self, text: &str, tree: &Result<List, Refusal>, timeout: Duration) -> LineCall {
        let (list, refused) = match tree.as_ref().map_err(unread_line).and_then(|tree| self.tree(tree)) {
            Ok(list) => (list, self.misplaced()),
            Err(denial) => (List::default(), Some(denial)),
        };
        LineCall {
            list,
            cwd: self.item.cwd.clone(),
            env: self.variables(),
            timeout: Some(timeout),
            toolkit: self.shared.toolkit.clone(),
            context: self.context(),
            refused,
            shown: Some(crate::syntax::shown::words(text)),
            ..LineCall::default()
        }
    }

    fn context(&self) -> Context {
        Context { batch: Some(self.place.clone()), ..self.shared.context.clone() }
    }

    /// A working directory is relative here, always.
    fn misplaced(&self) -> Option<Denial> {
        self.item.cwd.as_ref().filter(|cwd| cwd.is_absolute())?;
        let message = "cwd is relative to the workspace in a batch, and this one is absolute.";
        let denial = Denial::new("batch.cwd", RuleKind::Cwd, Reason::CwdOutsideWorkspace, message);
        Some(denial.instead("give the path below the workspace, such as 'src'"))
    }

    fn variables(&self) -> Vec<(String, String)> {
        let passes = |(name, _): &&(String, String)| self.shared.variables.contains(name);
        self.item.env.iter().filter(passes).cloned().collect()
    }

    fn ignored(&self) -> Vec<String> {
        let names = self.item.env.iter().map(|(name, _)| name);
        names.filter(|name| !self.shared.variables.contains(name)).cloned().collect()
    }

    /// Arguments with the outputs of earlier commands in the places of placeholders.
    fn arguments(&self, args: &[Argument]) -> Result<Vec<String>, Denial> {
        self.bindable()?;
        let mut budget = Budget::default();
        let mut bound = Vec::with_capacity(args.len());
        for argument in args {
            let mut word = argument.word.clone();
            placeholder::bind_word(&mut word, &|id| self.output(id), &mut budget)
                .map_err(|why| unbound(why.to_string()))?;
            // Only text is read in an argument, and only text is bound.
            let text = word.as_literal().ok_or_else(|| unbound("an argument is no text".to_owned()))?;
            bound.push(text.into());
        }
        Ok(bound)
    }

    /// A line with them in place.
    fn tree(&self, tree: &List) -> Result<List, Denial> {
        self.bindable()?;
        let mut tree = tree.clone();
        placeholder::bind(&mut tree, &|id| self.output(id), &mut Budget::default())
            .map_err(|why| unbound(why.to_string()))?;
        Ok(tree)
    }

    fn output(&self, id: &str) -> Option<&placeholder::Given> {
        self.outputs.get(id).map(|output| &output.given)
    }

    /// Only whole text is bound: a part would be something that no command gave.
    fn bindable(&self) -> Result<(), Denial> {
        for reference in &self.item.references {
            let Some(output) = self.outputs.get(&reference.id) else { continue };
            let (stream, whole) = match reference.field {
                Field::ExitCode => continue,
                Field::Stdout | Field::Json(_) => ("stdout", output.stdout),
                Field::Stderr => ("stderr", output.stderr),
            };
            match whole {
                Whole::Yes => {}
                Whole::Cut => return Err(unbound(cut(reference, stream))),
                Whole::NotText => {
                    let why = format!("placeholder '{reference}' stands for bytes that are not UTF-8");
                    return Err(unbound(why));
                }
            }
        }
        Ok(())
    }
}

fn cut(reference: &Reference, stream: &str) -> String {
    format!(
        "placeholder '{reference}' needs the whole {stream} of that command, and it was longer than the policy \
         keeps; let the command print less"
    )
}

fn unbound(message: String) -> Denial {
    Denial::new("batch.placeholder", RuleKind::ArgDeny, Reason::ArgumentDenied, message)
        .instead("look at what the earlier command printed, and refer to what is there")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;

//! Batches over a stand-in runner: cancellation, lanes, panics, bindings.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::arguments::read;
use super::super::plan::Plan;
use super::super::result::Told;
use super::{Shared, run};
use crate::appliance::{Call, Judged, LineCall, LineDenied, LineOutcome, NotStarted, Outcome, Report};
use crate::audit::{AuditError, BatchEnd, BatchStart, Context};
use crate::mcp::{Offer, Runner};
use crate::policy::{Denial, Reason, RuleKind};
use crate::run::{Budget, Exit, Stream, Tap};

/// Programs are behaviours: `hold` until it is cancelled, `turn` a few times round the runtime, `panic`, `gap`
/// without a record, `gone`; anything else prints its arguments.
#[derive(Default)]
struct Fake {
    begun: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Runner for Fake {
    fn offer(&self) -> Offer {
        Offer::default()
    }

    async fn run(&self, call: Call, cancel: CancellationToken) -> Outcome {
        if let Some(denial) = call.refused {
            return Outcome::Denied(denial);
        }
        let tap = call.tap.unwrap();
        tap.begin(Budget { bytes: 4096, lines: 100 }).unwrap();
        let argv: Vec<String> =
            call.request.argv.iter().map(|word| String::from_utf8(word.clone()).unwrap()).collect();
        self.begun.fetch_add(1, Ordering::SeqCst);
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let outcome = match argv[0].as_str() {
            "hold" => {
                cancel.cancelled().await;
                Outcome::Ran(Box::new(Report { cancelled: true, exit: Exit::Signal(9), ..report(&tap) }))
            }
            "turn" => {
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                Outcome::Ran(Box::new(report(&tap)))
            }
            "panic" => panic!("inside of a command"),
            "gap" => Outcome::AuditUnavailable(AuditError {
                operation: "write",
                sink: "audit.jsonl".to_owned(),
                source: std::io::Error::from_raw_os_error(28),
            }),
            "gone" => Outcome::NotStarted(NotStarted {
                run_id: String::new(),
                name: "gone".to_owned(),
                step: "execve".to_owned(),
                errno: 13,
                message: String::new(),
            }),
            _ => {
                tap.push(Stream::Stdout, argv[1..].join(" ").as_bytes());
                Outcome::Ran(Box::new(report(&tap)))
            }
        };
        self.now.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    async fn run_line(&self, call: LineCall, _cancel: CancellationToken) -> LineOutcome {
        let no = || Denial::new("line", RuleKind::Allow, Reason::CommandNotAllowed, "no lines here");
        let denial = call.refused.unwrap_or_else(no);
        LineOutcome::Denied(Box::new(LineDenied { denial, stage: None, name: String::new() }))
    }

    async fn judge(&self, call: Call) -> Result<Judged, AuditError> {
        Ok(call.refused.map_or_else(|| Judged::Allowed("allow".to_owned()), Judged::Denied))
    }

    async fn judge_line(&self, call: LineCall) -> Result<Judged, AuditError> {
        Ok(call.refused.map_or_else(|| Judged::Allowed("allow".to_owned()), Judged::Denied))
    }

    async fn batch_start(&self, _context: &Context, _batch: &BatchStart) -> Result<(), AuditError> {
        Ok(())
    }

    async fn batch_end(
        &self,
        _context: &Context,
        _batch: &BatchStart,
        _end: &BatchEnd,
    ) -> Result<(), AuditError> {
        Ok(())
    }
}

fn report(tap: &Tap) -> Report {
    Report {
        run_id: String::new(),
        exit: Exit::Code(0),
        timed_out: false,
        cancelled: false,
        stdout: tap.captured(Stream::Stdout),
        stderr: tap.captured(Stream::Stderr),
        duration: Duration::ZERO,
        killed: 0,
        left: 0,
        denied: Vec::new(),
        hints: Vec::new(),
        limit: None,
        fault: None,
        wrapped: None,
        timeout: Duration::from_secs(30),
        timeout_clamped: false,
    }
}

fn plan(commands: Value) -> Plan {
    let given = json!({ "commands": commands });
    Plan::new(read(given.as_object().cloned()).unwrap(), Duration::from_secs(300)).unwrap()
}

fn shared(lanes: usize) -> Shared {
    Shared {
        id: "batch".to_owned(),
        context: Context::default(),
        toolkit: None,
        variables: Vec::new().into(),
        lanes,
        told: Told::Outputs,
    }
}

/// The object of the answer.
async fn ended(fake: &Arc<Fake>, commands: Value, lanes: usize, cancel: &CancellationToken) -> Value {
    run(fake, plan(commands), &shared(lanes), cancel).await.answer(Told::Outputs).structured_content.unwrap()
}

fn statuses(object: &Value) -> Vec<&str> {
    object["results"].as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_batch_that_nobody_wants_ends_with_all_of_its_commands() {
    let fake = Arc::new(Fake::default());
    let cancel = CancellationToken::new();
    let commands = json!([{"program": "hold"}, {"program": "hold"}, {"program": "hold"},
                          {"program": "say", "step": 2}]);
    let both = async {
        while fake.begun.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (object, ()) = tokio::join!(ended(&fake, commands, 2, &cancel), both);
    assert_eq!(statuses(&object), ["cancelled", "cancelled", "cancelled", "skipped"]);
    assert_eq!(object["cancel_reason"], "the request was cancelled, or the server is stopping");
    assert_eq!(fake.begun.load(Ordering::SeqCst), 2, "the third was never begun");
}

#[tokio::test]
async fn no_more_run_at_once_than_there_are_lanes() {
    for lanes in [1, 3, 0] {
        let fake = Arc::new(Fake::default());
        let object =
            ended(&fake, json!(vec![json!({"program": "turn"}); 30]), lanes, &CancellationToken::new()).await;
        assert_eq!(statuses(&object), ["succeeded"; 30]);
        assert_eq!(fake.most.load(Ordering::SeqCst), lanes.max(1));
    }
}

#[tokio::test]
async fn a_panic_and_a_missing_record_are_ends_of_their_commands_alone() {
    let fake = Arc::new(Fake::default());
    let commands = json!([{"program": "panic"}, {"program": "say", "args": ["here"]}, {"program": "gap"},
                          {"program": "gone"}, {"program": "say", "step": 2}]);
    let object = ended(&fake, commands, 8, &CancellationToken::new()).await;
    assert_eq!(statuses(&object), ["failed", "succeeded", "rejected", "failed", "skipped"]);
    let results = &object["results"];
    assert_eq!(results[0]["error"], "the call failed inside of the server; its log says more");
    assert_eq!(results[1]["stdout"], "here");
    assert!(results[2]["error"].as_str().unwrap().starts_with("audit_unavailable: write of audit.jsonl"));
    assert!(results[3]["error"].as_str().unwrap().contains("permission denied"));
}

#[tokio::test]
async fn outputs_are_bound_over_several_steps() {
    let fake = Arc::new(Fake::default());
    let commands = json!([
        {"program": "say", "args": ["{\"a\": [1, {\"b\": \"' ; rm\"}]}"], "id": "first"},
        {"program": "say", "args": ["<#@#${first.a.1.b}#@#$>", "#@#${first.exit_code}#@#$"], "id": "second", "step": 2},
        {"program": "say", "args": ["#@#${second.stdout}#@#$ #@#${first.a.0}#@#$"], "step": 9}
    ]);
    let object = ended(&fake, commands, 8, &CancellationToken::new()).await;
    assert_eq!(object["results"][2]["stdout"], "<' ; rm> 0 1", "{object}");
}

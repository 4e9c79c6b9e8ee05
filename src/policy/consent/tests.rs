//! Tests of `policy/consent.rs`.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::config::workspace::Workspace;
use crate::config::{Command, Config, Toolkit};
use crate::policy::testing::{command, policy, program, set};
use crate::policy::{Policy, Verdict};

const TIME: Duration = Duration::from_secs(60);
const NOW: Duration = Duration::from_secs(5);

fn request(line: &str) -> Request {
    Request { argv: line.split(' ').map(|word| word.as_bytes().to_vec()).collect(), ..Request::default() }
}

fn judged(policy: &Policy, request: &Request) -> Verdict {
    let cwd = request.cwd.as_deref().unwrap_or(Path::new("/"));
    policy.judge(request, Workspace::open(cwd, false).unwrap().resolve(None))
}

fn asking(policy: &Policy, request: &Request) -> Asking {
    match judged(policy, request) {
        Verdict::Ask(asking) => *asking,
        other => panic!("{other:?}"),
    }
}

/// `git` and what comes through `kit` asks, `ls` does not.
fn asks(change: impl FnOnce(&mut Config)) -> Policy {
    policy(&["git", "ls"], |config| {
        set(config, Command { consent: true, ..command("git") });
        let kit = Toolkit { consent: true, ..Toolkit::plain("kit", None) };
        config.toolkits.insert("kit".to_owned(), kit);
        change(config);
    })
}

const ME: About<'static> = About { principal: "me", stdin: None };

fn accept(handed: &Handed) -> Answer {
    Answer { state: handed.state.clone(), decision: Decision::Accept }
}

/// What becomes of an answer: `Ok` or why not.
fn redeemed(
    consents: &Consents,
    asking: Asking,
    about: About<'_>,
    answer: &Answer,
    now: Duration,
) -> Result<(), Withheld> {
    consents.redeem(asking, about, answer, now).plan.map(drop)
}

#[test]
fn a_marked_command_asks_and_others_do_not() {
    let policy = asks(|_| {});
    let kit = |line: &str| Request { toolkit: Some("kit".to_owned()), ..request(line) };
    assert!(matches!(judged(&policy, &request("git status")), Verdict::Ask(_)));
    assert!(matches!(judged(&policy, &request("ls")), Verdict::Allow(_)));
    assert!(matches!(judged(&policy, &kit("ls")), Verdict::Ask(_)));
    assert!(matches!(judged(&policy, &request("rm")), Verdict::Deny(_)), "nobody is asked in vain");
    assert!(matches!(judged(&policy, &kit("rm")), Verdict::Deny(_)));
    let all = asks(|config| config.consent = true);
    assert!(matches!(judged(&all, &request("ls")), Verdict::Ask(_)));
}

#[test]
fn a_command_in_the_arguments_of_another_asks_too() {
    let policy = policy(&["git", "nice", "ls"], |config| {
        set(config, Command { consent: true, ..command("git") });
        set(config, Command { interpreter: true, ..command("nice") });
    });
    assert!(matches!(judged(&policy, &request("nice ls")), Verdict::Allow(_)));
    assert!(matches!(judged(&policy, &request("nice git status")), Verdict::Ask(_)));
    assert!(matches!(judged(&policy, &request("nice nice -n 5 git status")), Verdict::Ask(_)));
}

#[test]
fn the_file_of_a_marked_command_asks_under_any_name() {
    let policy = policy(&["git"], |config| {
        set(config, Command { consent: true, ..command("git") });
        config
            .commands
            .insert("other".to_owned(), Arc::new(Command::plain("other", Some(program("x", "y")))));
        config.allow_patterns = vec![regex::Regex::new("^(?:/usr/bin/true|/bin/true)$").unwrap()];
        let found = config.programs.find("/usr/bin/true").expect("a program of every host");
        set(config, Command { consent: true, program: Some(found), ..command("marked") });
    });
    assert!(matches!(judged(&policy, &request("/bin/true")), Verdict::Ask(_)));
    assert!(matches!(judged(&policy, &request("/usr/bin/true")), Verdict::Ask(_)));
}

#[test]
fn an_accepted_question_authorises_what_was_asked_about_once() {
    let (policy, consents) = (asks(|_| {}), Consents::new(TIME));
    let request = request("git push origin");
    let handed = consents.ask(&asking(&policy, &request), ME, NOW).unwrap();
    let answer = accept(&handed);
    let redeemed = consents.redeem(asking(&policy, &request), ME, &answer, NOW);
    assert_eq!(redeemed.id.as_deref(), Some(handed.id.as_str()));
    let plan = redeemed.plan.unwrap();
    let argv: Vec<&[u8]> = plan.argv().iter().map(|argument| argument.as_bytes()).collect();
    assert_eq!(argv, [&b"git"[..], b"push", b"origin"]);
    let again = consents.redeem(asking(&policy, &request), ME, &answer, NOW);
    assert_eq!(again.plan.map(drop), Err(Withheld::Replayed));
}

#[test]
fn no_is_no_and_uses_the_question_up() {
    let (policy, consents) = (asks(|_| {}), Consents::new(TIME));
    let request = request("git status");
    for (decision, why) in [(Decision::Decline, Withheld::Declined), (Decision::Cancel, Withheld::Cancelled)]
    {
        let handed = consents.ask(&asking(&policy, &request), ME, NOW).unwrap();
        let said = Answer { decision, ..accept(&handed) };
        assert_eq!(redeemed(&consents, asking(&policy, &request), ME, &said, NOW), Err(why));
        let accepted = accept(&handed);
        assert_eq!(
            redeemed(&consents, asking(&policy, &request), ME, &accepted, NOW),
            Err(Withheld::Replayed)
        );
    }
}

#[test]
fn consent_is_to_one_call_by_one_caller() {
    let policy = asks(|config| {
        let all = ["git", "ls"].map(str::to_owned).to_vec();
        config.toolkits.insert("two".to_owned(), Toolkit::plain("two", Some(all)));
        config.environment.pass = vec!["LANG".to_owned()];
    });
    let consents = Consents::new(TIME);
    let base = request("git log a b");
    let about = About { principal: "me", stdin: Some(b"x") };
    let answer = accept(&consents.ask(&asking(&policy, &base), about, NOW).unwrap());
    let others = [
        request("git log a"),
        request("git log b a"),
        Request { argv: [&b"git"[..], b"log", b"a b"].map(<[u8]>::to_vec).to_vec(), ..base.clone() },
        Request { cwd: Some("/usr".into()), ..base.clone() },
        Request { timeout: Some(Duration::from_secs(1)), ..base.clone() },
        Request { background: true, ..base.clone() },
        Request { toolkit: Some("two".to_owned()), ..base.clone() },
        Request { env: vec![("LANG".to_owned(), "C".to_owned())], ..base.clone() },
    ];
    for other in others {
        let asked = asking(&policy, &other);
        assert_eq!(redeemed(&consents, asked, about, &answer, NOW), Err(Withheld::OtherCommand), "{other:?}");
    }
    for stdin in [None, Some(&b""[..]), Some(b"xy")] {
        let asked = asking(&policy, &base);
        let about = About { stdin, ..about };
        assert_eq!(redeemed(&consents, asked, about, &answer, NOW), Err(Withheld::OtherCommand), "{stdin:?}");
    }
    let thief = About { principal: "somebody else", ..about };
    let asked = asking(&policy, &base);
    assert_eq!(redeemed(&consents, asked, thief, &answer, NOW), Err(Withheld::OtherCaller));
    let other = Consents::new(TIME);
    assert_eq!(redeemed(&other, asking(&policy, &base), about, &answer, NOW), Err(Withheld::Forged));
    assert_eq!(redeemed(&consents, asking(&policy, &base), about, &answer, NOW), Ok(()), "none used it up");
}

#[test]
fn an_answer_that_comes_too_late_is_none() {
    let (policy, consents) = (asks(|_| {}), Consents::new(TIME));
    let request = request("git status");
    let answer = accept(&consents.ask(&asking(&policy, &request), ME, NOW).unwrap());
    let late = NOW + TIME;
    assert_eq!(redeemed(&consents, asking(&policy, &request), ME, &answer, late), Err(Withheld::Expired));
    let last = late - Duration::from_millis(1);
    assert_eq!(redeemed(&consents, asking(&policy, &request), ME, &answer, last), Ok(()));
    // Forgotten as used only when it counts for nothing anyhow.
    assert_eq!(redeemed(&consents, asking(&policy, &request), ME, &answer, late), Err(Withheld::Expired));
}

#[test]
fn of_many_at_the_same_time_one_gets_it() {
    let (policy, consents) = (asks(|_| {}), Consents::new(TIME));
    let request = request("git status");
    let answer = accept(&consents.ask(&asking(&policy, &request), ME, NOW).unwrap());
    let start = std::sync::Barrier::new(8);
    let granted: usize = std::thread::scope(|scope| {
        let one = || {
            let asked = asking(&policy, &request);
            start.wait();
            usize::from(redeemed(&consents, asked, ME, &answer, NOW).is_ok())
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(granted, 1);
}

#[test]
fn used_answers_are_forgotten_in_time_and_never_before() {
    let (policy, consents) = (asks(|_| {}), Consents::new(TIME));
    let request = request("git status");
    let ask = |now| accept(&consents.ask(&asking(&policy, &request), ME, now).unwrap());
    let redeem = |answer: &Answer, now| redeemed(&consents, asking(&policy, &request), ME, answer, now);
    {
        let mut used = consents.used.lock().unwrap();
        used.extend((0..REMEMBERED as u64).map(|n| (1_000_000 + n, [1; 16])));
    }
    assert_eq!(redeem(&ask(NOW), NOW), Err(Withheld::Busy), "full: nothing is forgotten to make room");
    let later = Duration::from_millis(1_000_010);
    assert_eq!(redeem(&ask(later), later), Ok(()));
    assert!(consents.used.lock().unwrap().len() < REMEMBERED);
}

//! The two corpora of known techniques, program allow-listed, argument rules on: what the policy refuses.
//!
//! Rows count when the technique works without a sandbox (`verified`) and its effect is another program, a
//! write, or a read; a row whose effect is a connection is the network setting's business. A row that is
//! allowed stands in exactly one list here, with the reason, or belongs to a program whose grammar says
//! that its work is delegated.

use std::collections::BTreeSet;

use cofferdam::config::workspace::{Cwd, CwdError};
use cofferdam::policy::Policy;
use cofferdam::policy::grammar::Library;
use serde_json::Value;

use crate::scan;
use crate::verdict::policy_in;

/// Where the rows were run.
const WORKSPACE: &str = "/tmp/escape-lab/ws";
/// Variables of the rows that are no part of a technique.
const HARMLESS: &[&str] = &[
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GOCACHE",
    "GOPROXY",
    "TERM",
    "LESS",
    "MORE",
];

/// Settings of a hostile repository that the presets of git's grammar outrank; `hostile_repository` runs
/// each with the presets and without any confinement.
const PRESETS: &[&str] = &[
    "agent-git-dash-C-hostile",
    "agent-git-repo-alternaterefs",
    "agent-git-repo-fsmonitor-add",
    "agent-git-repo-fsmonitor-blame",
    "agent-git-repo-fsmonitor-commit",
    "agent-git-repo-fsmonitor-diff",
    "agent-git-repo-fsmonitor-diff-index",
    "agent-git-repo-fsmonitor-grep",
    "agent-git-repo-fsmonitor-status",
    "agent-git-repo-gpg-showsig",
    "agent-git-repo-hook-postindex",
    "agent-git-repo-hook-postmerge",
    "agent-git-repo-hook-precommit",
    "agent-git-repo-hook-reftx",
    "agent-git-repo-hookspath",
    "agent-git-repo-insteadof-ext",
    "agent-git-repo-nested-bare",
];

/// The environment of a command is made anew: no token of the server, an empty home.
const SCRUBBED: &[&str] =
    &["agent-curl-curlrc", "agent-env-leak-jq", "agent-env-leak-printenv", "agent-wget-wgetrc-home"];

/// What arguments cannot show and only the kernel stops: links in the workspace, drivers that attributes
/// name, a working tree that settings put elsewhere, Mercurial's hooks. And output that imitates a protocol
/// (`json-break`), which is escaped where it is handed on.
const KERNEL: &[&str] = &[
    "agent-git-repo-corworktree-read",
    "agent-git-repo-corworktree-write",
    "agent-git-repo-diff-external",
    "agent-git-repo-driver-diff",
    "agent-git-repo-filter-add",
    "agent-git-repo-mergedriver",
    "agent-git-repo-textconv-blame",
    "agent-git-repo-textconv-diff",
    "agent-git-repo-textconv-log",
    "agent-git-repo-textconv-show",
    "agent-hg-hgrc-hook",
    "agent-output-json-break",
    "agent-path-symlink-dir",
    "agent-rg-follow",
    "agent-tar-h",
];

struct Row {
    id: String,
    argv: Vec<String>,
    env: Vec<(String, String)>,
    cwd: bool,
    network: bool,
}

fn rows(name: &str) -> Vec<Row> {
    let text = std::fs::read_to_string(scan::root().join("tests/corpora").join(name)).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["verified"] == true && row["argv"].as_array().is_some_and(|argv| !argv.is_empty()))
        .map(|row| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let env = row["env"].as_object().into_iter().flatten();
            Row {
                id: text(&row["id"]),
                argv: row["argv"].as_array().unwrap().iter().map(text).collect(),
                env: env.map(|(name, value)| (name.clone(), text(value))).collect(),
                // Both rows that ask for a working directory ask for one outside.
                cwd: row["cwd"].is_string(),
                network: ["connect", "exfil", "listen"]
                    .contains(&row["observable"]["type"].as_str().unwrap()),
            }
        })
        .collect()
}

/// The rule that refuses the row, if one does.
fn refused(policy: &Policy, row: &Row) -> Option<String> {
    let list = policy.allow_list(&[&row.argv[0]], &[]).unwrap();
    let argv: Vec<&[u8]> = row.argv.iter().map(|argument| argument.as_bytes()).collect();
    if row.cwd {
        let outside: Result<Cwd, CwdError> = policy.config().workspace.resolve(Some("/".as_ref()));
        return policy
            .judge_call(&argv, Some(&list), &outside, &row.env)
            .err()
            .map(|denial| denial.rule.into());
    }
    let here = policy.config().workspace.resolve(None);
    policy.judge_call(&argv, Some(&list), &here, &row.env).err().map(|denial| denial.rule.into())
}

/// Rows of one corpus: how many count, and the ids of those that are allowed, delegated ones apart.
fn judged(name: &str) -> (usize, BTreeSet<String>, usize) {
    let policy = policy_in(WORKSPACE, HARMLESS);
    let library = Library::new(&[]).unwrap();
    let (mut all, mut allowed, mut delegated) = (0, BTreeSet::new(), 0);
    for row in rows(name).into_iter().filter(|row| !row.network) {
        all += 1;
        if refused(&policy, &row).is_some() {
            continue;
        }
        let program = row.argv[0].rsplit('/').next().unwrap();
        let grammar = library.find(program.as_bytes()).unwrap();
        if grammar.is_some_and(|grammar| grammar.delegated().is_some()) {
            delegated += 1;
        } else {
            allowed.insert(row.id);
        }
    }
    (all, allowed, delegated)
}

#[test]
fn techniques_are_refused_but_for_the_listed_ones() {
    let (all, allowed, delegated) = judged("gtfobins_open.jsonl");
    eprintln!("programs: {all} rows, {} refused, {delegated} delegated", all - allowed.len() - delegated);
    assert_eq!(allowed, BTreeSet::new());
    assert!((all - delegated) * 100 >= all * 95, "{delegated} of {all} rows are delegated");

    let (all, allowed, delegated) = judged("agent_bypasses_open.jsonl");
    let list = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<String>>();
    let (presets, scrubbed, kernel) = (list(PRESETS), list(SCRUBBED), list(KERNEL));
    let listed: BTreeSet<String> = presets.iter().chain(&scrubbed).chain(&kernel).cloned().collect();
    eprintln!(
        "bypasses: {all} rows, {} refused, {} by presets, {} by the environment, {delegated} delegated, {} kernel",
        all - allowed.len() - delegated,
        presets.len(),
        scrubbed.len(),
        kernel.len(),
    );
    assert_eq!(allowed, listed);
    // Delegated programs do what the workspace says; nothing in their arguments tells one from the other.
    let stopped = all - delegated - kernel.len();
    assert!(stopped * 100 >= (all - delegated) * 95, "{stopped} of {}", all - delegated);
}

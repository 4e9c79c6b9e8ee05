//! The rows of the argument-vector corpus that names alone decide.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cofferdam::config::program::Programs;
use cofferdam::config::workspace::Workspace;
use cofferdam::config::{
    AuditConfig, Config, Environment, HttpConfig, Limits, RunUser, SandboxConfig, Source,
};
use cofferdam::policy::Policy;
use serde_json::Value;

const CORPUS: &str = include_str!("../corpora/argv_verdicts.jsonl");

/// Programs whose rows hang on what their options mean: `grammar.rs` judges them.
const GRAMMAR: &[&str] = &[
    "git",
    "tar",
    "gtar",
    "bsdtar",
    "sort",
    "gsort",
    "find",
    "gfind",
    "bfind",
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "original-awk",
    "rg",
    "ag",
    "fdfind",
    "split",
    "install",
    "sdiff",
    "tcpdump",
    "pandoc",
    "gcc",
    "ld",
    "nm",
    "strip",
    "ssh-keygen",
    "cmake",
    "go",
];

/// Elements that mean something to a tool which joins commands, and nothing to a single one.
const OPERATORS: &[&str] = &[";", "&&", "||", "|", "&", "<", ">", ">>"];

/// A row that means its pattern (`ls` must not admit `lsof`) but whose exact list names `lsof`, too:
/// judged by its patterns alone.
const BY_PATTERN_ALONE: &str = "v0607";

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) argv: Vec<String>,
    allow: Vec<String>,
    patterns: Vec<String>,
    pub(crate) allowed: bool,
}

impl Row {
    pub(crate) fn name(&self) -> &str {
        &self.argv[0]
    }

    /// Whether some list of the row admits the name, by text alone.
    pub(crate) fn listed(&self) -> bool {
        let matches =
            |pattern: &String| regex::Regex::new(&format!("^(?:{pattern})$")).unwrap().is_match(self.name());
        self.allow.iter().any(|name| name == self.name()) || self.patterns.iter().any(matches)
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|item| item.as_str().unwrap().to_owned()).collect()
}

/// Rows of one argument vector that the policy room answers, whatever decides them.
pub(crate) fn rows() -> Vec<Row> {
    let rows = CORPUS.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["kind"].is_null() && row["layer"] == "argv")
        .map(|row| Row {
            id: row["id"].as_str().unwrap().to_owned(),
            argv: strings(&row["argv"]),
            allow: if row["id"] == BY_PATTERN_ALONE { Vec::new() } else { strings(&row["allow"]) },
            patterns: strings(&row["allow_patterns"]),
            allowed: row["verdict"] == "allow",
        })
        .filter(|row| !row.argv.iter().any(|argument| OPERATORS.contains(&argument.as_str())))
        .collect()
}

pub(crate) fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap()
}

pub(crate) fn needs_grammar(row: &Row) -> bool {
    row.listed() && GRAMMAR.contains(&base(row.name()))
}

/// A policy without commands over an empty safe PATH: what the host has installed decides nothing.
pub(crate) fn policy() -> Policy {
    policy_in("/", &[])
}

/// The same with another workspace, which need not exist, and names of environment variables to pass.
pub(crate) fn policy_in(workspace: &str, pass: &[&str]) -> Policy {
    let root = std::fs::File::open("/").unwrap();
    let config = Config {
        http: HttpConfig::default(),
        principals: BTreeMap::new(),
        source: Source::Builtin,
        digest: String::new(),
        workspace: Arc::new(Workspace {
            path: PathBuf::from(workspace),
            write: false,
            repository_write: false,
            root: Arc::new(root.into()),
        }),
        environment: Environment {
            path: "/nonexistent".to_owned(),
            pass: pass.iter().map(|name| (*name).to_owned()).collect(),
            set: BTreeMap::new(),
        },
        limits: Limits {
            timeout: Duration::from_secs(30),
            max_timeout: Duration::from_secs(300),
            output_bytes: 1 << 20,
            output_lines: 20_000,
            memory: 1 << 30,
            processes: 128,
            cpu_time: Duration::from_secs(60),
            file_size: 1 << 26,
            open_files: 256,
            arguments: 4096,
            argument_bytes: 1 << 17,
            stdin_bytes: 1 << 20,
            jobs: 8,
            cgroup: cofferdam::config::CgroupUse::Auto,
            max_jobs: 4,
            max_finished_jobs: 16,
            job_ttl: Duration::from_secs(600),
            max_job_time: Duration::from_secs(3600),
            consent_time: Duration::from_secs(300),
        },
        sandbox: SandboxConfig {
            read: Vec::new(),
            libraries: true,
            network: Vec::new(),
            require: Vec::new(),
            user: RunUser::Keep,
        },
        audit: AuditConfig::new(Vec::new()),
        commands: BTreeMap::new(),
        allow_patterns: Vec::new(),
        allow_any: false,
        consent: false,
        argument_rules: true,
        toolkits: BTreeMap::new(),
        server: Default::default(),
        missing: Vec::new(),
        grammars: Vec::new(),
        programs: Programs::new("/nonexistent"),
    };
    Policy::new(Arc::new(config), &[]).unwrap()
}

/// The verdict, and the rule behind it.
pub(crate) fn judge(policy: &Policy, row: &Row) -> (bool, String) {
    let names: Vec<&str> = row.allow.iter().map(String::as_str).collect();
    let patterns: Vec<&str> = row.patterns.iter().map(String::as_str).collect();
    let list = policy.allow_list(&names, &patterns).unwrap();
    let argv: Vec<&[u8]> = row.argv.iter().map(|argument| argument.as_bytes()).collect();
    match policy.judge_argv(&argv, Some(&list)) {
        Ok(rule) => (true, rule.id.to_owned()),
        Err(denial) => (false, denial.rule.into_owned()),
    }
}

#[test]
fn rows_that_names_decide_agree() {
    let policy = policy();
    let mut allowed = 0;
    let mut ids = Vec::new();
    let mut wrong = Vec::new();
    let rows = rows();
    for row in rows.iter().filter(|row| !needs_grammar(row)) {
        let (verdict, rule) = judge(&policy, row);
        ids.push(row.id.as_str());
        allowed += usize::from(verdict);
        if verdict != row.allowed {
            wrong.push(format!("{} {:?}: {rule}", row.id, row.argv));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    println!("judged: {}", ids.join(" "));
    assert_eq!((ids.len(), allowed), (294, 83));
}

/// Nobody is on the list of exceptions by mistake: each has rows there, and is no denied name.
#[test]
fn programs_that_hang_on_options_are_not_denied_by_name() {
    let policy = policy();
    let rows: Vec<Row> = rows().into_iter().filter(needs_grammar).collect();
    let names: BTreeSet<&str> = rows.iter().map(|row| base(row.name())).collect();
    assert_eq!(names, GRAMMAR.iter().copied().collect());
    for row in rows {
        let name = Row { argv: vec![row.argv[0].clone()], ..row };
        let (_, rule) = judge(&policy, &name);
        assert!(!rule.starts_with("names."), "{}: {rule}", name.id);
    }
}

/// Whatever an allow-list says, a name that the corpus refuses in every row and in every form stays
/// refused under `allow_patterns = [".*"]`, too.
#[test]
fn names_denied_by_a_list_are_denied_by_a_pattern() {
    let policy = policy();
    let any = policy.allow_list(&[], &["(?s).*"]).unwrap();
    let mut checked = BTreeSet::new();
    for row in rows().iter().filter(|row| !needs_grammar(row) && row.listed() && !row.allowed) {
        let denial = policy.judge_argv(&[row.name().as_bytes()], Some(&any)).unwrap_err();
        assert!(denial.rule.starts_with("names."), "{} {}: {}", row.id, row.name(), denial.rule);
        checked.insert(row.name().to_owned());
    }
    assert_eq!(checked.len(), 130);
}

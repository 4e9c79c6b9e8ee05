//! Tests of `config/toolkits.rs`.

use std::os::unix::fs::symlink;

use super::*;
use crate::config::workspace::CwdError;
use crate::config::{LoadOptions, Source};

const POLICY: &str = "version = 1\nallow = [\"true\"]\n[limits]\ntimeout = \"20s\"\nmax_timeout = \"1m\"\n";

fn load(base: &Path, text: &str) -> Result<Config, String> {
    let options = LoadOptions {
        workspace: Some(base.join("ws")),
        audit_file: Some(base.join("audit.jsonl")),
        ..LoadOptions::default()
    };
    let source = Source::File(base.join("policy.toml"));
    Config::from_str(text, source, &options).map_err(|error| error.to_string())
}

fn house() -> (tempfile::TempDir, PathBuf) {
    let keep = tempfile::tempdir().unwrap();
    let base = keep.path().canonicalize().unwrap();
    std::fs::create_dir_all(base.join("ws/app/src")).unwrap();
    std::fs::create_dir_all(base.join("other")).unwrap();
    symlink(base.join("other"), base.join("ws/out")).unwrap();
    (keep, base)
}

#[test]
fn every_limit_of_a_toolkit_is_one_of_the_policy_and_is_never_above_it() {
    let (_keep, base) = house();
    let policy = load(&base, POLICY).unwrap().limits;
    let mut seen = Vec::new();
    for key in keys::of_section(LIMITS) {
        let general = keys::find("limits", key.name).unwrap();
        assert_eq!(general.kind, key.kind, "{}", key.name);
        let ceiling = if key.name == "timeout" { "max_timeout" } else { key.name };
        let most = limit(&mut policy.clone(), ceiling).unwrap().get();
        let mut own = policy.clone();
        tighten(&mut own, &policy, key.name, most).unwrap();
        assert_eq!(limit(&mut own, key.name).unwrap().get(), most, "{}", key.name);
        let what = tighten(&mut own, &policy, key.name, most + 1000).unwrap_err();
        assert!(
            what.contains("may only be stricter") && what.contains(&format!("limits.{ceiling}")),
            "{what}"
        );
        assert_eq!(limit(&mut own, key.name).unwrap().get(), most, "what is refused is not set");
        seen.push(key.name);
    }
    assert_eq!(seen.len(), 14);
    assert!(tighten(&mut policy.clone(), &policy, "arguments", 1).is_err());
    // `timeout` is measured against the `max_timeout` of the toolkit itself, which is read first.
    let place = |name| seen.iter().position(|own| *own == name);
    assert!(place("max_timeout") < place("timeout"));
}

#[test]
fn a_smaller_maximum_holds_for_the_default_too() {
    let (_keep, base) = house();
    let text = format!("{POLICY}[toolkit.x]\nlimits = {{ max_timeout = \"5s\" }}\n[toolkit.y]\n");
    let config = load(&base, &text).unwrap();
    let limits = config.limits_of(Some("x"));
    assert_eq!((limits.timeout.as_secs(), limits.max_timeout.as_secs()), (5, 5));
    for prefix in [None, Some("y"), Some("none")] {
        assert_eq!(config.limits_of(prefix).timeout.as_secs(), 20, "{prefix:?}");
    }
    let text = format!("{POLICY}[toolkit.x]\nlimits = {{ max_timeout = \"5s\", timeout = \"6s\" }}\n");
    assert!(load(&base, &text).unwrap_err().contains("6s exceeds max_timeout (5s)"));
}

#[test]
fn the_directory_of_a_toolkit_is_where_relative_ones_begin() {
    let (_keep, base) = house();
    let config = load(&base, &format!("{POLICY}[toolkit.x]\ncwd = \"app\"\n[toolkit.y]\n")).unwrap();
    let ask = |toolkit, asked: Option<&str>| config.working_directory(toolkit, asked.map(Path::new));
    let at = |toolkit, asked| ask(toolkit, asked).unwrap().path().strip_prefix(&base).unwrap().to_path_buf();
    let absolute = base.join("ws/app/src");
    for (toolkit, asked, expected) in [
        (Some("x"), None, "ws/app"),
        (Some("x"), Some("src"), "ws/app/src"),
        (Some("x"), Some(".."), "ws"),
        (Some("x"), absolute.to_str(), "ws/app/src"),
        (Some("y"), None, "ws"),
        (Some("y"), Some("app"), "ws/app"),
        (None, Some("app"), "ws/app"),
    ] {
        assert_eq!(at(toolkit, asked), Path::new(expected), "{toolkit:?} {asked:?}");
    }
    for asked in ["../..", "../out", "../../other", "/"] {
        let answer = ask(Some("x"), Some(asked));
        assert!(matches!(answer, Err(CwdError::Outside { .. })), "{asked}: {answer:?}");
    }
    assert!(matches!(ask(Some("x"), Some("")), Err(CwdError::Missing(_))));
    assert!(matches!(ask(Some("x"), Some("none")), Err(CwdError::Missing(_))));
    assert_eq!(config.directory_of(Some("x")), base.join("ws/app"));
}

#[test]
fn a_directory_outside_of_the_workspace_is_refused_when_the_policy_loads() {
    let (_keep, base) = house();
    for cwd in ["out", "..", "/", "/etc"] {
        let error = load(&base, &format!("{POLICY}[toolkit.x]\ncwd = \"{cwd}\"\n")).unwrap_err();
        assert!(error.contains(":7:7: toolkit.x.cwd: working directory is outside"), "{error}");
    }
    let error = load(&base, &format!("{POLICY}[toolkit.x]\ncwd = \"none\"\n")).unwrap_err();
    assert!(error.contains("not an existing directory: none"), "{error}");
}

#[test]
fn clients_are_told_text_and_nothing_else() {
    assert_eq!(told("instructions", "Look only.\n\tAnd say what you see: ä."), Ok(()));
    assert_eq!(told("name", "dev-tools"), Ok(()));
    for (name, text, what) in [
        ("name", " ", "is empty"),
        ("name", "a\nb", "control character \\u{a}"),
        ("instructions", "\u{1b}[31m", "control character \\u{1b}"),
        ("version", &"1".repeat(65), "65 characters"),
        ("description", &"x".repeat(301), "at most 300"),
        ("instructions", &"x".repeat(4001), "at most 4000"),
    ] {
        assert!(told(name, text).unwrap_err().contains(what), "{name} {text}");
    }
}

#[test]
fn background_jobs_of_a_toolkit_fit_into_its_runs() {
    let (_keep, base) = house();
    let with = |limits: &str| load(&base, &format!("{POLICY}[toolkit.x]\nlimits = {{ {limits} }}\n"));
    assert_eq!(with("jobs = 2").unwrap().limits_of(Some("x")).max_jobs, 2, "4 of the policy do not fit");
    assert!(with("jobs = 2, max_jobs = 3").unwrap_err().contains("3 exceeds max_jobs (2)"));
    assert_eq!(with("max_jobs = 3, jobs = 3").unwrap().limits_of(Some("x")).max_jobs, 3);
}

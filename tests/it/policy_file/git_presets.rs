//! The presets of the built-in policy, with the real git.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use cofferdam::config::Config;
use cofferdam::policy::Policy;

use super::{House, start};

/// What git finds in its environment under the built-in policy, beside what every command finds there.
fn presets(config: Config) -> BTreeMap<String, String> {
    let policy = Policy::new(Arc::new(config), &[]).unwrap();
    let rule = policy.judge_argv(&[b"git", b"status"], None).unwrap();
    rule.command("git").environment.clone()
}

/// The list, spelled out: what goes missing from the program file is missed here.
#[test]
fn the_presets_are_complete() {
    let expected = [
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_EDITOR", "false"),
        ("GIT_SEQUENCE_EDITOR", "false"),
        ("GIT_ASKPASS", "false"),
        ("SSH_ASKPASS", "false"),
        ("GIT_PAGER", "cat"),
        ("PAGER", "cat"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_ALLOW_PROTOCOL", ""),
    ];
    let pairs = [
        ("safe.directory", "*"),
        ("core.fsmonitor", "false"),
        ("core.hooksPath", "/dev/null"),
        ("core.pager", "cat"),
        ("core.sshCommand", "false"),
        ("protocol.allow", "never"),
        ("log.showSignature", "false"),
        ("submodule.recurse", "false"),
        ("diff.ignoreSubmodules", "dirty"),
        ("diff.submodule", "short"),
        ("status.submoduleSummary", "false"),
        ("safe.bareRepository", "explicit"),
        ("gpg.program", "false"),
        ("gpg.openpgp.program", "false"),
        ("gpg.x509.program", "false"),
        ("gpg.ssh.program", "false"),
        ("commit.gpgSign", "false"),
        ("tag.gpgSign", "false"),
        ("push.gpgSign", "false"),
        ("merge.verifySignatures", "false"),
        ("credential.helper", ""),
    ];
    let mut all: BTreeMap<String, String> =
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    all.insert("GIT_CONFIG_COUNT".to_owned(), pairs.len().to_string());
    for (index, (key, value)) in pairs.iter().enumerate() {
        all.insert(format!("GIT_CONFIG_KEY_{index}"), (*key).to_owned());
        all.insert(format!("GIT_CONFIG_VALUE_{index}"), (*value).to_owned());
    }
    let house = House::new();
    assert_eq!(presets(Config::builtin_with(&house.options()).unwrap()), all);
}

/// The presets must leave git working, also where the repository belongs to somebody else and its
/// configuration names programs.
#[test]
fn git_works_with_the_presets_and_starts_nothing() {
    let house = House::new();
    let work = house.base.join("work");
    let config = Config::builtin_with(&house.options()).unwrap();
    let git = config.commands["git"].program.as_ref().expect("git is installed where tests run").path.clone();
    let prepare = |arguments: &[&str]| {
        let mut command = start(&git);
        command.args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(arguments).current_dir(&work);
        let output = command.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    prepare(&["init", "-q", "."]);
    fs::write(work.join("README.md"), "one\ntwo\n").unwrap();
    prepare(&["add", "."]);
    prepare(&["commit", "-q", "-m", "first"]);
    fs::write(work.join("README.md"), "one\ntwo\nthree\n").unwrap();
    let mark = house.base.join("started");
    let touch = format!("touch {};", mark.display());
    for key in ["core.fsmonitor", "core.pager", "core.sshCommand", "gpg.program", "core.editor"] {
        prepare(&["config", key, &touch]);
    }
    prepare(&["config", "log.showSignature", "true"]);
    let path = config.environment.path.clone();
    let environment = presets(config);
    for line in [
        "log --oneline -3",
        "log -p",
        "status --short",
        "diff",
        "diff --stat HEAD",
        "show HEAD",
        "grep -n one",
        "blame -L 1,2 README.md",
        "ls-files",
        "rev-parse HEAD",
        "describe --always --dirty",
        "shortlog HEAD",
    ] {
        let mut command = start(&git);
        command.args(line.split(' ')).current_dir(&work).env("PATH", &path);
        let command = command.envs(&environment).env("GIT_TRACE", "1");
        let output = command.output().unwrap();
        let trace = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {line}: {trace}");
        assert!(!output.stdout.is_empty(), "git {line}: {trace}");
        assert!(!trace.contains("run_command"), "git {line} starts a program: {trace}");
        assert!(!mark.exists(), "git {line} started what the repository names");
    }
    // Settings that ask for a signature start no signer.
    prepare(&["config", "commit.gpgSign", "true"]);
    let mut command = start(&git);
    command.args(["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "second", "README.md"]);
    let output = command.current_dir(&work).env("PATH", &path).envs(&environment).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!mark.exists(), "git commit started the signer that the repository names");
    // A bare repository among the files, with a configuration of its own.
    prepare(&["init", "-q", "--bare", "trap"]);
    for (arguments, works) in [
        (&["-C", "trap", "rev-parse", "--git-dir"][..], false),
        (&["--git-dir=trap", "rev-parse", "--git-dir"], true),
    ] {
        let mut command = start(&git);
        command.args(arguments).current_dir(&work).env("PATH", &path).envs(&environment);
        assert_eq!(command.output().unwrap().status.success(), works, "{arguments:?}");
    }
}

//! The presets of the built-in policy, with the real git.

use std::fs;

use cofferdam::config::Config;

use super::{House, start};

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
        command.args(line.split(' ')).current_dir(&work).env("PATH", &config.environment.path);
        let command = command.envs(&config.commands["git"].environment).env("GIT_TRACE", "1");
        let output = command.output().unwrap();
        let trace = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {line}: {trace}");
        assert!(!output.stdout.is_empty(), "git {line}: {trace}");
        assert!(!trace.contains("run_command"), "git {line} starts a program: {trace}");
        assert!(!mark.exists(), "git {line} started what the repository names");
    }
}

//! `learn`: what it records, what it proposes and never proposes, and that nothing of it stays.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Lab, Ran, Rules, copy};

/// A place outside of the workspace with files, one of them a program.
fn lab() -> Lab {
    let lab = Lab::plain();
    for dir in ["data", "tools", "home/.config", "keys/.ssh"] {
        fs::create_dir_all(lab.at(&format!("outside/{dir}"))).unwrap();
    }
    for name in ["data/1", "data/2", "data/3", "data/4", "tools/1", "tools/2", "tools/3", "tools/4"] {
        fs::write(lab.at(&format!("outside/{name}")), "x\n").unwrap();
    }
    copy("/usr/bin/true", lab.at("outside/tools/true"));
    for name in ["home/.config/x", "keys/.ssh/x"] {
        fs::write(lab.at(&format!("outside/{name}")), "secret\n").unwrap();
    }
    lab
}

fn learn(lab: &Lab, flags: &[&str], argv: &[&str]) -> Ran {
    let mut command = lab.command("learn");
    command.env("HOME", lab.at("outside/home")).args(flags).arg("--").args(argv);
    Ran::of(&command.output().unwrap())
}

/// The test program's attempts, under the recorder: the proposal as JSON.
#[track_caller]
fn tried(lab: &Lab, flags: &[&str], attempts: &[(&str, String)]) -> Value {
    let probe = lab.text("bin/probe");
    let mut argv = vec![probe.as_str(), "try"];
    argv.extend(attempts.iter().flat_map(|(what, path)| [*what, path.as_str(), "x"]));
    let flags: Vec<&str> = flags.iter().copied().chain(["--json"]).collect();
    let ran = learn(lab, &flags, &argv);
    assert!(ran.status == 0 || ran.status == 1, "{ran:?}");
    assert_eq!(lab.alive(), Vec::<i32>::new());
    ran.json()
}

fn reads(lab: &Lab, paths: &[&str]) -> Vec<(&'static str, String)> {
    paths.iter().map(|path| ("read", lab.text(path))).collect()
}

/// Whether a path is refused, with its reason.
#[track_caller]
fn refused(found: &Value, path: &str) -> String {
    let all = found["refused"].as_array().unwrap();
    let one = all.iter().find(|entry| entry["path"] == path).unwrap_or_else(|| panic!("{path}: {found:#}"));
    one["reason"].as_str().unwrap().to_owned()
}

/// Puts `section` into the policy of the laboratory in place of every other command.
fn install(lab: &Lab, section: &str) {
    let text = fs::read_to_string(lab.policy()).unwrap();
    let rest = text.split("[command.").next().unwrap();
    fs::write(lab.policy(), format!("{rest}\n{section}")).unwrap();
}

#[test]
fn a_file_outside_is_proposed_and_the_section_lets_the_program_work() {
    let lab = lab();
    let secret = lab.text("outside/secret");
    let probe = lab.text("bin/probe");
    let argv = [probe.as_str(), "try", "read", &secret, "x"];
    let before = lab.exec(&argv);
    assert_eq!(before.lines(), ["read errno=13"], "not granted yet");
    let ran = learn(&lab, &[], &argv);
    assert_eq!(ran.status, 0, "{ran:?}");
    let section: toml::Table = toml::from_str(&ran.stdout).unwrap();
    let own = section["command"][probe.as_str()].as_table().unwrap();
    assert_eq!(own.keys().collect::<Vec<_>>(), ["read"], "the smallest: {}", ran.stdout);
    assert_eq!(own["read"].as_array().unwrap(), &[toml::Value::from(secret.as_str())]);
    install(&lab, &ran.stdout);
    assert_eq!(lab.exec(&argv).lines(), ["read ok"]);
}

#[test]
fn what_makes_no_difference_is_left_out_and_said() {
    let lab = lab();
    // A list of a directory is asked for, and whether it is given changes nothing that is printed.
    let ran = learn(&lab, &["--json"], &["ls", "plain"]);
    let found = ran.json();
    assert_eq!((&found["read"], &found["execute"]), (&json!([]), &json!([])), "{found:#}");
    assert_eq!(found["verified"]["alike"], true);
    for path in found["spared"].as_array().unwrap() {
        assert!(ran.json()["section"].as_str().unwrap().contains(path.as_str().unwrap()), "{found:#}");
    }
}

#[test]
fn many_files_become_their_directory_unless_a_program_lies_there() {
    let lab = lab();
    let all = ["data/1", "data/2", "data/3", "data/4", "tools/1", "tools/2", "tools/3", "tools/4"];
    let paths: Vec<String> = all.iter().map(|name| format!("outside/{name}")).collect();
    let found = tried(&lab, &[], &reads(&lab, &paths.iter().map(String::as_str).collect::<Vec<_>>()));
    let tools = (1..=4).map(|n| lab.text(&format!("outside/tools/{n}")));
    let expected: Vec<String> = [lab.text("outside/data")].into_iter().chain(tools).collect();
    assert_eq!(found["read"], json!(expected), "{found:#}");
    assert_eq!(found["verified"]["alike"], true);
}

#[test]
fn secrets_are_neither_read_nor_proposed() {
    let lab = lab();
    lab.probed(&["say", "x"]); // there is an audit log
    let paths = ["outside/home/.config/x", "outside/keys/.ssh/x", "audit/log.jsonl", "outside/secret"];
    let found = tried(&lab, &[], &reads(&lab, &paths));
    for path in paths.iter().take(3) {
        let reason = refused(&found, &lab.text(path));
        assert!(reason.contains("secrets"), "{reason}");
        assert!(found["section"].as_str().unwrap().contains(&format!("# not granted: {}", lab.text(path))));
    }
    assert_eq!(found["read"], json!([lab.text("outside/secret")]));
    assert_eq!(found["recorded"]["status"], 0);
    let ending = found["verified"]["ending"]["message"].as_str().unwrap();
    assert!(ending.contains("outside of the workspace"), "an argument names a secret: {ending}");
    // The recorded run itself could read none, by name or by place.
    let script = format!(
        "for my $f ('{}', '{}', '{}') {{ print open(my $h, '<', $f) ? 'open ' : 'errno=' . ($!+0) . ' ' }}",
        lab.text(paths[0]),
        lab.text(paths[1]),
        lab.text(paths[3])
    );
    let ran = learn(&lab, &["--confine-interpreter", "--json"], &["perl", "-e", &script]);
    assert_eq!(ran.json()["read"], json!([lab.text(paths[3])]), "{ran:?}");
    assert_eq!(ran.json()["verified"]["same_output"], true, "as under the proposal: {ran:?}");
    install(&lab, ran.json()["section"].as_str().unwrap());
    assert_eq!(lab.exec(&["perl", "-e", &script]).stdout, "errno=13 errno=13 open ");
}

#[test]
fn listing_a_directory_of_secrets_or_of_everything_is_not_proposed() {
    let lab = lab();
    let probe = lab.text("bin/probe");
    let dirs = ["/etc", "/usr/bin", "/usr", &lab.text("outside/keys")];
    let mut argv = vec![probe.as_str(), "try"];
    argv.extend(dirs.iter().flat_map(|dir| ["list", dir, "x"]));
    let found = learn(&lab, &["--json"], &argv).json();
    for dir in dirs.iter().take(3) {
        assert!(refused(&found, dir).contains("grant holds for all below"), "{found:#}");
    }
    assert_eq!(found["verified"]["alike"], false, "and without it ends unlike: {found:#}");
}

#[test]
fn a_helper_is_proposed_and_one_that_is_always_denied_only_when_asked_for() {
    let lab = lab();
    let real = |path: &str| fs::canonicalize(path).unwrap().to_str().unwrap().to_owned();
    let found = tried(&lab, &[], &[("exec", "/usr/bin/true".into())]);
    assert_eq!(found["execute"], json!([real("/usr/bin/true")]), "{found:#}");
    assert_eq!((&found["verified"]["alike"], &found["interpreters"]), (&json!(true), &Value::Null));

    let shell = real("/bin/sh");
    let found = tried(&lab, &[], &[("exec", "/bin/sh".into())]);
    assert!(refused(&found, &shell).contains("--confine-interpreter"));
    assert_eq!((&found["execute"], &found["verified"]["alike"]), (&json!([]), &json!(false)));

    let found = tried(&lab, &["--confine-interpreter"], &[("exec", "/bin/sh".into())]);
    assert_eq!((&found["execute"], &found["always_denied_helpers"]), (&json!([shell]), &json!([shell])));
    assert!(found["section"].as_str().unwrap().contains(&format!("# WARNING: {shell} is always denied")));
}

#[test]
fn a_script_of_a_shell_is_proposed_with_the_shell_only_when_asked_for() {
    let lab = lab();
    let path = lab.at("bin/script");
    fs::write(&path, "#!/bin/sh\necho here\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let script = lab.text("bin/script");
    let ran = learn(&lab, &["--json"], &[&script]);
    assert!(ran.status == 126 && ran.stderr.contains("--confine-interpreter"), "{ran:?}");

    let ran = learn(&lab, &["--json", "--confine-interpreter"], &[&script]);
    let found = ran.json();
    let shell = fs::canonicalize("/bin/sh").unwrap();
    let shell = json!([shell.to_str().unwrap()]);
    assert_eq!((&found["execute"], &found["always_denied_helpers"]), (&shell, &shell), "{found:#}");
    assert_eq!((ran.status, &found["verified"]["alike"]), (0, &json!(true)), "{found:#}");
}

#[test]
fn a_program_of_the_workspace_is_neither_started_nor_proposed() {
    let lab = lab();
    copy("/usr/bin/true", lab.at("ws/tool"));
    fs::set_permissions(lab.at("ws/tool"), fs::Permissions::from_mode(0o755)).unwrap();
    let found = tried(&lab, &[], &[("exec", lab.text("ws/tool"))]);
    assert!(refused(&found, &lab.text("ws/tool")).contains("workspace"));
    assert_eq!(found["execute"], json!([]));
    assert_eq!(found["verified"]["alike"], true, "EACCES in both: {found:#}");
}

#[test]
fn an_always_denied_program_needs_a_flag_and_gets_a_warning() {
    let lab = lab();
    let ran = learn(&lab, &[], &["perl", "-e", "print 1"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (126, ""), "{ran:?}");
    assert!(
        ran.stderr.contains("names.interpreter") && ran.stderr.contains("--confine-interpreter"),
        "{ran:?}"
    );
    let ran = learn(&lab, &["--confine-interpreter"], &["perl", "-e", "print 1"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.stderr.contains("WARNING") && ran.stdout.contains("# WARNING"), "{ran:?}");
    let section: toml::Table = toml::from_str(&ran.stdout).unwrap();
    assert_eq!(section["command"]["perl"]["interpreters"].as_str(), Some("confine"));
    install(&lab, &ran.stdout);
    assert_eq!(lab.exec(&["perl", "-e", "print 1"]).stdout, "1");
    // The flag alone does not make a confined interpreter of every program.
    let found = learn(&lab, &["--confine-interpreter", "--json"], &["ls"]).json();
    assert_eq!(found["interpreters"], Value::Null);
}

#[test]
fn what_is_written_is_told_and_thrown_away() {
    let lab = lab();
    fs::create_dir(lab.at("ws/.git")).unwrap();
    let attempts = [("write", "out"), ("mkdir", "dir"), ("unlink", "plain"), ("truncate", "plain")];
    let attempts: Vec<_> =
        attempts.iter().map(|(what, name)| (*what, lab.text(&format!("ws/{name}")))).collect();
    let found = tried(&lab, &[], &attempts);
    assert_eq!(found["workspace"]["write"], true, "{found:#}");
    assert_eq!(found["workspace"]["written"], json!(["dir", "out", "plain"]));
    assert_eq!(found["workspace"]["repository"], false);
    assert!(found["section"].as_str().unwrap().contains("write = true (the policy does not have it)"));
    assert_eq!(found["verified"]["alike"], true, "the second run found all as it was: {found:#}");
    let found = tried(&lab, &[], &[("write", lab.text("ws/.git/x"))]);
    assert_eq!(found["workspace"]["repository"], true);
    let names: Vec<_> = fs::read_dir(lab.ws()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "only what was there: {names:?}");
    assert_eq!(fs::read_to_string(lab.at("ws/plain")).unwrap(), "plain\n");
    assert_eq!(fs::read_dir(lab.at("ws/.git")).unwrap().count(), 0);
}

#[test]
fn what_is_written_outside_is_refused() {
    let lab = lab();
    fs::set_permissions(lab.at("outside"), fs::Permissions::from_mode(0o777)).unwrap();
    let found =
        tried(&lab, &[], &[("write", lab.text("outside/new")), ("unlink", lab.text("outside/secret"))]);
    for name in ["outside/new", "outside/secret"] {
        assert!(refused(&found, &lab.text(name)).contains("only the workspace"), "{found:#}");
    }
    assert_eq!(found["workspace"]["write"], false);
    assert!(!lab.at("outside/new").exists() && lab.at("outside/secret").exists());
}

#[test]
fn ports_are_learned_only_where_the_network_is_let_in() {
    let lab = lab();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "socket(S, 2, 1, 0) && connect(S, pack('S n C4 x8', 2, {port}, 127, 0, 0, 1)) ? print 'yes' : print 'no'"
    );
    let argv = ["perl", "-e", &script];
    let found = learn(&lab, &["--json", "--confine-interpreter"], &argv).json();
    assert_eq!(found["network"], json!([]), "{found:#}");
    assert_eq!(found["denied_syscalls"], json!([{"syscall": "socket", "count": 1}]));
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    let found = learn(&lab, &["--json", "--confine-interpreter", "--network"], &argv).json();
    assert_eq!(found["network"], json!([format!("tcp:{port}")]), "{found:#}");
    assert_eq!(found["verified"]["alike"], true, "{found:#}");
    assert!(listener.accept().is_ok(), "it did connect");
}

#[test]
fn a_name_that_would_break_out_of_the_text_does_not() {
    let lab = lab();
    let evil = "outside/a\"]\n[command.sh]\nread = [\"/";
    fs::create_dir_all(lab.at(&format!("{evil}x")).parent().unwrap()).unwrap();
    fs::write(lab.at(&format!("{evil}x")), "x").unwrap();
    let path = lab.text(&format!("{evil}x"));
    let ran = learn(&lab, &[], &[&lab.text("bin/probe"), "try", "read", &path, "x"]);
    let section: toml::Table = toml::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    let commands = section["command"].as_table().unwrap();
    assert_eq!(commands.len(), 1, "{commands:?}");
    let own = &commands[lab.text("bin/probe").as_str()];
    assert_eq!(own["read"][0].as_str(), Path::new(&path).to_str());
}

#[test]
fn real_tools_get_a_section_that_works() {
    let lab = lab();
    fs::write(lab.at("ws/README.md"), "# Title\n").unwrap();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(lab.ws()).args(["-c", "user.name=u", "-c", "user.email=u@h"]).args(args);
        assert!(git.output().unwrap().status.success(), "{args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    for argv in [&["git", "log", "--oneline"][..], &["rg", "-n", "Title"], &["file", "README.md"]] {
        let ran = learn(&lab, &[], argv);
        assert_eq!(ran.status, 0, "{argv:?}: {ran:?}");
        let policy = fs::read_to_string(lab.policy()).unwrap();
        install(&lab, &ran.stdout);
        let again = lab.exec(argv);
        assert!(again.status == 0 && !again.stdout.is_empty(), "{argv:?}: {again:?} under {}", ran.stdout);
        fs::write(lab.policy(), policy).unwrap();
    }
}

#[test]
fn every_run_is_judged_and_in_the_log() {
    let lab = lab();
    for (argv, status) in [(&["git", "-c", "core.pager=id", "log"][..], 126), (&["no-such-program"], 127)] {
        let ran = learn(&lab, &[], argv);
        assert_eq!((ran.status, ran.stdout.as_str()), (status, ""), "{argv:?}: {ran:?}");
    }
    assert_eq!(lab.records().len(), 0, "nothing ran");
    let found = tried(&lab, &[], &reads(&lab, &["outside/secret"]));
    let begun = |record: &Value| record["event_type"] == "run.start" || record["event_type"] == "run.denied";
    let begun: Vec<Value> = lab.records().into_iter().filter(begun).collect();
    let runs = 1 + found["verified"]["runs"].as_u64().unwrap();
    assert_eq!(begun.len() as u64, runs, "{begun:#?}");
    assert!(begun.iter().all(|record| record["tool"] == "learn"), "{begun:#?}");
    let verify =
        Command::new(crate::support::BINARY).args(["audit", "verify"]).arg(lab.log()).output().unwrap();
    assert!(verify.status.success(), "{verify:?}");
}

#[test]
fn a_run_that_never_ends_is_ended_and_said() {
    let lab = Lab::new(&Rules { limits: "timeout = \"1s\"", ..Rules::default() });
    let probe = lab.text("bin/probe");
    let ran = learn(&lab, &["--json"], &[&probe, "pause"]);
    let found = ran.json();
    assert_eq!(found["recorded"]["timed_out"], true, "{found:#}");
    assert!(found["section"].as_str().unwrap().contains("It did not succeed"), "{found:#}");
    assert_eq!(lab.alive(), Vec::<i32>::new());
}

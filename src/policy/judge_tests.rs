//! Tests of `policy/judge.rs`.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use std::time::Duration;

use super::*;
use crate::config::Toolkit;
use crate::config::program::Programs;
use crate::config::workspace::Workspace;
use crate::policy::testing::{command, config, policy, program, set};

#[path = "toolkit_tests.rs"]
mod toolkits;

fn request(argv: &[&str]) -> Request {
    Request { argv: argv.iter().map(|word| word.as_bytes().to_vec()).collect(), ..Request::default() }
}

fn missing() -> Result<Cwd, CwdError> {
    Err(CwdError::Missing(PathBuf::from("/nope")))
}

/// A working directory that exists.
fn root() -> Result<Cwd, CwdError> {
    Workspace::open(Path::new("/"), false).unwrap().resolve(None)
}

#[track_caller]
fn denied(verdict: Verdict) -> Denial {
    match verdict {
        Verdict::Deny(denial) => denial,
        Verdict::Allow(authorized) => panic!("allowed: {:?}", authorized.argv()),
        Verdict::Ask(asking) => panic!("asks: {asking:?}"),
    }
}

#[track_caller]
fn allowed(verdict: Verdict) -> Box<Authorized> {
    match verdict {
        Verdict::Allow(authorized) => authorized,
        Verdict::Deny(denial) => panic!("denied: {denial:?}"),
        Verdict::Ask(asking) => panic!("asks: {asking:?}"),
    }
}

/// Rule of the verdict over name and arguments.
fn rule(policy: &Policy, argv: &[&str]) -> String {
    let argv: Vec<&[u8]> = argv.iter().map(|word| word.as_bytes()).collect();
    match policy.judge_argv(&argv, None) {
        Ok(rule) => format!("ok {}", rule.id),
        Err(denial) => denial.rule.into_owned(),
    }
}

#[test]
fn an_empty_command_is_refused() {
    let policy = policy(&["ls"], |_| {});
    assert_eq!(denied(policy.judge(&Request::default(), root())).reason, Reason::EmptyCommand);
    assert_eq!(denied(policy.judge(&request(&[""]), root())).reason, Reason::EmptyCommand);
}

#[test]
fn f138_nul_bytes_are_refused() {
    let policy = policy(&["ls"], |_| {});
    for argv in [["ls", "a\0b"], ["l\0s", "a"], ["ls", "\0"]] {
        let denial = denied(policy.judge(&request(&argv), root()));
        assert_eq!((denial.rule.as_ref(), denial.reason), ("arguments.nul", Reason::NulInArgument));
    }
}

/// Beyond a limit the answer is "no", never "not looked at".
#[test]
fn e022_limits_fail_closed() {
    let policy = policy(&["ls", "bash"], |config| {
        config.limits.arguments = 4;
        config.limits.argument_bytes = 20;
    });
    assert_eq!(rule(&policy, &["ls", "a", "b", "c"]), "ok allow");
    assert_eq!(rule(&policy, &["ls", "a", "b", "c", "d"]), "limits.arguments");
    assert_eq!(rule(&policy, &["ls", &"x".repeat(16)]), "ok allow");
    assert_eq!(rule(&policy, &["ls", &"x".repeat(17)]), "limits.argument_bytes");
    let many = ["bash"; 51];
    let denial = denied(policy.judge(&request(&many), root()));
    assert_eq!((denial.kind, denial.reason), (RuleKind::Limit, Reason::ArgvTooLarge));
    assert_eq!(denial.message, "51 arguments exceed the limit of 4.");
}

#[test]
fn f028_a_name_that_is_not_listed() {
    let policy = policy(&["rg", "git"], |_| {});
    let denial = denied(policy.judge(&request(&["rm", "-rf", "x"]), root()));
    assert_eq!(denial.message, "Command 'rm' is not allowlisted. Allowed: git, rg");
    assert_eq!((denial.rule.as_ref(), denial.kind), ("allow", RuleKind::Allow));
    assert_eq!(denial.reason, Reason::CommandNotAllowed);
}

#[test]
fn f028_a_long_list_is_cut_with_a_count() {
    let names: Vec<String> = (0..45).map(|index| format!("n{index:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let message = denied(policy(&names, |_| {}).judge(&request(&["rm"]), root())).message;
    assert!(message.contains("n39") && !message.contains("n40"), "{message}");
    assert!(message.ends_with(", … and 5 more"), "{message}");
    let message = denied(policy(&names[..40], |_| {}).judge(&request(&["rm"]), root())).message;
    assert!(message.ends_with("n39"), "{message}");
}

#[test]
fn f022_an_empty_policy_allows_nothing() {
    assert_eq!(
        denied(policy(&[], |_| {}).judge(&request(&["ls"]), root())).message,
        "Command 'ls' is not allowlisted. Allowed: nothing"
    );
}

#[test]
fn c2_the_list_is_exact() {
    let by_path = policy(&["/usr/bin/jq"], |_| {});
    assert_eq!(rule(&by_path, &["/usr/bin/jq"]), "ok allow");
    for name in
        ["jq", "/usr/bin/../bin/jq", "//usr/bin/jq", "/usr//bin/jq", "/usr/bin/jq/", "./usr/bin/jq", "JQ"]
    {
        assert_eq!(rule(&by_path, &[name]), "allow", "{name}");
    }
    let by_name = policy(&["jq"], |_| {});
    assert_eq!(rule(&by_name, &["jq"]), "ok allow");
    assert_eq!(rule(&by_name, &["/usr/bin/jq"]), "allow");
}

#[test]
fn f030_no_list_lifts_a_denied_name() {
    let names = ["bash", "/usr/bin/env", "setarch"];
    let listed = policy(&names, |_| {});
    let matched = policy(&[], |config| config.allow_patterns = vec![regex::Regex::new(".*").unwrap()]);
    let any = policy(&[], |config| config.allow_any = true);
    let off = policy(&names, |config| config.argument_rules = false);
    for policy in [&listed, &matched, &any, &off] {
        for name in names {
            let denial = denied(policy.judge(&request(&[name, "--version"]), root()));
            assert_eq!(denial.reason, Reason::CommandAlwaysDenied, "{name}");
        }
    }
}

#[test]
fn c3_only_confine_on_that_command_lifts_it() {
    let policy = policy(&["bash", "dash"], |config| {
        set(config, Command { interpreter: true, ..command("bash") });
    });
    assert_eq!(rule(&policy, &["bash", "-c", "id"]), "ok allow");
    assert_eq!(rule(&policy, &["dash"]), "names.shell");
    assert_eq!(rule(&policy, &["/bin/bash"]), "names.shell");
}

/// A listed name whose file is a shell is a shell.
#[test]
fn e028_a_listed_link_to_a_denied_program() {
    let change = |config: &mut Config| {
        set(config, Command { program: Some(program("view-log", "busybox")), ..command("view-log") });
        set(config, Command { program: Some(program("mytool", "mytool")), ..command("mytool") });
    };
    let policy = policy(&[], change);
    assert_eq!(rule(&policy, &["view-log"]), "names.multi-call");
    assert_eq!(rule(&policy, &["mytool"]), "ok allow");
}

/// A directory with an executable `bash`, a link `tool` to it, and an executable `plain`.
fn bin() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let bin = tempfile::tempdir().unwrap();
    for name in ["bash", "plain"] {
        let file = bin.path().join(name);
        std::fs::write(&file, "#!/bin/false\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::os::unix::fs::symlink("bash", bin.path().join("tool")).unwrap();
    std::os::unix::fs::symlink("plain", bin.path().join("alias")).unwrap();
    bin
}

#[test]
fn e028_a_link_under_allow_any_is_judged_by_its_file() {
    let bin = bin();
    let policy = policy(&[], |config| {
        config.allow_any = true;
        config.programs = Programs::new(bin.path().to_str().unwrap());
    });
    assert_eq!(rule(&policy, &["tool"]), "names.shell");
    assert_eq!(rule(&policy, &[bin.path().join("tool").to_str().unwrap()]), "names.shell");
    let proc = format!("/proc/self/root{}/tool", bin.path().display());
    assert_eq!(rule(&policy, &[&proc]), "names.shell");
    assert_eq!(rule(&policy, &["plain"]), "ok allow_any");
    for name in ["./plain", "../plain", "x/plain"] {
        assert_eq!(rule(&policy, &[name]), "names.relative", "{name}");
    }
    let found = allowed(policy.judge(&request(&["plain"]), root()));
    assert!(matches!(found.target(), Target::Found(program) if program.path == bin.path().join("plain")));
    let absent = allowed(policy.judge(&request(&["nosuchtool"]), root()));
    assert!(matches!(absent.target(), Target::Missing));
}

/// Argument rules belong to the file, so another admitted name of it does not shed them.
#[test]
fn e028_argument_rules_follow_the_file() {
    let bin = bin();
    let programs = Programs::new(bin.path().to_str().unwrap());
    let policy = policy(&[], |config| {
        let plain = Command {
            program: programs.find("plain"),
            subcommands: Some(vec!["log".to_owned()]),
            ..command("plain")
        };
        set(config, plain);
        config.allow_patterns = vec![regex::Regex::new("alias").unwrap()];
        config.programs = programs;
    });
    assert_eq!(rule(&policy, &["alias", "log"]), "ok allow_patterns");
    assert_eq!(rule(&policy, &["alias", "push"]), "plain.subcommand");
}

#[test]
fn f019_patterns_match_whole_names() {
    let policy = policy(&["git"], |config| {
        config.allow_patterns =
            ["ls", "l|lx|lxy", "py.*"].map(|pattern| regex::Regex::new(pattern).unwrap()).into();
    });
    for name in ["ls", "l", "lx", "lxy"] {
        assert_eq!(rule(&policy, &[name]), "ok allow_patterns", "{name}");
    }
    for name in ["lsof", "als", "lxyz", "LS"] {
        assert_eq!(rule(&policy, &[name]), "allow", "{name}");
    }
    assert_eq!(rule(&policy, &["ls -la"]), "names.unsafe");
    assert_eq!(rule(&policy, &["python3"]), "names.interpreter");
    let message = denied(policy.judge(&request(&["rm"]), root())).message;
    assert_eq!(message, "Command 'rm' is not allowlisted. Allowed: git, names that match 3 patterns");
}

#[test]
fn toolkits_narrow() {
    let policy = policy(&["git", "rg"], |config| {
        config.allow_patterns = vec![regex::Regex::new("ls").unwrap()];
        let toolkit = Toolkit::plain("git", Some(vec!["git".to_owned()]));
        config.toolkits.insert("git".to_owned(), toolkit);
    });
    let ask = |name: &str, toolkit: &str| {
        policy.judge(&Request { toolkit: Some(toolkit.to_owned()), ..request(&[name]) }, root())
    };
    allowed(ask("git", "git"));
    assert_eq!(denied(ask("rg", "git")).rule, "toolkit.commands");
    allowed(ask("rg", "sh"));
    allowed(ask("ls", "sh"));
    assert_eq!(denied(ask("rg", "git")).message, "Command 'rg' is not allowlisted. Allowed: git");
    assert_eq!(denied(ask("ls", "git")).reason, Reason::CommandNotAllowed);
    assert_eq!(denied(ask("git", "nope")).rule, "toolkit");
    assert_eq!(denied(ask("bash", "git")).rule, "names.shell");
}

#[test]
fn argument_rules_can_be_switched_off_alone() {
    let change = |config: &mut Config| {
        let git = Command { subcommands: Some(vec!["log".to_owned()]), ..command("git") };
        set(config, git);
    };
    assert_eq!(rule(&policy(&[], change), &["git", "push"]), "git.subcommand");
    let off = policy(&[], |config| {
        change(config);
        config.argument_rules = false;
    });
    assert_eq!(rule(&off, &["git", "push"]), "ok allow");
}

#[test]
fn the_name_is_judged_before_the_working_directory() {
    let policy = policy(&["ls"], |_| {});
    assert_eq!(denied(policy.judge(&request(&["rm"]), missing())).reason, Reason::CommandNotAllowed);
    let denial = denied(policy.judge(&request(&["ls"]), missing()));
    assert_eq!((denial.rule.as_ref(), denial.reason), ("cwd.missing", Reason::CwdMissing));
    assert!(denial.message.ends_with("is not an existing directory: /nope"), "{}", denial.message);
    let outside = CwdError::Outside { root: PathBuf::from("/w"), asked: PathBuf::from("/etc") };
    assert_eq!(denied(policy.judge(&request(&["ls"]), Err(outside))).reason, Reason::CwdOutsideWorkspace);
}

#[test]
fn a_background_job_has_a_bound_of_its_own() {
    let policy = policy(&["ls"], |_| {});
    let ask = |timeout| policy.judge(&Request { timeout, background: true, ..request(&["ls"]) }, root());
    let hour = Duration::from_secs(3600);
    for (asked, granted, clamped) in [
        (None, hour, false),
        (Some(Duration::from_secs(600)), Duration::from_secs(600), false),
        (Some(hour * 2), hour, true),
    ] {
        let authorized = allowed(ask(asked));
        assert_eq!((authorized.timeout(), authorized.timeout_clamped()), (granted, clamped), "{asked:?}");
    }
}

#[test]
fn timeouts_are_clamped_and_said_so() {
    let policy = policy(&["ls"], |_| {});
    let ask = |timeout| policy.judge(&Request { timeout, ..request(&["ls"]) }, root());
    for (asked, granted, clamped) in [
        (None, Duration::from_secs(30), false),
        (Some(Duration::from_millis(500)), Duration::from_millis(500), false),
        (Some(Duration::from_secs(300)), Duration::from_secs(300), false),
        (Some(Duration::from_millis(300_001)), Duration::from_secs(300), true),
        (Some(Duration::MAX), Duration::from_secs(300), true),
    ] {
        let authorized = allowed(ask(asked));
        assert_eq!((authorized.timeout(), authorized.timeout_clamped()), (granted, clamped), "{asked:?}");
    }
    let denial = denied(ask(Some(Duration::ZERO)));
    assert_eq!(
        (denial.rule.as_ref(), denial.message.as_str()),
        ("limits.timeout", "timeout must be a positive number")
    );
}

#[test]
fn e001_the_environment_is_built_from_nothing() {
    let mut config = config(&["ls"]);
    config.environment.set = BTreeMap::from([("TZ".to_owned(), "UTC".to_owned())]);
    set(
        &mut config,
        Command { environment: BTreeMap::from([("PAGER".to_owned(), "cat".to_owned())]), ..command("ls") },
    );
    let server = [("LANG", "C"), ("TOKEN", "x"), ("LD_PRELOAD", "/evil.so")];
    let server = server.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let policy = Policy::new(Arc::new(config), &server).unwrap();
    let ask = |env: &[(&str, &str)]| {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        policy.judge(&Request { env, ..request(&["ls"]) }, root())
    };
    let env: Vec<_> = allowed(ask(&[("TZ", "CET")])).env().to_vec();
    assert_eq!(env, [c"LANG=C", c"PAGER=cat", c"PATH=/usr/bin:/bin", c"TZ=CET"].map(CString::from));
    for name in ["LD_PRELOAD", "PAGER", "HOME", "PATH", "FOO"] {
        assert_eq!(denied(ask(&[(name, "x")])).reason, Reason::EnvNotAllowed, "{name}");
    }
}

/// Builtins that peers never looked at are just names that are not listed.
#[test]
fn e001_shell_builtins_are_unknown_names() {
    let policy = policy(&["git"], |_| {});
    for name in ["export", "typeset", "declare", ".", "source", "eval", "cd"] {
        assert_eq!(rule(&policy, &[name]), "allow", "{name}");
    }
}

/// Nothing in an argument is an operator: it is passed on as it is.
#[test]
fn e002_e003_e004_operators_in_arguments_are_data() {
    let policy = policy(&["cat"], |_| {});
    for text in [
        ";", "&&", "||", "&", "|", ">", ">>", "<", "<<", "\n", "\r", ">(tee x)", "$(id)", "`id`", "f | wc",
        "a;b", "\u{a0}",
    ] {
        let authorized = allowed(policy.judge(&request(&["cat", "f", text, "rm"]), root()));
        let argv: Vec<&[u8]> = authorized.argv().iter().map(|arg| arg.as_bytes()).collect();
        assert_eq!(argv, [b"cat", b"f" as &[u8], text.as_bytes(), b"rm"]);
    }
}

/// One of the operators stands where a peer would start a second command.
#[test]
fn e003_an_operator_is_no_command() {
    let policy = policy(&["cat"], |config| config.allow_any = true);
    for text in [";", "&&", "||", "|", ">", "<", "true;rm", "cat\nrm", "rm\t-rf"] {
        assert_eq!(rule(&policy, &[text, "x"]), "names.unsafe", "{text:?}");
    }
}

/// An entry is compared whole, never as a prefix.
#[test]
fn e031_a_prefix_is_not_the_name() {
    let policy = policy(&["/opt/app"], |_| {});
    for name in ["/opt/app-evil", "/opt/app/evil", "/opt/ap", "/opt/app ", "/opt/app\u{0}"] {
        assert!(rule(&policy, &[name]) != "ok allow", "{name}");
    }
}

/// The launcher never sees a name that could be read as one of its options.
#[test]
fn e037_a_name_is_no_option() {
    let policy = policy(&["ls"], |config| config.allow_any = true);
    for name in ["--", "--bind", "-c", "--command=x"] {
        assert_eq!(rule(&policy, &[name]), "names.unsafe", "{name}");
    }
}

#[test]
fn faults_of_a_configuration_are_errors() {
    let mut broken = config(&["git"]);
    broken.toolkits.insert("x".to_owned(), Toolkit::plain("x", Some(vec!["rg".to_owned()])));
    let error = Policy::new(Arc::new(broken), &[]).unwrap_err();
    assert!(error.to_string().contains("toolkit 'x' names command 'rg'"), "{error}");
    let mut broken = config(&[]);
    broken.environment.set = BTreeMap::from([("A".to_owned(), "\0".to_owned())]);
    assert_eq!(Policy::new(Arc::new(broken), &[]).unwrap_err(), PolicyError::EnvironmentNul("A".to_owned()));
    let empty = policy(&[], |_| {});
    assert!(matches!(empty.allow_list(&[], &["("]), Err(PolicyError::Pattern { .. })));
}

#[test]
fn a_name_of_another_list_stands_for_an_empty_table() {
    let policy = policy(&[], |config| {
        set(config, Command { subcommands: Some(vec!["log".to_owned()]), ..command("git") });
    });
    let list = policy.allow_list(&["git", "nosuchtool"], &["x[0-9]"]).unwrap();
    let judge = |argv: &[&[u8]]| {
        policy.judge_argv(argv, Some(&list)).map(|rule| rule.id).map_err(|denial| denial.rule)
    };
    assert_eq!(judge(&[b"git", b"log"]), Ok("allow"));
    assert_eq!(judge(&[b"git", b"push"]), Ok("allow"));
    assert_eq!(judge(&[b"nosuchtool", b"--x"]), Ok("allow"));
    assert_eq!(judge(&[b"x7"]), Ok("allow_patterns"));
    assert_eq!(judge(&[b"rg"]), Err("allow".into()));
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..12),
        "[a-z/.-]{0,8}".prop_map(String::into_bytes),
        proptest::sample::select(vec!["git", "--", "-O", "--output", "bash", "/bin/sh", "log", ""])
            .prop_map(|word| word.as_bytes().to_vec()),
    ]
}

proptest! {
    /// Any request gets a verdict; an allowed one carries exactly the bytes that were judged (e008).
    #[test]
    fn e008_what_was_judged_is_what_runs(
        argv in proptest::collection::vec(bytes(), 0..6),
        env in proptest::collection::vec((".{0,6}", ".{0,6}"), 0..3),
        any_name in any::<bool>(),
    ) {
        let policy = policy(&["git"], |config| {
            config.allow_any = any_name;
            set(config, Command { deny_options: vec!["-O".to_owned(), "--output".to_owned()], ..command("git") });
        });
        let request = Request { argv, env, ..Request::default() };
        if let Verdict::Allow(authorized) = policy.judge(&request, root()) {
            let run: Vec<Vec<u8>> = authorized.argv().iter().map(|arg| arg.as_bytes().to_vec()).collect();
            prop_assert_eq!(run, request.argv);
        }
    }

    #[test]
    fn every_argument_reaches_the_program_unchanged(arguments in proptest::collection::vec("[^\0]{0,12}", 0..8)) {
        let policy = policy(&["echo"], |_| {});
        let mut words = vec!["echo"];
        words.extend(arguments.iter().map(String::as_str));
        let authorized = allowed(policy.judge(&request(&words), root()));
        let run: Vec<&[u8]> = authorized.argv().iter().map(|arg| arg.as_bytes()).collect();
        prop_assert_eq!(run, words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    }

    #[test]
    fn a_name_off_the_list_is_always_denied(name in proptest::collection::vec(any::<u8>(), 0..16), rest in proptest::collection::vec(bytes(), 0..4)) {
        prop_assume!(name != b"git");
        let policy = policy(&["git"], |_| {});
        let mut argv: Vec<&[u8]> = vec![&name];
        argv.extend(rest.iter().map(Vec::as_slice));
        prop_assert!(policy.judge_argv(&argv, None).is_err());
    }
}

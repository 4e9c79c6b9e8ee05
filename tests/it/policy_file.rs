//! Policy files: what loads, and what each fault says.

mod bad;
mod check;
mod git_presets;

use std::fs;
use std::path::{Path, PathBuf};

use cofferdam::config::{Config, ConfigError, LoadOptions, Rendering, Requirement, RunUser, Sink, Source};
use proptest::prelude::*;

use crate::support::House;

impl House {
    fn load(&self, text: &str) -> Result<Config, ConfigError> {
        Config::from_str(text, Source::File(self.base.join("policy.toml")), &self.options())
    }
}

/// A program with nothing in its environment.
fn start(program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.env_clear().stdin(std::process::Stdio::null());
    command
}

#[track_caller]
fn good(text: &str) -> Config {
    House::new().load(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn all_faults_of_a_file_come_out_together_in_its_order() {
    let text = "version = 2\nalow = []\nallow = [\"ls -l\", \"nope-nope\"]\n[limits]\ntimeout = \"x\"\njobs = 0\n\
                [sandbox]\nread = [\"/no\"]\n";
    let error = House::new().load(text).unwrap_err();
    let lines: Vec<usize> = error.problems.iter().map(|problem| problem.place.unwrap().line).collect();
    assert_eq!(lines, [1, 2, 3, 3, 5, 6, 8], "{error}");
    let printed = error.to_string();
    assert_eq!(printed.lines().count(), 7);
    assert!(printed.contains("policy.toml:5:11: limits.timeout: "), "{printed}");
}

#[test]
fn version_is_required_and_only_one_exists() {
    let house = House::new();
    let error = house.load("allow = [\"ls\"]").unwrap_err();
    assert!(error.to_string().contains("version: is required: write version = 1"), "{error}");
    assert!(house.load("version = 2\nallow = [\"ls\"]").is_err());
    assert!(house.load("version = \"1\"\nallow = [\"ls\"]").is_err());
}

#[test]
fn text_that_is_not_toml_is_an_error_with_its_place() {
    let house = House::new();
    for (text, line) in
        [("version = \n", 1), ("version = 1\nallow = [\"ls\"\n[x", 3), ("version = 1\nversion = 1", 2)]
    {
        let error = house.load(text).unwrap_err();
        assert!(error.problems.iter().any(|p| p.what.starts_with("not TOML")), "{error}");
        assert!(
            error.problems.iter().any(|p| p.place.is_some_and(|place| place.line == line)),
            "{line}: {error}"
        );
    }
}

#[test]
fn the_design_example_loads_whole() {
    let house = House::new();
    fs::create_dir(house.base.join("helpers")).unwrap();
    let text = format!(
        r#"
version = 1
allow = ["ls", "cat", "head"]
allow_patterns = ["py-[a-z]+"]
[workspace]
path = "{base}/work"
[environment]
pass = ["LANG"]
set = {{ TZ = "UTC" }}
[limits]
timeout = "10s"
memory = "512MiB"
output_bytes = 0x1000
jobs = 2
[sandbox]
read = ["@libraries", "/usr/share"]
network = ["tcp:443"]
require = ["landlock>=6", "seccomp"]
user = "1000:1000"
[audit]
sinks = [{{ kind = "file", path = "{base}/state/a.jsonl" }}, {{ kind = "stderr" }}]
[command.sort]
deny_options = ["--output"]
execute = ["{base}/helpers"]
examples.allow = ["sort -u"]
examples.deny = ["sort --output x"]
[command."/usr/bin/env"]
interpreters = "confine"
[toolkit.sh]
commands = ["sort", "/usr/bin/env", "py-x"]
[toolkit.all]
"#,
        base = house.base.display()
    );
    let source = Source::File(house.base.join("policy.toml"));
    let config = Config::from_str(&text, source, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(config.workspace.path, house.base.join("work"));
    assert!(!config.workspace.write);
    assert_eq!(config.commands.len(), 5);
    assert_eq!(config.limits.output_bytes, 4096);
    assert_eq!(config.limits.max_timeout.as_secs(), 300, "defaults fill in");
    assert_eq!(config.sandbox.network, [443]);
    assert!(config.sandbox.libraries);
    assert_eq!(config.sandbox.read, [PathBuf::from("/usr/share")]);
    assert_eq!(config.sandbox.require, [Requirement::Landlock(6), Requirement::Seccomp]);
    assert_eq!(config.sandbox.user, RunUser::Ids { uid: 1000, gid: 1000 });
    assert_eq!(
        config.audit.sinks,
        [Sink::File(house.base.join("state/a.jsonl")), Sink::Stderr(Rendering::Native)]
    );
    assert_eq!(config.commands["sort"].examples_deny, ["sort --output x"]);
    assert!(config.commands["/usr/bin/env"].interpreter);
    assert_eq!(config.toolkits["all"].commands, None);
    assert_eq!(config.toolkits["sh"].commands.as_ref().unwrap().len(), 3);
    assert!(config.allow_patterns[0].is_match("py-x") && !config.allow_patterns[0].is_match("xpy-x"));
    assert!(config.missing.is_empty() && config.argument_rules && !config.allow_any);
}

#[test]
fn a_small_policy_gets_the_documented_defaults() {
    let config = good("version = 1\nallow = [\"true\"]");
    assert_eq!(config.environment.path, "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    assert!(config.environment.pass.is_empty() && config.environment.set.is_empty());
    let limits = &config.limits;
    assert_eq!(
        (limits.timeout.as_secs(), limits.max_timeout.as_secs(), limits.cpu_time.as_secs()),
        (30, 300, 60)
    );
    assert_eq!((limits.output_bytes, limits.output_lines, limits.jobs), (1 << 20, 20_000, 8));
    assert_eq!((limits.memory, limits.file_size), (1 << 30, 64 << 20));
    assert_eq!((limits.processes, limits.open_files), (128, 256));
    assert_eq!(config.sandbox.network, [0u16; 0]);
    assert_eq!(config.sandbox.user, RunUser::Auto);
    assert_eq!(config.sandbox.require.len(), 4);
    assert_eq!(config.toolkits.keys().collect::<Vec<_>>(), ["sh"]);
    assert_eq!(config.toolkits["sh"].commands, None);
    let program = config.commands["true"].program.as_ref().unwrap();
    assert!(program.path.ends_with("true") && program.ino != 0);
}

#[test]
fn loud_settings_are_said() {
    let config =
        good("version = 1\nallow_any = true\nargument_rules = \"off\"\n[environment]\npass = [\"MY_TOKEN\"]");
    assert!(config.allow_any && !config.argument_rules);
    let warnings = config.warnings().join("\n");
    assert!(warnings.contains("allow_any = true") && warnings.contains("argument_rules"), "{warnings}");
    assert!(config.notes().join("\n").contains("MY_TOKEN"));
    let config = good("version = 1\n[command.env]\ninterpreters = \"confine\"");
    assert!(config.warnings().join("\n").contains("command.env: interpreters"));
    let house = House::new();
    let text = format!(
        "version = 1\n[sandbox]\nread = [\"/\"]\n[command.ls]\nread = [\"{}\"]",
        house.base.join("state").display()
    );
    let warnings = house.load(&text).unwrap().warnings().join("\n");
    assert!(warnings.contains("every file") && warnings.contains("read the audit file"), "{warnings}");
}

#[test]
fn the_workspace_must_be_an_absolute_existing_directory() {
    let house = House::new();
    let options = LoadOptions { workspace: None, ..house.options() };
    let load = |path: &str| {
        let text = format!("version = 1\nallow = [\"ls\"]\n[workspace]\n{path}");
        Config::from_str(&text, Source::File(house.base.join("p.toml")), &options)
    };
    for (path, words) in [
        ("path = \"work\"", "not an absolute path"),
        ("path = \"/no/such\"", "cannot open the workspace directory /no/such"),
        ("path = \"/etc/passwd\"", "cannot open the workspace directory"),
        ("path = \"/\"", "whole file system"),
        ("", "workspace.path: is required"),
        ("path = 3", "wrong type"),
    ] {
        let error = load(path).unwrap_err();
        assert!(error.to_string().contains(words), "{path}: {error}");
        assert_eq!(error.problems.len(), 1, "{path}: {error}");
    }
    load(&format!("path = \"{}\"", house.base.join("work").display())).unwrap();
}

#[test]
fn nothing_that_a_command_can_write_is_trusted() {
    let house = House::new();
    let work = house.base.join("work");
    fs::copy("/bin/true", work.join("tool")).unwrap();
    let load = |write: bool, rest: &str, policy: &Path| {
        let text = format!("version = 1\n{rest}\n[workspace]\nwrite = {write}");
        Config::from_str(&text, Source::File(policy.to_path_buf()), &house.options())
    };
    let outside = house.base.join("policy.toml");
    let work_text = work.display();
    // Whether commands may write there or not: the workspace is anybody's, and nothing in it can run.
    let inside = format!("allow = [\"{work_text}/tool\"]");
    for write in [true, false] {
        let error = load(write, &inside, &outside).unwrap_err();
        assert!(error.to_string().contains("lies in the workspace"), "{error}");
    }
    for (rest, words) in [
        (format!("[command.ls]\nexecute = [\"{work_text}/tool\"]"), "never write and execute"),
        (format!("[command.ls]\nexecute = [\"{}\"]", house.base.display()), "never write and execute"),
        (
            format!("allow = [\"ls\"]\nenvironment.path = \"{work_text}:/usr/bin\""),
            "lies in the writable workspace",
        ),
    ] {
        let error = load(true, &rest, &outside).unwrap_err();
        assert!(error.to_string().contains(words), "{rest}: {error}");
        load(false, &rest, &outside)
            .unwrap_or_else(|error| panic!("read-only is no danger: {rest}: {error}"));
    }
    let inside = work.join("policy.toml");
    let error = load(true, "allow = [\"ls\"]", &inside).unwrap_err();
    assert!(error.to_string().contains("rewrite this policy"), "{error}");
    load(false, "allow = [\"ls\"]", &inside).unwrap();
}

#[test]
fn audit_sinks_are_absolute_and_out_of_reach() {
    let house = House::new();
    let options = LoadOptions { audit_file: None, ..house.options() };
    let base = house.base.display().to_string();
    std::os::unix::fs::symlink(house.base.join("work"), house.base.join("link")).unwrap();
    let load = |sinks: &str| {
        let text = format!("version = 1\nallow = [\"ls\"]\n[audit]\nsinks = {sinks}");
        Config::from_str(&text, Source::File(house.base.join("p.toml")), &options)
    };
    for (sinks, words) in [
        ("[]".to_owned(), "nothing may go unrecorded"),
        ("[{ kind = \"file\" }]".to_owned(), "path: is required"),
        ("[{ path = \"/x\" }]".to_owned(), "kind: is required"),
        ("[{ kind = \"syslog\" }]".to_owned(), "valid: file, stderr"),
        ("[{ kind = \"file\", path = \"a.jsonl\" }]".to_owned(), "not an absolute path"),
        ("[{ kind = \"stderr\", path = \"/x\" }]".to_owned(), "of no use"),
        ("[{ kind = \"stderr\" }, { kind = \"stderr\" }]".to_owned(), "twice"),
        (format!("[{{ kind = \"file\", path = \"{base}/work/a\" }}]"), "inside of the workspace"),
        (format!("[{{ kind = \"file\", path = \"{base}/link/logs/a\" }}]"), "inside of the workspace"),
        (format!("[{{ kind = \"file\", path = \"{base}/state/../work/a\" }}]"), "holds \"..\""),
    ] {
        let error = load(&sinks).unwrap_err();
        assert!(error.to_string().contains(words), "{sinks}: {error}");
    }
    let both =
        load(&format!("[{{ kind = \"stderr\" }}, {{ kind = \"file\", path = \"{base}/work-log/a\" }}]"))
            .unwrap();
    assert_eq!(
        both.audit.sinks,
        [Sink::Stderr(Rendering::Native), Sink::File(house.base.join("work-log/a"))]
    );
    let copy = LoadOptions { audit_stderr: true, ..house.options() };
    let text = "version = 1\nallow = [\"ls\"]";
    let config = Config::from_str(text, Source::File(house.base.join("p.toml")), &copy).unwrap();
    assert_eq!(
        config.audit.sinks,
        [Sink::File(house.base.join("state/audit.jsonl")), Sink::Stderr(Rendering::Native)]
    );
}

#[test]
fn files_are_read_whole_or_refused() {
    let house = House::new();
    let path = house.base.join("policy.toml");
    let load = || Config::load_with(&path, &house.options());
    assert!(load().unwrap_err().to_string().contains("cannot be read"));
    fs::write(&path, b"version = 1\n# \xff").unwrap();
    assert!(load().unwrap_err().to_string().contains("not UTF-8"));
    fs::write(&path, "#".repeat((1 << 20) + 1)).unwrap();
    assert!(load().unwrap_err().to_string().contains("larger than"));
    fs::write(&path, "version = 1\nallow = [\"ls\"]\n").unwrap();
    assert_eq!(load().unwrap().source, Source::File(path.clone()));
    let error = Config::load_with(&house.base, &house.options()).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

const FULL: &str = r#"
version = 1
allow = ["ls", "cat"]
allow_patterns = ["a", "b"]
[environment]
pass = ["LANG", "TZ"]
set = { A = "1", B = "2" }
[limits]
jobs = 3
[sandbox]
read = ["@libraries", "/usr", "/etc"]
network = ["tcp:443", "tcp:80"]
[command.sort]
deny_options = ["-o", "--output"]
subcommands = ["x", "y"]
"#;

#[test]
fn the_digest_ignores_what_has_no_meaning() {
    let house = House::new();
    let first = house.load(FULL).unwrap().digest;
    assert_eq!(first.len(), "sha256:".len() + 64);
    let same = r#"
# a comment
version=1
allow_patterns = ["b","a"]
allow = [ "cat", "ls" ]
command.sort = { subcommands = ["y", "x"], deny_options = ["--output", "-o"], examples.allow = ["sort x"] }
sandbox.network = ["tcp:80", "tcp:443"]
sandbox.read = ["/etc", "@libraries", "/usr"]
limits = { jobs = 3, timeout = "30s" }
environment.set = { B = "2", A = "1" }
environment.pass = ["TZ", "LANG"]
"#;
    assert_eq!(house.load(same).unwrap().digest, first);
    let file = house.base.join("elsewhere.toml");
    assert_eq!(Config::from_str(FULL, Source::File(file), &house.options()).unwrap().digest, first);
}

#[test]
fn the_digest_follows_every_value() {
    let house = House::new();
    let mut seen = std::collections::BTreeSet::from([house.load(FULL).unwrap().digest]);
    for (from, to) in [
        ("\"ls\", \"cat\"", "\"ls\""),
        ("[\"a\", \"b\"]", "[\"a\", \"c\"]"),
        ("\"LANG\", \"TZ\"", "\"LANG\""),
        ("A = \"1\"", "A = \"3\""),
        ("jobs = 3", "jobs = 4"),
        ("jobs = 3", "timeout = \"29s\""),
        ("\"/usr\", \"/etc\"", "\"/usr\""),
        ("\"@libraries\", ", ""),
        ("\"tcp:80\"", "\"tcp:81\""),
        ("\"-o\", ", ""),
        ("[\"x\", \"y\"]", "[\"x\"]"),
        ("[command.sort]", "[workspace]\nwrite = true\n[command.sort]"),
        ("[command.sort]", "[command.sort]\nread = [\"/usr\"]"),
        ("[command.sort]", "[command.sort]\nexecute = [\"/usr/bin\"]"),
        ("[command.sort]", "[command.sort]\narguments = \"known\""),
        ("[command.sort]", "[command.sort]\ninterpreters = \"confine\""),
        ("[command.sort]", "[command.sort]\nenvironment = { A = \"b\" }"),
        ("[command.sort]", "[toolkit.x]\ncommands = [\"ls\"]\n[command.sort]"),
        ("[command.sort]", "[toolkit.x]\n[command.sort]"),
        ("[command.sort]", "[toolkit.x]\ncwd = \".\"\n[command.sort]"),
        ("[command.sort]", "[toolkit.x]\ndescription = \"d\"\n[command.sort]"),
        ("[command.sort]", "[toolkit.x]\nlimits = { timeout = \"1s\" }\n[command.sort]"),
        ("[command.sort]", "[server]\nname = \"n\"\n[command.sort]"),
        ("[command.sort]", "[server]\nversion = \"n\"\n[command.sort]"),
        ("[command.sort]", "[server]\ninstructions = \"n\"\n[command.sort]"),
        ("version = 1", "version = 1\nargument_rules = \"off\""),
        ("network", "user = \"keep\"\nnetwork"),
        ("network", "require = []\nnetwork"),
    ] {
        assert!(FULL.contains(from), "{from}");
        let text = FULL.replacen(from, to, 1);
        let digest = house.load(&text).unwrap_or_else(|error| panic!("{to}: {error}")).digest;
        assert!(seen.insert(digest), "{from} -> {to} changed nothing");
    }
    let other = LoadOptions { audit_stderr: true, ..house.options() };
    let source = Source::File(house.base.join("policy.toml"));
    assert!(seen.insert(Config::from_str(FULL, source, &other).unwrap().digest));
}

#[test]
fn the_builtin_policy_loads_here() {
    let house = House::new();
    let config = Config::builtin_with(&house.options()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.source, Source::Builtin);
    assert!(!config.workspace.write && config.sandbox.network.is_empty() && config.sandbox.libraries);
    for name in [
        "git", "rg", "grep", "cat", "ls", "head", "tail", "wc", "sort", "uniq", "cut", "find", "jq", "diff",
        "stat", "file", "du", "echo", "printf", "pwd", "true", "date",
    ] {
        let command = config.commands.get(name).unwrap_or_else(|| panic!("{name} is not served"));
        let said = config.missing.iter().any(|line| line.starts_with(&format!("{name}: not installed; ")));
        assert_eq!(command.program.is_none(), said, "{name}: missing, and said so, or neither");
    }
    assert_eq!(config.commands.len(), 22, "nothing beside");
    assert!(config.commands.values().all(|command| command.execute.is_empty() && !command.interpreter));
}

#[test]
fn what_the_host_lacks_is_an_error_only_in_an_operators_file() {
    let house = House::new();
    let text = "version = 1\nallow = [\"ls\", \"no-such-program\"]\n[sandbox]\nread = [\"/no/such\"]\n";
    let config = Config::from_str(text, Source::Builtin, &house.options()).unwrap();
    assert!(config.commands["no-such-program"].program.is_none());
    assert_eq!(config.missing.len(), 2, "{:?}", config.missing);
    assert_eq!(house.load(text).unwrap_err().problems.len(), 2);
}

#[test]
fn examples_are_judged_by_the_closure() {
    use cofferdam::config::examples;
    let text = "version = 1\n[command.ls]\nexamples.allow = [\"ls -l\", \"ls 'a b'\"]\nexamples.deny = [\"ls -x\", \"ls\"]";
    let config = good(text);
    assert_eq!(examples::count(&config), 4);
    let judge = |argv: &[Vec<u8>]| match argv.get(1).map(Vec::as_slice) {
        Some(b"-x" | b"a b") => Err("no".to_owned()),
        _ => Ok(()),
    };
    let failures = examples::run(&config, judge);
    let keys: Vec<&str> = failures.iter().map(|failure| failure.key.as_str()).collect();
    assert_eq!(keys, ["command.ls.examples.allow[1]", "command.ls.examples.deny[1]"]);
    assert!(failures[0].to_string().contains("must be allowed, but is refused: no"));
    assert!(failures[1].to_string().contains("must be refused, but is allowed"));
}

fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        r#"(version|allow|allow_any|limits|timeout|command|"[a-z ]*"|read|sinks|kind) = ("[^"]*"|\[.*\]|[0-9xeE.:+-]*|true|\{.*\})"#,
        r"\[\[?(limits|sandbox|command|audit|toolkit|workspace)(\.[a-z]*)?\]?\]",
        r#"(timeout|memory|cpu_time|file_size|path|network|user) = "[0-9a-zA-Z .:/,-]*""#,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn no_text_makes_the_loader_panic(lines in prop::collection::vec(fragment(), 0..8)) {
        let options = LoadOptions {
            workspace: Some(std::env::temp_dir()),
            audit_file: Some(PathBuf::from("/nonexistent/audit.jsonl")),
            ..LoadOptions::default()
        };
        let text = lines.join("\n");
        for text in [text.clone(), format!("version = 1\n{text}")] {
            if let Err(error) = Config::from_str(&text, Source::File("/p.toml".into()), &options) {
                prop_assert!(!error.problems.is_empty());
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}

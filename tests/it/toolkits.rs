//! Several toolkits in one server: `[toolkit.PREFIX]` of a policy, `--config FILE.json`, `--tool`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{BINARY, Lab, Ran, Rules, Served, eventually, records};

/// Three toolkits over one policy: two narrow, one with everything.
fn three() -> Lab {
    let lab = Lab::new(&Rules {
        top: "allow = [\"cat\", \"head\", \"ls\", \"pwd\"]",
        commands: "[toolkit.text]\ncommands = [\"head\", \"cat\"]\ndescription = \"Reads text.\"\n\
                   [toolkit.list]\ncommands = [\"pwd\", \"ls\", \"PROBE\"]\ncwd = \"sub\"\n\
                   limits = { max_timeout = \"20s\", output_bytes = \"1KiB\", jobs = 1 }\n\
                   [toolkit.all]\n\
                   [server]\nname = \"kits\"\nversion = \"9.1\"\ndescription = \"For a test.\"\n\
                   instructions = \"Look, and change nothing.\"\n"
            .to_owned(),
        ..Rules::default()
    });
    let text = fs::read_to_string(lab.policy()).unwrap();
    fs::write(lab.policy(), text.replace("PROBE", lab.probe().to_str().unwrap())).unwrap();
    open(&lab.at("ws/sub/deep"));
    lab
}

/// Makes a directory below an open one that every user may read.
fn open(path: &Path) {
    fs::create_dir_all(path).unwrap();
    for path in path.ancestors().take(2) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn send(served: &mut Served, tool: &str, arguments: Value) -> u64 {
    served.send("tools/call", json!({"name": tool, "arguments": arguments}))
}

fn call(served: &mut Served, tool: &str, arguments: Value) -> (String, bool) {
    let id = send(served, tool, arguments);
    served.result(id)
}

/// What `tools/list` answers.
fn list(served: &mut Served) -> Value {
    let id = served.send("tools/list", json!({}));
    served.answer(id)["result"].take()
}

fn payload(answer: (String, bool)) -> Value {
    let (text, error) = answer;
    assert!(!error, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
fn refused(served: &mut Served, tool: &str, name: &str) -> String {
    let (text, error) = call(served, tool, json!({"command": name}));
    assert!(error, "{tool} {name}: {text}");
    text
}

#[test]
fn three_toolkits_stand_side_by_side() {
    let lab = three();
    let mut served = Served::start(&lab);
    assert_eq!(
        served.hello["serverInfo"],
        json!({"name": "kits", "version": "9.1", "description": "For a test."})
    );
    let instructions = served.hello["instructions"].as_str().unwrap();
    assert!(instructions.starts_with("Look, and change nothing.\n\nRuns single commands"), "{instructions}");
    let listed = list(&mut served);
    let tool = |name: &str| {
        let tools = listed["tools"].as_array().unwrap().iter();
        tools.clone().find(|tool| tool["name"] == name).unwrap()["description"].as_str().unwrap()
    };
    assert!(tool("text_run").starts_with("Reads text. Runs one command"), "{}", tool("text_run"));
    assert!(tool("text_run").contains("Allowed commands: cat, head. Works in"), "{}", tool("text_run"));
    assert!(tool("list_run").contains("at most 20 s"), "{}", tool("list_run"));
    assert!(tool("list_run").contains(&format!("Starts in {}", lab.at("ws/sub").display())));
    assert!(tool("all_run").contains("at most 300 s") && !tool("all_run").contains("Starts in"));

    // Its own names, and where they run.
    assert_eq!(call(&mut served, "text_allowed", json!({})).0, "cat\nhead");
    assert_eq!(
        payload(call(&mut served, "text_run", json!({"command": "cat", "args": ["plain"]})))["stdout"],
        "plain\n"
    );
    let pwd = |served: &mut Served, tool: &str, cwd: Option<&str>| {
        let arguments = cwd.map_or(json!({"command": "pwd"}), |cwd| json!({"command": "pwd", "cwd": cwd}));
        payload(call(served, tool, arguments))["stdout"].as_str().unwrap().trim_end().to_owned()
    };
    let ws = fs::canonicalize(lab.ws()).unwrap();
    for (tool, cwd, expected) in [
        ("list_run", None, ws.join("sub")),
        ("list_run", Some("deep"), ws.join("sub/deep")),
        ("list_run", Some(".."), ws.clone()),
        ("all_run", None, ws.clone()),
        ("all_run", Some("sub"), ws.join("sub")),
    ] {
        assert_eq!(pwd(&mut served, tool, cwd), expected.to_str().unwrap(), "{tool} {cwd:?}");
    }
    let (text, error) = call(&mut served, "list_run", json!({"command": "pwd", "cwd": "../.."}));
    assert!(error && text.contains("outside of the workspace"), "{text}");

    // Not those of another.
    assert_eq!(refused(&mut served, "text_run", "ls"), "Command 'ls' is not allowlisted. Allowed: cat, head");
    assert!(
        refused(&mut served, "list_run", "cat").starts_with("Command 'cat' is not allowlisted. Allowed: ")
    );
    assert_eq!(payload(call(&mut served, "all_run", json!({"command": "ls"})))["stdout"], "plain\nsub\n");

    // Its own limits, and those of the policy for the others.
    let probe = lab.probe();
    let ask = |served: &mut Served, tool: &str| {
        payload(call(served, tool, json!({"command": probe, "args": ["lines", "1000"], "timeout": 100})))
    };
    let tight = ask(&mut served, "list_run");
    assert!(tight["truncated"]["stdout"]["bytes"].as_u64().unwrap() > 10_000, "{tight}");
    assert_eq!(tight["timeout-clamped"], true);
    let wide = ask(&mut served, "all_run");
    assert!(wide["truncated"].is_null() && wide["timeout-clamped"].is_null(), "{wide}");
    assert_eq!(served.stop(), Some(0));

    let records = lab.records();
    let denied: Vec<&Value> = records.iter().filter(|record| record["event_type"] == "run.denied").collect();
    let facts = |record: &Value| {
        ["toolkit", "tool", "rule_id", "reason"].map(|key| record[key].as_str().unwrap().to_owned())
    };
    assert_eq!(facts(denied[0]), ["list", "list_run", "cwd.outside", "cwd_outside_workspace"]);
    assert_eq!(facts(denied[1]), ["text", "text_run", "toolkit.commands", "command_not_allowed"]);
    assert_eq!(denied[1]["cwd"], lab.ws().to_str().unwrap());
    assert_eq!(facts(denied[2]), ["list", "list_run", "toolkit.commands", "command_not_allowed"]);
    assert_eq!(denied[2]["cwd"], ws.join("sub").to_str().unwrap());
    let ran = |kind: &str, toolkit: &str| {
        records.iter().filter(|record| record["event_type"] == kind && record["toolkit"] == toolkit).count()
    };
    for kind in ["run.start", "run.end"] {
        assert_eq!([ran(kind, "text"), ran(kind, "list"), ran(kind, "all")], [1, 4, 4], "{kind}");
    }
}

#[test]
fn places_of_a_toolkit_are_its_own_beside_those_of_the_policy() {
    let lab = three();
    let mut served = Served::start(&lab);
    let pause = json!({"command": lab.probe(), "args": ["pause"]});
    let first = send(&mut served, "list_run", pause.clone());
    eventually("the first one runs", || lab.alive().len() == 1);
    let (text, error) = call(&mut served, "list_run", pause.clone());
    assert!(
        error
            && text
                .contains("1 commands run already, as many as the policy allows (toolkit.list.limits.jobs)"),
        "{text}"
    );
    // Another toolkit has room.
    let second = send(&mut served, "all_run", pause);
    eventually("both run", || lab.alive().len() == 2);
    served.cancel(first);
    served.cancel(second);
    eventually("its place is free again", || !call(&mut served, "list_run", json!({"command": "pwd"})).1);
    assert!(lab.alive().is_empty());
}

#[test]
fn background_jobs_of_a_toolkit_keep_its_bounds() {
    let lab = three();
    let policy = fs::read_to_string(lab.policy()).unwrap();
    fs::write(lab.policy(), policy.replace("jobs = 1 }", "jobs = 3, max_jobs = 1, max_finished_jobs = 1 }"))
        .unwrap();
    let mut served = Served::start(&lab);
    let job = |served: &mut Served, tool: &str, word: &str| {
        let started = payload(call(served, tool, json!({"command": lab.probe(), "args": [word]})));
        started["job"].as_str().unwrap().to_owned()
    };
    let first = job(&mut served, "list_start", "pause");
    let (text, error) = call(&mut served, "list_start", json!({"command": lab.probe(), "args": ["pause"]}));
    assert!(error && text.contains(&first) && text.starts_with("1 jobs are running already"), "{text}");
    let other = job(&mut served, "all_start", "pause");
    let ended = |served: &mut Served, prefix: &str, id: &str| {
        let (text, error) = call(served, &format!("{prefix}_poll"), json!({"job": id}));
        error || serde_json::from_str::<Value>(&text).unwrap()["state"] != "running"
    };
    // The handle of one toolkit is none of another.
    assert!(call(&mut served, "all_kill", json!({"job": first})).1);
    for (prefix, id) in [("list", &first), ("all", &other)] {
        payload(call(&mut served, &format!("{prefix}_kill"), json!({"job": id})));
        eventually("it is over", || ended(&mut served, prefix, id));
    }
    let second = job(&mut served, "list_start", "both");
    eventually("the second is over", || ended(&mut served, "list", &second));
    eventually("the first is displaced", || call(&mut served, "list_poll", json!({"job": first})).1);
    assert!(!call(&mut served, "list_poll", json!({"job": second})).1);
    assert!(!call(&mut served, "all_poll", json!({"job": other})).1, "those of another toolkit stay");
}

/// A checkout to work in, and a place for records.
struct Checkout {
    keep: tempfile::TempDir,
}

impl Checkout {
    fn new() -> Self {
        let keep = tempfile::Builder::new().prefix("cofferdam-it-").tempdir().unwrap();
        fs::set_permissions(keep.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let made = Self { keep };
        open(&made.at("app/lib"));
        fs::write(made.at("app/names"), "b\na\n").unwrap();
        made
    }

    fn at(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.keep.path()).unwrap().join(path)
    }

    fn app(&self) -> String {
        self.at("app").to_str().unwrap().to_owned()
    }

    fn write(&self, text: &str) -> PathBuf {
        let file = self.at("mcp.json");
        fs::write(&file, text.replace("APP", &self.app())).unwrap();
        file
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(BINARY);
        command.arg(subcommand).env("XDG_STATE_HOME", self.at("state")).current_dir(self.at("app"));
        command.stdin(Stdio::null());
        command
    }

    fn ran(&self, subcommand: &str, arguments: &[&str]) -> Ran {
        Ran::of(&self.command(subcommand).args(arguments).output().unwrap())
    }
}

/// The seed's document, with programs that every host has.
const DOCUMENT: &str = r#"{
  "name": "dev-tools",
  "instructions": "Read-only access to the checkout.",
  "tools": {
    "Shell#text": {"allow": ["sort", "cat"], "cwd": "APP", "prefix": "text"},
    "Shell#search": {"allow": ["grep"], "cwd": "APP", "prefix": "rg", "timeout": 10}
  }
}"#;

#[test]
fn a_json_document_serves_its_toolkits_and_no_others() {
    let checkout = Checkout::new();
    let file = checkout.write(DOCUMENT);
    let mut command = checkout.command("serve");
    command.arg(format!("--config={}", file.display()));
    let mut served = Served::by(command);
    assert_eq!(served.hello["serverInfo"]["name"], "dev-tools");
    assert!(
        served.hello["instructions"].as_str().unwrap().starts_with("Read-only access to the checkout.\n\n")
    );
    let listed = list(&mut served);
    let tools = listed["tools"].as_array().unwrap();
    let prefix = |tool: &Value| tool["name"].as_str().unwrap().rsplit_once('_').unwrap().0.to_owned();
    let prefixes: std::collections::BTreeSet<String> = tools.iter().map(prefix).collect();
    assert_eq!(prefixes.into_iter().collect::<Vec<_>>(), ["rg", "text"]);
    assert_eq!(call(&mut served, "text_allowed", json!({})).0, "cat\nsort");
    let sorted = payload(call(&mut served, "text_run", json!({"command": "sort", "args": ["names"]})));
    assert_eq!((&sorted["stdout"], &sorted["exit"]), (&json!("a\nb\n"), &json!(0)));
    assert_eq!(
        payload(call(&mut served, "rg_run", json!({"command": "grep", "args": ["a", "names"]})))["stdout"],
        "a\n"
    );
    assert_eq!(refused(&mut served, "rg_run", "cat"), "Command 'cat' is not allowlisted. Allowed: grep");
    // The rules of the built-in policy hold for what it lists.
    let (text, error) =
        call(&mut served, "text_run", json!({"command": "sort", "args": ["-o", "x", "names"]}));
    assert!(error && text.contains("-o"), "{text}");
    assert_eq!(served.stop(), Some(0));
    let records = records(&checkout.at("state/cofferdam/audit.jsonl"));
    let denied = records.iter().find(|record| record["event_type"] == "run.denied").unwrap();
    assert_eq!((&denied["rule_id"], &denied["toolkit"]), (&json!("toolkit.commands"), &json!("rg")));
    let loaded = records.iter().find(|record| record["event_type"] == "policy.load").unwrap();
    assert_eq!(loaded["policy_source"], file.to_str().unwrap(), "{loaded}");
}

#[test]
fn one_toolkit_can_be_given_inline() {
    let checkout = Checkout::new();
    let mut command = checkout.command("serve");
    command.arg(r#"--tool=Shell={"allow":["cat","sort"],"timeout":10}"#);
    command.arg("--tool").arg(r#"Shell#one={"allow":["ls"],"prefix":"one"}"#);
    let mut served = Served::by(command);
    assert_eq!(call(&mut served, "sh_allowed", json!({})).0, "cat\nsort");
    assert_eq!(
        payload(call(&mut served, "sh_run", json!({"command": "cat", "args": ["names"]})))["stdout"],
        "b\na\n"
    );
    assert_eq!(payload(call(&mut served, "one_run", json!({"command": "ls"})))["stdout"], "lib\nnames\n");
    assert_eq!(refused(&mut served, "one_run", "cat"), "Command 'cat' is not allowlisted. Allowed: ls");
}

#[test]
fn under_a_policy_file_a_document_only_narrows() {
    let lab = Lab::new(&Rules { top: "allow = [\"cat\", \"ls\"]", ..Rules::default() });
    let served_with = |tool: &str| {
        let mut command = lab.command("serve");
        command.arg("--tool").arg(tool);
        command
    };
    let mut served = Served::by(served_with(r#"Shell#r={"allow":["cat"],"prefix":"r"}"#));
    assert_eq!(
        payload(call(&mut served, "r_run", json!({"command": "cat", "args": ["plain"]})))["stdout"],
        "plain\n"
    );
    assert_eq!(refused(&mut served, "r_run", "ls"), "Command 'ls' is not allowlisted. Allowed: cat");
    let wider = Ran::of(&served_with(r#"Shell={"allow":["head"]}"#).output().unwrap());
    assert_eq!(wider.status, 125);
    assert!(wider.stderr.contains("\"head\" is not allowed by the policy"), "{}", wider.stderr);
    let longer = Ran::of(&served_with(r#"Shell={"allow":["cat"],"timeout":400}"#).output().unwrap());
    assert!(
        longer.stderr.contains("exceeds max_timeout (5m): a toolkit may only be stricter"),
        "{}",
        longer.stderr
    );
}

/// Settings of one entry and what is said of them.
const BAD: &[(&str, &str)] = &[
    (
        r#"{"allow": ["cat"], "timeut": 5}"#,
        "Unknown config key(s) for cofferdam's Shell toolkit: timeut. Valid keys: allow, allow-any, consent, \
         cwd, isolate-terminal, job-ttl, max-finished-jobs, max-jobs, max-output-bytes, max-output-lines, timeout, \
         and prefix; did you mean timeout?",
    ),
    (
        r#"{"allow": []}"#,
        "Shell toolkit requires a non-empty allow list (or allow-any: true when consent is enforced elsewhere, \
         such as by the MCP client)",
    ),
    ("{}", "Shell toolkit requires a non-empty allow list"),
    (
        r#"{"allow": ["cat"], "allow-any": true}"#,
        "Shell toolkit allow and allow-any are mutually exclusive: ",
    ),
    (r#"{"allow": ["cat"], "cwd": "/nope"}"#, "Shell toolkit cwd is not an existing directory: /nope"),
    (r#"{"allow": ["cat"], "timeout": 0}"#, "takes a number of seconds greater than 0"),
    (r#"{"allow": ["cat"], "max-output-bytes": 1023}"#, "takes an integer of at least 1024"),
    (r#"{"allow": ["cat"], "max-output-lines": 9}"#, "takes an integer of at least 10"),
    (r#"{"allow": ["cat"], "max-jobs": 0}"#, "takes an integer of at least 1"),
    (r#"{"allow": ["cat"], "max-finished-jobs": 0}"#, "takes an integer of at least 1"),
    (r#"{"allow": ["cat"], "job-ttl": 0}"#, "takes a number of seconds greater than 0"),
    (r#"{"allow": ["cat"], "isolate-terminal": false}"#, "cannot be false"),
    (r#"{"allow": ["cat"], "launcher": "bwrap"}"#, "cannot come from a file"),
    (r#"{"allow": ["cat"], "env": {"A": "b"}}"#, "write [environment] pass and set in a policy file"),
    (r#"{"allow": ["cat"], "prefix": "a b"}"#, "is not a tool prefix"),
    (r#"{"allow": ["no-such-program"]}"#, "is in no directory of environment.path"),
];

#[test]
fn every_bad_setting_keeps_the_server_from_starting_and_check_says_the_same() {
    let checkout = Checkout::new();
    for (entry, words) in BAD {
        let file = checkout.write(&format!("{{\"tools\": {{\"Shell#x\": {entry}}}}}"));
        let file = file.to_str().unwrap();
        let served = checkout.ran("serve", &["--config", file]);
        let checked = checkout.ran("check", &[file]);
        assert_eq!((served.status, checked.status), (125, 1), "{entry}: {served:?} {checked:?}");
        assert!(checked.stderr.contains(words), "{entry}: {}", checked.stderr);
        assert!(checked.stderr.starts_with(&format!("{file}: tools.\"Shell#x\"")), "{}", checked.stderr);
        assert_eq!(served.stderr, format!("cofferdam: {}", checked.stderr), "one sentence for both");
        let inline = checkout.ran("serve", &["--tool", &format!("Shell#x={entry}")]);
        assert!(inline.stderr.contains(words) && inline.status == 125, "{entry}: {}", inline.stderr);
        assert!(inline.stdout.is_empty() && served.stdout.is_empty());
    }
}

#[test]
fn documents_are_checked_and_explained() {
    let checkout = Checkout::new();
    let file = checkout.write(DOCUMENT);
    let file = file.to_str().unwrap();
    let checked = checkout.ran("check", &["--json", file]);
    let object = checked.json();
    assert_eq!((checked.status, &object["ok"]), (0, &json!(true)), "{checked:?}");
    let explain = |toolkit: &str, name: &str| {
        checkout.ran("explain", &["--config", file, "--toolkit", toolkit, "--json", "--", name]).json()
    };
    assert_eq!(explain("text", "cat")["verdict"], "allow");
    assert_eq!(explain("rg", "cat")["rule"], "toolkit.commands");
    assert_eq!(explain("none", "cat")["rule"], "toolkit");
    let whole = checkout.ran("explain", &["--config", file, "--json", "--", "ls"]).json();
    assert_eq!(whole["rule"], "allow", "the policy is what the document names: {whole}");
    fs::write(file, "{\"tools\": {\n  \"Shell\" {}}}").unwrap();
    let broken = checkout.ran("check", &[file]);
    assert!(broken.stderr.starts_with(&format!("{file}:2:11: not JSON: ")), "{}", broken.stderr);
    assert!(broken.status == 1 && checkout.ran("check", &[file, "--config", file]).status == 125);
}

#[test]
fn a_toolkit_with_any_name_is_still_confined_and_loud() {
    let checkout = Checkout::new();
    let file = checkout.write(
        r#"{"tools": {"Shell": {"allow-any": true, "cwd": "APP"},
        "Shell#few": {"allow": ["cat"], "prefix": "few"}}}"#,
    );
    let mut command = checkout.command("serve");
    command.arg("--config").arg(&file);
    let mut served = Served::by(command);
    assert!(call(&mut served, "sh_allowed", json!({})).0.contains("Any command name may run"));
    assert_eq!(call(&mut served, "few_allowed", json!({})).0, "cat");
    assert_eq!(
        payload(call(&mut served, "sh_run", json!({"command": "wc", "args": ["-l", "names"]})))["exit"],
        0
    );
    assert_eq!(refused(&mut served, "few_run", "wc"), "Command 'wc' is not allowlisted. Allowed: cat");
    assert!(refused(&mut served, "sh_run", "bash").contains("bash"), "always-denied names stay so");
    assert_eq!(served.stop(), Some(0));
    let records = records(&checkout.at("state/cofferdam/audit.jsonl"));
    let start = records.iter().find(|record| record["event_type"] == "run.start").unwrap();
    assert_eq!((&start["allow_any"], &start["rule_id"]), (&json!(true), &json!("allow_any")));
    let warned = checkout.ran("check", &[file.to_str().unwrap()]);
    assert!(warned.stdout.contains("allow_any"), "{}", warned.stdout);
}

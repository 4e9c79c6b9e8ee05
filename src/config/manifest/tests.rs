//! Tests of `config/manifest.rs` and the files below it.

use super::*;
use crate::config::{Config, LoadOptions, Source};

#[track_caller]
fn faults(text: &str) -> String {
    Manifest::from_str(text, "m.json").map(|manifest| format!("{manifest:?}")).unwrap_err().to_string()
}

/// Fault of one setting of an entry that is good but for it.
#[track_caller]
fn setting(member: &str) -> String {
    let text = faults(&format!(r#"{{"tools": {{"Shell#x": {{"allow": ["ls"], {member}}}}}}}"#));
    assert_eq!(text.lines().count(), 1, "one fault, one line: {text}");
    text
}

#[test]
fn a_document_is_read_as_the_pack_reads_it() {
    let text = r#"{"name": "dev-tools", "version": "1.0", "description": "d", "instructions": "Read only.", "tools": {
        "Shell#git": {"allow": ["git", "/usr/bin/jq"], "prefix": "git", "isolate-terminal": true},
        "Shell": {"allow-any": true, "timeout": 0.5, "max-output-bytes": 1024, "max-output-lines": 10, "max-jobs": 1},
        "Shell#off": {"allow-any": false, "allow": ["ls"], "prefix": "off"}}}"#;
    let manifest = Manifest::from_str(text, "m.json").unwrap();
    assert_eq!(manifest.server.name.as_deref(), Some("dev-tools"));
    assert_eq!(manifest.server.version.as_deref(), Some("1.0"));
    assert_eq!(manifest.server.instructions.as_deref(), Some("Read only."));
    let by = |prefix: &str| manifest.entries.iter().find(|entry| entry.prefix == prefix).unwrap();
    assert_eq!(by("git").allow.as_deref().unwrap(), ["git", "/usr/bin/jq"]);
    assert_eq!(by("sh").allow, None);
    assert_eq!(by("off").allow.as_deref().unwrap(), ["ls"]);
    let ceilings: Vec<(&str, u64)> = by("sh").ceilings.iter().map(|own| (own.limit, own.value)).collect();
    assert_eq!(ceilings, [("timeout", 500), ("output_bytes", 1024), ("output_lines", 10), ("max_jobs", 1)]);
}

#[test]
fn the_errors_of_the_pack_are_kept() {
    assert_eq!(
        faults(r#"{"tools": {"Shell": {"allow": ["git"], "timeut": 5}}}"#),
        "m.json: tools.Shell: Unknown config key(s) for cofferdam's Shell toolkit: timeut. Valid keys: allow, \
         allow-any, consent, cwd, isolate-terminal, job-ttl, max-finished-jobs, max-jobs, max-output-bytes, \
         max-output-lines, timeout, and prefix; did you mean timeout?"
    );
    let empty = "m.json: tools.Shell.allow: Shell toolkit requires a non-empty allow list (or allow-any: true when \
                 consent is enforced elsewhere, such as by the MCP client)";
    assert_eq!(faults(r#"{"tools": {"Shell": {"allow": []}}}"#), empty);
    for none in [r#"{"tools": {"Shell": {}}}"#, r#"{"tools": {"Shell": {"allow-any": false}}}"#] {
        assert_eq!(faults(none), empty.replace("Shell.allow:", "Shell:"));
    }
    assert!(
        faults(r#"{"tools": {"Shell": {"allow": ["git"], "allow-any": true}}}"#)
            .contains("tools.Shell: Shell toolkit allow and allow-any are mutually exclusive: keep the one")
    );
    assert_eq!(
        setting(r#""cwd": "/nope""#),
        "m.json: tools.\"Shell#x\".cwd: Shell toolkit cwd is not an existing directory: /nope"
    );
    assert!(setting(r#""cwd": "/etc/passwd""#).contains("not an existing directory"));
}

#[test]
fn several_unknown_keys_are_named_together() {
    let text = setting(r#""colour": "red", "timeut": 5"#);
    assert!(text.contains("Shell toolkit: colour, timeut. Valid keys: allow,"), "{text}");
}

#[test]
fn each_setting_has_its_range() {
    for (member, words) in [
        (r#""timeout": 0"#, "timeout: takes a number of seconds greater than 0"),
        (r#""timeout": -1"#, "greater than 0"),
        (r#""timeout": "5""#, "greater than 0"),
        (r#""timeout": 1e300"#, "more than a month"),
        (r#""max-output-bytes": 1023"#, "max-output-bytes: takes an integer of at least 1024, not 1023"),
        (r#""max-output-bytes": 2000.5"#, "at least 1024"),
        (r#""max-output-lines": 9"#, "max-output-lines: takes an integer of at least 10"),
        (r#""max-jobs": 0"#, "max-jobs: takes an integer of at least 1"),
        (r#""max-finished-jobs": 0"#, "at least 1"),
        (r#""job-ttl": 0"#, "greater than 0"),
        (r#""isolate-terminal": false"#, "cannot be false"),
        (r#""isolate-terminal": 1"#, "takes true or false, not a number"),
        (r#""allow-any": "yes""#, "takes true or false, not a string"),
        (r#""prefix": "9x""#, "not a tool prefix"),
        (r#""prefix": 1"#, "prefix: takes a string, not a number"),
        (r#""cwd": []"#, "cwd: takes a string, not an array"),
    ] {
        let text = setting(member);
        assert!(text.starts_with("m.json: tools.\"Shell#x\".") && text.contains(words), "{member}: {text}");
    }
    for (allow, words) in [
        (r#""ls""#, "allow: takes an array of strings, not a string"),
        (r#"["ls", 1]"#, "allow[1]: takes a non-empty string, not a number"),
        (r#"["ls", ""]"#, "allow[1]: a command name must not be empty"),
        (r#"["ls", "ls"]"#, "listed twice"),
        (r#"["ls -l"]"#, "allow[0]: unsafe command name"),
        (r#"["bin/ls"]"#, "relative path"),
    ] {
        let text = faults(&format!(r#"{{"tools": {{"Shell": {{"allow": {allow}}}}}}}"#));
        assert!(text.contains(words), "{allow}: {text}");
    }
}

#[test]
fn what_belongs_into_a_policy_is_sent_there() {
    for (member, words) in [
        (
            r#""env": {"A": "b"}"#,
            "env: is not set here: commands get a scrubbed environment; write [environment]",
        ),
        (r#""launcher": "x""#, "launcher: cannot come from a file"),
        (r#""sandbox": false"#, "sandbox: is not set here"),
        (r#""network": "all""#, "--policy"),
        (r#""memory": 1"#, "[limits]"),
        (r#""allow_patterns": ["x"]"#, "allow_patterns"),
    ] {
        let text = setting(member);
        assert!(text.contains(words), "{member}: {text}");
    }
    assert!(setting(r#""max-output": 5000"#).contains("max-output: is max-output-bytes or"));
}

#[test]
fn the_document_itself_is_checked() {
    for (text, words) in [
        ("[]", "takes an object with the key tools, not an array"),
        ("{}", "tools: is required"),
        (r#"{"tools": {}}"#, "tools: is empty"),
        (r#"{"tools": []}"#, "tools: takes an object"),
        (r#"{"tools": {"Shell": []}}"#, "tools.Shell: takes an object of settings, not an array"),
        (r#"{"tools": {"Shel": {}}}"#, "no toolkit pack \"Shel\"; did you mean Shell? valid: Shell"),
        (r#"{"tolls": {"Shell": {"allow": ["ls"]}}}"#, "tolls: unknown key; did you mean tools?"),
        (r#"{"http": {}, "tools": {"Shell": {"allow": ["ls"]}}}"#, "http: is not served by this file"),
        (r#"{"name": 1, "tools": {"Shell": {"allow": ["ls"]}}}"#, "name: takes a string, not a number"),
        (r#"{"name": "", "tools": {"Shell": {"allow": ["ls"]}}}"#, "name: is empty"),
        (
            "{\"tools\": {\n \"Shell\": {\"allow\": [\"ls\"]},\n \"Shell\": {}}}",
            "m.json:3:8: not JSON: the key \"Shell\" stands twice",
        ),
        ("{\n\"tools\"}", "m.json:2:8: not JSON"),
        (
            r#"{"tools": {"Shell#a": {"allow": ["ls"]}, "Shell#b": {"allow": ["ls"]}}}"#,
            "tools.\"Shell#b\".prefix: \"sh\" is the prefix of tools.\"Shell#a\", too",
        ),
    ] {
        let error = faults(text);
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn inline_entries_are_named_as_they_were_written() {
    let of = |tool: &str| Manifest::of(None, &[tool.to_owned()]).map(Option::unwrap);
    let manifest = of(r#"Shell#git={"allow":["git"],"prefix":"git","timeout":10}"#).unwrap();
    assert_eq!(manifest.entries[0].prefix, "git");
    let error = |tool: &str| of(tool).unwrap_err().to_string();
    assert!(
        error("Shell")
            .starts_with("command line: --tool.Shell: Shell toolkit requires a non-empty allow list")
    );
    assert!(error("Shell={").contains("write --tool Shell='{\"allow\":[\"git\"]}'"), "{}", error("Shell={"));
    assert!(error(r#"Fetch={"allow":["x"]}"#).contains("no toolkit pack \"Fetch\""));
    assert!(Manifest::of(None, &[]).unwrap().is_none());
    let twice = [r#"Shell={"allow":["ls"]}"#.to_owned(), r#"Shell#b={"allow":["ls"]}"#.to_owned()];
    assert!(Manifest::of(None, &twice).unwrap_err().to_string().contains("is the prefix of"));
}

fn house() -> (tempfile::TempDir, PathBuf) {
    let keep = tempfile::tempdir().unwrap();
    let base = keep.path().canonicalize().unwrap();
    std::fs::create_dir_all(base.join("ws/app/src")).unwrap();
    std::fs::create_dir_all(base.join("ws/lib")).unwrap();
    (keep, base)
}

fn options(base: &Path) -> LoadOptions {
    LoadOptions { audit_file: Some(base.join("audit.jsonl")), ..LoadOptions::default() }
}

#[track_caller]
fn under_builtin(base: &Path, text: &str) -> Result<Config, String> {
    let manifest = Manifest::from_str(text, "m.json").unwrap();
    Config::with_manifest(None, &manifest, &options(base)).map_err(|error| error.to_string())
}

#[test]
fn without_a_policy_the_workspace_is_the_directory_that_holds_all() {
    let (_keep, base) = house();
    let kits = |first: &str, second: &str| {
        format!(
            r#"{{"tools": {{"Shell#a": {{"allow": ["cat"], "cwd": {:?}, "prefix": "a"}},
                "Shell#b": {{"allow": ["ls"], "cwd": {:?}, "prefix": "b"}}}}}}"#,
            base.join(first),
            base.join(second)
        )
    };
    let config = under_builtin(&base, &kits("ws/app", "ws/app/src")).unwrap();
    assert_eq!(config.workspace.path, base.join("ws/app"));
    assert!(!config.workspace.write && !config.allow_any);
    assert_eq!(config.toolkits["a"].directory, None);
    assert_eq!(config.toolkits["b"].directory, Some(base.join("ws/app/src")));
    assert_eq!(config.commands.keys().collect::<Vec<_>>(), ["cat", "ls"], "what is named, and nothing else");
    let error = under_builtin(&base, &kits("ws/app", "ws/lib")).unwrap_err();
    assert!(error.contains("none holds the others") && error.contains("--workspace"), "{error}");
    let manifest = Manifest::from_str(&kits("ws/app", "ws/lib"), "m.json").unwrap();
    let wide = LoadOptions { workspace: Some(base.join("ws")), ..options(&base) };
    let config = Config::with_manifest(None, &manifest, &wide).unwrap();
    assert_eq!(config.toolkits["b"].directory, Some(base.join("ws/lib")));
    let narrow = LoadOptions { workspace: Some(base.join("ws/app")), ..options(&base) };
    let error = Config::with_manifest(None, &manifest, &narrow).unwrap_err().to_string();
    assert!(
        error.contains("tools.\"Shell#b\".cwd: working directory is outside of the workspace"),
        "{error}"
    );
}

#[test]
fn without_a_policy_names_keep_the_rules_that_the_builtin_one_has() {
    let (_keep, base) = house();
    let text =
        |entry: &str| format!(r#"{{"tools": {{"Shell": {{"cwd": {:?}, {entry}}}}}}}"#, base.join("ws"));
    let config = under_builtin(&base, &text(r#""allow": ["find", "touch"]"#)).unwrap();
    assert_eq!(config.commands["find"].examples_allow.len(), 3);
    assert!(config.commands["touch"].program.is_some());
    assert!(config.missing.is_empty(), "{:?}", config.missing);
    let error = under_builtin(&base, &text(r#""allow": ["no-such-program"]"#)).unwrap_err();
    assert!(
        error.contains("tools.Shell.allow[0]: program \"no-such-program\" is in no directory"),
        "{error}"
    );
    let error = under_builtin(&base, &text(r#""allow": ["ls"], "timeout": 301"#)).unwrap_err();
    assert!(error.contains("tools.Shell.timeout: 5m 1s exceeds max_timeout (5m)"), "{error}");
    let config = under_builtin(&base, &text(r#""allow-any": true"#)).unwrap();
    assert!(config.allow_any && config.commands.is_empty());
    assert!(config.warnings().iter().any(|line| line.contains("allow_any")));
}

#[test]
fn under_a_policy_nothing_is_added() {
    let (_keep, base) = house();
    let file = base.join("policy.toml");
    let workspace = format!("[workspace]\npath = {:?}\n", base.join("ws"));
    let policy = |text: &str| std::fs::write(&file, format!("version = 1\n{text}\n{workspace}")).unwrap();
    let under = |entry: &str| {
        let manifest =
            Manifest::from_str(&format!(r#"{{"tools": {{"Shell": {{{entry}}}}}}}"#), "m.json").unwrap();
        Config::with_manifest(Some(&file), &manifest, &options(&base)).map_err(|error| error.to_string())
    };
    policy("allow = [\"ls\", \"cat\"]\nallow_patterns = [\"he.d\"]");
    let config = under(r#""allow": ["ls", "head"]"#).unwrap();
    assert_eq!(config.commands.len(), 2, "the policy stays whole: the toolkit narrows");
    assert_eq!(config.source, Source::File(file.clone()));
    let error = under(r#""allow": ["catt"]"#).unwrap_err();
    assert!(
        error.contains(
            "tools.Shell.allow[0]: \"catt\" is not allowed by the policy; did you mean cat? valid: cat, ls"
        ),
        "{error}"
    );
    assert!(under(r#""allow-any": true"#).unwrap_err().contains("the policy has an allow-list"));
    policy("allow_any = true");
    assert_eq!(under(r#""allow-any": true"#).unwrap().toolkits["sh"].commands, None);
    policy("allow = [\"ls\"]\n[toolkit.sh]\ncommands = [\"ls\"]");
    assert!(under(r#""allow": ["ls"]"#).unwrap_err().contains("has [toolkit] tables of its own"));
}

#[test]
fn the_digest_covers_the_toolkits() {
    let (_keep, base) = house();
    let with = |entry: &str| {
        let text =
            format!(r#"{{"tools": {{"Shell": {{"cwd": {:?}, "allow": ["ls"]{entry}}}}}}}"#, base.join("ws"));
        under_builtin(&base, &text).unwrap().digest
    };
    let mut seen = std::collections::BTreeSet::new();
    for entry in
        ["", r#", "timeout": 5"#, r#", "max-output-lines": 11"#, r#", "prefix": "x""#, r#", "max-jobs": 2"#]
    {
        assert!(seen.insert(with(entry)), "{entry}");
    }
    assert_eq!(with(""), with(r#", "isolate-terminal": true"#));
}

#[test]
fn a_file_that_commands_could_rewrite_is_refused() {
    let (_keep, base) = house();
    let (policy, file) = (base.join("policy.toml"), base.join("ws/m.json"));
    let workspace = format!("[workspace]\npath = {:?}\nwrite = true\n", base.join("ws"));
    std::fs::write(&policy, format!("version = 1\nallow = [\"ls\"]\n{workspace}")).unwrap();
    std::fs::write(&file, r#"{"tools": {"Shell": {"allow": ["ls"]}}}"#).unwrap();
    let manifest = Manifest::of(Some(&file), &[]).unwrap().unwrap();
    let error = Config::with_manifest(Some(&policy), &manifest, &options(&base)).unwrap_err();
    assert!(error.to_string().contains("lies in the writable workspace"), "{error}");
}

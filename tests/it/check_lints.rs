//! `cofferdam check`: lints with their ids, the switch that makes them an error, and policies compared.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::support::House;

impl House {
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.base.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn program(&self, name: &str, mode: u32) -> String {
        let path = self.base.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy("/bin/true", &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn check(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_cofferdam"));
        command.env_clear().env("XDG_STATE_HOME", self.base.join("state"));
        command.arg("check").args(arguments).args(["--workspace", "."]);
        let output = command.current_dir(self.base.join("work")).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// The lints of a policy text: `ID KEY LINE`.
    fn lints(&self, text: &str) -> BTreeSet<String> {
        let path = self.write("policy.toml", &format!("version = 1\n{text}"));
        let (status, out, errors) = self.check(&["--json", &path]);
        assert_eq!(status, 0, "{out}{errors}");
        let object: Value = serde_json::from_str(&out).unwrap();
        let lints = object["lints"].as_array().unwrap().iter();
        lints
            .map(|lint| {
                for field in ["message", "remedy", "severity"] {
                    assert!(!lint[field].as_str().unwrap().is_empty(), "{lint}");
                }
                let id = lint["id"].as_str().unwrap();
                format!("{id} {} {}", lint["key"].as_str().unwrap(), lint["line"])
            })
            .collect()
    }
}

#[track_caller]
fn found(lints: &BTreeSet<String>, wanted: &str) {
    assert!(lints.contains(wanted), "{wanted} is not among {lints:#?}");
}

#[track_caller]
fn only(lints: &BTreeSet<String>, wanted: &[&str]) {
    let wanted: BTreeSet<String> = wanted.iter().map(|line| (*line).to_owned()).collect();
    assert_eq!(*lints, wanted);
}

#[test]
fn the_builtin_policy_has_no_warning() {
    let house = House::new();
    let (status, out, errors) = house.check(&["--json", "--deny-warnings"]);
    assert_eq!(status, 0, "{out}{errors}");
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(object["warnings"], Value::Array(Vec::new()));
}

#[test]
fn a_plain_policy_has_no_lint() {
    let house = House::new();
    only(&house.lints("allow = [\"cat\", \"sort\"]\n"), &[]);
    only(&house.lints("[command.cat]\npaths = \"any\"\n"), &["paths-any command.cat.paths 3"]);
}

#[test]
fn what_a_program_can_start_is_said() {
    let house = House::new();
    let unheard = house.program("bin/unheard-of", 0o755);
    let lints = house.lints(&format!(
        "allow = [\"cat\",\n \"{unheard}\", \"tee\", \"sh\"]\n[command.\"/usr/bin/perl\"]\ninterpreters = \"confine\"\n[command.ls]\ninterpreters = \"confine\"\n"
    ));
    for wanted in [
        "always-denied allow[3] 3",
        "confine-needless command.ls.interpreters 7",
        "interpreter-confined command.\"/usr/bin/perl\".interpreters 5",
        "no-grammar allow[1] 3",
        "writes-files allow[2] 3",
    ] {
        found(&lints, wanted);
    }
    assert!(!lints.iter().any(|line| line.contains("allow[0]")), "{lints:?}");
    // A grammar that delegates what recipes start.
    let make = house.program("bin/make", 0o755);
    found(&house.lints(&format!("allow = [\"{make}\"]\n")), "runs-programs allow[0] 2");
}

/// Every program that is known to start others is refused, judged by a grammar, or warned of; without
/// argument rules no grammar helps.
#[test]
fn no_program_that_starts_others_goes_unsaid() {
    let house = House::new();
    let text = include_str!("../../policy/runs-programs.toml");
    let names = text.parse::<toml::Table>().unwrap()["names"].clone();
    let file = house.program("bin/unheard-of", 0o755);
    let mut paths = Vec::new();
    for name in names.as_array().unwrap() {
        let path = house.base.join("bin").join(name.as_str().unwrap());
        // A hard link: what a symbolic one leads to has a name of its own.
        fs::hard_link(&file, &path).unwrap();
        paths.push(format!("{path:?}"));
    }
    let said = |rules: &str| -> BTreeSet<usize> {
        let lints = house.lints(&format!("{rules}allow = [{}]\n", paths.join(", ")));
        let ids = ["runs-programs allow[", "always-denied allow["];
        let index = |line: &String| {
            let rest = ids.iter().find_map(|id| line.strip_prefix(id))?;
            Some(rest.split(']').next()?.parse().unwrap())
        };
        lints.iter().filter_map(index).collect()
    };
    let with_rules = said("");
    assert_eq!(said("argument_rules = \"off\"\n").len(), paths.len());
    for (index, path) in paths.iter().enumerate().filter(|(index, _)| !with_rules.contains(index)) {
        let base = path.trim_matches('"').rsplit('/').next().unwrap();
        let known = cofferdam::policy::grammar::program(base.as_bytes()).unwrap();
        assert!(known.is_some(), "{index}: {base} has no grammar, and nothing is said of it");
    }
}

#[test]
fn patterns_are_tried_on_names() {
    let house = House::new();
    let lints = house.lints(
        "allow = [\"cat\", \"ls\"]\nallow_patterns = [\".*\",\n\"py[a-z]+3\",\n\"[bc]?ash\",\n\"[c]a(t)\",\n\"zq-[a-z]+\"]\n",
    );
    let runners = cofferdam::policy::knowledge::open_runners().unwrap();
    let mut wanted = vec![
        "pattern-any allow_patterns[0] 3",
        "pattern-denied-name allow_patterns[0] 3",
        "pattern-denied-name allow_patterns[1] 4",
        "pattern-denied-name allow_patterns[2] 5",
        "pattern-shadowed allow_patterns[3] 6",
    ];
    if !runners.is_empty() {
        wanted.push("runs-programs allow_patterns[0] 3");
    }
    only(&lints, &wanted);
    let (_, out, _) = house.check(&[house.base.join("policy.toml").to_str().unwrap()]);
    assert!(
        out.contains("'py[a-z]+3' matches names that are always refused: ")
            && out.contains("python3; it is wider"),
        "{out}"
    );
    only(&house.lints("allow_any = true\n"), &["allow-any allow_any 2"]);
}

#[test]
fn rules_that_add_nothing_are_named() {
    let house = House::new();
    let lints = house.lints(
        "[command.sort]\ndeny_options = [\"-o\",\n\"--zzz\",\n\"-k\"]\n[command.git]\nsubcommands = [\"log\",\n\"lgo\",\n\"difftool\"]\ndeny_options = [\"--upload-pack\", \"--textconv\"]\n",
    );
    only(
        &lints,
        &[
            "deny-option-refused command.sort.deny_options[0] 3",
            "deny-option-unknown command.sort.deny_options[1] 4",
            "deny-option-spelling command.git.deny_options[1] 10",
            "deny-option-unreached command.git.deny_options[0] 10",
            "subcommand-refused command.git.subcommands[2] 9",
            "subcommand-unknown command.git.subcommands[1] 8",
        ],
    );
    // The same name twice is no lint but an error.
    let path = house.write("twice.toml", "version = 1\nallow = [\"ls\"]\n[command.ls]\n");
    let (status, _, errors) = house.check(&[&path]);
    assert!(status == 1 && errors.contains(":2:10: allow[0]: \"ls\" also has a [command] table"), "{errors}");
}

#[test]
fn two_names_of_one_program_need_the_same_rules() {
    let house = House::new();
    let git = house.program("bin/git", 0o755);
    let path = format!("[environment]\npath = \"{}:/usr/bin\"\n", house.base.join("bin").display());
    let wide = format!("allow = [\"{git}\"]\n{path}[command.git]\nsubcommands = [\"log\"]\n");
    found(&house.lints(&wide), "same-program allow[0] 2");
    let same = format!(
        "{path}[command.\"{git}\"]\nsubcommands = [\"log\"]\n[command.git]\nsubcommands = [\"log\"]\n"
    );
    assert!(!house.lints(&same).iter().any(|line| line.starts_with("same-program")));
}

#[test]
fn settings_that_open_a_layer_are_named() {
    let house = House::new();
    let log = fs::canonicalize("/etc/ssl").unwrap();
    fs::create_dir(house.base.join(".ssh")).unwrap();
    let text = format!(
        "allow = [\"cat\"]\n[workspace]\npath = \"/\"\nwrite = true\nrepository = \"write\"\n[sandbox]\nnetwork = [\"tcp:443\"]\nread = [\"@libraries\",\n\"/proc\",\n\"{}\",\n\"{}\",\n\"/usr/share\"]\nrequire = [\"landlock>=6\"]\nuser = \"keep\"\n[environment]\npass = [\"LANG\",\n\"API_TOKEN\"]\nset = {{ DB_PASSWORD = \"x\" }}\n",
        house.base.join(".ssh").display(),
        log.display(),
    );
    let lints = house.lints(&text);
    for wanted in [
        "repository-write workspace.repository 6",
        "network-open sandbox.network 8",
        "read-secret sandbox.read[1] 10",
        "read-secret sandbox.read[2] 11",
        "require-missing sandbox.require 14",
        "environment-secret environment.pass[1] 18",
        "environment-secret environment.set.DB_PASSWORD 19",
    ] {
        found(&lints, wanted);
    }
    assert!(!lints.iter().any(|line| line.contains("sandbox.read[4]")), "{lints:?}");
    let root = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap()) == 0;
    assert_eq!(lints.contains("user-root sandbox.user 15"), root, "{lints:?}");
    for path in ["/", "/root", "/etc"] {
        let lints = house.lints(&format!("[command.cat]\nread = [\"{path}\"]\n"));
        found(&lints, "read-secret command.cat.read[0] 3");
    }
    let audit = format!("allow = [\"cat\"]\n[sandbox]\nread = [\"{}\"]\n", house.base.display());
    let path = house.write("audit.toml", &format!("version = 1\n{audit}"));
    let (status, out, errors) = house.check(&[&path]);
    // Either the loader refuses it or the lint names it.
    assert!(status == 1 && errors.contains("audit") || out.contains("[read-audit]"), "{out}{errors}");
}

#[test]
fn variables_that_programs_run_are_named_by_their_file() {
    let house = House::new();
    let lints = house.lints(
        "[command.git]\nenvironment = { GIT_EXTERNAL_DIFF = \"/opt/x\", GIT_PAGER = \"cat\", GIT_CONFIG_GLOBAL = \"/dev/null\", GIT_CONFIG_KEY_0 = \"a.b\" }\n",
    );
    only(&lints, &["environment-hook command.git.environment.GIT_EXTERNAL_DIFF 3"]);
}

#[test]
fn files_that_others_can_replace_are_named() {
    let house = House::new();
    let loose = house.program("bin/loose", 0o777);
    let tight = house.program("bin/tight", 0o755);
    let open = house.base.join("open");
    let inside = house.program("open/inside", 0o755);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let lints = house.lints(&format!(
        "allow = [\"{loose}\", \"{tight}\", \"{inside}\"]\n[command.cat]\nexecute = [\"{}\",\n\"/usr/bin/true\", \"/tmp\"]\n",
        open.display()
    ));
    for wanted in [
        "program-writable allow[0] 2",
        "program-writable allow[2] 2",
        "write-and-execute command.cat.execute[0] 4",
        "write-and-execute command.cat.execute[2] 5",
    ] {
        found(&lints, wanted);
    }
    assert!(!lints.contains("write-and-execute command.cat.execute[1] 5"), "{lints:?}");
    // Root cannot be told from others by modes; whoever else runs this owns the file.
    let own = fs::metadata(&house.base).map(|base| std::os::unix::fs::MetadataExt::uid(&base)).unwrap();
    assert_eq!(lints.contains("program-writable allow[1] 2"), own != 0, "{lints:?}");
    let overlap = format!("[command.cat]\nexecute = [\"{}\"]\n", house.base.join("work").display());
    found(&house.lints(&overlap), "write-and-execute command.cat.execute[0] 3");
    let search = format!("allow = [\"cat\"]\n[environment]\npath = \"/usr/bin:/bin:{}\"\n", open.display());
    found(&house.lints(&search), "program-writable environment.path 4");
    let search = format!(
        "allow = [\"cat\"]\n[environment]\npath = \"/usr/bin:{}\"\n",
        house.base.join("work").display()
    );
    found(&house.lints(&search), "program-in-workspace environment.path 4");
}

#[test]
fn warnings_can_be_denied_and_accepted() {
    let house = House::new();
    let path = house.write("p.toml", "version = 1\nallow = [\"cat\"]\n[sandbox]\nnetwork = [\"tcp:443\"]\n");
    assert_eq!(house.check(&[&path]).0, 0);
    for flag in ["--deny-warnings", "--strict"] {
        let (status, out, _) = house.check(&[&path, flag]);
        assert_eq!(status, 1);
        assert!(
            out.contains("    [network-open] ") && out.contains("p.toml:4:1: sandbox.network; "),
            "{out}"
        );
    }
    let (status, out, _) = house.check(&[&path, "--strict", "--accept", "network-open"]);
    assert!(status == 0 && out.contains("[network-open, accepted]"), "{out}");
    assert_eq!(house.check(&[&path, "--strict", "--accept", "allow-any"]).0, 1);
    let (status, _, errors) = house.check(&[&path, "--accept", "no-such"]);
    assert!(status == 125 && errors.contains("no-such") && errors.contains("--help-lints"), "{errors}");
    // A note is no warning.
    let path = house.write("n.toml", "version = 1\nallow = [\"sleep\"]\n");
    assert_eq!(house.check(&[&path, "--strict"]).0, 0);
}

fn diff(house: &House, arguments: &[&str]) -> (i32, Value) {
    let (status, out, errors) = house.check(&[arguments, &["--json"]].concat());
    (status, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{errors}")))
}

#[test]
fn policies_are_compared_by_verdict_over_a_corpus() {
    let house = House::new();
    let old = house.write(
        "old.toml",
        "version = 1\nallow = [\"cat\", \"rm\"]\n[command.git]\nsubcommands = [\"log\"]\n",
    );
    let new = house.write(
        "new.toml",
        "version = 1\nallow = [\"cat\", \"sort\"]\n[command.git]\ndeny_options = [\"--stat\"]\n",
    );
    let corpus = house.write(
        "corpus.jsonl",
        "{\"argv\":[\"cat\",\"x\"],\"id\":1}\n\n{\"argv\":[\"rm\",\"a b\"]}\n{\"argv\":[\"sort\",\"x\"]}\n{\"argv\":[\"sort\",\"-o\",\"y\"]}\n{\"argv\":[\"git\",\"log\",\"--stat\"]}\n{\"argv\":[\"git\",\"push\"]}\n{\"argv\":[\"rm\"],\"allow\":[\"cat\"]}\n",
    );
    let (status, object) = diff(&house, &[&new, "--diff", &old, "--corpus", &corpus]);
    assert_eq!(status, 0);
    assert_eq!((&object["rows"], &object["newly_allowed"]), (&7.into(), &2.into()), "{object}");
    assert_eq!((&object["newly_refused"], &object["other_rule"]), (&2.into(), &1.into()), "{object}");
    let groups: Vec<String> = object["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| {
            let side = |name: &str| {
                format!(
                    "{} {}",
                    group[name]["verdict"].as_str().unwrap(),
                    group[name]["rule"].as_str().unwrap()
                )
            };
            format!(
                "{}: {} -> {}: {}",
                group["change"].as_str().unwrap(),
                side("before"),
                side("after"),
                group["rows"]
            )
        })
        .collect();
    assert_eq!(
        groups,
        [
            "newly allowed: deny allow -> allow allow: [[\"sort\",\"x\"]]",
            "newly allowed: deny git.subcommand -> allow allow: [[\"git\",\"push\"]]",
            "newly refused: allow allow -> deny allow: [[\"rm\",\"a b\"]]",
            "newly refused: allow allow -> deny git.option.stat: [[\"git\",\"log\",\"--stat\"]]",
            "refused by another rule: deny allow -> deny sort.output: [[\"sort\",\"-o\",\"y\"]]",
        ]
    );
    let (status, out, _) = house.check(&[&new, "--diff", &old, "--corpus", &corpus, "--deny-warnings"]);
    assert_eq!(status, 1, "it allows what the old one refused");
    for words in [
        "7 argument vectors: 2 newly allowed, 2 newly refused, 1 by another rule\n",
        "\nnewly refused (allow -> allow): 1\n  rm 'a b'\n",
    ] {
        assert!(out.contains(words), "{words:?} is not in {out}");
    }
}

#[test]
fn without_a_corpus_all_known_examples_are_judged() {
    let house = House::new();
    let old = house.write("old.toml", "version = 1\nallow = [\"cat\"]\n");
    let new = house.write(
        "new.toml",
        "version = 1\n[command.cat]\n[command.sort]\nexamples.allow = [\"sort own-example\"]\n",
    );
    let (status, object) = diff(&house, &[&new, "--diff", &old]);
    assert_eq!((status, &object["newly_refused"]), (0, &0.into()));
    assert!(object["rows"].as_u64().unwrap() > 300, "{}", object["rows"]);
    let text = object["groups"].to_string();
    assert!(text.contains("own-example") && text.contains("sort.output"), "{text}");
    let (status, object) = diff(&house, &[&new, "--diff", &new, "--strict"]);
    assert_eq!((status, object["groups"].as_array().unwrap().len()), (0, 0));
}

#[test]
fn what_cannot_be_compared_is_said() {
    let house = House::new();
    let good = house.write("good.toml", "version = 1\nallow = [\"cat\"]\n");
    let bad = house.write("bad.toml", "version = 1\nalow = []\n");
    let corpus = house.write("c.jsonl", "{\"argv\":[\"cat\"]}\n{\"argv\":\"cat\"}\n");
    let (status, _, errors) = house.check(&[&good, "--diff", &bad]);
    assert!(status == 1 && errors.contains("bad.toml:2:1: alow"), "{errors}");
    let (status, _, errors) = house.check(&[&good, "--diff", &good, "--corpus", &corpus]);
    assert!(status == 125 && errors.contains("c.jsonl:2 failed"), "{errors}");
    let gone = house.base.join("gone");
    let (status, _, errors) = house.check(&[&good, "--diff", &good, "--corpus", gone.to_str().unwrap()]);
    assert!(status == 125 && errors.contains("gone failed"), "{errors}");
    assert_eq!(house.check(&[&good, "--corpus", &corpus]).0, 125, "a corpus is for --diff");
}

#[test]
fn help_lints_lists_every_lint_once() {
    let house = House::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_cofferdam"));
    let output = command
        .env_clear()
        .args(["check", "--help-lints"])
        .current_dir(Path::new(&house.base))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let ids: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let unique: BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(ids.len(), unique.len());
    assert!(ids.contains(&"network-open") && ids.len() > 25, "{ids:?}");
    let sources = ["commands", "files", "patterns", "settings"];
    let used: String = sources
        .iter()
        .map(|room| {
            fs::read_to_string(format!("{}/src/cli/check/{room}.rs", env!("CARGO_MANIFEST_DIR"))).unwrap()
        })
        .collect();
    for id in ids {
        assert!(used.contains(&format!("\"{id}\"")), "{id} is listed, but no room finds it");
    }
}

#[test]
fn a_refusal_names_layer_argument_and_what_to_do() {
    let explain = |argv: &[&str]| -> Value {
        let house = House::new();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_cofferdam"));
        command.env_clear().env("XDG_STATE_HOME", house.base.join("state"));
        command.args(["explain", "--json", "--"]).args(argv).current_dir(house.base.join("work"));
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
    };
    for (argv, layer, index, instead) in [
        (&["rm", "x"][..], "name", 0, "allowed: "),
        (&["bash", "-c", "x"], "name", 0, "call an allowed program"),
        (&["ls -l"], "name", 0, "pass each argument as its own element"),
        (&["git", "grep", "-n", "-O", "x"], "argument", 3, "use -n"),
        (&["git", "push"], "argument", 1, "allowed: "),
        (&["cat", "x", "/etc/shadow"], "path", 2, "name a file in the workspace"),
        (&["sort", "x", "-uo", "y"], "argument", 2, "read the result from standard output"),
    ] {
        let answer = explain(argv);
        assert_eq!(answer["verdict"], "deny", "{answer}");
        assert_eq!(answer["layer"], layer, "{answer}");
        assert_eq!(answer["argument"]["index"], index, "{answer}");
        assert_eq!(answer["argument"]["text"], argv[index], "{answer}");
        assert!(answer["instead"].as_str().unwrap().starts_with(instead), "{answer}");
    }
    let many = vec!["ls"; 2000];
    let answer = explain(&many);
    assert_eq!((&answer["layer"], answer.get("argument")), (&"limit".into(), None));
    let allowed = explain(&["ls"]);
    assert_eq!((allowed.get("layer"), allowed.get("instead")), (None, None));
}

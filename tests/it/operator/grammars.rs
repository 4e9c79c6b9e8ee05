//! Grammars of the operator's own (`programs = "DIR"`), and what grammars set in the environment.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use cofferdam::config::Config;
use cofferdam::policy::Policy;

use super::{all, message, rule};
use crate::support::House;

const REALPATH: &str = r#"
program = "realpath"
names = ["realpath", "grealpath"]
flags = "es"
long = ["relative-to=", "zero|z", "canonicalize|E"]
unknown = "deny"
helpers = ["/usr/bin/true"]
[environment]
REALPATH_MODE = "strict"
LANG = "C"
[[deny]]
id = "zero"
options = ["--zero"]
reason = "ends lines with NUL"
instead = "leave it out"
[examples]
allow = ["realpath -e x", "grealpath --relative-to . x"]
deny = ["realpath --ze x", "realpath --nonesuch"]
"#;

impl House {
    /// Adds `grammars/NAME`, which nobody else can write.
    fn grammar(&self, name: &str, text: &str) -> &Self {
        let dir = self.base.join("grammars");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(name), text).unwrap();
        fs::set_permissions(dir.join(name), Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
        self
    }
}

fn environment(policy: &Policy, name: &str) -> Vec<String> {
    let rule = policy.judge_argv(&[name.as_bytes()], None).unwrap();
    let command = rule.command(name);
    command.environment.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

#[test]
fn a_grammar_of_the_operator_decides_like_a_shipped_one() {
    let house = House::new();
    house.grammar("realpath.toml", REALPATH);
    let text = "programs = \"grammars\"\n[command.realpath]\nallow_options = [\"-e\", \"--relative-to\"]\n\
                deny_arguments = [{ option = \"--relative-to\", pattern = \"x.*\" }]";
    let policy = house.policy(text).unwrap();
    all(&policy, &["realpath -e a", "realpath --rel=a b", "realpath --relative-to a b"], "ok");
    all(&policy, &["realpath --zero a", "realpath -ez a"], "realpath.zero");
    all(&policy, &["realpath -s a", "realpath -eE a"], "realpath.allow-options");
    all(&policy, &["realpath --rel=xy b", "realpath --relative-to xy b"], "realpath.deny-arguments");
    assert!(message(&policy, "realpath -z").contains("-z/--zero ends lines with NUL; leave it out"));
    let absolute =
        format!("programs = \"{}/grammars\"\nallow_patterns = [\"realpath\"]", house.base.display());
    assert_eq!(rule(&house.policy(&absolute).unwrap(), "realpath --zero"), "realpath.zero");
    let without = house.policy("allow = [\"realpath\"]").unwrap();
    assert_eq!(rule(&without, "realpath --zero"), "ok");
    assert_ne!(
        without.config().digest,
        house.policy("programs = \"grammars\"\nallow = [\"realpath\"]").unwrap().config().digest
    );
}

#[test]
fn a_grammar_of_the_operator_takes_the_place_of_a_shipped_one_for_the_names_it_lists() {
    let house = House::new();
    let own = "program = \"sort\"\nnames = [\"sort\"]\nflags = \"u\"\nlong = [\"output|o=\"]\n[examples]\nallow = [\"sort -o x\"]";
    house.grammar("sort.toml", own);
    let policy = house.policy("programs = \"grammars\"\nallow = [\"sort\", \"uniq\"]").unwrap();
    assert_eq!(rule(&policy, "sort -o x"), "ok");
    assert_eq!(rule(&policy, "uniq a b"), "uniq.output");
    assert_eq!(
        policy
            .allow_list(&["gsort"], &[])
            .map(|list| {
                policy.judge_argv(&[b"gsort", b"-o", b"x"], Some(&list)).unwrap_err().rule.into_owned()
            })
            .unwrap(),
        "sort.output"
    );
    let notes = policy.notes();
    assert!(notes.iter().any(|note| note.ends_with("replace: sort")), "{notes:?}");
}

#[test]
fn a_broken_grammar_refuses_the_policy_with_file_and_reason() {
    for (text, said) in [
        ("program = ", "grammars/a.toml failed"),
        ("names = [\"a\"]", "names no program"),
        ("program = \"a\"\nflag = \"x\"", "unknown field"),
        (
            "program = \"a\"\nflags = \"x\"\n[examples]\ndeny = [\"a -x\"]",
            "example `a -x` must be refused, but is allowed",
        ),
        (
            "program = \"a\"\nunknown = \"deny\"\n[examples]\nallow = [\"a -x\"]",
            "example `a -x` must be allowed, but rule 'a.unknown-option' refuses it",
        ),
        ("program = \"a\"\n[examples]\nallow = [\"b\"]", "begins with none of the names"),
        ("program = \"a\"\n[examples]\nallow = [\"a 'x\"]", "open '"),
        ("program = \"a\"\n[environment]\nLD_PRELOAD = \"x\"", "'LD_PRELOAD' loads code"),
        ("program = \"a\"\n[environment]\nPATH = \"x\"", "environment.path"),
        ("program = \"a\"\n[environment]\n\"a b\" = \"x\"", "is no name"),
        ("program = \"a\"\n[environment]\nA = \"\\u0000\"", "NUL"),
    ] {
        let house = House::new();
        let error =
            house.grammar("a.toml", text).policy("programs = \"grammars\"\nallow = [\"true\"]").unwrap_err();
        assert!(error.contains(said) && error.contains("grammars/a.toml"), "{text}\n{error}");
    }
    let house = House::new();
    let error = house
        .grammar("a.toml", "program = \"a\"")
        .grammar("b.toml", "program = \"b\"\nnames = [\"a\"]")
        .policy("programs = \"grammars\"\nallow = [\"true\"]")
        .unwrap_err();
    assert!(error.contains("b.toml") && error.contains("'a' is named by another file"), "{error}");
}

#[test]
fn a_directory_that_others_could_change_refuses_the_policy() {
    let house = House::new();
    let load = || house.policy("programs = \"grammars\"\nallow = [\"true\"]");
    assert!(
        load().unwrap_err().contains("policy.toml:2:12: programs: cannot read the directory"),
        "{:?}",
        load().err()
    );
    house.grammar("a.toml", "program = \"a\"");
    load().unwrap();
    fs::set_permissions(house.base.join("grammars"), Permissions::from_mode(0o777)).unwrap();
    assert!(load().unwrap_err().contains("writable by others than its owner: chmod go-w"));
    let below = house.policy("programs = \"work\"\nallow = [\"true\"]").unwrap_err();
    assert!(below.contains("lies in the workspace"), "{below}");
}

#[test]
fn presets_of_a_grammar_reach_the_command_unless_the_policy_sets_the_name() {
    let house = House::new();
    house.grammar("realpath.toml", REALPATH);
    let top = "programs = \"grammars\"\n";
    let listed = house.policy(&format!("{top}allow = [\"realpath\", \"true\"]")).unwrap();
    assert_eq!(environment(&listed, "realpath"), ["LANG=C", "REALPATH_MODE=strict"]);
    assert!(environment(&listed, "true").is_empty());
    let own =
        house.policy(&format!("{top}[command.realpath.environment]\nLANG = \"x\"\nTZ = \"y\"")).unwrap();
    assert_eq!(environment(&own, "realpath"), ["LANG=x", "REALPATH_MODE=strict", "TZ=y"]);
    for any in ["allow_any = true", "allow_patterns = [\"realpath\"]"] {
        let policy = house.policy(&format!("{top}{any}")).unwrap();
        assert_eq!(environment(&policy, "realpath"), ["LANG=C", "REALPATH_MODE=strict"]);
    }
    let fixed =
        house.policy(&format!("{top}allow = [\"realpath\"]\nenvironment.set = {{ LANG = \"z\" }}")).unwrap();
    assert_eq!(environment(&fixed, "realpath"), ["LANG=C", "REALPATH_MODE=strict"]);
    let rule = fixed.judge_argv(&[b"realpath"], None).unwrap();
    let command = rule.command("realpath");
    assert_eq!(fixed.environment_names(&command), ["LANG", "PATH", "REALPATH_MODE"]);
    // A helper is a word for the operator, no grant.
    assert!(command.execute.is_empty());
}

#[test]
fn any_policy_that_allows_git_has_its_presets() {
    let house = House::new();
    let policy = house.policy("allow = [\"git\"]").unwrap();
    let command = policy.judge_argv(&[b"git", b"status"], None).unwrap().command("git");
    assert_eq!(command.environment["GIT_CONFIG_NOSYSTEM"], "1");
    assert_eq!(command.environment["GIT_CONFIG_KEY_1"], "core.fsmonitor");
    let config: &Arc<Config> = policy.config();
    assert!(config.commands["git"].environment.is_empty(), "what the operator wrote stays what it was");
}

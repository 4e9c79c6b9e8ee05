//! `cofferdam check` as a user sees it.

use std::fs;

use super::start;
use crate::support::House;

fn check(house: &House, arguments: &[&str]) -> (i32, String, String) {
    let mut command = start(env!("CARGO_BIN_EXE_cofferdam"));
    command.arg("check").args(arguments).env("XDG_STATE_HOME", house.base.join("state"));
    let output = command.current_dir(house.base.join("work")).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn check_prints_every_fault_with_its_place_and_ends_with_1() {
    let house = House::new();
    let path = house.base.join("policy.toml");
    fs::write(&path, "version = 1\nallow = [\"ls\"]\n[limits]\ntimeut = \"3s\"\njobs = 0\n").unwrap();
    let path = path.to_str().unwrap();
    let (status, out, errors) = check(&house, &[path, "--workspace", "."]);
    assert_eq!((status, out.as_str()), (1, ""));
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    assert!(
        lines[0].starts_with(&format!("{path}:4:1: limits.timeut: unknown key; did you mean timeout?")),
        "{errors}"
    );
    assert!(lines[1].starts_with(&format!("{path}:5:8: limits.jobs: ")), "{errors}");
    let (status, out, errors) = check(&house, &[path, "--workspace", ".", "--json"]);
    assert_eq!((status, errors.as_str()), (1, ""));
    let object: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(object["ok"], false);
    assert_eq!(object["errors"][0]["line"], 4);
    assert_eq!(object["errors"][0]["did_you_mean"], "timeout");
    assert_eq!(object["errors"].as_array().unwrap().len(), 2);
}

#[test]
fn check_sums_a_good_policy_up() {
    let house = House::new();
    let (status, out, errors) = check(&house, &[]);
    assert_eq!(status, 0, "{out}{errors}");
    for words in ["built-in policy: good", "sha256:", "(read-only)", "commands   22"] {
        assert!(out.contains(words), "{words:?} is not in {out}");
    }
    let (status, out, _) = check(&house, &["--json"]);
    let object: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &object["ok"]), (0, &true.into()));
    assert_eq!(object["workspace"]["path"], house.base.join("work").to_str().unwrap());
    let path = house.base.join("policy.toml");
    fs::write(&path, "version = 1\nallow_any = true\n").unwrap();
    let (status, out, _) = check(&house, &[path.to_str().unwrap(), "--workspace", "."]);
    assert!(status == 0 && out.contains("WARNING: allow_any = true"), "{out}");
}

#[test]
fn check_warns_of_listed_names_that_are_always_refused() {
    let house = House::new();
    let path = house.base.join("policy.toml");
    let check = |text: &str| {
        fs::write(&path, text).unwrap();
        check(&house, &[path.to_str().unwrap(), "--workspace", "."])
    };
    let (status, out, _) = check("version = 1\nallow = [\"cat\", \"sh\"]\n");
    assert!(status == 0 && out.contains("WARNING: sh is listed, but never runs: "), "{out}");
    assert!(!out.contains("WARNING: cat"), "{out}");
    let (_, out, _) = check("version = 1\n[command.sh]\ninterpreters = \"confine\"\n");
    assert!(!out.contains("never runs"), "{out}");
}

#[test]
fn check_says_what_is_left_to_the_kernel() {
    let house = House::new();
    let path = house.base.join("policy.toml");
    fs::write(&path, "version = 1\nallow = [\"cat\", \"getconf\", \"tee\"]\n").unwrap();
    let (status, out, errors) = check(&house, &[path.to_str().unwrap(), "--workspace", "."]);
    assert_eq!(status, 0, "{out}{errors}");
    assert!(out.contains("no argument rules, kernel confinement only: getconf\n"), "{out}");
    assert!(out.contains("delegated to the kernel profile: tee\n"), "{out}");
}

#[test]
fn check_help_keys_documents_every_key() {
    let (status, out, _) = check(&House::new(), &["--help-keys"]);
    assert_eq!((status, out.as_str()), (0, cofferdam::config::keys::help().as_str()));
    assert_eq!(check(&House::new(), &["--help-keys", "--json"]).0, 125);
}

#[test]
fn check_without_a_place_for_records_says_what_to_set() {
    let house = House::new();
    let mut command = start(env!("CARGO_BIN_EXE_cofferdam"));
    let output = command.arg("check").current_dir(house.base.join("work")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("set XDG_STATE_HOME or HOME"));
}

#[test]
fn known_arguments_need_a_grammar() {
    let house = House::new();
    let path = house.base.join("policy.toml");
    let text = |name: &str| format!("version = 1\n[command.{name}]\narguments = \"known\"\n");
    fs::write(&path, text("sort") + "examples.allow = [\"sort -u x\"]\nexamples.deny = [\"sort -Q x\"]\n")
        .unwrap();
    let arguments = [path.to_str().unwrap(), "--workspace", "."];
    let (status, out, errors) = check(&house, &arguments);
    assert_eq!(status, 0, "{out}{errors}");
    fs::write(&path, text("getconf")).unwrap();
    let (status, _, errors) = check(&house, &arguments);
    assert_eq!(status, 1);
    assert!(errors.contains("command.getconf.arguments: \"known\" needs an option grammar"), "{errors}");
}

//! Every step between a request and its program that can be made to fail, as the sources name them; and the
//! proof that nothing of the kind ships.
//!
//! `faults.rs` makes each of these steps fail in a build with the feature `fault-injection`; the tests here
//! hold for the ordinary build and see to it that no step can be left out.

use std::fs;
use std::process::Command;

use regex::Regex;

use crate::scan::{code, root, rust};

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    /// What arms it, a line of the file of orders.
    pub(crate) key: String,
    /// The name that its failure must give.
    pub(crate) name: String,
}

/// The steps of `launch/`, by file and line.
fn steps() -> Vec<Site> {
    let pattern = Regex::new(r#"\bstep!\(\s*"([^"]+)""#).unwrap();
    let mut found = Vec::new();
    for text in rust("src/launch").into_iter().filter(|text| text.path != "src/launch/step.rs") {
        for hit in pattern.captures_iter(&text.content) {
            let line = text.content[..hit.get(0).unwrap().start()].matches('\n').count() + 1;
            found.push(Site { key: format!("{}:{line}", text.path), name: hit[1].to_owned() });
        }
    }
    found
}

/// The steps between clone and exec.
fn child() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("src/sys/child.rs")).unwrap();
    let pattern = Regex::new(r#"Self::(\w+) => "([^"]+)""#).unwrap();
    pattern.captures_iter(&text).map(|hit| (hit[1].to_owned(), hit[2].to_owned())).collect()
}

/// The steps that are asked for by name, outside of `launch/`.
fn named() -> Vec<Site> {
    let pattern = Regex::new(r#"fault::named\("([a-z]+):([a-z]+)"\)"#).unwrap();
    let mut found = Vec::new();
    for text in rust("src").into_iter().filter(|text| text.path != "src/fault.rs") {
        for hit in pattern.captures_iter(&text.content) {
            found.push(Site { key: format!("{}:{}", &hit[1], &hit[2]), name: hit[2].to_owned() });
        }
    }
    found
}

/// All steps.
pub(crate) fn sites() -> Vec<Site> {
    let child = child().into_iter().map(|(_, name)| Site { key: format!("child:{name}"), name });
    steps().into_iter().chain(child).chain(named()).collect()
}

#[test]
fn every_step_between_request_and_exec_can_be_made_to_fail() {
    let sites = sites();
    let count = |prefix: &str| sites.iter().filter(|site| site.key.starts_with(prefix)).count();
    for (prefix, least) in [
        ("src/launch/confine.rs:", 27),
        ("src/launch/launcher.rs:", 15),
        ("src/launch/stub.rs:", 15),
        ("src/launch/client.rs:", 8),
        ("src/launch/overlay.rs:", 9),
        ("src/launch/observe.rs:", 1),
        ("src/launch/cgroup.rs:", 2),
        ("src/launch/leaf.rs:", 7),
        ("child:", 10),
        ("audit:", 4),
        ("run:", 2),
    ] {
        assert!(count(prefix) >= least, "{prefix} has {} steps, {least} are known", count(prefix));
    }
    let mut keys: Vec<&str> = sites.iter().map(|site| site.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), sites.len(), "two steps on one line cannot be told apart");

    // A failure is made in one place, so a step without a name does not compile.
    let made = Regex::new(r"\bFailure\s*\{|\bstep::named\b|\bnamed\s*\(").unwrap();
    for text in rust("src/launch") {
        let bare = code(&text.content).bare;
        let count = made.find_iter(&bare).count();
        let allowed = match text.path.as_str() {
            // The structure, and its conversion.
            "src/launch/wire.rs" => 1,
            "src/launch/step.rs" => 5,
            // The child's steps, which are named in sys/child.rs.
            "src/launch/stub.rs" => 2,
            _ => 0,
        };
        assert!(count <= allowed, "{}: use step!(…): {count} failures made by hand", text.path);
    }
    // Every step of the child asks whether it fails on order.
    let read = |name: &str| fs::read_to_string(root().join("src/sys").join(name)).unwrap();
    let text = read("child.rs") + &read("door.rs");
    for (variant, name) in child() {
        assert!(text.contains(&format!("order.fails(Step::{variant})")), "{name} cannot be made to fail");
    }
}

/// Compiles `src/fault.rs` by itself, as a build with these assertions and features would.
fn compiled(assertions: &str, feature: bool) -> (bool, String) {
    let out = tempfile::tempdir().unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "-A", "warnings"]);
    command.arg("-C").arg(format!("debug-assertions={assertions}"));
    if feature {
        command.args(["--cfg", "feature=\"fault-injection\""]);
    }
    let output = command
        .arg("--out-dir")
        .arg(out.path())
        .arg(root().join("src/fault.rs"))
        .current_dir(root())
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_release_build_cannot_have_faults_on_order() {
    let (built, said) = compiled("off", true);
    assert!(!built && said.contains("never for a release"), "{said}");
    // The reason is what it says: the same file is fine otherwise.
    for (assertions, feature) in [("on", true), ("on", false), ("off", false)] {
        let (built, said) = compiled(assertions, feature);
        assert!(built, "{said}");
    }
    let manifest: toml::Table = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    assert_eq!(manifest["features"]["fault-injection"], toml::Value::Array(Vec::new()));
    assert_eq!(manifest["features"].get("default"), None);
    let release = &manifest["profile"]["release"];
    assert_eq!(release.get("debug-assertions"), None, "release builds are told by their assertions");
}

#[cfg(not(feature = "fault-injection"))]
#[test]
fn the_program_as_it_ships_knows_nothing_of_faults_on_order() {
    // Spelled in pieces: this file's text is in no program, but it is searched for elsewhere.
    let name = concat!("COFFERDAM_", "FAULT");
    let source = fs::read_to_string(root().join("src/fault.rs")).unwrap();
    assert!(source.contains(name), "the variable has another name");
    let program = fs::read(crate::support::BINARY).unwrap();
    assert!(!program.windows(name.len()).any(|window| window == name.as_bytes()));
}

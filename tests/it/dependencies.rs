//! What is linked in, checked against `deny.toml` without a network or a further tool: the same
//! file that `cargo deny check licenses bans sources` reads.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::scan::root;

/// The packages of the dependency graph on this platform, this crate left out.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let linked: BTreeSet<&str> =
        metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|n| n["id"].as_str().unwrap()).collect();
    let found: Vec<Value> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|p| linked.contains(p["id"].as_str().unwrap()) && p["name"] != env!("CARGO_PKG_NAME"))
        .cloned()
        .collect();
    assert!(found.len() > 50, "only {} packages: the graph was not read", found.len());
    found
}

fn rules() -> toml::Table {
    fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

fn strings(list: &toml::Value) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}

/// Whether an SPDX expression can be satisfied with the licences in `allowed`.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let holds = any(&tokens, &mut at, allowed);
    assert_eq!(at, tokens.len(), "not a licence expression: {expression}");
    holds
}

fn any(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut holds = all(tokens, at, allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        holds |= all(tokens, at, allowed);
    }
    holds
}

fn all(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut holds = licence(tokens, at, allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        holds &= licence(tokens, at, allowed);
    }
    holds
}

fn licence(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let token = *tokens.get(*at).expect("a licence");
    *at += 1;
    if token == "(" {
        let holds = any(tokens, at, allowed);
        assert_eq!(tokens.get(*at), Some(&")"));
        *at += 1;
        return holds;
    }
    if tokens.get(*at) == Some(&"WITH") {
        let name = format!("{token} WITH {}", tokens[*at + 1]);
        *at += 2;
        return allowed.contains(&name);
    }
    allowed.contains(token)
}

#[test]
fn licence_expressions_are_understood() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Unicode-3.0".to_owned(), "A WITH B".to_owned()]);
    for good in ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "(MIT OR X) AND Unicode-3.0", "A WITH B"] {
        assert!(satisfied(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(X OR Y) AND MIT", "A", "MIT WITH B"] {
        assert!(!satisfied(bad, &allowed), "{bad}");
    }
}

#[test]
fn licences_of_dependencies_are_allowed() {
    let rules = rules();
    let allowed = strings(&rules["licenses"]["allow"]);
    for package in packages() {
        let name = &package["name"];
        let expression = package["license"].as_str().unwrap_or_else(|| panic!("{name} states no licence"));
        assert!(satisfied(expression, &allowed), "{name}: {expression} is not allowed by deny.toml");
    }
}

#[test]
fn dependencies_come_from_the_registry_only() {
    let rules = rules();
    assert_eq!(rules["sources"]["unknown-registry"].as_str(), Some("deny"));
    assert_eq!(rules["sources"]["unknown-git"].as_str(), Some("deny"));
    for package in packages() {
        let source =
            package["source"].as_str().unwrap_or_else(|| panic!("{} has no source", package["name"]));
        assert_eq!(source, "registry+https://github.com/rust-lang/crates.io-index", "{}", package["name"]);
    }
}

#[test]
fn banned_dependencies_are_absent() {
    let rules = rules();
    let banned = rules["bans"]["deny"].as_array().unwrap();
    assert!(!banned.is_empty());
    let linked: BTreeSet<String> =
        packages().iter().map(|p| p["name"].as_str().unwrap().to_owned()).collect();
    for entry in banned {
        let name = entry["name"].as_str().unwrap();
        assert!(!linked.contains(name), "{name} is banned: {:?}", entry["reason"]);
    }
}

/// A feature that is off must stay off: it would bring a second way to create processes.
#[test]
fn process_features_stay_off() {
    let manifest: toml::Table = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let features = |name: &str| strings(&manifest["dependencies"][name]["features"]);
    assert!(!features("tokio").contains("process") && !features("tokio").contains("full"));
    assert!(!features("rmcp").iter().any(|f| f.contains("child-process")));
    assert_eq!(manifest["dependencies"]["rmcp"]["default-features"].as_bool(), Some(false));
    for (name, value) in manifest["dependencies"].as_table().unwrap() {
        let version = value.as_str().or_else(|| value.get("version").and_then(toml::Value::as_str));
        assert!(version.is_some_and(|v| v != "*"), "{name} names no version");
    }
}

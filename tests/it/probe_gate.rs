//! The gate of `tests/probes/run.sh` itself: it must fail on everything that is not as promised.
//!
//! Three small probes that escape when run bare, and a stand-in for the launcher that answers for
//! them as the case says. No sandbox is involved.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::scan::root;

/// Answers of the probes `e-file`, `r-size`, `s-odd`, and the lines of the two lists.
struct Case<'a> {
    answers: [&'a str; 3],
    on_purpose: &'a str,
    when_writable: &'a str,
}

const NAMES: [(&str, &str); 3] = [("e-file", "E"), ("r-size", "R"), ("s-odd", "S")];
const REASON: &str = "a reason that is long enough";

impl Case<'_> {
    fn gate(&self) -> Output {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("open")).unwrap();
        fs::create_dir(at("answers")).unwrap();
        let mut rows = Vec::new();
        for ((name, category), answer) in NAMES.iter().zip(self.answers) {
            let source = format!(
                "#include <stdio.h>\nint main(void) {{ puts(\"ESCAPED {name}: bare\"); return 10; }}\n"
            );
            fs::write(at(&format!("open/{name}.c")), source).unwrap();
            fs::write(at(&format!("answers/{name}")), answer).unwrap();
            rows.push(
                serde_json::json!({"name": name, "category": category, "flags": "", "description": ""}),
            );
        }
        fs::write(at("probes.json"), serde_json::to_string(&rows).unwrap()).unwrap();
        fs::write(at("victim.c"), VICTIM).unwrap();
        fs::write(at("open-on-purpose.txt"), self.on_purpose).unwrap();
        fs::write(at("open-when-writable.txt"), self.when_writable).unwrap();
        let launcher = at("launcher");
        executable(
            &launcher,
            &format!("#!/bin/bash\neval \"$(cat '{}'/\"${{1##*/}}\")\"\n", at("answers").display()),
        );
        Command::new("bash")
            .arg(root().join("tests/probes/run.sh"))
            .args(["--gate", "-t", "5", "-d"])
            .arg(dir.path())
            .arg("--")
            .arg(&launcher)
            .output()
            .unwrap()
    }

    fn passes(&self) {
        let output = self.gate();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.ends_with("probes: gate passed\n"), "{said}");
    }

    fn fails(&self, because: &str) {
        let output = self.gate();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(because), "no {because:?} in\n{said}");
    }
}

fn executable(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

const VICTIM: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    FILE *ready = fopen(argv[3], "w");
    fputs("1 2\n", ready);
    fclose(ready);
    for (;;) pause();
}
"#;

const CLOSED: &str = "echo 'BLOCKED x: closed'";
const OPEN: &str = "echo 'ESCAPED x: open'; exit 10";

fn closed() -> Case<'static> {
    Case { answers: [CLOSED; 3], on_purpose: "# nothing\n", when_writable: "" }
}

#[test]
fn gate_passes_when_everything_is_closed() {
    closed().passes();
}

#[test]
fn gate_fails_on_an_open_effect_or_limit() {
    Case { answers: [OPEN, CLOSED, CLOSED], ..closed() }.fails("read-only: e-file (E) ESCAPED");
    Case { answers: [CLOSED, OPEN, CLOSED], ..closed() }.fails("read-only: r-size (R) ESCAPED");
}

#[test]
fn gate_holds_open_interfaces_against_the_lists() {
    let listed = format!("s-odd: {REASON}\n");
    let open = Case { answers: [CLOSED, CLOSED, OPEN], ..closed() };
    open.fails("read-only: s-odd (S) ESCAPED");
    Case { on_purpose: &listed, ..open }.passes();
    Case { on_purpose: &listed, ..closed() }.fails("s-odd is listed as open but is closed");
}

#[test]
fn gate_knows_the_writable_workspace_apart() {
    // The stand-in tells the two apart by the tables that are there already.
    let limit = "[ -e \"${2%/ws}/run/writable.tsv\" ] && { echo 'ESCAPED x: open'; exit 10; }; echo 'BLOCKED x: closed'";
    let case = Case { answers: [CLOSED, limit, CLOSED], ..closed() };
    case.fails("writable: r-size (R) ESCAPED");
    let listed = format!("r-size: {REASON}\n");
    Case { when_writable: &listed, ..case }.passes();
    Case { when_writable: &listed, ..closed() }.fails("writable: r-size is listed as open but is closed");
}

#[test]
fn gate_fails_on_probes_that_did_not_run() {
    Case { answers: ["exit 126", CLOSED, CLOSED], ..closed() }.fails("e-file (E) NORUN");
    Case { answers: [CLOSED, "exit 0", CLOSED], ..closed() }.fails("r-size (R) NORUN");
    Case { answers: [CLOSED, CLOSED, "echo 'NA x: none'; exit 77"], ..closed() }.fails("s-odd says n/a");
    Case { answers: [CLOSED, CLOSED, "exit 124"], ..closed() }.fails("s-odd (S) TIMEOUT");
}

#[test]
fn gate_fails_on_lists_that_are_not_in_order() {
    for (line, because) in [
        ("s-odd: short", "no written reason"),
        ("s-odd", "no written reason"),
        ("s-gone: a reason that is long enough", "no probe of that name"),
        ("e-file: a reason that is long enough", "cannot be accepted here"),
    ] {
        Case { answers: [CLOSED, CLOSED, OPEN], on_purpose: line, ..closed() }.fails(because);
    }
    let twice = format!("s-odd: {REASON}\ns-odd: {REASON}\n");
    Case { answers: [CLOSED, CLOSED, OPEN], on_purpose: &twice, ..closed() }.fails("listed twice");
    let effect = format!("e-file: {REASON}\n");
    Case { answers: [OPEN, CLOSED, CLOSED], when_writable: &effect, ..closed() }
        .fails("cannot be accepted here");
}

/// A place without a compiler, and a workspace that is somebody's mount: what was compiled elsewhere runs where it
/// lies, and the directory itself stays.
#[test]
fn probes_run_where_nothing_can_be_compiled() {
    // The programs' path goes into a pattern of the policy.
    let dir = tempfile::Builder::new().prefix("probes-").tempdir().unwrap();
    fs::create_dir(dir.path().join("ws")).unwrap();
    fs::write(dir.path().join("ws/old"), "").unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new("bash");
        command.arg(root().join("tests/probes/run.sh")).args(words).current_dir(dir.path());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let missing = run(&["--bare", "--compiled", ".", "-p", "fs-read-secret"]);
    assert_eq!(missing.0, Some(2), "{missing:?}");
    assert_eq!(run(&["--compile", ".", "-p", "fs-read-secret"]).0, Some(0));
    let (status, said) = run(&["--bare", "--compiled", ".", "--workspace", "ws", "-p", "fs-read-secret"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("ESCAPED") && !said.contains("compiling"), "{said}");
    assert!(!dir.path().join("ws/old").exists() && dir.path().join("ws/.git/config").exists());
}

//! What a start costs, counted and not timed: the system calls between clone and exec, and that no memory is
//! copied for it.
//!
//! Under strace(1), of which `tests/run` sees to it that it is there.

use std::process::Command;

use crate::support::{Lab, Served};
use serde_json::json;

/// Most system calls of a command's process before its program (docs: the order is that of SECURITY.md).
const MOST: usize = 20;

#[test]
fn between_clone_and_exec_are_twenty_calls_at_most_and_no_memory_is_copied() {
    let lab = Lab::plain();
    let trace = lab.at("trace");
    let plain = lab.command("serve");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(&trace).arg("--").arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    let mut served = Served::by(strace);
    // The second and later are served by supervisors that wait.
    for _ in 0..3 {
        let (text, error) = served.run(json!({"command": lab.probe(), "args": ["say", "x"]}));
        assert!(!error && text.contains("x"), "{text}");
    }
    assert_eq!(served.stop(), Some(0));
    let text = std::fs::read_to_string(trace).unwrap();
    let program = format!("execve(\"{}\"", lab.text("bin/probe"));
    let begun: Vec<&str> = text.lines().filter(|line| line.contains(&program)).collect();
    assert_eq!(begun.len(), 3, "{begun:?}");
    for exec in begun {
        let pid = exec.split_whitespace().next().unwrap();
        let own = text.lines().filter(|line| line.split_whitespace().next() == Some(pid));
        let calls: Vec<&str> = own
            .take_while(|line| !line.contains(&program))
            .filter(|line| line.contains('(') && !line.contains(" resumed>"))
            .collect();
        // Waiting for the command is no step, and neither is being told to look out for it.
        let steps: Vec<&&str> = calls.iter().filter(|line| !line.contains("futex(")).collect();
        assert!(steps.len() < MOST, "{} and execve: {steps:#?}", steps.len());
        assert!(steps.len() >= 10, "not a whole trace: {steps:#?}");
        // The call of its maker, which may be cut in two.
        let lines: Vec<&str> = text.lines().collect();
        let clone = |line: &&str| line.contains("clone") && line.trim_end().ends_with(&format!("= {pid}"));
        let end = lines.iter().position(clone).unwrap_or_else(|| panic!("nobody made {pid}"));
        let maker = lines[end].split_whitespace().next();
        let begins = |line: &&&str| line.split_whitespace().next() == maker && line.contains("clone(");
        let made = lines[..=end].iter().rev().find(begins).unwrap();
        assert!(made.contains("CLONE_VM"), "{made}");
    }
}

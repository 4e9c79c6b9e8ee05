//! The path rule from end to end: what it refuses, and that the kernel refuses the same without it.

use crate::support::{Lab, Rules};

/// A policy of `cat`, with these lines in its table.
fn lab(own: &str) -> Lab {
    let lab = Lab::new(&Rules { commands: format!("[command.cat]\n{own}"), ..Rules::default() });
    std::fs::create_dir(lab.at("ws/sub")).unwrap();
    lab
}

#[test]
fn a_name_outside_is_refused_before_the_start() {
    let lab = lab("");
    for name in [lab.text("outside/secret"), "../outside/secret".to_owned(), "file:///etc/shadow".to_owned()]
    {
        let ran = lab.exec(&["cat", &name]);
        assert_eq!(ran.status, 126, "{ran:?}");
        assert!(ran.stderr.contains("path.outside"), "{ran:?}");
    }
    assert_eq!(lab.exec(&["cat", &lab.text("ws/plain")]).lines(), ["plain"]);
}

#[test]
fn a_name_may_climb_up_to_the_root_of_the_workspace() {
    let lab = lab("");
    let up = |name: &str| lab.exec_with(&["--cwd", "sub"], &["cat", name]);
    assert_eq!(up("../plain").lines(), ["plain"]);
    assert!(up("../../outside/secret").stderr.contains("path.outside"));
}

#[test]
fn without_the_rule_the_kernel_refuses_the_same() {
    let lab = lab("paths = \"any\"");
    let ran = lab.exec(&["cat", "../outside/secret"]);
    assert!(!ran.stdout.contains("the secret"), "{ran:?}");
    assert!(ran.stderr.contains("ermission denied"), "{ran:?}");
    assert_eq!(ran.status, 1, "{ran:?}");
}

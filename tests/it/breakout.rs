//! Escapes that worked once: each is tried again, as the attacker did it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::{Lab, Rules, Served, copy, eventually};

#[test]
fn the_kernel_does_not_hang_up_on_the_supervisor() {
    let lab = Lab::plain();
    let ran = lab.probed(&["hang-up"]);
    assert_eq!((ran.stdout.as_str(), ran.status), ("supervised\n", 0), "{}", ran.stderr);
    assert!(lab.alive().is_empty());
    assert_eq!(lab.end()["outcome"], "success");
}

#[test]
fn a_scratch_directory_cannot_be_kept() {
    for write in [false, true] {
        let lab = Lab::new(&Rules { write, ..Rules::default() });
        let mut served = Served::start(&lab);
        for _ in 0..4 {
            // What a stub cannot remove the launcher does, a little later.
            eventually("there is room for the next run", || {
                let ran = served.run(json!({"command": lab.probe(), "args": ["clutter"]})).0;
                ran.contains("cluttered")
            });
        }
    }
}

#[test]
fn a_file_that_sockets_hold_is_not_in_the_scratch_of_the_next_run() {
    let lab = Lab::plain();
    let mut served = Served::start(&lab);
    let first = served.probed(&lab, &["beside"])["stdout"].clone();
    for _ in 0..20 {
        assert_eq!(served.probed(&lab, &["circle"])["stdout"], "circle ok\n");
        for _ in 0..3 {
            assert_eq!(served.probed(&lab, &["beside"])["stdout"], first);
        }
    }
}

#[test]
fn metadata_outside_of_the_workspace_cannot_be_changed() {
    let lab = Lab::new(&Rules { write: true, ..Rules::default() });
    let file = lab.at("granted");
    fs::write(&file, "x").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    if nix::unistd::Uid::effective().is_root() {
        std::os::unix::fs::chown(&file, Some(65534), Some(65534)).unwrap();
    }
    let sandbox = format!("read = [\"@libraries\", \"{}\"]", file.display());
    lab.write_policy(&Rules { write: true, sandbox: sandbox.leak(), ..Rules::default() });
    let ran = lab.probed(&["metadata", file.to_str().unwrap()]);
    let refused = format!("fchmod errno={0}\nfutimens errno={0}\n", libc::EROFS);
    assert_eq!(ran.stdout, refused, "{}", ran.stderr);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
    let own = lab.ws().join("own");
    fs::write(&own, "x").unwrap();
    if nix::unistd::Uid::effective().is_root() {
        std::os::unix::fs::chown(&own, Some(65534), Some(65534)).unwrap();
    }
    assert_eq!(lab.probed(&["metadata", own.to_str().unwrap()]).stdout, "fchmod ok\nfutimens ok\n");
}

#[test]
fn what_lies_in_the_workspace_is_no_program_under_allow_any() {
    let lab = Lab::new(&Rules { top: "allow_any = true", ..Rules::default() });
    let inside = lab.ws().join("evil");
    copy(lab.probe(), &inside);
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o755)).unwrap();
    let ran = lab.exec(&[inside.as_os_str(), "say".as_ref(), "x".as_ref()]);
    assert_eq!((ran.status, ran.stdout.as_str()), (126, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("names.workspace"), "{}", ran.stderr);
}

#[test]
fn commands_do_not_become_root_in_silence() {
    let lab = Lab::new(&Rules { write: true, ..Rules::default() });
    assert!(!lab.probed(&["say", "x"]).stderr.contains("run as root"));
    let root = nix::unistd::Uid::effective().is_root();
    if root {
        std::os::unix::fs::chown(lab.ws(), Some(0), Some(0)).unwrap();
    }
    // An unprivileged server has no root to fall back to, and says nothing.
    assert_eq!(lab.probed(&["say", "x"]).stderr.contains("commands run as root"), root);
}

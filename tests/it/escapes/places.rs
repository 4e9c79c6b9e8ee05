//! Known escapes by paths and places, by what the kernel lacks, and by clocks and terminals.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::mount::{MsFlags, mount};
use nix::sys::stat::Mode;
use serde_json::json;

use crate::scan::{code, rust};
use crate::support::{Going, Lab, Ran, Rules, Served, in_own_mounts};

#[test]
fn e031_a_neighbour_of_the_same_prefix_is_outside() {
    for write in [false, true] {
        let lab = Lab::new(&Rules { write, ..Rules::default() });
        for name in ["ws-evil", "ws2"] {
            fs::create_dir(lab.at(name)).unwrap();
            fs::write(lab.at(name).join("secret"), "x").unwrap();
            let (secret, made) = (lab.text(&format!("{name}/secret")), lab.text(&format!("{name}/made")));
            let climbed = format!("../{name}/secret");
            let lines = lab.tried(&[
                ("read", &secret, ""),
                ("read", &climbed, ""),
                ("write", &made, ""),
                ("read", &lab.text("ws/plain"), ""),
            ]);
            assert!(lines[..3].iter().all(|line| line.contains("errno=")), "{lines:?}");
            assert_eq!(lines[3], "read ok");
        }
    }
}

/// A laboratory whose workspace is writable, with a directory `sub/d` in it for everybody that holds `f`, and
/// the place outside readable.
fn with_directory() -> Lab {
    let lab = Lab::new(&Rules { write: true, ..Rules::default() });
    for (path, mode) in [("ws/sub", 0o777), ("ws/sub/d", 0o777), ("outside/view", 0o755)] {
        fs::create_dir(lab.at(path)).unwrap();
        fs::set_permissions(lab.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::write(lab.at("ws/sub/d/f"), "x").unwrap();
    lab
}

/// `exec` of attempts.
fn trying(lab: &Lab, attempts: &[(&str, &str, &str)]) -> Command {
    let mut command = lab.command("exec");
    command.arg("--").arg(lab.probe()).arg("try");
    command.args(attempts.iter().flat_map(|(what, a, b)| [*what, *a, *b]));
    command
}

/// What kernels without the correction of this erratum get wrong needs a writable directory below a second
/// mount, so that a move through the first takes it out from under the second: the second is read-only to
/// commands, and the rules of a workspace are the same all over it. Nothing rests on the correction.
#[test]
fn e075_a_directory_that_lost_its_mount_widens_nothing() {
    let lab = with_directory();
    let rules = Rules { write: true, sandbox: "read = [\"@libraries\"]", ..Rules::default() };
    lab.write_policy(&rules);
    let text = fs::read_to_string(lab.policy()).unwrap();
    let outside = format!("read = [\"@libraries\", {:?}]", lab.at("outside"));
    fs::write(lab.policy(), text.replace("read = [\"@libraries\"]", &outside)).unwrap();
    let (view, from, to) = (lab.text("outside/view/d"), lab.text("ws/sub/d"), lab.text("ws/moved"));
    let (linked, back) = (lab.text("ws/linked"), lab.text("ws/moved/f"));
    let mut command = trying(
        &lab,
        &[
            ("chdir", &view, ""),
            ("read", "f", ""),
            ("rename", &from, &to),
            // From here on the working directory is below no mount that leads to it.
            ("rename", "f", "g"),
            ("rename", "f", &linked),
            ("link", "f", &linked),
            ("write", "made", ""),
            ("write", "f", ""),
            ("unlink", "f", ""),
            ("mkdir", "made", ""),
            ("exec", "f", ""),
            ("read", "../secret", ""),
            ("read", &back, ""),
        ],
    );
    let (sub, at) = (lab.at("ws/sub"), lab.at("outside/view"));
    in_own_mounts(&mut command, move || {
        let none: Option<&str> = None;
        Ok(mount(Some(&sub), &at, none, MsFlags::MS_BIND, none)?)
    });
    let ran = Ran::of(&command.output().unwrap());
    let lines = ran.lines();
    assert_eq!(lines[..3], ["chdir ok", "read ok", "rename ok"], "{lines:?}");
    let refused = |line: &&str| line.contains("errno=") || *line == "exec status 97";
    assert!(lines[3..13].iter().all(refused), "{lines:?}");
    assert_eq!(lines[13..], ["read ok"], "it is still there in the workspace: {lines:?}");
}

/// The same from without: somebody moves the directory of a running command out of the workspace.
#[test]
fn e075_a_directory_that_is_taken_out_of_the_workspace_leads_nowhere() {
    let lab = with_directory();
    nix::unistd::mkfifo(&lab.at("ws/go"), Mode::from_bits_truncate(0o666)).unwrap();
    fs::set_permissions(lab.at("ws/go"), fs::Permissions::from_mode(0o666)).unwrap();
    let (secret, out) = (lab.text("outside/secret"), lab.text("outside/f"));
    let mut going = Going::start(trying(
        &lab,
        &[
            ("chdir", &lab.text("ws/sub/d"), ""),
            ("read", &lab.text("ws/go"), ""),
            ("read", "../secret", ""),
            ("read", &secret, ""),
            ("list", "..", ""),
            ("rename", "f", "../f"),
            ("link", "f", "../f"),
            ("rename", "f", &out),
            ("link", "f", &out),
            ("exec", "f", ""),
        ],
    ));
    assert_eq!(going.line(), "chdir ok");
    fs::rename(lab.at("ws/sub/d"), lab.at("outside/d")).unwrap();
    fs::write(lab.at("ws/go"), "x").unwrap();
    let ran = going.finish();
    let lines = ran.lines();
    assert_eq!(lines[0], "read ok", "{lines:?}");
    assert_eq!(lines.len(), 10, "{lines:?}");
    let refused = |line: &&str| line.contains("errno=") || *line == "exec status 97";
    assert!(lines[1..].iter().all(refused), "{lines:?}");
    assert!(!lab.at("outside/f").exists());
}

#[test]
fn e033_e034_a_directory_that_is_swapped_for_a_link_leads_nowhere() {
    let lab = Lab::plain();
    let (swap, real, link) = (lab.at("ws/swap"), lab.at("ws/real"), lab.at("ws/link"));
    fs::create_dir(&real).unwrap();
    symlink(lab.at("outside"), &link).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (swap, stop) = (swap.clone(), Arc::clone(&stop));
        move || {
            while !stop.load(Ordering::Relaxed) {
                for from in [&real, &link] {
                    fs::rename(from, &swap).unwrap();
                    fs::rename(&swap, from).unwrap();
                }
            }
        }
    });
    let (outside, mut served) = (format!("cwd {}", lab.text("outside")), Served::start(&lab));
    let answers: Vec<String> = (0..200)
        .map(|_| served.run(json!({"command": lab.probe(), "args": ["state"], "cwd": "swap"})).0)
        .collect();
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(answers.iter().all(|answer| !answer.contains(&outside)), "{answers:?}");
    // And when it stands still as a link.
    fs::rename(lab.at("ws/link"), &swap).unwrap();
    let (text, error) = served.run(json!({"command": lab.probe(), "args": ["state"], "cwd": "swap"}));
    assert!(error, "{text}");
}

#[test]
fn e036_e040_a_workspace_that_is_swapped_is_still_the_old_one() {
    let lab = Lab::plain();
    let mut served = Served::start(&lab);
    assert_eq!(served.probed(&lab, &["try", "read", "plain", ""])["stdout"], "read ok\n");
    fs::rename(lab.ws(), lab.at("moved")).unwrap();
    symlink(lab.at("outside"), lab.ws()).unwrap();
    let secret = lab.text("ws/secret");
    // The first supervisor was ready before, the later ones were not.
    for _ in 0..3 {
        let words = ["try", "read", "secret", "", "read", &secret, ""];
        let (text, _) = served.run(json!({"command": lab.probe(), "args": words}));
        assert!(!text.contains("read ok"), "{text}");
    }
}

fn requiring(require: &'static str) -> Lab {
    Lab::new(&Rules { sandbox: require, ..Rules::default() })
}

#[test]
fn e051_e053_what_the_kernel_lacks_is_a_refusal() {
    let lab = requiring("require = [\"landlock>=99\", \"seccomp\"]");
    let ran = lab.exec(&[lab.text("bin/probe"), "write".to_owned()]);
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
    assert_eq!(lab.records(), [] as [serde_json::Value; 0], "nothing was started");
}

#[test]
fn e073_what_is_missing_is_named() {
    let ran = requiring("require = [\"landlock>=99\"]").probed(&["say", "x"]);
    assert!(ran.stderr.contains("landlock>=99") && ran.stderr.contains("Landlock ABI"), "{ran:?}");
}

#[test]
fn e076_a_command_has_no_capability() {
    let lab = Lab::plain();
    assert_eq!(lab.probed(&["say", "x"]).status, 0);
    let records = lab.records();
    let started = records.iter().find(|record| record["event_type"] == "run.start").unwrap();
    assert_eq!(started["caps"], "0000000000000000", "{started}");
    // The command itself asks the kernel: capget of version 3.
    let lab = Lab::new(&Rules {
        commands: "[command.perl]\ninterpreters = \"confine\"".to_owned(),
        ..Rules::default()
    });
    let script = "my $h = pack 'L l', 0x20080522, 0; my $d = \"\\1\" x 24; print syscall(125, $h, $d), ' ', unpack 'H*', $d; \
        print ' ', syscall(157, 23, $_, 0, 0, 0) for 0 .. 40";
    let ran = lab.exec(&["perl", "-e", script]);
    assert_eq!(ran.stdout, format!("0 {}{}", "0".repeat(48), " 0".repeat(41)), "{ran:?}");
}

/// Shipped sources of the rooms that start, watch and end commands.
fn rooms() -> impl Iterator<Item = (String, String)> {
    ["src/launch", "src/run", "src/sandbox", "src/sys"].into_iter().flat_map(rust).map(|text| {
        let bare = code(&text.content).bare;
        (text.path, bare)
    })
}

#[test]
fn e092_deadlines_do_not_know_the_time_of_day() {
    let mut clocks = 0;
    // The table of system calls names those that commands may make.
    for (path, bare) in rooms().filter(|(path, _)| path != "src/sandbox/syscalls.rs") {
        for wrong in ["SystemTime", "CLOCK_REALTIME", "UNIX_EPOCH", "gettimeofday"] {
            // When a job began is told to people, and nothing is reckoned from it.
            let told = path == "src/run/jobs/job.rs" && wrong == "SystemTime";
            assert!(
                told && bare.matches("SystemTime::now").count() == 1 || !bare.contains(wrong),
                "{path}: {wrong}"
            );
        }
        clocks += bare.matches("Instant::now").count();
    }
    assert!(clocks > 0, "no deadline was found where deadlines are");
}

#[test]
fn e093_nothing_touches_a_terminal() {
    for (path, bare) in rooms() {
        for wrong in ["tcsetpgrp", "tcsetattr", "TIOCSCTTY", "TIOCSPGRP", "openpty", "forkpty"] {
            assert!(!bare.contains(wrong), "{path} names {wrong}");
        }
    }
    // A command finds no terminal, whatever the caller has.
    let lab = Lab::plain();
    let ran = lab.probed(&["state"]);
    let lines = ran.lines();
    assert!(
        lines.iter().any(|line| line.starts_with("tty errno=")) && lines.contains(&"terminals 000"),
        "{lines:?}"
    );
}

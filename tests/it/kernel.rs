//! The kernel's part: what no argument, no descendant and no trick of a program gets around. Tests
//! of known escapes are named by their number in the catalogue of escapes (`eNNN`).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;

use crate::support::{BINARY, LOADER, Lab, Ran, Rules, Served, copy, eventually};

const EACCES: &str = "errno=13";
const EPERM: &str = "errno=1";

fn writable() -> Lab {
    Lab::new(&Rules { write: true, ..Rules::default() })
}

/// A laboratory whose only further program is perl, an interpreter that can do anything.
fn perl(write: bool) -> Lab {
    let commands = "[command.perl]\ninterpreters = \"confine\"".to_owned();
    let lab = Lab::new(&Rules { write, commands, ..Rules::default() });
    // A program that links nothing which perl does not: only the walls can be in its way.
    copy("/usr/bin/true", lab.at("ws/id"));
    fs::set_permissions(lab.at("ws/id"), fs::Permissions::from_mode(0o755)).unwrap();
    lab
}

fn scripted(lab: &Lab, script: &str) -> Ran {
    let ran = lab.exec(&["perl", "-e", script]);
    assert!(!ran.stdout.contains("uid=") && !ran.stderr.contains("uid="), "id ran: {ran:?}");
    ran
}

/// Runs `id` in every way a script can name; each must fail, and for the reason that is expected.
fn loader_refuses(lab: &Lab, prepare: &str, file: &str) {
    let ran =
        scripted(lab, &format!("{prepare}; exec {{'{LOADER}'}} '{LOADER}', {file}; print 'exec: ', $!+0"));
    assert_eq!(ran.status, 127, "{ran:?}");
    let refused = ran.stderr.contains("Permission denied") || ran.stderr.contains("failed to map segment");
    assert!(refused && ran.stderr.contains("error while loading"), "{ran:?}");
}

const COPY: &str = "sub cp { open my $i, '<', $_[0] or die \"from: $!\"; open my $o, '>', $_[1] or die \"to: $!\"; \
    binmode $i; binmode $o; local $/; my $d = <$i>; print $o $d; close $o or die; chmod 0755, $_[1] }";

// ---- the allowlist holds for descendants (invariant 5) ---------------------------------------

#[test]
fn inv5_find_exec_id_ends_in_eacces_with_argument_rules_off() {
    let lab = Lab::new(&Rules {
        top: "argument_rules = \"off\"",
        commands: "[command.find]\ndeny_options = [\"-exec\"]".to_owned(),
        ..Rules::default()
    });
    let ran = lab.exec(&["find", ".", "-maxdepth", "0", "-exec", "id", ";"]);
    assert!(ran.stderr.contains("id") && ran.stderr.contains("Permission denied"), "{ran:?}");
    assert!(!ran.stdout.contains("uid="), "{ran:?}");
    assert_eq!(ran.status, 0, "-exec of a program that cannot start is false, and find's status its own");
    let start = &lab.records()[0];
    assert_eq!(start["argument_rules_off"], true, "stamped into each record: {start}");
}

#[test]
fn inv5_an_interpreter_executes_nothing_that_is_not_listed() {
    let lab = perl(false);
    for file in ["/usr/bin/id", "/bin/sh", "/usr/bin/env", "id", "./id", &lab.text("ws/id")] {
        let ran = scripted(&lab, &format!("exec {{'{file}'}} 'id' or print 'errno=', $!+0"));
        assert!(ran.stdout == EACCES || ran.stdout == "errno=2", "{file}: {ran:?}");
    }
    assert_eq!(scripted(&lab, "exec {'/usr/bin/id'} 'id' or print 'errno=', $!+0").stdout, EACCES);
    assert_eq!(scripted(&lab, "print system('id; true')").stdout, "-1", "no shell");
}

#[test]
fn e029_the_loader_refuses_an_unlisted_program() {
    let lab = perl(false);
    for program in ["/usr/bin/id", "/usr/bin/true"] {
        loader_refuses(&lab, "1", &format!("'{program}'"));
    }
}

#[test]
fn e029_the_loader_refuses_a_program_of_a_read_only_workspace() {
    loader_refuses(&perl(false), "open my $f, '<', 'id' or die", "'./id'");
}

#[test]
fn e029_the_loader_refuses_a_copy_in_scratch() {
    loader_refuses(&perl(false), &format!("{COPY} cp('id', \"$ENV{{TMPDIR}}/id\")"), "\"$ENV{TMPDIR}/id\"");
}

/// noexec belongs to a mount, and the host may show the workspace at a second place.
#[test]
fn e029_the_loader_refuses_a_program_seen_through_a_second_mount() {
    let lab = perl(false);
    let alias = lab.at("alias");
    fs::create_dir(&alias).unwrap();
    let script = format!("exec {{'{LOADER}'}} '{LOADER}', '{}/id'; print 'exec: ', $!+0", alias.display());
    let mount = "mount --bind \"$1\" \"$2\" && test -x \"$2/id\" && shift 2 && exec \"$@\"";
    // Mount and run in a namespace of their own: the host keeps its mounts.
    let mut own = Command::new("unshare");
    own.args(if nix::unistd::Uid::effective().is_root() { &["-m"][..] } else { &["-rm"] });
    own.args(["--propagation", "private", "sh", "-c", mount, "sh"]).arg(lab.ws()).arg(&alias);
    own.arg(BINARY).args(["exec", "--policy"]).arg(lab.policy()).args(["--", "perl", "-e", &script]);
    let ran = Ran::of(&own.output().expect("apt-get install util-linux"));
    assert_eq!(ran.status, 127, "{ran:?}");
    assert!(ran.stderr.contains("failed to map segment"), "{ran:?}");
}

#[test]
fn e029_the_loader_refuses_a_copy_in_a_writable_workspace() {
    loader_refuses(&perl(true), &format!("{COPY} cp('id', 'copy')"), "'./copy'");
}

#[test]
fn e029_the_loader_refuses_preloads_and_libraries_of_the_workspace() {
    let lab = perl(false);
    copy(library(), lab.at("ws/own.so"));
    let script = format!("exec {{'{LOADER}'}} '{LOADER}', '--preload', './own.so', $^X, '-e', 'print 1'");
    let ran = scripted(&lab, &script);
    assert!(ran.stderr.contains("own.so"), "{ran:?}");
    assert!(ran.stderr.contains("cannot be preloaded"), "{ran:?}");
}

fn library() -> &'static str {
    "/lib/x86_64-linux-gnu/libm.so.6"
}

#[test]
fn e030_no_memory_file_and_hence_no_program_in_one() {
    let lab = perl(false);
    let ran =
        scripted(&lab, "my $n = 'x'; print syscall(319, $n, 0), ' errno=', $!+0, ' ', syscall(319, $n, 8)");
    assert_eq!(ran.stdout, "-1 errno=38 -1");
    // The other half, execveat of a descriptor (AT_EMPTY_PATH), is closed by itself.
    let ran = scripted(
        &lab,
        "open my $f, '<', $^X or die; my $e = ''; print syscall(322, fileno $f, $e, 0, 0, 0x1000), ' errno=', $!+0",
    );
    assert_eq!(ran.stdout, "-1 errno=1");
}

#[test]
fn e028_files_of_workspace_and_scratch_are_neither_executable_nor_mappable() {
    let lab = writable();
    let (probe, own) = (lab.text("bin/probe"), lab.text("ws/own"));
    let lines =
        lab.tried(&[("copy", &probe, &own), ("exec", &own, ""), ("map", &own, ""), ("loader", LOADER, &own)]);
    assert_eq!(lines[..3], ["copy ok", "exec errno=13", "exec status 97"], "{lines:?}");
    assert_eq!(lines[3..], ["map errno=1", "loader status 127"], "{lines:?}");
    let root = format!("/proc/self/root{probe}");
    // By any way it is the listed file; another file by that way is not.
    assert_eq!(lab.tried(&[("exec", &root, "")]), ["exec status 2"]);
    assert_eq!(lab.tried(&[("exec", "/proc/self/root/usr/bin/id", "")])[0], "exec errno=13");
    let ran = lab.exec(&[&root]);
    assert_eq!(ran.status, 126, "{ran:?}");
}

// ---- files -----------------------------------------------------------------------------------

#[test]
fn e032_a_symlink_to_the_outside_is_not_followed() {
    let lab = Lab::plain();
    std::os::unix::fs::symlink(lab.at("outside/secret"), lab.at("ws/link")).unwrap();
    std::os::unix::fs::symlink(lab.at("outside"), lab.at("ws/dirlink")).unwrap();
    std::os::unix::fs::symlink("plain", lab.at("ws/inside")).unwrap();
    let lines = lab.tried(&[
        ("read", "link", ""),
        ("read", "dirlink/secret", ""),
        ("list", "dirlink", ""),
        ("read", "inside", ""),
        ("read", "plain", ""),
    ]);
    assert_eq!(
        lines,
        [
            format!("read {EACCES}"),
            format!("read {EACCES}"),
            format!("list {EACCES}"),
            "read ok".into(),
            "read ok".into()
        ]
    );
}

#[test]
fn nothing_outside_of_the_profile_is_read() {
    let lab = Lab::plain();
    let (secret, policy, log) =
        (lab.text("outside/secret"), lab.text("policy.toml"), lab.text("audit/log.jsonl"));
    let around = format!("/proc/self/root{secret}");
    for path in [
        "../outside/secret",
        &secret,
        &around,
        &policy,
        &log,
        "/etc/passwd",
        "/etc/shadow",
        "/proc/self/environ",
        "/proc/self/maps",
        "/proc/self/mem",
        "/proc/1/environ",
        "/proc/version",
        "/proc/self/status",
        "/proc/mounts",
        "/proc/self/cwd/../outside/secret",
        "/dev/tty",
        "/dev/mem",
        "/dev/kmsg",
    ] {
        let line = &lab.tried(&[("read", path, "")])[0];
        assert!(
            [format!("read {EACCES}"), format!("read {EPERM}"), "read errno=2".into()].contains(line),
            "{path}: {line}"
        );
    }
    for path in ["/", "..", "/etc", "/proc", "/tmp", "/dev"] {
        assert_eq!(lab.tried(&[("list", path, "")]), [format!("list {EACCES}")], "{path}");
    }
}

#[test]
fn e065_proc_of_supervisor_launcher_and_server_is_closed() {
    let lab = Lab::plain();
    let mut served = Served::start(&lab);
    for file in ["environ", "maps", "cmdline", "status", "root/etc/passwd", "cwd/plain", "fd/0"] {
        let mut words = vec!["try".to_owned()];
        for pid in [served.pid(), crate::support::descendants(served.pid())[0]] {
            words.extend(["read".to_owned(), format!("/proc/{pid}/{file}"), String::new()]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let payload = served.probed(&lab, &words);
        assert_eq!(
            payload["stdout"].as_str().unwrap().matches("read errno=").count(),
            2,
            "{file}: {payload}"
        );
    }
}

#[test]
fn a_read_only_policy_lets_nothing_be_changed() {
    let lab = Lab::plain();
    // Mode bits would allow it: what refuses is the kernel profile.
    fs::set_permissions(lab.ws(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(lab.at("ws/plain"), fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(lab.at("outside"), fs::Permissions::from_mode(0o777)).unwrap();
    let outside = lab.text("outside/made");
    let lines = lab.tried(&[
        ("write", "new", ""),
        ("write", "plain", ""),
        ("truncate", "plain", ""),
        ("mkdir", "dir", ""),
        ("unlink", "plain", ""),
        ("rename", "plain", "other"),
        ("link", "plain", "hard"),
        ("symlink", "/etc", "soft"),
        ("mkfifo", "pipe", ""),
        ("chmod", "plain", "777"),
        ("write", &outside, ""),
        ("write", "/tmp/cofferdam-it", ""),
        ("write", "/dev/shm/x", ""),
        ("write", "/var/tmp/x", ""),
        ("mkdir", &outside, ""),
    ]);
    assert!(lines.iter().all(|line| line.contains("errno=")), "{lines:?}");
    let listed: Vec<_> = fs::read_dir(lab.ws()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(listed, ["plain"]);
    assert_eq!(fs::read_to_string(lab.at("ws/plain")).unwrap(), "plain\n");
    assert_eq!(fs::read_dir(lab.at("outside")).unwrap().count(), 1);
}

#[test]
fn a_writable_policy_lets_only_the_workspace_be_changed() {
    let lab = writable();
    fs::set_permissions(lab.at("outside"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(lab.at("outside/secret"), fs::Permissions::from_mode(0o666)).unwrap();
    std::os::unix::fs::symlink(lab.at("outside/secret"), lab.at("ws/link")).unwrap();
    let (secret, made) = (lab.text("outside/secret"), lab.text("outside/made"));
    let inside = lab.tried(&[
        ("write", "new", ""),
        ("mkdir", "dir", ""),
        ("rename", "new", "dir/moved"),
        ("symlink", "/etc", "soft"),
        ("unlink", "soft", ""),
    ]);
    assert_eq!(inside, ["write ok", "mkdir ok", "rename ok", "symlink ok", "unlink ok"]);
    let outside = lab.tried(&[
        ("write", &secret, ""),
        ("write", &made, ""),
        ("write", "link", ""),
        ("truncate", "link", ""),
        ("write", "../outside/made", ""),
        ("rename", "dir/moved", &made),
        ("link", "dir/moved", &made),
        ("link", &secret, "hard"),
        ("rename", &secret, "taken"),
        ("unlink", &secret, ""),
        ("mkdir", &made, ""),
        ("chmod", &secret, "777"),
        ("read", "link", ""),
        ("read", "hard", ""),
        ("write", "/tmp/cofferdam-it", ""),
        ("write", "/dev/shm/x", ""),
    ]);
    assert!(outside.iter().all(|line| line.contains("errno=")), "{outside:?}");
    assert_eq!(fs::read_to_string(lab.at("outside/secret")).unwrap(), "the secret\n");
    assert_eq!(fs::read_dir(lab.at("outside")).unwrap().count(), 1);
}

#[test]
fn no_mode_with_setuid_bits_is_ever_made() {
    let lab = writable();
    let lines = lab.tried(&[
        ("write", "file", ""),
        ("fchmod", "file", "4755"),
        ("fchmod", "file", "2755"),
        ("chmod", "file", "4755"),
        ("fchmod", "file", "755"),
        ("stat", "file", ""),
    ]);
    assert_eq!(
        lines,
        ["write ok", "fchmod errno=1", "fchmod errno=1", "chmod errno=1", "fchmod ok", "stat ok", "mode 755"]
    );
}

#[test]
fn e045_a_working_directory_outside_of_the_workspace_is_refused() {
    let lab = Lab::plain();
    fs::create_dir(lab.at("ws/sub")).unwrap();
    fs::create_dir(lab.at("ws-evil")).unwrap();
    std::os::unix::fs::symlink(lab.at("outside"), lab.at("ws/leave")).unwrap();
    let mut served = Served::start(&lab);
    let (evil, inside) = (lab.text("ws-evil"), lab.text("ws/sub"));
    for cwd in ["..", "/", "/etc", "sub/../..", "leave", "/proc/self/cwd", "plain", "none", evil.as_str()] {
        let (text, error) = served.run(json!({"command": lab.probe(), "args": ["state"], "cwd": cwd}));
        assert!(error, "{cwd}: {text}");
    }
    for cwd in ["sub", inside.as_str()] {
        let (text, error) = served.run(json!({"command": lab.probe(), "args": ["state"], "cwd": cwd}));
        assert!(!error && text.contains(&format!("cwd {inside}")), "{cwd}: {text}");
    }
}

// ---- scratch ---------------------------------------------------------------------------------

#[test]
fn e041_e071_scratch_is_private_and_gone_afterwards() {
    let lab = Lab::plain();
    let mut served = Served::start(&lab);
    let scratch = |payload: &serde_json::Value| {
        let text = payload["stdout"].as_str().unwrap().to_owned();
        text.lines().find_map(|line| line.strip_prefix("TMPDIR=")).unwrap().to_owned()
    };
    let first = scratch(&served.probed(&lab, &["env"]));
    let gone = served.probed(&lab, &["try", "stat", &first, ""]);
    assert_eq!(gone["stdout"], "stat errno=2\n", "gone after the run");
    let second = scratch(&served.probed(&lab, &["env"]));
    assert_ne!(first, second);
    // Another run's directory, while it runs: there, and closed.
    let perl = perl(false);
    let ran = scripted(
        &perl,
        "my $t = $ENV{TMPDIR}; printf '%o ', (stat $t)[2] & 07777; \
        open my $f, '>', \"$t/x\" or die; print -O $t ? 'own ' : 'not own '; \
        opendir(my $d, \"$t/..\") ? print 'listed' : print $!+0",
    );
    assert_eq!(ran.stdout, "700 own 13", "{}", ran.stderr);
}

#[test]
fn scratch_of_another_run_is_closed() {
    let lab = perl(true);
    let mut served = Served::start(&lab);
    let script = "my $t = $ENV{TMPDIR}; open my $f, '>', \"$t/x\" or die; close $f; \
        open $f, '>', 'told' or die; print $f $t; close $f; rename 'told', 'where' or die; sleep 1000";
    let call = served.send_run(json!({"command": "perl", "args": ["-e", script]}));
    eventually("a run with a file in its scratch directory", || lab.at("ws/where").exists());
    let path = fs::read_to_string(lab.at("ws/where")).unwrap();
    let (inner, new) = (format!("{path}/x"), format!("{path}/y"));
    let mut words = vec!["try"];
    words.extend(["stat", &path, "", "list", &path, "", "read", &inner, "", "write", &new, ""]);
    let payload = served.probed(&lab, &words);
    assert_eq!(payload["stdout"], "stat ok\nmode 700\nlist errno=13\nread errno=13\nwrite errno=13\n");
    served.cancel(call);
    eventually("scratch is gone", || {
        served.probed(&lab, &["try", "stat", &path, ""])["stdout"] == "stat errno=2\n"
    });
}

#[test]
fn scratch_full_of_traps_is_removed() {
    let lab = perl(false);
    let mut served = Served::start(&lab);
    let script = "my $t = $ENV{TMPDIR}; chdir $t; for (1..100) { mkdir 'd' or die; chdir 'd' or die; \
        open my $f, '>', 'f' or die } symlink '/', 'root'; chdir $t; umask 0777; mkdir 'locked' or die; print $t";
    let (text, error) = served.run(json!({"command": "perl", "args": ["-e", script]}));
    assert!(!error, "{text}");
    let payload: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(payload["exit"], 0, "{payload}");
    let path = payload["stdout"].as_str().unwrap().to_owned();
    eventually("scratch is gone", || {
        served.probed(&lab, &["try", "stat", &path, ""])["stdout"] == "stat errno=2\n"
    });
}

// ---- limits ----------------------------------------------------------------------------------

fn limited(limits: &'static str) -> Lab {
    Lab::new(&Rules { limits, ..Rules::default() })
}

#[test]
fn limit_memory() {
    let ran = limited("memory = \"64MiB\"").probed(&["memory"]);
    let mib: u64 = ran.lines()[0].split(' ').nth(1).unwrap().parse().unwrap();
    assert!(mib < 64 && ran.stdout.ends_with("errno=12\n"), "{ran:?}");
}

#[test]
fn limit_file_size() {
    let lab = Lab::new(&Rules { write: true, limits: "file_size = \"1MiB\"", ..Rules::default() });
    assert_eq!(lab.probed(&["fill", "big"]).status, 128 + 25, "SIGXFSZ");
    assert_eq!(lab.probed(&["fill", "big", "ignored"]).stdout, "filled 1048576 errno=27\n");
    assert_eq!(fs::metadata(lab.at("ws/big")).unwrap().len(), 1 << 20);
}

#[test]
fn limit_open_files() {
    assert_eq!(limited("open_files = 32").probed(&["files"]).stdout, "files 29 errno=24\n");
}

#[test]
fn limit_processes() {
    // A user of its own, where that is possible: the kernel counts by user, other test runs included.
    let id = 1_000_000 + std::process::id();
    let root = nix::unistd::Uid::effective().is_root();
    let sandbox = if root { &*format!("user = \"{id}:{id}\"").leak() } else { "" };
    let lab = Lab::new(&Rules { limits: "processes = 40", sandbox, ..Rules::default() });
    let ran = lab.probed(&["forks"]);
    let line = ran.lines()[0].to_owned();
    let count: u32 = line.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(count < 40 && line.ends_with("errno=11"), "{line}");
    assert!(!root || count > 20, "{line}");
    assert!(lab.alive().is_empty());
    assert_eq!((&lab.end()["procs_left"], &lab.end()["procs_killed"]), (&json!(0), &json!(count)));
}

#[test]
fn limit_cpu_time() {
    let lab = limited("cpu_time = \"1s\"");
    let ran = lab.probed(&["spin"]);
    // Soft equals hard, so the kernel kills at once.
    assert_eq!(ran.status, 128 + 9, "{ran:?}");
    assert_eq!((&lab.end()["outcome"], &lab.end()["procs_left"]), (&json!("resource_limit"), &json!(0)));
    assert_eq!(lab.end()["error_code"], "cpu_time_limit");
}

#[test]
fn limits_cannot_be_raised() {
    let lines = Lab::plain().probed(&["raise-limits"]);
    assert!(
        lines.lines().len() >= 8 && lines.lines().iter().all(|line| *line == "raise errno=1"),
        "{lines:?}"
    );
}

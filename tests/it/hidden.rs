//! What an older kernel, or a container around the server, does not have: hidden for real, by a filter that
//! answers for the kernel, one feature at a time. Each gives a refusal at start that names the feature and
//! the version of Linux that has it; or, where the mounts of the host stand in for mounts of our own, a
//! warning and a stamp in every record. Nothing is executed that is not confined.
//!
//! The ABI of Landlock is hidden by `faults.rs`: a filter cannot answer with a number.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::mount::{MsFlags, mount};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use serde_json::Value;

use crate::support::{Lab, Ran, Rules, Served, in_own_mounts};

/// A system call, the argument and value it is hidden for (any, when absent), and the answer.
type Hidden = (libc::c_long, Option<(u8, u64)>, i32);

/// The program that answers so.
fn filter(hidden: &[Hidden]) -> BpfProgram {
    let (_, _, errno) = hidden[0];
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for (call, argument, _) in hidden {
        let of_call = rules.entry(*call).or_default();
        if let Some((index, value)) = argument {
            let same = SeccompCondition::new(*index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *value);
            of_call.push(SeccompRule::new(vec![same.unwrap()]).unwrap());
        }
    }
    let answer = SeccompAction::Errno(u32::try_from(errno).unwrap());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, TargetArch::x86_64);
    filter.unwrap().try_into().unwrap()
}

/// Hides it from `command` and all that it starts.
fn hide(command: &mut Command, hidden: &[Hidden]) {
    let program = filter(hidden);
    let hiding = move || {
        nix::sys::prctl::set_no_new_privs()?;
        seccompiler::apply_filter(&program).map_err(std::io::Error::other)
    };
    // SAFETY: two system calls in the child.
    unsafe { command.pre_exec(hiding) };
}

fn exec(lab: &Lab, hidden: &[Hidden]) -> Ran {
    let mut command = lab.command("exec");
    hide(&mut command, hidden);
    Ran::of(&command.arg("--").arg(lab.probe()).args(["say", "ran"]).output().unwrap())
}

/// Refused before anything is recorded or run, with these words.
fn refused(hidden: &[Hidden], words: &[&str]) {
    // Not even a policy that requires nothing is served with less.
    for sandbox in ["", "require = []"] {
        let lab = Lab::new(&Rules { sandbox, ..Rules::default() });
        let ran = exec(&lab, hidden);
        assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
        for word in words {
            assert!(ran.stderr.contains(word), "{word}: {ran:?}");
        }
        assert!(lab.records().is_empty(), "{ran:?}");
    }
}

#[test]
fn the_filter_of_these_tests_hides_nothing_else() {
    let lab = Lab::plain();
    let ran = exec(&lab, &[(libc::SYS_acct, None, libc::ENOSYS)]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "ran\n"), "{ran:?}");
}

/// Engines hide clone3(2), whose flags no filter can read, with ENOSYS: the C library then uses clone(2).
#[test]
fn e074_a_filter_that_hides_clone3_stops_no_run_of_command_line_or_server() {
    let clone3 = [(libc::SYS_clone3, None, libc::ENOSYS)];
    let lab = Lab::plain();
    let ran = exec(&lab, &clone3);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "ran\n"), "{ran:?}");
    let mut command = lab.command("serve");
    hide(&mut command, &clone3);
    let mut served = Served::by(command);
    // More than one, so that stubs are made while the threads of the server run.
    for _ in 0..8 {
        let payload = served.probed(&lab, &["say", "ran"]);
        assert_eq!(payload["exit"], 0, "{payload}");
    }
    assert_eq!(served.stop(), Some(0));
    let records = lab.records();
    let ends: Vec<&Value> = records.iter().filter(|record| record["event_type"] == "run.end").collect();
    assert_eq!(ends.len(), 9, "{records:?}");
    assert!(ends.iter().all(|record| record["sandbox"] == "enforced"), "{ends:?}");
}

/// Old engines answer EPERM, which no C library takes for "use clone(2)".
#[test]
fn e074_a_filter_that_forbids_clone3_is_a_refusal() {
    refused(&[(libc::SYS_clone3, None, libc::EPERM)], &["launcher failed", "Operation not permitted"]);
}

#[test]
fn without_landlock_nothing_is_served() {
    for errno in [libc::ENOSYS, libc::EOPNOTSUPP] {
        let call = libc::SYS_landlock_create_ruleset;
        refused(&[(call, None, errno)], &["no Landlock", "lsm=", "Linux 6.12"]);
    }
}

#[test]
fn without_seccomp_nothing_is_served() {
    refused(&[(libc::SYS_seccomp, None, libc::ENOSYS)], &["seccomp(2)", "Linux 3.17", "ENOSYS"]);
}

#[test]
fn without_user_notification_nothing_is_served() {
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    refused(
        &[(libc::SYS_seccomp, Some((1, flags)), libc::EINVAL)],
        &["user notification", "Linux 5.19", "EINVAL"],
    );
}

#[test]
fn without_memory_rules_nothing_is_served() {
    // PR_SET_MDWE and PR_GET_MDWE.
    let calls = [65, 66].map(|option| (libc::SYS_prctl, Some((0, option)), libc::EINVAL));
    refused(&calls, &["PR_SET_MDWE", "Linux 6.3", "EINVAL"]);
}

#[test]
fn without_close_range_nothing_is_served() {
    refused(&[(libc::SYS_close_range, None, libc::ENOSYS)], &["close_range(2)", "Linux 5.11", "ENOSYS"]);
    // Containers answer so.
    refused(&[(libc::SYS_close_range, None, libc::EPERM)], &["close_range(2)", "filter around this process"]);
}

#[test]
fn without_openat2_nothing_is_served() {
    refused(&[(libc::SYS_openat2, None, libc::ENOSYS)], &["openat2(2)", "Linux 5.6", "ENOSYS"]);
}

/// What takes our own mounts away: the calls, and the words of the refusal.
fn mounts() -> Vec<(&'static str, Vec<Hidden>, Vec<&'static str>)> {
    let namespaces = (libc::SYS_unshare, None, libc::EPERM);
    vec![
        ("open_tree", vec![(libc::SYS_open_tree, None, libc::ENOSYS)], vec!["open_tree(2)", "Linux 5.2"]),
        ("move_mount", vec![(libc::SYS_move_mount, None, libc::ENOSYS)], vec!["move_mount(2)", "Linux 5.2"]),
        (
            "mount_setattr",
            vec![(libc::SYS_mount_setattr, None, libc::ENOSYS)],
            vec!["mount_setattr(2)", "Linux 5.12"],
        ),
        ("namespaces", vec![namespaces], vec!["no user namespace", "Linux 3.8", "EPERM"]),
        ("mount", vec![(libc::SYS_mount, None, libc::EPERM)], vec!["mount propagation failed", "EPERM"]),
    ]
}

#[test]
fn without_mounts_of_its_own_a_workspace_that_can_execute_is_refused() {
    for (_, hidden, mut words) in mounts() {
        // Without mounts only a launcher that is root, or that has nothing to drop, comes so far.
        words.extend(nix::unistd::Uid::effective().is_root().then_some("mount it noexec"));
        refused(&hidden, &words);
    }
}

/// Mounts a noexec file system on the workspace, as a container would, in a mount namespace of `command`.
fn host_noexec(command: &mut Command, workspace: &Path) {
    let workspace = workspace.to_owned();
    in_own_mounts(command, move || {
        mount(Some("ws"), &workspace, Some("tmpfs"), MsFlags::MS_NOEXEC, Some("mode=0755"))?;
        Ok(())
    });
}

#[test]
fn mounts_of_the_host_in_place_of_our_own_are_said_and_stamped_in_every_record() {
    for (what, hidden, words) in mounts() {
        let lab = Lab::plain();
        let mut command = lab.command("exec");
        host_noexec(&mut command, &lab.ws());
        hide(&mut command, &hidden);
        let ran = Ran::of(&command.arg("--").arg(lab.probe()).args(["say", "ran"]).output().unwrap());
        if !nix::unistd::Uid::effective().is_root() {
            // Its bounding set cannot be emptied outside of a namespace of its own: refused, and why.
            assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{what}: {ran:?}");
            assert!(ran.stderr.contains("capability bounding set"), "{what}: {ran:?}");
            assert!(words.iter().all(|word| ran.stderr.contains(word)), "{what}: {ran:?}");
            continue;
        }
        assert_eq!((ran.status, ran.stdout.as_str()), (0, "ran\n"), "{what}: {ran:?}");
        assert!(ran.stderr.contains("warning: commands have no mounts of their own"), "{what}: {ran:?}");
        for word in words {
            assert!(ran.stderr.contains(word), "{what}: {word}: {ran:?}");
        }
        let records = lab.records();
        assert_eq!(records.len(), 2, "{records:?}");
        for record in records {
            assert_eq!((&record["sandbox"], &record["sandbox_mounts"]), (&"degraded".into(), &"host".into()));
        }
    }
}

#[test]
fn mounts_of_our_own_carry_no_stamp() {
    let lab = Lab::plain();
    assert_eq!(lab.probed(&["say", "ran"]).lines(), ["ran"]);
    for record in lab.records() {
        assert_eq!((&record["sandbox"], &record["sandbox_mounts"]), (&"enforced".into(), &Value::Null));
    }
}

#[test]
fn a_landlock_that_is_too_old_for_the_policy_is_refused() {
    let lab = Lab::new(&Rules { sandbox: "require = [\"landlock>=99\"]", ..Rules::default() });
    let ran = lab.probed(&["say", "ran"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
    assert!(ran.stderr.contains("landlock>=99 does not hold here"), "{ran:?}");
}

#[test]
fn without_a_session_of_its_own_nothing_is_served() {
    refused(&[(libc::SYS_setsid, None, libc::EPERM)], &["setsid failed", "EPERM"]);
    // Answered as done, and not done: what has become of it is looked at.
    refused(
        &[(libc::SYS_setsid, None, 0)],
        &["kept away from the terminal", "no session of its own", "setsid(2)"],
    );
}

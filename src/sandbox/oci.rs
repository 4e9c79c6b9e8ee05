//! The seccomp profile of the container around the server, in the format of container engines (OCI runtime
//! specification, `linux.seccomp`; containers-common's seccomp.json), out of the table of commands.
//!
//! What a command may do, the container must permit; beside that only what server and launcher do themselves,
//! which is [`OWN`]. Commands live under both filters, so nothing here opens anything to them. Pure. Called by
//! the test that keeps `deploy/seccomp/cofferdam.json`.

use libc as c;
use serde_json::{Value, json};

use super::syscalls::{DENIED, DENIED_OLD, Entry, Rule, Switches, Test, table};

/// CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWIPC: mounts, the user they need, and the queues of one run.
const NAMESPACES: u32 = 0x0002_0000 | 0x1000_0000 | 0x0800_0000;
/// Set-user-ID and set-group-ID.
const SETID: u32 = 0o6000;
/// `ENOSYS` and `EPERM`, for engines that have no names for them.
const ABSENT: u16 = 38;
const FORBIDDEN: u16 = 1;

/// What the server and its launcher do beside what commands may. Wider than the line of the same call in the
/// table of commands; the launcher's filters narrow it again before a command starts.
pub const OWN: &[Entry] = &[
    // Unix and internet sockets to serve on; NETLINK_ROUTE, to list the interfaces.
    own("socket", c::SYS_socket, Rule::When(&[Test::OneOf(0, &[1, 2, 10, 16])], 1)),
    own("connect", c::SYS_connect, Rule::Allow),
    own("bind", c::SYS_bind, Rule::Allow),
    own("listen", c::SYS_listen, Rule::Allow),
    own("accept", c::SYS_accept, Rule::Allow),
    own("accept4", c::SYS_accept4, Rule::Allow),
    own("socketpair", c::SYS_socketpair, Rule::When(&[Test::OneOf(0, &[1])], 1)),
    own("sendto", c::SYS_sendto, Rule::Allow),
    own("sendmsg", c::SYS_sendmsg, Rule::Allow),
    own("sendmmsg", c::SYS_sendmmsg, Rule::Allow),
    // Filters of commands and their notifications.
    own("seccomp", c::SYS_seccomp, Rule::Allow),
    // Mounts of commands, in a user namespace of the launcher.
    own("unshare", c::SYS_unshare, Rule::When(&[Test::NoBits(0, !NAMESPACES)], 1)),
    own("mount", c::SYS_mount, Rule::Allow),
    own("umount2", c::SYS_umount2, Rule::Allow),
    own("open_tree", c::SYS_open_tree, Rule::Allow),
    own("move_mount", c::SYS_move_mount, Rule::Allow),
    own("mount_setattr", c::SYS_mount_setattr, Rule::Allow),
    // Operations that commands are refused one by one.
    own("ioctl", c::SYS_ioctl, Rule::Allow),
    own("prctl", c::SYS_prctl, Rule::Allow),
    own("fcntl", c::SYS_fcntl, Rule::Allow),
    own("prlimit64", c::SYS_prlimit64, Rule::Allow),
    // Modes and times of records and scratch. Never a set-user-ID bit.
    own("chmod", c::SYS_chmod, Rule::When(&[Test::NoBits(1, SETID)], 1)),
    own("fchmod", c::SYS_fchmod, Rule::When(&[Test::NoBits(1, SETID)], 1)),
    own("fchmodat", c::SYS_fchmodat, Rule::When(&[Test::NoBits(2, SETID)], 1)),
    own("utimensat", c::SYS_utimensat, Rule::Allow),
];

const fn own(name: &'static str, nr: i64, rule: Rule) -> Entry {
    Entry { nr, name, rule }
}

/// The profile. Calls that no line names do not exist (`ENOSYS`), those that the table forbids by name are
/// refused (`EPERM`), and a call of another architecture (`int 0x80`, x32) ends the process.
#[must_use]
pub fn profile() -> Value {
    let all = Switches { write: true, tcp: true, watch: true, ipc: true, memfd: true, pty: true };
    let mut lines: std::collections::BTreeMap<&str, Rule> =
        table(all).iter().map(|entry| (name(entry), entry.rule)).collect();
    lines.extend(OWN.iter().map(|entry| (name(entry), entry.rule)));
    let pick = |wanted: fn(&Rule) -> bool| -> Vec<&str> {
        lines.iter().filter(|(_, rule)| wanted(rule)).map(|(name, _)| *name).collect()
    };
    let mut rules = vec![
        json!({"names": pick(|rule| matches!(rule, Rule::Allow | Rule::Execute)), "action": "SCMP_ACT_ALLOW"}),
        json!({"names": pick(|rule| *rule == Rule::Deny), "action": "SCMP_ACT_ERRNO", "errnoRet": FORBIDDEN}),
        json!({"names": pick(|rule| *rule == Rule::Absent), "action": "SCMP_ACT_ERRNO", "errnoRet": ABSENT}),
    ];
    for (name, rule) in &lines {
        if let Rule::When(tests, _) | Rule::ExecuteWhen(tests) = rule {
            rules.extend(
                combinations(tests)
                    .into_iter()
                    .map(|args| json!({"names": [name], "action": "SCMP_ACT_ALLOW", "args": args})),
            );
        }
    }
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": ABSENT,
        "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []}],
        "syscalls": rules,
    })
}

/// Calls that the profile forbids by name though the table of commands names them, for the reader.
#[must_use]
pub fn forbidden() -> Vec<&'static str> {
    let opened = |entry: &&Entry| !OWN.iter().any(|own| own.nr == entry.nr);
    DENIED.iter().chain(DENIED_OLD).filter(opened).map(name).collect()
}

fn name(entry: &Entry) -> &'static str {
    entry.name.strip_prefix("SYS_").unwrap_or(entry.name)
}

/// Every way to meet all tests at once: the conditions of one rule are all to hold, those of several, any.
fn combinations(tests: &[Test]) -> Vec<Vec<Value>> {
    tests.iter().fold(vec![Vec::new()], |found, test| {
        let ways = ways(*test);
        found
            .iter()
            .flat_map(|earlier| {
                ways.iter().map(|way| earlier.iter().chain(std::iter::once(way)).cloned().collect())
            })
            .collect()
    })
}

/// Engines compare 64 bits. Garbage in a half that the kernel ignores makes an equality fail: refused.
fn ways(test: Test) -> Vec<Value> {
    let equal = |arg: u8, value: u32| json!({"index": arg, "value": value, "op": "SCMP_CMP_EQ"});
    let masked = |arg: u8, mask: u32, value: u32| json!({"index": arg, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"});
    match test {
        Test::OneOf(arg, values) => values.iter().map(|value| equal(arg, *value)).collect(),
        Test::NoBits(arg, bits) => vec![masked(arg, bits, 0)],
        Test::Masked(arg, mask, values) => values.iter().map(|value| masked(arg, mask, *value)).collect(),
        Test::Null(arg) => vec![equal(arg, 0)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(profile: &Value, name: &str) -> bool {
        profile["syscalls"].as_array().unwrap().iter().any(|rule| {
            rule["action"] == "SCMP_ACT_ALLOW"
                && rule["names"].as_array().unwrap().iter().any(|own| own == name)
        })
    }

    #[test]
    fn whatever_a_command_may_do_the_container_permits() {
        let profile = profile();
        for entry in table(Switches::default()) {
            if matches!(entry.rule, Rule::Allow | Rule::Execute | Rule::When(..)) {
                assert!(allowed(&profile, name(&entry)), "{}", entry.name);
            }
        }
    }

    #[test]
    fn nothing_risky_that_the_server_does_not_do_is_open() {
        let profile = profile();
        let risky = [
            "bpf",
            "keyctl",
            "add_key",
            "ptrace",
            "process_vm_readv",
            "perf_event_open",
            "userfaultfd",
            "open_by_handle_at",
            "kexec_load",
            "init_module",
            "pivot_root",
            "chroot",
            "setns",
            "pidfd_getfd",
            "io_uring_setup",
            "clone3",
        ];
        for name in risky {
            assert!(!allowed(&profile, name), "{name}");
        }
        assert!(forbidden().len() > 50 && forbidden().iter().all(|name| !allowed(&profile, name)));
    }

    #[test]
    fn several_tests_hold_together_and_several_values_are_several_rules() {
        let found =
            combinations(&[Test::OneOf(0, &[1, 2]), Test::Masked(1, 0xF, &[1, 5]), Test::NoBits(2, 8)]);
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|args| args.len() == 3));
        assert_eq!(found[3][1], json!({"index": 1, "value": 15, "valueTwo": 5, "op": "SCMP_CMP_MASKED_EQ"}));
    }
}

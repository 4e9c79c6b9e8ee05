//! The catalogue of known escapes: public bypasses, advisories and bug reports of sandboxes and command
//! servers, numbered. For each number either the tests and probes that try it again at the kernel layer
//! (their names hold the number), or the reason why the kernel is not what answers it.

mod places;
mod programs;
mod sockets;

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::scan::{root, rust};

/// Who answers an escape.
enum Answer {
    /// The kernel layer: tests, by their names (`eNNN_…`).
    Kernel(&'static [&'static str]),
    /// The kernel layer, and these programs of `tests/probes/open` try it under the gate.
    Probes(&'static [&'static str], &'static [&'static str]),
    /// Another layer, or nothing here that could have it.
    Elsewhere(&'static str),
}

use Answer::{Elsewhere, Kernel, Probes};

const TEXT: &str =
    "text only: how a command string is split; there is no string and no shell, and the judge is tested";
const CONFIG: &str = "configuration: where policy comes from and who may change it";
const AUDIT: &str = "records: tests/it/audit.rs and audit/hostile.rs";
const PROXY: &str = "there is no network proxy";

/// Every number, in order.
#[rustfmt::skip]
const ESCAPES: &[(u16, &str, Answer)] = &[
    (1, "environment poisoned through shell builtins", Elsewhere("policy: no builtins, environment from a list (e001_ in src/policy); in the kernel layer no variable starts a program that is not listed")),
    (2, "only the first command of a pipe is judged", Elsewhere(TEXT)),
    (3, "operators and redirections unjudged", Elsewhere(TEXT)),
    (4, "process substitution", Elsewhere(TEXT)),
    (5, "eval in a script runs excluded tools", Kernel(&["e005_code_that_is_evaluated_starts_nothing"])),
    (6, "command substitution through a shell", Elsewhere(TEXT)),
    (7, "newline as a separator", Elsewhere(TEXT)),
    (8, "what was judged is not what runs", Kernel(&["e008_what_was_judged_is_what_runs"])),
    (9, "a second command behind a semicolon", Elsewhere(TEXT)),
    (10, "servers that hand a string to a shell", Elsewhere(TEXT)),
    (11, "string concatenation into a shell", Elsewhere(TEXT)),
    (12, "options that start programs", Elsewhere("policy: option grammars (e012_ in src/policy)")),
    (13, "global options before a subcommand", Elsewhere("policy: option grammars (e013_ in src/policy)")),
    (14, "an option that means two things", Elsewhere("policy: option grammars, by position")),
    (15, "a repository whose configuration runs programs", Kernel(&["e015_a_hostile_repository_starts_nothing"])),
    (16, "wrappers hide the program", Elsewhere("policy: always-denied names; a confined wrapper is e005 again")),
    (17, "a search tool's helper option", Kernel(&["e017_a_helper_option_starts_nothing"])),
    (18, "patterns that allow everything", Elsewhere("policy: lints of check")),
    (19, "find -exec, and a tool without the check", Elsewhere("policy: one door by type (e019_ in src/policy); the kernel's part is inv5_find_exec_id_ends_in_eacces_with_argument_rules_off")),
    (20, "quoting", Elsewhere(TEXT)),
    (21, "$IFS and short flags", Elsewhere(TEXT)),
    (22, "checks skipped beyond a limit", Elsewhere("policy: limits refuse (e022_ in src/policy)")),
    (23, "parsers that disagree", Elsewhere(TEXT)),
    (24, "programs that run programs by their arguments", Kernel(&["e024_techniques_of_ordinary_programs_start_nothing"])),
    (25, "name look-ups carry data out", Probes(&["e025_no_datagram_and_no_name_service"], &["net-udp-sendmmsg"])),
    (26, "denylists are bypassable", Elsewhere("documentation: the kernel is the boundary; tests/replay prints both layers side by side")),
    (27, "paths compared without regard to case", Elsewhere("policy: paths are compared by component, byte for byte; Landlock by inode")),
    (28, "the program by another path", Kernel(&["e028_files_of_workspace_and_scratch_are_neither_executable_nor_mappable"])),
    (29, "the loader runs any file", Probes(&["e029_the_loader_refuses_an_unlisted_program", "e029_the_loader_refuses_a_copy_in_scratch", "e029_the_loader_refuses_a_program_seen_through_a_second_mount"], &["exec-ldso"])),
    (30, "a program in a memory file", Probes(&["e030_no_memory_file_and_hence_no_program_in_one"], &["exec-memfd"])),
    (31, "a directory that has the workspace's name as its prefix", Kernel(&["e031_a_neighbour_of_the_same_prefix_is_outside"])),
    (32, "a link out of the workspace", Probes(&["e032_a_symlink_to_the_outside_is_not_followed"], &["fs-race-symlink", "fs-symlink-write"])),
    (33, "the unconfined tool follows a link that the confined one made", Kernel(&["e033_e034_a_directory_that_is_swapped_for_a_link_leads_nowhere"])),
    (34, "the supervisor follows links", Kernel(&["e033_e034_a_directory_that_is_swapped_for_a_link_leads_nowhere"])),
    (35, "a path is checked, then resolved again", Kernel(&["e035_e072_a_path_that_changes_under_the_call_decides_nothing"])),
    (36, "a directory swapped before it is mounted", Kernel(&["e036_e040_a_workspace_that_is_swapped_is_still_the_old_one"])),
    (37, "a name read as an option", Elsewhere("policy: e037_ in src/policy; the launcher takes no options")),
    (38, "relative paths in the policy", Elsewhere(CONFIG)),
    (39, "denials anchored to the working directory", Elsewhere(CONFIG)),
    (40, "a mount source swapped between check and use", Kernel(&["e036_e040_a_workspace_that_is_swapped_is_still_the_old_one"])),
    (41, "predictable temporary files", Kernel(&["e041_e071_scratch_is_private_and_gone_afterwards"])),
    (42, "settings protected only if they exist", Elsewhere(CONFIG)),
    (43, "settings of the repository", Elsewhere(CONFIG)),
    (44, "a project's .env", Elsewhere(CONFIG)),
    (45, "the working directory becomes the writable root", Kernel(&["e045_a_working_directory_outside_of_the_workspace_is_refused"])),
    (46, "configuration rewritten by the agent", Elsewhere(CONFIG)),
    (47, "hooks of the workspace", Elsewhere(CONFIG)),
    (48, "a request field turns the sandbox off", Elsewhere("protocol: unknown fields are refused (src/mcp/arguments.rs)")),
    (49, "one excluded command frees the whole line", Elsewhere("policy: a profile belongs to one argv")),
    (50, "tools that read files themselves", Elsewhere("protocol: no tool opens a file of the workspace; the server is confined (the_server_lives_behind_walls_of_its_own)")),
    (51, "set-up fails, and the command runs without", Kernel(&["e051_e053_what_the_kernel_lacks_is_a_refusal"])),
    (52, "a second road without the sandbox", Elsewhere("house: one_door_only_launch_creates_processes")),
    (53, "best effort that does nothing", Kernel(&["e051_e053_what_the_kernel_lacks_is_a_refusal"])),
    (54, "errors swallowed in the supervisor", Elsewhere("house: security_code_swallows_no_error")),
    (55, "nobody sees the effective rules", Elsewhere("command line: explain prints the profile")),
    (56, "clone3 gets past a ban on namespaces", Probes(&["e056_e057_calls_that_no_filter_can_read_are_absent"], &["ns-clone-newuser"])),
    (57, "io_uring gets past the filter", Kernel(&["e056_e057_calls_that_no_filter_can_read_are_absent"])),
    (58, "other architectures", Probes(&["e058_other_architectures_and_x32_numbers_kill"], &["sys-int80-unshare", "sys-x32"])),
    (59, "Unix sockets by path", Probes(&["e059_e094_no_unix_socket"], &["ipc-unix-dgram", "ipc-unix-symlink", "ipc-unix-abstract"])),
    (60, "a datagram pair re-addressed", Kernel(&["e060_no_datagram_pair"])),
    (61, "TCP Fast Open gets past the rule for connect", Kernel(&["e061_fast_open_reaches_no_other_port"])),
    (62, "MPTCP gets past the rules for TCP", Probes(&["e062_no_other_stream_protocol"], &["net-mptcp", "net-sctp", "net-smc"])),
    (63, "vsock reaches the host", Kernel(&["e063_no_other_socket_family"])),
    (64, "the supervisor stopped or killed", Probes(&["e064_a_command_cannot_stop_kill_or_outwit_its_supervisor"], &["sig-parent", "sig-pidfd", "proc-prlimit", "proc-setaffinity"])),
    (65, "environment and memory of the supervisor read", Probes(&["e065_proc_of_supervisor_launcher_and_server_is_closed"], &["proc-1-environ", "proc-victim-environ"])),
    (66, "TIOCSTI with high bits", Probes(&["e066_e067_e068_no_input_into_a_terminal_in_any_spelling"], &["tty-sti"])),
    (67, "TIOCSTI into the caller's terminal", Probes(&["e066_e067_e068_no_input_into_a_terminal_in_any_spelling"], &["tty-sti"])),
    (68, "TIOCLINUX", Kernel(&["e066_e067_e068_no_input_into_a_terminal_in_any_spelling"])),
    (69, "new system calls on no denylist", Kernel(&["e069_unknown_numbers_are_absent"])),
    (70, "the helper traced", Kernel(&["e070_the_supervisor_cannot_be_traced"])),
    (71, "predictable temporary directory", Kernel(&["e041_e071_scratch_is_private_and_gone_afterwards"])),
    (72, "arguments rewritten under a notification", Kernel(&["e035_e072_a_path_that_changes_under_the_call_decides_nothing"])),
    (73, "a missing feature without its name", Kernel(&["e073_what_is_missing_is_named"])),
    (74, "a container's filter makes clone3 absent", Kernel(&["e074_a_filter_that_hides_clone3_stops_no_run_of_command_line_or_server", "e074_a_filter_that_forbids_clone3_is_a_refusal"])),
    (75, "disconnected directories widen a rename (Landlock erratum 3)", Kernel(&["e075_a_directory_that_lost_its_mount_widens_nothing", "e075_a_directory_that_is_taken_out_of_the_workspace_leads_nowhere"])),
    (76, "a capability reads what Landlock hides", Probes(&["e076_a_command_has_no_capability"], &["priv-caps", "priv-capbnd"])),
    (77, "descriptors and the executable of the launcher", Probes(&["e077_e078_a_program_holds_descriptors_0_1_2_only"], &["leak-fd-socket"])),
    (78, "descriptors of the caller", Kernel(&["e077_e078_a_program_holds_descriptors_0_1_2_only"])),
    (79, "root by joining a sandbox", Elsewhere("no setuid program, and nothing joins a sandbox")),
    (80, "overlay races", Elsewhere("no setuid program, and no overlay")),
    (81, "output options through a shell", Elsewhere("there is no shell")),
    (82, "root by a setuid helper", Elsewhere("no setuid program")),
    (83, "a switch for debuggers", Elsewhere("no request switches the filter")),
    (84, "bandwidth through a root shell", Elsewhere("no setuid program, no shell")),
    (85, "TIOCSTI", Elsewhere("the same as 66 and 67")),
    (86, "weak permissions of files and environment", Elsewhere("as 41, and the environment test of tests/it/exec.rs")),
    (87, "a profile made inside of the sandbox", Elsewhere(CONFIG)),
    (88, "a profile taken from the working directory", Elsewhere(CONFIG)),
    (89, "a daemon holds the output", Probes(&["e089_a_daemon_that_holds_stdout_does_not_hold_the_answer"], &["daemon-setsid"])),
    (90, "daemons get away", Kernel(&["e090_daemons_die_with_a_run_that_ends_by_itself", "e090_e091_daemons_die_with_a_run_that_times_out"])),
    (91, "only the leader is killed", Kernel(&["e090_e091_daemons_die_with_a_run_that_times_out"])),
    (92, "a step of the wall clock is a timeout", Kernel(&["e092_deadlines_do_not_know_the_time_of_day"])),
    (93, "the terminal of the embedding process taken", Kernel(&["e093_nothing_touches_a_terminal"])),
    (94, "a daemon asked over its socket", Kernel(&["e059_e094_no_unix_socket"])),
    (95, "a host name with a NUL", Elsewhere(PROXY)),
    (96, "an empty list means everything", Kernel(&["e096_an_empty_list_is_no_network"])),
    (97, "rebinding", Elsewhere(PROXY)),
    (98, "domain fronting", Elsewhere(PROXY)),
    (99, "records forged through names", Elsewhere(AUDIT)),
    (100, "runs without a record", Elsewhere(AUDIT)),
];

/// The names of all tests of the tree.
fn tests() -> BTreeSet<String> {
    let test = Regex::new(r"#\[test\]\s+(?:#\[[^\]]*\]\s+)*fn (\w+)\(").unwrap();
    let sources = rust("tests/it").into_iter().chain(rust("src"));
    sources
        .flat_map(|text| {
            test.captures_iter(&text.content).map(|found| found[1].to_owned()).collect::<Vec<_>>()
        })
        .collect()
}

/// The numbers that the name of a test claims.
fn numbers(test: &str) -> Vec<u16> {
    let number = Regex::new(r"(?:^|_)e(\d{3})(?:_|$)").unwrap();
    let mut rest = test;
    let mut found = Vec::new();
    while let Some(hit) = number.captures(rest) {
        found.push(hit[1].parse().unwrap());
        rest = &rest[hit.get(1).unwrap().end()..];
    }
    found
}

#[test]
fn names_claim_numbers() {
    assert_eq!(numbers("e035_e072_a_path"), [35, 72]);
    assert_eq!(numbers("the_e2e_of_x"), [] as [u16; 0]);
}

#[test]
fn every_known_escape_has_its_answer() {
    assert!(ESCAPES.iter().map(|(number, ..)| *number).eq(1..=100), "each number once, in order");
    let tests = tests();
    for (number, what, answer) in ESCAPES {
        let (names, probes): (&[&str], &[&str]) = match answer {
            Kernel(names) => (names, &[]),
            Probes(names, probes) => (names, probes),
            Elsewhere(reason) => {
                assert!(reason.len() >= 15, "{number} ({what}): no reason");
                continue;
            }
        };
        assert!(!names.is_empty(), "{number} ({what}): no test");
        for name in names {
            assert!(tests.contains(*name), "{number} ({what}): there is no test {name}");
            assert!(numbers(name).contains(number), "{number} ({what}): {name} is named after another");
        }
        for probe in probes {
            let file = root().join(format!("tests/probes/open/{probe}.c"));
            assert!(file.exists(), "{number} ({what}): there is no probe {probe}");
        }
    }
}

#[test]
fn tests_are_named_after_escapes_of_the_list() {
    let known: BTreeMap<u16, &str> = ESCAPES.iter().map(|(number, what, _)| (*number, *what)).collect();
    for test in tests() {
        for number in numbers(&test) {
            assert!(known.contains_key(&number), "{test}: the list of escapes has no {number}");
        }
    }
}

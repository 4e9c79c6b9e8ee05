//! The contract of `cofferdam exec`: bytes, exit statuses, standard input, limits of output, audit
//! flags, and what a program finds when it starts (design invariant 3: what was judged is what runs).

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{BINARY, Going, Lab, Ran, Rules, Served, copy, eventually, records};

/// A policy that admits every name, for programs that are not there.
fn any() -> Lab {
    Lab::new(&Rules { top: "allow_any = true", ..Rules::default() })
}

#[test]
fn stdout_and_stderr_are_the_programs_bytes_and_nothing_else() {
    let lab = Lab::plain();
    let ran = lab.probed(&["both"]);
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (0, "out", "err"));
    let raw = lab.command("exec").arg("--").arg(lab.probe()).arg("raw").output().unwrap();
    assert_eq!(raw.stdout, b"a\xff\xfeb\n", "bytes that are no text pass as they are");
}

#[test]
fn status_is_the_programs_own() {
    let lab = Lab::plain();
    for status in [0, 1, 2, 42, 124, 125, 126, 127, 255] {
        assert_eq!(lab.probed(&["exit", &status.to_string()]).status, status);
    }
}

#[test]
fn status_is_128_and_the_signal() {
    let lab = Lab::plain();
    for signal in [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGABRT, Signal::SIGPIPE] {
        let number = signal as i32;
        assert_eq!(lab.probed(&["signal", &number.to_string()]).status, 128 + number);
    }
    assert_eq!(lab.records().last().unwrap()["outcome"], "signal");
}

#[test]
fn status_124_after_a_timeout() {
    let lab = Lab::plain();
    let ran = lab.probed_with(&["--timeout", "300ms"], &["pause"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (124, "ready ok\n"));
    assert!(ran.stderr.contains("timed out after 300ms"), "{ran:?}");
    let end = lab.end();
    assert_eq!((&end["outcome"], &end["procs_left"]), (&json!("timeout"), &json!(0)));
}

#[test]
fn a_longer_timeout_than_the_policys_is_clamped() {
    let lab = Lab::new(&Rules { limits: "timeout = \"200ms\"\nmax_timeout = \"400ms\"", ..Rules::default() });
    let ran = lab.probed_with(&["--timeout", "1h"], &["pause"]);
    assert_eq!(ran.status, 124);
    assert!(ran.stderr.contains("timed out after 400ms"), "{ran:?}");
}

#[test]
fn status_125_when_the_policy_is_bad_and_nothing_runs() {
    let lab = Lab::plain();
    lab.write_policy(&Rules { top: "alow = []", write: true, ..Rules::default() });
    let ran = lab.probed(&["try", "write", &lab.text("ws/made"), ""]);
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""));
    assert!(ran.stderr.contains("alow") && ran.stderr.contains("allow"), "{ran:?}");
    assert!(!lab.at("ws/made").exists() && lab.records().is_empty());
    let ran = Ran::of(&Command::new(BINARY).args(["exec", "--nonsense"]).output().unwrap());
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""));
}

#[test]
fn status_125_when_the_policy_does_not_do_what_its_examples_say() {
    let lab = Lab::plain();
    let commands = "[command.cat]\nexamples.deny = [\"cat plain\"]\n".to_owned();
    lab.write_policy(&Rules { commands, ..Rules::default() });
    let ran = Ran::of(&lab.command("exec").args(["--", "cat", "plain"]).output().unwrap());
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""));
    assert!(ran.stderr.contains("examples.deny[0]") && ran.stderr.contains("must be refused"), "{ran:?}");
}

#[test]
fn status_125_when_no_record_can_be_written_and_nothing_runs() {
    let lab = Lab::new(&Rules { write: true, ..Rules::default() });
    let made = lab.text("ws/made");
    fs::create_dir(lab.log()).unwrap();
    for sink in [None, Some(lab.text("policy.toml/log.jsonl")), Some("/dev/full".to_owned())] {
        let flags: Vec<&str> = sink.iter().flat_map(|path| ["--audit", path.as_str()]).collect();
        let ran = lab.probed_with(&flags, &["try", "write", &made, ""]);
        assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
        assert!(ran.stderr.starts_with("cofferdam: "), "{ran:?}");
        assert!(!lab.at("ws/made").exists(), "it ran without a record: {ran:?}");
    }
}

#[test]
fn status_126_and_one_line_when_refused() {
    let lab = Lab::plain();
    let ran = lab.exec(&["rm", "-rf", "x"]);
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.lines().count()), (126, "", 1));
    assert!(ran.stderr.starts_with("cofferdam: refused (allow): "), "{ran:?}");
    let records = lab.records();
    assert_eq!(records.len(), 1);
    assert_eq!((&records[0]["event_type"], &records[0]["decision"]), (&json!("run.denied"), &json!("deny")));
}

#[test]
fn status_127_when_the_program_is_not_there() {
    let lab = any();
    let ran = lab.exec(&["no-such-tool-here", "x"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (127, ""), "{ran:?}");
    assert!(ran.stderr.ends_with("cofferdam: no-such-tool-here is allowed, but not installed\n"), "{ran:?}");
    let end = lab.end();
    assert_eq!((&end["outcome"], &end["errno"]), (&json!("spawn_error"), &json!("ENOENT")));
}

#[test]
fn json_is_one_object_with_everything() {
    let lab = Lab::plain();
    let ran = lab.probed_with(&["--json"], &["both"]).json();
    assert_eq!((&ran["outcome"], &ran["status"], &ran["exit"]), (&json!("ran"), &json!(0), &json!(0)));
    assert_eq!((&ran["stdout"], &ran["stderr"]), (&json!("out"), &json!("err")));
    assert_eq!(ran["run_id"], lab.end()["run_id"]);
    let denied = lab.exec_with(&["--json"], &["rm"]);
    assert_eq!((denied.status, denied.stderr.as_str()), (126, ""));
    assert_eq!(denied.json()["reason"], "command_not_allowed");
    let late = lab.probed_with(&["--json", "--timeout", "200ms"], &["pause"]);
    assert_eq!((late.status, &late.json()["timed_out"]), (124, &json!(true)));
    let missing = any().exec_with(&["--json"], &["no-such-tool-here"]);
    assert_eq!((missing.status, &missing.json()["outcome"]), (127, &json!("not_started")));
}

fn fed(lab: &Lab, flags: &[&str], words: &[&str], input: &[u8]) -> Ran {
    let mut command = lab.command("exec");
    command.args(flags).arg("--").arg(lab.probe()).args(words);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A reader that went away is the concern of some tests, not of this function.
    drop(child.stdin.take().unwrap().write_all(input));
    Ran::of(&child.wait_with_output().unwrap())
}

#[test]
fn stdin_is_not_handed_on_unless_asked() {
    let lab = Lab::plain();
    let asked = &["--stdin"][..];
    for (flags, input, output) in [
        (&[][..], &b"for somebody else"[..], "[0 bytes]\n"),
        (asked, b"for you\n", "for you\n[8 bytes]\n"),
        (asked, b"", "[0 bytes]\n"),
        (asked, b"a\0b", "a\0b[3 bytes]\n"),
    ] {
        let ran = fed(&lab, flags, &["stdin"], input);
        assert_eq!(ran.stdout, output, "{ran:?}");
    }
}

#[test]
fn a_program_that_never_reads_its_stdin_does_not_stall() {
    let lab = Lab::plain();
    let ran = fed(&lab, &["--stdin"], &["say", "done"], &vec![b'x'; 1 << 19]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "done\n"), "{}", ran.stderr);
    assert_eq!(lab.records()[0]["stdin_bytes"], 1 << 19);
}

#[test]
fn more_stdin_than_the_policy_allows_is_refused() {
    let lab = Lab::new(&Rules { limits: "stdin_bytes = \"1KiB\"", ..Rules::default() });
    let ran = fed(&lab, &["--stdin"], &["stdin"], &[b'x'; 1025]);
    assert_eq!((ran.status, ran.stdout.as_str()), (126, ""));
    assert!(ran.stderr.contains("limits.stdin_bytes"), "{ran:?}");
    assert_eq!(fed(&lab, &["--stdin"], &["stdin"], &[b'x'; 1024]).status, 0);
}

#[test]
fn audit_flag_names_another_file_or_copies_to_stderr() {
    let lab = Lab::plain();
    let other = lab.text("audit/other.jsonl");
    assert_eq!(lab.probed_with(&["--audit", &other], &["say", "x"]).stdout, "x\n");
    assert!(lab.records().is_empty());
    assert_eq!(records(&lab.at("audit/other.jsonl")).len(), 2);
    let ran = lab.probed_with(&["--audit", "-"], &["say", "x"]);
    let copies: Vec<serde_json::Value> =
        ran.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((ran.stdout.as_str(), copies), ("x\n", lab.records()));
    assert_eq!(lab.records().len(), 2);
}

#[test]
fn output_beyond_the_limit_is_dropped_and_said() {
    let lab = Lab::new(&Rules { limits: "output_bytes = \"1KiB\"", ..Rules::default() });
    let ran = lab.probed(&["lines", "1000"]);
    assert_eq!((ran.status, ran.stdout.len()), (0, 1024));
    assert!(ran.stderr.contains("stdout: 10976 bytes dropped"), "{}", ran.stderr);
    let end = lab.end();
    assert_eq!((&end["stdout_bytes"], &end["output_truncated"]), (&json!(12_000), &json!(true)));
}

#[test]
fn json_keeps_head_and_tail_and_numbers_that_add_up() {
    let lab = Lab::new(&Rules { limits: "output_bytes = \"1KiB\"", ..Rules::default() });
    let ran = lab.probed_with(&["--json"], &["lines", "1000"]).json();
    let dropped = ran["truncated"]["stdout"]["bytes"].as_u64().unwrap();
    let lines = ran["truncated"]["stdout"]["lines"].as_u64().unwrap();
    let marker = format!("[... {dropped} bytes / {lines} lines dropped ...]");
    let text = ran["stdout"].as_str().unwrap();
    let (head, tail) = text.split_once(&marker).unwrap_or_else(|| panic!("no {marker} in {text}"));
    assert!(head.starts_with("line 000001\n") && tail.ends_with("line 001000\n"), "{text}");
    let kept = 12_000 - usize::try_from(dropped).unwrap();
    let around = head.len() + tail.len();
    assert!((kept..=kept + 2).contains(&around), "{kept} kept, {around} shown besides the marker");
    assert!(ran["truncated"].get("stderr").is_none());
}

#[test]
fn json_replaces_bytes_that_are_no_text() {
    let ran = Lab::plain().probed_with(&["--json"], &["raw"]).json();
    assert_eq!(ran["stdout"], "a\u{fffd}\u{fffd}b\n");
}

#[test]
fn serve_tells_replaced_and_dropped_bytes_and_knows_the_states_of_stdin() {
    let lab = Lab::new(&Rules { limits: "output_bytes = \"1KiB\"", ..Rules::default() });
    let mut served = Served::start(&lab);
    let raw = served.probed(&lab, &["raw"]);
    assert_eq!(
        (&raw["stdout"], &raw["invalid-bytes"]),
        (&json!("a\u{fffd}\u{fffd}b\n"), &json!({"stdout": 2}))
    );
    let long = served.probed(&lab, &["lines", "1000"]);
    let dropped = &long["truncated"]["stdout"];
    let marker = format!("[... {} bytes / {} lines dropped ...]", dropped["bytes"], dropped["lines"]);
    assert!(long["stdout"].as_str().unwrap().contains(&marker), "{long}");
    for (stdin, answer) in
        [(None, "[0 bytes]\n"), (Some(""), "[0 bytes]\n"), (Some("some\ntext"), "some\ntext[9 bytes]\n")]
    {
        let mut arguments = json!({"command": lab.probe(), "args": ["stdin"]});
        if let Some(text) = stdin {
            arguments["stdin"] = json!(text);
        }
        let (text, error) = served.run(arguments);
        assert!(!error, "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["stdout"], answer);
    }
}

#[test]
fn a_reader_that_leaves_ends_the_run() {
    let lab = Lab::plain();
    let mut going = Going::probe(&lab, &[], &["forever"]);
    assert_eq!(going.line(), "again");
    drop(going.stdout);
    let output = going.child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + libc::SIGPIPE));
    let end = lab.end();
    assert_eq!((&end["outcome"], &end["procs_left"]), (&json!("cancelled"), &json!(0)));
    assert!(lab.alive().is_empty());
}

#[test]
fn a_reader_that_does_not_read_holds_up_neither_end_nor_record() {
    let lab = Lab::plain();
    let going = Going::probe(&lab, &["--timeout", "500ms"], &["forever"]);
    eventually("the end is recorded", || lab.records().len() == 2);
    assert_eq!(lab.end()["outcome"], "timeout");
    assert!(lab.alive().is_empty());
    crate::support::kill(going.pid(), Signal::SIGTERM);
    let Going { mut child, stdout } = going;
    // Only now may the pipe go: its end would end the process as well.
    let status = child.wait().unwrap();
    drop(stdout);
    assert_eq!(status.code(), Some(124));
}

#[test]
fn a_slow_reader_gets_every_byte() {
    let lab = Lab::plain();
    let going = Going::probe(&lab, &[], &["lines", "80000"]);
    eventually("the program has something to say", || !lab.records().is_empty());
    let ran = going.finish();
    assert_eq!((ran.status, ran.stdout.len()), (0, 960_000), "{}", ran.stderr);
    assert!(ran.stdout.ends_with("line 080000\n"));
    // The pipe of the reader, the queue and the pipe of the program hold this; the reader comes late.
    let going = Going::probe(&lab, &[], &["lines", "7000"]);
    eventually("the run is over", || lab.records().len() == 4);
    assert_eq!(going.finish().stdout.len(), 84_000);
}

#[test]
fn closed_output_never_ends_in_a_panic() {
    let lab = Lab::plain();
    for (flags, name, status) in
        [(&["--json"][..], "say", Some(0)), (&[], "rm", Some(126)), (&["--json"], "rm", Some(126))]
    {
        let mut command = lab.command("exec");
        command.args(flags).arg("--");
        if name == "say" {
            command.arg(lab.probe());
        }
        command.arg(name);
        for which in ["out", "err"] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            if which == "out" {
                command.stdout(writer).stderr(Stdio::null());
            } else {
                command.stderr(writer).stdout(Stdio::null());
            }
            let ended = command.status().unwrap().code();
            assert!(ended == status || ended == Some(125), "{flags:?} {name} std{which}: {ended:?}");
        }
    }
}

#[test]
fn sigterm_kills_the_tree_and_is_recorded() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let lab = Lab::plain();
        let mut going = Going::probe(&lab, &[], &["daemons-hang", "5"]);
        assert_eq!(going.line(), "5 up");
        assert_eq!(lab.alive().len(), 6);
        crate::support::kill(going.pid(), signal);
        let ran = going.finish();
        assert_eq!(ran.status, 128 + signal as i32, "{ran:?} {:?}", lab.end());
        assert!(lab.alive().is_empty());
        let end = lab.end();
        assert_eq!((&end["outcome"], &end["procs_killed"]), (&json!("cancelled"), &json!(5)), "{signal}");
        assert_eq!(end["procs_left"], 0);
    }
}

// ---- what was judged is what runs ------------------------------------------------------------

#[test]
fn inv3_argv_is_byte_identical() {
    let lab = Lab::plain();
    let words: [&[u8]; 9] = [
        b"argv",
        b"",
        b"two words",
        b"line\nbreak\r",
        b"\xff\xfe\x80",
        b"$HOME `id` $(id) ; | & > *",
        "\u{a0}\u{2028}\u{200b}".as_bytes(),
        b"--",
        b"",
    ];
    let mut argv = vec![lab.probe().into_os_string()];
    argv.extend(words.iter().map(|word| OsString::from_vec(word.to_vec())));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let wanted: Vec<String> = argv.iter().map(|word| hex(word.as_encoded_bytes())).collect();
    assert_eq!(lab.exec(&argv).lines(), wanted);
}

#[test]
fn inv3_argv0_is_the_name_that_was_asked_for() {
    let lab = Lab::plain();
    fs::rename(lab.probe(), lab.at("bin/real")).unwrap();
    std::os::unix::fs::symlink(lab.at("bin/real"), lab.probe()).unwrap();
    let wanted: String = lab.text("bin/probe").bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(lab.probed(&["argv"]).lines()[0], wanted);
}

#[test]
fn inv3_a_program_replaced_after_load_is_refused() {
    let lab = Lab::plain();
    let mut served = Served::start(&lab);
    assert_eq!(served.probed(&lab, &["say", "x"])["stdout"], "x\n");
    fs::rename(lab.probe(), lab.at("bin/old")).unwrap();
    copy("/usr/bin/id", lab.probe());
    let after = served.probed(&lab, &["say", "x"]);
    assert_eq!((&after["exit"], &after["stdout"]), (&json!(-1), &json!("")), "{after}");
    assert!(after["stderr"].as_str().unwrap().contains("replaced"), "{after}");
    fs::remove_file(lab.probe()).unwrap();
    assert_eq!(served.probed(&lab, &["say", "x"])["exit"], -1);
    fs::rename(lab.at("bin/old"), lab.probe()).unwrap();
    // A supervisor made meanwhile may hold the wrong file; one made now holds the right one.
    eventually("the very file is as good as before", || {
        served.probed(&lab, &["say", "x"])["stdout"] == "x\n"
    });
}

#[test]
fn e077_e078_a_program_holds_descriptors_0_1_2_only() {
    let lab = Lab::plain();
    // Descriptors that the caller left open without close-on-exec, as shells do.
    let command = format!(
        "exec 10</etc/passwd 251</etc 999<>/dev/null; ulimit -n 4096; exec 3000<&10; \
         exec '{BINARY}' exec --policy '{}' -- '{}' fds",
        lab.policy().display(),
        lab.probe().display()
    );
    let ran = Ran::of(&Command::new("bash").arg("-c").arg(command).output().unwrap());
    assert_eq!(ran.lines(), ["0", "1", "2"]);
}

#[test]
fn a_caller_without_standard_descriptors_is_no_trap() {
    let lab = Lab::plain();
    for closed in ["0<&-", "2>&-", "0<&- 2>&-"] {
        let command = format!(
            "exec '{BINARY}' exec --policy '{}' -- '{}' fds {closed}",
            lab.policy().display(),
            lab.probe().display()
        );
        let ran = Ran::of(&Command::new("bash").arg("-c").arg(command).output().unwrap());
        assert_eq!(ran.lines(), ["0", "1", "2"], "{closed}");
    }
}

#[test]
fn environment_is_what_the_policy_says_and_nothing_else() {
    let lab = Lab::new(&Rules {
        environment: "pass = [\"GREETING\", \"ABSENT\"]\nset = { TZ = \"UTC\" }",
        commands: "environment = { OWN = \"1\" }".to_owned(),
        ..Rules::default()
    });
    let mut command = lab.command("exec");
    command.env("GREETING", "hi there").env("SECRET_TOKEN", "xyzzy").env("PATH", "/nowhere:/usr/bin");
    command.env("LD_AUDIT", "/x.so").env("BASH_ENV", "/x").env("HOME", "/somewhere");
    let ran = Ran::of(&command.arg("--").arg(lab.probe()).arg("env").output().unwrap());
    let mut found = ran.lines();
    found.sort_unstable();
    let scratch = found.iter().find_map(|line| line.strip_prefix("TMPDIR=")).unwrap().to_owned();
    assert!(scratch.contains("/run-"), "{scratch}");
    let (home, tmp) = (format!("HOME={scratch}"), format!("TMPDIR={scratch}"));
    let path = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
    assert_eq!(found, ["GREETING=hi there", &home, "OWN=1", path, &tmp, "TZ=UTC"]);
}

#[test]
fn ld_preload_of_the_caller_reaches_neither_program_nor_launcher() {
    let lab = Lab::plain();
    let mut command = lab.command("exec");
    command.env("LD_PRELOAD", "/no/such/library.so").arg("--").arg(lab.probe()).arg("env");
    let ran = Ran::of(&command.output().unwrap());
    assert!(!ran.stdout.contains("LD_PRELOAD"), "{ran:?}");
    // The loader complains once, for the process that the caller started, and for nobody below it.
    assert_eq!(ran.stderr.matches("/no/such/library.so").count(), 1, "{ran:?}");
}

#[test]
fn state_at_start_is_clean_whatever_the_caller_ignores_or_blocks() {
    let lab = Lab::new(&Rules {
        limits: "memory = \"512MiB\"\nprocesses = 20001\ncpu_time = \"7s\"\nfile_size = \"3MiB\"\nopen_files = 77",
        ..Rules::default()
    });
    let command = format!(
        "umask 000; trap '' INT PIPE HUP TERM CHLD USR1 RTMIN; exec '{BINARY}' exec --policy '{}' -- '{}' state",
        lab.policy().display(),
        lab.probe().display()
    );
    let ran = Ran::of(&Command::new("bash").arg("-c").arg(command).output().unwrap());
    let lines = ran.lines();
    assert!(lines.contains(&"umask 077"), "{lines:?}");
    assert!(lines.contains(&format!("cwd {}", lab.ws().display()).as_str()), "{lines:?}");
    assert!(lines.contains(&"terminals 000"), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("tty errno=")), "{lines:?}");
    assert!(!lines.iter().any(|l| l.starts_with("blocked") || l.starts_with("disposition")), "{lines:?}");
    for (name, value) in [
        ("core", 0),
        ("cpu", 7),
        ("as", 512 << 20),
        ("fsize", 3 << 20),
        ("nofile", 77),
        ("nproc", 20001),
        ("memlock", 0),
        ("msgqueue", 0),
        ("rtprio", 0),
        ("nice", 0),
    ] {
        let line = format!("limit {name} {value} {value}");
        assert!(lines.contains(&line.as_str()), "no {line:?} in {lines:?}");
    }
    if nix::unistd::Uid::effective().is_root() {
        assert!(lines.contains(&"ids 65534 65534 65534 65534"), "{lines:?}");
    }
}

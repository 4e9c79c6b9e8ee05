//! Kernel profiles of single commands: switches, scripts as programs, hints, and the loader as a program.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::Value;

use crate::support::{BINARY, LOADER, Lab, Ran, Rules, Served};

/// A laboratory whose test program has these further keys in its table.
fn lab(keys: &str) -> Lab {
    Lab::new(&Rules { commands: keys.to_owned(), ..Rules::default() })
}

/// perl with these kernel switches.
fn perl(switches: &str) -> Lab {
    lab(&format!("[command.perl]\ninterpreters = \"confine\"\nkernel = [{switches}]"))
}

fn script(lab: &Lab, text: &str) -> Ran {
    lab.exec(&["perl", "-e", text])
}

fn check(lab: &Lab, flag: &str) -> Ran {
    let mut command = std::process::Command::new(BINARY);
    Ran::of(&command.arg("check").arg(flag).arg(lab.policy()).output().unwrap())
}

/// What `explain` says of the command's profile.
fn profile(lab: &Lab, argv: &[&str]) -> Value {
    let ran = Ran::of(&lab.command("explain").args(["--json", "--"]).args(argv).output().unwrap());
    ran.json()["profile"].clone()
}

// ---- switches --------------------------------------------------------------------------------

const INOTIFY: &str = "my $fd = syscall(294, 0); print $fd >= 0 ? 'ok ' : 'errno='.($!+0).' '; \
    my $p = '.'; print syscall(254, $fd, $p, 0x100) >= 0 ? 'ok' : 'errno='.($!+0);";

#[test]
fn watch_opens_inotify_and_nothing_else_does() {
    assert_eq!(script(&perl(""), INOTIFY).stdout, "errno=38 errno=38");
    assert_eq!(script(&perl("\"ipc\", \"jit\", \"memfd\", \"pty\""), INOTIFY).stdout, "errno=38 errno=38");
    assert_eq!(script(&perl("\"watch\""), INOTIFY).stdout, "ok ok");
}

#[test]
fn memfd_gives_sealed_files_only() {
    let text = "my $n = 'x'; for my $f (0, 1, 3, 8, 9, 11, 0x10, 0x18, 0x0c) \
        { my $fd = syscall(319, $n, $f); print $fd >= 0 ? 'ok ' : 'errno='.($!+0).' ' }";
    let absent = "errno=38 ";
    assert_eq!(script(&perl(""), text).stdout, absent.repeat(9));
    let expected = format!("{}{}{}", absent.repeat(3), "ok ok ok ", absent.repeat(3));
    assert_eq!(script(&perl("\"memfd\""), text).stdout, expected);
}

/// Shared memory that is attached executable, which would undo the ban of writable code.
#[test]
fn ipc_is_private_and_never_executable() {
    let text = "my $id = shmget(0x5eed, 4096, 01600); print defined $id ? 'ok ' : 'errno='.($!+0).' '; \
        my $a = syscall(30, $id // 0, 0, 0x8000|010000); print $a == -1 ? 'errno='.($!+0) : 'mapped';";
    assert_eq!(script(&perl(""), text).stdout, "errno=38 errno=38");
    let lab = perl("\"ipc\"");
    assert_eq!(script(&lab, text).stdout, "ok errno=1");
    let facts = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    assert!(!facts.lines().any(|line| line.split_whitespace().next() == Some("24301")), "{facts}");
    let denied = &lab.end()["denied_syscalls"];
    assert_eq!(denied, &serde_json::json!(["shmat=1"]), "{denied}");
}

#[test]
fn ipc_has_message_queues_and_no_datagram_pairs() {
    let text = "my $n = '/q'; \
        my $q = syscall(240, $n, 0102, 0600, 0); print $q >= 0 ? 'ok ' : 'errno='.($!+0).' '; \
        my $p = pack 'i2', 0, 0; print syscall(53, 1, 2, 0, $p) == -1 ? 'errno='.($!+0) : 'pair';";
    let own = perl("\"ipc\"");
    let expected = if Path::new("/dev/mqueue").is_dir() { "ok errno=1" } else { "errno=13 errno=1" };
    assert_eq!(script(&own, text).stdout, expected);
    assert_eq!(script(&perl(""), text).stdout, "errno=38 errno=1");
}

const TERMINAL: &str = "$SIG{HUP} = 'IGNORE'; open(my $m, '+<', '/dev/ptmx') or die 'ptmx errno='.($!+0); \
    my $u = pack 'i', 0; ioctl($m, 0x40045431, $u) or die 'unlock: '.$!; \
    my $n = pack 'i', 0; ioctl($m, 0x80045430, $n) or die 'number: '.$!; $n = unpack 'i', $n; \
    open(my $s, '+<', \"/dev/pts/$n\") or die 'slave: '.$!; print -t $s ? 'terminal ' : 'no '; \
    syswrite $s, 'x'; sysread $m, my $x, 1; print \"$n $x\"; \
    my $c = 'y'; print ioctl($s, 0x5412, $c) ? ' typed' : ' errno='.($!+0);";

/// Number 0: nobody else has a terminal in this instance of devpts.
#[test]
fn pty_makes_terminals_of_its_own_and_types_into_none() {
    let ran = script(&perl("\"pty\""), TERMINAL);
    assert_eq!(ran.stdout, "terminal 0 x errno=25", "{ran:?}");
    let ran = script(&perl("\"watch\", \"ipc\", \"jit\", \"memfd\""), TERMINAL);
    assert!(ran.stderr.contains("ptmx errno=13"), "{ran:?}");
}

#[test]
fn jit_lets_memory_be_written_and_executed() {
    // mmap of anonymous memory, read, write and execute.
    let text = "my $a = syscall(9, 0, 4096, 7, 0x22, -1, 0); print $a == -1 ? 'errno='.($!+0) : 'mapped'";
    assert_eq!(script(&perl(""), text).stdout, "errno=13");
    assert_eq!(script(&perl("\"watch\", \"ipc\", \"memfd\", \"pty\""), text).stdout, "errno=13");
    assert_eq!(script(&perl("\"jit\""), text).stdout, "mapped");
}

/// An engine that compiles just in time, with what its files need.
fn engine(name: &str, switches: &str, read: &str, argv: &[&str]) -> Ran {
    let commands = format!(
        "[command.{name}]\ninterpreters = \"confine\"\nkernel = [{switches}]\nread = [{read}]\npaths = \"any\""
    );
    let lab =
        Lab::new(&Rules { limits: "memory = \"1024GiB\"\ntimeout = \"120s\"", commands, ..Rules::default() });
    lab.exec(argv)
}

#[test]
fn node_runs_with_jit_and_dies_without() {
    let argv = ["node", "-e", "let s = 0; for (let i = 0; i < 1e6; i++) s += i; console.log(s)"];
    let ran = engine("node", "\"jit\"", "\"/etc/ssl/openssl.cnf\"", &argv);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "499999500000\n"), "{ran:?}");
    assert_ne!(engine("node", "", "\"/etc/ssl/openssl.cnf\"", &argv).status, 0);
}

#[test]
fn switches_stand_in_explain_records_digest_and_lints() {
    let lab = perl("\"watch\", \"jit\"");
    let own = profile(&lab, &["perl", "-e", "1"]);
    assert_eq!(own["kernel"], serde_json::json!(["jit", "watch"]), "{own}");
    assert_eq!(script(&lab, "print 1").stdout, "1");
    let start = &lab.records()[0];
    assert_eq!(start["sandbox_switches"], serde_json::json!(["jit", "watch"]), "{start}");
    let plain = perl("");
    assert_eq!(script(&plain, "print 1").stdout, "1");
    assert_ne!(plain.records()[0]["sandbox_digest"], start["sandbox_digest"]);
    assert!(plain.records()[0].get("sandbox_switches").is_none());

    let checked = |lab: &Lab| check(lab, "--json").json();
    let found = checked(&perl("\"jit\", \"pty\""));
    let lints = found["lints"].as_array().unwrap();
    let of = |id: &str| lints.iter().filter(|lint| lint["id"] == id).count();
    assert_eq!((of("kernel-opened"), of("kernel-switch")), (1, 1), "{found}");
}

#[test]
fn a_switch_that_is_none_is_an_error_with_the_nearest() {
    let ran = script(&perl("\"wacth\""), "1");
    assert_eq!(ran.status, 125, "{ran:?}");
    assert!(ran.stderr.contains("command.perl.kernel") && ran.stderr.contains("watch"), "{ran:?}");
}

#[test]
fn network_of_one_command_is_in_place_of_the_shared_one() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!(
        "socket(my $s, 2, 1, 0) or print('socket errno=', $!+0), exit; \
         print connect($s, pack('S n C4 x8', 2, {port}, 127, 0, 0, 1)) ? 'connected' : 'errno='.($!+0)"
    );
    let with = |shared: &'static str, own: &str| {
        let commands = format!("[command.perl]\ninterpreters = \"confine\"\n{own}");
        let lab = Lab::new(&Rules { sandbox: shared, commands, ..Rules::default() });
        let ran = script(&lab, &text);
        (ran.stdout, lab.records()[0]["landlock_net"].as_str().unwrap().to_owned())
    };
    let own = format!("network = [\"tcp:{port}\"]");
    assert_eq!(with("", &own), ("connected".into(), "restricted".into()));
    assert_eq!(with("network = [\"tcp:1\"]", ""), ("errno=13".into(), "restricted".into()));
    assert_eq!(with("network = [\"tcp:1\"]", &own), ("connected".into(), "restricted".into()));
    let none = with("network = [\"tcp:1\"]", "network = \"none\"");
    assert_eq!(none, ("socket errno=1".into(), "deny".into()));
}

// ---- scripts ---------------------------------------------------------------------------------

/// An executable script in the laboratory's own directory of programs.
fn put(lab: &Lab, name: &str, text: &str) -> String {
    let path = lab.at(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Runs the script `text` as a program of the policy, with these keys in its table.
fn program(text: &str, keys: &str) -> (Lab, Ran) {
    let lab = Lab::plain();
    let path = put(&lab, "bin/own", text);
    lab.write_policy(&Rules { commands: format!("[command.{path:?}]\n{keys}"), ..Rules::default() });
    let ran = lab.exec(&[&path, "a b"]);
    (lab, ran)
}

#[test]
fn a_script_runs_with_its_interpreter_and_nothing_more() {
    let (lab, ran) =
        program("#!/usr/bin/perl -l\nprint $ARGV[0]; print exec({'/usr/bin/id'} 'id') || $!+0;\n", "");
    assert_eq!(ran.stdout, "a b\n13\n", "{ran:?}");
    let path = lab.text("bin/own");
    let execute = profile(&lab, &[&path])["execute"].clone();
    let execute: Vec<&str> = execute.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let perl = fs::canonicalize("/usr/bin/perl").unwrap();
    assert!(execute.contains(&perl.to_str().unwrap()) && execute.contains(&path.as_str()), "{execute:?}");
    assert_eq!(execute.len(), 3, "script, interpreter, loader: {execute:?}");
}

#[test]
fn an_interpreter_that_env_finds_is_taken_from_the_safe_path() {
    for line in ["/usr/bin/env perl", "/usr/bin/env -S perl -l"] {
        let (_lab, ran) = program(&format!("#!{line}\nprint $ARGV[0]"), "");
        assert_eq!(ran.stdout.trim_end(), "a b", "{line}: {ran:?}");
    }
    let (_lab, ran) = program("#!/usr/bin/env -i perl\nprint 1", "");
    assert_eq!(ran.status, 125, "{ran:?}");
    assert!(ran.stderr.contains("only `env NAME`"), "{ran:?}");
    let (_lab, ran) = program("#!/usr/bin/env no-such-interpreter\n", "");
    assert!(ran.stderr.contains("no-such-interpreter") && ran.stderr.contains("environment.path"), "{ran:?}");
}

#[test]
fn a_script_of_a_shell_needs_the_shell_listed() {
    let (lab, ran) = program("#!/bin/sh\necho \"$1\"\n", "");
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
    assert!(ran.stderr.contains("script of the shell") && ran.stderr.contains("execute"), "{ran:?}");
    let shell = fs::canonicalize("/bin/sh").unwrap();
    assert!(ran.stderr.contains(shell.to_str().unwrap()), "{ran:?}");
    assert_eq!(lab.end()["outcome"], "sandbox_error");
    let checked = check(&lab, "--json").json();
    assert!(checked.to_string().contains("cannot-start"), "{checked}");
    for named in ["/bin/sh", shell.to_str().unwrap()] {
        let (_lab, ran) = program("#!/bin/sh\necho \"$1\"; /usr/bin/id\n", &format!("execute = [{named:?}]"));
        assert!(ran.stdout == "a b\n" && ran.stderr.contains("denied"), "{named}: {ran:?}");
    }
}

#[test]
fn a_script_of_a_script_runs_and_deeper_ones_do_not() {
    let lab = Lab::plain();
    let inner = put(&lab, "bin/inner", "#!/usr/bin/perl\nprint join ',', map { s{.*/}{}r } @ARGV;\n");
    let outer = put(&lab, "bin/outer", &format!("#!{inner}\n"));
    let third = put(&lab, "bin/third", &format!("#!{outer}\n"));
    lab.write_policy(&Rules {
        commands: format!("[command.{outer:?}]\n[command.{third:?}]"),
        ..Rules::default()
    });
    let ran = lab.exec(&[&outer, "x"]);
    assert_eq!(ran.stdout, "outer,x", "{ran:?}");
    let ran = lab.exec(&[&third]);
    assert!(ran.status == 125 && ran.stderr.contains("scripts of scripts"), "{ran:?}");
}

#[test]
fn interpreters_that_nobody_could_pin_are_refused() {
    let (_lab, ran) = program("#!perl\n", "");
    assert!(ran.status == 125 && ran.stderr.contains("no absolute path"), "{ran:?}");
    let (_lab, ran) = program("#!/no/such/thing\n", "");
    assert!(ran.status == 125 && ran.stderr.contains("/no/such/thing"), "{ran:?}");
    let lab = Lab::plain();
    put(&lab, "ws/perl", "#!/usr/bin/perl\n");
    let own = put(&lab, "bin/own", &format!("#!{}\n", lab.text("ws/perl")));
    lab.write_policy(&Rules { commands: format!("[command.{own:?}]"), ..Rules::default() });
    let ran = lab.exec(&[&own]);
    assert!(ran.status == 125 && ran.stderr.contains("in the workspace"), "{ran:?}");
}

#[test]
fn alternatives_and_wrapper_scripts_of_the_system_run() {
    // As /usr/bin/awk is a link to /etc/alternatives/awk, and that one to the program.
    let lab = Lab::plain();
    for (at, to) in [("bin/alternative", "/usr/bin/cat"), ("bin/cat", "alternative")] {
        symlink(to, lab.at(at)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", lab.text("bin"));
    let environment: &'static str = Box::leak(format!("path = {path:?}").into_boxed_str());
    lab.write_policy(&Rules { environment, commands: "[command.cat]".into(), ..Rules::default() });
    assert_eq!(lab.exec(&["cat", "plain"]).stdout, "plain\n");

    let zgrep = |execute: &str| {
        let lab = self::lab(&format!("[command.zgrep]\nexecute = [{execute}]"));
        lab.exec(&["zgrep", "plain", "plain"])
    };
    let ran = zgrep("");
    assert!(ran.status == 125 && ran.stderr.contains("script of the shell"), "{ran:?}");
    let helpers = r#""/bin/sh", "/usr/bin/sed", "/usr/bin/grep", "/usr/bin/gzip""#;
    let ran = zgrep(helpers);
    assert!(ran.stdout.contains("plain"), "{ran:?}");
}

// ---- hints -----------------------------------------------------------------------------------

/// The hints of a run of cat that may be given any file name.
fn hints(lab: &Lab, argv: &[&str]) -> (Value, Value) {
    let object = lab.exec_with(&["--json"], argv).json();
    (object["sandbox"]["hints"].clone(), object)
}

#[test]
fn a_file_that_the_profile_does_not_grant_is_a_hint_and_a_missing_one_is_not() {
    let lab = lab("[command.cat]\npaths = \"any\"");
    let secret = lab.text("outside/secret");
    let (found, whole) = hints(&lab, &["cat", &secret]);
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{whole}");
    assert_eq!(
        (found[0]["path"].as_str(), found[0]["right"].as_str()),
        (Some(secret.as_str()), Some("read"))
    );
    let remedy = found[0]["remedy"].as_str().unwrap();
    assert!(remedy.contains("read of [command.\"cat\"]"), "{remedy}");

    let missing = lab.text("outside/nothing");
    for argv in [["cat", missing.as_str()], ["cat", "nothing"], ["cat", "plain"]] {
        let (found, whole) = hints(&lab, &argv);
        assert!(found.is_null(), "{whole}");
        assert_eq!(whole["sandbox"]["active"], true, "{whole}");
    }
    // A climbing name is the same path.
    let (found, whole) = hints(&lab, &["cat", "../outside/./secret"]);
    assert_eq!(found[0]["path"], secret, "{whole}");
    let (found, whole) = hints(&lab, &["cat", "/proc/1/maps"]);
    assert!(found[0]["remedy"].as_str().unwrap().contains("on purpose"), "{whole}");
}

#[test]
fn a_file_of_the_workspace_that_its_owner_closed_is_no_hint() {
    let lab = lab("[command.cat]");
    fs::set_permissions(lab.at("ws/plain"), fs::Permissions::from_mode(0o000)).unwrap();
    let (found, whole) = hints(&lab, &["cat", "plain"]);
    assert_ne!(whole["exit"], 0, "{whole}");
    assert!(found.is_null(), "{whole}");
}

#[test]
fn writing_and_starting_are_hints_of_their_own() {
    let lab = lab("[command.touch]\n[command.find]\n");
    let (found, whole) = hints(&lab, &["touch", "fresh"]);
    assert_eq!(
        (found[0]["right"].as_str(), found[0]["path"].as_str()),
        (Some("write"), lab.at("ws/fresh").to_str())
    );
    assert!(found[0]["remedy"].as_str().unwrap().contains("workspace.write"), "{whole}");

    let lab = Lab::new(&Rules {
        top: "argument_rules = \"off\"",
        commands: "[command.find]".into(),
        ..Rules::default()
    });
    let (found, whole) = hints(&lab, &["find", ".", "-maxdepth", "0", "-exec", "id", ";"]);
    assert_eq!(
        (found[0]["right"].as_str(), found[0]["path"].as_str()),
        (Some("execute"), Some("/usr/bin/id")),
        "{whole}"
    );
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{whole}");
}

/// One line on standard error, nothing among what the program printed.
#[test]
fn a_hint_is_one_line_of_ours() {
    let lab = lab("[command.cat]\npaths = \"any\"");
    let (one, two) = (lab.text("outside/secret"), lab.text("policy.toml"));
    let ran = lab.exec(&["cat", &one, &two]);
    assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{ran:?}");
    let ours: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("cofferdam: hint: ")).collect();
    assert_eq!(ours.len(), 1, "{ran:?}");
    assert!(ours[0].contains("may have refused") && ours[0].contains("1 more"), "{ran:?}");
    let (text, error) = Served::start(&lab).run(serde_json::json!({"command": "cat", "args": [one]}));
    assert!(!error, "{text}");
    let payload: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(payload["sandbox"]["hints"][0]["path"], one, "{payload}");
    assert!(!payload["stderr"].as_str().unwrap().contains("hint"), "{payload}");
}

/// What a program prints is hostile: no terminal sequences, a bounded number, nothing is looked at.
#[test]
fn hints_are_bounded_and_printable() {
    let text = "print STDERR qq{cat: /x\\e[31m/y: Permission denied\\n}; \
        print STDERR qq{cat: /no/$_: Permission denied\\n} for 1..100; exit 1";
    let object = perl("").exec_with(&["--json"], &["perl", "-e", text]).json();
    let found = object["sandbox"]["hints"].as_array().unwrap();
    assert_eq!(found.len(), 8, "{object}");
    assert!(found.iter().all(|hint| hint["path"].as_str().unwrap().starts_with("/no/")), "{object}");
    let text = "print STDERR qq{cat: /x\\e[31m/y: Permission denied\\n}; exit 1";
    let object = perl("").exec_with(&["--json"], &["perl", "-e", text]).json();
    assert!(object["sandbox"].get("hints").is_none(), "{object}");
}

// ---- the loader as a program -----------------------------------------------------------------

#[test]
fn the_loader_run_as_a_program_is_an_alarm_by_any_name() {
    let real = fs::canonicalize(LOADER).unwrap();
    let dots = LOADER.replace("/lib64/", &format!("/lib64/{}", "./".repeat(300)));
    for path in [LOADER, real.to_str().unwrap(), &dots, "./innocent", "../ws/./innocent", "./dir/innocent"] {
        let lab = perl("");
        symlink(LOADER, lab.at("ws/innocent")).unwrap();
        symlink(".", lab.at("ws/dir")).unwrap();
        script(&lab, &format!("exec {{'{path}'}} 'harmless', '/usr/bin/id'"));
        let end = lab.end();
        let found = (end["violation"].as_str(), end["level"].as_str());
        assert_eq!(found, (Some("loader_exec"), Some("warning")), "{path}: {end}");
    }
}

#[test]
fn an_alarm_is_not_lost_in_a_flood_and_not_raised_for_others() {
    let lab = perl("");
    let flood = "for (1..40) { unless (fork) { exec {'/usr/bin/id'} 'id'; exit } wait }";
    script(&lab, flood);
    let end = lab.end();
    assert!(end.get("violation").is_none(), "{end}");
    let lab = perl("");
    script(&lab, &format!("{flood} exec {{'{LOADER}'}} 'harmless', '/usr/bin/id'"));
    let end = lab.end();
    assert_eq!(
        (end["violation"].as_str(), end["exec_count"].as_u64()),
        (Some("loader_exec"), Some(41)),
        "{end}"
    );
    assert!(end["exec"].to_string().contains("ld-linux"), "{end}");
}

//! Known escapes by starting programs, and by calls that no filter can look into.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{LOADER, Lab, Ran, Rules};

/// A laboratory with a writable workspace in which these commands are allowed and no argument is looked
/// at: only the kernel is in the way.
fn unjudged(names: &[&str]) -> Lab {
    let commands: String =
        names.iter().map(|name| format!("[command.{name}]\ninterpreters = \"confine\"\n")).collect();
    let lab = Lab::new(&Rules { top: "argument_rules = \"off\"", write: true, commands, ..Rules::default() });
    // What every technique tries to start: it leaves a mark beside itself, where even a command may write.
    fs::write(lab.at("ws/evil"), "#!/bin/sh\necho started > \"$(dirname \"$0\")/mark\"\ncat\n").unwrap();
    fs::set_permissions(lab.at("ws/evil"), fs::Permissions::from_mode(0o755)).unwrap();
    lab
}

/// Runs the words in the workspace with nothing in the way, and says whether `evil` was started.
fn works_bare(lab: &Lab, argv: &[&str]) -> bool {
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).current_dir(lab.ws()).stdin(Stdio::null()).stdout(Stdio::null());
    trusting(lab, command.stderr(Stdio::null()))
        .status()
        .unwrap_or_else(|e| panic!("{}: {e}: install it", argv[0]));
    marked(lab)
}

/// git as somebody without settings who trusts the repository: root works in that of another user.
fn trusting<'c>(lab: &Lab, command: &'c mut Command) -> &'c mut Command {
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", lab.at("outside"));
    command
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
}

/// Whether the mark is there; it is taken away.
fn marked(lab: &Lab) -> bool {
    fs::remove_file(lab.at("ws/mark")).is_ok()
}

fn starts_nothing(lab: &Lab, argv: &[&str]) -> Ran {
    let ran = lab.exec(argv);
    assert!(![125, 126].contains(&ran.status), "it was not even run: {ran:?}");
    assert!(!marked(lab), "{argv:?} started the program: {ran:?}");
    ran
}

#[test]
fn e005_code_that_is_evaluated_starts_nothing() {
    let lab = unjudged(&["perl"]);
    let copy = "open $i, '<', '/usr/bin/id'; open $o, '>', 'id'; print $o join '', <$i>; chmod 0755, 'id'; ";
    for code in [
        "eval q(exec '/usr/bin/id')",
        "print qx(/usr/bin/id)",
        "open my $p, '-|', 'id' or die $!; print <$p>",
        "eval q(exec './evil')",
        &format!("exec {{'{LOADER}'}} '{LOADER}', '/usr/bin/id'"),
        &format!("{copy} exec {{'./id'}} 'id'"),
        &format!("{copy} exec {{'{LOADER}'}} '{LOADER}', './id'"),
    ] {
        let ran = starts_nothing(&lab, &["perl", "-e", code]);
        assert!(!ran.stdout.contains("uid="), "{code}: {ran:?}");
    }
}

#[test]
fn e015_a_hostile_repository_starts_nothing() {
    let lab = unjudged(&["git"]);
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(words).current_dir(lab.ws());
        let done = trusting(&lab, &mut command).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["init", "-q", "-b", "main"]);
    fs::write(lab.at("ws/.gitattributes"), "plain filter=evil diff=evil\n").unwrap();
    git(&["add", "plain", ".gitattributes"]);
    git(&["commit", "-qm", "x"]);
    fs::write(lab.at("ws/plain"), "changed\n").unwrap();
    let evil = lab.text("ws/evil");
    for key in [
        "core.fsmonitor",
        "diff.evil.textconv",
        "diff.evil.command",
        "filter.evil.clean",
        "core.pager",
        "core.sshCommand",
        "gpg.program",
        "core.editor",
        "core.askPass",
    ] {
        git(&["config", key, &evil]);
    }
    git(&["config", "alias.run", &format!("!{evil}")]);
    fs::create_dir_all(lab.at("ws/.git/hooks")).unwrap();
    for hook in ["post-checkout", "pre-commit", "post-index-change"] {
        fs::copy(lab.at("ws/evil"), lab.at("ws/.git/hooks").join(hook)).unwrap();
    }
    own(&lab.ws());
    let techniques: [&[&str]; 4] = [
        &["git", "status"],
        &["git", "diff"],
        &["git", "run"],
        &["git", "diff", "--textconv", "--no-ext-diff"],
    ];
    for argv in techniques {
        assert!(works_bare(&lab, argv), "{argv:?} proves nothing");
        own(&lab.ws());
        starts_nothing(&lab, argv);
    }
    for argv in [["git", "log", "-p"], ["git", "blame", "plain"], ["git", "commit", "-am"]] {
        starts_nothing(&lab, &argv);
    }
}

/// Hands a tree to the user that commands run as: git trusts no repository of somebody else.
fn own(tree: &Path) {
    if nix::unistd::Uid::effective().is_root() {
        let status = Command::new("chown").args(["-R", "65534:65534"]).arg(tree).status().unwrap();
        assert!(status.success());
    }
}

#[test]
fn e017_a_helper_option_starts_nothing() {
    let lab = unjudged(&["rg"]);
    for argv in [["rg", "--pre", "./evil", "plain"], ["rg", "--pre=./evil", "--pre-glob=*", "plain"]] {
        assert!(works_bare(&lab, &argv), "{argv:?} proves nothing");
        starts_nothing(&lab, &argv);
    }
}

#[test]
fn e024_techniques_of_ordinary_programs_start_nothing() {
    let lab = unjudged(&["sed", "mawk", "tar", "sort", "find", "split"]);
    let techniques: [&[&str]; 8] = [
        &["sed", "1e ./evil", "plain"],
        &["sed", "s/.*/.\\/evil/e", "plain"],
        &["mawk", "BEGIN { system(\"./evil\") }"],
        &["mawk", "BEGIN { \"./evil\" | getline }"],
        &["tar", "-cf", "/dev/null", "--checkpoint=1", "--checkpoint-action=exec=./evil", "plain"],
        &["tar", "-c", "-f", "/dev/null", "-I", "./evil", "plain"],
        &["find", ".", "-maxdepth", "0", "-exec", "./evil", ";"],
        &["split", "--filter=./evil", "plain"],
    ];
    for argv in techniques {
        assert!(works_bare(&lab, argv), "{argv:?} proves nothing");
        starts_nothing(&lab, argv);
    }
}

/// A path in memory that another process rewrites all the time: whatever the supervisor read of it, the
/// kernel decides on what it resolves itself.
#[test]
fn e035_e072_a_path_that_changes_under_the_call_decides_nothing() {
    let lab = Lab::plain();
    let ran = lab.probed(&["race-exec", &lab.text("bin/probe"), "/usr/bin/id", "400"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(!ran.stdout.contains("uid="), "an unlisted program was started: {ran:?}");
    let (own, refused) = ran.stdout.trim_end().split_once(' ').unwrap();
    let (own, refused): (u32, u32) = (own.parse().unwrap(), refused.parse().unwrap());
    assert!(own > 0 && refused > 0 && own + refused == 400, "both sides of the race: {ran:?}");
}

fn scripted(script: &str) -> String {
    let ran = unjudged(&["perl"]).exec(&["perl", "-e", script]);
    assert_eq!(ran.status, 0, "{ran:?}");
    ran.stdout
}

/// clone3 and io_uring take their arguments from memory.
#[test]
fn e056_e057_calls_that_no_filter_can_read_are_absent() {
    let script =
        "my $a = \"\\0\" x 128; for (435, 425, 426, 427) { print syscall($_, $a, 88), ' ', $! + 0, ';' }";
    assert_eq!(scripted(script), "-1 38;-1 38;-1 38;-1 38;");
    // CLONE_NEWUSER by the call whose flags are in a register.
    assert_eq!(scripted("print syscall(56, 0x10000011, 0, 0, 0, 0), ' ', $! + 0"), "-1 1");
}

#[test]
fn e070_the_supervisor_cannot_be_traced() {
    // ptrace ATTACH and SEIZE, process_vm_readv, pidfd_getfd.
    let script = "my $p = getppid; my $b = \"\\0\" x 64; for ([101, 16, $p, 0, 0], [101, 0x4206, $p, 0, 0], \
        [310, $p, $b, 1, $b, 1, 0], [438, 3, 0, 0]) { print syscall($_->[0], @$_[1 .. $#$_]), ' ', $! + 0, ';' }";
    assert_eq!(scripted(script), "-1 1;-1 1;-1 1;-1 1;");
    let mode = fs::metadata(crate::support::BINARY).unwrap().permissions().mode();
    assert_eq!(mode & 0o6000, 0, "no part of it is setuid");
}

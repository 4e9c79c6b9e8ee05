//! Redirections: files below the working directory, opened with the identity of commands.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::{give, line, line_with, output, read_only, writable};

#[test]
fn output_goes_into_files_and_comes_from_them() {
    let lab = writable();
    assert_eq!(
        output(&lab, "echo a > out; echo b >> out; cat < out; cat missing 2> err; wc -l < err"),
        "a\nb\n1\n"
    );
    assert_eq!(output(&lab, "{ echo c; echo d; } > out; cat out"), "c\nd\n", "a group has one file");
    assert_eq!(output(&lab, "{ cat missing; echo e; } > out 2>&1; wc -l < out"), "2\n");
    assert_eq!(output(&lab, "echo gone > /dev/null; cat < /dev/null"), "");
    let meta = fs::metadata(lab.ws().join("out")).unwrap();
    if nix::unistd::Uid::effective().is_root() {
        use std::os::unix::fs::MetadataExt;
        assert_eq!(meta.uid(), 65534, "made by whom commands run as");
    }
}

#[test]
fn a_read_only_workspace_is_read_and_dev_null_is_written() {
    let lab = read_only();
    assert_eq!(output(&lab, "cat < plain"), "plain\n");
    assert_eq!(output(&lab, "cat plain > /dev/null 2>&1"), "");
    let done = line(&lab, "echo a > plain");
    assert_eq!(done["rule"], "redirection.read_only", "{done}");
    assert_eq!(fs::read_to_string(lab.ws().join("plain")).unwrap(), "plain\n");
}

#[test]
fn each_file_is_recorded_before_it_is_opened() {
    let lab = writable();
    assert_eq!(output(&lab, "{ echo a; } > out; cat < out >> more 2> /dev/null"), "");
    let told: Vec<_> =
        lab.records().into_iter().filter(|one| one["event_type"] == "line.redirected").collect();
    let opened: Vec<_> = told.iter().map(|one| &one["argv"]).collect();
    assert_eq!(opened, [&json!(["1>", "out"]), &json!(["0<", "out"]), &json!(["1>>", "more"])]);
    assert!(told.iter().all(|one| one["line_id"] == told[0]["line_id"] && one["decision"] == "allow"));
    let done = line(&lab, "{ echo a; } > .git/made");
    assert_ne!(done["status"], 0, "{done}");
    let last = lab.records().into_iter().rfind(|one| one["event_type"] == "line.redirected").unwrap();
    assert_eq!(last["argv"], json!(["1>", ".git/made"]), "what fails is recorded as well");
}

#[test]
fn inv6_a_log_that_takes_no_more_keeps_the_files_of_a_line() {
    let lab = writable();
    fs::write(lab.ws().join("keep"), "kept").unwrap();
    give(&lab.ws().join("keep"));
    assert_eq!(output(&lab, "cat plain"), "plain\n");
    // One block of 1024 bytes: the log is larger already, so that each write fails.
    for text in ["{ true; } > keep", "true > keep"] {
        let command = format!(
            "ulimit -f 1; exec '{}' exec --policy '{}' --line '{text}'",
            crate::support::BINARY,
            lab.policy().display(),
        );
        let ran = std::process::Command::new("bash").arg("-c").arg(command).output().unwrap();
        assert_eq!(ran.status.code(), Some(125), "{ran:?}");
        assert_eq!(fs::read_to_string(lab.ws().join("keep")).unwrap(), "kept", "{text}");
    }
}

#[test]
fn only_paths_below_the_working_directory_are_taken() {
    let lab = writable();
    fs::create_dir(lab.ws().join("sub")).unwrap();
    give(&lab.ws());
    for (text, rule) in [
        ("echo a > /tmp/made", "redirection.absolute"),
        ("cat < /etc/passwd", "redirection.absolute"),
        ("echo a > ../made", "redirection.parent"),
        ("cat < sub/../../outside/secret", "redirection.parent"),
        ("cd sub && cat < ../plain", "redirection.parent"),
        ("cat < ''", "redirection.path"),
    ] {
        assert_eq!(line(&lab, text)["rule"], rule, "{text}");
    }
    assert_eq!(output(&lab, "cd sub && echo a > made; cat made"), "a\n");
    assert!(lab.ws().join("sub/made").exists());
}

#[test]
fn links_and_special_files_are_not_opened() {
    let lab = writable();
    let ws = lab.ws();
    symlink(lab.at("outside/secret"), ws.join("link")).unwrap();
    symlink(lab.at("outside"), ws.join("directory")).unwrap();
    symlink("plain", ws.join("inside")).unwrap();
    nix::unistd::mkfifo(&ws.join("fifo"), nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
    give(&ws.join("fifo"));
    for text in [
        "cat < link",
        "echo a > link",
        "cat < directory/secret",
        "echo a > directory/made",
        "cat < inside",
        "cat < fifo",
        "echo a > fifo",
        "cat < .",
        "echo a > .",
    ] {
        let done = line_with(&lab, &["--timeout", "20s"], text);
        assert_eq!((&done["exit"], &done["timed_out"]), (&json!(2), &json!(false)), "{text}: {done}");
        assert_eq!(done["stages"][0]["step"], "redirection", "{text}");
        assert_eq!(done["stdout"], "", "{text}");
    }
    assert_eq!(fs::read_to_string(lab.at("outside/secret")).unwrap(), "the secret\n");
    assert!(!lab.at("outside/made").exists());
}

#[test]
fn what_a_command_could_not_open_is_not_opened_for_it() {
    if !nix::unistd::Uid::effective().is_root() {
        return; // there is no other identity then
    }
    let lab = writable();
    fs::write(lab.ws().join("root"), "of root\n").unwrap();
    fs::set_permissions(lab.ws().join("root"), fs::Permissions::from_mode(0o600)).unwrap();
    for text in ["cat < root", "echo a > root", "echo a >> root"] {
        let done = line(&lab, text);
        assert_eq!(done["exit"], 2, "{text}: {done}");
    }
    assert_eq!(fs::read_to_string(lab.ws().join("root")).unwrap(), "of root\n");
}

#[test]
fn the_repository_stays_as_it_is() {
    let lab = writable();
    fs::create_dir_all(lab.ws().join(".git/hooks")).unwrap();
    fs::write(lab.ws().join(".git/config"), "own\n").unwrap();
    give(&lab.ws());
    for text in ["echo a > .git/config", "echo a > .git/hooks/pre-commit", "echo a >> .git/config"] {
        let done = line(&lab, text);
        assert_ne!(done["exit"], 0, "{text}: {done}");
    }
    assert_eq!(fs::read_to_string(lab.ws().join(".git/config")).unwrap(), "own\n");
    assert!(!lab.ws().join(".git/hooks/pre-commit").exists());
}

/// A directory and a file that turn into links to the outside and back, as fast as they can.
#[test]
fn a_link_that_is_swapped_all_the_time_leads_nowhere() {
    let lab = writable();
    let (ws, outside) = (lab.ws(), lab.at("outside"));
    fs::create_dir(ws.join("real")).unwrap();
    fs::write(ws.join("real/secret"), "inside\n").unwrap();
    symlink(&outside, ws.join("lie")).unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(outside.join("secret"), fs::Permissions::from_mode(0o666)).unwrap();
    give(&ws.join("real"));
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (stop, ws) = (Arc::clone(&stop), ws.clone());
        move || {
            let mut swaps = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let flags = nix::fcntl::RenameFlags::RENAME_EXCHANGE;
                let at = nix::fcntl::AT_FDCWD;
                nix::fcntl::renameat2(at, &ws.join("real"), at, &ws.join("lie"), flags).unwrap();
                swaps += 1;
            }
            swaps
        }
    });
    // Many openings a line, in one process.
    let reads = ["cat < real/secret"; 60].join("; ");
    let writes: Vec<String> = (0..60).map(|at| format!("echo mine > real/made{at}")).collect();
    let (mut inside, mut refused) = (0, 0);
    for text in [reads.clone(), writes.join("; "), reads] {
        let done = line(&lab, &text);
        assert_eq!(done["outcome"], "ran", "{done}");
        assert!(!done["stdout"].as_str().unwrap().contains("the secret"), "{done}");
        for stage in done["stages"].as_array().unwrap() {
            if stage["status"] == 0 { inside += 1 } else { refused += 1 }
        }
    }
    stop.store(true, Ordering::Relaxed);
    let swaps = swapper.join().unwrap();
    assert!(inside + refused == 180 && swaps > 100, "{inside} {refused} {swaps}");
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "the secret\n");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "nothing was made outside");
}

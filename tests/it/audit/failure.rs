//! Required sinks that fail for real: full and read-only file systems, lost files, readers that stop or go.
//!
//! In each: no start is answered that is not durable, no end is lost, nothing hangs, and the log comes back by
//! itself with an `audit.gap` first. File systems are mounted in a mount namespace of the test's thread: that
//! needs root.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cofferdam::audit::{Audit, Ending, OpenRun, Readiness};
use cofferdam::config::{AuditConfig, Sink};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;

use super::{argv, assert_valid, context, denied, end, events, origin, start, wait, whole};

/// The promise is one second. A loaded machine may be slow; a hang would be one for good.
pub(super) const HANG: Duration = Duration::from_secs(10);

/// What `work` gives, and that it did not hang.
pub(super) fn soon<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    assert!(began.elapsed() < HANG, "{what} took {:?}", began.elapsed());
    done
}

/// Runs `work` in a thread with a mount namespace of its own, which ends with it.
fn in_mounts(work: impl FnOnce(&Path) + Send + 'static) {
    assert!(
        nix::unistd::Uid::effective().is_root(),
        "mounting needs root; run: sudo -E cargo test --test it -- audit::failure"
    );
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("fs");
    fs::create_dir(&place).unwrap();
    let confined = move || {
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).unwrap();
        let none: Option<&Path> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        work(&place);
    };
    std::thread::spawn(confined).join().unwrap();
    drop(dir);
}

fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    text.trim().to_owned()
}

/// An ext4 of its own: unmounted and detached at the end.
struct Loop {
    device: String,
}

impl Loop {
    fn mount(image: &Path, place: &Path, options: &str) -> Self {
        File::create(image).unwrap().set_len(16 << 20).unwrap();
        done(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(image));
        let device = done(Command::new("losetup").args(["--find", "--show"]).arg(image));
        assert!(device.starts_with("/dev/loop"), "{device}");
        let made = Self { device };
        done(Command::new("mount").args(["-t", "ext4", "-o", options]).arg(&made.device).arg(place));
        made
    }

    fn name(&self) -> &str {
        self.device.strip_prefix("/dev/").unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Busy as long as the namespace lives: the kernel detaches it then.
        drop(Command::new("losetup").arg("--detach").arg(&self.device).output());
    }
}

fn open(path: &Path) -> Audit {
    let config = AuditConfig { min_free: 0, ..AuditConfig::new(vec![Sink::File(path.to_owned())]) };
    Audit::open(&config, origin()).unwrap()
}

fn begin(audit: &Audit) -> Result<OpenRun, cofferdam::audit::AuditError> {
    soon("a start", || wait(audit.run_start(&context(), &start(&argv(&["ls"]), &[]))))
}

fn finish(audit: &Audit, run: OpenRun) -> Result<(), cofferdam::audit::AuditError> {
    soon("an end", || wait(audit.run_end(run, &end(Ending::Exited(0)))))
}

/// Takes all the room there is.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for size in [1 << 16, 1 << 12, 512, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() && file.sync_data().is_ok() {}
    }
}

/// What holds on a full file system, whichever it is.
fn fills_up(place: &Path) {
    let path = place.join("log/audit.jsonl");
    let audit = open(&path);
    let going: Vec<OpenRun> = (0..20).map(|_| begin(&audit).unwrap()).collect();
    let filler = place.join("filler");
    fill(&filler);
    // What is left of the last block may take a few more.
    let mut more = Vec::new();
    let error = loop {
        match begin(&audit) {
            Ok(run) => more.push(run),
            Err(error) => break error,
        }
        assert!(more.len() < 1_000, "it does not fill up");
    };
    assert!(error.to_string().starts_with("audit_unavailable: "), "{error}");
    assert_eq!(audit.state().readiness, Readiness::Refusing);
    assert!(audit.state().reasons[0].contains("audit.jsonl"), "{:?}", audit.state());
    // The reserve is theirs: they are on record while the file system is full.
    for run in going.into_iter().chain(more) {
        finish(&audit, run).unwrap();
    }
    assert!(begin(&audit).is_err(), "still full");
    fs::remove_file(&filler).unwrap();
    let run = begin(&audit).unwrap();
    assert_eq!(audit.state().readiness, Readiness::Ok);
    finish(&audit, run).unwrap();
    drop(audit);
    // A torn line among them is no record, and accounted for.
    let text = fs::read_to_string(&path).unwrap();
    let parsed: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    parsed.iter().for_each(assert_valid);
    let all: Vec<String> = parsed.iter().map(super::event).collect();
    let count = |name: &str| all.iter().filter(|event| *event == name).count();
    let starts = count("run.start");
    assert_eq!(starts, count("run.end success") + count("run.end spawn_error"), "{all:?}");
    assert_eq!(count("audit.gap"), 1, "{all:?}");
    let gap = all.iter().position(|event| event == "audit.gap").unwrap();
    assert_eq!(all[gap + 1..], ["run.start", "run.end success"]);
    whole(&path);
    assert_eq!(fs::metadata(place.join("log/audit.jsonl.reserve")).unwrap().len(), 256 << 10);
}

#[test]
fn a_full_tmpfs_refuses_keeps_every_end_and_comes_back() {
    in_mounts(|place| {
        mount(Some("tmpfs"), place, Some("tmpfs"), MsFlags::empty(), Some("size=1m")).unwrap();
        fills_up(place);
    });
}

#[test]
fn a_full_ext4_refuses_keeps_every_end_and_comes_back() {
    in_mounts(|place| {
        let image = place.with_file_name("image");
        let _disk = Loop::mount(&image, place, "rw");
        fills_up(place);
    });
}

#[test]
fn a_file_system_that_turns_read_only_refuses_and_its_ends_wait() {
    in_mounts(|place| {
        let image = place.with_file_name("image");
        let disk = Loop::mount(&image, place, "errors=remount-ro");
        let path = place.join("log/audit.jsonl");
        let audit = open(&path);
        let run = begin(&audit).unwrap();
        // What the kernel does by itself after an error of the disk. Of this loop device only.
        let trigger = format!("/sys/fs/ext4/{}/trigger_fs_error", disk.name());
        fs::write(&trigger, "test").unwrap_or_else(|e| panic!("{trigger}: {e}"));
        let error = begin(&audit).unwrap_err();
        assert!(error.to_string().starts_with("audit_unavailable: "), "{error}");
        assert_eq!(audit.state().readiness, Readiness::Refusing);
        assert!(finish(&audit, run).is_err(), "it waits");
        // Mounted anew: the same path, another open file.
        done(Command::new("umount").arg("--lazy").arg(place));
        done(Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(place));
        fs::create_dir(path.parent().unwrap()).unwrap();
        let run = begin(&audit).unwrap();
        finish(&audit, run).unwrap();
        drop(audit);
        let all = events(&path);
        assert_eq!(all.iter().filter(|event| *event == "run.end success").count(), 2, "{all:?}");
        assert!(all.contains(&"audit.gap".to_owned()), "{all:?}");
    });
}

#[test]
fn a_file_system_with_less_than_min_free_refuses_before_it_is_full() {
    in_mounts(|place| {
        mount(Some("tmpfs"), place, Some("tmpfs"), MsFlags::empty(), Some("size=4m")).unwrap();
        let path = place.join("log/audit.jsonl");
        let config = AuditConfig { min_free: 2 << 20, ..AuditConfig::new(vec![Sink::File(path.clone())]) };
        let audit = Audit::open(&config, origin()).unwrap();
        finish(&audit, begin(&audit).unwrap()).unwrap();
        let run = begin(&audit).unwrap();
        fs::write(place.join("filler"), vec![b'x'; 2 << 20]).unwrap();
        let mut error = None;
        crate::support::eventually("the free space is looked at", || {
            error = wait(audit.run_denied(&context(), &denied(&argv(&["rm"])))).err();
            error.is_some()
        });
        let error = error.unwrap().to_string();
        assert!(error.contains("min_free"), "{error}");
        finish(&audit, run).unwrap();
        fs::remove_file(place.join("filler")).unwrap();
        crate::support::eventually("it comes back", || {
            begin(&audit).is_ok_and(|run| finish(&audit, run).is_ok())
        });
        drop(audit);
        whole(&path);
    });
}

#[test]
fn a_directory_that_is_gone_refuses_and_comes_back_with_it() {
    let (dir, path) = super::place();
    let audit = open(&path);
    finish(&audit, begin(&audit).unwrap()).unwrap();
    let away: PathBuf = dir.path().join("away");
    fs::rename(path.parent().unwrap(), &away).unwrap();
    assert!(begin(&audit).is_err());
    assert_eq!(audit.state().readiness, Readiness::Refusing);
    fs::rename(&away, path.parent().unwrap()).unwrap();
    finish(&audit, begin(&audit).unwrap()).unwrap();
    drop(audit);
    assert_eq!(events(&path), ["run.start", "run.end success", "audit.gap", "run.start", "run.end success"]);
    whole(&path);
}

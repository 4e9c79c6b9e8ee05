//! git on a volume that belongs to somebody else: it just works, and what the repository's own configuration
//! names is not run.
//!
//! Each repository is made by this process and then, as root, given to another user, as a volume of a container
//! is. Commands run under the built-in policy for that directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{BINARY, Ran};

/// A user who is neither the server nor the one that commands run as.
const STRANGER: u32 = 54_321;

/// A workspace, and a place outside of it for records.
struct Volume {
    dir: tempfile::TempDir,
}

impl Volume {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("ws")).unwrap();
        Self { dir }
    }

    fn ws(&self) -> std::path::PathBuf {
        self.dir.path().join("ws")
    }

    /// git as the one who made the repository, with no policy and no confinement.
    fn made(&self, at: &str, line: &str) {
        let mut git = Command::new("git");
        git.args(["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"]).args(line.split(' '));
        git.current_dir(self.ws().join(at)).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        for (name, value) in [("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1")] {
            git.env(name, value);
        }
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "a").env(format!("GIT_{who}_EMAIL"), "a@example.com");
        }
        let output = git.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "git {line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A repository at `at` with `commits` commits.
    fn repository(&self, at: &str, commits: usize) {
        fs::create_dir_all(self.ws().join(at)).unwrap();
        self.made(at, "init -q");
        for number in 0..commits {
            fs::write(self.ws().join(at).join("file"), format!("{number}\n")).unwrap();
            self.made(at, "add file");
            self.made(at, &format!("commit -q -m commit-{number}"));
        }
    }

    /// As a volume is handed over: all of it belongs to another user.
    fn given_away(&self) {
        if nix::unistd::Uid::effective().is_root() {
            chown(&self.ws());
        }
    }

    /// Runs under the built-in policy in this workspace.
    fn run(&self, line: &str) -> Ran {
        let mut exec = Command::new(BINARY);
        exec.args(["exec", "--workspace"]).arg(self.ws()).arg("--").args(line.split(' '));
        // Where the built-in policy keeps its records.
        exec.env("XDG_STATE_HOME", self.dir.path().join("state")).current_dir(self.ws());
        Ran::of(&exec.stdin(Stdio::null()).output().unwrap())
    }

    #[track_caller]
    fn works(&self, line: &str, says: &str) {
        let ran = self.run(line);
        assert!(ran.status == 0 && ran.stdout.contains(says), "{line} is to say {says:?}: {ran:?}");
    }
}

fn chown(path: &Path) {
    std::os::unix::fs::lchown(path, Some(STRANGER), Some(STRANGER)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).unwrap() {
            chown(&entry.unwrap().path());
        }
    }
}

#[test]
fn a_repository_of_another_owner_is_read() {
    let volume = Volume::new();
    volume.repository(".", 2);
    volume.given_away();
    volume.works("git log --oneline", "commit-1");
    volume.works("git status --short --branch", "main");
    volume.works("git blame file", "1");
    volume.works("git diff HEAD~1 --stat", "file");
}

/// `git status` wants to write the index it has refreshed; that it cannot is no error.
#[test]
fn an_index_that_cannot_be_written_is_read() {
    let volume = Volume::new();
    volume.repository(".", 1);
    // A newer time than the index knows, with the same content: stat data has to be refreshed.
    fs::write(volume.ws().join("file"), "0\n").unwrap();
    let index = volume.ws().join(".git/index");
    let before = fs::read(&index).unwrap();
    volume.given_away();
    volume.works("git status --porcelain=v2 --branch", "# branch.head main");
    volume.works("git diff-files --stat", "");
    assert_eq!(fs::read(&index).unwrap(), before);
    assert!(!volume.ws().join(".git/index.lock").exists());
}

#[test]
fn a_worktree_inside_of_the_volume_is_read() {
    let volume = Volume::new();
    volume.repository("main", 1);
    volume.made("main", "worktree add -q ../side -b side");
    volume.given_away();
    volume.works("git -C side log --oneline", "commit-0");
    volume.works("git -C side status --short --branch", "side");
    volume.works("git -C main log --oneline side", "commit-0");
}

#[test]
fn a_submodule_inside_of_the_volume_is_read() {
    let volume = Volume::new();
    volume.repository("library", 1);
    volume.repository("main", 1);
    volume.made("main", "submodule add -q ../library part");
    volume.made("main", "commit -q -m with-part");
    volume.given_away();
    volume.works("git -C main ls-files --stage", "160000");
    volume.works("git -C main/part log --oneline", "commit-0");
    volume.works("git -C main status --short --branch", "main");
}

#[test]
fn a_shallow_clone_is_read_to_its_edge() {
    let volume = Volume::new();
    volume.repository("whole", 3);
    let whole = volume.ws().join("whole").display().to_string();
    volume.made(".", &format!("clone -q --depth 1 file://{whole} shallow"));
    volume.given_away();
    volume.works("git -C shallow log --oneline", "commit-2");
    volume.works("git -C shallow rev-parse --is-shallow-repository", "true");
    volume.works("git -C shallow rev-list --count HEAD", "1");
}

/// A submodule's configuration and attributes are as hostile as those of the repository around it.
#[test]
fn what_a_hostile_submodule_or_worktree_names_is_not_run() {
    let volume = Volume::new();
    volume.repository("library", 1);
    volume.repository("main", 1);
    volume.made("main", "submodule add -q ../library part");
    volume.made("main", "commit -q -m with-part");
    volume.made("main", "worktree add -q ../side -b side");
    let mark = volume.dir.path().join("mark");
    let pwn = volume.dir.path().join("pwn");
    fs::write(&pwn, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    fs::set_permissions(&pwn, fs::Permissions::from_mode(0o755)).unwrap();
    let hostile = format!(
        "[core]\n\tfsmonitor = {0}\n\tpager = {0}\n\tsshCommand = {0}\n[diff \"x\"]\n\tcommand = {0}\n\ttextconv = {0}\n\
         [filter \"x\"]\n\tclean = {0}\n\tsmudge = {0}\n[gpg]\n\tprogram = {0}\n[log]\n\tshowSignature = true\n",
        pwn.display()
    );
    for config in ["main/.git/config", "main/.git/modules/part/config"] {
        let path = volume.ws().join(config);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}{hostile}")).unwrap();
    }
    for attributes in ["main/.gitattributes", "main/part/.gitattributes", "side/.gitattributes"] {
        fs::write(volume.ws().join(attributes), "* diff=x filter=x\n").unwrap();
    }
    for file in ["main/file", "main/part/file", "side/file"] {
        fs::write(volume.ws().join(file), "changed\n").unwrap();
    }
    // Without the presets and the walls the repository does what it says: the case shows something.
    let mut plain = Command::new("git");
    plain.args(["status", "--short"]).current_dir(volume.ws().join("main")).stdin(Stdio::null());
    plain
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*");
    let _ = plain.output().unwrap();
    assert!(mark.exists(), "the planted program does not run even unconfined");
    fs::remove_file(&mark).unwrap();
    volume.given_away();
    for at in ["main", "main/part", "side"] {
        for line in ["status --short", "diff", "log -p -1", "show HEAD", "grep -n changed", "ls-files -m"] {
            let ran = volume.run(&format!("git -C {at} {line}"));
            assert_ne!(ran.status, 125, "{at} {line}: {ran:?}");
            assert!(!mark.exists(), "git -C {at} {line} has started the planted program: {ran:?}");
        }
    }
}

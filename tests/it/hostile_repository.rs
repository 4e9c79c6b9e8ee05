//! Settings of a hostile repository, run with the presets of git's grammar and without any confinement.
//!
//! Each case runs twice: without the presets the planted program must run, or the case shows nothing; with
//! them it must not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cofferdam::policy::grammar::Library;

/// A repository with one commit, and a program that leaves a mark.
struct Repository {
    dir: tempfile::TempDir,
}

impl Repository {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let own = Self { dir };
        fs::create_dir(own.at("ws")).unwrap();
        own.script("pwn", &format!("touch {}", own.at("mark").display()));
        own.write("a", "one\n");
        for line in ["init -q", "add a", "commit -q -m x"] {
            own.plain(line);
        }
        own
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn pwn(&self) -> String {
        self.at("pwn").display().to_string()
    }

    /// A file of the workspace.
    fn write(&self, name: &str, text: &str) {
        let path = self.at("ws").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A program beside the workspace, or in it.
    fn script(&self, name: &str, line: &str) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn hook(&self, name: &str) {
        self.script(&format!("ws/.git/hooks/{name}"), &self.pwn());
    }

    fn git(&self, line: &[&str], presets: bool, stdin: &str) -> Output {
        let mut git = Command::new("git");
        git.args(line).current_dir(self.at("ws")).env_clear();
        git.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.at("home"));
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "x").env(format!("GIT_{who}_EMAIL"), "x@example.invalid");
        }
        if presets {
            git.envs(Library::new(&[]).unwrap().find(b"git").unwrap().unwrap().environment());
        }
        fs::write(self.at("stdin"), stdin).unwrap();
        git.stdin(Stdio::from(fs::File::open(self.at("stdin")).unwrap()));
        git.output().expect("git is installed: apt-get install git")
    }

    /// Set-up that must work.
    fn plain(&self, line: &str) -> String {
        self.plain_with(&line.split(' ').collect::<Vec<_>>(), "")
    }

    fn plain_with(&self, line: &[&str], stdin: &str) -> String {
        let ran = self.git(line, false, stdin);
        assert!(ran.status.success(), "git {line:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    }

    fn config(&self, key: &str, value: &str) {
        self.plain_with(&["config", key, value], "");
    }

    fn planted(&self, line: &str, presets: bool) -> (bool, Output) {
        let ran = self.git(&line.split(' ').collect::<Vec<_>>(), presets, "");
        let mark = self.at("mark");
        (mark.exists() && fs::remove_file(mark).is_ok(), ran)
    }
}

/// The planted program runs without the presets and not with them.
fn outranked(line: &str, plant: impl Fn(&Repository)) {
    for presets in [false, true] {
        let repository = Repository::new();
        plant(&repository);
        assert!(!Path::exists(&repository.at("mark")), "{line}: planted too early");
        let (ran, output) = repository.planted(line, presets);
        assert_eq!(ran, !presets, "git {line}, presets {presets}: {output:?}");
    }
}

#[test]
fn a_file_system_monitor_is_not_started() {
    for line in ["status", "diff", "diff-index HEAD", "add -n .", "commit --dry-run", "grep one", "blame a"] {
        outranked(line, |repository| {
            repository.config("core.fsmonitor", &repository.pwn());
            repository.write("a", "one\ntwo\n");
        });
    }
}

#[test]
fn hooks_are_not_started() {
    outranked("branch y", |repository| repository.hook("reference-transaction"));
    outranked("commit -q -am y", |repository| {
        repository.write("a", "two\n");
        repository.hook("pre-commit");
    });
    outranked("merge -q y", |repository| {
        repository.plain("checkout -q -b y");
        repository.write("a", "two\n");
        repository.plain("commit -q -am y");
        repository.plain("checkout -q -");
        repository.hook("post-merge");
    });
    outranked("status", |repository| {
        // Same content, other time: status refreshes the index.
        repository.write("a", "one\n");
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        fs::File::options().write(true).open(repository.at("ws/a")).unwrap().set_modified(old).unwrap();
        repository.hook("post-index-change");
    });
    outranked("branch y", |repository| {
        repository.script("ws/h/reference-transaction", &repository.pwn());
        repository.config("core.hooksPath", "h");
    });
}

#[test]
fn a_signature_is_not_checked_by_a_program_of_the_repository() {
    outranked("log", |repository| {
        let commit = repository.plain("cat-file commit HEAD");
        let (head, message) = commit.split_once("\n\n").unwrap();
        let signed = format!(
            "{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n{message}\n"
        );
        let id = repository.plain_with(&["hash-object", "-t", "commit", "-w", "--stdin"], &signed);
        repository.plain(&format!("update-ref HEAD {id}"));
        repository.config("log.showSignature", "true");
        repository.config("gpg.program", &repository.pwn());
    });
}

#[test]
fn no_signature_is_made_or_checked_on_demand() {
    outranked("commit -q --allow-empty -m y", |repository| {
        repository.config("commit.gpgSign", "true");
        repository.config("gpg.program", &repository.pwn());
    });
    outranked("tag -a -m y y", |repository| {
        repository.config("tag.gpgSign", "true");
        repository.config("gpg.program", &repository.pwn());
    });
}

#[test]
fn no_transport_is_started() {
    outranked("fetch -q origin", |repository| {
        repository.config("protocol.ext.allow", "always");
        repository.config(&format!("url.ext::{}.insteadOf", repository.pwn()), "innocent");
        repository.config("remote.origin.url", "innocent");
    });
    outranked("fetch -q ./up", |repository| {
        repository.plain("clone -q . up");
        repository.write(".git/objects/info/alternates", "../../up/.git/objects\n");
        repository.config("core.alternateRefsCommand", &repository.pwn());
    });
    outranked("ls-remote x@example.invalid:y", |repository| {
        repository.config("core.sshCommand", &repository.pwn());
    });
}

#[test]
fn a_bare_repository_among_the_files_is_none() {
    for line in ["status", "-C hostile status"] {
        outranked(line, |repository| {
            let at = if line == "status" { "" } else { "hostile/" };
            if at.is_empty() {
                fs::remove_dir_all(repository.at("ws/.git")).unwrap();
            }
            repository.write(&format!("{at}HEAD"), "ref: refs/heads/main\n");
            repository.write(&format!("{at}refs/x"), "");
            repository.write(&format!("{at}objects/x"), "");
            let pwn = repository.pwn();
            let text = format!(
                "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = {pwn}\n"
            );
            repository.write(&format!("{at}config"), &text);
        });
    }
}

#[test]
fn no_editor_is_started() {
    outranked("commit -q --allow-empty", |repository| repository.config("core.editor", &repository.pwn()));
    outranked("rebase -q -i --root", |repository| {
        repository.config("sequence.editor", &repository.pwn());
    });
}

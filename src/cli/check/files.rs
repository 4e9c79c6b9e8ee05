//! Lints of files: programs that can be replaced, and what is both writable and executable.
//!
//! Purpose: a program is what its file holds when it is started; whoever can write that decides. Inputs:
//! the policy and the modes of files. Called by `check` only.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::lint::Book;
use crate::config::RunUser;

/// Whom commands run as, as far as that is known before a server starts.
#[derive(Clone, Copy)]
struct User {
    ids: Option<(u32, u32)>,
}

impl User {
    fn of(book: &Book<'_>) -> Self {
        // Root writes everywhere: of use is only what others can write.
        let own = server_ids().filter(|(uid, _)| *uid != 0);
        Self {
            ids: match book.config.sandbox.user {
                // A server that is not root cannot switch.
                RunUser::Ids { uid, gid } if own.is_none() => Some((uid, gid)).filter(|(uid, _)| *uid != 0),
                RunUser::Auto | RunUser::Keep | RunUser::Ids { .. } => own,
            },
        }
    }

    /// Who, of the command's user and all others, may write a file of this mode.
    fn writes(self, file: &Metadata) -> Option<&'static str> {
        let mode = file.mode();
        if mode & 0o002 != 0 {
            return Some("anybody");
        }
        let (uid, gid) = self.ids?;
        let own = file.uid() == uid && mode & 0o200 != 0;
        (own || (file.gid() == gid && mode & 0o020 != 0)).then_some("the user that commands run as")
    }
}

/// Who this process is, unless there is no `/proc` to say so.
pub(super) fn server_ids() -> Option<(u32, u32)> {
    std::fs::metadata("/proc/self").map_or(None, |own| Some((own.uid(), own.gid())))
}

pub(super) fn look(book: &mut Book<'_>) {
    let user = User::of(book);
    search_path(book, user);
    let config = book.config;
    for command in config.commands.values() {
        let key = book.places.command(&command.name);
        if let Some(program) = &command.program {
            let workspace = &config.workspace.path;
            if program.real.starts_with(workspace) || program.path.starts_with(workspace) {
                let message =
                    format!("{} is found in the workspace: {}", command.name, program.path.display());
                book.add("program-in-workspace", key.clone(), message, "install it elsewhere");
            }
            let found = replaceable(&program.real, user).or_else(|| replaceable(&program.path, user));
            if let Some(problem) = found {
                let message = format!("{} can be replaced: {problem}", command.name);
                book.add("program-writable", key.clone(), message, "install it where only root can write");
            }
        }
        for path in &command.execute {
            let element = book.places.element(&format!("{key}.execute"), &path.to_string_lossy());
            if let Some(problem) = writable_and_executable(path, &config.workspace.path, user) {
                let message = format!("{} may execute {}: {problem}", command.name, path.display());
                book.add("write-and-execute", element, message, "name files where only root can write");
            }
        }
    }
}

fn search_path(book: &mut Book<'_>, user: User) {
    for directory in book.config.environment.path.split(':').map(Path::new) {
        let Ok(real) = directory.canonicalize() else { continue };
        if real.starts_with(&book.config.workspace.path) {
            let message =
                format!("environment.path searches {}, which lies in the workspace", directory.display());
            book.add("program-in-workspace", "environment.path", message, "remove it");
        } else if let Some(problem) = in_directory(&real, user) {
            let message = format!("programs are searched in {}: {problem}", directory.display());
            book.add(
                "program-writable",
                "environment.path",
                message,
                "remove it, or let only root write there",
            );
        }
    }
}

/// Who can replace the file at `path`, or a directory on the way to it.
fn replaceable(path: &Path, user: User) -> Option<String> {
    let file = std::fs::metadata(path).ok().as_ref().and_then(|file| user.writes(file));
    if let Some(who) = file {
        return Some(format!("{who} can write {}", path.display()));
    }
    in_directory(path.parent()?, user)
}

/// Who can put another file into `directory`, or another directory into its place.
fn in_directory(directory: &Path, user: User) -> Option<String> {
    directory.ancestors().find_map(|directory| {
        let found = std::fs::metadata(directory).ok()?;
        // In a sticky directory nobody replaces what belongs to another; new names do not matter here.
        let sticky = found.mode() & 0o1000 != 0;
        let who = user.writes(&found).filter(|who| !sticky || *who != "anybody")?;
        Some(format!("{who} can write {}", directory.display()))
    })
}

fn writable_and_executable(path: &Path, workspace: &Path, user: User) -> Option<String> {
    let real = path.canonicalize().ok()?;
    if real.starts_with(workspace) || workspace.starts_with(&real) {
        return Some("it and the workspace overlap".to_owned());
    }
    // Scratch is a file system of its own, made anew for each run below one of these.
    if ["/tmp", "/var/tmp", "/dev/shm", "/run"].iter().any(|scratch| real == Path::new(scratch)) {
        return Some("temporary files are written there".to_owned());
    }
    let found = std::fs::metadata(&real).ok()?;
    if let Some(who) = user.writes(&found) {
        return Some(format!("{who} can write it"));
    }
    in_directory(real.parent()?, user)
}

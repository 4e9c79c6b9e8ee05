//! The group of one run: made with its limits before the supervisor, held by it, removed after it.
//!
//! Used by the launcher (make, end, remove) and the stub (enter, kill, read what was met). Where the groups
//! are made is the business of `cgroup.rs`.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, mkdirat};

use super::cgroup::{CONTROLLERS, directory, file, read, remove, write};
use super::step::step;
use super::wire::{Failure, GroupFacts, Met};

/// The groups of this server.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) dir: OwnedFd,
    pub(super) path: PathBuf,
    pub(super) controllers: Vec<String>,
    pub(super) memory: u64,
    pub(super) processes: u64,
    pub(super) made: u64,
    /// Leaves that could not be removed yet.
    pub(super) dead: Vec<String>,
}

/// What is said of the groups of this server.
pub(super) fn facts(group: &Result<Group, String>) -> GroupFacts {
    match group {
        Err(reason) => GroupFacts { reason: Some(reason.clone()), ..GroupFacts::default() },
        Ok(group) => {
            let missing: Vec<&str> =
                CONTROLLERS.into_iter().filter(|name| !group.controllers.iter().any(|c| c == name)).collect();
            let lacks = format!("{} has no controller {}", group.path.display(), missing.join(" and "));
            GroupFacts {
                path: Some(group.path.clone()),
                controllers: group.controllers.clone(),
                reason: (!missing.is_empty()).then_some(lacks),
            }
        }
    }
}

impl Group {
    /// Makes the group of one run.
    pub(super) fn leaf(&mut self) -> Result<Leaf, Failure> {
        self.clear();
        self.made += 1;
        let name = format!("run-{}", self.made);
        step!("cgroup", mkdirat(&self.dir, name.as_str(), Mode::from_bits_truncate(0o755)))?;
        let leaf = self.limited(&name);
        if leaf.is_err() {
            self.dead.push(name);
        }
        leaf
    }

    fn limited(&self, name: &str) -> Result<Leaf, Failure> {
        let dir = step!("cgroup", directory(Some(&self.dir), Path::new(name)))?;
        let has = |name: &str| self.controllers.iter().any(|one| one == name);
        let set = |name: &'static str, value: &str| step!("cgroup limit", write(&dir, name, value));
        let look = |name: &'static str| file(&dir, name, OFlag::O_RDONLY);
        let (mut memory, mut peak, mut pids) = (None, None, None);
        if has("memory") {
            set("memory.max", &self.memory.to_string())?;
            set("memory.oom.group", "1")?;
            match set("memory.swap.max", "0") {
                Err(e) if e.errno == libc::ENOENT => {} // a kernel without swap
                other => other?,
            }
            memory = Some(step!("memory.events", look("memory.events"))?);
            peak = match look("memory.peak") {
                Err(Errno::ENOENT) => None, // before Linux 5.19
                other => Some(step!("memory.peak", other)?),
            };
        }
        if has("pids") {
            set("pids.max", &self.processes.to_string())?;
            pids = Some(step!("pids.events", look("pids.events"))?);
        }
        let open = |name: &'static str| step!("cgroup", file(&dir, name, OFlag::O_WRONLY));
        Ok(Leaf {
            name: name.to_owned(),
            procs: open("cgroup.procs")?,
            kill: open("cgroup.kill")?,
            memory,
            peak,
            pids,
        })
    }

    /// Kills what is left in the group of a run that has ended, and removes it.
    pub(super) fn end(&mut self, name: String) {
        // Without processes in it this does nothing; one that is removed already has nobody to kill.
        let _: nix::Result<()> = write(&self.dir, &format!("{name}/cgroup.kill"), "1");
        self.dead.push(name);
        self.clear();
    }

    /// Removes what can be removed; says whether nothing is left.
    pub(super) fn clear(&mut self) -> bool {
        let dir = &self.dir;
        self.dead.retain(|name| !matches!(remove(dir, name), Ok(()) | Err(Errno::ENOENT)));
        self.dead.is_empty()
    }
}

/// The group of one run, as its supervisor holds it.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) name: String,
    procs: OwnedFd,
    kill: OwnedFd,
    memory: Option<OwnedFd>,
    peak: Option<OwnedFd>,
    pids: Option<OwnedFd>,
}

impl Leaf {
    /// What the command is moved in by.
    pub(super) fn procs(&self) -> std::os::fd::BorrowedFd<'_> {
        self.procs.as_fd()
    }

    /// Kills all of it at once. The ordinary kill follows, so a failure here only loses the second way.
    pub(super) fn kill(&self) {
        let _: nix::Result<usize> = nix::unistd::write(&self.kill, b"1");
    }

    /// What it met. A file that cannot be read says nothing, and nothing is claimed then.
    pub(super) fn met(&self) -> Met {
        let text = |file: &Option<OwnedFd>| match file.as_ref().map(read) {
            Some(Ok(text)) => text,
            Some(Err(_)) | None => String::new(),
        };
        let count = |file, name| event(&text(file), name).unwrap_or(0);
        Met {
            memory_kills: count(&self.memory, "oom_kill"),
            forks_refused: count(&self.pids, "max"),
            memory_peak: number(&text(&self.peak)),
            scratch_full: false,
        }
    }
}

/// A number of a flat-keyed file.
fn event(text: &str, name: &str) -> Option<u64> {
    number(text.lines().filter_map(|line| line.split_once(' ')).find(|(key, _)| *key == name)?.1)
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_by_their_whole_name() {
        let text = "low 0\nhigh 1\nmax 31\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(event(text, "oom_kill"), Some(2));
        assert_eq!(event(text, "max"), Some(31));
        assert_eq!(event(text, "oom_k"), None);
    }
}

//! The audit file: opened safely, shared with other processes, watched for replacement.
//!
//! Purpose: a [`Medium`] is where the writer's bytes go. The file one is required and durable: under
//! the append lock it makes sure that the path still is the file it holds, that the file ends where
//! this process thinks it does, and what the chain's head is when another process wrote meanwhile.
//! Called by `writer.rs` only.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::AuditError;
use super::chain::Head;
use super::instances::{Instances, Others};
use super::locks;
use super::recover::{self, Part};
use crate::fault;

/// State of a medium at the moment we may write.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Head of the chain there; absent when nothing is there.
    pub(super) head: Option<Head>,
    /// Offset that the next byte will have.
    pub(super) at: u64,
    /// Bytes at the end that are no record.
    pub(super) junk: u64,
    /// The last line has no newline yet.
    pub(super) open: bool,
    /// What happened to the file since we wrote last.
    pub(super) gap: Option<&'static str>,
    /// Starts whose server is gone.
    pub(super) lost: Vec<Map<String, Value>>,
}

/// Where records go.
pub(super) trait Medium: Send {
    /// Gets ready to append; `memory` is the head after our own last record. Always followed by
    /// [`finish`](Self::finish) when it succeeds.
    fn begin(&mut self, memory: Option<Head>) -> Result<Tail, AuditError>;
    /// Exactly one write; says how many bytes were taken.
    fn append(&mut self, bytes: &[u8]) -> Result<usize, AuditError>;
    /// Lets others append; `whole` says that everything was written.
    fn finish(&mut self, whole: bool);
    /// Makes what was written durable.
    fn sync(&mut self) -> Result<(), AuditError>;
    /// Starts anew after a failure.
    fn reopen(&mut self) -> Result<(), AuditError>;
    /// No run of ours that is still open has its start before `offset`.
    fn keep_from(&mut self, offset: u64);
    /// The end: `clean` says that no run is open.
    fn close(&mut self, clean: bool);
    /// Its name for people.
    fn name(&self) -> String;
}

/// The file sink.
#[derive(Debug)]
pub(super) struct FileStore {
    path: PathBuf,
    instance: String,
    file: File,
    instances: Instances,
    /// Where the file ended after our last look; absent when that is not known.
    end: Option<u64>,
    /// Others' list as it was read, to be settled when the lost runs have been written.
    others: Option<Others>,
    /// The file is another one than the one before.
    replaced: bool,
    announced: bool,
}

/// The directory of a log, made if it is not there.
pub(super) fn directory(path: &Path) -> Result<PathBuf, AuditError> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(PathBuf::from("."));
    };
    let created = DirBuilder::new().recursive(true).mode(0o750).create(parent);
    created.map_err(|source| fail("creation of the directory", path, source))?;
    Ok(parent.to_owned())
}

impl FileStore {
    pub(super) fn open(path: &Path, instance: &str) -> Result<Self, AuditError> {
        directory(path)?;
        let file = fault::named("audit:open").map_or_else(|| open_file(path), Err);
        let file = file.map_err(|source| fail("open", path, source))?;
        let instances = Instances::open(&beside(path), instance)
            .map_err(|e| fail("open of the instance list", path, e))?;
        Ok(Self {
            path: path.to_owned(),
            instance: instance.to_owned(),
            file,
            instances,
            end: None,
            others: None,
            replaced: false,
            announced: false,
        })
    }

    /// Takes the append lock on the file that the path names now.
    fn lock(&mut self) -> io::Result<Metadata> {
        for _ in 0..8 {
            locks::lock_append(&self.file)?;
            let held = self.file.metadata()?;
            match std::fs::symlink_metadata(&self.path) {
                Ok(named) if (named.dev(), named.ino()) == (held.dev(), held.ino()) => return Ok(held),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            // Dropping the old file drops its lock.
            self.file = open_file(&self.path)?;
            self.end = None;
            self.replaced = true;
            self.announced = false;
        }
        Err(io::Error::other("the file is replaced again and again"))
    }

    fn look(&mut self, memory: Option<Head>) -> io::Result<Tail> {
        let size = self.file.metadata()?.len();
        let mut tail = Tail { at: size, ..Tail::default() };
        if !self.announced {
            let file = &self.file;
            let others = self.instances.others(size, |instance| locks::is_alive(file, instance))?;
            if let Some(from) = others.from {
                let part = Part { file, from, to: size };
                tail.lost = recover::unpaired(part, |instance| {
                    Ok(instance == self.instance || locks::is_alive(file, instance)?)
                })?;
            }
            self.others = Some(others);
        }
        if self.end == Some(size) && memory.is_some() {
            tail.head = memory;
            return Ok(tail);
        }
        let known = self.end.replace(size);
        let end = recover::end_of(&self.file, size)?;
        tail.junk = end.junk;
        tail.open = end.open;
        tail.head = end.head;
        if known.is_some_and(|known| size < known) {
            tail.gap = Some("the file was shrunk");
        } else if self.replaced {
            tail.gap = Some("the file was replaced or unlinked");
        }
        // What is gone must show as missing: never go on from a head that is older than ours.
        if let (Some(_), Some(ours)) = (tail.gap, memory)
            && tail.head.is_none_or(|there| there.chain == ours.chain && there.seq < ours.seq)
        {
            tail.head = Some(ours);
        }
        Ok(tail)
    }
}

impl Medium for FileStore {
    fn begin(&mut self, memory: Option<Head>) -> Result<Tail, AuditError> {
        let path = self.path.clone();
        let looked = fault::named("audit:lock")
            .map_or_else(|| self.lock(), Err)
            .map_err(|e| fail("lock", &path, e))
            .and_then(|_| self.look(memory).map_err(|e| fail("read", &path, e)));
        if looked.is_err() {
            self.finish(false);
        }
        looked
    }

    fn append(&mut self, bytes: &[u8]) -> Result<usize, AuditError> {
        let size = self.file.metadata().map_err(|e| fail("stat", &self.path, e))?.len();
        let written = loop {
            match fault::named("audit:write").map_or_else(|| self.file.write(bytes), Err) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other.map_err(|e| fail("write", &self.path, e))?,
            }
        };
        self.end = Some(size + written as u64);
        Ok(written)
    }

    fn finish(&mut self, whole: bool) {
        if whole && let Some(others) = self.others.take() {
            let from = self.end.unwrap_or(0);
            let announced = locks::hold_instance(&self.file, &self.instance)
                .and_then(|()| self.instances.settle(&others, from));
            match announced {
                Ok(()) => {
                    self.announced = true;
                    self.replaced = false;
                }
                Err(error) => tracing::warn!(%error, "audit: the instance list could not be written"),
            }
        }
        if !whole {
            self.end = None;
        }
        if let Err(error) = locks::unlock_append(&self.file) {
            tracing::warn!(%error, "audit: the append lock could not be given back");
        }
    }

    fn sync(&mut self) -> Result<(), AuditError> {
        let done = fault::named("audit:fdatasync").map_or_else(|| self.file.sync_data(), Err);
        done.map_err(|e| fail("fdatasync", &self.path, e))
    }

    fn reopen(&mut self) -> Result<(), AuditError> {
        let file = open_file(&self.path).map_err(|e| fail("open", &self.path, e))?;
        let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        let old = self.file.metadata().map_err(|e| fail("stat", &self.path, e))?;
        let new = file.metadata().map_err(|e| fail("stat", &self.path, e))?;
        // Under the append lock nobody asks who is alive, so the moment between the two files does
        // not show.
        locks::lock_append(&file).map_err(|e| fail("lock", &self.path, e))?;
        self.replaced |= !same(&old, &new);
        self.announced &= !self.replaced;
        self.end = None;
        drop(std::mem::replace(&mut self.file, file));
        locks::hold_instance(&self.file, &self.instance)
            .and_then(|()| locks::unlock_append(&self.file))
            .map_err(|e| fail("lock", &self.path, e))
    }

    fn keep_from(&mut self, offset: u64) {
        if let Err(error) = self.instances.keep_from(offset) {
            tracing::warn!(%error, "audit: the instance list could not be written");
        }
    }

    fn close(&mut self, clean: bool) {
        if clean && let Err(error) = self.instances.leave() {
            tracing::warn!(%error, "audit: the instance list could not be written");
        }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn fail(operation: &'static str, path: &Path, source: io::Error) -> AuditError {
    AuditError { operation, sink: path.display().to_string(), source }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".instances");
    PathBuf::from(name)
}

/// Opens or makes the file: no symbolic link, nothing but a regular file, not writable by others.
fn open_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o640)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::other("not a regular file; name a file on a local disk"));
    }
    if facts.mode() & 0o002 != 0 {
        return Err(io::Error::other("everybody may write to it; run chmod o-w on it"));
    }
    Ok(file)
}

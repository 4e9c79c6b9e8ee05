//! The audit file: opened safely, shared with other processes, watched for replacement.
//!
//! Purpose: the [`Medium`] that is required and durable. Under
//! the append lock it makes sure that the path still is the file it holds, that the file ends where
//! this process thinks it does, and what the chain's head is when another process wrote meanwhile.
//! Called by `writer.rs` only.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::statvfs::fstatvfs;
use serde_json::{Map, Value};

use super::AuditError;
use super::chain::Head;
use super::instances::{FALLBACK, From, Instances, Others};
use super::locks;
use super::medium::{Aside, FirstRecord, Medium, Tail};
use super::recover::{self, Part};
use super::reserve::Reserve;
use super::rotated;
use crate::config::Rotation;
use crate::fault;

/// What the file sink is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// When a new file is begun.
    pub(super) rotation: Rotation,
    /// Below so many free bytes runs are refused.
    pub(super) min_free: u64,
}

/// Free bytes beside the reserve that end an outage.
const COMFORT: u64 = 64 << 10;
/// How often the free space is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long a rotation that failed is not tried again.
const AGAIN: Duration = Duration::from_secs(60);

/// The file sink.
#[derive(Debug)]
pub(super) struct FileStore {
    path: PathBuf,
    instance: String,
    terms: Terms,
    file: File,
    instances: Instances,
    reserve: Reserve,
    /// Where the file ended after our last look; absent when that is not known.
    end: Option<u64>,
    /// Others' list as it was read, to be settled when the lost runs have been written.
    others: Option<Others>,
    /// The file is another one than the one before.
    replaced: bool,
    announced: bool,
    /// A sync failed: nothing more goes into this file.
    poisoned: bool,
    expected: bool,
    moved: Option<String>,
    /// When the first record of the file was made.
    born: Option<SystemTime>,
    /// When a rotation failed.
    tried: Option<Instant>,
    looked: Option<(Instant, u64)>,
    /// Files before this one that hold starts of ours, each with the numbers of its records: our lock there says
    /// that we live.
    held: Vec<(RangeInclusive<u64>, File)>,
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
    pub(super) fn open(path: &Path, instance: &str, terms: Terms) -> Result<Self, AuditError> {
        directory(path)?;
        let file = fault::named("audit:open").map_or_else(|| open_file(path), Err);
        let file = file.map_err(|source| fail("open", path, source))?;
        let instances = Instances::open(&beside(path), instance)
            .map_err(|e| fail("open of the instance list", path, e))?;
        let mut store = Self {
            path: path.to_owned(),
            instance: instance.to_owned(),
            terms,
            file,
            instances,
            reserve: Reserve::beside(path),
            end: None,
            others: None,
            replaced: false,
            announced: false,
            poisoned: false,
            expected: false,
            moved: None,
            born: None,
            tried: None,
            looked: None,
            held: Vec::new(),
        };
        store.make_reserve()?;
        Ok(store)
    }

    /// Takes the append lock on the file that the path names now.
    fn lock(&mut self, memory: Option<Head>) -> io::Result<Metadata> {
        for _ in 0..8 {
            locks::lock_append(&self.file)?;
            let held = self.file.metadata()?;
            match std::fs::symlink_metadata(&self.path) {
                Ok(named) if (named.dev(), named.ino()) == (held.dev(), held.ino()) => return Ok(held),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            let file = open_file(&self.path)?;
            let old = std::mem::replace(&mut self.file, file);
            locks::unlock_append(&old)?;
            if held.nlink() > 0 && self.expected {
                self.moved = Some(name_of(&old)?);
            }
            // Our lock there goes with it, when no start of ours stands there any more.
            let first = rotated::first(&old)?.map_or(0, |first| first.seq);
            self.held.push((first..=memory.map_or(0, |head| head.seq), old));
            self.end = None;
            self.born = None;
            self.replaced = true;
            self.announced = false;
            self.poisoned = false;
        }
        Err(io::Error::other("the file is replaced again and again"))
    }

    fn look(&mut self, memory: Option<Head>) -> io::Result<Tail> {
        let size = self.file.metadata()?.len();
        let mut tail = Tail::default();
        if !self.announced {
            let others = self.instances.others(|instance| self.is_alive(instance))?;
            if let Some(from) = others.from {
                tail.lost = self.lost(from, size)?;
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
            let rotated = rotated::first(&self.file)?.is_some_and(|first| rotated::follows(&first, memory));
            match self.moved.take() {
                _ if rotated => {}
                Some(name) => tail.moved = Some(name),
                None => tail.gap = Some("the file was replaced or unlinked"),
            }
        }
        // What is gone must show as missing: never go on from a head that is older than ours.
        if let (true, Some(ours)) = (tail.gap.is_some() || tail.moved.is_some(), memory)
            && tail.head.is_none_or(|there| there.chain == ours.chain && there.seq < ours.seq)
        {
            tail.head = Some(ours);
        }
        Ok(tail)
    }

    fn is_alive(&self, instance: &str) -> io::Result<bool> {
        Ok(locks::is_alive(&self.file, instance)? || locks::is_alive(self.instances.file(), instance)?)
    }

    /// Starts without an end of instances that are gone, in this file and the rotated ones.
    fn lost(&self, from: From, size: u64) -> io::Result<Vec<Map<String, Value>>> {
        let mut files: Vec<(File, u64, u64)> = Vec::new();
        let first = rotated::first(&self.file)?.map_or(u64::MAX, |first| first.seq);
        let mut rest = FALLBACK.saturating_sub(size);
        for (begins, path) in rotated::list(&self.path)?.into_iter().rev() {
            let behind = files.last().map_or(first, |(_, _, begins)| *begins);
            let needed = match from {
                From::Seq(seq) => behind > seq,
                From::Tail => rest > 0,
            };
            if !needed {
                break;
            }
            match rotated::open(&path) {
                Ok(file) => {
                    let size = file.metadata()?.len();
                    rest = rest.saturating_sub(size);
                    files.push((file, size, begins));
                }
                // Removed meanwhile, for its age.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        let mut parts = Vec::new();
        for (file, size) in
            files.iter().rev().map(|(file, size, _)| (file, *size)).chain([(&self.file, size)])
        {
            let from = match from {
                From::Seq(seq) => rotated::offset_of(file, size, seq)?,
                From::Tail => size.saturating_sub(FALLBACK),
            };
            parts.push(Part { file, from, to: size });
        }
        recover::unpaired(parts, |instance| {
            let mut alive = instance == self.instance || self.is_alive(instance)?;
            for (file, _, _) in &files {
                alive = alive || locks::is_alive(file, instance)?;
            }
            Ok(alive)
        })
    }

    /// A new file with the first record in it, in the place of this one.
    fn replace(&mut self, head: Head, record: FirstRecord<'_>) -> io::Result<(Vec<u8>, Head)> {
        let seq = rotated::first(&self.file)?.map_or(head.seq, |first| first.seq);
        let old = rotated::name(&self.path, seq);
        if !self.poisoned
            && let Err(error) = fault::named("audit:rotate:sync").map_or_else(|| self.file.sync_data(), Err)
        {
            self.poisoned = true;
            return Err(error);
        }
        let (name, file) = rotated::fresh(&self.path)?;
        locks::lock_append(&file)?;
        locks::hold_instance(&file, &self.instance)?;
        let aside = Aside {
            file: old.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            records: (head.seq + 1).saturating_sub(seq),
        };
        let (bytes, next) = record(head, &aside);
        fault::named("audit:rotate:write").map_or_else(|| (&file).write_all(&bytes), Err)?;
        file.sync_data()?;
        fault::named("audit:rotate:rename").map_or_else(|| rotated::put(&self.path, &old, &name), Err)?;
        let before = std::mem::replace(&mut self.file, file);
        locks::unlock_append(&before)?;
        self.held.push((seq..=head.seq, before));
        self.end = Some(bytes.len() as u64);
        self.born = Some(SystemTime::now());
        // An outage begins file after file: it must not push the records of before out.
        let outage = std::mem::take(&mut self.poisoned);
        if !outage && let Err(error) = rotated::prune(&self.path, self.terms.rotation.keep) {
            tracing::warn!(%error, "audit: rotated files could not be removed");
        }
        Ok((bytes, next))
    }

    fn make_reserve(&mut self) -> Result<(), AuditError> {
        let made = fault::named("audit:reserve:make").map_or_else(|| self.reserve.make(), Err);
        made.map_err(|error| fail("allocation of the reserve", &self.path, error))
    }

    fn space(&mut self) -> Result<u64, AuditError> {
        if let Some((at, free)) = self.looked
            && at.elapsed() < LOOK
        {
            return Ok(free);
        }
        let facts = fstatvfs(&self.file).map_err(|errno| fail("fstatvfs", &self.path, errno.into()))?;
        let free = facts.blocks_available().saturating_mul(facts.fragment_size());
        self.looked = Some((Instant::now(), free));
        Ok(free)
    }
}

impl Medium for FileStore {
    fn begin(&mut self, memory: Option<Head>) -> Result<Tail, AuditError> {
        let path = self.path.clone();
        let looked = fault::named("audit:lock")
            .map_or_else(|| self.lock(memory), Err)
            .map_err(|e| fail("lock", &path, e))
            .and_then(|_| self.look(memory).map_err(|e| fail("read", &path, e)));
        if looked.is_err() {
            self.finish(false, 0);
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

    fn finish(&mut self, whole: bool, next: u64) {
        if whole && let Some(others) = self.others.take() {
            let announced = locks::hold_instance(&self.file, &self.instance)
                .and_then(|()| locks::hold_instance(self.instances.file(), &self.instance))
                .and_then(|()| self.instances.settle(&others, next));
            match announced {
                Ok(()) => {
                    self.announced = true;
                    self.replaced = false;
                    self.expected = false;
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
        // The kernel told once, and may have thrown the pages away: another try would succeed for nothing.
        self.poisoned |= done.is_err();
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
        let other = !same(&old, &new);
        self.replaced |= other;
        self.poisoned &= !other;
        self.announced &= !self.replaced;
        self.born = None;
        self.tried = None;
        self.looked = None;
        self.end = None;
        drop(std::mem::replace(&mut self.file, file));
        locks::hold_instance(&self.file, &self.instance)
            .and_then(|()| locks::unlock_append(&self.file))
            .map_err(|e| fail("lock", &self.path, e))
    }

    fn keep(&mut self, open: &BTreeSet<u64>, next: u64) {
        self.held.retain(|(records, _)| !records.is_empty() && open.range(records.clone()).next().is_some());
        if let Err(error) = self.instances.keep_from(open.first().copied().unwrap_or(next)) {
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

    fn due(&mut self) -> bool {
        if self.poisoned {
            return true;
        }
        let Rotation { max_size, max_age, .. } = self.terms.rotation;
        let size = self.end.unwrap_or(0);
        if size == 0 || self.tried.is_some_and(|at| at.elapsed() < AGAIN) {
            return false;
        }
        if max_size > 0 && size >= max_size {
            return true;
        }
        if max_age.is_zero() {
            return false;
        }
        if self.born.is_none() {
            match rotated::first(&self.file) {
                Ok(first) => self.born = first.and_then(|first| first.at),
                Err(error) => tracing::warn!(%error, "audit: the age of the file cannot be read"),
            }
        }
        self.born.is_some_and(|born| born.elapsed().is_ok_and(|age| age >= max_age))
    }

    fn rotate(
        &mut self,
        memory: Option<Head>,
        first: FirstRecord<'_>,
    ) -> Result<Option<(Vec<u8>, Head)>, AuditError> {
        let tail = self.begin(memory)?;
        let plain = tail.junk == 0 && !tail.open && tail.lost.is_empty() && tail.gap.is_none();
        let Some(head) = tail.head.filter(|_| (plain || self.poisoned) && self.due()) else {
            self.finish(false, 0);
            return Ok(None);
        };
        let done = self.replace(head, first);
        match done {
            Ok((bytes, head)) => {
                self.finish(true, head.seq + 1);
                Ok(Some((bytes, head)))
            }
            Err(error) => {
                self.tried = Some(Instant::now());
                self.finish(false, 0);
                Err(fail("rotation", &self.path, error))
            }
        }
    }

    fn room(&mut self) -> Result<bool, AuditError> {
        let least = self.terms.min_free;
        let free = self.space()?;
        if free >= least {
            return Ok(free >= least.saturating_mul(8));
        }
        let error = io::Error::new(
            io::ErrorKind::StorageFull,
            format!("{free} bytes are free, [audit] min_free asks for {least}; make room, or lower it"),
        );
        Err(fail("check of the free space", &self.path, error))
    }

    fn free_reserve(&mut self) -> bool {
        self.looked = None;
        match self.reserve.free() {
            Ok(freed) => freed,
            Err(error) => {
                tracing::error!(%error, "audit: the reserve could not be freed");
                false
            }
        }
    }

    fn restore(&mut self) -> Result<(), AuditError> {
        self.make_reserve()?;
        // The gap fits where the next start does not: a block has room left.
        self.looked = None;
        let free = self.space()?;
        if free >= COMFORT {
            return Ok(());
        }
        let error = io::Error::new(io::ErrorKind::StorageFull, format!("only {free} bytes are free"));
        Err(fail("check of the free space", &self.path, error))
    }

    fn expect_moved(&mut self) {
        self.expected = true;
    }
}

/// The name that an open file has by now.
fn name_of(file: &File) -> io::Result<String> {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Ok(link.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()))
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

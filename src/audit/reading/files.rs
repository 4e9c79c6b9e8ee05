//! Which files make up a log, and in which order they were written.
//!
//! Purpose: a person names a file, several in any order, or the directory; a rotated file is recognised by
//! its name (`rotated.rs`), its place by the first record in it. Reads only.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::audit::chain::{self, ascii};
use crate::audit::lines::Lines;
use crate::audit::reading::Record;

/// One file of a log; `-` is standard input.
#[derive(Debug, Clone)]
pub struct Log {
    /// Its path.
    pub path: Arc<PathBuf>,
    /// The chain that its first record is of; absent where it has none.
    pub chain: Option<String>,
    seq: u64,
    began: String,
}

/// Files of one chain, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    /// Id of the chain; absent where no record says so.
    pub id: Option<String>,
    /// Its files.
    pub files: Vec<PathBuf>,
}

/// How far into a file its first record is looked for.
const LOOK: u64 = 1 << 20;

/// The files that `named` stand for, oldest record first. A directory stands for the logs in it; a file named
/// twice is read once.
///
/// # Errors
/// When one cannot be read, when standard input is named beside others, or a directory holds no log.
pub fn logs(named: &[PathBuf]) -> io::Result<Vec<Log>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in named {
        if path.as_os_str() == "-" {
            if named.len() > 1 {
                return Err(io::Error::other("standard input is a log of its own: name `-` alone"));
            }
            let path = Arc::new(path.clone());
            return Ok(vec![Log { path, chain: None, seq: 0, began: String::new() }]);
        }
        let facts = fs::metadata(path).map_err(|error| failed(path, &error))?;
        if facts.is_dir() {
            paths.extend(in_directory(path).map_err(|error| failed(path, &error))?);
        } else {
            paths.push(path.clone());
        }
    }
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for path in paths {
        // By file, not by name: in the middle of a rotation one file has two names.
        let facts = fs::metadata(&path).map_err(|error| failed(&path, &error))?;
        let file = (facts.dev(), facts.ino());
        if !seen.contains(&file) {
            seen.push(file);
            found.push(Log::open(path)?);
        }
    }
    sort(&mut found);
    Ok(found)
}

/// Chains stay together, in the order in which they began; files without a record come last.
fn sort(found: &mut [Log]) {
    let mut began: Vec<(Option<String>, String)> = Vec::new();
    for log in found.iter() {
        match began.iter_mut().find(|(chain, _)| *chain == log.chain) {
            Some((_, first)) if *first > log.began => first.clone_from(&log.began),
            Some(_) => {}
            None => began.push((log.chain.clone(), log.began.clone())),
        }
    }
    found.sort_by_key(|log| {
        let first = began.iter().find(|(chain, _)| *chain == log.chain).map(|(_, first)| first.clone());
        (log.chain.is_none(), first, log.chain.clone(), log.seq)
    });
}

impl Log {
    /// Number of its first record; 0 where it has none.
    pub(super) fn first_seq(&self) -> u64 {
        self.seq
    }

    fn open(path: PathBuf) -> io::Result<Self> {
        let file = File::open(&path).map_err(|error| failed(&path, &error))?;
        let mut log = Self { path: Arc::new(path), chain: None, seq: 0, began: String::new() };
        for line in Lines::new(file.take(LOOK)) {
            let line = line.map_err(|error| failed(&log.path, &error))?;
            let Ok(link) = chain::read(&line.bytes) else { continue };
            log.chain = Some(ascii(&link.head.chain).to_owned());
            log.seq = link.head.seq;
            let record = Record::parse(line.bytes).map(|record| record.timestamp().to_owned());
            log.began = record.unwrap_or_else(|_| String::new());
            break;
        }
        Ok(log)
    }
}

/// The chains that `logs` are of, in their order.
#[must_use]
pub fn chains(logs: &[Log]) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    for log in logs {
        let path = log.path.as_ref().clone();
        match chains.last_mut() {
            Some(last) if last.id == log.chain => last.files.push(path),
            _ => chains.push(Chain { id: log.chain.clone(), files: vec![path] }),
        }
    }
    chains
}

/// Logs of a directory: `NAME.jsonl` and its rotated files.
fn in_directory(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no *.jsonl file in it"));
    }
    Ok(found)
}

/// The rotated files beside `live`, in the order of their numbers.
pub(super) fn rotated(live: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(crate::audit::rotated::list(live)?.into_iter().map(|(_, path)| path).collect())
}

/// `live` and the rotated files beside it.
///
/// # Errors
/// When the directory cannot be read.
pub fn with_rotated(live: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = rotated(live).map_err(|error| failed(live, &error))?;
    files.push(live.to_owned());
    Ok(files)
}

pub(super) fn failed(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("read of {} failed: {error}", path.display()))
}

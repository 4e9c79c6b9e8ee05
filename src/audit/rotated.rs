//! Rotated files: their names, their order, and how one is put in the place of another.
//!
//! Purpose: a rotated file is named by the number of its first record, so that names sort as the chain does and
//! a lost run is found by its number. At no moment is there no file at the path: the old one gets its second
//! name first, then the new one, with its first record in it, is renamed over the path. Called by `store.rs`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::chain::{Head, MAX_LINE, ascii};
use super::recover::Part;

/// What the first record of a file says.
#[derive(Debug, Clone)]
pub(super) struct First {
    /// Its number.
    pub(super) seq: u64,
    /// When it was made.
    pub(super) at: Option<SystemTime>,
    /// Its chain.
    pub(super) chain: String,
    /// It follows on another file by rotation.
    pub(super) rotated: bool,
}

/// The first record of a file, as far as it can be read.
pub(super) fn first(file: &File) -> io::Result<Option<First>> {
    let mut bytes = Vec::new();
    Part { file, from: 0, to: MAX_LINE as u64 }.read_to_end(&mut bytes)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or(&[]);
    let line = ascii(line);
    let Some(seq) = seq_of(line) else { return Ok(None) };
    let text = |name: &str| {
        let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
        rest.split_once('"').map(|(value, _)| value)
    };
    Ok(Some(First {
        seq,
        at: text("timestamp").and_then(time),
        chain: text("chain_id").unwrap_or("").to_owned(),
        rotated: text("event_type") == Some("audit.rotate"),
    }))
}

/// The number in the frame of a line.
fn seq_of(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("{\"schema_version\":1,\"chain_id\":\"")?;
    let (_, rest) = rest.split_once("\",\"seq\":")?;
    number(rest.split_once(',')?.0)
}

/// A number, or nothing where none is written.
fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// A time, or nothing where none is written: such a file is not rotated by its age.
fn time(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}

/// `audit.jsonl` becomes `audit-000000000042.jsonl`.
pub(super) fn name(path: &Path, seq: u64) -> PathBuf {
    let (stem, end) = parts(path);
    path.with_file_name(format!("{stem}-{seq:012}{end}"))
}

fn parts(path: &Path) -> (String, String) {
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let end = path.extension().map_or_else(String::new, |end| format!(".{}", end.to_string_lossy()));
    (stem, end)
}

/// The rotated files beside `path`, by the number of their first record.
pub(super) fn list(path: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let (stem, end) = parts(path);
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory.unwrap_or(Path::new(".")))? {
        let entry = entry?;
        let name = entry.file_name();
        let digits = name
            .to_str()
            .and_then(|name| name.strip_prefix(stem.as_str()))
            .and_then(|rest| rest.strip_prefix('-'))
            .and_then(|rest| rest.strip_suffix(end.as_str()))
            .filter(|digits| digits.len() >= 12 && digits.bytes().all(|byte| byte.is_ascii_digit()));
        if let Some(seq) = digits.and_then(number) {
            found.push((seq, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Opens a rotated file to read in it.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Where to start reading for the record `seq`: at it or before it, never behind.
pub(super) fn offset_of(file: &File, size: u64, seq: u64) -> io::Result<u64> {
    const CLOSE: u64 = 256 << 10;
    let (mut low, mut high) = (0, size);
    while high - low > CLOSE {
        let middle = low + (high - low) / 2;
        let mut bytes = vec![0; 2 * MAX_LINE];
        let read = file.read_at(&mut bytes, middle)?;
        bytes.truncate(read);
        let next = bytes.split(|byte| *byte == b'\n').nth(1).and_then(|line| seq_of(ascii(line)));
        match next {
            Some(there) if there < seq => low = middle,
            // What cannot be read is searched for further ahead.
            _ => high = middle,
        }
    }
    Ok(low)
}

/// A new file beside `path`, to be [put](put) in its place.
pub(super) fn fresh(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let name = PathBuf::from(name);
    // What a crash left: the append lock says that nobody is at it now.
    match std::fs::remove_file(&name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create_new(true)
        .mode(0o640)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(&name)?;
    Ok((name, file))
}

/// Names the file at `path` `old`, and puts `new` in its place.
pub(super) fn put(path: &Path, old: &Path, new: &Path) -> io::Result<()> {
    match std::fs::hard_link(path, old) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // A crash between the two steps: the name is there already.
            let (there, here) = (std::fs::symlink_metadata(old)?, std::fs::symlink_metadata(path)?);
            if (there.dev(), there.ino()) != (here.dev(), here.ino()) {
                return Err(io::Error::other(format!("{} is another file; move it away", old.display())));
            }
        }
        other => other?,
    }
    std::fs::rename(new, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// Removes the oldest rotated files until `keep` are left.
pub(super) fn prune(path: &Path, keep: usize) -> io::Result<()> {
    let all = list(path)?;
    let many = all.len().saturating_sub(keep);
    for (_, old) in all.into_iter().take(many) {
        std::fs::remove_file(old)?;
    }
    Ok(())
}

/// Whether `head` is the record right before the first of a rotated file, or an older one of its chain.
pub(super) fn follows(first: &First, head: Option<Head>) -> bool {
    first.rotated && head.is_none_or(|head| ascii(&head.chain) == first.chain && head.seq < first.seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn names_sort_as_the_chain_does_and_only_ours_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        for other in ["audit.jsonl", "audit-1.jsonl", "audit-000000000009.jsonl.gz", "b-000000000009.jsonl"] {
            std::fs::write(dir.path().join(other), "").unwrap();
        }
        for seq in [1_000, 9, 77] {
            std::fs::write(name(&path, seq), "").unwrap();
        }
        let seqs = |path: &Path| list(path).unwrap().into_iter().map(|(seq, _)| seq).collect::<Vec<_>>();
        assert_eq!(seqs(&path), [9, 77, 1_000]);
        prune(&path, 2).unwrap();
        assert_eq!(seqs(&path), [77, 1_000]);
    }

    #[test]
    fn a_record_is_found_by_its_number() {
        let mut head = Head::new();
        let mut log = Vec::new();
        for _ in 0..2_000 {
            head.seal(&format!(",\"message\":\"{}\"", "x".repeat(700)), &mut log);
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&log).unwrap();
        let size = log.len() as u64;
        for seq in [1, 2, 999, 1_500, 2_000, 5_000] {
            let from = offset_of(&file, size, seq).unwrap();
            let rest = String::from_utf8(log[usize::try_from(from).unwrap()..].to_vec()).unwrap();
            let first = rest.lines().find_map(seq_of).unwrap();
            assert!(first <= seq, "{first} {seq}");
            assert!(seq < 1_000 || from > size / 4, "{seq} {from}");
        }
        let first = first(&file).unwrap().unwrap();
        assert_eq!((first.seq, first.rotated, first.at), (1, false, None));
    }
}

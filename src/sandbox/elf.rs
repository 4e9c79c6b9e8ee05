//! What a program needs to start: its loader and the shared libraries it links, as exact files.
//!
//! Why not whole library directories: a confined process can ask the loader to run any ELF file it
//! may *read*, and library directories hold other programs too. So a profile grants reading of the
//! files that `ld.so` (ld.so(8)) would open for this program, and nothing beside them. Libraries
//! that a program opens by itself (`dlopen`) must be listed by the operator.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRTAB, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{LittleEndian, ReadCache, ReadRef};

/// Largest file that is read to learn its libraries.
const MAX_ELF: u64 = 512 << 20;
/// Most libraries of one program, and most directories that one is looked for in: programs have tens
/// of the one and a few of the other.
const MAX_LIBRARIES: usize = 1024;
const MAX_DIRECTORIES: usize = 64;
/// Opened by the C library itself without being linked: unwinding for thread cancellation.
const ALWAYS: &[&str] = &["libgcc_s.so.1"];

/// Files a program needs beside itself.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The program interpreter (`ld-linux-x86-64.so.2`); must be executable for the command.
    pub loader: Option<PathBuf>,
    /// Shared libraries, read only.
    pub libraries: BTreeSet<PathBuf>,
}

/// Why a file could not be understood.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// Reading failed.
    #[error("reading {} to learn its libraries failed: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// It is an ELF file that does not parse.
    #[error("{} is not a valid ELF file for x86-64: {reason}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

#[derive(Debug, Default)]
struct Parsed {
    loader: Option<PathBuf>,
    needed: Vec<String>,
    search: Vec<PathBuf>,
}

/// The transitive needs of `program`.
///
/// # Errors
/// A file that cannot be read or is malformed. Scripts and other texts need nothing.
pub fn needs(program: &Path) -> Result<Needs, ElfError> {
    let first = parse(program)?;
    let mut out = Needs { loader: first.loader.clone(), ..Needs::default() };
    if first.loader.is_none() {
        return Ok(out); // static, or no program of its own: nothing is linked
    }
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut queue: VecDeque<(String, Vec<PathBuf>)> = VecDeque::new();
    let always = ALWAYS.iter().map(|name| ((*name).to_owned(), Vec::new()));
    queue.extend(always.chain(first.needed.into_iter().map(|name| (name, first.search.clone()))));
    while let Some((name, search)) = queue.pop_front() {
        if !seen.insert(name.clone()) {
            continue;
        }
        if seen.len() > MAX_LIBRARIES {
            return Err(malformed(program, "it links too many libraries"));
        }
        for dir in search.iter().chain(library_dirs()) {
            let Ok(real) = dir.join(&name).canonicalize() else { continue };
            if !real.is_file() || !out.libraries.insert(real.clone()) {
                continue;
            }
            let library = parse(&real)?;
            let inherited = library.search.into_iter().chain(search.iter().cloned());
            let inherited: Vec<PathBuf> = inherited.take(MAX_DIRECTORIES).collect();
            queue.extend(library.needed.into_iter().map(|name| (name, inherited.clone())));
        }
    }
    Ok(out)
}

fn malformed(path: &Path, reason: &str) -> ElfError {
    ElfError::Malformed { path: path.to_owned(), reason: reason.to_owned() }
}

fn parse(path: &Path) -> Result<Parsed, ElfError> {
    let failed = |source| ElfError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > MAX_ELF {
        return Err(failed(std::io::Error::from_raw_os_error(libc::EFBIG)));
    }
    // Only the headers and the dynamic section are read, however large the file is.
    let data = ReadCache::new(file);
    let mut magic = [0u8; 4];
    let len = usize::from(data.len().is_ok_and(|len| len >= 4)) * 4;
    magic.iter_mut().zip(data.read_bytes_at(0, len as u64).unwrap_or(&[])).for_each(|(to, from)| *to = *from);
    if magic != *b"\x7fELF" {
        return Ok(Parsed::default());
    }
    let parsed = parse_elf(path, &data).map_err(|e| malformed(path, &e.to_string()))?;
    if parsed.search.len() > MAX_DIRECTORIES || parsed.needed.len() > MAX_LIBRARIES {
        return Err(malformed(path, "it names too many libraries or directories"));
    }
    Ok(parsed)
}

fn parse_elf(path: &Path, data: &ReadCache<File>) -> Result<Parsed, object::read::Error> {
    let header = FileHeader64::<LittleEndian>::parse(data)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, data)?;
    let mut out = Parsed::default();
    let mut dynamic = None;
    for segment in segments {
        if segment.p_type(endian) == PT_INTERP
            && let Some(text) = segment.interpreter(endian, data)?
        {
            out.loader = Some(PathBuf::from(String::from_utf8_lossy(text).into_owned()));
        }
        if let Some(entries) = segment.dynamic(endian, data)? {
            dynamic = Some(entries);
        }
    }
    let Some(entries) = dynamic else { return Ok(out) };
    let Some(strtab) = entries.iter().find(|d| d.d_tag(endian) == DT_STRTAB).map(|d| d.d_val(endian)) else {
        return Ok(out);
    };
    // The table is named by address: find the segment that maps it.
    let strings = segments.iter().find_map(|s| {
        let inside = strtab.checked_sub(s.p_vaddr(endian)).filter(|offset| *offset < s.p_filesz(endian))?;
        let from = s.p_offset(endian).checked_add(inside)?;
        Some((from, s.p_offset(endian).checked_add(s.p_filesz(endian))?))
    });
    let Some((start, end)) = strings else { return Ok(out) };
    let text = |offset: u64| {
        let from = start.checked_add(offset).filter(|from| *from < end)?;
        let bytes = data.read_bytes_at_until(from..end, 0).ok()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    for entry in entries {
        match entry.d_tag(endian) {
            DT_NEEDED => out.needed.extend(text(entry.d_val(endian))),
            DT_RPATH | DT_RUNPATH => {
                let list = text(entry.d_val(endian)).into_iter();
                out.search.extend(list.flat_map(|l| origin_paths(&l, path)));
            }
            _ => {}
        }
    }
    Ok(out)
}

/// The directories of one run path, `$ORIGIN` replaced (ld.so(8), "Dynamic string tokens").
fn origin_paths(list: &str, object: &Path) -> Vec<PathBuf> {
    let origin = object.parent().map(|p| p.to_string_lossy().into_owned());
    list.split(':')
        .map(|entry| match &origin {
            Some(origin) => entry.replace("${ORIGIN}", origin).replace("$ORIGIN", origin),
            None => entry.to_owned(),
        })
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
        .collect()
}

/// Directories that the loader searches: those of `ld.so.conf` and the built-in ones, with their
/// `glibc-hwcaps` variants. Read once a process.
fn library_dirs() -> &'static [PathBuf] {
    static DIRS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    DIRS.get_or_init(|| {
        let mut dirs = Vec::new();
        conf_dirs(Path::new("/etc/ld.so.conf"), 0, &mut dirs);
        let fixed = [
            "/lib/x86_64-linux-gnu",
            "/usr/lib/x86_64-linux-gnu",
            "/lib64",
            "/usr/lib64",
            "/lib",
            "/usr/lib",
        ];
        dirs.extend(fixed.into_iter().map(PathBuf::from));
        let mut out: Vec<PathBuf> = Vec::new();
        for dir in dirs {
            for sub in ["", "glibc-hwcaps/x86-64-v4", "glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2"] {
                if let Ok(real) = dir.join(sub).canonicalize()
                    && !out.contains(&real)
                {
                    out.push(real);
                }
            }
        }
        out
    })
}

/// Reads one `ld.so.conf`; a missing file simply names no directory.
fn conf_dirs(path: &Path, depth: u8, out: &mut Vec<PathBuf>) {
    let Ok(text) = std::fs::read_to_string(path) else { return };
    for line in text.lines().map(|l| l.split('#').next().unwrap_or(l).trim()) {
        if let Some(pattern) = line.strip_prefix("include ").map(str::trim) {
            // The only pattern in use is `DIR/*.conf`.
            let Some(dir) = pattern.strip_suffix("/*.conf") else { continue };
            let Ok(entries) = std::fs::read_dir(dir) else { continue };
            let mut files: Vec<PathBuf> = entries.filter_map(Result::ok).map(|e| e.path()).collect();
            files.retain(|f| f.extension().is_some_and(|e| e == "conf"));
            files.sort();
            if depth < 4 {
                files.iter().for_each(|file| conf_dirs(file, depth + 1, out));
            }
        } else if line.starts_with('/') {
            out.push(PathBuf::from(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_needs_its_loader_and_libc() {
        let needs = needs(Path::new("/bin/cat")).unwrap();
        assert!(needs.loader.is_some());
        assert!(needs.libraries.iter().any(|l| l.to_string_lossy().contains("libc.so")), "{needs:?}");
        assert!(needs.libraries.iter().all(|l| l.is_absolute() && l.is_file()));
    }

    #[test]
    fn truncated_elf_is_an_error_not_a_panic() {
        let data = std::fs::read("/bin/cat").unwrap();
        for len in [4, 16, 63, 64, 100, 1000] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &data[..len]).unwrap();
            assert!(needs(file.path()).is_err() || len > 64, "{len} bytes");
        }
    }

    #[test]
    fn origin_is_the_directory_of_the_object() {
        let dirs = origin_paths("$ORIGIN/../lib:relative:/abs", Path::new("/opt/x/bin/tool"));
        assert_eq!(dirs, [PathBuf::from("/opt/x/bin/../lib"), PathBuf::from("/abs")]);
    }
}

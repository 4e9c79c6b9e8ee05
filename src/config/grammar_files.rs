//! The operator's own option grammars: `programs = "DIR"`.
//!
//! Purpose: the texts of `DIR/*.toml`, read once while the policy loads. Whoever can write there chooses
//! what is refused, so the directory and each file must belong to root or the server's user, must not be
//! writable by anybody else, and must not lie in the workspace. Links are followed, and what they lead to
//! is checked. Called by `load.rs`; the policy room compiles the texts.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Source;
use super::load::Loader;
use super::read::{Reader, Section};
use super::workspace::Workspace;

/// A grammar larger than this is a mistake.
const LARGEST: u64 = 1 << 20;
/// More files than this are one, too.
const MOST: usize = 1024;

/// One file of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrammarFile {
    /// Where it was found.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// Reads the directory that the policy names, if it names one.
pub(super) fn read<'t>(
    loader: &mut Loader<'t, '_>,
    root: &Section<'t>,
    workspace: Option<&Workspace>,
) -> Vec<GrammarFile> {
    let Some(word) = Reader::text(root, "programs") else { return Vec::new() };
    let base = match loader.source {
        Source::File(policy) => policy.parent(),
        Source::Builtin | Source::Environment | Source::Program => None,
    };
    match directory(Path::new(&word.text), base, workspace) {
        Ok(files) => files,
        Err(what) => {
            loader.reader.problem(word.at, &word.key, what);
            Vec::new()
        }
    }
}

fn directory(
    asked: &Path,
    base: Option<&Path>,
    workspace: Option<&Workspace>,
) -> Result<Vec<GrammarFile>, String> {
    if asked.as_os_str().is_empty() || asked.as_os_str().as_bytes().contains(&0) {
        return Err("is not a directory: write a path".into());
    }
    let path = match base {
        _ if asked.is_absolute() => asked.to_path_buf(),
        Some(base) => base.join(asked),
        None => return Err(format!("\"{}\" is relative, and this policy is no file", asked.display())),
    };
    let cannot = |error: std::io::Error| format!("cannot read the directory {}: {error}", path.display());
    let real = path.canonicalize().map_err(cannot)?;
    safe(&real, &real.metadata().map_err(cannot)?, workspace)?;
    let mut found = Vec::new();
    for entry in fs::read_dir(&real).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        let bytes = name.as_bytes();
        if bytes.ends_with(b".toml") && !bytes.starts_with(b".") {
            found.push(real.join(name));
        }
    }
    if found.len() > MOST {
        return Err(format!("{} holds more than {MOST} grammars", real.display()));
    }
    found.sort();
    found.into_iter().map(|path| file(path, workspace)).collect()
}

fn file(path: PathBuf, workspace: Option<&Workspace>) -> Result<GrammarFile, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let real = path.canonicalize().map_err(cannot)?;
    // Asked before opening: the open of a FIFO would wait for a writer.
    if !real.metadata().map_err(cannot)?.is_file() {
        return Err(format!("{} is not a regular file", path.display()));
    }
    let mut open = File::open(&real).map_err(cannot)?;
    safe(&real, &open.metadata().map_err(cannot)?, workspace)?;
    let mut text = String::new();
    let read = open.by_ref().take(LARGEST + 1).read_to_string(&mut text).map_err(cannot)?;
    if read as u64 > LARGEST {
        return Err(format!("{} is larger than a grammar can be ({LARGEST} bytes)", path.display()));
    }
    Ok(GrammarFile { path, text })
}

/// Whether nobody but the operator can change what is there.
fn safe(real: &Path, meta: &fs::Metadata, workspace: Option<&Workspace>) -> Result<(), String> {
    let shown = real.display();
    if workspace.is_some_and(|workspace| real.starts_with(&workspace.path)) {
        return Err(format!("{shown} lies in the workspace, which is not the operator's: move it out"));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(format!("{shown} is writable by others than its owner: chmod go-w {shown}"));
    }
    let (owner, own) = (meta.uid(), nix::unistd::geteuid().as_raw());
    if owner != 0 && owner != own {
        return Err(format!("{shown} belongs to user {owner}, not to root or user {own}: chown it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn house() -> (tempfile::TempDir, PathBuf) {
        let keep = tempfile::tempdir().unwrap();
        let base = keep.path().canonicalize().unwrap();
        for name in ["work", "grammars", "outside"] {
            mode(&base, name, None);
        }
        (keep, base)
    }

    /// Makes a directory, or a file of that text, that only its owner writes.
    fn mode(base: &Path, name: &str, text: Option<&str>) {
        let path = base.join(name);
        match text {
            None => fs::create_dir(&path).unwrap(),
            Some(text) => fs::write(&path, text).unwrap(),
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn names(base: &Path) -> Result<Vec<String>, String> {
        let workspace = Workspace::open(&base.join("work"), false).unwrap();
        let files = directory(Path::new("grammars"), Some(base), Some(&workspace))?;
        Ok(files
            .iter()
            .map(|file| format!("{}={}", file.path.file_name().unwrap().display(), file.text))
            .collect())
    }

    #[test]
    fn files_are_read_in_order_and_others_left_alone() {
        let (_keep, base) = house();
        for (name, text) in
            [("b.toml", "2"), ("a.toml", "1"), (".c.toml", "3"), ("d.toml~", "4"), ("README", "5")]
        {
            mode(&base, &format!("grammars/{name}"), Some(text));
        }
        mode(&base, "outside/real", Some("6"));
        symlink(base.join("outside/real"), base.join("grammars/z.toml")).unwrap();
        assert_eq!(names(&base).unwrap(), ["a.toml=1", "b.toml=2", "z.toml=6"]);
    }

    #[test]
    fn what_others_can_write_is_refused() {
        let (_keep, base) = house();
        mode(&base, "grammars/a.toml", Some("1"));
        for (name, bits) in
            [("grammars", 0o775), ("grammars", 0o757), ("grammars/a.toml", 0o664), ("grammars/a.toml", 0o646)]
        {
            let path = base.join(name);
            fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
            let error = names(&base).unwrap_err();
            assert!(error.contains("chmod go-w") && error.contains(name), "{error}");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(names(&base).unwrap(), ["a.toml=1"]);
    }

    #[test]
    fn what_lies_in_the_workspace_is_refused_also_behind_a_link() {
        let (_keep, base) = house();
        mode(&base, "work/x", Some("1"));
        symlink(base.join("work/x"), base.join("grammars/a.toml")).unwrap();
        assert!(names(&base).unwrap_err().contains("lies in the workspace"));
        fs::remove_file(base.join("grammars/a.toml")).unwrap();
        fs::remove_dir(base.join("grammars")).unwrap();
        symlink(base.join("work"), base.join("grammars")).unwrap();
        assert!(names(&base).unwrap_err().contains("lies in the workspace"));
    }

    #[test]
    fn what_is_no_text_file_is_refused() {
        let (_keep, base) = house();
        mode(&base, "grammars/a.toml", None);
        assert!(names(&base).unwrap_err().contains("not a regular file"));
        fs::remove_dir(base.join("grammars/a.toml")).unwrap();
        fs::write(base.join("grammars/b.toml"), b"\xff").unwrap();
        assert!(names(&base).unwrap_err().contains("b.toml"));
        fs::write(base.join("grammars/b.toml"), vec![b'#'; (1 << 20) + 1]).unwrap();
        assert!(names(&base).unwrap_err().contains("larger than a grammar"));
        assert!(directory(Path::new(""), Some(&base), None).is_err());
        assert!(directory(Path::new("x"), None, None).unwrap_err().contains("relative"));
        assert!(directory(&base.join("nosuch"), None, None).unwrap_err().contains("nosuch"));
    }
}

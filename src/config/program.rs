//! Programs: a name is resolved once, through the safe PATH, and pinned by device and inode.
//!
//! Purpose: one place that turns what a caller sends into a file, so that what was judged is what
//! runs. Inputs: the safe PATH and the file system. Called while a policy loads, and by the
//! appliance for names admitted by a pattern or by `allow_any`.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

/// Remembered answers. Names come from callers under `allow_any`, so their number is bounded.
const REMEMBERED: usize = 1024;

/// A program file, pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// What was asked for: a bare name or an absolute path.
    pub asked: String,
    /// The path it was found at, symbolic links not followed.
    pub path: PathBuf,
    /// The file behind it, every link followed.
    pub real: PathBuf,
    /// Device of `real`.
    pub dev: u64,
    /// Inode of `real`.
    pub ino: u64,
}

/// Why a name gave no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// No directory of the path holds it.
    #[error("no such program: {0}")]
    NotFound(String),
    /// It is there, but not a regular file with an executable bit.
    #[error("not an executable file: {}", .0.display())]
    NotExecutable(PathBuf),
    /// It lies in the workspace: nothing can be executed there, and its content is anybody's.
    #[error("inside of the workspace: {}", .0.display())]
    InWorkspace(PathBuf),
    /// A relative path with a slash, which depends on the working directory.
    #[error("a relative path is never resolved: {0} (send a bare name or an absolute path)")]
    Relative(String),
}

/// Resolves names through one safe PATH and remembers the answers.
#[derive(Debug)]
pub struct Programs {
    directories: Vec<PathBuf>,
    workspace: Option<PathBuf>,
    known: RwLock<HashMap<String, Result<Arc<Program>, Absent>>>,
}

impl Programs {
    /// A resolver over the directories of `path` (colon-separated). Empty and relative elements
    /// are never searched; a policy that has one does not load.
    #[must_use]
    pub fn new(path: &str) -> Self {
        let directories = path.split(':').map(PathBuf::from).filter(|dir| dir.is_absolute()).collect();
        Self { directories, workspace: None, known: RwLock::default() }
    }

    /// The same resolver, refusing every program below this canonical directory.
    #[must_use]
    pub fn refusing_below(mut self, workspace: &Path) -> Self {
        self.workspace = Some(workspace.to_path_buf());
        self
    }

    /// Finds `name`; `None` when there is no program to run under it.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<Program>> {
        // Refusing is what every reason comes to; `lookup` says which it is.
        self.lookup(name).ok()
    }

    /// Finds `name`, or says why not. Answers of both kinds are remembered, so that a file that
    /// appears later does not change what a running server does.
    pub fn lookup(&self, name: &str) -> Result<Arc<Program>, Absent> {
        // A poisoned lock only costs the memory of earlier answers.
        if let Ok(known) = self.known.read()
            && let Some(answer) = known.get(name)
        {
            return answer.clone();
        }
        let answer = self.search(name);
        match self.known.write() {
            // The first answer stays, whoever raced for it.
            Ok(mut known) if known.len() < REMEMBERED => {
                known.entry(name.to_owned()).or_insert(answer).clone()
            }
            Ok(_) | Err(_) => answer,
        }
    }

    fn search(&self, name: &str) -> Result<Arc<Program>, Absent> {
        if name.starts_with('/') {
            return self.pin(name, Path::new(name));
        }
        if name.contains('/') {
            return Err(Absent::Relative(name.to_owned()));
        }
        let mut absent = Absent::NotFound(name.to_owned());
        if matches!(name, "" | "." | "..") {
            return Err(absent);
        }
        for directory in &self.directories {
            match self.pin(name, &directory.join(name)) {
                Ok(program) => return Ok(program),
                // As execvp(3) does: go on, and remember that there was something.
                Err(reason @ Absent::NotExecutable(_)) => absent = reason,
                Err(Absent::NotFound(_)) => {}
                // Going on would silently take another program than the first one of that name.
                Err(reason) => return Err(reason),
            }
        }
        Err(absent)
    }

    fn pin(&self, asked: &str, path: &Path) -> Result<Arc<Program>, Absent> {
        let Ok(real) = fs::canonicalize(path) else { return Err(Absent::NotFound(asked.to_owned())) };
        let Ok(file) = fs::symlink_metadata(&real) else { return Err(Absent::NotFound(asked.to_owned())) };
        if !file.is_file() || file.permissions().mode() & 0o111 == 0 {
            return Err(Absent::NotExecutable(path.to_path_buf()));
        }
        if self.workspace.as_ref().is_some_and(|root| real.starts_with(root) || path.starts_with(root)) {
            return Err(Absent::InWorkspace(path.to_path_buf()));
        }
        Ok(Arc::new(Program {
            asked: asked.to_owned(),
            path: path.to_path_buf(),
            real,
            dev: file.dev(),
            ino: file.ino(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn script(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn house() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        (dir, root)
    }

    #[test]
    fn the_first_directory_wins_and_the_file_is_pinned() {
        let (_keep, root) = house();
        script(&root.join("a/tool"), 0o755);
        script(&root.join("b/tool"), 0o755);
        symlink(root.join("a/tool"), root.join("b/other")).unwrap();
        let programs = Programs::new(&format!("{0}/a:{0}/b", root.display()));
        let tool = programs.find("tool").unwrap();
        assert_eq!(tool.path, root.join("a/tool"));
        let other = programs.find("other").unwrap();
        assert_eq!((&other.path, &other.real), (&root.join("b/other"), &root.join("a/tool")));
        assert_eq!((other.dev, other.ino), (tool.dev, tool.ino));
        assert_eq!(tool.ino, fs::metadata(root.join("a/tool")).unwrap().ino());
    }

    #[test]
    fn only_executable_regular_files_count() {
        let (_keep, root) = house();
        script(&root.join("a/plain"), 0o644);
        script(&root.join("b/plain"), 0o755);
        fs::create_dir_all(root.join("a/dir")).unwrap();
        let programs = Programs::new(&format!("{0}/a:{0}/b", root.display()));
        assert_eq!(programs.find("plain").unwrap().path, root.join("b/plain"), "goes on as execvp does");
        assert_eq!(programs.lookup("dir"), Err(Absent::NotExecutable(root.join("a/dir"))));
        let dangling = root.join("a/dangling");
        symlink("nowhere", &dangling).unwrap();
        assert!(programs.find("dangling").is_none());
    }

    #[test]
    fn relative_paths_and_path_elements_are_never_searched() {
        let here = std::env::current_exe().unwrap();
        let name = here.file_name().unwrap().to_str().unwrap();
        for path in ["", ".", "target", ":", "./"] {
            assert!(Programs::new(path).find(name).is_none(), "{path:?}");
        }
        let programs = Programs::new("/usr/bin:/bin");
        assert_eq!(programs.lookup("./sh"), Err(Absent::Relative("./sh".into())));
        for name in ["", ".", ".."] {
            assert!(programs.find(name).is_none(), "{name:?}");
        }
        assert!(programs.find("/bin/../bin/true").is_some(), "absolute paths are taken as they are");
    }

    #[test]
    fn answers_of_both_kinds_stay() {
        let (_keep, root) = house();
        let programs = Programs::new(root.to_str().unwrap());
        assert!(programs.find("late").is_none());
        script(&root.join("late"), 0o755);
        assert!(programs.find("late").is_none(), "a file that appears later changes nothing");
        script(&root.join("early"), 0o755);
        let first = programs.find("early").unwrap();
        fs::remove_file(root.join("early")).unwrap();
        assert_eq!(programs.find("early").unwrap(), first);
    }

    #[test]
    fn the_memory_is_bounded() {
        let programs = Programs::new("/nonexistent");
        for index in 0..REMEMBERED + 50 {
            assert!(programs.find(&format!("n{index}")).is_none());
        }
        assert_eq!(programs.known.read().unwrap().len(), REMEMBERED);
    }

    #[test]
    fn nothing_below_the_workspace_is_a_program() {
        let (_keep, root) = house();
        script(&root.join("work/tool"), 0o755);
        fs::create_dir_all(root.join("bin")).unwrap();
        symlink(root.join("work/tool"), root.join("bin/tool")).unwrap();
        let programs = Programs::new(root.join("bin").to_str().unwrap()).refusing_below(&root.join("work"));
        assert!(matches!(programs.lookup("tool"), Err(Absent::InWorkspace(_))), "also through a link");
        assert!(matches!(
            programs.lookup(root.join("work/tool").to_str().unwrap()),
            Err(Absent::InWorkspace(_))
        ));
    }
}

//! From what a run touched to what a section must grant. Called by `learn` only; decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::end::Ending;
use super::folding;
use crate::launch::Touch;
use crate::policy::knowledge;
use crate::sandbox::profile::Profile;
use crate::sandbox::secrets::Secrets;

/// What a person is asked to review.
#[derive(Debug, Default)]
pub(super) struct Proposal {
    /// Helper programs that were started.
    pub(super) execute: Vec<PathBuf>,
    /// Files and directories beside the workspace and what every command may read.
    pub(super) read: Vec<PathBuf>,
    /// Looked at or started, and not needed for the same end.
    pub(super) spared: Vec<PathBuf>,
    /// Asked for and never granted here, with the reason.
    pub(super) refused: BTreeMap<PathBuf, String>,
    /// Paths of the workspace that were written.
    pub(super) written: BTreeSet<PathBuf>,
    /// Some of them belong to the repository at its root.
    pub(super) repository: bool,
    /// Ports that were connected to.
    pub(super) ports: BTreeSet<u16>,
    /// System calls that the filter forbade.
    pub(super) denied: Vec<(String, u32)>,
    /// Helpers that are always denied as names.
    loud: Vec<PathBuf>,
    /// Something could not be recorded.
    pub(super) partial: bool,
    /// The recorded run could write nothing.
    pub(super) only_reading: bool,
}

impl Proposal {
    /// What `touched` needs beyond `base`, the profile of the command without any grant.
    pub(super) fn of(
        base: &Profile,
        secrets: &Secrets,
        touched: &[Touch],
        recorded: &Ending,
        confine: bool,
    ) -> Result<Self, String> {
        let denied = recorded.ran().map_or_else(Vec::new, |ran| ran.denied.clone());
        let mut found = Self { denied, ..Self::default() };
        let (mut files, mut directories) = (BTreeSet::new(), BTreeSet::new());
        for touch in touched {
            match touch {
                Touch::Execute(path) => found.execute(base, path.into(), confine)?,
                Touch::Read(path) => found.read(base, path.into(), &mut files, &mut directories),
                Touch::Write(path) => found.write(base, path.into()),
                Touch::Refused(path) => found.refuse(path.into(), "a home directory, or a place of secrets"),
                Touch::Connect(port) => drop(found.ports.insert(*port)),
                Touch::More => found.partial = true,
            }
        }
        for dir in directories {
            match folding::obstacle(&dir, secrets, &base.workspace) {
                None => drop(files.insert(dir)),
                Some(why) => {
                    found.refuse(dir, &format!("it was listed, and a grant holds for all below: {why}"))
                }
            }
        }
        let may = |dir: &Path| folding::obstacle(dir, secrets, &base.workspace).is_none();
        found.read = folding::fold(files, may);
        Ok(found)
    }

    /// Adds the shells that the program is a script of, which every profile of it has.
    pub(super) fn start_with(&mut self, shells: &[PathBuf]) {
        self.execute.splice(0..0, shells.iter().cloned());
        self.loud.extend_from_slice(shells);
    }

    /// Leaves out what `profile`, that of the command with its helpers, gives anyway: their libraries.
    pub(super) fn without(&mut self, profile: &Profile) {
        self.read.retain(|path| !profile.read.iter().any(|grant| path.starts_with(grant)));
    }

    /// Helpers of the section that are always denied as names.
    pub(super) fn loud(&self) -> impl Iterator<Item = &PathBuf> {
        self.loud.iter().filter(|path| self.execute.contains(path))
    }

    fn refuse(&mut self, path: PathBuf, why: &str) {
        self.refused.insert(path, why.to_owned());
    }

    fn execute(&mut self, base: &Profile, path: PathBuf, confine: bool) -> Result<(), String> {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if base.execute.contains(&path) {
            return Ok(());
        }
        if path.starts_with(&base.workspace) {
            self.refuse(path, "nothing of the workspace can be executed");
            return Ok(());
        }
        if let Some((group, reason)) = knowledge::always_denied(&name).map_err(|e| e.to_string())? {
            if !confine {
                let why = format!(
                    "started, but always denied ({group}: {reason}); --confine-interpreter proposes it all the same"
                );
                self.refuse(path, &why);
                return Ok(());
            }
            self.loud.push(path.clone());
        }
        self.execute.push(path);
        Ok(())
    }

    fn read(
        &mut self,
        base: &Profile,
        path: PathBuf,
        files: &mut BTreeSet<PathBuf>,
        directories: &mut BTreeSet<PathBuf>,
    ) {
        let granted = base.read.iter().chain(&base.execute).chain(&base.write);
        if granted.into_iter().any(|grant| path.starts_with(grant)) {
            return;
        }
        if is_process(&path) {
            self.refuse(path, "it belongs to one process, so that no policy can name it");
        } else if path.starts_with("/dev") {
            self.refuse(path, "a device");
        } else if path.is_dir() {
            directories.insert(path);
        } else {
            files.insert(path);
        }
    }

    fn write(&mut self, base: &Profile, path: PathBuf) {
        if let Ok(below) = path.strip_prefix(&base.workspace) {
            self.repository |= below.starts_with(".git");
            self.written.insert(below.to_path_buf());
        } else if path.starts_with("/dev") && !base.write.contains(&path) {
            self.refuse(path, "a device");
        } else if !base.write.contains(&path) {
            self.refuse(path, "written: only the workspace and the scratch directory can be");
        }
    }
}

/// Whether this is about one process (`/proc/PID/…`).
fn is_process(path: &Path) -> bool {
    let first = path.strip_prefix("/proc").ok().and_then(|rest| rest.iter().next().map(ToOwned::to_owned));
    first.is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(workspace: &Path) -> Profile {
        Profile {
            name: "p".to_owned(),
            program: "/usr/bin/p".into(),
            execute: vec!["/usr/bin/p".into()],
            read: vec!["/etc/ld.so.cache".into()],
            write: vec!["/dev/null".into()],
            workspace: workspace.to_owned(),
            workspace_write: false,
            tcp: Vec::new(),
            kernel: Vec::new(),
            terminals: Vec::new(),
            loaders: Vec::new(),
            recorded: None,
        }
    }

    fn proposed(touched: &[Touch], confine: bool) -> Proposal {
        let (base, secrets) = (profile(Path::new("/w")), Secrets::of_host([]));
        Proposal::of(&base, &secrets, touched, &Ending::Refused(String::new()), confine).unwrap()
    }

    #[test]
    fn only_what_the_default_profile_lacks_is_proposed() {
        let touched = [
            Touch::Read("/etc/ld.so.cache".into()),
            Touch::Read("/usr/bin/p".into()),
            Touch::Read("/etc/x".into()),
            Touch::Write("/dev/null".into()),
            Touch::Execute("/usr/bin/p".into()),
            Touch::Execute("/usr/bin/helper".into()),
            Touch::Connect(443),
            Touch::More,
        ];
        let found = proposed(&touched, false);
        assert_eq!(found.read, [PathBuf::from("/etc/x")]);
        assert_eq!(found.execute, [PathBuf::from("/usr/bin/helper")]);
        assert!(found.refused.is_empty() && found.written.is_empty(), "{found:?}");
        assert!(found.ports.contains(&443) && found.partial);
    }

    #[test]
    fn what_is_never_granted_is_said_with_the_reason() {
        let touched = [
            Touch::Refused("/root/.x".into()),
            Touch::Read("/".into()),
            Touch::Read("/proc/12/maps".into()),
            Touch::Read("/dev/tty".into()),
            Touch::Write("/var/x".into()),
            Touch::Execute("/w/tool".into()),
            Touch::Execute("/usr/bin/bash".into()),
        ];
        let found = proposed(&touched, false);
        assert_eq!(found.refused.len(), touched.len(), "{:?}", found.refused);
        assert!(found.read.is_empty() && found.execute.is_empty(), "{found:?}");
        assert!(found.refused[Path::new("/usr/bin/bash")].contains("--confine-interpreter"));
        let confined = proposed(&touched, true);
        assert_eq!(confined.execute, [PathBuf::from("/usr/bin/bash")]);
        assert_eq!(confined.loud, confined.execute);
    }

    #[test]
    fn writes_of_the_workspace_and_its_repository_are_told_apart() {
        let found = proposed(&[Touch::Write("/w/out".into())], false);
        assert!(found.written.contains(Path::new("out")) && !found.repository);
        assert!(proposed(&[Touch::Write("/w/.git/index.lock".into())], false).repository);
    }
}

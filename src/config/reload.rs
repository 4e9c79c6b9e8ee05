//! What a policy may change while a server runs, and whose file may be read again.
//!
//! Purpose: the one list of settings that launcher, sinks and walls were made for at start: a reload that
//! changes one is refused by its name. And the question whether commands, or others, could have written the
//! file: at start its reader asked for it by name, at a reload nobody does. Inputs: two loaded policies; the
//! modes of files. Called by `appliance/reload.rs` and `cli/serve`.

use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::sys::stat::fstat;
use nix::sys::statvfs::{FsFlags, statvfs};

use super::kernel::Switch;
use super::workspace::Workspace;
use super::{AuditConfig, Config};

/// Most links on the way to a file, as the kernel has it.
const LINKS: usize = 40;

/// Keys whose values differ in a way that a running server cannot take over.
#[must_use]
pub fn fixed(old: &Config, new: &Config) -> Vec<String> {
    let mut found = Vec::new();
    let mut differs = |key: &str, differs: bool| {
        if differs {
            found.push(key.to_owned());
        }
    };
    let (was, is) = (&old.workspace, &new.workspace);
    differs("workspace.path", was.path != is.path || !same_directory(was, is));
    differs("workspace.write", was.write != is.write);
    differs("workspace.repository_write", was.repository_write != is.repository_write);
    differs("limits.jobs", old.limits.jobs != new.limits.jobs);
    differs("limits.memory", old.limits.memory != new.limits.memory);
    differs("limits.processes", old.limits.processes != new.limits.processes);
    differs("limits.cgroup", old.limits.cgroup != new.limits.cgroup);
    differs("sandbox.user", old.sandbox.user != new.sandbox.user);
    differs("sandbox.require", old.sandbox.require != new.sandbox.require);
    differs("audit.sinks", sinks(&old.audit) != sinks(&new.audit));
    differs("audit.on_failure", old.audit.on_failure != new.audit.on_failure);
    differs("audit.sync", old.audit.sync != new.audit.sync);
    differs("audit.min_free", old.audit.min_free != new.audit.min_free);
    differs("audit.sinks: max_size, max_age, keep", old.audit.rotation != new.audit.rotation);
    differs("audit.redact", patterns(&old.audit).ne(patterns(&new.audit)));
    differs(
        "audit.checkpoint_key, checkpoint_records, checkpoint_time",
        old.audit.checkpoint != new.audit.checkpoint,
    );
    differs("server.http", old.http != new.http);
    differs("principal", old.principals != new.principals);
    for switch in [Switch::Pty, Switch::Ipc] {
        if new.uses(switch) && !old.uses(switch) {
            found.push(format!("command.NAME.kernel = [\"{}\"], which no command had", switch.as_str()));
        }
    }
    found
}

fn sinks(config: &AuditConfig) -> &[super::Sink] {
    &config.sinks
}

fn patterns(config: &AuditConfig) -> impl Iterator<Item = &str> {
    config.redact.iter().map(regex::Regex::as_str)
}

/// Whether both were opened at the same directory: another one may be at its path by now.
fn same_directory(old: &Workspace, new: &Workspace) -> bool {
    let at = |workspace: &Workspace| fstat(&*workspace.root).map(|stat| (stat.st_dev, stat.st_ino));
    matches!((at(old), at(new)), (Ok(old), Ok(new)) if old == new)
}

/// Whether others than the server's user and root could have written the file at `path`, or have put another one
/// there: every link on the way counts with the directory that it lies in, as well as what it leads to.
///
/// # Errors
/// Who could, with the remedy; or what could not be examined.
pub fn trusted(path: &Path, workspace: &Workspace) -> Result<(), String> {
    let cannot = |path: &Path, e: &dyn std::fmt::Display| format!("examining {} failed: {e}", path.display());
    let mut named = std::path::absolute(path).map_err(|e| cannot(path, &e))?;
    let real = path.canonicalize().map_err(|e| cannot(path, &e))?;
    for _ in 0..LINKS {
        let Some((directory, led)) = first_link(&named).map_err(|e| cannot(&named, &e))? else {
            return unwritten(&real, workspace);
        };
        unwritten(&directory, workspace)?;
        named = led;
    }
    Err(format!("{} leads over more than {LINKS} links: name the file itself", path.display()))
}

/// The directory of the first link in a path, and the path with that link taken; absent: there is none.
fn first_link(path: &Path) -> std::io::Result<Option<(PathBuf, PathBuf)>> {
    let mut taken = PathBuf::new();
    let mut names = path.components();
    while let Some(name) = names.next() {
        // What came before holds no link: the parent is that of the text.
        if name == Component::ParentDir {
            taken.pop();
            continue;
        }
        let directory = taken.clone();
        taken.push(name);
        if taken.symlink_metadata()?.is_symlink() {
            let led = directory.join(taken.read_link()?).join(names.as_path());
            return Ok(Some((directory, led)));
        }
    }
    Ok(None)
}

/// The same of a path without links.
fn unwritten(path: &Path, workspace: &Workspace) -> Result<(), String> {
    let cannot = |path: &Path, e: &dyn std::fmt::Display| format!("examining {} failed: {e}", path.display());
    let shown = path.display();
    if workspace.write && path.starts_with(&workspace.path) {
        return Err(format!("{shown} lies in the workspace, which commands may write: move it out of there"));
    }
    for (depth, place) in path.ancestors().enumerate() {
        let mount = statvfs(place).map_err(|e| cannot(place, &e))?;
        if mount.flags().contains(FsFlags::ST_RDONLY) {
            continue;
        }
        let meta = place.metadata().map_err(|e| cannot(place, &e))?;
        let own = nix::unistd::geteuid().as_raw();
        let place = place.display();
        if ![0, own].contains(&meta.uid()) {
            let uid = meta.uid();
            return Err(format!(
                "{place} belongs to the user {uid}: give it to root or to the server's user"
            ));
        }
        // In a sticky directory only the owner of a file replaces it.
        let sticky = depth > 0 && meta.mode() & 0o1000 != 0;
        if meta.mode() & 0o022 != 0 && !sticky {
            return Err(format!(
                "{place} can be written by others (mode {:04o}): chmod go-w",
                meta.mode() & 0o7777
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::{LoadOptions, Source};

    fn config(directory: &Path, more: &str) -> Config {
        let text = format!(
            "version = 1\nallow = [\"ls\"]\n[workspace]\npath = \"{}\"\n[audit]\nsinks = [{{ kind = \"stderr\" }}]\n{more}",
            directory.display()
        );
        Config::from_str(&text, Source::Program, &LoadOptions::default()).unwrap()
    }

    #[test]
    fn what_was_set_up_at_start_is_named_and_the_rest_may_change() {
        let directory = tempfile::tempdir().unwrap();
        let old = config(directory.path(), "");
        let other = config(directory.path(), "[command.cat]\n[limits]\ntimeout = \"3s\"\n");
        assert_eq!(fixed(&old, &other), Vec::<String>::new());
        let other = config(
            directory.path(),
            "[limits]\njobs = 3\nmemory = \"2GiB\"\n[sandbox]\nrequire = [\"seccomp\"]\n[command.cat]\nkernel = [\"ipc\"]\n",
        );
        assert_eq!(
            fixed(&old, &other),
            [
                "limits.jobs",
                "limits.memory",
                "sandbox.require",
                "command.NAME.kernel = [\"ipc\"], which no command had"
            ]
        );
    }

    #[test]
    fn another_directory_at_the_same_path_is_another_workspace() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("work");
        fs::create_dir(&path).unwrap();
        let old = config(&path, "");
        fs::rename(&path, directory.path().join("old")).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(fixed(&old, &config(&path, "")), ["workspace.path"]);
    }

    #[test]
    fn a_file_that_others_can_write_is_not_read_again() {
        let (directory, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let workspace = config(workspace.path(), "").workspace;
        let file = directory.path().join("policy.toml");
        fs::write(&file, "").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        mode(&file, 0o644);
        assert_eq!(trusted(&file, &workspace), Ok(()));
        mode(&file, 0o664);
        assert!(trusted(&file, &workspace).unwrap_err().ends_with("chmod go-w"));
        mode(&file, 0o600);
        mode(directory.path(), 0o777);
        assert!(trusted(&file, &workspace).unwrap_err().contains("can be written by others"));
        mode(directory.path(), 0o1777);
        assert_eq!(trusted(&file, &workspace), Ok(()));
        assert!(trusted(&directory.path().join("none"), &workspace).unwrap_err().contains("No such file"));
    }

    #[test]
    fn a_link_that_others_can_swap_is_not_followed_to_a_file_that_is_good() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["work", "own", "open", "inner"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::set_permissions(at("open"), Permissions::from_mode(0o777)).unwrap();
        let text = format!(
            "version = 1\nallow = [\"ls\"]\n[workspace]\npath = \"{}\"\nwrite = true\n[audit]\nsinks = [{{ kind = \"stderr\" }}]\n",
            at("work").display()
        );
        let workspace = Config::from_str(&text, Source::Program, &LoadOptions::default()).unwrap().workspace;
        fs::write(at("own/policy.toml"), "").unwrap();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, at(name)).unwrap();
        link("policy.toml", "own/same.toml");
        link("../own/same.toml", "inner/on.toml");
        assert_eq!(trusted(&at("inner/on.toml"), &workspace), Ok(()));
        assert_eq!(trusted(&at("inner/../own/policy.toml"), &workspace), Ok(()));
        link("../own/policy.toml", "work/policy.toml");
        link("../own", "open/directory");
        link("../work/policy.toml", "own/over.toml");
        let of = |name: &str| trusted(&at(name), &workspace).unwrap_err();
        assert!(of("work/policy.toml").contains("which commands may write"));
        assert!(of("own/over.toml").contains("which commands may write"));
        assert!(of("open/directory/policy.toml").contains("can be written by others"));
        link("loop.toml", "own/loop.toml");
        assert!(trusted(&at("own/loop.toml"), &workspace).is_err());
    }

    #[test]
    fn every_setting_of_the_log_is_named_that_a_running_server_cannot_take_over() {
        let directory = tempfile::tempdir().unwrap();
        let of = |more: &str| config(directory.path(), more);
        let old = of("");
        let sinks =
            |keys: &str| format!("sinks = [{{ kind = \"file\", path = \"/var/log/x/audit.jsonl\"{keys} }}]");
        let audit = |keys: &str| {
            let head = format!(
                "version = 1\nallow = [\"ls\"]\n[workspace]\npath = \"{}\"\n[audit]\n{keys}\n",
                directory.path().display()
            );
            Config::from_str(&head, Source::Program, &LoadOptions::default()).unwrap()
        };
        let stderr = "sinks = [{ kind = \"stderr\" }]";
        assert_eq!(fixed(&old, &audit(stderr)), Vec::<String>::new());
        let redact = audit(&format!("{stderr}\nredact = [\"acme-[0-9]+\"]"));
        assert_eq!(fixed(&old, &redact), ["audit.redact"]);
        assert_eq!(fixed(&redact, &redact), Vec::<String>::new());
        let file = audit(&sinks(""));
        for (keys, name) in [
            (format!("{}\nsync = \"relaxed\"", sinks("")), "audit.sync"),
            (format!("{}\nmin_free = \"1MiB\"", sinks("")), "audit.min_free"),
            (sinks(", keep = 3"), "audit.sinks: max_size, max_age, keep"),
        ] {
            assert_eq!(fixed(&file, &audit(&keys)), [name], "{keys}");
        }
    }
}

//! From a profile to a Landlock ruleset descriptor. Every requirement is hard: a right that the
//! kernel does not know is an error, never a rule left out (landlock(7), ABI 6 = Linux 6.12).

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};

use super::profile::Profile;

/// Why a ruleset could not be built.
#[derive(Debug, thiserror::Error)]
pub enum RulesetError {
    /// The kernel refused a feature or a rule.
    #[error("landlock ruleset of {profile}: {source}")]
    Kernel {
        /// Profile name.
        profile: String,
        /// What the library says.
        source: landlock::RulesetError,
    },
    /// A path of the profile cannot be opened.
    #[error("landlock rule for {}: opening it failed: {source}", .path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The library built a ruleset that has no descriptor: Landlock is not there.
    #[error("landlock is not available: the kernel gave no ruleset")]
    NotAvailable,
}

pub(super) fn hard() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

pub(super) fn finish(
    profile: &str,
    created: Result<RulesetCreated, landlock::RulesetError>,
) -> Result<OwnedFd, RulesetError> {
    let created = created.map_err(|source| RulesetError::Kernel { profile: profile.to_owned(), source })?;
    Option::<OwnedFd>::from(created).ok_or(RulesetError::NotAvailable)
}

/// The outer domain of a supervisor: its signals and abstract sockets stay inside, files are untouched.
///
/// Moving files between directories is the one right that every layer denies unless it grants it,
/// handled or not (landlock(7), `LANDLOCK_ACCESS_FS_REFER`): granted here, decided in the command's
/// layer.
///
/// # Errors
/// A kernel without scopes (before ABI 6).
pub fn scopes() -> Result<OwnedFd, RulesetError> {
    const ROOT: &str = "/";
    let kernel = |source| RulesetError::Kernel { profile: "supervisor".to_owned(), source };
    let open = |e| RulesetError::Open { path: ROOT.into(), source: std::io::Error::other(e) };
    let root = PathFd::new(ROOT).map_err(open)?;
    let created = hard()
        .handle_access(AccessFs::Refer)
        .and_then(|r| r.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .map_err(kernel)?;
    finish("supervisor", created.add_rule(PathBeneath::new(root, AccessFs::Refer)))
}

/// The domain of a command: everything denied but what `profile` lists, and `scratch` to write in.
/// `root` is the workspace as it was opened once: its path may lead elsewhere by now. `read_only` says that every
/// mount of it is: then the right to truncate is granted there, which the kernel looks for at each open (Linux 6.2)
/// from the file up to the root of all, unless a rule on the way has it.
///
/// # Errors
/// A path that is gone, or a kernel that lacks a right.
pub fn command(
    profile: &Profile,
    root: BorrowedFd<'_>,
    scratch: Option<&Path>,
    read_only: bool,
) -> Result<OwnedFd, RulesetError> {
    let read_dir = AccessFs::ReadFile | AccessFs::ReadDir;
    let write_dir = read_dir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::MakeSym
        | AccessFs::MakeFifo
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::Refer;
    let write_file = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
    let mut rules: Vec<(&Path, BitFlags<AccessFs>)> = Vec::new();
    rules.extend(profile.execute.iter().map(|p| (p.as_path(), read_dir | AccessFs::Execute)));
    rules.extend(profile.read.iter().map(|p| (p.as_path(), read_dir)));
    rules.extend(profile.write.iter().map(|p| (p.as_path(), write_file)));
    let terminal = write_file | AccessFs::ReadDir | AccessFs::IoctlDev;
    rules.extend(profile.terminals.iter().map(|p| (p.as_path(), terminal)));
    rules.extend(scratch.map(|p| (p, write_dir)));

    let kernel = |source| RulesetError::Kernel { profile: profile.name.clone(), source };
    let recorded = profile.recorded.as_ref();
    let any_port = recorded.is_some_and(|recorded| recorded.network);
    let ports = if any_port { AccessNet::BindTcp.into() } else { AccessNet::from_all(ABI::V6) };
    let mut created = hard()
        .handle_access(AccessFs::from_all(ABI::V6))
        .and_then(|r| r.handle_access(ports))
        .and_then(|r| r.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .map_err(kernel)?;
    let workspace = match (profile.workspace_write, read_only) {
        (true, _) => write_dir,
        (false, true) => read_dir | AccessFs::Truncate,
        (false, false) => read_dir,
    };
    created = created.add_rule(PathBeneath::new(root, workspace)).map_err(kernel)?;
    for (path, rights) in rules {
        let open = |source| RulesetError::Open { path: path.to_owned(), source };
        let fd = match PathFd::new(path) {
            Ok(fd) => fd,
            // The wide grants of a recorded run name what others may remove meanwhile: granted less.
            Err(_) if recorded.is_some() => continue,
            Err(e) => return Err(open(std::io::Error::other(e))),
        };
        let is_dir =
            File::from(fd.as_fd().try_clone_to_owned().map_err(open)?).metadata().map_err(open)?.is_dir();
        // Directory rights on a file are refused by the kernel, so a file gets the file rights only.
        let rights = if is_dir { rights } else { rights & AccessFs::from_file(ABI::V6) };
        created = created.add_rule(PathBeneath::new(fd, rights)).map_err(kernel)?;
    }
    for port in &profile.tcp {
        created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp)).map_err(kernel)?;
    }
    finish(&profile.name, Ok(created))
}

//! The server's own walls: what it needs after its launcher is up, and nothing more.
//!
//! Purpose: whoever takes over the server by what a client sends still cannot start a program, write
//! outside of the audit directory, connect anywhere but to the ports of audit sinks, or read the memory of others; the commands' walls
//! do not hang on it. Called once by `appliance.rs`, by a server of its own process only, between the
//! start of the launcher and the first thread: both walls hold for the calling thread and what it starts.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, PathBeneath, PathFd, RulesetAttr, RulesetCreatedAttr, Scope,
};
use nix::sys::resource::{Resource, setrlimit};

use super::filter::{self, FilterError};
use super::landlock::{RulesetError, finish, hard};
use super::syscalls;
use crate::sys;

/// Why the server could not confine itself.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// The kernel refused a step.
    #[error("confinement of the server: {step} failed: {source}")]
    Step {
        /// Name of the step.
        step: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The Landlock ruleset.
    #[error("confinement of the server: {0}")]
    Ruleset(#[from] RulesetError),
    /// The filter.
    #[error("confinement of the server: {0}")]
    Filter(#[from] FilterError),
}

/// Confines the calling thread and all that it starts, for good. Files can be written beneath `writable`
/// only, directories removed beneath `removable` (the cgroups of its launcher), and TCP connections made to
/// `ports` (those of its audit sinks: the kernel knows ports, not addresses); what may be read stays as it is.
///
/// # Errors
/// The step that failed: nothing may be served then.
pub(crate) fn confine(writable: &[PathBuf], removable: Option<&Path>, ports: &[u16]) -> Result<(), OwnError> {
    let step = |step| move |source: std::io::Error| OwnError::Step { step, source };
    nix::sys::prctl::set_dumpable(false).map_err(|e| step("dumpable")(e.into()))?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(|e| step("core limit")(e.into()))?;
    nix::sys::prctl::set_no_new_privs().map_err(|e| step("no_new_privs")(e.into()))?;
    sys::landlock_restrict_self(&ruleset(writable, removable, ports)?).map_err(step("landlock"))?;
    let filter = filter::compile_denying(&syscalls::server_denied())?;
    sys::seccomp_filter(&filter).map_err(step("seccomp"))
}

/// No program, no port but `ports`, no abstract socket of others, no write but beneath `writable` and to `/dev/null`.
fn ruleset(writable: &[PathBuf], removable: Option<&Path>, ports: &[u16]) -> Result<OwnedFd, RulesetError> {
    let write = AccessFs::from_write(ABI::V6);
    let kernel = |source| RulesetError::Kernel { profile: "server".to_owned(), source };
    let mut created = hard()
        .handle_access(write | AccessFs::Execute)
        .and_then(|r| r.handle_access(AccessNet::from_all(ABI::V6)))
        .and_then(|r| r.scope(Scope::AbstractUnixSocket))
        .and_then(landlock::Ruleset::create)
        .map_err(kernel)?;
    let writable = writable.iter().map(PathBuf::as_path).chain([Path::new("/dev/null")]);
    let rights = |path: &Path| if path.is_dir() { write } else { write & AccessFs::from_file(ABI::V6) };
    let removable = removable.map(|path| (path, AccessFs::RemoveDir.into()));
    for (path, rights) in writable.map(|path| (path, rights(path))).chain(removable) {
        let open = |e| RulesetError::Open { path: path.to_owned(), source: std::io::Error::other(e) };
        let fd = PathFd::new(path).map_err(open)?;
        created = created.add_rule(PathBeneath::new(fd, rights)).map_err(kernel)?;
    }
    for port in ports {
        created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp)).map_err(kernel)?;
    }
    finish("server", Ok(created))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a thread finds behind its walls; the walls end with it.
    fn behind<T: Send + 'static>(
        writable: &Path,
        ports: &[u16],
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (writable, ports) = (vec![writable.to_owned()], ports.to_vec());
        let confined = move || {
            confine(&writable, None, &ports).unwrap();
            work()
        };
        std::thread::spawn(confined).join().unwrap()
    }

    #[test]
    fn only_the_named_directory_can_be_written() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(other.path().join("old"), "x").unwrap();
        let (inside, outside) = (own.path().join("log"), other.path().join("new"));
        let old = other.path().join("old");
        let found = behind(own.path(), &[], move || {
            [
                std::fs::write(&inside, "x").is_ok(),
                std::fs::write(&outside, "x").is_err(),
                std::fs::remove_file(&old).is_err(),
                std::fs::rename(&old, &outside).is_err(),
                std::fs::read(&old).is_ok(),
                std::fs::write("/dev/null", "x").is_ok(),
            ]
        });
        assert_eq!(found, [true; 6]);
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "that it fails is what is tested")]
    fn no_program_can_be_started_and_no_port_reached() {
        let own = tempfile::tempdir().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let found = behind(own.path(), &[], move || {
            [
                std::net::TcpStream::connect(address).is_err(),
                std::net::TcpListener::bind("127.0.0.1:0").is_err(),
                nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER).is_err(),
                nix::unistd::execv(c"/bin/true", &[c"true"]) == Err(nix::errno::Errno::EPERM),
            ]
        });
        assert_eq!(found, [true; 4]);
    }

    #[test]
    fn the_ports_of_audit_sinks_are_reached_and_no_other() {
        let own = tempfile::tempdir().unwrap();
        let bind = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (sink, other) = (bind(), bind());
        let (sink_at, other_at) = (sink.local_addr().unwrap(), other.local_addr().unwrap());
        let found = behind(own.path(), &[sink_at.port()], move || {
            [
                std::net::TcpStream::connect(sink_at).is_ok(),
                std::net::TcpStream::connect(other_at).is_err(),
                std::net::TcpListener::bind(("127.0.0.1", sink_at.port())).is_err(),
            ]
        });
        assert_eq!(found, [true; 3]);
    }
}

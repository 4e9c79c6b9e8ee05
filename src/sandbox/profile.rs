//! The kernel profile of one command: exactly which files, ports and calls it gets.
//!
//! Compiled from the policy once per command and sent to the launcher, which turns it into a
//! Landlock ruleset and a system-call filter. `explain` prints it. Nothing of a request enters here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::elf::{self, ElfError};
use super::script::{self, ScriptError};
use super::secrets::Secrets;
use super::syscalls::Switches;
use crate::config::program::Program;
use crate::config::{Command, Config, Switch};

/// Device files every program may use; they hold nothing and lead nowhere.
pub const DEVICES_WRITE: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];
/// Sources of randomness.
pub const DEVICES_READ: &[&str] = &["/dev/urandom", "/dev/random"];
/// Facts about the machine that C libraries ask for. Nothing under `/proc/PID`.
pub const PROC_FILES: &[&str] = &[
    "/proc/meminfo",
    "/proc/cpuinfo",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/kernel/ngroups_max",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/possible",
];
/// Where a recorded run may start programs.
pub const PROGRAM_PLACES: &[&str] = &[
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local",
    "/usr/share",
    "/opt",
    "/nix/store",
];
/// Terminals, for `kernel = ["pty"]`: the launcher mounts a `devpts` of its own there.
pub const TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts", "/dev/tty"];
/// POSIX message queues, for `kernel = ["ipc"]`, of the launcher's own namespace.
pub const QUEUES: &str = "/dev/mqueue";
/// The loader's cache of library places.
const LOADER_CACHE: &str = "/etc/ld.so.cache";

/// What one command may touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The allow-list entry it belongs to.
    pub name: String,
    /// The program file.
    pub program: PathBuf,
    /// Files and directories that may be executed (and read): program, loader, listed helpers.
    pub execute: Vec<PathBuf>,
    /// Files and directories that may be read.
    pub read: Vec<PathBuf>,
    /// Files that may be written (devices).
    pub write: Vec<PathBuf>,
    /// The workspace root: readable, and writable with `workspace_write`; never executable.
    pub workspace: PathBuf,
    /// Whether the workspace may be written.
    pub workspace_write: bool,
    /// TCP ports that may be connected to.
    pub tcp: Vec<u16>,
    /// What is opened beyond the closed default, each once, by name.
    pub kernel: Vec<Switch>,
    /// Terminal devices: read, written and asked.
    pub terminals: Vec<PathBuf>,
    /// Loaders of the files above: they must be executable, and are never run as programs by themselves.
    pub loaders: Vec<PathBuf>,
    /// A recorded run: only `learn` makes one, and it is never served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
}

/// What sets the profile of a recorded run apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// What it may not read though it may read everything else.
    pub secrets: Secrets,
    /// What the profile grants without being widened, which need not be recorded.
    pub granted: Vec<PathBuf>,
    /// Any TCP port may be connected to.
    pub network: bool,
}

/// Why a profile could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// A program's needs could not be read.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// The program is a script that cannot be started.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// A listed directory could not be walked.
    #[error("profile of {command}: reading directory {} failed: {source}", .path.display())]
    Walk {
        /// Allow-list entry.
        command: String,
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

impl Profile {
    /// Makes the profile of `command`, whose name resolved to `program`.
    ///
    /// # Errors
    /// Files that cannot be read or parsed.
    pub fn compile(config: &Config, command: &Command, program: &Program) -> Result<Self, ProfileError> {
        let mut execute = BTreeSet::new();
        let mut read: BTreeSet<PathBuf> = config.sandbox.read.iter().chain(&command.read).cloned().collect();
        let mut loaders = BTreeSet::new();
        let mut add = |file: &Path, granted: bool| -> Result<(), ProfileError> {
            let needs = elf::needs(file)?;
            loaders.extend(needs.loader.clone());
            if granted {
                execute.insert(file.to_owned());
            }
            if config.sandbox.libraries {
                execute.extend(needs.loader);
                read.extend(needs.libraries);
            }
            Ok(())
        };
        add(&program.real, true)?;
        for interpreter in script::interpreters(config, command, program)? {
            add(&interpreter, true)?;
        }
        for helper in &command.execute {
            if helper.is_dir() {
                for file in files_of(&command.name, helper)? {
                    add(&file, false)?;
                }
            } else {
                add(helper, true)?;
            }
        }
        execute.extend(command.execute.iter().filter(|p| p.is_dir()).cloned());
        if config.sandbox.libraries {
            read.insert(PathBuf::from(LOADER_CACHE));
        }
        read.extend(existing(DEVICES_READ.iter().chain(PROC_FILES)));
        let has = |switch| command.kernel.contains(&switch);
        // It is there, or mounted by the launcher, where the directory is.
        let queues = Some(QUEUES).filter(|path| has(Switch::Ipc) && Path::new(path).is_dir());
        Ok(Self {
            name: command.name.clone(),
            program: program.real.clone(),
            execute: execute.into_iter().filter(|p| p.exists()).collect(),
            read: read.into_iter().filter(|p| p.exists()).collect(),
            write: existing(DEVICES_WRITE).chain(queues.map(PathBuf::from)).collect(),
            workspace: config.workspace.path.clone(),
            workspace_write: config.workspace.write,
            tcp: config.network(command).to_vec(),
            kernel: command.kernel.clone(),
            terminals: if has(Switch::Pty) { existing(TERMINALS).collect() } else { Vec::new() },
            loaders: loaders.into_iter().collect(),
            recorded: None,
        })
    }

    /// The profile of a recorded run: it reads everything but `secrets`, starts what lies in the system's
    /// directories of programs, and is told of each file. What it writes must be thrown away.
    #[must_use]
    pub fn widened(mut self, secrets: Secrets, network: bool) -> Self {
        let granted = self.execute.iter().chain(&self.read).chain(&self.write).chain(&self.terminals);
        let granted = granted.cloned().collect();
        self.execute.extend(existing(PROGRAM_PLACES));
        self.read.extend(secrets.all_but());
        self.recorded = Some(Recorded { secrets, granted, network });
        self
    }

    /// Whether a switch is on.
    #[must_use]
    pub fn has(&self, switch: Switch) -> bool {
        self.kernel.contains(&switch)
    }

    /// Switches of the system-call filter.
    #[must_use]
    pub fn switches(&self) -> Switches {
        let any = self.recorded.as_ref().is_some_and(|recorded| recorded.network);
        Switches {
            write: self.workspace_write,
            tcp: any || !self.tcp.is_empty(),
            watch: self.has(Switch::Watch),
            ipc: self.has(Switch::Ipc),
            memfd: self.has(Switch::Memfd),
            pty: self.has(Switch::Pty),
        }
    }

    /// `sha256:` and 64 hex digits over the profile as the kernel gets it.
    ///
    /// # Errors
    /// A path that is not UTF-8.
    pub fn digest(&self) -> Result<String, serde_json::Error> {
        let json = serde_json::to_vec(self)?;
        Ok(Sha256::digest(&json).iter().fold("sha256:".to_owned(), |out, byte| format!("{out}{byte:02x}")))
    }
}

fn existing<'a>(paths: impl IntoIterator<Item = &'a &'a str>) -> impl Iterator<Item = PathBuf> {
    paths.into_iter().map(PathBuf::from).filter(|p| p.exists())
}

/// Regular files directly in `dir`, links followed, each once.
fn files_of(command: &str, dir: &Path) -> Result<BTreeSet<PathBuf>, ProfileError> {
    let failed = |source| ProfileError::Walk { command: command.to_owned(), path: dir.to_owned(), source };
    let mut out = BTreeSet::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if let Ok(real) = path.canonicalize()
            && real.is_file()
        {
            out.insert(real);
        }
    }
    Ok(out)
}

//! Configurations built by hand, for the tests of this room and of `cli/explain`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Policy;
use crate::config::program::{Program, Programs};
use crate::config::workspace::Workspace;
use crate::config::{
    AuditConfig, Command, Config, Environment, Limits, RunUser, SandboxConfig, Source, Toolkit,
};

/// A policy of these names over an empty safe PATH: nothing resolves, whatever the host has.
pub(crate) fn config(names: &[&str]) -> Config {
    let root = std::fs::File::open("/").unwrap();
    Config {
        source: Source::Builtin,
        digest: String::new(),
        workspace: Arc::new(Workspace {
            path: PathBuf::from("/"),
            write: false,
            repository_write: false,
            root: Arc::new(root.into()),
        }),
        environment: Environment {
            path: "/usr/bin:/bin".to_owned(),
            pass: vec!["LANG".to_owned(), "TZ".to_owned()],
            set: BTreeMap::new(),
        },
        limits: Limits {
            timeout: Duration::from_secs(30),
            max_timeout: Duration::from_secs(300),
            output_bytes: 1 << 20,
            output_lines: 20_000,
            memory: 1 << 30,
            processes: 128,
            cpu_time: Duration::from_secs(60),
            file_size: 1 << 26,
            open_files: 256,
            arguments: 4096,
            argument_bytes: 1 << 17,
            stdin_bytes: 1 << 20,
            jobs: 8,
            cgroup: crate::config::CgroupUse::Auto,
            max_jobs: 4,
            max_finished_jobs: 16,
            job_ttl: Duration::from_secs(600),
            max_job_time: Duration::from_secs(3600),
            consent_time: Duration::from_secs(300),
        },
        sandbox: SandboxConfig {
            read: vec![PathBuf::from("/usr/share")],
            libraries: true,
            network: Vec::new(),
            require: Vec::new(),
            user: RunUser::Keep,
        },
        audit: AuditConfig::new(Vec::new()),
        commands: names.iter().map(|name| ((*name).to_owned(), Arc::new(command(name)))).collect(),
        allow_patterns: Vec::new(),
        allow_any: false,
        consent: false,
        argument_rules: true,
        toolkits: BTreeMap::from([("sh".to_owned(), Toolkit::plain("sh", None))]),
        server: Default::default(),
        http: crate::config::HttpConfig::default(),
        principals: BTreeMap::new(),
        missing: Vec::new(),
        grammars: Vec::new(),
        programs: Programs::new("/nonexistent"),
    }
}

/// A listed command whose program is found under its own name.
pub(crate) fn command(name: &str) -> Command {
    let base = name.rsplit('/').next().unwrap();
    Command::plain(name, Some(program(name, base)))
}

/// A program `/usr/bin/NAME` whose file is `/usr/lib/x/REAL`.
pub(crate) fn program(name: &str, real: &str) -> Arc<Program> {
    let base = name.rsplit('/').next().unwrap();
    Arc::new(Program {
        asked: name.to_owned(),
        path: PathBuf::from("/usr/bin").join(base),
        real: PathBuf::from("/usr/lib/x").join(real),
        dev: 1,
        ino: real.bytes().fold(7, |ino, byte| ino * 31 % 1_000_003 + u64::from(byte)),
    })
}

/// The configuration after `change`, compiled.
pub(crate) fn policy(names: &[&str], change: impl FnOnce(&mut Config)) -> Policy {
    let mut config = config(names);
    change(&mut config);
    Policy::new(Arc::new(config), &[]).unwrap()
}

/// Replaces one command of a configuration.
pub(crate) fn set(config: &mut Config, command: Command) {
    config.commands.insert(command.name.clone(), Arc::new(command));
}

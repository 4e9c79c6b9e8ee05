//! From policy and launcher to what the survey of the host needs, and back to facts of a record.
//!
//! Called by `appliance.rs` and `cli/doctor`. No decision is taken here.

use super::StartError;
use crate::audit::{Audit, AuditError, HostFacts};
use crate::config::{Config, Source};
use crate::launch::{Facts, requirements};
use crate::sandbox::host::{Commands, Finding, Host, Own, Places, Verdict, findings, survey};

/// Reads the facts of this host, for `config` and what the launcher read back.
///
/// # Errors
/// The directory of the audit records cannot be told.
pub fn look(config: &Config, facts: &Facts) -> Result<Host, AuditError> {
    let file = match &config.source {
        Source::Builtin | Source::Environment | Source::Program => None,
        Source::File(path) => Some(path.clone()),
    };
    Ok(survey(&Places {
        workspace: config.workspace.path.clone(),
        audit: Audit::directories(&config.audit)?,
        policy: file.into_iter().chain(config.grammars.iter().map(|own| own.path.clone())).collect(),
        scratch: facts.scratch.clone().filter(|_| facts.scratch_slots == 0),
        uid: facts.uid,
    }))
}

/// What the facts mean.
#[must_use]
pub fn judged(config: &Config, facts: &Facts, host: &Host) -> Vec<Finding> {
    findings(
        host,
        &Commands {
            ids: (facts.uid, facts.gid),
            caps: facts.caps,
            no_new_privs: facts.no_new_privs,
            mount_namespace: facts.mount_namespace,
            workspace: facts.workspace_mount.clone(),
            write: config.workspace.write,
            scratch: facts.scratch_mount.clone(),
            own_scratch: facts.scratch_slots > 0,
            mounts: facts.mounts.clone(),
        },
    )
}

/// Refuses at the first requirement that is not met. The host is looked at where one needs it, and
/// where `always` asks for it.
pub(super) fn require(config: &Config, facts: &Facts, always: bool) -> Result<Option<Host>, StartError> {
    let needed = always || config.sandbox.require.iter().any(|one| requirements::needs_host(*one));
    let host = if needed { Some(look(config, facts)?) } else { None };
    for requirement in &config.sandbox.require {
        requirements::check(*requirement, facts, host.as_ref())
            .map_err(|unmet| StartError::Launch(unmet.into()))?;
    }
    Ok(host)
}

/// What the record `server.start` says of the host. `own` is what the server reads of itself after its
/// own walls are up.
pub(super) fn recorded(config: &Config, facts: &Facts, host: &Host, own: Option<&Own>) -> HostFacts {
    let found = judged(config, facts, host);
    let not_ok = found.iter().filter(|own| own.verdict != Verdict::Ok);
    HostFacts {
        kernel: host.kernel.clone().unwrap_or_else(|_| "unknown".to_owned()),
        container: host.container.as_ref().map_or_else(|| "none".to_owned(), |own| own.runtime.clone()),
        mount_namespace: facts.mount_namespace,
        confined: own.is_some_and(|own| own.no_new_privs && own.seccomp == 2),
        required: config.sandbox.require.iter().map(ToString::to_string).collect(),
        findings: not_ok.map(|own| format!("{}={}", own.id, own.verdict.as_str())).collect(),
        facts: found.iter().map(|own| format!("{}: {}", own.id, own.value)).collect(),
    }
}

//! One appliance after another: the same launcher, sinks and wrapper under a policy that was loaded anew.
//!
//! Purpose: what runs keeps its appliance to the end and is recorded under its own digest; what comes later
//! finds the new one. Inputs: the appliance in force and a validated policy. Called by `ops/live.rs`, which
//! records before it swaps.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::{Appliance, records};
use crate::audit::{AuditError, PolicyLoad, PolicyReject};
use crate::config::examples::{self, Failure};
use crate::config::{Config, server_environment};
use crate::launch::LaunchError;
use crate::policy::consent::Consents;
use crate::policy::{Policy, PolicyError};

/// Why an appliance cannot go on under another policy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    /// The policy does not fit together.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Its secrets cannot be kept out of the records.
    #[error(transparent)]
    Audit(#[from] AuditError),
}

impl Appliance {
    /// This appliance under another policy. The settings that [`crate::config::reload::fixed`] names must be
    /// the same: they are the caller's to check. Questions to people that are open are void.
    pub(crate) fn renewed(&self, config: Config) -> Result<Self, Unfit> {
        let config = Arc::new(config);
        let policy = Policy::new(Arc::clone(&config), &server_environment())?;
        Ok(Self {
            policy,
            launcher: Arc::clone(&self.launcher),
            seam: Arc::clone(&self.seam),
            audit: self.audit.under(records::origin(&config))?,
            places: self.places.renewed(&config),
            consents: Consents::new(config.limits.consent_time),
            made: Instant::now(),
            profiles: Mutex::new(HashMap::new()),
            host: self.host.clone(),
            recording: self.recording.clone(),
            touched: Mutex::new(Vec::new()),
        })
    }

    /// Examples of its policy whose verdict is another one than the policy says.
    pub(crate) fn failed_examples(&self) -> Vec<Failure> {
        examples::run(self.config(), |argv| {
            let argv: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
            self.policy.judge_argv(&argv, None).map(drop).map_err(|denial| denial.message)
        })
    }

    /// Records the policy in force, and the one before.
    pub(crate) async fn announce_policy(&self, previous: Option<String>) -> Result<(), AuditError> {
        self.audit.policy_load(&PolicyLoad { previous, ..records::policy_load(self.config()) }).await
    }

    /// Records that another policy was not taken.
    pub(crate) async fn announce_rejected(&self, code: &'static str, text: &str) -> Result<(), AuditError> {
        self.audit.policy_reject(&PolicyReject { code, text }).await
    }

    /// Lets go of the supervisors that wait under the profiles of earlier policies.
    pub(crate) fn retire_supervisors(&self) -> Result<(), LaunchError> {
        self.launcher.retire()
    }

    /// Supervisors at work, and those that wait for work.
    ///
    /// # Errors
    /// A thread panicked while it held the launcher.
    pub fn supervisors(&self) -> Result<(usize, usize), LaunchError> {
        self.launcher.supervisors()
    }

    /// Whether the launcher, without which nothing runs, is there.
    #[must_use]
    pub fn launcher_lives(&self) -> bool {
        self.launcher.lives()
    }

    /// The log of this appliance.
    #[must_use]
    pub fn audit(&self) -> &crate::audit::Audit {
        &self.audit
    }

    /// Places that are free, and places that there are, for runs at the same time.
    #[must_use]
    pub fn free_places(&self) -> (usize, usize) {
        self.places.free()
    }
}

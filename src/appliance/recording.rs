//! The runs of an appliance that `learn` made: nothing stays of what they write, and what they touch is kept.
//!
//! Purpose: apart from the appliance that serves, which never records. Inputs: a policy and what may not be
//! read. Called by `cli/learn`; [`Appliance::run`] hands over what a run touched.

use std::sync::Arc;

use super::{Appliance, StartError, host};
use crate::config::Config;
use crate::launch::{LaunchError, Touch};
use crate::sandbox::secrets::Secrets;

/// How the runs of an appliance are recorded that `learn` made.
#[derive(Debug, Clone)]
pub struct Recording {
    /// What they may not read.
    pub secrets: Secrets,
    /// They may connect to any TCP port.
    pub network: bool,
}

impl Appliance {
    /// As [`Appliance::start`], but nothing stays of what commands write into the workspace, and with
    /// `recording` they run in a profile that is wider than the policy's and is told of all that they touch.
    ///
    /// # Errors
    /// As [`Appliance::start`], or where the host has no means to throw writes away.
    pub fn start_throw_away(config: Config, recording: Option<Recording>) -> Result<Self, StartError> {
        let config = Arc::new(config);
        let launcher = crate::launch::start_throw_away(&config)?;
        host::require(&config, launcher.facts(), false)?;
        Ok(Self { recording, ..Self::with(config, launcher)? })
    }

    /// What recorded runs have touched since this was asked last.
    ///
    /// # Errors
    /// A thread panicked while it held the list.
    pub fn take_touched(&self) -> Result<Vec<Touch>, LaunchError> {
        let mut held = self.touched.lock().map_err(|e| LaunchError::new("recorder", 0, &e.to_string()))?;
        Ok(std::mem::take(&mut *held))
    }

    /// Moves what a run touched to the rest.
    pub(super) fn keep_touched(&self, more: &mut Vec<Touch>) {
        // Poisoned only by a panic, and then nobody asks for it any more.
        if let Ok(mut touched) = self.touched.lock() {
            touched.append(more);
        }
    }
}

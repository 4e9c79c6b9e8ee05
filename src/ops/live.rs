//! A served appliance whose policy can be replaced while it runs.
//!
//! Purpose: one pointer that every call reads once. A reload is validated whole (its examples judged), recorded
//! durably, and only then swapped in; whatever goes wrong before leaves the policy in force where it is, and is
//! recorded too. Inputs: an appliance and a way to load its policy again. Called by `cli/serve`; transports
//! take it for a [`Runner`].

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Meters;
use super::meters::add;
use crate::appliance::reload::Unfit;
use crate::appliance::{Appliance, Call, Judged, LineCall, LineOutcome, Outcome};
use crate::audit::{AuditError, BatchEnd, BatchStart, Context};
use crate::config::{Config, reload};
use crate::mcp::{Offer, Runner};
use crate::policy::PolicyError;

/// Loads the policy again; the text says what is wrong with it.
pub type Load = dyn Fn() -> Result<Config, Fault> + Send + Sync;

/// Why a policy could not even be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is not valid, or cannot be read.
    Invalid(String),
    /// Others than its owner could have written it.
    Untrusted(String),
}

/// Why the policy in force stays.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// It is not valid, or cannot be read.
    #[error("{0}")]
    Invalid(String),
    /// Others could have written it.
    #[error("not read again: {0}")]
    Untrusted(String),
    /// It does not fit together.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Examples of it do not hold.
    #[error("examples do not hold: {0}")]
    Examples(String),
    /// It changes what was set up at start.
    #[error("a reload cannot change {}: restart the server for it", .0.join(", "))]
    Fixed(Vec<String>),
    /// No durable record of it.
    #[error("the change could not be recorded: {0}")]
    Audit(#[from] AuditError),
    /// A fault of the server.
    #[error("{0}")]
    Internal(String),
}

impl ReloadError {
    /// The field `error_code` of the record.
    fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) | Self::Policy(_) => "policy_invalid",
            Self::Untrusted(_) => "policy_untrusted",
            Self::Examples(_) => "policy_examples",
            Self::Fixed(_) => "policy_needs_restart",
            Self::Audit(_) => "audit_unavailable",
            Self::Internal(_) => "internal",
        }
    }
}

/// A policy that was swapped in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Its digest.
    pub digest: String,
    /// That of the one before.
    pub previous: String,
    /// What it leaves open, to be said loudly.
    pub warnings: Vec<String>,
}

/// An appliance in force, and how it is replaced.
pub struct Live {
    now: Mutex<Arc<Appliance>>,
    load: Box<Load>,
    changes: watch::Sender<u64>,
    /// One reload at a time.
    turn: tokio::sync::Mutex<()>,
    meters: Meters,
}

impl Live {
    /// Serves `appliance`, whose policy `load` loads again.
    #[must_use]
    pub fn new(
        appliance: Appliance,
        load: impl Fn() -> Result<Config, Fault> + Send + Sync + 'static,
    ) -> Self {
        Self {
            now: Mutex::new(Arc::new(appliance)),
            load: Box::new(load),
            changes: watch::Sender::new(0),
            turn: tokio::sync::Mutex::new(()),
            meters: Meters::default(),
        }
    }

    /// The appliance in force. Take it once a call: the next one may be another.
    #[must_use]
    pub fn now(&self) -> Arc<Appliance> {
        // Nothing panics while it holds the lock.
        Arc::clone(&self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The counters.
    #[must_use]
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Loads the policy again and puts it in force: for every call that begins after this returns, and for none
    /// that has begun before. When it fails, the policy in force stays, and a record says why.
    ///
    /// # Errors
    /// Why the policy in force stays.
    pub async fn reload(self: &Arc<Self>) -> Result<Reloaded, ReloadError> {
        let _turn = self.turn.lock().await;
        let error = match self.replace().await {
            Ok(reloaded) => {
                add(&self.meters.reloads);
                return Ok(reloaded);
            }
            Err(error) => error,
        };
        add(&self.meters.reloads_refused);
        if let Err(unrecorded) = self.now().announce_rejected(error.code(), &error.to_string()).await {
            tracing::error!("that a policy was rejected could not be recorded: {unrecorded}");
        }
        Err(error)
    }

    async fn replace(self: &Arc<Self>) -> Result<Reloaded, ReloadError> {
        let live = Arc::clone(self);
        // It reads files, of which there may be many.
        let loaded = tokio::task::spawn_blocking(move || live.loaded()).await;
        let new =
            loaded.map_err(|e| ReloadError::Internal(format!("the load of the policy failed: {e}")))??;
        let (old, new) = (self.now(), Arc::new(new));
        let (previous, digest) = (old.config().digest.clone(), new.config().digest.clone());
        new.announce_policy(Some(previous.clone())).await?;
        let warnings = new.config().warnings();
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&new);
        self.changes.send_modify(|version| *version += 1);
        // From here on it is in force: what waits under an old profile is of no use any more.
        if let Err(error) = new.retire_supervisors() {
            tracing::error!("supervisors of the earlier policy stay: {error}");
        }
        Ok(Reloaded { digest, previous, warnings })
    }

    fn loaded(&self) -> Result<Appliance, ReloadError> {
        let config = (self.load)().map_err(|fault| match fault {
            Fault::Invalid(text) => ReloadError::Invalid(text),
            Fault::Untrusted(text) => ReloadError::Untrusted(text),
        })?;
        let old = self.now();
        let fixed = reload::fixed(old.config(), &config);
        if !fixed.is_empty() {
            return Err(ReloadError::Fixed(fixed));
        }
        let new = old.renewed(config).map_err(|unfit| match unfit {
            Unfit::Policy(error) => ReloadError::Policy(error),
            Unfit::Audit(error) => ReloadError::Audit(error),
        })?;
        let failed = new.failed_examples();
        if !failed.is_empty() {
            let failed: Vec<String> = failed.iter().map(ToString::to_string).collect();
            return Err(ReloadError::Examples(failed.join("; ")));
        }
        Ok(new)
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Live").field("now", &self.now().config().digest).finish_non_exhaustive()
    }
}

impl Runner for Live {
    fn offer(&self) -> Offer {
        Offer::of(self.now().config())
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.changes.subscribe())
    }

    fn run(&self, call: Call, cancel: CancellationToken) -> impl Future<Output = Outcome> + Send {
        let now = self.now();
        async move {
            let _one = self.meters.in_flight.one();
            let outcome = now.run(call, cancel).await;
            self.meters.ran(&outcome);
            outcome
        }
    }

    fn run_line(
        &self,
        call: LineCall,
        cancel: CancellationToken,
    ) -> impl Future<Output = LineOutcome> + Send {
        let now = self.now();
        async move {
            let _one = self.meters.in_flight.one();
            let outcome = now.run_line(call, cancel).await;
            self.meters.ran_line(&outcome);
            outcome
        }
    }

    fn batch_start(
        &self,
        context: &Context,
        batch: &BatchStart,
    ) -> impl Future<Output = Result<(), AuditError>> + Send {
        let now = self.now();
        async move { now.batch_start(context, batch).await }
    }

    fn batch_end(
        &self,
        context: &Context,
        batch: &BatchStart,
        end: &BatchEnd,
    ) -> impl Future<Output = Result<(), AuditError>> + Send {
        let now = self.now();
        async move { now.batch_end(context, batch, end).await }
    }

    fn judge(&self, call: Call) -> impl Future<Output = Result<Judged, AuditError>> + Send {
        let now = self.now();
        async move { now.judge_only(call).await }
    }

    fn judge_line(&self, call: LineCall) -> impl Future<Output = Result<Judged, AuditError>> + Send {
        let now = self.now();
        async move { now.judge_line_only(call).await }
    }
}

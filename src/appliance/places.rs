//! Places among the runs that a policy allows at the same time.
//!
//! Purpose: one count for all runs, and one more for each toolkit that has a limit of its own. Called by
//! `appliance.rs` before a run is recorded; a place is held until its end is.

use std::collections::HashMap;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Toolkit};
use crate::policy::{Denial, Reason, RuleKind};

/// All places of an appliance.
#[derive(Debug)]
pub(super) struct Places {
    all: Semaphore,
    most: usize,
    /// Those of toolkits, with how many there are.
    kits: HashMap<String, (Semaphore, usize)>,
}

/// One place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place<'p> {
    _of_all: SemaphorePermit<'p>,
    _of_kit: Option<SemaphorePermit<'p>>,
}

impl Places {
    pub(super) fn new(config: &Config) -> Self {
        let own = |(prefix, kit): (&String, &Toolkit)| {
            let jobs = kit.limits.as_ref()?.jobs;
            Some((prefix.clone(), (Semaphore::new(jobs), jobs)))
        };
        let most = config.limits.jobs;
        Self { all: Semaphore::new(most), most, kits: config.toolkits.iter().filter_map(own).collect() }
    }

    /// A place for a run that comes through `toolkit`.
    pub(super) fn take(&self, toolkit: Option<&str>) -> Result<Place<'_>, Denial> {
        let kit = toolkit.and_then(|prefix| self.kits.get(prefix).map(|own| (prefix, own)));
        let of_kit = match kit {
            None => None,
            Some((prefix, (places, most))) => Some(
                places.try_acquire().map_err(|_| full(*most, &format!("toolkit.{prefix}.limits.jobs")))?,
            ),
        };
        let of_all = self.all.try_acquire().map_err(|_| full(self.most, "limits.jobs"))?;
        Ok(Place { _of_all: of_all, _of_kit: of_kit })
    }

    /// The same, once there is one; a caller that goes away gets none. The place of the toolkit comes first,
    /// always: nobody waits for it who holds one of all.
    pub(super) async fn wait(
        &self,
        toolkit: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Place<'_>, Denial> {
        let kit = toolkit.and_then(|prefix| self.kits.get(prefix).map(|own| (prefix, own)));
        let both = async {
            let of_kit = match kit {
                None => None,
                Some((prefix, (places, most))) => Some(
                    places.acquire().await.map_err(|_| full(*most, &format!("toolkit.{prefix}.limits.jobs")))?,
                ),
            };
            let of_all = self.all.acquire().await.map_err(|_| full(self.most, "limits.jobs"))?;
            Ok(Place { _of_all: of_all, _of_kit: of_kit })
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(given_up()),
            place = both => place,
        }
    }
}

/// Why a command got no place: nobody waits for it any more.
fn given_up() -> Denial {
    let message = "cancelled, or out of time, while it waited for a place among the commands that run";
    Denial::new("limits.jobs", RuleKind::Limit, Reason::RateLimited, message)
        .instead("ask for fewer commands at once, or again when others have ended")
}

fn full(most: usize, key: &str) -> Denial {
    let message = format!(
        "{most} commands run already, as many as the policy allows ({key}); try again when one has ended"
    );
    Denial::new("limits.jobs", RuleKind::Limit, Reason::RateLimited, message)
        .instead("try again when one has ended")
}

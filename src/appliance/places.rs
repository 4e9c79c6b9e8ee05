//! Places among the runs that a policy allows at the same time.
//!
//! Purpose: one count for all runs, and one more for each toolkit that has a limit of its own. Called by
//! `appliance.rs` before a run is recorded; a place is held until its end is.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Toolkit};
use crate::policy::{Denial, Reason, RuleKind};

/// All places of an appliance.
#[derive(Debug)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    most: usize,
    /// Those of toolkits, with how many there are.
    kits: HashMap<String, (Arc<Semaphore>, usize)>,
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
            Some((prefix.clone(), (Arc::new(Semaphore::new(jobs)), jobs)))
        };
        let most = config.limits.jobs;
        let kits = config.toolkits.iter().filter_map(own).collect();
        Self { all: Arc::new(Semaphore::new(most)), most, kits }
    }

    /// Those of another policy that allows as many runs in all: what runs already counts on. A toolkit whose
    /// own number is another one counts anew.
    pub(super) fn renewed(&self, config: &Config) -> Self {
        let mut new = Self { all: Arc::clone(&self.all), most: self.most, ..Self::new(config) };
        for (prefix, (places, most)) in &mut new.kits {
            if let Some((old, _)) = self.kits.get(prefix).filter(|(_, old)| old == most) {
                *places = Arc::clone(old);
            }
        }
        new
    }

    /// Places that are free, and all that there are.
    pub(super) fn free(&self) -> (usize, usize) {
        (self.all.available_permits(), self.most)
    }

    /// A place for a run that comes through `toolkit`.
    pub(super) fn take(&self, toolkit: Option<&str>) -> Result<Place<'_>, Denial> {
        self.take_many(toolkit, 1)
    }

    /// Places for `many` commands that run at the same time: all of them, or none.
    pub(super) fn take_many(&self, toolkit: Option<&str>, many: usize) -> Result<Place<'_>, Denial> {
        let kit = toolkit.and_then(|prefix| self.kits.get(prefix).map(|own| (prefix, own)));
        let of_kit = match kit {
            None => None,
            Some((prefix, (places, most))) => {
                Some(take(places, many, *most, &format!("toolkit.{prefix}.limits.jobs"))?)
            }
        };
        Ok(Place { _of_all: take(&self.all, many, self.most, "limits.jobs")?, _of_kit: of_kit })
    }

    /// The same, once there are as many; a caller that goes away gets none. Those of the toolkit come first,
    /// always: nobody waits for them who holds some of all.
    pub(super) async fn wait_many(
        &self,
        toolkit: Option<&str>,
        many: usize,
        cancel: &CancellationToken,
    ) -> Result<Place<'_>, Denial> {
        let kit = toolkit.and_then(|prefix| self.kits.get(prefix).map(|own| (prefix, own)));
        let both = async {
            let of_kit = match kit {
                None => None,
                Some((prefix, (places, most))) => {
                    Some(wait(places, many, *most, &format!("toolkit.{prefix}.limits.jobs")).await?)
                }
            };
            Ok(Place { _of_all: wait(&self.all, many, self.most, "limits.jobs").await?, _of_kit: of_kit })
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

async fn wait<'p>(
    of: &'p Semaphore,
    many: usize,
    most: usize,
    key: &str,
) -> Result<SemaphorePermit<'p>, Denial> {
    let asked = u32::try_from(many).ok().filter(|_| many <= most).ok_or_else(|| never(many, most, key))?;
    of.acquire_many(asked).await.map_err(|_| full(most, key))
}

fn take<'p>(of: &'p Semaphore, many: usize, most: usize, key: &str) -> Result<SemaphorePermit<'p>, Denial> {
    let asked = u32::try_from(many).ok().filter(|_| many <= most).ok_or_else(|| never(many, most, key))?;
    of.try_acquire_many(asked).map_err(|_| full(most, key))
}

/// More at once than there will ever be.
fn never(many: usize, most: usize, key: &str) -> Denial {
    let message =
        format!("{many} commands of one pipeline run at the same time; the policy allows {most} ({key})");
    Denial::new("limits.jobs", RuleKind::Limit, Reason::LimitTooHigh, message)
        .instead("use a shorter pipeline")
}

fn full(most: usize, key: &str) -> Denial {
    let message = format!(
        "{most} commands run already, as many as the policy allows ({key}); try again when one has ended"
    );
    Denial::new("limits.jobs", RuleKind::Limit, Reason::RateLimited, message)
        .instead("try again when one has ended")
}

//! Places among the runs that a policy allows at the same time.
//!
//! Purpose: one count for all runs, and one more for each toolkit that has a limit of its own; members of a
//! batch wait for places, and hold none while they wait. Called by `appliance.rs` and `line/execute.rs` before
//! a run is recorded; a place is held until its end is.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
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
    /// Those who wait take turns, first come first.
    turns: Arc<Semaphore>,
    /// A place was given back.
    freed: Arc<Notify>,
}

/// One place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place<'p> {
    _of_all: SemaphorePermit<'p>,
    _of_kit: Option<SemaphorePermit<'p>>,
    /// Of one that waited.
    _turn: Option<SemaphorePermit<'p>>,
    /// Last: those who wait look when the places are back.
    _freed: Freed<'p>,
}

impl Places {
    pub(super) fn new(config: &Config) -> Self {
        let own = |(prefix, kit): (&String, &Toolkit)| {
            let jobs = kit.limits.as_ref()?.jobs;
            Some((prefix.clone(), (Arc::new(Semaphore::new(jobs)), jobs)))
        };
        let most = config.limits.jobs;
        let kits = config.toolkits.iter().filter_map(own).collect();
        let (turns, freed) = (Arc::new(Semaphore::new(turns(most))), Arc::default());
        Self { all: Arc::new(Semaphore::new(most)), most, kits, turns, freed }
    }

    /// Those of another policy that allows as many runs in all: what runs already counts on. A toolkit whose
    /// own number is another one counts anew.
    pub(super) fn renewed(&self, config: &Config) -> Self {
        let (all, turns, freed) = (Arc::clone(&self.all), Arc::clone(&self.turns), Arc::clone(&self.freed));
        let mut new = Self { all, most: self.most, turns, freed, ..Self::new(config) };
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
        let of_all = take(&self.all, many, self.most, "limits.jobs")?;
        Ok(Place { _of_all: of_all, _of_kit: of_kit, _turn: None, _freed: Freed(&self.freed) })
    }

    /// The same, once there are as many; a caller that goes away gets none.
    ///
    /// Who waits holds none of the places that others may take: it waits in a line of its own, whose members
    /// have no more than half of all places together, and takes what it needs in one piece when it is there.
    /// A call that does not wait is therefore refused only when as many run as the policy allows.
    pub(super) async fn wait_many(
        &self,
        toolkit: Option<&str>,
        many: usize,
        cancel: &CancellationToken,
    ) -> Result<Place<'_>, Denial> {
        let taken = async {
            let turn = self.turns.acquire_many(self.turns_for(many)).await.map_err(|_| given_up())?;
            loop {
                let mut freed = std::pin::pin!(self.freed.notified());
                // From here on no place is given back unheard.
                freed.as_mut().enable();
                match self.take_many(toolkit, many) {
                    Ok(place) => return Ok(Place { _turn: Some(turn), ..place }),
                    Err(denial) if denial.reason == Reason::RateLimited => freed.await,
                    Err(denial) => return Err(denial),
                }
            }
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(given_up()),
            place = taken => place,
        }
    }

    /// What `many` places take of the line of those who wait: a wide pipeline has it to itself.
    fn turns_for(&self, many: usize) -> u32 {
        u32::try_from(many.min(turns(self.most))).unwrap_or(u32::MAX)
    }
}

/// Places that those who wait have together.
fn turns(most: usize) -> usize {
    (most / 2).max(1)
}

/// Tells those who wait that a place was given back.
#[derive(Debug)]
struct Freed<'p>(&'p Notify);

impl Drop for Freed<'_> {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

/// Why a command got no place: nobody waits for it any more.
fn given_up() -> Denial {
    let message = "cancelled, or out of time, while it waited for a place among the commands that run";
    Denial::new("limits.jobs", RuleKind::Limit, Reason::RateLimited, message)
        .instead("ask for fewer commands at once, or again when others have ended")
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn places(jobs: usize) -> Places {
        let mut config = crate::policy::testing::config(&[]);
        config.limits.jobs = jobs;
        Places::new(&config)
    }

    fn polled<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn who_waits_holds_no_place() {
        let (places, never) = (places(4), CancellationToken::new());
        let held: Vec<_> = (0..3).map(|_| places.take(None).unwrap()).collect();
        // A pipeline of three waits for two more: the one that is left is not reserved for it.
        let mut wide = pin!(places.wait_many(None, 3, &never));
        assert!(polled(wide.as_mut()).is_pending());
        let single = places.take(None).unwrap();
        assert!(places.take(None).is_err(), "four run");
        drop(single);
        assert!(polled(wide.as_mut()).is_pending());
        let mut held = held.into_iter();
        drop(held.next());
        drop(places.take(None).unwrap());
        drop(held.next());
        let Poll::Ready(Ok(wide)) = polled(wide.as_mut()) else { panic!("three places are there") };
        assert!(places.take(None).is_err());
        drop(wide);
        assert!(places.take_many(None, 3).is_ok());
    }

    #[test]
    fn those_who_wait_leave_half_of_the_places_to_others() {
        let (places, never) = (places(4), CancellationToken::new());
        let first = pin!(places.wait_many(None, 1, &never));
        let second = pin!(places.wait_many(None, 1, &never));
        let mut third = pin!(places.wait_many(None, 1, &never));
        let (Poll::Ready(Ok(first)), Poll::Ready(Ok(_second))) = (polled(first), polled(second)) else {
            panic!("two are free")
        };
        assert!(polled(third.as_mut()).is_pending());
        let _singles = (places.take(None).unwrap(), places.take(None).unwrap());
        drop(first);
        assert!(polled(third).is_ready());
    }

    #[test]
    fn nobody_waits_for_what_there_never_is_or_after_he_went_away() {
        let (places, cancel) = (places(2), CancellationToken::new());
        let Poll::Ready(Err(never)) = polled(pin!(places.wait_many(None, 3, &cancel))) else { panic!() };
        assert_eq!(never.reason, Reason::LimitTooHigh);
        let _both = places.take_many(None, 2).unwrap();
        let mut waits = pin!(places.wait_many(None, 1, &cancel));
        assert!(polled(waits.as_mut()).is_pending());
        cancel.cancel();
        let Poll::Ready(Err(gone)) = polled(waits) else { panic!() };
        assert!(gone.message.starts_with("cancelled"), "{}", gone.message);
    }
}

//! Background jobs: runs that outlive the request that started them.
//!
//! Purpose: mint handles, hold at most so many running and so many finished jobs, forget finished ones
//! after their time, and let every job end exactly once. What a job does is a future handed in by the
//! caller, and what became of it a value of the caller's: nothing here starts a process. A job ends when its
//! future does; it is told to by [`Job::kill`] and by the end of the server, through its token.

mod job;

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use job::{Handle, Job};

/// Handles of forgotten jobs that are remembered, to say why they are gone.
const REMEMBERED: usize = 256;

/// Bounds of a registry.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Jobs that run at the same time.
    pub running: usize,
    /// Finished jobs that are kept.
    pub finished: usize,
    /// How long one is kept.
    pub ttl: Duration,
}

/// Why a handle leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// No job ever had it, or one of another owner has.
    Unknown,
    /// Its time was over.
    Expired,
    /// Too many have finished since.
    Displaced,
}

/// What a job became.
pub trait Became: Send + Sync + 'static {
    /// Whether there ever was a job: not when it was refused. Its handle leads nowhere then.
    fn came_about(&self) -> bool;
}

/// All jobs of a server. `E` is what became of a job.
#[derive(Debug)]
pub struct Jobs<E> {
    bounds: Bounds,
    /// Those of owners that have some of their own, beside the bounds of all.
    owners: HashMap<String, Bounds>,
    stop: CancellationToken,
    /// Counts what has become known of any job.
    changes: watch::Sender<u64>,
    state: Mutex<State<E>>,
}

#[derive(Debug)]
struct State<E> {
    minted: u64,
    running: Vec<Arc<Job<E>>>,
    finished: VecDeque<Arc<Job<E>>>,
    gone: VecDeque<(String, String, Gone)>,
}

impl<E: Became> Jobs<E> {
    /// An empty registry; `stop` ends every job. `owners` have bounds of their own, within those of all.
    #[must_use]
    pub fn new(bounds: Bounds, owners: HashMap<String, Bounds>, stop: CancellationToken) -> Self {
        let (running, finished, gone) = (Vec::new(), VecDeque::new(), VecDeque::new());
        let (changes, state) = (watch::Sender::new(0), State { minted: 0, running, finished, gone });
        Self { bounds, owners, stop, changes, state: Mutex::new(state) }
    }

    /// Changes whenever a job has begun ([`Jobs::changed`]) or ended, from this call on.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Says that a job has become something that those who wait for [`Jobs::changes`] want to see.
    pub fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// All jobs that have a handle, in the order of their start.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Job<E>>> {
        let state = self.state();
        let mut all: Vec<_> = state.running.iter().chain(&state.finished).cloned().collect();
        all.sort_by_key(|job| job.number);
        all
    }

    /// Mints a job, which counts as running and is found by its handle from here on: [`Jobs::start`] it.
    ///
    /// # Errors
    /// The jobs in the way, when as many run as may.
    pub fn admit(&self, handle: Handle) -> Result<Arc<Job<E>>, Vec<Arc<Job<E>>>> {
        let mut state = self.state();
        if state.running.len() >= self.bounds.running {
            return Err(state.running.clone());
        }
        let own = state.running.iter().filter(|job| job.handle.owner == handle.owner);
        if own.clone().count() >= self.bounds(&handle.owner).running {
            return Err(own.cloned().collect());
        }
        state.minted += 1;
        let job = Arc::new(Job::new(state.minted, handle, self.stop.child_token()));
        state.running.push(Arc::clone(&job));
        Ok(job)
    }

    /// Starts an admitted job: `run` makes its future, which is given the token that tells it to end. `lost`
    /// is what became of it when the future panics.
    pub fn start<F: Future<Output = E> + Send + 'static>(
        self: &Arc<Self>,
        job: &Arc<Job<E>>,
        run: impl FnOnce(CancellationToken) -> F,
        lost: impl FnOnce() -> E + Send + 'static,
    ) {
        let work = tokio::spawn(run(job.cancel.clone()));
        let (jobs, watched) = (Arc::clone(self), Arc::clone(job));
        tokio::spawn(async move {
            let became = work.await.unwrap_or_else(|error| {
                tracing::error!(%error, job = %watched.id, "a job ended in a panic");
                lost()
            });
            jobs.finished(&watched, became);
            watched.over.cancel();
            jobs.changed();
            let (id, ttl) = (watched.id.clone(), jobs.bounds(&watched.handle.owner).ttl);
            drop(watched);
            tokio::select! {
                () = tokio::time::sleep(ttl) => jobs.forget(&id, Gone::Expired),
                () = jobs.stop.cancelled() => {}
            }
        });
    }

    /// The job of a handle, among those of `owner`.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find(&self, owner: &str, id: &str) -> Result<Arc<Job<E>>, Gone> {
        let state = self.state();
        let mut known = state.running.iter().chain(&state.finished);
        if let Some(job) = known.find(|job| job.id == id && job.handle.owner == owner) {
            return Ok(Arc::clone(job));
        }
        let past = state.gone.iter().find(|(past, whose, _)| past == id && whose == owner);
        Err(past.map_or(Gone::Unknown, |(_, _, why)| *why))
    }

    /// The bounds it keeps for `owner`.
    #[must_use]
    pub fn bounds(&self, owner: &str) -> Bounds {
        self.owners.get(owner).copied().unwrap_or(self.bounds)
    }

    /// Whoever sees that a job has ended finds its place free.
    fn finished(&self, job: &Arc<Job<E>>, became: E) {
        let mut state = self.state();
        job.end(became);
        let before = state.running.len();
        state.running.retain(|other| other.id != job.id);
        if state.running.len() < before && job.ended().is_some_and(Became::came_about) {
            state.finished.push_back(Arc::clone(job));
        }
        let owner = &job.handle.owner;
        while state.finished.iter().filter(|other| other.handle.owner == *owner).count()
            > self.bounds(owner).finished
        {
            let oldest = state.finished.iter().position(|other| other.handle.owner == *owner);
            match oldest.and_then(|at| state.finished.remove(at)) {
                Some(oldest) => state.remember(&oldest, Gone::Displaced),
                None => break,
            }
        }
        while state.finished.len() > self.bounds.finished {
            if let Some(oldest) = state.finished.pop_front() {
                state.remember(&oldest, Gone::Displaced);
            }
        }
    }

    fn forget(&self, id: &str, why: Gone) {
        let mut state = self.state();
        if let Some(at) = state.finished.iter().position(|job| job.id == id)
            && let Some(job) = state.finished.remove(at)
        {
            state.remember(&job, why);
        }
    }

    fn state(&self) -> MutexGuard<'_, State<E>> {
        // Every change of it is one push or one removal: a panic leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E> State<E> {
    fn remember(&mut self, job: &Job<E>, why: Gone) {
        if self.gone.len() >= REMEMBERED {
            self.gone.pop_front();
        }
        self.gone.push_back((job.id.clone(), job.handle.owner.clone(), why));
    }
}

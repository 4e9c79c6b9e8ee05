//! One background job: who it belongs to, what it has written, and its one end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use tokio_util::sync::CancellationToken;

use crate::run::Tap;

/// What a job is known by beside its id.
#[derive(Debug)]
pub struct Handle {
    /// Those who may use it: the prefix of the tool that started it.
    pub owner: String,
    /// The program, for people.
    pub name: String,
    /// Its output.
    pub tap: Arc<Tap>,
}

/// A job, running or finished.
#[derive(Debug)]
pub struct Job<E> {
    /// `j1-1x9k2w`: a handle, not a secret.
    pub id: String,
    /// Owner, name, output.
    pub handle: Handle,
    /// When it was started.
    pub started_at: SystemTime,
    /// How many were there before, and this one.
    pub(super) number: u64,
    since: Instant,
    kill_asked: AtomicBool,
    ended: OnceLock<(Duration, E)>,
    pub(super) cancel: CancellationToken,
    pub(super) over: CancellationToken,
}

impl<E> Job<E> {
    pub(super) fn new(number: u64, handle: Handle, cancel: CancellationToken) -> Self {
        Self {
            id: format!("j{number}-{}", suffix()),
            handle,
            started_at: SystemTime::now(),
            number,
            since: Instant::now(),
            kill_asked: AtomicBool::new(false),
            ended: OnceLock::new(),
            cancel,
            over: CancellationToken::new(),
        }
    }

    /// Its end: only the first one counts.
    pub(super) fn end(&self, became: E) {
        self.ended.get_or_init(|| (self.since.elapsed(), became));
    }

    /// What became of it, once it has ended.
    #[must_use]
    pub fn ended(&self) -> Option<&E> {
        self.ended.get().map(|(_, became)| became)
    }

    /// Completes when it has ended.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// How long it ran, or has been running.
    #[must_use]
    pub fn runtime(&self) -> Duration {
        self.ended.get().map_or_else(|| self.since.elapsed(), |(time, _)| *time)
    }

    /// Tells it to end, unless it has. Does not wait.
    pub fn kill(&self) {
        if self.ended.get().is_none() {
            self.kill_asked.store(true, Ordering::SeqCst);
            self.cancel.cancel();
        }
    }

    /// Whether it was told to end while it ran.
    #[must_use]
    pub fn kill_asked(&self) -> bool {
        self.kill_asked.load(Ordering::SeqCst)
    }
}

/// Six digits of base 36, so that a handle of another server or of an earlier start is not mistaken for one
/// of these.
fn suffix() -> String {
    let mut rest = uuid::Uuid::new_v4().as_u128();
    let digit = |rest: &mut u128| {
        let digit = u32::try_from(*rest % 36).unwrap_or(0);
        *rest /= 36;
        char::from_digit(digit, 36).unwrap_or('0')
    };
    (0..6).map(|_| digit(&mut rest)).collect()
}

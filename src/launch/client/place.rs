//! What outlasts one run: its place in the count of the pool, and the end of all that waits for a policy.
//!
//! Inputs: the launcher's pool. Called by `client.rs`, and by `appliance/reload.rs` through [`Launcher`].

use std::os::fd::AsFd;
use std::sync::{Arc, TryLockError};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Control, Inner, LaunchError, Launcher, Prepared, lock};

impl Launcher {
    /// Lets go of every supervisor that waits and of every profile that the launcher knows: what comes next is
    /// made anew. Those at work finish, and do not come back.
    ///
    /// # Errors
    /// A thread panicked while it held the launcher.
    pub(crate) fn retire(&self) -> Result<(), LaunchError> {
        lock(&self.inner.warm)?.retire();
        lock(&self.inner.control)?.forget = true;
        Ok(())
    }

    /// Whether the launcher process is there, asked without waiting: its socket says when it is gone, and one
    /// that is in use is.
    pub(crate) fn lives(&self) -> bool {
        match self.inner.control.try_lock() {
            Ok(control) => !control.is_gone(),
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Poisoned(_)) => false,
        }
    }

    /// Supervisors at work, and those that wait.
    ///
    /// # Errors
    /// A thread panicked while it held the launcher.
    pub fn supervisors(&self) -> Result<(usize, usize), LaunchError> {
        Ok(lock(&self.inner.warm)?.count())
    }
}

/// One of the runs under way, counted from before it has a stub.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) inner: Arc<Inner>,
    pub(super) prepared: Prepared,
    /// That of the pool when it began.
    pub(super) generation: u64,
}

impl Place {
    pub(super) fn new(inner: &Arc<Inner>, prepared: &Prepared) -> Result<Self, LaunchError> {
        let mut warm = lock(&inner.warm)?;
        warm.begun(&prepared.digest);
        Ok(Self { inner: Arc::clone(inner), prepared: prepared.clone(), generation: warm.generation() })
    }
}

impl Drop for Place {
    /// A stub that does not come back is replaced.
    fn drop(&mut self) {
        let Ok(mut warm) = self.inner.warm.lock() else { return };
        warm.ended(&self.prepared.digest);
        if let (true, Ok(runtime)) =
            (warm.lacks(&self.prepared.digest), tokio::runtime::Handle::try_current())
        {
            let (inner, prepared) = (Arc::clone(&self.inner), self.prepared.clone());
            let generation = self.generation;
            runtime.spawn(async move { Inner::fill(&inner, &prepared, generation).await });
        }
    }
}

impl Control {
    /// Whether the other end of the socket is closed.
    fn is_gone(&self) -> bool {
        let mut socket = [PollFd::new(self.socket.as_fd(), PollFlags::empty())];
        // What cannot be asked is not there.
        poll(&mut socket, PollTimeout::ZERO).is_err()
            || socket.iter().any(|one| one.revents().is_none_or(|events| !events.is_empty()))
    }
}

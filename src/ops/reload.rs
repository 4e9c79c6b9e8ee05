//! When a policy is loaded again: at SIGHUP, and where it is watched, when its files are others.
//!
//! Purpose: the two ways to ask for it, and what is said of the outcome. Files are looked at once a second, by
//! name: an inotify handle would follow the old file of a rename or of a mounted ConfigMap. Inputs: the served
//! appliance and the paths to watch. Called by `cli/serve`.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::Live;
use super::notify::Manager;

/// How often watched files are looked at. A change that stands for two looks is taken: not half a file.
const LOOK: Duration = Duration::from_secs(1);

/// What tells one state of a file from another; absent: it is not there.
pub type Stamp = Option<(u64, u64, i64, i64, u64)>;

/// Reloads at each SIGHUP, as long as the runtime lives.
///
/// # Errors
/// The handler could not be installed.
pub fn on_hangup(live: Arc<Live>, manager: Manager) -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            // Whoever moves the audit file away sends SIGHUP as well.
            live.now().reopen_audit();
            now(&live, "SIGHUP", &manager).await;
        }
    });
    Ok(())
}

/// The state of each file now. Taken as soon as they were read: a change while the server starts is one, too.
#[must_use]
pub fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let meta = path.metadata().ok()?;
        Some((meta.dev(), meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.size()))
    };
    files.iter().map(stamp).collect()
}

/// Reloads whenever one of `files` has become another than it was when `taken`, as long as the runtime lives.
pub fn on_change(live: Arc<Live>, files: Vec<PathBuf>, mut taken: Vec<Stamp>, manager: Manager) {
    tokio::spawn(async move {
        let files = Arc::new(files);
        let mut last = taken.clone();
        loop {
            tokio::time::sleep(LOOK).await;
            let Ok(seen) = look(&files).await else { return };
            if seen != taken && seen == last {
                taken.clone_from(&seen);
                now(&live, "its file changed", &manager).await;
            }
            last = seen;
        }
    });
}

/// Reloads once, and says on standard error what came of it.
async fn now(live: &Arc<Live>, why: &str, manager: &Manager) {
    manager.tell_reloading();
    match live.reload().await {
        Ok(reloaded) => {
            for warning in &reloaded.warnings {
                tracing::warn!("{warning}");
            }
            tracing::warn!(
                "{why}: policy {} is in force, in place of {}",
                reloaded.digest,
                reloaded.previous
            );
        }
        Err(error) => {
            tracing::error!("{why}: the policy was not taken, the one before stays in force: {error}")
        }
    }
    manager.tell_ready();
}

/// Off the runtime: a file system may not answer.
async fn look(files: &Arc<Vec<PathBuf>>) -> Result<Vec<Stamp>, tokio::task::JoinError> {
    let files = Arc::clone(files);
    tokio::task::spawn_blocking(move || stamps(&files)).await
}

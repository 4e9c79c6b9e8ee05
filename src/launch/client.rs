//! The server's side: one launcher, a few warm stubs, one run a stub.
//!
//! Called by `appliance.rs` only. Takes nothing but an [`Authorized`](crate::policy::Authorized) plan that has
//! passed the seam; what a request asked for beyond the judged vector cannot reach the launcher.

mod place;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;

use self::place::Place;
use super::pool::{self, Pool, WARM};
use super::seam::Ready;
use super::step::{step, unmet};
use super::wire::{self, Ended, Facts, Failure, FromLauncher, FromStub, RunRequest, Setup, ToLauncher};
use super::{ARGV0, LaunchError};
use crate::fault;
use crate::sandbox::profile::Profile;
use crate::sys;

/// How long a run lasts before another stub is made beside it; a short command has its core to itself.
const REFILL: Duration = Duration::from_millis(20);
/// How long a start is waited for before the run counts as started.
const PATIENCE: Duration = Duration::from_secs(5);
/// Profiles that the launcher remembers; beyond it, it starts anew.
const KNOWN: usize = 256;

/// Stubs that can exist at the same time: running, waiting, and just ended.
pub(super) fn stubs(jobs: usize) -> u32 {
    u32::try_from(jobs.saturating_add(WARM).saturating_add(4)).unwrap_or(u32::MAX)
}

/// The launcher process and the stubs that wait for work.
#[derive(Debug)]
pub struct Launcher {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    /// Waiting stubs by the digest of the profile they are confined for. Before the launcher, which waits
    /// for their end.
    warm: Mutex<Pool<Waiting>>,
    pub(super) control: Mutex<Control>,
    facts: Facts,
    /// Somebody looks after a pool that is larger than it has to be.
    trimming: AtomicBool,
}

/// The server's end of a stub's socket.
type Stub = AsyncFd<OwnedFd>;

/// A stub that has no command yet.
#[derive(Debug)]
struct Waiting {
    stub: Stub,
    /// The runtime that the socket is registered with.
    runtime: tokio::runtime::Id,
}

#[derive(Debug)]
pub(super) struct Control {
    pub(super) socket: OwnedFd,
    process: Child,
    /// Digest of each profile the launcher knows, and the number it has there.
    known: HashMap<String, u32>,
    /// What it knows is out of date.
    forget: bool,
    /// The cgroup of launcher and runs.
    group: Option<std::path::PathBuf>,
}

/// A profile with its digest, made once per allow-list entry.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// What the kernel gets.
    pub profile: Arc<Profile>,
    /// `sha256:` over it.
    pub digest: String,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>, LaunchError> {
    mutex.lock().map_err(|_| LaunchError::new("launcher", 0, "a thread panicked while it held the launcher"))
}

impl Launcher {
    /// Starts the launcher process and waits until it is confined. Call before any thread exists.
    ///
    /// # Errors
    /// The step that failed in the launcher, or that it could not be started.
    pub(super) fn start(setup: &Setup) -> Result<Self, LaunchError> {
        let (ours, theirs) = step!("socketpair", sys::socketpair())?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(ARGV0)
            .env_clear()
            .envs(fault::variable())
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::inherit());
        let process = step!("launcher", command.spawn())?;
        drop(command); // and with it the launcher's end of the pair
        // From here on it is reaped whatever happens.
        let mut control =
            Control { socket: ours, process, known: HashMap::new(), forget: false, group: None };
        let socket = control.socket.as_fd();
        let gone = || LaunchError::new("launcher", 0, "the launcher process ended while it was set up");
        step!("launcher", wire::send(socket, setup, &[], &[]))?;
        let packet = step!("launcher", wire::recv::<FromLauncher>(socket))?.ok_or_else(gone)?;
        match packet.header {
            FromLauncher::Ready(facts) => {
                control.group.clone_from(&facts.cgroup.path);
                let (control, warm) = (Mutex::new(control), Mutex::new(Pool::new(setup.jobs)));
                Ok(Self {
                    inner: Arc::new(Inner { control, warm, facts: *facts, trimming: AtomicBool::new(false) }),
                })
            }
            FromLauncher::Failed(failure) => Err(failure.into()),
            FromLauncher::Stub | FromLauncher::Opened => Err(gone()),
        }
    }

    pub(super) fn inner(&self) -> Arc<Inner> {
        Arc::clone(&self.inner)
    }

    /// Notes why the launcher has no mounts of its own.
    pub(super) fn without_mounts(mut self, why: &LaunchError) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.facts.no_mount_namespace = Some(why.message.clone());
        }
        self
    }

    /// What is in force for every run.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.inner.facts
    }

    /// The group that those of the runs were made in, and are removed from.
    #[must_use]
    pub(crate) fn groups_in(&self) -> Option<&std::path::Path> {
        self.inner.facts.cgroup.path.as_deref().and_then(std::path::Path::parent)
    }

    /// Starts a plan with these descriptors as 0, 1 and 2, in a stub of its own. With a `grace`, its processes
    /// are asked to end (SIGTERM) that long before they are killed.
    ///
    /// # Errors
    /// The step between the request and exec that failed; nothing is left running then.
    pub async fn run(
        &self,
        ready: &Ready<'_>,
        prepared: &Prepared,
        limits: Vec<(u32, u64)>,
        stdio: [OwnedFd; 3],
        grace: Duration,
    ) -> Result<Running, LaunchError> {
        let (plan, program) = (ready.plan(), ready.program()?);
        let cwd = step!("chdir", nix::sys::stat::fstat(plan.cwd().fd()))?;
        let relative = plan.cwd().path().strip_prefix(&prepared.profile.workspace);
        let outside = |_| unmet(libc::EXDEV, "outside of the workspace");
        let relative = step!("chdir", relative.map_err(outside))?;
        let request = RunRequest {
            program: program.real.clone(),
            pin: (program.dev, program.ino),
            cwd: relative.to_owned(),
            cwd_pin: (cwd.st_dev, cwd.st_ino),
            argc: ready.argv().len(),
            timeout_ms: u64::try_from(plan.timeout().as_millis()).unwrap_or(u64::MAX),
            grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX),
            limits,
        };
        let place = Place::new(&self.inner, prepared)?;
        let blob = wire::join(&[ready.argv(), plan.env()]);
        let fds = [stdio[0].as_raw_fd(), stdio[1].as_raw_fd(), stdio[2].as_raw_fd()];
        let send = |stub: &Stub| step!("stub", wire::send(stub.get_ref().as_fd(), &request, &blob, &fds));
        // A warm one may have died long ago, of what no longer holds: a new one decides.
        let stub = match self.warm(prepared)?.filter(|stub| send(stub).is_ok()) {
            Some(stub) => stub,
            None => {
                let stub = Inner::make(&self.inner, prepared).await?;
                send(&stub)?;
                stub
            }
        };
        drop(stdio);
        self.refill(prepared, place.generation)?;
        // From here on it may have been executed, whatever becomes of its supervisor.
        let (pid, first) = match tokio::time::timeout(PATIENCE, receive(&stub)).await {
            Ok(Ok(FromStub::Failed(failure))) => return Err(failure.into()),
            Ok(Ok(FromStub::Started { pid })) => (Some(pid), None),
            Ok(other) => (None, Some(other)),
            // Its file system may not answer. Whoever waits for the end may ask for it.
            Err(_elapsed) => (None, None),
        };
        Ok(Running { stub: Some(stub), pid, first, again: false, killed: false, place })
    }

    /// A stub that waits for this profile, if there is one. What another runtime has registered is of no use.
    fn warm(&self, prepared: &Prepared) -> Result<Option<Stub>, LaunchError> {
        let mut warm = lock(&self.inner.warm)?;
        let runtime = tokio::runtime::Handle::current().id();
        warm.retain(&prepared.digest, |waiting| waiting.runtime == runtime);
        Ok(warm.take(&prepared.digest).map(|waiting| waiting.stub))
    }

    /// Should this run last, makes another stub for the next one, off the critical path.
    fn refill(&self, prepared: &Prepared, generation: u64) -> Result<(), LaunchError> {
        if lock(&self.inner.warm)?.lacks(&prepared.digest) {
            let (inner, prepared) = (Arc::clone(&self.inner), prepared.clone());
            tokio::spawn(async move {
                tokio::time::sleep(REFILL).await;
                Inner::fill(&inner, &prepared, generation).await;
            });
        }
        Ok(())
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.end();
    }
}

impl Launcher {
    /// Ends it now, whatever task still makes a stub or holds this value: what it leaves must be gone with us.
    pub fn end(&self) {
        // A thread that panicked with a lock leaves it to the end of the process.
        if let (Ok(mut control), Ok(mut warm)) = (self.inner.control.lock(), self.inner.warm.lock()) {
            warm.clear();
            control.end();
        }
    }
}

/// Waits until the stub behind `socket` has confined itself.
async fn confined(socket: OwnedFd) -> Result<Stub, LaunchError> {
    let stub = step!("stub", sys::watch(socket))?;
    match receive(&stub).await? {
        FromStub::Ready => Ok(stub),
        FromStub::Failed(failure) => Err(failure.into()),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> LaunchError {
    LaunchError::new("stub", 0, "unexpected answer")
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LaunchError> + Send + 'static,
) -> Result<T, LaunchError> {
    tokio::task::spawn_blocking(work).await.map_err(|e| LaunchError::new("launcher", 0, &e.to_string()))?
}

impl Inner {
    /// Makes stubs for `prepared` until there are enough. A failure shows at the next run, which then makes
    /// its own and reports.
    async fn fill(inner: &Arc<Self>, prepared: &Prepared, generation: u64) {
        let wanted = |warm: &Pool<_>| warm.generation() == generation && warm.lacks(&prepared.digest);
        while lock(&inner.warm).is_ok_and(|warm| wanted(&warm)) {
            let Ok(stub) = Self::make(inner, prepared).await else { return };
            let made = Waiting { stub, runtime: tokio::runtime::Handle::current().id() };
            // Another task may have been quicker; the stub ends with its socket.
            if lock(&inner.warm)
                .map_or(true, |mut warm| warm.keep(&prepared.digest, generation, made).is_some())
            {
                return;
            }
        }
    }

    /// Takes back a stub whose run has ended.
    fn give_back(inner: &Arc<Self>, digest: &str, generation: u64, stub: Stub) {
        // A thread that panicked with the lock has ended all service; the stub ends with its socket.
        let Ok(mut warm) = inner.warm.lock() else { return };
        // Nor is there a use for it once the runtime is gone.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        drop(warm.keep(digest, generation, Waiting { stub, runtime: runtime.id() }));
        if warm.is_large() && !inner.trimming.swap(true, Ordering::Relaxed) {
            let inner = Arc::downgrade(inner);
            runtime.spawn(async move {
                let mut large = true;
                while large {
                    tokio::time::sleep(pool::IDLE).await;
                    let Some(inner) = inner.upgrade() else { return };
                    large = inner.warm.lock().is_ok_and(|mut warm| {
                        warm.trim(Instant::now());
                        warm.is_large()
                    });
                    if !large {
                        inner.trimming.store(false, Ordering::Relaxed);
                    }
                }
            });
        }
    }

    /// A new stub, confined.
    async fn make(inner: &Arc<Self>, prepared: &Prepared) -> Result<Stub, LaunchError> {
        lock(&inner.warm)?.make_way();
        let (launcher, profile) = (Arc::clone(inner), prepared.clone());
        confined(blocking(move || launcher.fork(&profile)).await?).await
    }

    /// Asks the launcher for a stub; its socket is non-blocking.
    fn fork(&self, prepared: &Prepared) -> Result<OwnedFd, LaunchError> {
        let gone = || LaunchError::new("launcher", 0, "the launcher process is gone: restart the server");
        let or_gone = |failed: Failure| match failed.errno {
            libc::EPIPE | libc::ECONNRESET => gone(),
            _ => failed.into(),
        };
        let mut control = lock(&self.control)?;
        let forget = control.forget || control.known.len() >= KNOWN;
        if forget {
            control.known.clear();
            control.forget = false;
        }
        let next = u32::try_from(control.known.len()).unwrap_or(u32::MAX);
        let (id, profile) = match control.known.get(&prepared.digest) {
            Some(id) => (*id, None),
            None => (next, Some(Box::new(Profile::clone(&prepared.profile)))),
        };
        let fresh = profile.is_some();
        let ask = ToLauncher::Stub { id, profile, forget };
        step!("launcher", wire::send(control.socket.as_fd(), &ask, &[], &[])).map_err(or_gone)?;
        let answer = step!("launcher", wire::recv::<FromLauncher>(control.socket.as_fd()));
        if answer.is_err() {
            // The answer may still come, and would be taken for that of the next request: a supervisor
            // that is confined for another command. From here on the launcher is gone.
            control.hang_up();
        }
        let packet = answer.map_err(or_gone)?.ok_or_else(gone)?;
        if fresh && !matches!(packet.header, FromLauncher::Failed(_)) {
            control.known.insert(prepared.digest.clone(), id);
        }
        match packet.header {
            FromLauncher::Stub => {
                let socket = packet.fds.into_iter().next().ok_or_else(gone)?;
                let flags = nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK);
                step!("launcher", nix::fcntl::fcntl(&socket, flags))?;
                Ok(socket)
            }
            FromLauncher::Failed(failure) => Err(failure.into()),
            FromLauncher::Ready(_) | FromLauncher::Opened => Err(gone()),
        }
    }
}

impl Control {
    /// Ends the launcher; its stubs end with their sockets.
    pub(super) fn hang_up(&self) {
        let _: nix::Result<()> =
            nix::sys::socket::shutdown(self.socket.as_raw_fd(), nix::sys::socket::Shutdown::Both);
    }

    /// Ends the launcher and waits for it. Once more does nothing.
    fn end(&mut self) {
        self.hang_up();
        drop(self.process.wait());
        if let Some(group) = self.group.take() {
            super::cgroup::remove_groups(&group);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.end();
    }
}

/// The next message of a stub.
async fn receive(socket: &AsyncFd<OwnedFd>) -> Result<FromStub, LaunchError> {
    let died = || LaunchError::new("stub", 0, "the supervisor of the run died");
    let io_error = |e: io::Error| LaunchError::new("stub", e.raw_os_error().unwrap_or(0), &e.to_string());
    loop {
        let mut ready = socket.readable().await.map_err(io_error)?;
        match ready.try_io(|fd| wire::recv::<FromStub>(fd.get_ref().as_fd())) {
            Ok(Ok(Some(packet))) => return Ok(packet.header),
            Ok(Ok(None)) => return Err(died()),
            // It went away with our kill unread. The kernel says so once, and before the answer that is
            // still queued: read on. Without an answer the next read says that the peer is gone.
            Ok(Err(e)) if e.raw_os_error() == Some(libc::ECONNRESET) => {}
            Ok(Err(e)) => return Err(io_error(e)),
            Err(_would_block) => {}
        }
    }
}

/// A command that was executed, or may have been. Dropping it kills the whole tree.
#[derive(Debug)]
pub struct Running {
    /// Always there until this is dropped.
    stub: Option<Stub>,
    pid: Option<i32>,
    /// What came in place of the start: a short one has ended before it was told.
    first: Option<Result<FromStub, LaunchError>>,
    /// The supervisor said that it may serve again.
    again: bool,
    /// It was told to kill: what it has not read of that would meet the next run.
    killed: bool,
    place: Place,
}

impl Running {
    /// Process id of the command; not known of one whose supervisor died early.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.pid
    }

    fn stub(&self) -> Result<&Stub, LaunchError> {
        self.stub.as_ref().ok_or_else(unexpected)
    }

    /// Kills the command and everything it started; the end is still awaited with [`Self::ended`].
    ///
    /// # Errors
    /// The supervisor is gone already.
    pub fn kill(&mut self) -> Result<(), LaunchError> {
        self.killed = true;
        sys::send(self.stub()?.get_ref().as_fd(), wire::KILL, &[])
            .map_err(|e| LaunchError::new("kill", e.raw_os_error().unwrap_or(0), &e.to_string()))
    }

    /// Waits until the command has ended and nothing of it is left.
    ///
    /// # Errors
    /// The supervisor died; the launcher has killed what it left.
    pub async fn ended(&mut self) -> Result<Ended, LaunchError> {
        let mut touched = Vec::new();
        loop {
            let said = match self.first.take() {
                Some(first) => first,
                None => receive(self.stub()?).await,
            };
            match said? {
                FromStub::Touched(part) => touched.extend(part),
                FromStub::Ended { end, again } => {
                    (self.again, self.pid) = (again, Some(end.pid));
                    return Ok(Ended { touched, ..end });
                }
                FromStub::Started { pid } if self.pid.is_none() => self.pid = Some(pid),
                FromStub::Failed(failure) => return Err(failure.into()),
                _ => return Err(unexpected()),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let again = self.again && !self.killed;
        if let Some(stub) = self.stub.take().filter(|_| again) {
            let Place { inner, prepared, generation } = &self.place;
            Inner::give_back(inner, &prepared.digest, *generation, stub);
        }
    }
}

impl From<Failure> for LaunchError {
    fn from(failure: Failure) -> Self {
        Self { step: failure.step, errno: failure.errno, message: failure.message }
    }
}

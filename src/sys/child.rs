//! The code between clone and exec: a child that shares its parent's memory until it executes.
//!
//! `clone(CLONE_VM | CLONE_VFORK)` copies no page tables and suspends the parent until the child
//! has executed or ended, so an error comes back through the shared memory as (step, errno).
//! The child makes raw calls only: no allocation, no lock, no panic. Order and reasons are those of
//! `SECURITY.md`; what can be done before (capabilities, no-new-privs, memory rules, the
//! system-call filter) the stub did already, and the child inherits it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use nix::unistd::Pid;

use super::door::Door;

/// One resource limit; hard and soft become `value`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// `RLIMIT_*` number.
    pub(crate) resource: u32,
    /// In the unit of the resource.
    pub(crate) value: u64,
}

/// Everything the child needs, prepared.
#[derive(Debug)]
pub(crate) struct ChildPlan<'a> {
    /// Absolute path of the program file.
    pub(crate) program: &'a CStr,
    /// Argument vector as judged.
    pub(crate) argv: &'a [CString],
    /// `NAME=value` entries.
    pub(crate) env: &'a [CString],
    /// Descriptors (3 or higher) that become 0, 1 and 2.
    pub(crate) stdio: [RawFd; 3],
    /// Directory descriptor of the working directory.
    pub(crate) cwd: RawFd,
    /// Limits to set.
    pub(crate) limits: &'a [Limit],
    /// Landlock ruleset of the command.
    pub(crate) ruleset: RawFd,
    /// Fourth argument of execve(2), which the kernel ignores: tells the filter that this start is ours.
    pub(crate) mark: u64,
}

/// The steps of the child, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The process itself could not be made.
    Clone,
    /// PR_SET_PDEATHSIG.
    ParentDeathSignal,
    /// A session of its own: no process group is shared with the supervisor.
    Session,
    /// Standard descriptors.
    Stdio,
    /// Working directory.
    Chdir,
    /// A resource limit.
    Limits,
    /// Descriptors marked close-on-exec.
    CloseRange,
    /// Landlock domain.
    Landlock,
    /// Signal mask.
    SignalMask,
    /// The program itself.
    Execve,
}

impl Step {
    /// Name in records and messages.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Clone => "clone",
            Self::ParentDeathSignal => "parent_death_signal",
            Self::Session => "setsid",
            Self::Stdio => "stdio",
            Self::Chdir => "chdir",
            Self::Limits => "rlimits",
            Self::CloseRange => "close_range",
            Self::Landlock => "landlock",
            Self::SignalMask => "signal_mask",
            Self::Execve => "execve",
        }
    }
}

/// Where the child stopped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChildError {
    /// The step that failed.
    pub(crate) step: Step,
    /// The kernel's errno.
    pub(crate) errno: i32,
}

/// What parent and child share. The child only reads, and stores where it stopped.
pub(super) struct Shared<'a> {
    program: &'a CStr,
    /// Null-terminated arrays of pointers into the plan's strings.
    argv: &'a [*const c_char],
    env: &'a [*const c_char],
    stdio: [RawFd; 3],
    cwd: RawFd,
    limits: &'a [Limit],
    ruleset: RawFd,
    mark: u64,
    mask: libc::sigset_t,
    /// A step that fails on order, in tests.
    #[cfg(feature = "fault-injection")]
    fault: Option<Step>,
    /// Index into [`STEPS`] plus one; 0 while nothing failed.
    failed: AtomicUsize,
    errno: AtomicI32,
}

/// The steps of the child, so that one can travel as a number.
const STEPS: [Step; 9] = [
    Step::ParentDeathSignal,
    Step::Session,
    Step::Stdio,
    Step::Chdir,
    Step::Limits,
    Step::CloseRange,
    Step::Landlock,
    Step::SignalMask,
    Step::Execve,
];

#[cfg(feature = "fault-injection")]
impl Shared<'_> {
    /// Whether `step` fails on order; looked up before the child exists.
    fn fails(&self, step: Step) -> bool {
        if self.fault == Some(step) {
            nix::errno::Errno::EIO.set();
        }
        self.fault == Some(step)
    }
}

#[cfg(not(feature = "fault-injection"))]
impl Shared<'_> {
    #[inline(always)]
    const fn fails(&self, _step: Step) -> bool {
        false
    }
}

/// The step that fails on order, in tests.
#[cfg(feature = "fault-injection")]
fn ordered() -> Option<Step> {
    let all = STEPS.into_iter().chain([Step::Clone]);
    all.into_iter().find(|step| crate::fault::named(&format!("child:{}", step.as_str())).is_some())
}

/// Bytes of the child's stack. The child calls leaf functions of the C library only.
pub(super) const STACK: usize = 64 * 1024;

/// Starts the program of `plan` and returns once it has been executed, or says where it stopped. With a
/// `door` its child goes; else one is made.
///
/// # Errors
/// The step that failed and its errno; no process is left then.
pub(crate) fn spawn(plan: &ChildPlan<'_>, door: Option<Door>) -> Result<Pid, ChildError> {
    if plan.stdio.iter().any(|fd| *fd < 3) {
        return Err(ChildError { step: Step::Stdio, errno: libc::EBADF });
    }
    let pointers = |list: &[CString]| {
        list.iter().map(|s| s.as_ptr()).chain(std::iter::once(std::ptr::null())).collect::<Vec<_>>()
    };
    let (argv, env) = (pointers(plan.argv), pointers(plan.env));
    // SAFETY: `sigset_t` is plain data; all-zero is the empty set on Linux.
    let mask = unsafe { std::mem::zeroed() };
    let shared = Shared {
        program: plan.program,
        argv: &argv,
        env: &env,
        stdio: plan.stdio,
        cwd: plan.cwd,
        limits: plan.limits,
        ruleset: plan.ruleset,
        mark: plan.mark,
        mask,
        #[cfg(feature = "fault-injection")]
        fault: ordered(),
        failed: AtomicUsize::new(0),
        errno: AtomicI32::new(0),
    };
    if shared.fails(Step::Clone) {
        return Err(ChildError { step: Step::Clone, errno: nix::errno::Errno::last_raw() });
    }
    let pid = match door {
        Some(door) => door.open(&shared).as_raw(),
        None => fork(&shared)?,
    };
    let failed = shared.failed.load(Ordering::SeqCst).checked_sub(1);
    match failed.and_then(|index| STEPS.get(index)) {
        None => Ok(Pid::from_raw(pid)),
        Some(step) => {
            // SAFETY: reaps exactly the child that has just ended; a null status is allowed.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
            Err(ChildError { step: *step, errno: shared.errno.load(Ordering::SeqCst) })
        }
    }
}

/// Makes the child and waits until it has executed or ended.
fn fork(shared: &Shared<'_>) -> Result<libc::pid_t, ChildError> {
    let mut stack = vec![0u128; STACK / 16];
    let top = stack.as_mut_ptr_range().end.cast::<c_void>();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let arg = std::ptr::from_ref(shared).cast_mut().cast::<c_void>();
    // SAFETY: `top` is one past the end of a live allocation, 16-byte aligned as the ABI wants, and the
    // stack grows down into it. CLONE_VFORK keeps this frame, `shared` and `stack` alive and this thread
    // suspended until the child has executed or ended; no other thread of the caller (a
    // recorded run has one that listens) knows of them, so nobody else looks.
    let pid = unsafe { libc::clone(child_main, top, flags, arg) };
    if pid < 0 {
        return Err(ChildError { step: Step::Clone, errno: nix::errno::Errno::last_raw() });
    }
    Ok(pid)
}

extern "C" fn child_main(arg: *mut c_void) -> c_int {
    // SAFETY: `arg` is the `Shared` of `spawn`, alive and not touched by anyone else while the parent is
    // suspended; what it borrows outlives the suspension.
    let shared = unsafe { &*arg.cast::<Shared<'_>>() };
    go(shared)
}

/// The child's way from here on.
pub(super) fn go(shared: &Shared<'_>) -> ! {
    // SAFETY: `spawn` makes the only `Shared`, and ends its pointer arrays with a null.
    let step = unsafe { steps(shared) };
    stop(shared, step)
}

/// Ends the child, errno set by `step`.
pub(super) fn stop(shared: &Shared<'_>, step: Step) -> ! {
    shared.errno.store(nix::errno::Errno::last_raw(), Ordering::SeqCst);
    let index = STEPS.iter().position(|known| *known == step).map_or(STEPS.len(), |index| index + 1);
    shared.failed.store(index, Ordering::SeqCst);
    // SAFETY: ends this process only, without running destructors that belong to the parent.
    unsafe { libc::_exit(126) }
}

/// Runs the steps; returns only when one failed, with errno set by it.
///
/// # Safety
/// The pointer arrays of `s` must end with a null and point to live NUL-terminated strings.
unsafe fn steps(s: &Shared<'_>) -> Step {
    if s.fails(Step::ParentDeathSignal) {
        return Step::ParentDeathSignal;
    }
    // SAFETY: integers only.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) } != 0 {
        return Step::ParentDeathSignal;
    }
    if s.fails(Step::Session) {
        return Step::Session;
    }
    // SAFETY: takes no argument.
    if unsafe { libc::setsid() } < 0 {
        return Step::Session;
    }
    for (target, source) in [(0, s.stdio[0]), (1, s.stdio[1]), (2, s.stdio[2])] {
        if s.fails(Step::Stdio) {
            return Step::Stdio;
        }
        // SAFETY: integers only.
        if unsafe { libc::dup2(source, target) } < 0 {
            return Step::Stdio;
        }
    }
    if s.fails(Step::Chdir) {
        return Step::Chdir;
    }
    // SAFETY: integers only.
    if unsafe { libc::fchdir(s.cwd) } != 0 {
        return Step::Chdir;
    }
    for limit in s.limits {
        let value = libc::rlimit { rlim_cur: limit.value, rlim_max: limit.value };
        if s.fails(Step::Limits) {
            return Step::Limits;
        }
        // SAFETY: `value` lives over the call.
        if unsafe { libc::setrlimit(limit.resource, &raw const value) } != 0 {
            return Step::Limits;
        }
    }
    if s.fails(Step::CloseRange) {
        return Step::CloseRange;
    }
    // SAFETY: marks descriptors, closes none.
    if unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) } != 0 {
        return Step::CloseRange;
    }
    if s.fails(Step::Landlock) {
        return Step::Landlock;
    }
    // SAFETY: integers only.
    if unsafe { libc::syscall(libc::SYS_landlock_restrict_self, s.ruleset, 0u32) } != 0 {
        return Step::Landlock;
    }
    if s.fails(Step::SignalMask) {
        return Step::SignalMask;
    }
    // SAFETY: the set lives in `s`; no old set is asked for.
    if unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const s.mask, std::ptr::null_mut()) } != 0 {
        return Step::SignalMask;
    }
    if s.fails(Step::Execve) {
        return Step::Execve;
    }
    // SAFETY: NUL-terminated path and null-terminated pointer arrays, all alive.
    // execve(2) has three arguments; the filter looks at the fourth (`sandbox::filter::Answer`).
    unsafe {
        libc::syscall(libc::SYS_execve, s.program.as_ptr(), s.argv.as_ptr(), s.env.as_ptr(), s.mark);
    }
    Step::Execve
}

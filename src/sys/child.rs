//! The code between clone and exec: a child that shares its supervisor's memory until it executes.
//!
//! It is made ahead of time (`door.rs`), goes the steps of [`before`], waits, and goes those of [`after`]
//! when its command is known. It makes raw calls only: no allocation, no lock, no panic; where it stopped
//! comes back through the shared memory as (step, errno). Order and reasons are those of `SECURITY.md`; what
//! can be done earlier still (capabilities, no-new-privs, memory rules, the system-call filter) the stub did
//! already, and the child inherits it.

use std::ffi::{CStr, CString, c_char};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(feature = "fault-injection")]
use nix::errno::Errno;

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
    /// The cgroup of the run.
    Group,
    /// Landlock domain.
    Landlock,
    /// Descriptors of its own, marked close-on-exec.
    CloseRange,
    /// Standard descriptors.
    Stdio,
    /// Working directory.
    Chdir,
    /// A resource limit.
    Limits,
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
            Self::Group => "cgroup",
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

/// What the child needs before its command is known.
#[derive(Debug)]
pub(super) struct Before {
    /// The supervisor, whose death ends the child.
    pub(super) parent: i32,
    /// `cgroup.procs` of the run's group, open for writing.
    pub(super) procs: Option<RawFd>,
    /// Landlock ruleset of the command.
    pub(super) ruleset: RawFd,
    pub(super) order: Order,
}

/// What it needs then. The child only reads, but for the last.
pub(super) struct After<'a> {
    program: &'a CStr,
    /// Null-terminated arrays of pointers into the plan's strings.
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    stdio: [RawFd; 3],
    cwd: RawFd,
    limits: &'a [Limit],
    mark: u64,
    mask: libc::sigset_t,
    order: Order,
    /// The child got as far as to the program: without it, and without a failed step, somebody killed it.
    pub(super) begun: AtomicBool,
}

/// A step that fails on order, in tests; looked up while the supervisor may still read a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order(#[cfg(feature = "fault-injection")] Option<Step>);

#[cfg(feature = "fault-injection")]
impl Order {
    pub(super) fn look() -> Self {
        let ordered = |step: &Step| crate::fault::named(&format!("child:{}", step.as_str())).is_some();
        Self(STEPS.into_iter().find(ordered))
    }

    /// Whether `step` fails, errno set then.
    pub(super) fn fails(self, step: Step) -> bool {
        if self.0 == Some(step) {
            Errno::EIO.set();
        }
        self.0 == Some(step)
    }
}

#[cfg(not(feature = "fault-injection"))]
impl Order {
    pub(super) const fn look() -> Self {
        Self()
    }

    #[inline(always)]
    pub(super) const fn fails(self, _step: Step) -> bool {
        false
    }
}

/// All steps, so that one can travel as a number.
const STEPS: [Step; 11] = [
    Step::Clone,
    Step::ParentDeathSignal,
    Step::Session,
    Step::Group,
    Step::Landlock,
    Step::CloseRange,
    Step::Stdio,
    Step::Chdir,
    Step::Limits,
    Step::SignalMask,
    Step::Execve,
];

impl Step {
    /// Its number, never 0.
    pub(super) fn number(self) -> u32 {
        (self as u32).wrapping_add(1)
    }

    /// The step of a number.
    pub(super) fn numbered(number: u32) -> Option<Self> {
        STEPS.into_iter().find(|step| step.number() == number)
    }
}

/// Lays a plan out and throws it away.
pub(crate) fn rehearse(plan: &ChildPlan<'_>) {
    std::hint::black_box(After::new(plan).is_ok());
}

impl<'a> After<'a> {
    /// Lays the plan out for the child.
    ///
    /// # Errors
    /// A standard descriptor below 3, which another would overwrite.
    pub(super) fn new(plan: &ChildPlan<'a>) -> Result<Self, ChildError> {
        if plan.stdio.iter().any(|fd| *fd < 3) {
            return Err(ChildError { step: Step::Stdio, errno: libc::EBADF });
        }
        let pointers = |list: &[CString]| {
            list.iter().map(|s| s.as_ptr()).chain(std::iter::once(std::ptr::null())).collect::<Vec<_>>()
        };
        // SAFETY: `sigset_t` is plain data; all-zero is the empty set on Linux.
        let mask = unsafe { std::mem::zeroed() };
        Ok(Self {
            program: plan.program,
            argv: pointers(plan.argv),
            env: pointers(plan.env),
            stdio: plan.stdio,
            cwd: plan.cwd,
            limits: plan.limits,
            mark: plan.mark,
            mask,
            order: Order::look(),
            begun: AtomicBool::new(false),
        })
    }
}

/// The steps that need no command; the one that failed, with errno set by it.
pub(super) fn before(s: &Before) -> Option<Step> {
    let order = s.order;
    if order.fails(Step::ParentDeathSignal) {
        return Some(Step::ParentDeathSignal);
    }
    // SAFETY: integers only.
    let asked = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) } == 0;
    // SAFETY: takes no argument. A supervisor that died before the call sends nothing.
    if !asked || unsafe { libc::getppid() } != s.parent {
        return Some(Step::ParentDeathSignal);
    }
    if order.fails(Step::Session) {
        return Some(Step::Session);
    }
    // SAFETY: takes no argument.
    if unsafe { libc::setsid() } < 0 {
        return Some(Step::Session);
    }
    if let Some(procs) = s.procs {
        if order.fails(Step::Group) {
            return Some(Step::Group);
        }
        // SAFETY: one byte of a literal.
        if unsafe { libc::write(procs, c"0".as_ptr().cast(), 1) } != 1 {
            return Some(Step::Group);
        }
    }
    if order.fails(Step::Landlock) {
        return Some(Step::Landlock);
    }
    // SAFETY: integers only.
    if unsafe { libc::syscall(libc::SYS_landlock_restrict_self, s.ruleset, 0u32) } != 0 {
        return Some(Step::Landlock);
    }
    None
}

/// The steps to the program; returns only when one failed, with errno set by it.
pub(super) fn after(s: &After<'_>) -> Step {
    let order = s.order;
    if order.fails(Step::CloseRange) {
        return Step::CloseRange;
    }
    let flags = libc::CLOSE_RANGE_UNSHARE | libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: takes a copy of the descriptors and marks those of the copy; closes none.
    if unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, flags) } != 0 {
        return Step::CloseRange;
    }
    for (target, source) in [(0, s.stdio[0]), (1, s.stdio[1]), (2, s.stdio[2])] {
        if order.fails(Step::Stdio) {
            return Step::Stdio;
        }
        // SAFETY: integers only.
        if unsafe { libc::dup2(source, target) } < 0 {
            return Step::Stdio;
        }
    }
    if order.fails(Step::Chdir) {
        return Step::Chdir;
    }
    // SAFETY: integers only.
    if unsafe { libc::fchdir(s.cwd) } != 0 {
        return Step::Chdir;
    }
    for limit in s.limits {
        let value = libc::rlimit { rlim_cur: limit.value, rlim_max: limit.value };
        if order.fails(Step::Limits) {
            return Step::Limits;
        }
        // SAFETY: `value` lives over the call.
        if unsafe { libc::setrlimit(limit.resource, &raw const value) } != 0 {
            return Step::Limits;
        }
    }
    if order.fails(Step::SignalMask) {
        return Step::SignalMask;
    }
    // SAFETY: the set lives in `s`; no old set is asked for.
    if unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const s.mask, std::ptr::null_mut()) } != 0 {
        return Step::SignalMask;
    }
    if order.fails(Step::Execve) {
        return Step::Execve;
    }
    s.begun.store(true, Ordering::SeqCst);
    // SAFETY: NUL-terminated path and null-terminated pointer arrays, all alive.
    // execve(2) has three arguments; the filter looks at the fourth (`sandbox::filter::Answer`).
    unsafe {
        libc::syscall(libc::SYS_execve, s.program.as_ptr(), s.argv.as_ptr(), s.env.as_ptr(), s.mark);
    }
    Step::Execve
}

//! The code between clone and exec: a child that shares its parent's memory until it executes.
//!
//! `clone(CLONE_VM | CLONE_VFORK)` copies no page tables and suspends the parent until the child
//! has executed or ended, so an error comes back through the shared memory as (step, errno).
//! The child makes raw calls only: no allocation, no lock, no panic. Order and reasons are those of
//! `SECURITY.md`; what can be done before (session, capabilities, no-new-privs, memory rules, the
//! system-call filter) the stub did already, and the child inherits it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::RawFd;

use nix::unistd::Pid;

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
}

/// The steps of the child, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Step {
    /// The process itself could not be made.
    Clone = 1,
    /// PR_SET_PDEATHSIG.
    ParentDeathSignal,
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

/// What parent and child share. Plain data: the child only reads the pointers and writes the error.
struct Shared {
    program: *const c_char,
    argv: *const *const c_char,
    env: *const *const c_char,
    stdio: [RawFd; 3],
    cwd: RawFd,
    limits: *const Limit,
    limits_len: usize,
    ruleset: RawFd,
    mask: libc::sigset_t,
    failed: Option<(Step, i32)>,
}

/// Bytes of the child's stack. The child calls leaf functions of the C library only.
const STACK: usize = 64 * 1024;

/// Starts the program of `plan` and returns once it has been executed, or says where it stopped.
///
/// # Errors
/// The step that failed and its errno; no process is left then.
pub(crate) fn spawn(plan: &ChildPlan<'_>) -> Result<Pid, ChildError> {
    let failed = |step, errno| ChildError { step, errno };
    if plan.stdio.iter().any(|fd| *fd < 3) {
        return Err(failed(Step::Stdio, libc::EBADF));
    }
    let pointers = |list: &[CString]| {
        list.iter().map(|s| s.as_ptr()).chain(std::iter::once(std::ptr::null())).collect::<Vec<_>>()
    };
    let (argv, env) = (pointers(plan.argv), pointers(plan.env));
    // SAFETY: `sigset_t` is plain data; all-zero is the empty set on Linux.
    let mask = unsafe { std::mem::zeroed() };
    let mut shared = Shared {
        program: plan.program.as_ptr(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        stdio: plan.stdio,
        cwd: plan.cwd,
        limits: plan.limits.as_ptr(),
        limits_len: plan.limits.len(),
        ruleset: plan.ruleset,
        mask,
        failed: None,
    };
    let mut stack = vec![0u128; STACK / 16];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: one past the end of a live allocation, 16-byte aligned as the ABI wants; the stack grows
    // down into it. CLONE_VFORK keeps this frame, `shared` and `stack` alive and this thread suspended
    // until the child has executed or ended; the caller is single-threaded, so nobody else looks.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len());
        libc::clone(child_main, top.cast::<c_void>(), flags, (&raw mut shared).cast::<c_void>())
    };
    if pid < 0 {
        return Err(failed(Step::Clone, nix::errno::Errno::last_raw()));
    }
    // SAFETY: the child wrote through its pointer; a volatile read sees it.
    match unsafe { std::ptr::read_volatile(&raw const shared.failed) } {
        None => Ok(Pid::from_raw(pid)),
        Some((step, errno)) => {
            // SAFETY: reaps exactly the child that has just ended; a null status is allowed.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
            Err(failed(step, errno))
        }
    }
}

extern "C" fn child_main(arg: *mut c_void) -> c_int {
    let shared = arg.cast::<Shared>();
    // SAFETY: `arg` is the parent's `Shared`, alive and not touched by anyone else while the parent is
    // suspended (see `spawn`). Every pointer in it came from live slices with a terminating null.
    let failure = unsafe { steps(&*shared) };
    let errno = nix::errno::Errno::last_raw();
    // SAFETY: same memory; the parent reads it after this process has ended.
    unsafe { std::ptr::write_volatile(&raw mut (*shared).failed, Some((failure, errno))) };
    // SAFETY: ends this process only, without running destructors that belong to the parent.
    unsafe { libc::_exit(126) }
}

/// Runs the steps; returns only when one failed, with errno set by it.
///
/// # Safety
/// `s` must be the plan of a suspended parent, all its pointers valid.
unsafe fn steps(s: &Shared) -> Step {
    // SAFETY: integers only.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) } != 0 {
        return Step::ParentDeathSignal;
    }
    for (target, source) in [(0, s.stdio[0]), (1, s.stdio[1]), (2, s.stdio[2])] {
        // SAFETY: integers only.
        if unsafe { libc::dup2(source, target) } < 0 {
            return Step::Stdio;
        }
    }
    // SAFETY: integers only.
    if unsafe { libc::fchdir(s.cwd) } != 0 {
        return Step::Chdir;
    }
    for index in 0..s.limits_len {
        // SAFETY: `index` is below the length of the slice the pointer came from.
        let limit = unsafe { *s.limits.add(index) };
        let value = libc::rlimit { rlim_cur: limit.value, rlim_max: limit.value };
        // SAFETY: `value` lives over the call.
        if unsafe { libc::setrlimit(limit.resource, &raw const value) } != 0 {
            return Step::Limits;
        }
    }
    // SAFETY: marks descriptors, closes none.
    if unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) } != 0 {
        return Step::CloseRange;
    }
    // SAFETY: integers only.
    if unsafe { libc::syscall(libc::SYS_landlock_restrict_self, s.ruleset, 0u32) } != 0 {
        return Step::Landlock;
    }
    // SAFETY: the set lives in `s`; no old set is asked for.
    if unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const s.mask, std::ptr::null_mut()) } != 0 {
        return Step::SignalMask;
    }
    // SAFETY: NUL-terminated path and null-terminated pointer arrays, all alive.
    unsafe { libc::execve(s.program, s.argv, s.env) };
    Step::Execve
}

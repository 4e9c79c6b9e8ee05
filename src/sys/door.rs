//! A child that is made ahead of time, confined, and let through when its command is known.
//!
//! What costs most of a start is so behind when a request comes: the process, its session, its Landlock
//! domain, and its cgroup (moving a process waits for an RCU grace period, 10 ms and more; clone3(2) could
//! place the child at once, but a filter cannot see its flags). The child shares memory and descriptors with
//! its maker, a supervisor, sleeps on a futex, then takes a copy of the descriptors for itself and goes the
//! rest of the way of `child.rs`. The kernel clears [`Cell::alive`] when it executes or ends
//! (CLONE_CHILD_CLEARTID).

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use nix::errno::Errno;
use nix::unistd::Pid;

use super::child::{After, Before, ChildError, ChildPlan, Order, Step, after, before};

/// Bytes of the child's stack. The child calls leaf functions of the C library only.
const STACK: usize = 64 * 1024;

/// How often the child looks for its plan before it sleeps again: some ten microseconds.
const LOOKS: u32 = 4096;

/// How often the maker looks at more than the child, in milliseconds.
const LOOK: i64 = 50;

/// What maker and child share.
struct Cell {
    before: Before,
    /// 1: it waits.
    waits: AtomicU32,
    /// 1: a request has come. 2: `plan` is there.
    go: AtomicU32,
    plan: AtomicPtr<c_void>,
    /// Number of the step that failed, 0 while none has, and its errno.
    failed: AtomicU32,
    errno: AtomicI32,
    /// 1 until the kernel clears it.
    alive: AtomicU32,
}

/// A child that waits for its command. Dropping it ends the child.
pub(crate) struct Door {
    pid: i32,
    cell: Box<Cell>,
    _stack: Vec<u128>,
}

impl Door {
    /// Makes the child and waits until it is confined: behind `ruleset`, and in the group whose
    /// `cgroup.procs` this is, open for writing.
    ///
    /// # Errors
    /// The step that failed and its errno; no process is left then.
    pub(crate) fn make(ruleset: BorrowedFd<'_>, procs: Option<BorrowedFd<'_>>) -> Result<Self, ChildError> {
        let order = Order::look();
        let cell = Box::new(Cell {
            before: Before {
                parent: nix::unistd::getpid().as_raw(),
                procs: procs.map(|fd| fd.as_raw_fd()),
                ruleset: ruleset.as_raw_fd(),
                order,
            },
            waits: AtomicU32::new(0),
            go: AtomicU32::new(0),
            plan: AtomicPtr::new(ptr::null_mut()),
            failed: AtomicU32::new(0),
            errno: AtomicI32::new(0),
            alive: AtomicU32::new(1),
        });
        let refused = || ChildError { step: Step::Clone, errno: Errno::last_raw() };
        if order.fails(Step::Clone) {
            return Err(refused());
        }
        let mut stack = vec![0u128; STACK / 16];
        let top = stack.as_mut_ptr_range().end.cast::<c_void>();
        let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD;
        let arg = ptr::from_ref::<Cell>(&cell).cast_mut().cast::<c_void>();
        let none = ptr::null_mut::<c_void>();
        // SAFETY: `top` is one past the end of a live, 16-byte aligned allocation. Stack and cell are on
        // the heap and are freed by `drop` only, after the child has executed or was reaped. Parent and
        // child never run code on the same memory but through the atomics; no other thread of the caller
        // (a recorded run has one that listens) knows of them.
        let pid = unsafe { libc::clone(door_main, top, flags, arg, none, none, cell.alive.as_ptr()) };
        if pid < 0 {
            return Err(refused());
        }
        let door = Self { pid, cell, _stack: stack };
        // Only a killed child never says anything: look again now and then.
        while door.cell.waits.load(Ordering::SeqCst) == 0 {
            if door.cell.alive.load(Ordering::SeqCst) == 0 {
                return Err(door.stopped());
            }
            wait(&door.cell.waits, 0, LOOK);
        }
        Ok(door)
    }

    /// Wakes the child, whose plan is about to be laid out: a process takes a while to wake. Every descriptor
    /// of the plan exists by now.
    pub(crate) fn knock(&self) {
        self.cell.go.store(1, Ordering::SeqCst);
        wake(&self.cell.go);
    }

    /// Lets the child through to the program of `plan`, and waits until it has executed or ended. The child is
    /// killed when `is_over` says so, which is asked now and then: a program file may lie on a file system that
    /// does not answer.
    ///
    /// # Errors
    /// The step that failed and its errno; no process is left then.
    pub(crate) fn open(
        self,
        plan: &ChildPlan<'_>,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<Pid, ChildError> {
        let plan = After::new(plan)?;
        self.cell.plan.store(ptr::from_ref(&plan).cast_mut().cast::<c_void>(), Ordering::SeqCst);
        self.cell.go.store(2, Ordering::SeqCst);
        wake(&self.cell.go);
        let mut given_up = false;
        // The kernel says so however it ends.
        loop {
            wait(&self.cell.alive, 1, LOOK);
            if self.cell.alive.load(Ordering::SeqCst) == 0 {
                break;
            }
            if is_over() {
                given_up = true;
                // SAFETY: integers only; a child of ours that is not reaped yet.
                unsafe { libc::kill(self.pid, libc::SIGKILL) };
            }
        }
        let went = plan.begun.load(Ordering::SeqCst) && self.cell.failed.load(Ordering::SeqCst) == 0;
        if went {
            return Ok(Pid::from_raw(self.pid));
        }
        let stopped = self.stopped();
        Err(if given_up { ChildError { step: Step::Execve, errno: libc::ETIMEDOUT } } else { stopped })
    }

    /// Reaps the child that has ended at a step.
    fn stopped(&self) -> ChildError {
        // SAFETY: a child of ours that is not reaped yet; a null status is allowed.
        unsafe { libc::waitpid(self.pid, ptr::null_mut(), libc::__WALL) };
        match Step::numbered(self.cell.failed.load(Ordering::SeqCst)) {
            Some(step) => ChildError { step, errno: self.cell.errno.load(Ordering::SeqCst) },
            None => ChildError { step: Step::Clone, errno: libc::ECHILD }, // somebody killed it
        }
    }
}

impl Drop for Door {
    /// The memory may go once the child no longer uses it.
    fn drop(&mut self) {
        if self.cell.alive.load(Ordering::SeqCst) == 0 {
            return; // executed, or ended: then its status is for whoever waits for it
        }
        // SAFETY: integers only; a child of ours that is not reaped yet.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        // SAFETY: a null status is allowed.
        unsafe { libc::waitpid(self.pid, ptr::null_mut(), libc::__WALL) };
    }
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// Sleeps while `word` is `value`, but no longer than `millis`; 0 means for ever. May return early. Leaves errno
/// alone, which maker and child share: it may be the child's.
fn wait(word: &AtomicU32, value: u32, millis: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: millis * 1_000_000 };
    let limit = if millis == 0 { ptr::null() } else { &raw const time };
    // SAFETY: futex(2) by the calling convention of x86-64 (syscall(2)): it changes rax, rcx and r11 and reads the
    // word and the time, which outlive it. Not private: the kernel wakes without.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_futex => _,
            in("rdi") word.as_ptr(),
            in("rsi") i64::from(libc::FUTEX_WAIT),
            in("rdx") u64::from(value),
            in("r10") limit,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
}

fn wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

/// Raw calls only, as in `child.rs`: the memory is the supervisor's.
extern "C" fn door_main(arg: *mut c_void) -> c_int {
    // SAFETY: `arg` is the cell of `make`, alive until this process has executed or ended.
    let cell = unsafe { &*arg.cast::<Cell>() };
    if let Some(step) = before(&cell.before) {
        stop(cell, step)
    }
    cell.waits.store(1, Ordering::SeqCst);
    wake(&cell.waits);
    while cell.go.load(Ordering::SeqCst) == 0 {
        wait(&cell.go, 0, 0);
    }
    let mut looks = 0;
    while cell.go.load(Ordering::SeqCst) == 1 {
        if looks < LOOKS {
            looks += 1;
            std::hint::spin_loop();
        } else {
            wait(&cell.go, 1, 0);
        }
    }
    // SAFETY: the maker has stored a live plan before `go`, and waits until this process has executed.
    let plan = unsafe { &*cell.plan.load(Ordering::SeqCst).cast::<After<'_>>() };
    stop(cell, after(plan))
}

/// Ends the child, errno set by `step`.
fn stop(cell: &Cell, step: Step) -> ! {
    cell.errno.store(Errno::last_raw(), Ordering::SeqCst);
    cell.failed.store(step.number(), Ordering::SeqCst);
    // SAFETY: ends this process only, without running destructors that belong to the parent.
    unsafe { libc::_exit(126) }
}

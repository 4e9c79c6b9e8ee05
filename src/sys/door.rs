//! A child that is made ahead of time, moved into its cgroup, and let through when its command is known.
//!
//! Moving a process waits for an RCU grace period (10 ms and more), so it must not happen between a
//! request and its start; clone3(2) could place the child at once, but a filter cannot see its flags.
//! The child shares memory and descriptors with its maker, a supervisor with one thread, sleeps on a
//! futex, then takes a copy of the descriptors for itself and goes the way of `child.rs`. The kernel
//! clears [`Cell::alive`] when it executes or ends (CLONE_CHILD_CLEARTID).

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use nix::unistd::Pid;

use super::child::{self, STACK, Shared, Step};

/// What maker and child share beside the plan.
struct Cell {
    procs: RawFd,
    parent: i32,
    /// 0 on its way, 1 waiting in its group, 2 failed with `errno`.
    state: AtomicU32,
    errno: AtomicI32,
    /// 1: `plan` is there.
    go: AtomicU32,
    plan: AtomicPtr<c_void>,
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
    /// Makes the child and waits until it is in the group whose `cgroup.procs` this is, open for writing.
    ///
    /// # Errors
    /// No process, or a move that the kernel refused.
    pub(crate) fn make(procs: BorrowedFd<'_>) -> io::Result<Self> {
        let cell = Box::new(Cell {
            procs: procs.as_raw_fd(),
            parent: nix::unistd::getpid().as_raw(),
            state: AtomicU32::new(0),
            errno: AtomicI32::new(0),
            go: AtomicU32::new(0),
            plan: AtomicPtr::new(ptr::null_mut()),
            alive: AtomicU32::new(1),
        });
        let mut stack = vec![0u128; STACK / 16];
        let top = stack.as_mut_ptr_range().end.cast::<c_void>();
        let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD;
        let arg = ptr::from_ref::<Cell>(&cell).cast_mut().cast::<c_void>();
        let none = ptr::null_mut::<c_void>();
        // SAFETY: `top` is one past the end of a live, 16-byte aligned allocation. Stack and cell are on
        // the heap and are freed by `drop` only, after the child has executed or was reaped. The caller
        // has one thread; parent and child never run code on the same memory but through the atomics.
        let pid = unsafe { libc::clone(door_main, top, flags, arg, none, none, cell.alive.as_ptr()) };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        let door = Self { pid, cell, _stack: stack };
        loop {
            match door.cell.state.load(Ordering::SeqCst) {
                1 => return Ok(door),
                2 => return Err(io::Error::from_raw_os_error(door.cell.errno.load(Ordering::SeqCst))),
                _ if door.cell.alive.load(Ordering::SeqCst) == 0 => {
                    return Err(io::Error::from_raw_os_error(libc::ECHILD)); // somebody killed it
                }
                // Only a killed child never says anything: look again now and then.
                _ => wait(&door.cell.state, 0, 50),
            }
        }
    }

    /// Lets the child through with this plan, and waits until it has executed or ended.
    pub(super) fn open(self, plan: &Shared<'_>) -> Pid {
        self.cell.plan.store(ptr::from_ref(plan).cast_mut().cast::<c_void>(), Ordering::SeqCst);
        self.cell.go.store(1, Ordering::SeqCst);
        wake(&self.cell.go);
        while self.cell.alive.load(Ordering::SeqCst) != 0 {
            wait(&self.cell.alive, 1, 50);
        }
        Pid::from_raw(self.pid)
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

/// Sleeps while `word` is `value`, but no longer than `millis`; 0 means for ever. May return early.
fn wait(word: &AtomicU32, value: u32, millis: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: millis * 1_000_000 };
    let limit = if millis == 0 { ptr::null() } else { &raw const time };
    // SAFETY: the word outlives the call, and so does the time. Not private: the kernel wakes without.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, limit) };
}

fn wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

/// Raw calls only, as in `child.rs`: the memory is the supervisor's.
extern "C" fn door_main(arg: *mut c_void) -> c_int {
    // SAFETY: `arg` is the cell of `make`, alive until this process has executed or ended.
    let cell = unsafe { &*arg.cast::<Cell>() };
    // SAFETY: integers only.
    let bound = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) } == 0;
    // SAFETY: takes no argument.
    let bound = bound && unsafe { libc::getppid() } == cell.parent;
    // SAFETY: one byte of a literal.
    let entered = bound && unsafe { libc::write(cell.procs, c"0".as_ptr().cast(), 1) } == 1;
    if !entered {
        cell.errno.store(nix::errno::Errno::last_raw(), Ordering::SeqCst);
    }
    cell.state.store(if entered { 1 } else { 2 }, Ordering::SeqCst);
    wake(&cell.state);
    if !entered {
        // SAFETY: ends this process only.
        unsafe { libc::_exit(126) }
    }
    while cell.go.load(Ordering::SeqCst) == 0 {
        wait(&cell.go, 0, 0);
    }
    // SAFETY: the maker has stored a live plan before `go`, and waits until this process has executed.
    let plan = unsafe { &*cell.plan.load(Ordering::SeqCst).cast::<Shared<'_>>() };
    let flags = libc::CLOSE_RANGE_UNSHARE | libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: takes a copy of the descriptors and marks those of the copy; closes none.
    if unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, flags) } != 0 {
        child::stop(plan, Step::CloseRange)
    }
    child::go(plan)
}

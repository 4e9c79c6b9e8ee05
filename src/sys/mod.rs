//! The only room with `unsafe`: thin wrappers of the system calls that no crate wraps, and the
//! code between clone and exec. Called by `sandbox/`, `launch/` and `ops/` only; every wrapper checks the
//! kernel's answer and returns it as a value.
#![allow(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "raw system calls and process creation live here and nowhere else"
)]

pub(crate) mod attempt;
mod child;
mod door;
mod fdpass;
mod kernel;
mod manager;
mod offers;
mod seccomp;

pub(crate) use child::{ChildError, ChildPlan, Limit, rehearse};
pub(crate) use door::Door;
pub(crate) use fdpass::{recv, send, socketpair, watch};
pub(crate) use kernel::{
    WaitStatus, attach_tree, clone_tree, close_from, fork, has_mark, has_own_attributes, landlock_abi,
    landlock_restrict_self, mount_attrs, reset_signals, restrict_memory_execution, survive_file_size_limit,
    wait_any,
};
pub(crate) use manager::{monotonic_micros, take_descriptors};
pub(crate) use offers::{
    close_range, filters, memory_rules, mount_setattr, move_mount, notifications, open_tree, openat2,
};
pub(crate) use seccomp::{Told, seccomp_answer, seccomp_filter, seccomp_install, seccomp_told};

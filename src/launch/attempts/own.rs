//! Attempts on the process's own identity and limits: what it is, and whether it can become more.

use caps::CapSet;
use nix::errno::Errno;
use nix::unistd::Uid;

use super::execution::Arg;
use super::read::{Stop, call, call_or, step};
use super::{Scene, Tried};
use crate::sys::attempt as raw;

pub(super) fn user(_: &Scene<'_>, _: Arg) -> Tried {
    let (uid, gid) = (Uid::effective(), nix::unistd::Gid::effective());
    let detail = format!("uid {uid}, gid {gid}");
    if uid.is_root() { Ok(detail) } else { Err(Stop::Refused(detail)) }
}

/// Becoming root: for a command that stays root it is no change.
pub(super) fn become_root(_: &Scene<'_>, _: Arg) -> Tried {
    // EINVAL: the user namespace has no root.
    call_or("setuid", nix::unistd::setuid(Uid::from_raw(0)), &[Errno::EINVAL])
}

pub(super) fn take_capability(_: &Scene<'_>, _: Arg) -> Tried {
    call("capset", raw::take_capability())
}

/// Every set that can be read from inside must be empty.
pub(super) fn capabilities(_: &Scene<'_>, _: Arg) -> Tried {
    for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable, CapSet::Bounding] {
        let held = caps::read(None, set).map_err(|e| Stop::Failed(e.to_string()))?;
        if !held.is_empty() {
            return Ok(format!("{set:?}: {} capabilities", held.len()));
        }
    }
    Err(Stop::Refused("effective, permitted, inheritable and bounding sets are empty".to_owned()))
}

pub(super) fn new_privileges(_: &Scene<'_>, _: Arg) -> Tried {
    match step("prctl", nix::sys::prctl::get_no_new_privs())? {
        true => Err(Stop::Refused("no_new_privs is set".to_owned())),
        false => Ok("no_new_privs is not set".to_owned()),
    }
}

pub(super) fn unfiltered(_: &Scene<'_>, _: Arg) -> Tried {
    match step("prctl", raw::seccomp_mode())? {
        2 => Err(Stop::Refused("seccomp mode 2".to_owned())),
        mode => Ok(format!("seccomp mode {mode}")),
    }
}

pub(super) fn descriptors(scene: &Scene<'_>, _: Arg) -> Tried {
    match scene.descriptors.as_slice() {
        [0, 1, 2] => Err(Stop::Refused("only 0, 1 and 2".to_owned())),
        found => Ok(format!("found {found:?}")),
    }
}

pub(super) fn environment(scene: &Scene<'_>, _: Arg) -> Tried {
    let names: Vec<String> =
        std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    let known = |name: &&String| scene.ground.environment.contains(name);
    let strange: Vec<&String> = names.iter().filter(|name| !known(name)).collect();
    if strange.is_empty() {
        Err(Stop::Refused(format!("only {}", names.join(", "))))
    } else {
        Ok(format!("found {strange:?}"))
    }
}

/// One resource limit: in force as wanted, soft and hard, and not to be raised.
pub(super) fn limit(scene: &Scene<'_>, [resource, ..]: Arg) -> Tried {
    let resource = resource.unsigned_abs();
    let Some((_, wanted)) = scene.ground.limits.iter().find(|(number, _)| *number == resource) else {
        return Err(Stop::Failed("the policy sets no such limit".to_owned()));
    };
    let (soft, hard) = step("getrlimit", raw::limit(resource))?;
    if (soft, hard) != (*wanted, *wanted) {
        return Ok(format!("soft {soft}, hard {hard}, wanted {wanted}"));
    }
    match hard.checked_add(1).filter(|_| hard != libc::RLIM_INFINITY) {
        None => Ok("there is no limit".to_owned()),
        Some(more) => match call("setrlimit", raw::set_limit(resource, more)) {
            Err(Stop::Refused(detail)) => Err(Stop::Refused(format!("{wanted}, soft and hard; {detail}"))),
            other => other,
        },
    }
}

/// As much memory as the limit allows for the whole process.
pub(super) fn too_much_memory(_: &Scene<'_>, _: Arg) -> Tried {
    let limit = step("getrlimit", raw::limit(libc::RLIMIT_AS))?.0;
    match usize::try_from(limit) {
        Ok(bytes) if limit != libc::RLIM_INFINITY => {
            let length = bytes.next_multiple_of(4096);
            call_or("mmap", raw::map_memory(length, libc::PROT_READ, None), &[Errno::ENOMEM])
        }
        _ => Ok("there is no limit".to_owned()),
    }
}

/// Descriptors until there are no more.
pub(super) fn too_many_descriptors(scene: &Scene<'_>, _: Arg) -> Tried {
    let wanted = scene.ground.limits.iter().find(|(number, _)| *number == libc::RLIMIT_NOFILE);
    let Some((_, wanted)) = wanted else {
        return Err(Stop::Failed("the policy sets no such limit".to_owned()));
    };
    let mut held = Vec::new();
    for _ in 0..*wanted {
        match nix::unistd::dup(std::io::stdin()) {
            Ok(copy) => held.push(copy),
            Err(Errno::EMFILE) => {
                return Err(Stop::Refused(format!("dup: too many open files after {}", held.len())));
            }
            Err(other) => return Err(Stop::Failed(format!("dup: {other}"))),
        }
    }
    Ok(format!("{} descriptors were made", held.len()))
}

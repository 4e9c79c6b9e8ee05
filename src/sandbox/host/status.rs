//! What the kernel says of this process: capabilities, no-new-privs, filter, user namespace; and the
//! settings of the kernel that matter for walls.
//!
//! Inputs: texts below `/proc`. Used by `host/` and, for its own walls, by `appliance.rs`.

use std::path::Path;

use super::Known;

/// Walls around this thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Own {
    /// Effective capabilities.
    pub effective: u64,
    /// Bounding set.
    pub bounding: u64,
    /// `no_new_privs`.
    pub no_new_privs: bool,
    /// 0 none, 1 strict, 2 filter.
    pub seccomp: u32,
}

impl Own {
    /// As the kernel tells this thread.
    ///
    /// # Errors
    /// One sentence.
    pub fn read() -> Known<Self> {
        parse(&text("/proc/thread-self/status")?)
    }
}

fn parse(status: &str) -> Known<Own> {
    let field = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.map(str::trim).ok_or_else(|| format!("/proc/thread-self/status has no {name}"))
    };
    let set = |name: &str| {
        let text = field(name)?;
        u64::from_str_radix(text, 16).map_err(|e| format!("{name} of /proc/thread-self/status: {e}"))
    };
    let number = |name: &str| {
        let text = field(name)?;
        text.parse::<u32>().map_err(|e| format!("{name} of /proc/thread-self/status: {e}"))
    };
    Ok(Own {
        effective: set("CapEff")?,
        bounding: set("CapBnd")?,
        no_new_privs: number("NoNewPrivs")? == 1,
        seccomp: number("Seccomp")?,
    })
}

/// Whether this process lives in a user namespace other than the first.
pub(super) fn in_user_namespace(map: &str) -> bool {
    let words: Vec<&str> = map.split_whitespace().collect();
    words != ["0", "0", "4294967295"]
}

/// A file of `/proc`.
pub(super) fn text(path: &str) -> Known<String> {
    std::fs::read_to_string(path).map_err(|e| format!("reading {path} failed: {e}"))
}

/// A number below `/proc/sys`; `Ok(None)` when this kernel has no such setting.
pub(super) fn setting(name: &str) -> Known<Option<u64>> {
    let path = Path::new("/proc/sys").join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map(Some).map_err(|e| format!("{}: {e}", path.display())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(format!("reading {} failed: {e}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_numbers_are_read_and_a_missing_one_is_an_error() {
        let text =
            "Name:\tx\nCapEff:\t0000000000000400\nCapBnd:\t000001ffffffffff\nNoNewPrivs:\t1\nSeccomp:\t2\n";
        let own = Own { effective: 0x400, bounding: 0x1ff_ffff_ffff, no_new_privs: true, seccomp: 2 };
        assert_eq!(parse(text), Ok(own));
        assert!(parse(&text.replace("CapBnd", "Other")).unwrap_err().contains("CapBnd"));
        assert!(parse(&text.replace("0000000000000400", "lots")).is_err());
    }

    #[test]
    fn this_process_can_read_its_own() {
        assert!(Own::read().unwrap().seccomp <= 2);
    }

    #[test]
    fn only_the_whole_range_is_the_first_user_namespace() {
        assert!(!in_user_namespace("         0          0 4294967295\n"));
        assert!(in_user_namespace("0 1000 1\n"));
        assert!(in_user_namespace(""));
    }
}

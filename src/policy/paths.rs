//! The path rule: file names that lie outside of what a command may read.
//!
//! Purpose: a lint for the caller's benefit. The kernel profile decides what can be opened; this says
//! so before the program starts, and in words. It reads names only and follows no link. Inputs: a value
//! that may be a file name, and the view that a command has. Called by `grammar::rules` for programs
//! whose grammar says which values are file names, and by `arguments` for all others.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::sandbox::profile::{DEVICES_READ, DEVICES_WRITE, PROC_FILES};

/// Id of the rule.
pub(super) const RULE: &str = "path.outside";
/// Why, as a clause after the argument or the option.
pub(super) const REASON: &str = "names a file outside of the workspace that this command may not read";
/// What to do instead.
pub(super) const INSTEAD: &str = "name a file in the workspace";

/// Places in one element where a value may begin that are looked at one by one, so that the time is linear
/// in the element; behind more of them whatever may be a path is refused.
const VALUES: usize = 128;

/// Names of the streams that a command has open anyway.
const STREAMS: &[&str] = &["/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd"];

/// What a command may name: the workspace, and the files that the policy lets it read.
#[derive(Debug, Clone, Copy)]
pub struct View<'c> {
    /// Root of the workspace, as the kernel has it.
    pub workspace: &'c Path,
    /// Files and directories beside it.
    pub granted: [&'c [PathBuf]; 3],
    /// How many directories the working directory lies beneath the root of the workspace.
    pub depth: usize,
}

impl View<'_> {
    /// Whether `value`, which may be a file name, names something outside. `@FILE` and `file:` URLs
    /// count as the file.
    #[must_use]
    pub fn is_outside(&self, value: &[u8]) -> bool {
        let file = file_of(value);
        match file.first() {
            Some(b'/') => self.is_absolute_outside(file),
            Some(_) => climbs(file, self.depth),
            None => false,
        }
    }

    /// The same for an element of which nothing is known: attached values count, too.
    #[must_use]
    pub fn holds_outside(&self, element: &[u8]) -> bool {
        if self.is_outside(element) {
            return true;
        }
        if let [b'-', letter, value @ ..] = element
            && *letter != b'-'
            && self.is_outside(value)
        {
            return true;
        }
        let mut left = element;
        let mut tried = 0_usize;
        while let Some(at) = left.iter().position(|byte| *byte == b'=') {
            left = left.get(at.saturating_add(1)..).unwrap_or(b"");
            // The last one of a row of them says most.
            if left.first() == Some(&b'=') {
                continue;
            }
            tried = tried.saturating_add(1);
            if tried > VALUES {
                return left.contains(&b'/') || left.windows(2).any(|pair| pair == b"..");
            }
            if self.is_outside(left) {
                return true;
            }
        }
        false
    }

    fn is_absolute_outside(&self, file: &[u8]) -> bool {
        let resolved = resolved(Path::new(OsStr::from_bytes(file)));
        let named = |names: &[&str]| names.iter().any(|name| resolved == Path::new(name));
        let stream = resolved.strip_prefix("/dev/fd").is_ok_and(|rest| {
            let rest = rest.as_os_str().as_bytes();
            !rest.is_empty() && rest.iter().all(u8::is_ascii_digit)
        });
        let granted = self.granted.iter().flat_map(|list| list.iter()).any(|path| resolved.starts_with(path));
        let inside = resolved.starts_with(self.workspace)
            || granted
            || stream
            || named(STREAMS)
            || named(DEVICES_WRITE)
            || named(DEVICES_READ)
            || named(PROC_FILES);
        !inside
    }
}

/// An absolute path without `.`, `..` and doubled slashes, by its letters alone.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

/// How far above where it starts a name ends. Nothing is known of an absolute one: to the root.
pub(super) fn climbed(name: &[u8]) -> usize {
    if name.starts_with(b"/") {
        return usize::MAX;
    }
    let (mut up, mut down) = (0_usize, 0_usize);
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if down == 0 => up = up.saturating_add(1),
            b".." => down = down.saturating_sub(1),
            _ => down = down.saturating_add(1),
        }
    }
    up.saturating_sub(down)
}

/// The file that a value names: itself, or what an `@`, a `<` or a `file:` URL holds.
fn file_of(value: &[u8]) -> &[u8] {
    let value = value.strip_prefix(b"@").or_else(|| value.strip_prefix(b"<")).unwrap_or(value);
    url(value).unwrap_or(value)
}

/// Whether a relative name leaves the workspace from a directory `depth` levels beneath its root.
fn climbs(file: &[u8], depth: usize) -> bool {
    let mut level = depth;
    for part in file.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match level.checked_sub(1) {
                Some(up) => level = up,
                None => return true,
            },
            _ => level = level.saturating_add(1),
        }
    }
    false
}

/// The path of a `file:` URL (RFC 8089), whatever its case and host.
fn url(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(b"file:".len())?;
    if !scheme.eq_ignore_ascii_case(b"file:") {
        return None;
    }
    match rest.strip_prefix(b"//") {
        None => Some(rest),
        Some(rest) => {
            let at = rest.iter().position(|byte| *byte == b'/')?;
            rest.get(at..)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outside(depth: usize, value: &str) -> bool {
        let granted = [PathBuf::from("/etc/passwd"), PathBuf::from("/usr/share/misc")];
        View { workspace: Path::new("/srv/ws"), granted: [&granted, &[], &[]], depth }
            .is_outside(value.as_bytes())
    }

    #[test]
    fn absolute_names_are_judged_by_their_letters() {
        for inside in [
            "/srv/ws",
            "/srv/ws/a",
            "//srv//ws/./a",
            "/srv/x/../ws/a",
            "/etc/passwd",
            "/usr/share/misc/magic",
            "/dev/null",
            "/dev/stdin",
            "/dev/fd/3",
            "file:///srv/ws/a",
            "@/srv/ws/list",
            "",
        ] {
            assert!(!outside(0, inside), "{inside}");
        }
        for out in [
            "/",
            "/srv",
            "/srv/wsx",
            "/srv/ws/../secret",
            "/etc/shadow",
            "/etc/passwd-",
            "/proc/self/environ",
            "/dev/fd/3/x",
            "/dev/fd/x",
            "/dev/sda",
            "@/etc/shadow",
            "file:///etc/shadow",
            "FILE://localhost/etc/shadow",
            "file:/etc/shadow",
            "//etc//shadow",
            "/dev/null/../sda",
        ] {
            assert!(outside(0, out), "{out}");
        }
    }

    #[test]
    fn relative_names_may_climb_as_far_as_the_root_of_the_workspace() {
        for (depth, name) in
            [(0, "a/.."), (0, "a..b"), (0, "..."), (0, "main..HEAD"), (1, ".."), (2, "../../a"), (0, "./a")]
        {
            assert!(!outside(depth, name), "{depth} {name}");
        }
        for (depth, name) in [(0, ".."), (0, "a/../.."), (1, "../.."), (0, "./../x"), (0, "@../x")] {
            assert!(outside(depth, name), "{depth} {name}");
        }
    }

    #[test]
    fn attached_values_of_unknown_elements_count() {
        let view = View { workspace: Path::new("/srv/ws"), granted: [&[], &[], &[]], depth: 0 };
        for element in ["--file=/x", "-f/x", "-f../x", "a=b=/x", "key=@/x", "part=</x", "--x=file:///x", "/x"]
        {
            assert!(view.holds_outside(element.as_bytes()), "{element}");
        }
        for element in ["--file=x", "-fx/y", "a/b", "http://h/x", "--x=/srv/ws/a", "-", "--", "-f"] {
            assert!(!view.holds_outside(element.as_bytes()), "{element}");
        }
    }

    #[test]
    fn behind_many_values_anything_that_may_be_a_path_is_refused() {
        let view = View { workspace: Path::new("/srv/ws"), granted: [&[], &[], &[]], depth: 0 };
        let many = "a=b".repeat(2 * VALUES);
        for (tail, outside) in [("", false), ("=x", false), ("=..", true), ("=x/y", true), ("=/etc/x", true)]
        {
            assert_eq!(view.holds_outside(format!("{many}{tail}").as_bytes()), outside, "{tail}");
        }
        let row = "=".repeat(4 * VALUES);
        assert!(!view.holds_outside(format!("{row} a/b {row}").as_bytes()));
        assert!(view.holds_outside(format!("{row}/etc/x").as_bytes()));
        assert!(view.holds_outside(format!("{row}../x").as_bytes()));
    }

    #[test]
    fn a_change_of_directory_is_counted() {
        for (name, up) in
            [("..", 1), ("../a", 0), ("a/../..", 1), ("../../a", 1), ("a", 0), ("/x", usize::MAX)]
        {
            assert_eq!(climbed(name.as_bytes()), up, "{name}");
        }
    }
}

//! The built-in policy, and where its programs come from when they are not installed.
//!
//! Used by `load.rs` (the text) and `commands.rs` (remedies).

/// `policy/default.toml`.
pub(super) const TEXT: &str = include_str!("../../policy/default.toml");

/// What errors call it.
pub(super) const LABEL: &str = "built-in policy";

/// Debian packages of programs that a small image lacks.
const PACKAGES: &[(&str, &str)] = &[
    ("diff", "diffutils"),
    ("fd", "fd-find"),
    ("file", "file"),
    ("find", "findutils"),
    ("git", "git"),
    ("grep", "grep"),
    ("jq", "jq"),
    ("rg", "ripgrep"),
    ("tree", "tree"),
];

/// Programs of GNU coreutils that policies commonly name.
const COREUTILS: &[&str] = &[
    "basename", "cat", "cut", "date", "dirname", "du", "echo", "head", "ls", "nl", "od", "printf", "pwd",
    "realpath", "sort", "stat", "tail", "tr", "true", "uniq", "wc",
];

/// What to do when `name` is not installed.
pub(super) fn remedy(name: &str) -> Option<String> {
    let packaged = PACKAGES.iter().find(|(program, _)| *program == name).map(|(_, package)| *package);
    let package = packaged.or_else(|| COREUTILS.contains(&name).then_some("coreutils"))?;
    Some(format!("apt-get install {package}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_name_the_package() {
        assert_eq!(remedy("rg").as_deref(), Some("apt-get install ripgrep"));
        assert_eq!(remedy("ls").as_deref(), Some("apt-get install coreutils"));
        assert_eq!(remedy("frobnicate"), None);
    }
}

//! Short options that carry a secret in certain programs only.
//!
//! Purpose: `-p` is a port for one program and a password for another; a table says which. Pure.

use std::borrow::Cow;

/// Program, subcommand (empty: any), and the options whose next element is a secret.
const SEPARATE: &[(&str, &str, &[&str])] = &[
    ("sshpass", "", &["-p"]),
    ("redis-cli", "", &["-a", "--pass"]),
    ("docker", "login", &["-p"]),
    ("podman", "login", &["-p"]),
    ("helm", "login", &["-p"]),
    ("oc", "login", &["-p"]),
    ("az", "login", &["-p"]),
    ("twine", "upload", &["-p"]),
    ("ldapsearch", "", &["-w"]),
    ("ldapadd", "", &["-w"]),
    ("ldapmodify", "", &["-w"]),
    ("ldapwhoami", "", &["-w"]),
    ("zip", "", &["-P"]),
    ("unzip", "", &["-P"]),
    ("ssh-keygen", "", &["-N", "-P"]),
    ("curl", "", &["-u", "--user", "-U", "--proxy-user"]),
    ("http", "", &["-a"]),
    ("smbclient", "", &["-U"]),
    ("mongo", "", &["-p"]),
    ("mongosh", "", &["-p"]),
    ("mongodump", "", &["-p"]),
    ("sqlcmd", "", &["-P"]),
    ("bcp", "", &["-P"]),
    ("snmpget", "", &["-A", "-X", "-c"]),
    ("snmpwalk", "", &["-A", "-X", "-c"]),
    ("openssl", "", &["-pass", "-passin", "-passout"]),
    ("openssl", "enc", &["-k", "-K"]),
    ("mosquitto_pub", "", &["-P"]),
    ("mosquitto_sub", "", &["-P"]),
];

/// Programs and the options that a secret may be glued to.
const JOINED: &[(&str, &[&str])] = &[
    ("mysql", &["-p"]),
    ("mysqldump", &["-p"]),
    ("mysqladmin", &["-p"]),
    ("mariadb", &["-p"]),
    ("sshpass", &["-p"]),
    ("7z", &["-p"]),
    ("7za", &["-p"]),
    ("rar", &["-p", "-hp"]),
    ("unrar", &["-p"]),
    ("redis-cli", &["-a"]),
    ("curl", &["-u"]),
    ("ldapsearch", &["-w"]),
    ("mongo", &["-p"]),
    ("sqlcmd", &["-P"]),
    ("openssl", &["pass:"]),
];

/// A secret glued to its option.
pub(super) struct Joined {
    /// Bytes of the option, which stay.
    pub(super) keep: usize,
    /// The rule.
    pub(super) rule: &'static str,
}

/// Rule id for what these tables find.
const SHORT: &str = "short-option";

/// Whether the element after `argument` is a secret of `program`, whose arguments so far may hold
/// the subcommand.
pub(super) fn separate(program: &str, before: &[Cow<'_, str>], argument: &str) -> Option<&'static str> {
    let fits = |subcommand: &str| subcommand.is_empty() || before.iter().any(|word| word == subcommand);
    SEPARATE
        .iter()
        .any(|(name, subcommand, options)| {
            *name == program && options.contains(&argument) && fits(subcommand)
        })
        .then_some(SHORT)
}

/// Whether a secret of `program` is glued to the option in `argument`.
pub(super) fn joined(program: &str, argument: &str) -> Option<Joined> {
    let options = JOINED.iter().find(|(name, _)| *name == program).map(|(_, options)| *options)?;
    let keep =
        options.iter().find(|option| argument.len() > option.len() && argument.starts_with(**option))?.len();
    let looks_like_long_option = argument.starts_with("--");
    (!looks_like_long_option).then_some(Joined { keep, rule: SHORT })
}

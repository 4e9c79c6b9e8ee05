//! Environment names that make a program load or run something else.
//!
//! Purpose: a table an auditor can read, with the reason on each line. A policy cannot pass or set
//! these; presets of one command (`[command.X] environment`, written by the operator for one known
//! program) may set those that are not marked as the loader's.

/// Who may not set a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    /// Nobody: it changes what the loader or the C library does before `main`.
    Loader,
    /// Callers and `[environment]`; presets of one command may.
    Program,
}

use Hook::{Loader, Program};

/// Names (`*` stands for any run of characters), and what they do.
#[rustfmt::skip]
const HOOKS: &[(&str, Hook, &str)] = &[
    ("LD_*", Loader, "loads code into every program"),
    ("GLIBC_TUNABLES", Loader, "changes the C library before main"),
    ("GCONV_PATH", Loader, "loads character-set modules as code"),
    ("GETCONF_DIR", Program, "names a directory of programs to run"),
    ("LOCPATH", Program, "loads locale files from anywhere"),
    ("NLSPATH", Program, "loads message catalogues, which are format strings"),
    ("MALLOC_TRACE", Program, "names a file to write"),
    ("HOSTALIASES", Program, "redirects host names"),
    ("LOCALDOMAIN", Program, "redirects host names"),
    ("RES_OPTIONS", Program, "changes the resolver"),
    ("RESOLV_*", Program, "changes the resolver"),
    ("BASH_ENV", Program, "a file that bash runs first"),
    ("ENV", Program, "a file that sh runs first"),
    ("BASH_FUNC_*", Program, "defines shell functions"),
    ("SHELLOPTS", Program, "switches shell options, xtrace among them"),
    ("BASHOPTS", Program, "switches shell options"),
    ("PS4", Program, "is expanded, commands included, by a tracing shell"),
    ("PROMPT_COMMAND", Program, "is run by bash"),
    ("IFS", Program, "changes how shells split words"),
    ("CDPATH", Program, "changes where cd goes"),
    ("SHELL", Program, "is run by editors, pagers and make"),
    ("PAGER", Program, "is run to show output"),
    ("*_PAGER", Program, "is run to show output"),
    ("MANPAGER", Program, "is run to show output"),
    ("LESSOPEN", Program, "is run by less on every file"),
    ("LESSCLOSE", Program, "is run by less on every file"),
    ("EDITOR", Program, "is run to edit"),
    ("*_EDITOR", Program, "is run to edit"),
    ("VISUAL", Program, "is run to edit"),
    ("BROWSER", Program, "is run to show pages"),
    ("GIT_*EXEC*", Program, "names where git finds its programs"),
    ("GIT_EXTERNAL_DIFF", Program, "is run by git diff"),
    ("GIT_SSH*", Program, "is run by git to connect"),
    ("GIT_PROXY_COMMAND", Program, "is run by git to connect"),
    ("*_ASKPASS", Program, "is run to ask for a password"),
    ("GIT_CONFIG*", Program, "sets any git option, those that run programs included"),
    ("GIT_TEMPLATE_DIR", Program, "supplies hooks"),
    ("GIT_TRACE*", Program, "names a file to write"),
    ("GIT_TRACE2*", Program, "names a file to write"),
    ("RIPGREP_CONFIG_PATH", Program, "adds options, --pre among them"),
    ("GREP_OPTIONS", Program, "adds options"),
    ("TAR_OPTIONS", Program, "adds options, --to-command among them"),
    ("RSYNC_RSH", Program, "is run by rsync to connect"),
    ("CVS_RSH", Program, "is run to connect"),
    ("PYTHON*", Program, "loads Python code"),
    ("PERL5LIB", Program, "loads Perl code"),
    ("PERLLIB", Program, "loads Perl code"),
    ("PERL5OPT", Program, "adds options, -M among them"),
    ("PERL5DB", Program, "is Perl code"),
    ("RUBYOPT", Program, "adds options, -r among them"),
    ("RUBYLIB", Program, "loads Ruby code"),
    ("NODE_OPTIONS", Program, "adds options, --require among them"),
    ("NODE_PATH", Program, "loads JavaScript code"),
    ("LUA_*", Program, "loads or is Lua code"),
    ("JAVA_TOOL_OPTIONS", Program, "adds options, -javaagent among them"),
    ("*JAVA_OPTIONS", Program, "adds options, -javaagent among them"),
    ("GCC_EXEC_PREFIX", Program, "names where gcc finds its programs"),
    ("COMPILER_PATH", Program, "names where gcc finds its programs"),
    ("RUSTC*", Program, "is run by cargo"),
    ("CARGO_*", Program, "sets cargo options, those that run programs included"),
    ("MAKEFLAGS", Program, "adds options and definitions"),
    ("MAKEFILES", Program, "is read by make first"),
    ("MALLOC_*", Program, "changes the C library"),
    ("ZDOTDIR", Program, "holds files that zsh runs first"),
    ("PERL5*", Program, "loads code into an interpreter"),
    ("PERL_*", Program, "loads code into an interpreter"),
    ("RUBY*", Program, "loads code into an interpreter"),
    ("GEM_*", Program, "loads code into an interpreter"),
    ("BUNDLE_*", Program, "loads code into an interpreter"),
    ("NODE_REPL_EXTERNAL_MODULE", Program, "loads code into an interpreter"),
    ("PHPRC", Program, "loads code into an interpreter"),
    ("PHP_INI_SCAN_DIR", Program, "loads code into an interpreter"),
    ("CLASSPATH", Program, "loads code into the virtual machine"),
    ("TCLLIBPATH", Program, "loads code into an interpreter"),
    ("AWKPATH", Program, "loads code into an interpreter"),
    ("AWKLIBPATH", Program, "loads code into an interpreter"),
    ("R_*", Program, "loads code into an interpreter"),
    ("*PAGER", Program, "is run by programs"),
    ("*EDITOR", Program, "is run by programs"),
    ("*_RSH", Program, "is run by programs"),
    ("LESS*", Program, "makes the pager run programs"),
    ("MANOPT", Program, "adds options that were not judged"),
    ("TAPE", Program, "adds operands that were not judged"),
    ("ZIPOPT", Program, "adds options that were not judged"),
    ("RSYNC_*", Program, "adds options that were not judged"),
    ("FZF_DEFAULT_*", Program, "is run by the program"),
    ("POSIXLY_CORRECT", Program, "changes which arguments are options"),
    ("OPENSSL_*", Program, "loads code into a library"),
    ("GTK_*MODULES", Program, "loads code into a library"),
    ("GIO_*", Program, "loads code into a library"),
    ("QT_PLUGIN_PATH", Program, "loads code into a library"),
    ("SSLKEYLOGFILE", Program, "is a file that secrets are written to"),
    ("CURL_HOME", Program, "holds options that were not judged"),
    ("WGETRC", Program, "holds options that start programs"),
    ("SYSTEM_WGETRC", Program, "holds options that start programs"),
    ("SVN_SSH", Program, "is run by svn to connect"),
    ("HG", Program, "is run by hg"),
    ("HGRCPATH", Program, "holds hooks and aliases of hg"),
    ("HGMERGE", Program, "is run by hg to merge"),
    ("PSQLRC", Program, "holds commands of psql"),
    ("PGSERVICEFILE", Program, "holds settings of connections"),
    ("PGSYSCONFDIR", Program, "holds settings of connections"),
    ("MYSQL_HOME", Program, "holds options that load code"),
    ("LIBMYSQL_*", Program, "loads code into the client library"),
    ("MARIADB_*", Program, "loads code into the client library"),
    ("REDISCLI_RCFILE", Program, "holds settings of redis-cli"),
    ("LDAPCONF", Program, "holds settings of the LDAP library"),
    ("LDAPRC", Program, "holds settings of the LDAP library"),
    ("MTR_*", Program, "adds options, or names the program that mtr starts"),
    ("NMAPDIR", Program, "holds scripts that nmap runs"),
    ("WIRESHARK_*", Program, "holds plugins and capture programs"),
    ("IP_LIB_DIR", Program, "loads code into ip"),
    ("TC_LIB_DIR", Program, "loads code into tc"),
    ("SSH_SK_PROVIDER", Program, "loads code into ssh"),
    ("GNUPGHOME", Program, "holds options that start programs"),
];

/// Why `name` may not be passed or set; `preset`: by a preset of one command.
pub(crate) fn refused(name: &str, preset: bool) -> Option<&'static str> {
    let matching = HOOKS.iter().filter(|(pattern, _, _)| matches(pattern, name));
    let mut refusing = matching.filter(|(_, hook, _)| !preset || *hook == Loader);
    refusing.next().map(|(_, _, reason)| *reason)
}

/// Whether `name` is a name that a portable environment can hold.
pub(crate) fn is_env_name(name: &str) -> bool {
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    starts && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether `name` looks as if its value were a secret (a hint in `check`, never a verdict).
pub(crate) fn looks_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    ["TOKEN", "SECRET", "PASS", "KEY", "CREDENTIAL", "COOKIE", "AUTH"].iter().any(|part| upper.contains(part))
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => name.strip_prefix(head).is_some_and(|tail| {
            rest.is_empty()
                || tail
                    .char_indices()
                    .map(|(at, _)| at)
                    .chain([tail.len()])
                    .any(|at| tail.get(at..).is_some_and(|tail| matches(rest, tail)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_refused_and_plain_names_are_not() {
        for name in [
            "LD_PRELOAD",
            "LD_AUDIT",
            "GLIBC_TUNABLES",
            "GIT_EXEC_PATH",
            "GIT_EXTERNAL_DIFF",
            "GIT_SSH_COMMAND",
            "GIT_PAGER",
            "PAGER",
            "EDITOR",
            "VISUAL",
            "GIT_SEQUENCE_EDITOR",
            "BASH_ENV",
            "ENV",
            "IFS",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "PERL5OPT",
            "RUBYOPT",
            "NODE_OPTIONS",
            "TAR_OPTIONS",
            "GCONV_PATH",
            "LOCPATH",
            "HOSTALIASES",
            "_JAVA_OPTIONS",
            "SSH_ASKPASS",
            "GIT_CONFIG_COUNT",
        ] {
            assert!(refused(name, false).is_some(), "{name}");
        }
        for name in ["LANG", "TZ", "HOME", "GIT_AUTHOR_NAME", "NO_COLOR", "ENVIRONMENT", "LC_ALL", "OLD_LD"] {
            assert_eq!(refused(name, false), None, "{name}");
        }
    }

    #[test]
    fn presets_may_set_a_pager_but_never_the_loader() {
        assert_eq!(refused("GIT_PAGER", true), None);
        assert_eq!(refused("GIT_CONFIG_COUNT", true), None);
        for name in ["LD_PRELOAD", "LD_LIBRARY_PATH", "GLIBC_TUNABLES", "GCONV_PATH"] {
            assert!(refused(name, true).is_some(), "{name}");
        }
    }

    #[test]
    fn environment_names_are_plain() {
        assert!(is_env_name("_A1") && is_env_name("Path"));
        for bad in ["", "1A", "A=B", "A B", "A\u{0}", "Ä", "A-B"] {
            assert!(!is_env_name(bad), "{bad:?}");
        }
    }
}

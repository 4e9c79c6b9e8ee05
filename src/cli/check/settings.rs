//! Lints of settings that hold for every command: names, environment, kernel grants.
//!
//! Purpose: what a valid policy leaves open is said once, before it is used. Inputs: the policy. Called by
//! `check` only.

use std::path::{Path, PathBuf};

use super::files;
use super::lint::Book;
use crate::config::{Requirement, RunUser, Sink, hooks};

/// Files and directories whose content is somebody's secret. A home is any directory below `/home`.
const SECRETS: &[&str] = &[
    "/root",
    "/home",
    "/proc",
    "/sys",
    "/dev",
    "/boot",
    "/run",
    "/var/run",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/krb5.keytab",
    "/etc/NetworkManager",
    "/etc/wireguard",
    "/etc/kubernetes",
    "/etc/docker",
    "/etc/letsencrypt",
    "/var/lib",
    "/var/log",
    "/var/spool",
    "/var/mail",
    "/var/backups",
];

/// Names that hold secrets wherever they lie.
const SECRET_NAMES: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".bash_history",
    ".env",
    ".local",
    ".mozilla",
    "id_rsa",
    "id_ed25519",
    "id_ecdsa",
    "secrets",
    "credentials",
    "private",
];

/// Values of a variable that start nothing.
const HARMLESS: &[&str] =
    &["/dev/null", "/bin/true", "/usr/bin/true", "/bin/false", "/usr/bin/false", "/bin/cat", "/usr/bin/cat"];

pub(super) fn look(book: &mut Book<'_>) {
    let config = book.config;
    if config.allow_any {
        book.add(
            "allow-any",
            "allow_any",
            "allow_any = true: every name may run; only always-denied names, argument rules and the kernel \
             decide",
            "list the names that are needed",
        );
    }
    if !config.argument_rules {
        book.add(
            "argument-rules-off",
            "argument_rules",
            "argument_rules = \"off\": arguments are not looked at; names and the kernel decide",
            "remove the key",
        );
    }
    if !config.sandbox.network.is_empty() {
        let ports: Vec<String> = config.sandbox.network.iter().map(u16::to_string).collect();
        let message = format!(
            "every command without network of its own may connect to TCP ports {} of any host: what it reads, it \
             can send",
            ports.join(", ")
        );
        book.add("network-open", "sandbox.network", message, "set network = \"none\", or filter outside");
    }
    kernel(book);
    if config.workspace.repository_write {
        book.add(
            "repository-write",
            "workspace.repository",
            "workspace.repository = \"write\": commands may change the repository, .git/commondir and nested \
             repositories among it; what git starts for them outside of cofferdam is no longer confined",
            "set it to \"read\" and commit outside",
        );
    }
    environment(book);
    reads(book);
    required(book);
    if config.sandbox.user == RunUser::Keep && files::server_ids().is_some_and(|(uid, _)| uid == 0) {
        let message = "sandbox.user = \"keep\", and this user is root: commands own what root owns, and limits.processes does not hold";
        book.add("user-root", "sandbox.user", message, "name an unprivileged UID:GID");
    }
}

/// What single commands get from the kernel beside files.
fn kernel(book: &mut Book<'_>) {
    let config = book.config;
    for command in config.commands.values() {
        let table = book.places.command(&command.name);
        for switch in &command.kernel {
            let id = if switch.weakens() { "kernel-opened" } else { "kernel-switch" };
            let key = book.places.element(&format!("{table}.kernel"), switch.as_str());
            let message = format!("{} gets {}: {}", command.name, switch.as_str(), switch.opens());
            book.add(id, key, message, "remove it where the program works without");
        }
        if let Some(ports) = command.network.as_ref().filter(|ports| !ports.is_empty()) {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            let message = format!(
                "{} may connect to TCP ports {} of any host: what it reads, it can send",
                command.name,
                ports.join(", ")
            );
            let key = format!("{table}.network");
            book.add("network-open", key, message, "set network = \"none\", or filter outside");
        }
    }
}

fn environment(book: &mut Book<'_>) {
    let config = book.config;
    for name in config.environment.pass.iter().filter(|name| looks_secret(name)) {
        let key = book.places.element("environment.pass", name);
        let message = format!("environment.pass hands commands what looks like a secret: {name}");
        book.add("environment-secret", key, message, "let the one program that needs it read a file");
    }
    let shared =
        config.environment.set.iter().map(|(name, value)| ("environment.set".to_owned(), name, value));
    let own = config.commands.values().flat_map(|command| {
        let table = format!("{}.environment", book.places.command(&command.name));
        command.environment.iter().map(move |(name, value)| (table.clone(), name, value))
    });
    let set: Vec<_> = shared.chain(own).collect();
    for (table, name, value) in set {
        let key = format!("{table}.{name}");
        if looks_secret(name) && !value.is_empty() {
            let message =
                format!("{name} looks like a secret; commands get it, and the policy file holds it");
            book.add("environment-secret", key.clone(), message, "keep it out of policy and environment");
        }
        if let Some(why) = hooks::refused(name, false)
            && value.contains('/')
            && !HARMLESS.contains(&value.as_str())
        {
            let message = format!("{name} {why}, and is set to {value}");
            book.add(
                "environment-hook",
                key,
                message,
                "unset it, or see to it that only you can write there",
            );
        }
    }
}

/// A secret by its name. Git numbers its settings as GIT_CONFIG_KEY_N.
fn looks_secret(name: &str) -> bool {
    !name.starts_with("GIT_CONFIG_") && name != "GIT_ASKPASS" && hooks::looks_secret(name)
}

fn reads(book: &mut Book<'_>) {
    let config = book.config;
    let shared = config.sandbox.read.iter().map(|path| ("sandbox.read".to_owned(), path));
    let own = config.commands.values().flat_map(|command| {
        let list = format!("{}.read", book.places.command(&command.name));
        command.read.iter().map(move |path| (list.clone(), path))
    });
    let all: Vec<(String, &PathBuf)> = shared.chain(own).collect();
    for (list, path) in all {
        let key = book.places.element(&list, &path.to_string_lossy());
        if path.parent().is_none() {
            book.add(
                "read-secret",
                key.clone(),
                "read = [\"/\"]: commands read every file that the server's user can read",
                "name the files that are needed",
            );
        } else if let Some(secret) = secret(path) {
            let message = format!("commands may read {}: {secret}", path.display());
            book.add("read-secret", key.clone(), message, "name the files that are needed");
        }
        let below = |sink: &Sink| matches!(sink, Sink::File(file) if file.starts_with(path));
        if path.parent().is_some() && config.audit.sinks.iter().any(below) {
            let message = format!("commands can read the audit file: it lies below {}", path.display());
            book.add("read-audit", key, message, "move the records, or narrow what may be read");
        }
    }
}

/// Why a path that may be read is one of secrets.
fn secret(path: &Path) -> Option<String> {
    let names = path.components().filter_map(|part| part.as_os_str().to_str());
    if let Some(name) = names.into_iter().find(|name| SECRET_NAMES.contains(name)) {
        return Some(format!("{name} is where secrets are kept"));
    }
    // Of directories that hold everything, only they themselves and what is listed below them.
    let whole = ["/proc", "/sys", "/dev", "/run", "/var/run", "/var/lib", "/home"];
    SECRETS.iter().map(Path::new).find_map(|secret| {
        let inside =
            path.starts_with(secret) && (path == secret || !whole.iter().any(|own| secret == Path::new(own)));
        if inside {
            Some(format!("{} is where secrets are kept", secret.display()))
        } else if secret.starts_with(path) && secret.exists() {
            Some(format!("it holds {}", secret.display()))
        } else {
            None
        }
    })
}

fn required(book: &mut Book<'_>) {
    let required = &book.config.sandbox.require;
    let landlock = required.iter().any(|own| matches!(own, Requirement::Landlock(version) if *version >= 6));
    let has = |wanted: &Requirement| required.contains(wanted);
    let missing: Vec<&str> = [
        (landlock, "landlock>=6"),
        (has(&Requirement::Seccomp), "seccomp"),
        (has(&Requirement::CapsEmpty), "caps-empty"),
        (has(&Requirement::NoNewPrivs), "no-new-privs"),
    ]
    .into_iter()
    .filter_map(|(there, name)| (!there).then_some(name))
    .collect();
    if !missing.is_empty() {
        let message =
            format!("sandbox.require lacks {}: a host without it is served all the same", missing.join(", "));
        book.add(
            "require-missing",
            "sandbox.require",
            message,
            "remove the key: by default all are required",
        );
    }
}

//! What the facts mean: a verdict each, and what to do where it is not "ok".
//!
//! Inputs: the facts of the host and what the launcher read back of commands. Pure. "bad" is a wall that
//! is missing; "advice" is one more that the host could put up. Called by `appliance.rs` and `cli/doctor`.

use super::{Host, Known, MountFlags, hides_processes};

/// What a fact means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It holds without; better with.
    Advice,
    /// Something that cofferdam promises does not hold here.
    Bad,
}

impl Verdict {
    /// Its word in output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Advice => "advice",
            Self::Bad => "bad",
        }
    }
}

/// One fact with its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Stable name.
    pub id: String,
    /// What was found.
    pub value: String,
    /// What it means.
    pub verdict: Verdict,
    /// What to do, unless it is ok.
    pub remedy: Option<&'static str>,
}

/// What the launcher read back of commands.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    /// User and group.
    pub ids: (u32, u32),
    /// Effective capabilities.
    pub caps: u64,
    /// `no_new_privs`.
    pub no_new_privs: bool,
    /// Mounts of their own.
    pub mount_namespace: bool,
    /// Their view of the workspace.
    pub workspace: Option<MountFlags>,
    /// The workspace may be written.
    pub write: bool,
    /// Their view of scratch; absent: there is none.
    pub scratch: Option<MountFlags>,
    /// Each run has a scratch file system of its own.
    pub own_scratch: bool,
    /// Their view of the usual directories.
    pub mounts: Vec<MountFlags>,
}

/// Collects findings.
#[derive(Debug, Default)]
struct Book(Vec<Finding>);

impl Book {
    /// `verdict` is what it means when `good` does not hold.
    fn add(
        &mut self,
        id: &str,
        value: impl Into<String>,
        good: bool,
        verdict: Verdict,
        remedy: &'static str,
    ) {
        let verdict = if good { Verdict::Ok } else { verdict };
        let remedy = (!good).then_some(remedy);
        self.0.push(Finding { id: id.to_owned(), value: value.into(), verdict, remedy });
    }

    fn say(&mut self, id: &str, value: impl Into<String>) {
        self.add(id, value, true, Verdict::Ok, "");
    }

    /// A fact that may not be known; then it is never ok.
    fn known<T>(
        &mut self,
        id: &str,
        fact: &Known<T>,
        read: impl FnOnce(&T) -> (String, bool),
        verdict: Verdict,
        remedy: &'static str,
    ) {
        match fact {
            Ok(value) => {
                let (value, good) = read(value);
                self.add(id, value, good, verdict, remedy);
            }
            Err(why) => self.add(id, format!("not known: {why}"), false, Verdict::Advice, remedy),
        }
    }
}

/// All findings, in the order they are shown.
#[must_use]
pub fn findings(host: &Host, commands: &Commands) -> Vec<Finding> {
    let mut book = Book::default();
    kernel(&mut book, host);
    container(&mut book, host);
    mounts(&mut book, host, commands);
    server(&mut book, host);
    command(&mut book, commands);
    limits(&mut book, host);
    network(&mut book, host);
    files(&mut book, host, commands);
    book.0
}

fn kernel(book: &mut Book, host: &Host) {
    use Verdict::{Advice, Bad};
    let new = |text: &String| (text.clone(), version(text).is_some_and(|version| version >= (6, 12)));
    book.known("kernel.version", &host.kernel, new, Advice, "Linux 6.12 or newer is what is supported");
    let abi = |abi: &u32| (format!("ABI {abi}"), *abi >= 6);
    book.known(
        "kernel.landlock",
        &host.landlock_abi,
        abi,
        Bad,
        "run Linux 6.12 or newer with Landlock enabled",
    );
    let yama = |scope: &Option<u64>| match scope {
        Some(scope) => (format!("kernel.yama.ptrace_scope = {scope}"), *scope >= 1),
        None => ("this kernel has no Yama".to_owned(), false),
    };
    let remedy = "sysctl kernel.yama.ptrace_scope=1, for the processes beside cofferdam; to commands the \
                  filter refuses ptrace anyway";
    book.known("kernel.yama", &host.yama, yama, Advice, remedy);
    for (name, value) in &host.user_namespaces {
        let restricts = name.contains("restrict");
        let read = |value: &Option<u64>| match value {
            Some(value) => (value.to_string(), restricts == (*value == 0)),
            None => ("this kernel has no such setting".to_owned(), true),
        };
        let remedy = "an unprivileged server needs a user namespace for the mounts of its commands: set the \
                      sysctl, or mount workspace and scratch noexec yourself";
        book.known(
            &format!("kernel.{}", name.rsplit('/').next().unwrap_or(name)),
            value,
            read,
            Advice,
            remedy,
        );
    }
}

/// Major and minor.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-']).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
        _ => None,
    }
}

fn container(book: &mut Book, host: &Host) {
    let runtime = match &host.container {
        Some(found) => format!("{} (by {})", found.runtime, found.mark),
        None => "none".to_owned(),
    };
    book.say("container.runtime", runtime);
    let first = if host.first_process { "the server itself" } else { "another process" };
    let remedy = "let the engine's init be the first process: init: true, --init, shareProcessNamespace";
    book.add("container.init", first, !host.first_process, Verdict::Advice, remedy);
    let inside = |inside: &bool| (if *inside { "yes" } else { "no" }.to_owned(), true);
    let remedy = "mount /proc for this process";
    book.known("container.user_namespace", &host.in_user_namespace, inside, Verdict::Advice, remedy);
}

fn mounts(book: &mut Book, host: &Host, commands: &Commands) {
    use Verdict::{Advice, Bad};
    let seen = |flags: &Known<Option<MountFlags>>| match flags {
        Ok(Some(flags)) => flags.words(),
        Ok(None) => "not there".to_owned(),
        Err(why) => format!("not known: {why}"),
    };
    let inside = commands.workspace.as_ref().map_or_else(|| "not known".to_owned(), MountFlags::words);
    let value = format!("to commands {inside}; to the server {}", seen(&host.workspace));
    let walled = commands.workspace.as_ref().is_some_and(|f| f.noexec && (f.read_only || commands.write));
    book.add("mount.workspace", value, walled, Bad, "mount the workspace noexec, or allow user namespaces");
    match &commands.scratch {
        Some(flags) => {
            let value = format!(
                "{} {}{}",
                flags.path.parent().filter(|_| commands.own_scratch).unwrap_or(&flags.path).display(),
                flags.words(),
                if commands.own_scratch { ", one a run" } else { ", shared by all runs" }
            );
            book.add("mount.scratch", value, flags.noexec, Bad, "mount scratch noexec");
        }
        None => {
            let remedy = "allow user namespaces, or mount a noexec tmpfs at /scratch: runs have no TMPDIR";
            book.add("mount.scratch", "none", false, Advice, remedy);
        }
    }
    for flags in &host.audit {
        let good = matches!(flags, Ok(Some(flags)) if flags.noexec && flags.nosuid && flags.nodev);
        let remedy = "keep records on a mount of their own: noexec,nosuid,nodev";
        book.add("mount.audit", seen(flags), good, Advice, remedy);
    }
    for own in &host.mounts {
        let inside = commands.mounts.iter().find(|flags| flags.path == own.path);
        let inside = inside.map_or_else(|| "not known".to_owned(), MountFlags::words);
        let root = own.path.parent().is_none();
        let good = own.read_only || (!root && own.noexec);
        let remedy = if root {
            "read-only root: read_only: true in compose, --read-only, ReadOnlyPaths=/"
        } else {
            "mount it noexec,nosuid,nodev or read-only"
        };
        let value = format!("to commands {inside}; to the server {}", own.words());
        book.add(&format!("mount.{}", own.path.display()), value, good, Advice, remedy);
    }
    let hidden = |word: &Option<String>| match word {
        Some(word) => (format!("hidepid={word}"), hides_processes(word)),
        None => ("hidepid is off".to_owned(), false),
    };
    let remedy = "mount /proc with hidepid=2, or give cofferdam a PID namespace (a container)";
    book.known("mount.hidepid", &host.hidepid, hidden, Advice, remedy);
}

fn server(book: &mut Book, host: &Host) {
    use Verdict::Advice;
    let (uid, gid) = host.ids;
    let remedy = "start cofferdam as an unprivileged user: it needs no privilege";
    book.add("server.user", format!("uid {uid}, gid {gid}"), uid != 0, Advice, remedy);
    let drop = "cap_drop: [ALL], --cap-drop=all, CapabilityBoundingSet=";
    let set = |id: &str, book: &mut Book, pick: fn(&super::Own) -> u64| {
        let read = |own: &super::Own| (format!("{:#018x}", pick(own)), pick(own) == 0);
        book.known(id, &host.own, read, Advice, drop);
    };
    set("server.effective", book, |own| own.effective);
    set("server.bounding", book, |own| own.bounding);
    let read =
        |own: &super::Own| (if own.no_new_privs { "set" } else { "not set" }.to_owned(), own.no_new_privs);
    let remedy = "security_opt: no-new-privileges, NoNewPrivileges=yes; serve sets it for itself in any case";
    book.known("server.no_new_privs", &host.own, read, Advice, remedy);
    let read = |own: &super::Own| (format!("mode {}", own.seccomp), own.seccomp == 2);
    let remedy = "run it under the container's seccomp profile; serve adds a filter of its own in any case";
    book.known("server.seccomp", &host.own, read, Advice, remedy);
}

fn command(book: &mut Book, commands: &Commands) {
    use Verdict::{Advice, Bad};
    let (uid, gid) = commands.ids;
    let remedy = "set sandbox.user, or start cofferdam as an unprivileged user";
    book.add("command.user", format!("uid {uid}, gid {gid}"), uid != 0 && gid != 0, Advice, remedy);
    let caps = format!("{:#018x}, bounding set empty", commands.caps);
    book.add("command.capabilities", caps, commands.caps == 0, Bad, "start cofferdam without capabilities");
    let set = if commands.no_new_privs { "set" } else { "not set" };
    book.add("command.no_new_privs", set, commands.no_new_privs, Bad, "run a kernel that has it");
    book.say("command.seccomp", "a filter on every command: without it none is started");
    let own = if commands.mount_namespace { "of their own" } else { "those of the host" };
    let remedy = "allow unprivileged user namespaces for this process, or start it as root";
    book.add("command.mounts", own, commands.mount_namespace, Advice, remedy);
}

fn limits(book: &mut Book, host: &Host) {
    use Verdict::Advice;
    let number = |limit: &Option<u64>| match limit {
        Some(limit) => (limit.to_string(), true),
        None => ("none".to_owned(), false),
    };
    book.known("limit.pids", &host.pids, number, Advice, "pids_limit: in compose, --pids-limit, TasksMax=");
    book.known("limit.memory", &host.memory, number, Advice, "mem_limit: in compose, --memory, MemoryMax=");
    let read = |(soft, hard): &(u64, u64)| {
        let word = |limit: u64| if limit == u64::MAX { "none".to_owned() } else { limit.to_string() };
        (format!("soft {}, hard {}", word(*soft), word(*hard)), *hard != u64::MAX)
    };
    book.known("limit.processes", &host.processes, read, Advice, "ulimits: nproc in compose, LimitNPROC=");
}

fn network(book: &mut Book, host: &Host) {
    let list = |names: &Vec<String>| {
        (if names.is_empty() { "none but lo".to_owned() } else { names.join(", ") }, names.is_empty())
    };
    let remedy = "no command needs one unless sandbox.network grants ports: network_mode: none, \
                  PrivateNetwork=yes";
    book.known("network.interfaces", &host.interfaces, list, Verdict::Advice, remedy);
    book.known("network.routes", &host.routes, list, Verdict::Advice, remedy);
}

fn files(book: &mut Book, host: &Host, commands: &Commands) {
    use Verdict::Advice;
    let read = |places: &Vec<MountFlags>| {
        let one = |flags: &MountFlags| {
            format!("{}{}", flags.path.display(), if flags.noexec { "" } else { " (and execute)" })
        };
        let shown: Vec<String> = places.iter().take(12).map(one).collect();
        let more = places.len().saturating_sub(shown.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let text = if shown.is_empty() { "none".to_owned() } else { shown.join(", ") };
        (format!("{text}{more}"), places.is_empty())
    };
    let remedy = "the server needs its audit directory only: read-only root, no other volume";
    book.known("file.writable", &host.writable, read, Advice, remedy);
    if host.policy.is_empty() {
        book.say("file.policy", "built in");
    }
    for file in &host.policy {
        let read = |file: &super::Guarded| {
            let ((uid, gid), path, mode) = (file.owner, file.path.display(), file.mode);
            let read_only = if file.read_only { ", on a read-only mount" } else { "" };
            let who = file.weak.as_ref().map_or_else(
                || "commands cannot change it".to_owned(),
                |why| format!("only the walls keep commands from it: {why}"),
            );
            (format!("{path}: uid {uid}, gid {gid}, mode {mode:04o}{read_only}; {who}"), file.weak.is_none())
        };
        // In a workspace that commands may write there are no walls around it.
        let inside = |file: &super::Guarded| {
            commands.workspace.as_ref().is_some_and(|own| commands.write && file.path.starts_with(&own.path))
        };
        let verdict = if file.as_ref().is_ok_and(|own| own.weak.is_some() && inside(own)) {
            Verdict::Bad
        } else {
            Advice
        };
        let remedy = "let it and all directories above it belong to another user, writable for nobody else";
        book.known("file.policy", file, read, verdict, remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::host::{Guarded, Places, survey};

    fn host() -> Host {
        survey(&Places { workspace: "/".into(), ..Places::default() })
    }

    fn of<'f>(found: &'f [Finding], id: &str) -> &'f Finding {
        found.iter().find(|own| own.id == id).unwrap_or_else(|| panic!("{id} is missing"))
    }

    #[test]
    fn a_remedy_stands_exactly_where_something_is_to_be_done() {
        let found = findings(&host(), &Commands::default());
        assert!(found.len() >= 28, "{}", found.len());
        for own in &found {
            assert_eq!(own.remedy.is_some(), own.verdict != Verdict::Ok, "{own:?}");
            assert!(!own.value.is_empty() && own.remedy.is_none_or(|text| !text.is_empty()), "{own:?}");
        }
    }

    #[test]
    fn missing_walls_are_bad_and_unknown_facts_are_never_ok() {
        let mut host = host();
        host.landlock_abi = Ok(5);
        host.pids = Err("no cgroup".to_owned());
        host.kernel = Ok("6.1.0-1-amd64".to_owned());
        let open =
            MountFlags { path: "/ws".into(), read_only: true, noexec: false, nosuid: true, nodev: true };
        let commands = Commands { caps: 1, workspace: Some(open.clone()), ..Commands::default() };
        let found = findings(&host, &commands);
        for id in ["kernel.landlock", "mount.workspace", "command.capabilities", "command.no_new_privs"] {
            assert_eq!(of(&found, id).verdict, Verdict::Bad, "{id}");
        }
        for id in ["kernel.version", "limit.pids", "mount.scratch"] {
            assert_eq!(of(&found, id).verdict, Verdict::Advice, "{id}");
        }
        let closed = MountFlags { noexec: true, ..open };
        let commands = Commands { workspace: Some(closed), no_new_privs: true, ..Commands::default() };
        let found = findings(&host, &commands);
        for id in ["mount.workspace", "command.capabilities", "command.no_new_privs"] {
            assert_eq!(of(&found, id).verdict, Verdict::Ok, "{id}");
        }
    }

    #[test]
    fn a_weak_policy_file_is_bad_only_where_commands_may_write() {
        let mut host = host();
        let weak = Some("everybody can write /ws/p".to_owned());
        host.policy =
            vec![Ok(Guarded { path: "/ws/p".into(), owner: (0, 0), mode: 0o666, read_only: false, weak })];
        let workspace =
            MountFlags { path: "/ws".into(), read_only: false, noexec: true, nosuid: true, nodev: true };
        let mut commands = Commands { workspace: Some(workspace), write: true, ..Commands::default() };
        assert_eq!(of(&findings(&host, &commands), "file.policy").verdict, Verdict::Bad);
        commands.write = false;
        assert_eq!(of(&findings(&host, &commands), "file.policy").verdict, Verdict::Advice);
    }
}

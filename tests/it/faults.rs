//! Each step between a request and its program fails in turn (design invariant 6): nothing is executed, the
//! error names the step, the records are whole, nothing is left behind, and all is well once the fault is
//! lifted.
//!
//! Only in builds with the feature `fault-injection`: the sources name the steps (`fault_sites.rs`), a file
//! names the one that fails now.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sys::resource::{Resource, setrlimit};
use serde_json::{Value, json};

use crate::fault_sites::{Site, sites};
use crate::groups::Made;
use crate::support::{Lab, Ran, Rules, Served, descendants, eventually, in_own_mounts};

/// What the test program does: it leaves a mark, so that it cannot have run unseen.
const LEAVE: [&str; 4] = ["try", "mkdir", "mark", ""];

/// Under which the launcher mounts terminals and message queues of its own.
const SWITCHES: &str = "kernel = [\"ipc\", \"pty\"]";
/// What a program may need of `/dev`.
const DEVICES: [&str; 8] = ["null", "zero", "full", "random", "urandom", "tty", "pts", "shm"];

/// A laboratory with faults: a writable workspace with a repository, seen at a second place as well.
struct Faulty {
    lab: Lab,
    /// It has a `/dev` of its own: that of the host need not have a place for message queues.
    devices: bool,
    /// Where the runs' groups are made.
    group: Option<Made>,
}

fn root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

impl Faulty {
    fn new(sandbox: &'static str, commands: &str) -> Self {
        Self::with(sandbox, commands, None)
    }

    /// With what `site` needs on its road.
    fn on_the_road(site: &Site, sandbox: &'static str, commands: &str) -> Self {
        let group = grouped(site).then(|| Made::new("cofferdam-faults")).flatten();
        Self::with(sandbox, commands, group)
    }

    fn with(sandbox: &'static str, commands: &str, group: Option<Made>) -> Self {
        let devices = commands == SWITCHES;
        let commands = commands.to_owned();
        let limits = match &group {
            None => "jobs = 2",
            Some(group) => format!("jobs = 2\ncgroup = {:?}", group.path()).leak(),
        };
        let lab = Lab::new(&Rules { write: true, sandbox, limits, commands, ..Rules::default() });
        fs::create_dir_all(lab.at("dev/mqueue")).unwrap();
        std::os::unix::fs::symlink("pts/ptmx", lab.at("dev/ptmx")).unwrap();
        for name in DEVICES {
            let (of_host, own) = (Path::new("/dev").join(name), lab.at("dev").join(name));
            if of_host.is_dir() { fs::create_dir(own).unwrap() } else { fs::write(own, "").unwrap() }
        }
        fs::create_dir_all(lab.at("ws/.git/hooks")).unwrap();
        fs::write(lab.at("ws/.git/config"), "").unwrap();
        fs::create_dir(lab.at("again")).unwrap();
        fs::set_permissions(lab.ws(), fs::Permissions::from_mode(0o777)).unwrap();
        Self { lab, devices, group }
    }

    fn order(&self, lines: &[&str]) {
        fs::write(self.lab.at("fault"), lines.join("\n")).unwrap();
    }

    fn lift(&self) {
        fs::remove_file(self.lab.at("fault")).unwrap();
    }

    fn ran(&self) -> bool {
        let mark = self.lab.at("ws/mark");
        let found = mark.exists();
        if found {
            fs::remove_dir(mark).unwrap();
        }
        found
    }

    /// The program with faults, in mounts where the workspace is seen twice.
    fn command(&self, subcommand: &str) -> Command {
        let mut command = self.lab.command(subcommand);
        command.env("COFFERDAM_FAULT_FILE", self.lab.at("fault"));
        let (ws, again) = (self.lab.ws(), self.lab.at("again"));
        let dev = self.devices.then(|| self.lab.at("dev"));
        in_own_mounts(&mut command, move || {
            let none: Option<&Path> = None;
            mount(Some(&ws), &again, none, MsFlags::MS_BIND, none)?;
            if let Some(dev) = &dev {
                let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
                for name in DEVICES {
                    mount(Some(&Path::new("/dev").join(name)), &dev.join(name), none, bind, none)?;
                }
                mount(Some(dev), "/dev", none, bind, none)?;
            }
            Ok(())
        });
        command
    }

    fn exec(&self) -> Ran {
        let mut command = self.command("exec");
        Ran::of(&command.arg("--").arg(self.lab.probe()).args(LEAVE).output().unwrap())
    }

    /// The records of the log, those of files that a failed sync has closed among them.
    fn all(&self) -> Vec<Value> {
        let log = self.lab.log();
        let beside = fs::read_dir(log.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
        let closed = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("log-") && name.ends_with(".jsonl")
        };
        let mut files: Vec<PathBuf> = beside.filter(closed).collect();
        files.sort_unstable();
        files.push(log);
        files.iter().flat_map(|path| crate::support::records(path)).collect()
    }

    /// Whether a run was begun; then it has exactly one end, and all of them are counted.
    fn begun(&self) -> Vec<Value> {
        let records = self.all();
        let ids = |kinds: &[&str]| -> Vec<String> {
            let mut found: Vec<String> = records
                .iter()
                .filter(|record| kinds.contains(&record["event_type"].as_str().unwrap()))
                .map(|record| record["run_id"].as_str().unwrap().to_owned())
                .collect();
            found.sort_unstable();
            found
        };
        assert_eq!(ids(&["run.start"]), ids(&["run.end", "run.lost"]), "{records:?}");
        records.into_iter().filter(|record| record["event_type"] == "run.end").collect()
    }
}

/// Steps of the runs that `learn` makes, and of no other.
fn recorded(site: &Site) -> bool {
    ["src/launch/observe.rs:", "src/launch/overlay.rs:"].iter().any(|room| site.key.starts_with(room))
}

/// Steps of opening the files of a line, which are on no other road.
fn of_a_line(site: &Site) -> bool {
    site.key.starts_with("src/launch/open.rs:")
}

/// Orders and settings under which `site` is on the road.
fn road(site: &Site, all: &[Site]) -> (Vec<String>, &'static str, &'static str) {
    let own = vec![site.key.clone()];
    let first = all.iter().find(|other| other.name == "unshare").unwrap();
    let namespace = site.name == "user namespace map" || (site.name == "unshare" && site != first);
    // Where the mount namespace alone is refused, as it is for all but root.
    let switches = if ["devpts mount", "mqueue mount"].contains(&site.name.as_str()) { SWITCHES } else { "" };
    if namespace {
        (vec![own[0].clone(), first.key.clone()], "user = \"keep\"", switches)
    } else {
        (own, "", switches)
    }
}

/// Steps of the groups of runs.
fn grouped(site: &Site) -> bool {
    let rooms = ["src/launch/cgroup.rs:", "src/launch/leaf.rs:"];
    rooms.iter().any(|room| site.key.starts_with(room)) || site.name == "cgroup"
}

/// Steps of the limits of groups, which not every host lets one set.
const GROUP_LIMITS: [&str; 4] = ["cgroup limit", "memory.events", "memory.peak", "pids.events"];

/// Steps that are not on the road of this user, or are no steps by themselves.
fn elsewhere(site: &Site, all: &[Site]) -> bool {
    // Changing the user is for root.
    let identity =
        !root() && ["setgroups", "setresgid", "setresuid", "getresuid"].contains(&site.name.as_str());
    let group = match grouped(site).then(|| Made::new("cofferdam-look")) {
        None => true,
        Some(None) => false,
        Some(Some(group)) => group.has_limits() || !GROUP_LIMITS.contains(&site.name.as_str()),
    };
    alternative(site, all) || identity || !group
}

/// A first try: its failure leads to the user namespace, whose steps are made to fail themselves.
fn alternative(site: &Site, all: &[Site]) -> bool {
    all.iter().find(|other| other.name == "unshare").unwrap() == site
}

/// Of a site that is no site of its own: reached only when something is exhausted or malformed already.
fn source_of(site: &Site) -> String {
    let Some((file, line)) = site.key.split_once(".rs:") else { return String::new() };
    let text = fs::read_to_string(crate::scan::root().join(format!("{file}.rs"))).unwrap();
    text.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap().trim().to_owned()
}

#[test]
fn no_step_that_fails_leads_to_an_exec() {
    let all: Vec<Site> = sites().into_iter().filter(|site| !recorded(site) && !of_a_line(site)).collect();
    let mut not_reached = Vec::new();
    let mut wrong = Vec::new();
    for site in &all {
        let (orders, sandbox, switches) = road(site, &all);
        let faulty = Faulty::on_the_road(site, sandbox, switches);
        faulty.order(&orders.iter().map(String::as_str).collect::<Vec<_>>());
        let ran = faulty.exec();
        if ran.status == 0 {
            not_reached.push(site.clone());
            continue;
        }
        // What a first try leads to may fail as well, for a reason of its own.
        let named = ran.stderr.contains(&site.name) || alternative(site, &all);
        if ran.status != 125 || !named {
            wrong.push(format!("{site:?}: {ran:?}"));
        }
        assert!(!faulty.ran(), "{site:?}: the program ran: {ran:?}");
        assert!(faulty.lab.alive().is_empty(), "{site:?}");
        faulty.lift();
        let again = faulty.exec();
        assert_eq!((again.status, again.stdout.as_str()), (0, "mkdir ok\n"), "{site:?}: {again:?}");
        assert!(faulty.ran(), "the mark is what tells");
        // Also what a start that failed halfway has left.
        let left = faulty.group.as_ref().map_or_else(Vec::new, Made::groups);
        assert_eq!(left, [] as [String; 0], "{site:?}");
        let ends = faulty.begun();
        let failed: Vec<&Value> = ends.iter().filter(|end| end["outcome"] != "success").collect();
        for end in failed {
            let text = format!("{} {}", end["error_code"], end["error_text"]);
            // A start that may not be durable, and of which nothing came, is given its end by the next server.
            let lost = site.key.starts_with("audit:") && end["outcome"] == "lost";
            assert!(lost || text.contains(&site.name), "{site:?}: {end}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let missed: Vec<String> = not_reached
        .iter()
        .filter(|site| !elsewhere(site, &all))
        .map(|site| format!("{site:?}: {}", source_of(site)))
        .collect();
    // A full house fails before its step is asked.
    let known = missed.iter().filter(|line| line.contains("Err(unmet(libc::EAGAIN, full))")).count();
    assert_eq!(missed.len(), known, "never reached:\n{}", missed.join("\n"));
}

#[test]
fn no_step_of_a_redirection_that_fails_starts_its_command() {
    let mut failed = 0;
    for site in sites().iter().filter(|site| of_a_line(site)) {
        let faulty = Faulty::on_the_road(site, "", "");
        faulty.order(&[site.key.as_str()]);
        let line = format!("{} {} '' < plain", faulty.lab.probe().display(), LEAVE[..3].join(" "));
        let mut command = faulty.command("exec");
        let ran = Ran::of(&command.args(["--line", &line]).output().unwrap());
        if ran.status == 0 {
            assert!(source_of(site).contains("ftruncate"), "{site:?} is not reached: {}", source_of(site));
            continue;
        }
        failed += 1;
        assert_eq!(ran.status, 2, "{site:?}: {ran:?}");
        assert!(!faulty.ran(), "{site:?}: the program ran: {ran:?}");
        faulty.begun();
    }
    assert!(failed >= 8, "only {failed} steps of a redirection failed");
}

#[test]
fn no_step_of_a_recorded_run_that_fails_leads_to_an_exec() {
    let sites: Vec<Site> = sites().into_iter().filter(recorded).collect();
    assert!(sites.len() >= 10, "{sites:?}");
    let faulty = Faulty::new("", "");
    let learn = || {
        let mut command = faulty.command("learn");
        Ran::of(&command.arg("--").arg(faulty.lab.probe()).args(LEAVE).output().unwrap())
    };
    for site in &sites {
        faulty.order(&[&site.key]);
        let ran = learn();
        assert!(ran.stderr.contains(&format!("{} failed", site.name)), "{site:?}: {ran:?}");
        // Without an overlay the workspace is read-only, and a person is told.
        let read_only = site.name == "overlay" && ran.stderr.contains("the workspace is read-only");
        assert!(read_only || ran.status == 125, "{site:?}: {ran:?}");
        assert!(faulty.lab.alive().is_empty() && !faulty.ran(), "{site:?}");
    }
    faulty.lift();
    let ran = learn();
    assert!(ran.status == 0 && !ran.stderr.contains("failed"), "{ran:?}");
    assert!(!faulty.ran(), "what it writes is thrown away");
}

/// More descriptors than a server and its launcher hold, and fewer than [`TIMES`] leaks of one would take.
const DESCRIPTORS: u64 = 48;
/// How often a step fails in one server; more often, too, than there are scratch file systems.
const TIMES: usize = 48;

/// Entries of the launcher's scratch file systems, below every place where they may lie; root may look.
fn scratch(launcher: i32) -> Vec<String> {
    let mut found = Vec::new();
    for place in ["dev/shm", "mnt", "srv"] {
        let slots = (0..32).map(|slot| format!("/proc/{launcher}/root/{place}/{slot}"));
        for entry in slots.filter_map(|slot| fs::read_dir(slot).ok()).flatten() {
            found.push(entry.unwrap().path().display().to_string());
        }
    }
    found
}

#[test]
fn a_server_outlives_every_failed_step_and_keeps_nothing_of_it() {
    let mut at_run_time = 0;
    // What confines the launcher has no part in a run.
    for site in sites().iter().filter(|site| !site.key.contains("/confine.rs:") && !recorded(site)) {
        let faulty = Faulty::on_the_road(site, "", "");
        let mut command = faulty.lab.command("serve");
        command.env("COFFERDAM_FAULT_FILE", faulty.lab.at("fault"));
        // SAFETY: one system call in the child.
        unsafe {
            command.pre_exec(|| Ok(setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, DESCRIPTORS)?));
        }
        let mut served = Served::by(command);
        let launcher = descendants(served.pid())[0];
        let call = json!({"command": faulty.lab.probe(), "args": LEAVE});
        faulty.order(&[&site.key]);
        let (text, error) = served.run(call.clone());
        if !error && text.contains("mkdir ok") {
            assert!(faulty.ran());
            served.stop();
            continue; // a step of the start
        }
        at_run_time += 1;
        let restart = site.name == "launcher";
        for _ in 1..TIMES {
            let (text, _) = served.run(call.clone());
            let named = text.contains(&site.name) || site.name == "execve" && text.contains("/O error");
            assert!(named || restart && text.contains("restart the server"), "{site:?}: {text}");
        }
        assert!(!faulty.ran(), "{site:?}: the program ran");
        faulty.lift();
        let (text, error) = served.run(call);
        if restart && text.contains("restart the server") {
            assert!(!faulty.ran(), "{site:?}");
        } else {
            assert!(!error && text.contains("mkdir ok") && faulty.ran(), "{site:?}: {text}");
            let left = || descendants(served.pid()).into_iter().filter(|pid| *pid != launcher).count();
            // Two warm supervisors, each with the process of its next command, and nothing of those that failed.
            eventually("only warm supervisors are left", || left() == 4);
            if root() {
                eventually("no scratch directory but theirs", || scratch(launcher).len() == 2);
            }
        }
        assert_eq!(served.stop(), Some(0), "{site:?}");
        faulty.begun();
    }
    assert!(at_run_time >= 40, "only {at_run_time} steps of a run failed");
}

#[test]
fn an_older_landlock_is_refused_at_start_and_named() {
    for abi in 0..=5 {
        let lab = Lab::new(&Rules { sandbox: "require = []", ..Rules::default() });
        fs::write(lab.at("fault"), format!("landlock={abi}")).unwrap();
        let mut command = lab.command("exec");
        command.env("COFFERDAM_FAULT_FILE", lab.at("fault")).arg("--").arg(lab.probe()).args(["say", "ran"]);
        let ran = Ran::of(&command.output().unwrap());
        assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
        let wanted = format!("no Landlock ABI 6, only {abi}: Linux 6.12 or newer has it");
        assert!(ran.stderr.contains(&wanted), "{ran:?}");
        assert!(lab.records().is_empty(), "{ran:?}");
    }
}

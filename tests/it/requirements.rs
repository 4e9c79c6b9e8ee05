//! `sandbox.require` on real hosts made for the purpose: each name is met in one world and refused in
//! another, by `serve` and `exec` alike, and the refusal says what was found and what to do.
//!
//! A world is a few commands run before cofferdam, in namespaces of their own: mounts, a process namespace,
//! no network. A test that is not root gets them from a user namespace, where it is.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{BINARY, Lab, Ran};

/// A laboratory whose policy requires `names`; commands stay who the server is.
fn lab(names: &str) -> Lab {
    let lab = Lab::plain();
    require(&lab, names, "keep");
    lab
}

fn require(lab: &Lab, names: &str, user: &str) {
    let text = format!(
        "version = 1\nallow = [\"ls\"]\n[workspace]\npath = {:?}\n[limits]\nprocesses = 20000\n[sandbox]\nuser = {user:?}\nrequire = [{names}]\n\
         [audit]\nsinks = [{{ kind = \"file\", path = {:?} }}]\n",
        lab.ws(),
        lab.log(),
    );
    fs::write(lab.policy(), text).unwrap();
    fs::set_permissions(lab.policy(), Permissions::from_mode(0o644)).unwrap();
}

/// `serve`, whose client leaves at once.
fn serve(lab: &Lab) -> Ran {
    let mut serve = Command::new(BINARY);
    serve.args(["serve", "--policy"]).arg(lab.policy()).stdin(Stdio::null());
    Ran::of(&serve.output().unwrap())
}

/// The same in a world: `unshare` with these flags, then `set_up` in a shell, `$LAB` being the laboratory.
fn serve_in(lab: &Lab, flags: &[&str], set_up: &str) -> Ran {
    let mut world = Command::new("unshare");
    if !nix::unistd::Uid::effective().is_root() {
        world.args(["--user", "--map-root-user"]);
    }
    world
        .args(flags)
        .args(["sh", "-euc"])
        .arg(format!("{set_up}\nexec \"$BINARY\" serve --policy \"$LAB/policy.toml\""));
    world.env("LAB", lab.at("")).env("BINARY", BINARY).stdin(Stdio::null());
    Ran::of(&world.output().unwrap())
}

#[track_caller]
fn assert_met(ran: &Ran) {
    assert_eq!(ran.status, 0, "{ran:?}");
}

#[track_caller]
fn assert_refused(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.status, 125, "{ran:?}");
    for word in words {
        assert!(ran.stderr.contains(word), "{word:?} is missing in {}", ran.stderr);
    }
}

/// Nothing but the walls' own doing is recorded of a server that did not start.
#[track_caller]
fn assert_nothing_served(lab: &Lab) {
    assert!(lab.records().iter().all(|record| record["event_type"] != "server.start"));
}

#[test]
fn no_network_routes_holds_only_without_an_interface() {
    let lab = lab("\"no-network-routes\"");
    assert_met(&serve_in(&lab, &["--net"], ""));
    let leads_out = fs::read_dir("/sys/class/net").unwrap().any(|entry| {
        let entry = entry.unwrap();
        let flags = fs::read_to_string(entry.path().join("flags")).unwrap();
        let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap();
        flags & 1 == 1 && entry.file_name() != "lo"
    });
    if leads_out {
        let lab = self::lab("\"no-network-routes\"");
        assert_refused(
            &serve(&lab),
            &["no-network-routes does not hold here", "interfaces up: ", "network_mode: none"],
        );
        assert_nothing_served(&lab);
    } else {
        assert_met(&serve(&lab));
    }
}

#[test]
fn hidepid_holds_only_where_processes_of_others_are_hidden() {
    let lab = lab("\"hidepid\"");
    let world = ["--mount", "--pid", "--fork"];
    for option in ["hidepid=2", "hidepid=4"] {
        assert_met(&serve_in(&lab, &world, &format!("mount -t proc -o {option} proc /proc")));
    }
    let lab = self::lab("\"hidepid\"");
    for (set_up, found) in [
        ("mount -t proc proc /proc", "/proc is mounted without hidepid"),
        ("mount -t proc -o hidepid=1 proc /proc", "/proc is mounted hidepid=noaccess"),
    ] {
        assert_refused(
            &serve_in(&lab, &world, set_up),
            &["hidepid does not hold here", found, "remount,hidepid=2"],
        );
    }
    assert_nothing_served(&lab);
}

#[test]
fn read_only_root_is_about_the_mount_that_the_server_sees() {
    let lab = lab("\"read-only-root\"");
    let set_up = "mount --bind \"$LAB\" \"$LAB\"; mount -o remount,bind,ro /";
    assert_met(&serve_in(&lab, &["--mount"], set_up));
    let lab = self::lab("\"read-only-root\"");
    // A host whose root is read-only already has no other world to offer.
    let options = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let root = options.lines().rfind(|line| line.split(' ').nth(4) == Some("/")).unwrap();
    let read_only = root.split(' ').nth(5).unwrap().split(',').any(|option| option == "ro");
    assert!(!read_only, "the root of a test host is writable");
    assert_refused(
        &serve(&lab),
        &["read-only-root does not hold here", "/ is mounted rw", "read_only: true"],
    );
    assert_nothing_served(&lab);
}

#[test]
fn policy_protected_is_about_modes_and_mounts_of_the_host() {
    let lab = lab("\"policy-protected\"");
    fs::set_permissions(lab.policy(), Permissions::from_mode(0o666)).unwrap();
    // Commands are who the server is, hence own the file.
    assert_refused(
        &serve(&lab),
        &["policy-protected does not hold here", "belongs to the user of commands", "chown root"],
    );
    assert_nothing_served(&lab);
    // A read-only mount of the file alone can be renamed away with the directory that holds it.
    let file_only = "mount --bind \"$LAB/policy.toml\" \"$LAB/policy.toml\"; \
                     mount -o remount,bind,ro \"$LAB/policy.toml\"";
    assert_refused(&serve_in(&lab, &["--mount"], file_only), &["belongs to the user of commands"]);
    let all = "mount --bind \"$LAB/audit\" \"$LAB/audit\"\n\
               for at in / \"$(findmnt -fnro TARGET --target \"$LAB\")\"; do mount -o remount,bind,ro \"$at\"; done";
    assert_met(&serve_in(&lab, &["--mount"], all));
    if nix::unistd::Uid::effective().is_root() {
        require(&lab, "\"policy-protected\"", "65534:65534");
        assert_met(&serve(&lab));
        for (mode, found) in [(0o646, "everybody can write "), (0o664, "a group can write ")] {
            fs::set_permissions(lab.policy(), Permissions::from_mode(mode)).unwrap();
            assert_refused(&serve(&lab), &[found, "policy.toml"]);
        }
        fs::set_permissions(lab.policy(), Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(lab.at(""), Permissions::from_mode(0o777)).unwrap();
        assert_refused(&serve(&lab), &["everybody can write "]);
    }
}

#[test]
fn unprivileged_user_is_about_the_user_of_commands() {
    let lab = lab("\"unprivileged-user\"");
    // Root of a user namespace is user 0 to everything inside.
    let mut world = Command::new("unshare");
    world
        .args(["--user", "--map-root-user", BINARY, "serve", "--policy"])
        .arg(lab.policy())
        .stdin(Stdio::null());
    let ran = Ran::of(&world.output().unwrap());
    assert_refused(&ran, &["unprivileged-user does not hold here", "uid 0, gid 0", "sandbox.user"]);
    assert_nothing_served(&lab);
    require(&lab, "\"unprivileged-user\"", "auto");
    assert_met(&serve(&lab));
}

#[test]
fn mount_namespace_is_refused_where_none_can_be_made() {
    let lab = lab("\"workspace-noexec\"");
    // No capability and no user namespace is left to cofferdam here.
    let poor = |first: &str| {
        format!(
            "{first}\necho 0 > /proc/sys/user/max_user_namespaces\n\
             exec setpriv --bounding-set=-all --inh-caps=-all \"$BINARY\" serve --policy \"$LAB/policy.toml\""
        )
    };
    let world = |lab: &Lab, first: &str| {
        let mut world = Command::new("unshare");
        world.args(["--user", "--map-root-user", "--mount", "sh", "-euc"]).arg(poor(first));
        world.env("LAB", lab.at("")).env("BINARY", BINARY).stdin(Stdio::null());
        Ran::of(&world.output().unwrap())
    };
    let noexec = "mount -t tmpfs -o noexec,nosuid,nodev tmpfs \"$LAB/ws\"";
    assert_refused(&world(&lab, ""), &["files of the workspace", "mount it noexec"]);
    assert_met(&world(&lab, noexec));
    assert_met(&serve(&lab));
    let lab = self::lab("\"mount-namespace\"");
    assert_refused(
        &world(&lab, noexec),
        &["mount-namespace does not hold here", "unprivileged user namespaces"],
    );
    assert_nothing_served(&lab);
    assert_met(&serve(&lab));
}

/// What no test can arrange everywhere, a control group with a limit: `doctor`, `serve` and `exec` agree.
#[test]
fn limits_of_the_control_group_are_judged_alike_by_all_commands() {
    for (name, fact) in [("pids-limit", "limit.pids"), ("memory-limit", "limit.memory")] {
        let lab = Lab::plain();
        require(&lab, &format!("{name:?}"), "auto");
        let summary = doctor(&lab).1;
        let limit = summary["facts"].as_array().unwrap().iter().find(|own| own["id"] == fact).unwrap();
        let met = limit["value"].as_str().unwrap().parse::<u64>().is_ok();
        assert_eq!(summary["requirements"][0]["name"], name);
        assert_eq!(summary["requirements"][0]["met"], met, "{limit}");
        let (served, ran) = (serve(&lab), lab.exec(&["ls"]));
        if met {
            assert_met(&served);
            assert_met(&ran);
        } else {
            for refused in [served, ran] {
                assert_refused(
                    &refused,
                    &[&format!("sandbox.require: {name} does not hold here"), "give the container"],
                );
            }
        }
    }
}

/// Status and summary of `doctor --json`.
fn doctor(lab: &Lab) -> (i32, Value) {
    let mut doctor = Command::new(BINARY);
    doctor.args(["doctor", "--json", "--policy"]).arg(lab.policy()).stdin(Stdio::null());
    let ran = Ran::of(&doctor.output().unwrap());
    let last = ran.stdout.lines().last().unwrap_or_else(|| panic!("{ran:?}"));
    (ran.status, serde_json::from_str(last).unwrap())
}

#[test]
fn doctor_reports_what_serve_refuses_and_still_makes_its_attempts() {
    let lab = Lab::plain();
    require(&lab, "\"landlock>=99\", \"seccomp\"", "auto");
    assert_refused(&serve(&lab), &["landlock>=99 does not hold here", "Landlock ABI", "newer kernel"]);
    assert_refused(&lab.exec(&["ls"]), &["landlock>=99 does not hold here"]);
    let (status, summary) = doctor(&lab);
    assert_eq!(status, 1, "{summary}");
    assert_eq!(summary["summary"]["not_as_expected"], 0, "{summary}");
    let required = summary["requirements"].as_array().unwrap();
    assert_eq!(required.len(), 2);
    assert_eq!((&required[0]["name"], &required[0]["met"]), (&"landlock>=99".into(), &false.into()));
    assert!(required[0]["remedy"].as_str().unwrap().contains("newer kernel"));
    assert_eq!((&required[1]["met"], &required[1]["remedy"]), (&true.into(), &Value::Null));
}

#[test]
fn server_start_records_the_host_and_the_servers_own_walls() {
    let lab = lab("\"seccomp\", \"workspace-noexec\", \"mount-namespace\"");
    assert_met(&serve(&lab));
    let records = lab.records();
    let start = records.iter().find(|record| record["event_type"] == "server.start").unwrap();
    crate::audit::assert_valid(start);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(start["kernel"], release.trim());
    assert_eq!(start["mount_namespace"], true);
    assert_eq!(start["server_confined"], true);
    assert_eq!(start["required"], serde_json::json!(["seccomp", "workspace-noexec", "mount-namespace"]));
    let facts: Vec<&str> = start["host_facts"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for id in
        ["kernel.landlock: ABI ", "mount.workspace: to commands ro,noexec,", "limit.pids: ", "file.policy: "]
    {
        assert!(facts.iter().any(|fact| fact.starts_with(id)), "{id} is missing in {facts:#?}");
    }
    let findings = start["host_findings"].as_array().unwrap();
    assert!(findings.iter().all(|own| own.as_str().unwrap().ends_with("=advice")), "{findings:?}");
}

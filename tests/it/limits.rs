//! Limits that hold: whatever one command uses up, the server answers others meanwhile, stays small, and
//! nothing is left behind; the limit is named where something says which it was.

use std::fs;

use serde_json::{Value, json};

use crate::groups::Made;
use crate::support::{Lab, Rules, Served, descendants, eventually, parent, status_of};

/// Memory that the server may have gained over a bomb: far above noise, far below what a bomb takes.
const GROWTH_KIB: u64 = 48 * 1024;

const LIMITS: &str =
    "memory = \"256MiB\"\nopen_files = 64\ntimeout = \"4m\"\nmax_timeout = \"4m\"\ncpu_time = \"200s\"";

fn lab() -> Lab {
    Lab::new(&Rules { limits: LIMITS, ..Rules::default() })
}

fn resident(pid: i32) -> u64 {
    let text = status_of(pid, "VmRSS").unwrap();
    text.trim_end_matches(" kB").trim().parse().unwrap()
}

fn ends(lab: &Lab) -> Vec<Value> {
    lab.records().into_iter().filter(|record| record["event_type"] == "run.end").collect()
}

/// The end record of the run with this word among its arguments.
fn end_of(lab: &Lab, word: &str) -> Value {
    let with = |record: &Value| record["argv"].as_array().unwrap().iter().any(|one| one == word);
    ends(lab).into_iter().find(with).unwrap()
}

/// Sets off a bomb, waits until `full` says that it has gone off, has another command answered, cancels
/// the bomb, and gives back its record.
fn beside(lab: &Lab, words: &[&str], full: impl Fn(&Lab) -> bool) -> Value {
    let mut served = Served::start(lab);
    assert_eq!(served.probed(lab, &["say", "before"])["stdout"], "before\n");
    let before = resident(served.pid());
    let bomb = served.send_run(json!({"command": lab.probe(), "args": words, "timeout": 200}));
    // A cgroup may have ended it already.
    eventually("the bomb has gone off", || full(lab) || ends(lab).len() == 2);
    let other = served.probed(lab, &["say", "meanwhile"]);
    assert_eq!((&other["exit"], &other["stdout"]), (&json!(0), &json!("meanwhile\n")), "{other}");
    let grown = resident(served.pid()).saturating_sub(before);
    assert!(grown < GROWTH_KIB, "the server has grown by {grown} KiB");
    served.cancel(bomb);
    eventually("its end is recorded", || ends(lab).len() == 3);
    eventually("nothing of it is left", || lab.alive().is_empty());
    assert_eq!(served.probed(lab, &["say", "after"])["stdout"], "after\n");
    let pid = served.pid();
    let grown = resident(pid).saturating_sub(before);
    assert!(grown < GROWTH_KIB, "the server has grown by {grown} KiB");
    assert_eq!(served.stop(), Some(0));
    eventually("launcher and supervisors are gone", || descendants(pid).is_empty());
    let record = end_of(lab, words[0]);
    assert_eq!(record["procs_left"], 0, "{record}");
    record
}

/// A bomb that says by a second process that it is done.
fn held(lab: &Lab) -> bool {
    lab.alive().len() >= 2
}

#[test]
fn a_fork_bomb_ends_with_its_run() {
    // All commands of this user count, those of other tests too: this one alone is held short.
    let limits = format!("{LIMITS}\nprocesses = 400").leak();
    let lab = Lab::new(&Rules { limits, ..Rules::default() });
    let record = beside(&lab, &["bomb", "fork"], |lab| lab.alive().len() >= 40);
    assert_eq!(record["outcome"], "cancelled", "{record}");
    assert!(record["procs_killed"].as_u64().unwrap() > 20, "{record}");
}

#[test]
fn memory_bombs_end_at_the_limit_private_and_shared() {
    for kind in ["memory", "shared"] {
        let lab = lab();
        let record = beside(&lab, &["bomb", kind, "hold"], held);
        let peak = record["max_rss_bytes"].as_u64().unwrap();
        assert!(peak <= 256 << 20, "{record}");
        if record["limits_by"] == "cgroup" {
            assert_eq!(record["error_code"], "memory_limit", "{record}");
        }
    }
}

#[test]
fn a_disk_filler_fills_its_own_scratch_and_is_told_of() {
    let lab = lab();
    let record = beside(&lab, &["bomb", "scratch", "hold"], held);
    assert!(
        [json!("scratch_full"), json!("memory_limit")].contains(&record["error_code"]),
        "with a private file system: {record}"
    );
    let ran = lab.probed_with(&["--json"], &["bomb", "scratch"]).json();
    assert_eq!((&ran["exit"], &ran["limit"]), (&json!(0), &json!("scratch_full")), "{ran}");
    let bytes: u64 = ran["stdout"].as_str().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    assert!((1 << 20..=64 << 20).contains(&bytes), "{ran}");
    let next = lab.probed_with(&["--json"], &["say", "x"]).json();
    assert_eq!(next.get("limit"), None, "{next}");
}

#[test]
fn a_flood_of_both_streams_is_drained_while_the_client_does_not_read() {
    let lab = lab();
    let mut served = Served::start(&lab);
    served.probed(&lab, &["say", "before"]);
    let before = resident(served.pid());
    let flood = served.send_run(json!({"command": lab.probe(), "args": ["bomb", "flood"], "timeout": 2}));
    let other = served.send_run(json!({"command": lab.probe(), "args": ["say", "x"]}));
    // Nothing is read until both are over.
    eventually("both ends are recorded", || ends(&lab).len() == 3);
    let grown = resident(served.pid()).saturating_sub(before);
    assert!(grown < GROWTH_KIB, "the server has grown by {grown} KiB");
    let (text, error) = served.result(other);
    assert!(!error && text.contains(r#""stdout":"x\n""#), "{text}");
    let (text, error) = served.result(flood);
    assert!(!error, "{text}");
    let payload: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(payload["timed-out"], true);
    for stream in ["stdout", "stderr"] {
        assert!(payload[stream].as_str().unwrap().len() <= (1 << 20) + 1024);
        assert!(payload["truncated"][stream]["bytes"].as_u64().unwrap() > 0, "{stream}");
    }
    eventually("nothing of it is left", || lab.alive().is_empty());
}

#[test]
fn open_files_and_timers_end_at_the_limit() {
    let lab = lab();
    for (kind, most) in [("files", 64), ("timers", 256)] {
        let ran = lab.probed(&["bomb", kind]);
        let count: u64 = ran.lines()[0].split(' ').nth(1).unwrap().parse().unwrap();
        assert!(count <= most, "{ran:?}");
    }
    for kind in ["files", "timers"] {
        let lab = self::lab();
        let record = beside(&lab, &["bomb", kind, "hold"], held);
        // The command alone sees the call fail: nothing is claimed.
        assert_eq!(record.get("error_code"), None, "{record}");
    }
}

#[test]
fn what_holds_the_limits_is_stamped_into_each_record_and_said_by_the_doctor() {
    let lab = lab();
    assert_eq!(lab.probed(&["say", "x"]).status, 0);
    let stamped: Vec<Value> = lab
        .records()
        .into_iter()
        .filter(|record| record["event_type"].as_str().unwrap().starts_with("run."))
        .map(|record| record["limits_by"].clone())
        .collect();
    assert_eq!(stamped.len(), 2);
    let told = crate::support::Ran::of(&lab.command("doctor").arg("--json").output().unwrap());
    let summary: Value = serde_json::from_str(told.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(stamped, vec![summary["limits_by"].clone(); 2]);
    let (by, reason) = (summary["limits_by"].as_str().unwrap(), &summary["cgroup_reason"]);
    assert!(["cgroup", "rlimits"].contains(&by));
    assert_eq!(by == "rlimits", reason.is_string(), "{summary}");
}

#[test]
fn a_policy_that_requires_a_cgroup_is_served_with_one_or_not_at_all() {
    let required = "cgroup = \"require\"";
    let lab = Lab::new(&Rules { limits: required, ..Rules::default() });
    let ran = lab.probed(&["say", "x"]);
    if ran.status == 0 {
        assert_eq!(lab.end()["limits_by"], "cgroup");
    } else {
        assert_eq!(ran.status, 125, "{ran:?}");
        assert!(ran.stderr.contains("limits.cgroup = \"require\""), "{ran:?}");
        assert!(lab.records().iter().all(|record| record["event_type"] != "run.start"));
    }
    let ordinary = Lab::new(&Rules { limits: "cgroup = \"/usr\"", ..Rules::default() }).probed(&["say", "x"]);
    assert_eq!(ordinary.status, 125, "{ordinary:?}");
    assert!(ordinary.stderr.contains("/usr is no group of cgroup v2"), "{ordinary:?}");
    let off = Lab::new(&Rules { limits: "cgroup = \"off\"", ..Rules::default() });
    assert_eq!(off.probed(&["say", "x"]).status, 0);
    assert_eq!(off.end()["limits_by"], "rlimits");
}

/// Where groups can be made, real ones; elsewhere the policy is refused, which is the other promise.
#[test]
fn each_run_has_the_group_that_the_policy_asks_for_and_none_is_left() {
    let group = Made::new("cofferdam-it");
    let path = group.as_ref().map_or("/sys/fs/cgroup/not-there".into(), |group| group.path().to_owned());
    let limits = format!("{LIMITS}\ncgroup = {path:?}");
    let lab = Lab::new(&Rules { limits: limits.leak(), ..Rules::default() });
    let Some(group) = group else {
        let ran = lab.probed(&["say", "x"]);
        assert_eq!(ran.status, 125, "{ran:?}");
        assert!(ran.stderr.contains("not-there"), "{ran:?}");
        return;
    };
    let of = |pid: i32| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mut served = Served::start(&lab);
    let id = served.send_run(json!({"command": lab.probe(), "args": ["daemons-hang", "5"]}));
    // Also the short-lived parents of the daemons are there for a moment, and gone when one looks again.
    let mut places: Vec<String> = Vec::new();
    eventually("six are there, in groups of runs", || {
        places = lab.alive().into_iter().map(of).collect();
        places.len() == 6 && places.iter().all(|place| place.contains("/run-"))
    });
    assert!(places.windows(2).all(|pair| pair[0] == pair[1]), "{places:?}");
    let (server, mine) = (of(served.pid()), of(std::process::id().cast_signed()));
    assert_eq!(server, mine, "the server stays where it is");
    // Its supervisor is outside of the run's group, which it must outlive.
    let alive = lab.alive();
    let above: Vec<i32> =
        alive.iter().filter_map(|pid| parent(*pid)).filter(|up| !alive.contains(up)).collect();
    assert!(!above.is_empty());
    assert!(above.iter().all(|up| of(*up).contains("/processes")), "{above:?}");
    let two: Vec<Value> = (0..2).map(|_| served.probed(&lab, &["say", "x"])["exit"].clone()).collect();
    assert_eq!(two, [0, 0]);
    served.cancel(id);
    eventually("its end is recorded", || ends(&lab).len() == 3);
    eventually("nothing of it is left", || lab.alive().is_empty());
    assert_eq!(served.probed(&lab, &["exit", "7"])["exit"], 7);
    assert_eq!(served.probed(&lab, &["fds"])["stdout"], "0\n1\n2\n");
    // Only a group with its controllers can do the following, and says that it has them.
    if end_of(&lab, "daemons-hang")["limits_by"] == "cgroup" {
        let many = served.probed(&lab, &["bomb", "many"]);
        assert_eq!((&many["limit"], &many["exit"]), (&json!("memory_limit"), &json!(137)), "{many}");
        let record = end_of(&lab, "many");
        assert_eq!(record["outcome"], "resource_limit", "{record}");
        assert_eq!(record["violation"], "mem_limit", "{record}");
    }
    assert_eq!(served.stop(), Some(0));
    assert_eq!(group.groups(), [] as [String; 0]);
    let stamped = lab.records().iter().filter(|r| r["event_type"] == "run.end").cloned().collect::<Vec<_>>();
    assert!(stamped.iter().all(|record| record["limits_by"].as_str().unwrap().starts_with("cgroup")));
    for record in stamped.iter().filter(|record| record["limits_by"] == "cgroup") {
        assert!(record["memory_peak_bytes"].as_u64().unwrap() > 0, "{record}");
    }
    drop(group);
}

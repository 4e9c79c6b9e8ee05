//! Every program of the two technique corpora is spoken for: refused by name, known by a grammar, or on a
//! short list of plain programs that says why neither is needed.
//!
//! A program that nobody thought of would be served without a rule as soon as a policy lists it. Judged by
//! base name alone; what the options of a program mean is the business of `grammar.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cofferdam::policy::{Reason, grammar};
use serde_json::Value;

use crate::verdict::{base, policy};

const GTFOBINS: &str = include_str!("../corpora/gtfobins_open.jsonl");
const BYPASSES: &str = include_str!("../corpora/agent_bypasses_open.jsonl");

/// Programs that are neither denied nor in need of a grammar: why, and their names between blanks.
const PLAIN: &[(&str, &str)] = &[
    (
        "only shows or converts the files that it is given, and those lie where the path rule lets them",
        "7z ar arj ascii-xfr ascii85 base32 base58 base64 bc cat cmp comm cpio dos2unix enscript fmt fold \
         genisoimage gzip iconv last lastb msgcat msguniq numfmt od paste patch pax ptx shred sponge strings tac \
         tic unzip updatedb.plocate urlget uuencode xxd xz zcat",
    ),
    (
        "changes files, their owners or modes, which only the kernel can judge",
        "chattr chown mkdir mkfifo setcap setfacl touch",
    ),
    ("needs keys that are typed at a terminal, which no run has", "top"),
    ("shows what the run itself may see", "printenv ps"),
    ("is a script of the workspace, where nothing can be executed", "-c cat\nsh s"),
    (
        "talks to other hosts, which the kernel profile refuses but for the ports of the policy",
        "aria2c curl dig finger hg host ip ldapsearch logger lwp-download lwp-request mtr nmap ntpdate openssl ss \
         svn tshark wget whois",
    ),
    (
        "reads program text or documents; what its settings load is the business of the kernel profile",
        "as ctags gofmt groff javac mypy nasm nroff objcopy pic prettier pygmentize pyright readelf ruff rustc \
         rustdoc rustfmt soelim tsc zsoelim",
    ),
];

fn plain() -> impl Iterator<Item = &'static str> {
    PLAIN.iter().flat_map(|(_, names)| names.split(' '))
}

/// Base names of the programs, and a row that names each.
fn programs() -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for line in GTFOBINS.lines().chain(BYPASSES.lines()) {
        let row: Value = serde_json::from_str(line).unwrap();
        let id = row["id"].as_str().unwrap();
        let named = [&row["program"], &row["argv"][0]].into_iter().filter_map(Value::as_str);
        // An empty name is no program, and refused before any list is asked.
        for name in named.filter(|name| !name.is_empty()) {
            names.entry(base(name).to_owned()).or_insert_with(|| id.to_owned());
        }
    }
    names
}

/// Whether the name is refused whatever an allow-list says.
fn always_denied() -> impl Fn(&str) -> bool {
    let policy = policy();
    move |name| {
        let any = policy.allow_list(&[], &["(?s).*"]).unwrap();
        let judged = policy.judge_argv(&[name.as_bytes()], Some(&any));
        judged.is_err_and(|denial| denial.reason == Reason::CommandAlwaysDenied)
    }
}

fn has_grammar(name: &str) -> bool {
    grammar::program(name.as_bytes()).unwrap().is_some()
}

#[test]
fn every_program_of_the_technique_corpora_is_spoken_for() {
    let plain: BTreeSet<&str> = plain().collect();
    let denied = always_denied();
    let programs = programs();
    let forgotten: Vec<String> = programs
        .iter()
        .filter(|(name, _)| !denied(name) && !has_grammar(name) && !plain.contains(name.as_str()))
        .map(|(name, id)| format!("{name} ({id})"))
        .collect();
    assert_eq!(forgotten, Vec::<String>::new(), "deny the name, write a grammar or say why neither");
    assert!(programs.len() >= 440, "{} programs: none may be lost", programs.len());
}

#[test]
fn the_plain_programs_are_in_the_corpora_and_are_not_denied() {
    let (programs, denied) = (programs(), always_denied());
    let mut seen = BTreeSet::new();
    for name in plain() {
        assert!(seen.insert(name), "{name} stands twice");
        assert!(programs.contains_key(name), "{name} is in no row");
        assert!(!denied(name), "{name} is denied; take it off this list");
    }
    for (reason, _) in PLAIN {
        assert!(reason.split(' ').count() > 5, "{reason}: say why");
    }
}

/// One name of each family, as a reader of the list would look it up.
#[test]
fn families_are_refused_with_their_reason() {
    let policy = policy();
    let any = policy.allow_list(&[], &["(?s).*"]).unwrap();
    for (name, group) in [
        ("ansible-playbook", "infrastructure"),
        ("apt-get", "package-manager"),
        ("/usr/lib/nagios/plugins/check_log", "nagios-plugin"),
        ("aclocal-1.16", "autotools"),
        ("borg", "backup"),
        ("composer", "package-manager"),
        ("cowsay", "interpreter"),
        ("docker", "container"),
        ("yt-dlp", "media"),
        ("colordiff", "front-end"),
        ("scalac", "compiler"),
        ("sz", "transfer"),
        ("fzf", "dialog"),
        ("nft", "firewall"),
        ("hashcat", "attack-tool"),
        ("jest", "project-code"),
        ("latexmk", "tex"),
        ("mutt", "mail"),
        ("mvn", "build-runner"),
        ("nginx", "service"),
        ("quilt", "version-control"),
        ("rustup", "toolchain-manager"),
        ("systemctl", "systemd"),
        ("vipw", "account"),
        ("zypper", "package-manager"),
    ] {
        let denial = policy.judge_argv(&[name.as_bytes()], Some(&any)).unwrap_err();
        assert_eq!(denial.rule, format!("names.{group}"), "{name}");
    }
    for name in
        ["lsmod", "identify", "qemu-img", "dpkg-query", "systemd-detect-virt", "node_modules", "check"]
    {
        assert!(!always_denied()(name), "{name}");
    }
}

/// The list is read by people: names sorted, none twice, patterns only where names have versions.
#[test]
fn the_list_of_denied_names_is_in_order() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("policy/denied-names.toml");
    let table: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    for group in table["group"].as_array().unwrap() {
        let names: Vec<&str> =
            group["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!(names, sorted, "{:?}", group["id"]);
    }
}

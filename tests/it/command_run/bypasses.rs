//! Lines that get around allow-lists of shells: none of them does here.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::scan::root;
use crate::support::{Lab, Rules, Served};

use super::batch;

/// What the corpus calls its directories.
const THERE: &str = "/tmp/escape-lab";
/// The text of the file that nobody may read.
const NEEDLE: &str = "cnry5e1f0c7d9b42";
/// Programs that the lines use and a policy may well list.
const LISTED: &[&str] = &[
    "awk", "base64", "cat", "echo", "find", "git", "grep", "head", "ls", "printf", "rev", "sort", "tar",
    "tee", "touch", "tr", "true", "uniq", "wc", "xxd", "zip",
];

/// What became of the lines that were not refused. Everything else is `rejected`, by a rule.
/// Both print what they were given: the quotes of the one hold, and the other's format is the text `-v`.
const RAN: &[(&str, &str)] =
    &[("agent-sh-echo-quote-break", "succeeded"), ("agent-sh-printf-v", "succeeded")];

fn write(path: &std::path::Path, text: &str, mode: u32) {
    if let Some(above) = path.parent() {
        fs::create_dir_all(above).unwrap();
        fs::set_permissions(above, fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn no_line_that_gets_around_a_shell_s_allow_list_does_so_here() {
    let text = fs::read_to_string(root().join("tests/corpora/agent_bypasses_open.jsonl")).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<&Value> = rows.iter().filter(|row| row["shell"].is_string()).collect();
    assert!(rows.len() >= 110, "{}", rows.len());
    let installed = LISTED.iter().filter(|name| root_has(name));
    let names: Vec<String> = installed.map(|name| format!("[command.{name}]")).collect();
    let lab = Lab::new(&Rules {
        write: true,
        commands: format!("{}\n[server]\ntools = [\"command_run\"]\n", names.join("\n")),
        ..Rules::default()
    });
    write(&lab.at("outside/hostname"), NEEDLE, 0o644);
    fs::set_permissions(lab.at("outside"), fs::Permissions::from_mode(0o777)).unwrap();
    // Every path of the corpus that a line could reach for is one of the laboratory.
    let here = |text: &str| {
        let text = text.replace(&format!("{THERE}/ws"), &lab.text("ws"));
        let text = text.replace(&format!("{THERE}/secret"), &lab.text("outside"));
        text.replace("/tmp/marker-", &lab.text("outside/marker-")).replace(THERE, &lab.text(""))
    };
    for row in &rows {
        for (name, file) in row["files"].as_object().unwrap() {
            let mode = u32::try_from(file["mode"].as_u64().unwrap()).unwrap();
            write(&lab.at("ws").join(name), &here(file["content"].as_str().unwrap()), mode & 0o777);
        }
        if let Some(tag) = row["observable"]["marker"].as_str().and_then(|path| path.rsplit('-').next()) {
            let (inside, outside) =
                (lab.text(&format!("ws/ran-{tag}")), lab.text(&format!("outside/marker-{tag}")));
            let script = format!("#!/bin/sh\necho>{inside};echo>{outside}\n");
            write(&lab.at(&format!("ws/p-{tag}")), &script, 0o755);
        }
    }
    let mut served = Served::start(&lab);
    let mut ran: BTreeMap<String, String> = BTreeMap::new();
    let mut rejected = 0;
    for rows in rows.chunks(30) {
        let commands: Vec<Value> =
            rows.iter().map(|row| json!({"command_line": here(row["shell"].as_str().unwrap())})).collect();
        let result = batch(&mut served, Value::from(commands));
        for (row, result) in rows.iter().zip(result["results"].as_array().unwrap()) {
            let (id, status) = (row["id"].as_str().unwrap(), result["status"].as_str().unwrap());
            assert!(!result.to_string().contains(NEEDLE), "{id}: {result}");
            if status == "rejected" {
                assert!(result["rule"].is_string(), "{id}: {result}");
                rejected += 1;
            } else {
                let shown = format!("{status} {} {:?}", result["exit_code"], result["stdout"]);
                eprintln!("{id}: {} -> {shown} {}", row["shell"], result["stderr"]);
                ran.insert(id.to_owned(), status.to_owned());
            }
        }
    }
    served.stop();
    // What the lines are after is not there, neither inside nor outside.
    for directory in ["ws", "outside"] {
        for entry in fs::read_dir(lab.at(directory)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.starts_with("ran-") && !name.starts_with("marker-"), "{directory}/{name} was made");
        }
    }
    let expected: BTreeMap<String, String> =
        RAN.iter().map(|(id, status)| ((*id).to_owned(), (*status).to_owned())).collect();
    assert_eq!(ran, expected);
    assert_eq!(rejected + ran.len(), rows.len());
}

fn root_has(name: &str) -> bool {
    ["/usr/bin", "/bin", "/usr/local/bin"].iter().any(|dir| std::path::Path::new(dir).join(name).exists())
}

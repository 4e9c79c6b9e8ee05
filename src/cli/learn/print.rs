//! The proposal as TOML with comments, and as JSON. Called by `learn` only.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Learner;
use super::end::Ending;
use super::proposal::Proposal;
use super::verify::Verified;

/// The section, and what a person must know beside it.
pub(super) fn toml(
    learner: &Learner<'_>,
    found: &Proposal,
    recorded: &Ending,
    verified: &Verified,
) -> String {
    let mut out = String::new();
    let argv: Vec<_> = learner.args.argv.iter().map(|word| word.to_string_lossy()).collect();
    comment(
        &mut out,
        &format!("Proposed by cofferdam learn; review it before use. Recorded: {}", argv.join(" ")),
    );
    comment(&mut out, &format!("Recorded run: {}.", recorded.shown()));
    if !recorded.succeeded() {
        comment(
            &mut out,
            "It did not succeed, and nothing is known of what it would do if it did: record one that does.",
        );
    }
    comment(&mut out, &format!("Under this section: {}", verdict(recorded, verified)));
    if learner.listed {
        comment(
            &mut out,
            "The policy has a section of this name, whose other keys were not looked at: merge them.",
        );
    }
    if learner.interpreter {
        comment(
            &mut out,
            "WARNING: always denied, since it runs what it is handed. The kernel profile is the only",
        );
        comment(
            &mut out,
            "wall: what it may read it may print, and what it may execute it may run with any arguments.",
        );
    }
    for path in found.loud() {
        let text =
            "is always denied as a name: whoever can start it through this program runs any code with it";
        comment(&mut out, &format!("WARNING: {} {text}", path.display()));
    }
    // Writing to a string cannot fail.
    let _ = writeln!(out, "[command.{}]", key(&learner.name));
    if learner.interpreter {
        let _ = writeln!(out, "interpreters = \"confine\"");
    }
    list(&mut out, "execute", &found.execute);
    list(&mut out, "read", &found.read);
    needs(&mut out, learner, found);
    for path in &found.spared {
        comment(&mut out, &format!("not needed for the same end: {}", path.display()));
    }
    for (path, why) in &found.refused {
        comment(&mut out, &format!("not granted: {} ({why})", path.display()));
    }
    out
}

/// What stands outside of the section.
fn needs(out: &mut String, learner: &Learner<'_>, found: &Proposal) {
    if !found.written.is_empty() {
        let shown: Vec<String> =
            found.written.iter().take(5).map(|path| path.display().to_string()).collect();
        let more = if found.written.len() > shown.len() { ", …" } else { "" };
        let has = if learner.write { "the policy has it" } else { "the policy does not have it" };
        comment(
            out,
            &format!("needs [workspace] write = true ({has}): it writes {}{more}", shown.join(", ")),
        );
    }
    if found.repository {
        comment(out, "needs [workspace] repository = \"write\": it writes below .git");
    }
    if found.only_reading {
        comment(
            out,
            "The workspace was read-only while it was recorded: this host has no means to throw writes away.",
        );
    }
    if !found.ports.is_empty() {
        let ports: Vec<String> = found.ports.iter().map(|port| format!("\"tcp:{port}\"")).collect();
        comment(
            out,
            &format!(
                "needs network = [{}] in this section: not proposed, let it in yourself",
                ports.join(", ")
            ),
        );
    }
    for (name, count) in &found.denied {
        let hint = match name.as_str() {
            "socket" | "connect" if !learner.args.network => {
                "; --network records the ports that it connects to"
            }
            _ => "",
        };
        comment(out, &format!("forbidden system call: {name} ({count}×){hint}"));
    }
    if found.partial {
        comment(out, "Not everything could be recorded: expect that something is missing.");
    }
}

fn verdict(recorded: &Ending, verified: &Verified) -> String {
    if !verified.stable && verified.alike {
        "it ended with the same status; it prints something else each time, so that nothing was left out."
            .to_owned()
    } else if verified.alike {
        "it ended alike and printed the same.".to_owned()
    } else if verified.ending.same_status(recorded) {
        "it ended with the same status, but did not print the same.".to_owned()
    } else {
        format!("UNLIKE: {}.", verified.ending.shown().trim_end_matches('.'))
    }
}

/// One line that cannot become anything else than a comment.
fn comment(out: &mut String, text: &str) {
    let text: String =
        text.chars().map(|c| if plain(c) { c.to_string() } else { c.escape_debug().to_string() }).collect();
    let _ = writeln!(out, "# {text}");
}

/// Shows as what it is, and nothing else.
fn plain(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\') || c.escape_debug().len() == 1
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.chars().all(bare) { name.to_owned() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            c if plain(c) => write!(out, "{c}"),
            c => write!(out, "\\U{:08X}", u32::from(c)),
        };
    }
    out.push('"');
    out
}

fn list(out: &mut String, name: &str, paths: &[PathBuf]) {
    if paths.is_empty() {
        return;
    }
    let _ = writeln!(out, "{name} = [");
    for path in paths {
        // Recorded as text, hence text.
        let _ = writeln!(out, "    {},", quoted(&path.to_string_lossy()));
    }
    let _ = writeln!(out, "]");
}

/// The same for programs.
pub(super) fn json(
    learner: &Learner<'_>,
    found: &Proposal,
    recorded: &Ending,
    verified: &Verified,
    section: &str,
) -> Value {
    let texts = |paths: &mut dyn Iterator<Item = &Path>| {
        paths.map(|p| p.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let refused =
        found.refused.iter().map(|(path, why)| json!({"path": path.to_string_lossy(), "reason": why}));
    let denied = found.denied.iter().map(|(name, count)| json!({"syscall": name, "count": count}));
    json!({
        "command": learner.name,
        "section": section,
        "always_denied_helpers": texts(&mut found.loud().map(PathBuf::as_path)),
        "execute": texts(&mut found.execute.iter().map(PathBuf::as_path)),
        "read": texts(&mut found.read.iter().map(PathBuf::as_path)),
        "interpreters": learner.interpreter.then_some("confine"),
        "workspace": {
            "write": !found.written.is_empty(),
            "repository": found.repository,
            "written": texts(&mut found.written.iter().map(PathBuf::as_path)),
            "recorded_read_only": found.only_reading,
        },
        "network": found.ports.iter().map(|port| format!("tcp:{port}")).collect::<Vec<_>>(),
        "spared": texts(&mut found.spared.iter().map(PathBuf::as_path)),
        "refused": refused.collect::<Vec<_>>(),
        "denied_syscalls": denied.collect::<Vec<_>>(),
        "partial": found.partial,
        "recorded": recorded.json(),
        "verified": {
            "alike": verified.alike,
            "same_status": verified.ending.same_status(recorded),
            "same_output": verified.ending.same_output(recorded),
            "ending": verified.ending.json(),
            "stable_output": verified.stable,
            "runs": verified.runs,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_breaks_out_of_its_line() {
        let mut out = String::new();
        comment(&mut out, "not granted: /x\n[command.sh]\r\u{1b}");
        assert_eq!(out.lines().count(), 1, "{out}");
        list(&mut out, "read", &["/a\"]\nexecute = [\"/b".into()]);
        let parsed: toml::Table = toml::from_str(&out).unwrap();
        assert_eq!(parsed.keys().collect::<Vec<_>>(), ["read"], "{out}");
        assert_eq!(parsed["read"][0].as_str(), Some("/a\"]\nexecute = [\"/b"));
        assert_eq!([key("git"), key("/usr/bin/x y")], ["git", "\"/usr/bin/x y\""]);
    }
}

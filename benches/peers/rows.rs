//! The peers: where each is looked for, and the words that confine a program with it.
//!
//! Each is asked for its strictest ordinary use in which a program of the lab still runs: no writing, no
//! network, and no reading outside of what is granted, where it can do so.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// A way of starting a program through another program.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// What goes before the program; or why there is nothing.
    pub(crate) words: Result<Vec<OsString>, String>,
    pub(crate) version: String,
}

/// What the words of peers refer to.
pub(crate) struct Places<'a> {
    pub(crate) lab: &'a Path,
    /// Must not be readable.
    pub(crate) outside: &'a [PathBuf],
    /// Where `benches/peers/setup` puts things.
    pub(crate) installed: &'a Path,
}

pub(crate) fn peers(at: &Places<'_>) -> Vec<Peer> {
    let bin = at.lab.join("bin");
    let text = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    let (bin, ws) = (text(&bin), text(&at.lab.join("ws")));
    let npm = at.installed.join("npm/node_modules");
    let codex = npm.join("@openai/codex");
    let srt = npm.join("@anthropic-ai/sandbox-runtime");
    let settings = srt_settings(at);
    let node = || on_path(at, "node");
    let strict = format!(
        "--unshare-all --new-session --die-with-parent --cap-drop ALL --clearenv \
         --ro-bind /usr /usr --ro-bind-try /bin /bin --ro-bind-try /lib /lib --ro-bind-try /lib64 /lib64 \
         --proc /proc --dev /dev --tmpfs /tmp --ro-bind {bin} {bin} --ro-bind {ws} {ws} --chdir {ws} --"
    );
    let jail = format!(
        "--quiet --noprofile --seccomp --caps.drop=all --nonewprivs --net=none --private --private-dev \
         --read-only=/ --whitelist={bin} --"
    );
    vec![
        at.peer("bubblewrap, minimal", "bubblewrap", on_path(at, "bwrap"), "--ro-bind / / --unshare-pid --"),
        at.peer("bubblewrap, strict", "bubblewrap", on_path(at, "bwrap"), &strict),
        at.peer("firejail", "firejail", on_path(at, "firejail"), &jail),
        at.peer(
            "sandlock",
            "sandlock",
            on_path(at, "sandlock"),
            &format!("run -r /usr -r /lib -r /lib64 -r {bin} --"),
        ),
        at.peer("Codex sandbox, native", "codex", on_path(at, "codex"), "sandbox --").versioned(&codex),
        at.peer(
            "Codex sandbox, npm",
            "codex",
            node(),
            &format!("{} sandbox --", text(&codex.join("bin/codex.js"))),
        )
        .versioned(&codex),
        at.peer(
            "sandbox-runtime",
            "sandbox-runtime",
            node(),
            &format!("{} -s {} --", text(&srt.join("dist/cli.js")), text(&settings)),
        )
        .versioned(&srt),
        at.peer("landrun", "landrun", on_path(at, "landrun"), &format!("--rox /usr --rox {bin} --")),
    ]
}

impl Places<'_> {
    /// `package` is the name that `benches/peers/setup` knows it by.
    fn peer(&self, name: &'static str, package: &str, program: Option<PathBuf>, words: &str) -> Peer {
        let reason = || {
            let noted = std::fs::read_to_string(self.installed.join("missing").join(package));
            noted.unwrap_or_else(|_| "not installed: benches/peers/setup installs it".to_owned())
        };
        let version = program.as_deref().map(version).unwrap_or_default();
        let words = program.ok_or_else(reason).map(|program| {
            std::iter::once(program.into()).chain(words.split_whitespace().map(OsString::from)).collect()
        });
        Peer { name, words, version }
    }

    /// Programs that peers start, and a home that is theirs.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let home = self.installed.join("home");
        vec![("PATH", search(self)), ("CODEX_HOME", home.join(".codex").into()), ("HOME", home.into())]
    }
}

impl Peer {
    /// The version is that of an npm package, which may not be there.
    fn versioned(mut self, package: &Path) -> Self {
        let read = std::fs::read_to_string(package.join("package.json"));
        match read.map(|text| serde_json::from_str::<Value>(&text).expect("package.json")) {
            Ok(described) => described["version"].as_str().unwrap_or_default().clone_into(&mut self.version),
            Err(e) => self.words = self.words.and(Err(format!("{}: {e}", package.display()))),
        }
        self
    }
}

fn search(at: &Places<'_>) -> OsString {
    let mut path = at.installed.join("bin").into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

fn on_path(at: &Places<'_>, program: &str) -> Option<PathBuf> {
    std::env::split_paths(&search(at)).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// The number in the first line of `PROGRAM --version`.
fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    word.unwrap_or("unknown").to_owned()
}

/// sandbox-runtime reads everything that it is not told to hide.
fn srt_settings(at: &Places<'_>) -> PathBuf {
    let file = at.lab.join("srt.json");
    let settings = json!({
        "network": { "allowedDomains": [], "deniedDomains": [] },
        "filesystem": { "denyRead": at.outside, "allowWrite": [], "denyWrite": [] },
    });
    std::fs::write(&file, settings.to_string()).expect("settings of sandbox-runtime");
    file
}

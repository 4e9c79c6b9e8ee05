//! The command lines that are measured, what they work on, and the policy that lets them run.
//!
//! For `main.rs`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::told;

/// Where programs are found, bare and inside.
const PLACES: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
/// What the built-in policy lets every command read. Without names of owners tar asks for that of root
/// again at each file, since it remembers only other users to be unknown.
const READ: [&str; 7] = [
    "@libraries",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/usr/lib/locale/C.utf8",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
];
/// Directories of the tree, and files in each.
const TREE: (usize, usize) = (50, 100);

/// One command line.
pub(crate) struct Work {
    pub(crate) name: &'static str,
    words: &'static [&'static str],
    /// Most that its processor time inside may be, in multiples of bare.
    pub(crate) bar: f64,
}

/// Those that the command line names; all of them where it names none.
pub(crate) fn wanted() -> Vec<Work> {
    let named = |work: &Work| std::env::args().any(|word| word == work.name);
    let (named, others): (Vec<Work>, Vec<Work>) = all().into_iter().partition(named);
    if named.is_empty() { others } else { named }
}

fn all() -> Vec<Work> {
    let work = |name, words, bar| Work { name, words, bar };
    vec![
        work("git", &["status", "--short"], 1.05),
        work("find", &["tree", "-type", "f", "-size", "+1k", "-name", "*7.txt"], 1.08),
        work("rg", &["-c", "needle [0-9]+7", "tree"], 1.15),
        work("tar", &["-cf", "-", "tree"], 1.15),
        work("python3", &["work.py"], 1.03),
        work("gcc", &["-O1", "-S", "-o", "-", "work.c"], 1.03),
    ]
}

impl Work {
    fn file(&self) -> Option<PathBuf> {
        PLACES.iter().map(|dir| Path::new(dir).join(self.name)).find(|file| file.is_file())
    }

    pub(crate) fn is_there(&self) -> bool {
        self.file().is_some()
    }

    pub(crate) fn argv(&self) -> Vec<Vec<u8>> {
        std::iter::once(&self.name).chain(self.words).map(|word| word.as_bytes().to_vec()).collect()
    }

    /// As it is printed.
    pub(crate) fn shown(&self) -> String {
        format!("`{} {}`", self.name, self.words.join(" "))
    }

    /// Its section of the policy.
    fn section(&self) -> String {
        let path = self.file().expect("a program");
        let path = path.to_str().expect("a path in UTF-8");
        let there = |paths: Vec<PathBuf>| paths.into_iter().filter(|p| p.exists()).collect::<Vec<_>>();
        match self.name {
            "python3" => {
                let library =
                    told(path, &["-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"]);
                format!("[command.python3]\ninterpreters = \"confine\"\nread = {:?}\n", there(vec![library]))
            }
            "gcc" => {
                let read =
                    there(vec![told(path, &["-print-file-name=include"]), PathBuf::from("/usr/include")]);
                format!(
                    "[command.gcc]\nexecute = [{:?}]\nread = {read:?}\n",
                    told(path, &["-print-prog-name=cc1"])
                )
            }
            name => format!("[command.{name}]\n"),
        }
    }
}

pub(crate) fn policy(lab: &Path, workspace: &Path, works: &[Work]) -> String {
    let sections: String = works.iter().map(Work::section).collect();
    let read: Vec<&str> = READ.into_iter().filter(|p| p.starts_with('@') || Path::new(p).exists()).collect();
    format!(
        "version = 1\n[environment]\npath = {:?}\nset = {{ LANG = \"C.UTF-8\" }}\n[sandbox]\nread = {read:?}\n\
         [workspace]\npath = {workspace:?}\n[audit]\nsinks = [{{ kind = \"file\", path = {:?} }}]\n{sections}",
        PLACES.join(":"),
        lab.join("audit/audit.jsonl"),
    )
}

/// A repository of some thousand files, a program in Python and one in C.
pub(crate) fn workspace(lab: &Path) -> PathBuf {
    let root = lab.join("ws");
    // Older than the index, or git would read each file again to be sure.
    let old = SystemTime::now() - Duration::from_secs(3600);
    for dir in 0..TREE.0 {
        let dir = root.join(format!("tree/d{dir:03}"));
        fs::create_dir_all(&dir).expect("directory");
        for file in 0..TREE.1 {
            let text: String =
                (0..20 + file).map(|line| format!("line {line}, a needle {}\n", line * 31 + file)).collect();
            let path = dir.join(format!("f{file:03}.txt"));
            fs::write(&path, text).expect("file");
            let opened = File::options().write(true).open(&path).expect("file");
            opened.set_modified(old).expect("time of a file");
        }
    }
    fs::write(root.join("work.py"), PYTHON).expect("Python");
    fs::write(root.join("work.c"), c()).expect("C");
    let git = |words: &[&str]| {
        let person = ["-c", "user.name=b", "-c", "user.email=b@localhost", "-c", "commit.gpgsign=false"];
        let status = Command::new("git").arg("-C").arg(&root).args(person).args(words).status();
        assert!(status.expect("git").success(), "git {words:?}");
    };
    if PLACES.iter().any(|dir| Path::new(dir).join("git").is_file()) {
        git(&["init", "-q"]);
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "all"]);
    }
    root
}

/// A loop, and some files.
const PYTHON: &str = "\
total = 0
for i in range(1_500_000):
    total = (total * 31 + i) & 0xFFFFFFFF
for d in range(5):
    for f in range(100):
        with open(f'tree/d{d:03}/f{f:03}.txt') as text:
            total += len(text.read())
print(total)
";

/// Some hundred functions.
fn c() -> String {
    let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    for n in 0..120 {
        writeln!(
            text,
            "int f{n}(int a, const char *s) {{ int t = {n}; for (int i = 0; i < a; i++) \
             t += (i ^ {n}) * (int)strlen(s) - (t >> 3); if (t & 1) printf(\"%d\\n\", t); return t; }}"
        )
        .expect("text");
    }
    text.push_str("int main(void) { return 0; }\n");
    text
}

//! `policy/build.toml`: a real crate is built as a job, offline, and followed to its end by cursor. The
//! toolchain of this host, hard links of its files, stands where the policy says `/opt/rust`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::scan::root;
use crate::support::{Lab, Rules, Served};

const SHIPPED: &str = include_str!("../../policy/build.toml");
/// The target whose libraries the toolchain has.
const TARGET: &str = "lib/rustlib/x86_64-unknown-linux-gnu";

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Copies a tree, by hard links where the file system allows.
fn linked(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let tried = Command::new("cp").arg("-al").arg(from).arg(to).output().unwrap();
    if !tried.status.success() {
        drop(fs::remove_dir_all(to));
        assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
    }
}

/// A laboratory under the shipped policy, with the paths that it asks to be replaced.
fn builder() -> Lab {
    let lab = Lab::new(&Rules { write: true, ..Rules::default() });
    let (from, to) = (PathBuf::from(output("rustc", &["--print", "sysroot"]).trim()), lab.at("rust"));
    for part in ["bin/cargo", "bin/rustc", TARGET] {
        linked(&from.join(part), &to.join(part));
    }
    for entry in fs::read_dir(from.join("lib")).unwrap() {
        let name = entry.unwrap().file_name();
        if name.to_str().unwrap().contains(".so") {
            linked(&from.join("lib").join(&name), &to.join("lib").join(&name));
        }
    }
    for dir in ["rust", "rust/bin", "rust/lib", "rust/lib/rustlib"] {
        fs::set_permissions(lab.at(dir), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let policy = SHIPPED
        .replace("\"/workspace\"", &format!("{:?}", lab.ws()))
        .replace("/opt/rust", to.to_str().unwrap())
        .replace("\"/var/log/cofferdam/audit.jsonl\"", &format!("{:?}", lab.log()))
        // The user of commands may be shared with other tests that run now.
        .replace("processes = 512", "processes = 20000");
    fs::write(lab.policy(), policy).unwrap();
    lab
}

/// Writes a file of the workspace, as its owner there.
fn file(lab: &Lab, path: &str, text: &str) {
    let path = lab.ws().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn owned(lab: &Lab) {
    if nix::unistd::Uid::effective().is_root() {
        assert!(Command::new("chown").args(["-R", "65534:65534"]).arg(lab.ws()).status().unwrap().success());
    }
}

/// A call whose payload is wanted.
fn call(served: &mut Served, tool: &str, arguments: Value) -> Value {
    let id = served.send("tools/call", json!({"name": tool, "arguments": arguments}));
    let answer = served.answer(id);
    let payload = answer["result"]["structuredContent"].clone();
    assert!(payload.is_object(), "{answer}");
    payload
}

/// Runs a job to its end by cursor: standard error, and the status.
fn job(served: &mut Served, command: &str, arguments: &[&str]) -> (String, Value) {
    let started = call(served, "sh_start", json!({"command": command, "args": arguments}));
    let (mut cursor, mut text) = (json!("0"), String::new());
    loop {
        let asked = json!({"job": started["job"], "cursor": cursor});
        let piece = call(served, "sh_output", asked);
        assert!(piece["truncated"].is_null(), "{piece}");
        text.push_str(piece["stderr"].as_str().unwrap());
        cursor = piece["cursor"].clone();
        if piece["eof"] == true {
            let polled = call(served, "sh_poll", json!({"job": started["job"]}));
            return (text, polled["exit"].clone());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_real_crate_is_built_as_a_job_and_what_was_built_runs_outside_only() {
    let lab = builder();
    // A published crate that this one depends on, from where cargo keeps its source.
    let metadata = output(
        "cargo",
        &["metadata", "--offline", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"],
    );
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let strsim = packages.iter().find(|package| package["name"] == "strsim").unwrap();
    let source = Path::new(strsim["manifest_path"].as_str().unwrap()).parent().unwrap();
    fs::create_dir(lab.ws().join("vendor")).unwrap();
    let to = lab.ws().join("vendor/strsim");
    assert!(Command::new("cp").arg("-r").arg(source).arg(&to).status().unwrap().success());
    file(
        &lab,
        "Cargo.toml",
        "[package]\nname = \"near\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nstrsim = { path = \"vendor/strsim\" }\n",
    );
    file(
        &lab,
        "src/main.rs",
        "fn main() { println!(\"{}\", strsim::levenshtein(\"kitten\", \"sitting\")); }\n",
    );
    owned(&lab);

    let mut served = Served::start(&lab);
    let (told, exit) = job(&mut served, "cargo", &["build", "--offline"]);
    assert_eq!(exit, 0, "{told}");
    assert!(told.contains("Compiling strsim") && told.contains("Finished"), "{told}");
    assert!(!told.contains('\u{1b}'), "{told}");
    let built = lab.ws().join("target/debug/near");
    // Whoever may read the workspace may read what was built there.
    assert_eq!(fs::metadata(&built).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::metadata(lab.ws().join("Cargo.lock")).unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(output(built.to_str().unwrap(), &[]), "3\n");
    // Inside, nothing starts it: it is not listed, and cargo cannot.
    let (text, error) = served.run(json!({"command": built}));
    assert!(error && text.contains("not allowlisted"), "{text}");
    let (text, error) = served.run(json!({"command": "cargo", "args": ["run", "--offline"]}));
    assert!(error && text.contains("'run' of 'cargo' is refused"), "{text}");
    assert_eq!(served.stop(), Some(0));
    let started: Vec<Value> =
        lab.records().into_iter().filter(|record| record["event_type"] == "run.end").collect();
    assert!(started[0]["exec"].to_string().contains("/rust/bin/rustc "), "{}", started[0]);
}

#[test]
fn a_crate_that_runs_what_it_builds_is_not_built() {
    let lab = builder();
    file(
        &lab,
        "script/Cargo.toml",
        "[package]\nname = \"script\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    file(&lab, "script/src/lib.rs", "");
    file(&lab, "script/build.rs", "fn main() { std::fs::write(\"ran\", \"\").unwrap(); }\n");
    file(
        &lab,
        "user/Cargo.toml",
        "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\nshape = { path = \"../shape\" }\n",
    );
    file(&lab, "user/src/lib.rs", "shape::nothing!();\n");
    file(
        &lab,
        "shape/Cargo.toml",
        "[package]\nname = \"shape\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\nproc-macro = true\n[workspace]\n",
    );
    file(
        &lab,
        "shape/src/lib.rs",
        "#[proc_macro] pub fn nothing(_: proc_macro::TokenStream) -> proc_macro::TokenStream { std::fs::write(\"ran\", \"\").unwrap(); Default::default() }\n",
    );
    owned(&lab);
    let mut served = Served::start(&lab);
    for (crate_, why) in [("script", "Permission denied"), ("user", "can't find crate for `shape`")] {
        let manifest = format!("{crate_}/Cargo.toml");
        let (told, exit) = job(&mut served, "cargo", &["build", "--offline", "--manifest-path", &manifest]);
        assert_eq!(exit, 101, "{told}");
        assert!(told.contains(why), "{told}");
        assert!(!lab.ws().join(crate_).join("ran").exists());
    }
}

#[test]
fn make_builds_a_c_program_by_recipes_without_a_shell() {
    let lab = builder();
    file(&lab, "Makefile", "hello: hello.c\n\tcc -O1 -o hello hello.c\nshell:\n\techo x > made\n");
    file(&lab, "hello.c", "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n");
    owned(&lab);
    let mut served = Served::start(&lab);
    let (told, exit) = job(&mut served, "make", &["hello"]);
    assert_eq!(exit, 0, "{told}");
    // GNU ld makes its file executable by chmod(2), which commands may not; somebody outside has to.
    let built = lab.ws().join("hello");
    assert_eq!(fs::metadata(&built).unwrap().permissions().mode() & 0o777, 0o644);
    fs::set_permissions(&built, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(output(built.to_str().unwrap(), &[]), "hello\n");
    let (told, exit) = job(&mut served, "make", &["shell"]);
    assert!(exit == 2 && told.contains("Permission denied"), "{told}");
    assert!(!lab.ws().join("made").exists());
}

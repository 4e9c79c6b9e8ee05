//! Is a row confined at all? One program is run through it that tries to write, read and connect outside.
//!
//! For `main.rs`. The answer is looked up where it counts: at the file, and at the listener.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use crate::common::static_program;

/// What the program got through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) writes: bool,
    pub(crate) reads: bool,
    pub(crate) network: bool,
}

pub(crate) struct Control {
    pub(crate) program: PathBuf,
    /// Directories that no row grants: one among the temporary files, one elsewhere.
    pub(crate) outside: Vec<PathBuf>,
    secret: String,
    listener: TcpListener,
}

impl Control {
    pub(crate) fn new(bin: &Path, outside: Vec<PathBuf>) -> Self {
        let secret = format!("secret-{}", std::process::id());
        for dir in &outside {
            use std::os::unix::fs::PermissionsExt;
            fs::create_dir_all(dir).expect("directory outside");
            fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).expect("mode of it");
            fs::write(dir.join("secret"), &secret).expect("secret");
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("listener");
        listener.set_nonblocking(true).expect("listener");
        let port = listener.local_addr().expect("its address").port();
        let list = |name: &str| {
            let quoted = outside.iter().map(|dir| format!("{:?}", dir.join(name)));
            quoted.collect::<Vec<_>>().join(", ")
        };
        let code = format!(
            "#define WRITE {}\n#define READ {}\n#define PORT {port}\n{}",
            list("written"),
            list("secret"),
            include_str!("control.c")
        );
        let program = static_program(bin, "control", &code);
        Self { program, outside, secret, listener }
    }

    /// What its last run got through, by what it printed and what it left; `None` when it did not run.
    pub(crate) fn judge(&self, printed: &str) -> Option<Open> {
        let mut writes = false;
        for dir in &self.outside {
            match fs::remove_file(dir.join("written")) {
                Ok(()) => writes = true,
                Err(e) => assert_eq!(e.kind(), ErrorKind::NotFound, "{}: {e}", dir.display()),
            }
        }
        let reached = match self.listener.accept() {
            Ok(_) => true,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::WouldBlock, "listener: {e}");
                false
            }
        };
        let said = |line: &str| printed.lines().any(|l| l.trim() == line);
        said("RAN").then(|| Open { writes, reads: said(&self.secret), network: reached })
    }
}

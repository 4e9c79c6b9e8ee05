//! kill -9 at every named point between the acceptance of a call and its reply: nothing ran without a durable
//! start, and each start gets its end at the next start.
//!
//! The server stands still at the point that the file of orders names, reading a FIFO; the test sees it there,
//! kills it for good, and looks.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use cofferdam::audit::verify::verify;
use nix::sys::signal::Signal;
use serde_json::json;

use super::event;
use crate::support::{Lab, Rules, Served, eventually, kill};

/// A point, whether the program may have run by then, and how many starts must be on record.
struct Point {
    name: &'static str,
    ran: bool,
    starts: usize,
}

const POINTS: &[Point] = &[
    Point { name: "run:accepted", ran: false, starts: 0 },
    Point { name: "audit:lock", ran: false, starts: 0 },
    Point { name: "audit:write", ran: false, starts: 0 },
    // Written, and not known to be durable: it stands there, for the process alone died.
    Point { name: "audit:fdatasync", ran: false, starts: 1 },
    Point { name: "audit:acknowledge", ran: false, starts: 1 },
    Point { name: "run:recorded", ran: false, starts: 1 },
    Point { name: "run:ended", ran: true, starts: 1 },
    Point { name: "run:answered", ran: true, starts: 1 },
];

/// Waits until somebody reads the FIFO, without letting it go on.
fn reached(fifo: &Path) {
    let open = || fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(fifo);
    let mut held = None;
    eventually("the server stands at the point", || match open() {
        Ok(file) => {
            held = Some(file);
            true
        }
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::ENXIO), "{error}");
            false
        }
    });
    // Held until the server is dead: closing it would let it go on.
    std::mem::forget(held);
}

#[test]
fn a_server_that_is_killed_at_any_point_of_a_call_leaves_a_whole_log() -> io::Result<()> {
    for point in POINTS {
        let lab = Lab::new(&Rules { write: true, ..Rules::default() });
        fs::set_permissions(lab.ws(), std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
        let fifo = lab.at(&format!("fault.{}", point.name.replace(':', ".")));
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU)?;
        let mut command = lab.command("serve");
        command.env("COFFERDAM_FAULT_FILE", lab.at("fault"));
        let mut served = Served::by(command);
        fs::write(lab.at("fault"), format!("stop {}", point.name))?;
        served.send_run(json!({"command": lab.probe(), "args": ["try", "mkdir", "mark", ""]}));
        reached(&fifo);
        kill(served.pid(), Signal::SIGKILL);
        served.stop();
        fs::remove_file(lab.at("fault"))?;
        eventually("its launcher is gone with it", || lab.alive().is_empty());
        let name = point.name;
        let marked = lab.ws().join("mark").exists();
        assert_eq!(marked, point.ran, "{name}: whether the program ran");
        let before: Vec<String> = lab.records().iter().map(event).collect();
        let starts = before.iter().filter(|event| *event == "run.start").count();
        assert_eq!(starts, point.starts, "{name}: {before:?}");
        assert!(!marked || starts == 1, "{name}: it ran without a record");
        // The next server says what became of it.
        let ran = lab.probed(&["say", "ran"]);
        assert_eq!(ran.status, 0, "{name}: {ran:?}");
        let after: Vec<String> = lab.records().iter().map(event).collect();
        let count = |kind: &str| after.iter().filter(|event| event.starts_with(kind)).count();
        assert_eq!(count("run.start"), count("run.end"), "{name}: {after:?}");
        assert_eq!(verify(&[lab.log()], None).unwrap().broken, None, "{name}");
    }
    Ok(())
}

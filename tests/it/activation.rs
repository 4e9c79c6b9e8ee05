//! Under a service manager: sockets that it opened, and what it is told. And the units that are shipped.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::connect::get;
use crate::scan::root;
use crate::support::{BINARY, Lab, Rules, eventually, kill};

/// What systemd does for the process that it starts: the socket is descriptor 3, and the process is told so.
const ACTIVATE: &str = "export LISTEN_PID=$$ LISTEN_FDS=1; exec 3<&0 </dev/null; exec \"$0\" \"$@\"";

fn activated(lab: &Lab, socket: OwnedFd) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", ACTIVATE, BINARY, "serve", "--activated", "--policy"]).arg(lab.policy());
    command.stdin(Stdio::from(socket)).stdout(Stdio::null());
    command.stderr(File::create(lab.at("stderr")).unwrap());
    command
}

#[test]
fn a_socket_of_the_manager_is_served_and_the_manager_is_told() {
    let lab = Lab::new(&Rules { commands: "[command.cat]\n".to_owned(), ..Rules::default() });
    let path = lab.at("systemd.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let manager = UnixDatagram::bind(lab.at("notify")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let heard = || {
        let mut buffer = [0; 256];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    // A client may be there before the server is.
    let early = UnixStream::connect(&path).unwrap();
    let mut child = activated(&lab, listener.into()).env("NOTIFY_SOCKET", lab.at("notify")).spawn().unwrap();
    assert_eq!(heard(), "READY=1");
    assert!(get(early, "/readyz").starts_with("HTTP/1.1 200"));
    let pid = i32::try_from(child.id()).unwrap();
    kill(pid, Signal::SIGHUP);
    assert!(heard().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(heard(), "READY=1");
    kill(pid, Signal::SIGTERM);
    assert_eq!(heard(), "STOPPING=1");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(path.exists(), "it belongs to the manager");
    assert_eq!(lab.records().last().unwrap()["event_type"], "server.stop");
}

#[test]
fn without_one_that_listens_nothing_is_served() {
    let lab = Lab::plain();
    let output = lab.command("serve").arg("--activated").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("handed over 0 sockets"));
    let (one, _other) = UnixStream::pair().unwrap();
    assert_eq!(activated(&lab, one.into()).status().unwrap().code(), Some(125));
    eventually("it says why", || fs::read_to_string(lab.at("stderr")).unwrap().contains("handed over"));
}

#[test]
fn the_units_start_what_there_is() {
    let unit = |name: &str| fs::read_to_string(root().join("deploy/systemd").join(name)).unwrap();
    let (service, socket) = (unit("cofferdam.service"), unit("cofferdam.socket"));
    let start =
        service.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/cofferdam ")).unwrap();
    let help = Command::new(BINARY).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for flag in start.split(' ').filter(|word| word.starts_with("--")) {
        assert!(help.contains(flag), "{flag}");
    }
    for line in ["Type=notify", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "ProtectSystem=strict"] {
        assert!(service.lines().any(|own| own == line), "{line}");
    }
    assert_eq!(socket.lines().filter(|line| line.starts_with("Listen")).count(), 1, "--activated takes one");
}

//! What a server that was taken over would try: made behind the very walls that `serve` puts around
//! itself, in a child of `doctor`. And whether this user could make a user namespace.
//!
//! Must be called while the process has one thread. Called by `cli/doctor` only.

use std::fs::OpenOptions;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use nix::sched::CloneFlags;
use nix::sys::resource::{Resource, getrlimit};

use super::read::{self, Answered, Expected, Stop, call, step};
use super::{Answer, SECONDS, Tried};
use crate::sandbox::own;
use crate::sys::attempt as raw;

/// What the attempts need.
#[derive(Debug)]
pub struct ServerGround<'a> {
    /// Directories of audit records.
    pub audit: &'a [PathBuf],
    /// A directory outside, with a `file`, that this user can write.
    pub outside: &'a Path,
    /// A port that somebody listens on.
    pub port: u16,
}

type Row = (&'static str, &'static str, Expected, fn(&ServerGround<'_>) -> Tried);

/// Every attempt, in order.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("server.execute", "execute a program", Expected::Blocked, execute),
    ("server.create", "create a file outside of the records", Expected::Blocked, create),
    ("server.overwrite", "open one for writing", Expected::Blocked, overwrite),
    ("server.remove", "remove one", Expected::Blocked, remove),
    ("server.connect", "connect to a port", Expected::Blocked, connect),
    ("server.bind", "serve a port", Expected::Blocked, bind),
    ("server.namespace", "unshare the user namespace", Expected::Blocked, namespace),
    ("server.memory", "read the memory of another process", Expected::Blocked, memory),
    ("server.bpf", "load BPF", Expected::Blocked, bpf),
    ("server.keyctl", "use the keyrings", Expected::Blocked, keyring),
    ("server.new_privs", "gain privileges by executing", Expected::Blocked, privileges),
    ("server.seccomp", "run without a system-call filter", Expected::Blocked, unfiltered),
    ("server.dump", "leave its memory in a core file", Expected::Blocked, dump),
    ("server.records", "write where the records go", Expected::Open("the records are its work"), records),
];

/// One attempt with what it is and what must come of it.
#[derive(Debug)]
pub struct Tested {
    /// Stable name.
    pub id: &'static str,
    /// What is tried.
    pub what: &'static str,
    /// What must come of it.
    pub expected: Expected,
    /// What came of it.
    pub result: Answered,
    /// The kernel's answer.
    pub detail: String,
}

/// Makes all of them.
#[must_use]
pub fn server(ground: &ServerGround<'_>) -> Vec<Tested> {
    let work = || {
        let confined = own::confine(ground.audit, None, &[]).map_err(|e| e.to_string());
        let one = |(id, _, _, run): &Row| {
            let tried = match &confined {
                Ok(()) => run(ground),
                Err(why) => Err(Stop::Failed(why.clone())),
            };
            let (result, detail) = read::answer(tried);
            Answer { id: (*id).to_owned(), result, detail }
        };
        serde_json::to_vec(&ROWS.iter().map(one).collect::<Vec<_>>()).unwrap_or_else(|_| Vec::new())
    };
    let (answers, silent) = match raw::in_child(SECONDS, work) {
        Err(e) => (Vec::new(), (Answered::Error, format!("fork: {e}"))),
        Ok(end) => (
            serde_json::from_slice::<Vec<Answer>>(&end.answer).unwrap_or_else(|_| Vec::new()),
            // One that ends the child spoils all: nothing is known then, not even of the others.
            (Answered::Error, read::without_answer(end.code, end.signal).1),
        ),
    };
    ROWS.iter()
        .map(|(id, what, expected, _)| {
            let answer = answers.iter().find(|answer| answer.id == *id);
            let (result, detail) = answer.map_or_else(|| silent.clone(), |a| (a.result, a.detail.clone()));
            Tested { id, what, expected: *expected, result, detail }
        })
        .collect()
}

/// Whether this user can make a user namespace here.
///
/// # Errors
/// It could not be tried.
pub fn user_namespace() -> io::Result<bool> {
    let end = raw::in_child(SECONDS, || match nix::sched::unshare(CloneFlags::CLONE_NEWUSER) {
        Ok(()) => b"yes".to_vec(),
        Err(_) => b"no".to_vec(),
    })?;
    match end.answer.as_slice() {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err(io::Error::other("the child that tried said nothing")),
    }
}

/// A file that is not there: were it let through, nothing would be executed all the same.
fn execute(_: &ServerGround<'_>) -> Tried {
    let none: [&std::ffi::CStr; 0] = [];
    match nix::unistd::execve(c"/nonexistent/program", &none, &none) {
        Ok(never) => match never {},
        Err(errno) => call("execve", Err::<(), _>(errno)),
    }
}

fn create(ground: &ServerGround<'_>) -> Tried {
    let path = ground.outside.join("made-by-the-server");
    call("creating a file", OpenOptions::new().write(true).create_new(true).open(path))
}

fn overwrite(ground: &ServerGround<'_>) -> Tried {
    call("openat", OpenOptions::new().write(true).open(ground.outside.join("file")))
}

fn remove(ground: &ServerGround<'_>) -> Tried {
    call("unlink", std::fs::remove_file(ground.outside.join("open/victim")))
}

fn connect(ground: &ServerGround<'_>) -> Tried {
    call("connect", TcpStream::connect((Ipv4Addr::LOCALHOST, ground.port)))
}

fn bind(_: &ServerGround<'_>) -> Tried {
    call("bind", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
}

fn namespace(_: &ServerGround<'_>) -> Tried {
    call("unshare", nix::sched::unshare(CloneFlags::CLONE_NEWUSER))
}

fn memory(_: &ServerGround<'_>) -> Tried {
    call("process_vm_readv", raw::read_memory_of(nix::unistd::getppid().as_raw()))
}

fn bpf(_: &ServerGround<'_>) -> Tried {
    call("bpf", raw::bpf())
}

fn keyring(_: &ServerGround<'_>) -> Tried {
    call("keyctl", raw::keyring())
}

fn privileges(_: &ServerGround<'_>) -> Tried {
    match step("prctl", nix::sys::prctl::get_no_new_privs())? {
        true => Err(Stop::Refused("no_new_privs is set".to_owned())),
        false => Ok("no_new_privs is not set".to_owned()),
    }
}

fn unfiltered(_: &ServerGround<'_>) -> Tried {
    match step("prctl", raw::seccomp_mode())? {
        2 => Err(Stop::Refused("seccomp mode 2".to_owned())),
        mode => Ok(format!("seccomp mode {mode}")),
    }
}

fn dump(_: &ServerGround<'_>) -> Tried {
    let dumpable = step("prctl", nix::sys::prctl::get_dumpable())?;
    match (step("getrlimit", getrlimit(Resource::RLIMIT_CORE))?, dumpable) {
        ((0, 0), false) => Err(Stop::Refused("not dumpable, core limit 0".to_owned())),
        ((_, hard), dumpable) => Ok(format!("dumpable: {dumpable}, core limit {hard}")),
    }
}

fn records(ground: &ServerGround<'_>) -> Tried {
    let Some(directory) = ground.audit.first() else {
        return Ok("the records go to standard error".to_owned());
    };
    let path = directory.join(format!(".cofferdam-doctor-{}", uuid::Uuid::new_v4().simple()));
    step("creating a file", OpenOptions::new().write(true).create_new(true).open(&path))?;
    step("unlink", std::fs::remove_file(&path)).map(|()| "a file was created and removed".to_owned())
}

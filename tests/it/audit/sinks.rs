//! Best-effort sinks: what they send, that an outage loses nothing that fits, and that none delays a run.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::time::{Duration, Instant};

use cofferdam::audit::{Audit, Readiness};
use cofferdam::config::{AuditConfig, Forward, Rendering, Sink, Target, Transport};

use super::{
    argv, assert_valid, context, denied, end, events, lines, origin, place, records, start, wait, whole,
};
use crate::support::eventually;

/// A bound for one call on a loaded machine: a blocked sink would hold it for good.
const SOON: Duration = Duration::from_secs(20);

fn with(path: &Path, to: Target, queue_bytes: usize) -> Audit {
    let forward = Forward { to, rendering: Rendering::Native, queue_bytes };
    let config = AuditConfig::new(vec![Sink::File(path.to_owned()), Sink::Forward(forward)]);
    Audit::open(&config, origin()).unwrap()
}

/// So many refusals, each within [`SOON`].
fn refuse(audit: &Audit, count: usize) {
    let argv = argv(&["rm"]);
    for _ in 0..count {
        let began = Instant::now();
        wait(audit.run_denied(&context(), &denied(&argv))).unwrap();
        assert!(began.elapsed() < SOON, "a best-effort sink delayed a call");
    }
}

fn syslog(transport: Transport) -> Target {
    Target::Syslog { transport, facility: 10 }
}

/// The messages of an octet-counted stream.
fn framed(mut bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let blank = bytes.iter().position(|byte| *byte == b' ').unwrap();
        let length: usize = std::str::from_utf8(&bytes[..blank]).unwrap().parse().unwrap();
        let (message, rest) = bytes[blank + 1..].split_at(length);
        found.push(String::from_utf8(message.to_vec()).unwrap());
        bytes = rest;
    }
    found
}

#[test]
fn a_unix_stream_gets_every_line_as_it_stands_in_the_file() {
    let (dir, path) = place();
    let socket = dir.path().join("collector");
    let listener = UnixListener::bind(&socket).unwrap();
    let audit = with(&path, Target::Unix(socket), 1 << 20);
    let (stream, _) = {
        refuse(&audit, 20);
        listener.accept().unwrap()
    };
    let run = wait(audit.run_start(&context(), &start(&argv(&["ls"]), &[]))).unwrap();
    wait(audit.run_end(run, &end(cofferdam::audit::Ending::Exited(0)))).unwrap();
    drop(audit);
    let got: Vec<String> = BufReader::new(stream).lines().map(Result::unwrap).collect();
    assert_eq!(got, lines(&path));
}

#[test]
fn a_collector_that_comes_back_gets_what_waited_and_the_state_says_so() {
    let (dir, path) = place();
    let socket = dir.path().join("collector");
    let audit = with(&path, Target::Unix(socket.clone()), 1 << 20);
    refuse(&audit, 3);
    eventually("the sink is seen to be down", || {
        refuse(&audit, 1);
        audit.state().readiness == Readiness::Degraded && audit.state().reasons == ["unix:down"]
    });
    let listener = UnixListener::bind(&socket).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), lines(&path)[0], "from the first");
    eventually("it is well again", || {
        refuse(&audit, 1);
        audit.state().readiness == Readiness::Ok
    });
    drop(audit);
    let rest = reader.lines().count();
    assert_eq!(rest + 1, lines(&path).len());
    assert!(!events(&path).contains(&"audit.drop".to_owned()));
}

#[test]
fn syslog_over_tcp_is_octet_counted_rfc_5424() {
    let (_dir, path) = place();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let audit = with(&path, syslog(Transport::Tcp(listener.local_addr().unwrap().to_string())), 1 << 20);
    refuse(&audit, 5);
    let (mut stream, _) = listener.accept().unwrap();
    drop(audit);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let (messages, lines) = (framed(&bytes), lines(&path));
    assert_eq!(messages.len(), 5);
    for (message, line) in messages.iter().zip(&lines) {
        let (head, body) = message.split_once(" - {").unwrap();
        assert_eq!(format!("{{{body}"), *line);
        let words: Vec<&str> = head.split(' ').collect();
        assert_eq!((words[0], words[3], words[5]), ("<84>1", "cofferdam", "run.denied"), "{head}");
        assert!(line.contains(words[1]), "the time of the record: {head}");
    }
}

#[test]
fn syslog_over_a_unix_stream_is_octet_counted_as_well() {
    let (dir, path) = place();
    let socket = dir.path().join("stream");
    let listener = UnixListener::bind(&socket).unwrap();
    let audit = with(&path, syslog(Transport::Stream(socket)), 1 << 20);
    refuse(&audit, 2);
    let (mut stream, _) = listener.accept().unwrap();
    drop(audit);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(framed(&bytes).len(), 2);
}

#[test]
fn syslog_datagrams_and_journald_get_a_message_a_record() {
    let (dir, path) = place();
    let (log, journal) = (dir.path().join("log"), dir.path().join("journal"));
    let (log_at, journal_at) = (UnixDatagram::bind(&log).unwrap(), UnixDatagram::bind(&journal).unwrap());
    let forward = |to| Sink::Forward(Forward { to, rendering: Rendering::Native, queue_bytes: 1 << 20 });
    let config = AuditConfig::new(vec![
        Sink::File(path.clone()),
        forward(syslog(Transport::Datagram(log))),
        forward(Target::Journald(journal)),
    ]);
    let audit = Audit::open(&config, origin()).unwrap();
    refuse(&audit, 1);
    let mut bytes = vec![0; 20_000];
    let read = log_at.recv(&mut bytes).unwrap();
    let line = lines(&path).remove(0);
    let message = String::from_utf8_lossy(&bytes[..read]).into_owned();
    assert!(message.starts_with("<84>1 ") && message.ends_with(&line), "{message}");
    let read = journal_at.recv(&mut bytes).unwrap();
    let mut wanted = b"MESSAGE\n".to_vec();
    wanted.extend((line.len() as u64).to_le_bytes());
    wanted.extend(line.as_bytes());
    assert!(bytes[..read].starts_with(&wanted));
    let rest = String::from_utf8_lossy(&bytes[wanted.len()..read]).into_owned();
    for field in ["PRIORITY\n", "SYSLOG_IDENTIFIER\n", "COFFERDAM_EVENT_TYPE\n", "COFFERDAM_SEQ\n"] {
        assert!(rest.contains(field), "{rest}");
    }
}

#[test]
fn a_dead_syslog_delays_nothing_and_what_it_misses_is_recorded() {
    let (_dir, path) = place();
    // Bound and closed: nobody listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let audit = with(&path, syslog(Transport::Tcp(port.to_string())), 64 << 10);
    refuse(&audit, 150);
    let began = Instant::now();
    drop(audit);
    assert!(began.elapsed() < SOON, "the end does not hang on it either");
    let all = records(&path);
    all.iter().for_each(assert_valid);
    let drop = all.last().unwrap();
    assert_eq!(drop["event_type"], "audit.drop");
    assert_eq!(drop["dropped"], 150, "what still queued at the end as well");
    assert_eq!(drop["sink"], format!("syslog:{port}"));
    assert_eq!(whole(&path), 151);
}

#[test]
fn a_collector_that_stops_reading_delays_nothing() {
    let (dir, path) = place();
    let socket = dir.path().join("collector");
    let listener = UnixListener::bind(&socket).unwrap();
    let audit = with(&path, Target::Unix(socket), 64 << 10);
    refuse(&audit, 1);
    // Accepted, and never read.
    let (stream, _) = listener.accept().unwrap();
    refuse(&audit, 600);
    drop((audit, stream));
    let drop = records(&path).pop().unwrap();
    assert_eq!(drop["event_type"], "audit.drop");
    assert!(drop["dropped"].as_u64().unwrap() > 0);
    whole(&path);
}

#[test]
fn a_name_without_an_address_is_refused_when_the_log_is_opened() {
    let (_dir, path) = place();
    let to = syslog(Transport::Tcp("no-such-host.invalid:601".to_owned()));
    let forward = Forward { to, rendering: Rendering::Native, queue_bytes: 1 << 20 };
    let config = AuditConfig::new(vec![Sink::File(path), Sink::Forward(forward)]);
    let error = Audit::open(&config, origin()).unwrap_err().to_string();
    assert!(error.contains("look-up of syslog:no-such-host.invalid:601"), "{error}");
}

#[test]
fn a_forward_alone_and_standard_output_that_is_taken_are_refused() {
    let forward = |to| Sink::Forward(Forward { to, rendering: Rendering::Native, queue_bytes: 1 << 20 });
    let alone = AuditConfig::new(vec![forward(Target::Journald("/dev/null".into()))]);
    let error = Audit::open(&alone, origin()).unwrap_err().to_string();
    assert!(error.contains("no sink can be the required one"), "{error}");
    let taken = AuditConfig::new(vec![Sink::Stdout(Rendering::Native)]);
    let error = Audit::open(&taken, origin()).unwrap_err().to_string();
    assert!(error.contains("standard output is taken"), "{error}");
    assert!(fs::metadata("/dev/null").is_ok());
}

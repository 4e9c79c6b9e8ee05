//! Known escapes by sockets. Each call is made by number: what a library would refuse by itself proves
//! nothing. Perl makes them.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use crate::support::{Lab, Rules};

const PERL: &str = "[command.perl]\ninterpreters = \"confine\"";

/// A laboratory with perl and this network.
fn networked(network: &str) -> Lab {
    let sandbox = format!("network = {network}").leak();
    Lab::new(&Rules { sandbox, commands: PERL.to_owned(), ..Rules::default() })
}

/// The outcomes of the calls: "ok", or the errno.
fn calls(lab: &Lab, calls: &[&str]) -> Vec<String> {
    let mut script = "sub t { my $r = syscall(shift, @_); print $r < 0 ? $! + 0 : 'ok', \"\\n\"; $r } \
        sub at { pack 'S n C4 x8', 2, $_[0], 127, 0, 0, 1 } $b = 'x' x 16; "
        .to_owned();
    for call in calls {
        script += call;
        script += "; ";
    }
    let ran = lab.exec(&["perl", "-e", &script]);
    ran.lines().into_iter().map(str::to_owned).collect()
}

fn all(outcomes: &[String], expected: &str) -> bool {
    !outcomes.is_empty() && outcomes.iter().all(|outcome| outcome == expected)
}

/// Without a network and with one: neither has these.
fn refused_everywhere(sockets: &[&str]) {
    for network in ["\"none\"", "[\"tcp:443\"]"] {
        let outcomes = calls(&networked(network), sockets);
        assert_eq!(outcomes.len(), sockets.len());
        assert!(all(&outcomes, "1"), "{network}: {outcomes:?}");
    }
}

/// Internet datagrams, raw and ping sockets of both families, and netlink.
#[test]
fn e025_no_datagram_and_no_name_service() {
    refused_everywhere(&[
        "t(41, 2, 2, 0)",
        "t(41, 10, 2, 0)",
        "t(41, 2, 2 | 04000, 17)",
        "t(41, 2, 2, 1)",
        "t(41, 10, 2, 58)",
        "t(41, 2, 3, 1)",
        "t(41, 10, 3, 58)",
        "t(41, 16, 3, 0)",
    ]);
}

#[test]
fn e059_e094_no_unix_socket() {
    let lab = networked("\"none\"");
    let _listener = UnixListener::bind(lab.at("ws/socket")).unwrap();
    let connect = "$s = t(41, 1, 1, 0); t(42, $s, pack('S a108', 1, 'socket'), 110)";
    assert_eq!(calls(&lab, &[connect]), ["1", "1"]);
    refused_everywhere(&["t(41, 1, 1, 0)", "t(41, 1, 2, 0)", "t(41, 1, 5, 0)", "t(41, 1, 02000001, 0)"]);
}

#[test]
fn e060_no_datagram_pair() {
    refused_everywhere(&["t(53, 1, 2, 0, $b)", "t(53, 1, 02000002, 0, $b)", "t(53, 2, 1, 0, $b)"]);
    // Pairs of streams stay: pipes of programs are made of them.
    assert_eq!(calls(&networked("\"none\""), &["t(53, 1, 1, 0, $b)"]), ["ok"]);
}

#[test]
fn e061_fast_open_reaches_no_other_port() {
    let (open, closed) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    closed.set_nonblocking(true).unwrap();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let lab = networked(&format!("[\"tcp:{}\"]", port(&open)));
    let (open, other) = (port(&open), port(&closed));
    let stream = "$s = t(41, 2, 1, 0); ";
    let message = format!("$n = at({other}); $m = pack('p L x4 Q Q Q Q L x4', $n, 16, 0, 0, 0, 0, 0)");
    let outcomes = calls(
        &lab,
        &[
            &format!("{stream} t(42, $s, at({open}), 16)"),
            &format!("{stream} t(42, $s, at({other}), 16)"),
            // MSG_FASTOPEN by sendto, sendmsg and sendmmsg.
            &format!("{stream} t(44, $s, $b, 1, 0x20000000, at({other}), 16)"),
            &format!("{stream} {message}; t(46, $s, $m, 0x20000000)"),
            &format!("{stream} {message}; $v = $m . pack('x8'); t(307, $s, $v, 1, 0x20000000)"),
            // TCP_FASTOPEN_CONNECT, whatever it says, and the connect that it would put off.
            &format!("{stream} $o = pack 'l', 1; syscall(54, $s, 6, 30, $o, 4); t(42, $s, at({other}), 16)"),
        ],
    );
    let (streams, sent): (Vec<_>, Vec<_>) = outcomes.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
    assert!(streams.iter().all(|(_, outcome)| outcome == "ok"), "{streams:?}");
    let sent: Vec<String> = sent.into_iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(sent[..2], ["ok", "13"], "{sent:?}");
    assert!(sent[2..].iter().all(|outcome| ["1", "13", "38"].contains(&outcome.as_str())), "{sent:?}");
    let nobody = closed.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(nobody, Err(std::io::ErrorKind::WouldBlock));
}

/// MPTCP, SCTP, SMC: streams that the rules for TCP do not see.
#[test]
fn e062_no_other_stream_protocol() {
    refused_everywhere(&[
        "t(41, 2, 1, 262)",
        "t(41, 10, 1, 262)",
        "t(41, 2, 1, 132)",
        "t(41, 2, 5, 132)",
        "t(41, 2, 1, 256)",
        "t(41, 43, 1, 0)",
    ]);
}

/// Every family that is not the Internet's, vsock (40) among them.
#[test]
fn e063_no_other_socket_family() {
    let sockets: Vec<String> = (0..64)
        .filter(|family| ![2, 10].contains(family))
        .map(|family| format!("t(41, {family}, 1, 0)"))
        .collect();
    refused_everywhere(&sockets.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn e096_an_empty_list_is_no_network() {
    for network in ["[]", "\"none\""] {
        assert_eq!(
            calls(&networked(network), &["t(41, 2, 1, 0)", "t(41, 10, 1, 0)"]),
            ["1", "1"],
            "{network}"
        );
    }
}

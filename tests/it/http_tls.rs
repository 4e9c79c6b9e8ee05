//! TLS on the whole road: certificates of clients, those that are none, handshakes that never end, files read again.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, version};

use crate::http_client::{At, Caller, Serving, TOKEN, digest};
use crate::support::{Lab, Rules, eventually};

/// Makes `NAME.pem` and `NAME.key`, signed by `ca`, or by itself and a CA.
fn certificate(dir: &Path, name: &str, ca: Option<&str>) {
    let extensions = match ca {
        None => "basicConstraints = critical,CA:TRUE\nkeyUsage = critical,keyCertSign",
        Some(_) => "basicConstraints = critical,CA:FALSE\nsubjectAltName = DNS:localhost",
    };
    let config = format!(
        "[req]\ndistinguished_name = dn\nprompt = no\nx509_extensions = ext\n[dn]\nCN = {name}\n[ext]\n{extensions}\n"
    );
    std::fs::write(dir.join(format!("{name}.cnf")), config).unwrap();
    let mut openssl = Command::new("openssl");
    openssl.current_dir(dir).args(["req", "-x509", "-new", "-newkey", "ec", "-nodes", "-days", "2"]);
    openssl.args(["-pkeyopt", "ec_paramgen_curve:P-256", "-config", &format!("{name}.cnf")]);
    openssl.args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")]);
    if let Some(ca) = ca {
        openssl.args(["-CA", &format!("{ca}.pem"), "-CAkey", &format!("{ca}.key")]);
    }
    let output = openssl.output().expect("the openssl program makes certificates");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::set_permissions(dir.join(format!("{name}.key")), PermissionsExt::from_mode(0o600)).unwrap();
}

/// What openssl says that the fingerprint of a certificate is.
fn fingerprint(dir: &Path, name: &str) -> String {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(dir).args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]);
    let output = openssl.arg(format!("{name}.pem")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().split_once('=').unwrap().1.to_owned()
}

/// Certificates of a server, of alice and of somebody whom nobody listed; a foreign CA with one of its own.
fn certified() -> Lab {
    let lab = Lab::plain();
    let dir = lab.at("");
    for (name, ca) in [
        ("ca", None),
        ("server", Some("ca")),
        ("alice", Some("ca")),
        ("unlisted", Some("ca")),
        ("foreign", None),
        ("stranger", Some("foreign")),
    ] {
        certificate(&dir, name, ca);
    }
    lab
}

fn policy(lab: &Lab, more: &str) {
    let tls = format!(
        "[principal.alice]\ncertificate_sha256 = [\"{}\"]\n[principal.bob]\ntoken_sha256 = [\"{}\"]\n\
         [server.tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\n[server.http]\n{more}",
        fingerprint(&lab.at(""), "alice"),
        digest(TOKEN),
        lab.at("server.pem"),
        lab.at("server.key"),
        lab.at("ca.pem"),
    );
    lab.write_policy(&Rules { commands: tls, ..Rules::default() });
}

fn address(serving: &Serving) -> SocketAddr {
    match serving.at {
        At::Tcp(address) => address,
        _ => panic!("{:?}", serving.at),
    }
}

/// A client that trusts `ca` and shows the certificate of `who`.
fn client(lab: &Lab, serving: &Serving, ca: &str, who: Option<&str>, old: bool) -> At {
    let versions: &[_] = if old { &[&version::TLS12] } else { &[&version::TLS13] };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(lab.at(&format!("{ca}.pem"))).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
    let config = match who {
        None => builder.with_no_client_auth(),
        Some(who) => {
            let chain = vec![CertificateDer::from_pem_file(lab.at(&format!("{who}.pem"))).unwrap()];
            let key = PrivateKeyDer::from_pem_file(lab.at(&format!("{who}.key"))).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    At::Tls(address(serving), Arc::new(config))
}

#[test]
fn a_listed_certificate_is_its_principal_and_every_other_one_is_nobody() {
    let lab = certified();
    policy(&lab, "");
    let serving = Serving::tcp(&lab, &[]);
    let say = json!({"command": lab.probe(), "args": ["say", "hello"]});
    for old in [false, true] {
        let at = |who| client(&lab, &serving, "ca", who, old);
        let alice = Caller::modern(&at(Some("alice")), None).call("sh_run", say.clone());
        assert!(alice.result().0.contains("hello"), "{alice:?}");
        let session = Caller::legacy(&at(Some("alice")), None).call("sh_run", say.clone());
        assert!(session.result().0.contains("hello"), "{session:?}");
        let status = |who, token| Caller::modern(&at(who), token).call("sh_run", say.clone()).status;
        assert_eq!(status(None, None), 401);
        assert_eq!(status(None, Some(TOKEN)), 200, "a token is enough");
        assert_eq!(status(Some("unlisted"), None), 401);
        assert_eq!(status(Some("alice"), Some(TOKEN)), 401, "the token is bob's");
        // Not signed by whom it must be: the handshake fails, whatever else is sent.
        let stranger = client(&lab, &serving, "ca", Some("stranger"), old);
        let mut wire = stranger.connect();
        let sent = wire.write_all(&Caller::modern(&stranger, Some(TOKEN)).bytes(1, "tools/list", json!({})));
        let mut answer = Vec::new();
        let read = wire.read_to_end(&mut answer);
        assert!(sent.is_err() || read.is_err(), "{sent:?} {read:?}");
        assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    }
    let metadata = client(&lab, &serving, "ca", None, false).get("/.well-known/oauth-protected-resource/mcp");
    assert!(metadata.json()["resource"].as_str().unwrap().starts_with("https://"), "{metadata:?}");
    assert_eq!(serving.stop(), Some(0));
    let records = lab.records();
    let starts = records.iter().filter(|record| record["event_type"] == "run.start");
    let who: Vec<_> = starts.map(|record| (record["principal"].clone(), record["auth"].clone())).collect();
    let (alice, bob) = ((json!("alice"), json!("mtls")), (json!("bob"), json!("bearer")));
    assert_eq!(who, [alice.clone(), alice.clone(), bob.clone(), alice.clone(), alice, bob]);
}

#[test]
fn plain_http_and_handshakes_that_never_end_are_cut_off_and_others_are_served() {
    let lab = certified();
    policy(&lab, "connections = 4\nread_timeout = \"1s\"\n");
    let serving = Serving::tcp(&lab, &[]);
    let alice = Caller::modern(&client(&lab, &serving, "ca", Some("alice"), false), None);
    let plain = serving.at.get("/mcp");
    assert_eq!((plain.status, plain.body.contains("jsonrpc")), (0, false), "{plain:?}");
    // Silent, and in the midst of a hello: neither is waited for beyond the time of a head.
    let mut silent = serving.at.connect();
    let mut begun = serving.at.connect();
    begun.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap();
    let since = Instant::now();
    for wire in [&mut silent, &mut begun] {
        let mut rest = Vec::new();
        if let Err(error) = wire.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
    assert!(since.elapsed() < Duration::from_secs(50), "{:?}", since.elapsed());
    // More of them than there is room for: the one that is idle for longest makes room.
    let idle: Vec<_> = (0..20).map(|_| serving.at.connect()).collect();
    assert_eq!(alice.ask(1, "tools/list", json!({})).status, 200);
    drop(idle);
}

#[test]
fn the_files_are_read_again_at_sighup_and_bad_ones_change_nothing() {
    let lab = certified();
    // Longer than the test waits: it is not the time that ends an idle connection here.
    policy(&lab, "read_timeout = \"1h\"\n");
    let serving = Serving::tcp(&lab, &[]);
    let alice = Caller::modern(&client(&lab, &serving, "ca", Some("alice"), false), None);
    let list = |caller: &Caller| caller.ask(1, "tools/list", json!({})).status;
    assert_eq!(list(&alice), 200);

    let good = std::fs::read(lab.at("server.pem")).unwrap();
    std::fs::write(lab.at("server.pem"), "nonsense").unwrap();
    serving.signal(Signal::SIGHUP);
    serving.says("so does TLS: server.tls.certificate");
    assert_eq!(list(&alice), 200);
    std::fs::write(lab.at("server.pem"), good).unwrap();

    // Another CA of clients: who was in by the old one is out, with the connection that is open.
    let mut open = alice.at.connect();
    open.write_all(b"GET /.well-known/oauth-protected-resource HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut first = [0; 12];
    open.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    std::fs::copy(lab.at("foreign.pem"), lab.at("ca.pem.new")).unwrap();
    let roots = std::fs::read(lab.at("ca.pem")).unwrap();
    std::fs::rename(lab.at("ca.pem.new"), lab.at("ca.pem")).unwrap();
    serving.signal(Signal::SIGHUP);
    serving.says("those of TLS read again");
    let mut rest = Vec::new();
    if let Err(error) = open.read_to_end(&mut rest) {
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "it was not ended");
    }
    assert_eq!(list(&alice), 0, "the handshake fails");
    std::fs::write(lab.at("ca.pem"), roots).unwrap();
    serving.signal(Signal::SIGHUP);
    eventually("the old CA is back", || list(&alice) == 200);
}

#[test]
fn a_key_that_commands_or_others_could_read_and_files_that_do_not_fit_are_refused() {
    let lab = certified();
    let refused = |says: &str| {
        let output = lab.command("serve").args(["--listen", "127.0.0.1:0"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(says), "{says} is missing from {said}");
    };
    policy(&lab, "");
    std::fs::set_permissions(lab.at("server.key"), PermissionsExt::from_mode(0o644)).unwrap();
    refused("server.tls.key");
    std::fs::set_permissions(lab.at("server.key"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::copy(lab.at("alice.key"), lab.at("server.key")).unwrap();
    refused("does not serve");

    let tls = |key: &str, more: &str| {
        let pem = lab.at("server.pem");
        format!("[server.tls]\ncertificate = {pem:?}\nkey = {key:?}\n{more}")
    };
    let write = |sections: String| lab.write_policy(&Rules { commands: sections, ..Rules::default() });
    let inside = lab.ws().join("server.key");
    std::fs::copy(lab.at("alice.key"), &inside).unwrap();
    write(tls(inside.to_str().unwrap(), ""));
    refused("keep the key elsewhere");
    write(tls(&lab.text("alice.key"), &format!("client_ca = {:?}\n", lab.at("ca.pem"))));
    refused("is of no use without a principal.NAME.certificate_sha256");
    let listed = format!("[principal.a]\ncertificate_sha256 = [\"{}\"]\n", "00".repeat(32));
    write(tls(&lab.text("alice.key"), &listed));
    refused("is of no use without server.tls.client_ca");
    // Encrypted is not authenticated.
    write(tls(&lab.text("alice.key"), ""));
    let output = lab.command("serve").args(["--listen", "0.0.0.0:0"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("without authentication only a loopback address"), "{said}");
}

//! Principals: who may call over HTTP or a Unix socket, and with what; and the listener's own settings.
//!
//! Purpose: `[principal.NAME]`, `[server.http]` and `[server.tls]` of a policy. Inputs: the text alone; token files are read by
//! the server at its start and again at SIGHUP, so that a rotation needs no new policy. Called by `load.rs`;
//! what it gives is read by `mcp/http/` and the digest.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::error::nearest;
use super::load::Loader;
use super::read::{Reader, Section};
use super::toolkits::Toolkit;
use super::values;

/// Bytes of a SHA-256.
pub const DIGEST: usize = 32;

/// Somebody who may call, and what for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// SHA-256 of each of its bearer tokens.
    pub tokens: Vec<[u8; DIGEST]>,
    /// File with further tokens, one a line.
    pub token_file: Option<PathBuf>,
    /// SHA-256 of each of its client certificates (of the DER, as `openssl x509 -fingerprint` has it).
    pub certificates: Vec<[u8; DIGEST]>,
    /// Users whose processes it is on a Unix socket when they send no token.
    pub uids: Vec<u32>,
    /// Prefixes that it may use; `None` means all.
    pub toolkits: Option<Vec<String>>,
    /// Its runs at the same time, jobs included; `None` is as many as the policy allows.
    pub jobs: Option<usize>,
    /// Its background jobs at the same time.
    pub max_jobs: Option<usize>,
    /// Its sessions of the older protocol era.
    pub sessions: usize,
    /// Its requests that are answered at the same time.
    pub requests: usize,
    /// Its requests a minute.
    pub requests_per_minute: u32,
}

impl Default for Principal {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            token_file: None,
            certificates: Vec::new(),
            uids: Vec::new(),
            toolkits: None,
            jobs: None,
            max_jobs: None,
            sessions: 64,
            requests: 128,
            requests_per_minute: 6000,
        }
    }
}

/// `[server.http]`: what holds for every client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// `Host` values that are accepted beside those of the address: `name` or `name:port`.
    pub hosts: Vec<String>,
    /// `Origin` values that are accepted beside those of the address, exactly.
    pub origins: Vec<String>,
    /// The URL that clients know the endpoint by (RFC 9728); `None` is that of the address.
    pub resource: Option<String>,
    /// Issuers of tokens, told to clients (RFC 9728).
    pub authorization_servers: Vec<String>,
    /// Connections at the same time.
    pub connections: usize,
    /// How long a session without a message is kept.
    pub session_idle: Duration,
    /// How long the head of a request, and then its body, may take.
    pub read_timeout: Duration,
    /// How long runs may go on after SIGTERM.
    pub drain: Duration,
    /// TLS on a TCP address; `None`: plain text.
    pub tls: Option<TlsConfig>,
}

/// `[server.tls]`: files in PEM, read by the server at its start and again at SIGHUP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// The server's certificate, and those between it and its CA.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who signs certificates of clients; `None`: clients are not asked for any.
    pub client_ca: Option<PathBuf>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            origins: Vec::new(),
            resource: None,
            authorization_servers: Vec::new(),
            connections: 256,
            session_idle: Duration::from_secs(30 * 60),
            read_timeout: Duration::from_secs(10),
            drain: Duration::from_secs(5),
            tls: None,
        }
    }
}

/// `[server.http]`.
pub(super) fn http<'t>(loader: &mut Loader<'t, '_>, root: &Section<'t>) -> HttpConfig {
    let server = loader.reader.subsection(root, "server");
    let section = loader.reader.subsection(&server, "http");
    let mut texts = |name, check: fn(&str) -> Result<(), String>| {
        let words = loader.reader.list(&section, name).unwrap_or_default();
        for word in &words {
            if let Err(what) = check(&word.text) {
                loader.reader.problem(word.at, &word.key, what);
            }
        }
        words.into_iter().map(|word| word.text).collect::<Vec<_>>()
    };
    let (hosts, origins) = (texts("hosts", host), texts("origins", url));
    let authorization_servers = texts("authorization_servers", url);
    let resource = Reader::text(&section, "resource");
    if let Some(word) = &resource
        && let Err(what) = url(&word.text)
    {
        loader.reader.problem(word.at, &word.key, what);
    }
    let mut time = |name| Duration::from_millis(loader.reader.number(&section, name));
    let (session_idle, read_timeout, drain) = (time("session_idle"), time("read_timeout"), time("drain"));
    HttpConfig {
        hosts,
        origins,
        resource: resource.map(|word| word.text),
        authorization_servers,
        connections: count(loader, &section, "connections"),
        session_idle,
        read_timeout,
        drain,
        tls: tls(loader, &server),
    }
}

fn tls<'t>(loader: &mut Loader<'t, '_>, server: &Section<'t>) -> Option<TlsConfig> {
    let item = server.get("tls")?;
    let (at, key) = (item.at, item.key.clone());
    let section = loader.reader.subsection(server, "tls");
    let mut file = |name| {
        let word = Reader::text(&section, name)?;
        values::absolute(&word.text).map_err(|what| loader.reader.problem(word.at, &word.key, what)).ok()
    };
    let (certificate, private, client_ca) = (file("certificate"), file("key"), file("client_ca"));
    for name in ["certificate", "key"] {
        if !section.is_written(name) {
            loader.reader.problem(at, &key, format!("needs {name}: the absolute path of a PEM file"));
        }
    }
    Some(TlsConfig { certificate: certificate?, key: private?, client_ca })
}

/// Certificates of clients and who signs them need each other: one alone would keep nobody out.
pub(super) fn certified<'t>(
    loader: &mut Loader<'t, '_>,
    root: &Section<'t>,
    http: &HttpConfig,
    principals: &BTreeMap<String, Principal>,
) {
    let signed = http.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    let mut listed = principals.iter().filter(|(_, one)| !one.certificates.is_empty()).map(|(name, _)| name);
    match (signed, listed.next()) {
        (false, Some(name)) => {
            let at = root.get("principal").map_or(0, |item| item.at);
            let key = format!("principal.{name}.certificate_sha256");
            loader.reader.problem(at, &key, "is of no use without server.tls.client_ca, which signs it");
        }
        (true, None) => {
            let at = root.get("server").map_or(0, |item| item.at);
            let what = "is of no use without a principal.NAME.certificate_sha256";
            loader.reader.problem(at, "server.tls.client_ca", what);
        }
        (true, Some(_)) | (false, None) => {}
    }
}

/// Every `[principal.NAME]`.
pub(super) fn read<'t>(
    loader: &mut Loader<'t, '_>,
    root: &Section<'t>,
    toolkits: &BTreeMap<String, Toolkit>,
) -> BTreeMap<String, Principal> {
    let mut found: BTreeMap<String, Principal> = BTreeMap::new();
    for (word, section) in loader.reader.named(root, "principal") {
        if let Err(what) = name(&word.text) {
            loader.reader.problem(word.at, &word.key, what);
        }
        let principal = one(loader, &section, toolkits);
        let nothing =
            principal.tokens.is_empty() && principal.uids.is_empty() && principal.certificates.is_empty();
        let known = !nothing || section.is_written("token_file");
        if !known {
            let what =
                "has nothing it is known by: give it token_sha256, token_file, certificate_sha256 or uid";
            loader.reader.problem(word.at, &word.key, what);
        }
        for (other, earlier) in &found {
            let shared = principal.tokens.iter().any(|token| earlier.tokens.contains(token))
                || principal.uids.iter().any(|uid| earlier.uids.contains(uid))
                || principal.certificates.iter().any(|one| earlier.certificates.contains(one))
                || (principal.token_file.is_some() && principal.token_file == earlier.token_file);
            if shared {
                let what = format!("is known by the same token, certificate or user as principal.{other}");
                loader.reader.problem(word.at, &word.key, what);
            }
        }
        found.insert(word.text, principal);
    }
    found
}

fn one<'t>(
    loader: &mut Loader<'t, '_>,
    section: &Section<'t>,
    toolkits: &BTreeMap<String, Toolkit>,
) -> Principal {
    let mut tokens = Vec::new();
    for word in loader.reader.list(section, "token_sha256").unwrap_or_default() {
        match digest(&word.text) {
            Some(digest) => tokens.push(digest),
            None => {
                let what = "is no SHA-256: write 64 hex digits (printf %s TOKEN | sha256sum)";
                loader.reader.problem(word.at, &word.key, what);
            }
        }
    }
    let mut certificates = Vec::new();
    for word in loader.reader.list(section, "certificate_sha256").unwrap_or_default() {
        match fingerprint(&word.text) {
            Some(digest) => certificates.push(digest),
            None => {
                let what =
                    "is no SHA-256: write what openssl x509 -noout -fingerprint -sha256 says after the =";
                loader.reader.problem(word.at, &word.key, what);
            }
        }
    }
    let token_file = Reader::text(section, "token_file").and_then(|word| {
        values::absolute(&word.text).map_err(|what| loader.reader.problem(word.at, &word.key, what)).ok()
    });
    let mut uids = Vec::new();
    for word in loader.reader.list(section, "uid").unwrap_or_default() {
        match word.text.parse() {
            Ok(uid) => uids.push(uid),
            Err(_) => loader.reader.problem(word.at, &word.key, "is no user id: write \"1000\""),
        }
    }
    let listed = loader.reader.list(section, "toolkits");
    for word in listed.iter().flatten().filter(|word| !toolkits.contains_key(&word.text)) {
        let valid: Vec<String> = toolkits.keys().cloned().collect();
        let guess = nearest(&word.text, valid.iter().map(String::as_str));
        let what = format!("there is no toolkit \"{}\"", word.text.escape_debug());
        loader.reader.listed(word.at, &word.key, what, valid, guess);
    }
    if listed.as_ref().is_some_and(Vec::is_empty) {
        let what = "is empty, which offers nothing: leave the key out to offer all";
        loader.reader.problem(section.at, &section.key_of("toolkits"), what);
    }
    let written = |name| section.is_written(name);
    let own = |loader: &mut Loader<'t, '_>, name| written(name).then(|| count(loader, section, name));
    Principal {
        tokens,
        token_file,
        certificates,
        uids,
        toolkits: listed.map(|words| words.into_iter().map(|word| word.text).collect()),
        jobs: own(loader, "jobs"),
        max_jobs: own(loader, "max_jobs"),
        sessions: count(loader, section, "sessions"),
        requests: count(loader, section, "requests"),
        requests_per_minute: u32::try_from(count(loader, section, "requests_per_minute")).unwrap_or(u32::MAX),
    }
}

fn count<'t>(loader: &mut Loader<'t, '_>, section: &Section<'t>, name: &str) -> usize {
    usize::try_from(loader.reader.number(section, name)).unwrap_or(usize::MAX)
}

/// The bytes of 64 hex digits.
fn digest(text: &str) -> Option<[u8; DIGEST]> {
    let text = text.strip_prefix("sha256:").unwrap_or(text);
    if text.len() != 2 * DIGEST || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut digest = [0; DIGEST];
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

/// The same of a certificate, with or without the colons of openssl.
fn fingerprint(text: &str) -> Option<[u8; DIGEST]> {
    let colons = text.bytes().filter(|byte| *byte == b':').count();
    if colons + 1 != DIGEST {
        return digest(text);
    }
    let pairs = text.split(':').all(|pair| pair.len() == 2);
    pairs.then(|| digest(&text.replace(':', ""))).flatten()
}

/// A name stands in every record: no text that could be taken for something else.
fn name(text: &str) -> Result<(), String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'@');
    if text.is_empty() || text.len() > 64 || !text.bytes().all(good) {
        return Err("a principal's name has 1 to 64 letters, digits and . _ - @".to_owned());
    }
    Ok(())
}

fn host(text: &str) -> Result<(), String> {
    match text.parse::<http::uri::Authority>() {
        Ok(authority) if !text.contains('@') && !authority.host().is_empty() => Ok(()),
        _ => Err(format!("\"{}\" is no name or name:port", text.escape_debug())),
    }
}

fn url(text: &str) -> Result<(), String> {
    let wrong = || format!("\"{}\" is no URL: write https://host:port", text.escape_debug());
    let parsed = text.parse::<http::Uri>().map_err(|_| wrong())?;
    match (parsed.scheme_str(), parsed.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() && !text.ends_with('/') => Ok(()),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, LoadOptions, Source};

    #[test]
    fn digests_names_hosts_and_urls_are_read_strictly() {
        let hex = "ab".repeat(32);
        assert_eq!(digest(&hex), Some([0xab; 32]));
        assert_eq!(digest(&format!("sha256:{}", hex.to_uppercase())), Some([0xab; 32]));
        for bad in ["", "ab", &hex[1..], &format!("{hex}0"), &hex.replace('a', "g")] {
            assert_eq!(digest(bad), None, "{bad}");
        }
        let colons = vec!["AB"; 32].join(":");
        assert_eq!(fingerprint(&colons), Some([0xab; 32]));
        assert_eq!(fingerprint(&hex), Some([0xab; 32]));
        for bad in [&colons[3..], &colons.replacen(":A", "A:", 1), ""] {
            assert_eq!(fingerprint(bad), None, "{bad}");
        }
        assert!(name("ci.bot-1@host").is_ok() && name("").is_err() && name("a b").is_err());
        assert!(host("mcp.example:8443").is_ok() && host("a@b").is_err() && host("a/b").is_err());
        assert!(url("https://a.example:1").is_ok() && url("a.example").is_err() && url("ftp://a").is_err());
    }

    #[test]
    fn faults_of_principals_are_told_together() {
        let hex = "00".repeat(32);
        let text = format!(
            "version = 1\nallow = [\"ls\"]\n[workspace]\npath = \"/usr/share\"\n\
             [principal.a]\ntoken_sha256 = [\"{hex}\", \"x\"]\ntoolkits = [\"no\"]\n\
             [principal.b]\ntoken_sha256 = [\"{hex}\"]\nuid = [\"me\"]\n[principal.c]\n\
             [principal.d]\ncertificate_sha256 = [\"{hex}\", \"x\"]\n[server.tls]\nkey = \"/usr/share/key\"\n\
             [server.http]\nhosts = [\"a/b\"]\norigins = [\"x\"]\n"
        );
        let faults = Config::from_str(&text, Source::Program, &LoadOptions::default());
        let said = faults.unwrap_err().to_string();
        for part in [
            "principal.a.token_sha256[1]: is no SHA-256",
            "there is no toolkit \"no\"",
            "as principal.a",
            "is no user id",
            "principal.c: has nothing it is known by",
            "is no name or name:port",
            "is no URL",
            "principal.d.certificate_sha256[1]: is no SHA-256",
            "principal.d.certificate_sha256: is of no use without server.tls.client_ca",
            "server.tls: needs certificate",
        ] {
            assert!(said.contains(part), "{part} is missing from\n{said}");
        }
    }
}

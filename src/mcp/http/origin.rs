//! Host and Origin: whether a request was meant for this server, or a web page was talked into sending it.
//!
//! Purpose: DNS rebinding and cross-site requests end here, before a token is looked at. Inputs: the address,
//! `server.http.hosts` and `origins`. Pure. Called by `gate.rs`.

use std::net::SocketAddr;

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Uri};

/// What is accepted.
#[derive(Debug, Clone, Default)]
pub(super) struct Allowed {
    /// Lower case; without a port every port is meant.
    hosts: Vec<(String, Option<u16>)>,
    origins: Vec<String>,
}

/// Why a request is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    /// No `Host`, several, or one that cannot be read.
    Malformed,
    Host,
    Origin,
}

impl Allowed {
    pub(super) fn new(address: Option<SocketAddr>, hosts: &[String], origins: &[String]) -> Self {
        let mut known: Vec<_> =
            ["localhost", "127.0.0.1", "[::1]"].iter().map(|name| ((*name).to_owned(), None)).collect();
        known.extend(hosts.iter().filter_map(|text| text.parse::<Authority>().ok()).map(|host| named(&host)));
        let mut origins: Vec<String> = origins.iter().map(|text| text.to_ascii_lowercase()).collect();
        if let Some(address) = address {
            let port = address.port();
            let mut own = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
            if !address.ip().is_unspecified() {
                let name = match address {
                    SocketAddr::V4(v4) => v4.ip().to_string(),
                    SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
                };
                known.push((name.clone(), None));
                own.push(name);
            }
            for scheme in ["http", "https"] {
                origins.extend(own.iter().map(|name| format!("{scheme}://{name}:{port}")));
            }
        }
        Self { hosts: known, origins }
    }

    /// Names for the second line inside of rmcp.
    pub(super) fn names(&self) -> Vec<String> {
        let text = |(name, port): &(String, Option<u16>)| match port {
            Some(port) => format!("{name}:{port}"),
            None => name.clone(),
        };
        let bare =
            |name: String| name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).map(str::to_owned);
        let all: Vec<String> = self.hosts.iter().map(text).collect();
        // It knows addresses of version 6 without their brackets.
        all.iter().cloned().filter_map(bare).chain(all.clone()).collect()
    }

    pub(super) fn origins(&self) -> Vec<String> {
        self.origins.clone()
    }

    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Foreign> {
        let mut given = headers.get_all(HOST).iter();
        let (Some(host), None) = (given.next(), given.next()) else { return Err(Foreign::Malformed) };
        let host = host.to_str().map_err(|_| Foreign::Malformed)?;
        let host = host.parse::<Authority>().map_err(|_| Foreign::Malformed)?;
        // An absolute target names the host a second time.
        for authority in std::iter::once(&host).chain(uri.authority()) {
            if authority.as_str().contains('@') {
                return Err(Foreign::Malformed);
            }
            let (name, port) = named(authority);
            let fits = |(known, of): &(String, Option<u16>)| *known == name && (of.is_none() || *of == port);
            if !self.hosts.iter().any(fits) {
                return Err(Foreign::Host);
            }
        }
        let mut given = headers.get_all(ORIGIN).iter();
        match (given.next(), given.next()) {
            (None, _) => Ok(()),
            (Some(origin), None) => match origin.to_str() {
                Ok(text) if self.origins.contains(&text.to_ascii_lowercase()) => Ok(()),
                _ => Err(Foreign::Origin),
            },
            _ => Err(Foreign::Origin),
        }
    }
}

fn named(authority: &Authority) -> (String, Option<u16>) {
    (authority.host().to_ascii_lowercase(), authority.port_u16())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(target: &str, headers: &[(&str, &str)]) -> Result<(), Foreign> {
        let hosts = ["mcp.example".to_owned(), "other.example:8443".to_owned()];
        let origins = ["https://app.example:443".to_owned()];
        let allowed = Allowed::new(Some("192.0.2.7:8000".parse().unwrap()), &hosts, &origins);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        allowed.check(&target.parse().unwrap(), &map)
    }

    #[test]
    fn only_hosts_of_this_server_are_accepted_and_each_but_once() {
        for good in
            ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000", "192.0.2.7:8000", "mcp.example:9"]
        {
            assert_eq!(told("/mcp", &[("host", good)]), Ok(()), "{good}");
        }
        for bad in ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "other.example", "0.0.0.0"]
        {
            assert_eq!(told("/mcp", &[("host", bad)]), Err(Foreign::Host), "{bad}");
        }
        for headers in
            [vec![], vec![("host", "localhost"), ("host", "localhost")], vec![("host", "a@localhost")]]
        {
            assert_eq!(told("/mcp", &headers), Err(Foreign::Malformed), "{headers:?}");
        }
        assert_eq!(told("http://evil.example/mcp", &[("host", "localhost")]), Err(Foreign::Host));
        assert_eq!(told("http://localhost:8000/mcp", &[("host", "localhost")]), Ok(()));
    }

    #[test]
    fn an_origin_is_that_of_the_server_or_one_of_the_policy_exactly() {
        let with = |origin| told("/mcp", &[("host", "localhost"), ("origin", origin)]);
        for good in ["http://localhost:8000", "http://127.0.0.1:8000", "https://app.example:443"] {
            assert_eq!(with(good), Ok(()), "{good}");
        }
        for bad in [
            "http://localhost",
            "http://localhost:8001",
            "https://app.example",
            "https://app.example:443.evil.example",
            "null",
            "",
        ] {
            assert_eq!(with(bad), Err(Foreign::Origin), "{bad}");
        }
        let two = [("host", "localhost"), ("origin", "http://localhost:8000"), ("origin", "null")];
        assert_eq!(told("/mcp", &two), Err(Foreign::Origin));
    }
}

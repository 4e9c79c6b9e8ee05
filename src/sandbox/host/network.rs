//! Ways out: interfaces that are up, and what the main routing tables say.
//!
//! Inputs: getifaddrs(3) and texts below `/proc/self/net`. Used by `host/` only.

use std::collections::BTreeSet;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use super::Known;
use super::status::text;

/// Names of interfaces that are up and not the loopback one.
pub(super) fn interfaces() -> Known<Vec<String>> {
    let all = getifaddrs().map_err(|e| format!("listing the network interfaces failed: {e}"))?;
    let leads_out = |flags: InterfaceFlags| {
        flags.contains(InterfaceFlags::IFF_UP) && !flags.contains(InterfaceFlags::IFF_LOOPBACK)
    };
    let names: BTreeSet<String> =
        all.filter(|one| leads_out(one.flags)).map(|one| one.interface_name).collect();
    Ok(names.into_iter().collect())
}

/// Interfaces other than the loopback one that a route names.
pub(super) fn routes() -> Known<Vec<String>> {
    let mut found = BTreeSet::new();
    // The name of the interface is the first word of one table and the last of the other, which is
    // absent where the kernel has no IPv6.
    found.extend(first_words(&text("/proc/self/net/route")?));
    if std::path::Path::new("/proc/self/net/ipv6_route").exists() {
        found.extend(last_words(&text("/proc/self/net/ipv6_route")?));
    }
    found.remove("lo");
    Ok(found.into_iter().collect())
}

fn first_words(table: &str) -> impl Iterator<Item = String> {
    table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(str::to_owned)
}

fn last_words(table: &str) -> impl Iterator<Item = String> {
    table.lines().filter_map(|line| line.split_whitespace().next_back()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_found_in_both_tables() {
        let old = "Iface\tDestination\tGateway\neth0\t00000000\t0101A8C0\nlo\t0000007F\t0\n";
        assert_eq!(first_words(old).collect::<Vec<_>>(), ["eth0", "lo"]);
        let new = "0000 00 0000 00 0000 00000400 00000001 00000000 00200200       lo\n";
        assert_eq!(last_words(new).collect::<Vec<_>>(), ["lo"]);
    }
}

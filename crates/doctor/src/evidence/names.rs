//! Name resolution, forward and reverse.

use std::net::{IpAddr, ToSocketAddrs};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::command::output;
use super::read;

/// How a host name resolves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamesResult {
    /// The name or address that was resolved; by default the name of this host.
    pub name: String,
    /// Whether it is the name of this host.
    pub own: bool,
    /// Whether it is an address.
    pub literal: bool,
    /// Its addresses, in the system's order.
    pub addresses: Vec<IpAddr>,
    /// Why it does not resolve.
    pub error: Option<String>,
    /// The names of each address.
    pub reverse: Vec<(IpAddr, Vec<String>)>,
    /// Its addresses in `/etc/hosts`.
    pub hosts_file: Vec<IpAddr>,
    /// Its addresses in DNS; empty if DNS was not queried or does not know the name.
    pub dns: Vec<IpAddr>,
    /// Time of the resolution, in milliseconds.
    pub took_ms: u64,
}

/// Most addresses of a name that are used.
const ADDRESSES_MAX: usize = 8;

/// Resolves a name, forward and reverse; without a name, that of this host.
pub fn look_up(name: Option<&str>) -> NamesResult {
    let own = name.is_none();
    let name = match name {
        Some(name) => name.to_owned(),
        None => read("/proc/sys/kernel/hostname").unwrap_or_default(),
    };
    let literal = name.parse::<IpAddr>().is_ok();
    let start = Instant::now();
    let (mut addresses, error) = match resolve(&name) {
        Ok(addresses) => (addresses, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let took_ms = start.elapsed().as_millis() as u64;
    addresses.truncate(ADDRESSES_MAX);
    let reverse = addresses.iter().map(|address| (*address, names_of(*address))).collect();
    let hosts = read("/etc/hosts").unwrap_or_default();
    let hosts_file = if literal { Vec::new() } else { in_hosts(&hosts, &name) };
    let dns = if literal || own {
        Vec::new()
    } else {
        output("getent", &["-s", "hosts:dns", "ahosts", &name])
            .map(|text| first_words(&text))
            .unwrap_or_default()
    };
    NamesResult { name, own, literal, addresses, error, reverse, hosts_file, dns, took_ms }
}

/// Returns the addresses of a name, each once.
///
/// # Errors
/// The system's error message.
pub(crate) fn resolve(name: &str) -> Result<Vec<IpAddr>, String> {
    let found = (name, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut addresses = Vec::new();
    for address in found.map(|address| address.ip()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

/// Returns the names of an address.
fn names_of(address: IpAddr) -> Vec<String> {
    let text = output("getent", &["hosts", &address.to_string()]).unwrap_or_default();
    text.split_whitespace().skip(1).map(str::to_owned).collect()
}

/// Returns the addresses that are the first word of a line, each once.
fn first_words(text: &str) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> =
        text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// Returns the addresses of a name in the text of `/etc/hosts`.
fn in_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let lines = text.lines().filter_map(|line| {
        let line = line.split('#').next()?;
        let mut words = line.split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_in_the_hosts_file_are_ignored() {
        let text = "127.0.0.1 localhost\n10.0.0.5 oss1.site oss1 # not oss2\n#10.0.0.6 oss1\n";
        assert_eq!(in_hosts(text, "OSS1"), ["10.0.0.5".parse::<IpAddr>().unwrap()]);
        assert_eq!(in_hosts(text, "oss2"), Vec::<IpAddr>::new());
    }

    #[test]
    fn an_address_resolves_to_itself_and_an_invalid_name_fails() {
        let seen = look_up(Some("127.0.0.1"));
        assert!(seen.literal && seen.error.is_none());
        assert_eq!(seen.addresses, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        let seen = look_up(Some("no such name"));
        assert!(seen.addresses.is_empty() && seen.error.is_some(), "{seen:?}");
    }
}

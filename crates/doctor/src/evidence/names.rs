//! Names: what they stand for, and what the addresses are called.

use std::net::{IpAddr, ToSocketAddrs};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::command::output;
use super::read;

/// What is known of a host's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamesSeen {
    /// The name or address that was looked up; this host's own if there was none.
    pub name: String,
    /// Whether it is this host's own name.
    pub own: bool,
    /// Whether it is an address already.
    pub literal: bool,
    /// What it stands for, in the system's order.
    pub addresses: Vec<IpAddr>,
    /// Why it stands for nothing.
    pub error: Option<String>,
    /// What the addresses are called.
    pub reverse: Vec<(IpAddr, Vec<String>)>,
    /// What `/etc/hosts` says that the name stands for.
    pub hosts_file: Vec<IpAddr>,
    /// What the name service of the network says; empty if it was not asked or does not know.
    pub dns: Vec<IpAddr>,
    /// How long the name took, in milliseconds.
    pub took_ms: u64,
}

/// Addresses of a name that are looked at.
const ADDRESSES_MAX: usize = 8;

/// Looks a name up, both ways. Without a name, this host's own.
pub fn look(name: Option<&str>) -> NamesSeen {
    let own = name.is_none();
    let name = match name {
        Some(name) => name.to_owned(),
        None => read("/proc/sys/kernel/hostname").unwrap_or_default(),
    };
    let literal = name.parse::<IpAddr>().is_ok();
    let begun = Instant::now();
    let (mut addresses, error) = match resolve(&name) {
        Ok(addresses) => (addresses, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let took_ms = begun.elapsed().as_millis() as u64;
    addresses.truncate(ADDRESSES_MAX);
    let reverse = addresses.iter().map(|address| (*address, names_of(*address))).collect();
    let hosts = read("/etc/hosts").unwrap_or_default();
    let hosts_file = if literal { Vec::new() } else { in_hosts(&hosts, &name) };
    let dns = match literal || own {
        true => Vec::new(),
        false => output("getent", &["-s", "hosts:dns", "ahosts", &name])
            .map(|text| first_words(&text))
            .unwrap_or_default(),
    };
    NamesSeen { name, own, literal, addresses, error, reverse, hosts_file, dns, took_ms }
}

/// Returns the addresses of a name, each once.
///
/// # Errors
/// What the system says.
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

/// Returns what an address is called.
fn names_of(address: IpAddr) -> Vec<String> {
    let text = output("getent", &["hosts", &address.to_string()]).unwrap_or_default();
    text.split_whitespace().skip(1).map(str::to_owned).collect()
}

/// Returns the first word of each line that is an address, each once.
fn first_words(text: &str) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> =
        text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// Returns what a file such as `/etc/hosts` says that a name stands for.
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
    fn the_hosts_file_is_read_without_its_comments() {
        let text = "127.0.0.1 localhost\n10.0.0.5 oss1.site oss1 # not oss2\n#10.0.0.6 oss1\n";
        assert_eq!(in_hosts(text, "OSS1"), ["10.0.0.5".parse::<IpAddr>().unwrap()]);
        assert_eq!(in_hosts(text, "oss2"), Vec::<IpAddr>::new());
    }

    #[test]
    fn an_address_stands_for_itself_and_nonsense_for_nothing() {
        let seen = look(Some("127.0.0.1"));
        assert!(seen.literal && seen.error.is_none());
        assert_eq!(seen.addresses, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        let seen = look(Some("no such name"));
        assert!(seen.addresses.is_empty() && seen.error.is_some(), "{seen:?}");
    }
}

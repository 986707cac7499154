//! The network interfaces of this machine.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;

use crate::StartError;

/// A network interface of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its addresses: IPv4 first, without link-local ones.
    pub addresses: Vec<IpAddr>,
    /// Whether it can carry packets.
    pub up: bool,
    /// The speed of the link in Mbit/s, if it has one.
    pub speed: Option<u64>,
}

impl Interface {
    /// Returns the number of connections of each bulk type for the speed of the link: 1 up to
    /// 1 Gbit/s, 4 at 100. Spec: lnet-wire §5.2.
    pub fn conns_per_peer(&self) -> u32 {
        let gigabits = self.speed.unwrap_or(0) / 1000;
        gigabits.checked_ilog2().map_or(1, |log| log / 2 + 1)
    }
}

/// Returns the network interfaces that have an address, by name.
///
/// # Errors
/// The error of the operating system.
pub fn interfaces() -> std::io::Result<Vec<Interface>> {
    let mut found: BTreeMap<String, Interface> = BTreeMap::new();
    for entry in if_addrs::get_if_addrs()? {
        let name = entry.name.clone();
        let interface = found.entry(name.clone()).or_insert_with(|| Interface {
            speed: speed(&name),
            name,
            addresses: Vec::new(),
            up: false,
        });
        // Not from /sys, which may show the interfaces of another network namespace.
        interface.up |= entry.is_oper_up();
        if !entry.is_link_local() {
            interface.addresses.push(entry.ip());
        }
    }
    let mut interfaces: Vec<Interface> = found.into_values().collect();
    for interface in &mut interfaces {
        interface.addresses.sort_by_key(IpAddr::is_ipv6);
    }
    Ok(interfaces)
}

/// Returns the length of the network's prefix of an address of this machine; that of a single host
/// for another address.
pub fn prefix_of(address: IpAddr) -> u8 {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let found = all.into_iter().find(|entry| entry.ip() == address);
    match found.map(|entry| entry.addr) {
        Some(if_addrs::IfAddr::V4(addr)) => addr.prefixlen,
        Some(if_addrs::IfAddr::V6(addr)) => addr.prefixlen,
        None if address.is_ipv4() => 32,
        None => 128,
    }
}

/// Returns the interface called `name`.
pub(crate) fn named(name: &str) -> Result<Interface, StartError> {
    let all = all()?;
    let known = all.iter().map(|interface| interface.name.clone()).collect();
    let found = all.into_iter().find(|interface| interface.name == name);
    found.ok_or_else(|| StartError::NoInterface { name: name.to_owned(), known })
}

/// Returns the interface that has `address`.
pub(crate) fn with_address(address: IpAddr) -> Option<Interface> {
    let all = all().ok()?;
    all.into_iter().find(|interface| interface.addresses.contains(&address))
}

/// Returns whether the interface that has `address` can send packets: `None` for an address that is
/// not assigned to an interface but always available, as those of the loopback network.
pub(crate) fn link_of(address: IpAddr) -> std::io::Result<Option<bool>> {
    Ok(links()?.get(&address).copied())
}

/// Returns the addresses of this machine, except those of the loopback network, and whether their
/// interface can send packets.
pub(crate) fn links() -> std::io::Result<BTreeMap<IpAddr, bool>> {
    let mut links = BTreeMap::new();
    for entry in if_addrs::get_if_addrs()?.iter().filter(|entry| !entry.ip().is_loopback()) {
        // IFF_RUNNING: switched on, and the layers below work.
        *links.entry(entry.ip()).or_default() |= entry.is_oper_up();
    }
    Ok(links)
}

/// Returns every address.
pub(crate) fn addresses() -> Vec<IpAddr> {
    all().map_or(Vec::new(), |all| all.into_iter().flat_map(|one| one.addresses).collect())
}

fn all() -> Result<Vec<Interface>, StartError> {
    interfaces().map_err(StartError::system("list the network interfaces"))
}

fn speed(name: &str) -> Option<u64> {
    // The part before a colon is the device; the rest is the label of an address.
    let device = name.split(':').next().unwrap_or(name);
    let text = fs::read_to_string(format!("/sys/class/net/{device}/speed")).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there_and_up() {
        let lo = named("lo").unwrap();
        assert!(lo.up);
        assert!(lo.addresses.contains(&"127.0.0.1".parse().unwrap()));
        assert_eq!(with_address("127.0.0.1".parse().unwrap()).unwrap().name, "lo");
        assert_eq!(link_of("127.0.0.1".parse().unwrap()).unwrap(), None, "it is not monitored");
    }

    #[test]
    fn an_unknown_interface_is_refused_with_a_list_of_the_known() {
        let error = named("nope0").unwrap_err().to_string();
        assert!(error.contains("\"nope0\"") && error.contains("lo"), "{error}");
    }

    #[test]
    fn connections_follow_the_speed() {
        let of = |speed| {
            let name = String::new();
            Interface { name, addresses: Vec::new(), up: true, speed }.conns_per_peer()
        };
        let slow = [None, Some(100), Some(1000)];
        assert_eq!(slow.map(of), [1, 1, 1]);
        let speeds = [4000, 10_000, 25_000, 40_000, 100_000, 400_000];
        assert_eq!(speeds.map(|speed| of(Some(speed))), [2, 2, 3, 3, 4, 5]);
    }
}

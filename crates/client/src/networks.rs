//! The interfaces of this node: one on each network of the NIDs that it is to reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use fulmar_lnet_wire::{Net, NetType, Nid};
use fulmar_net::{NiAddress, NiOptions, Node};

use crate::Error;

/// Returns the networks of these NIDs that are on TCP, each once, and the first NID on it.
pub fn networks_of(nids: &[Nid]) -> Vec<(Net, Nid)> {
    let mut found: Vec<(Net, Nid)> = Vec::new();
    for nid in nids.iter().filter(|nid| nid.net().kind() == NetType::TCP && nid.ip().is_some()) {
        if found.iter().all(|(net, _)| *net != nid.net()) {
            found.push((nid.net(), *nid));
        }
    }
    found
}

/// Lets a node take part in the networks of these NIDs, as far as this machine can reach them and the node has
/// no route. `nets` are those that the node can reach. Returns the NIDs on them.
pub(crate) fn reach(node: &Node, nets: &mut Vec<Net>, nids: &[Nid], port: u16) -> Vec<Nid> {
    for (net, nid) in networks_of(nids) {
        if !nets.contains(&net) && (has_route(node, net) || has_joined(node, nid, port)) {
            nets.push(net);
        }
    }
    nids.iter().copied().filter(|nid| nets.contains(&nid.net())).collect()
}

/// Returns whether a node has a route to a network, by routers of LNet.
fn has_route(node: &Node, net: Net) -> bool {
    node.admin().routes().iter().any(|route| route.net == net)
}

/// Lets a node take part in the network of a NID. Returns whether it does.
fn has_joined(node: &Node, nid: Nid, port: u16) -> bool {
    interface(nid, port).is_ok_and(|ni| node.admin().add_ni(ni).is_ok())
}

/// Returns an interface on the network of a NID, at the address from which this machine reaches it.
pub(crate) fn interface(nid: Nid, port: u16) -> Result<NiOptions, Error> {
    let ip = nid.ip().ok_or(Error::Network { nid })?;
    let local = route(SocketAddr::new(ip, port));
    let address = local.map_err(|error| Error::NoRoute { nid, reason: error.to_string() })?;
    Ok(NiOptions { net: nid.net(), address: NiAddress::Ip(address), ..NiOptions::at(ip) })
}

/// Returns the address from which this machine reaches another.
///
/// # Errors
/// That of the system, if there is no route.
pub fn route(remote: SocketAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // A UDP connect sends nothing: the system only chooses the route.
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(remote)?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_network_on_tcp_is_named_once() {
        let nids = ["10.0.0.1@o2ib", "10.0.0.1@tcp", "10.0.0.2@tcp", "fd00::1@tcp1"];
        let nids = nids.map(|nid| nid.parse::<Nid>().unwrap());
        let expected = vec![(Net::TCP, nids[1]), (nids[3].net(), nids[3])];
        assert_eq!(networks_of(&nids), expected);
        assert!(matches!(interface(Nid::LOOPBACK, 988), Err(Error::Network { .. })));
    }

    #[test]
    fn the_loopback_interface_reaches_this_machine() {
        let nid = "127.0.0.7@tcp3".parse().unwrap();
        let found = interface(nid, 988).unwrap();
        assert_eq!((found.net, found.address), (nid.net(), NiAddress::Ip([127, 0, 0, 1].into())));
    }
}

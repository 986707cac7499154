//! The lines of `lctl` and of the statistics files. Spec: lnet-admin §19, §20.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fulmar_lnet::views::PeerNi;
use fulmar_lnet_wire::Nid;

use super::model::{Connection, Net, Reply, SocklndInterface, SocklndPeer};
use super::peer::state;
use super::{Peer, Route, Router, Routing, Stats};

/// The file `nis`.
pub fn nis(nets: &[Net]) -> String {
    let mut out = format!(
        "{:<24} {:>6} {:>5} {:>4} {:>4} {:>4} {:>5} {:>5} {:>5}\n",
        "nid", "status", "alive", "refs", "peer", "rtr", "max", "tx", "min"
    );
    for ni in nets.iter().flat_map(|net| &net.nis) {
        let view = &ni.view;
        // Only a router has the time of the last message from a net.
        let alive = match ni.alive {
            _ if view.nid.is_loopback() => 0,
            Some(seconds) => i64::try_from(seconds).unwrap_or(i64::MAX),
            None => -1,
        };
        line(
            &mut out,
            format_args!(
                "{:<24} {:>6} {:>5} {:>4} {:>4} {:>4} {:>5} {:>5} {:>5}",
                view.nid.to_string(),
                if view.up { "up" } else { "down" },
                alive,
                ni.refs,
                view.tunables.peer_credits,
                view.tunables.peer_buffer_credits,
                view.credits_max,
                view.credits,
                view.credits_min
            ),
        );
    }
    out
}

/// The file `peers`.
pub fn peers(peers: &[Peer]) -> String {
    let mut out = format!(
        "{:<24} {:>4} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {}\n",
        "nid", "refs", "state", "last", "max", "rtr", "min", "tx", "min", "queue"
    );
    for ni in peers.iter().flat_map(|peer| &peer.nis) {
        line(&mut out, format_args!("{}", peer_columns(ni, "    -1")));
    }
    out
}

/// The line of a NID of a peer in the log: the columns of the file `peers` without `last`.
pub fn peer_line(ni: &PeerNi) -> String {
    peer_columns(ni, "")
}

/// Returns the columns of a NID of a peer, with `last` and the blank before it.
fn peer_columns(ni: &PeerNi, last: &str) -> String {
    format!(
        "{:<24} {:>4} {:>5}{last} {:>5} {:>5} {:>5} {:>5} {:>5} {}",
        ni.nid.to_string(),
        ni.refcount,
        state(ni.alive),
        ni.credits_max,
        ni.router_credits,
        ni.router_credits_min,
        ni.credits,
        ni.credits_min,
        ni.queued_bytes
    )
}

/// The file `stats`: 11 numbers.
pub fn stats(stats: &Stats) -> String {
    let s = stats;
    let numbers = [
        s.msgs_alloc,
        s.msgs_max,
        s.errors,
        s.send_count,
        s.recv_count,
        s.route_count,
        s.drop_count,
        s.send_length,
        s.recv_length,
        s.route_length,
        s.drop_length,
    ];
    numbers.map(|n| n.to_string()).join(" ") + "\n"
}

/// The file `routers`.
pub fn routers(routers: &[Router]) -> String {
    let mut out = String::from("ref  rtr_ref alive router\n");
    for router in routers {
        let alive = if router.alive { "up" } else { "down" };
        let Router { nid, refs, routes, .. } = router;
        line(&mut out, format_args!("{refs:<4} {routes:>7} {alive:>5} {nid}"));
    }
    out
}

/// The file `routes`.
pub fn routes(routing: &Routing, routes: &[Route]) -> String {
    let mut out = format!("Routing {}\n", routing.state);
    out += "net      hops priority   state router\n";
    for route in routes {
        let net = route.net.to_string();
        let (hops, state) = (hops(route), up_or_down(route));
        let Route { priority, gateway, .. } = route;
        line(&mut out, format_args!("{net:<8} {hops:>4} {priority:>8} {state:>7} {gateway}"));
    }
    out
}

/// The file `buffers`; a node that never was a router has none.
pub fn buffers(routing: &Routing) -> String {
    let mut out = String::from("pages count credits     min\n");
    for pool in routing.pools.iter().filter(|_| routing.is_known()) {
        let (pages, count, credits, min) =
            (pool.pages, pool.buffers, pool.credits, pool.credits_min);
        line(&mut out, format_args!("{pages:>5} {count:>5} {credits:>7} {min:>7}"));
    }
    out
}

/// `lctl show_route`.
pub fn route_lines(routes: &[Route]) -> String {
    let mut out = String::new();
    for route in routes {
        let (net, gateway) = (route.net.to_string(), route.gateway.to_string());
        let (hops, state, priority) = (hops(route), up_or_down(route), route.priority);
        line(
            &mut out,
            format_args!("net {net:>18} hops {hops} gw {gateway:>32} {state} pri {priority}"),
        );
    }
    out
}

fn hops(route: &Route) -> i64 {
    route.hops.map_or(-1, i64::from)
}

fn up_or_down(route: &Route) -> &'static str {
    if route.up { "up" } else { "down" }
}

/// `lctl --net tcp conn_list`.
pub fn connections(connections: &[Connection]) -> String {
    let mut out = String::new();
    for c in connections {
        line(
            &mut out,
            format_args!(
                "{:<20} {}[{}]{}->{}:{} {}/{} {}",
                c.peer.to_string(),
                c.kind,
                c.cpt,
                c.local.ip(),
                c.remote.ip(),
                c.remote.port(),
                c.send_buffer,
                c.receive_buffer,
                if c.nagle { "nagle" } else { "nonagle" }
            ),
        );
    }
    if out.is_empty() { "<no connections>\n".into() } else { out }
}

/// `lctl --net tcp peer_list`.
pub fn socklnd_peers(peers: &[SocklndPeer]) -> String {
    let mut out = String::new();
    for peer in peers {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let (local, remote, port) = match peer.dials {
            Some((local, remote)) => (local, remote.ip(), remote.port()),
            None => (nowhere, nowhere, 0),
        };
        let count = if peer.dials.is_some() { peer.connections } else { 0 };
        line(
            &mut out,
            format_args!(
                "{:<20} [{}]{local}->{remote}:{port} #{count}",
                peer.peer.to_string(),
                u8::from(peer.dials.is_some()),
            ),
        );
    }
    if out.is_empty() { "<no peers>\n".into() } else { out }
}

/// `lctl --net tcp interface_list`.
pub fn interfaces(interfaces: &[SocklndInterface]) -> String {
    let mut out = String::new();
    for i in interfaces {
        let mask: IpAddr = match i.ip {
            IpAddr::V4(_) => {
                Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(i.prefix)).unwrap_or(0)).into()
            }
            IpAddr::V6(_) => {
                Ipv6Addr::from(u128::MAX.checked_shl(128 - u32::from(i.prefix)).unwrap_or(0)).into()
            }
        };
        let text = format_args!("{0}: ({0}/{mask}) npeer {1} nroute {2}", i.ip, i.peers, i.routes);
        line(&mut out, text);
    }
    if out.is_empty() { "<no interfaces>\n".into() } else { out }
}

/// `lctl ping`: the NIDs of the answer, after a constant first line.
pub fn pinged(reply: &Reply) -> String {
    let mut out = String::from("12345-0@lo\n");
    for nid in &reply.nids {
        line(&mut out, format_args!("{nid}"));
    }
    out
}

/// `lctl list_nids`, one NID per line.
pub fn nids(nids: &[Nid]) -> String {
    let mut out = String::new();
    for nid in nids {
        line(&mut out, format_args!("{nid}"));
    }
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a string succeeds");
}

//! Messages in the name of others, and of nodes that do not exist.

use std::io;
use std::net::Ipv4Addr;

use fulmar_lnet_wire::socklnd::ConnKind;
use fulmar_lnet_wire::{Net, NetType, Nid};

use crate::hostile::attacker::Attacker;
use crate::hostile::forge;
use crate::hostile::swarm::Swarm;

/// The net behind the attacker when it is a gateway.
pub(in crate::hostile) const BEHIND: Net = Net::new(NetType::TCP, 9);
/// The network of the NIDs that `accept_nid` allows the attacker.
pub(in crate::hostile) const ALLOWED: &str = "10.9.*.*@tcp";
/// Sources of one attack.
const SOURCES: u64 = 70_000;

/// GETs in one connection whose sources are other nodes, which do not answer.
pub(super) fn foreign(attacker: &mut Attacker) -> io::Result<()> {
    let mut swarm = Swarm::new(0..4);
    while attacker.goes_on() {
        let mut next = attacker.rng.below(1500) as u32;
        let fill = |attacker: &mut Attacker, _, line: &mut crate::hostile::line::Line| {
            for _ in 0..32 {
                next = (next + 1) % 1500;
                let silent = Nid::small(Net::TCP, 0x0a01_c800 + next);
                line.send(&forge::ping(silent, attacker.target), &[]);
                attacker.tally.sent += 1;
            }
        };
        swarm.turn(attacker, fill, |_| 4096, None);
    }
    Ok(())
}

/// As a gateway, GETs of 70,000 nodes behind it, with or without reading the replies.
pub(super) fn behind_gateway(attacker: &mut Attacker, reads: bool) -> io::Result<()> {
    let mut swarm = Swarm::new([0]);
    let mut next = 0;
    while attacker.goes_on() {
        let fill = |attacker: &mut Attacker, _, line: &mut crate::hostile::line::Line| {
            for _ in 0..64 {
                next = (next + 1) % SOURCES;
                let source = Nid::small(BEHIND, 0x0ac8_0000 + next as u32);
                line.send(&forge::ping(source, attacker.target), &[]);
                attacker.tally.sent += 1;
            }
        };
        swarm.turn(attacker, fill, |_| if reads { 1 << 16 } else { 0 }, None);
    }
    Ok(())
}

/// Connections from one address with NIDs that it may have. Each sends a GET and closes, so that
/// the reply has no connection.
pub(super) fn allowed(attacker: &mut Attacker) -> io::Result<()> {
    let mut next = 0_u32;
    while attacker.goes_on() {
        next = (next + 1) % 60_000;
        let nid = Nid::small(Net::TCP, 0x0a09_0001 + next);
        if let Ok(mut line) = attacker.open_as(0, nid, ConnKind::CONTROL, 1) {
            for _ in 0..8 {
                line.send(&forge::ping(nid, attacker.target), &[]);
                attacker.tally.sent += 1;
            }
            line.flush(usize::MAX);
            line.read(4096);
        }
        attacker.ready();
    }
    Ok(())
}

/// Hellos from privileged ports that claim any NID, those of other nodes among them.
pub(super) fn claimed(attacker: &mut Attacker) -> io::Result<()> {
    while attacker.goes_on() {
        let random = Ipv4Addr::from(attacker.rng.u64() as u32);
        let mut nids = attacker.victims.clone();
        nids.push(Nid::of_ip(attacker.target.net(), random.into()));
        nids.push(attacker.target);
        let (number, incarnation) = (attacker.rng.below(nids.len() as u64), attacker.rng.u64());
        let nid = nids[number as usize];
        let identity = attacker.rng.below(8);
        let kind = [ConnKind::CONTROL, ConnKind::BULK_IN, ConnKind::BULK_OUT, ConnKind::ANY];
        let kind = kind[attacker.rng.below(4) as usize];
        if let Ok(mut line) = attacker.open_as(identity, nid, kind, incarnation) {
            line.send(&forge::ping(nid, attacker.target), &[]);
            line.flush(usize::MAX);
            attacker.tally.sent += 1;
            attacker.rest();
            line.read(1 << 16);
            attacker.take(&mut line, None);
        }
        attacker.ready();
    }
    Ok(())
}

//! Lists of NIDs that do not exist, and pushes of every kind.

use std::io;

use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::ping::{Features, PingInfo};

use crate::hostile::attacker::Attacker;
use crate::hostile::forge;
use crate::hostile::line::Line;
use crate::hostile::swarm::Swarm;

/// NIDs in each list.
const LISTED: u64 = 4000;

/// Pushes and ping info that list thousands of random NIDs, from 40 identities.
pub(super) fn many_nids(attacker: &mut Attacker) -> io::Result<()> {
    let mut swarm = Swarm::new(0..40);
    let mut sequence = 1;
    while attacker.goes_on() {
        let fill = |attacker: &mut Attacker, _, line: &mut Line| {
            sequence += 1;
            let mut nids = vec![line.nid];
            let base = attacker.rng.u64() as u32;
            let net = attacker.target.net();
            nids.extend((0..LISTED as u32).map(|n| Nid::small(net, base.wrapping_add(n))));
            line.send(&forge::push(line.nid, attacker.target), &forge::info(&nids, sequence));
            attacker.tally.sent += 1;
        };
        swarm.turn(attacker, fill, |_| 1 << 16, None);
    }
    Ok(())
}

/// A new identity for each connection, which sends a ping and a push and is closed.
pub(super) fn many_identities(attacker: &mut Attacker) -> io::Result<()> {
    let mut next = 0;
    while attacker.goes_on() {
        next += 1;
        if let Ok(mut line) = attacker.open(next, fulmar_lnet_wire::socklnd::ConnKind::CONTROL) {
            let nid = line.nid;
            line.send(&forge::ping(nid, attacker.target), &[]);
            line.send(&forge::push(nid, attacker.target), &forge::info(&[nid], 1));
            line.flush(usize::MAX);
            attacker.tally.sent += 2;
        }
        attacker.ready();
    }
    Ok(())
}

/// Pushes of every kind: features, sequences, primary NIDs, lengths and damage at random.
pub(super) fn pushes(attacker: &mut Attacker) -> io::Result<()> {
    let mut swarm = Swarm::new(0..8);
    while attacker.goes_on() {
        let fill = |attacker: &mut Attacker, _, line: &mut Line| {
            let payload = random_info(attacker, line.nid);
            line.send(&forge::push(line.nid, attacker.target), &payload);
            attacker.tally.sent += 1;
        };
        let info = random_info(attacker, attacker.identity(0));
        swarm.turn(attacker, fill, |_| 1 << 16, Some(&|_| info.clone()));
    }
    Ok(())
}

fn random_info(attacker: &mut Attacker, own: Nid) -> Vec<u8> {
    let mut nids = vec![own];
    let mut known = attacker.victims.clone();
    known.extend([attacker.target, Nid::LOOPBACK, Nid::ANY, attacker.identity(3)]);
    let rng = &mut attacker.rng;
    for _ in 0..rng.below(6) {
        let at = rng.below(nids.len() as u64 + 1) as usize;
        let nid = if rng.one_in(2) {
            known[rng.below(known.len() as u64) as usize]
        } else {
            Nid::small(own.net(), rng.u64() as u32)
        };
        nids.insert(at, nid);
    }
    let features = Features(rng.u64() as u32).with(if rng.one_in(8) {
        Features(0)
    } else {
        Features::NI_STATUS.with(Features::MULTI_RAIL).with(Features::DISCOVERY)
    });
    let features = features.without(Features::LARGE_ADDR).without(Features::PRIMARY_LARGE);
    let mut bytes = forge::info_with(features, &nids, rng.u64() as u32);
    match rng.below(6) {
        0 => bytes.truncate(rng.below(bytes.len() as u64) as usize),
        1 => bytes.resize(rng.below(u64::from(PingInfo::SIZE_MAX)) as usize, 0xff),
        2 => {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        _ => {}
    }
    bytes
}

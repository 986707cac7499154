//! Peers that ask for much and do not read it.

use std::io;
use std::time::{Duration, Instant};

use fulmar_lnet_wire::selftest::Direction;
use fulmar_lnet_wire::socklnd::ConnKind;

use crate::hostile::attacker::Attacker;
use crate::hostile::forge;
use crate::hostile::line::Line;
use crate::hostile::swarm::Swarm;

/// Messages that a connection is given at once.
const BATCH: usize = 64;
/// How long one of two groups does not read.
const TURN: Duration = Duration::from_millis(300);

fn pings(attacker: &mut Attacker, _: u64, line: &mut Line) {
    let get = forge::ping(line.nid, attacker.target);
    (0..BATCH).for_each(|_| line.send(&get, &[]));
    attacker.tally.sent += BATCH as u64;
}

fn bulk_reads(attacker: &mut Attacker, _: u64, line: &mut Line) {
    for _ in 0..BATCH {
        let id = attacker.rng.u64();
        let (header, payload) = forge::bulk((line.nid, attacker.target), Direction::READ, id);
        line.send(&header, &payload);
    }
    attacker.tally.sent += BATCH as u64;
}

/// Pings from these identities, which read no replies.
pub(super) fn pings_unread(attacker: &mut Attacker, identities: u64) -> io::Result<()> {
    let mut swarm = Swarm::new(0..identities).narrow();
    while attacker.goes_on() {
        swarm.turn(attacker, pings, |_| 0, None);
    }
    Ok(())
}

/// Pings whose replies are read slowly: a few hundred bytes every 50 ms.
pub(super) fn pings_slow(attacker: &mut Attacker) -> io::Result<()> {
    let mut swarm = Swarm::new(0..8).narrow();
    let mut last = Instant::now();
    while attacker.goes_on() {
        let due = last.elapsed() > Duration::from_millis(50);
        last = if due { Instant::now() } else { last };
        swarm.turn(attacker, pings, |_| if due { 300 } else { 0 }, None);
    }
    Ok(())
}

/// Forty identities of which half read, in turns.
pub(super) fn two_groups(attacker: &mut Attacker) -> io::Result<()> {
    let mut swarm = Swarm::new(0..40).narrow();
    let begun = Instant::now();
    while attacker.goes_on() {
        let turn = (begun.elapsed().as_millis() / TURN.as_millis()) as u64;
        let reads = |identity: u64| if identity % 2 == turn % 2 { 1 << 16 } else { 0 };
        swarm.turn(attacker, pings, reads, None);
    }
    Ok(())
}

/// Selftest bulk reads of 1 MiB from these identities. The bulk is not read, or slowly.
pub(super) fn bulk_unread(
    attacker: &mut Attacker,
    identities: u64,
    slowly: bool,
) -> io::Result<()> {
    let info = |nid| forge::info(&[nid], 2);
    let mut swarm = Swarm::new(0..identities).narrow();
    // What the node sends in bulk comes on connections of this kind.
    let mut bulk = Swarm::new(0..identities).kind(ConnKind::BULK_IN).narrow();
    let mut last = Instant::now();
    while attacker.goes_on() {
        let due = slowly && last.elapsed() > Duration::from_millis(50);
        last = if due { Instant::now() } else { last };
        // Pings are answered on the control connection, so that the node sends the bulk.
        swarm.turn(attacker, bulk_reads, |_| 1 << 16, Some(&info));
        bulk.turn(attacker, |_, _, _| (), |_| if due { 8192 } else { 0 }, None);
    }
    Ok(())
}

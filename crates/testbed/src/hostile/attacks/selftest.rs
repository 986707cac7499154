//! Requests of LNet selftest that cannot be completed.

use std::io;

use fulmar_lnet_wire::selftest::{
    self, BatchId, Direction, MakeSession, Ping, Service, SessionId, Test, TestKind,
};

use crate::hostile::attacker::{Attacker, InfoOf};
use crate::hostile::forge;
use crate::hostile::line::Line;
use crate::hostile::swarm::Swarm;

const BATCH: u64 = 32;

/// Bulk writes without a session: the node sends GETs for the data, which are never answered.
pub(super) fn bulk_unanswered(attacker: &mut Attacker) -> io::Result<()> {
    let fill = |attacker: &mut Attacker, _, line: &mut Line| {
        for _ in 0..BATCH {
            let id = attacker.rng.u64();
            let (header, payload) = forge::bulk((line.nid, attacker.target), Direction::WRITE, id);
            line.send(&header, &payload);
        }
        attacker.tally.sent += BATCH;
    };
    answering(attacker, 4, fill, true)
}

/// Requests of the load that ask for an ACK, with unread replies.
pub(super) fn acks(attacker: &mut Attacker) -> io::Result<()> {
    let mut swarm = Swarm::new(0..8).narrow();
    while attacker.goes_on() {
        let fill = |attacker: &mut Attacker, _, line: &mut Line| {
            for _ in 0..BATCH {
                let reply_id = attacker.rng.u64();
                let ping =
                    Ping { reply_id, magic: Ping::MAGIC, sequence: 1, seconds: 0, nanoseconds: 0 };
                let between = (line.nid, attacker.target);
                let body = selftest::Body::Ping(ping);
                let (header, payload) = forge::request(between, Service::PING, body, true);
                line.send(&header, &payload);
            }
            attacker.tally.sent += BATCH;
        };
        swarm.turn(attacker, fill, |_| 0, None);
    }
    Ok(())
}

/// Sessions and tests of nodes that do not answer discovery.
pub(super) fn sessions(attacker: &mut Attacker) -> io::Result<()> {
    let fill = |attacker: &mut Attacker, _, line: &mut Line| {
        let session = SessionId { nid: line.nid, stamp: attacker.rng.below(4) as i64 + 1 };
        let between = (line.nid, attacker.target);
        let enter = MakeSession {
            reply_id: attacker.rng.u64(),
            session,
            force: 0,
            name: "hostile".parse().expect("a short name"),
        };
        let body = selftest::Body::MakeSession(enter);
        let (header, payload) = forge::request(between, Service::MAKE_SESSION, body, true);
        line.send(&header, &payload);
        for _ in 0..BATCH {
            let body = selftest::Body::Test(test(attacker, session));
            let (header, payload) = forge::request(between, Service::TEST, body, true);
            line.send(&header, &payload);
        }
        attacker.tally.sent += BATCH + 1;
    };
    answering(attacker, 40, fill, false)
}

fn test(attacker: &mut Attacker, session: SessionId) -> Test {
    Test {
        reply_id: attacker.rng.u64(),
        bulk_id: attacker.rng.u64(),
        session,
        batch: BatchId(attacker.rng.below(4) + 1),
        loops: selftest::LOOP_FOREVER,
        concurrency: 64,
        is_client: true,
        stop_on_error: false,
        destinations: 300,
        kind: TestKind::Brw { direction: Direction::WRITE, flags: 0, len: 1 << 20, offset: 0 },
    }
}

/// Reads everything. Answers pings, and nothing else, if `discovered`.
fn answering(
    attacker: &mut Attacker,
    identities: u64,
    mut fill: impl FnMut(&mut Attacker, u64, &mut Line),
    discovered: bool,
) -> io::Result<()> {
    let info = |nid| forge::info(&[nid], 2);
    let mut swarm = Swarm::new(0..identities);
    while attacker.goes_on() {
        let info: Option<&InfoOf<'_>> = if discovered { Some(&info) } else { None };
        swarm.turn(attacker, &mut fill, |_| 1 << 16, info);
    }
    Ok(())
}

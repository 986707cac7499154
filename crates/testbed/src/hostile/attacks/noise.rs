//! Frames and messages without a use.

use std::io;

use fulmar_lnet_wire::socklnd::{ConnKind, FrameHeader, FrameKind};
use fulmar_lnet_wire::{Body, Handle, Nid};
use fulmar_wire::Order;

use crate::hostile::attacker::Attacker;
use crate::hostile::forge;
use crate::hostile::line::Line;
use crate::hostile::swarm::Swarm;

/// Acknowledgements of messages that were never sent, and keepalives.
pub(super) fn noops(attacker: &mut Attacker, keepalive: bool) -> io::Result<()> {
    let mut swarm = Swarm::new(0..8);
    while attacker.goes_on() {
        let fill = |attacker: &mut Attacker, _, line: &mut Line| {
            let mut bytes = Vec::new();
            for _ in 0..500 {
                let (low, high) = (attacker.rng.u64(), attacker.rng.u64());
                let cookies = match (keepalive, attacker.rng.below(4)) {
                    (true, _) => [0, FrameHeader::KEEPALIVE],
                    (_, 0) => [low, high],
                    (_, 1) => [2, u64::MAX],
                    (_, 2) => [u64::MAX, 2],
                    (_, _) => [0, low],
                };
                let frame = FrameHeader { kind: FrameKind::NOOP, checksum: 0, cookies };
                frame.encode(Order::Little, &mut bytes);
            }
            attacker.tally.sent += 500;
            line.queue(&bytes);
        };
        swarm.turn(attacker, fill, |_| 1 << 16, None);
    }
    Ok(())
}

/// Messages that ask for acknowledgements of their payload, which are not read.
pub(super) fn zero_copy(attacker: &mut Attacker) -> io::Result<()> {
    let mut swarm = Swarm::new(0..8).narrow();
    let mut cookie = 1;
    while attacker.goes_on() {
        let fill = |attacker: &mut Attacker, _, line: &mut Line| {
            for _ in 0..64 {
                // Every other cookie, so that they are no range.
                cookie += 2;
                let put = forge::put(line.nid, attacker.target, 40, 1, false);
                line.send_as(FrameHeader::zero_copy(cookie), &put, &[1; 8]);
            }
            attacker.tally.sent += 64;
        };
        swarm.turn(attacker, fill, |_| 0, None);
    }
    Ok(())
}

/// PUTs of up to 1 MiB to every portal, and GETs, ACKs and REPLYs that were not requested.
pub(super) fn portals(attacker: &mut Attacker) -> io::Result<()> {
    let mut swarm = Swarm::new(0..8).kind(ConnKind::BULK_OUT);
    let payload = vec![0x5a; 1 << 20];
    while attacker.goes_on() {
        let fill = |attacker: &mut Attacker, _, line: &mut Line| {
            let (own, target) = (line.nid, attacker.target);
            let rng = &mut attacker.rng;
            let (portal, bits) = (rng.below(70) as u32, rng.below(16));
            let len = rng.below(payload.len() as u64 + 1) as usize;
            let handle = Handle { interface: rng.u64(), object: rng.below(10_000) };
            let (header, len) = match rng.below(5) {
                0 => (forge::get(own, target, portal, bits, len as u32), 0),
                1 => {
                    let body = Body::Ack { handle, match_bits: bits, accepted: len as u32 };
                    (forge::header(own, target, body), 0)
                }
                2 => (forge::header(own, target, Body::Reply { handle }), len),
                _ => (forge::put(own, target, portal, bits, rng.one_in(2)), len),
            };
            line.send(&header, &payload[..len]);
            attacker.tally.sent += 1;
        };
        swarm.turn(attacker, fill, |_| 1 << 16, None);
    }
    Ok(())
}

/// Through a router: PUTs to nodes behind it that do not exist, and back to the network they came
/// from.
pub(super) fn routed(attacker: &mut Attacker) -> io::Result<()> {
    let mut swarm = Swarm::new(0..8).kind(ConnKind::BULK_OUT);
    let payload = vec![0x5a; 1 << 20];
    while attacker.goes_on() {
        let fill = |attacker: &mut Attacker, _, line: &mut Line| {
            let behind = attacker.behind.unwrap_or(attacker.target);
            let silent =
                Nid::small(behind.net(), behind.number() + 50 + attacker.rng.below(20) as u32);
            let back = 20 + attacker.rng.below(20);
            let back = attacker.identity(back);
            let target = if attacker.rng.one_in(4) { back } else { silent };
            let put = forge::put(line.nid, target, 40, 1, true);
            let len = if attacker.rng.one_in(2) { payload.len() } else { 8 };
            line.send(&put, &payload[..len]);
            attacker.tally.sent += 1;
        };
        swarm.turn(attacker, fill, |_| 1 << 16, None);
    }
    Ok(())
}

//! Valid messages, damaged at random from a seed.

use std::io::{self, Write};

use fulmar_base::Rng;
use fulmar_lnet_wire::selftest::Direction;
use fulmar_lnet_wire::socklnd::{ConnKind, FrameHeader};
use fulmar_lnet_wire::{Body, Nid};

use crate::hostile::attacker::Attacker;
use crate::hostile::forge;
use crate::hostile::line::{Line, handshake};

/// Messages that are sent on one connection, if the node does not close it earlier.
const EACH: usize = 24;

/// Damaged handshakes and messages.
pub(super) fn damaged(attacker: &mut Attacker) -> io::Result<()> {
    while attacker.goes_on() {
        let identity = attacker.rng.below(30);
        if attacker.rng.one_in(4) {
            hello(attacker, identity);
        } else {
            let kinds = [ConnKind::CONTROL, ConnKind::BULK_IN, ConnKind::BULK_OUT];
            let kind = kinds[attacker.rng.below(3) as usize];
            if let Ok(mut line) = attacker.open(identity, kind) {
                messages(attacker, &mut line);
            }
        }
        attacker.ready();
    }
    Ok(())
}

fn hello(attacker: &mut Attacker, identity: u64) {
    let Ok(mut stream) = attacker.dial(identity) else { return };
    let nid = attacker.identity(identity);
    let mut bytes = handshake(nid, attacker.target, ConnKind::CONTROL, 1);
    spoil(&mut attacker.rng, &mut bytes);
    let _ = stream.write_all(&bytes);
    attacker.tally.sent += 1;
    if attacker.rng.one_in(2) {
        attacker.rest();
    }
}

fn messages(attacker: &mut Attacker, line: &mut Line) {
    for _ in 0..EACH {
        let mut bytes = valid(attacker, line);
        spoil(&mut attacker.rng, &mut bytes);
        line.queue(&bytes);
        attacker.tally.sent += 1;
    }
    while !line.is_closed() && !line.is_drained() && attacker.goes_on() {
        if line.flush(usize::MAX) + line.read(1 << 16) == 0 {
            attacker.rest();
        }
        attacker.take(line, None);
    }
    if attacker.rng.one_in(4) {
        attacker.rest();
        line.read(1 << 16);
        attacker.take(line, None);
    }
}

/// Returns a valid message.
fn valid(attacker: &mut Attacker, line: &Line) -> Vec<u8> {
    let (own, target) = (line.nid, attacker.target);
    let handle = forge::HANDLE;
    let (header, payload) = match attacker.rng.below(8) {
        0 => (forge::ping(own, target), vec![]),
        1 => (forge::push(own, target), forge::info(&[own, Nid::small(own.net(), 7)], 3)),
        2 => forge::bulk((own, target), Direction::READ, 1),
        3 => forge::bulk((own, target), Direction::WRITE, 1),
        4 => (forge::header(own, target, Body::Reply { handle }), vec![1; 300]),
        5 => {
            let body = Body::Ack { handle, match_bits: 1, accepted: 9 };
            (forge::header(own, target, body), vec![])
        }
        6 => (forge::put(own, target, 52, 1, true), vec![2; 5000]),
        _ => (forge::get(own, target, 52, 1, 4096), vec![]),
    };
    let frame = match attacker.rng.below(4) {
        0 => FrameHeader::zero_copy(attacker.rng.u64()),
        _ => FrameHeader::lnet(),
    };
    line.encoded(frame, &header, &payload)
}

/// Damages a message: flipped bits, another byte order, lengths, truncation, extra bytes.
pub(super) fn spoil(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let len = bytes.len() as u64;
    match rng.below(6) {
        0 | 1 => (0..=rng.below(4)).for_each(|_| {
            let bit = rng.below(8 * len.min(160)) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }),
        // A field in the byte order of another machine.
        2 => {
            let at = 4 * rng.below(len / 4) as usize;
            bytes[at..at + 4].reverse();
        }
        // A field with an extreme value: a length, a version or a kind.
        3 => {
            let at = 4 * rng.below(len.min(160) / 4) as usize;
            let value = [
                [0; 4],
                [1, 0, 0, 0],
                [4, 0, 0, 0],
                [0, 0, 16, 0],
                [0xff, 0xff, 0xff, 0x7f],
                [0, 0, 0, 0x80],
                [0xff; 4],
                [rng.u64() as u8; 4],
            ];
            let value = value[rng.below(8) as usize];
            bytes[at..at + 4].copy_from_slice(&value);
        }
        4 => bytes.truncate(rng.below(len) as usize),
        _ => {
            let at = rng.below(len) as usize;
            bytes.insert(at, rng.u64() as u8);
        }
    }
}

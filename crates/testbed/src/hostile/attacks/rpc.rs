//! Requests of Lustre that a server refuses, or whose end it must not wait for.

use std::io;

use fulmar_lustre_wire::format::{
    IO_OBJECTS, NIOBUFS, OST_BODY, OST_DISCONNECT, OST_GETATTR, OST_READ, OST_STATFS, OST_WRITE,
    PING,
};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::{ConnectOpFlags, Container, Message};
use fulmar_lustre_wire::ost::{IoObject, MaxBrw, Niobuf, Obdo, OstId};
use fulmar_lustre_wire::{Fid, Handle, List, portal};

use super::damage::spoil;
use crate::hostile::attacker::Attacker;
use crate::hostile::requests::{HONEST, Peer, connect, of_client};

/// Connects of one node without reading replies.
const CONNECTS: u64 = 10_000;
const BATCH: u64 = 64;
const MIB: u32 = 1 << 20;

/// Connects as ever new clients, whose replies are not read.
pub(super) fn connects(attacker: &mut Attacker) -> io::Result<()> {
    while attacker.goes_on() {
        let Ok(mut peer) = Peer::dial(attacker, 0) else { continue };
        peer.line.narrow();
        for n in 0..CONNECTS {
            let client = format!("hostile-{n}-{:x}", attacker.rng.u64());
            peer.send(portal::OST_REQUEST, connect(&client));
            attacker.tally.sent += 1;
            while attacker.goes_on() && !peer.line.is_closed() && !peer.line.is_drained() {
                // A node that stops reading is what this attack is about.
                attacker.ready();
                if peer.line.flush(1 << 16) == 0 {
                    attacker.rest();
                }
            }
            if !attacker.goes_on() || peer.line.is_closed() {
                break;
            }
        }
        attacker.ready();
    }
    Ok(())
}

/// Lets a client of each identity send what `fill` queues, and connects it again when that fails.
pub(super) fn clients(
    attacker: &mut Attacker,
    identities: u64,
    mut fill: impl FnMut(&mut Attacker, &mut Vec<Peer>),
) -> io::Result<()> {
    let mut peers: Vec<Peer> = Vec::new();
    while attacker.goes_on() {
        peers.retain(|peer| !peer.line.is_closed());
        let identity = attacker.rng.below(1000);
        if (peers.len() as u64) < identities {
            match Peer::connect(attacker, identity) {
                Ok(peer) => peers.push(peer),
                Err(_) => attacker.rest(),
            }
            continue;
        }
        attacker.ready();
        fill(attacker, &mut peers);
        peers.iter_mut().for_each(|peer| peer.drain(attacker));
        if attacker.rng.one_in(50) {
            // Its export is gone, or left behind.
            let mut peer = peers.remove(0);
            if attacker.rng.one_in(2) {
                peer.ask(attacker, portal::OST_REQUEST, peer.request(&OST_DISCONNECT));
            }
        }
    }
    for mut peer in peers {
        peer.send(portal::OST_REQUEST, peer.request(&OST_DISCONNECT));
        peer.line.flush(usize::MAX);
    }
    Ok(())
}

/// Requests with unknown export handles, and with those of clients of other nodes; connects in the
/// name of an honest client.
pub(super) fn handles(attacker: &mut Attacker) -> io::Result<()> {
    clients(attacker, 2, |attacker, peers| {
        let other = peers[1].export;
        for _ in 0..BATCH {
            let unknown = Handle(attacker.rng.u64());
            for export in [unknown, other, Handle(u64::MAX), Handle::NONE] {
                let format = [&OST_STATFS, &PING, &OST_DISCONNECT][attacker.rng.below(3) as usize];
                let message = of_client(Message::request(format), export);
                peers[0].send(portal::OST_REQUEST, message);
            }
        }
        for flags in [ConnectOpFlags::INITIAL, ConnectOpFlags::RECONNECT] {
            let mut message = connect(HONEST);
            (message.body.connect_flags, message.body.connection_count) = (flags, 9);
            peers[0].send(portal::OST_REQUEST, message);
        }
        attacker.tally.sent += 4 * BATCH + 2;
    })
}

/// The same XID again and again, XIDs that go backwards, and ends of what a client has.
pub(super) fn xids(attacker: &mut Attacker) -> io::Result<()> {
    clients(attacker, 2, |attacker, peers| {
        let peer = &mut peers[0];
        let kept = peer.xid;
        for n in 0..BATCH {
            peer.xid = match attacker.rng.below(4) {
                0 => kept,
                1 => kept.saturating_sub(n * 128),
                2 => attacker.rng.u64() >> 1,
                _ => peer.xid,
            };
            let mut message = peer.request(&OST_STATFS);
            message.body.tag = attacker.rng.below(3) as u16;
            message.body.last_xid = match attacker.rng.below(3) {
                0 => attacker.rng.u64(),
                _ => 0,
            };
            message.body.connection_count = attacker.rng.below(3) as u32;
            peer.send(portal::OST_REQUEST, message);
        }
        peer.xid = kept + BATCH * 128;
        attacker.tally.sent += BATCH;
    })
}

/// Valid requests with one buffer of another size.
pub(super) fn sizes(attacker: &mut Attacker) -> io::Result<()> {
    clients(attacker, 2, |attacker, peers| {
        for _ in 0..BATCH {
            let whole = valid(attacker, &peers[0]).to_bytes();
            let Ok(container) = Container::decode(&whole) else { continue };
            let mut buffers = container.buffers.clone();
            let place = attacker.rng.below(buffers.len() as u64) as usize;
            let len = match attacker.rng.below(4) {
                0 => 0,
                1 => buffers[place].len().saturating_sub(1),
                2 => buffers[place].len() + 1,
                _ => attacker.rng.below(4000) as usize,
            };
            let mut buffer = buffers[place].to_vec();
            buffer.resize(len, 0xff);
            buffers[place] = buffer.into();
            let mut bytes = Vec::new();
            Container { buffers, ..container }.encode(&mut bytes);
            peers[0].send_bytes(portal::OST_REQUEST, &bytes);
        }
        attacker.tally.sent += BATCH;
    })
}

/// Valid requests, damaged at random; on some connections only the first half of the last one.
pub(super) fn damaged(attacker: &mut Attacker) -> io::Result<()> {
    clients(attacker, 2, |attacker, peers| {
        for _ in 0..BATCH {
            let mut bytes = valid(attacker, &peers[0]).to_bytes();
            spoil(&mut attacker.rng, &mut bytes);
            let portals = [portal::OST_REQUEST, portal::OST_IO, portal::LDLM_CANCEL_REQUEST];
            peers[0].send_bytes(portals[attacker.rng.below(3) as usize], &bytes);
        }
        attacker.tally.sent += BATCH;
        if attacker.rng.one_in(20) {
            let bytes = valid(attacker, &peers[0]).to_bytes();
            peers[0].send_half(portal::OST_REQUEST, &bytes);
            peers[0].drain(attacker);
            drop(peers.remove(0));
        }
    })
}

/// Returns a valid request.
fn valid(attacker: &mut Attacker, peer: &Peer) -> Message<'static> {
    match attacker.rng.below(6) {
        0 => connect(&format!("hostile-{}", attacker.rng.below(8))),
        1 => peer.request(&PING),
        2 => peer.request(&OST_STATFS),
        3 => peer.request(&OST_GETATTR).with(&OST_BODY, &object(1)),
        4 => peer.enqueue(2 + attacker.rng.below(4)),
        _ => io_request(peer, false, 1 + attacker.rng.below(u64::from(MIB)) as u32),
    }
}

fn object(number: u32) -> Obdo {
    let id = OstId::Fid(Fid { seq: 0x2_4000_0400, oid: number, version: 0 });
    Obdo { valid: Valid::FLID, id, ..Obdo::default() }
}

/// A read or a write of some bytes, as one part of bulk.
fn io_request(peer: &Peer, writes: bool, len: u32) -> Message<'static> {
    let parts = len.div_ceil(MIB).next_power_of_two();
    let io = IoObject { max_brw: MaxBrw::new(parts), ranges: 1, ..IoObject::default() };
    peer.request(if writes { &OST_WRITE } else { &OST_READ })
        .with(&OST_BODY, &object(1))
        .with(&IO_OBJECTS, &List(vec![io]))
        .with(&NIOBUFS, &List(vec![Niobuf { len, ..Niobuf::default() }]))
}

/// Writes whose data are never sent, and reads whose data are not taken.
pub(super) fn bulk_unanswered(attacker: &mut Attacker) -> io::Result<()> {
    clients(attacker, 4, |attacker, peers| {
        for peer in peers.iter_mut() {
            for _ in 0..8 {
                let len = 1 + attacker.rng.below(4 * u64::from(MIB)) as u32;
                let writes = !attacker.rng.one_in(4);
                let message = io_request(peer, writes, len);
                peer.send(portal::OST_IO, message);
            }
            peer.gets.clear();
        }
        attacker.tally.sent += 32;
    })
}

/// Writes whose data are shorter or longer than the server asks for.
pub(super) fn bulk_sizes(attacker: &mut Attacker) -> io::Result<()> {
    clients(attacker, 2, |attacker, peers| {
        for peer in peers.iter_mut() {
            let message = io_request(peer, true, 1 + attacker.rng.below(u64::from(MIB)) as u32);
            peer.send(portal::OST_IO, message);
            while let Some((handle, len)) = peer.gets.pop_front() {
                let len = match attacker.rng.below(4) {
                    0 => 0,
                    1 => len.saturating_sub(1),
                    2 => (len + 1).min(MIB),
                    _ => attacker.rng.below(u64::from(MIB)) as u32,
                };
                peer.reply(handle, len as usize);
            }
        }
        attacker.tally.sent += 2;
    })
}

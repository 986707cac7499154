//! Locks: those of others, those that do not exist, and callbacks that are never answered.

use std::io;
use std::time::Duration;

use fulmar_lustre_wire::format::{CONVERT, ENQUEUE_EXTENT, LOCK_REQUEST, OST_STATFS};
use fulmar_lustre_wire::ldlm::{LockFlags, LockMode, LockRequest, LockType, ResourceId};
use fulmar_lustre_wire::{Handle, portal};

use super::rpc::clients;
use crate::hostile::attacker::Attacker;
use crate::hostile::requests::{CONTESTED, Peer, enqueue};

/// Clients that hold locks at once.
const HOLDERS: u64 = 3;
const BATCH: u64 = 32;

/// Acquires the lock that an honest client wants, and answers no callback: it is evicted, and comes
/// again as another client.
pub(super) fn callbacks_unanswered(attacker: &mut Attacker) -> io::Result<()> {
    let mut holders: Vec<Peer> = Vec::new();
    let mut number = 0;
    while attacker.goes_on() {
        if (holders.len() as u64) < HOLDERS {
            number += 1;
            if let Ok(mut peer) = Peer::connect(attacker, number) {
                peer.lock(attacker, CONTESTED);
                holders.push(peer);
            }
        } else {
            attacker.ready();
            attacker.wait(Duration::from_millis(200));
        }
        let mut rest = Vec::new();
        for mut peer in holders {
            let request = peer.request(&OST_STATFS);
            let reply = peer.ask(attacker, portal::OST_REQUEST, request);
            if reply.is_some_and(|reply| reply.body.status.errno().is_none()) {
                rest.push(peer);
            }
        }
        holders = rest;
    }
    Ok(())
}

/// Cancels and converts locks of another client, and such that do not exist.
pub(super) fn of_others(attacker: &mut Attacker) -> io::Result<()> {
    let mut object = 100;
    clients(attacker, 2, |attacker, peers| {
        object += 1;
        let Some(lock) = peers[1].lock(attacker, object) else { return };
        for _ in 0..BATCH {
            for lock in [lock, Handle(attacker.rng.u64())] {
                let cancel = peers[0].cancel(lock);
                let portals = [portal::LDLM_CANCEL_REQUEST, portal::OST_REQUEST];
                peers[0].send(portals[attacker.rng.below(2) as usize], cancel);
                let convert = LockRequest { handles: vec![lock, Handle::NONE], ..enqueue(object) };
                let convert = peers[0].request(&CONVERT).with(&LOCK_REQUEST, &convert);
                peers[0].send(portal::LDLM_CANCEL_REQUEST, convert);
            }
        }
        let many = LockRequest { count: u32::MAX, handles: vec![lock; 100], ..enqueue(object) };
        let many = peers[0].request(&ENQUEUE_EXTENT).with(&LOCK_REQUEST, &many);
        peers[0].send(portal::OST_REQUEST, many);
        attacker.tally.sent += 4 * BATCH + 1;
        peers[0].drain(attacker);
        let cancel = peers[1].cancel(lock);
        peers[1].ask(attacker, portal::LDLM_CANCEL_REQUEST, cancel);
    })
}

/// Requests for locks of types, modes, resources and flags that the target does not have.
pub(super) fn invalid(attacker: &mut Attacker) -> io::Result<()> {
    clients(attacker, 2, |attacker, peers| {
        for _ in 0..BATCH {
            let rng = &mut attacker.rng;
            // Held locks would add up.
            let mut lock = LockRequest { flags: LockFlags::BLOCK_NOWAIT, ..enqueue(50) };
            let desc = &mut lock.lock;
            match rng.below(5) {
                0 => {
                    desc.resource.kind =
                        LockType([0, 9, 10, 12, 13, u32::MAX][rng.below(6) as usize])
                }
                1 => {
                    desc.requested = LockMode([0, 3, 32, 64, 128, u32::MAX][rng.below(6) as usize])
                }
                2 => desc.policy.words = [rng.u64(), rng.below(100), rng.u64()],
                3 => {
                    desc.resource.kind = LockType::PLAIN;
                    desc.resource.id = ResourceId { name: [rng.u64(); 4] };
                }
                _ => lock.flags = LockFlags(rng.u64() as u32),
            }
            let request = peers[0].request(&ENQUEUE_EXTENT).with(&LOCK_REQUEST, &lock);
            peers[0].send(portal::OST_REQUEST, request);
        }
        attacker.tally.sent += BATCH;
    })
}

//! Damaged requests of kernel nodes: each is answered or refused, and the accounts add up afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;

use fulmar_base::{Errno, Rng};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::message::{Container, Message};
use fulmar_lustre_wire::{Handle, Opcode};
use fulmar_ost::{Call, Holder, Ost, Settings};
use fulmar_store::{Policy, Store};
use fulmar_trace::lnet;
use fulmar_trace::rpc::Calls;

use crate::rig::{NOW, Rig, asked, asked_by_mdt};

/// How many damaged requests are played.
const ROUNDS: usize = 2_500;

/// Returns the requests of a capture to OSTs.
fn requests(name: &str) -> Vec<Vec<u8>> {
    let path = format!("{}/../../testdata/traces/{name}.pcapng.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let items = lnet::items(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let all = Calls::of(&items).rpcs;
    let is_ours = |opcode| Ost::OPERATIONS.contains(&opcode) || opcode == Opcode::OST_CONNECT;
    let ours = all.iter().filter(|rpc| is_ours(rpc.request.message.body.opcode));
    ours.map(|rpc| rpc.request.bytes.to_vec()).collect()
}

/// Damages what follows the body.
fn damage(rng: &mut Rng, bytes: &mut [u8]) {
    for _ in 0..rng.between(1, 6) {
        let at = rng.between(200, (bytes.len() as u64 - 1).min(600)) as usize;
        let byte = &mut bytes[at];
        *byte = match rng.below(4) {
            0 => 0,
            1 => 0xff,
            2 => byte.wrapping_add(1),
            _ => rng.below(256) as u8,
        };
    }
}

fn play(rig: &mut Rig, rng: &mut Rng, message: &Message<'_>) -> Result<(), Errno> {
    let xid = rig.next_xid();
    let call =
        Call { export: Handle(rng.between(1, 3)), nid: Nid::LOOPBACK, xid, now: NOW, message };
    let is_io = matches!(message.body.opcode, Opcode::OST_READ | Opcode::OST_WRITE);
    let transfer = if is_io { rig.ost.prepare(&call)? } else { None };
    match transfer {
        Some(transfer) if rng.one_in(4) || transfer.len() > 1 << 20 => rig.ost.abandon(transfer),
        Some(transfer) => {
            let data = vec![7; transfer.len() as usize];
            rig.ost.abandon(transfer);
            match message.body.opcode {
                Opcode::OST_WRITE => drop(rig.write_call(&call, &data)?),
                _ => drop(rig.read_call(&call)?),
            }
        }
        None => drop(rig.ost.execute(&call)?),
    }
    Ok(())
}

#[test]
fn damaged_requests_are_answered_or_refused() {
    let mut rng = Rng::new(7);
    let requests: Vec<Vec<u8>> =
        ["data", "ost-join"].iter().flat_map(|name| requests(name)).collect();
    let store = Arc::new(Store::memory(b"OST", Policy::default()));
    let mut rig = Rig::on(store, Settings::default());
    rig.connect(1, "mdt", asked_by_mdt()).unwrap();
    rig.connect(2, "client", asked()).unwrap();
    rig.connect(3, "another", asked()).unwrap();
    rig.create(0x60);
    let (mut done, mut refused) = (0, BTreeSet::new());
    for round in 0..ROUNDS {
        let mut bytes = requests[rng.below(requests.len() as u64) as usize].clone();
        damage(&mut rng, &mut bytes);
        if Container::decode(&bytes).is_err() {
            continue;
        }
        let Ok(message) = Message::decode(&bytes) else { continue };
        match play(&mut rig, &mut rng, &message) {
            Ok(()) => done += 1,
            Err(errno) => drop(refused.insert(errno)),
        }
        if round % 100 == 0 {
            rig.store.commit().unwrap();
            rig.ost.check().unwrap();
        }
    }
    rig.ost.check().unwrap();
    assert!(done > ROUNDS / 4, "{done}");
    let known = [Errno::EPROTO, Errno::ENOENT, Errno::EBADF];
    assert!(known.iter().all(|errno| refused.contains(errno)), "{refused:?}");
}

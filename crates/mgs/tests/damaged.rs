//! Damaged requests of kernel clients: each is answered or refused, and no answer is longer than a
//! transfer.

use std::collections::BTreeSet;

use fulmar_base::{Errno, Rng};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::Opcode;
use fulmar_lustre_wire::message::{Container, Message};
use fulmar_mgs::{Mgs, Start, Target, TargetName};
use fulmar_rpc::import::TargetKind;
use fulmar_trace::lnet;
use fulmar_trace::rpc::Calls;

/// How many damaged requests are played.
const ROUNDS: usize = 30_000;

fn mgs() -> Mgs {
    let server: Nid = "10.99.0.2@tcp".parse().unwrap();
    let mut mgs = Mgs::default();
    let targets = (0..200).map(|index| (TargetKind::Ost, index));
    for (kind, index) in std::iter::once((TargetKind::Mdt, 0)).chain(targets) {
        let name = TargetName { file_system: "lv".into(), kind, index };
        mgs.add(1_795_184_336, &name, Target { nodes: vec![vec![server]] }).unwrap();
    }
    for index in 0..200 {
        let nids = vec![server; 4];
        mgs.table("lv").started(Start { kind: TargetKind::Ost, index, instance: 1, nids });
    }
    mgs
}

/// Returns the requests that a client sends to mount, and a target to join.
fn requests() -> Vec<Vec<u8>> {
    [requests_of("mount"), requests_of("ost-join")].concat()
}

fn requests_of(name: &str) -> Vec<Vec<u8>> {
    let path = format!("{}/../../testdata/traces/{name}.pcapng.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let items = lnet::items(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let all = Calls::of(&items).rpcs;
    let is_ours = |opcode| Mgs::OPERATIONS.contains(&opcode) || opcode == Opcode::MGS_CONNECT;
    let ours = all.iter().filter(|rpc| is_ours(rpc.request.message.body.opcode));
    ours.map(|rpc| rpc.request.bytes.to_vec()).collect()
}

/// Damages what follows the header of the container, which is damaged in the tests of the codec.
fn damage(rng: &mut Rng, bytes: &mut [u8]) {
    for _ in 0..rng.between(1, 6) {
        let at = rng.between(200, bytes.len() as u64 - 1) as usize;
        bytes[at] = match rng.below(4) {
            0 => 0,
            1 => 0xff,
            2 => bytes[at].wrapping_add(1),
            _ => rng.below(256) as u8,
        };
    }
}

#[test]
fn damaged_requests_are_answered_or_refused() {
    let (mgs, requests, mut rng) = (mgs(), requests(), Rng::new(7));
    let (mut answered, mut refused) = (0, BTreeSet::new());
    for round in 0..ROUNDS {
        let mut bytes = requests[round % requests.len()].clone();
        if bytes.len() > 240 {
            damage(&mut rng, &mut bytes);
        }
        let Ok(request) = Message::decode(&bytes) else { continue };
        let result = match request.body.opcode {
            Opcode::MGS_TARGET_REG => {
                let registered = mgs.clone().register(0, &request);
                let reply = registered.map_or_else(|reply| *reply, |registered| registered.reply);
                Ok((reply, Vec::new()))
            }
            Opcode::MGS_CONFIG_READ => mgs.read_config(&request),
            _ => mgs.execute(&request).map(|reply| (reply, Vec::new())),
        };
        match result {
            Ok((reply, data)) => {
                answered += 1;
                assert!(reply.to_bytes().len() <= Container::LEN_MAX && data.len() <= 1 << 20);
            }
            Err(errno) => drop(refused.insert(errno.0)),
        }
    }
    // The rounds have met what they are for.
    assert!(answered > ROUNDS / 10, "{answered} are answered");
    let wanted = [Errno::EPROTO, Errno::ENOENT, Errno::EINVAL].map(|errno| errno.0);
    assert!(wanted.iter().all(|errno| refused.contains(errno)), "{refused:?}");
}

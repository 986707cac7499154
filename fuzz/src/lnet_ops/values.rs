//! Random arguments of operations.

use fulmar_base::BufferId;
use fulmar_lnet::{Get, Md, MdOptions, Me, MePosition, Put, ServiceConfig};
use fulmar_lnet_wire::{MTU, Net, Nid, ProcessId};

use crate::Choices;

pub(super) const SERVICES: usize = 3;
pub(super) const SERVICE_CONFIGS: [ServiceConfig; SERVICES] = [
    ServiceConfig { own_nids_are_loopback: false },
    ServiceConfig { own_nids_are_loopback: true },
    ServiceConfig { own_nids_are_loopback: false },
];
pub(super) const COOKIE: u64 = 99;
pub(super) const OURS: [Nid; 2] = [
    Nid::small(Net::TCP, 0x0a00_0001),
    Nid::small(Net::new(fulmar_lnet_wire::NetType::TCP, 1), 0x0a01_0001),
];
pub(super) const PORTALS: [u32; 5] = [0, 4, 5, 63, 64];

pub(super) fn peer(choices: &mut Choices<'_>) -> ProcessId {
    let number = choices.below(6) as u32;
    let net = if number % 2 == 0 { Net::TCP } else { OURS[1].net() };
    ProcessId::lustre(Nid::small(net, 0x0a00_0002 + number))
}

/// A NID on a remote network.
pub(super) fn remote(choices: &mut Choices<'_>) -> Nid {
    let net = Net::new(fulmar_lnet_wire::NetType::TCP, 7);
    Nid::small(net, 0x0a07_0001 + choices.below(3) as u32)
}

pub(super) fn entry(choices: &mut Choices<'_>) -> Me {
    let peer = peer(choices);
    Me {
        match_id: choices.of(&[peer, ProcessId::ANY]),
        match_bits: choices.below(4) as u64,
        ignore_bits: choices.of(&[0, 3, u64::MAX]),
        unlink: choices.flag(),
        position: choices.of(&[MePosition::Before, MePosition::After]),
    }
}

/// Chooses the target of a request, and our NID if it matters.
pub(super) fn route(choices: &mut Choices<'_>) -> (ProcessId, Option<Nid>) {
    let (peer, own) = (peer(choices), ProcessId::lustre(choices.of(&OURS)));
    let looped = ProcessId::lustre(Nid::LOOPBACK);
    let target = choices.of(&[peer, peer, peer, own, looped]);
    (target, choices.flag().then(|| choices.of(&OURS)))
}

pub(super) fn put(choices: &mut Choices<'_>) -> Put {
    let (target, source) = route(choices);
    let (portal, match_bits) = (choices.of(&PORTALS), choices.below(4) as u64);
    let (offset, ack) = (choices.below(5000) as u32, choices.flag());
    Put { ack, source, target, portal, match_bits, offset, header_data: 1 }
}

pub(super) fn get(choices: &mut Choices<'_>) -> Get {
    let (target, source) = route(choices);
    let (portal, match_bits) = (choices.of(&PORTALS), choices.below(4) as u64);
    let offset = choices.below(5000) as u32;
    Get { source, target, portal, match_bits, offset }
}

/// A descriptor that a service may bind.
pub(super) fn bound_md() -> Md {
    Md {
        buffer: BufferId(1),
        offset: 0,
        len: 8,
        threshold: Some(1),
        options: MdOptions::default(),
        max_size: 0,
        auto_unlink: true,
        user: 0,
    }
}

pub(super) fn descriptor(choices: &mut Choices<'_>) -> Md {
    Md {
        buffer: BufferId(choices.below(4) as u64),
        offset: choices.below(100) as u64,
        len: choices.of(&[0, 8, 4096, u64::from(MTU), u64::from(MTU) + 1]),
        threshold: choices.of(&[None, None, Some(0), Some(1), Some(2)]),
        options: MdOptions(u32::from(choices.byte()) | choices.below(16) as u32 * 256),
        max_size: choices.of(&[0, 8, 4096]),
        auto_unlink: choices.flag(),
        user: 0,
    }
}

pub(super) fn take<T>(list: &mut Vec<T>, choices: &mut Choices<'_>) -> Option<T> {
    let at = choices.below(list.len());
    (at < list.len()).then(|| list.swap_remove(at))
}

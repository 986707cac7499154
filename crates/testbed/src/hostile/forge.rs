//! Messages of attackers: valid in form, whatever they claim.

use fulmar_lnet_wire::ping::{Features, NiEntry, NiStatus, PingInfo};
use fulmar_lnet_wire::selftest::{self, Brw, Direction, FEATURES, Message, Service};
use fulmar_lnet_wire::{Body, Handle, Header, Nid, PING_MATCH_BITS, Pid, RESERVED_PORTAL};
use fulmar_wire::Order;

/// The handle of an answer that the attacker asks for.
pub(super) const HANDLE: Handle = Handle { interface: 7, object: 9 };

/// Returns a header without payload.
pub(super) fn header(source: Nid, target: Nid, body: Body) -> Header {
    Header {
        target,
        source,
        target_pid: Pid::LUSTRE,
        source_pid: Pid::LUSTRE,
        payload_len: 0,
        body,
    }
}

/// A GET of the ping info.
pub(super) fn ping(source: Nid, target: Nid) -> Header {
    get(source, target, RESERVED_PORTAL, PING_MATCH_BITS, PingInfo::SIZE_MAX)
}

pub(super) fn get(source: Nid, target: Nid, portal: u32, bits: u64, len: u32) -> Header {
    let body = Body::Get { reply: HANDLE, match_bits: bits, portal, offset: 0, sink_len: len };
    header(source, target, body)
}

pub(super) fn put(source: Nid, target: Nid, portal: u32, bits: u64, ack: bool) -> Header {
    let ack = if ack { HANDLE } else { Handle::NONE };
    header(source, target, Body::Put { ack, match_bits: bits, header_data: 0, portal, offset: 0 })
}

/// A push of ping info.
pub(super) fn push(source: Nid, target: Nid) -> Header {
    put(source, target, RESERVED_PORTAL, PING_MATCH_BITS, true)
}

/// Returns ping info with these NIDs, the first of which is the primary one.
pub(super) fn info(nids: &[Nid], sequence: u32) -> Vec<u8> {
    let all = Features::NI_STATUS
        .with(Features::MULTI_RAIL)
        .with(Features::DISCOVERY)
        .with(Features::RTE_DISABLED);
    info_with(all, nids, sequence)
}

/// The same with these features.
pub(super) fn info_with(features: Features, nids: &[Nid], sequence: u32) -> Vec<u8> {
    let large = nids.iter().any(|nid| nid.is_large());
    let features = if large { features.with(Features::LARGE_ADDR) } else { features };
    let primary_large = nids.first().is_some_and(|nid| nid.is_large());
    let features = if primary_large { features.with(Features::PRIMARY_LARGE) } else { features };
    let entries = nids.iter().map(|nid| NiEntry { nid: *nid, status: NiStatus::UP }).collect();
    let mut bytes = Vec::new();
    PingInfo { features, pid: Pid::LUSTRE, sequence, entries }.encode(Order::Little, &mut bytes);
    bytes
}

/// The header and the payload of a request of LNet selftest.
pub(super) fn request(
    (source, target): (Nid, Nid),
    service: Service,
    body: selftest::Body,
    ack: bool,
) -> (Header, Vec<u8>) {
    let message = Message::new(FEATURES, body).to_bytes();
    (put(source, target, service.portal(), service.0, ack), message)
}

/// A request for a bulk transfer of 1 MiB.
pub(super) fn bulk(between: (Nid, Nid), direction: Direction, id: u64) -> (Header, Vec<u8>) {
    let brw = Brw { reply_id: id, bulk_id: id, direction, len: 1 << 20, flags: 0 };
    request(between, Service::BRW, selftest::Body::Brw(brw), false)
}

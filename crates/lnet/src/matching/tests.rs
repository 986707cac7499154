use fulmar_base::{BufferId, Payload, Sink, Span};
use fulmar_lnet_wire::{Body, Header, Net, Pid, ProcessId};

use super::*;
use crate::api::{EventDone, EventKind, MePosition};
use crate::ni::NiId;
use crate::peers::PeerNiId;
use std::time::Duration;

const PORTAL: u32 = 12;
const COOKIE: u64 = 99;
const TRACKING: Tracking = Tracking { bits: 3, timeout: Duration::from_secs(150) };

fn nid(n: u32) -> Nid {
    Nid::small(Net::TCP, n)
}

fn matching() -> (Matching, ServiceId) {
    let mut matching = Matching::new(COOKIE);
    let service = matching.open(ServiceConfig::default());
    (matching, service)
}

fn md(len: u64, threshold: Option<u32>, options: MdOptions) -> Md {
    let (buffer, max_size, user) = (BufferId(7), 0, 70);
    Md { buffer, offset: 0, len, threshold, options, max_size, auto_unlink: true, user }
}

fn entry() -> Me {
    Me {
        match_id: ProcessId::ANY,
        match_bits: 5,
        ignore_bits: 0,
        unlink: true,
        position: MePosition::After,
    }
}

fn query(operation: MdOptions, len: u32) -> Query {
    let (initiator, pid) = (nid(2), Pid::LUSTRE);
    Query { operation, initiator, pid, portal: PORTAL, match_bits: 5, offset: 0, len }
}

fn header(from: Nid, payload_len: u32, body: Body) -> Header {
    let (target_pid, source_pid) = (Pid::LUSTRE, Pid::LUSTRE);
    Header { target: nid(1), source: from, target_pid, source_pid, payload_len, body }
}

fn put(ack: Handle) -> Body {
    Body::Put { ack, match_bits: 5, header_data: 3, portal: PORTAL, offset: 0 }
}

fn found(matched: SearchResult) -> Placement {
    match matched {
        SearchResult::Found(found) => found,
        other => panic!("{other:?}"),
    }
}

fn alone(_: Nid, _: Nid) -> bool {
    false
}

/// Begins a PUT that is to be acknowledged, and says that it went to node 2.
fn request(matching: &mut Matching, md: MdId) -> Operation {
    let body = put(matching.handle(md));
    let begun = matching.begin_request(Time::ZERO, md, &body, TRACKING).unwrap();
    let (ni, peer_ni, at) = (NiId(1), PeerNiId::NONE, Time::ZERO);
    let target = Some(nid(2));
    let request = Request { target, put: false, get: false, ni, peer_ni, route: None, at };
    matching.note_request(md, &body, request, alone);
    begun.operation
}

#[test]
fn a_put_goes_to_the_memory_that_matches_and_ends_with_its_event() {
    let (mut matching, service) = matching();
    let me = matching.attach_entry(service, PORTAL, entry()).unwrap();
    let posted = md(100, Some(2), MdOptions::OP_PUT);
    let (id, portal) = matching.attach(service, me, posted, Memory::Buffer).unwrap();
    assert_eq!(portal, PORTAL);
    assert_eq!(matching.incoming(&query(MdOptions::OP_GET, 0), alone), SearchResult::Nothing);
    assert_eq!(matching.incoming(&query(MdOptions::OP_PUT, 101), alone), SearchResult::TooLong);
    let first = found(matching.incoming(&query(MdOptions::OP_PUT, 60), alone));
    let second = found(matching.incoming(&query(MdOptions::OP_PUT, 40), alone));
    let span = |offset, len| Sink::Span(Span { buffer: BufferId(7), offset, len });
    assert_eq!([first, second].map(|found| matching.sink(found)), [span(0, 60), span(60, 40)]);
    // Its threshold is used up: the entry is gone before the operations have ended.
    assert_eq!(matching.incoming(&query(MdOptions::OP_PUT, 0), alone), SearchResult::Nothing);
    assert_eq!(matching.check(|_| 2), Ok(()));
    let header = header(nid(2), 60, put(Handle { interface: 1, object: 2 }));
    assert!(matching.is_acknowledged(id, &header));
    let done = Some(EventDone(9));
    let Completion { owner, event } =
        matching.end(&Operation::put(first), &header, nid(3), Ok(()), done);
    assert_eq!(
        (owner, event.kind, event.unlinked),
        (Owner::Service(service), EventKind::Put, false)
    );
    assert_eq!((event.sender, event.mlength, event.header_data), (nid(3), 60, 3));
    assert_eq!((event.done, event.user), (done, 70));
    let last = matching.end(&Operation::put(second), &header, nid(3), Ok(()), None).event;
    assert!(last.unlinked && last.offset == 60);
    assert!(!matching.is_live(id));
}

#[test]
fn the_bytes_of_a_get_are_those_of_the_descriptor() {
    let (mut matching, service) = matching();
    let me = matching.attach_entry(service, PORTAL, entry()).unwrap();
    let posted = md(4, None, MdOptions::OP_GET);
    let bytes: std::sync::Arc<[u8]> = [1, 2, 3, 4].into();
    matching.attach(service, me, posted, Memory::Bytes(bytes.clone())).unwrap();
    let granted = found(matching.incoming(&query(MdOptions::OP_GET, 4), alone));
    assert_eq!(matching.payload(granted), Payload::Inline(bytes));
}

#[test]
fn a_response_is_taken_from_the_node_that_was_asked_alone() {
    let (mut matching, service) = matching();
    let id = matching.bind(service, md(9, Some(2), MdOptions::default()), Memory::Buffer).unwrap();
    let sent = request(&mut matching, id);
    assert_eq!(matching.awaited(), 1);
    let ack = Body::Ack { handle: matching.handle(id), match_bits: 5, accepted: 9 };
    let reply = Body::Reply { handle: matching.handle(id) };
    let other_start = Body::Ack {
        handle: Handle { interface: COOKIE + 1, object: id.0 },
        match_bits: 5,
        accepted: 9,
    };
    for wrong in [header(nid(3), 0, ack), header(nid(2), 9, reply), header(nid(2), 0, other_start)]
    {
        assert!(matching.find_response(&wrong, false, alone).is_err(), "{wrong:?}");
    }
    // Another NID of the same node.
    let answer = header(nid(3), 0, ack);
    assert_eq!(matching.find_response(&answer, false, |_, _| true), Ok((id, 9)));
    assert_eq!((matching.awaited(), matching.poll_timeout()), (0, None));
    assert!(matching.find_response(&answer, false, |_, _| true).is_err(), "it has been answered");
    let request = header(nid(2), 9, put(matching.handle(id)));
    assert!(!matching.end(&sent, &request, Nid::ANY, Ok(()), None).event.unlinked);
    let response = Operation::response(id, nid(2), 9);
    let event = matching.end(&response, &answer, nid(3), Ok(()), None).event;
    assert_eq!((event.kind, event.mlength, event.unlinked), (EventKind::Ack, 9, true));
}

#[test]
fn a_descriptor_that_is_unlinked_lives_until_its_last_operation_has_ended() {
    let (mut matching, service) = matching();
    let new = || md(9, Some(2), MdOptions::default());
    let idle = matching.bind(service, new(), Memory::Buffer).unwrap();
    let event = matching.unlink(idle).unwrap().event;
    assert_eq!((event.kind, event.md, event.unlinked), (EventKind::Unlink, idle, true));
    let busy = matching.bind(service, new(), Memory::Buffer).unwrap();
    let sent = request(&mut matching, busy);
    assert!(matching.unlink(busy).is_none() && matching.unlink(busy).is_none());
    assert!(matching.is_aborted(busy) && !matching.is_live(busy));
    assert_eq!(matching.awaited(), 0);
    let header = header(nid(2), 9, put(Handle::NONE));
    let event = matching.end(&sent, &header, Nid::ANY, Ok(()), None).event;
    assert_eq!((event.status, event.unlinked), (Err(Errno::ETIMEDOUT), true));
    assert_eq!(matching.check(|_| unreachable!("no descriptor is left")), Ok(()));
}

#[test]
fn a_late_response_is_reported_once() {
    let (mut matching, service) = matching();
    let id = matching.bind(service, md(9, Some(2), MdOptions::default()), Memory::Buffer).unwrap();
    let _sent = request(&mut matching, id);
    assert_eq!(matching.poll_timeout(), Some(Time::from_secs(150)));
    assert!(matching.pop_late(Time::from_secs(149)).is_none());
    let late = matching.pop_late(Time::from_secs(150)).unwrap();
    assert_eq!((late.md, late.owner), (id, Owner::Service(service)));
    assert_eq!(late.request.unwrap().target, Some(nid(2)));
    assert!(matching.pop_late(Time::MAX).is_none());
}

#[test]
fn responses_are_tracked_as_settings_and_descriptors_say() {
    let tracked = |bits, options, ack| {
        let (mut matching, service) = matching();
        let id = matching.bind(service, md(9, Some(2), options), Memory::Buffer).unwrap();
        let body = put(if ack { matching.handle(id) } else { Handle::NONE });
        let tracking = Tracking { bits, ..TRACKING };
        matching.begin_request(Time::ZERO, id, &body, tracking).unwrap();
        matching.awaited() == 1
    };
    let none = MdOptions::default();
    assert!(tracked(2, none, true) && tracked(0, MdOptions::TRACK_RESPONSE, true));
    assert!(!tracked(1, none, true) && !tracked(3, none, false));
    assert!(!tracked(3, MdOptions::NO_TRACK_RESPONSE, true));
}

#[test]
fn a_closed_service_leaves_its_descriptors_to_be_unlinked() {
    let (mut matching, service) = matching();
    let me = matching.attach_entry(service, PORTAL, entry()).unwrap();
    let posted = md(9, None, MdOptions::OP_PUT);
    let (attached, _) = matching.attach(service, me, posted, Memory::Buffer).unwrap();
    let bound = matching.bind(service, md(9, None, MdOptions::default()), Memory::Buffer).unwrap();
    assert_eq!(matching.close(service), Ok(vec![attached, bound]));
    assert_eq!(matching.incoming(&query(MdOptions::OP_PUT, 1), alone), SearchResult::Nothing);
    assert_eq!(matching.close(service), Err(Errno::ENOENT));
    assert_eq!(matching.service(service), Err(Errno::ESHUTDOWN));
}

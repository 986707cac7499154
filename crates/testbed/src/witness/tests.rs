//! Each check gets a history that breaks its invariant, and the same history without the error.

use fulmar_base::{ConnId, Errno, MessageId, Payload};
use fulmar_lnet::views::{Health, PeerNi, Pool};
use fulmar_lnet::{Event, EventDone, EventKind, Md, MdId, MdOptions};
use fulmar_lnet_wire::ping::{Features, NiEntry, NiStatus, PingInfo};
use fulmar_lnet_wire::{Body, Handle, Header, Nid, PING_MATCH_BITS, Pid, ProcessId};
use fulmar_wire::Order;

use super::answers::Answers;
use super::arrivals::Arrivals;
use super::credits::Credits;
use super::discovery::Discovery;
use super::operations::{Operations, Request};
use super::transits::Transits;
use super::{Directory, Terms, Verdict};

const CALM: Terms = Terms {
    peer_credits: 2,
    credits: 3,
    discovers: true,
    calm: true,
    insensitive: false,
    delays: false,
};
const MD: MdId = MdId(5);
const HANDLE: Handle = Handle { interface: 99, object: 5 };
const CONN: ConnId = ConnId(1);

fn nid(number: u8) -> Nid {
    format!("10.0.0.{number}@tcp").parse().unwrap()
}

/// NID 1 is local; 2 and 3 belong to one peer.
struct Names;

impl Directory for Names {
    fn is_own(&self, nid: Nid) -> bool {
        nid == self::nid(1)
    }

    fn of_peer(&self, nid: Nid) -> Vec<Nid> {
        let pair = [self::nid(2), self::nid(3)];
        if pair.contains(&nid) { pair.to_vec() } else { vec![nid] }
    }

    fn is_gateway(&self, nid: Nid) -> bool {
        self.of_peer(nid).contains(&self::nid(2))
    }
}

/// Requires that a verdict has this invariant.
#[track_caller]
fn broken(number: u8, verdict: Verdict) {
    assert_eq!(verdict.map_err(|finding| finding.number), Err(number));
}

fn header(source: u8, target: u8, body: Body) -> Header {
    Header {
        target: nid(target),
        source: nid(source),
        target_pid: Pid::LUSTRE,
        source_pid: Pid::LUSTRE,
        payload_len: if matches!(body, Body::Put { .. }) { 100 } else { 0 },
        body,
    }
}

fn put(header_data: u64) -> Body {
    Body::Put { ack: HANDLE, match_bits: 7, header_data, portal: 41, offset: 0 }
}

fn get() -> Body {
    Body::Get { reply: HANDLE, match_bits: 7, portal: 41, offset: 0, sink_len: 100 }
}

fn ack(accepted: u32) -> Body {
    Body::Ack { handle: HANDLE, match_bits: 7, accepted }
}

fn event(kind: EventKind) -> Event {
    let id = |number| ProcessId::lustre(nid(number));
    Event {
        kind,
        status: Ok(()),
        md: MD,
        user: 0,
        target: id(1),
        initiator: id(2),
        source: id(2),
        sender: nid(2),
        portal: 41,
        match_bits: 7,
        rlength: 100,
        mlength: 100,
        offset: 0,
        header_data: 1,
        unlinked: false,
        done: None,
    }
}

fn made() -> Md {
    Md {
        buffer: fulmar_base::BufferId(1),
        offset: 0,
        len: 100,
        threshold: Some(2),
        options: MdOptions::OP_PUT,
        max_size: 0,
        auto_unlink: true,
        user: 0,
    }
}

fn request(answer: EventKind) -> Request {
    Request { answer: Some(answer), source: None, target: nid(2) }
}

fn begun() -> Operations {
    let mut operations = Operations::default();
    operations.declare(MD, made());
    operations.begins(MD, &request(EventKind::Ack));
    operations
}

#[test]
fn a_send_and_its_answer_occur_in_any_order_and_once() {
    for kinds in [[EventKind::Send, EventKind::Ack], [EventKind::Ack, EventKind::Send]] {
        let mut operations = begun();
        operations.event(&event(kinds[0])).unwrap();
        broken(7, operations.finished(true));
        operations.event(&Event { unlinked: true, ..event(kinds[1]) }).unwrap();
        operations.unlinks(MD);
        operations.finished(true).unwrap();
        broken(7, operations.event(&event(kinds[0])));
    }
    let mut operations = begun();
    operations.event(&event(EventKind::Send)).unwrap();
    broken(7, operations.event(&event(EventKind::Send)));
    let mut operations = begun();
    broken(7, operations.event(&event(EventKind::Reply)));
    let mut operations = begun();
    let failed = Event { status: Err(Errno::EIO), ..event(EventKind::Send) };
    operations.event(&failed).unwrap();
    operations.finished(false).unwrap();
    broken(7, operations.finished(true));
    operations.begins(MD, &request(EventKind::Ack));
    broken(7, operations.finished(false));
}

#[test]
fn a_descriptor_ends_once_and_within_its_threshold() {
    let mut operations = begun();
    broken(8, operations.event(&event(EventKind::Unlink)));
    let mut operations = begun();
    operations.unlinks(MD);
    operations.event(&event(EventKind::Send)).unwrap();
    broken(8, operations.finished(false));
    let mut operations = begun();
    (0..3).for_each(|_| operations.begins(MD, &request(EventKind::Ack)));
    (0..2).for_each(|_| operations.event(&event(EventKind::Send)).unwrap());
    broken(8, operations.event(&event(EventKind::Send)));
    let mut operations = Operations::default();
    operations.declare(MD, made());
    (0..2).for_each(|_| operations.event(&event(EventKind::Put)).unwrap());
    broken(12, operations.event(&event(EventKind::Put)));
}

#[test]
fn lengths_are_limited() {
    let judge = |made: Md, event: Event| {
        let mut operations = Operations::default();
        operations.declare(MD, made);
        operations.event(&event)
    };
    let put = event(EventKind::Put);
    judge(made(), put).unwrap();
    broken(13, judge(made(), Event { rlength: 99, ..put }));
    broken(13, judge(made(), Event { offset: 1, ..put }));
    broken(13, judge(made(), Event { rlength: 101, ..put }));
    let cuts = Md { options: MdOptions::OP_PUT.with(MdOptions::TRUNCATE), ..made() };
    judge(cuts, Event { rlength: 101, ..put }).unwrap();
    let capped =
        Md { options: MdOptions::OP_PUT.with(MdOptions::MAX_SIZE), max_size: 99, ..made() };
    broken(13, judge(capped, put));
}

#[test]
fn a_given_pair_is_kept() {
    let mut operations = Operations::default();
    let pair = Request { source: Some(nid(1)), ..request(EventKind::Ack) };
    operations.begins(MD, &pair);
    operations.given_pairs_are_kept(&header(1, 2, put(1))).unwrap();
    broken(33, operations.given_pairs_are_kept(&header(1, 3, put(1))));
    broken(33, operations.given_pairs_are_kept(&header(4, 2, put(1))));
}

/// PUTs with these header data were received from 2.
fn arrived(header_data: &[u64]) -> Arrivals {
    let mut arrivals = Arrivals::new(CALM);
    for data in header_data {
        arrivals.received(CONN, (nid(1), nid(2)), &header(2, 1, put(*data)));
    }
    arrivals
}

fn put_event(header_data: u64) -> Event {
    Event { header_data, ..event(EventKind::Put) }
}

#[test]
fn an_event_needs_a_received_message() {
    arrived(&[1]).put(&put_event(1)).unwrap();
    broken(16, arrived(&[1]).put(&put_event(2)));
    broken(16, arrived(&[1]).put(&Event { match_bits: 8, ..put_event(1) }));
    broken(13, arrived(&[1]).put(&Event { rlength: 101, ..put_event(1) }));
    let mut arrivals = Arrivals::new(CALM);
    broken(13, arrivals.get(&event(EventKind::Get)));
    arrivals.received(CONN, (nid(1), nid(2)), &header(2, 1, get()));
    arrivals.get(&event(EventKind::Get)).unwrap();
}

#[test]
fn a_connection_keeps_its_order_and_delivers_once() {
    let mut arrivals = arrived(&[1, 2, 3]);
    arrivals.put(&put_event(2)).unwrap();
    arrivals.put(&put_event(3)).unwrap();
    broken(17, arrivals.put(&put_event(1)));
    // Of identical PUTs on two connections either may be first.
    let mut arrivals = arrived(&[0, 2]);
    arrivals.received(ConnId(2), (nid(1), nid(2)), &header(2, 1, put(0)));
    arrivals.received(ConnId(2), (nid(1), nid(2)), &header(2, 1, put(3)));
    for data in [0, 3, 2, 0] {
        arrivals.put(&put_event(data)).unwrap();
    }
    let mut arrivals = arrived(&[1, 1]);
    arrivals.put(&put_event(1)).unwrap();
    broken(18, arrivals.put(&put_event(1)));
    assert_eq!(arrivals.repeated(), 1);
}

#[test]
fn an_ack_follows_the_handler_with_the_accepted_length() {
    let done = EventDone(1);
    let answered =
        |arrivals: &mut Arrivals, body| arrivals.answered(&header(1, 2, body), nid(2), &Names);
    let taken = |handled: bool| {
        let mut arrivals = arrived(&[1]);
        arrivals.put(&Event { done: Some(done), ..put_event(1) }).unwrap();
        if handled {
            arrivals.handled(done);
        }
        arrivals
    };
    let mut arrivals = taken(true);
    answered(&mut arrivals, ack(100)).unwrap();
    broken(14, answered(&mut arrivals, ack(100)));
    broken(14, answered(&mut taken(false), ack(100)));
    broken(14, answered(&mut taken(true), ack(99)));
    let other = Body::Ack { handle: HANDLE, match_bits: 8, accepted: 100 };
    broken(14, answered(&mut taken(true), other));
    broken(14, answered(&mut arrived(&[1]), ack(100)));
}

const OTHER: Handle = Handle { object: 6, ..HANDLE };

/// Two PUTs that differ in the handle for their ACK were received from 2 on two connections.
fn identical() -> Arrivals {
    let body = |ack| Body::Put { ack, match_bits: 7, header_data: 0, portal: 41, offset: 0 };
    let mut arrivals = Arrivals::new(CALM);
    for (conn, handle) in [(1, HANDLE), (2, OTHER)] {
        arrivals.received(ConnId(conn), (nid(1), nid(2)), &header(2, 1, body(handle)));
    }
    arrivals
}

#[test]
fn either_of_two_identical_puts_may_be_acknowledged() {
    let mut arrivals = identical();
    for handle in [OTHER, HANDLE] {
        arrivals.put(&put_event(0)).unwrap();
        let ack = Body::Ack { handle, match_bits: 7, accepted: 100 };
        arrivals.answered(&header(1, 2, ack), nid(2), &Names).unwrap();
    }
}

#[test]
fn the_handlers_of_two_identical_puts_may_return_in_either_order() {
    let mut arrivals = identical();
    // The one that was received last may be the first with an event.
    for done in [EventDone(1), EventDone(2)] {
        arrivals.put(&Event { done: Some(done), ..put_event(0) }).unwrap();
    }
    for (done, handle) in [(EventDone(2), HANDLE), (EventDone(1), OTHER)] {
        arrivals.handled(done);
        let ack = Body::Ack { handle, match_bits: 7, accepted: 100 };
        arrivals.answered(&header(1, 2, ack), nid(2), &Names).unwrap();
    }
}

#[test]
fn an_answer_returns_on_the_path_of_its_request() {
    let mut arrivals = Arrivals::new(CALM);
    arrivals.received(CONN, (nid(1), nid(2)), &header(9, 1, get()));
    let reply = header(1, 9, Body::Reply { handle: HANDLE });
    arrivals.answered(&reply, nid(2), &Names).unwrap();
    arrivals.answered(&reply, nid(3), &Names).unwrap();
    broken(22, arrivals.answered(&reply, nid(4), &Names));
}

#[test]
fn an_answer_to_a_request_of_a_neighbour_goes_to_the_neighbour() {
    let mut arrivals = Arrivals::new(CALM);
    arrivals.received(CONN, (nid(1), nid(9)), &header(9, 1, get()));
    let reply = header(1, 9, Body::Reply { handle: HANDLE });
    arrivals.answered(&reply, nid(9), &Names).unwrap();
    broken(22, arrivals.answered(&reply, nid(2), &Names));
}

#[test]
fn an_answer_to_a_request_by_an_unknown_router_may_take_any_gateway() {
    let mut arrivals = Arrivals::new(CALM);
    arrivals.received(CONN, (nid(1), nid(5)), &header(9, 1, get()));
    let reply = header(1, 9, Body::Reply { handle: HANDLE });
    arrivals.answered(&reply, nid(2), &Names).unwrap();
    broken(22, arrivals.answered(&reply, nid(6), &Names));
}

#[test]
fn only_requested_answers_have_effects() {
    let mut answers = Answers::default();
    broken(15, answers.answers_were_requested(&event(EventKind::Ack)));
    answers.received(&header(2, 1, ack(100)));
    broken(15, answers.answers_were_requested(&event(EventKind::Ack)));
    answers.asked(&header(1, 2, put(1)));
    let stale = Handle { interface: 98, ..HANDLE };
    answers.received(&header(2, 1, Body::Reply { handle: stale }));
    broken(15, answers.answers_were_requested(&event(EventKind::Reply)));
    answers.received(&header(2, 1, ack(100)));
    answers.answers_were_requested(&event(EventKind::Ack)).unwrap();
    broken(15, answers.answers_were_requested(&event(EventKind::Ack)));
}

#[test]
fn the_lnd_has_at_most_as_many_messages_as_credits() {
    let hand = |credits: &mut Credits, message, peer| {
        credits.handed(MessageId(message), (nid(1), nid(peer)), &header(1, peer, put(1)), &Names)
    };
    let mut credits = Credits::new(CALM);
    hand(&mut credits, 1, 2).unwrap();
    hand(&mut credits, 2, 2).unwrap();
    broken(4, hand(&mut credits, 3, 2));
    let mut credits = Credits::new(CALM);
    (1..=3).for_each(|n| hand(&mut credits, n, n as u8 + 1).unwrap());
    broken(4, hand(&mut credits, 4, 9));
    let mut credits = Credits::new(CALM);
    hand(&mut credits, 1, 2).unwrap();
    broken(4, hand(&mut credits, 1, 2));
    credits.returned(MessageId(1));
    assert_eq!(credits.in_lnd(nid(2)), 0);
}

#[test]
fn the_credits_of_the_node_match() {
    let mut credits = Credits::new(CALM);
    let put = header(1, 2, put(1));
    credits.handed(MessageId(1), (nid(1), nid(2)), &put, &Names).unwrap();
    credits.peer_agrees(&peer_ni(1), 0).unwrap();
    broken(2, credits.peer_agrees(&peer_ni(2), 0));
    broken(2, credits.peer_agrees(&peer_ni(0), 0));
    credits.peer_agrees(&peer_ni(0), 1).unwrap();
    let transit = header(8, 9, get());
    credits.handed(MessageId(2), (nid(1), nid(4)), &transit, &Names).unwrap();
    let pool = |free| Pool { buffers: 4, credits: free, ..Pool::default() };
    credits.pools_agree(&[pool(3), pool(4), pool(4)]).unwrap();
    broken(20, credits.pools_agree(&[pool(4), pool(3), pool(4)]));
}

#[test]
fn unknown_nodes_are_pinged() {
    let mut discovery = Discovery::new(CALM);
    let mut says =
        |target, body| discovery.unknown_nodes_are_pinged_first(&header(1, target, body), &Names);
    broken(26, says(2, put(1)));
    broken(26, says(2, get()));
    let bits = PING_MATCH_BITS;
    let ping = Body::Get { reply: HANDLE, match_bits: bits, portal: 0, offset: 0, sink_len: 272 };
    says(2, ping).unwrap();
    says(2, put(1)).unwrap();
    says(3, put(1)).unwrap();
    broken(26, says(4, put(1)));
    let push = Body::Put { ack: HANDLE, match_bits: bits, header_data: 0, portal: 0, offset: 0 };
    discovery.received(&header(4, 1, push));
    discovery.unknown_nodes_are_pinged_first(&header(1, 4, put(1)), &Names).unwrap();
    discovery.pushes_are_acknowledged().unwrap();
    discovery.unknown_nodes_are_pinged_first(&header(1, 4, push), &Names).unwrap();
    broken(27, discovery.pushes_are_acknowledged());
    discovery.received(&header(4, 1, ack(0)));
    discovery.pushes_are_acknowledged().unwrap();
}

#[test]
fn a_change_of_interfaces_has_a_new_sequence_number() {
    let mut discovery = Discovery::new(CALM);
    let mut says = |sequence, nids: &[u8]| {
        let status = NiStatus::UP;
        let entries = nids.iter().map(|number| NiEntry { nid: nid(*number), status }).collect();
        let info = PingInfo { features: Features::NI_STATUS, pid: Pid::LUSTRE, sequence, entries };
        let mut bytes = Vec::new();
        info.encode(Order::Little, &mut bytes);
        let reply = header(1, 2, Body::Reply { handle: HANDLE });
        discovery.a_change_has_a_new_sequence(&reply, &Payload::Inline(bytes.into()))
    };
    says(2, &[1, 5]).unwrap();
    says(2, &[1]).unwrap();
    broken(27, says(2, &[1, 6]));
    says(3, &[1, 6]).unwrap();
    broken(27, says(2, &[1, 5]));
}

#[test]
fn only_received_messages_are_forwarded_once() {
    let mut transits = Transits::new(CALM);
    let given = header(8, 9, put(1));
    broken(19, transits.forwarded_unchanged(&given));
    transits.given(&given);
    broken(19, transits.forwarded_unchanged(&header(8, 9, put(2))));
    broken(19, transits.forwarded_unchanged(&header(8, 7, put(1))));
    transits.forwarded_unchanged(&given).unwrap();
    broken(19, transits.forwarded_unchanged(&given));
    let mut transits = Transits::new(Terms { calm: false, ..CALM });
    transits.given(&given);
    transits.forwarded_unchanged(&header(8, 7, put(1))).unwrap();
}

fn peer_ni(credits: i64) -> PeerNi {
    PeerNi {
        nid: nid(2),
        credits_max: 2,
        credits,
        credits_min: credits,
        router_credits: 0,
        router_credits_min: 0,
        queued_bytes: 0,
        refcount: 0,
        health: Health::default(),
        alive: None,
        priority: 0,
        net_priority: 0,
        preferred_nids: Vec::new(),
        preferred_gateways: Vec::new(),
        traffic: Default::default(),
    }
}

//! Peers that do not answer, that send false data, and that send unexpected messages. Spec:
//! lnet-behaviour §17, 9, 15, 25, 26 and 28.

use fulmar_lnet::EventKind;
use fulmar_lnet_wire::socklnd::ConnKind;
use fulmar_lnet_wire::{Body, Handle, Header, Nid, RESERVED_PORTAL};

use super::common::{Begun, Member, Plan, World, nid, until};
use super::raw_peer::{PeerMessage, RawPeer};

const BITS: u64 = 77;

/// Returns a node, and a host for a peer without a node.
fn one(plan: Plan) -> Option<(World, fulmar_testbed::lab::Host)> {
    let world = World::new(&[plan])?;
    let host = world.host(1, &[0]);
    Some((world, host))
}

fn pair() -> (Nid, Nid) {
    (nid(0, 0, 1), nid(0, 0, 0))
}

fn drops(member: &Member) -> u64 {
    member.stats().drop_count
}

/// Sends an ACK of `handle` that the node must drop.
fn dropped(a: &Member, raw: &mut RawPeer, body: Body) {
    let before = drops(a);
    raw.send(raw.header(body), &[]);
    until("it is dropped", || drops(a) == before + 1);
}

#[test]
fn an_unknown_peer_is_pinged_first_and_gets_nothing_if_it_does_not_answer() {
    let plan = Plan::at(&[0]).troubled().with(|options| {
        options.config.lnet.globals.transaction_timeout = 2;
    });
    let Some((world, host)) = one(plan) else { return };
    let mut raw = RawPeer::call(&host, pair(), ConnKind::CONTROL);
    let a = &world.members[0];
    let begun = a.put(pair().0, BITS, 8);
    let PeerMessage::Message { header, .. } = raw.receive() else { panic!("no ping") };
    assert!(matches!(header.body, Body::Get { portal: RESERVED_PORTAL, .. }), "{header:?}");
    // The peer does not answer.
    assert!(begun.events.wait_for_end(EventKind::Send).1.is_err());
    assert_eq!(a.puts_sent(), [0], "only pings were sent");
    world.end();
}

#[test]
fn an_invalid_ping_reply_is_ignored() {
    let Some((world, host)) = one(Plan::at(&[0]).troubled()) else { return };
    let a = &world.members[0].resident;
    let mut raw = RawPeer::call(&host, pair(), ConnKind::CONTROL);
    let truth = raw.info();
    let mut answer = |info: &[u8]| {
        let PeerMessage::Message { header, .. } = raw.receive() else { panic!("no ping") };
        assert!(matches!(header.body, Body::Get { portal: RESERVED_PORTAL, .. }), "{header:?}");
        raw.reply(&header, info);
    };
    // The magic number, the features, the number of entries, the entry of the loopback.
    for field in [0..4, 4..8, 12..16, 16..24] {
        let mut lie = truth.clone();
        lie[field.clone()].fill(0);
        let known = std::thread::scope(|scope| {
            let asked = scope.spawn(|| a.act(|node| node.admin().discover(pair().0, true)));
            answer(&lie);
            // The node does not believe it and asks again.
            answer(&truth);
            asked.join().unwrap()
        });
        assert_eq!(known.unwrap().nids, [pair().0], "{field:?}");
    }
    world.end();
}

#[test]
fn a_message_for_a_neighbour_closes_its_connection() {
    let Some((world, host)) = one(Plan::at(&[0]).troubled()) else { return };
    let mut raw = RawPeer::call(&host, pair(), ConnKind::CONTROL);
    let body = Body::Ack { handle: Handle::NONE, match_bits: 0, accepted: 0 };
    let header = Header { target: nid(0, 0, 2), ..raw.header(body) };
    raw.send(header, &[]);
    assert!(raw.is_closed());
    assert_eq!(world.members[0].stats().errors, 1);
    world.end();
}

/// Makes the node send a message, and receives it.
fn sent(a: &Member, raw: &mut RawPeer, len: usize) -> (Begun, Handle, u64) {
    let begun = a.put(pair().0, BITS, len);
    let (header, _, cookie) = raw.receive_message();
    let Body::Put { ack, .. } = header.body else { panic!("{header:?} is not a PUT") };
    (begun, ack, cookie)
}

#[test]
fn an_unexpected_answer_has_no_effect() {
    let Some((world, host)) = one(Plan::at(&[0]).troubled()) else { return };
    let a = &world.members[0];
    let mut raw = RawPeer::call(&host, pair(), ConnKind::CONTROL);
    let (begun, handle, _) = sent(a, &mut raw, 8);
    begun.events.wait(EventKind::Send);
    let ack = |handle| Body::Ack { handle, match_bits: BITS, accepted: 8 };
    let stale = Handle { interface: handle.interface - 1, ..handle };
    let unknown = Handle { object: handle.object + 1000, ..handle };
    for wrong in [stale, unknown] {
        dropped(a, &mut raw, ack(wrong));
        dropped(a, &mut raw, Body::Reply { handle: wrong });
    }
    assert!(begun.events.rest().is_empty());
    raw.send(raw.header(ack(handle)), &[]);
    begun.events.wait(EventKind::Ack);
    dropped(a, &mut raw, ack(handle));
    assert!(begun.events.rest().is_empty(), "one PUT has one ACK");
    world.end();
}

#[test]
fn an_acknowledgement_may_come_before_or_after_the_message_is_sent() {
    let Some((world, host)) = one(Plan::at(&[0]).acknowledged()) else { return };
    let a = &world.members[0];
    let mut raw = RawPeer::call(&host, pair(), ConnKind::CONTROL);
    for ack_first in [true, false] {
        let (begun, handle, cookie) = sent(a, &mut raw, 8);
        let body = Body::Ack { handle, match_bits: BITS, accepted: 8 };
        let header = raw.header(body);
        let order = if ack_first {
            raw.send(header, &[]);
            let first = begun.events.next().kind;
            raw.take(cookie);
            [first, begun.events.next().kind]
        } else {
            raw.take(cookie);
            let first = begun.events.next().kind;
            raw.send(header, &[]);
            [first, begun.events.next().kind]
        };
        let (ack, send) = (EventKind::Ack, EventKind::Send);
        assert_eq!(order, if ack_first { [ack, send] } else { [send, ack] });
        a.unlink(&begun);
    }
    world.end();
}

//! Bulk transfers, message by message.

use fulmar_base::{BufferId, Span};
use fulmar_lnet::Md;

use super::super::server::{BULK, REPLY};
use super::*;
use crate::bulk::{Bulk, Direction};

const MIB: u32 = 1 << 20;

pub(super) fn is_bulk(user: u64) -> bool {
    user & (REPLY | BULK) == BULK
}

/// An operation of a transfer.
struct Move {
    md: Md,
    is_get: bool,
    ack: bool,
    target: ProcessId,
    portal: u32,
    match_bits: u64,
}

impl Rig {
    /// Connects a client that has match bits of its own for bulk data.
    fn connect_with_bulk_bits(&mut self, from: ProcessId) -> Handle {
        let mut message = connect("one");
        let mut data = message.require(&CONNECT_DATA).unwrap();
        data.flags = data.flags | ConnectFlags::BULK_MBITS;
        message = message.with(&CONNECT_DATA, &data);
        self.send(from, 128, &message);
        self.grant().message().body.handle
    }

    /// Begins a request whose bulk data have these last match bits.
    fn begin(&mut self, export: Handle, xid: u64, bits: u64) -> Request {
        let mut message = modify(export);
        message.body.match_bits = bits;
        self.send(node(1), xid, &message);
        self.request()
    }

    fn transfer(&mut self, id: RequestId, direction: Direction, len: u64, parts_max: u32) {
        let bulk = Bulk::new(direction, portal::MGS_BULK, (BufferId(4), 0, len), 0);
        self.server.transfer(self.now, id, bulk, parts_max);
        self.drain();
        self.server.check_invariants().unwrap();
    }

    /// Removes and returns the next operation, and posts it.
    fn next_move(&mut self) -> Move {
        let one = match self.moves.pop_front().expect("there is an operation") {
            Op::Get { into: Bound::New(md, _), get } => {
                let (target, portal, match_bits) = (get.target, get.portal, get.match_bits);
                Move { md, is_get: true, ack: false, target, portal, match_bits }
            }
            Op::Put { from: Bound::New(md, _), put } => {
                let (target, portal, match_bits) = (put.target, put.portal, put.match_bits);
                Move { md, is_get: false, ack: put.ack, target, portal, match_bits }
            }
            op => panic!("{op:?}"),
        };
        self.server.handle_posted(self.now, one.md.user, Ok(md_of(&one)));
        one
    }

    fn bulk_event(&mut self, one: &Move, kind: EventKind, mlength: u32, last: bool) {
        let unlinked = Event::unlinked(md_of(one), one.md.user);
        let event = Event { kind, mlength, unlinked: last, ..unlinked };
        self.server.handle_event(self.now, &event, Vec::new());
        self.drain();
        self.server.check_invariants().unwrap();
    }

    /// Completes an operation.
    fn complete(&mut self, one: &Move) {
        let len = one.md.len as u32;
        self.bulk_event(one, EventKind::Send, len, false);
        let kind = if one.is_get { EventKind::Reply } else { EventKind::Ack };
        self.bulk_event(one, kind, len, true);
    }

    fn release(&mut self, one: &Move) {
        self.bulk_event(one, EventKind::Unlink, 0, true);
    }

    /// Handles the end of a transfer.
    fn transferred(&mut self) -> Result<u64, Errno> {
        match self.tasks.pop_front() {
            Some(Task::Transferred { result, .. }) => result,
            other => panic!("{other:?}"),
        }
    }

    fn discard(&mut self, id: RequestId) {
        self.server.discard(self.now, id);
        self.drain();
        assert!(self.tasks.is_empty());
        self.server.is_idle().unwrap();
    }
}

fn md_of(one: &Move) -> MdId {
    MdId(one.md.user & 0xffff)
}

/// A server with a client, and a request with two parts.
fn with_request() -> (Rig, Handle, Request) {
    let mut rig = Rig::new(config());
    let export = rig.connect_with_bulk_bits(node(1));
    let request = rig.begin(export, 256, 1024 + 1);
    (rig, export, request)
}

#[test]
fn a_server_fetches_what_its_client_has_and_then_replies() {
    let (mut rig, _, request) = with_request();
    rig.transfer(request.id, Direction::ToServer, u64::from(MIB) + 5, 4);
    let (first, second) = (rig.next_move(), rig.next_move());
    for (number, (one, len)) in [(&first, MIB.into()), (&second, 5)].into_iter().enumerate() {
        assert!(one.is_get);
        let number = number as u64;
        assert_eq!((one.portal, one.target, one.match_bits), (33, node(1), 1024 + number));
        assert_eq!((one.md.buffer, one.md.offset), (BufferId(4), u64::from(MIB) * number));
        assert_eq!((one.md.len, one.md.threshold), (len, Some(2)));
    }
    rig.complete(&second);
    assert_eq!(rig.server.progress(request.id), Some(5));
    assert!(rig.tasks.is_empty() && rig.moves.is_empty());
    rig.complete(&first);
    assert_eq!(rig.transferred(), Ok(u64::from(MIB) + 5));
    rig.reply(request.id, Message::reply(&TARGET_REG, Status::OK));
    rig.server.is_idle().unwrap();
    let stats = rig.stats();
    assert_eq!((stats.moved, stats.transfers.count), (u64::from(MIB) + 5, 1));
    assert!(stats.not_moved.is_empty() && rig.unlinked.is_empty());
}

#[test]
fn every_part_of_the_client_gets_a_put_even_if_the_data_end_early() {
    for (len, lens) in [(0, [0, 0, 0]), (7, [7, 0, 0]), (2 << 20, [1 << 20, 1 << 20, 0])] {
        let mut rig = Rig::new(config());
        let export = rig.connect_with_bulk_bits(node(1));
        let request = rig.begin(export, 256, 4096 + 2);
        rig.transfer(request.id, Direction::ToClient, len, 16);
        let puts: Vec<Move> = (0..3).map(|_| rig.next_move()).collect();
        assert!(rig.moves.is_empty() && puts.iter().all(|put| put.ack && !put.is_get));
        assert!(puts.iter().map(|put| put.md.len).eq(lens));
        assert!(puts.iter().map(|put| put.match_bits).eq(4096..4099));
        for put in &puts {
            rig.complete(put);
        }
        assert_eq!(rig.transferred(), Ok(len));
        rig.discard(request.id);
    }
}

#[test]
fn without_separate_match_bits_the_parts_follow_from_the_number() {
    let mut rig = Rig::new(config());
    let export = rig.connect(node(1), "old");
    let request = rig.begin(export, 512 + 1, 0);
    rig.transfer(request.id, Direction::ToServer, 2 << 20, 16);
    assert_eq!((rig.next_move().match_bits, rig.next_move().match_bits), (512, 513));
    assert!(rig.moves.is_empty());
}

#[test]
fn a_client_with_fewer_parts_or_nonsense_is_refused() {
    for (bits, parts_max, len) in [(1024, 4, 2 << 20), (1024 + 1, 3, 5), (1024 + 127, 128, 5)] {
        let mut rig = Rig::new(config());
        let export = rig.connect_with_bulk_bits(node(1));
        let request = rig.begin(export, 256, bits);
        rig.transfer(request.id, Direction::ToServer, len, parts_max);
        assert_eq!(rig.transferred(), Err(Errno::EPROTO));
        rig.discard(request.id);
        assert!(rig.moves.is_empty());
        assert_eq!(rig.stats().not_moved[&Errno::EPROTO], 1);
    }
}

/// What happens to an operation, and the errno of its transfer.
type Case<'a> = (&'a dyn Fn(&mut Rig, &Move), Errno);

#[test]
fn an_operation_that_is_shorter_or_fails_ends_the_transfer() {
    let shorter = |rig: &mut Rig, one: &Move| {
        rig.bulk_event(one, EventKind::Send, 0, false);
        rig.bulk_event(one, EventKind::Reply, 4, true);
    };
    let failed = |rig: &mut Rig, one: &Move| {
        let unlinked = Event::unlinked(md_of(one), one.md.user);
        let (kind, status) = (EventKind::Send, Err(Errno::EHOSTUNREACH));
        let event = Event { kind, status, unlinked: false, ..unlinked };
        rig.server.handle_event(rig.now, &event, Vec::new());
        rig.drain();
        rig.release(one);
    };
    let given_up = |rig: &mut Rig, one: &Move| rig.release(one);
    let unanswered = |rig: &mut Rig, one: &Move| rig.bulk_event(one, EventKind::Send, 0, true);
    let cases: [Case<'_>; 4] = [
        (&shorter, Errno::ETIMEDOUT),
        (&failed, Errno::EHOSTUNREACH),
        (&given_up, Errno::ETIMEDOUT),
        (&unanswered, Errno::ETIMEDOUT),
    ];
    for (event, errno) in cases {
        let (mut rig, _, request) = with_request();
        rig.transfer(request.id, Direction::ToServer, 2 << 20, 4);
        let (first, second) = (rig.next_move(), rig.next_move());
        event(&mut rig, &first);
        assert!(rig.unlinked.contains(&md_of(&second)) && rig.tasks.is_empty());
        rig.release(&second);
        assert_eq!(rig.transferred(), Err(errno));
        rig.discard(request.id);
    }
}

#[test]
fn a_post_that_fails_ends_the_transfer() {
    let (mut rig, _, request) = with_request();
    rig.transfer(request.id, Direction::ToClient, 2 << 20, 4);
    let Some(Op::Put { from: Bound::New(md, _), .. }) = rig.moves.pop_front() else { panic!() };
    rig.server.handle_posted(rig.now, md.user, Err(Errno::ENETUNREACH));
    let second = rig.next_move();
    rig.drain();
    assert_eq!(rig.unlinked, [md_of(&second)], "withdrawn as soon as its name is known");
    rig.release(&second);
    assert_eq!(rig.transferred(), Err(Errno::ENETUNREACH));
    rig.discard(request.id);
}

#[test]
fn a_transfer_has_the_time_of_its_request_and_100_seconds_at_most() {
    let (mut rig, _, request) = with_request();
    rig.transfer(request.id, Direction::ToServer, 2 << 20, 4);
    let (first, second) = (rig.next_move(), rig.next_move());
    rig.complete(&first);
    // Early replies extend the time of the request.
    for _ in 0..99 {
        rig.advance(1);
        rig.sent.clear();
    }
    assert!(rig.unlinked.is_empty());
    rig.advance(1);
    assert_eq!(rig.unlinked, [md_of(&second)]);
    rig.release(&second);
    assert_eq!(rig.transferred(), Err(Errno::ETIMEDOUT));
    rig.discard(request.id);

    let request = {
        let mut message = modify(request.export);
        message.head.flags = HeaderFlags::NONE;
        message.body.match_bits = 4096;
        rig.send(node(1), 512, &message);
        rig.request()
    };
    rig.transfer(request.id, Direction::ToClient, 100, 4);
    let put = rig.next_move();
    rig.advance(11);
    assert_eq!(rig.unlinked.last(), Some(&md_of(&put)));
    rig.release(&put);
    assert_eq!(rig.transferred(), Err(Errno::ETIMEDOUT));
}

#[test]
fn a_client_that_is_gone_ends_its_transfers() {
    let (mut rig, export, request) = with_request();
    rig.transfer(request.id, Direction::ToServer, 2 << 20, 4);
    let (first, second) = (rig.next_move(), rig.next_move());
    rig.complete(&first);
    assert!(rig.server.evict(rig.now, export, Eviction::Administrator));
    rig.drain();
    assert!(matches!(rig.tasks.pop_front(), Some(Task::Evicted { .. })));
    rig.release(&second);
    assert_eq!(rig.transferred(), Err(Errno::ENOTCONN));
    rig.discard(request.id);
}

#[test]
fn a_request_that_is_sent_again_is_served_from_the_new_memory() {
    let (mut rig, export, request) = with_request();
    rig.transfer(request.id, Direction::ToServer, 2 << 20, 4);
    let (first, second) = (rig.next_move(), rig.next_move());
    rig.complete(&first);
    let mut resent = flagged(modify(export), MessageFlags::RESENT);
    resent.body.match_bits = 8192 + 1;
    rig.send(node(1), 256, &resent);
    assert_eq!(rig.dropped(DropReason::InProgress), 1);
    assert_eq!(rig.unlinked, [md_of(&second)]);
    assert!(rig.moves.is_empty(), "the memory is LNet's");
    rig.release(&second);
    let (first, second) = (rig.next_move(), rig.next_move());
    assert_eq!((first.match_bits, second.match_bits), (8192, 8193));
    assert_eq!(rig.server.progress(request.id), Some(0));
    rig.complete(&first);
    rig.complete(&second);
    assert_eq!(rig.transferred(), Ok(2 << 20));
    let sent = rig.reply(request.id, Message::reply(&TARGET_REG, Status::OK));
    assert_eq!(sent.put.match_bits, 8193);
}

#[test]
fn events_of_unknown_operations_change_nothing() {
    let (mut rig, _, request) = with_request();
    rig.transfer(request.id, Direction::ToServer, 5, 4);
    let (first, second) = (rig.next_move(), rig.next_move());
    for user in [BULK | 77, BULK | (REPLY >> 2), BULK | !REPLY] {
        let event = Event::unlinked(MdId(1), user);
        rig.server.handle_event(rig.now, &event, Vec::new());
        rig.server.handle_posted(rig.now, user, Err(Errno::EIO));
    }
    rig.complete(&first);
    rig.complete(&second);
    assert_eq!(rig.transferred(), Ok(5));
    assert_eq!(rig.server.progress(request.id), None);
}

#[test]
#[should_panic(expected = "are being moved")]
fn a_request_whose_data_are_being_moved_cannot_be_answered() {
    let (mut rig, _, request) = with_request();
    rig.transfer(request.id, Direction::ToServer, 5, 4);
    rig.server.reply(rig.now, request.id, Message::reply(&TARGET_REG, Status::OK));
}

#[test]
fn parts_may_be_cut_elsewhere() {
    let (mut rig, _, request) = with_request();
    let part = |buffer, len| Span { buffer: BufferId(buffer), offset: 9, len };
    let parts = vec![part(1, 300), part(2, 1 << 20)];
    let bulk = Bulk::of_parts(Direction::ToClient, portal::MGS_BULK, parts);
    rig.server.transfer(rig.now, request.id, bulk, 4);
    rig.drain();
    let (first, second) = (rig.next_move().md, rig.next_move().md);
    assert_eq!((first.buffer, first.len, first.offset), (BufferId(1), 300, 9));
    assert_eq!((second.buffer, second.len), (BufferId(2), 1 << 20));
}

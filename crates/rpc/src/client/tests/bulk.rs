//! The descriptors of bulk data.

use super::*;
use crate::bulk::{Bulk, Direction};

const MIB: u64 = 1 << 20;

/// A client that reads 2 MiB and 1 KiB.
struct BulkReader {
    client: Client,
    import: ImportId,
    request: RequestId,
    /// The posts of the parts.
    parts: Vec<(u32, Me, Md)>,
    posts: Posts,
}

impl BulkReader {
    fn new(direction: Direction) -> Self {
        let (mut client, import, posts) = connecting();
        posts.sent(&mut client, Ok(()));
        posts.reply(&mut client, 0, &granted());
        posts.unlinked(&mut client);
        while client.poll_output().is_some() {}
        let bulk = Bulk::new(direction, portal::MGS_BULK, (BufferId(6), 7, 2 * MIB + 1024), 0);
        let read = Request::new(Message::request(&format::CONFIG_READ), 224).with_bulk(bulk);
        let request = client.request(NOW, import, read).unwrap();
        let parts = (0..3).map(|_| {
            let Some(ServiceOutput::Post(Op::Attach { portal, me, md, memory: Memory::Buffer })) =
                client.poll_output()
            else {
                panic!("the parts come first")
            };
            (portal, me, md)
        });
        let parts = parts.collect();
        let posts = Posts::next(&mut client);
        Self { client, import, request, parts, posts }
    }

    /// Reports that all is posted.
    fn posted(mut self) -> Self {
        let users = self.parts.iter().map(|(_, _, md)| md.user);
        for user in users.chain([self.posts.reply.user, self.posts.request.user]) {
            self.client.handle_posted(NOW, user, Ok(MdId(user)));
        }
        self
    }

    fn part(&mut self, part: usize, kind: EventKind, mlength: u32, status: Result<(), Errno>) {
        let user = self.parts[part].2.user;
        let event = Event { kind, mlength, status, ..Event::unlinked(MdId(user), user) };
        self.client.handle_event(NOW, &event, Vec::new());
    }

    fn outputs(&mut self) -> Vec<ServiceOutput<Notice>> {
        std::iter::from_fn(|| self.client.poll_output()).collect()
    }

    /// Returns the results of the requests that have ended.
    fn done(&mut self) -> Vec<(Result<Status, Errno>, u64)> {
        let done = self.outputs().into_iter().filter_map(|output| match output {
            ServiceOutput::Host(Notice::Done { result, moved, .. }) => {
                Some((result.map(|reply| reply.body.status), moved))
            }
            _ => None,
        });
        done.collect()
    }

    fn reply(&mut self, status: Status) {
        let reply = Message::reply(&format::CONFIG_READ, status);
        self.posts.reply(&mut self.client, 224, &reply.to_bytes());
    }

    fn is_empty(&mut self) -> bool {
        self.posts.sent(&mut self.client, Ok(()));
        self.posts.unlinked(&mut self.client);
        self.client.posted.is_empty() && self.client.transfers.is_empty()
    }
}

#[test]
fn each_part_is_a_match_entry_for_one_operation_of_the_target() {
    for (direction, options) in
        [(Direction::ToClient, MdOptions::OP_PUT), (Direction::ToServer, MdOptions::OP_GET)]
    {
        let reading = BulkReader::new(direction);
        let xid = reading.posts.put.match_bits;
        let first = xid;
        for (number, (portal, me, md)) in reading.parts.iter().enumerate() {
            assert_eq!((*portal, me.match_id, me.ignore_bits), (portal::MGS_BULK, server(), 0));
            assert_eq!(me.match_bits, first + number as u64);
            let len = if number == 2 { 1024 } else { MIB };
            assert_eq!((md.buffer, md.offset, md.len), (BufferId(6), 7 + number as u64 * MIB, len));
            assert_eq!((md.threshold, md.auto_unlink, md.options), (Some(1), true, options));
        }
        let body = Message::decode(&reading.posts.bytes).unwrap().body;
        assert_eq!((body.match_bits, xid % 128), (first + 2, 0));
    }
}

#[test]
fn a_request_ends_when_every_part_was_used() {
    let mut reading = BulkReader::new(Direction::ToClient).posted();
    reading.part(1, EventKind::Put, 1 << 20, Ok(()));
    reading.part(0, EventKind::Put, 1 << 20, Ok(()));
    reading.reply(Status::OK);
    assert!(reading.done().is_empty());
    // The data ended early.
    reading.part(2, EventKind::Put, 0, Ok(()));
    assert_eq!(reading.done(), [(Ok(Status::OK), 2 * MIB)]);
    assert!(reading.is_empty());
}

#[test]
fn parts_that_are_not_used_are_withdrawn_after_an_error() {
    let mut reading = BulkReader::new(Direction::ToServer).posted();
    reading.part(0, EventKind::Get, 1 << 20, Ok(()));
    reading.reply(Status::failed(Errno::ENOSPC));
    let unlinked: Vec<u64> = (reading.outputs().into_iter())
        .filter_map(|output| match output {
            ServiceOutput::Post(Op::Unlink(md)) => Some(md.0),
            _ => None,
        })
        .collect();
    let parts = reading.parts.iter().map(|(_, _, md)| md.user);
    let expected: Vec<u64> = parts.skip(1).chain([reading.posts.reply.user]).collect();
    assert_eq!(unlinked, expected);
    reading.part(2, EventKind::Unlink, 0, Ok(()));
    assert!(reading.done().is_empty(), "an operation is under way");
    reading.part(1, EventKind::Get, 0, Err(Errno::ETIMEDOUT));
    assert_eq!(reading.done(), [(Ok(Status::failed(Errno::ENOSPC)), MIB)]);
    assert!(reading.is_empty());
}

#[test]
fn a_part_that_cannot_be_posted_fails_the_transmission() {
    let mut reading = BulkReader::new(Direction::ToClient);
    let users: Vec<u64> = reading.parts.iter().map(|(_, _, md)| md.user).collect();
    reading.client.handle_posted(NOW, users[0], Ok(MdId(40)));
    reading.client.handle_posted(NOW, users[1], Err(Errno::ENOMEM));
    reading.client.handle_posted(NOW, users[2], Ok(MdId(42)));
    for user in [reading.posts.reply.user, reading.posts.request.user] {
        reading.client.handle_posted(NOW, user, Ok(MdId(user)));
    }
    let outputs = reading.outputs();
    for md in [40, 42, reading.posts.reply.user] {
        assert!(outputs.contains(&ServiceOutput::Post(Op::Unlink(MdId(md)))), "{md}");
    }
    let state = State::Disconnected(Errno::ENOMEM);
    let lost = Notice::State { import: reading.import, state };
    assert!(outputs.contains(&ServiceOutput::Host(lost)));
    reading.client.disconnect(NOW, reading.import);
    assert!(!reading.client.remove(reading.import), "a request has not ended");
    reading.part(0, EventKind::Unlink, 0, Ok(()));
    reading.part(2, EventKind::Unlink, 0, Ok(()));
    assert_eq!(reading.done(), [(Err(Errno::ESHUTDOWN), 0)]);
    assert!(reading.client.remove(reading.import) && reading.is_empty());
    assert_eq!(reading.request, RequestId(0));
}

//! The data of reads and writes, and what both ends do with them.

use std::collections::BTreeMap;

use fulmar_base::{BufferId, Errno, Time};
use fulmar_lustre_wire::format::{Format, IO_OBJECTS, NIOBUFS, OST_BODY, OST_READ, OST_WRITE};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{IoObject, MaxBrw, Niobuf, Obdo};
use fulmar_lustre_wire::{List, Opcode, Status, portal};
use fulmar_rpc::both::Both;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::import::{Request, RequestId};
use fulmar_rpc::service::{self, Server};

use crate::node::Node;

/// How a server breaks the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// It sends more than its client has requested.
    Longer,
    /// It replies, and sends no data.
    Nothing,
}

/// Reads and writes under way.
#[derive(Default)]
pub(crate) struct Data {
    buffers: u64,
    /// Those of the client.
    asked: BTreeMap<RequestId, (BufferId, Niobuf, Direction)>,
    /// Those of the server.
    moving: BTreeMap<service::RequestId, (BufferId, Box<service::Request>)>,
    /// Where the object ends.
    pub(crate) end: u64,
    /// What the server does in its next answers.
    pub(crate) lies: Vec<Lie>,
    /// How the transfers of the server ended.
    pub(crate) ended: Vec<Result<u64, Errno>>,
    /// The bytes that arrived at the client.
    pub(crate) read: u64,
}

/// Bytes around the memory of the client, which nothing must change.
const GUARD: u64 = 64;
const GUARD_BYTE: u8 = 0xee;
/// The most parts, as a request says.
const PARTS_MAX: u32 = 16;

impl Data {
    /// Makes a request, and the memory for its data.
    pub(crate) fn request(
        &mut self,
        client: &mut Node<Both>,
        direction: Direction,
        range: Niobuf,
    ) -> (Request, impl FnOnce(&mut Self, RequestId) + use<>) {
        let mut bytes = vec![GUARD_BYTE; range.len as usize + 2 * GUARD as usize];
        if direction == Direction::ToServer {
            let inside = &mut bytes[GUARD as usize..][..range.len as usize];
            fill(inside, range.offset);
        }
        let buffer = self.allocate(&mut client.buffers, bytes);
        let format: &'static Format = match direction {
            Direction::ToServer => &OST_WRITE,
            Direction::ToClient => &OST_READ,
        };
        let object = IoObject { max_brw: MaxBrw::new(PARTS_MAX), ranges: 1, ..IoObject::default() };
        let message = Message::request(format)
            .with(&OST_BODY, &Obdo::default())
            .with(&IO_OBJECTS, &List(vec![object]))
            .with(&NIOBUFS, &List(vec![range]));
        let bulk = bulk(direction, (buffer, GUARD, range.len.into()), range.offset);
        let request = Request::new(message, 1024).with_bulk(bulk);
        let note = move |this: &mut Self, id| {
            this.asked.insert(id, (buffer, range, direction));
        };
        (request, note)
    }

    fn allocate(&mut self, of: &mut BTreeMap<BufferId, Vec<u8>>, bytes: Vec<u8>) -> BufferId {
        self.buffers += 1;
        of.insert(BufferId(self.buffers), bytes);
        BufferId(self.buffers)
    }

    /// Checks what a request of the client has got. Its memory is free.
    pub(crate) fn done(
        &mut self,
        client: &mut Node<Both>,
        id: RequestId,
        status: Result<Status, Errno>,
        moved: u64,
    ) {
        let Some((buffer, range, direction)) = self.asked.remove(&id) else { return };
        let bytes = client.buffers.remove(&buffer).expect("the memory was the client's");
        let (before, rest) = bytes.split_at(GUARD as usize);
        let (inside, after) = rest.split_at(range.len as usize);
        assert!(before.iter().chain(after).all(|&byte| byte == GUARD_BYTE), "{range:?}");
        let Ok(status) = status else { return };
        match direction {
            Direction::ToServer => assert_eq!((status.0, moved), (0, range.len.into())),
            Direction::ToClient => {
                assert_eq!(status.0 as u64, moved);
                let expected = self.end.saturating_sub(range.offset).min(range.len.into());
                assert_eq!(moved, expected, "{range:?}");
                assert_filled(&inside[..moved as usize], range.offset);
                self.read += moved;
            }
        }
    }

    /// Begins the transfer of a request at the server. Returns whether it has bulk data.
    pub(crate) fn begin(
        &mut self,
        now: Time,
        server: &mut Node<Server>,
        request: &service::Request,
    ) -> bool {
        let direction = match request.message.body.opcode {
            Opcode::OST_READ => Direction::ToClient,
            Opcode::OST_WRITE => Direction::ToServer,
            _ => return false,
        };
        let range = range_of(request);
        let mut len = u64::from(range.len);
        if direction == Direction::ToClient {
            len = self.end.saturating_sub(range.offset).min(len);
        }
        match self.lies.pop() {
            Some(Lie::Nothing) => {
                let reply = Message::reply(request.message.format(), Status(len as i32));
                server.service.reply(now, request.id, reply);
                return true;
            }
            Some(Lie::Longer) => len += 1,
            None => {}
        }
        let mut bytes = vec![0; len as usize];
        if direction == Direction::ToClient {
            fill(&mut bytes, range.offset);
        }
        let buffer = self.allocate(&mut server.buffers, bytes);
        self.moving.insert(request.id, (buffer, Box::new(request.clone())));
        let objects = request.message.require(&IO_OBJECTS).unwrap();
        let parts_max = objects.0[0].max_brw.transfers();
        let bulk = bulk(direction, (buffer, 0, len), range.offset);
        server.service.transfer(now, request.id, bulk, parts_max);
        true
    }

    /// Answers a request whose transfer is over, or does not after a failure.
    pub(crate) fn transferred(
        &mut self,
        now: Time,
        server: &mut Node<Server>,
        id: service::RequestId,
        result: Result<u64, Errno>,
    ) {
        let (buffer, request) = self.moving.remove(&id).expect("it was moved");
        let bytes = server.buffers.remove(&buffer).expect("the memory was the server's");
        self.ended.push(result);
        if result.is_err() {
            return server.service.discard(now, id);
        }
        assert_eq!(result, Ok(bytes.len() as u64));
        let status = match request.message.body.opcode {
            Opcode::OST_READ => Status(bytes.len() as i32),
            _ => {
                assert_filled(&bytes, range_of(&request).offset);
                Status::OK
            }
        };
        server.service.reply(now, id, Message::reply(request.message.format(), status));
    }

    /// Forgets what a server was doing that has ended.
    pub(crate) fn forget(&mut self) {
        self.moving.clear();
    }
}

fn bulk(direction: Direction, memory: (BufferId, u64, u64), offset: u64) -> Bulk {
    Bulk::new(direction, portal::OST_BULK, memory, (offset % 4096) as u32)
}

fn range_of(request: &service::Request) -> Niobuf {
    request.message.require(&NIOBUFS).unwrap().0[0]
}

/// The content of the object.
fn byte_at(offset: u64) -> u8 {
    (offset ^ (offset >> 8) ^ (offset >> 20)) as u8
}

fn fill(bytes: &mut [u8], offset: u64) {
    for (byte, at) in bytes.iter_mut().zip(offset..) {
        *byte = byte_at(at);
    }
}

fn assert_filled(bytes: &[u8], offset: u64) {
    let wrong = bytes.iter().zip(offset..).find(|&(&byte, at)| byte != byte_at(at));
    assert!(wrong.is_none(), "the byte at {} is wrong", wrong.unwrap().1);
}

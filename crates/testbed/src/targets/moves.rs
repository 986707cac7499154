//! Reads and writes whose data go by bulk.

use fulmar_base::{BufferId, Errno, Time};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Opcode, portal};
use fulmar_net::Buffer;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::service::{Request, RequestId, Server};

use super::Ost;
use super::host::{State, answer};

/// A request whose data are being moved.
#[derive(Debug)]
pub(super) struct Move {
    request: Box<Request>,
    buffer: BufferId,
    /// The reply that belongs to the data, if they go to the client.
    reply: Option<Message<'static>>,
}

/// The most memory for data under way, of all clients and of one node. Beyond it the client repeats
/// the request.
const MOVING_MAX: usize = 128 << 20;
const MOVING_OF_NODE: usize = 32 << 20;

impl State {
    /// Sends the table of started targets, whose reply follows.
    pub(super) fn read_table(&mut self, server: &mut Server, now: Time, request: Box<Request>) {
        let (reply, data) = match self.mgs.read_table(&request.message) {
            Ok(read) => read,
            Err(errno) => return answer(server, now, &request, Err(errno)),
        };
        let memory = self.allocate(&data);
        let bulk = Bulk::new(Direction::ToClient, portal::MGS_BULK, memory, 0);
        self.begin(server, now, Move { request, buffer: memory.0, reply: Some(reply) }, bulk, 1);
    }

    /// Returns whether there is memory for the data of a request, of all and of its node.
    fn has_room(&self, request: &Request, len: usize) -> bool {
        let lens = self.moves.values().map(|one| {
            let len = self.buffers.get(&one.buffer).map_or(0, Buffer::len);
            (len, if one.request.from.nid == request.from.nid { len } else { 0 })
        });
        let (all, of_node) = lens.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        all + len <= MOVING_MAX && of_node + len <= MOVING_OF_NODE
    }

    /// Allocates memory with these data.
    fn allocate(&mut self, data: &[u8]) -> (BufferId, u64, u64) {
        let memory = self.allocate_empty(data.len());
        self.buffers[&memory.0].write_at(0, data);
        memory
    }

    fn allocate_empty(&mut self, len: usize) -> (BufferId, u64, u64) {
        let buffer = Buffer::new(len);
        self.buffers_made += 1;
        let id = BufferId(self.buffers_made);
        self.buffers.insert(id, buffer);
        (id, 0, len as u64)
    }

    /// Begins a read or a write.
    pub(super) fn transfer(&mut self, server: &mut Server, now: Time, request: Box<Request>) {
        let transfer = match Ost::transfer(&request.message) {
            Ok(Some(transfer)) => transfer,
            Ok(None) => {
                let result = self.ost.execute(&request.message);
                self.attributes_changed(&request);
                return answer(server, now, &request, result);
            }
            Err(errno) => return answer(server, now, &request, Err(errno)),
        };
        if !self.has_room(&request, transfer.len) {
            return answer(server, now, &request, Err(Errno::EINPROGRESS));
        }
        let (direction, memory, reply) = match request.message.body.opcode {
            Opcode::OST_READ => match self.ost.read(&request.message) {
                Ok((reply, data)) => (Direction::ToClient, self.allocate(&data), Some(reply)),
                Err(errno) => return answer(server, now, &request, Err(errno)),
            },
            _ => (Direction::ToServer, self.allocate_empty(transfer.len), None),
        };
        let in_page = (transfer.offset % 4096) as u32;
        let bulk = Bulk::new(direction, portal::OST_BULK, memory, in_page);
        let one = Move { request, buffer: memory.0, reply };
        self.begin(server, now, one, bulk, transfer.parts_max);
    }

    fn begin(&mut self, server: &mut Server, now: Time, one: Move, bulk: Bulk, parts_max: u32) {
        let id = one.request.id;
        self.moves.insert(id, one);
        server.transfer(now, id, bulk, parts_max);
    }

    pub(super) fn transferred(
        &mut self,
        server: &mut Server,
        now: Time,
        id: RequestId,
        result: Result<u64, Errno>,
    ) {
        let Some(Move { request, buffer, reply }) = self.moves.remove(&id) else { return };
        let buffer = self.buffers.remove(&buffer).expect("a transfer has memory");
        if let Err(errno) = result {
            eprintln!("transfer: {errno}");
            return server.discard(now, id);
        }
        let result = reply.map_or_else(
            || {
                let mut data = vec![0; buffer.len()];
                buffer.read_at(0, &mut data);
                self.ost.write(&request.message, &data)
            },
            Ok,
        );
        self.attributes_changed(&request);
        answer(server, now, &request, result);
    }
}

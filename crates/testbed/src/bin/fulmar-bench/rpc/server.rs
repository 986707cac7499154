//! A server that answers at once, and moves data from and to memory.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use fulmar_base::{BufferId, Errno, Time};
use fulmar_lustre_wire::format::{CONNECT_DATA, IO_OBJECTS, NIOBUFS};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Opcode, Status, Uuid, portal};
use fulmar_net::{Buffer, Host, Job, Memory, Running, Service};
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::export::{ExportLimits, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::{
    PartitionConfig, Request, RequestId, Server, ServerConfig, TargetConfig, TargetState, Task,
};
use fulmar_rpc::timeouts::Limits;

use crate::Failure;
use crate::lnet::{runtime, start, wait_for_end_of_input};

pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The name of the only target.
pub(crate) const TARGET: &str = "bench-OST0000";

/// Serves until standard input ends.
pub(crate) fn run(port: u16) -> Result<(), Failure> {
    let partitions = vec![PartitionConfig::new("ost", &[portal::OST_REQUEST], 16 << 10)];
    let operations = &[Opcode::OST_STATFS, Opcode::OST_READ, Opcode::OST_WRITE];
    serve(port, partitions, operations, ServerHost::default())
}

/// Serves a target with these operations until standard input ends.
pub(crate) fn serve(
    port: u16,
    partitions: Vec<PartitionConfig>,
    operations: &'static [Opcode],
    host: impl Host<Service = Server>,
) -> Result<(), Failure> {
    let runtime = runtime()?;
    let node = start(&runtime, ADDRESS.into(), port)?;
    let server = server(partitions, operations);
    Running::start(&node, Server::CONFIG, server, host, [])
        .map_err(|errno| Failure(format!("cannot start the server: {errno}")))?;
    println!("ready");
    wait_for_end_of_input();
    node.stop();
    Ok(())
}

fn server(partitions: Vec<PartitionConfig>, operations: &'static [Opcode]) -> Server {
    let name = Uuid::new(TARGET).expect("it is short");
    let target = TargetConfig { kind: TargetKind::Ost, name, uuid: name, operations };
    let mut server = Server::new(ServerConfig {
        key: 1,
        partitions,
        targets: vec![target],
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    });
    server.set_state(TargetId(0), TargetState::Open);
    server
}

/// The host of the server.
#[derive(Default)]
struct ServerHost(Mutex<State>);

#[derive(Default)]
struct State {
    buffers: BTreeMap<BufferId, Buffer>,
    /// Buffers that no transfer uses, by their length.
    free: BTreeMap<usize, Vec<BufferId>>,
    moving: BTreeMap<RequestId, (BufferId, Box<Request>)>,
}

impl State {
    fn take(&mut self, len: usize) -> BufferId {
        if let Some(buffer) = self.free.get_mut(&len).and_then(Vec::pop) {
            return buffer;
        }
        let id = BufferId(self.buffers.len() as u64);
        self.buffers.insert(id, Buffer::new(len));
        id
    }

    fn execute(&mut self, now: Time, server: &mut Server, request: Box<Request>) {
        let direction = match request.message.body.opcode {
            Opcode::OST_READ => Direction::ToClient,
            Opcode::OST_WRITE => Direction::ToServer,
            _ => return server.reply(now, request.id, plain_reply(&request)),
        };
        let range =
            request.message.require(&NIOBUFS).ok().and_then(|ranges| ranges.0.first().copied());
        let objects = request.message.require(&IO_OBJECTS).ok();
        let object = objects.and_then(|objects| objects.0.first().copied());
        let (Some(range), Some(object)) = (range, object) else {
            let status = Status::failed(Errno::EPROTO);
            return server.reply(now, request.id, Message::error(request.message.format(), status));
        };
        let buffer = self.take(range.len as usize);
        let memory = (buffer, 0, range.len.into());
        let bulk = Bulk::new(direction, portal::OST_BULK, memory, 0);
        let id = request.id;
        self.moving.insert(id, (buffer, request));
        server.transfer(now, id, bulk, object.max_brw.transfers());
    }

    fn transferred(
        &mut self,
        now: Time,
        server: &mut Server,
        id: RequestId,
        result: Result<u64, Errno>,
    ) {
        let Some((buffer, request)) = self.moving.remove(&id) else { return };
        let len = self.buffers[&buffer].len();
        self.free.entry(len).or_default().push(buffer);
        let Ok(bytes) = result else { return server.discard(now, id) };
        let status = match request.message.body.opcode {
            Opcode::OST_READ => Status(bytes as i32),
            _ => Status::OK,
        };
        server.reply(now, id, Message::reply(request.message.format(), status));
    }
}

/// Returns the reply to a request that is executed without work; a client gets what it asks for.
pub(crate) fn plain_reply(request: &Request) -> Message<'static> {
    let reply = Message::reply(request.message.format(), Status::OK);
    match request.message.get(&CONNECT_DATA) {
        Ok(Some(asked)) => reply.with(&CONNECT_DATA, &asked),
        _ => reply,
    }
}

impl Host for ServerHost {
    type Service = Server;

    fn memory(&self, buffer: BufferId) -> Option<Memory> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.buffers.get(&buffer).map(Memory::from)
    }

    fn handle(&self, service: &Service, server: &mut Server, task: Task) -> Option<Job<Server>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = service.now();
        match task {
            Task::Execute(request) => state.execute(now, server, request),
            Task::Transferred { request, result } => {
                state.transferred(now, server, request, result);
            }
            Task::Called { .. }
            | Task::Confirmed { .. }
            | Task::Evicted { .. }
            | Task::Recovered { .. } => {}
            Task::PortalFailed { portal, errno } => eprintln!("portal {portal}: {errno}"),
        }
        None
    }
}

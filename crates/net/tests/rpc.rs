//! Requests of Lustre with bulk data over real sockets: the machines of RPC as services of nodes.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use common::{Host as TestHost, TIMEOUT, pattern};
use fulmar_base::{BufferId, Errno};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{
    CONNECT_DATA, IO_OBJECTS, NIOBUFS, OST_BODY, OST_READ, OST_WRITE,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{IoObject, MaxBrw, Niobuf, NiobufFlags, Obdo};
use fulmar_lustre_wire::{List, Opcode, Status, Uuid, portal};
use fulmar_net::{Buffer, Host, Job, Memory, Running, Runtime, Service};
use fulmar_rpc::XidSource;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::client::{Client, ImportId, Notice};
use fulmar_rpc::export::{ExportLimits, TargetId};
use fulmar_rpc::import::{Request, State, Target, TargetKind};
use fulmar_rpc::service::{
    self, PartitionConfig, RequestId, Server, ServerConfig, TargetConfig, TargetState, Task,
};
use fulmar_rpc::timeouts::Limits;

const OBJECT_LEN: usize = 20 << 20;
const OBJECT: BufferId = BufferId(0);

/// A server of one object, which is its memory.
struct Object {
    bytes: Buffer,
    moving: Mutex<BTreeMap<RequestId, Box<service::Request>>>,
}

impl Host for Object {
    type Service = Server;

    fn memory(&self, buffer: BufferId) -> Option<Memory> {
        (buffer == OBJECT).then(|| Memory::from(&self.bytes))
    }

    fn handle(&self, service: &Service, server: &mut Server, task: Task) -> Option<Job<Server>> {
        let (now, mut moving) = (service.now(), self.moving.lock().unwrap());
        match task {
            Task::Execute(request) => {
                let format = request.message.format();
                let direction = match request.message.body.opcode {
                    Opcode::OST_READ => Direction::ToClient,
                    Opcode::OST_WRITE => Direction::ToServer,
                    _ => {
                        let asked = request.message.require(&CONNECT_DATA).unwrap();
                        let reply = Message::reply(format, Status::OK).with(&CONNECT_DATA, &asked);
                        server.reply(now, request.id, reply);
                        return None;
                    }
                };
                let range = request.message.require(&NIOBUFS).unwrap().0[0];
                let objects = request.message.require(&IO_OBJECTS).unwrap();
                let len = (OBJECT_LEN as u64).saturating_sub(range.offset).min(range.len.into());
                let bulk = bulk(direction, (OBJECT, range.offset, len), range.offset);
                server.transfer(now, request.id, bulk, objects.0[0].max_brw.transfers());
                moving.insert(request.id, request);
            }
            Task::Transferred { request: id, result } => {
                let request = moving.remove(&id).unwrap();
                let bytes = result.expect("nothing fails here");
                let is_read = request.message.body.opcode == Opcode::OST_READ;
                let status = Status(if is_read { bytes as i32 } else { 0 });
                server.reply(now, id, Message::reply(request.message.format(), status));
            }
            task => panic!("{task:?}"),
        }
        None
    }
}

impl Object {
    /// Returns a part of the object. ThreadSanitizer does not see that the reply of a write comes after the write, since
    /// the reply comes by a socket; that this lock is taken after the write it sees.
    fn content(&self, offset: usize, len: usize) -> Vec<u8> {
        let _later = self.moving.lock().unwrap();
        self.bytes.to_vec(offset, len)
    }
}

/// The results of requests: the status, and how many bytes were moved.
type Done = Result<(i32, u64), Errno>;

/// A client with the memory of one request at a time.
struct Caller {
    memory: Mutex<Option<Memory>>,
    notices: SyncSender<Option<Done>>,
}

impl Host for Caller {
    type Service = Client;

    fn memory(&self, _: BufferId) -> Option<Memory> {
        self.memory.lock().unwrap().clone()
    }

    fn handle(&self, _: &Service, _: &mut Client, notice: Notice) -> Option<Job<Client>> {
        match notice {
            Notice::Done { result, moved, .. } => {
                let done = result.map(|reply| (reply.body.status.0, moved));
                self.notices.send(Some(done)).unwrap();
            }
            Notice::State { state: State::Full, .. } => self.notices.send(None).unwrap(),
            Notice::State { .. } | Notice::Replayed { .. } | Notice::Released { .. } => {}
        }
        None
    }
}

fn bulk(direction: Direction, memory: (BufferId, u64, u64), offset: u64) -> Bulk {
    Bulk::new(direction, portal::OST_BULK, memory, (offset % 4096) as u32)
}

fn serve(host: &TestHost) -> Running<Object> {
    let name = Uuid::new("lv-OST0000_UUID").unwrap();
    let operations = &[Opcode::OST_READ, Opcode::OST_WRITE];
    let target = TargetConfig { kind: TargetKind::Ost, name, uuid: name, operations };
    let mut server = Server::new(ServerConfig {
        key: 1,
        partitions: vec![PartitionConfig::new("ost", &[portal::OST_REQUEST], 16 << 10)],
        targets: vec![target],
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    });
    server.set_state(TargetId(0), TargetState::Open);
    let object = Object { bytes: Buffer::new(OBJECT_LEN), moving: Mutex::default() };
    Running::start(&host.node, Server::CONFIG, server, object, []).unwrap()
}

/// A connected client.
struct ConnectedClient {
    client: Running<Caller>,
    import: ImportId,
    notices: Receiver<Option<Done>>,
}

impl ConnectedClient {
    fn new(host: &TestHost, server: Nid) -> Self {
        let (sender, notices) = sync_channel(64);
        let caller = Caller { memory: Mutex::default(), notices: sender };
        let machine = Client::new(XidSource::new(1_700_000_000));
        let client = Running::start(&host.node, Client::CONFIG, machine, caller, []).unwrap();
        let flags = ConnectFlags::FULL20
            | ConnectFlags::AT
            | ConnectFlags::BULK_MBITS
            | ConnectFlags::FLAGS2;
        let flags2 = ConnectFlags2::REP_MBITS;
        let data = ConnectData { flags, flags2, ..ConnectData::default() };
        let uuid = Uuid::new("lv-OST0000_UUID").unwrap();
        let target = Target {
            client: Uuid::new("client").unwrap(),
            ..Target::new(TargetKind::Ost, uuid, vec![server], data)
        };
        let import = client.call(|machine, now| machine.connect(now, target)).unwrap();
        assert_eq!(notices.recv_timeout(TIMEOUT), Ok(None));
        Self { client, import, notices }
    }

    /// Reads or writes a range of the object, and returns how many bytes were moved.
    fn transfer(&self, direction: Direction, offset: usize, memory: &Memory) -> u64 {
        let (offset, len) = (offset as u64, memory.len());
        *self.client.host().memory.lock().unwrap() = Some(memory.clone());
        let format = if direction == Direction::ToServer { &OST_WRITE } else { &OST_READ };
        let object = IoObject { max_brw: MaxBrw::new(32), ranges: 1, ..IoObject::default() };
        let range = Niobuf { offset, len: len as u32, flags: NiobufFlags::NONE };
        let message = Message::request(format)
            .with(&OST_BODY, &Obdo::default())
            .with(&IO_OBJECTS, &List(vec![object]))
            .with(&NIOBUFS, &List(vec![range]));
        let bulk = bulk(direction, (BufferId(7), 0, len as u64), offset);
        let request = Request::new(message, 1024).with_bulk(bulk);
        self.client.call(|machine, now| machine.request(now, self.import, request)).unwrap();
        let done = self.notices.recv_timeout(TIMEOUT).unwrap();
        let (status, moved) = done.expect("a request has ended").expect("it was served");
        assert_eq!(u64::from(direction == Direction::ToClient) * moved, status as u64);
        moved
    }
}

#[test]
fn objects_are_written_and_read_through_any_memory() {
    let runtime = Runtime::new(Some(2)).unwrap();
    let (a, b) = (TestHost::start(&runtime), TestHost::start(&runtime));
    let served = serve(&b);
    let object = served.host();
    let client = ConnectedClient::new(&a, b.nid);
    let pages = Buffer::new(17 << 20);
    for (seed, (offset, len)) in
        [(0, 1), (4095, 1 << 20), (8192, 3 << 20), (1 << 20, 16 << 20), (5, 1000)]
            .into_iter()
            .enumerate()
    {
        // Pages of 4 KiB in the opposite order.
        let starts = (0..len).step_by(4096).rev();
        let slices = starts.map(|at| pages.slice(at..(at + 4096).min(len)));
        let slices: Vec<_> = slices.collect();
        let memory = Memory::gather(slices).unwrap();
        memory.write_at(0, &pattern(seed, len));
        assert_eq!(client.transfer(Direction::ToServer, offset, &memory), len as u64);
        assert!(object.content(offset, len) == pattern(seed, len), "{len} bytes at {offset}");
        memory.write_at(0, &vec![0; len]);
        assert_eq!(client.transfer(Direction::ToClient, offset, &memory), len as u64);
        let mut read = vec![0; len];
        memory.read_at(0, &mut read);
        assert!(read == pattern(seed, len), "{len} bytes at {offset}");
    }
    // The object ends within the range.
    let memory = Memory::from(&pages);
    let moved = client.transfer(Direction::ToClient, OBJECT_LEN - 100, &memory);
    assert_eq!((moved, pages.to_vec(0, 100)), (100, object.content(OBJECT_LEN - 100, 100)));
    a.node.stop();
    b.node.stop();
}

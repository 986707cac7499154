//! A node with all services of a file system, which answers as recorded ones did.

use std::sync::{Arc, Mutex};

use fulmar_base::{BufferId, Errno};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{
    CONNECT_DATA, LLOG_BODY, LLOG_HEADER, LLOG_RECORDS, NAME, STATFS,
};
use fulmar_lustre_wire::llog::config::Config;
use fulmar_lustre_wire::llog::{LogBlock, RecordBody};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Bytes, Content, Opcode, SmallNid, Status, Uuid, portal};
use fulmar_net::{Host, Job, Memory, NiOptions, Node, Options, Running, Runtime, Service};
use fulmar_rpc::export::{ExportLimits, Offer, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::{
    PartitionConfig, Request, Server, ServerConfig, TargetConfig, TargetState, Task,
};
use fulmar_rpc::timeouts::Limits;
use fulmar_socklnd::AcceptMode;
use fulmar_trace::lnet;
use fulmar_trace::rpc::{Calls, Rpc};

const TRACE: &[u8] = include_bytes!("../../../../testdata/traces/lfs-df.pcapng.gz");

/// The operation of a request that was answered, the name in it, and the answer.
struct Exchange {
    opcode: Opcode,
    name: Option<String>,
    reply: Message<'static>,
}

/// Returns all answers of the recorded servers.
fn recorded() -> Vec<Exchange> {
    let items = lnet::items(TRACE).unwrap();
    let answered = |rpc: &Rpc<'_>| {
        let message = &rpc.request.message;
        let name = message.get(&NAME).ok().flatten().map(|name| name.to_string());
        let reply = rpc.reply()?.message.clone().into_owned();
        Some(Exchange { opcode: message.body.opcode, name, reply })
    };
    Calls::of(&items).rpcs.iter().filter_map(answered).collect()
}

/// The services. The second OST of the file system has none.
const TARGETS: [(TargetKind, &str); 3] = [
    (TargetKind::Mgs, "MGS"),
    (TargetKind::Mdt, "lv-MDT0000_UUID"),
    (TargetKind::Ost, "lv-OST0000_UUID"),
];

/// A server, until it is dropped.
pub(crate) struct Servers {
    node: Node,
    server: Running<Player>,
    pub(crate) nid: Nid,
    _runtime: Runtime,
}

impl Servers {
    /// Starts the services at an address of the loopback interface.
    pub(crate) fn start(nid: &str, port: u16) -> Self {
        let nid: Nid = nid.parse().unwrap();
        let runtime = Runtime::new(Some(1)).unwrap();
        let mut options =
            Options { nis: vec![NiOptions::at(nid.ip().unwrap())], ..Options::default() };
        options.config.socklnd.accept = AcceptMode::All;
        options.config.socklnd.accept_port = port;
        let node = Node::start(&runtime, options).unwrap();
        let target = |(kind, uuid)| {
            let uuid = Uuid::new(uuid).unwrap();
            TargetConfig { kind, name: uuid, uuid, operations: Opcode::KNOWN }
        };
        let others = [portal::MDS_REQUEST, portal::OST_REQUEST, portal::OST_CREATE];
        let mut server = Server::new(ServerConfig {
            key: 1,
            partitions: vec![
                PartitionConfig::mgs(),
                PartitionConfig::new("others", &others, 1 << 16),
            ],
            targets: TARGETS.map(target).to_vec(),
            exports: ExportLimits::default(),
            timeouts: Limits::default(),
        });
        for place in 0..TARGETS.len() {
            server.set_state(TargetId(place as u32), TargetState::Open);
        }
        let player =
            Player { nid, recorded: recorded(), served: Arc::default(), refusals: Arc::default() };
        let server = Running::start(&node, Server::CONFIG, server, player, []).unwrap();
        Self { node, server, nid, _runtime: runtime }
    }

    /// Returns the operations that were executed, in their order.
    pub(crate) fn served(&self) -> Vec<Opcode> {
        self.server.host().served.lock().unwrap().clone()
    }

    /// Makes the OST recover until it has refused so many requests.
    pub(crate) fn refuse(&self, requests: u32) {
        *self.server.host().refusals.lock().unwrap() = requests;
    }

    /// Returns how many clients are connected.
    pub(crate) fn clients(&self) -> usize {
        self.server.call(|server, _| server.exports().len()).unwrap()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.node.stop();
    }
}

struct Player {
    nid: Nid,
    recorded: Vec<Exchange>,
    served: Arc<Mutex<Vec<Opcode>>>,
    /// How many requests for the use of an OST are refused, since it recovers.
    refusals: Arc<Mutex<u32>>,
}

impl Host for Player {
    type Service = Server;

    fn memory(&self, _: BufferId) -> Option<Memory> {
        None
    }

    fn handle(&self, service: &Service, server: &mut Server, task: Task) -> Option<Job<Server>> {
        if let Task::Execute(request) = task {
            self.served.lock().unwrap().push(request.message.body.opcode);
            let reply = self.answer(&request);
            server.reply(service.now(), request.id, reply);
        }
        None
    }
}

impl Player {
    fn answer(&self, request: &Request) -> Message<'static> {
        let message = &request.message;
        let name = message.get(&NAME).ok().flatten().map(|name| name.to_string());
        let opcode = message.body.opcode;
        let is_alike = |one: &&Exchange| one.opcode == opcode && one.name == name;
        let Some(recorded) = self.recorded.iter().find(is_alike) else {
            return Message::error(message.format(), Status::failed(Errno::ENOENT));
        };
        let known = &recorded.reply;
        let empty = Message::reply(message.format(), known.body.status);
        let refusals = &mut *self.refusals.lock().unwrap();
        if opcode == Opcode::OST_STATFS && *refusals > 0 {
            *refusals -= 1;
            return Message::error(message.format(), Status::failed(Errno::EAGAIN));
        }
        if opcode.is_connect() {
            let asked = message.require(&CONNECT_DATA).unwrap();
            let granted = known.require(&CONNECT_DATA).unwrap();
            let offer = Offer { flags: granted.flags, flags2: granted.flags2 };
            return empty.with(&CONNECT_DATA, &offer.grant(&asked));
        }
        match opcode {
            Opcode::LLOG_CREATE => copy(empty, known),
            Opcode::LLOG_READ_HEADER => self.header(message, empty),
            Opcode::LLOG_NEXT_BLOCK => {
                let body = known.require(&LLOG_BODY).unwrap();
                let block = self.moved(known.require(&LLOG_RECORDS).unwrap());
                empty.with(&LLOG_BODY, &body).with(&LLOG_RECORDS, &block)
            }
            Opcode::MDS_STATFS | Opcode::OST_STATFS => {
                empty.with(&STATFS, &known.require(&STATFS).unwrap())
            }
            _ => empty,
        }
    }

    /// Answers with the header of the log that a request names.
    fn header(&self, request: &Message<'_>, empty: Message<'static>) -> Message<'static> {
        let wanted = request.require(&LLOG_BODY).unwrap().id;
        let opened = self.recorded.iter().filter(|one| one.opcode == Opcode::LLOG_CREATE);
        let is_wanted = |one: &&Exchange| one.reply.require(&LLOG_BODY).unwrap().id == wanted;
        let place = opened
            .filter(|one| one.reply.body.status == Status::OK)
            .position(|one| is_wanted(&one));
        let headers = self.recorded.iter().filter(|one| one.opcode == Opcode::LLOG_READ_HEADER);
        let header =
            headers.map(|one| one.reply.require(&LLOG_HEADER).unwrap()).nth(place.unwrap());
        empty.with(&LLOG_HEADER, &header.unwrap())
    }

    /// Returns the records of a log with our NID in place of the recorded one.
    fn moved(&self, mut block: LogBlock) -> LogBlock {
        let order = block.order;
        for record in &mut block.records {
            if let RecordBody::Config(Config::AddUuid { node, .. }) = record.typed(order) {
                let nid = SmallNid(self.nid.to_small().unwrap());
                let moved = Config::AddUuid { nid, node, large_nid: None };
                record.body = Bytes(moved.record(order).to_bytes());
            }
        }
        block
    }
}

/// Returns a reply with the first buffers of a recorded one.
fn copy(empty: Message<'static>, known: &Message<'_>) -> Message<'static> {
    empty.with(&LLOG_BODY, &known.require(&LLOG_BODY).unwrap())
}

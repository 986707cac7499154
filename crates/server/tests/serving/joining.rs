//! An OST of ours in the place of a recorded one: it joins the recorded MGS and MDT, which answer as they
//! did.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::Address;
use fulmar_ldlm::server::Config as LockConfig;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{
    CLIENT_UUID, CONFIG_BODY, CONNECT_DATA, LLOG_BODY, NAME, OST_BODY, SEQ_OP, SEQ_RANGE,
    TARGET_INFO,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::mgs::TargetFlags;
use fulmar_lustre_wire::{Opcode, Status, Uuid, portal};
use fulmar_net::{Buffer, NiOptions, Node, Options, Runtime};
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::export::{ExportLimits, Offer, TargetId};
use fulmar_rpc::import::{Request as Call, TargetKind};
use fulmar_rpc::service::{
    PartitionConfig, Request, Server, ServerConfig, TargetConfig, TargetState,
};
use fulmar_rpc::timeouts::Limits;
use fulmar_server::{
    Answer, Context, Label, Memories, Operation, RunningTargets, ServeOptions, Serving, Target,
    TargetLabel, Targets, TargetsConfig, enqueue,
};
use fulmar_socklnd::AcceptMode;
use fulmar_trace::rpc::{Calls, Rpc};

use crate::recorded::items;
use crate::rig::{Scratch, TIMEOUT, session_at};

/// Other tests do not use this port: the addresses are those of the recording.
static PORT: LazyLock<u16> = LazyLock::new(|| fulmar_loopback::ports(1));
/// The recorded server and the recorded OST, and where they are in this test. Both texts are as long.
const MOVED: [(&str, &str); 2] =
    [("10.99.0.2@tcp", "127.0.0.2@tcp"), ("10.99.0.3@tcp", "127.0.0.3@tcp")];

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// A request that was answered, and the answer.
struct Exchange {
    request: Message<'static>,
    portal: u32,
    reply: Message<'static>,
    bulk: Vec<u8>,
}

impl Exchange {
    fn of(rpc: &Rpc<'_>) -> Option<Self> {
        let request = rpc.request.message.clone().into_owned();
        let reply = moved(rpc.reply()?.bytes);
        let reply = Message::decode(&reply).unwrap().answering(request.format()).into_owned();
        let bulk = rpc.bulk.iter().flat_map(|part| part.bytes.to_vec()).collect();
        Some(Self { request, portal: rpc.portal, reply, bulk })
    }

    /// Returns whether it is an answer to a request too. `exactly`: also of the same place of a log.
    fn answers(&self, request: &Message<'_>, exactly: bool) -> bool {
        let opcode = request.body.opcode;
        let about = |message: &Message<'_>| {
            let name = message.get(&NAME).ok().flatten().map(|name| name.to_string());
            let kind = message.get(&CONFIG_BODY).ok().flatten().map(|body| body.kind);
            let info = message.get(&TARGET_INFO).ok().flatten();
            let is_start = info.map(|info| info.flags.has(TargetFlags::OPC_READY));
            let log = message.get(&LLOG_BODY).ok().flatten().filter(|_| name.is_none());
            (name, kind, is_start, log.map(|log| (log.id, if exactly { log.index } else { 0 })))
        };
        self.request.body.opcode == opcode && about(&self.request) == about(request)
    }
}

/// Returns bytes with the NIDs of this test.
fn moved(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (from, to) in MOVED {
        let small = |text| nid(text).to_small().unwrap().to_le_bytes();
        for (from, to) in [(from.as_bytes(), to.as_bytes()), (&small(from)[..], &small(to)[..])] {
            for at in 0..=bytes.len().saturating_sub(from.len()) {
                if bytes[at..].starts_with(from) {
                    bytes[at..][..to.len()].copy_from_slice(to);
                }
            }
        }
    }
    bytes
}

/// A recorded server, and what it was asked.
struct Player {
    recorded: Arc<Vec<Exchange>>,
    memories: Arc<Memories<Buffer>>,
    asked: Arc<Mutex<Vec<Message<'static>>>>,
}

impl Player {
    fn reply(&self, request: &Message<'_>) -> Message<'static> {
        let find = |exactly| self.recorded.iter().find(|one| one.answers(request, exactly));
        let Some(known) = find(true).or_else(|| find(false)) else {
            return Message::error(request.format(), Status::failed(Errno::ENOENT));
        };
        let mut reply = known.reply.clone();
        reply.body = Message::reply(request.format(), known.reply.body.status).body;
        if request.body.opcode.is_connect() {
            let asked = request.require(&CONNECT_DATA).unwrap();
            let granted = known.reply.require(&CONNECT_DATA).unwrap();
            let offer = Offer { flags: granted.flags, flags2: granted.flags2 };
            let empty = Message::reply(request.format(), Status::OK);
            return empty.with(&CONNECT_DATA, &offer.grant(&asked));
        }
        reply
    }
}

impl Target for Player {
    fn execute(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Operation<Result<Answer, Errno>> {
        Box::pin(async move {
            let message = &request.message;
            self.asked.lock().unwrap().push(message.clone().into_owned());
            if message.body.opcode == Opcode::LDLM_ENQUEUE {
                return enqueue(context, &request).await;
            }
            let found = self.recorded.iter().find(|one| one.answers(message, true));
            if let Some(Exchange { bulk, .. }) = found.filter(|one| !one.bulk.is_empty()) {
                let part = self.memories.allocate(request.from.nid, bulk.len())?;
                part.memory().write_at(0, bulk);
                let bulk = Bulk::new(Direction::ToClient, portal::MGS_BULK, part.span(), 0);
                context.transfer(&request, bulk, 1).await?;
            }
            Ok(Answer::Reply(self.reply(message)))
        })
    }
}

fn start(runtime: &Runtime, nid: Nid) -> Node {
    let mut options = Options::default();
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = *PORT;
    options.nis.push(NiOptions::at(nid.ip().unwrap()));
    Node::start(runtime, options).unwrap()
}

/// Serves the recorded MGS and MDT.
fn serve(
    node: &Node,
    recorded: &Arc<Vec<Exchange>>,
    asked: &Arc<Mutex<Vec<Message<'static>>>>,
) -> RunningTargets {
    let memories = Memories::new(1 << 24, Buffer::new);
    let kinds = [(TargetKind::Mgs, "MGS"), (TargetKind::Mdt, "lv-MDT0000_UUID")];
    let target = |(kind, uuid): (TargetKind, &str)| {
        let name = Uuid::new(uuid).unwrap();
        TargetConfig { kind, name, uuid: name, operations: Opcode::KNOWN }
    };
    let portals = [portal::MDS_REQUEST, portal::SEQ_CONTROLLER, portal::LDLM_CANCEL_REQUEST];
    let mut server = Server::new(ServerConfig {
        key: 1,
        partitions: vec![PartitionConfig::mgs(), PartitionConfig::new("mdt", &portals, 1 << 16)],
        targets: kinds.map(target).to_vec(),
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    });
    for place in 0..2 {
        server.set_state(TargetId(place), TargetState::Open);
    }
    let part = |(kind, name): (TargetKind, &str)| {
        let (recorded, memories) = (recorded.clone(), memories.clone());
        let target = Arc::new(Player { recorded, memories, asked: asked.clone() });
        TargetsConfig { name: name.to_owned(), target, kind, locks: LockConfig::mgs(), key: 7 }
    };
    RunningTargets::start(node, Targets::new(server, kinds.map(part)), memories).unwrap()
}

#[test]
fn an_ost_of_ours_joins_recorded_servers() {
    let items = items("ost-join");
    let recorded: Vec<Exchange> = Calls::of(&items).rpcs.iter().filter_map(Exchange::of).collect();
    let (recorded, asked) = (Arc::new(recorded), Arc::default());
    let runtime = Runtime::new(Some(2)).unwrap();
    let servers = start(&runtime, nid(MOVED[0].1));
    let served = serve(&servers, &recorded, &asked);

    let scratch = Scratch::new("joining");
    let address: Address = format!("{}:/lv", MOVED[0].1).parse().unwrap();
    let label = TargetLabel { kind: TargetKind::Ost, index: 2, address: address.clone() };
    fulmar_server::format(&scratch.0, &Label::Target(label)).unwrap();
    let own = nid(MOVED[1].1);
    let node = start(&runtime, own);
    let directories = vec![scratch.0.clone()];
    let options = ServeOptions { directories, nids: vec![own], port: *PORT };
    let serving = Serving::start(&node, &options).unwrap();
    let begun = Instant::now();
    // The nodemaps are read when it has joined.
    let has_read = |asked: &[Message<'static>]| {
        asked.iter().any(|one| one.body.opcode == Opcode::MGS_CONFIG_READ)
    };
    while !has_read(&asked.lock().unwrap()) {
        assert!(begun.elapsed() < TIMEOUT, "{:?}", asked.lock().unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    check_requests(&asked.lock().unwrap(), &recorded);
    check_mdt(&runtime, &address, &recorded);
    serving.stop();
    drop(served);
    node.stop();
    servers.stop();
}

/// Compares what ours has asked with what the recorded OST has.
fn check_requests(asked: &[Message<'static>], recorded: &[Exchange]) {
    let all = |opcode: Opcode| asked.iter().filter(move |one| one.body.opcode == opcode);
    let known = |opcode: Opcode| {
        recorded.iter().map(|one| &one.request).filter(move |one| one.body.opcode == opcode)
    };
    // A kernel OST repeats in the report of its start how it has registered.
    let of_registration = TargetFlags::VIRGIN | TargetFlags::UPDATE;
    let registration = |message: &Message<'_>| {
        let info = message.require(&TARGET_INFO).unwrap();
        let is_start = info.flags.has(TargetFlags::OPC_READY);
        let flags = if is_start { info.flags | of_registration } else { info.flags };
        let texts = (info.file_system.to_string(), info.name.to_string());
        (info.index, flags, texts, info.nid_count, if is_start { info.instance } else { 0 })
    };
    let registered: Vec<_> = all(Opcode::MGS_TARGET_REG).map(registration).collect();
    assert_eq!(registered, known(Opcode::MGS_TARGET_REG).map(registration).collect::<Vec<_>>());
    let uuid = |message: &Message<'_>| message.require(&CLIENT_UUID).unwrap();
    let connected = all(Opcode::MDS_CONNECT).map(uuid);
    assert!(connected.eq(known(Opcode::MDS_CONNECT).map(uuid)));
    let wanted = |message: &Message<'_>| {
        (message.require(&SEQ_OP).unwrap(), message.require(&SEQ_RANGE).unwrap().index)
    };
    let own = all(Opcode::SEQ_QUERY).map(wanted).next().unwrap();
    assert!(known(Opcode::SEQ_QUERY).map(wanted).any(|one| one == own), "{own:?}");
}

/// Sends our OST what the recorded MDT has sent to the recorded one: it has got its sequence.
fn check_mdt(runtime: &Runtime, address: &Address, recorded: &[Exchange]) {
    let own = nid("127.0.0.4@tcp");
    let node = start(runtime, own);
    let mut session = session_at(&node, own, *PORT);
    let mgs = session.connect_mgs(address).unwrap();
    let osts = session.file_system(mgs, address).unwrap().osts;
    let ost = osts.iter().find(|ost| ost.index == 2).expect("the log has it");
    assert_eq!(ost.nids, [nid(MOVED[1].1)]);
    let mdt = Uuid::new("lv-MDT0000-mdtlov_UUID").unwrap();
    let import = session.connect_as(mdt, ost).unwrap();
    let of_mdt = recorded.iter().filter(|one| {
        let is_sequence = one.portal == portal::SEQ_DATA;
        is_sequence || one.request.body.opcode == Opcode::OST_CREATE
    });
    let mut count = 0;
    for Exchange { request, portal, reply, .. } in of_mdt {
        let call = Call::new(request.clone(), 64 << 10).at(*portal);
        let own = session.call(import, call).unwrap();
        let sequence = |message: &Message<'_>| message.get(&SEQ_RANGE).ok().flatten();
        let body = |message: &Message<'_>| message.get(&OST_BODY).ok().flatten();
        let [theirs, ours] = [reply, &own].map(|one| {
            let range = sequence(one).map(|range| (range.start, range.end));
            (one.body.status, range, body(one).map(|body| (body.valid, body.id)))
        });
        assert_eq!(ours, theirs, "{:?}", request.body.opcode);
        count += 1;
    }
    assert_eq!(count, 3);
    drop(session);
    node.stop();
}

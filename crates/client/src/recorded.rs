//! Recorded conversations: that of a real client, and one of this client with real servers, which is
//! made again.

mod striped;

use std::collections::BTreeMap;

use fulmar_base::Time;
use fulmar_lnet::{Bound, Event, EventKind, MdId, Memory, Op, Service, ServiceOutput};
use fulmar_lustre_wire::format::{CLIENT_UUID, CONNECTION, STATFS};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Opcode, Uuid};
use fulmar_rpc::XidSource;
use fulmar_rpc::client::{Client, ImportId, Notice};
use fulmar_rpc::import::{Request, RequestId, Sender, Target, TargetKind};
use fulmar_trace::lnet;
use fulmar_trace::rpc::{Calls, Rpc};

use crate::connect::requested;
use crate::inbox::Reply;
use crate::logs::LogReader;
use crate::{Configuration, FsTarget, Usage, members};

/// A real client mounts the file system.
pub(crate) const MOUNT: &[u8] = include_bytes!("../../../testdata/traces/mount.pcapng.gz");
/// `fulmar lfs df` of real servers.
pub(crate) const LFS_DF: &[u8] = include_bytes!("../../../testdata/traces/lfs-df.pcapng.gz");

/// Calls `check` with the RPCs of a trace, in the order of their requests.
pub(crate) fn with_rpcs<R>(trace: &[u8], check: impl FnOnce(&[Rpc<'_>]) -> R) -> R {
    let items = lnet::items(trace).unwrap();
    let calls = Calls::of(&items);
    assert!(calls.strays.is_empty());
    check(&calls.rpcs)
}

#[test]
fn every_message_decodes_and_encodes_to_the_same_bytes() {
    with_rpcs(LFS_DF, |rpcs| {
        assert_eq!(rpcs.len(), 16);
        for rpc in rpcs {
            let reply = rpc.reply().expect("it was answered");
            for packet in [&rpc.request, reply] {
                let message = &packet.message;
                assert_eq!(message.to_bytes(), packet.bytes, "{:?}", message.body.opcode);
                assert!(message.buffers().all(|(field, _)| field.is_some()));
            }
            assert_eq!(reply.message.body.status.errno(), None);
        }
    });
}

/// A client whose requests must be the recorded ones, and that gets the recorded replies.
struct Replay<'a> {
    client: Client,
    rpcs: &'a [Rpc<'a>],
    /// How many requests were sent.
    sent: usize,
    /// The requests without a reply, and the descriptors for their replies.
    waiting: Vec<(&'a Rpc<'a>, u64)>,
    replies: BTreeMap<(ImportId, RequestId), Reply>,
}

impl<'a> Replay<'a> {
    fn new(rpcs: &'a [Rpc<'a>]) -> Self {
        // XIDs begin with the time in seconds. Spec: ptlrpc-ldlm-mgs §3.1.
        let client = Client::new(XidSource::new(rpcs[0].xid >> 20));
        Self { client, rpcs, sent: 0, waiting: Vec::new(), replies: BTreeMap::new() }
    }

    /// The time of the next request.
    fn now(&self) -> Time {
        self.rpcs[self.sent].request.time
    }

    /// Connects to a target, as the recorded client did.
    fn connect(&mut self, kind: TargetKind, uuid: Uuid) -> ImportId {
        let (now, rpc) = (self.now(), &self.rpcs[self.sent]);
        let known = &rpc.request.message;
        let target = Target {
            client: known.require(&CLIENT_UUID).unwrap(),
            connection: known.require(&CONNECTION).unwrap(),
            sender: Sender { pid: known.body.status.0, ..Sender::default() },
            ..Target::new(kind, uuid, vec![rpc.server], requested(kind))
        };
        let import = self.client.connect(now, target);
        self.settle(now);
        import
    }

    fn request(&mut self, import: ImportId, request: Request) -> (ImportId, RequestId) {
        let now = self.now();
        let id = self.client.request(now, import, request).unwrap();
        self.settle(now);
        (import, id)
    }

    /// Waits for the reply to a request.
    fn reply(&mut self, key: (ImportId, RequestId)) -> Reply {
        while !self.replies.contains_key(&key) {
            self.deliver();
        }
        self.replies.remove(&key).unwrap()
    }

    /// Delivers the earliest reply.
    fn deliver(&mut self) {
        let time = |rpc: &Rpc<'_>| rpc.reply().unwrap().time;
        let next = (0..self.waiting.len()).min_by_key(|&place| time(self.waiting[place].0));
        let (rpc, user) = self.waiting.remove(next.expect("a reply is expected"));
        let reply = rpc.reply().unwrap();
        let len = reply.bytes.len() as u32;
        let event = Event {
            kind: EventKind::Put,
            rlength: len,
            mlength: len,
            offset: reply.offset.into(),
            unlinked: false,
            ..Event::unlinked(MdId(user), user)
        };
        self.client.handle_event(reply.time, &event, reply.bytes.to_vec());
        self.settle(reply.time);
    }

    /// Compares what the client sends.
    fn settle(&mut self, now: Time) {
        let mut memory = None;
        while let Some(output) = self.client.poll_output() {
            match output {
                ServiceOutput::Post(Op::Attach { md, .. }) => {
                    memory = Some(md.user);
                    self.client.handle_posted(now, md.user, Ok(MdId(md.user)));
                }
                ServiceOutput::Post(Op::Put {
                    from: Bound::New(md, Memory::Bytes(bytes)),
                    put,
                }) => {
                    let rpc = &self.rpcs[self.sent];
                    self.sent += 1;
                    let sent = Message::decode(&bytes).unwrap();
                    assert_eq!(sent, rpc.request.message, "request {}", self.sent);
                    assert_eq!(&*bytes, rpc.request.bytes);
                    let to = (put.target.nid, put.portal, put.match_bits);
                    assert_eq!(to, (rpc.server, rpc.portal, rpc.xid));
                    self.waiting.push((rpc, memory.take().expect("memory for the reply")));
                    self.client.handle_posted(now, md.user, Ok(MdId(md.user)));
                    let kind = EventKind::Send;
                    let event = Event { kind, ..Event::unlinked(MdId(md.user), md.user) };
                    self.client.handle_event(now, &event, Vec::new());
                }
                ServiceOutput::Post(_)
                | ServiceOutput::Host(
                    Notice::State { .. } | Notice::Replayed { .. } | Notice::Released { .. },
                ) => {}
                ServiceOutput::Host(Notice::Done { import, request, result, .. }) => {
                    self.replies.insert((import, request), result);
                }
            }
        }
    }
}

#[test]
fn the_client_makes_a_recorded_conversation_again_byte_for_byte() {
    with_rpcs(LFS_DF, |rpcs| {
        let mut replay = Replay::new(rpcs);
        let mgs = replay.connect(TargetKind::Mgs, Uuid::new("MGS").unwrap());
        replay.deliver();
        let mut logs = Vec::new();
        for name in ["lv-client", "params"] {
            let mut reader = LogReader::new(name).unwrap();
            while let Some((message, room)) = reader.request() {
                let request = replay.request(mgs, Request::new(message, room));
                reader.take(replay.reply(request)).unwrap();
            }
            logs.push(reader.configs);
        }
        let lv = Configuration::of("lv", &logs[0], &logs[1]);
        let connect = |target: &FsTarget| (target.kind, replay.connect(target.kind, target.uuid));
        let imports: Vec<_> = lv.targets().map(connect).collect();
        let requests: Vec<_> = imports
            .iter()
            .map(|(kind, import)| replay.request(*import, members::statfs(*kind)))
            .collect();
        let sizes: Vec<_> = requests
            .into_iter()
            .map(|request| {
                let reply = replay.reply(request).unwrap();
                let usage = Usage::of(&reply.require(&STATFS).unwrap());
                (usage.bytes >> 10, usage.used() >> 10, usage.available >> 10)
            })
            .collect();
        let ost = (441_344, 2048, 437_248);
        assert_eq!(sizes, [(245_504, 2048, 241_408), ost, ost]);

        let now = replay.now();
        for import in [mgs].into_iter().chain(imports.into_iter().map(|(_, import)| import)) {
            replay.client.disconnect(now, import);
        }
        replay.settle(now);
        assert_eq!(replay.sent, rpcs.len());
        assert_eq!(rpcs.last().unwrap().request.message.body.opcode, Opcode::OST_DISCONNECT);
    });
}

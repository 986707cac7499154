//! The targets of a file system over stores in memory, without a network.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound as Range;
use std::sync::Arc;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_ldlm::server::Config as LockConfig;
use fulmar_lnet::{
    Bound, Event, EventKind, Md, MdId, Memory as ChangeLocks, Op, Put, Service, ServiceOutput,
};
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_lustre_wire::message::EARLY_LEN;
use fulmar_lustre_wire::seq::{SeqKind, SeqRange};
use fulmar_lustre_wire::{Fid, Opcode, Uuid, portal};
use fulmar_mdt::{Mdt, Object, Objects, Plan};
use fulmar_mgs::{Mgs, Start, Target};
use fulmar_ost::Ost;
use fulmar_rpc::export::{ExportLimits, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::{PartitionConfig, Server, ServerConfig, TargetConfig, TargetState};
use fulmar_rpc::timeouts::Limits;
use fulmar_server::{
    MdtTarget, Memories, Memory, MgsTarget, OstTarget, Osts, TargetName, Targets, TargetsConfig,
    with_locks,
};
use fulmar_store::{Policy, Space, Store};

use super::memory::Bytes;

pub(crate) const MGS: TargetId = TargetId(0);
pub(crate) const MDT: TargetId = TargetId(1);
/// The sequences of the objects of the recorded OSTs, by index.
pub(crate) const SEQUENCES: [u64; 3] = [0x2_4000_0400, 0x2_8000_0400, 0x2_c000_0400];
/// The portals of requests.
const SERVED: [u32; 13] = [
    portal::MGS_REQUEST,
    portal::MDS_REQUEST,
    portal::MDS_IO,
    portal::MDS_READPAGE,
    portal::OUT,
    portal::FLD_REQUEST,
    portal::SEQ_METADATA,
    portal::SEQ_CONTROLLER,
    portal::SEQ_DATA,
    portal::OST_REQUEST,
    portal::OST_IO,
    portal::OST_CREATE,
    portal::LDLM_CANCEL_REQUEST,
];
/// What the MDT notes that its OSTs have to do.
const TASKS: Space = Space::new(0x31);

thread_local! {
    /// The seconds since 1970. The targets work in the thread of their machine.
    static CLOCK: Cell<i64> = const { Cell::new(0) };
}

/// A message of the targets.
pub(crate) struct Sent {
    pub(crate) put: Put,
    pub(crate) bytes: Vec<u8>,
}

/// A part of bulk data that a target moves.
pub(crate) struct Move {
    pub(crate) client: Nid,
    pub(crate) match_bits: u64,
    pub(crate) is_get: bool,
    md: Md,
}

/// The targets, and what they want.
pub(crate) struct Machine {
    targets: Targets,
    now: Time,
    memories: Arc<Memories<Bytes>>,
    stores: Vec<Arc<Store>>,
    osts: Arc<Osts>,
    /// The descriptors of requests by portal, and of replies to callbacks by match bits.
    portals: BTreeMap<u32, u64>,
    replies: BTreeMap<u64, u64>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) moves: Vec<Move>,
}

fn seconds() -> i64 {
    CLOCK.get()
}

fn name(kind: TargetKind, index: u16) -> TargetName {
    TargetName { file_system: "lv".into(), kind, index }
}

impl Machine {
    /// Returns a file system with this many OSTs, at a node without clients.
    pub(crate) fn new(now: Time, server: Nid, osts: u16) -> Self {
        Self::over(now, server, (osts, osts), |_| Store::memory(b"", Policy::default()))
    }

    /// The same with one more OST, which has got its sequences but has not registered.
    pub(crate) fn joining(now: Time, server: Nid, osts: u16) -> Self {
        Self::over(now, server, (osts + 1, osts), |_| Store::memory(b"", Policy::default()))
    }

    /// The same over other stores, by the number of the target. `osts`: all, and those that have
    /// registered.
    pub(crate) fn over(
        now: Time,
        server: Nid,
        (osts, registered): (u16, u16),
        mut of: impl FnMut(TargetId) -> Store,
    ) -> Self {
        CLOCK.set(now.as_secs() as i64);
        let memories = Memories::new(1 << 28, Bytes::new);
        let mut stores = vec![];
        let mut store = || {
            let store = Arc::new(of(TargetId(stores.len() as u32)));
            stores.push(store.clone());
            store
        };
        let mgs = MgsTarget::open(store(), memories.clone(), seconds).unwrap();
        register(&mgs, server, (osts, registered));
        let of_mdt = store();
        let known = Osts::load(&of_mdt, seconds()).unwrap();
        let settings = fulmar_mdt::Settings::default();
        let mdt = Mdt::start(of_mdt.clone(), settings, known.clone(), seconds()).unwrap();
        let parts = (Arc::new(mdt), known.clone(), of_mdt);
        let mut all = vec![
            config(TargetKind::Mgs, "MGS".to_owned(), mgs),
            config(TargetKind::Mdt, name(TargetKind::Mdt, 0).to_string(), {
                MdtTarget::new(parts, memories.clone(), || {
                    Duration::from_secs(seconds().unsigned_abs())
                })
            }),
        ];
        for index in 0..osts {
            let store = store();
            let settings = fulmar_ost::Settings { index, ..fulmar_ost::Settings::default() };
            let ost = Arc::new(Ost::start(store.clone(), settings).unwrap());
            let start = SEQUENCES[usize::from(index)];
            if index >= registered {
                let (index, kind) = (index.into(), SeqKind::OST);
                let range = SeqRange { start, end: start + (1 << 30), index, kind };
                ost.add_sequences(range).unwrap();
            }
            known.attach(index.into(), start);
            let target = OstTarget::new(ost, store, memories.clone(), || {
                Duration::from_secs(seconds().unsigned_abs())
            });
            all.push(config(TargetKind::Ost, name(TargetKind::Ost, index).to_string(), target));
        }
        let count = all.len() as u32;
        let (configs, all) = all.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
        let targets = Targets::new(server_of(configs), all);
        let mut this = Self {
            targets,
            now,
            memories,
            stores,
            osts: known,
            portals: BTreeMap::new(),
            replies: BTreeMap::new(),
            sent: vec![],
            moves: vec![],
        };
        for target in (0..count).map(TargetId) {
            let open = |server: &mut Server| server.set_state(target, TargetState::Open);
            this.targets.with_server(now, open);
        }
        this.settle();
        this
    }

    /// Removes a target. Its store is closed as by a crash.
    pub(crate) fn remove(&mut self, target: TargetId) {
        assert!(self.targets.remove(self.now, target));
        // Nothing is committed any more.
        self.stores[target.0 as usize] = Arc::new(Store::memory(b"", Policy::default()));
        self.settle();
    }

    /// Starts an OST over a store with another number.
    pub(crate) fn start_ost(&mut self, index: u16, store: Store) -> TargetId {
        let store = Arc::new(store);
        self.stores.push(store.clone());
        let settings = fulmar_ost::Settings { index, ..fulmar_ost::Settings::default() };
        let ost = Arc::new(Ost::start(store.clone(), settings).unwrap());
        let target = OstTarget::new(ost, store, self.memories.clone(), || {
            Duration::from_secs(seconds().unsigned_abs())
        });
        let name = name(TargetKind::Ost, index).to_string();
        let (known, part) = config(TargetKind::Ost, name, target);
        let target = self.targets.add(known, part);
        let open = |server: &mut Server| server.set_state(target, TargetState::Open);
        self.targets.with_server(self.now, open);
        self.settle();
        target
    }

    /// Returns whether nothing is under way at a target but operations that wait for locks.
    pub(crate) fn is_drained(&self, target: TargetId) -> bool {
        self.targets.is_drained(target)
    }

    /// Returns how much memory of bulk data is in use.
    pub(crate) fn taken(&self) -> usize {
        self.memories.taken()
    }

    /// Waits until a time.
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some(at) = self.targets.poll_timeout().filter(|at| *at <= now) {
            self.set_time(at);
            self.targets.handle_timeout(self.now);
            self.settle();
        }
        self.set_time(now);
    }

    fn set_time(&mut self, now: Time) {
        self.now = self.now.max(now);
        CLOCK.set(self.now.as_secs() as i64);
    }

    /// Delivers a request of a client.
    pub(crate) fn request(&mut self, client: Nid, portal: u32, bits: u64, bytes: Vec<u8>) {
        let user = self.portals[&portal];
        self.deliver((client, portal, bits), user, false, bytes);
    }

    /// Delivers the reply to a callback.
    pub(crate) fn answer(&mut self, client: Nid, bits: u64, bytes: Vec<u8>) {
        if let Some(user) = self.replies.remove(&bits) {
            self.deliver((client, portal::LDLM_CALLBACK_REPLY, bits), user, true, bytes);
        }
    }

    fn deliver(
        &mut self,
        (client, portal, match_bits): (Nid, u32, u64),
        user: u64,
        unlinked: bool,
        bytes: Vec<u8>,
    ) {
        let from = ProcessId::lustre(client);
        let event = Event {
            kind: EventKind::Put,
            initiator: from,
            source: from,
            sender: from.nid,
            portal,
            match_bits,
            rlength: bytes.len() as u32,
            mlength: bytes.len() as u32,
            // A reply is stored behind the place of an early one.
            offset: if unlinked { EARLY_LEN as u64 } else { 0 },
            unlinked,
            ..Event::unlinked(MdId(user), user)
        };
        self.targets.handle_event(self.now, &event, bytes);
        self.settle();
    }

    /// Does what the targets want, until they want nothing.
    fn settle(&mut self) {
        loop {
            while let Some(output) = self.targets.poll_output() {
                match output {
                    ServiceOutput::Host(work) => {
                        work.run();
                        self.targets.resume(self.now);
                    }
                    ServiceOutput::Post(op) => self.post(op),
                }
            }
            let mut is_done = true;
            for (place, store) in (0..).zip(self.stores.clone()) {
                if store.due(self.now).is_some() {
                    let committed = store.commit();
                    self.targets.committed(self.now, TargetId(place), committed);
                    is_done = false;
                }
            }
            if is_done {
                self.targets.check_invariants().unwrap();
                // No operation that can go on waits for the next event.
                self.targets.resume(self.now);
                assert!(self.targets.poll_output().is_none(), "an operation was forgotten");
                return;
            }
        }
    }

    fn post(&mut self, op: Op) {
        match op {
            Op::Attach { portal: portal::LDLM_CALLBACK_REPLY, me, md, .. } => {
                self.replies.insert(me.match_bits, md.user);
            }
            Op::Attach { portal, md, .. } => drop(self.portals.insert(portal, md.user)),
            Op::Put { from: Bound::New(md, ChangeLocks::Bytes(bytes)), put }
                if !portal::is_bulk(put.portal) =>
            {
                self.sent.push(Sent { put, bytes: bytes.to_vec() });
                if put.ack {
                    let kind = EventKind::Ack;
                    let event =
                        Event { kind, unlinked: false, ..Event::unlinked(MdId(9), md.user) };
                    self.targets.handle_event(self.now, &event, vec![]);
                }
                let event = Event { kind: EventKind::Send, ..Event::unlinked(MdId(9), md.user) };
                self.targets.handle_event(self.now, &event, vec![]);
            }
            Op::Put { from: Bound::New(md, _), put } => {
                let (client, match_bits) = (put.target.nid, put.match_bits);
                self.moves.push(Move { client, match_bits, is_get: false, md });
            }
            Op::Get { into: Bound::New(md, _), get } => {
                let (client, match_bits) = (get.target.nid, get.match_bits);
                self.moves.push(Move { client, match_bits, is_get: true, md });
            }
            _ => {}
        }
    }

    /// Moves a part of bulk data: stores what the client has, or returns what it gets.
    pub(crate) fn finish(&mut self, part: &Move, bytes: Option<&[u8]>) -> Vec<u8> {
        let Md { buffer, offset, len, user, .. } = part.md;
        let mut moved = vec![0; len as usize];
        // Nothing is moved from nowhere.
        if let Some(memory) = self.memories.get(buffer) {
            match bytes {
                Some(bytes) => memory.write_at(offset as usize, bytes),
                None => memory.read_at(offset as usize, &mut moved),
            }
        }
        let kind = if part.is_get { EventKind::Reply } else { EventKind::Ack };
        let mlength = bytes.map_or(len, |bytes| bytes.len() as u64) as u32;
        let event = Event { kind, mlength, ..Event::unlinked(MdId(9), user) };
        self.targets.handle_event(self.now, &event, vec![]);
        self.settle();
        moved
    }

    /// Gives the MDT objects for a file, so that it gets these in this order.
    pub(crate) fn provide(&self, objects: &[Object]) {
        if objects.is_empty() {
            return;
        }
        let plan = Plan {
            stripe_size: 1 << 20,
            stripe_count: objects.len() as u16,
            stripes_max: 100,
            first: None,
            osts: vec![],
            pool: None,
            is_overstriped: false,
        };
        let osts = self.stores.len() - 2;
        self.osts.give_back(objects);
        for _ in 0..osts {
            let taken = self.osts.take(&plan).unwrap();
            self.osts.give_back(&taken);
            if taken == objects {
                break;
            }
        }
        for _ in 1..osts {
            let taken = self.osts.take(&plan).unwrap();
            self.osts.give_back(&taken);
        }
    }

    /// Returns the objects that the MDT wants to be removed.
    pub(crate) fn removed(&self) -> BTreeSet<Fid> {
        let tasks =
            self.stores[MDT.0 as usize].scan(TASKS, Range::Unbounded, Range::Unbounded, 1 << 20);
        let object = |value: &[u8]| {
            let seq = u64::from_be_bytes(value[4..12].try_into().unwrap());
            let oid = u32::from_be_bytes(value[12..16].try_into().unwrap());
            (value[..4] == [0, 0, 0, 1]).then_some(Fid { seq, oid, version: 0 })
        };
        tasks.unwrap().iter().filter_map(|(_, value)| object(value)).collect()
    }
}

/// Registers the MDT and the OSTs.
fn register(mgs: &MgsTarget<Bytes>, server: Nid, (osts, registered): (u16, u16)) {
    let started = |kind, index, instance| {
        let start = Start { kind, index, instance, nids: vec![server] };
        let change = |mgs: &mut Mgs, _| {
            mgs.table("lv").started(start);
            Ok::<(), Errno>(())
        };
        mgs.change(change).unwrap();
    };
    if registered < osts {
        // The MDT of the recording had been started more often.
        (0..4).for_each(|instance| started(TargetKind::Mdt, 0, instance));
    }
    let osts = (0..registered).map(|index| (TargetKind::Ost, index));
    for (kind, index) in [(TargetKind::Mdt, 0)].into_iter().chain(osts) {
        let target = Target { nodes: vec![vec![server]] };
        mgs.change(|mgs, now| mgs.add(now, &name(kind, index), target)).unwrap();
        started(kind, index, 1);
    }
}

fn config(
    kind: TargetKind,
    name: String,
    target: Arc<dyn fulmar_server::Target>,
) -> (TargetConfig, TargetsConfig) {
    let (id, operations, locks) = match kind {
        TargetKind::Mgs => (name.clone(), Mgs::OPERATIONS, LockConfig::mgs()),
        TargetKind::Mdt => (format!("{name}_UUID"), Mdt::OPERATIONS, LockConfig::mdt()),
        _ => (format!("{name}_UUID"), Ost::OPERATIONS, LockConfig::ost()),
    };
    let uuid = |text: &str| Uuid::new(text).unwrap();
    let operations: &'static [Opcode] = with_locks(operations);
    let known = TargetConfig { kind, name: uuid(&name), uuid: uuid(&id), operations };
    let key = name.bytes().fold(7, |key, byte| key * 31 + u128::from(byte));
    (known, TargetsConfig { name, target, kind, locks, key })
}

fn server_of(targets: Vec<TargetConfig>) -> Server {
    let portals: Vec<u32> = SERVED.to_vec();
    let partitions = vec![PartitionConfig::new("all", &portals, 1 << 20)];
    let (exports, timeouts) = (ExportLimits::default(), Limits::default());
    Server::new(ServerConfig { key: 1, partitions, targets, exports, timeouts })
}

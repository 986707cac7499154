//! A target as a client uses it.

use std::collections::BTreeMap;

use fulmar_base::Time;
use fulmar_ldlm::client::{CancelId, Coverage, LockId, Namespace};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::Format;
use fulmar_lustre_wire::{Handle, Opcode, Uuid};
use fulmar_rpc::RELEASE;
use fulmar_rpc::client::{Client, ImportId};
use fulmar_rpc::export::{ExportLimits, TargetId};
use fulmar_rpc::import::{Request, RequestId, Target, TargetKind};
use fulmar_rpc::service::{self, PartitionConfig, Server, ServerConfig, TargetConfig, TargetState};
use fulmar_rpc::timeouts::Limits;

use super::check::{Ledger, Part};
use super::client::uuid_of;
use super::files::{Wish, parts_of};
use super::target;

/// One use of a lock.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) lock: LockId,
    pub(super) wish: Wish,
    /// The reads without an answer.
    pub(super) reads: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CachedVersion {
    pub(super) version: u64,
    pub(super) is_dirty: bool,
}

/// What a request is for.
#[derive(Debug)]
pub(super) enum Purpose {
    Enqueue(LockId),
    Convert(LockId),
    Replay(LockId),
    Cancel(CancelId),
    Read { use_id: u64, part: Part },
    Write { lock: LockId, part: Part, version: u64 },
}

#[derive(Debug)]
pub(super) struct Flush {
    pub(super) covered: Coverage,
    pub(super) writes: usize,
}

/// A target as a client uses it.
pub(super) struct Mount {
    pub(super) import: ImportId,
    pub(super) locks: Namespace,
    pub(super) requests: BTreeMap<RequestId, Purpose>,
    /// Callbacks without an answer.
    pub(super) callbacks: BTreeMap<u64, (service::RequestId, &'static Format)>,
    pub(super) wishes: BTreeMap<LockId, Wish>,
    pub(super) uses: BTreeMap<u64, Use>,
    /// The locks that are held, with their files.
    pub(super) held: BTreeMap<LockId, (u32, Coverage)>,
    pub(super) flushing: BTreeMap<LockId, Flush>,
    pub(super) cache: BTreeMap<Part, CachedVersion>,
    /// When uses end.
    pub(super) ends: BTreeMap<(Time, u64), ()>,
    pub(super) was_connected: bool,
    pub(super) evictions: u64,
}

impl Mount {
    pub(super) fn new(import: ImportId, locks: Namespace) -> Self {
        Self {
            import,
            locks,
            requests: BTreeMap::new(),
            callbacks: BTreeMap::new(),
            wishes: BTreeMap::new(),
            uses: BTreeMap::new(),
            held: BTreeMap::new(),
            flushing: BTreeMap::new(),
            cache: BTreeMap::new(),
            ends: BTreeMap::new(),
            was_connected: false,
            evictions: 0,
        }
    }

    /// Drops what a lock covers, and no other lock.
    pub(super) fn drop_cache(&mut self, target: usize, lock: LockId, covered: &Coverage) {
        let (file, held) = self.held.get_mut(&lock).expect("it is held");
        let file = *file;
        if covered.policy.words[0] == held.policy.words[0] {
            self.held.remove(&lock);
        } else {
            held.policy.words[0] &= !covered.policy.words[0];
        }
        let others = self.held.values().filter(|(other, _)| *other == file);
        let kept: Vec<Part> =
            others.flat_map(|(_, covered)| parts_of(target, file, covered)).collect();
        let dropped = parts_of(target, file, covered);
        self.cache.retain(|part, _| kept.contains(part) || !dropped.contains(part));
    }

    pub(super) fn write(&mut self, client: usize, part: Part, ledger: &mut Ledger) {
        let version = ledger.write(client, part);
        self.cache.insert(part, CachedVersion { version, is_dirty: true });
    }

    pub(super) fn send(
        &mut self,
        client: &mut Client,
        now: Time,
        request: Request,
        purpose: Purpose,
    ) {
        let id = client.request(now, self.import, request).expect("it has an import");
        self.requests.insert(id, purpose);
    }
}

/// Returns the handle by which a target names its connection to a client.
pub(super) fn connection(client: usize, target: usize) -> Handle {
    Handle(0x770 + (client * 8 + target) as u64)
}

pub(super) fn target_of(client: usize, target: usize) -> Target {
    let flags = ConnectFlags::FULL20
        | ConnectFlags::FID
        | ConnectFlags::AT
        | ConnectFlags::VERSION
        | ConnectFlags::BULK_MBITS
        | ConnectFlags::MULTIMODRPCS
        | ConnectFlags::FLAGS2;
    let flags2 = ConnectFlags2::REP_MBITS | ConnectFlags2::INC_XID;
    let data = ConnectData { flags, flags2, version: RELEASE, ..ConnectData::default() };
    Target {
        client: uuid_of(client),
        connection: connection(client, target),
        replays_locks: true,
        ..Target::new(TargetKind::Mdt, target::uuid(target), vec![target::nid(target)], data)
    }
}

/// Returns the service of callbacks of a client.
pub(super) fn callbacks(client: usize) -> Server {
    let name = Uuid::new("callbacks").unwrap();
    let operations = &[Opcode::LDLM_BL_CALLBACK, Opcode::LDLM_CP_CALLBACK];
    let mut server = Server::new(ServerConfig {
        key: 99 + client as u128,
        partitions: vec![PartitionConfig::callbacks()],
        targets: vec![TargetConfig { kind: TargetKind::Client, name, uuid: name, operations }],
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    });
    server.set_state(TargetId(0), TargetState::Open);
    server
}

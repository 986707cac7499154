//! Requests to the MDT, as a client sends them.

use fulmar_lnet_wire::{Net, Nid};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{
    CLIENT_UUID, CLOSE, CONNECT_DATA, ENQUEUE_OPEN, GET_ROOT, GETATTR, INTENT, IO_EPOCH,
    LOCK_REQUEST, MDS_CONNECT, MDT_BODY, NAME, REINT, REINT_CREATE, SEQ_OP, SEQ_QUERY, SEQ_RANGE,
};
use fulmar_lustre_wire::ldlm::{
    InodeBits, InodebitsPolicy, Intent, IntentOps, LockDesc, LockFlags, LockMode, LockRequest,
    LockType, ResourceDesc, ResourceId,
};
use fulmar_lustre_wire::mdt::{
    Create, IoEpoch, MdtBody, OpenFlags, Reint, ReintChange, ReintHead, ReintOp, SetAttr,
    SplitOpenFlags, Valid,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::seq::{SeqOp, SeqRange};
use fulmar_lustre_wire::{Fid, Handle, Name, Uuid, portal};
use fulmar_rpc::import::{Request, Target, TargetKind};

use crate::rpc::server::ADDRESS;

/// A regular file that its owner may read and write, and others read.
const MODE: u32 = 0o100_644;
/// A directory of the same kind.
const DIRECTORY: u32 = 0o040_755;
/// Where the process has no further group.
const NO_GROUP: u32 = u32::MAX;
/// The room for a reply.
pub(super) const REPLY: usize = 4096;

/// Returns the MDT, for the client with this number.
pub(super) fn target(number: usize, in_flight_max: usize) -> Target {
    let flags = ConnectFlags::VERSION
        | ConnectFlags::AT
        | ConnectFlags::FULL20
        | ConnectFlags::FID
        | ConnectFlags::IBITS
        | ConnectFlags::ATTRFID
        | ConnectFlags::XATTR
        | ConnectFlags::ACL
        | ConnectFlags::EINPROGRESS
        | ConnectFlags::MULTIMODRPCS
        | ConnectFlags::BULK_MBITS
        | ConnectFlags::FLAGS2;
    let data = ConnectData {
        flags,
        flags2: ConnectFlags2::REP_MBITS,
        version: fulmar_rpc::RELEASE,
        ibits_known: u64::MAX,
        modify_rpcs_max: in_flight_max as u16,
        ..ConnectData::default()
    };
    let uuid = |name: &str| Uuid::new(name).expect("it is short");
    let server = Nid::of_ip(Net::TCP, ADDRESS.into());
    Target {
        client: uuid(&format!("bench-client-{number}")),
        in_flight_max,
        ..Target::new(TargetKind::Mdt, uuid("bench-MDT0000_UUID"), vec![server], data)
    }
}

/// Connects as a client whose requests need no network.
pub(super) fn connect() -> Message<'static> {
    let target = target(0, 1);
    Message::request(&MDS_CONNECT)
        .with(&CLIENT_UUID, &target.client)
        .with(&CONNECT_DATA, &target.data)
}

/// Makes a directory.
pub(super) fn new_directory(parent: Fid, child: Fid, name: &str) -> Message<'static> {
    create(parent, child, name, DIRECTORY)
}

/// Makes a file without opening it.
pub(super) fn new_file(parent: Fid, child: Fid, name: &str) -> Message<'static> {
    create(parent, child, name, MODE)
}

fn create(parent: Fid, child: Fid, name: &str, mode: u32) -> Message<'static> {
    let new = ReintChange::Create(Create { child, mode, ..Create::default() });
    Message::request(&REINT_CREATE)
        .with(&REINT, &record(ReintOp::CREATE, parent, new))
        .with(&NAME, &Name::new(name).expect("it is short"))
}

/// Asks for the root directory.
pub(super) fn root() -> Message<'static> {
    Message::request(&GET_ROOT).with(&MDT_BODY, &MdtBody::default())
}

/// Asks for a sequence of FIDs.
pub(super) fn sequence() -> Request {
    let message = Message::request(&SEQ_QUERY)
        .with(&SEQ_OP, &SeqOp::ALLOC_META)
        .with(&SEQ_RANGE, &SeqRange::default());
    Request::new(message, REPLY).at(portal::SEQ_METADATA)
}

/// Creates a file and opens it for writing.
pub(super) fn open(parent: Fid, child: Fid, name: &str) -> Request {
    let bits = InodebitsPolicy {
        bits: InodeBits::UPDATE,
        try_bits: InodeBits::NONE,
        gid: 0,
        initiator: 0,
    };
    let resource = ResourceDesc {
        kind: LockType::IBITS,
        id: ResourceId::of_fid(parent),
        ..ResourceDesc::default()
    };
    let lock =
        LockDesc { resource, requested: LockMode::CW, policy: bits.into(), ..LockDesc::default() };
    // It gets no lock, so the name of the lock does not matter.
    let handles = vec![Handle(u64::from(child.oid) + 1), Handle(0)];
    let lock = LockRequest { flags: LockFlags::HAS_INTENT, count: 1, lock, handles };
    let flags = SplitOpenFlags(OpenFlags::CREAT | OpenFlags::WRITE);
    let new = ReintChange::Create(Create { child, mode: MODE, flags, ..Create::default() });
    let message = Message::request(&ENQUEUE_OPEN)
        .with(&LOCK_REQUEST, &lock)
        .with(&INTENT, &Intent { ops: IntentOps::OPEN | IntentOps::CREAT })
        .with(&REINT, &record(ReintOp::OPEN, parent, new))
        .with(&NAME, &Name::new(name).expect("it is short"));
    Request::new(message, REPLY).modifying().opening()
}

/// Closes a file.
pub(super) fn close(fid: Fid, handle: Handle) -> Request {
    let change = ReintChange::SetAttr(SetAttr::default());
    let message = Message::request(&CLOSE)
        .with(&IO_EPOCH, &IoEpoch { handle, ..IoEpoch::default() })
        .with(&REINT, &record(ReintOp::SETATTR, fid, change));
    Request::new(message, REPLY).at(portal::MDS_READPAGE).modifying()
}

/// Asks for the attributes of a file.
pub(super) fn attributes(fid: Fid) -> Request {
    let body = MdtBody { fid, valid: Valid::GETATTR, suppgid: NO_GROUP, ..MdtBody::default() };
    Request::new(Message::request(&GETATTR).with(&MDT_BODY, &body), REPLY).at(portal::MDS_READPAGE)
}

fn record(op: ReintOp, fid: Fid, change: ReintChange) -> Reint {
    let root = ReintHead {
        op,
        fid,
        capability: u32::MAX,
        suppgid1: NO_GROUP,
        suppgid2: NO_GROUP,
        ..ReintHead::default()
    };
    Reint::new(root, change).expect("the change is of the operation")
}

//! The requests of a client that keeps nothing in a cache.

use fulmar_base::Errno;
use fulmar_client::Session;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{
    CANCEL, CLOSE, ENQUEUE_EXTENT, ENQUEUE_OPEN, GETATTR_NAME, INTENT, IO_EPOCH, IO_OBJECTS,
    LAYOUT, LOCK_REPLY, LOCK_REQUEST, MDT_BODY, NAME, NIOBUFS, OST_BODY, OST_READ, OST_SYNC,
    OST_WRITE, REINT, REINT_CREATE, REINT_RENAME, REINT_SETATTR, REINT_UNLINK, SEQ_OP, SEQ_QUERY,
    SEQ_RANGE, SHORT_IO, TARGET_NAME,
};
use fulmar_lustre_wire::layout::Layout;
use fulmar_lustre_wire::ldlm::{
    Extent, InodeBits, InodebitsPolicy, Intent, IntentOps, LockDesc, LockFlags, LockMode,
    LockReply, LockRequest, LockType, ResourceDesc, ResourceId,
};
use fulmar_lustre_wire::mdt::{
    AttrValid, Create, IoEpoch, MdtBody, OpenFlags, Reint, ReintChange, ReintHead, ReintOp, Rename,
    SetAttr, SplitOpenFlags, Unlink, Valid,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{FlagWord, IoObject, MaxBrw, Niobuf, Obdo, ObdoFlags, OstId};
use fulmar_lustre_wire::seq::{SeqOp, SeqRange};
use fulmar_lustre_wire::{Bytes, Fid, Handle, List, Name, portal};
use fulmar_rpc::RELEASE;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, TargetKind};

/// The bytes of an object.
pub(super) const SIZE: usize = 4096;
/// The room for replies.
const REPLY: usize = 16 << 10;
pub(super) const FILE: u32 = 0o100_000;
pub(super) const DIRECTORY: u32 = 0o040_000;

/// What a client requests of a target that is to wait for it after a restart.
pub(super) fn requested(kind: TargetKind) -> ConnectData {
    let every = ConnectFlags::VERSION
        | ConnectFlags::AT
        | ConnectFlags::FULL20
        | ConnectFlags::FID
        | ConnectFlags::EINPROGRESS
        | ConnectFlags::BULK_MBITS
        | ConnectFlags::FLAGS2;
    let (flags, flags2) = match kind {
        TargetKind::Mdt => {
            (ConnectFlags::ATTRFID | ConnectFlags::MULTIMODRPCS, ConnectFlags2::NONE)
        }
        _ => (ConnectFlags::SHORTIO | ConnectFlags::BRW_SIZE, ConnectFlags2::NONE),
    };
    let flags2 = flags2 | ConnectFlags2::REP_MBITS | ConnectFlags2::INC_XID;
    let brw_size = if kind == TargetKind::Ost { 4 << 20 } else { 0 };
    ConnectData { flags: every | flags, flags2, version: RELEASE, brw_size, ..Default::default() }
}

fn record(op: ReintOp, fid: Fid, change: ReintChange) -> Reint {
    let head = ReintHead {
        op,
        fid,
        capability: u32::MAX,
        suppgid1: u32::MAX,
        suppgid2: u32::MAX,
        ..ReintHead::default()
    };
    Reint::new(head, change).expect("the change is that of the operation")
}

pub(super) fn name(text: &str) -> Name {
    Name::new(text).expect("it has no NUL")
}

fn changing(message: Message<'static>) -> Request {
    Request::new(message, REPLY).modifying()
}

/// Creates a file without data, or a directory.
pub(super) fn create(parent: Fid, title: &str, child: Fid, mode: u32) -> Request {
    let new = ReintChange::Create(Create { child, mode, ..Create::default() });
    let message = Message::request(&REINT_CREATE)
        .with(&REINT, &record(ReintOp::CREATE, parent, new))
        .with(&NAME, &name(title));
    changing(message)
}

/// Removes a file, or a directory.
pub(super) fn unlink(parent: Fid, title: &str, child: Fid, is_directory: bool) -> Request {
    let mode = if is_directory { DIRECTORY } else { 0 };
    let gone = ReintChange::Unlink(Unlink { child, mode, ..Unlink::default() });
    let message = Message::request(&REINT_UNLINK)
        .with(&REINT, &record(ReintOp::UNLINK, parent, gone))
        .with(&NAME, &name(title));
    changing(message)
}

/// Gives a file another name in its directory.
pub(super) fn rename(parent: Fid, from: &str, to: &str) -> Request {
    let change = ReintChange::Rename(Rename { target: parent, ..Rename::default() });
    let message = Message::request(&REINT_RENAME)
        .with(&REINT, &record(ReintOp::RENAME, parent, change))
        .with(&NAME, &name(from))
        .with(&TARGET_NAME, &name(to));
    changing(message)
}

/// Changes the rights of a file.
pub(super) fn chmod(fid: Fid, mode: u32) -> Request {
    let valid = AttrValid::MODE;
    let change = ReintChange::SetAttr(SetAttr { valid, mode, ..SetAttr::default() });
    let message =
        Message::request(&REINT_SETATTR).with(&REINT, &record(ReintOp::SETATTR, fid, change));
    changing(message)
}

/// Looks a name up.
pub(super) fn lookup(parent: Fid, title: &str) -> Request {
    let valid = Valid::FLID | Valid::FLMODE;
    let body = MdtBody { fid: parent, valid, ..MdtBody::default() };
    let message = Message::request(&GETATTR_NAME).with(&MDT_BODY, &body).with(&NAME, &name(title));
    Request::new(message, REPLY)
}

fn object(id: Fid) -> Obdo {
    let flags = FlagWord { flags: ObdoFlags::SHORT_IO, ..FlagWord::default() };
    let valid = Valid::FLID | Valid::FLGROUP | Valid::FLFLAGS;
    Obdo { valid, id: OstId::Fid(id), flags, ..Obdo::default() }
}

fn transfer(message: Message<'static>, id: Fid, data: &[u8]) -> Request {
    let body = object(id);
    let of = IoObject { id: body.id, max_brw: MaxBrw(0xffff_0000), ranges: 1 };
    let range = Niobuf { offset: 0, len: SIZE as u32, ..Niobuf::default() };
    let message = message
        .with(&OST_BODY, &body)
        .with(&IO_OBJECTS, &List(vec![of]))
        .with(&NIOBUFS, &List(vec![range]))
        .with(&SHORT_IO, &Bytes(data.to_vec()));
    Request::new(message, REPLY).at(portal::OST_IO)
}

/// Writes all of an object.
pub(super) fn write(id: Fid, data: &[u8]) -> Request {
    transfer(Message::request(&OST_WRITE), id, data)
}

/// Reads all of an object.
pub(super) fn read(id: Fid) -> Request {
    transfer(Message::request(&OST_READ), id, &[])
}

/// Has an object on disk.
pub(super) fn sync(id: Fid) -> Request {
    let valid = Valid::FLID | Valid::FLGROUP | Valid::FLSIZE | Valid::FLBLOCKS;
    let body = Obdo { valid, size: 0, blocks: u64::MAX, flags: FlagWord::default(), ..object(id) };
    Request::new(Message::request(&OST_SYNC).with(&OST_BODY, &body), REPLY)
}

/// Locks an object, as a writer does.
pub(super) fn lock(id: Fid, cookie: u64) -> Request {
    let resource = ResourceDesc {
        kind: LockType::EXTENT,
        id: ResourceId::of_fid(id),
        ..ResourceDesc::default()
    };
    let policy = Extent { start: 0, end: Extent::EOF, gid: 0 }.into();
    let lock = LockDesc { resource, requested: LockMode::PW, policy, ..LockDesc::default() };
    let handles = vec![Handle(cookie), Handle::NONE];
    let lock = LockRequest { count: 1, lock, handles, ..LockRequest::default() };
    Request::new(Message::request(&ENQUEUE_EXTENT).with(&LOCK_REQUEST, &lock), REPLY).not_replayed()
}

/// Gives a lock back.
pub(super) fn cancel(handle: Handle) -> Request {
    let lock = LockRequest { count: 1, handles: vec![handle], ..LockRequest::default() };
    let message = Message::request(&CANCEL).with(&LOCK_REQUEST, &lock);
    Request::new(message, REPLY).at(portal::LDLM_CANCEL_REQUEST).not_replayed()
}

/// Returns the lock of a reply.
pub(super) fn lock_of(reply: &Message<'_>) -> Handle {
    reply.get(&LOCK_REPLY).ok().flatten().map_or(Handle::NONE, |lock: LockReply| lock.handle)
}

/// Gets numbers for new files. Returns the first of them.
pub(super) fn first_fid(session: &Session, mdt: ImportId) -> Result<Fid, Errno> {
    let message = Message::request(&SEQ_QUERY)
        .with(&SEQ_OP, &SeqOp::ALLOC_META)
        .with(&SEQ_RANGE, &SeqRange::default());
    let reply = session.call(mdt, Request::new(message, 1024).at(portal::SEQ_METADATA))?;
    let range = reply.require(&SEQ_RANGE).map_err(|_| Errno::EPROTO)?;
    Ok(Fid { seq: range.start, oid: 1, version: 0 })
}

/// Creates a file with an object, and returns this: the index of its OST, and its FID.
pub(super) fn create_with_object(
    session: &Session,
    mdt: ImportId,
    (parent, title, child): (Fid, &str, Fid),
) -> Result<(u32, Fid), Errno> {
    let resource = ResourceDesc {
        kind: LockType::IBITS,
        id: ResourceId::of_fid(parent),
        ..ResourceDesc::default()
    };
    let (bits, try_bits) = (InodeBits::UPDATE, InodeBits::NONE);
    let policy = InodebitsPolicy { bits, try_bits, gid: 0, initiator: 0 }.into();
    let lock = LockDesc { resource, requested: LockMode::CW, policy, ..LockDesc::default() };
    let handles = vec![Handle(0x77), Handle::NONE];
    let lock = LockRequest { flags: LockFlags::HAS_INTENT, count: 1, lock, handles };
    let flags = SplitOpenFlags(OpenFlags::CREAT | OpenFlags::WRITE);
    let new = Create { child, mode: FILE | 0o644, flags, ..Create::default() };
    let message = Message::request(&ENQUEUE_OPEN)
        .with(&LOCK_REQUEST, &lock)
        .with(&INTENT, &Intent { ops: IntentOps::OPEN | IntentOps::CREAT })
        .with(&REINT, &record(ReintOp::OPEN, parent, ReintChange::Create(new)))
        .with(&NAME, &name(title));
    let reply = session.call(mdt, changing(message))?;
    let answer: LockReply = reply.require(&LOCK_REPLY).map_err(|_| Errno::EPROTO)?;
    if answer.result2 != 0 {
        return Err(Errno(-answer.result2 as i32));
    }
    if !answer.handle.is_none() {
        session.call(mdt, cancel(answer.handle)).map(drop)?;
    }
    let body: MdtBody = reply.require(&MDT_BODY).map_err(|_| Errno::EPROTO)?;
    let handle = body.open_handle;
    let change = ReintChange::SetAttr(SetAttr::default());
    let close = Message::request(&CLOSE)
        .with(&IO_EPOCH, &IoEpoch { handle, ..IoEpoch::default() })
        .with(&REINT, &record(ReintOp::SETATTR, child, change));
    session.call(mdt, Request::new(close, REPLY).at(portal::MDS_READPAGE))?;
    match reply.require(&LAYOUT) {
        Ok(Layout::File(layout)) => match layout.objects[..] {
            [object] => Ok((object.ost, object.id.fid(0).ok_or(Errno::EPROTO)?)),
            _ => Err(Errno::EPROTO),
        },
        _ => Err(Errno::EPROTO),
    }
}

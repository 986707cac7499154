//! Requests to an MDT as clients send them.

use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{
    CHANGELOG_CLEAR, CLIENT_UUID, CLOSE, CONNECT_DATA, EA_DATA, ENQUEUE_GETATTR, ENQUEUE_OPEN,
    GETATTR, GETXATTR, INTENT, IO_EPOCH, KEY, LLOG_BODY, LLOG_CREATE, LLOG_NEXT_BLOCK,
    LLOG_READ_HEADER, LOCK_REQUEST, MDS_CHANGELOG_CLEAR, MDS_CONNECT, MDT_BODY, NAME, READPAGE,
    REINT, REINT_CREATE, REINT_LINK, REINT_RENAME, REINT_SETATTR, REINT_SETXATTR, REINT_SYMLINK,
    REINT_UNLINK, SYMLINK, TARGET_NAME,
};
use fulmar_lustre_wire::ldlm::{
    Intent, IntentOps, LockDesc, LockFlags, LockRequest, LockType, ResourceDesc, ResourceId,
};
use fulmar_lustre_wire::llog::{LogContext, LogFlags, LogId, LogRequest};
use fulmar_lustre_wire::mdt::{
    AttrValid, ChangelogClear, Create, IoEpoch, Link, MdtBody, OpenFlags, Reint, ReintChange,
    ReintHead, ReintOp, Rename, SetAttr, SetXattr, SplitOpenFlags, Unlink, Valid, XattrFlags,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Bytes, Fid, Handle, Name, Uuid};
use fulmar_mdt::{Caller, Capabilities, mode};

use crate::rig::NOW;

/// The first sequence of a client.
pub(crate) const SEQ: u64 = 0x2_0000_0401;
const NO_GROUP: u32 = u32::MAX;
/// A process of root.
pub(crate) const ROOT: Caller = Caller {
    uid: 0,
    gid: 0,
    groups: [NO_GROUP; 2],
    known_groups: None,
    capabilities: Capabilities(u32::MAX),
};
/// A process of a user.
pub(crate) const USER: Caller = user(1000);
/// A process of another user.
pub(crate) const OTHER: Caller = user(2000);

/// Returns a process of a user with a group of its own.
pub(crate) const fn user(uid: u32) -> Caller {
    Caller {
        uid,
        gid: uid,
        groups: [NO_GROUP; 2],
        known_groups: None,
        capabilities: Capabilities::NONE,
    }
}

pub(crate) fn fid(oid: u32) -> Fid {
    Fid { seq: SEQ, oid, version: 0 }
}

pub(crate) fn name(name: impl AsRef<[u8]>) -> Name {
    Name::new(name.as_ref()).unwrap()
}

pub(crate) fn connect(client: &str, asked: &ConnectData) -> Message<'static> {
    Message::request(&MDS_CONNECT)
        .with(&CLIENT_UUID, &Uuid::new(client).unwrap())
        .with(&CONNECT_DATA, asked)
}

/// Returns what a current client asks for.
pub(crate) fn asked() -> ConnectData {
    let flags = ConnectFlags::FID
        .with(ConnectFlags::ACL)
        .with(ConnectFlags::XATTR)
        .with(ConnectFlags::IBITS)
        .with(ConnectFlags::FLAGS2);
    ConnectData { flags, flags2: ConnectFlags2::OVERSTRIPING, ..ConnectData::default() }
}

/// Returns the body of a request about a file.
pub(crate) fn body(who: &Caller, fid: Fid, valid: Valid) -> MdtBody {
    MdtBody {
        fid,
        valid,
        fsuid: who.uid,
        fsgid: who.gid,
        capability: who.capabilities.0,
        suppgid: who.groups[0],
        ..MdtBody::default()
    }
}

fn reint(op: ReintOp, who: &Caller, fid: Fid, change: ReintChange) -> Reint {
    let head = ReintHead {
        op,
        fid,
        fsuid: who.uid,
        fsgid: who.gid,
        capability: who.capabilities.0,
        suppgid1: who.groups[0],
        suppgid2: who.groups[1],
        ..ReintHead::default()
    };
    Reint::new(head, change).unwrap()
}

/// Returns the creation of a file of any type.
pub(crate) fn create(
    who: &Caller,
    (parent, new_name): (Fid, &str),
    child: Fid,
    bits: u32,
) -> Message<'static> {
    create_as(who, (parent, new_name), Create { child, mode: bits, time: NOW, ..Create::default() })
}

pub(crate) fn create_as(
    who: &Caller,
    (parent, new_name): (Fid, &str),
    record: Create,
) -> Message<'static> {
    let record = reint(ReintOp::CREATE, who, parent, ReintChange::Create(record));
    Message::request(&REINT_CREATE).with(&REINT, &record).with(&NAME, &name(new_name))
}

pub(crate) fn mkdir(who: &Caller, place: (Fid, &str), child: Fid) -> Message<'static> {
    create(who, place, child, mode::DIRECTORY | 0o755)
}

pub(crate) fn symlink(
    who: &Caller,
    (parent, new_name): (Fid, &str),
    child: Fid,
    target: &str,
) -> Message<'static> {
    let mode = mode::SYMLINK | 0o777;
    let record = Create { child, mode, time: NOW, ..Create::default() };
    let record = reint(ReintOp::CREATE, who, parent, ReintChange::Create(record));
    Message::request(&REINT_SYMLINK)
        .with(&REINT, &record)
        .with(&NAME, &name(new_name))
        .with(&SYMLINK, &name(target))
}

pub(crate) fn link(who: &Caller, file: Fid, (parent, new_name): (Fid, &str)) -> Message<'static> {
    let record = Link { parent, time: NOW, ..Link::default() };
    let record = reint(ReintOp::LINK, who, file, ReintChange::Link(record));
    Message::request(&REINT_LINK).with(&REINT, &record).with(&NAME, &name(new_name))
}

pub(crate) fn unlink(who: &Caller, place: (Fid, &str)) -> Message<'static> {
    remove(who, place, 0)
}

pub(crate) fn rmdir(who: &Caller, place: (Fid, &str)) -> Message<'static> {
    remove(who, place, mode::DIRECTORY)
}

fn remove(who: &Caller, (parent, old_name): (Fid, &str), mode: u32) -> Message<'static> {
    let record = Unlink { time: NOW, mode, ..Unlink::default() };
    let record = reint(ReintOp::UNLINK, who, parent, ReintChange::Unlink(record));
    Message::request(&REINT_UNLINK).with(&REINT, &record).with(&NAME, &name(old_name))
}

pub(crate) fn rename(
    who: &Caller,
    (source, old_name): (Fid, &str),
    (target, new_name): (Fid, &str),
) -> Message<'static> {
    let record = Rename { target, time: NOW, ..Rename::default() };
    let record = reint(ReintOp::RENAME, who, source, ReintChange::Rename(record));
    Message::request(&REINT_RENAME)
        .with(&REINT, &record)
        .with(&NAME, &name(old_name))
        .with(&TARGET_NAME, &name(new_name))
}

pub(crate) fn setattr(who: &Caller, file: Fid, change: SetAttr) -> Message<'static> {
    let change = SetAttr {
        valid: change.valid | AttrValid::CTIME | AttrValid::CTIME_SET,
        ctime: if change.valid.has(AttrValid::CTIME) { change.ctime } else { NOW },
        ..change
    };
    let record = reint(ReintOp::SETATTR, who, file, ReintChange::SetAttr(change));
    Message::request(&REINT_SETATTR).with(&REINT, &record)
}

pub(crate) fn chmod(who: &Caller, file: Fid, bits: u32) -> Message<'static> {
    setattr(who, file, SetAttr { valid: AttrValid::MODE, mode: bits, ..SetAttr::default() })
}

/// Returns the change of an extended attribute; `None`: it goes.
pub(crate) fn setxattr(
    who: &Caller,
    file: Fid,
    attribute: &str,
    value: Option<&[u8]>,
    flags: XattrFlags,
) -> Message<'static> {
    let valid = if value.is_some() { Valid::FLXATTR } else { Valid::FLXATTRRM };
    let record = SetXattr { valid, time: NOW, flags, ..SetXattr::default() };
    let record = reint(ReintOp::SETXATTR, who, file, ReintChange::SetXattr(record));
    Message::request(&REINT_SETXATTR)
        .with(&REINT, &record)
        .with(&NAME, &name(attribute))
        .with(&EA_DATA, &Bytes(value.unwrap_or_default().to_vec()))
}

pub(crate) fn getxattr(file: Fid, attribute: &str, room: u32) -> Message<'static> {
    let asked = MdtBody { ea_size: room, ..body(&ROOT, file, Valid::FLXATTR) };
    Message::request(&GETXATTR).with(&MDT_BODY, &asked).with(&NAME, &name(attribute))
}

pub(crate) fn getattr(file: Fid) -> Message<'static> {
    let valid = Valid::FLEASIZE | Valid::FLMODEASIZE | Valid::FLACL | Valid::LINKNAME;
    let asked = MdtBody { ea_size: 4096, ..body(&ROOT, file, valid) };
    Message::request(&GETATTR).with(&MDT_BODY, &asked)
}

/// Returns the lock of an intent about a file.
pub(crate) fn lock(file: Fid) -> LockRequest {
    let resource = ResourceDesc {
        kind: LockType::IBITS,
        id: ResourceId::of_fid(file),
        ..ResourceDesc::default()
    };
    let lock = LockDesc { resource, ..LockDesc::default() };
    LockRequest { flags: LockFlags::HAS_INTENT, count: 1, lock, handles: vec![Handle(1); 2] }
}

/// Returns the intent to look up a name.
pub(crate) fn lookup(who: &Caller, (parent, wanted): (Fid, &str)) -> Message<'static> {
    let asked = MdtBody { ea_size: 4096, ..body(who, parent, Valid::FLEASIZE | Valid::FLACL) };
    Message::request(&ENQUEUE_GETATTR)
        .with(&LOCK_REQUEST, &lock(parent))
        .with(&INTENT, &Intent { ops: IntentOps::GETATTR })
        .with(&MDT_BODY, &asked)
        .with(&NAME, &name(wanted))
}

/// Returns the intent to open a file, and to create it if it does not exist.
pub(crate) fn open(
    who: &Caller,
    (parent, wanted): (Fid, &str),
    child: Fid,
    flags: OpenFlags,
) -> Message<'static> {
    let record = Create { child, mode: mode::REGULAR | 0o644, time: NOW, ..Create::default() };
    open_as(who, (parent, wanted), Create { flags: SplitOpenFlags(flags), ..record })
}

pub(crate) fn open_as(
    who: &Caller,
    (parent, wanted): (Fid, &str),
    record: Create,
) -> Message<'static> {
    let creates = record.flags.0.has(OpenFlags::CREAT);
    let ops = if creates { IntentOps::OPEN | IntentOps::CREAT } else { IntentOps::OPEN };
    let record = reint(ReintOp::OPEN, who, parent, ReintChange::Create(record));
    Message::request(&ENQUEUE_OPEN)
        .with(&LOCK_REQUEST, &lock(parent))
        .with(&INTENT, &Intent { ops })
        .with(&REINT, &record)
        .with(&NAME, &name(wanted))
}

/// Returns the close of a file with what the client knows of it.
pub(crate) fn close(file: Fid, handle: Handle, change: SetAttr) -> Message<'static> {
    Message::request(&CLOSE)
        .with(&IO_EPOCH, &IoEpoch { handle, ..IoEpoch::default() })
        .with(&REINT, &close_record(&ROOT, file, change))
}

pub(crate) fn close_record(who: &Caller, file: Fid, change: SetAttr) -> Reint {
    reint(ReintOp::SETATTR, who, file, ReintChange::SetAttr(change))
}

/// Returns the request for pages of a directory from a place on.
pub(crate) fn readpage(directory: Fid, hash: u64, bytes: u32) -> Message<'static> {
    let asked = MdtBody { size: hash, nlink: bytes, ..body(&ROOT, directory, Valid::NONE) };
    Message::request(&READPAGE).with(&MDT_BODY, &asked)
}

pub(crate) fn changelog_clear(user: u32, record: u64) -> Message<'static> {
    Message::request(&MDS_CHANGELOG_CLEAR)
        .with_bytes(&KEY, b"changelog_clear".to_vec())
        .with(&CHANGELOG_CLEAR, &ChangelogClear { record, user })
        .with(&MDT_BODY, &body(&ROOT, Fid::default(), Valid::NONE))
}

/// Returns the opening of a log by its name, or by its identity.
pub(crate) fn log_open(who: &Caller, log: &str, id: LogId) -> Message<'static> {
    let asked = LogRequest { id, context: LogContext::CHANGELOG, ..LogRequest::default() };
    Message::request(&LLOG_CREATE)
        .with(&LLOG_BODY, &asked)
        .with(&NAME, &name(log))
        .with(&MDT_BODY, &body(who, Fid::default(), Valid::NONE))
}

pub(crate) fn log_header(id: LogId, flags: LogFlags) -> Message<'static> {
    let asked = LogRequest { id, context: LogContext::CHANGELOG, flags, ..LogRequest::default() };
    Message::request(&LLOG_READ_HEADER).with(&LLOG_BODY, &asked)
}

pub(crate) fn log_block(id: LogId, flags: LogFlags, index: u32) -> Message<'static> {
    let context = LogContext::CHANGELOG;
    let asked = LogRequest { id, context, flags, index, len: 8192, ..LogRequest::default() };
    Message::request(&LLOG_NEXT_BLOCK).with(&LLOG_BODY, &asked)
}

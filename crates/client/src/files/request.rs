//! What requests to an MDT have in common.

use fulmar_lustre_wire::ldlm::{
    InodeBits, InodebitsPolicy, LockDesc, LockMode, LockRequest, LockType, Policy, ResourceDesc,
    ResourceId,
};
use fulmar_lustre_wire::mdt::{MdtBody, Reint, ReintChange, ReintHead, ReintOp, Valid};
use fulmar_lustre_wire::message::{Body, len_with};
use fulmar_lustre_wire::{Fid, Handle, Name};

use fulmar_ldlm::client::Coverage;

use super::caller::{Caller, NO_GROUP};
use crate::machine::enqueue::REPLY_LEN;
use crate::mounting::BODY_LEN;

/// The room for a layout in a reply. A longer one is asked for again with room for it.
const LAYOUT_ROOM: usize = 4096;
/// The room for an access control list.
const ACL_ROOM: usize = 4096;
/// The room for data that come with an open.
const INLINE_ROOM: usize = 8192;

/// Returns the room for the reply to an intent.
pub(crate) fn intent_room() -> usize {
    len_with(&[Body::LEN, REPLY_LEN, BODY_LEN, LAYOUT_ROOM, ACL_ROOM, 0, 0, 0, 0, 0])
}

/// Returns the room for the reply to an open.
pub(crate) fn open_room() -> usize {
    len_with(&[Body::LEN, REPLY_LEN, BODY_LEN, LAYOUT_ROOM, ACL_ROOM, 0, 0, INLINE_ROOM, 0, 0])
}

/// Returns the room for the reply to a request about attributes.
pub(crate) fn body_room() -> usize {
    len_with(&[Body::LEN, BODY_LEN, LAYOUT_ROOM, ACL_ROOM, 0, 0])
}

/// Returns the room that a request says it has for a layout.
pub(crate) fn ea_size() -> u32 {
    LAYOUT_ROOM as u32
}

/// Returns the first buffer of a request about a file.
pub(crate) fn body(caller: &Caller, fid: Fid, group: Option<u32>) -> MdtBody {
    MdtBody {
        fid,
        valid: Valid::FLID,
        fsuid: caller.uid,
        fsgid: caller.gid,
        uid: caller.uid,
        gid: caller.gid,
        capability: caller.capabilities,
        suppgid: caller.further_group(group),
        ..MdtBody::default()
    }
}

/// Returns the record of a change.
///
/// # Panics
/// If the change is of another kind than `op`.
pub(crate) fn record(
    caller: &Caller,
    op: ReintOp,
    (fid, groups): (Fid, [Option<u32>; 2]),
    change: ReintChange,
) -> Reint {
    let [first, second] = groups;
    let head = ReintHead {
        op,
        capability: caller.capabilities,
        fsuid: caller.uid,
        fsgid: caller.gid,
        suppgid1: caller.further_group(first),
        suppgid2: second.map_or(NO_GROUP, |gid| caller.further_group(Some(gid))),
        fid,
        ..ReintHead::default()
    };
    Reint::new(head, change).expect("the change is of this kind")
}

/// Returns the name of a file in a directory.
///
/// # Errors
/// ENOENT if it is empty, EINVAL if it contains NUL or `/`, ENAMETOOLONG.
pub(crate) fn name(bytes: &[u8]) -> Result<Name, fulmar_base::Errno> {
    use fulmar_base::Errno;
    match bytes {
        [] => Err(Errno::ENOENT),
        bytes if bytes.len() > 255 => Err(Errno::ENAMETOOLONG),
        bytes if bytes.contains(&b'/') => Err(Errno::EINVAL),
        bytes => Name::new(bytes).ok_or(Errno::EINVAL),
    }
}

/// Returns the resource of the state of a file.
pub(crate) fn resource(fid: Fid) -> ResourceDesc {
    let id = ResourceId::of_fid(fid);
    ResourceDesc { kind: LockType::IBITS, id, ..ResourceDesc::default() }
}

/// Returns a lock on bits of a file.
pub(crate) fn bits(bits: InodeBits) -> Policy {
    InodebitsPolicy { bits, try_bits: InodeBits::NONE, gid: 0, initiator: 0 }.into()
}

/// Returns what a change of a file excludes.
pub(crate) fn excludes(fid: Fid, changed: InodeBits) -> Coverage {
    Coverage { resource: resource(fid), mode: LockMode::EX, policy: bits(changed) }
}

/// Returns the buffer of a change that gives up locks. Spec: ptlrpc-ldlm-mgs §23.3.
pub(crate) fn given_up(mut locks: Vec<Handle>) -> LockRequest {
    let count = locks.len() as u32;
    locks.resize(locks.len().max(LockRequest::HANDLES_MIN), Handle::NONE);
    LockRequest { count, lock: LockDesc::default(), handles: locks, ..LockRequest::default() }
}

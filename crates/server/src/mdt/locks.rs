//! Which locks the operations of an MDT take. Spec: mdt-ost §5.6, §7.6.

use fulmar_lustre_wire::format::{FIEMAP_KEY, MDT_BODY, REINT};
use fulmar_lustre_wire::ldlm::{
    Extent, InodeBits, InodebitsPolicy, IntentOps, LockMode, LockType, ResourceId,
};
use fulmar_lustre_wire::mdt::{
    AttrValid, Bias, CloseData, MdtBody, OpenFlags, Reint, ReintChange, SetAttr, Valid,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{FiemapKey, ObdoFlags};
use fulmar_lustre_wire::{Fid, Opcode};
use fulmar_mdt::Target;

use crate::context::LockRequest;

/// All bytes of a file.
pub(super) const WHOLE: Extent = Extent { start: 0, end: Extent::EOF, gid: 0 };

/// Returns the lock on parts of a file.
pub(super) fn bits(fid: Fid, mode: LockMode, bits: InodeBits) -> LockRequest {
    bits_and(fid, mode, bits, InodeBits::NONE)
}

/// Returns the lock on parts of a file, and on others if they are free.
pub(super) fn bits_and(
    fid: Fid,
    mode: LockMode,
    bits: InodeBits,
    try_bits: InodeBits,
) -> LockRequest {
    of_resource(ResourceId::of_fid(fid), mode, bits, try_bits)
}

/// Returns the lock on the data that a file has here: on all of them, whatever part is wanted.
pub(super) fn data(resource: ResourceId, mode: LockMode, _: Extent) -> LockRequest {
    of_resource(resource, mode, InodeBits::DOM, InodeBits::NONE)
}

/// Returns the lock under which clients drop what they have of the data of a file that is gone.
pub(super) fn discard(resource: ResourceId) -> LockRequest {
    let whole = of_resource(resource, LockMode::PW, InodeBits::DOM, InodeBits::NONE);
    LockRequest { discards_data: true, ..whole }
}

/// Returns the lock on a name, under which an operation finds or changes what it leads to.
pub(super) fn name(resource: ResourceId, mode: LockMode) -> LockRequest {
    of_resource(resource, mode, InodeBits::UPDATE, InodeBits::NONE)
}

/// Returns the lock under which entries of a directory are changed: clients forget what they know of
/// them, and other operations go on.
pub(super) fn entries(directory: Fid) -> LockRequest {
    bits(directory, LockMode::CW, InodeBits::UPDATE)
}

fn of_resource(
    resource: ResourceId,
    mode: LockMode,
    bits: InodeBits,
    try_bits: InodeBits,
) -> LockRequest {
    let policy = InodebitsPolicy { bits, try_bits, gid: 0, initiator: 0 }.into();
    LockRequest::new(resource, LockType::IBITS, mode, policy)
}

/// Returns the locks for a request that is no change of the tree, in the order in which they are taken.
pub(super) fn of_request(message: &Message<'_>) -> Vec<LockRequest> {
    if let Ok(Some(FiemapKey { object, .. })) = message.get(&FIEMAP_KEY) {
        let is_locked = object.valid.has(Valid::FLFLAGS);
        return if is_locked && object.flags.flags.has(ObdoFlags::SRVLOCK) {
            vec![data(object.id.resource(), LockMode::PR, WHOLE)]
        } else {
            vec![]
        };
    }
    let Ok(Some(body)) = message.get(&MDT_BODY) else { return vec![] };
    let body: MdtBody = body;
    let flags = if body.valid.has(Valid::FLFLAGS) { body.flags } else { 0 };
    match message.body.opcode {
        Opcode::MDS_GETATTR
            if body.valid.has(Valid::FLDATAVERSION) && flags & ObdoFlags::SRVLOCK.0 != 0 =>
        {
            let flushes = flags & ObdoFlags::FLUSH.0 != 0;
            let mode = if flushes { LockMode::PW } else { LockMode::PR };
            vec![data(ResourceId::of_fid(body.fid), mode, WHOLE)]
        }
        Opcode::MDS_HSM_STATE_SET => {
            vec![bits(body.fid, LockMode::PW, InodeBits::LOOKUP | InodeBits::XATTR)]
        }
        Opcode::MDS_SWAP_LAYOUTS if body.fid != body.child => {
            of_swap([body.fid, body.child]).into()
        }
        _ => vec![],
    }
}

/// Returns the locks for the exchange of two layouts, in their order.
pub(super) fn of_swap([first, second]: [Fid; 2]) -> [LockRequest; 2] {
    let parts = InodeBits::LAYOUT | InodeBits::XATTR;
    [first.min(second), first.max(second)].map(|fid| bits(fid, LockMode::EX, parts))
}

/// Returns the locks for a close that does something beside, in their order.
pub(super) fn of_close(message: &Message<'_>, data: &CloseData) -> Vec<LockRequest> {
    let Ok(Reint { head, change: ReintChange::SetAttr(asked) }) = message.require(&REINT) else {
        return vec![];
    };
    if asked.bias.has(Bias::CLOSE_LAYOUT_SWAP) && head.fid != data.fid {
        of_swap([head.fid, data.fid]).into()
    } else {
        vec![]
    }
}

/// Returns the lock for which others give up leases of a file and files that they keep open.
pub(super) fn to_open(fid: Fid, flags: OpenFlags) -> LockRequest {
    let mode = if flags.has(OpenFlags::EXEC) { LockMode::PR } else { LockMode::CW };
    bits(fid, mode, InodeBits::OPEN)
}

/// Returns whether a change of attributes takes the capabilities of a program away, if it has some.
pub(super) fn may_drop_capabilities(asked: &SetAttr) -> bool {
    type A = AttrValid;
    asked.valid.0 & (A::UID | A::GID | A::KILL_SUID | A::KILL_SGID).0 != 0
}

/// Returns the lock for a change of attributes. Capabilities are an extended attribute.
pub(super) fn of_setattr(fid: Fid, asked: &SetAttr, drops_capabilities: bool) -> LockRequest {
    type A = AttrValid;
    let wants = |set: A| asked.valid.0 & set.0 != 0;
    let mut parts = InodeBits::UPDATE;
    if wants(A::MODE | A::UID | A::GID) {
        parts = parts | InodeBits::PERM;
    }
    if wants(A::PROJID) || drops_capabilities {
        parts = parts | InodeBits::XATTR;
    }
    bits(fid, LockMode::PW, parts)
}

/// Returns the lock for a change of an extended attribute.
pub(super) fn of_setxattr(fid: Fid, name: &[u8]) -> LockRequest {
    let part = match name {
        b"system.posix_acl_access" => InodeBits::PERM,
        _ if name.starts_with(b"lustre.lov") => InodeBits::LAYOUT | InodeBits::XATTR,
        _ => InodeBits::XATTR,
    };
    bits(fid, LockMode::EX, InodeBits::UPDATE | part)
}

/// Returns the lock that a client gets with the attributes of a file, which it has looked up in a directory or has asked
/// for itself.
pub(super) fn of_getattr(ops: IntentOps, fid: Fid, asked: Fid) -> LockRequest {
    match ops {
        IntentOps::LOOKUP => bits(fid, LockMode::PR, InodeBits::LOOKUP | InodeBits::PERM),
        _ => {
            let all = InodeBits::LOOKUP | InodeBits::UPDATE | InodeBits::PERM;
            let data = if fid == asked { InodeBits::NONE } else { InodeBits::DOM };
            bits_and(fid, LockMode::PR, all, InodeBits::LAYOUT | data)
        }
    }
}

/// Returns the lock that a client gets with an open file, which has its layout or needs none.
pub(super) fn of_open(flags: OpenFlags, target: &Target) -> Option<LockRequest> {
    let &Target { fid, is_regular, has_data, .. } = target;
    if flags.has(OpenFlags::LEASE) {
        // It excludes writers, not readers.
        return Some(bits(fid, LockMode::PW, InodeBits::OPEN));
    }
    let keeps_open = flags.has(OpenFlags::LOCK);
    let mode = match () {
        () if keeps_open && flags.has(OpenFlags::WRITE) => LockMode::CW,
        () if keeps_open && !flags.has(OpenFlags::EXEC) => LockMode::CR,
        () if !keeps_open && has_data && flags.has(OpenFlags::WRITE) => LockMode::PW,
        () => LockMode::PR,
    };
    let needed = if keeps_open { InodeBits::LOOKUP | InodeBits::OPEN } else { InodeBits::NONE };
    let tried = match () {
        () if !is_regular => InodeBits::NONE,
        // Every change conflicts with it.
        () if mode == LockMode::CR => InodeBits::LAYOUT,
        () if keeps_open => InodeBits::LAYOUT | InodeBits::UPDATE | InodeBits::PERM,
        () => {
            let data = if has_data { InodeBits::DOM } else { InodeBits::NONE };
            InodeBits::LOOKUP | InodeBits::LAYOUT | InodeBits::UPDATE | InodeBits::PERM | data
        }
    };
    (keeps_open || is_regular).then(|| bits_and(fid, mode, needed, tried))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_gives_a_lock_on_what_the_client_may_keep() {
        type F = OpenFlags;
        let with = |flags: F, is_regular, has_data| {
            let target = Target { fid: Fid::ROOT, is_regular, needs_layout: false, has_data };
            of_open(flags, &target).map(|wanted| {
                let policy = wanted.policy.inodebits();
                (wanted.mode, policy.bits, policy.try_bits)
            })
        };
        let of = |flags, is_regular| with(flags, is_regular, false);
        let (none, open) = (InodeBits::NONE, InodeBits::LOOKUP | InodeBits::OPEN);
        let attributes = InodeBits::UPDATE | InodeBits::PERM;
        let all = InodeBits::LAYOUT | attributes;
        assert_eq!(of(F::WRITE, true), Some((LockMode::PR, none, InodeBits::LOOKUP | all)));
        assert_eq!(of(F::READ | F::LOCK, true), Some((LockMode::CR, open, InodeBits::LAYOUT)));
        assert_eq!(of(F::WRITE | F::LOCK, true), Some((LockMode::CW, open, all)));
        assert_eq!(of(F::EXEC | F::LOCK, true), Some((LockMode::PR, open, all)));
        let lease = Some((LockMode::PW, InodeBits::OPEN, none));
        assert_eq!(of(F::READ | F::LOCK | F::LEASE, true), lease);
        assert_eq!(of(F::READ, false), None);
        let data = InodeBits::LOOKUP | all | InodeBits::DOM;
        assert_eq!(with(F::READ, true, true), Some((LockMode::PR, none, data)));
        assert_eq!(with(F::WRITE, true, true), Some((LockMode::PW, none, data)));
        assert_eq!(with(F::WRITE | F::LOCK, true, true), of(F::WRITE | F::LOCK, true));
        assert_eq!(of(F::READ | F::LOCK, false), Some((LockMode::CR, open, none)));
    }
}

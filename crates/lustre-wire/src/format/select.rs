//! Which format a request has.

use std::borrow::Cow;

use fulmar_wire::{Field, Order, Reader};

use super::*;
use crate::Opcode;
use crate::ldlm::{InodeBits, IntentOps, LockDesc, LockFlags, LockType};
use crate::mdt::ReintOp;

impl Format {
    /// All formats. Of several formats of one operation, the first is the most general one.
    #[rustfmt::skip]
    pub const ALL: &'static [&'static Self] = &[
        &ENQUEUE, &ENQUEUE_EXTENT, &ENQUEUE_DOM, &ENQUEUE_FLOCK, &ENQUEUE_INTENT, &ENQUEUE_BRW,
        &ENQUEUE_OPEN, &ENQUEUE_CREATE, &ENQUEUE_GETATTR, &ENQUEUE_LAYOUT, &ENQUEUE_GETXATTR, &ENQUEUE_QUOTA, &CONVERT, &CANCEL, &BLOCKING,
        &COMPLETION, &COMPLETION_EXTENT, &COMPLETION_DOM, &COMPLETION_LAYOUT, &GLIMPSED, &GLIMPSED_EXTENT,
        &GLIMPSED_DOM, &LDLM_SET_INFO,
        &GET_ROOT, &MDS_STATFS, &MDS_SYNC, &GETATTR, &GETATTR_NAME, &GETXATTR, &READPAGE, &CLOSE,
        &REINT_OTHER, &REINT_CREATE, &REINT_SYMLINK, &REINT_OPEN, &REINT_UNLINK, &REINT_RMENTRY,
        &REINT_LINK, &REINT_RENAME, &REINT_MIGRATE, &REINT_SETATTR, &REINT_SETXATTR, &REINT_RESYNC,
        &MDS_GET_INFO, &MDS_FID2PATH, &MDS_FIEMAP, &MDS_SET_INFO, &MDS_CHANGELOG_CLEAR, &MDS_QUOTACTL,
        &MDS_SWAP_LAYOUTS, &RMFID, &MDS_BATCH, &MDS_HSM_STATE_GET, &MDS_HSM_STATE_SET, &MDS_HSM_ACTION,
        &MDS_HSM_PROGRESS, &MDS_HSM_REQUEST, &MDS_HSM_REGISTER, &MDS_HSM_UNREGISTER,
        &MDS_HSM_DATA_VERSION, &OST_CONNECT, &MDS_CONNECT, &MGS_CONNECT, &OST_DISCONNECT,
        &MDS_DISCONNECT, &MGS_DISCONNECT, &PING, &SEC_CTX_INIT, &SEC_CTX_INIT_CONT, &SEC_CTX_FINI,
        &IDX_READ, &OST_GETATTR, &OST_SETATTR, &OST_PUNCH, &OST_FALLOCATE, &OST_SYNC, &OST_CREATE,
        &OST_SEEK, &OST_DESTROY, &OST_READ, &OST_WRITE, &OST_STATFS, &OST_GET_INFO, &OST_LAST_ID,
        &OST_LAST_FID, &OST_FIEMAP, &OST_SET_INFO, &OST_GRANT_SHRINK, &OST_LADVISE, &OST_QUOTACTL,
        &TARGET_REG, &CONFIG_READ, &MGS_SET_INFO, &LLOG_CREATE, &LLOG_NEXT_BLOCK, &LLOG_PREV_BLOCK,
        &LLOG_READ_HEADER, &QUOTA_DQACQ, &SEQ_QUERY, &FLD_QUERY, &FLD_READ, &OUT_UPDATE,
        &LFSCK_NOTIFY, &LFSCK_QUERY,
    ];

    /// Returns the most general format of an operation; [`UNKNOWN`] if it has none.
    pub fn of(opcode: Opcode) -> &'static Self {
        let place = PLACES.get(opcode.0 as usize).copied().unwrap_or(u8::MAX);
        Self::ALL.get(usize::from(place)).unwrap_or(&&UNKNOWN)
    }

    /// Returns the format of a request with these buffers after the body.
    pub(crate) fn of_request(
        opcode: Opcode,
        buffers: &[Cow<'_, [u8]>],
        order: Order,
    ) -> &'static Self {
        let special = match opcode {
            Opcode::LDLM_ENQUEUE => of_enqueue(buffers, order),
            Opcode::LDLM_CP_CALLBACK => match of_lock(buffers, order) {
                Some((_, lock)) if is_on_data(&lock) => Some(&COMPLETION_DOM),
                Some((_, lock)) => match lock.resource.kind {
                    LockType::EXTENT => Some(&COMPLETION_EXTENT),
                    LockType::IBITS => Some(&COMPLETION_LAYOUT),
                    _ => None,
                },
                _ => None,
            },
            Opcode::LDLM_GL_CALLBACK => match of_lock(buffers, order) {
                Some((_, lock)) => match lock.resource.kind {
                    LockType::EXTENT => Some(&GLIMPSED_EXTENT),
                    LockType::IBITS => Some(&GLIMPSED_DOM),
                    _ => None,
                },
                None => None,
            },
            Opcode::MDS_REINT => of_reint(buffers, order),
            Opcode::MDS_GET_INFO => match key(buffers) {
                b"fid2path" => Some(&MDS_FID2PATH),
                b"fiemap" => Some(&MDS_FIEMAP),
                _ => None,
            },
            Opcode::MDS_SET_INFO => match key(buffers) {
                b"changelog_clear" => Some(&MDS_CHANGELOG_CLEAR),
                _ => None,
            },
            Opcode::OST_GET_INFO => match key(buffers) {
                b"last_id" => Some(&OST_LAST_ID),
                b"last_fid" => Some(&OST_LAST_FID),
                b"fiemap" => Some(&OST_FIEMAP),
                _ => None,
            },
            Opcode::OST_SET_INFO => match key(buffers) {
                b"grant_shrink" => Some(&OST_GRANT_SHRINK),
                _ => None,
            },
            _ => None,
        };
        special.unwrap_or_else(|| Self::of(opcode))
    }
}

/// The place of the first format of each operation in [`Format::ALL`], beyond its end if there is
/// none: every message that arrives needs one.
static PLACES: [u8; Opcode::LFSCK_QUERY.0 as usize + 1] = {
    let mut places = [u8::MAX; Opcode::LFSCK_QUERY.0 as usize + 1];
    let mut place = Format::ALL.len();
    while place > 0 {
        place -= 1;
        places[Format::ALL[place].opcode.0 as usize] = place as u8;
    }
    places
};

fn of_enqueue(buffers: &[Cow<'_, [u8]>], order: Order) -> Option<&'static Format> {
    let (flags, lock) = of_lock(buffers, order)?;
    let intent = flags.has(LockFlags::HAS_INTENT).then(|| read(buffers, 1, order)).flatten();
    let Some(ops) = intent else {
        // A glimpse, and the reading of a directory, have the flag and no intent.
        return match lock.resource.kind {
            _ if is_on_data(&lock) => Some(&ENQUEUE_DOM),
            LockType::EXTENT => Some(&ENQUEUE_EXTENT),
            LockType::FLOCK => Some(&ENQUEUE_FLOCK),
            _ => Some(&ENQUEUE),
        };
    };
    let quota = IntentOps::QUOTA_DQACQ | IntentOps::QUOTA_CONN;
    Some(match ops {
        IntentOps::GETATTR | IntentOps::LOOKUP => &ENQUEUE_GETATTR,
        IntentOps::LAYOUT => &ENQUEUE_LAYOUT,
        IntentOps::GETXATTR => &ENQUEUE_GETXATTR,
        IntentOps::CREAT => &ENQUEUE_CREATE,
        IntentOps::GLIMPSE | IntentOps::BRW => &ENQUEUE_BRW,
        ops if ops.has(IntentOps::OPEN) => &ENQUEUE_OPEN,
        ops if ops.without(quota) != ops => &ENQUEUE_QUOTA,
        _ => &ENQUEUE_INTENT,
    })
}

/// Returns whether a lock is only on the data that a file has on the MDT.
fn is_on_data(lock: &LockDesc) -> bool {
    lock.resource.kind == LockType::IBITS && lock.policy.inodebits().bits == InodeBits::DOM
}

/// Returns the flags and the lock of a request.
fn of_lock(buffers: &[Cow<'_, [u8]>], order: Order) -> Option<(LockFlags, LockDesc)> {
    let mut r = Reader::new(buffers.first()?, order);
    let flags = LockFlags::read(&mut r, "flags").ok()?;
    r.u32("count").ok()?;
    Some((flags, LockDesc::read(&mut r, "lock").ok()?))
}

fn of_reint(buffers: &[Cow<'_, [u8]>], order: Order) -> Option<&'static Format> {
    Some(match read(buffers, 0, order)? {
        ReintOp::SETATTR => &REINT_SETATTR,
        ReintOp::CREATE if is_symlink(buffers, order) => &REINT_SYMLINK,
        ReintOp::CREATE => &REINT_CREATE,
        ReintOp::LINK => &REINT_LINK,
        ReintOp::UNLINK => &REINT_UNLINK,
        ReintOp::RENAME => &REINT_RENAME,
        ReintOp::OPEN => &REINT_OPEN,
        ReintOp::SETXATTR => &REINT_SETXATTR,
        ReintOp::RMENTRY => &REINT_RMENTRY,
        ReintOp::MIGRATE => &REINT_MIGRATE,
        ReintOp::RESYNC => &REINT_RESYNC,
        _ => return None,
    })
}

/// Returns whether a created file is a symbolic link.
fn is_symlink(buffers: &[Cow<'_, [u8]>], order: Order) -> bool {
    use crate::mdt::{Reint, ReintChange};
    const TYPE: u32 = 0o170_000;
    const SYMLINK: u32 = 0o120_000;
    let change = read::<Reint>(buffers, 0, order).map(|reint| reint.change);
    matches!(change, Some(ReintChange::Create(create)) if create.mode & TYPE == SYMLINK)
}

/// Reads the start of a buffer.
fn read<T: Field>(buffers: &[Cow<'_, [u8]>], place: usize, order: Order) -> Option<T> {
    T::read(&mut Reader::new(buffers.get(place)?, order), "field").ok()
}

/// Returns the text of the key in the first buffer.
fn key<'a>(buffers: &'a [Cow<'_, [u8]>]) -> &'a [u8] {
    buffers.first().map_or(&[], |buffer| crate::bytes::until_nul(buffer))
}

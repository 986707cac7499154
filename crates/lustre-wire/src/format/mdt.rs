//! Formats of requests for metadata. Spec: ptlrpc-ldlm-mgs §11.6.

use super::ldlm::{GETATTR_REPLY, formats};
use super::*;
use crate::Opcode;

/// A change of metadata.
macro_rules! reint {
    ($variant:literal, $request:expr, $reply:expr) => {
        Format::new(Opcode::MDS_REINT, &$request, &$reply).variant($variant)
    };
}

formats! {
    /// The root of the file system.
    GET_ROOT = Format::new(Opcode::MDS_GET_ROOT, &[&MDT_BODY, &NAME], &[&MDT_BODY, &CAPA]);
    /// The size and the use of the target, or of the file system.
    MDS_STATFS = Format::new(Opcode::MDS_STATFS, &[&MDT_BODY], &[&STATFS]);
    /// Write metadata to disk.
    MDS_SYNC = Format::new(Opcode::MDS_SYNC, &[&MDT_BODY, &CAPA], &[&MDT_BODY]);
    /// Attributes of a file.
    GETATTR = Format::new(Opcode::MDS_GETATTR, &[&MDT_BODY, &CAPA], ATTRIBUTES);
    /// Attributes of a file by its name.
    GETATTR_NAME = Format::new(Opcode::MDS_GETATTR_NAME, &[&MDT_BODY, &CAPA, &NAME], ATTRIBUTES);
    /// An extended attribute, or the names of all.
    GETXATTR = Format::new(
        Opcode::MDS_GETXATTR,
        &[&MDT_BODY, &CAPA, &NAME, &EA_DATA, &SELINUX_POLICY],
        &[&MDT_BODY, &EA_DATA],
    );
    /// A part of a directory.
    READPAGE = Format::new(Opcode::MDS_READPAGE, &[&MDT_BODY, &CAPA], &[&MDT_BODY]);
    /// Close a file.
    CLOSE = Format::new(
        Opcode::MDS_CLOSE,
        &[&IO_EPOCH, &REINT, &CAPA, &CLOSE_DATA, &MIRRORS],
        &[&MDT_BODY, &LAYOUT, &LOG_COOKIES, &CAPA, &CAPA],
    );
    /// Create a directory or a special file.
    REINT_CREATE = reint!(
        "CREATE",
        [
            &REINT, &CAPA, &NAME, &NEW_LAYOUT, &LOCK_REQUEST, &SECURITY_NAME, &SECURITY, &SELINUX_POLICY,
            &ENCRYPTION,
        ],
        [&MDT_BODY, &CAPA, &LAYOUT]
    );
    /// Create a symbolic link.
    REINT_SYMLINK = reint!(
        "SYMLINK",
        [
            &REINT, &CAPA, &NAME, &SYMLINK, &LOCK_REQUEST, &SECURITY_NAME, &SECURITY, &SELINUX_POLICY,
            &ENCRYPTION,
        ],
        [&MDT_BODY, &CAPA]
    );
    /// Open a file without a lock, in a replay.
    REINT_OPEN = reint!(
        "OPEN",
        [
            &REINT, &CAPA, &CAPA, &NAME, &NEW_LAYOUT, &SECURITY_NAME, &SECURITY, &SELINUX_POLICY, &ENCRYPTION,
        ],
        [&MDT_BODY, &LAYOUT, &ACL, &CAPA, &CAPA]
    );
    /// Remove a name.
    REINT_UNLINK = reint!("UNLINK", [&REINT, &CAPA, &NAME, &LOCK_REQUEST, &SELINUX_POLICY], REMOVED);
    /// Remove a name without its file.
    REINT_RMENTRY = reint!("RMENTRY", [&REINT, &CAPA, &NAME, &LOCK_REQUEST, &SELINUX_POLICY], REMOVED);
    /// Add a name to a file.
    REINT_LINK = reint!(
        "LINK",
        [&REINT, &CAPA, &CAPA, &NAME, &LOCK_REQUEST, &SELINUX_POLICY],
        [&MDT_BODY]
    );
    /// Rename a file.
    REINT_RENAME = reint!(
        "RENAME",
        [&REINT, &CAPA, &CAPA, &NAME, &TARGET_NAME, &LOCK_REQUEST, &SELINUX_POLICY],
        REMOVED
    );
    /// Move a file to another metadata target.
    REINT_MIGRATE = reint!(
        "MIGRATE",
        [
            &REINT, &CAPA, &CAPA, &NAME, &TARGET_NAME, &LOCK_REQUEST, &SELINUX_POLICY, &IO_EPOCH,
            &CLOSE_DATA, &NEW_LAYOUT,
        ],
        REMOVED
    );
    /// Change attributes.
    REINT_SETATTR = reint!(
        "SETATTR",
        [&REINT, &CAPA, &IO_EPOCH, &NEW_LAYOUT, &LOG_COOKIES, &LOCK_REQUEST],
        [&MDT_BODY, &LAYOUT, &ACL, &CAPA, &CAPA]
    );
    /// Change an extended attribute.
    REINT_SETXATTR = reint!(
        "SETXATTR",
        [&REINT, &CAPA, &NAME, &EA_DATA, &LOCK_REQUEST, &SELINUX_POLICY],
        [&MDT_BODY]
    );
    /// Start to bring a mirror up to date.
    REINT_RESYNC = reint!("RESYNC", [&REINT, &LOCK_REQUEST], [&MDT_BODY]);
    /// A change of an unknown kind.
    REINT_OTHER = Format::new(Opcode::MDS_REINT, &[&REINT], &[&MDT_BODY]);
    /// A value by its key.
    MDS_GET_INFO = Format::new(Opcode::MDS_GET_INFO, &[&KEY, &VALUE], &[&VALUE]);
    /// The path of a file.
    MDS_FID2PATH = Format::new(Opcode::MDS_GET_INFO, &[&FID2PATH_KEY, &VALUE_LEN], &[&FID2PATH])
        .variant("fid2path");
    /// The extents of data in the metadata target.
    MDS_FIEMAP = Format::new(Opcode::MDS_GET_INFO, &[&FIEMAP_KEY, &FIEMAP], &[&FIEMAP])
        .variant("fiemap");
    /// Set a value by its key.
    MDS_SET_INFO = Format::new(Opcode::MDS_SET_INFO, &[&KEY, &VALUE, &MDT_BODY], &[]);
    /// Records of the changelog are no longer needed.
    MDS_CHANGELOG_CLEAR =
        Format::new(Opcode::MDS_SET_INFO, &[&KEY, &CHANGELOG_CLEAR, &MDT_BODY], &[])
            .variant("changelog_clear");
    /// Quota.
    MDS_QUOTACTL = Format::new(Opcode::MDS_QUOTACTL, &[&QUOTACTL], &[&QUOTACTL, &QUOTA_ITER]);
    /// Exchange the layouts of two files.
    MDS_SWAP_LAYOUTS = Format::new(
        Opcode::MDS_SWAP_LAYOUTS,
        &[&MDT_BODY, &SWAP_LAYOUTS, &CAPA, &CAPA, &LOCK_REQUEST],
        &[],
    );
    /// Remove files.
    RMFID = Format::new(
        Opcode::MDS_RMFID,
        &[&MDT_BODY, &FIDS, &CAPA, &CAPA],
        &[&MDT_BODY, &FIDS, &RESULTS],
    );
    /// Several requests in one.
    MDS_BATCH = Format::new(Opcode::MDS_BATCH, &[&BATCH, &BATCH_BUFFERS], &[&BATCH_REPLY]);
    /// A part of a batch: attributes of a file. It has no body.
    BATCH_GETATTR = Format::new(
        Opcode::MDS_BATCH,
        &[&LOCK_REQUEST, &INTENT, &MDT_BODY, &CAPA, &NAME, &SECURITY_NAME],
        GETATTR_REPLY,
    )
    .variant("GETATTR");
    /// The archive state of a file.
    MDS_HSM_STATE_GET =
        Format::new(Opcode::MDS_HSM_STATE_GET, &[&MDT_BODY, &CAPA], &[&MDT_BODY, &HSM_STATE]);
    /// Change the archive state of a file.
    MDS_HSM_STATE_SET =
        Format::new(Opcode::MDS_HSM_STATE_SET, &[&MDT_BODY, &CAPA, &HSM_STATE_SET], &[]);
    /// The archive action under way.
    MDS_HSM_ACTION =
        Format::new(Opcode::MDS_HSM_ACTION, &[&MDT_BODY, &CAPA], &[&MDT_BODY, &HSM_CURRENT]);
    /// Progress of an archive action.
    MDS_HSM_PROGRESS = Format::new(Opcode::MDS_HSM_PROGRESS, &[&MDT_BODY, &HSM_PROGRESS], &[]);
    /// Request archive actions.
    MDS_HSM_REQUEST = Format::new(
        Opcode::MDS_HSM_REQUEST,
        &[&MDT_BODY, &HSM_REQUEST, &HSM_ITEMS, &HSM_DATA],
        &[],
    );
    /// Register an archive agent.
    MDS_HSM_REGISTER =
        Format::new(Opcode::MDS_HSM_CT_REGISTER, &[&MDT_BODY, &HSM_ARCHIVES], &[]);
    /// Unregister an archive agent.
    MDS_HSM_UNREGISTER = Format::new(Opcode::MDS_HSM_CT_UNREGISTER, &[&MDT_BODY], &[]);
    /// Set the data version of an archived file.
    MDS_HSM_DATA_VERSION = Format::new(Opcode::MDS_HSM_DATA_VERSION, &[&MDT_BODY], &[]);
}

const ATTRIBUTES: &[&dyn Buffer] = &[&MDT_BODY, &LAYOUT, &ACL, &CAPA, &CAPA, &ENCRYPTION];
const REMOVED: [&dyn Buffer; 5] = [&MDT_BODY, &LAYOUT, &LOG_COOKIES, &CAPA, &CAPA];

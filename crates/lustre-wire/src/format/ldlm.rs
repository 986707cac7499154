//! Formats of requests for locks. Spec: ptlrpc-ldlm-mgs §11.5.

use super::*;
use crate::Opcode;

macro_rules! formats {
    ($($(#[$meta:meta])* $name:ident = $format:expr;)+) => {
        $( $(#[$meta])* pub static $name: Format = $format; )+
    };
}
pub(super) use formats;

/// A request for a lock with a value block.
macro_rules! enqueue {
    ($variant:literal, $lvb:expr) => {
        Format::new(Opcode::LDLM_ENQUEUE, &[&LOCK_REQUEST], &[&LOCK_REPLY, &$lvb]).variant($variant)
    };
}

formats! {
    /// A lock without an intent whose type has no value block: plain, or inode bits.
    ENQUEUE = Format::new(Opcode::LDLM_ENQUEUE, &[&LOCK_REQUEST], &[&LOCK_REPLY, &LVB]);
    /// A lock on an extent of an object, or a glimpse.
    ENQUEUE_EXTENT = enqueue!("EXTENT", OST_LVB);
    /// A lock on the data that a file has on the MDT, or a glimpse of them.
    ENQUEUE_DOM = enqueue!("DOM", OST_LVB);
    /// A lock that processes agree on.
    ENQUEUE_FLOCK = enqueue!("FLOCK", LVB);
    /// An intent without buffers of its own.
    ENQUEUE_INTENT = Format::new(
        Opcode::LDLM_ENQUEUE,
        &[&LOCK_REQUEST, &INTENT],
        &[&LOCK_REPLY, &LVB],
    )
    .variant("INTENT");
    /// A lock on the data that a file has on the MDT, or a glimpse of them, of a client before 2.14.
    ENQUEUE_BRW = Format::new(
        Opcode::LDLM_ENQUEUE,
        &[&LOCK_REQUEST, &INTENT],
        &[&LOCK_REPLY, &MDT_BODY, &LAYOUT, &ACL],
    )
    .variant("BRW");
    /// Open a file, and perhaps create it.
    ENQUEUE_OPEN = Format::new(
        Opcode::LDLM_ENQUEUE,
        &[
            &LOCK_REQUEST, &INTENT, &REINT, &CAPA, &CAPA, &NAME, &NEW_LAYOUT, &SECURITY_NAME, &SECURITY,
            &SELINUX_POLICY, &ENCRYPTION,
        ],
        &[
            &LOCK_REPLY, &MDT_BODY, &LAYOUT, &ACL, &CAPA, &CAPA, &INLINE_DATA, &SECURITY, &ENCRYPTION,
            &DEFAULT_LAYOUT,
        ],
    )
    .variant("OPEN");
    /// Create a directory.
    ENQUEUE_CREATE = Format::new(
        Opcode::LDLM_ENQUEUE,
        &[
            &LOCK_REQUEST, &INTENT, &REINT, &CAPA, &NAME, &NEW_LAYOUT, &SECURITY_NAME, &SECURITY,
            &SELINUX_POLICY, &ENCRYPTION,
        ],
        GETATTR_REPLY,
    )
    .variant("CREAT");
    /// Attributes of a file, or only its FID.
    ENQUEUE_GETATTR = Format::new(
        Opcode::LDLM_ENQUEUE,
        &[&LOCK_REQUEST, &INTENT, &MDT_BODY, &CAPA, &NAME, &SECURITY_NAME],
        GETATTR_REPLY,
    )
    .variant("GETATTR");
    /// The layout of a file, or a change of it.
    ENQUEUE_LAYOUT = Format::new(
        Opcode::LDLM_ENQUEUE,
        &[&LOCK_REQUEST, &INTENT, &LAYOUT_INTENT, &NEW_LAYOUT],
        &[&LOCK_REPLY, &LAYOUT],
    )
    .variant("LAYOUT");
    /// All extended attributes of a file.
    ENQUEUE_GETXATTR = Format::new(
        Opcode::LDLM_ENQUEUE,
        &[&LOCK_REQUEST, &INTENT, &MDT_BODY, &CAPA, &SELINUX_POLICY],
        &[&LOCK_REPLY, &MDT_BODY, &LAYOUT, &ACL, &XATTR_NAMES, &XATTR_VALUES, &XATTR_LENS],
    )
    .variant("GETXATTR");
    /// A quota of a server.
    ENQUEUE_QUOTA = Format::new(
        Opcode::LDLM_ENQUEUE,
        &[&LOCK_REQUEST, &INTENT, &QUOTA_BODY],
        &[&LOCK_REPLY, &QUOTA_LVB, &QUOTA_BODY],
    )
    .variant("QUOTA");
    /// Give up bits of a lock.
    CONVERT = Format::new(Opcode::LDLM_CONVERT, &[&LOCK_REQUEST], &[&LOCK_REPLY]);
    /// Give up locks.
    CANCEL = Format::new(Opcode::LDLM_CANCEL, &[&LOCK_REQUEST], &[]);
    /// A lock blocks another one.
    BLOCKING = Format::new(Opcode::LDLM_BL_CALLBACK, &[&LOCK_REQUEST], &[]);
    /// A lock of another type was granted.
    COMPLETION = Format::new(Opcode::LDLM_CP_CALLBACK, &[&LOCK_REQUEST, &LVB], &[]);
    /// A lock on an extent was granted.
    COMPLETION_EXTENT = Format::new(Opcode::LDLM_CP_CALLBACK, &[&LOCK_REQUEST, &OST_LVB], &[])
        .variant("EXTENT");
    /// A lock on the data that a file has on the MDT was granted.
    COMPLETION_DOM = Format::new(Opcode::LDLM_CP_CALLBACK, &[&LOCK_REQUEST, &OST_LVB], &[])
        .variant("DOM");
    /// A lock on inode bits was granted, perhaps with the layout of the file.
    COMPLETION_LAYOUT = Format::new(Opcode::LDLM_CP_CALLBACK, &[&LOCK_REQUEST, &LAYOUT], &[])
        .variant("IBITS");
    /// The value block of a lock of another type is wanted.
    GLIMPSED = Format::new(Opcode::LDLM_GL_CALLBACK, &[&LOCK_REQUEST, &GLIMPSE], &[&LVB]);
    /// The value block of a lock on an extent is wanted.
    GLIMPSED_EXTENT =
        Format::new(Opcode::LDLM_GL_CALLBACK, &[&LOCK_REQUEST, &GLIMPSE], &[&OST_LVB])
            .variant("EXTENT");
    /// The value block of a lock on the data that a file has on the MDT is wanted.
    GLIMPSED_DOM = Format::new(Opcode::LDLM_GL_CALLBACK, &[&LOCK_REQUEST, &GLIMPSE], &[&OST_LVB])
        .variant("DOM");
    /// A value for a client.
    LDLM_SET_INFO = Format::new(Opcode::LDLM_SET_INFO, &[&KEY, &VALUE], &[]);
}

pub(super) const GETATTR_REPLY: &[&dyn Buffer] =
    &[&LOCK_REPLY, &MDT_BODY, &LAYOUT, &ACL, &CAPA, &SECURITY, &DEFAULT_LAYOUT, &ENCRYPTION];

//! Changes of metadata. A record is the same 56 bytes for each change and then 80 of its own.
//!
//! ```text
//! head    0 op  4 capability  8 fsuid  12 layout version  16 fsgid  24 suppgid1  32 suppgid2
//!        40 fid [16]
//! change 56 to 136
//! ```
//! Spec: mdt-ost §4.1.

use fulmar_wire::{DecodeError, Field, Reader, Writer, wire_enum, wire_flags, wire_struct};
use serde::Serialize;

use super::{Bias, OpenFlags, Valid};
use crate::{Fid, Handle, Padding};

wire_enum! {
    /// The kind of a change. Spec: mdt-ost §1.5.
    #[derive(Default)]
    pub struct ReintOp(u32) {
        /// Set attributes.
        SETATTR = 1,
        /// Create anything but a regular file.
        CREATE = 2,
        /// Add a name.
        LINK = 3,
        /// Remove a name.
        UNLINK = 4,
        /// Rename.
        RENAME = 5,
        /// Open, and possibly create, a file.
        OPEN = 6,
        /// Set or remove an extended attribute.
        SETXATTR = 7,
        /// Remove only the entry of a directory.
        RMENTRY = 8,
        /// Move to another MDT.
        MIGRATE = 9,
        /// Resynchronise mirrors.
        RESYNC = 10,
    }
}

wire_flags! {
    /// The attributes to set. Spec: mdt-ost §4.2.
    #[doc(alias = "MDS_ATTR")]
    pub struct AttrValid(u64) {
        MODE = 0x1,
        UID = 0x2,
        GID = 0x4,
        SIZE = 0x8,
        ATIME = 0x10,
        MTIME = 0x20,
        CTIME = 0x40,
        /// The access time is that of the client.
        ATIME_SET = 0x80,
        /// The modification time is that of the client.
        MTIME_SET = 0x100,
        FORCE = 0x200,
        ATTR_FLAG = 0x400,
        KILL_SUID = 0x800,
        KILL_SGID = 0x1000,
        /// The change time is that of the client.
        CTIME_SET = 0x2000,
        FROM_OPEN = 0x4000,
        BLOCKS = 0x8000,
        PROJID = 0x1_0000,
        /// The size may be old.
        LSIZE = 0x2_0000,
        /// The blocks may be old.
        LBLOCKS = 0x4_0000,
        OVERRIDE = 0x200_0000,
    }
}

wire_flags! {
    /// Whether an extended attribute must not, or must, exist. Spec: mdt-ost §4.5.
    pub struct XattrFlags(u32) {
        CREATE = 0x1,
        REPLACE = 0x2,
    }
}

wire_struct! {
    /// The first 56 bytes of every record: the caller and the first file.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct ReintHead {
        pub op: ReintOp,
        /// The first 32 capabilities of the caller.
        pub capability: u32,
        pub fsuid: u32,
        /// For creations: the layout version of a striped parent, 1 for a plain one, 0 for unknown.
        pub layout_version: u32,
        pub fsgid: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding1: Padding<4>,
        /// A further group of the caller, or `u32::MAX`.
        pub suppgid1: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding2: Padding<4>,
        /// A further group of the caller, or `u32::MAX`.
        pub suppgid2: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding3: Padding<4>,
        /// The file; of a creation, unlink or rename, the directory of the name.
        #[doc(alias = "fid1")]
        pub fid: Fid,
    }
}

wire_struct! {
    /// Set attributes. Times are in seconds. Spec: mdt-ost §4.2.
    #[doc(alias = "mdt_rec_setattr")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct SetAttr {
        pub valid: AttrValid,
        pub uid: u32,
        pub gid: u32,
        pub size: u64,
        pub blocks: u64,
        pub mtime: i64,
        pub atime: i64,
        pub ctime: i64,
        pub flags: u32,
        pub mode: u32,
        pub bias: Bias,
        pub projid: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<8>,
    }
}

/// Open flags as two words, the lower one first in every byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct SplitOpenFlags(pub OpenFlags);

impl Field for SplitOpenFlags {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let (low, high) = (r.u32(name)?, r.u32(name)?);
        Ok(Self(OpenFlags(u64::from(high) << 32 | u64::from(low))))
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u32(self.0.0 as u32);
        w.u32((self.0.0 >> 32) as u32);
    }
}

wire_struct! {
    /// Create or open a file. Spec: mdt-ost §4.3.
    #[doc(alias = "mdt_rec_create")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Create {
        /// The file: of the client's sequence if it is new.
        pub child: Fid,
        /// The earlier handle, in replays and upgrades of leases.
        pub old_handle: Handle,
        pub time: i64,
        /// The device; the archive for `OpenFlags::PCC`.
        pub rdev: u64,
        pub io_epoch: u64,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding1: Padding<8>,
        pub mode: u32,
        pub bias: Bias,
        pub flags: SplitOpenFlags,
        pub umask: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding2: Padding<4>,
    }
}

wire_struct! {
    /// Add a name. Spec: mdt-ost §4.4.
    #[doc(alias = "mdt_rec_link")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Link {
        /// The directory of the name.
        pub parent: Fid,
        pub time: i64,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding1: Padding<32>,
        pub bias: Bias,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding2: Padding<20>,
    }
}

wire_struct! {
    /// Remove a name. Spec: mdt-ost §4.4.
    #[doc(alias = "mdt_rec_unlink")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Unlink {
        /// The file, if it is known.
        pub child: Fid,
        pub time: i64,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding1: Padding<32>,
        pub bias: Bias,
        /// The type of a directory, else 0.
        pub mode: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding2: Padding<16>,
    }
}

wire_struct! {
    /// Rename, or move to another MDT. Spec: mdt-ost §4.4.
    #[doc(alias = "mdt_rec_rename")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Rename {
        /// The directory of the new name; the object that is moved.
        pub target: Fid,
        pub time: i64,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding1: Padding<32>,
        pub bias: Bias,
        /// That of the object that is replaced, else of the renamed one.
        pub mode: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding2: Padding<16>,
    }
}

wire_struct! {
    /// Set or remove an extended attribute. Spec: mdt-ost §4.5.
    #[doc(alias = "mdt_rec_setxattr")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct SetXattr {
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding1: Padding<16>,
        /// `FLXATTR` to set, `FLXATTRRM` to remove.
        pub valid: Valid,
        pub time: i64,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding2: Padding<24>,
        /// 0: the length of the value is that of its buffer.
        pub size: u32,
        pub flags: XattrFlags,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding3: Padding<16>,
    }
}

wire_struct! {
    /// Resynchronise mirrors. Spec: mdt-ost §4.6.
    #[doc(alias = "mdt_rec_resync")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Resync {
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding1: Padding<16>,
        /// The server's lock of the lease; since 2.14.
        pub lease: Handle,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding2: Padding<32>,
        pub bias: Bias,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding3: Padding<12>,
        /// The mirror, since 2.16.
        pub mirror_id: u32,
        /// The mirror, up to 2.15.
        pub old_mirror_id: u16,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding4: Padding<2>,
    }
}

/// A change of metadata: 136 bytes.
#[doc(alias = "mdt_rec_reint")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Reint {
    /// The kind in it decides how `change` is read; [`Reint::new`] keeps them equal.
    #[serde(flatten)]
    pub head: ReintHead,
    #[serde(flatten)]
    pub change: ReintChange,
}

/// What a [`Reint`] changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum ReintChange {
    SetAttr(SetAttr),
    /// `CREATE` and `OPEN`.
    Create(Create),
    Link(Link),
    /// `UNLINK` and `RMENTRY`.
    Unlink(Unlink),
    /// `RENAME` and `MIGRATE`.
    Rename(Rename),
    SetXattr(SetXattr),
    Resync(Resync),
    /// Of an unknown kind.
    Unknown {
        bytes: Padding<80>,
    },
}

impl Reint {
    /// The length in bytes.
    pub const LEN: usize = 136;

    /// Returns the record of `change`, which must be of the kind in `head`.
    pub fn new(head: ReintHead, change: ReintChange) -> Option<Self> {
        let fits = match change {
            ReintChange::SetAttr(_) => matches!(head.op, ReintOp::SETATTR),
            ReintChange::Create(_) => matches!(head.op, ReintOp::CREATE | ReintOp::OPEN),
            ReintChange::Link(_) => matches!(head.op, ReintOp::LINK),
            ReintChange::Unlink(_) => matches!(head.op, ReintOp::UNLINK | ReintOp::RMENTRY),
            ReintChange::Rename(_) => matches!(head.op, ReintOp::RENAME | ReintOp::MIGRATE),
            ReintChange::SetXattr(_) => matches!(head.op, ReintOp::SETXATTR),
            ReintChange::Resync(_) => matches!(head.op, ReintOp::RESYNC),
            ReintChange::Unknown { .. } => head.op.name().is_none(),
        };
        fits.then_some(Self { head, change })
    }
}

impl Field for Reint {
    fn read(r: &mut Reader<'_>, _: &'static str) -> Result<Self, DecodeError> {
        let head = ReintHead::read(r, "Reint.head")?;
        let name = "Reint.change";
        let change = match head.op {
            ReintOp::SETATTR => ReintChange::SetAttr(Field::read(r, name)?),
            ReintOp::CREATE | ReintOp::OPEN => ReintChange::Create(Field::read(r, name)?),
            ReintOp::LINK => ReintChange::Link(Field::read(r, name)?),
            ReintOp::UNLINK | ReintOp::RMENTRY => ReintChange::Unlink(Field::read(r, name)?),
            ReintOp::RENAME | ReintOp::MIGRATE => ReintChange::Rename(Field::read(r, name)?),
            ReintOp::SETXATTR => ReintChange::SetXattr(Field::read(r, name)?),
            ReintOp::RESYNC => ReintChange::Resync(Field::read(r, name)?),
            _ => ReintChange::Unknown { bytes: Field::read(r, name)? },
        };
        Ok(Self { head, change })
    }

    fn write(&self, w: &mut Writer<'_>) {
        self.head.write(w);
        match &self.change {
            ReintChange::SetAttr(change) => change.write(w),
            ReintChange::Create(change) => change.write(w),
            ReintChange::Link(change) => change.write(w),
            ReintChange::Unlink(change) => change.write(w),
            ReintChange::Rename(change) => change.write(w),
            ReintChange::SetXattr(change) => change.write(w),
            ReintChange::Resync(change) => change.write(w),
            ReintChange::Unknown { bytes } => bytes.write(w),
        }
    }
}

#[cfg(test)]
mod tests;

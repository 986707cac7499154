//! Nodemaps: which ids the clients with certain NIDs have. Keys of 8 bytes and records of 32 in
//! [index pages](crate::index::IndexPage). Spec: ptlrpc-ldlm-mgs §32.4.

use fulmar_wire::{DecodeError, Field, Reader, Writer, wire_enum, wire_flags, wire_struct};
use serde::Serialize;

use crate::{LargeNid, Padding, SmallNid, Text};

wire_enum! {
    /// The kind of a record.
    #[derive(Default)]
    pub struct NodemapKind(u8) {
        /// None.
        EMPTY = 0,
        /// A nodemap, or more about it.
        CLUSTER = 1,
        /// NIDs of a nodemap.
        RANGE = 2,
        /// A user.
        UID = 3,
        /// A group.
        GID = 4,
        /// A project.
        PROJID = 5,
        /// NIDs of any size of a nodemap.
        NID_MASK = 6,
        /// Whether nodemaps are used.
        GLOBAL = 15,
    }
}

/// The key of a record: 8 bytes.
#[doc(alias = "nodemap_key")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NodemapKey {
    /// The kind of the record: the upper 4 bits of the first word.
    pub kind: NodemapKind,
    /// The nodemap: the lower 28 bits.
    pub nodemap: u32,
    /// The number of the range or the id of the client; of a nodemap which part of it.
    pub part: u32,
}

impl Field for NodemapKey {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let word = r.u32(name)?;
        let kind = NodemapKind((word >> 28) as u8);
        Ok(Self { kind, nodemap: word & 0x0fff_ffff, part: r.u32(name)? })
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u32(u32::from(self.kind.0) << 28 | self.nodemap & 0x0fff_ffff);
        w.u32(self.part);
    }
}

wire_flags! {
    /// What a nodemap does.
    pub struct NodemapFlags(u8) {
        ALLOW_ROOT_ACCESS = 0x1,
        TRUST_CLIENT_IDS = 0x2,
        DENY_UNKNOWN = 0x4,
        MAP_UID = 0x8,
        MAP_GID = 0x10,
        ENABLE_AUDIT = 0x20,
        FORBID_ENCRYPT = 0x40,
        MAP_PROJID = 0x80,
    }
}

wire_flags! {
    /// What else a nodemap does.
    pub struct NodemapFlags2(u8) {
        READONLY_MOUNT = 0x1,
        DENY_MOUNT = 0x2,
        FILESET_USE_IAM = 0x4,
        GSS_IDENTIFY = 0x8,
    }
}

wire_struct! {
    /// A nodemap.
    #[doc(alias = "nodemap_cluster_rec")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Nodemap {
        pub name: Text<17>,
        pub flags: NodemapFlags,
        pub flags2: NodemapFlags2,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<1>,
        pub squash_projid: u32,
        pub squash_uid: u32,
        pub squash_gid: u32,
    }
}

wire_struct! {
    /// What the clients of a nodemap may do: part 1 of it.
    #[doc(alias = "nodemap_cluster_roles_rec")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct NodemapRoles {
        pub roles: u64,
        /// What nodemaps below it may allow.
        pub privileges: u64,
        /// The roles that nodemaps below it may add.
        pub raised: u64,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<8>,
    }
}

wire_struct! {
    /// Where the ids of the clients of a nodemap begin, and how many there are: part 2 of it.
    #[doc(alias = "nodemap_offset_rec")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct NodemapOffset {
        pub start_uid: u32,
        pub limit_uid: u32,
        pub start_gid: u32,
        pub limit_gid: u32,
        pub start_projid: u32,
        pub limit_projid: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<8>,
    }
}

wire_struct! {
    /// A directory that the clients of a nodemap may mount: the first of its 256 parts, from part 512 on.
    #[doc(alias = "nodemap_fileset_header_rec")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct NodemapFilesetHead {
        /// 1: nothing may be changed in it.
        pub flags: u8,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<31>,
    }
}

wire_struct! {
    /// A piece of the path of such a directory, in the parts after the first.
    #[doc(alias = "nodemap_fileset_rec")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct NodemapFilesetPart {
        pub text: Text<28>,
        /// Which piece, from 0 on.
        pub number: u16,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<2>,
    }
}

wire_struct! {
    /// NIDs of 4 bytes, from the first to the last.
    #[doc(alias = "nodemap_range_rec")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct NodemapRange {
        pub start: SmallNid,
        pub end: SmallNid,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<16>,
    }
}

wire_struct! {
    /// NIDs that begin with the bits of a NID.
    #[doc(alias = "nodemap_range2_rec")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct NodemapNetmask {
        pub prefix: LargeNid,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<11>,
        /// Bits.
        pub netmask: u8,
    }
}

wire_struct! {
    /// The id in the file system.
    #[doc(alias = "nodemap_id_rec")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct NodemapId {
        pub id: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<28>,
    }
}

/// A record: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum NodemapRecord {
    Nodemap(Nodemap),
    Roles(NodemapRoles),
    Offset(NodemapOffset),
    FilesetHead(NodemapFilesetHead),
    FilesetPart(NodemapFilesetPart),
    Range(NodemapRange),
    Netmask(NodemapNetmask),
    Id(NodemapId),
    Global {
        is_active: u8,
        padding: Padding<31>,
    },
    /// Of another kind.
    Other(Padding<32>),
}

/// A key and its record: 40 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct NodemapEntry {
    /// Its kind decides how the record is read.
    #[serde(flatten)]
    pub key: NodemapKey,
    pub record: NodemapRecord,
}

impl Field for NodemapEntry {
    fn read(r: &mut Reader<'_>, _: &'static str) -> Result<Self, DecodeError> {
        let key = NodemapKey::read(r, "NodemapEntry.key")?;
        let name = "NodemapEntry.record";
        let record = match key.kind {
            NodemapKind::CLUSTER => match key.part {
                0 => NodemapRecord::Nodemap(Field::read(r, name)?),
                1 => NodemapRecord::Roles(Field::read(r, name)?),
                2 => NodemapRecord::Offset(Field::read(r, name)?),
                3..512 => NodemapRecord::Other(Field::read(r, name)?),
                part if part % 256 == 0 => NodemapRecord::FilesetHead(Field::read(r, name)?),
                _ => NodemapRecord::FilesetPart(Field::read(r, name)?),
            },
            NodemapKind::RANGE => NodemapRecord::Range(Field::read(r, name)?),
            NodemapKind::NID_MASK => NodemapRecord::Netmask(Field::read(r, name)?),
            NodemapKind::UID | NodemapKind::GID | NodemapKind::PROJID => {
                NodemapRecord::Id(Field::read(r, name)?)
            }
            NodemapKind::GLOBAL => NodemapRecord::Global {
                is_active: Field::read(r, name)?,
                padding: Field::read(r, name)?,
            },
            _ => NodemapRecord::Other(Field::read(r, name)?),
        };
        Ok(Self { key, record })
    }

    fn write(&self, w: &mut Writer<'_>) {
        self.key.write(w);
        match &self.record {
            NodemapRecord::Nodemap(record) => record.write(w),
            NodemapRecord::Roles(record) => record.write(w),
            NodemapRecord::Offset(record) => record.write(w),
            NodemapRecord::FilesetHead(record) => record.write(w),
            NodemapRecord::FilesetPart(record) => record.write(w),
            NodemapRecord::Range(record) => record.write(w),
            NodemapRecord::Netmask(record) => record.write(w),
            NodemapRecord::Id(record) => record.write(w),
            NodemapRecord::Global { is_active, padding } => {
                w.u8(*is_active);
                padding.write(w);
            }
            NodemapRecord::Other(bytes) => bytes.write(w),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_example, check_fixed};

    crate::testing::sizes! { NodemapKey = 8, NodemapEntry = 40 }

    #[test]
    fn every_record_has_32_bytes() {
        check_fixed::<Nodemap>(32);
        check_fixed::<NodemapRange>(32);
        check_fixed::<NodemapNetmask>(32);
        check_fixed::<NodemapId>(32);
        check_fixed::<NodemapRoles>(32);
        check_fixed::<NodemapOffset>(32);
        check_fixed::<NodemapFilesetHead>(32);
        check_fixed::<NodemapFilesetPart>(32);
        for kind in 0..16 {
            let mut bytes = vec![0x11; 40];
            bytes[3] = kind << 4;
            let entry: NodemapEntry = check_example(&bytes);
            assert_eq!(entry.key.kind, NodemapKind(kind));
        }
    }

    #[test]
    fn the_part_of_a_nodemap_says_what_its_record_is() {
        let read = |part: u16| {
            let mut bytes = vec![0x11; 40];
            bytes[3] = 0x10;
            let [low, high] = part.to_le_bytes();
            bytes[4..8].copy_from_slice(&[low, high, 0, 0]);
            check_example::<NodemapEntry>(&bytes).record
        };
        assert!(matches!(read(0), NodemapRecord::Nodemap(_)));
        assert!(matches!(read(1), NodemapRecord::Roles(_)));
        assert!(matches!(read(2), NodemapRecord::Offset(_)));
        assert!(matches!(read(3), NodemapRecord::Other(_)));
        assert!(matches!(read(512), NodemapRecord::FilesetHead(_)));
        assert!(matches!(read(513), NodemapRecord::FilesetPart(_)));
        assert!(matches!(read(768), NodemapRecord::FilesetHead(_)));
    }

    #[test]
    fn nodemaps_are_inactive_by_default() {
        let mut bytes = vec![0; 40];
        bytes[3] = 0xf0;
        let entry: NodemapEntry = check_example(&bytes);
        assert_eq!(entry.key.kind, NodemapKind::GLOBAL);
        let inactive = NodemapRecord::Global { is_active: 0, padding: Padding::default() };
        assert_eq!(entry.record, inactive);
    }
}

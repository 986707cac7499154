//! The attributes of an object.

use fulmar_wire::{DecodeError, Field, Reader, Writer, wire_flags, wire_struct};
use serde::Serialize;

use super::{ChecksumKind, OstId};
use crate::mdt::Valid;
use crate::{Fid, Handle, Padding};

wire_flags! {
    /// Flags of a request or a reply about an object, without the kind of the checksum.
    /// Spec: mdt-ost §15.4.
    #[doc(alias = "OBD_FL")]
    pub struct ObdoFlags(u32) {
        /// Destroy the objects after the last used one.
        DELORPHAN = 0x4,
        NORPC = 0x8,
        IDONLY = 0x10,
        RECREATE_OBJS = 0x20,
        /// The quota of the project is used up: write synchronously.
        NO_PRJQUOTA = 0x80,
        /// The quota of the user is used up: write synchronously.
        NO_USRQUOTA = 0x100,
        /// The quota of the group is used up: write synchronously.
        NO_GRPQUOTA = 0x200,
        /// The server takes the lock.
        SRVLOCK = 0x800,
        /// The client gives grant back.
        SHRINK_GRANT = 0x2_0000,
        /// The data may change while it is sent.
        MMAP = 0x4_0000,
        /// The I/O failed before.
        RECOV_RESEND = 0x8_0000,
        NOSPC_BLK = 0x10_0000,
        /// Clients must write their data first.
        FLUSH = 0x20_0000,
        /// The data is in the message.
        SHORT_IO = 0x40_0000,
        ROOT_SQUASH = 0x80_0000,
        ROOT_PRJQUOTA = 0x100_0000,
    }
}

/// The word of flags of an object: flags, and the kind of the checksum in bits 12 to 15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct FlagWord {
    pub flags: ObdoFlags,
    pub checksum_kind: ChecksumKind,
}

impl FlagWord {
    const CHECKSUM_MASK: u32 = 0xf000;
    const CHECKSUM_SHIFT: u32 = 12;
}

impl Field for FlagWord {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let word = r.u32(name)?;
        Ok(Self {
            flags: ObdoFlags(word & !Self::CHECKSUM_MASK),
            checksum_kind: ChecksumKind((word & Self::CHECKSUM_MASK) >> Self::CHECKSUM_SHIFT),
        })
    }

    fn write(&self, w: &mut Writer<'_>) {
        let kind = self.checksum_kind.0 << Self::CHECKSUM_SHIFT;
        w.u32(self.flags.0 & !Self::CHECKSUM_MASK | kind & Self::CHECKSUM_MASK);
    }
}

wire_struct! {
    /// The component of a layout that an object belongs to: 28 bytes. Spec: mdt-ost §15.1.
    #[doc(alias = "ost_layout")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct OstLayout {
        pub stripe_size: u32,
        pub stripe_count: u32,
        pub start: u64,
        pub end: u64,
        pub component_id: u32,
    }
}

wire_struct! {
    /// The attributes of an object, which are the body of OST requests and replies: 208 bytes.
    /// Several fields have other meanings in some requests. Spec: mdt-ost §15.1.
    #[doc(alias = "ost_body")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Obdo {
        /// The fields that are wanted or present.
        pub valid: Valid,
        pub id: OstId,
        /// The sequence of the file.
        pub parent_seq: u64,
        /// Bytes. Of `PUNCH`, `FALLOCATE` and `SYNC` the start; of `SEEK` the offset, and in its
        /// reply a result or negative error number; of the reply to `CREATE` the width of the
        /// sequence.
        pub size: u64,
        pub mtime: i64,
        pub atime: i64,
        pub ctime: i64,
        /// Units of 512 bytes. Of `PUNCH`, `FALLOCATE` and `SYNC` the end. With `FLGRANT` the bytes
        /// that the client caches.
        #[doc(alias = "o_dirty")]
        pub blocks: u64,
        /// The grant that the client has; in replies, what the server adds.
        pub grant: u64,
        pub block_size: u32,
        /// The mode. With `FLGRANT` the bytes that the client wants to cache besides; of `SEEK`
        /// whence.
        #[doc(alias = "o_undirty")]
        pub mode: u32,
        pub uid: u32,
        pub gid: u32,
        #[serde(flatten)]
        pub flags: FlagWord,
        /// With `FLCKSUM` the checksum; of `FALLOCATE` a [`FallocateMode`](super::FallocateMode).
        #[doc(alias = "o_cksum")]
        pub nlink: u32,
        /// The object of the file.
        pub parent_oid: u32,
        /// With `FLGRANT` the grant that the client gives back; with `FLOBJCOUNT` the number of
        /// objects.
        #[doc(alias = "o_dropped")]
        pub misc: u32,
        pub io_epoch: u64,
        /// The stripe of the object.
        pub stripe_index: u32,
        /// The version of the file.
        pub parent_version: u32,
        /// The server's lock that covers the I/O.
        pub handle: Handle,
        pub layout: OstLayout,
        pub layout_version: u32,
        pub uid_high: u32,
        pub gid_high: u32,
        /// The version of the data; in writes the grant that was consumed.
        #[doc(alias = "o_grant_used")]
        pub data_version: u64,
        pub projid: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<20>,
    }
}

impl Obdo {
    /// Returns the FID of the file that the object belongs to.
    pub fn parent(&self) -> Fid {
        Fid { seq: self.parent_seq, oid: self.parent_oid, version: self.parent_version }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Content;
    use crate::testing::check_example;

    crate::testing::sizes! { FlagWord = 4, OstLayout = 28, Obdo = 208 }

    #[test]
    fn the_kind_of_the_checksum_is_no_flag() {
        let word: FlagWord = check_example(&[0x00, 0x60, 0x40, 0x00]);
        assert_eq!(word.flags, ObdoFlags::SHORT_IO);
        assert_eq!(word.checksum_kind, ChecksumKind::T10IP4K);
    }

    /// The direct write of mdt-ost §26.3.
    #[test]
    fn a_write_names_the_object_the_file_and_the_grant() {
        let mut bytes = vec![0; 208];
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        put(0, &0x0180_0000_0b10_4f2du64.to_le_bytes());
        put(8, &Fid { seq: 0x2_4000_0400, oid: 0x4f, version: 0 }.to_bytes());
        put(24, &0x2_0000_0401u64.to_le_bytes());
        put(104, &0xa4u32.to_le_bytes());
        put(64, &[0x00, 0x60, 0x01, 0, 0, 0, 0, 0, 0x00, 0x80, 0x5f, 0x01]);
        put(84, &[0x00, 0x20, 0x71, 0x0b]);
        put(96, &[0x00, 0x60, 0x00, 0x00, 0xe1, 0x1f, 0x2e, 0x0e]);
        put(136, &[0, 0, 0x40, 0, 1]);
        put(176, &[0x00, 0x60, 0x01]);
        let obdo: Obdo = check_example(&bytes);
        assert_eq!(obdo.valid.unknown(), Valid::NONE);
        assert_eq!(obdo.parent(), Fid { seq: 0x2_0000_0401, oid: 0xa4, version: 0 });
        assert_eq!((obdo.blocks, obdo.grant, obdo.mode), (90112, 23_035_904, 191_963_136));
        assert_eq!((obdo.flags.checksum_kind, obdo.nlink), (ChecksumKind::T10IP4K, 0x0e2e_1fe1));
        assert_eq!((obdo.layout.stripe_size, obdo.layout.stripe_count), (4 << 20, 1));
        assert_eq!(obdo.data_version, 90112);
    }
}

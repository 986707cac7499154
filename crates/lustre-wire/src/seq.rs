//! Sequences of FIDs: ranges, who allocates them, and the known ones.

use fulmar_wire::{wire_enum, wire_struct};
use serde::Serialize;

use crate::Fid;

wire_enum! {
    /// What a client or server asks a sequence server for. Spec: ptlrpc-ldlm-mgs §35.3.
    pub struct SeqOp(u32) {
        /// A range of sequences for a server.
        ALLOC_SUPER = 0,
        /// One sequence for a client, or for the objects of an MDT.
        ALLOC_META = 1,
    }
}

wire_enum! {
    /// Which targets a sequence belongs to. Spec: ptlrpc-ldlm-mgs §35.2.
    #[derive(Default)]
    pub struct SeqKind(u32) {
        /// An MDT.
        MDT = 0,
        /// An OST.
        OST = 1,
        /// Either; in requests.
        ANY = 3,
    }
}

wire_struct! {
    /// Sequences and the target that they belong to: 24 bytes. Spec: ptlrpc-ldlm-mgs §35.2.
    #[doc(alias = "lu_seq_range")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct SeqRange {
        pub start: u64,
        /// The sequence after the last one.
        pub end: u64,
        /// The index of the target.
        pub index: u32,
        #[doc(alias = "lsr_flags")]
        pub kind: SeqKind,
    }
}

impl SeqRange {
    /// Returns whether `seq` is in the range.
    pub fn contains(&self, seq: u64) -> bool {
        (self.start..self.end).contains(&seq)
    }
}

wire_enum! {
    /// A sequence with a meaning of its own. Spec: mdt-ost §2.1.
    #[doc(alias = "FID_SEQ")]
    pub struct Seq(u64) {
        /// Objects that MDT0000 of an old release made.
        OST_MDT0 = 0,
        /// Logs.
        LLOG = 1,
        /// Objects of the echo client.
        ECHO = 2,
        /// Logs with names.
        LLOG_NAME = 10,
        /// Reserved.
        RSVD = 11,
        /// The first sequence that is no old inode or object.
        START = 0x2_0000_0000,
        /// Files of one target.
        LOCAL_FILE = 0x2_0000_0001,
        /// The directory `.lustre`.
        DOT_LUSTRE = 0x2_0000_0002,
        /// Files of one target with names.
        LOCAL_NAME = 0x2_0000_0003,
        /// The lock of renames.
        SPECIAL = 0x2_0000_0004,
        /// Quota indices.
        QUOTA = 0x2_0000_0005,
        /// Global quota indices.
        QUOTA_GLB = 0x2_0000_0006,
        /// The root directory.
        ROOT = 0x2_0000_0007,
        /// Layouts in trees.
        LAYOUT_RBTREE = 0x2_0000_0008,
        /// Logs of updates.
        UPDATE_LOG = 0x2_0000_0009,
        /// Directories of logs of updates.
        UPDATE_LOG_DIR = 0x2_0000_000a,
        /// The first sequence that is allocated.
        NORMAL = 0x2_0000_0400,
        /// The default layout.
        LOV_DEFAULT = 0xffff_ffff_ffff_ffff,
    }
}

impl Fid {
    /// The root directory of the file system. A client may have another root.
    pub const ROOT: Self = Self { seq: Seq::ROOT.0, oid: 1, version: 0 };
    /// The directory `.lustre`.
    pub const DOT_LUSTRE: Self = Self { seq: Seq::DOT_LUSTRE.0, oid: 1, version: 0 };
    /// The directory `.lustre/fid`.
    pub const BY_FID: Self = Self { seq: Seq::DOT_LUSTRE.0, oid: 2, version: 0 };
    /// The lock of renames across directories.
    #[doc(alias = "BFL")]
    pub const RENAME_LOCK: Self = Self { seq: Seq::SPECIAL.0, oid: 1, version: 0 };
    /// The first sequence of objects that had no FID.
    #[doc(alias = "FID_SEQ_IDIF")]
    pub const IDIF_START: u64 = 0x1_0000_0000;

    /// Returns whether the file is an inode of Lustre 1: the sequence is its number.
    pub fn is_igif(self) -> bool {
        (12..Self::IDIF_START).contains(&self.seq)
    }

    /// Returns whether the object had no FID: [`Fid::old_object`].
    pub fn is_idif(self) -> bool {
        (Self::IDIF_START..Seq::START.0).contains(&self.seq)
    }

    /// Returns the number, of 48 bits, of an object that had no FID.
    #[doc(alias = "fid_idif_id")]
    pub fn old_object(self) -> Option<u64> {
        self.is_idif().then_some((self.seq & 0xffff) << 32 | u64::from(self.oid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check_example;

    crate::testing::sizes! { SeqRange = 24 }

    #[test]
    fn a_range_ends_before_its_end() {
        let range = SeqRange { start: 5, end: 7, ..SeqRange::default() };
        assert_eq!([4, 5, 6, 7].map(|seq| range.contains(seq)), [false, true, true, false]);
        let mut bytes = vec![0; 24];
        (bytes[3], bytes[4], bytes[8], bytes[20]) = (0xc0, 2, 1, 1);
        let range: SeqRange = check_example(&bytes);
        assert_eq!((range.start, range.kind), (0x2_c000_0000, SeqKind::OST));
    }

    #[test]
    fn old_inodes_and_objects_have_sequences_of_their_own() {
        let fid = |seq| Fid { seq, oid: 9, version: 0 };
        assert!(fid(12).is_igif() && fid(0xffff_ffff).is_igif() && !fid(11).is_igif());
        assert_eq!(fid(0x1_0002_0001).old_object(), Some(0x1_0000_0009));
        assert_eq!(fid(0x2_0000_0000).old_object(), None);
        assert_eq!(Fid::ROOT.to_string(), "[0x200000007:0x1:0x0]");
    }
}

//! The resources that locks protect, and the kinds of locks.

use std::fmt;

use fulmar_wire::{wire_enum, wire_struct};
use serde::Serialize;

use crate::serial::as_text;
use crate::{Fid, Padding, Text};

wire_enum! {
    /// The type of the locks of a resource. Spec: ptlrpc-ldlm-mgs §17.2.
    #[derive(Default)]
    pub struct LockType(u32) {
        /// Modes only: configuration and quota.
        PLAIN = 10,
        /// A range of bytes of an OST object.
        EXTENT = 11,
        /// A range of bytes of a file, for the applications.
        FLOCK = 12,
        /// Parts of the state of a file.
        IBITS = 13,
    }
}

wire_enum! {
    /// The mode of a lock. Spec: ptlrpc-ldlm-mgs §20.
    #[derive(Default)]
    pub struct LockMode(u32) {
        /// Exclusive.
        EX = 1,
        /// Protective write.
        PW = 2,
        /// Protective read.
        PR = 4,
        /// Concurrent write.
        CW = 8,
        /// Concurrent read.
        CR = 16,
        /// Null.
        NL = 32,
        /// Shared by the members of a group.
        GROUP = 64,
        /// Commit on sharing; only inside servers.
        COS = 128,
        /// A transaction; only inside servers.
        TXN = 256,
    }
}

wire_enum! {
    /// What a lock of the MGS protects. Spec: ptlrpc-ldlm-mgs §19.
    pub struct ConfigLock(u64) {
        /// The configuration logs of a file system.
        CONFIG = 0,
        /// Its table of NIDs.
        RECOVER = 2,
        /// The log of parameters.
        PARAMS = 3,
        /// The nodemap.
        NODEMAP = 4,
        /// The barrier.
        BARRIER = 5,
    }
}

wire_struct! {
    /// The name of a resource. Each target has its own names. Spec: ptlrpc-ldlm-mgs §17.1, §19.
    #[doc(alias = "ldlm_res_id")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct ResourceId {
        /// Four words.
        pub name: [u64; 4],
    }
}

impl ResourceId {
    /// Returns the resource of a file or a directory on an MDT, or of an object on an OST that has
    /// a FID. The object of an old sequence is [`ResourceId::of_old_object`].
    pub const fn of_fid(fid: Fid) -> Self {
        Self { name: [fid.seq, (fid.version as u64) << 32 | fid.oid as u64, 0, 0] }
    }

    /// Returns the resource of the flock and POSIX locks of a file.
    pub const fn of_flock(fid: Fid) -> Self {
        let [seq, object, ..] = Self::of_fid(fid).name;
        Self { name: [seq, object, 0, LockType::FLOCK.0 as u64] }
    }

    /// Returns the resource of an object that an MDT of an old release made: sequence 0.
    pub const fn of_old_object(id: u64) -> Self {
        Self { name: [id, 0, 0, 0] }
    }

    /// Returns the resource of a configuration log: its name up to the last `-`, as many as 8
    /// bytes.
    pub fn of_log(log: &str, kind: ConfigLock) -> Self {
        let name = log.rsplit_once('-').map_or(log, |(name, _)| name);
        let word = |word: u64, (index, byte): (usize, u8)| word | u64::from(byte) << (8 * index);
        Self { name: [name.bytes().take(8).enumerate().fold(0, word), kind.0, 0, 0] }
    }

    /// Returns the name of the log, or of the file system, that a lock of the configuration protects.
    pub fn log(self) -> Text<8> {
        let [name, ..] = self.name;
        Text(name.to_le_bytes())
    }

    /// Returns the FID in the first two words.
    pub const fn fid(self) -> Fid {
        let [seq, object, ..] = self.name;
        Fid { seq, oid: object as u32, version: (object >> 32) as u32 }
    }
}

impl fmt::Display for ResourceId {
    /// Writes the notation of Lustre's logs: `[0x200000401:0x1:0x0].0x0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, third, fourth] = self.name;
        write!(f, "[{first:#x}:{second:#x}:{third:#x}].{fourth:#x}")
    }
}

as_text!(ResourceId);

wire_struct! {
    /// A resource and the type of its locks: 40 bytes. Spec: ptlrpc-ldlm-mgs §17.2.
    #[doc(alias = "ldlm_resource_desc")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct ResourceDesc {
        pub kind: LockType,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<4>,
        pub id: ResourceId,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! { ResourceId = 32, ResourceDesc = 40 }

    #[test]
    fn files_and_their_flocks_have_different_resources() {
        let fid = Fid { seq: 0x2_0000_0401, oid: 3, version: 1 };
        let resource = ResourceId::of_fid(fid);
        assert_eq!(resource.name, [0x2_0000_0401, 0x1_0000_0003, 0, 0]);
        assert_eq!(ResourceId::of_flock(fid).name, [0x2_0000_0401, 0x1_0000_0003, 0, 12]);
        assert_eq!(resource.fid(), fid);
        assert_eq!(resource.to_string(), "[0x200000401:0x100000003:0x0].0x0");
        assert_eq!(ResourceId::of_old_object(7).name, [7, 0, 0, 0]);
    }

    #[test]
    fn a_log_is_named_by_its_file_system() {
        let name = |log, kind| ResourceId::of_log(log, kind).name;
        let lv = u64::from_le_bytes(*b"lv\0\0\0\0\0\0");
        assert_eq!(name("lv-client", ConfigLock::CONFIG), [lv, 0, 0, 0]);
        assert_eq!(name("lv-cliir", ConfigLock::RECOVER), [lv, 2, 0, 0]);
        let params = u64::from_le_bytes(*b"params\0\0");
        assert_eq!(name("params", ConfigLock::PARAMS), [params, 3, 0, 0]);
        let a_b = u64::from_le_bytes(*b"a-bcdefg");
        assert_eq!(ResourceId::of_log("lv-client", ConfigLock::CONFIG).log().to_string(), "lv");
        assert_eq!(name("a-bcdefgh-MDT0000", ConfigLock::CONFIG), [a_b, 0, 0, 0]);
    }
}

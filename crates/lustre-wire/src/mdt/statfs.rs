//! The size and the use of a target or of the file system.

use fulmar_wire::{wire_flags, wire_struct};
use serde::Serialize;

use crate::{Padding, Text};

wire_flags! {
    /// The state of a target. Spec: mdt-ost §7.2.
    #[doc(alias = "OS_STATFS")]
    pub struct StatfsState(u32) {
        DEGRADED = 0x1,
        READONLY = 0x2,
        /// No objects are created on it.
        NOCREATE = 0x4,
        ENOSPC = 0x20,
        ENOINO = 0x40,
        /// The values are sums over all targets.
        SUM = 0x100,
        /// Its disks do not rotate.
        NONROT = 0x200,
    }
}

wire_struct! {
    /// The size and the use of a target, or of the file system: 144 bytes. Spec: mdt-ost §7.2.
    #[doc(alias = "obd_statfs")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Statfs {
        /// The magic of the backend.
        pub kind: u64,
        /// In units of `block_size`.
        pub blocks: u64,
        pub free: u64,
        /// Free for users.
        pub available: u64,
        pub files: u64,
        pub free_files: u64,
        pub fsid: Text<40>,
        pub block_size: u32,
        pub name_max: u32,
        /// The size of the largest object.
        pub max_bytes: u64,
        pub state: StatfsState,
        /// The objects of an OST that are created and unused.
        pub precreated: u32,
        /// The space that an OST has granted.
        pub granted: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub spare: Padding<28>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! { Statfs = 144 }
}

//! Extended attributes that the server keeps for itself and clients may read.
//! Spec: mdt-ost §10.1.

mod links;

use fulmar_wire::{wire_enum, wire_flags, wire_struct};
use serde::Serialize;

pub use links::{LinkEntry, Links};

use crate::{Fid, Padding};

wire_flags! {
    /// Features of a file that nodes may ignore.
    #[doc(alias = "LMAC")]
    pub struct LmaCompat(u32) {
        HSM = 0x1,
        NOT_IN_OI = 0x4,
        FID_ON_OST = 0x8,
        STRIPE_INFO = 0x10,
        COMP_INFO = 0x20,
        IDX_BACKUP = 0x40,
    }
}

wire_flags! {
    /// Features of a file that nodes must know.
    #[doc(alias = "LMAI")]
    pub struct LmaIncompat(u32) {
        RELEASED = 0x1,
        AGENT = 0x2,
        REMOTE_PARENT = 0x4,
        STRIPED = 0x8,
        ORPHAN = 0x10,
        ENCRYPT = 0x20,
    }
}

wire_struct! {
    /// `trusted.lma`: 24 bytes, little-endian from every peer. Decode it with [`Order::Little`](fulmar_wire::Order).
    #[doc(alias = "lustre_mdt_attrs")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Lma {
        pub compat: LmaCompat,
        pub incompat: LmaIncompat,
        pub fid: Fid,
    }
}

wire_enum! {
    /// How far the size on the MDT can be trusted.
    #[derive(Default)]
    pub struct SomState(u16) {
        /// Not at all.
        UNKNOWN = 0,
        /// It is the size.
        STRICT = 1,
        /// It was the size.
        STALE = 2,
        /// It may be the size.
        LAZY = 4,
    }
}

wire_struct! {
    /// `trusted.som`, the size of a file as the MDT knows it: 24 bytes, little-endian from every
    /// peer. Decode it with [`Order::Little`](fulmar_wire::Order).
    #[doc(alias = "lustre_som_attrs")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Som {
        pub state: SomState,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<6>,
        /// Bytes.
        pub size: u64,
        /// Units of 512 bytes.
        pub blocks: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! { Lma = 24, Som = 24 }
}

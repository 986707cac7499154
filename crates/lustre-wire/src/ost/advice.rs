//! Advice about ranges of objects, and the modes of allocation.

use fulmar_wire::{wire_enum, wire_flags, wire_struct};
use serde::Serialize;

wire_enum! {
    /// What a client will do with a range. Spec: mdt-ost §16.10.
    #[doc(alias = "LU_LADVISE")]
    #[derive(Default)]
    pub struct AdviceKind(u16) {
        /// Read it.
        WILLREAD = 1,
        /// Not need it soon.
        DONTNEED = 2,
    }
}

wire_struct! {
    /// The header of a list of advice: 32 bytes. Spec: mdt-ost §16.10.
    #[doc(alias = "ladvise_hdr")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct AdviceList {
        /// [`AdviceList::MAGIC`].
        pub magic: u32,
        /// The number of [`Advice`]s that follow.
        pub count: u32,
        pub flags: u64,
        pub value1: u32,
        pub value2: u32,
        pub value3: u64,
    }
}

impl AdviceList {
    /// The magic number.
    #[doc(alias = "LADVISE_MAGIC")]
    pub const MAGIC: u32 = 0x1adf_1ce0;
}

wire_struct! {
    /// Advice about a range: 32 bytes. Spec: mdt-ost §16.10.
    #[doc(alias = "lu_ladvise")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Advice {
        pub kind: AdviceKind,
        pub value1: u16,
        pub value2: u32,
        pub start: u64,
        pub end: u64,
        pub value3: u32,
        pub value4: u32,
    }
}

wire_flags! {
    /// How space is allocated; 0 also sets the size. Spec: mdt-ost §16.7.
    #[doc(alias = "FALLOC_FL")]
    pub struct FallocateMode(u32) {
        KEEP_SIZE = 0x1,
        PUNCH_HOLE = 0x2,
        ZERO_RANGE = 0x10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! { AdviceList = 32, Advice = 32 }

    #[test]
    fn a_hole_keeps_the_size() {
        assert_eq!(FallocateMode(3).to_string(), "KEEP_SIZE|PUNCH_HOLE");
    }
}

//! The start and the end of records that belong together.

use fulmar_wire::{wire_flags, wire_struct};
use serde::Serialize;

use crate::{Padding, Text};

wire_flags! {
    /// What a marker marks. Spec: ptlrpc-ldlm-mgs §30.
    #[doc(alias = "CM")]
    pub struct MarkerFlags(u32) {
        START = 0x1,
        END = 0x2,
        /// The records are cancelled.
        SKIP = 0x4,
        UPGRADE = 0x8,
        EXCLUDE = 0x10,
    }
}

wire_struct! {
    /// A marker: 160 bytes. Records outside markers, and those between markers with
    /// [`MarkerFlags::SKIP`], are ignored. Spec: ptlrpc-ldlm-mgs §30.
    #[doc(alias = "cfg_marker")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Marker {
        pub step: u32,
        pub flags: MarkerFlags,
        /// The version of the MGS that wrote it.
        pub version: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<4>,
        /// In seconds.
        pub created: i64,
        /// In seconds; 0 if it is not cancelled.
        pub cancelled: i64,
        /// The target that it is about.
        pub target: Text<64>,
        /// What it is about, such as `add osc` or a parameter.
        pub comment: Text<64>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! { Marker = 160 }
}

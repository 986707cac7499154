//! The descriptions of the devices that unite targets.

use fulmar_wire::wire_struct;
use serde::Serialize;

use crate::layout::Pattern;
use crate::{Padding, Text};

wire_struct! {
    /// How the data of a file system is striped by default (`lov`), or its directories (`lmv`, which
    /// uses few of the fields): 88 bytes. Spec: ptlrpc-ldlm-mgs §31.1.
    #[doc(alias = "lov_desc")]
    #[doc(alias = "lmv_desc")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct TargetDescriptor {
        pub targets: u32,
        /// In logs [`TargetDescriptor::MAGIC`], which shows the byte order.
        pub magic: u32,
        pub stripe_count: u32,
        pub pattern: Pattern,
        /// Bytes; of an `lmv` the size of hashes.
        pub stripe_size: u64,
        /// The first target; -1 for any.
        pub stripe_offset: i64,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding1: Padding<4>,
        /// For how many seconds the free space of a target is believed.
        pub qos_max_age: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding2: Padding<8>,
        pub uuid: Text<40>,
    }
}

impl TargetDescriptor {
    /// The magic number.
    #[doc(alias = "LOV_DESC_MAGIC")]
    pub const MAGIC: u32 = 0xb0cc_de5c;
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! { TargetDescriptor = 88 }
}

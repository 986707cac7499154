//! What a server tells with a glimpse callback of a quota or barrier lock.
//! Spec: ptlrpc-ldlm-mgs §17.7.
//!
//! Kernel nodes do not swap these structures: they are in the byte order of the sender's machine.

use fulmar_wire::wire_struct;
use serde::Serialize;

use crate::{Fid, Padding};

wire_struct! {
    /// The quota of an id has changed: 64 bytes.
    #[doc(alias = "ldlm_gl_lquota_desc")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct QuotaGlimpse {
        /// The sequence is the number of a user, a group or a project, unless it is a FID.
        pub id: Fid,
        pub flags: u64,
        pub version: u64,
        pub hard_limit: u64,
        pub soft_limit: u64,
        pub time: u64,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<8>,
    }
}

wire_struct! {
    /// A write barrier changes: 16 bytes.
    #[doc(alias = "ldlm_gl_barrier_desc")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct BarrierGlimpse {
        pub status: u32,
        /// Seconds.
        pub timeout: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<8>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! { QuotaGlimpse = 64, BarrierGlimpse = 16 }
}

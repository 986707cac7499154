//! The check of the file system, which the servers run together. Spec: ptlrpc-ldlm-mgs §11.2.

use fulmar_wire::wire_struct;
use serde::Serialize;

use crate::{Fid, Padding};

wire_struct! {
    /// An event of a check, or a question about it: 96 bytes.
    #[doc(alias = "lfsck_request")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct LfsckRequest {
        pub event: u32,
        /// The index of the sender.
        pub index: u32,
        pub flags: u32,
        /// Which of the other fields count.
        pub valid: u32,
        /// The limit of the speed when a check starts, else the status of a part that ended.
        #[doc(alias = "lr_speed")]
        pub status: u32,
        pub version: u16,
        pub active: u16,
        pub parameters: u16,
        pub async_windows: u16,
        pub flags2: u32,
        pub fid: Fid,
        pub fid2: Fid,
        pub component: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<28>,
    }
}

wire_struct! {
    /// The reply to a question: 16 bytes.
    #[doc(alias = "lfsck_reply")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct LfsckReply {
        pub status: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<4>,
        pub repaired: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! { LfsckRequest = 96, LfsckReply = 16 }
}

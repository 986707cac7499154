//! Requests that read logs.

use fulmar_wire::{wire_enum, wire_flags, wire_struct};
use serde::Serialize;

use crate::Padding;

wire_struct! {
    /// The identity of a log: 20 bytes. Spec: ptlrpc-ldlm-mgs §29.1.
    #[doc(alias = "llog_logid")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct LogId {
        pub object: u64,
        pub seq: u64,
        pub generation: u32,
    }
}

wire_struct! {
    /// A record of a log: 32 bytes. Very old servers returned them for objects to destroy.
    /// Spec: ptlrpc-ldlm-mgs §11.1.
    #[doc(alias = "llog_cookie")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct LogCookie {
        pub log: LogId,
        pub subsystem: u32,
        pub index: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<4>,
    }
}

wire_enum! {
    /// Which logs of a target are read. Spec: ptlrpc-ldlm-mgs §29.1.
    #[derive(Default)]
    pub struct LogContext(u32) {
        /// The configuration.
        CONFIG = 0,
        /// The changelog, as the MDT knows it.
        CHANGELOG = 12,
        /// The changelog, as clients know it.
        CHANGELOG_CLIENT = 13,
        /// The users of the changelog.
        CHANGELOG_USER = 14,
        /// The requests for copy tools.
        HSM_AGENT = 15,
        /// Updates of several MDTs.
        UPDATE = 16,
    }
}

wire_flags! {
    /// The form of a log. Spec: ptlrpc-ldlm-mgs §29.3.
    #[doc(alias = "LLOG_F")]
    pub struct LogFlags(u32) {
        ZAP_WHEN_EMPTY = 0x1,
        /// Its records name other logs.
        CATALOG = 0x2,
        PLAIN = 0x4,
        EXT_JOBID = 0x8,
        /// All records have one size.
        FIXED_SIZE = 0x10,
        EXT_EXTRA_FLAGS = 0x20,
        EXT_UIDGID = 0x40,
        EXT_NID = 0x80,
        EXT_OPEN_MODE = 0x100,
        EXT_XATTR = 0x200,
        RM_ON_ERR = 0x400,
        MAX_AGE = 0x800,
        EXT_NID_BE = 0x1000,
    }
}

wire_struct! {
    /// The body of requests that read a log, and of their replies: 48 bytes.
    /// Spec: ptlrpc-ldlm-mgs §29.1.
    #[doc(alias = "llogd_body")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct LogRequest {
        pub id: LogId,
        pub context: LogContext,
        pub flags: LogFlags,
        /// The wanted record.
        pub index: u32,
        /// In requests the last record that the reader has passed; in replies the last one of the
        /// block.
        pub saved_index: u32,
        /// The size of the block in bytes.
        pub len: u32,
        /// In requests the offset in the log; in replies the offset after the last record.
        pub offset: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! { LogId = 20, LogCookie = 32, LogRequest = 48 }
}

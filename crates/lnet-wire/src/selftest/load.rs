//! The messages of the load: bulk reads and writes, and pings. Spec: lnet-selftest §6.

use fulmar_wire::{wire_enum, wire_struct};

wire_enum! {
    /// The direction of the bulk, as the client sees it.
    pub struct Direction(u32) {
        /// From the server to the client.
        READ = 1,
        /// From the client to the server.
        WRITE = 2,
    }
}

wire_struct! {
    /// A request for a bulk transfer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct Brw {
        pub reply_id: u64,
        pub bulk_id: u64,
        pub direction: Direction,
        /// Bytes.
        pub len: u32,
        /// The check of the data: the number of a [`Check`](super::Check).
        pub flags: u32,
    }
}

wire_struct! {
    /// The reply to [`Brw`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BrwReply {
        /// A positive error number, 0 for success.
        pub status: u32,
    }
}

wire_struct! {
    /// A request that the server echoes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct Ping {
        pub reply_id: u64,
        /// [`Ping::MAGIC`].
        pub magic: u32,
        pub sequence: u32,
        /// The wall-clock time of sending.
        pub seconds: u64,
        pub nanoseconds: u64,
    }
}

impl Ping {
    /// The magic number of requests and replies.
    #[doc(alias = "LST_PING_TEST_MAGIC")]
    pub const MAGIC: u32 = 0xbabe_face;
}

wire_struct! {
    /// The reply to [`Ping`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct PingReply {
        /// A positive error number, 0 for success.
        pub status: u32,
        /// [`Ping::MAGIC`].
        pub magic: u32,
        pub sequence: u32,
    }
}

//! The load itself: bulk reads and writes, and pings. Spec: lnet-selftest §6.

use fulmar_wire::{wire_enum, wire_struct};

wire_enum! {
    /// Which way the bulk goes, as the client sees it.
    pub struct Direction(u32) {
        /// From the server to the client.
        READ = 1,
        /// From the client to the server.
        WRITE = 2,
    }
}

wire_struct! {
    /// Move some bulk.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct Brw {
        pub reply_id: u64,
        pub bulk_id: u64,
        pub direction: Direction,
        /// Bytes.
        pub len: u32,
        /// How the data are checked: the number of a [`Check`](super::Check).
        pub flags: u32,
    }
}

wire_struct! {
    /// It is moved.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BrwReply {
        /// A positive error number, 0 for success.
        pub status: u32,
    }
}

wire_struct! {
    /// Say it back.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct Ping {
        pub reply_id: u64,
        /// [`Ping::MAGIC`].
        pub magic: u32,
        pub sequence: u32,
        /// When it was sent, by the wall clock.
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
    /// Said back.
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

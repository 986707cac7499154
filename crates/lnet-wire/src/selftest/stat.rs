//! The counters of a test node. Spec: lnet-selftest §5.5, §12.

use fulmar_wire::wire_struct;

use super::framework::SessionId;

wire_struct! {
    /// A request for the counters of a node.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct Stat {
        pub reply_id: u64,
        pub session: SessionId,
        /// 0; a Fulmar node reports more for [`MEASURE`](super::MEASURE).
        pub kind: u32,
    }
}

wire_struct! {
    /// The reply to [`Stat`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct StatReply {
        /// A positive error number, 0 for success. After an error the rest is undefined.
        pub status: u32,
        pub session: SessionId,
        pub framework: FrameworkCounters,
        pub rpc: RpcCounters,
        pub lnet: LnetCounters,
    }
}

wire_struct! {
    /// The counters of the session.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct FrameworkCounters {
        /// Milliseconds since the node entered the session; wraps around.
        pub running_ms: u32,
        pub active_batches: u32,
        /// Replaced sessions that still have RPCs in flight.
        pub zombie_sessions: u32,
        pub brw_errors: u32,
        pub ping_errors: u32,
    }
}

wire_struct! {
    /// The counters of the node's selftest since its start.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct RpcCounters {
        /// LNet events with a failure, except cancellations.
        pub errors: u32,
        pub rpcs_sent: u32,
        pub rpcs_received: u32,
        /// Requests without a reply.
        pub rpcs_dropped: u32,
        /// RPCs whose reply was late.
        pub rpcs_expired: u32,
        /// Bytes fetched as a server.
        pub bulk_get: u64,
        /// Bytes stored as a server.
        pub bulk_put: u64,
    }
}

wire_struct! {
    /// The counters of the node's LNet since its start.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct LnetCounters {
        pub msgs_alloc: u32,
        pub msgs_max: u32,
        pub errors: u32,
        pub send_count: u32,
        pub recv_count: u32,
        pub route_count: u32,
        pub drop_count: u32,
        /// Bytes.
        pub send_length: u64,
        pub recv_length: u64,
        pub route_length: u64,
        pub drop_length: u64,
    }
}

//! The messages of LNet selftest: 160 bytes each, requests and replies alike.
//!
//! ```text
//!  0 magic u32   4 version u32   8 type u32   12 reserved u64   20 features u32   24 body
//! ```
//!
//! In the sender's byte order, which follows from the magic. The unused end of a body is zero. A
//! request goes to portal 50 or 51 with its [`Service`] as match bits, its reply to portal 52 with
//! the request's reply id. Spec: lnet-selftest §2 to §8.

mod data;
mod framework;
mod load;
mod measure;
mod stat;
#[cfg(test)]
mod tests;

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_enum};

pub use data::{Check, Damage, GOOD, POISON, WORD, fill, fill_poison, spoil, verify};
pub use framework::{
    Batch, BatchId, BatchOperation, BatchReply, DebugReply, DebugRequest, Destination, JoinReply,
    JoinRequest, LOOP_FOREVER, MakeSession, MakeSessionReply, Name, NameError, RemoveSession,
    RemoveSessionReply, SessionId, Test, TestKind, TestReply,
};
pub use load::{Brw, BrwReply, Direction, Ping, PingReply};
pub use measure::{Histogram, MEASURE, MeasureReply, Slice, Usage};
pub use stat::{FrameworkCounters, LnetCounters, RpcCounters, Stat, StatReply};

/// The length of every message in bytes.
pub const LEN: usize = 160;
/// The length of the header in bytes.
const HEADER_LEN: usize = 24;
/// The magic number of every message.
#[doc(alias = "SRPC_MSG_MAGIC")]
pub const MAGIC: u32 = 0xeeb0_f00d;
/// The only version.
#[doc(alias = "SRPC_MSG_VERSION")]
pub const VERSION: u32 = 1;
/// The portal of requests to the test services, which carry the load.
#[doc(alias = "SRPC_REQUEST_PORTAL")]
pub const REQUEST_PORTAL: u32 = 50;
/// The portal of requests to the framework services.
#[doc(alias = "SRPC_FRAMEWORK_REQUEST_PORTAL")]
pub const FRAMEWORK_PORTAL: u32 = 51;
/// The portal of replies and of bulk.
#[doc(alias = "SRPC_RDMA_PORTAL")]
pub const BULK_PORTAL: u32 = 52;
/// The feature that a BRW test has its length in bytes; also the mask of known features.
#[doc(alias = "LST_FEAT_BULK_LEN")]
pub const FEATURE_BULK_LEN: u32 = 1;
/// All known features.
pub const FEATURES: u32 = FEATURE_BULK_LEN;

wire_enum! {
    /// The service of a request: its match bits.
    pub struct Service(u64) {
        /// The console's liveness ping.
        DEBUG = 0,
        /// Enter a session.
        MAKE_SESSION = 1,
        /// Leave a session.
        REMOVE_SESSION = 2,
        /// Run, stop or query a batch.
        BATCH = 3,
        /// Install a test.
        TEST = 4,
        /// Counters.
        QUERY_STAT = 5,
        /// A node requests to enter the console's session.
        JOIN = 6,
        /// Bulk reads and writes.
        BRW = 11,
        /// Small messages.
        PING = 12,
    }
}

impl Service {
    /// Returns the portal of the service's requests.
    pub const fn portal(self) -> u32 {
        if self.0 < 10 { FRAMEWORK_PORTAL } else { REQUEST_PORTAL }
    }

    /// Returns the type of the service's requests; that of the replies is one more.
    pub fn request_type(self) -> Option<MessageType> {
        Some(match self {
            Self::DEBUG => MessageType::DEBUG,
            Self::MAKE_SESSION => MessageType::MAKE_SESSION,
            Self::REMOVE_SESSION => MessageType::REMOVE_SESSION,
            Self::BATCH => MessageType::BATCH,
            Self::TEST => MessageType::TEST,
            Self::QUERY_STAT => MessageType::QUERY_STAT,
            Self::JOIN => MessageType::JOIN,
            Self::BRW => MessageType::BRW,
            Self::PING => MessageType::PING,
            _ => return None,
        })
    }
}

wire_enum! {
    /// The type of a message. It differs from the number of the service.
    pub struct MessageType(u32) {
        /// Enter a session.
        MAKE_SESSION = 0,
        /// The reply to it.
        MAKE_SESSION_REPLY = 1,
        /// Leave a session.
        REMOVE_SESSION = 2,
        /// The reply to it.
        REMOVE_SESSION_REPLY = 3,
        /// Run, stop or query a batch.
        BATCH = 4,
        /// The reply to it.
        BATCH_REPLY = 5,
        /// Report counters.
        QUERY_STAT = 6,
        /// The reply to it.
        QUERY_STAT_REPLY = 7,
        /// Install a test.
        TEST = 8,
        /// The reply to it.
        TEST_REPLY = 9,
        /// A liveness check.
        DEBUG = 10,
        /// The reply to it.
        DEBUG_REPLY = 11,
        /// Transfer bulk.
        BRW = 12,
        /// The reply to it.
        BRW_REPLY = 13,
        /// Echo.
        PING = 14,
        /// The reply to it.
        PING_REPLY = 15,
        /// A node requests to enter the console's session.
        JOIN = 16,
        /// The reply to it.
        JOIN_REPLY = 17,
    }
}

/// One message. Any decoded message can be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// [`VERSION`], or the version of the peer.
    pub version: u32,
    /// The features of the session, as the sender has them.
    pub features: u32,
    /// The content.
    pub body: Body,
}

macro_rules! bodies {
    ($($(#[$doc:meta])* $variant:ident($body:ty) = $kind:ident,)+) => {
        /// The content of a message.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Body {
            $( $(#[$doc])* $variant($body), )+
            /// A test to install; its parameters depend on the features.
            Test(Test),
            /// The reply of a Fulmar node to a [`Stat::kind`] of [`MEASURE`].
            Measured(MeasureReply),
        }

        impl Body {
            /// Returns the type in the header.
            pub fn message_type(&self) -> MessageType {
                match self {
                    $( Self::$variant(_) => MessageType::$kind, )+
                    Self::Test(_) => MessageType::TEST,
                    Self::Measured(_) => MessageType::QUERY_STAT_REPLY,
                }
            }

            fn read(
                kind: MessageType,
                reserved: u64,
                features: u32,
                r: &mut Reader<'_>,
            ) -> Result<Self, DecodeError> {
                match kind {
                    MessageType::QUERY_STAT_REPLY if reserved == MEASURED_TAG => {
                        Ok(Self::Measured(MeasureReply::read(r)?))
                    }
                    MessageType::TEST => Ok(Self::Test(Test::read(features, r)?)),
                    $( MessageType::$kind => {
                        Ok(Self::$variant(Field::read(r, stringify!($variant))?))
                    } )+
                    other => Err(DecodeError::Range {
                        field: "selftest.type",
                        got: other.0.into(),
                    }),
                }
            }

            fn write(&self, features: u32, w: &mut Writer<'_>) {
                match self {
                    $( Self::$variant(body) => body.write(w), )+
                    Self::Test(body) => body.write(features, w),
                    Self::Measured(body) => body.write(w),
                }
            }
        }
    };
}

bodies! {
    MakeSession(MakeSession) = MAKE_SESSION,
    MakeSessionReply(MakeSessionReply) = MAKE_SESSION_REPLY,
    RemoveSession(RemoveSession) = REMOVE_SESSION,
    RemoveSessionReply(RemoveSessionReply) = REMOVE_SESSION_REPLY,
    Batch(Batch) = BATCH,
    BatchReply(BatchReply) = BATCH_REPLY,
    Stat(Stat) = QUERY_STAT,
    StatReply(StatReply) = QUERY_STAT_REPLY,
    TestReply(TestReply) = TEST_REPLY,
    Debug(DebugRequest) = DEBUG,
    DebugReply(DebugReply) = DEBUG_REPLY,
    Brw(Brw) = BRW,
    BrwReply(BrwReply) = BRW_REPLY,
    Ping(Ping) = PING,
    PingReply(PingReply) = PING_REPLY,
    Join(JoinRequest) = JOIN,
    JoinReply(JoinReply) = JOIN_REPLY,
}

/// The mark of Fulmar's extension in the reserved words of a reply.
const MEASURED_TAG: u64 = 0x4655_4c4d_4152_0001;

impl Message {
    /// Returns a message of the only version.
    pub const fn new(features: u32, body: Body) -> Self {
        Self { version: VERSION, features, body }
    }

    /// Decodes a message and returns its sender's byte order. The version and the bytes that should
    /// be zero are not checked.
    ///
    /// # Errors
    /// If the length is not 160, or the magic or the type is unknown.
    pub fn decode(bytes: &[u8]) -> Result<(Self, Order), DecodeError> {
        let mut r = Reader::new(bytes, Order::Little);
        let magic = r.array("selftest.magic")?;
        let Some(order) = Order::of_magic(magic, MAGIC) else {
            return Err(DecodeError::Magic { got: u32::from_le_bytes(magic) });
        };
        let mut r = r.in_order(order);
        let mut message = r.sub("selftest.message", LEN - magic.len())?;
        r.finish("selftest.message")?;
        let r = &mut message;
        let version = r.u32("selftest.version")?;
        let kind = MessageType(r.u32("selftest.type")?);
        let reserved = r.u64("selftest.reserved")?;
        let features = r.u32("selftest.features")?;
        let body = Body::read(kind, reserved, features, r)?;
        Ok((Self { version, features, body }, order))
    }

    /// Appends the 160 bytes, in `order`, to `out`.
    pub fn encode(&self, order: Order, out: &mut Vec<u8>) {
        let start = out.len();
        let mut w = Writer::new(out, order);
        w.u32(MAGIC);
        w.u32(self.version);
        w.u32(self.body.message_type().0);
        w.u64(if matches!(self.body, Body::Measured(_)) { MEASURED_TAG } else { 0 });
        w.u32(self.features);
        self.body.write(self.features, &mut w);
        let written = out.len() - start;
        assert!((HEADER_LEN..=LEN).contains(&written), "{self:?} takes {written} bytes");
        out.resize(start + LEN, 0);
    }

    /// Returns the 160 bytes in little-endian order, which this node sends.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEN);
        self.encode(Order::Little, &mut bytes);
        bytes
    }
}

//! Descriptions of locks, requests and replies.

use std::fmt;

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_flags, wire_struct};
use serde::{Serialize, Serializer};

use super::{LockMode, Policy, ResourceDesc, TypedPolicy};
use crate::content::{read_rest, write_all};
use crate::{Content, Handle, Padding};

wire_flags! {
    /// Flags of requests, replies and callbacks. Spec: ptlrpc-ldlm-mgs §18.1.
    pub struct LockFlags(u32) {
        /// The reply has another mode, resource or policy than the request.
        LOCK_CHANGED = 0x1,
        /// In a reply: not granted yet. In a replay: it was granted.
        BLOCK_GRANTED = 0x2,
        /// In a reply: queued behind waiting locks. In a replay: it was waiting.
        BLOCK_WAIT = 0x8,
        /// Lock ahead: fail instead of waiting.
        SPECULATIVE = 0x10,
        /// Another lock waits already: cancel as soon as possible.
        AST_SENT = 0x20,
        /// The resource is contended.
        CONTENTION = 0x40,
        /// A lock from before the restart of the server.
        REPLAY = 0x100,
        /// Perform the intent and grant no lock.
        INTENT_ONLY = 0x200,
        /// An intent follows; to an OST, a glimpse.
        HAS_INTENT = 0x1000,
        FLOCK_DEADLOCK = 0x8000,
        /// Drop cached data instead of writing it.
        DISCARD_DATA = 0x1_0000,
        /// Wait for the completion callback without a limit.
        NO_TIMEOUT = 0x2_0000,
        /// Fail instead of waiting.
        BLOCK_NOWAIT = 0x4_0000,
        /// Only tell whether there is a conflict.
        TEST_LOCK = 0x8_0000,
        MATCH_LOCK = 0x10_0000,
        /// The server cancels it by itself.
        CANCEL_ON_BLOCK = 0x80_0000,
        CONVERTING = 0x200_0000,
        /// Do not extend the range.
        NO_EXPANSION = 0x2000_0000,
        /// Fail if the resource is contended.
        DENY_ON_CONTENTION = 0x4000_0000,
        /// The holders of other locks shall drop their data.
        AST_DISCARD_DATA = 0x8000_0000,
    }
}

wire_struct! {
    /// A lock: 80 bytes. Spec: ptlrpc-ldlm-mgs §17.4.
    #[doc(alias = "ldlm_lock_desc")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct LockDesc {
        pub resource: ResourceDesc,
        pub requested: LockMode,
        /// 0 if it is not granted.
        pub granted: LockMode,
        pub policy: Policy,
    }
}

impl LockDesc {
    /// Returns the meaning of the policy.
    pub fn typed_policy(&self) -> TypedPolicy {
        self.policy.typed(self.resource.kind)
    }
}

/// As `PR IBITS lock on [0x200000401:0x1:0x0].0x0`, in the mode that was requested.
impl fmt::Display for LockDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, requested, .. } = self;
        write!(f, "{requested:?} {:?} lock on {}", resource.kind, resource.id)
    }
}

impl Serialize for LockDesc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown {
            resource: ResourceDesc,
            requested: LockMode,
            granted: LockMode,
            policy: TypedPolicy,
        }
        let Self { resource, requested, granted, .. } = *self;
        Shown { resource, requested, granted, policy: self.typed_policy() }.serialize(serializer)
    }
}

/// A request about locks: enqueue, convert, cancel, and the callbacks. 88 bytes and 8 for each
/// handle. Spec: ptlrpc-ldlm-mgs §17.5.
#[doc(alias = "ldlm_request")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LockRequest {
    /// Flags.
    pub flags: LockFlags,
    /// How many handles are valid. Cancels take 0 for 1; enqueues without early cancels have 0 too.
    pub count: u32,
    /// The lock.
    pub lock: LockDesc,
    /// The room for handles, [`LockRequest::HANDLES_MIN`] or more from kernel nodes; the unused ones
    /// are zero. The first of an enqueue is the sender's own lock, the others are locks of the
    /// server that the sender gives up; a cancel has locks of the server; a callback has the
    /// receiver's lock and then the sender's.
    pub handles: Vec<Handle>,
}

impl LockRequest {
    /// The bytes before the handles.
    pub const LEN_MIN: usize = 88;
    /// The least room for handles that kernel nodes send.
    pub const HANDLES_MIN: usize = 2;

    /// Returns the handles that [`LockRequest::count`] covers, but never more than there are.
    pub fn valid_handles(&self) -> &[Handle] {
        let count = (self.count as usize).min(self.handles.len());
        self.handles.get(..count).unwrap_or_default()
    }
}

impl Content for LockRequest {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        Ok(Self {
            flags: Field::read(r, "LockRequest.flags")?,
            count: r.u32("LockRequest.count")?,
            lock: Field::read(r, "LockRequest.lock")?,
            handles: read_rest(r, "LockRequest.handles")?,
        })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        self.flags.write(w);
        w.u32(self.count);
        self.lock.write(w);
        write_all(&self.handles, w);
    }
}

wire_struct! {
    /// The reply to an enqueue or a convert: 112 bytes. Spec: ptlrpc-ldlm-mgs §17.6.
    #[doc(alias = "ldlm_reply")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct LockReply {
        pub flags: LockFlags,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<4>,
        pub lock: LockDesc,
        /// The server's lock; none if there is no lock.
        pub handle: Handle,
        /// How far an intent went: a [`Disposition`](super::Disposition). From an OST: an error of a
        /// glimpse.
        #[doc(alias = "lock_policy_res1")]
        pub result1: u64,
        /// The error number of an intent, negative.
        #[doc(alias = "lock_policy_res2")]
        pub result2: i64,
    }
}

#[cfg(test)]
mod tests {
    use fulmar_wire::testing::hex;

    use super::super::{Extent, InodeBits, LockType};
    use super::*;
    use crate::Fid;
    use crate::testing::check_example;

    crate::testing::sizes! { LockDesc = 80, LockReply = 112 }

    /// A glimpse, ptlrpc-ldlm-mgs §39.4.
    const GLIMPSE: &str = "00 10 00 00 01 00 00 00 | HAS_INTENT, 1 handle
        0b 00 00 00 00 00 00 00
        00 04 00 40 02 00 00 00 54 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        04 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00 ff ff ff ff ff ff ff ff
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        19 d4 c1 8b 6b 4e df 5f 00 00 00 00 00 00 00 00";

    #[test]
    fn a_glimpse_asks_for_all_bytes_of_an_object() {
        let request: LockRequest = check_example(&hex(GLIMPSE));
        assert_eq!((request.flags, request.count), (LockFlags::HAS_INTENT, 1));
        let LockDesc { resource, requested, granted, policy } = request.lock;
        assert_eq!(resource.kind, LockType::EXTENT);
        assert_eq!(resource.id.fid(), Fid { seq: 0x2_4000_0400, oid: 0x54, version: 0 });
        assert_eq!((requested, granted), (LockMode::PR, LockMode(0)));
        assert_eq!(policy.extent(), Extent { start: 0, end: Extent::EOF, gid: 0 });
        let cookie = Handle(0x5fdf_4e6b_8bc1_d419);
        assert_eq!(request.handles, [cookie, Handle::NONE]);
        assert_eq!(request.valid_handles(), [cookie]);
        assert_eq!(LockRequest { count: 9, ..request }.valid_handles().len(), 2);
    }

    /// The lock of a created file, mdt-ost §26.2.
    const REPLY: &str = "01 10 00 00 00 00 00 00 0d 00 00 00 00 00 00 00
        01 04 00 00 02 00 00 00 03 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        04 00 00 00 04 00 00 00 1b 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        50 3e 70 53 91 e9 78 5b 37 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00";

    #[test]
    fn the_reply_to_an_intent_names_another_resource() {
        let reply: LockReply = check_example(&hex(REPLY));
        assert_eq!(reply.flags, LockFlags::LOCK_CHANGED | LockFlags::HAS_INTENT);
        assert_eq!(reply.lock.granted, LockMode::PR);
        let bits = InodeBits::LOOKUP | InodeBits::UPDATE | InodeBits::LAYOUT | InodeBits::PERM;
        assert_eq!(reply.lock.policy.inodebits().bits, bits);
        assert_eq!((reply.handle, reply.result1), (Handle(0x5b78_e991_5370_3e50), 0x37));
    }

    #[test]
    fn a_lock_serialises_with_the_policy_of_its_type() {
        let reply: LockReply = check_example(&hex(REPLY));
        let expected = serde_json::json!({
            "resource": { "kind": "IBITS", "id": "[0x200000401:0x3:0x0].0x0" },
            "requested": "PR",
            "granted": "PR",
            "policy": {
                "bits": ["LOOKUP", "UPDATE", "LAYOUT", "PERM"],
                "try_bits": [],
                "gid": 0,
                "initiator": 0,
            },
        });
        assert_eq!(serde_json::json!(reply.lock), expected);
    }
}

//! Intents: the operation for which a client wants a lock.

use fulmar_wire::{wire_enum, wire_flags, wire_struct};
use serde::Serialize;

wire_flags! {
    /// The operation of an intent; only OPEN and CREAT are combined.
    /// Spec: ptlrpc-ldlm-mgs §26.
    pub struct IntentOps(u64) {
        OPEN = 0x1,
        CREAT = 0x2,
        /// Never on the wire.
        READDIR = 0x4,
        GETATTR = 0x8,
        LOOKUP = 0x10,
        GETXATTR = 0x80,
        LAYOUT = 0x400,
        QUOTA_DQACQ = 0x800,
        QUOTA_CONN = 0x1000,
        GLIMPSE = 0x4000,
        BRW = 0x8000,
    }
}

wire_struct! {
    /// An intent: 8 bytes. Spec: ptlrpc-ldlm-mgs §17.7.
    #[doc(alias = "ldlm_intent")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Intent {
        pub ops: IntentOps,
    }
}

wire_flags! {
    /// How far an intent went. The error number in the reply belongs to the last phase.
    /// Spec: mdt-ost §5.5.
    pub struct Disposition(u64) {
        /// The intent was started.
        IT_EXECD = 0x1,
        /// The name was looked up.
        LOOKUP_EXECD = 0x2,
        /// The name did not exist.
        LOOKUP_NEG = 0x4,
        /// The name existed.
        LOOKUP_POS = 0x8,
        /// The creation was attempted.
        OPEN_CREATE = 0x10,
        /// The file was opened.
        OPEN_OPEN = 0x20,
        ENQ_OPEN_REF = 0x80_0000,
        ENQ_CREATE_REF = 0x100_0000,
        /// The open lock was granted.
        OPEN_LOCK = 0x200_0000,
        /// The lease was granted.
        OPEN_LEASE = 0x400_0000,
        /// The open passed the creation of the layout.
        OPEN_STRIPE = 0x800_0000,
        /// The permission was denied.
        OPEN_DENY = 0x1000_0000,
    }
}

wire_enum! {
    /// What the client is about to do with the layout. Spec: mdt-ost §8.5.
    pub struct LayoutIntentOp(u32) {
        /// Look at it.
        ACCESS = 0,
        /// Read the file.
        READ = 1,
        /// Write: objects are needed.
        WRITE = 2,
        /// Ask for the size.
        GLIMPSE = 3,
        /// Truncate.
        TRUNC = 4,
        /// Release the objects of an archived file.
        RELEASE = 5,
        /// Restore an archived file.
        RESTORE = 6,
        /// Attach a cache on the client.
        PCCRO_SET = 7,
        /// Detach it.
        PCCRO_CLEAR = 8,
        /// Change the layout.
        CHANGE = 9,
    }
}

wire_flags! {
    /// Hints about the data. Spec: mdt-ost §8.5.
    pub struct LayoutIntentFlags(u32) {
        INCOMPRESSIBLE = 0x1,
    }
}

wire_struct! {
    /// The range of a file for which a client wants the layout: 24 bytes. Spec: mdt-ost §8.5.
    #[doc(alias = "layout_intent")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct LayoutIntent {
        pub op: LayoutIntentOp,
        pub flags: LayoutIntentFlags,
        pub start: u64,
        /// The byte after the last one.
        pub end: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check_example;

    crate::testing::sizes! { Intent = 8, LayoutIntent = 24 }

    #[test]
    fn an_open_may_create() {
        let intent: Intent = check_example(&[3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(intent.ops, IntentOps::OPEN | IntentOps::CREAT);
        assert_eq!(intent.ops.to_string(), "OPEN|CREAT");
        let created = "IT_EXECD|LOOKUP_EXECD|LOOKUP_NEG|OPEN_CREATE|OPEN_OPEN";
        assert_eq!(Disposition(0x37).to_string(), created);
    }
}

//! Archiving of files. Spec: mdt-ost §7.15.

use fulmar_wire::{wire_enum, wire_flags, wire_struct};
use serde::Serialize;

use crate::{Fid, Padding};

wire_enum! {
    /// What to do with a file.
    #[derive(Default)]
    pub struct HsmAction(u32) {
        /// Nothing.
        NONE = 1,
        /// Copy it to the archive.
        ARCHIVE = 10,
        /// Copy it back.
        RESTORE = 11,
        /// Free its objects.
        RELEASE = 12,
        /// Remove the copy.
        REMOVE = 13,
        /// Stop what is being done.
        CANCEL = 14,
    }
}

wire_flags! {
    /// The state of a file with respect to the archive.
    pub struct HsmStates(u32) {
        EXISTS = 0x1,
        /// It changed since it was archived.
        DIRTY = 0x2,
        RELEASED = 0x4,
        ARCHIVED = 0x8,
        NORELEASE = 0x10,
        NOARCHIVE = 0x20,
        LOST = 0x40,
        /// Cached by a client that writes.
        PCCRW = 0x80,
        /// Cached by clients that read.
        PCCRO = 0x100,
    }
}

wire_flags! {
    /// How a request is done.
    pub struct HsmRequestFlags(u64) {
        FORCE = 0x1,
        GHOST_COPY = 0x2,
        /// Wait for the end.
        BLOCKING = 0x4,
    }
}

wire_struct! {
    /// A range of a file.
    #[doc(alias = "hsm_extent")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct HsmExtent {
        pub offset: u64,
        /// `u64::MAX` without an end.
        pub len: u64,
    }
}

wire_struct! {
    /// The state of a file: 32 bytes.
    #[doc(alias = "hsm_user_state")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct HsmUserState {
        pub states: HsmStates,
        pub archive: u32,
        /// Whether an action waits or runs.
        pub progress: u32,
        pub action: u32,
        pub extent: HsmExtent,
    }
}

wire_struct! {
    /// A change of the state of a file: 24 bytes.
    #[doc(alias = "hsm_state_set")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct HsmStateSet {
        /// Which of the other fields count.
        pub valid: u32,
        pub archive: u32,
        pub set: u64,
        pub clear: u64,
    }
}

wire_struct! {
    /// The action on a file: 24 bytes.
    #[doc(alias = "hsm_current_action")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct HsmCurrentAction {
        pub state: u32,
        pub action: u32,
        pub extent: HsmExtent,
    }
}

wire_struct! {
    /// A request for an action on files, which follow as [`HsmUserItem`]s: 24 bytes.
    #[doc(alias = "hsm_request")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct HsmRequest {
        pub action: HsmAction,
        /// 0 for the default.
        pub archive: u32,
        pub flags: HsmRequestFlags,
        pub items: u32,
        /// The bytes of the data for the copy tool.
        pub data_len: u32,
    }
}

wire_struct! {
    /// A file of a request: 32 bytes.
    #[doc(alias = "hsm_user_item")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct HsmUserItem {
        pub fid: Fid,
        pub extent: HsmExtent,
    }
}

wire_struct! {
    /// How far a copy tool is: 64 bytes.
    #[doc(alias = "hsm_progress_kernel")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct HsmProgress {
        pub fid: Fid,
        pub cookie: u64,
        pub extent: HsmExtent,
        pub flags: u16,
        /// A positive error number.
        pub error: u16,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding1: Padding<4>,
        pub data_version: u64,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding2: Padding<8>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! {
        HsmExtent = 16,
        HsmUserState = 32,
        HsmStateSet = 24,
        HsmCurrentAction = 24,
        HsmRequest = 24,
        HsmUserItem = 32,
        HsmProgress = 64,
    }
}

//! What a target grants. Spec: ptlrpc-ldlm-mgs §13.4.

use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};

/// The features of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Features.
    pub flags: ConnectFlags,
    /// More features.
    pub flags2: ConnectFlags2,
}

impl Offer {
    /// What a management service grants: nothing that depends on its storage.
    pub const MGS: Self = Self {
        flags: ConnectFlags::VERSION
            .with(ConnectFlags::AT)
            .with(ConnectFlags::FULL20)
            .with(ConnectFlags::IMP_RECOV)
            .with(ConnectFlags::BULK_MBITS)
            .with(ConnectFlags::BARRIER)
            .with(ConnectFlags::MGS_NIDLIST)
            .with(ConnectFlags::FLAGS2),
        flags2: ConnectFlags2::REP_MBITS.with(ConnectFlags2::LARGE_NID),
    };

    /// Returns what a client gets that requests `asked`. Fields that the target does not know come
    /// back as they are.
    pub fn grant(&self, asked: &ConnectData) -> ConnectData {
        let flags = ConnectFlags(self.flags.0 & asked.flags.0);
        let has_more = flags.has(ConnectFlags::FLAGS2);
        let flags2 = if has_more { self.flags2.0 & asked.flags2.0 } else { 0 };
        let has_version = flags.has(ConnectFlags::VERSION);
        let version = if has_version { crate::RELEASE } else { asked.version };
        ConnectData { flags, flags2: ConnectFlags2(flags2), version, ..*asked }
    }
}

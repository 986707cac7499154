//! Quotas: what administrators ask and set, and what servers ask the quota master.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_enum, wire_flags, wire_struct};
use serde::Serialize;

use crate::{Bytes, Content, Fid, Handle, Padding, Text};

wire_enum! {
    /// What is asked or set. Spec: mdt-ost §7.11.
    pub struct QuotaCommand(u32) {
        /// The times of grace.
        GETINFO = 0x80_0005,
        /// Set the times of grace.
        SETINFO = 0x80_0006,
        /// The limits and the use of an id.
        GETQUOTA = 0x80_0007,
        /// Set the limits of an id.
        SETQUOTA = 0x80_0008,
        /// The default limits.
        GETDEFAULT = 0x80_000d,
        /// Set the default limits.
        SETDEFAULT = 0x80_000e,
        /// The limits in a pool.
        GETQUOTAPOOL = 0x80_000f,
        /// Set the limits in a pool.
        SETQUOTAPOOL = 0x80_0010,
        /// The times of grace of a pool.
        GETINFOPOOL = 0x80_0011,
        /// Set the times of grace of a pool.
        SETINFOPOOL = 0x80_0012,
        /// The default limits of a pool.
        GETDEFAULT_POOL = 0x80_0013,
        /// Set the default limits of a pool.
        SETDEFAULT_POOL = 0x80_0014,
        /// Forget an id.
        DELETEQID = 0x80_0015,
        /// Use the default limits for an id again.
        RESETQID = 0x80_0016,
        /// The limits of all ids.
        ITERQUOTA = 0x80_0017,
        /// The use of all ids on a target.
        ITEROQUOTA = 0x80_0018,
        /// The limits and the use of all ids.
        GETALLQUOTA = 0x80_0019,
        /// The times of grace on a target.
        GETOINFO = 0x80_0102,
        /// The use of an id on a target.
        GETOQUOTA = 0x80_0103,
    }
}

wire_enum! {
    /// Whose quota it is. Spec: mdt-ost §7.11.
    pub struct QuotaKind(u32) {
        /// Users.
        USER = 0,
        /// Groups.
        GROUP = 1,
        /// Projects.
        PROJECT = 2,
    }
}

wire_struct! {
    /// The times of grace: 24 bytes. Spec: mdt-ost §7.11.
    #[doc(alias = "obd_dqinfo")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct QuotaTimes {
        /// Seconds.
        pub block_grace: u64,
        /// Seconds.
        pub inode_grace: u64,
        pub flags: u32,
        pub valid: u32,
    }
}

wire_struct! {
    /// The limits and the use of an id: 72 bytes. Spec: mdt-ost §7.11.
    #[doc(alias = "obd_dqblk")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct QuotaLimits {
        /// Units of 1 KiB.
        pub block_hard: u64,
        /// Units of 1 KiB.
        pub block_soft: u64,
        /// Bytes.
        pub space: u64,
        pub inode_hard: u64,
        pub inode_soft: u64,
        pub inodes: u64,
        /// When the grace for blocks ends.
        pub block_time: u64,
        /// When the grace for inodes ends.
        pub inode_time: u64,
        /// Which of the fields count.
        pub valid: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<4>,
    }
}

/// A question about quotas, or its answer: 112 bytes, or 128 with a pool. Spec: mdt-ost §7.11.
#[doc(alias = "obd_quotactl")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct QuotaControl {
    pub command: QuotaCommand,
    pub kind: QuotaKind,
    pub id: u32,
    pub status: u32,
    pub times: QuotaTimes,
    pub limits: QuotaLimits,
    pub pool: Option<Text<16>>,
    /// What newer peers append.
    #[serde(skip)]
    pub rest: Bytes,
}

impl Content for QuotaControl {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        Ok(Self {
            command: Field::read(r, "QuotaControl.command")?,
            kind: Field::read(r, "QuotaControl.kind")?,
            id: r.u32("QuotaControl.id")?,
            status: r.u32("QuotaControl.status")?,
            times: Field::read(r, "QuotaControl.times")?,
            limits: Field::read(r, "QuotaControl.limits")?,
            pool: match r.rest() {
                [] => None,
                _ => Some(Field::read(r, "QuotaControl.pool")?),
            },
            rest: Bytes::take_rest(r),
        })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        self.command.write(w);
        self.kind.write(w);
        w.u32(self.id);
        w.u32(self.status);
        self.times.write(w);
        self.limits.write(w);
        if let Some(pool) = &self.pool {
            pool.write(w);
        }
        w.bytes(&self.rest.0);
    }
}

wire_flags! {
    /// What a server asks the quota master for. Spec: ptlrpc-ldlm-mgs §11.2.
    #[doc(alias = "QUOTA_DQACQ_FL")]
    pub struct QuotaRequestFlags(u32) {
        /// More quota.
        ACQUIRE = 0x1,
        /// More quota, in advance.
        PREACQUIRE = 0x2,
        /// It gives quota back.
        RELEASE = 0x4,
        /// It tells what is used.
        REPORT = 0x8,
    }
}

wire_struct! {
    /// A request to the quota master, and its reply: 112 bytes. Spec: ptlrpc-ldlm-mgs §11.2.
    #[doc(alias = "quota_body")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct QuotaBody {
        /// The global index: pool, kind of quota and of target.
        pub index: Fid,
        /// The sequence is the number of a user, a group or a project.
        pub id: Fid,
        pub flags: QuotaRequestFlags,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding1: Padding<4>,
        /// Wanted or given: units of 1 KiB, or inodes.
        pub count: u64,
        pub usage: u64,
        /// The version of the index of the server.
        pub slave_version: u64,
        /// The lock of the id.
        pub lock: Handle,
        /// The lock of the global index.
        pub global_lock: Handle,
        pub global_version: u64,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding2: Padding<24>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_any, check_example};

    crate::testing::sizes! { QuotaTimes = 24, QuotaLimits = 72, QuotaBody = 112 }

    #[test]
    fn a_question_may_name_a_pool() {
        let mut bytes = vec![0; 112];
        bytes[..8].copy_from_slice(&[7, 0, 0x80, 0, 2, 0, 0, 0]);
        let control: QuotaControl = check_example(&bytes);
        assert_eq!((control.command, control.kind), (QuotaCommand::GETQUOTA, QuotaKind::PROJECT));
        assert_eq!(control.pool, None);
        bytes.extend(*b"flash\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(check_example::<QuotaControl>(&bytes).pool, Text::new("flash"));
        check_any::<QuotaControl>(&[]);
    }
}

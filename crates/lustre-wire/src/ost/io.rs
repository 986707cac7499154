//! The ranges of an object that are read or written.
//!
//! A short read or write has one range, its data in a buffer of the message, the flag
//! [`SHORT_IO`](super::ObdoFlags::SHORT_IO), and `0xffff` in the upper half of [`MaxBrw`]. Spec:
//! mdt-ost §17.1, §17.5.

use fulmar_wire::{DecodeError, Field, Reader, Writer, wire_flags, wire_struct};
use serde::Serialize;

use super::OstId;

/// How many bulk transfers a request may need, less one, and flags of the alignment. It decides the
/// first match bits of the bulk. Spec: mdt-ost §17.1.
#[doc(alias = "ioo_max_brw")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct MaxBrw(pub u32);

impl MaxBrw {
    /// Returns the word for as many as `transfers` transfers, 1 to 65536.
    pub const fn new(transfers: u32) -> Self {
        Self(transfers.saturating_sub(1) << 16)
    }

    /// Returns the most transfers: 1 to 65536.
    pub const fn transfers(self) -> u32 {
        (self.0 >> 16) + 1
    }
}

impl Field for MaxBrw {
    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        r.u32(name).map(Self)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u32(self.0);
    }
}

wire_struct! {
    /// The object of a read or a write: 24 bytes. Spec: mdt-ost §15.2.
    #[doc(alias = "obd_ioobj")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct IoObject {
        /// The object.
        pub id: OstId,
        /// The number of bulk transfers.
        pub max_brw: MaxBrw,
        /// The number of ranges that follow.
        pub ranges: u32,
    }
}

wire_flags! {
    /// How a range is read or written. Spec: mdt-ost §15.3.
    #[doc(alias = "OBD_BRW")]
    pub struct NiobufFlags(u32) {
        READ = 0x1,
        WRITE = 0x2,
        /// Fail instead of waiting.
        NDELAY = 0x4,
        /// Not from a cache: enforce the quota.
        SYNC = 0x8,
        CHECK = 0x10,
        /// The space is paid with grant.
        FROM_GRANT = 0x20,
        GRANTED = 0x40,
        NOCACHE = 0x80,
        NOQUOTA = 0x100,
        /// The server takes the lock.
        SRVLOCK = 0x200,
        /// From a cache: the reply need not wait for the disk.
        ASYNC = 0x400,
        /// The client writes to free memory.
        MEMALLOC = 0x800,
        OVER_USRQUOTA = 0x1000,
        OVER_GRPQUOTA = 0x2000,
        /// The client needs a commit soon.
        SOFT_SYNC = 0x4000,
        OVER_PRJQUOTA = 0x8000,
        ROOT_PRJQUOTA = 0x1_0000,
        RDMA_ONLY = 0x2_0000,
        /// The caller may exceed the quota.
        SYS_RESOURCE = 0x4_0000,
        COMPRESSED = 0x8_0000,
        SPECULATIVE = 0x10_0000,
    }
}

wire_struct! {
    /// A range of bytes of an object: 16 bytes. Spec: mdt-ost §15.3.
    #[doc(alias = "niobuf_remote")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Niobuf {
        pub offset: u64,
        /// Bytes.
        pub len: u32,
        pub flags: NiobufFlags,
    }
}

#[cfg(test)]
mod tests {
    use fulmar_wire::testing::hex;

    use super::*;
    use crate::testing::check_example;

    crate::testing::sizes! { IoObject = 24, Niobuf = 16 }

    #[test]
    fn a_direct_write_is_locked_by_the_server() {
        // mdt-ost §26.3.
        let object: IoObject = check_example(&hex(
            "00 04 00 40 02 00 00 00 4f 00 00 00 00 00 00 00 00 00 03 00 01 00 00 00",
        ));
        assert_eq!((object.max_brw.transfers(), object.ranges), (4, 1));
        let range: Niobuf = check_example(&hex("00 00 00 00 00 00 00 00 00 00 01 00 aa 02 04 00"));
        assert_eq!((range.offset, range.len), (0, 65536));
        let flags = "WRITE|SYNC|FROM_GRANT|NOCACHE|SRVLOCK|SYS_RESOURCE";
        assert_eq!(range.flags.to_string(), flags);
    }

    #[test]
    fn the_number_of_transfers_is_one_more_than_in_the_word() {
        assert_eq!((MaxBrw::new(4), MaxBrw(0xffff_0000).transfers()), (MaxBrw(0x3_0000), 65536));
        assert_eq!((MaxBrw::new(0), MaxBrw::default().transfers()), (MaxBrw(0), 1));
    }
}

//! Lock value blocks: the attributes that come with a lock.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_struct};
use serde::Serialize;

use crate::{Content, Padding};

/// The attributes of an object: 56 bytes, or 40 for peers without `LVB_TYPE`. Times are in seconds.
/// Spec: mdt-ost §15.5.
#[doc(alias = "ost_lvb")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct OstLvb {
    /// Bytes.
    pub size: u64,
    pub mtime: i64,
    pub atime: i64,
    pub ctime: i64,
    /// Units of 512 bytes, or an [error](OstLvb::error).
    pub blocks: u64,
    /// The nanoseconds of the times, which kernel nodes send as 0; none in the short form.
    pub nanoseconds: Option<Nanoseconds>,
}

wire_struct! {
    /// The nanoseconds of three times.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Nanoseconds {
        pub mtime: u32,
        pub atime: u32,
        pub ctime: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<4>,
    }
}

impl OstLvb {
    /// The length in bytes.
    pub const LEN: usize = 56;
    /// The length for old peers in bytes.
    #[doc(alias = "ost_lvb_v1")]
    pub const LEN_SHORT: usize = 40;
    const ERROR: u64 = 0xffba_dbad_8000_0000;

    /// Returns the error number, positive, that takes the place of the attributes.
    #[doc(alias = "OST_LVB_IS_ERR")]
    pub fn error(&self) -> Option<u32> {
        (self.blocks & Self::ERROR == Self::ERROR).then_some((self.blocks & !Self::ERROR) as u32)
    }

    /// Returns the value block of an error number, positive.
    #[doc(alias = "OST_LVB_SET_ERR")]
    pub fn of_error(errno: u16) -> Self {
        let blocks = Self::ERROR + u64::from(errno);
        Self { blocks, nanoseconds: Some(Nanoseconds::default()), ..Self::default() }
    }
}

impl Content for OstLvb {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        Ok(Self {
            size: r.u64("OstLvb.size")?,
            mtime: Field::read(r, "OstLvb.mtime")?,
            atime: Field::read(r, "OstLvb.atime")?,
            ctime: Field::read(r, "OstLvb.ctime")?,
            blocks: r.u64("OstLvb.blocks")?,
            nanoseconds: match r.rest() {
                [] => None,
                _ => Some(Field::read(r, "OstLvb.nanoseconds")?),
            },
        })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        w.u64(self.size);
        self.mtime.write(w);
        self.atime.write(w);
        self.ctime.write(w);
        w.u64(self.blocks);
        if let Some(nanoseconds) = self.nanoseconds {
            nanoseconds.write(w);
        }
    }
}

wire_struct! {
    /// The quota that a server may use: 40 bytes. Spec: ptlrpc-ldlm-mgs §17.7.
    #[doc(alias = "lquota_lvb")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct QuotaLvb {
        pub flags: u64,
        pub id_may_release: u64,
        pub id_release: u64,
        pub id_qunit: u64,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<8>,
    }
}

wire_struct! {
    /// The state of a write barrier: 16 bytes. Spec: ptlrpc-ldlm-mgs §17.7.
    #[doc(alias = "barrier_lvb")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct BarrierLvb {
        pub status: u32,
        /// The MDT.
        pub index: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<8>,
    }
}

#[cfg(test)]
mod tests {
    use fulmar_wire::testing::hex;

    use super::*;
    use crate::testing::{check_any, check_example};

    crate::testing::sizes! { Nanoseconds = 16, QuotaLvb = 40, BarrierLvb = 16 }

    /// The answer to a glimpse, ptlrpc-ldlm-mgs §39.4.
    const LVB: &str = "04 00 00 00 00 00 00 00 ed 57 00 6b 00 00 00 00
        ed 57 00 6b 00 00 00 00 ed 57 00 6b 00 00 00 00 01 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00";

    #[test]
    fn an_object_has_a_size_and_times() {
        let lvb: OstLvb = check_example(&hex(LVB));
        assert_eq!((lvb.size, lvb.blocks, lvb.error()), (4, 1, None));
        assert_eq!([lvb.mtime, lvb.atime, lvb.ctime], [0x6b00_57ed; 3]);
        assert_eq!(lvb.to_bytes().len(), OstLvb::LEN);
    }

    #[test]
    fn old_peers_send_no_nanoseconds() {
        let bytes = &hex(LVB)[..OstLvb::LEN_SHORT];
        assert_eq!(check_example::<OstLvb>(bytes).nanoseconds, None);
        assert!(OstLvb::decode(&hex(LVB)[..55], Order::Little).is_err());
        check_any::<OstLvb>(&[]);
    }

    #[test]
    fn an_error_takes_the_place_of_the_blocks() {
        let lvb = OstLvb::of_error(2);
        assert_eq!((lvb.blocks, lvb.error()), (0xffba_dbad_8000_0002, Some(2)));
    }
}

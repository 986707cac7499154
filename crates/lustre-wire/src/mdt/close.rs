//! Closing files.

use fulmar_wire::{Order, Reader, wire_struct};
use serde::Serialize;

use super::Bias;
use crate::content::read_count;
use crate::{Fid, Handle, Padding};

wire_struct! {
    /// The open file that is closed: 24 bytes. Spec: mdt-ost §4.7.
    #[doc(alias = "mdt_ioepoch")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct IoEpoch {
        pub handle: Handle,
        pub unused1: u64,
        pub unused2: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<4>,
    }
}

wire_struct! {
    /// What a close does besides: 96 bytes. The record of the close tells which by its bias.
    /// Spec: mdt-ost §7.12.
    #[doc(alias = "close_data")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct CloseData {
        /// The server's lock of the lease.
        pub lease: Handle,
        /// The other file of a swap or a merge.
        pub fid: Fid,
        pub data_version: u64,
        /// Its meaning depends on the operation: [`CloseData::resynced`] and the others. The
        /// numbers in it are in the order of the message.
        pub detail: Padding<64>,
    }
}

impl CloseData {
    /// The most components whose numbers fit into [`CloseData::detail`].
    pub const INLINE_MAX: usize = 15;

    /// Returns the numbers of the components that were resynchronised, for
    /// [`Bias::CLOSE_RESYNC_DONE`]. `None` if they do not fit and follow in a buffer of their own.
    pub fn resynced(&self, order: Order) -> Option<Vec<u32>> {
        let r = &mut Reader::new(&self.detail.0, order);
        let count = r.u32("CloseData.count").ok()? as usize;
        (count <= Self::INLINE_MAX).then(|| read_count(r, count, "CloseData.ids").ok())?
    }

    /// Returns the number of the mirror, for [`Bias::CLOSE_LAYOUT_SPLIT`].
    pub fn mirror(&self, order: Order) -> u16 {
        Reader::new(&self.detail.0, order).u16("CloseData.mirror").unwrap_or_default()
    }

    /// Returns the number of the archive, for [`Bias::PCC_ATTACH`].
    pub fn archive(&self, order: Order) -> u32 {
        Reader::new(&self.detail.0, order).u32("CloseData.archive").unwrap_or_default()
    }

    /// Returns the data version of the other file, for [`Bias::CLOSE_LAYOUT_SWAP`].
    pub fn other_version(&self, order: Order) -> u64 {
        Reader::new(&self.detail.0, order).u64("CloseData.other_version").unwrap_or_default()
    }

    /// Returns whether a close with `bias` carries close data.
    #[doc(alias = "MDS_CLOSE_INTENT")]
    pub fn is_expected(bias: Bias) -> bool {
        let operations = Bias::HSM_RELEASE
            | Bias::CLOSE_MIGRATE
            | Bias::CLOSE_LAYOUT_SWAP
            | Bias::CLOSE_LAYOUT_MERGE
            | Bias::CLOSE_RESYNC_DONE
            | Bias::CLOSE_LAYOUT_SPLIT
            | Bias::PCC_ATTACH
            | Bias::CLOSE_LAYOUT_SWAP_HSM;
        bias.without(operations) != bias
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Content;

    crate::testing::sizes! { IoEpoch = 24, CloseData = 96 }

    #[test]
    fn the_detail_depends_on_the_operation() {
        let mut bytes = CloseData::default().to_bytes();
        bytes[32..44].copy_from_slice(&[2, 0, 0, 0, 1, 0, 1, 0, 2, 0, 1, 0]);
        let data = CloseData::decode(&bytes, Order::Little).unwrap();
        assert_eq!(data.resynced(Order::Little), Some(vec![0x1_0001, 0x1_0002]));
        assert_eq!((data.mirror(Order::Little), data.archive(Order::Little)), (2, 2));
        assert_eq!(data.other_version(Order::Little), 0x1_0001_0000_0002);
        bytes[32] = 16;
        let data = CloseData::decode(&bytes, Order::Little).unwrap();
        assert_eq!(data.resynced(Order::Little), None);
        assert!(CloseData::is_expected(Bias::CLOSE_LAYOUT_SPLIT));
        assert!(!CloseData::is_expected(Bias::DATA_MODIFIED));
    }
}

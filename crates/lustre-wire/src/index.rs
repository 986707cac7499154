//! Indices that are read as pages: quotas and nodemaps.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_flags, wire_struct};
use serde::Serialize;

use crate::content::{expect_magic, read_count};
use crate::{Bytes, Fid, Padding};

wire_flags! {
    /// The form of the entries. Spec: ptlrpc-ldlm-mgs §35.6.
    #[doc(alias = "II_FL")]
    pub struct IndexFlags(u32) {
        NOHASH = 0x1,
        /// Keys have different sizes.
        VARKEY = 0x2,
        /// Records have different sizes.
        VARREC = 0x4,
        NONUNQ = 0x8,
        NOKEY = 0x10,
    }
}

wire_struct! {
    /// A request for pages of an index, and its reply: 80 bytes. Spec: ptlrpc-ldlm-mgs §35.6.
    #[doc(alias = "idx_info")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct IndexInfo {
        /// [`IndexInfo::MAGIC`].
        pub magic: u32,
        pub flags: IndexFlags,
        /// The number of pages: wanted, or in the bulk.
        pub pages: u16,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding1: Padding<2>,
        pub attributes: u32,
        pub fid: Fid,
        pub version: u64,
        pub hash_start: u64,
        /// The hash to go on at.
        pub hash_end: u64,
        pub key_size: u16,
        pub record_size: u16,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding2: Padding<20>,
    }
}

impl IndexInfo {
    /// The magic number.
    #[doc(alias = "IDX_INFO_MAGIC")]
    pub const MAGIC: u32 = 0x3d37_cc37;
}

/// A page of an index: 4096 bytes. Spec: ptlrpc-ldlm-mgs §32.4.
#[doc(alias = "lu_idxpage")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IndexPage {
    /// 0.
    pub flags: u16,
    /// The number of entries.
    pub count: u16,
    /// 0.
    #[serde(skip_serializing_if = "Padding::is_zero")]
    pub padding: Padding<8>,
    /// The entries and unused room, 4080 bytes.
    pub room: Bytes,
}

impl IndexPage {
    /// The magic number.
    #[doc(alias = "LIP_MAGIC")]
    pub const MAGIC: u32 = 0x8a6d_6b6c;
    /// The length in bytes.
    pub const LEN: usize = 4096;
    const HEADER_LEN: usize = 16;

    /// Returns the page with these entries; `None` if they do not fit.
    pub fn new<T: Field>(entries: &[T]) -> Option<Self> {
        let mut room = Vec::new();
        crate::content::write_all(entries, &mut Writer::new(&mut room, Order::Little));
        if room.len() > Self::LEN - Self::HEADER_LEN {
            return None;
        }
        room.resize(Self::LEN - Self::HEADER_LEN, 0);
        let count = u16::try_from(entries.len()).ok()?;
        Some(Self { count, room: Bytes(room), ..Self::default() })
    }

    /// Returns the entries, each a key and a record, such as a
    /// [`NodemapEntry`](crate::mgs::NodemapEntry). `order` is that of the page.
    ///
    /// # Errors
    /// If there is no room for as many.
    pub fn entries<T: Field>(&self, order: Order) -> Result<Vec<T>, DecodeError> {
        let r = &mut Reader::new(&self.room.0, order);
        read_count(r, self.count.into(), "IndexPage.entries")
    }
}

impl Field for IndexPage {
    fn read(r: &mut Reader<'_>, _: &'static str) -> Result<Self, DecodeError> {
        expect_magic(r, Self::MAGIC, "IndexPage.magic")?;
        Ok(Self {
            flags: r.u16("IndexPage.flags")?,
            count: r.u16("IndexPage.count")?,
            padding: Field::read(r, "IndexPage.padding")?,
            room: Bytes(r.take("IndexPage.room", Self::LEN - Self::HEADER_LEN)?.to_vec()),
        })
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u32(Self::MAGIC);
        w.u16(self.flags);
        w.u16(self.count);
        self.padding.write(w);
        w.bytes(&self.room.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mgs::{NodemapEntry, NodemapKey, NodemapKind, NodemapRecord};
    use crate::testing::check_example;
    use crate::{Content, List};

    crate::testing::sizes! { IndexInfo = 80 }

    #[test]
    fn a_page_holds_entries() {
        let key = NodemapKey { kind: NodemapKind::GLOBAL, nodemap: 0, part: 0 };
        let record = NodemapRecord::Global { is_active: 1, padding: Padding::default() };
        let entry = NodemapEntry { key, record };
        let page = IndexPage::new(&[entry; 102]).unwrap();
        let bytes = page.to_bytes();
        assert_eq!(bytes.len(), 4096);
        let List(pages) = check_example::<List<IndexPage>>(&bytes.repeat(2));
        assert_eq!(pages, [page.clone(), page]);
        assert_eq!(pages[0].entries(Order::Little), Ok(vec![entry; 102]));
        assert_eq!(IndexPage::new(&[entry; 103]), None);
        let too_many = IndexPage { count: 103, ..pages[0].clone() };
        assert!(too_many.entries::<NodemapEntry>(Order::Little).is_err());
    }
}

//! Where the data of an object is on the disk. Spec: mdt-ost §16.1.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_struct};
use serde::Serialize;

use super::Obdo;
use crate::content::{read_rest, write_all};
use crate::{Content, Padding, Text};

wire_struct! {
    /// The range that is asked about: 32 bytes.
    #[doc(alias = "fiemap")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct FiemapHeader {
        pub start: u64,
        pub len: u64,
        pub flags: u32,
        /// The number of extents in a reply.
        pub mapped: u32,
        /// The room for extents.
        pub count: u32,
        pub reserved: u32,
    }
}

wire_struct! {
    /// A contiguous piece: 56 bytes.
    #[doc(alias = "fiemap_extent")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct FiemapExtent {
        pub logical: u64,
        pub physical: u64,
        pub len: u64,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub reserved1: Padding<16>,
        pub flags: u32,
        /// The index of the OST.
        pub device: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub reserved2: Padding<8>,
    }
}

wire_struct! {
    /// The key of the request: 248 bytes.
    #[doc(alias = "ll_fiemap_info_key")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct FiemapKey {
        /// `fiemap`.
        pub name: Text<8>,
        pub object: Obdo,
        pub range: FiemapHeader,
    }
}

/// A map, or the room for one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Fiemap {
    pub header: FiemapHeader,
    pub extents: Vec<FiemapExtent>,
}

impl Content for Fiemap {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        let header = Field::read(r, "Fiemap.header")?;
        Ok(Self { header, extents: read_rest(r, "Fiemap.extents")? })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        self.header.write(w);
        write_all(&self.extents, w);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check_example;

    crate::testing::sizes! { FiemapHeader = 32, FiemapExtent = 56, FiemapKey = 248 }

    #[test]
    fn a_map_is_a_header_and_extents() {
        let header = FiemapHeader { len: u64::MAX, mapped: 2, count: 2, ..Default::default() };
        let extent = FiemapExtent { logical: 4096, len: 8192, device: 1, ..Default::default() };
        let map = Fiemap { header, extents: vec![extent; 2] };
        assert_eq!(map.to_bytes().len(), 32 + 2 * 56);
        assert_eq!(check_example::<Fiemap>(&map.to_bytes()), map);
    }
}

//! `trusted.link`: the names of a file.
//!
//! ```text
//! header    0 magic  4 count  8 length u64  16 overflow time  20 padding
//! entry     0 length u16  2 parent [16]  18 name
//! ```
//! The header is little-endian and the entries are big-endian, from every peer.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer};
use serde::Serialize;

use crate::content::{expect_magic, read_count, write_all};
use crate::{Bytes, Content, Fid, Padding};

/// A name of a file.
#[doc(alias = "link_ea_entry")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct LinkEntry {
    pub parent: Fid,
    /// Fewer than 2¹⁶ - 18 bytes.
    #[serde(serialize_with = "crate::bytes::show_name")]
    pub name: Vec<u8>,
}

impl LinkEntry {
    const HEADER_LEN: usize = 18;
}

impl Field for LinkEntry {
    fn read(r: &mut Reader<'_>, _: &'static str) -> Result<Self, DecodeError> {
        let mut big = r.in_order(Order::Big);
        let len = big.u16("LinkEntry.len")?;
        let range = DecodeError::Range { field: "LinkEntry.len", got: len.into() };
        let name_len = usize::from(len).checked_sub(Self::HEADER_LEN).ok_or(range)?;
        let parent = Field::read(&mut big, "LinkEntry.parent")?;
        let name = big.take("LinkEntry.name", name_len)?.to_vec();
        *r = big.in_order(r.order());
        Ok(Self { parent, name })
    }

    fn write(&self, w: &mut Writer<'_>) {
        let w = &mut w.in_order(Order::Big);
        w.u16((Self::HEADER_LEN + self.name.len()) as u16);
        self.parent.write(w);
        w.bytes(&self.name);
    }
}

/// The names of a file.
#[doc(alias = "link_ea_header")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Links {
    /// The bytes of the header and the entries.
    pub len: u64,
    /// When there were too many names for the attribute; 0 for never.
    pub overflow_time: u32,
    #[serde(skip_serializing_if = "Padding::is_zero")]
    pub padding: Padding<4>,
    pub entries: Vec<LinkEntry>,
    /// Unused room.
    #[serde(skip)]
    pub rest: Bytes,
}

impl Links {
    /// The magic number.
    #[doc(alias = "LINK_EA_MAGIC")]
    pub const MAGIC: u32 = 0x11ea_f1df;
}

impl Content for Links {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, Order::Little);
        expect_magic(r, Self::MAGIC, "Links.magic")?;
        let count = r.u32("Links.count")?;
        let len = r.u64("Links.len")?;
        let overflow_time = r.u32("Links.overflow_time")?;
        let padding = Field::read(r, "Links.padding")?;
        let entries = read_count(r, count as usize, "Links.entries")?;
        Ok(Self { len, overflow_time, padding, entries, rest: Bytes::take_rest(r) })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        let w = &mut w.in_order(Order::Little);
        w.u32(Self::MAGIC);
        w.u32(self.entries.len() as u32);
        w.u64(self.len);
        w.u32(self.overflow_time);
        self.padding.write(w);
        write_all(&self.entries, w);
        w.bytes(&self.rest.0);
    }
}

#[cfg(test)]
mod tests {
    use fulmar_wire::testing::hex;

    use super::*;
    use crate::testing::{check_any, check_example};

    const LINKS: &str = "df f1 ea 11 02 00 00 00 3f 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        00 14 00 00 00 02 00 00 00 07 00 00 00 01 00 00 00 00 61 62
        00 13 00 00 00 02 00 00 04 01 00 00 00 05 00 00 00 00 63";

    #[test]
    fn a_file_may_have_several_names() {
        let links: Links = check_example(&hex(LINKS));
        let [first, second] = links.entries.as_slice() else { panic!("{links:?}") };
        assert_eq!((links.len, first.parent, first.name.as_slice()), (63, Fid::ROOT, &b"ab"[..]));
        assert_eq!(second.parent, Fid { seq: 0x2_0000_0401, oid: 5, version: 0 });
        check_any::<Links>(&[]);
        let mut bytes = hex(LINKS);
        bytes[25] = 17;
        let error = Links::decode(&bytes, Order::Little);
        assert_eq!(error, Err(DecodeError::Range { field: "LinkEntry.len", got: 17 }));
    }
}

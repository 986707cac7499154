//! The header of a log.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer};
use serde::Serialize;

use super::block::order_of;
use super::{LogFlags, RecordKind};
use crate::content::expect_magic;
use crate::{Bytes, Content, Text};

/// The first record of a log, 8192 bytes: which of its records are live.
///
/// ```text
///  0 len  4 index 0  8 kind  12 id  16 time i64  24 count  28 bitmap offset  32 record size
/// 36 flags  40 catalog index  44 uuid [40]  84 reserved  88 bitmap  len-8 len  len-4 last index
/// ```
/// It is in the byte order of the node that wrote the log. Spec: ptlrpc-ldlm-mgs §29.3.
#[doc(alias = "llog_log_hdr")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct LogHeader {
    #[serde(skip)]
    pub order: Order,
    pub index: u32,
    pub id: u32,
    /// When the log was made.
    pub time: i64,
    /// The live records, and the header.
    pub count: u32,
    pub bitmap_offset: u32,
    /// The size of every record; 0 if they differ.
    pub record_size: u32,
    pub flags: LogFlags,
    pub catalog_index: u32,
    pub uuid: Text<40>,
    pub reserved: u32,
    /// A bit for each index: whether its record is live.
    #[serde(skip)]
    pub bitmap: Bytes,
    /// The index of the last record that was written.
    pub last_index: u32,
}

impl LogHeader {
    /// The least length, and that of almost all logs.
    pub const LEN_MIN: usize = 8192;
    /// Where the bits are in the record, in bytes.
    pub const BITMAP_OFFSET: u32 = 88;
    /// The bytes of the bits in a header of the least length.
    pub const BITMAP_LEN: usize = Self::LEN_MIN - Self::OVERHEAD;
    /// The largest length that is accepted.
    pub const LEN_MAX: usize = 1 << 16;
    const OVERHEAD: usize = 96;

    /// Returns whether the record with this index is live. Others are ignored.
    pub fn is_live(&self, index: u32) -> bool {
        let byte = self.bitmap.0.get(index as usize / 8).copied().unwrap_or_default();
        byte >> (index % 8) & 1 == 1
    }
}

impl Content for LogHeader {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        let order = order_of(bytes)?;
        let r = &mut Reader::new(bytes, order);
        let len = r.u32("LogHeader.len")?;
        let size = len as usize;
        if !(Self::LEN_MIN..=Self::LEN_MAX).contains(&size) || !len.is_power_of_two() {
            return Err(DecodeError::Range { field: "LogHeader.len", got: len.into() });
        }
        let index = r.u32("LogHeader.index")?;
        expect_magic(r, RecordKind::HEADER.0, "LogHeader.kind")?;
        let header = Self {
            order,
            index,
            id: r.u32("LogHeader.id")?,
            time: Field::read(r, "LogHeader.time")?,
            count: r.u32("LogHeader.count")?,
            bitmap_offset: r.u32("LogHeader.bitmap_offset")?,
            record_size: r.u32("LogHeader.record_size")?,
            flags: Field::read(r, "LogHeader.flags")?,
            catalog_index: r.u32("LogHeader.catalog_index")?,
            uuid: Field::read(r, "LogHeader.uuid")?,
            reserved: r.u32("LogHeader.reserved")?,
            bitmap: Bytes(r.take("LogHeader.bitmap", size - Self::OVERHEAD)?.to_vec()),
            last_index: {
                let tail = r.u32("LogHeader.tail_len")?;
                if tail != len {
                    let field = "LogHeader.tail_len";
                    return Err(DecodeError::Range { field, got: tail.into() });
                }
                r.u32("LogHeader.last_index")?
            },
        };
        Ok(header)
    }

    fn encode(&self, w: &mut Writer<'_>) {
        let w = &mut w.in_order(self.order);
        let len = (self.bitmap.0.len() + Self::OVERHEAD) as u32;
        w.u32(len);
        w.u32(self.index);
        RecordKind::HEADER.write(w);
        w.u32(self.id);
        self.time.write(w);
        w.u32(self.count);
        w.u32(self.bitmap_offset);
        w.u32(self.record_size);
        self.flags.write(w);
        w.u32(self.catalog_index);
        self.uuid.write(w);
        w.u32(self.reserved);
        w.bytes(&self.bitmap.0);
        w.u32(len);
        w.u32(self.last_index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::encoded;

    fn header() -> LogHeader {
        let mut bitmap = vec![0; 8096];
        (bitmap[0], bitmap[2]) = (0b1001, 0x80);
        LogHeader {
            order: Order::Little,
            index: 0,
            id: 0,
            time: 0x6b00_5000,
            count: 30,
            bitmap_offset: 88,
            record_size: 80,
            flags: LogFlags::PLAIN,
            catalog_index: 0,
            uuid: Text::new("config_uuid").unwrap(),
            reserved: 0,
            bitmap: Bytes(bitmap),
            last_index: 29,
        }
    }

    #[test]
    fn a_header_tells_the_live_records() {
        for order in [Order::Little, Order::Big] {
            let header = LogHeader { order, ..header() };
            let bytes = header.to_bytes();
            assert_eq!(bytes.len(), 8192);
            assert_eq!(encoded(&header, Order::Big), bytes, "a log has its own order");
            assert_eq!(LogHeader::decode(&bytes, Order::Little).as_ref(), Ok(&header));
            let live: Vec<_> = (0..70000).filter(|index| header.is_live(*index)).collect();
            assert_eq!(live, [0, 3, 23]);
        }
    }

    #[test]
    fn a_damaged_header_is_an_error() {
        let bytes = header().to_bytes();
        let damaged = |at: usize, byte| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            LogHeader::decode(&bytes, Order::Little).unwrap_err().to_string()
        };
        assert_eq!(damaged(0, 1), "LogHeader.len may not be 0x2001");
        assert_eq!(damaged(1, 0x40), "LogHeader.bitmap is cut off: 8184 more bytes needed");
        assert_eq!(damaged(8, 0), "unknown magic 0x10645500");
        assert_eq!(damaged(8186, 1), "LogHeader.tail_len may not be 0x12000");
        for len in [0, 11, 12, 8191] {
            assert!(LogHeader::decode(&bytes[..len], Order::Little).is_err(), "{len}");
        }
    }
}

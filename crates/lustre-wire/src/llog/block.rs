//! A block of a log: records, one after the other.
//!
//! ```text
//! record    0 len  4 index  8 kind  12 id  16 body  len-8 len  len-4 index
//! ```
//! The length is a multiple of 8. A log is in the byte order of the node that wrote it, which the
//! kind of a record shows; the order of the message does not matter. Spec: ptlrpc-ldlm-mgs §29.3.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer};
use serde::{Serialize, Serializer};

use super::{RecordBody, RecordKind};
use crate::{Bytes, Content};

/// A record of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct LogRecord {
    pub index: u32,
    pub kind: RecordKind,
    pub id: u32,
    /// What the kind says, in the order of the log; a multiple of 8 bytes.
    pub body: Bytes,
}

impl LogRecord {
    /// The bytes around a body.
    pub const OVERHEAD: usize = 24;
    /// A record is in one chunk of this size.
    #[doc(alias = "LLOG_MIN_CHUNK_SIZE")]
    pub const LEN_MAX: usize = 8192;

    /// Returns the length in bytes.
    pub fn encoded_len(&self) -> usize {
        Self::OVERHEAD + self.body.0.len()
    }
}

impl Field for LogRecord {
    fn read(r: &mut Reader<'_>, _: &'static str) -> Result<Self, DecodeError> {
        let len = r.u32("LogRecord.len")?;
        let range = |field, got: u32| Err(DecodeError::Range { field, got: got.into() });
        let body_len = (len as usize).checked_sub(Self::OVERHEAD);
        let Some(body_len) = body_len.filter(|_| len.is_multiple_of(8)) else {
            return range("LogRecord.len", len);
        };
        if len as usize > Self::LEN_MAX {
            return range("LogRecord.len", len);
        }
        let index = r.u32("LogRecord.index")?;
        let kind = RecordKind::read(r, "LogRecord.kind")?;
        let id = r.u32("LogRecord.id")?;
        let body = Bytes(r.take("LogRecord.body", body_len)?.to_vec());
        match (r.u32("LogRecord.tail_len")?, r.u32("LogRecord.tail_index")?) {
            (tail, _) if tail != len => range("LogRecord.tail_len", tail),
            (_, tail) if tail != index => range("LogRecord.tail_index", tail),
            _ => Ok(Self { index, kind, id, body }),
        }
    }

    fn write(&self, w: &mut Writer<'_>) {
        let len = self.encoded_len() as u32;
        w.u32(len);
        w.u32(self.index);
        self.kind.write(w);
        w.u32(self.id);
        w.bytes(&self.body.0);
        w.u32(len);
        w.u32(self.index);
    }
}

/// Records of a log, as many as a reader gets at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogBlock {
    /// The order of the log.
    pub order: Order,
    /// The records. The first ones may have smaller indices than the wanted one.
    pub records: Vec<LogRecord>,
    /// Unused room.
    pub rest: Bytes,
}

impl Serialize for LogBlock {
    /// Shows what the records say.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown {
            index: u32,
            kind: RecordKind,
            body: RecordBody,
        }
        let shown = |record: &LogRecord| {
            let LogRecord { index, kind, .. } = *record;
            Shown { index, kind, body: record.typed(self.order) }
        };
        serializer.collect_seq(self.records.iter().map(shown))
    }
}

impl Content for LogBlock {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        let order = order_of(bytes)?;
        let mut r = Reader::new(bytes, order);
        let mut records = Vec::new();
        while r.rest().first_chunk().is_some_and(|len: &[u8; 4]| *len != [0; 4]) {
            records.push(Field::read(&mut r, "LogBlock.record")?);
        }
        Ok(Self { order, records, rest: Bytes::take_rest(&mut r) })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        let w = &mut w.in_order(self.order);
        self.records.iter().for_each(|record| record.write(w));
        w.bytes(&self.rest.0);
    }
}

/// Returns the order of the first record in `bytes`; little-endian if there is none.
///
/// # Errors
/// If what is in its place is no record.
pub(super) fn order_of(bytes: &[u8]) -> Result<Order, DecodeError> {
    const MASK: u32 = 0xfff0_0000;
    let kind = |order| {
        let mut r = Reader::new(bytes, order);
        r.take("LogRecord.head", 8)?;
        r.u32("LogRecord.kind")
    };
    if bytes.iter().take(4).all(|&byte| byte == 0) {
        return Ok(Order::Little);
    }
    match (kind(Order::Little)?, kind(Order::Big)?) {
        (little, _) if little & MASK == RecordKind::PAD.0 => Ok(Order::Little),
        (_, big) if big & MASK == RecordKind::PAD.0 => Ok(Order::Big),
        (got, _) => Err(DecodeError::Magic { got }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llog::config::Config;
    use crate::testing::{check_any, check_example};

    fn record(index: u32) -> LogRecord {
        LogRecord { index, kind: RecordKind::CONFIG, id: 0, body: Bytes(vec![index as u8; 16]) }
    }

    #[test]
    fn a_block_is_records_and_unused_room() {
        for order in [Order::Little, Order::Big] {
            let rest = Bytes(vec![0; 20]);
            let block = LogBlock { order, records: vec![record(1), record(2)], rest };
            let bytes = block.to_bytes();
            assert_eq!((bytes.len(), bytes[0] == 0), (100, order == Order::Big));
            assert_eq!(check_example::<LogBlock>(&bytes), block);
        }
        assert_eq!(check_example::<LogBlock>(&[0; 40]).records, []);
        check_any::<LogBlock>(&[]);
    }

    #[test]
    fn a_block_serialises_as_what_its_records_say() {
        let config = Config::Detach { device: "lv-clilov".to_owned() };
        let body = Bytes(config.record(Order::Little).to_bytes());
        let records = vec![LogRecord { body, ..record(7) }];
        let json = serde_json::json!(LogBlock { records, ..LogBlock::default() });
        let body = serde_json::json!({ "detach": { "device": "lv-clilov" } });
        assert_eq!(json, serde_json::json!([{ "index": 7, "kind": "CONFIG", "body": body }]));
    }

    #[test]
    fn a_record_that_is_not_framed_is_an_error() {
        let bytes = record(1).to_bytes();
        let damaged = |at: usize, byte| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            LogBlock::decode(&bytes, Order::Little).unwrap_err().to_string()
        };
        assert_eq!(damaged(0, 12), "LogRecord.len may not be 0xc");
        assert_eq!(damaged(0, 36), "LogRecord.len may not be 0x24");
        assert_eq!(damaged(1, 0x80), "LogRecord.len may not be 0x8028");
        assert_eq!(damaged(32, 0), "LogRecord.tail_len may not be 0x0");
        assert_eq!(damaged(36, 9), "LogRecord.tail_index may not be 0x9");
        assert_eq!(damaged(10, 9), "unknown magic 0x10090000");
    }
}

//! Which target has the objects of a sequence.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_enum};
use serde::Serialize;

use crate::content::{read_count, write_all};
use crate::seq::SeqRange;
use crate::{Bytes, Content, Padding};

wire_enum! {
    /// What is asked. Spec: ptlrpc-ldlm-mgs §35.4.
    pub struct FldOp(u32) {
        /// The target of a sequence.
        LOOKUP = 2,
    }
}

/// Ranges of one target, for a server that starts. Little-endian from every peer. Spec:
/// ptlrpc-ldlm-mgs §35.5.
#[doc(alias = "lu_seq_range_array")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SeqRanges {
    /// 0.
    #[serde(skip_serializing_if = "Padding::is_zero")]
    pub padding: Padding<4>,
    /// The ranges, fewer than 2³².
    pub ranges: Vec<SeqRange>,
    /// Unused room.
    pub rest: Bytes,
}

impl Content for SeqRanges {
    fn decode(bytes: &[u8], _: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, Order::Little);
        let count = r.u32("SeqRanges.count")?;
        let padding = Field::read(r, "SeqRanges.padding")?;
        let ranges = read_count(r, count as usize, "SeqRanges.ranges")?;
        Ok(Self { padding, ranges, rest: Bytes::take_rest(r) })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        let w = &mut w.in_order(Order::Little);
        w.u32(self.ranges.len() as u32);
        self.padding.write(w);
        write_all(&self.ranges, w);
        w.bytes(&self.rest.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check_example;

    #[test]
    fn ranges_are_counted_and_the_room_is_kept() {
        let range = SeqRange { start: 1, end: 2, ..SeqRange::default() };
        let ranges =
            SeqRanges { ranges: vec![range; 2], rest: Bytes(vec![0; 8]), ..Default::default() };
        let bytes = ranges.to_bytes();
        assert_eq!((bytes.len(), check_example::<SeqRanges>(&bytes)), (8 + 48 + 8, ranges));
        let error = SeqRanges::decode(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], Order::Little);
        assert_eq!(error, Err(DecodeError::Short { field: "SeqRange.start", missing: 8 }));
    }
}

//! Bulk data of a request: memory in parts, each moved by one operation of LNet with match bits of
//! its own. Spec: ptlrpc-ldlm-mgs §3.2 to §3.5, mdt-ost §18.1.

use fulmar_base::{BufferId, Span};
use fulmar_lnet_wire::MTU;

/// Which way bulk data go. The server moves them in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The server fetches them, as for a write.
    ToServer,
    /// The server stores them, as for a read.
    ToClient,
}

/// The memory of bulk data at one end, cut into parts as at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bulk {
    direction: Direction,
    portal: u32,
    parts: Vec<Span>,
}

impl Bulk {
    /// The longest part in bytes.
    pub const PART_LEN: u32 = MTU;
    /// The most parts of a transfer: 64 MiB, and one more if they do not begin at a page.
    pub const PARTS_MAX: usize = 65;

    /// Describes `len` bytes at `offset` of a buffer. `in_page` is where the data begin in a page of
    /// 4096 bytes of their object: the first part ends with its last page.
    ///
    /// # Panics
    /// If there are more than [`Bulk::PARTS_MAX`] parts, or `in_page` is not within a page.
    pub fn new(
        direction: Direction,
        portal: u32,
        (buffer, offset, len): (BufferId, u64, u64),
        in_page: u32,
    ) -> Self {
        assert!(in_page < 4096, "{in_page} is not within a page");
        let mut parts = Vec::new();
        let (mut at, end, mut room) = (offset, offset + len, Self::PART_LEN - in_page);
        while at < end {
            let len = u64::from(room).min(end - at) as u32;
            parts.push(Span { buffer, offset: at, len });
            at += u64::from(len);
            room = Self::PART_LEN;
        }
        Self::of_parts(direction, portal, parts)
    }

    /// Describes memory that is cut into parts already. No parts are nothing to transfer.
    ///
    /// # Panics
    /// If there are more than [`Bulk::PARTS_MAX`], or one is longer than [`Bulk::PART_LEN`].
    pub fn of_parts(direction: Direction, portal: u32, parts: Vec<Span>) -> Self {
        assert!(parts.len() <= Self::PARTS_MAX, "{} parts are too many", parts.len());
        let longest = parts.iter().map(|part| part.len).max().unwrap_or(0);
        assert!(longest <= Self::PART_LEN, "a part of {longest} bytes is too long");
        Self { direction, portal, parts }
    }

    /// Returns which way the data go.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the portal of the client's memory.
    pub fn portal(&self) -> u32 {
        self.portal
    }

    /// Returns the parts.
    pub fn parts(&self) -> &[Span] {
        &self.parts
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.len)).sum()
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The match bits of the parts that a client has posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartBits {
    /// Those of the first part.
    pub(crate) first: u64,
    /// How many parts there are.
    pub(crate) count: usize,
}

impl PartBits {
    /// Finds the parts by the match bits of the last one. A client has at most `parts_max`, a power
    /// of two, of which the first bits are a multiple. `None`: they are more than a transfer may have.
    pub(crate) fn new(last: u64, parts_max: u32) -> Option<Self> {
        if !parts_max.is_power_of_two() {
            return None;
        }
        let above = last & u64::from(parts_max - 1);
        let count = above as usize + 1;
        (count <= Bulk::PARTS_MAX).then_some(Self { first: last - above, count })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn lens(len: u64, in_page: u32) -> Vec<u32> {
        let bulk = Bulk::new(Direction::ToServer, 8, (BufferId(1), 5, len), in_page);
        bulk.parts().iter().map(|part| part.len).collect()
    }

    #[test]
    fn parts_end_at_the_same_pages_of_the_object_at_both_ends() {
        assert_eq!(lens(0, 0), [0_u32; 0]);
        assert_eq!(lens(1, 4095), [1]);
        assert_eq!(lens(2 * MIB, 0), [1 << 20, 1 << 20]);
        assert_eq!(lens(2 * MIB, 96), [(1 << 20) - 96, 1 << 20, 96]);
        assert_eq!(lens(64 * MIB, 1).len(), Bulk::PARTS_MAX);
    }

    #[test]
    fn a_client_says_how_many_parts_it_has() {
        let found = |last, max| PartBits::new(last, max).map(|found| (found.first, found.count));
        // An OST_WRITE of 2 MiB in the trace `data`.
        let last = 0x0006_b005_7672_e981;
        assert_eq!(found(last, 4), Some((last - 1, 2)));
        // Other requests have one.
        assert_eq!(found(last, 1), Some((last, 1)));
        // Clients of release 2.12 count in steps of 16.
        assert_eq!(found(0x70, 16), Some((0x70, 1)));
        assert_eq!((found(127, 128), found(5, 3), found(5, 0)), (None, None, None));
        assert_eq!(found(u64::MAX, 32), Some((u64::MAX - 31, 32)));
    }

    proptest! {
        #[test]
        fn parts_cover_the_memory_in_order(
            offset in 0..1_u64 << 40,
            len in 0..=64 * MIB,
            in_page in 0..4096_u32,
        ) {
            let memory = (BufferId(3), offset, len);
            let bulk = Bulk::new(Direction::ToClient, 8, memory, in_page);
            let mut at = offset;
            for (number, part) in bulk.parts().iter().enumerate() {
                prop_assert_eq!((part.buffer, part.offset), (BufferId(3), at));
                prop_assert!(part.len > 0 && part.len <= Bulk::PART_LEN);
                at += u64::from(part.len);
                let is_last = number + 1 == bulk.parts().len();
                let from_page = at - offset + u64::from(in_page);
                prop_assert!(is_last || from_page.is_multiple_of(MIB));
            }
            prop_assert_eq!(at, offset + len);
            prop_assert_eq!((bulk.len(), bulk.is_empty()), (len, len == 0));
        }
    }
}

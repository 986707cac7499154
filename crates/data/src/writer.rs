//! Which dirty data of an object go into the next RPC. Spec: mdt-ost §17.2, §21.2.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::dirty::{Dirty, Extent};
use crate::grants::Terms;
use crate::pages::Pages;

/// The most ranges of a write.
const RANGES_MAX: usize = 256;
/// The most pieces of memory of a write, which is also what one descriptor of LNet takes. A page has fewer.
const PIECES_MAX: usize = 4096;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// What was written up to this number.
    Until(u64),
    /// Extents that fill an RPC.
    Full,
}

/// The pages of an object that are being written, by their starts.
///
/// Two writes of one page are never in flight together: which is executed first is not known, and a target
/// that reads the rest of a page may undo the other one.
#[derive(Debug, Default)]
pub(crate) struct Busy(BTreeMap<u64, u64>);

impl Busy {
    fn contains(&self, range: &Range<u64>) -> bool {
        let range = pages(range);
        self.0.range(..range.end).next_back().is_some_and(|(_, end)| *end > range.start)
    }

    pub(crate) fn add(&mut self, range: &Range<u64>) {
        let range = pages(range);
        self.0.insert(range.start, range.end);
    }

    pub(crate) fn remove(&mut self, range: &Range<u64>) {
        self.0.remove(&pages(range).start);
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the pages that a range is in.
pub(crate) fn pages(range: &Range<u64>) -> Range<u64> {
    let end = range.end.checked_next_multiple_of(Terms::PAGE).unwrap_or(u64::MAX);
    range.start / Terms::PAGE * Terms::PAGE..end
}

/// Removes the extents of one RPC from those that are dirty: one that is wanted, and what follows it.
/// `None` if nothing is wanted, or all of it is in pages that are being written.
pub(crate) fn gather(
    dirty: &mut Dirty,
    pages: &Pages,
    busy: &Busy,
    want: Want,
    terms: &Terms,
) -> Option<Vec<(Range<u64>, Extent)>> {
    let is_free = |range: &Range<u64>| !busy.contains(range);
    let seed = match want {
        Want::Until(order) => dirty.until(order).find(is_free)?,
        Want::Full => dirty.full().find(is_free)?,
    };
    let mut taken: Vec<(Range<u64>, Extent)> = Vec::new();
    let (mut at, mut bytes, mut pieces) = (seed.start, 0, 0);
    while taken.len() < RANGES_MAX {
        let Some((next, extent)) = dirty.from(at).next() else { break };
        if let Some((last, before)) = taken.last() {
            let is_whole = last.end % Terms::PAGE == 0 && next.start % Terms::PAGE == 0;
            let is_alike = (before.paid, before.durable) == (extent.paid, extent.durable);
            if !is_whole || !is_alike || !is_free(&next) {
                break;
            }
        }
        let room = terms.rpc_size - bytes;
        // A cut is at the end of a page, so that the rest begins at one.
        let most = (next.start + room) / Terms::PAGE * Terms::PAGE;
        let (count, counted) = pages.count(next.start..next.end.min(most), PIECES_MAX - pieces);
        let end = if counted < next.end { counted / Terms::PAGE * Terms::PAGE } else { next.end };
        if end <= next.start {
            break;
        }
        at = next.end;
        pieces += count;
        let (range, extent) = dirty.take(next.start, end, terms);
        bytes += range.end - range.start;
        let is_cut = range.end < at;
        taken.push((range, extent));
        if is_cut {
            break;
        }
    }
    assert!(!taken.is_empty(), "a page has fewer pieces than fit");
    Some(join(taken))
}

/// Makes one extent of those that meet: they are one range for the target.
fn join(taken: Vec<(Range<u64>, Extent)>) -> Vec<(Range<u64>, Extent)> {
    let mut joined: Vec<(Range<u64>, Extent)> = Vec::new();
    for (range, extent) in taken {
        match joined.last_mut() {
            Some((before, sum)) if before.end == range.start => {
                before.end = range.end;
                sum.end = range.end;
                sum.cost += extent.cost;
                sum.order = sum.order.min(extent.order);
                sum.accepted = sum.accepted.max(extent.accepted);
            }
            _ => joined.push((range, extent)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use fulmar_base::Time;

    use super::*;
    use crate::budget::Class;
    use crate::buffers::Buffers;
    use crate::dirty::Write;
    use crate::pages::Memory;
    use crate::stripes::{Object, Target};

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const TERMS: Terms = Terms {
        chunk: 4096,
        tax: 24 * KIB,
        extent: 64 * MIB,
        rpc_size: 4 * MIB,
        object_max: u64::MAX,
    };

    struct Rig {
        dirty: Dirty,
        pages: Pages,
        busy: Busy,
        buffers: Buffers,
        order: u64,
    }

    impl Rig {
        fn new() -> Self {
            let (dirty, pages, busy) = (Dirty::default(), Pages::default(), Busy::default());
            Self { dirty, pages, busy, buffers: Buffers::new(1 << 40), order: 0 }
        }

        fn write(&mut self, range: Range<u64>) {
            self.order += 1;
            let fid = fulmar_lustre_wire::Fid { seq: 1, oid: 1, version: 0 };
            let object = Object { target: Target::Ost(0), fid };
            let len = range.end - range.start;
            let buffer = self.buffers.allocate(Class::WriteBack, len, object).unwrap();
            self.pages.write(range.clone(), Memory { buffer, offset: 0 }, &mut self.buffers);
            let reserved = Some(TERMS.cost(&range));
            let write = Write { order: self.order, now: Time(0), reserved, durable: false };
            self.dirty.add(&range, write, &TERMS);
        }

        fn gather(&mut self, want: Want) -> Vec<Range<u64>> {
            let taken = gather(&mut self.dirty, &self.pages, &self.busy, want, &TERMS);
            taken.unwrap_or_default().into_iter().map(|(range, _)| range).collect()
        }
    }

    #[test]
    fn one_rpc_has_several_ranges_of_whole_pages() {
        let mut rig = Rig::new();
        rig.write(100..8192);
        rig.write(16384..20480);
        rig.write(40960..40970);
        rig.write(40980..40990);
        assert_eq!(rig.gather(Want::Full), []);
        // The third ends within a page, and the fourth begins in it.
        assert_eq!(rig.gather(Want::Until(1)), [100..8192, 16384..20480, 40960..40970]);
        assert_eq!(rig.gather(Want::Until(9)), std::slice::from_ref(&(40980..40990)));
    }

    #[test]
    fn a_full_extent_is_one_rpc_and_many_small_ones_are_few() {
        let mut rig = Rig::new();
        (0..300).for_each(|n| rig.write(n * 8192..n * 8192 + 4096));
        (4..8).for_each(|n| rig.write(n * MIB..(n + 1) * MIB));
        assert_eq!(rig.gather(Want::Full), std::slice::from_ref(&(4 * MIB..8 * MIB)));
        assert_eq!(rig.gather(Want::Until(u64::MAX)).len(), 256);
        assert_eq!(rig.gather(Want::Until(u64::MAX)).len(), 44);
        assert_eq!(rig.gather(Want::Until(u64::MAX)), []);
    }

    #[test]
    fn a_page_that_is_being_written_waits() {
        let mut rig = Rig::new();
        rig.write(0..100);
        rig.busy.add(&(200..300));
        assert_eq!(rig.gather(Want::Until(9)), []);
        rig.busy.remove(&(200..300));
        assert_eq!(rig.gather(Want::Until(9)), std::slice::from_ref(&(0..100)));
        assert!(rig.busy.is_empty());
    }

    #[test]
    fn pieces_of_memory_are_bounded() {
        let mut rig = Rig::new();
        (0..5000).for_each(|n| rig.write(n * 3..n * 3 + 3));
        // 4096 pieces are three pages: the cut is at the end of one.
        assert_eq!(rig.gather(Want::Until(1)), std::slice::from_ref(&(0..12288)));
        assert_eq!(rig.gather(Want::Until(9)), std::slice::from_ref(&(12288..15000)));
    }
}

//! The dirty extents of one object: what is to be written, what it has paid, and since when.
//! Spec: mdt-ost §19.1, §21.2.
//!
//! An extent is a contiguous dirty range. Writes extend it, but not over a multiple of the size of an RPC, so
//! an extent is sent as a whole and its tax is paid once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fulmar_base::Time;

use crate::grants::Terms;

/// A contiguous dirty range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) end: u64,
    /// The end of what in it the cache has accepted, by which the file may be longer; 0 if there is nothing. The rest
    /// counts when it is written.
    pub(crate) accepted: u64,
    /// What it has paid in bytes of grant.
    pub(crate) cost: u64,
    /// The number of its first write: writes are numbered.
    pub(crate) order: u64,
    /// When that was.
    pub(crate) since: Time,
    /// Whether all of it was paid.
    pub(crate) paid: bool,
    /// Whether somebody waits until it is on disk.
    pub(crate) durable: bool,
}

impl Extent {
    /// Returns a part of it that has paid so much.
    fn part(&self, range: &Range<u64>, cost: u64) -> Self {
        let accepted = self.accepted.min(range.end);
        let accepted = if accepted > range.start { accepted } else { 0 };
        Self { end: range.end, accepted, cost, ..*self }
    }
}

/// Something that is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) order: u64,
    pub(crate) now: Time,
    /// What was reserved for it; `None` if it is not paid.
    pub(crate) reserved: Option<u64>,
    /// Whether it is on disk when it ends.
    pub(crate) durable: bool,
}

impl Write {
    /// Returns whether it ends as soon as it is cached.
    pub(crate) fn is_accepted(&self) -> bool {
        self.reserved.is_some() && !self.durable
    }
}

/// The dirty extents of an object.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    extents: BTreeMap<u64, Extent>,
    by_order: BTreeSet<(u64, u64)>,
    /// Those that fill an RPC.
    full: BTreeSet<u64>,
    rpc_size: u64,
    bytes: u64,
}

impl Dirty {
    /// Adds a range within one RPC. Returns by how much the cost of all extents has changed, at most by
    /// what was reserved, and how many bytes of the range were dirty before.
    pub(crate) fn add(&mut self, range: &Range<u64>, write: Write, terms: &Terms) -> (i64, u64) {
        self.rpc_size = terms.rpc_size;
        let region = |at: u64| at / terms.rpc_size;
        let (paid, durable) = (write.reserved.is_some(), write.durable);
        let joins = |(&start, extent): (&u64, &Extent)| {
            let overlaps = start < range.end && range.start < extent.end;
            let meets = start == range.end || extent.end == range.start;
            let is_alike = (extent.paid, extent.durable) == (paid, durable);
            let fits = meets && region(start) == region(range.start) && is_alike;
            (overlaps || fits).then_some(start)
        };
        // Extents do not overlap: only one before the range may reach it.
        let before = self.extents.range(..range.start).next_back().and_then(joins);
        let inside = self.extents.range(range.start..=range.end).filter_map(joins);
        let joined: Vec<u64> = before.into_iter().chain(inside).collect();
        let (mut all, mut had, mut replaced) = (range.clone(), 0, 0);
        let (order, since, cost) = (write.order, write.now, 0);
        let accepted = if write.is_accepted() { range.end } else { 0 };
        let mut sum = Extent { end: range.end, accepted, cost, order, since, paid, durable };
        for start in joined {
            let old = self.remove(start);
            all = all.start.min(start)..all.end.max(old.end);
            had += old.cost;
            replaced += range.end.min(old.end).saturating_sub(range.start.max(start));
            // What is replaced was never written: its place is as old as it was.
            sum.order = sum.order.min(old.order);
            sum.since = sum.since.min(old.since);
            sum.paid &= old.paid;
            sum.durable |= old.durable;
            sum.accepted = sum.accepted.max(old.accepted);
        }
        sum.end = all.end;
        if sum.paid {
            // If the terms have changed meanwhile, it may be worth more than it has paid.
            sum.cost = terms.cost(&all).min(had + write.reserved.unwrap_or(0));
        }
        self.insert(all.start, sum);
        (sum.cost as i64 - had as i64, replaced)
    }

    /// Removes the extents of a range, or the parts of them that are in it. Returns how many bytes these
    /// had, and what they had paid and need not.
    pub(crate) fn discard(&mut self, range: &Range<u64>, terms: &Terms) -> (u64, u64) {
        if range.is_empty() {
            return (0, 0);
        }
        let before = self.extents.range(..range.start).next_back();
        let before = before.filter(|(_, extent)| extent.end > range.start).map(|(start, _)| *start);
        let inside = self.extents.range(range.start..range.end).map(|(start, _)| *start);
        let found: Vec<u64> = before.into_iter().chain(inside).collect();
        let (mut bytes, mut back) = (0, 0);
        for start in found {
            let old = self.remove(start);
            let mut left = old.cost;
            for part in [start..range.start.min(old.end), range.end.max(start)..old.end] {
                if !part.is_empty() {
                    let cost = if old.paid { terms.cost(&part).min(left) } else { 0 };
                    left -= cost;
                    self.insert(part.start, old.part(&part, cost));
                }
            }
            bytes += range.end.min(old.end) - range.start.max(start);
            back += left;
        }
        (bytes, back)
    }

    /// Removes and returns an extent, at most up to `end`. The rest stays.
    ///
    /// # Panics
    /// If no extent begins there.
    pub(crate) fn take(&mut self, start: u64, end: u64, terms: &Terms) -> (Range<u64>, Extent) {
        let mut extent = self.remove(start);
        if end < extent.end {
            let cost = if extent.paid { terms.cost(&(start..end)).min(extent.cost) } else { 0 };
            self.insert(end, extent.part(&(end..extent.end), extent.cost - cost));
            extent = extent.part(&(start..end), cost);
        }
        (start..extent.end, extent)
    }

    /// Returns the extents that begin at a byte or behind it.
    pub(crate) fn from(&self, at: u64) -> impl Iterator<Item = (Range<u64>, &Extent)> {
        self.extents.range(at..).map(|(&start, extent)| (start..extent.end, extent))
    }

    /// Returns the extents from the oldest to those of a number.
    pub(crate) fn until(&self, order: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let old = self.by_order.range(..=(order, u64::MAX));
        old.map(|(_, start)| *start..self.extents[start].end)
    }

    /// Returns the extents that fill an RPC.
    pub(crate) fn full(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.full.iter().map(|start| *start..self.extents[start].end)
    }

    /// Returns the number and the time of the oldest extent.
    pub(crate) fn oldest(&self) -> Option<(u64, Time)> {
        let (order, start) = self.by_order.first()?;
        Some((*order, self.extents[start].since))
    }

    /// Returns how many bytes are dirty.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the end of what was accepted and is dirty.
    pub(crate) fn accepted_end(&self) -> u64 {
        self.extents.values().map(|extent| extent.accepted).max().unwrap_or(0)
    }

    fn insert(&mut self, start: u64, extent: Extent) {
        self.bytes += extent.end - start;
        self.by_order.insert((extent.order, start));
        if extent.end - start >= self.rpc_size {
            self.full.insert(start);
        }
        self.extents.insert(start, extent);
    }

    fn remove(&mut self, start: u64) -> Extent {
        let extent = self.extents.remove(&start).expect("an extent begins there");
        self.by_order.remove(&(extent.order, start));
        self.full.remove(&start);
        self.bytes -= extent.end - start;
        extent
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use proptest::prelude::*;

    use super::*;

    const TERMS: Terms =
        Terms { chunk: 4, tax: 3, extent: 1000, rpc_size: 32, object_max: u64::MAX };

    fn write(order: u64, reserved: u64) -> Write {
        Write { order, now: Time(order), reserved: Some(reserved), durable: false }
    }

    fn extents(dirty: &Dirty) -> Vec<(Range<u64>, u64)> {
        dirty.from(0).map(|(range, extent)| (range, extent.cost)).collect()
    }

    #[test]
    fn extents_join_and_pay_one_tax() {
        let mut dirty = Dirty::default();
        assert_eq!(dirty.add(&(0..4), write(1, 7), &TERMS), (7, 0));
        assert_eq!(dirty.add(&(8..12), write(2, 7), &TERMS), (7, 0));
        // The gap costs a chunk, and two extents become one.
        assert_eq!(dirty.add(&(4..8), write(3, 7), &TERMS), (1, 0));
        assert_eq!(extents(&dirty), [(0..12, 15)]);
        // Something within it costs nothing.
        assert_eq!(dirty.add(&(1..9), write(4, 15), &TERMS), (0, 8));
        assert_eq!(dirty.oldest(), Some((1, Time(1))));
    }

    #[test]
    fn extents_end_where_an_rpc_does_and_are_full_then() {
        let mut dirty = Dirty::default();
        dirty.add(&(16..32), write(1, 99), &TERMS);
        dirty.add(&(32..40), write(2, 99), &TERMS);
        assert_eq!((dirty.from(0).count(), dirty.full().count()), (2, 0));
        dirty.add(&(0..16), write(3, 99), &TERMS);
        assert_eq!(dirty.full().collect::<Vec<_>>(), from_ref(&(0..32)));
        assert_eq!(dirty.until(1).collect::<Vec<_>>(), from_ref(&(0..32)));
        let (range, extent) = dirty.take(0, 8, &TERMS);
        assert_eq!((range, extent.cost), (0..8, 11));
        assert_eq!(extents(&dirty), [(8..32, 24), (32..40, 11)]);
    }

    #[test]
    fn what_is_not_paid_stays_apart_unless_it_overlaps() {
        let mut dirty = Dirty::default();
        let unpaid = |order| Write { order, now: Time(1), reserved: None, durable: false };
        dirty.add(&(0..4), write(1, 7), &TERMS);
        assert_eq!(dirty.add(&(4..8), unpaid(2), &TERMS), (0, 0));
        assert_eq!(extents(&dirty), [(0..4, 7), (4..8, 0)]);
        assert_eq!(dirty.accepted_end(), 4);
        assert_eq!(dirty.add(&(2..6), unpaid(3), &TERMS), (-7, 4));
        assert_eq!(extents(&dirty), [(0..8, 0)]);
        assert_eq!((dirty.accepted_end(), dirty.bytes()), (4, 8));
    }

    #[test]
    fn what_somebody_waits_for_stays_apart_and_does_not_count_before_it_is_written() {
        let mut dirty = Dirty::default();
        dirty.add(&(0..4), write(1, 7), &TERMS);
        dirty.add(&(4..8), Write { durable: true, ..write(2, 7) }, &TERMS);
        assert_eq!(extents(&dirty), [(0..4, 7), (4..8, 7)]);
        assert_eq!((dirty.accepted_end(), dirty.bytes()), (4, 8));
        dirty.add(&(8..30), write(3, 99), &TERMS);
        dirty.discard(&(20..25), &TERMS);
        assert_eq!((dirty.accepted_end(), dirty.bytes()), (30, 25));
        dirty.discard(&(25..30), &TERMS);
        assert_eq!(dirty.accepted_end(), 20);
        assert_eq!(dirty.take(8, 12, &TERMS).1.accepted, 12);
    }

    proptest! {
        #[test]
        fn extents_are_the_dirty_bytes_and_costs_add_up(
            steps in prop::collection::vec((0..3_u8, 0..90_u64, 1..20_u64), 1..60),
        ) {
            let (mut dirty, mut bytes, mut cost) = (Dirty::default(), [false; 128], 0);
            for (number, (what, start, len)) in steps.into_iter().enumerate() {
                match what {
                    0 => {
                        let range = start..(start + len).min((start / 32 + 1) * 32);
                        let reserved = TERMS.cost(&range);
                        let (more, replaced) = dirty.add(&range, write(number as u64, reserved), &TERMS);
                        prop_assert!(more <= reserved as i64);
                        cost += more;
                        let slice = &mut bytes[start as usize..range.end as usize];
                        prop_assert_eq!(replaced as usize, slice.iter().filter(|byte| **byte).count());
                        slice.fill(true);
                    }
                    1 => {
                        let range = start..start + len;
                        let (gone, back) = dirty.discard(&range, &TERMS);
                        let slice = &mut bytes[start as usize..range.end as usize];
                        prop_assert_eq!(gone as usize, slice.iter().filter(|byte| **byte).count());
                        slice.fill(false);
                        cost -= back as i64;
                    }
                    _ => {
                        let next = dirty.from(start).next().map(|(range, _)| range);
                        let Some(range) = next else { continue };
                        let (range, extent) = dirty.take(range.start, range.start + len, &TERMS);
                        bytes[range.start as usize..range.end as usize].fill(false);
                        cost -= extent.cost as i64;
                    }
                }
                let mut seen = [false; 128];
                for (range, _) in dirty.from(0) {
                    seen[range.start as usize..range.end as usize].fill(true);
                }
                prop_assert_eq!(seen, bytes);
                prop_assert_eq!(dirty.bytes(), bytes.iter().filter(|byte| **byte).count() as u64);
                prop_assert_eq!(extents(&dirty).iter().map(|(_, cost)| cost).sum::<u64>() as i64, cost);
                prop_assert_eq!(dirty.until(u64::MAX).count(), dirty.from(0).count());
            }
        }
    }
}

//! Values of ranges of bytes.

use std::collections::BTreeMap;
use std::ops::Range;

/// What a value of a range means for a part of the range.
pub trait Part: Copy + PartialEq {
    /// Returns the value of the range without its first `by` bytes.
    #[must_use]
    fn skip(self, by: u64) -> Self;
}

/// Ranges that do not overlap, each with a value. Finding, adding and removing are logarithmic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeMap<T> {
    /// By their starts: the ends and the values.
    parts: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for RangeMap<T> {
    fn default() -> Self {
        Self { parts: BTreeMap::new() }
    }
}

impl<T: Part> RangeMap<T> {
    /// Returns the part that contains a byte.
    pub fn get(&self, at: u64) -> Option<(Range<u64>, T)> {
        let (&start, &(end, value)) = self.parts.range(..=at).next_back()?;
        (at < end).then_some((start..end, value))
    }

    /// Makes two parts of the one that contains the byte before `at` and the one at it. Returns the
    /// value of the second, if there are two now.
    pub fn cut(&mut self, at: u64) -> Option<T> {
        let (range, value) = self.get(at).filter(|(range, _)| range.start < at)?;
        let second = value.skip(at - range.start);
        self.parts.insert(range.start, (at, value));
        self.parts.insert(at, (range.end, second));
        Some(second)
    }

    /// Adds a part.
    ///
    /// # Panics
    /// If the range is empty, or overlaps another part.
    pub fn insert(&mut self, range: Range<u64>, value: T) {
        assert!(!range.is_empty(), "{range:?} is empty");
        let before = self.parts.range(..range.end).next_back();
        assert!(before.is_none_or(|(_, (end, _))| *end <= range.start), "{range:?} is taken");
        self.parts.insert(range.start, (range.end, value));
    }

    /// Removes what is in a range, cut to it.
    pub fn remove(&mut self, range: Range<u64>) -> Vec<(Range<u64>, T)> {
        self.cut(range.start);
        self.cut(range.end);
        let found: Vec<_> = self.overlapping(range).collect();
        for (part, _) in &found {
            self.parts.remove(&part.start);
        }
        found
    }

    /// Makes one part of the two that meet at `at`, if one value continues the other. Returns whether it
    /// did.
    pub fn join(&mut self, at: u64) -> bool {
        let Some((&start, &(end, first))) = self.parts.range(..at).next_back() else {
            return false;
        };
        let Some(&(last, second)) = self.parts.get(&at) else { return false };
        if end != at || first.skip(at - start) != second {
            return false;
        }
        self.parts.remove(&at);
        self.parts.insert(start, (last, first));
        true
    }

    /// Returns what is in a range in order, cut to it.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, T)> + '_ {
        let (from, to) = (range.start, range.end.max(range.start));
        let first = self.get(from).map_or(from, |(part, _)| part.start);
        self.parts.range(first..to).filter(move |_| from < to).map(
            move |(&start, &(end, value))| {
                let at = start.max(from);
                (at..end.min(to), value.skip(at - start))
            },
        )
    }

    /// Returns the parts of a range where nothing is.
    pub fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut at = range.start;
        let mut gaps = Vec::new();
        for (part, _) in self.overlapping(range.clone()) {
            if at < part.start {
                gaps.push(at..part.start);
            }
            at = part.end;
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    /// Returns all parts in order.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, T)> + '_ {
        self.parts.iter().map(|(&start, &(end, value))| (start..end, value))
    }

    /// Returns whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns how many parts there are.
    pub fn len(&self) -> usize {
        self.parts.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A value that continues: byte `n` of a range has the value of its start and `n`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct From(u64);

    impl Part for From {
        fn skip(self, by: u64) -> Self {
            Self(self.0 + by)
        }
    }

    proptest! {
        #[test]
        fn a_map_of_ranges_behaves_as_a_map_of_bytes(
            operations in prop::collection::vec((0..3_u8, 0..60_u64, 0..20_u64, 0..9_u64), 1..60),
        ) {
            let (mut map, mut bytes) = (RangeMap::default(), [None; 100]);
            for (what, start, len, value) in operations {
                let range = start..start + len;
                let slice = start as usize..(start + len) as usize;
                match what {
                    0 if len > 0 => {
                        map.remove(range.clone());
                        map.insert(range.clone(), From(value * 1000));
                        for at in range {
                            bytes[at as usize] = Some(value * 1000 + at - start);
                        }
                    }
                    1 => {
                        let removed = map.remove(range);
                        let count: u64 = removed.iter().map(|(part, _)| part.end - part.start).sum();
                        prop_assert_eq!(count as usize, bytes[slice.clone()].iter().flatten().count());
                        bytes[slice].fill(None);
                    }
                    _ => {
                        map.cut(start);
                        map.join(start + len);
                    }
                }
                let mut seen = [None; 100];
                for (part, value) in map.iter() {
                    for at in part.clone() {
                        seen[at as usize] = Some(value.skip(at - part.start).0);
                    }
                }
                prop_assert_eq!(seen, bytes);
                let missing: u64 = map.gaps(0..100).iter().map(|gap| gap.end - gap.start).sum();
                prop_assert_eq!(missing as usize, bytes.iter().filter(|byte| byte.is_none()).count());
            }
        }
    }

    #[test]
    fn parts_join_only_where_one_continues_the_other() {
        let mut map = RangeMap::default();
        map.insert(0..4, From(10));
        map.insert(4..6, From(14));
        map.insert(6..8, From(0));
        assert!(map.join(4) && !map.join(6) && !map.join(8));
        assert_eq!(map.iter().collect::<Vec<_>>(), [(0..6, From(10)), (6..8, From(0))]);
        assert_eq!((map.get(5), map.get(8)), (Some((0..6, From(10))), None));
    }
}

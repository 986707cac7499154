//! The waiting locks before another one, summed up, so that a look at a queue is not quadratic.

use std::collections::BTreeMap;

use super::lock::{BITS_ALL, Claim, Kind, Mode};

/// Waiting locks of one resource.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    modes: [OfMode; Mode::COUNT],
}

#[derive(Debug, Default)]
struct OfMode {
    is_used: bool,
    bits: u64,
    /// Ranges that do not overlap: the last byte by the first.
    ranges: BTreeMap<u64, u64>,
    /// The group, if there is one only.
    group: Option<u64>,
    has_groups: bool,
}

impl Ahead {
    pub(super) fn add(&mut self, claim: &Claim) {
        let of_mode = &mut self.modes[usize::from(claim.mode.0)];
        let is_first = !of_mode.is_used;
        of_mode.is_used = true;
        of_mode.bits |= claim.part.bits(claim.mode);
        if claim.mode == Mode::GROUP {
            let is_same = is_first || of_mode.group == Some(claim.part.value);
            of_mode.group = is_same.then_some(claim.part.value);
            of_mode.has_groups |= !is_same;
        } else if claim.kind == Kind::Extent {
            of_mode.add_range(claim.part.start, claim.part.end);
        }
    }

    /// Returns whether one of them excludes a claim.
    pub(super) fn conflicts(&self, claim: &Claim) -> bool {
        self.used().any(|(mode, of_mode)| {
            let is_group = mode == Mode::GROUP || claim.mode == Mode::GROUP;
            if mode == Mode::GROUP && claim.mode == Mode::GROUP {
                return of_mode.has_groups || of_mode.group != Some(claim.part.value);
            }
            !mode.is_compatible(claim.mode)
                && match claim.kind {
                    Kind::Plain => true,
                    Kind::Extent => is_group || of_mode.overlaps(claim.part.start, claim.part.end),
                    Kind::Inodebits => of_mode.bits & claim.part.bits(claim.mode) != 0,
                    Kind::Flock => false,
                }
        })
    }

    /// Returns whether they exclude any lock of a mode.
    pub(super) fn covers(&self, kind: Kind, mode: Mode) -> bool {
        let mut opposed = self.used().filter(|(other, _)| !other.is_compatible(mode));
        match kind {
            Kind::Plain => opposed.next().is_some(),
            Kind::Extent => opposed.any(|(other, of_mode)| {
                other == Mode::GROUP || mode == Mode::GROUP || of_mode.overlaps_all()
            }),
            Kind::Inodebits => opposed.fold(0, |bits, (_, of)| bits | of.bits) == BITS_ALL,
            Kind::Flock => false,
        }
    }

    fn used(&self) -> impl Iterator<Item = (Mode, &OfMode)> {
        let modes = self.modes.iter().enumerate().filter(|(_, of_mode)| of_mode.is_used);
        modes.map(|(mode, of_mode)| (Mode(mode as u8), of_mode))
    }
}

impl OfMode {
    fn add_range(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = (start, end);
        while let Some((&first, &last)) = self.ranges.range(..=end).next_back()
            && last >= start
        {
            (start, end) = (start.min(first), end.max(last));
            self.ranges.remove(&first);
        }
        self.ranges.insert(start, end);
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.ranges.range(..=end).next_back().is_some_and(|(_, &last)| last >= start)
    }

    fn overlaps_all(&self) -> bool {
        self.ranges.get(&0) == Some(&u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use fulmar_base::Rng;

    use super::super::lock::Part;
    use super::*;

    #[test]
    fn a_sum_excludes_what_one_of_its_locks_excludes() {
        let mut rng = Rng::new(3);
        for kind in [Kind::Extent, Kind::Inodebits, Kind::Plain] {
            for _ in 0..300 {
                let mut claim = || {
                    let mode = Mode(rng.below(7) as u8);
                    let start = rng.below(40);
                    let end = if rng.one_in(9) { u64::MAX } else { start + rng.below(9) };
                    let value = 1 + rng.below(3);
                    Claim { kind, mode, part: Part { start, end, value, more: 0 }, export: 0 }
                };
                let list: Vec<Claim> = (0..5).map(|_| claim()).collect();
                let mut ahead = Ahead::default();
                list.iter().for_each(|one| ahead.add(one));
                let asked = claim();
                let expected = list.iter().any(|one| one.conflicts(&asked));
                assert_eq!(ahead.conflicts(&asked), expected, "{asked:?} {list:?}");
                assert!(!ahead.covers(kind, asked.mode) || expected, "{asked:?} {list:?}");
            }
        }
    }
}

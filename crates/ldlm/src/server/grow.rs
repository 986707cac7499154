//! Extents grow when they are granted, so that a client needs few locks.
//! Spec: ptlrpc-ldlm-mgs §24.2.

use fulmar_lustre_wire::ldlm::Extent;

use super::lock::{Claim, Mode, Part};
use super::namespace::Namespace;
use super::resource::Resource;
use super::tree;

/// The unit of ranges in bytes: no server has larger pages that needs more.
const PAGE: u64 = 4096;
/// With so many conflicting locks, writers get this much beyond their start.
const CROWDED: u32 = 32;
const CROWDED_LEN: u64 = 32 << 20;
/// With so many waiting locks that limit it, a range does not grow down.
const WAITING_DOWN: u32 = 4;
/// With so many waiting locks, nothing grows.
const WAITING_MAX: usize = 256;

impl Namespace {
    /// Returns the range that a free lock gets.
    pub(super) fn grow(&self, place: u32, claim: &Claim) -> Part {
        let resource = &self.resources[place];
        let asked = claim.part;
        if asked.is_all() || claim.mode == Mode::GROUP || resource.waiting_len() > WAITING_MAX {
            return asked;
        }
        let Some((range, conflicting)) = self.beside_granted(resource, claim) else {
            return asked;
        };
        let range = fix(range, claim, conflicting);
        let (range, conflicting) = self.beside_waiting(resource, claim, range);
        let range = fix(range, claim, conflicting);
        Part { start: range.start.min(asked.start), end: range.end.max(asked.end), ..asked }
    }

    /// Returns the largest range beside granted locks, and how many conflict. `None` if one overlaps.
    fn beside_granted(&self, resource: &Resource, claim: &Claim) -> Option<(Part, u32)> {
        let asked = claim.part;
        let mut range = Part { start: 0, end: Extent::EOF, ..asked };
        let mut conflicting = 0_u32;
        for group in &resource.groups {
            if group.mode.is_compatible(claim.mode) {
                continue;
            }
            let part = self.locks[group.root].part;
            if group.mode == Mode::GROUP || part.overlaps(&asked) {
                return None;
            }
            range.start = asked.start;
            conflicting = conflicting.saturating_add(group.count);
            if let Some(next) = tree::start_after(&self.locks, group.root, asked.end) {
                range.end = range.end.min(next - 1);
            }
        }
        Some((range, conflicting))
    }

    /// Returns what of a range is beside waiting locks too, and how many limit it.
    fn beside_waiting(&self, resource: &Resource, claim: &Claim, range: Part) -> (Part, u32) {
        let (asked, mut range, mut conflicting) = (claim.part, range, 0);
        for waiter in resource.waiting() {
            let other = &self.locks[waiter.lock];
            let is_compatible = other.requested.is_compatible(claim.mode);
            if is_compatible && other.export != claim.export {
                continue;
            }
            conflicting += 1;
            if conflicting > WAITING_DOWN {
                range.start = asked.start;
            }
            if other.requested == Mode::GROUP {
                return (asked, conflicting);
            }
            let part = other.part;
            if !part.overlaps(&range) || part.overlaps(&asked) {
                continue;
            }
            if part.end < asked.start {
                range.start = range.start.max(part.end + 1)
            } else {
                range.end = range.end.min(part.start - 1)
            }
        }
        (range, conflicting)
    }
}

/// Limits a range of a crowded resource, and aligns it inward.
fn fix(range: Part, claim: &Claim, conflicting: u32) -> Part {
    let (asked, mut range) = (claim.part, range);
    if conflicting > CROWDED && [Mode::PW, Mode::CW].contains(&claim.mode) {
        let end = asked.start.saturating_add(CROWDED_LEN - 1);
        range.end = range.end.min(end.max(asked.end));
    }
    if range.is_all() {
        return range;
    }
    let bits = asked.start | asked.end.wrapping_add(1);
    let unit = match bits.trailing_zeros() {
        64 => 1 << 63,
        zeros => (1_u64 << zeros).max(PAGE),
    };
    let down = |at: u64| at & !(unit - 1);
    range.start = range.start.checked_add(unit - 1).map_or(asked.start, down);
    if range.end != Extent::EOF {
        // The last byte of the last whole unit; nothing below the range that was requested.
        range.end = down(range.end + 1).checked_sub(1).unwrap_or(asked.end);
    }
    range.start = range.start.min(asked.start);
    range.end = range.end.max(asked.end);
    range
}

#[cfg(test)]
mod tests {
    use super::super::lock::Kind;
    use super::*;

    fn part(start: u64, end: u64) -> Part {
        Part { start, end, value: 0, more: 0 }
    }

    fn claim(start: u64, end: u64) -> Claim {
        Claim { kind: Kind::Extent, mode: Mode::PW, part: part(start, end), export: 1 }
    }

    #[test]
    fn a_range_is_aligned_inward_to_the_unit_of_the_request() {
        let mib = claim(1 << 20, (2 << 20) - 1);
        assert_eq!(fix(part(5000, (3 << 20) + 77), &mib, 0), part(1 << 20, (3 << 20) - 1));
        assert_eq!(fix(part(0, u64::MAX - 1), &claim(0, 4095), 0), part(0, !4095 - 1));
        let odd = claim(10, 20);
        assert_eq!(fix(part(5, 9000), &odd, 0), part(10, 8191));
        assert_eq!(fix(part(5, 30), &odd, 0), part(10, 20));
        assert_eq!(fix(part(0, u64::MAX), &odd, 0), part(0, u64::MAX));
        let end = claim(u64::MAX - 5, u64::MAX);
        assert_eq!(fix(part(u64::MAX - 9, u64::MAX), &end, 0), part(u64::MAX - 5, u64::MAX));
    }

    #[test]
    fn a_writer_of_a_crowded_object_gets_32_mib() {
        let asked = claim(0, 4095);
        assert_eq!(fix(part(0, u64::MAX), &asked, 33), part(0, (32 << 20) - 1));
        let long = claim(0, (64 << 20) - 1);
        assert_eq!(fix(part(0, u64::MAX), &long, 33), part(0, (64 << 20) - 1));
    }
}

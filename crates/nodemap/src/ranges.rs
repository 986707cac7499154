//! The NIDs of nodemaps.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use fulmar_base::Errno;
use fulmar_lnet_wire::{Net, Nid, NidRange};

/// NIDs that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nids {
    /// From the first to the last, with 4-byte addresses on one network.
    Range(Nid, Nid),
    /// Those that begin with the first bits of an address.
    Prefix(Nid, u8),
}

/// Whose NIDs they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) nids: Nids,
    /// The number of the nodemap.
    pub(crate) nodemap: u32,
    /// Whether its clients are refused.
    pub(crate) is_banned: bool,
}

/// The NIDs of all nodemaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    all: BTreeMap<u32, Range>,
    served: Index,
    banned: Index,
}

/// Which range a NID is in.
#[derive(Clone, Debug, Default)]
struct Index {
    /// By the first NID: the last one, and the number of the range.
    small: BTreeMap<u64, (u64, u32)>,
    /// By network, length and bits of the prefix: the number of the range.
    large: BTreeMap<(Net, u8, u128), u32>,
}

impl Nids {
    /// Reads `10.0.0.[1-9]@tcp`, `10.0.0.0/24@tcp`, `fd00::/64@tcp`, `*@o2ib`, a NID, or two with a colon
    /// between.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some((first, last)) = text.split_once("@").and_then(|(start, rest)| {
            let (net, last) = rest.split_once(':')?;
            Some((format!("{start}@{net}"), last))
        }) {
            let nid = |text: &str| text.parse::<Nid>().map_err(|error| format!("{text}: {error}"));
            return Self::between(nid(&first)?, nid(last)?)
                .ok_or_else(|| format!("{text:?} is not a range of NIDs on one network"));
        }
        let range: NidRange = text.parse().map_err(|error| format!("{text:?}: {error}"))?;
        if let Some((nid, len)) = range.prefix() {
            return Ok(Self::Prefix(nid, len));
        }
        let (first, last) = range.bounds().ok_or_else(|| {
            format!("{text:?} has gaps, or several networks: add ranges without gaps, one by one")
        })?;
        Ok(Self::Range(first, last))
    }

    /// Returns the range of two NIDs on the same network.
    pub(crate) fn between(first: Nid, last: Nid) -> Option<Self> {
        let is_range = first.net() == last.net() && first.number() <= last.number();
        let is_small = !first.is_large() && !last.is_large() && !first.is_any() && !last.is_any();
        (is_range && is_small).then_some(Self::Range(first, last))
    }

    /// Returns the small NIDs among them.
    fn small(self) -> Option<RangeInclusive<u64>> {
        match self {
            Self::Range(first, last) => Some(first.to_small()?..=last.to_small()?),
            Self::Prefix(nid, len) => {
                let first = nid.to_small()?;
                let mask = u64::from(u32::MAX.checked_shr(len.into()).unwrap_or(0));
                Some(first & !mask..=first | mask)
            }
        }
    }
}

impl fmt::Display for Nids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(first, last) => write!(f, "start_nid: {first}, end_nid: {last}"),
            Self::Prefix(nid, len) => {
                let text = nid.to_string();
                let (address, net) = text.split_once('@').unwrap_or((&text, ""));
                write!(f, "start_nid: {address}/{len}@{net}, end_nid: {address}/{len}@{net}")
            }
        }
    }
}

impl Ranges {
    /// Adds NIDs to a nodemap. Returns their number, which is the next one unless it is given.
    ///
    /// # Errors
    /// EEXIST if some of them are in a nodemap, EINVAL if they are no NIDs that could be.
    pub(crate) fn insert(&mut self, id: Option<u32>, range: Range) -> Result<u32, Errno> {
        let next = self.all.last_key_value().map_or(1, |(last, _)| last + 1);
        let id = id.unwrap_or(next);
        if self.all.contains_key(&id) {
            return Err(Errno::EEXIST);
        }
        let index = if range.is_banned { &mut self.banned } else { &mut self.served };
        index.insert(range.nids, id)?;
        self.all.insert(id, range);
        Ok(id)
    }

    /// Removes the NIDs of a nodemap that were added so.
    ///
    /// # Errors
    /// EINVAL if they were not.
    pub(crate) fn remove(
        &mut self,
        nodemap: u32,
        nids: Nids,
        is_banned: bool,
    ) -> Result<(), Errno> {
        let range = Range { nids, nodemap, is_banned };
        let found = self.all.iter().find(|(_, other)| **other == range).map(|(id, _)| *id);
        let id = found.ok_or(Errno::EINVAL)?;
        self.all.remove(&id);
        let index = if is_banned { &mut self.banned } else { &mut self.served };
        index.retain(|other| other != id);
        Ok(())
    }

    /// Removes all NIDs of a nodemap.
    pub(crate) fn remove_all(&mut self, nodemap: u32) {
        self.all.retain(|_, range| range.nodemap != nodemap);
        let is_there = |id: u32| self.all.contains_key(&id);
        self.served.retain(is_there);
        self.banned.retain(is_there);
    }

    /// Returns the number of the nodemap of a NID, and whether it is banned. In logarithmic time.
    pub(crate) fn find(&self, nid: Nid) -> Option<(u32, bool)> {
        let banned = self.banned.find(nid).map(|id| (id, true));
        let (id, is_banned) = banned.or_else(|| Some((self.served.find(nid)?, false)))?;
        self.all.get(&id).map(|range| (range.nodemap, is_banned))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Range)> {
        self.all.iter().map(|(id, range)| (*id, *range))
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

impl Index {
    fn insert(&mut self, nids: Nids, id: u32) -> Result<(), Errno> {
        if let Some(small) = nids.small() {
            let before = self.small.range(..=*small.end()).next_back();
            if before.is_some_and(|(_, (last, _))| last >= small.start()) {
                return Err(Errno::EEXIST);
            }
            self.small.insert(*small.start(), (*small.end(), id));
            return Ok(());
        }
        let Nids::Prefix(nid, len) = nids else { return Err(Errno::EINVAL) };
        let bits = bits(nid).ok_or(Errno::EINVAL)?;
        let overlaps = |(net, other, of_other): (Net, u8, u128)| {
            let shorter = len.min(other);
            net == nid.net() && cut(bits, shorter) == cut(of_other, shorter)
        };
        if len > 128 || self.large.keys().any(|key| overlaps(*key)) {
            return Err(if len > 128 { Errno::EINVAL } else { Errno::EEXIST });
        }
        self.large.insert((nid.net(), len, cut(bits, len)), id);
        Ok(())
    }

    fn find(&self, nid: Nid) -> Option<u32> {
        if let Some(small) = nid.to_small() {
            let (_, (last, id)) = self.small.range(..=small).next_back()?;
            return (small <= *last).then_some(*id);
        }
        let bits = bits(nid)?;
        // No two of them overlap, so any that fits is the one.
        (0..=128).rev().find_map(|len| self.large.get(&(nid.net(), len, cut(bits, len))).copied())
    }

    fn retain(&mut self, keeps: impl Fn(u32) -> bool) {
        self.small.retain(|_, (_, id)| keeps(*id));
        self.large.retain(|_, id| keeps(*id));
    }
}

fn bits(nid: Nid) -> Option<u128> {
    match nid.ip()? {
        IpAddr::V6(ip) => Some(ip.into()),
        IpAddr::V4(_) => None,
    }
}

/// Returns the first bits of an address.
fn cut(bits: u128, len: u8) -> u128 {
    bits & !u128::MAX.checked_shr(len.into()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nids(text: &str) -> Nids {
        Nids::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    fn range(text: &str, nodemap: u32) -> Range {
        Range { nids: nids(text), nodemap, is_banned: false }
    }

    #[test]
    fn a_nid_is_in_the_range_that_has_it() {
        let mut ranges = Ranges::default();
        for (text, nodemap) in [
            ("10.0.0.[1-254]@tcp", 1),
            ("10.0.1.0/24@tcp", 2),
            ("*@o2ib", 3),
            ("10.9.0.1@tcp", 4),
            ("10.9.0.2@tcp:10.9.0.7@tcp", 4),
            ("fd00:1::/32@tcp", 5),
            ("fd00:2::7@tcp", 6),
        ] {
            ranges.insert(None, range(text, nodemap)).unwrap();
        }
        let find = |text: &str| ranges.find(text.parse().unwrap()).map(|(nodemap, _)| nodemap);
        for (text, nodemap) in [
            ("10.0.0.1@tcp", Some(1)),
            ("10.0.0.254@tcp", Some(1)),
            ("10.0.0.255@tcp", None),
            ("10.0.0.1@tcp1", None),
            ("10.0.1.255@tcp", Some(2)),
            ("1.2.3.4@o2ib", Some(3)),
            ("1.2.3.4@o2ib1", None),
            ("10.9.0.7@tcp", Some(4)),
            ("fd00:1:2::9@tcp", Some(5)),
            ("fd00:1:2::9@tcp1", None),
            ("fd00:2::7@tcp", Some(6)),
            ("fd00:2::8@tcp", None),
        ] {
            assert_eq!(find(text), nodemap, "{text}");
        }
    }

    #[test]
    fn ranges_do_not_overlap() {
        let mut ranges = Ranges::default();
        ranges.insert(None, range("10.0.0.[10-20]@tcp", 1)).unwrap();
        ranges.insert(None, range("fd00::/32@tcp", 1)).unwrap();
        for text in [
            "10.0.0.20@tcp",
            "10.0.0.[1-10]@tcp",
            "10.0.0.[1-99]@tcp",
            "10.0.0.[12-13]@tcp",
            "fd00::/16@tcp",
            "fd00:0:1::/48@tcp",
        ] {
            assert_eq!(ranges.insert(None, range(text, 2)), Err(Errno::EEXIST), "{text}");
        }
        assert_eq!(ranges.insert(None, range("10.0.0.21@tcp", 2)), Ok(3));
        assert_eq!(ranges.remove(2, nids("10.0.0.[10-20]@tcp"), false), Err(Errno::EINVAL));
        ranges.remove(1, nids("10.0.0.[10-20]@tcp"), false).unwrap();
        assert_eq!(ranges.find("10.0.0.10@tcp".parse().unwrap()), None);
        ranges.remove_all(2);
        assert_eq!((ranges.find("10.0.0.21@tcp".parse().unwrap()), ranges.len()), (None, 1));
    }

    #[test]
    fn banned_nids_come_first() {
        let mut ranges = Ranges::default();
        ranges.insert(None, range("10.0.0.[1-9]@tcp", 1)).unwrap();
        let banned = Range { is_banned: true, ..range("10.0.0.5@tcp", 1) };
        ranges.insert(None, banned).unwrap();
        let find = |text: &str| ranges.find(text.parse().unwrap());
        assert_eq!(
            (find("10.0.0.4@tcp"), find("10.0.0.5@tcp")),
            (Some((1, false)), Some((1, true)))
        );
    }

    #[test]
    fn only_ranges_without_gaps_are_accepted() {
        for text in [
            "10.0.0.[1-9/2]@tcp",
            "10.0.[1-2].[1-9]@tcp",
            "10.0.0.1@tcp[0-1]",
            "x",
            "",
            "10.0.0.9@tcp:10.0.0.1@tcp",
            "10.0.0.1@tcp:10.0.0.9@o2ib",
        ] {
            assert!(Nids::parse(text).is_err(), "{text}");
        }
        assert_eq!(
            nids("10.0.[1-2].*@tcp").to_string(),
            "start_nid: 10.0.1.0@tcp, end_nid: 10.0.2.255@tcp"
        );
        assert_eq!(
            nids("fd00::/64@tcp").to_string(),
            "start_nid: fd00::/64@tcp, end_nid: fd00::/64@tcp"
        );
    }
}

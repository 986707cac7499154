//! Sets of NIDs in configuration: `10.0.[1-5].*@tcp`, `192.168.0.0/16@tcp1`, `*@o2ib[0-3]`, and
//! lists of these separated by blanks or commas.
//!
//! They are not used on the wire. Spec: lnet-behaviour §13.1, lnet-wire §2.4.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

use crate::nid::{Net, NetType, Nid};
use crate::nid_text::{AddressStyle, NidError, parse_address};
use crate::number_list::{Mistake, NumberList, Piece, RangeError};

/// Networks of one type: `tcp`, `o2ib[0-3]`, `tcp*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetRange {
    kind: NetType,
    numbers: NumberList,
}

impl NetRange {
    fn parse(piece: Piece<'_>) -> Result<Self, RangeError> {
        let Some((kind, digits)) = NetType::split_name(piece.text) else {
            return Err(piece.error(NidError::Net { text: piece.text.to_owned() }));
        };
        let numbers = match digits {
            "" => NumberList::one(0),
            _ if kind == NetType::LO => {
                return Err(piece.error(NidError::NumberedLoopback { text: piece.text.to_owned() }));
            }
            _ => {
                let at = piece.text.len() - digits.len();
                NumberList::parse_piece(piece.skip(at), u16::MAX.into())?
            }
        };
        Ok(Self { kind, numbers })
    }

    /// Returns whether `net` is one of the networks.
    pub fn contains(&self, net: Net) -> bool {
        net != Net::ANY && net.kind() == self.kind && self.numbers.contains(net.number().into())
    }

    /// Returns the first `max` networks in the order of the text, or `None` for `*`.
    fn nets(&self, max: usize) -> Option<impl Iterator<Item = Net>> {
        let numbers = self.numbers.values(max)?;
        // The parser limited the numbers to 16 bits.
        Some(numbers.into_iter().map(|number| Net::new(self.kind, number as u16)))
    }
}

impl FromStr for NetRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        Self::parse(Piece::whole(text))
    }
}

impl fmt::Display for NetRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.text().unwrap_or("?"))?;
        if self.numbers != NumberList::one(0) {
            write!(f, "{}", self.numbers)?;
        }
        Ok(())
    }
}

/// The part of a pattern before the `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Addresses {
    /// `*`
    All,
    /// `10.0.[1-5].*`
    Ipv4([NumberList; 4]),
    /// `192.168.0.0/16`, or a single IPv6 address. The bits after the prefix are zero.
    Prefix { ip: IpAddr, len: u8 },
    /// `[1-20]`, on networks whose addresses are numbers.
    Numbers(NumberList),
}

impl Addresses {
    fn parse(piece: Piece<'_>, kind: NetType) -> Result<Self, RangeError> {
        let style = kind.address_style();
        match style {
            _ if piece.text.is_empty() => Err(piece.error(Mistake::Empty)),
            Some(AddressStyle::Loopback) => Ok(Self::Numbers(NumberList::one(0))),
            _ if piece.text == "*" => Ok(Self::All),
            Some(AddressStyle::Number) => match parse_address(piece.text, Net::new(kind, 0)) {
                Ok(nid) => Ok(Self::Numbers(NumberList::one(nid.number()))),
                Err(_) => NumberList::parse_piece(piece, u32::MAX).map(Self::Numbers),
            },
            _ if piece.text.contains('[') || piece.text.contains('*') => Self::parse_ipv4(piece),
            _ => Self::parse_ip(piece, kind),
        }
    }

    fn parse_ipv4(piece: Piece<'_>) -> Result<Self, RangeError> {
        let parts = piece.split(|c| c == '.')?;
        let Ok::<[Piece<'_>; 4], _>([a, b, c, d]) = parts.as_slice().try_into() else {
            return Err(piece.error(Mistake::Parts { parts: parts.len() }));
        };
        let part = |piece| NumberList::parse_piece(piece, 255);
        Ok(Self::Ipv4([part(a)?, part(b)?, part(c)?, part(d)?]))
    }

    fn parse_ip(piece: Piece<'_>, kind: NetType) -> Result<Self, RangeError> {
        let (address, prefix) = match piece.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (piece, None),
        };
        let nid = parse_address(address.text, Net::new(kind, 0));
        let ip = match nid.map(Nid::ip) {
            Ok(Some(ip)) => ip,
            Ok(None) => unreachable!("{kind:?} has IP addresses"),
            Err(error) => return Err(address.error(error)),
        };
        let max = if ip.is_ipv4() { 32 } else { 128 };
        match (prefix, ip) {
            (Some(piece), ip) => match piece.number(max) {
                Ok(len) => Ok(Self::Prefix { ip: network(ip, len as u8), len: len as u8 }),
                Err(_) => {
                    let text = piece.text.to_owned();
                    Err(piece.error(Mistake::Prefix { text, max: max as u8 }))
                }
            },
            (None, IpAddr::V4(ip)) => {
                Ok(Self::Ipv4(ip.octets().map(|part| NumberList::one(part.into()))))
            }
            (None, ip) => Ok(Self::Prefix { ip, len: 128 }),
        }
    }

    fn contains(&self, nid: Nid) -> bool {
        match (self, nid.ip()) {
            (Self::All, _) => true,
            (Self::Ipv4(parts), Some(IpAddr::V4(ip))) => {
                parts.iter().zip(ip.octets()).all(|(part, octet)| part.contains(octet.into()))
            }
            (Self::Prefix { ip, len }, Some(other)) => {
                ip.is_ipv4() == other.is_ipv4() && network(other, *len) == *ip
            }
            (Self::Numbers(list), None) => !nid.is_large() && list.contains(nid.number()),
            _ => false,
        }
    }

    /// Returns the first and the last address of 4 bytes, if all between them match.
    fn bounds(&self) -> Option<(u32, u32)> {
        match self {
            Self::All => Some((0, u32::MAX)),
            Self::Numbers(list) => list.bounds(u32::MAX),
            Self::Prefix { ip: IpAddr::V4(ip), len } => {
                Some((u32::from(*ip), u32::from(*ip) | !prefix_mask_v4(*len)))
            }
            Self::Prefix { .. } => None,
            Self::Ipv4(parts) => {
                let (mut first, mut last) = (0, 0);
                for part in parts {
                    let (low, high) = part.bounds(255)?;
                    // Where the part before has several values, this one has all.
                    if first != last && (low, high) != (0, 255) {
                        return None;
                    }
                    (first, last) = (first << 8 | low, last << 8 | high);
                }
                Some((first, last))
            }
        }
    }

    /// Returns the first `max` NIDs on `net`, or `None` if a `*` matches too many to list.
    fn nids(&self, net: Net, max: usize) -> Option<Vec<Nid>> {
        match self {
            Self::All => None,
            Self::Numbers(list) => {
                Some(list.values(max)?.into_iter().map(|addr| Nid::small(net, addr)).collect())
            }
            Self::Prefix { ip: IpAddr::V4(ip), len } => {
                let (first, last) = (u32::from(*ip), u32::from(*ip) | !prefix_mask_v4(*len));
                Some((first..=last).take(max).map(|addr| Nid::small(net, addr)).collect())
            }
            Self::Prefix { ip: IpAddr::V6(ip), len } => {
                let (first, last) = (u128::from(*ip), u128::from(*ip) | !prefix_mask_v6(*len));
                let ips = (first..=last).take(max).map(|addr| IpAddr::V6(addr.into()));
                Some(ips.map(|ip| Nid::of_ip(net, ip)).collect())
            }
            Self::Ipv4(parts) => {
                let mut addresses = vec![0];
                for part in parts {
                    let octets = part.values(256)?;
                    let longer = addresses
                        .iter()
                        .flat_map(|high: &u32| octets.iter().map(move |octet| high << 8 | octet));
                    addresses = longer.take(max).collect();
                }
                Some(addresses.into_iter().map(|addr| Nid::small(net, addr)).collect())
            }
        }
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Ipv4([a, b, c, d]) => write!(f, "{a}.{b}.{c}.{d}"),
            Self::Prefix { ip: IpAddr::V6(ip), len: 128 } => write!(f, "{ip}"),
            Self::Prefix { ip, len } => write!(f, "{ip}/{len}"),
            Self::Numbers(list) => write!(f, "{list}"),
        }
    }
}

/// The set of NIDs of one pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NidRange {
    addresses: Addresses,
    nets: NetRange,
}

impl NidRange {
    fn parse(piece: Piece<'_>) -> Result<Self, RangeError> {
        let (address, net) = match piece.text.rfind('@') {
            Some(at) => {
                (Piece { text: &piece.text[..at], ..piece }, NetRange::parse(piece.skip(at + 1))?)
            }
            None => (piece, NetRange { kind: NetType::TCP, numbers: NumberList::one(0) }),
        };
        Ok(Self { addresses: Addresses::parse(address, net.kind)?, nets: net })
    }

    /// Returns whether the pattern matches `nid`. It does not match the wildcard.
    pub fn matches(&self, nid: Nid) -> bool {
        self.nets.contains(nid.net()) && self.addresses.contains(nid)
    }

    /// Returns the first and the last NID, if they have 4-byte addresses on one network, and the pattern
    /// matches all between them.
    pub fn bounds(&self) -> Option<(Nid, Nid)> {
        let (number, last) = self.nets.numbers.bounds(u16::MAX.into())?;
        let net = Net::new(self.nets.kind, number as u16);
        let (first, last) = (number == last).then(|| self.addresses.bounds()).flatten()?;
        Some((Nid::small(net, first), Nid::small(net, last)))
    }

    /// Returns the NID and the length of a pattern for 16-byte addresses with the same first bits.
    pub fn prefix(&self) -> Option<(Nid, u8)> {
        let (number, last) = self.nets.numbers.bounds(u16::MAX.into())?;
        match self.addresses {
            Addresses::Prefix { ip: IpAddr::V6(ip), len } if number == last => {
                Some((Nid::of_ip(Net::new(self.nets.kind, number as u16), ip.into()), len))
            }
            _ => None,
        }
    }

    /// Returns the NIDs, if they are at most `max`.
    pub fn expand(&self, max: usize) -> Result<Vec<Nid>, ExpandError> {
        let enough = max.saturating_add(1);
        let unbounded = || ExpandError::Unbounded { range: self.to_string() };
        let mut nids = Vec::new();
        for net in self.nets.nets(enough).ok_or_else(unbounded)? {
            nids.extend(self.addresses.nids(net, enough).ok_or_else(unbounded)?);
            if nids.len() > max {
                return Err(ExpandError::TooMany { range: self.to_string(), max });
            }
        }
        Ok(nids)
    }
}

impl FromStr for NidRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        Self::parse(Piece::whole(text))
    }
}

impl fmt::Display for NidRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.addresses, self.nets)
    }
}

/// Why the NIDs of a pattern cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum ExpandError {
    /// A `*` can only be matched.
    #[error("{range} cannot be listed: write a range such as [1-20] in place of the \"*\"")]
    Unbounded { range: String },
    /// There are more NIDs than the limit of the caller.
    #[error("{range} has more than {max} NIDs: write smaller ranges")]
    TooMany { range: String, max: usize },
}

/// Patterns separated by blanks or commas. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NidList {
    ranges: Vec<NidRange>,
}

impl NidList {
    /// Returns the patterns in the order of the text.
    pub fn ranges(&self) -> &[NidRange] {
        &self.ranges
    }

    /// Returns whether one of the patterns matches `nid`.
    pub fn matches(&self, nid: Nid) -> bool {
        self.ranges.iter().any(|range| range.matches(nid))
    }

    /// Returns the NIDs without repetition in the order of the text, if they are at most `max`.
    pub fn expand(&self, max: usize) -> Result<Vec<Nid>, ExpandError> {
        let (mut nids, mut seen) = (Vec::new(), BTreeSet::new());
        for range in &self.ranges {
            nids.extend(range.expand(max)?.into_iter().filter(|nid| seen.insert(*nid)));
            if nids.len() > max {
                return Err(ExpandError::TooMany { range: self.to_string(), max });
            }
        }
        Ok(nids)
    }
}

impl FromStr for NidList {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let whole = Piece::whole(text);
        let items = whole.split(|c| c == ',' || c.is_whitespace())?;
        let items = items.into_iter().filter(|item| !item.text.is_empty());
        let ranges = items.map(NidRange::parse).collect::<Result<Vec<_>, _>>()?;
        if ranges.is_empty() {
            return Err(whole.error(Mistake::Empty));
        }
        Ok(Self { ranges })
    }
}

impl fmt::Display for NidList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.ranges.iter().enumerate() {
            write!(f, "{}{range}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Returns `ip` with all bits after the first `len` cleared.
fn network(ip: IpAddr, len: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip) & prefix_mask_v4(len)).into(),
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) & prefix_mask_v6(len)).into(),
    }
}

fn prefix_mask_v4(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

fn prefix_mask_v6(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

#[cfg(test)]
mod tests;

//! NIDs: addresses of nodes on networks.
//!
//! ```text
//! small, a u64      63..56 zero   55..48 net type   47..32 net number   31..0 address
//! large, 20 bytes   0 size u8     1 net type u8     2 net number u16 BE 4 address [16]
//! ```
//!
//! `size` is the number of bytes of the NID less 8: 0 for a 4-byte address, 12 for a 16-byte one.
//! A large NID is a byte string: no byte order changes any part of it. Spec: lnet-wire §2.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fulmar_wire::{DecodeError, Reader, Writer, wire_enum};

wire_enum! {
    /// The type of a network, which selects the LND.
    pub struct NetType(u8) {
        /// TCP, by the socket LND.
        TCP = 2,
        /// InfiniBand and RoCE, by the verbs LND.
        O2IB = 5,
        /// Loopback.
        LO = 9,
        /// Cray Gemini and Aries.
        GNI = 13,
        /// Cray Gemini over IP.
        GIP = 14,
        /// Portals 4.
        PTLF = 15,
        /// libfabric in the kernel.
        KFI = 16,
        /// Tofu; reserved.
        TOFU = 17,
        /// Amazon EFA.
        EFA = 18,
        /// BXI 3.
        BXI3F = 19,
    }
}

/// A network: its type and its number, `tcp1` for example.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Net(pub u32);

impl Net {
    /// Every network.
    pub const ANY: Self = Self(u32::MAX);
    /// The network of `0@lo`.
    pub const LOOPBACK: Self = Self::new(NetType::LO, 0);
    /// `tcp`, the default network.
    pub const TCP: Self = Self::new(NetType::TCP, 0);

    /// Returns the network of `kind` with `number`.
    pub const fn new(kind: NetType, number: u16) -> Self {
        Self((kind.0 as u32) << 16 | number as u32)
    }

    /// Returns the type of the network.
    pub const fn kind(self) -> NetType {
        NetType((self.0 >> 16) as u8)
    }

    /// Returns the number that follows the type's name.
    pub const fn number(self) -> u16 {
        self.0 as u16
    }
}

/// The address of a node's interface on a network.
///
/// The order is that of the 20 bytes of the large form: two nodes that dial each other use it to
/// decide which connection is kept.
#[doc(alias = "lnet_nid")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nid {
    size: u8,
    kind: NetType,
    number: u16,
    addr: [u8; 16],
}

impl Nid {
    /// Matches every NID. All ones on the wire.
    pub const ANY: Self =
        Self { size: 0xff, kind: NetType(WILDCARD), number: 0xffff, addr: [0xff; 16] };
    /// `0@lo`: this node.
    pub const LOOPBACK: Self = Self { size: 0, kind: NetType::LO, number: 0, addr: [0; 16] };
    /// Bytes in the large form.
    pub const LARGE_LEN: usize = 20;

    /// Returns the NID of a 4-byte address.
    pub const fn small(net: Net, addr: u32) -> Self {
        let [a, b, c, d] = addr.to_be_bytes();
        let mut bytes = [0; 16];
        (bytes[0], bytes[1], bytes[2], bytes[3]) = (a, b, c, d);
        Self { size: 0, kind: net.kind(), number: net.number(), addr: bytes }
    }

    /// Returns the NID of an IP address.
    pub fn of_ip(net: Net, ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self::small(net, ip.into()),
            IpAddr::V6(ip) => {
                Self { size: 12, kind: net.kind(), number: net.number(), addr: ip.octets() }
            }
        }
    }

    /// Converts the small form, a `u64` in native order. Type 0xff is the wildcard, whatever the
    /// other bits are.
    pub const fn from_small(nid: u64) -> Self {
        let net = Net((nid >> 32) as u32 & 0x00ff_ffff);
        if net.kind().0 == WILDCARD {
            return Self::ANY;
        }
        Self::small(net, nid as u32)
    }

    /// Returns the small form; only a 4-byte address has one.
    pub fn to_small(self) -> Option<u64> {
        if self.is_any() {
            return Some(u64::MAX);
        }
        let [a, b, c, d, ..] = self.addr;
        let addr = u32::from_be_bytes([a, b, c, d]);
        (self.size == 0).then(|| u64::from(self.net().0) << 32 | u64::from(addr))
    }

    /// Returns the network.
    pub const fn net(self) -> Net {
        if self.kind.0 == WILDCARD { Net::ANY } else { Net::new(self.kind, self.number) }
    }

    /// Returns whether this is the wildcard, [`Nid::ANY`].
    pub const fn is_any(self) -> bool {
        self.kind.0 == WILDCARD
    }

    /// Returns whether this is [`Nid::LOOPBACK`].
    pub fn is_loopback(self) -> bool {
        self == Self::LOOPBACK
    }

    /// Returns whether the address has more than four bytes, so that there is no small form.
    pub const fn is_large(self) -> bool {
        self.size != 0 && self.kind.0 != WILDCARD
    }

    /// Returns the first four bytes of the address as a number: the whole address of a small NID.
    pub fn number(self) -> u32 {
        let [a, b, c, d, ..] = self.addr;
        u32::from_be_bytes([a, b, c, d])
    }

    /// Returns the IP address of a NID on `tcp`, `o2ib`, `efa` or `gip`.
    pub fn ip(self) -> Option<IpAddr> {
        let is_ip = matches!(self.kind, NetType::TCP | NetType::O2IB | NetType::EFA | NetType::GIP);
        match self.size {
            0 if is_ip => Some(Ipv4Addr::from(self.number()).into()),
            12 if is_ip => Some(Ipv6Addr::from(self.addr).into()),
            _ => None,
        }
    }

    /// Returns the 20 bytes of the large form.
    pub fn to_large(self) -> [u8; Self::LARGE_LEN] {
        let [high, low] = self.number.to_be_bytes();
        let mut bytes = [0; Self::LARGE_LEN];
        let (head, addr) = bytes.split_at_mut(4);
        head.copy_from_slice(&[self.size, self.kind.0, high, low]);
        addr.copy_from_slice(&self.addr);
        bytes
    }

    /// Returns how many of the 20 bytes are used: 8, or 20 for a 16-byte address.
    pub fn large_len(self) -> usize {
        (usize::from(self.size) + 8).min(Self::LARGE_LEN)
    }

    /// Converts the 20 bytes of the large form. Type 0xff is the wildcard, whatever the rest is.
    ///
    /// # Errors
    /// If the address has neither 4 nor 16 bytes, or the bytes after a short one are not zero:
    /// equal NIDs have equal bytes.
    pub fn from_large(bytes: [u8; Self::LARGE_LEN]) -> Result<Self, DecodeError> {
        let [size, kind, high, low, addr @ ..] = bytes;
        if kind == WILDCARD {
            return Ok(Self::ANY);
        }
        let [_, _, _, _, tail @ ..] = addr;
        if size != 0 && size != 12 {
            return Err(DecodeError::Range { field: "nid.size", got: size.into() });
        }
        if size == 0 && tail != [0; 12] {
            return Err(DecodeError::Range { field: "nid.address", got: 1 });
        }
        let number = u16::from_be_bytes([high, low]);
        Ok(Self { size, kind: NetType(kind), number, addr })
    }

    /// Returns integers with the order of the 20 bytes, for fast comparisons: tables are ordered by
    /// NID.
    #[inline]
    fn rank(self) -> (u32, u128) {
        let [high, low] = self.number.to_be_bytes();
        let head = u32::from_be_bytes([self.size, self.kind.0, high, low]);
        (head, u128::from_be_bytes(self.addr))
    }

    /// Reads a small NID in the reader's order.
    pub fn decode_small(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        Ok(Self::from_small(r.u64(field)?))
    }

    /// Reads a large NID.
    pub fn decode_large(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        Self::from_large(r.array(field)?)
    }

    /// Writes the small form in the writer's order.
    ///
    /// # Panics
    /// If the NID has none: the caller ensures that a connection over IPv4 carries no IPv6 NID.
    pub fn encode_small(self, w: &mut Writer<'_>) {
        w.u64(self.to_small().unwrap_or_else(|| panic!("{self:?} has no small form")));
    }

    /// Writes the large form.
    pub fn encode_large(self, w: &mut Writer<'_>) {
        w.bytes(&self.to_large());
    }
}

impl PartialOrd for Nid {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Nid {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// The net type of the wildcard.
const WILDCARD: u8 = 0xff;

/// The PID of a process on a node. Lustre always uses [`Pid::LUSTRE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub u32);

impl Pid {
    /// Lustre, on every node.
    #[doc(alias = "LNET_PID_LUSTRE")]
    pub const LUSTRE: Self = Self(12345);
    /// Matches every process.
    #[doc(alias = "LNET_PID_ANY")]
    pub const ANY: Self = Self(u32::MAX);
    /// Set in the PID that a node assigns to a peer whose source port is not privileged.
    #[doc(alias = "LNET_PID_USERFLAG")]
    pub const USER_FLAG: u32 = 1 << 31;
}

/// A process on a node on a network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// The node.
    pub nid: Nid,
    /// The process there.
    pub pid: Pid,
}

impl ProcessId {
    /// Matches every process on every node.
    pub const ANY: Self = Self { nid: Nid::ANY, pid: Pid::ANY };

    /// Returns Lustre's process on the node.
    pub const fn lustre(nid: Nid) -> Self {
        Self { nid, pid: Pid::LUSTRE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_forms_agree() {
        let nid = Nid::small(Net::new(NetType::TCP, 1), 0x0a00_0102);
        assert_eq!(nid.to_small(), Some(0x0002_0001_0a00_0102));
        assert_eq!(Nid::from_small(0x0002_0001_0a00_0102), nid);
        assert_eq!(nid.to_large()[..8], [0, 2, 0, 1, 10, 0, 1, 2]);
        assert_eq!(Nid::from_large(nid.to_large()), Ok(nid));
        assert_eq!(Nid::LOOPBACK.to_small(), Some(0x0009_0000_0000_0000));
    }

    #[test]
    fn wildcards_map_onto_each_other() {
        assert_eq!(Nid::from_small(u64::MAX), Nid::ANY);
        assert_eq!(Nid::ANY.to_small(), Some(u64::MAX));
        assert_eq!(Nid::ANY.to_large(), [0xff; 20]);
        assert_eq!(Nid::from_large([0xff; 20]), Ok(Nid::ANY));
        assert_eq!(Nid::from_small(0x00ff_0001_0000_0002), Nid::ANY);
    }

    #[test]
    fn a_large_nid_has_no_small_form() {
        let nid = Nid::of_ip(Net::TCP, "2001:db8::1".parse().unwrap());
        assert_eq!(nid.to_small(), None);
        assert_eq!(nid.to_large()[..6], [12, 2, 0, 0, 0x20, 0x01]);
        assert_eq!(nid.ip(), Some("2001:db8::1".parse().unwrap()));
        for size in [1, 11, 13] {
            let mut bad = nid.to_large();
            bad[0] = size;
            let error = DecodeError::Range { field: "nid.size", got: size.into() };
            assert_eq!(Nid::from_large(bad), Err(error));
        }
    }

    #[test]
    fn bytes_after_a_short_address_are_refused() {
        let mut bytes = Nid::small(Net::TCP, 1).to_large();
        bytes[19] = 1;
        let error = DecodeError::Range { field: "nid.address", got: 1 };
        assert_eq!(Nid::from_large(bytes), Err(error));
    }

    #[test]
    fn order_is_that_of_the_bytes() {
        let a = Nid::small(Net::TCP, 1);
        let b = Nid::small(Net::TCP, 2);
        let c = Nid::small(Net::new(NetType::TCP, 1), 0);
        assert!(a < b && b < c);
        assert!(c < Nid::of_ip(Net::TCP, "::1".parse().unwrap()));
    }
}

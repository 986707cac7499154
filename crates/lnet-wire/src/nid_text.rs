//! The text of NIDs: `10.0.0.1@tcp1`, `2001:db8::1@tcp`, `0@lo`, `12345-10.0.0.1@tcp`.
//!
//! The number 0 of a network is never printed, and an address without a network is on `tcp`.
//! Spec: lnet-wire §2.4.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use thiserror::Error;

use crate::nid::{Net, NetType, Nid, Pid, ProcessId};

/// Why text is not a NID, a network or a process, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum NidError {
    /// The type of the network is unknown, or it is not followed by a number.
    #[error(
        "{text:?} is not a network: write {names} and then, unless it is 0, a number, as in tcp1",
        names = net_names()
    )]
    Net { text: String },
    /// The number of the network is too large.
    #[error("the number of network {text:?} is too large: use one from 0 to 65535")]
    NetNumber { text: String },
    /// There is one loopback, and it has no number.
    #[error("{text:?} is not a network: the loopback network is written lo, without a number")]
    NumberedLoopback { text: String },
    /// The address is not valid on the network.
    #[error("{text:?} is not an address on {net}: write {wanted}", wanted = wanted_address(*net))]
    Address { text: String, net: Net },
    /// One NID is needed, and a wildcard matches many.
    #[error("{text:?} matches many NIDs where one is needed: write an address in its place")]
    Wildcard { text: String },
    /// The text before the `-` is not a PID.
    #[error("{text:?} is not a PID: write a number, which is 12345 for Lustre, before the \"-\"")]
    Pid { text: String },
}

/// Names in the order in which they are tried, as in the specification.
const NAMES: [(NetType, &str); 9] = [
    (NetType::LO, "lo"),
    (NetType::TCP, "tcp"),
    (NetType::O2IB, "o2ib"),
    (NetType::GNI, "gni"),
    (NetType::GIP, "gip"),
    (NetType::PTLF, "ptlf"),
    (NetType::KFI, "kfi"),
    (NetType::EFA, "efa"),
    (NetType::BXI3F, "bxi3f"),
];

/// The form of the addresses of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressStyle {
    /// Always 0.
    Loopback,
    /// IPv4 or IPv6.
    Ip,
    /// IPv4.
    Ipv4,
    /// A number.
    Number,
}

impl NetType {
    /// Returns the name that the type has in a NID, such as `tcp`, if it has one.
    pub fn text(self) -> Option<&'static str> {
        NAMES.iter().find(|(kind, _)| *kind == self).map(|(_, name)| *name)
    }

    pub(crate) fn address_style(self) -> Option<AddressStyle> {
        match self {
            Self::LO => Some(AddressStyle::Loopback),
            Self::TCP | Self::O2IB | Self::EFA => Some(AddressStyle::Ip),
            Self::GIP => Some(AddressStyle::Ipv4),
            Self::GNI | Self::PTLF | Self::KFI | Self::BXI3F => Some(AddressStyle::Number),
            _ => None,
        }
    }

    /// Splits the name of a type from the start of `text`.
    pub(crate) fn split_name(text: &str) -> Option<(Self, &str)> {
        NAMES.iter().find_map(|(kind, name)| Some((*kind, text.strip_prefix(name)?)))
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind().text(), self.number()) {
            _ if *self == Self::ANY => f.write_str("<?>"),
            (Some(name), 0) => f.write_str(name),
            (Some(name), number) => write!(f, "{name}{number}"),
            (None, number) => write!(f, "<{}:{number}>", self.kind().0),
        }
    }
}

impl FromStr for Net {
    type Err = NidError;

    fn from_str(text: &str) -> Result<Self, NidError> {
        let owned = || text.to_owned();
        let Some((kind, digits)) = NetType::split_name(text) else {
            return Err(NidError::Net { text: owned() });
        };
        if digits.is_empty() {
            return Ok(Self::new(kind, 0));
        }
        if kind == NetType::LO {
            return Err(NidError::NumberedLoopback { text: owned() });
        }
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(NidError::Net { text: owned() });
        }
        let number = digits.parse().map_err(|_| NidError::NetNumber { text: owned() })?;
        Ok(Self::new(kind, number))
    }
}

impl fmt::Display for Nid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("<?>");
        }
        let net = self.net();
        match (net.kind().address_style(), self.ip()) {
            (Some(AddressStyle::Ip | AddressStyle::Ipv4), Some(ip)) => write!(f, "{ip}@{net}"),
            (Some(AddressStyle::Loopback | AddressStyle::Number), _) if !self.is_large() => {
                write!(f, "{}@{net}", self.number())
            }
            _ if !self.is_large() => write!(f, "{:x}@{net}", self.number()),
            _ => {
                // No network has such an address: show its bytes.
                let bytes = self.to_large();
                bytes[4..self.large_len()].iter().try_for_each(|b| write!(f, "{b:02x}"))?;
                write!(f, "@{net}")
            }
        }
    }
}

impl FromStr for Nid {
    type Err = NidError;

    fn from_str(text: &str) -> Result<Self, NidError> {
        let (address, net) = match text.rsplit_once('@') {
            Some((address, net)) => (address, net.parse()?),
            None => (text, Net::TCP),
        };
        parse_address(address, net)
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            _ if *self == Self::ANY => f.write_str("LNET_PID_ANY"),
            pid if pid & Self::USER_FLAG != 0 => write!(f, "U{}", pid & !Self::USER_FLAG),
            pid => write!(f, "{pid}"),
        }
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.nid)
    }
}

/// A NID without a PID means Lustre's process.
impl FromStr for ProcessId {
    type Err = NidError;

    fn from_str(text: &str) -> Result<Self, NidError> {
        match text.split_once('-') {
            Some((pid, nid)) => Ok(Self { pid: parse_pid(pid)?, nid: nid.parse()? }),
            None => Ok(Self::lustre(text.parse()?)),
        }
    }
}

macro_rules! debug_as_display {
    ($($name:ident),+) => { $(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )+ };
}

debug_as_display!(Net, Nid, Pid, ProcessId);

/// Parses an address of `net`.
pub(crate) fn parse_address(text: &str, net: Net) -> Result<Nid, NidError> {
    let nid = match net.kind().address_style() {
        // The loopback has one address, whatever the text is.
        Some(AddressStyle::Loopback) => Some(Nid::LOOPBACK),
        Some(AddressStyle::Ip) => text.parse().ok().map(|ip| Nid::of_ip(net, ip)),
        Some(AddressStyle::Ipv4) => {
            text.parse().ok().map(|ip: Ipv4Addr| Nid::of_ip(net, IpAddr::V4(ip)))
        }
        Some(AddressStyle::Number) => parse_number(text).map(|addr| Nid::small(net, addr)),
        None => None,
    };
    nid.ok_or_else(|| match text {
        "*" | "<?>" => NidError::Wildcard { text: format!("{text}@{net}") },
        _ => NidError::Address { text: text.to_owned(), net },
    })
}

/// Parses a decimal number, or a hexadecimal one after `0x`.
fn parse_number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // The standard library would accept a sign.
    let clean = digits.bytes().all(|b| b.is_ascii_alphanumeric());
    u32::from_str_radix(digits, radix).ok().filter(|_| clean)
}

fn parse_pid(text: &str) -> Result<Pid, NidError> {
    let error = || NidError::Pid { text: text.to_owned() };
    if text == "LNET_PID_ANY" {
        return Ok(Pid::ANY);
    }
    let (digits, flag) = match text.strip_prefix('U') {
        Some(digits) => (digits, Pid::USER_FLAG),
        None => (text, 0),
    };
    let pid = parse_number(digits).ok_or_else(error)?;
    // A PID with the bit of the flag is written with a U.
    if pid & Pid::USER_FLAG != 0 { Err(error()) } else { Ok(Pid(pid | flag)) }
}

fn net_names() -> String {
    let names: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
    names.join(", ").replace(", bxi3f", " or bxi3f")
}

fn wanted_address(net: Net) -> &'static str {
    match net.kind().address_style() {
        Some(AddressStyle::Loopback) => "0",
        Some(AddressStyle::Ip) => {
            "an IPv4 address such as 10.0.0.1 or an IPv6 address such as 2001:db8::1"
        }
        Some(AddressStyle::Ipv4) => "an IPv4 address such as 10.0.0.1",
        Some(AddressStyle::Number) => "a number such as 17 or 0x11",
        None => "a NID of a known network",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nid(text: &str) -> Nid {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn nids_print_in_their_usual_form() {
        for text in [
            "10.0.0.1@tcp",
            "10.0.0.1@tcp1",
            "10.1.0.3@o2ib2",
            "2001:db8::1@tcp",
            "0@lo",
            "17@gni3",
            "10.0.0.1@gip",
            "4294967295@kfi65535",
            "fe80::1@efa",
        ] {
            assert_eq!(nid(text).to_string(), text);
            assert_eq!(format!("{:?}", nid(text)), text);
        }
    }

    #[test]
    fn a_nid_has_several_forms() {
        assert_eq!(nid("10.0.0.1"), nid("10.0.0.1@tcp0"));
        assert_eq!(nid("0x11@gni"), nid("17@gni"));
        assert_eq!(nid("anything@lo"), Nid::LOOPBACK);
        assert_eq!("tcp0".parse(), Ok(Net::TCP));
    }

    #[test]
    fn nids_without_a_text_form_are_still_shown() {
        assert_eq!(Nid::ANY.to_string(), "<?>");
        assert_eq!(Nid::small(Net::new(NetType(6), 3), 0xa1).to_string(), "a1@<6:3>");
        assert_eq!(Net::new(NetType::TOFU, 1).to_string(), "<17:1>");
        let mut large = Nid::of_ip(Net::TCP, "2001:db8::1".parse().unwrap()).to_large();
        large[1] = 6;
        let text = "20010db8000000000000000000000001@<6:0>";
        assert_eq!(Nid::from_large(large).unwrap().to_string(), text);
    }

    #[test]
    fn processes_print_in_their_usual_form() {
        for text in ["12345-10.0.0.1@tcp", "U1500-10.0.0.9@tcp", "LNET_PID_ANY-10.0.0.1@tcp"] {
            assert_eq!(text.parse::<ProcessId>().unwrap().to_string(), text);
        }
        assert_eq!("10.0.0.1@tcp".parse(), Ok(ProcessId::lustre(nid("10.0.0.1@tcp"))));
        assert_eq!(ProcessId::ANY.to_string(), "LNET_PID_ANY-<?>");
        let user: ProcessId = "U1500-10.0.0.9@tcp".parse().unwrap();
        assert_eq!(user.pid, Pid(1500 | Pid::USER_FLAG));
    }

    #[test]
    fn errors_name_the_problem_and_the_correction() {
        for (text, error) in [
            ("10.0.0@tcp", "\"10.0.0\" is not an address on tcp: write an IPv4 address such as"),
            ("10.0.0.256@tcp1", "\"10.0.0.256\" is not an address on tcp1"),
            ("fd00::1@gip", "\"fd00::1\" is not an address on gip: write an IPv4 address"),
            ("+1@gni", "\"+1\" is not an address on gni: write a number such as 17 or 0x11"),
            ("", "\"\" is not an address on tcp"),
            ("10.0.0.1@", "\"\" is not a network: write lo, tcp, o2ib"),
            ("10.0.0.1@tcpx", "\"tcpx\" is not a network"),
            ("10.0.0.1@eth0", "\"eth0\" is not a network"),
            ("10.0.0.1@tcp65536", "the number of network \"tcp65536\" is too large"),
            ("0@lo1", "\"lo1\" is not a network: the loopback network is written lo"),
            ("*@tcp", "\"*@tcp\" matches many NIDs where one is needed"),
        ] {
            let got = text.parse::<Nid>().unwrap_err().to_string();
            assert!(got.starts_with(error), "{text:?}: {got}");
        }
        let error = "x-10.0.0.1@tcp".parse::<ProcessId>().unwrap_err().to_string();
        assert!(error.starts_with("\"x\" is not a PID: write a number"), "{error}");
        assert!("2147483648-10.0.0.1@tcp".parse::<ProcessId>().is_err());
    }

    fn any_nid() -> impl Strategy<Value = Nid> {
        let net = |kind: NetType| any::<u16>().prop_map(move |number| Net::new(kind, number));
        prop_oneof![
            (net(NetType::TCP), any::<IpAddr>()).prop_map(|(net, ip)| Nid::of_ip(net, ip)),
            (net(NetType::O2IB), any::<IpAddr>()).prop_map(|(net, ip)| Nid::of_ip(net, ip)),
            (net(NetType::GIP), any::<Ipv4Addr>()).prop_map(|(n, ip)| Nid::of_ip(n, ip.into())),
            (net(NetType::KFI), any::<u32>()).prop_map(|(net, addr)| Nid::small(net, addr)),
            Just(Nid::LOOPBACK),
        ]
    }

    proptest! {
        #[test]
        fn printed_nids_can_be_parsed(nid in any_nid(), pid in any::<u32>()) {
            prop_assert_eq!(nid.to_string().parse::<Nid>(), Ok(nid));
            prop_assert_eq!(nid.net().to_string().parse::<Net>(), Ok(nid.net()));
            let id = ProcessId { nid, pid: Pid(pid) };
            prop_assert_eq!(id.to_string().parse::<ProcessId>(), Ok(id));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            let _ = (text.parse::<Nid>(), text.parse::<Net>(), text.parse::<ProcessId>());
        }

        #[test]
        fn every_large_nid_can_be_shown(bytes in any::<[u8; 20]>()) {
            if let Ok(nid) = Nid::from_large(bytes) {
                prop_assert!(!nid.to_string().is_empty());
            }
        }
    }
}

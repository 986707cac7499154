//! Patterns of rules: a [`Selector`] in selection policies, a [`NidMatch`] in injected faults.
//!
//! They are not used on the wire. Spec: lnet-behaviour §12.1, §13.1, §14.3.

use std::fmt;
use std::str::FromStr;

use crate::nid::{Net, NetType, Nid};
use crate::nid_range::{NetRange, NidRange};
use crate::nid_text::NidError;
use crate::number_list::RangeError;

/// Networks or NIDs: one side of a selection policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// `tcp`, `o2ib[0-3]`: the networks themselves.
    Nets(NetRange),
    /// `10.0.[1-3].*@tcp`, `*@tcp`, `10.0.0.0/24@tcp`: NIDs on them.
    Nids(NidRange),
}

impl Selector {
    /// Returns whether this selects networks, and not NIDs.
    pub fn is_net(&self) -> bool {
        matches!(self, Self::Nets(_))
    }

    /// Returns whether `nid` or its network is selected.
    pub fn contains(&self, nid: Nid) -> bool {
        match self {
            Self::Nets(nets) => nets.contains(nid.net()),
            Self::Nids(nids) => nids.matches(nid),
        }
    }

    /// Returns whether the network itself is selected, and not only NIDs on it.
    pub fn contains_net(&self, net: Net) -> bool {
        matches!(self, Self::Nets(nets) if nets.contains(net))
    }
}

impl FromStr for Selector {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        // An IPv6 address without a network may begin with the name of one: "efa0::1".
        match NetType::split_name(text) {
            Some(_) if !text.contains(['@', ':']) => text.parse().map(Self::Nets),
            _ => text.parse().map(Self::Nids),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nets(nets) => nets.fmt(f),
            Self::Nids(nids) => nids.fmt(f),
        }
    }
}

/// One NID, all of a network, or all there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NidMatch {
    /// Every NID. Read from `*`, shown as `<?>`.
    #[default]
    Any,
    /// Every NID of a network. Read from `*@tcp`, shown as `255.255.255.255@tcp`.
    Net(Net),
    /// This one.
    Nid(Nid),
}

impl NidMatch {
    /// Returns whether `nid` matches.
    pub fn matches(self, nid: Nid) -> bool {
        match self {
            Self::Any => true,
            Self::Net(net) => nid.net() == net,
            Self::Nid(one) => nid == one,
        }
    }
}

impl FromStr for NidMatch {
    type Err = NidError;

    fn from_str(text: &str) -> Result<Self, NidError> {
        match text.split_once('@') {
            _ if matches!(text, "*" | "<?>") => Ok(Self::Any),
            Some(("*" | EVERY_ADDRESS, net)) => net.parse().map(Self::Net),
            _ => text.parse().map(Self::Nid),
        }
    }
}

impl fmt::Display for NidMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => Nid::ANY.fmt(f),
            Self::Net(net) => write!(f, "{EVERY_ADDRESS}@{net}"),
            Self::Nid(nid) => nid.fmt(f),
        }
    }
}

/// The address that means all NIDs of a network, whatever the form of its addresses is.
const EVERY_ADDRESS: &str = "255.255.255.255";

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(text: &str) -> Selector {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn nid(text: &str) -> Nid {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_network_is_selected_by_its_name_and_not_by_nids_on_it() {
        for text in ["tcp", "o2ib[0-3]", "tcp*", "gni7"] {
            assert!(selector(text).is_net(), "{text}");
        }
        for text in ["*@tcp", "10.0.0.1", "10.0.[1-3].*@tcp[0-2]", "fd00::1", "efa0::1", "7@gni"] {
            assert!(!selector(text).is_net(), "{text}");
        }
        let tcp = selector("tcp");
        assert!(tcp.contains_net(Net::TCP) && tcp.contains(nid("10.0.0.1@tcp")));
        assert!(!tcp.contains_net(nid("10.0.0.1@tcp1").net()) && !tcp.contains(nid("1@gni")));
        assert!(selector("*@tcp").contains(nid("10.0.0.1@tcp")));
        assert!(!selector("*@tcp").contains_net(Net::TCP));
    }

    #[test]
    fn patterns_contain_their_nids() {
        let some = selector("10.0.[1-3].*@tcp[0-2]");
        assert!(some.contains(nid("10.0.3.250@tcp2")));
        for other in ["10.0.4.1@tcp", "10.0.1.1@tcp3", "10.0.1.1@o2ib", "fd00::1@tcp"] {
            assert!(!some.contains(nid(other)), "{other}");
        }
        assert!(selector("10.0.0.0/24@tcp").contains(nid("10.0.0.77@tcp")));
        assert!(selector("[1-5]@kfi").contains(nid("3@kfi")));
        assert!(selector("fd00::1@tcp").contains(nid("fd00::1@tcp")));
        assert!(!selector("fd00::1@tcp").contains(nid("fd00::2@tcp")));
        assert!(!selector("*@tcp").contains(Nid::ANY));
    }

    #[test]
    fn selectors_print_in_their_usual_form() {
        for text in ["tcp", "o2ib[0-3]", "10.0.[1-3].*@tcp[0-2]", "*@tcp", "10.0.0.0/24@tcp"] {
            assert_eq!(selector(text).to_string(), text);
        }
        assert_eq!(selector("10.0.0.1").to_string(), "10.0.0.1@tcp");
    }

    #[test]
    fn an_invalid_selector_is_reported_with_its_column() {
        for (text, error) in [
            ("", "column 1: nothing is given here"),
            ("tcpx", "column 4: \"x\" is not a number"),
            ("10.0.0.[1-@tcp", "column 8: brackets are not balanced"),
            ("ethernet", "column 1: \"ethernet\" is not an address on tcp"),
        ] {
            let got = text.parse::<Selector>().unwrap_err().to_string();
            assert!(got.starts_with(error), "{text:?}: {got}");
        }
    }

    #[test]
    fn a_match_is_one_nid_or_a_network_or_all() {
        for (text, shown, of_tcp, of_tcp1) in [
            ("*", "<?>", true, true),
            ("*@tcp1", "255.255.255.255@tcp1", false, true),
            ("255.255.255.255@tcp", "255.255.255.255@tcp", true, false),
            ("10.0.0.1@tcp", "10.0.0.1@tcp", true, false),
            ("10.0.0.2@tcp", "10.0.0.2@tcp", false, false),
        ] {
            let matching: NidMatch = text.parse().unwrap();
            assert_eq!(matching.to_string(), shown);
            assert_eq!(shown.parse(), Ok(matching));
            assert_eq!(matching.matches(nid("10.0.0.1@tcp")), of_tcp, "{text}");
            assert_eq!(matching.matches(nid("10.0.0.1@tcp1")), of_tcp1, "{text}");
        }
        for bad in ["", "*@", "*@eth0", "10.0.0.*@tcp"] {
            assert!(bad.parse::<NidMatch>().is_err(), "{bad}");
        }
    }
}

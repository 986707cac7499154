//! NIDs that may connect from other addresses than their own.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use fulmar_lnet_wire::{Net, Nid, NidRange};

/// NIDs that are believed from other addresses than their own, such as those of nodes behind NAT:
/// `10.1.0.*@tcp from 192.0.2.7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptNid {
    nids: NidRange,
    /// The addresses, as NIDs of a network of their own.
    from: NidRange,
}

impl AcceptNid {
    /// Parses rules that are separated by semicolons.
    ///
    /// # Errors
    /// Which rule cannot be parsed, and how one is written.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, AcceptNidError> {
        let rules = text.split(';').map(str::trim).filter(|rule| !rule.is_empty());
        rules.map(str::parse).collect()
    }

    /// Returns whether `nid` may connect from `address`.
    pub fn accepts(&self, nid: Nid, address: IpAddr) -> bool {
        self.nids.matches(nid) && self.from.matches(Nid::of_ip(Net::TCP, address))
    }
}

/// A rule that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptNidError(String);

impl fmt::Display for AcceptNidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(rule) = self;
        write!(
            f,
            "\"{rule}\" is not a rule such as \"10.1.0.5@tcp from 192.0.2.7\" or \"10.1.0.*@tcp \
             from 192.0.2.0/24\""
        )
    }
}

impl std::error::Error for AcceptNidError {}

impl FromStr for AcceptNid {
    type Err = AcceptNidError;

    fn from_str(text: &str) -> Result<Self, AcceptNidError> {
        let error = || AcceptNidError(text.to_owned());
        let (nids, from) = text.split_once(" from ").ok_or_else(error)?;
        let nids = nids.trim().parse().map_err(|_| error())?;
        // The addresses alone: a network there would mean something else.
        let from = from.trim();
        if from.contains('@') {
            return Err(error());
        }
        let from = format!("{from}@tcp").parse().map_err(|_| error())?;
        Ok(Self { nids, from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_nids_and_the_addresses_that_they_come_from() {
        let rules = AcceptNid::parse_list(
            "10.1.0.5@tcp from 192.0.2.7; 10.2.0.[1-3]@tcp1 from 198.51.100.0/24;",
        );
        let [one, some] = &rules.unwrap()[..] else { panic!("two rules") };
        let accepts = |rule: &AcceptNid, nid: &str, address: &str| {
            rule.accepts(nid.parse().unwrap(), address.parse().unwrap())
        };
        assert!(accepts(one, "10.1.0.5@tcp", "192.0.2.7"));
        assert!(!accepts(one, "10.1.0.5@tcp", "192.0.2.8"));
        assert!(!accepts(one, "10.1.0.6@tcp", "192.0.2.7"));
        assert!(!accepts(one, "10.1.0.5@tcp1", "192.0.2.7"));
        assert!(accepts(some, "10.2.0.3@tcp1", "198.51.100.200"));
        assert!(!accepts(some, "10.2.0.4@tcp1", "198.51.100.200"));
    }

    #[test]
    fn what_is_not_a_rule_is_shown() {
        for text in ["10.1.0.5@tcp", "10.1.0.5 from x", "1.2.3.4@tcp from 1.2.3.4@tcp"] {
            let error = AcceptNid::parse_list(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("\"{text}\" is not a rule")), "{error}");
        }
        assert_eq!(AcceptNid::parse_list(" ; "), Ok(vec![]));
    }
}

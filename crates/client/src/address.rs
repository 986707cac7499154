//! Where a file system is, as it is given to mount.

use std::fmt;
use std::str::FromStr;

use fulmar_lnet_wire::Nid;

/// The NIDs of a management service and the name of a file system: `10.0.0.1@tcp:/lv`.
///
/// Commas separate the NIDs of a node, colons those of nodes: `10.0.0.1@tcp,10.1.0.1@tcp1:10.0.0.2@tcp:/lv`.
/// A mount may have a directory of the file system as its root: `10.0.0.1@tcp:/lv/projects/a`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The NIDs of the management service, in the order in which they are tried.
    pub mgs: Vec<Nid>,
    /// The name of the file system.
    pub name: String,
    /// The directory of the file system that is the root of a mount, such as `/a/b`; empty for the whole.
    pub subdirectory: String,
    text: String,
}

/// Why a text is not the address of a file system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// There is no file system.
    #[error("{text:?} names no file system: write it as in 10.0.0.1@tcp:/lustre")]
    NoFileSystem {
        /// The text.
        text: String,
    },
    /// The file system has no valid name.
    #[error("{name:?} is not a valid name of a file system: it has 1 to 8 letters, digits, _ or -")]
    Name {
        /// The name.
        name: String,
    },
    /// A NID is not valid.
    #[error("{text:?} is not a NID: {reason}")]
    Nid {
        /// The text.
        text: String,
        /// Why.
        reason: String,
    },
}

/// The longest name of a file system.
const NAME_MAX: usize = 8;

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let text = text.trim_end_matches('/');
        let Some((nids, name)) = text.split_once(":/") else {
            return Err(AddressError::NoFileSystem { text: text.to_owned() });
        };
        let (name, subdirectory) = name.split_at(name.find('/').unwrap_or(name.len()));
        let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !(1..=NAME_MAX).contains(&name.len()) || !name.chars().all(is_valid) {
            return Err(AddressError::Name { name: name.to_owned() });
        }
        let mut mgs = Vec::new();
        for nid in split(nids) {
            let parsed = nid.parse().map_err(|error| AddressError::Nid {
                text: nid.to_owned(),
                reason: format!("{error}"),
            });
            mgs.push(parsed?);
        }
        let (name, subdirectory) = (name.to_owned(), subdirectory.to_owned());
        Ok(Self { mgs, name, subdirectory, text: text.to_owned() })
    }
}

impl Address {
    /// Returns the same file system of the management service at these NIDs.
    #[must_use]
    pub fn on(&self, mgs: &[Nid]) -> Self {
        let (mgs, name) = (mgs.to_vec(), self.name.clone());
        let subdirectory = self.subdirectory.clone();
        let nids: Vec<String> = mgs.iter().map(ToString::to_string).collect();
        let text = format!("{}:/{name}{subdirectory}", nids.join(","));
        Self { mgs, name, subdirectory, text }
    }
}

/// Splits NIDs at commas, and at the colons after their networks: IPv6 addresses contain colons.
fn split(nids: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = nids;
    loop {
        let network = rest.find('@').unwrap_or(0);
        let end = rest[network..].find([',', ':']).map(|end| network + end);
        match end {
            Some(end) => {
                parts.push(&rest[..end]);
                rest = &rest[end + 1..];
            }
            None => {
                parts.push(rest);
                return parts;
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_nids_and_a_name() {
        let nids = |text: &str| {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text.trim_end_matches('/'));
            assert_eq!(address.name, "lv");
            address.mgs.iter().map(Nid::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(nids("10.0.0.1@tcp:/lv"), "10.0.0.1@tcp");
        assert_eq!(nids("10.0.0.1@tcp:/lv/"), "10.0.0.1@tcp");
        let failover = "10.0.0.1@tcp,10.1.0.1@tcp1:10.0.0.2@tcp:/lv";
        assert_eq!(nids(failover), "10.0.0.1@tcp 10.1.0.1@tcp1 10.0.0.2@tcp");
        assert_eq!(nids("fd00::1@tcp:fd00::2@tcp:/lv"), "fd00::1@tcp fd00::2@tcp");
        assert_eq!(nids("10.0.0.1:/lv"), "10.0.0.1@tcp");
        assert_eq!(nids("10.0.0.1@tcp:/lv/a:/b/"), "10.0.0.1@tcp");
        let within: Address = "10.0.0.1@tcp:/lv/a/b".parse().unwrap();
        assert_eq!((within.name.as_str(), within.subdirectory.as_str()), ("lv", "/a/b"));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let error = |text: &str| text.parse::<Address>().unwrap_err().to_string();
        assert_eq!(
            error("/mnt/lv"),
            "\"/mnt/lv\" names no file system: write it as in 10.0.0.1@tcp:/lustre"
        );
        assert_eq!(
            error("10.0.0.1@tcp:/lustre-scratch"),
            "\"lustre-scratch\" is not a valid name of a file system: it has 1 to 8 letters, digits, _ or -"
        );
        assert!(error("10.0.0.1@tcp:/a b").contains("is not a valid name"));
        assert!(error("10.0.0@tcp:/lv").starts_with("\"10.0.0@tcp\" is not a NID: "));
        assert!(error("@:/lv").contains("is not a NID"));
        assert!(error(":/lv").contains("is not a NID"));
    }
}

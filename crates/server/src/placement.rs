//! Where clients find a target: which NIDs of its node it registers, and which other nodes may run it.

use fulmar_lnet_wire::{Net, Nid};
use fulmar_mgs::split_nodes;
use fulmar_store::{Store, StoreError};
use thiserror::Error;

use crate::join::JOINED;

/// Where clients find a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The networks whose NIDs are registered; all if there are none.
    pub networks: Vec<Net>,
    /// The other nodes that may run the target.
    pub partners: Partners,
}

/// The nodes that may run a target, each with its NIDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Partners {
    /// Only the one that registers it.
    #[default]
    None,
    /// Also these, when the one that registers it fails.
    FailNodes(Vec<Vec<Nid>>),
    /// These, each as good as the others.
    ServiceNodes(Vec<Vec<Nid>>),
}

/// Why a placement cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not a node: give its NIDs with commas, as in 10.0.0.1@tcp,10.1.0.1@tcp1")]
pub struct NodeError {
    text: String,
}

/// The key of the words.
const PLACEMENT: &[u8] = b"placement";
/// The longest text, which a registration has room for.
const LEN_MAX: usize = 3072;
/// The words, as they are kept.
const NETWORKS: &str = "network=";
const FAIL_NODE: &str = "failnode=";
const SERVICE_NODE: &str = "servicenode=";

/// Reads nodes: the NIDs of one with commas, and colons between nodes.
///
/// # Errors
/// What is not a NID.
pub fn nodes_of(text: &str) -> Result<Vec<Vec<Nid>>, NodeError> {
    let wrong = || NodeError { text: text.to_owned() };
    let nids = |node: &str| node.split(',').map(|nid| nid.parse().map_err(|_| wrong())).collect();
    split_nodes(text).into_iter().map(nids).collect()
}

impl Placement {
    /// Returns which of the NIDs of its node a target registers.
    pub(crate) fn registered(&self, own: &[Nid]) -> Vec<Nid> {
        let is_of_network =
            |nid: &&Nid| self.networks.is_empty() || self.networks.contains(&nid.net());
        let is_of_node = |nid: &&Nid| match &self.partners {
            Partners::ServiceNodes(nodes) => nodes.iter().any(|node| node.contains(nid)),
            Partners::None | Partners::FailNodes(_) => true,
        };
        own.iter().filter(is_of_network).filter(is_of_node).copied().collect()
    }

    /// Returns the parameter of the registration that names the other nodes.
    pub(crate) fn parameter(&self) -> String {
        match self.nodes() {
            [] => String::new(),
            nodes => {
                let nodes: Vec<String> = nodes.iter().map(|node| joined(node)).collect();
                format!("failover.node={}", nodes.join(":"))
            }
        }
    }

    /// Returns whether the node that registers the target is none among others.
    pub(crate) fn has_service_nodes(&self) -> bool {
        matches!(self.partners, Partners::ServiceNodes(_))
    }

    fn nodes(&self) -> &[Vec<Nid>] {
        match &self.partners {
            Partners::None => &[],
            Partners::FailNodes(nodes) | Partners::ServiceNodes(nodes) => nodes,
        }
    }

    /// Returns whether a registration has room for it.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.words().len() <= LEN_MAX
    }

    /// Returns where clients find the target of a store.
    pub(crate) fn load(store: &Store) -> Result<Self, StoreError> {
        let Some(value) = store.get(JOINED, PLACEMENT)? else { return Ok(Self::default()) };
        let text = String::from_utf8_lossy(&value).into_owned();
        let words: Vec<&str> = text.split_whitespace().collect();
        Self::of_words(&words).ok_or_else(|| StoreError::Damaged {
            place: "the target".into(),
            what: format!("the placement {text:?}"),
        })
    }

    /// Keeps it in the store of a target.
    pub(crate) fn save(&self, store: &Store) -> Result<(), StoreError> {
        let mut transaction = store.begin();
        transaction.put(JOINED, PLACEMENT, self.words().into_bytes());
        transaction.apply()?;
        store.commit()?;
        Ok(())
    }

    fn words(&self) -> String {
        let mut words = String::new();
        if !self.networks.is_empty() {
            let networks: Vec<String> = self.networks.iter().map(Net::to_string).collect();
            words += &format!(" {NETWORKS}{}", networks.join(","));
        }
        let word = if self.has_service_nodes() { SERVICE_NODE } else { FAIL_NODE };
        words.extend(self.nodes().iter().map(|node| format!(" {word}{}", joined(node))));
        words
    }

    fn of_words(words: &[&str]) -> Option<Self> {
        let mut this = Self::default();
        let (mut fail, mut service) = (Vec::new(), Vec::new());
        for word in words {
            if let Some(networks) = word.strip_prefix(NETWORKS) {
                let networks = networks.split(',').map(|net| net.parse().ok());
                this.networks = networks.collect::<Option<_>>()?;
            } else if let Some(node) = word.strip_prefix(FAIL_NODE) {
                fail.extend(nodes_of(node).ok()?);
            } else {
                service.extend(nodes_of(word.strip_prefix(SERVICE_NODE)?).ok()?);
            }
        }
        this.partners = match (fail.is_empty(), service.is_empty()) {
            (true, true) => Partners::None,
            (false, true) => Partners::FailNodes(fail),
            (true, false) => Partners::ServiceNodes(service),
            (false, false) => return None,
        };
        Some(this)
    }
}

fn joined(node: &[Nid]) -> String {
    node.iter().map(Nid::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nids(text: &str) -> Vec<Nid> {
        text.split(' ').map(|nid| nid.parse().unwrap()).collect()
    }

    #[test]
    fn a_target_registers_what_its_placement_says() {
        let own = nids("10.0.0.1@tcp 10.1.0.1@tcp1 10.2.0.1@tcp2");
        let networks: Vec<Net> = ["tcp1", "tcp2"].map(|net| net.parse().unwrap()).to_vec();
        let all = Placement::default();
        assert_eq!((all.registered(&own), all.parameter()), (own.clone(), String::new()));
        let some = Placement { networks, ..all.clone() };
        assert_eq!(some.registered(&own), own[1..]);
        let nodes = nodes_of("10.0.0.1@tcp,10.1.0.1@tcp1:10.0.0.2@tcp,10.1.0.2@tcp1").unwrap();
        let fail = Placement { partners: Partners::FailNodes(nodes.clone()), ..all };
        let parameter = "failover.node=10.0.0.1@tcp,10.1.0.1@tcp1:10.0.0.2@tcp,10.1.0.2@tcp1";
        assert_eq!((fail.registered(&own), fail.parameter().as_str()), (own.clone(), parameter));
        let service = Placement { partners: Partners::ServiceNodes(nodes), ..some };
        assert_eq!(
            (service.registered(&own), service.parameter().as_str()),
            (own[1..2].to_vec(), parameter)
        );
        assert!(service.has_service_nodes() && !fail.has_service_nodes());
    }

    #[test]
    fn words_are_read_as_they_were_written() {
        let nodes = nodes_of("10.0.0.1@tcp,fd00::1@tcp1:10.0.0.2@tcp").unwrap();
        let networks = vec!["tcp1".parse().unwrap()];
        for partners in
            [Partners::None, Partners::FailNodes(nodes.clone()), Partners::ServiceNodes(nodes)]
        {
            for networks in [vec![], networks.clone()] {
                let placement = Placement { networks, partners: partners.clone() };
                let words = placement.words();
                let words: Vec<&str> = words.split_whitespace().collect();
                assert_eq!(Placement::of_words(&words), Some(placement));
            }
        }
        for wrong in ["x", "network=?", "failnode=x"] {
            assert_eq!(Placement::of_words(&[wrong]), None);
        }
        assert!(nodes_of("").is_err() && nodes_of("10.0.0.1@tcp,,").is_err());
    }
}

//! What each node may hold of the places of a partition, so that one cannot take all.

use std::collections::BTreeMap;

use fulmar_lnet_wire::Nid;

/// What a partition keeps at most: requests that wait, are executed, or whose reply is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Requests.
    pub requests: u32,
    /// Requests of one node.
    pub of_node: u32,
    /// Requests of one node while more than half of all places, or bytes, are taken.
    pub of_node_crowded: u32,
    /// Bytes of requests; of one node a quarter of them.
    pub bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { requests: 16_384, of_node: 2048, of_node_crowded: 128, bytes: 256 << 20 }
    }
}

/// The places of a partition.
#[derive(Debug)]
pub(super) struct Shares {
    bounds: Bounds,
    nodes: BTreeMap<Nid, Usage>,
    whole: Usage,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    requests: u32,
    bytes: u64,
}

impl Shares {
    /// Beyond each bound, so many urgent requests: a node whose requests are stuck can still ping and
    /// reconnect.
    const URGENT: u32 = 16;

    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, nodes: BTreeMap::new(), whole: Usage::default() }
    }

    /// Acquires a place for a request of `len` bytes, if there is one.
    pub(super) fn take(&mut self, node: Nid, len: u32, is_urgent: bool) -> bool {
        let (bounds, whole) = (&self.bounds, self.whole);
        let held = self.nodes.get(&node).copied().unwrap_or_default();
        let is_crowded = whole.requests > bounds.requests / 2 || whole.bytes > bounds.bytes / 2;
        let of_node = if is_crowded { bounds.of_node_crowded } else { bounds.of_node };
        let more = if is_urgent { Self::URGENT } else { 0 };
        let len = u64::from(len);
        let fits = whole.requests < bounds.requests.saturating_add(more)
            && held.requests < of_node.saturating_add(more)
            && whole.bytes + len <= bounds.bytes
            && held.bytes + len <= bounds.bytes / 4;
        if fits {
            self.whole.add(len);
            self.nodes.entry(node).or_default().add(len);
        }
        fits
    }

    /// Returns a place.
    pub(super) fn give_back(&mut self, node: Nid, len: u32) {
        let held = self.nodes.get_mut(&node).expect("the node holds a place");
        held.remove(len.into());
        if held.requests == 0 {
            self.nodes.remove(&node);
        }
        self.whole.remove(len.into());
    }

    /// Returns how many places are taken.
    pub(super) fn taken(&self) -> u32 {
        self.whole.requests
    }

    /// Returns whether the sums agree.
    pub(super) fn is_consistent(&self) -> bool {
        let sum = self.nodes.values().fold(Usage::default(), |sum, held| Usage {
            requests: sum.requests + held.requests,
            bytes: sum.bytes + held.bytes,
        });
        (sum.requests, sum.bytes) == (self.whole.requests, self.whole.bytes)
    }
}

impl Usage {
    fn add(&mut self, len: u64) {
        self.requests += 1;
        self.bytes += len;
    }

    fn remove(&mut self, len: u64) {
        self.requests -= 1;
        self.bytes -= len;
    }
}

#[cfg(test)]
mod tests {
    use fulmar_lnet_wire::Net;

    use super::*;

    fn node(n: u32) -> Nid {
        Nid::small(Net::TCP, n)
    }

    #[test]
    fn a_node_has_less_when_it_is_crowded_and_urgent_requests_have_more() {
        let bounds = Bounds { requests: 20, of_node: 12, of_node_crowded: 2, bytes: 1 << 20 };
        let mut shares = Shares::new(bounds);
        let taken = (0..100).filter(|_| shares.take(node(1), 100, false)).count();
        assert_eq!(taken, 11, "more than half is taken");
        assert_eq!((0..100).filter(|_| shares.take(node(2), 100, false)).count(), 2);
        assert_eq!((0..100).filter(|_| shares.take(node(2), 100, true)).count(), 16);
        for _ in 0..taken {
            shares.give_back(node(1), 100);
        }
        assert_eq!((shares.taken(), shares.nodes.len()), (18, 1));
        assert!(shares.is_consistent());
    }

    #[test]
    fn bytes_are_limited() {
        let mut shares = Shares::new(Bounds { bytes: 1000, ..Bounds::default() });
        assert!(shares.take(node(1), 250, false));
        assert!(!shares.take(node(1), 1, true));
        assert!(shares.take(node(2), 250, false));
    }
}

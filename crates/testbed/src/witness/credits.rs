//! Credits, counted by the node and independently by the messages in its LND. Checks invariants 2,
//! 4 and 20 of lnet-behaviour §17.

use std::collections::BTreeMap;

use fulmar_base::MessageId;
use fulmar_lnet::FaultKind;
use fulmar_lnet::views::{PeerNi, Pool};
use fulmar_lnet_wire::{Header, Nid};
use fulmar_node::Node as Machine;

use super::{Directory, Terms, Verdict, require};

/// The messages that the LND holds.
#[derive(Debug)]
pub struct Credits {
    terms: Terms,
    held: BTreeMap<MessageId, HeldCredit>,
    by_peer: BTreeMap<Nid, i64>,
    by_ni: BTreeMap<Nid, i64>,
    /// Messages in transit, by the class of their buffers.
    by_class: [i64; 3],
}

#[derive(Clone, Copy, Debug)]
struct HeldCredit {
    ni: Nid,
    peer: Nid,
    class: Option<usize>,
}

/// The capacity of a small router buffer.
const SMALL: u32 = 4096;

impl Credits {
    pub(super) fn new(terms: Terms) -> Self {
        let (held, by_peer, by_ni) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { terms, held, by_peer, by_ni, by_class: [0; 3] }
    }

    /// Describes the messages that the LND still holds.
    pub(super) fn left(&self) -> String {
        let describe =
            |held: &HeldCredit| format!(" (in the LND: from {} to {})", held.ni, held.peer);
        self.held.values().map(describe).collect()
    }

    pub(super) fn in_lnd(&self, peer: Nid) -> i64 {
        self.by_peer.get(&peer).copied().unwrap_or(0)
    }

    /// Records a message that is passed to the LND, and checks that it may be.
    pub(super) fn handed(
        &mut self,
        message: MessageId,
        (ni, peer): (Nid, Nid),
        header: &Header,
        directory: &dyn Directory,
    ) -> Verdict {
        let forwards = !directory.is_own(header.source);
        let class = forwards.then(|| class(header.payload_len));
        let again = self.held.insert(message, HeldCredit { ni, peer, class }).is_some();
        require(!again, 4, || format!("{message:?} is passed to the LND twice: {header:?}"))?;
        let (to, by) = (self.by_peer.entry(peer).or_default(), self.by_ni.entry(ni).or_default());
        (*to, *by) = (*to + 1, *by + 1);
        if let Some(class) = class {
            self.by_class[class] += 1;
        }
        self.no_more_than_there_are_credits(ni, peer)
    }

    /// 4: the LND never has more messages than there are credits, of the peer and of the interface.
    fn no_more_than_there_are_credits(&self, ni: Nid, peer: Nid) -> Verdict {
        let (to, by) = (self.in_lnd(peer), self.by_ni.get(&ni).copied().unwrap_or(0));
        let Terms { peer_credits, credits, .. } = self.terms;
        require(to <= peer_credits.into() && by <= credits.into(), 4, || {
            format!("{to} of {peer_credits} to {peer}, {by} of {credits} by {ni} are in the LND")
        })
    }

    pub(super) fn returned(&mut self, message: MessageId) {
        let Some(HeldCredit { ni, peer, class }) = self.held.remove(&message) else { return };
        *self.by_peer.entry(peer).or_default() -= 1;
        *self.by_ni.entry(ni).or_default() -= 1;
        if let Some(class) = class {
            self.by_class[class] -= 1;
        }
    }

    /// 2 and 20: the credits taken from the node equal the messages in its LND, those waiting for
    /// an interface and those delayed by a rule.
    pub(super) fn agrees_with_the_node(&self, machine: &Machine) -> Verdict {
        let lnet = machine.lnet();
        let waiting: i64 = lnet.nis().iter().map(|ni| (-ni.credits).max(0)).sum();
        let delays = lnet.faults().into_iter().filter(|one| one.rule.kind() == FaultKind::Delay);
        let more = waiting + delays.map(|one| one.hits.total() as i64).sum::<i64>();
        for ni in lnet.peers().into_iter().flat_map(|peer| peer.nis) {
            self.peer_agrees(&ni, more)?;
        }
        self.pools_agree(&lnet.routing().pools)
    }

    /// 2: see [`Self::agrees_with_the_node`]; `more` messages may have a credit and be elsewhere.
    pub(super) fn peer_agrees(&self, ni: &PeerNi, more: i64) -> Verdict {
        let PeerNi { nid, credits, credits_max, .. } = *ni;
        let (taken, held) = (credits_max - credits.max(0), self.in_lnd(nid));
        require(held <= taken && taken <= held + more, 2, || {
            format!("{taken} credits of {nid} are taken, for {held} messages and at most {more}")
        })
    }

    /// 20: a message in transit has a buffer of its class.
    pub(super) fn pools_agree(&self, pools: &[Pool; 3]) -> Verdict {
        for (pool, needed) in pools.iter().zip(self.by_class) {
            let taken = i64::from(pool.buffers) - pool.credits;
            require(needed <= taken, 20, || {
                format!("{needed} buffers of this class are in use: {pool:?}")
            })?;
        }
        Ok(())
    }
}

/// 20: no payload needs a tiny buffer, up to a page a small one.
fn class(payload: u32) -> usize {
    usize::from(payload > 0) + usize::from(payload > SMALL)
}

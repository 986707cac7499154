//! Back-pressure on requests: a peer that does not take its answers is not listened to.
//!
//! Each request may leave a REPLY or an ACK behind, which waits for a credit of the peer. When too
//! many wait, the next request of that peer stays on its connection, unread, until some have gone.
//! So a connection keeps at most one request here, and a peer a bounded number of answers.

use std::collections::{BTreeMap, VecDeque};

use fulmar_base::Time;
use fulmar_lnd::{RxId, Verdict};
use fulmar_lnet_wire::{Body, Handle, Header};

use super::message::{Arrival, Origin};
use super::{Lnet, Work};
use crate::peers::PeerNiId;

/// How many answers wait for one peer NI. So many small ones fit into the buffers of two sockets:
/// two nodes that wait for each other go on.
pub(super) const ANSWERS_MAX: u32 = 512;
/// How many answers wait in total before a peer NI may have only [`ANSWERS_LOW`].
const ANSWERS_TOTAL: u32 = 32_768;
const ANSWERS_LOW: u32 = 16;

/// The answers under way, and the requests that wait because of them.
#[derive(Debug, Default)]
pub(super) struct Answers {
    peers: BTreeMap<PeerNiId, OfPeer>,
    total: u32,
}

#[derive(Debug, Default)]
struct OfPeer {
    under_way: u32,
    /// The requests whose connections are not read.
    held: VecDeque<(Arrival, Header)>,
}

impl Answers {
    /// Counts an answer that is committed to a path.
    pub(super) fn begin(&mut self, peer_ni: PeerNiId) {
        self.peers.entry(peer_ni).or_default().under_way += 1;
        self.total += 1;
    }

    /// Counts an answer that has left its path. Returns whether requests of the peer may go on.
    pub(super) fn end(&mut self, peer_ni: PeerNiId) -> bool {
        let of_peer = self.peers.get_mut(&peer_ni).expect("an answer ends once");
        of_peer.under_way -= 1;
        self.total -= 1;
        if of_peer.under_way == 0 && of_peer.held.is_empty() {
            self.peers.remove(&peer_ni);
            return false;
        }
        self.may_go_on(peer_ni)
    }

    /// Returns whether another request of a peer must wait.
    fn is_full(&self, peer_ni: PeerNiId) -> bool {
        self.peers.get(&peer_ni).is_some_and(|of_peer| of_peer.under_way >= self.limit())
    }

    fn may_go_on(&self, peer_ni: PeerNiId) -> bool {
        let limit = self.limit() / 2;
        self.peers.get(&peer_ni).is_some_and(|one| !one.held.is_empty() && one.under_way <= limit)
    }

    fn limit(&self) -> u32 {
        if self.total < ANSWERS_TOTAL { ANSWERS_MAX } else { ANSWERS_LOW }
    }

    fn hold(&mut self, peer_ni: PeerNiId, arrival: Arrival, header: Header) {
        self.peers.entry(peer_ni).or_default().held.push_back((arrival, header));
    }

    fn take(&mut self, peer_ni: PeerNiId) -> Option<(Arrival, Header)> {
        let of_peer = self.peers.get_mut(&peer_ni)?;
        let next = of_peer.held.pop_front();
        if of_peer.under_way == 0 && of_peer.held.is_empty() {
            self.peers.remove(&peer_ni);
        }
        next
    }

    /// Forgets a request whose connection has ended.
    pub(super) fn forget(&mut self, rx: RxId) {
        let is_it = |arrival: &Arrival| matches!(arrival.origin, Origin::Lnd(of, _) if of == rx);
        for of_peer in self.peers.values_mut() {
            of_peer.held.retain(|(arrival, _)| !is_it(arrival));
        }
        self.peers.retain(|_, of_peer| of_peer.under_way > 0 || !of_peer.held.is_empty());
    }

    /// Checks that nothing is left.
    pub(super) fn check_idle(&self) -> Result<(), String> {
        match self.peers.first_key_value() {
            None => Ok(()),
            Some((peer_ni, of_peer)) => Err(format!("{peer_ni:?} has answers: {of_peer:?}")),
        }
    }
}

impl Lnet {
    /// Leaves a request of a peer on its connection, if too many answers wait for the peer.
    pub(super) fn hold_request(
        &mut self,
        arrival: Arrival,
        header: &Header,
        sender: PeerNiId,
    ) -> bool {
        let answered = match header.body {
            Body::Get { .. } => true,
            Body::Put { ack, .. } => ack != Handle::NONE,
            Body::Ack { .. } | Body::Reply { .. } => false,
        };
        let holds =
            answered && matches!(arrival.origin, Origin::Lnd(..)) && self.answers.is_full(sender);
        if holds {
            self.answer(arrival, Verdict::Wait);
            self.answers.hold(sender, arrival, *header);
        }
        holds
    }

    /// Goes on with the requests of a peer that has taken answers.
    pub(super) fn resume_requests(&mut self, now: Time, peer_ni: PeerNiId) {
        if !self.answers.may_go_on(peer_ni) {
            return;
        }
        let Some((arrival, header)) = self.answers.take(peer_ni) else { return };
        // Each may leave an answer behind, so the next one is looked at only after it.
        self.work.push_back(Work::Requests(peer_ni));
        self.proceed(now, arrival, header);
    }
}

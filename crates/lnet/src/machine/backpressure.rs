//! Back-pressure on requests: a peer that does not take its responses is not read.
//!
//! Each request may leave a REPLY or an ACK behind, which waits for a credit of the peer. When too
//! many wait, the next request of that peer stays on its connection, unread, until some have gone.
//! So a connection keeps at most one request here, and a peer a bounded number of responses.
//!
//! When an interface has no credit left, its LND reports the messages that do not move, and others
//! get their credits.

use std::collections::{BTreeMap, VecDeque};

use fulmar_base::Time;
use fulmar_lnd::{RxId, Verdict};
use fulmar_lnet_wire::{Body, Handle, Header};

use super::message::{Arrival, Origin};
use super::{Lnet, Work};
use crate::peers::PeerNiId;
use crate::slots::Slots;

/// How many responses wait for one peer NI. So many small ones fit into the buffers of two
/// sockets: two nodes that wait for each other go on.
pub(super) const RESPONSES_MAX: u32 = 512;
/// How many responses wait in total before a peer NI may have only [`RESPONSES_LOW`].
const RESPONSES_TOTAL: u32 = 32_768;
const RESPONSES_LOW: u32 = 16;

/// The responses under way, and the requests that wait because of them.
#[derive(Debug, Default)]
pub(super) struct Backpressure {
    /// How many responses are under way to each peer NI.
    responses: Slots<u32>,
    total: u32,
    /// The requests whose connections are not read.
    held: BTreeMap<PeerNiId, VecDeque<(Arrival, Header)>>,
}

impl Backpressure {
    pub(super) fn add(&mut self, peer_ni: PeerNiId) {
        self.responses.insert(peer_ni.0, 0);
    }

    /// Forgets a peer NI to which no response is under way.
    pub(super) fn remove(&mut self, peer_ni: PeerNiId) {
        self.responses.remove(peer_ni.0);
    }

    /// Counts a response that is committed to a path.
    pub(super) fn begin(&mut self, peer_ni: PeerNiId) {
        *self.responses.get_mut(peer_ni.0).expect("a path keeps its peer NI") += 1;
        self.total += 1;
    }

    /// Counts a response that has left its path. Returns whether requests of the peer may go on.
    pub(super) fn end(&mut self, peer_ni: PeerNiId) -> bool {
        *self.responses.get_mut(peer_ni.0).expect("a path keeps its peer NI") -= 1;
        self.total -= 1;
        self.may_go_on(peer_ni)
    }

    /// Returns whether requests of a peer wait.
    pub(super) fn is_holding(&self, peer_ni: PeerNiId) -> bool {
        self.held.contains_key(&peer_ni)
    }

    fn under_way(&self, peer_ni: PeerNiId) -> u32 {
        self.responses.get(peer_ni.0).copied().unwrap_or(0)
    }

    /// Returns whether another request of a peer must wait.
    fn is_full(&self, peer_ni: PeerNiId) -> bool {
        self.under_way(peer_ni) >= self.limit()
    }

    fn may_go_on(&self, peer_ni: PeerNiId) -> bool {
        self.under_way(peer_ni) <= self.limit() / 2 && self.is_holding(peer_ni)
    }

    fn limit(&self) -> u32 {
        if self.total < RESPONSES_TOTAL { RESPONSES_MAX } else { RESPONSES_LOW }
    }

    fn hold(&mut self, peer_ni: PeerNiId, arrival: Arrival, header: Header) {
        self.held.entry(peer_ni).or_default().push_back((arrival, header));
    }

    fn take(&mut self, peer_ni: PeerNiId) -> Option<(Arrival, Header)> {
        let waiting = self.held.get_mut(&peer_ni)?;
        let next = waiting.pop_front();
        if waiting.is_empty() {
            self.held.remove(&peer_ni);
        }
        next
    }

    /// Forgets a request whose connection has ended.
    pub(super) fn forget(&mut self, rx: RxId) {
        let is_it = |arrival: &Arrival| matches!(arrival.origin, Origin::Lnd(of, _) if of == rx);
        self.held.retain(|_, waiting| {
            waiting.retain(|(arrival, _)| !is_it(arrival));
            !waiting.is_empty()
        });
    }

    /// Checks that so many responses are counted to a peer NI.
    pub(super) fn check(&self, peer_ni: PeerNiId, responses: u64) -> Result<(), String> {
        match u64::from(self.under_way(peer_ni)) {
            counted if counted == responses => Ok(()),
            counted => Err(format!("{responses} responses are under way, {counted} are counted")),
        }
    }

    /// Checks that so many responses are counted in total.
    pub(super) fn check_total(&self, responses: u64) -> Result<(), String> {
        match u64::from(self.total) {
            counted if counted == responses => Ok(()),
            counted => Err(format!("{responses} responses are under way, {counted} are counted")),
        }
    }

    /// Checks that no request waits.
    pub(super) fn check_idle(&self) -> Result<(), String> {
        match self.held.first_key_value() {
            None => Ok(()),
            Some((peer_ni, held)) => Err(format!("{} requests of {peer_ni:?} wait", held.len())),
        }
    }
}

impl Lnet {
    /// Leaves a request of a peer on its connection, if too many responses wait for the peer.
    pub(super) fn hold_request(
        &mut self,
        arrival: Arrival,
        header: &Header,
        sender: PeerNiId,
    ) -> bool {
        let has_response = match header.body {
            Body::Get { .. } => true,
            Body::Put { ack, .. } => ack != Handle::NONE,
            Body::Ack { .. } | Body::Reply { .. } => false,
        };
        let from_lnd = matches!(arrival.origin, Origin::Lnd(..));
        let holds = has_response && from_lnd && self.backpressure.is_full(sender);
        if holds {
            self.answer(arrival, Verdict::Wait);
            self.backpressure.hold(sender, arrival, *header);
        }
        holds
    }

    /// Goes on with the requests of a peer that has taken responses.
    pub(super) fn resume_requests(&mut self, now: Time, peer_ni: PeerNiId) {
        if !self.backpressure.may_go_on(peer_ni) {
            return;
        }
        let Some((arrival, header)) = self.backpressure.take(peer_ni) else { return };
        // Each may leave a response behind, so the next one is looked at only after it.
        self.work.push_back(Work::Requests(peer_ni));
        self.proceed(now, arrival, header);
    }
}

//! Which NIDs belong to one peer: what a NID says of itself and what its primary NID says must agree.
//!
//! ```text
//! ping info from X names X      X is believed: its record has the NIDs that it lists
//!                X names P      if P lists X: X joins the record of P
//!                               otherwise P is pinged, and X waits for what P answers
//! P is behind X, a gateway       X joins the record of P: only X could tell what P says
//! P lists X, X is unknown        X joins, and is pinged before it gets a message
//! P lists X, X has said nothing  the same, and X is pinged; but a gateway stays what it is
//! P lists X, Q has listed X      X stays with Q, and is pinged
//! P lists X, X has named itself  X is pinged, and joins if it names P now
//! ```
//!
//! A kernel node believes the first claim: one push takes the messages for another node.

use std::time::Duration;

use fulmar_base::{Errno, MessageId, Time};
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::{Net, Nid};

use super::discovery::PARKED_MAX;
use super::{Output, Peer, PeerId, PeerNiId, PeerState, Peers, UnverifiedQueue};
use crate::api::QueryId;

/// How many claims of one peer are checked by a ping.
const CLAIMS_MAX: u32 = 16;
/// How long the NID that claims waits for that ping; then it has a record of its own for now.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(1);
/// How many peers wait for what one primary NID answers.
const CLAIMANTS_MAX: usize = 64;

impl Peers {
    /// Returns the record of a NID of `peer` that names `primary` as its primary NID. If the NID
    /// belongs to another node than it was listed by, it has a record of its own from now on.
    pub(super) fn record_of(
        &mut self,
        peer: PeerId,
        from: Nid,
        primary: Nid,
        behind: &[Net],
    ) -> PeerId {
        let Some(found) = self.peer(peer) else { return peer };
        let agrees = [primary, from].contains(&found.primary) || behind.contains(&primary.net());
        if agrees || found.has(PeerState::CONFIGURED) || self.owner(from) != Some(peer) {
            return peer;
        }
        self.separate(from, peer)
    }

    /// A NID of `peer` names `primary` as its primary NID. Returns the record of the NID, and whether
    /// that is the one of `primary`.
    pub(super) fn take_primary(
        &mut self,
        now: Time,
        peer: PeerId,
        from: Nid,
        primary: Nid,
        behind: &[Net],
    ) -> (PeerId, bool) {
        // Both of a node's NIDs may have said so before, and it has another primary NID now.
        let both = self.owner(primary) == Some(peer) && self.has_verified(primary);
        let Some(found) = self.peer_mut(peer) else { return (peer, false) };
        found.only_claimed = false;
        if found.state.has(PeerState::CONFIGURED) || found.primary == primary {
            found.claimed = None;
            self.mark_verified(from);
            return (peer, true);
        }
        if both || behind.contains(&primary.net()) {
            let peer = self.rename(peer, primary);
            self.mark_verified(from);
            return (peer, true);
        }
        if let Some(found) = self.peer_mut(peer) {
            found.claimed = Some(primary);
        }
        match self.owner(primary).filter(|_| self.has_verified(primary)) {
            Some(other) if self.lists(other, from) => {
                self.absorb(peer, other);
                self.mark_verified(from);
                (other, true)
            }
            _ => {
                self.ping_primary(now, peer, primary);
                (peer, false)
            }
        }
    }

    /// Gives a peer another primary NID. If another record has it, that one absorbs this one.
    fn rename(&mut self, peer: PeerId, primary: Nid) -> PeerId {
        match self.owner(primary) {
            Some(other) if other != peer => {
                self.absorb(peer, other);
                other
            }
            _ => {
                if let Some(found) = self.peer_mut(peer) {
                    (found.primary, found.claimed) = (primary, None);
                }
                peer
            }
        }
    }

    /// Gives a peer a NID that it lists, as far as that NID agrees.
    pub(super) fn claim(&mut self, peer: PeerId, nid: Nid, gateways: &[PeerId]) {
        let Some(owner) = self.owner(nid) else {
            if !self.is_full() {
                self.add_nid(peer, nid);
            }
            return;
        };
        let primary = self.peer(peer).map(|peer| peer.primary);
        let Some(other) = self.peer(owner).filter(|_| owner != peer) else { return };
        // The primary NID of a record may have left it.
        let silent = !other.has(PeerState::NIDS_UPTODATE) && other.claimed.is_none();
        let orphan = self.owner(other.primary) != Some(owner);
        if other.has(PeerState::CONFIGURED) {
            return;
        }
        if other.primary != nid && !orphan {
            // Who listed it first does not keep it for that.
            if let Some(id) = self.find(nid).filter(|id| !self.is_verified(*id)) {
                self.outputs.push_back(Output::Verify(id));
            }
            return;
        }
        if other.claimed.is_some() && other.claimed == primary {
            self.absorb(owner, peer);
            self.mark_verified(nid);
        } else if (silent || orphan) && !gateways.contains(&owner) {
            self.absorb_silent(owner, peer, nid);
        } else if self.may_claim(peer) {
            // It may have another primary NID than the last time. A gateway says itself whose it is.
            self.ask(owner);
        }
    }

    /// Gives a peer a NID that it lists and that has said nothing. What waits for that NID does not
    /// wait for the peer.
    fn absorb_silent(&mut self, owner: PeerId, peer: PeerId, nid: Nid) {
        let (Some(id), Some(found)) = (self.find(nid), self.peer_mut(owner)) else { return };
        let messages = std::mem::take(&mut found.parked);
        let queries = std::mem::take(&mut found.queries);
        if !messages.is_empty() || !queries.is_empty() {
            let waiting = self.unverified.entry(id).or_default();
            waiting.messages.extend(messages);
            waiting.queries.extend(queries);
        }
        self.absorb(owner, peer);
        if self.is_verified(id) {
            self.launch_waiting(id)
        } else {
            self.outputs.push_back(Output::Verify(id))
        }
    }

    /// Counts another claim of a peer that is checked; returns whether it is.
    fn may_claim(&mut self, peer: PeerId) -> bool {
        let Some(found) = self.peer_mut(peer) else { return false };
        found.claims += 1;
        found.claims <= CLAIMS_MAX
    }

    /// Returns whether messages for a NID may go to any NID of its peer.
    pub(crate) fn is_verified(&self, id: PeerNiId) -> bool {
        let Some(ni) = self.ni(id) else { return true };
        let agrees = |peer: &Peer| peer.primary == ni.nid || peer.has(PeerState::CONFIGURED);
        ni.verified || self.peer(ni.peer).is_some_and(agrees)
    }

    fn has_verified(&self, nid: Nid) -> bool {
        self.find(nid).is_none_or(|id| self.is_verified(id))
    }

    /// Notes that a gateway vouches for its NIDs on these networks behind it.
    pub(super) fn verified_behind(&mut self, peer: PeerId, behind: &[Net]) {
        for nid in self.nids_of(peer) {
            if behind.contains(&nid.net()) {
                self.mark_verified(nid);
            }
        }
    }

    /// Returns the NID of a peer NI that is to be pinged, and the room that its answer needs.
    #[inline]
    pub(crate) fn needs_verification(&self, id: PeerNiId) -> Option<(Nid, u32)> {
        self.ni(id).filter(|ni| !ni.verified && !ni.pinged)?;
        if self.is_verified(id) { None } else { self.may_ask(id) }
    }

    /// A NID is being pinged for its peer.
    pub(crate) fn verification_begun(&mut self, id: PeerNiId) {
        if let Some(ni) = self.ni_mut(id) {
            ni.pinged = true;
        }
    }

    /// Lets a message wait until a NID has named its peer.
    ///
    /// # Errors
    /// EHOSTUNREACH if it cannot be pinged; ENOMEM if too many wait.
    pub(crate) fn await_verification(
        &mut self,
        message: MessageId,
        id: PeerNiId,
    ) -> Result<(), Errno> {
        if !self.ni(id).is_some_and(|ni| ni.pinged) {
            return Err(Errno::EHOSTUNREACH);
        }
        let waiting = &mut self.unverified.entry(id).or_default().messages;
        if waiting.len() >= PARKED_MAX {
            return Err(Errno::ENOMEM);
        }
        waiting.push_back(message);
        Ok(())
    }

    /// Lets a query wait until a NID has named its peer.
    pub(super) fn query_waits(&mut self, id: PeerNiId, query: QueryId) {
        self.unverified.entry(id).or_default().queries.push(query);
        self.outputs.push_back(Output::Verify(id));
    }

    /// Handles the end of the ping of a NID for its peer. A NID that has answered and not named that
    /// peer is a peer of its own.
    pub(crate) fn verification_ended(&mut self, id: PeerNiId, result: Result<(), Errno>) {
        let Some(ni) = self.ni_mut(id) else { return };
        ni.pinged = false;
        let (nid, peer) = (ni.nid, ni.peer);
        match result {
            Err(errno) => {
                let UnverifiedQueue { messages, queries } =
                    self.unverified.remove(&id).unwrap_or_default();
                self.outputs.extend(messages.into_iter().map(|id| Output::Fail(id, errno)));
                self.outputs.extend(queries.into_iter().map(|id| Output::Answer(id, Err(errno))));
                if self.is_verified(id) {
                    self.discover_again(peer);
                }
            }
            Ok(()) => {
                if !self.is_verified(id) && !self.is_retired(id) {
                    self.separate(nid, peer);
                }
                self.launch_waiting(id);
                self.answer_claimants(peer);
            }
        }
    }

    /// Returns the NID of a peer NI that is not being pinged for its peer, and the room that its
    /// answer needs.
    pub(crate) fn may_ask(&self, id: PeerNiId) -> Option<(Nid, u32)> {
        let ni = self.ni(id).filter(|ni| !ni.pinged)?;
        let len = self.peer(ni.peer)?.info_size.clamp(PingInfo::SIZE_MIN, PingInfo::SIZE_MAX);
        Some((ni.nid, len))
    }

    /// Goes on with what waited for a NID that has named its peer, or is gone.
    pub(super) fn launch_waiting(&mut self, id: PeerNiId) {
        let Some(UnverifiedQueue { messages, queries }) = self.unverified.remove(&id) else {
            return;
        };
        self.outputs.extend(messages.into_iter().map(Output::Launch));
        if let Some(nid) = self.ni(id).map(|ni| ni.nid) {
            queries.into_iter().for_each(|query| self.discover(nid, false, query));
        }
    }

    /// Returns whether a peer waits for what the primary NID that it claims answers to a ping.
    pub(crate) fn awaits_primary(&self, peer: PeerId) -> bool {
        self.discovery.claims.get(peer).is_some()
    }

    /// Ends the waiting for a peer whose discovery has ended.
    pub(super) fn answer_claimants(&mut self, peer: PeerId) {
        let Some(found) = self.peer_mut(peer) else { return };
        for claimant in std::mem::take(&mut found.claimants) {
            // It may have claimed another one since.
            let claimed = self.peer(claimant).and_then(|claimant| claimant.claimed);
            if claimed.and_then(|nid| self.owner(nid)).is_some_and(|owner| owner != peer) {
                continue;
            }
            self.discovery.claims.clear(claimant);
            self.outputs.push_back(Output::Advance(claimant));
            self.resume(claimant);
        }
    }

    fn lists(&self, peer: PeerId, nid: Nid) -> bool {
        self.peer(peer).is_some_and(|peer| peer.listed.contains(&nid))
    }

    fn mark_verified(&mut self, nid: Nid) {
        let Some(id) = self.find(nid) else { return };
        if let Some(ni) = self.ni_mut(id) {
            ni.verified = true;
        }
        self.launch_waiting(id);
    }

    /// Gives a NID a record of its own.
    fn separate(&mut self, nid: Nid, from: PeerId) -> PeerId {
        let id = PeerId(self.peer_names.make());
        self.peers.insert(id.0, Box::new(Peer::new(nid)));
        self.add_nid(id, nid);
        self.outputs.push_back(Output::Separated(from));
        id
    }

    /// Pings the primary NID that a peer claims; the peer waits for that.
    fn ping_primary(&mut self, now: Time, claimant: PeerId, primary: Nid) {
        let owner = self.owner(primary);
        if !self.may_claim(claimant) || (owner.is_none() && self.is_full()) {
            return;
        }
        let owner = owner.unwrap_or_else(|| {
            let made = self.create(primary);
            self.peer_mut(made).expect("it was made").only_claimed = true;
            made
        });
        let Some(found) = self.peer_mut(owner) else { return };
        if found.claimants.len() < CLAIMANTS_MAX && !found.claimants.contains(&claimant) {
            found.claimants.push(claimant);
            self.discovery.claims.set(claimant, now + CLAIM_TIMEOUT);
        }
        match self.find(primary).filter(|id| !self.is_verified(*id)) {
            Some(id) => self.outputs.push_back(Output::Verify(id)),
            None => self.ask(owner),
        }
    }

    /// Has a peer pinged because of what others claim. Messages for a known one do not wait for that.
    pub(super) fn ask(&mut self, peer: PeerId) {
        if self.is_up_to_date(peer) {
            self.outputs.push_back(Output::Ask(peer))
        } else {
            self.discover_again(peer)
        }
    }

    /// Has a peer discovered, whatever is known of it.
    pub(crate) fn discover_again(&mut self, peer: PeerId) {
        self.force_ping(peer);
        self.queue(peer);
    }
}

#[cfg(test)]
mod tests {
    use fulmar_base::{Errno, MessageId};
    use fulmar_lnet_wire::Nid;

    use crate::api::{MdId, QueryId};
    use crate::peers::discovery::Step;
    use crate::peers::tests::{KNOWN, NOW, decoded, nid, outputs, peers, pinged};
    use crate::peers::{Output, PeerId, Peers, Surroundings};

    /// A push or an answer from the NID `from`, which lists `nids`, its primary NID first.
    fn says(peers: &mut Peers, from: Nid, nids: &[Nid]) -> PeerId {
        let peer = peers.owner(from).unwrap_or_else(|| peers.create(from));
        let merged = peers.merge(NOW, peer, from, &decoded(nids), KNOWN);
        outputs(peers);
        merged
    }

    /// Begins the discovery of the next peer, which must be that of `primary`.
    fn asked(peers: &mut Peers, primary: Nid) -> PeerId {
        let peer = peers.next_to_discover().unwrap();
        assert_eq!(peers.primary(primary), primary);
        assert_eq!(peers.owner(primary), Some(peer));
        assert!(matches!(peers.step(peer), Some(Step::Ping(_))));
        peers.ping_sent(peer, MdId(50));
        peer
    }

    #[test]
    fn a_nid_joins_the_peer_that_it_names_when_that_one_agrees() {
        let mut peers = peers();
        let second = pinged(&mut peers);
        peers.park(MessageId(7), second).unwrap();
        assert_eq!(says(&mut peers, nid(2), &[nid(3), nid(2)]), second, "no NID agrees yet");
        assert_eq!((peers.step(second), peers.owner(nid(2))), (None, Some(second)));
        let first = asked(&mut peers, nid(3));
        let merged = peers.merge(NOW, first, nid(3), &decoded(&[nid(3), nid(2)]), KNOWN);
        assert_eq!((merged, peers.owner(nid(2))), (first, Some(first)));
        assert!(peers.has_verified(nid(2)) && peers.peer(second).is_none());
        let moved = Output::Moved { from: second, into: first };
        assert!(outputs(&mut peers).contains(&moved));
        assert_eq!(peers.peer(first).unwrap().parked, [MessageId(7)]);
    }

    #[test]
    fn a_nid_that_names_a_peer_which_does_not_list_it_stays_alone() {
        let mut peers = peers();
        let victim = says(&mut peers, nid(3), &[nid(3)]);
        let attacker = says(&mut peers, nid(2), &[nid(3), nid(2)]);
        assert_ne!(attacker, victim);
        asked(&mut peers, nid(3));
        assert_eq!(says(&mut peers, nid(3), &[nid(3)]), victim);
        assert_eq!((peers.nids_of(victim), peers.nids_of(attacker)), (vec![nid(3)], vec![nid(2)]));
        assert_eq!((peers.primary(nid(2)), peers.primary(nid(3))), (nid(2), nid(3)));
    }

    #[test]
    fn a_nid_that_is_only_listed_is_pinged_once_for_its_peer() {
        let mut peers = peers();
        let first = says(&mut peers, nid(2), &[nid(2), nid(3)]);
        assert!(peers.has_verified(nid(2)) && !peers.has_verified(nid(3)));
        assert!(!peers.same_peer(nid(3), nid(2)), "others do not speak for it");
        // A message for the peer may go to the listed NID, and the other one answers.
        assert!(peers.may_answer(nid(3), nid(2)) && !peers.may_answer(nid(2), nid(3)));
        assert!(!peers.may_answer(nid(4), nid(2)));
        let [own, listed] = [2, 3].map(|n| peers.find(nid(n)).unwrap());
        assert_eq!(peers.needs_verification(own), None);
        assert!(peers.needs_verification(listed).is_some());
        peers.verification_begun(listed);
        assert_eq!(peers.needs_verification(listed), None);
        peers.verification_ended(listed, Err(Errno::ETIMEDOUT));
        assert!(peers.needs_verification(listed).is_some());
        assert_eq!(says(&mut peers, nid(3), &[nid(2), nid(3)]), first);
        assert!(peers.has_verified(nid(3)) && peers.same_peer(nid(3), nid(2)));
    }

    #[test]
    fn a_listed_nid_that_speaks_for_itself_leaves() {
        let mut peers = peers();
        let attacker = says(&mut peers, nid(2), &[nid(2), nid(3)]);
        let victim = says(&mut peers, nid(3), &[nid(3)]);
        assert_ne!(victim, attacker);
        assert_eq!((peers.primary(nid(3)), peers.nids_of(attacker)), (nid(3), vec![nid(2)]));
    }

    #[test]
    fn a_listed_nid_that_has_said_nothing_joins_and_is_asked() {
        let mut peers = peers();
        let silent = peers.create(nid(3));
        peers.park(MessageId(7), silent).unwrap();
        peers.discover(nid(3), false, QueryId(1));
        let first = peers.create(nid(2));
        peers.merge(NOW, first, nid(2), &decoded(&[nid(2), nid(3)]), KNOWN);
        let listed = peers.find(nid(3)).unwrap();
        assert!(outputs(&mut peers).contains(&Output::Verify(listed)));
        assert_eq!(peers.nids_of(first), [nid(2), nid(3)]);
        assert!(!peers.has_verified(nid(3)));
        let found = peers.peer(first).unwrap();
        assert!(found.parked.is_empty() && found.queries.is_empty(), "they wait for the NID");
        peers.verification_begun(listed);
        peers.verification_ended(listed, Ok(()));
        assert!(outputs(&mut peers).contains(&Output::Launch(MessageId(7))));
        assert_eq!(asked(&mut peers, nid(3)), peers.owner(nid(3)).unwrap());
    }

    #[test]
    fn a_gateway_that_has_said_nothing_is_asked_and_does_not_join() {
        let mut peers = peers();
        let gateway = peers.create(nid(3));
        let first = peers.create(nid(2));
        let known = Surroundings { gateways: &[gateway], ..KNOWN };
        peers.merge(NOW, first, nid(2), &decoded(&[nid(2), nid(3)]), known);
        assert_eq!((peers.owner(nid(3)), asked(&mut peers, nid(3))), (Some(gateway), gateway));
    }

    #[test]
    fn a_listed_nid_that_had_another_primary_is_asked_again() {
        let mut peers = peers();
        let old = says(&mut peers, nid(3), &[nid(3), nid(4)]);
        let first = says(&mut peers, nid(2), &[nid(2), nid(3), nid(4)]);
        assert_eq!((peers.owner(nid(3)), asked(&mut peers, nid(3))), (Some(old), old));
        assert_eq!(says(&mut peers, nid(3), &[nid(2), nid(3), nid(4)]), first);
        assert_eq!(peers.nids_of(first), [nid(2), nid(3), nid(4)]);
    }

    #[test]
    fn only_some_claims_are_checked_and_nothing_stays_of_those_that_fail() {
        let mut peers = peers();
        for victim in 10..50 {
            says(&mut peers, nid(2), &[nid(victim), nid(2)]);
        }
        let mut asked = 0;
        while let Some(peer) = peers.next_to_discover() {
            asked += u32::from(peers.owner(nid(2)) != Some(peer));
            peers.failed(peer, Errno::EHOSTUNREACH);
            outputs(&mut peers);
        }
        assert_eq!((asked, peers.ids().count()), (super::CLAIMS_MAX, 1));
    }
}

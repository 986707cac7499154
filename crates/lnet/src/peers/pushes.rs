//! How many pushes of a peer are used. Each may replace all its NIDs, which takes time and is of no
//! use when the next one does the same: after a few in a row, one in each second. Instead of the
//! others the peer is pinged once, when its next second has begun.

use std::time::Duration;

use fulmar_base::Time;

use super::{PeerId, Peers};

/// How many pushes of a peer are used in a row.
const IN_A_ROW: u32 = 8;
/// How often one is used after that.
const INTERVAL: Duration = Duration::from_secs(1);

impl Peers {
    /// Records a push of a peer, and returns whether it may be used.
    pub(crate) fn may_use_push(&mut self, now: Time, peer: PeerId) -> bool {
        let Some(found) = self.peer_mut(peer) else { return false };
        let used_up = found.pushes_until.max(now) + INTERVAL;
        let next = used_up - INTERVAL * IN_A_ROW;
        let may = next <= now;
        match may {
            true => found.pushes_until = used_up,
            false if self.late_pushes.get(peer).is_none() => self.late_pushes.set(peer, next),
            false => {}
        }
        may
    }

    /// Has a peer pinged whose push was not used, if it is time.
    pub(super) fn pop_late_push(&mut self, now: Time) -> Option<PeerId> {
        let peer = self.late_pushes.pop_due(now)?;
        self.ask(peer);
        Some(peer)
    }
}

#[cfg(test)]
mod tests {
    use crate::peers::tests::{NOW, decoded, nid, outputs, peers};
    use crate::peers::{Output, Surroundings};

    use super::*;

    #[test]
    fn after_a_few_pushes_one_is_used_in_each_second() {
        let mut peers = peers();
        let peer = peers.create(nid(2));
        let used =
            |peers: &mut Peers, now| (0..50).filter(|_| peers.may_use_push(now, peer)).count();
        assert_eq!(used(&mut peers, NOW), 8);
        assert_eq!(used(&mut peers, NOW + INTERVAL), 1);
        assert_eq!(used(&mut peers, NOW + INTERVAL * 4), 3);
        assert_eq!(used(&mut peers, NOW + INTERVAL * 60), 8);
    }

    #[test]
    fn a_peer_is_pinged_for_what_a_late_push_would_have_told() {
        let mut peers = peers();
        let peer = peers.create(nid(2));
        while peers.may_use_push(NOW, peer) {
            let known = Surroundings::default();
            peers.merge(NOW, peer, nid(2), &decoded(&[nid(2)]), known);
        }
        outputs(&mut peers);
        assert!(!peers.may_use_push(NOW, peer));
        assert_eq!(peers.poll_timeout(), Some(NOW + INTERVAL), "however many there were");
        assert_eq!(peers.pop_due(NOW), None);
        assert_eq!(peers.pop_due(NOW + INTERVAL), Some(peer));
        let asked = outputs(&mut peers).contains(&Output::Ask(peer));
        let pinged = peers.next_to_discover() == Some(peer);
        assert!(asked || pinged);
        assert_eq!(peers.poll_timeout(), None);
    }

    #[test]
    fn nothing_stays_of_a_peer_that_is_gone() {
        let mut peers = peers();
        let peer = peers.create(nid(2));
        while peers.may_use_push(NOW, peer) {}
        peers.delete(peer);
        assert_eq!(peers.poll_timeout(), None);
        assert!(!peers.may_use_push(NOW, peer));
    }
}

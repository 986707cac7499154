//! Rails that fail and return: links, the administrator's switch, and what LNDs report of the path
//! to a peer. Spec: lnet-behaviour §8.8, §14.1.

use fulmar_base::{Errno, Time};
use fulmar_lnd::{FailureClass, PathState};
use fulmar_lnet_wire::Nid;

use super::Lnet;
use super::message::{Arrival, Transmission};
use crate::health::{HEALTH_MAX, Target};
use crate::peers::{PeerNiId, PeerState};

impl Lnet {
    /// Records that the link of an interface has come up or gone down.
    ///
    /// An interface without a link is used only if all are. What waits for it takes another path,
    /// and peers are notified.
    pub fn handle_link(&mut self, now: Time, nid: Nid, up: bool) {
        let Some(ni) = self.nis.iter_mut().find(|ni| ni.config.nid == nid) else { return };
        if ni.fatal != up {
            return;
        }
        ni.fatal = !up;
        let id = ni.id;
        self.health.reset_pauses(Target::Ni(id));
        if up {
            self.health.try_again(now, Target::Ni(id));
        }
        if !up {
            self.leave(|path| path.ni == id);
        }
        self.info_changed();
        self.settle(now);
    }

    /// Disables or enables an interface. Messages in flight on a disabled interface are completed,
    /// and it still receives; new messages of this node use it only if there is no other.
    ///
    /// # Errors
    /// ENOENT if there is no such interface.
    pub fn set_ni_enabled(&mut self, now: Time, nid: Nid, enabled: bool) -> Result<(), Errno> {
        let ni = self.nis.iter_mut().find(|ni| ni.config.nid == nid).ok_or(Errno::ENOENT)?;
        let before = std::mem::replace(&mut ni.disabled, !enabled);
        if before == enabled {
            self.info_changed();
        }
        self.settle(now);
        Ok(())
    }

    /// Returns whether a ping is ignored, so that its sender avoids the interface: it is disabled,
    /// and the sender knows the other NIDs of this node. Pings of the primary NID are always
    /// answered, because discovery uses it.
    pub(super) fn ignores_ping(&self, arrival: Arrival) -> bool {
        let disabled = self.ni_of(arrival.ni).is_some_and(|ni| ni.disabled);
        if !disabled || self.nis.first().is_some_and(|first| first.config.nid == arrival.ni) {
            return false;
        }
        let peer = self.peers.owner(arrival.from).and_then(|peer| self.peers.peer(peer));
        peer.is_some_and(|peer| {
            peer.has(PeerState::MULTI_RAIL) && peer.pushed() == self.own.sequence
        })
    }

    /// Handles the state of the path from an interface to a NID of a peer, as its LND reports it.
    pub fn handle_path(&mut self, now: Time, ni: Nid, peer: Nid, state: PathState) {
        let Some(id) = self.peers.find(peer) else { return };
        match state {
            PathState::Up => {
                self.peer_ni_is_back(now, id);
                if let Some(own) = self.ni_of(ni).map(|ni| ni.id) {
                    self.health.try_again(now, Target::Ni(own));
                }
            }
            PathState::Down => self.peer_ni_is_lost(id),
            PathState::Stalled => self.path_stalled(now, ni, id),
        }
        self.settle(now);
    }

    /// Nothing that is sent by an interface to a NID of a peer arrives there: either may be at
    /// fault. What waits takes another path.
    fn path_stalled(&mut self, now: Time, ni: Nid, id: PeerNiId) {
        let own = self.ni_of(ni).map(|ni| ni.id);
        if let Some(own) = own.filter(|_| self.nis.len() > 1) {
            self.lower_ni(now, own, FailureClass::NetworkTimeout);
        }
        self.lower_peer_ni(now, id, FailureClass::NetworkTimeout);
        self.peer_ni_is_lost(id);
        self.leave(|path| path.peer_ni == id && Some(path.ni) == own);
    }

    /// Sends by another path what waits for credits of a path. Responses get one only if the path
    /// is known to be broken.
    pub(super) fn leave(&mut self, path: impl Fn(&Transmission) -> bool) {
        let mut queued = self.messages.waiting_on(path);
        queued.retain(|id| self.messages.get(*id).is_some_and(|message| !message.probe));
        self.divert(queued);
    }

    fn peer_ni_is_lost(&mut self, id: PeerNiId) {
        if let Some(peer) = self.peers.set_lost(id, true) {
            self.gateway_ni_lost(peer, id);
        }
    }

    /// A NID of a peer can be reached again, or says so: it is tried at once.
    pub(super) fn peer_ni_is_back(&mut self, now: Time, id: PeerNiId) {
        let Some(peer) = self.peers.set_lost(id, false) else { return };
        let target = Target::PeerNi(id);
        self.health.reset_pauses(target);
        if self.health.last_heard(target).is_none() {
            self.health.set(now, target, HEALTH_MAX);
        }
        self.health.try_again(now, target);
        if self.routing.gateway(peer).is_some_and(|(_, alive)| !alive) {
            self.peers.set_alive(id, true);
            self.check_gateway(now, peer);
        }
    }
}

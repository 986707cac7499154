//! What peers claim of their NIDs: it is checked by pings. See `peers/claims.rs`.

use std::collections::BTreeMap;

use fulmar_base::{Errno, MessageId, Time};
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::{Header, Nid, ProcessId};

use super::message::{Arrival, Stage};
use super::{Lnet, OwnEvent};
use crate::api::EventKind;
use crate::matching::Owner;
use crate::peers::{PeerId, PeerNiId};

/// A push to this node that is to be acknowledged.
#[derive(Debug)]
struct Push {
    header: Header,
    arrival: Arrival,
    accepted: u32,
}

/// Pushes to this node that wait for their ACK, because a claim of their peer is being checked.
#[derive(Debug, Default)]
pub(super) struct Pushes {
    peers: BTreeMap<PeerId, Vec<Push>>,
    len: usize,
}

/// How many pushes wait for their ACK at most; others are acknowledged at once.
const PUSHES_MAX: usize = 1024;

impl Pushes {
    fn add(&mut self, peer: PeerId, push: Push) {
        self.peers.entry(peer).or_default().push(push);
        self.len += 1;
    }

    fn take(&mut self, peer: PeerId) -> Vec<Push> {
        let pushes = self.peers.remove(&peer).unwrap_or_default();
        self.len -= pushes.len();
        pushes
    }

    /// Checks that none waits.
    pub(super) fn check_idle(&self) -> Result<(), String> {
        match self.peers.first_key_value() {
            None => Ok(()),
            Some((peer, pushes)) => Err(format!("{} pushes of {peer:?} wait", pushes.len())),
        }
    }
}

impl Lnet {
    /// Acknowledges a push when the claims of its peer are checked. A peer sends its first request
    /// when its push is acknowledged: then it must be known whose NID that comes from.
    pub(super) fn acknowledge_push(
        &mut self,
        now: Time,
        header: Header,
        arrival: Arrival,
        accepted: u32,
    ) {
        let peer = self.peers.owner(header.source);
        match peer.filter(|peer| self.peers.awaits_primary(*peer)) {
            Some(peer) if self.pushes.len < PUSHES_MAX => {
                self.pushes.add(peer, Push { header, arrival, accepted });
            }
            _ => self.send_ack(now, &header, arrival, accepted),
        }
    }

    /// Acknowledges the pushes of a peer, unless a claim of it is still being checked.
    pub(super) fn acknowledge_pushes(&mut self, now: Time, peer: PeerId) {
        if self.pushes.len == 0 || self.peers.awaits_primary(peer) {
            return;
        }
        for Push { header, arrival, accepted } in self.pushes.take(peer) {
            self.send_ack(now, &header, arrival, accepted);
        }
    }

    /// Pings a NID that a peer has listed and that has not named its peer, unless that is being done;
    /// from `source`, if that is given and on its network.
    pub(super) fn verify_nid(&mut self, now: Time, id: PeerNiId, source: Option<Nid>) {
        self.ask_nid(now, id, source, self.peers.needs_verification(id));
    }

    /// Pings a known peer. One without a NID on our networks is discovered again: the path to such a
    /// NID may lead by the peer itself.
    pub(super) fn ask_peer(&mut self, now: Time, peer: PeerId) {
        let near = self.contact(peer).filter(|nid| self.is_local(nid.net()));
        match near.and_then(|nid| self.peers.find(nid)) {
            Some(id) => self.ask_nid(now, id, None, self.peers.may_ask(id)),
            None => self.peers.discover_again(peer),
        }
    }

    /// Pings a NID for its peer, with room for so many bytes of ping info.
    #[inline]
    fn ask_nid(&mut self, now: Time, id: PeerNiId, source: Option<Nid>, asked: Option<(Nid, u32)>) {
        let Some((nid, len)) = asked else { return };
        if !self.is_reachable(nid) {
            return self.peers.verification_ended(id, Err(Errno::EHOSTUNREACH));
        }
        self.peers.verification_begun(id);
        let source = source.filter(|own| own.net() == nid.net());
        self.begin_ping(now, Owner::Verification(id), source, ProcessId::lustre(nid), len);
    }

    /// Lets a message wait until the NID that it is for has named its peer.
    pub(super) fn await_verification(&mut self, now: Time, message: MessageId, id: PeerNiId) {
        let source = self.messages.live(message).source;
        self.verify_nid(now, id, source);
        match self.peers.await_verification(message, id) {
            Ok(()) => self.messages.live(message).stage = Stage::Parked,
            Err(errno) => self.finalize_send(now, message, Err(errno)),
        }
    }

    /// Handles an event of such a ping.
    pub(super) fn verification_event(&mut self, now: Time, id: PeerNiId, event: OwnEvent) {
        let OwnEvent { md, kind, status, pair, bytes, .. } = event;
        let result = match (kind, status) {
            (EventKind::Send, Ok(())) => return,
            (EventKind::Reply, Ok(())) => Ok(()),
            (_, status) => {
                self.unlink(md);
                Err(status.err().unwrap_or(Errno::ETIMEDOUT))
            }
        };
        // Discovery of that NID alone follows if its answer cannot be used.
        let decoded = PingInfo::decode(&bytes).ok().filter(|_| result.is_ok());
        let whole = decoded.filter(|decoded| decoded.size as usize <= bytes.len());
        if let (Some(decoded), Some(peer)) = (whole, self.peers.owner(pair.1)) {
            self.learn(now, peer, pair.1, &decoded);
        }
        self.peers.verification_ended(id, result);
        self.follow_peers(now);
    }
}

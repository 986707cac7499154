//! What peers say of their NIDs: it is checked by pings. See `peers/claims.rs`.

use fulmar_base::Time;
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::{Header, Nid, ProcessId};

use super::message::Arrival;
use super::{Lnet, OwnEvent};
use crate::api::{EventKind, Memory};
use crate::matching::Owner;
use crate::peers::PeerNiId;

/// A push to us that is to be acknowledged.
#[derive(Debug)]
pub(super) struct Push {
    pub(super) header: Header,
    pub(super) arrival: Arrival,
    pub(super) accepted: u32,
}

/// How many pushes wait for their ACK at most.
const PUSHES_MAX: usize = 1024;

impl Lnet {
    /// Acknowledges the pushes whose claims are checked. A peer sends its first request when its
    /// push is acknowledged: then it must be known whose NID that comes from.
    pub(super) fn acknowledge_pushes(&mut self, now: Time) {
        let mut index = 0;
        while let Some(push) = self.pushes.get(index) {
            let peer = self.peers.owner(push.header.source);
            let waits = peer.is_some_and(|peer| self.peers.waits_for_primary(now, peer).is_some());
            if waits && self.pushes.len() <= PUSHES_MAX {
                index += 1;
                continue;
            }
            let Push { header, arrival, accepted } = self.pushes.remove(index);
            self.send_ack(now, &header, arrival, accepted);
        }
    }

    /// Pings a NID that a peer has listed and that has not named its peer, once.
    pub(super) fn ask_for_word(&mut self, now: Time, nid: Nid) {
        let Some((id, len)) = self.peers.needs_word(nid).filter(|_| self.is_reachable(nid)) else {
            return;
        };
        let md = self.matching.add_own(Owner::Word(id), Memory::Inline, len);
        let body = self.ping_body(md, len);
        self.request(now, md, None, ProcessId::lustre(nid), body).expect("the descriptor is new");
    }

    /// Takes an event of such a ping.
    pub(super) fn word_event(&mut self, now: Time, id: PeerNiId, event: OwnEvent) {
        let OwnEvent { md, kind, status, pair, bytes, .. } = event;
        let answered = match (kind, status) {
            (EventKind::Send, Ok(())) => return,
            (kind, status) => kind == EventKind::Reply && status.is_ok(),
        };
        if !answered {
            self.unlink(md);
            return self.peers.no_word(id);
        }
        let decoded = PingInfo::decode(&bytes).ok();
        let whole = decoded.filter(|decoded| decoded.size as usize <= bytes.len());
        match (whole, self.peers.owner(pair.1)) {
            (Some(decoded), Some(peer)) => self.learn(now, peer, pair.1, &decoded),
            _ => self.peers.no_word(id),
        }
    }
}

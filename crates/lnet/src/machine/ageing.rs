//! Room in the peer table: which peers are in use, and may not be forgotten. See `peers/ageing.rs`.

use fulmar_base::Time;

use super::Lnet;
use super::backpressure::Backpressure;
use crate::credits::CreditTable;
use crate::peers::{Peer, PeerId, PeerNiId};
use crate::routing::Routing;

impl Lnet {
    /// Returns whether another NID that a peer makes known has room; `router` has brought it.
    pub(super) fn has_room(&mut self, now: Time, router: Option<PeerNiId>) -> bool {
        let Self { peers, routing, credits, backpressure, .. } = self;
        let room = peers.make_room(now, router, in_use(routing, credits, backpressure));
        self.follow_peers(now);
        room
    }

    /// Forgets peers that were idle for long.
    pub(super) fn forget_idle_peers(&mut self, now: Time) {
        let Self { peers, routing, credits, backpressure, .. } = self;
        peers.forget_idle(now, in_use(routing, credits, backpressure));
        self.follow_peers(now);
    }
}

/// Returns whether a peer is a gateway, or messages of it or for it are under way.
fn in_use(
    routing: &Routing,
    credits: &CreditTable,
    backpressure: &Backpressure,
) -> impl Fn(PeerId, &Peer) -> bool {
    let busy = |ni: &PeerNiId| !credits.is_peer_ni_idle(*ni) || backpressure.is_holding(*ni);
    move |id, peer| routing.is_gateway(id) || peer.nis().iter().any(busy)
}

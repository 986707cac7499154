//! Which peers are forgotten. An unknown peer is one that is not configured and with which no
//! service has exchanged a message: it has pinged this node, pushed to it, or was named by others.
//!
//! ```text
//! more than 4,096 NIDs of unknown peers  those of peers that were idle for 5 s go, the oldest first
//! 32,768, or 8,192 behind one router     the oldest idle ones go at once
//! 65,536 NIDs in total                   the oldest idle peers go at once, unknown ones first
//! ```
//!
//! Idle peers have no message under way and are not being discovered. A peer that comes back is
//! learnt again.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::Time;

use super::{PEER_NIS_MAX, Peer, PeerId, PeerNiId, PeerState, Peers};

/// So many NIDs of unknown peers are remembered however long they are idle.
const UNKNOWN_KEPT: usize = 4096;
const UNKNOWN_MAX: usize = PEER_NIS_MAX / 2;
/// How many of them one router makes known.
const ROUTED_MAX: usize = 8192;
/// How long an unknown peer is idle before it goes.
const IDLE: Duration = Duration::from_secs(5);
/// The pause between two searches.
const PAUSE: Duration = Duration::from_secs(1);

/// What was counted when peers were last searched, and what came since.
#[derive(Debug, Default)]
pub(super) struct Ageing {
    /// The NIDs of known peers.
    known: usize,
    /// The NIDs of unknown peers that each router has made known.
    routed: BTreeMap<PeerNiId, usize>,
    /// When idle unknown peers are searched next.
    due: Option<Time>,
    /// A search has just found nothing to forget; until then there is no other.
    not_before: Option<Time>,
}

/// A peer that may be forgotten. The order is the one in which they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Idle {
    known: bool,
    used: Option<Time>,
    id: PeerId,
    nids: usize,
}

/// How many NIDs are to be forgotten, and whose.
#[derive(Clone, Copy, Debug)]
struct Demand {
    nids: usize,
    whose: Whose,
}

#[derive(Clone, Copy, Debug)]
enum Whose {
    /// Those of unknown peers that have been idle for [`IDLE`] at this time.
    IdleAt(Time),
    /// Those of unknown peers behind this router.
    Behind(PeerNiId),
    /// Those of unknown peers.
    Unknown,
    /// Those of unknown peers first, then others.
    All,
}

impl Peers {
    /// Notes that a NID is used now, and whether that is for a service.
    #[inline]
    pub(crate) fn used(&mut self, now: Time, id: PeerNiId, of_service: bool) {
        if let Some(ni) = self.ni_mut(id) {
            ni.used = Some(now);
            ni.served |= of_service;
        }
    }

    /// Notes the router behind which a new NID is.
    pub(crate) fn is_behind(&mut self, id: PeerNiId, router: PeerNiId) {
        if let Some(ni) = self.ni_mut(id) {
            ni.router = Some(router);
            *self.ageing.routed.entry(router).or_default() += 1;
        }
    }

    /// Returns when idle unknown peers are searched next.
    pub(crate) fn ageing_due(&self) -> Option<Time> {
        self.ageing.due
    }

    /// A NID was added: when there are too many, idle unknown peers are searched soon.
    pub(crate) fn plan_ageing(&mut self, now: Time) {
        if self.unknown() > UNKNOWN_KEPT {
            self.ageing.due.get_or_insert(now + PAUSE);
        }
    }

    /// Forgets the unknown peers that were idle for long.
    pub(crate) fn forget_idle(&mut self, now: Time, in_use: impl Fn(PeerId, &Peer) -> bool) {
        self.ageing.due = None;
        self.count_unknown(now);
        let nids = self.unknown().saturating_sub(UNKNOWN_KEPT);
        let whose = Whose::IdleAt(now);
        self.forget_peers(Demand { nids, whose }, in_use);
        self.plan_ageing(now);
    }

    /// Returns whether another NID that a peer makes known has room, by forgetting others if it must
    /// be. `router` is the one that brought it.
    pub(crate) fn make_room(
        &mut self,
        now: Time,
        router: Option<PeerNiId>,
        in_use: impl Fn(PeerId, &Peer) -> bool,
    ) -> bool {
        if self.shortage(router).is_none() {
            return true;
        }
        if self.ageing.not_before.is_some_and(|at| now < at) {
            return false;
        }
        self.count_unknown(now);
        if let Some(demand) = self.shortage(router) {
            self.forget_peers(demand, in_use);
        }
        let room = self.shortage(router).is_none();
        self.ageing.not_before = (!room).then_some(now + PAUSE);
        room
    }

    /// Returns what must be forgotten before another NID has room: an eighth more than that, or each
    /// newcomer would cost a search.
    fn shortage(&self, router: Option<PeerNiId>) -> Option<Demand> {
        let over = |count: usize, max: usize, whose| {
            (count >= max).then(|| Demand { nids: count - max + max / 8, whose })
        };
        let behind = |router| {
            let count = self.ageing.routed.get(&router).copied().unwrap_or(0);
            over(count, ROUTED_MAX, Whose::Behind(router))
        };
        over(self.nids.len(), PEER_NIS_MAX, Whose::All)
            .or_else(|| over(self.unknown(), UNKNOWN_MAX, Whose::Unknown))
            .or_else(|| router.and_then(behind))
    }

    pub(super) fn has_too_many_unknown(&self) -> bool {
        self.unknown() >= UNKNOWN_MAX
    }

    /// Returns how many NIDs of unknown peers there are at most.
    fn unknown(&self) -> usize {
        self.nids.len().saturating_sub(self.ageing.known)
    }

    /// Forgets idle peers as far as that is demanded.
    fn forget_peers(&mut self, demand: Demand, in_use: impl Fn(PeerId, &Peer) -> bool) {
        let Demand { mut nids, whose } = demand;
        let is_demanded = |idle: &Idle| match whose {
            Whose::All => true,
            Whose::Unknown => !idle.known,
            Whose::Behind(router) => !idle.known && self.router_of(idle.id) == Some(router),
            Whose::IdleAt(now) => !idle.known && idle.used.is_some_and(|used| used + IDLE <= now),
        };
        let mut idle: Vec<Idle> = self
            .peers
            .iter()
            .map(|(id, peer)| (PeerId(id), &**peer))
            .filter(|(id, peer)| !peer.is_busy() && !self.awaits_primary(*id) && !in_use(*id, peer))
            .map(|(id, peer)| self.idle(id, peer))
            .filter(is_demanded)
            .collect();
        idle.sort_unstable();
        for Idle { id, nids: own, known, .. } in idle {
            if nids == 0 {
                break;
            }
            nids = nids.saturating_sub(own);
            if known {
                self.ageing.known -= own;
            } else if let Some(router) = self.router_of(id)
                && let Some(count) = self.ageing.routed.get_mut(&router)
            {
                *count -= 1;
            }
            self.delete(id);
        }
    }

    /// Counts the NIDs of unknown peers. One that was never used counts as used now.
    fn count_unknown(&mut self, now: Time) {
        self.ageing.known = 0;
        self.ageing.routed.clear();
        for id in self.nids.values() {
            let Some(ni) = self.nis.get_mut(id.0) else { continue };
            ni.used.get_or_insert(now);
            let (peer, router) = (ni.peer, ni.router);
            let known = self.peer(peer).is_some_and(|peer| self.knows(peer));
            if known {
                self.ageing.known += 1;
            } else if let Some(router) = router {
                *self.ageing.routed.entry(router).or_default() += 1;
            }
        }
    }

    /// Returns whether a peer is known.
    fn knows(&self, peer: &Peer) -> bool {
        let served = |id: &PeerNiId| self.ni(*id).is_some_and(|ni| ni.served);
        peer.has(PeerState::CONFIGURED) || peer.nis.iter().any(served)
    }

    fn idle(&self, id: PeerId, peer: &Peer) -> Idle {
        let used = peer.nis.iter().filter_map(|id| self.ni(*id)?.used).max();
        Idle { known: self.knows(peer), used, id, nids: peer.nis.len() }
    }

    fn router_of(&self, peer: PeerId) -> Option<PeerNiId> {
        let nis = &self.peer(peer)?.nis;
        nis.iter().find_map(|id| self.ni(*id)?.router)
    }
}

impl Peer {
    /// Returns whether it is configured, or something is being done for it.
    fn is_busy(&self) -> bool {
        self.state.has_any(&[PeerState::CONFIGURED, PeerState::DISCOVERING])
            || !self.parked.is_empty()
            || !self.queries.is_empty()
            || !self.claimants.is_empty()
    }
}

//! Which of our interfaces, and which of the peer's, carries a message.
//! Spec: lnet-behaviour §8.4 to §8.6, §9.3, §10.1 to §10.6.
//!
//! `select` returns the local NI, the next hop and the NID for the header; `commit` assigns the
//! message to them and `post` takes the credits. A message whose path fails before delivery returns
//! to `launch`, and so to `select`, where the lowered health of the failed path makes another one
//! win. No path is excluded explicitly.
//!
//! ```text
//! source given (a response too)   that pair of NIDs; another pair of a multi-rail peer only if that one is known to be broken
//! multi-rail peer                 the best network in common, there the best local NI, then the peer's best NID; a route if there is none
//! other peer                      the NID as given, from the NI that the peer knows
//! remote network                  the best usable route: UDSP, priority, hops, health and queue of the gateway, turn
//! ```
//!
//! NIs and NIDs are compared by state (up first), then health, UDSP priority, credits, turn.
//! Policies of the administrator are stored in the objects (`Policy`), so that no rule is evaluated
//! for each message.

use std::cmp::Reverse;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::{Body, Net, Nid, RESERVED_PORTAL};

use super::Lnet;
use super::message::Message;
use super::route::Detour;
use crate::health::{Rank, Target};
use crate::ni::{Ni, NiId};
use crate::peers::{PeerId, PeerNi, PeerNiId, PeerState};
use crate::routing::RouteId;

/// The result of selection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path {
    Loopback,
    /// The peer must be discovered first.
    Discover(PeerId),
    /// The NID must name its peer first: others cannot speak for it.
    Verify(PeerNiId),
    Via(Hop),
}

/// A message's next hop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    pub(super) ni: NiId,
    pub(super) next: PeerNiId,
    /// The NID of the final target.
    pub(super) last: PeerNiId,
    pub(super) route: Option<RouteId>,
}

/// The class of a message for selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// An application's PUT or GET: discovery comes first, any NID of the peer is suitable.
    Request,
    /// Ping or push: goes to exactly this NID, discovered or not.
    Reserved,
    /// REPLY or ACK: the pair of NIDs is that of the request.
    Response,
}

/// The properties of a message that selection depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Criteria {
    class: Class,
    target: Nid,
    source: Option<Nid>,
    /// The router that brought the request of a response.
    router: Option<Nid>,
    /// The previous hop and the source of a message that is forwarded.
    forwarded: Option<(Nid, Nid)>,
    /// Exactly this pair of NIDs, even if it is known to be broken.
    probe: bool,
}

impl Criteria {
    pub(super) fn of(message: &Message) -> Self {
        let class = match message.header.body {
            Body::Put { portal: RESERVED_PORTAL, .. }
            | Body::Get { portal: RESERVED_PORTAL, .. } => Class::Reserved,
            Body::Put { .. } | Body::Get { .. } => Class::Request,
            Body::Ack { .. } | Body::Reply { .. } => Class::Response,
        };
        let transit = message.transit.as_ref();
        Self {
            class,
            target: message.target,
            source: message.source,
            router: message.router,
            forwarded: transit.map(|transit| (transit.arrival.from, message.header.source)),
            probe: message.probe,
        }
    }
}

impl Lnet {
    /// Chooses the path of a message.
    ///
    /// # Errors
    /// EINVAL if the given source is not ours; EHOSTUNREACH without a network in common or a
    /// route; ENOMEM if other nodes have filled the peer table.
    pub(super) fn select(&mut self, now: Time, criteria: Criteria) -> Result<Path, Errno> {
        let Criteria { target, source, .. } = criteria;
        if target.is_loopback() {
            return Ok(Path::Loopback);
        }
        let given = match source {
            Some(nid) => Some(self.ni_of(nid).ok_or(Errno::EINVAL)?.id),
            None => None,
        };
        if target.is_any() || !self.is_reachable(target) {
            return Err(Errno::EHOSTUNREACH);
        }
        let unsolicited = criteria.class == Class::Response || criteria.forwarded.is_some();
        let exact = if unsolicited {
            self.peer_ni_made_known(now, target, criteria.router)?
        } else {
            self.peer_ni_for(now, target)
        };
        let peer = self.peers.ni(exact).expect("the peer NI was found or made").peer();
        if criteria.class == Class::Request {
            if criteria.forwarded.is_some() {
                self.discover_beside(peer, target);
            } else if !self.peers.is_verified(exact) {
                return Ok(Path::Verify(exact));
            } else if !self.peers.is_up_to_date(peer) {
                return Ok(Path::Discover(peer));
            }
        }
        let multi_rail =
            self.peer_has(peer, PeerState::MULTI_RAIL) && self.peers.is_verified(exact);
        let path = match given {
            Some(ni) => self.select_from(now, criteria, ni, exact, multi_rail),
            None if multi_rail && self.may_spread(criteria, exact) => self.select_any(now, peer),
            None => self.select_exact(now, criteria, exact, multi_rail),
        };
        let path = path.ok_or(Errno::EHOSTUNREACH)?;
        match path {
            // Two routers would send each other a message that neither can deliver for ever.
            Path::Via(hop) if self.is_previous_hop(criteria, hop) => Err(Errno::EHOSTUNREACH),
            path => Ok(path),
        }
    }

    /// Has the target of a message in transit discovered. The message does not wait for that: it
    /// goes to the NID that it is for, and holds a buffer that others need.
    fn discover_beside(&mut self, peer: PeerId, target: Nid) {
        // A router before another router knows the target only from the header.
        let is_last = self.is_local(target.net());
        if is_last
            && !self.peers.is_up_to_date(peer)
            && !self.peers.has(peer, PeerState::DISCOVERING)
        {
            self.peers.queue(peer);
        }
    }

    /// Chooses the path of a message whose source is given: that pair, unless it is broken and
    /// another path to the peer is not.
    fn select_from(
        &mut self,
        now: Time,
        criteria: Criteria,
        ni: NiId,
        exact: PeerNiId,
        multi_rail: bool,
    ) -> Option<Path> {
        let net = self.ni(ni)?.config.nid.net();
        let direct = net == self.peer_net(exact);
        if direct && multi_rail && !criteria.probe && self.is_broken(ni, exact) {
            let peer = self.peers.ni(exact)?.peer();
            // What a response carries is for the node that asked: a NID that has not named its peer
            // may be of another.
            if let Some(Path::Via(hop)) = self.select_any(now, peer)
                && !self.is_broken(hop.ni, hop.next)
                && (criteria.class != Class::Response || self.peers.is_verified(hop.last))
            {
                return Some(Path::Via(hop));
            }
        }
        if direct {
            return Some(Path::Via(Hop { ni, next: exact, last: exact, route: None }));
        }
        let back =
            criteria.router.and_then(|router| self.return_path(router, net, criteria.target.net()));
        let detour = match back {
            Some(detour) => detour,
            None => self.detour(now, criteria.target.net(), Some(net), criteria.target)?,
        };
        self.by_gateway(now, Some(ni), detour, exact)
    }

    /// Chooses among all interfaces of a multi-rail peer and ours. A direct path, if there is one,
    /// beats every route.
    fn select_any(&mut self, now: Time, peer: PeerId) -> Option<Path> {
        if let Some(net) = self.best_shared_net(now, peer) {
            let ni = self.best_ni(now, net)?;
            let next = self.best_peer_ni(now, peer, net, Some(ni))?;
            return Some(Path::Via(Hop { ni, next, last: next, route: None }));
        }
        let nis = self.peers.peer(peer)?.nis();
        let remote = nis.iter().copied().filter(|id| self.routing.leads_to(self.peer_net(*id)));
        let mut remote: Vec<PeerNiId> = remote.collect();
        remote.sort_by_cached_key(|id| self.peer_ni_key(now, *id, None));
        let routed = remote.into_iter().find_map(|last| {
            let nid = self.peers.ni(last)?.nid();
            Some((last, self.detour(now, nid.net(), None, nid)?))
        });
        let (last, detour) = routed?;
        self.by_gateway(now, None, detour, last)
    }

    /// Chooses the path to exactly this NID.
    fn select_exact(
        &mut self,
        now: Time,
        criteria: Criteria,
        exact: PeerNiId,
        multi_rail: bool,
    ) -> Option<Path> {
        let net = self.peer_net(exact);
        let settled = criteria.class == Class::Request && !multi_rail;
        if self.is_local(net) {
            let ni = if settled { self.preferred_ni(now, exact) } else { self.best_ni(now, net) }?;
            return Some(Path::Via(Hop { ni, next: exact, last: exact, route: None }));
        }
        if let Some(detour) = self.detour(now, net, None, criteria.target) {
            return self.by_gateway(now, None, detour, exact);
        }
        // Its other NIDs may be nearer, as those of a multi-rail peer that is pinged.
        if multi_rail { self.select_any(now, self.peers.ni(exact)?.peer()) } else { None }
    }

    /// Completes the path by a gateway. Its discovery comes first only where it is not checked.
    fn by_gateway(
        &mut self,
        now: Time,
        ni: Option<NiId>,
        detour: Detour,
        last: PeerNiId,
    ) -> Option<Path> {
        let Detour { route, next_hop } = detour;
        let gateway = self.peers.ni(next_hop)?.peer();
        if self.routing.config().alive_router_check_interval == 0
            && !self.peers.is_up_to_date(gateway)
        {
            return Some(Path::Discover(gateway));
        }
        let ni = match ni {
            Some(ni) => ni,
            None => self.best_ni(now, self.peer_net(next_hop))?,
        };
        Some(Path::Via(Hop { ni, next: next_hop, last, route }))
    }

    /// Returns the path of a response by the router that forwarded the request, if it is alive and
    /// still a gateway to that network.
    fn return_path(&self, router: Nid, net: Net, to: Net) -> Option<Detour> {
        let next_hop = self.peers.find(router).filter(|_| router.net() == net)?;
        let peer = self.peers.ni(next_hop)?.peer();
        let route = self.route_by(peer, to);
        (self.routing.is_gateway_alive(peer) && route.is_some())
            .then_some(Detour { route, next_hop })
    }

    /// Returns whether this node may choose the NID of the peer.
    fn may_spread(&self, criteria: Criteria, exact: PeerNiId) -> bool {
        if criteria.class != Class::Request || criteria.probe {
            return false;
        }
        let Some((_, source)) = criteria.forwarded else { return true };
        // On its last hop a message is sent to its target NID, unless that NID is unhealthy.
        let sender = self.peers.owner(source);
        let knows = sender.is_some_and(|peer| self.peer_has(peer, PeerState::MULTI_RAIL));
        let healthy = self.peers.ni(exact).is_some_and(PeerNi::is_up)
            && self.health.is_full(Target::PeerNi(exact));
        knows && !healthy
    }

    fn is_previous_hop(&self, criteria: Criteria, hop: Hop) -> bool {
        criteria
            .forwarded
            .is_some_and(|(from, _)| self.peers.ni(hop.next).is_some_and(|next| next.nid() == from))
    }

    /// Returns whether the path between two interfaces is known to be broken.
    fn is_broken(&self, ni: NiId, peer_ni: PeerNiId) -> bool {
        self.ni(ni).is_none_or(|ni| ni.fatal)
            || self.peers.ni(peer_ni).is_none_or(PeerNi::is_broken)
    }

    /// Marks the chosen interfaces as the latest used.
    pub(super) fn stamp(&mut self, hop: Hop) {
        self.stamps += 1;
        let stamp = self.stamps;
        if let Some(ni) = self.ni_mut(hop.ni) {
            ni.stamp = stamp;
        }
        self.peers.stamp(hop.next, stamp);
        if hop.last != hop.next {
            self.peers.stamp(hop.last, stamp);
            self.routing.stamp(hop.route);
        }
    }

    /// Returns the NID at which a peer can be pinged: of a gateway one on the network whose turn
    /// it is, of another its primary, if this node is on its network.
    pub(super) fn contact(&self, peer: PeerId) -> Option<Nid> {
        let nids = self.peers.nids_of(peer);
        let checked = self.check_net(peer);
        let wanted = |nid: &&Nid| match checked {
            Some(net) => nid.net() == net,
            None => self.is_local(nid.net()),
        };
        nids.iter().find(wanted).or(nids.first()).copied()
    }

    /// Returns the best NID of a peer for a message that may use any of them.
    pub(super) fn best_nid(&self, now: Time, peer: PeerId) -> Option<Nid> {
        let net = self.best_shared_net(now, peer)?;
        self.peers.ni(self.best_peer_ni(now, peer, net, None)?).map(PeerNi::nid)
    }

    pub(super) fn is_reachable(&self, target: Nid) -> bool {
        let near = |net: Net| self.is_local(net) || self.routing.leads_to(net);
        if near(target.net()) {
            return true;
        }
        let Some(peer) = self.peers.owner(target) else { return false };
        self.peer_has(peer, PeerState::MULTI_RAIL)
            && self.peers.nids_of(peer).iter().any(|nid| near(nid.net()))
    }

    fn peer_ni_for(&mut self, now: Time, nid: Nid) -> PeerNiId {
        if let Some(found) = self.peers.find(nid) {
            return found;
        }
        self.peers.create(nid);
        self.follow_peers(now);
        self.peers.find(nid).expect("the peer was made with this NID")
    }

    /// Returns the peer NI of a NID that another node has made known, maybe a router.
    fn peer_ni_made_known(
        &mut self,
        now: Time,
        nid: Nid,
        router: Option<Nid>,
    ) -> Result<PeerNiId, Errno> {
        if let Some(found) = self.peers.find(nid) {
            return Ok(found);
        }
        let router = router.and_then(|router| self.peers.find(router));
        if !self.has_room(now, router) {
            return Err(Errno::ENOMEM);
        }
        let made = self.peer_ni_for(now, nid);
        if let Some(router) = router {
            self.peers.is_behind(made, router);
        }
        Ok(made)
    }

    pub(super) fn peer_net(&self, peer_ni: PeerNiId) -> Net {
        self.peers.ni(peer_ni).map_or(Net::ANY, |ni| ni.nid().net())
    }

    /// Returns the network that is shared with a peer and that is the best to reach it by.
    /// Spec: lnet-behaviour §10.3.
    ///
    /// A kernel does not look for credits here; what waits for one counts, so that messages do not
    /// queue for a rail while another is idle.
    fn best_shared_net(&self, now: Time, peer: PeerId) -> Option<Net> {
        let nis = self.peers.peer(peer)?.nis();
        let nets = || nis.iter().map(|id| self.peer_net(*id)).filter(|net| self.is_local(*net));
        let first = nets().next()?;
        if nets().all(|net| net == first) {
            return Some(first);
        }
        nets().min_by_key(|net| {
            let on_net = nis.iter().copied().filter(|id| self.peer_net(*id) == *net);
            let theirs = on_net.clone().filter_map(|id| self.peers.ni(id));
            let credits = on_net.clone().map(|id| self.credits.left_of_peer_ni(id).min(0));
            let ranks = on_net.map(|id| self.health.rank(now, Target::PeerNi(id)));
            let ours = self.nis.iter().filter(|ni| ni.config.nid.net() == *net);
            let up = |ni: &Ni| !ni.fatal && !ni.disabled;
            let value = |ni: &Ni| self.health.value(Target::Ni(ni.id));
            (
                !theirs.clone().any(PeerNi::is_up) || !ours.clone().any(up),
                Reverse(ranks.clone().map(|rank| rank.value).max()),
                theirs.clone().map(|ni| ni.policy().net_priority).min(),
                Reverse(ours.clone().filter(|ni| up(ni)).map(value).max()),
                ours.clone().map(|ni| ni.net_priority).min(),
                ranks.map(|rank| (rank.doubt, rank.unanswered)).min(),
                Reverse(credits.max()),
                theirs.map(PeerNi::stamp).max(),
                ours.map(|ni| ni.stamp).max(),
            )
        })
    }

    /// Returns the best of our interfaces on `net`. One that does not work or is taken out of use
    /// serves only if none does. Spec: lnet-behaviour §10.5.
    fn best_ni(&self, now: Time, net: Net) -> Option<NiId> {
        let on_net = self.nis.iter().filter(|ni| ni.config.nid.net() == net);
        let key = |ni: &&Ni| {
            let Rank { value, doubt, unanswered } = self.health.rank(now, Target::Ni(ni.id));
            let health = Reverse(value);
            let credits = Reverse(self.credits.left_of_ni(ni.id));
            (ni.disabled, ni.fatal, health, ni.priority, (doubt, unanswered), credits, ni.stamp)
        };
        best(on_net, key).map(|ni| ni.id)
    }

    /// Returns the interface by which a peer without multi-rail knows this node, from now on always.
    fn preferred_ni(&mut self, now: Time, peer_ni: PeerNiId) -> Option<NiId> {
        let known = self.peers.ni(peer_ni)?.preferred();
        if let Some(ni) = known.and_then(|nid| self.ni_of(nid)) {
            return Some(ni.id);
        }
        let best = self.best_ni(now, self.peer_net(peer_ni))?;
        let nid = self.ni(best)?.config.nid;
        self.peers.prefer(peer_ni, nid);
        Some(best)
    }

    fn best_peer_ni(
        &self,
        now: Time,
        peer: PeerId,
        net: Net,
        ni: Option<NiId>,
    ) -> Option<PeerNiId> {
        let nis = self.peers.peer(peer)?.nis().iter().copied();
        let on_net = nis.filter(|id| self.peer_net(*id) == net);
        let ours = ni.and_then(|ni| self.ni(ni)).map(|ni| ni.config.nid);
        best(on_net, |id| self.peer_ni_key(now, *id, ours))
    }

    /// What orders the NIDs of a peer, the best first. Spec: lnet-behaviour §10.6.
    ///
    /// A kernel ignores the status that a peer reports of its NIDs; it counts here, so that an
    /// interface which its administrator has taken out of use is left alone.
    pub(super) fn peer_ni_key(
        &self,
        now: Time,
        id: PeerNiId,
        ours: Option<Nid>,
    ) -> impl Ord + use<> {
        self.peers.ni(id).map(|ni| {
            let Rank { value, doubt, unanswered } = self.health.rank(now, Target::PeerNi(id));
            (
                !ni.is_up(),
                Reverse(value),
                ni.policy().priority,
                !ours.is_some_and(|nid| ni.policy().nids.contains(&nid)),
                (doubt, unanswered),
                Reverse(self.credits.left_of_peer_ni(id)),
                ni.stamp(),
            )
        })
    }
}

/// Returns the candidate with the least `key`, the first of equals. Most often there is only one,
/// and its key is not needed.
pub(super) fn best<T, K: Ord>(
    candidates: impl IntoIterator<Item = T>,
    key: impl FnMut(&T) -> K,
) -> Option<T> {
    let mut candidates = candidates.into_iter();
    let first = candidates.next()?;
    match candidates.next() {
        None => Some(first),
        Some(second) => [first, second].into_iter().chain(candidates).min_by_key(key),
    }
}

#[cfg(test)]
mod tests {
    use super::best;

    #[test]
    fn the_first_of_the_best_is_chosen_and_an_only_one_unsolicited() {
        assert_eq!(best([], |_: &u8| 0), None);
        assert_eq!(best([7], |_| -> u8 { unreachable!("there is no choice") }), Some(7));
        for candidates in [&[3, 1, 2][..], &[1, 3], &[5, 4, 11, 1], &[11, 1, 21]] {
            let expected = candidates.iter().min_by_key(|n| *n % 10);
            assert_eq!(best(candidates, |n| *n % 10), expected);
        }
    }
}

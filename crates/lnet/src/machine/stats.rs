//! What is counted, and what administrators are shown. Spec: lnet-behaviour §5.3, §14.4.

use fulmar_base::Time;
use fulmar_lnd::{FailureClass, NiTunables};
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::{Body, Header, Nid};

use super::Lnet;
use super::message::{Arrival, Hold, Message, Stage, Transit};
use crate::health::{HEALTH_MAX, Target};
use crate::matching::Request;
use crate::notice::Notice;
use crate::peers::{PeerId, PeerNi, PeerState};
use crate::views;

/// The totals of the node, and the traffic of `0@lo`.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) stats: views::Stats,
    /// Messages that are committed.
    pub(super) alive: u64,
    pub(super) alive_max: u64,
    loopback: views::Traffic,
}

impl Counters {
    pub(super) fn message_born(&mut self) {
        self.alive += 1;
        self.alive_max = self.alive_max.max(self.alive);
    }

    pub(super) fn message_died(&mut self) {
        assert!(self.alive > 0, "more messages end than began");
        self.alive -= 1;
    }

    pub(super) fn count_failure(&mut self, failure: FailureClass) {
        let stats = &mut self.stats;
        let counter = match failure {
            FailureClass::LocalInterrupt => &mut stats.local_interrupt_count,
            FailureClass::LocalDropped => &mut stats.local_dropped_count,
            FailureClass::LocalAborted => &mut stats.local_aborted_count,
            FailureClass::LocalNoRoute => &mut stats.local_no_route_count,
            FailureClass::LocalError => &mut stats.local_error_count,
            FailureClass::LocalTimeout => &mut stats.local_timeout_count,
            FailureClass::RemoteError => &mut stats.remote_error_count,
            FailureClass::RemoteDropped => &mut stats.remote_dropped_count,
            FailureClass::RemoteTimeout => &mut stats.remote_timeout_count,
            FailureClass::NetworkTimeout => &mut stats.network_timeout_count,
        };
        *counter += 1;
    }
}

fn count(by: &mut views::ByType, body: &Body) {
    let counter = match body {
        Body::Put { .. } => &mut by.put,
        Body::Get { .. } => &mut by.get,
        Body::Reply { .. } => &mut by.reply,
        Body::Ack { .. } => &mut by.ack,
    };
    *counter += 1;
}

impl Lnet {
    /// Returns whether a NID is that of one of our network interfaces.
    pub fn is_own(&self, nid: Nid) -> bool {
        nid.is_loopback() || self.nis.iter().any(|ni| ni.config.nid == nid)
    }

    /// Returns the node's first NID of four bytes, which protocols use that know no other kind.
    pub fn first_small_nid(&self) -> Option<Nid> {
        self.nis.iter().map(|ni| ni.config.nid).find(|nid| !nid.is_large())
    }

    /// Returns our network interfaces, `0@lo` first.
    pub fn nis(&self) -> Vec<views::Ni> {
        let none =
            NiTunables { peer_timeout: 0, peer_credits: 0, peer_buffer_credits: 0, credits: 0 };
        let loopback = views::Ni {
            nid: Nid::LOOPBACK,
            net: Nid::LOOPBACK.net(),
            up: true,
            fatal: false,
            enabled: true,
            tunables: none,
            credits_max: 0,
            credits: 0,
            credits_min: 0,
            health: views::Health { value: HEALTH_MAX, ..views::Health::default() },
            priority: views::PRIORITY_LOWEST,
            net_priority: views::PRIORITY_LOWEST,
            pinged: None,
            traffic: self.counters.loopback,
        };
        let others = self.nis.iter().map(|ni| (ni, self.credits.ni_level(ni.id)));
        let others = others.map(|(ni, credits)| views::Ni {
            nid: ni.config.nid,
            net: ni.config.nid.net(),
            up: self.is_up(ni),
            fatal: ni.fatal,
            enabled: !ni.disabled,
            tunables: ni.config.tunables,
            credits_max: credits.max,
            credits: credits.current,
            credits_min: credits.min,
            health: self.health.view(Target::Ni(ni.id)),
            priority: ni.priority,
            net_priority: ni.net_priority,
            pinged: self.forwards().then_some(ni.pinged),
            traffic: ni.traffic,
        });
        std::iter::once(loopback).chain(others).collect()
    }

    /// Returns the peers that are known, in the order in which they became so.
    pub fn peers(&self) -> Vec<views::Peer> {
        self.peers.ids().filter_map(|id| self.peer_view(id)).collect()
    }

    fn peer_view(&self, owner: PeerId) -> Option<views::Peer> {
        let peer = self.peers.peer(owner)?;
        let nids = self.peers.nids_of(owner);
        let nis = nids.into_iter().filter_map(|nid| {
            let id = self.peers.find(nid)?;
            let ni = self.peers.ni(id)?;
            let gateway = self.routing.is_gateway(owner);
            let (credits, router) = (self.credits.peer_ni_level(id), self.credits.router_level(id));
            Some(views::PeerNi {
                nid,
                credits_max: credits.max,
                credits: credits.current,
                credits_min: credits.min,
                router_credits: router.current,
                router_credits_min: router.min,
                queued_bytes: self.credits.queued_bytes(id),
                refcount: 1 + u32::try_from(credits.users()).unwrap_or(u32::MAX),
                health: self.health.view(Target::PeerNi(id)),
                alive: self.aliveness(gateway, ni),
                priority: ni.policy().priority,
                net_priority: ni.policy().net_priority,
                preferred_nids: ni.policy().nids.clone(),
                preferred_gateways: ni.policy().gateways.clone(),
                traffic: *ni.traffic(),
            })
        });
        Some(views::Peer {
            primary: peer.primary(),
            multi_rail: peer.has(PeerState::MULTI_RAIL),
            state: peer.state().0,
            configured: peer.has(PeerState::CONFIGURED),
            nis: nis.collect(),
        })
    }

    /// Returns whether a NID of a peer lives, if that is watched: a router watches all NIDs.
    fn aliveness(&self, gateway: bool, ni: &PeerNi) -> Option<bool> {
        let first = self.nis.iter().find(|own| own.config.nid.net() == ni.nid().net());
        let watches =
            self.forwards() && first.is_some_and(|own| own.config.tunables.peer_timeout > 0);
        (watches || gateway).then_some(ni.is_alive())
    }

    /// Returns the totals.
    pub fn stats(&self) -> views::Stats {
        views::Stats {
            msgs_alloc: self.counters.alive,
            msgs_max: self.counters.alive_max,
            rst_alloc: self.matching.awaited() as u64,
            ..self.counters.stats
        }
    }

    /// Sets the totals to zero, but for what is alive.
    pub fn reset_stats(&mut self) {
        self.counters.stats = views::Stats::default();
        self.counters.alive_max = self.counters.alive;
    }

    /// Makes the present credits of all interfaces the lowest that they had.
    pub fn reset_ni_minima(&mut self) {
        self.credits.forget_ni_minima();
    }

    /// Makes the present credits of all NIDs of peers the lowest that they had.
    pub fn reset_peer_minima(&mut self) {
        self.credits.forget_peer_ni_minima();
    }

    /// Returns what a ping of this node answers.
    pub fn ping_info(&self) -> PingInfo {
        self.own_info()
    }

    /// Counts a message that was sent, if nothing failed.
    pub(super) fn count_sent(&mut self, now: Time, message: &Message, ok: bool) {
        if !ok || !message.is_committed() {
            return;
        }
        if let Some(transit) = &message.transit {
            return self.count_passed_on(now, message, transit);
        }
        let body = &message.header.body;
        self.counters.stats.send_count += 1;
        if matches!(body, Body::Put { .. } | Body::Reply { .. }) {
            self.counters.stats.send_length += u64::from(message.header.payload_len);
        }
        let Stage::Sending(path) = message.stage else {
            return count(&mut self.counters.loopback.sent, body);
        };
        assert_eq!(path.hold, Hold::Both, "only what the LND had is sent");
        let took = now.since(path.committed).as_nanos() as u64;
        self.on_path(path.ni, path.peer_ni, |traffic| {
            count(&mut traffic.sent, body);
            if matches!(body, Body::Put { .. }) {
                traffic.put_egress.record(took);
            }
        });
    }

    /// Counts a message that was accepted, and how much of its payload.
    pub(super) fn count_received(&mut self, arrival: Arrival, header: &Header, accepted: u32) {
        self.counters.stats.recv_count += 1;
        if matches!(header.body, Body::Put { .. } | Body::Reply { .. }) {
            self.counters.stats.recv_length += u64::from(accepted);
        }
        self.on_arrival(arrival, |traffic| count(&mut traffic.received, &header.body));
    }

    pub(super) fn count_dropped(&mut self, arrival: Arrival, header: &Header) {
        self.counters.stats.drop_count += 1;
        self.counters.stats.drop_length += u64::from(header.payload_len);
        self.on_arrival(arrival, |traffic| count(&mut traffic.dropped, &header.body));
    }

    /// Counts a message that has come whole and is for another node.
    pub(super) fn count_passed_in(&mut self, arrival: Arrival, header: &Header) {
        self.on_arrival(arrival, |traffic| count(&mut traffic.received, &header.body));
    }

    /// Counts a message that was forwarded.
    fn count_passed_on(&mut self, now: Time, message: &Message, transit: &Transit) {
        let len = message.header.payload_len;
        self.counters.stats.route_count += 1;
        self.counters.stats.route_length += u64::from(len);
        let Stage::Sending(path) = message.stage else { return };
        self.on_path(path.ni, path.peer_ni, |traffic| {
            count(&mut traffic.sent, &message.header.body)
        });
        let Some(out) = self.ni(path.ni).map(|ni| ni.config.nid.net()) else { return };
        self.routing.passed((transit.arrival.ni.net(), out), len, now.since(transit.since));
    }

    /// Counts a message that could not be forwarded.
    pub(super) fn drop_in_transit(&mut self, message: &Message, transit: &Transit) {
        self.count_dropped(transit.arrival, &message.header);
        let (from, reason) = (transit.arrival.from, "it cannot be forwarded");
        self.notice(Notice::Dropped { from, reason });
    }

    /// Counts how long an answer took.
    pub(super) fn count_response(&mut self, now: Time, body: &Body, request: Request) {
        let took = now.since(request.at).as_nanos() as u64;
        self.routing.record(request.route, took);
        self.on_path(request.ni, request.peer_ni, |traffic| match body {
            Body::Reply { .. } => traffic.get_rtt.record(took),
            Body::Ack { .. } => traffic.put_ack.record(took),
            _ => {}
        });
    }

    fn on_path(
        &mut self,
        ni: crate::ni::NiId,
        peer_ni: crate::peers::PeerNiId,
        add: impl Fn(&mut views::Traffic),
    ) {
        if let Some(ni) = self.ni_mut(ni) {
            add(&mut ni.traffic);
        }
        self.peers.count(peer_ni, add);
    }

    fn on_arrival(&mut self, arrival: Arrival, add: impl Fn(&mut views::Traffic)) {
        if arrival.ni.is_loopback() {
            return add(&mut self.counters.loopback);
        }
        if let Some(ni) = self.nis.iter_mut().find(|ni| ni.config.nid == arrival.ni) {
            add(&mut ni.traffic);
        }
        if let Some(peer_ni) = self.peers.find(arrival.from) {
            self.peers.count(peer_ni, add);
        }
    }
}

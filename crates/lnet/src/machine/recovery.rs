//! Recovery: pings of what has failed, until it answers. Spec: lnet-behaviour §11.6.
//!
//! A NID of a peer is pinged exactly there. One of our own interfaces pings a neighbour that was
//! heard of lately, where a kernel node pings itself through its LND: only the answer of a
//! neighbour shows that the network behind the interface works.

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::{Nid, ProcessId};

use super::Lnet;
use super::OwnEvent;
use crate::api::MdId;
use crate::health::{PingDue, Target};
use crate::matching::Owner;
use crate::ni::NiId;
use crate::peers::{PeerNi, PeerNiId};
use crate::views;

impl Lnet {
    /// Returns the NIDs that wait to recover.
    pub fn recovery(&self) -> views::Recovery {
        let local = self.nis.iter().filter(|ni| self.health.is_recovering(Target::Ni(ni.id)));
        let waits = |id| self.health.is_recovering(Target::PeerNi(id));
        let peer = self.peers.all_nis().filter(|(id, _)| waits(*id));
        views::Recovery {
            local: local.map(|ni| ni.config.nid).collect(),
            peer: peer.map(|(_, ni)| ni.nid()).collect(),
        }
    }

    /// Pings what waits to recover.
    pub(super) fn recover(&mut self, now: Time, target: Target) {
        let Some(due) = self.health.ping_due(target) else { return };
        match target {
            Target::Ni(id) => self.recover_ni(now, id, due),
            Target::PeerNi(id) => self.recover_peer_ni(now, id, due),
        }
    }

    /// Pings a neighbour of one of our interfaces.
    fn recover_ni(&mut self, now: Time, id: NiId, due: PingDue) {
        let Some(ni) = self.ni(id) else { return };
        let (own, fatal, target) = (ni.config.nid, ni.fatal, Target::Ni(id));
        self.forget_probe(due.previous);
        self.health.schedule(target, now + self.pause(due.pings));
        // There is no point while its link is down; the link's return begins anew.
        let neighbour = self.neighbour(own).filter(|_| !fatal);
        let ping = neighbour.map(|nid| self.probe(now, target, Some(own), nid));
        self.health.pinged(target, ping, due.pings);
        if !fatal && ping.is_none() {
            // Nothing has ever come from that network: nothing speaks against the interface.
            self.raise_ni(now, id);
        }
    }

    /// Pings a NID of a peer.
    fn recover_peer_ni(&mut self, now: Time, id: PeerNiId, due: PingDue) {
        let Some(nid) = self.peers.ni(id).map(PeerNi::nid) else { return };
        let target = Target::PeerNi(id);
        let limit = Duration::from_secs(self.globals.recovery_limit.into());
        let Some(heard) = due.heard else { return };
        let aged = !limit.is_zero() && now.since(heard) > limit;
        if aged || self.peers.find(nid) != Some(id) || !self.is_local(nid.net()) {
            return;
        }
        self.forget_probe(due.previous);
        self.health.schedule(target, now + self.pause(due.pings));
        let ping = self.probe(now, target, None, nid);
        self.health.pinged(target, Some(ping), due.pings);
    }

    /// Returns how long it is until the ping after `pings` others.
    fn pause(&self, pings: u32) -> Duration {
        let longest = u64::from(self.globals.max_recovery_ping_interval);
        Duration::from_secs(1u64.checked_shl(pings).unwrap_or(longest).min(longest))
    }

    /// Returns the NID on the network of `nid` from which something came last, if any did.
    fn neighbour(&self, nid: Nid) -> Option<Nid> {
        let on_net = self.peers.all_nis().filter(|(_, ni)| ni.nid().net() == nid.net());
        let heard = on_net
            .filter_map(|(id, ni)| Some((self.health.last_heard(Target::PeerNi(id))?, ni.nid())));
        heard.max().map(|(_, nid)| nid)
    }

    fn probe(&mut self, now: Time, target: Target, source: Option<Nid>, nid: Nid) -> MdId {
        let nid = ProcessId::lustre(nid);
        self.begin_ping(now, Owner::Probe(target), source, nid, PingInfo::SIZE_MIN)
    }

    fn forget_probe(&mut self, md: Option<MdId>) {
        if let Some(md) = md {
            self.unlink(md);
        }
    }

    /// Forgets a recovery ping that has ended. What came back has raised the health already.
    pub(super) fn probe_event(&mut self, event: &OwnEvent) {
        if event.kind == crate::EventKind::Send && event.status == Ok::<(), Errno>(()) {
            return;
        }
        if let Owner::Probe(target) = event.owner {
            self.health.ping_ended(target, event.md);
        }
        self.unlink(event.md);
    }
}

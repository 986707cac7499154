//! Recovery: pings of what has failed, until it answers. Spec: lnet-behaviour §11.6.
//!
//! A NID of a peer is pinged exactly there. One of our own interfaces pings a neighbour that was
//! heard of lately, where a kernel node pings itself through its LND: only a neighbour's answer
//! shows that the network behind the interface works.

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::{Nid, ProcessId};

use crate::Lnet;
use crate::api::{MdId, Memory};
use crate::machine::{HEALTH_MAX, OwnEvent, Timer};
use crate::md::Owner;
use crate::ni::NiId;
use crate::peer::PeerNiId;
use crate::views;

/// The pause before the first ping.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

impl Lnet {
    /// Has something recover; the timer tells what.
    pub(crate) fn recover(&mut self, now: Time, timer: Timer) {
        if self.timers.get(timer).is_none() {
            self.timers.set(timer, now + FIRST_PAUSE);
        }
    }

    /// Has something be pinged at once, and soon again if that fails.
    pub(crate) fn recover_now(&mut self, now: Time, timer: Timer) {
        self.timers.set(timer, now);
    }

    /// Returns the NIDs that wait to recover.
    pub fn recovery(&self) -> views::Recovery {
        let waits = |timer| self.timers.get(timer).is_some();
        let local = self.nis.iter().filter(|ni| waits(Timer::RecoverNi(ni.id)));
        let peer = self.peers.all_nis().filter(|(id, _)| waits(Timer::RecoverPeerNi(*id)));
        views::Recovery {
            local: local.map(|ni| ni.config.nid).collect(),
            peer: peer.map(|(_, ni)| ni.nid).collect(),
        }
    }

    /// Pings a neighbour of one of our interfaces.
    pub(crate) fn recover_ni(&mut self, now: Time, id: NiId) {
        let Some(ni) = self.ni(id) else { return };
        let (own, old, pings) = (ni.config.nid, ni.condition.ping, ni.condition.pings);
        if ni.condition.value == HEALTH_MAX {
            return;
        }
        let fatal = ni.fatal;
        self.forget_probe(old);
        self.timers.set(Timer::RecoverNi(id), now + self.pause(pings));
        // There is no point while its link is down; the link's return begins anew.
        let neighbour = self.neighbour(own).filter(|_| !fatal);
        let ping = neighbour.map(|nid| self.probe(now, Owner::NiProbe(id), Some(own), nid));
        let alone = !fatal && ping.is_none();
        if let Some(ni) = self.ni_mut(id) {
            ni.condition.ping = ping;
            ni.condition.pings = pings.saturating_add(1);
        }
        if alone {
            // Nobody has ever been heard of there: nothing speaks against it.
            self.raise_ni(now, id);
        }
    }

    /// Pings a NID of a peer.
    pub(crate) fn recover_peer_ni(&mut self, now: Time, id: PeerNiId) {
        let Some(ni) = self.peers.ni(id) else { return };
        let (nid, old, pings) = (ni.nid, ni.condition.ping, ni.condition.pings);
        let limit = Duration::from_secs(self.globals.recovery_limit.into());
        let aged = !limit.is_zero() && ni.heard.is_none_or(|heard| now.since(heard) > limit);
        let wanted = ni.condition.value < HEALTH_MAX && ni.heard.is_some() && !aged;
        if !wanted || self.peers.find(nid) != Some(id) || !self.is_local(nid.net()) {
            return;
        }
        self.forget_probe(old);
        self.timers.set(Timer::RecoverPeerNi(id), now + self.pause(pings));
        let ping = self.probe(now, Owner::PeerProbe(id), None, nid);
        if let Some(ni) = self.peers.ni_mut(id) {
            ni.condition.ping = Some(ping);
            ni.condition.pings = pings.saturating_add(1);
        }
    }

    /// How long until the ping after `pings` others.
    fn pause(&self, pings: u32) -> Duration {
        let longest = u64::from(self.globals.max_recovery_ping_interval);
        Duration::from_secs(1u64.checked_shl(pings).unwrap_or(longest).min(longest))
    }

    /// Returns the NID on the network of `nid` that was last heard of, if any was.
    fn neighbour(&self, nid: Nid) -> Option<Nid> {
        let on_net = self.peers.all_nis().map(|(_, ni)| ni);
        let on_net = on_net.filter(|ni| ni.nid.net() == nid.net() && ni.heard.is_some());
        on_net.max_by_key(|ni| (ni.heard, ni.nid)).map(|ni| ni.nid)
    }

    fn probe(&mut self, now: Time, owner: Owner, source: Option<Nid>, target: Nid) -> MdId {
        let len = PingInfo::SIZE_MIN;
        let md = self.mds.add_own(owner, Memory::Inline, len);
        let body = self.ping_body(md, len);
        self.request(now, md, source, ProcessId::lustre(target), body)
            .expect("the descriptor is new");
        md
    }

    fn forget_probe(&mut self, md: Option<MdId>) {
        if let Some(md) = md {
            self.unlink(md);
        }
    }

    /// Something has happened to a recovery ping. What came back has spoken for itself: here the
    /// ping is only forgotten.
    pub(crate) fn probe_event(&mut self, event: &OwnEvent) {
        if event.kind == crate::EventKind::Send && event.status == Ok::<(), Errno>(()) {
            return;
        }
        let condition = match event.owner {
            Owner::NiProbe(id) => self.ni_mut(id).map(|ni| &mut ni.condition),
            Owner::PeerProbe(id) => self.peers.ni_mut(id).map(|ni| &mut ni.condition),
            _ => None,
        };
        if let Some(condition) = condition.filter(|condition| condition.ping == Some(event.md)) {
            condition.ping = None;
        }
        self.unlink(event.md);
    }
}

//! Our network interfaces.

use std::time::Duration;

use fulmar_base::{Errno, MessageId, Time};
use fulmar_lnd::NiConfig;
use fulmar_lnet_wire::{Net, Nid};

use super::Lnet;
use crate::credits::Allowance;
use crate::health::Target;
use crate::ni::{Ni, NiId};
use crate::views::{self, PRIORITY_LOWEST};

impl Lnet {
    /// Adds a network interface, whose LND waits for a peer for `lnd_timeout` at most, unless the
    /// interface has a time of its own.
    ///
    /// # Errors
    /// EEXIST if there is one with this NID; EINVAL without credits; EUSERS if routes lead to its
    /// network.
    pub fn add_ni(
        &mut self,
        now: Time,
        mut ni: NiConfig,
        lnd_timeout: Duration,
    ) -> Result<(), Errno> {
        if ni.nid.is_loopback() || self.ni_of(ni.nid).is_some() {
            return Err(Errno::EEXIST);
        }
        let tunables = &mut ni.tunables;
        if ni.nid.is_any() || tunables.credits == 0 || tunables.peer_credits == 0 {
            return Err(Errno::EINVAL);
        }
        if self.routing.leads_to(ni.nid.net()) {
            return Err(Errno::EUSERS);
        }
        tunables.peer_credits = tunables.peer_credits.min(tunables.credits);
        self.next_ni += 1;
        self.credits.add_ni(NiId(self.next_ni), tunables.credits);
        self.health.add(Target::Ni(NiId(self.next_ni)));
        let net = ni.nid.net();
        let first_of_net = !self.is_local(net);
        self.nis.push(Ni {
            id: NiId(self.next_ni),
            lnd_timeout: ni.timeout.unwrap_or(lnd_timeout),
            config: ni,
            stamp: 0,
            fatal: false,
            disabled: false,
            silent: false,
            priority: PRIORITY_LOWEST,
            net_priority: PRIORITY_LOWEST,
            pinged: now,
            traffic: views::Traffic::default(),
        });
        if first_of_net {
            let allowance = self.allowance(net);
            for id in self.peers.on_net(net) {
                self.credits.allow(id, allowance);
            }
        }
        self.udsp_changed();
        self.info_changed();
        self.settle(now);
        Ok(())
    }

    /// Sets how long the LND of a network interface waits for a peer.
    ///
    /// # Errors
    /// ENOENT if there is no such interface.
    pub fn set_lnd_timeout(&mut self, nid: Nid, timeout: Duration) -> Result<(), Errno> {
        let ni = self.nis.iter_mut().find(|ni| ni.config.nid == nid).ok_or(Errno::ENOENT)?;
        (ni.config.timeout, ni.lnd_timeout) = (Some(timeout), timeout);
        Ok(())
    }

    /// Removes a network interface.
    ///
    /// What waits for its credits or came through it and waits at a portal is failed or dropped;
    /// what an LND has is completed as usual.
    ///
    /// # Errors
    /// ENOENT if there is none with this NID.
    pub fn remove_ni(&mut self, now: Time, nid: Nid) -> Result<(), Errno> {
        let index = self.nis.iter().position(|ni| ni.config.nid == nid).ok_or(Errno::ENOENT)?;
        let id = self.nis[index].id;
        self.drop_delayed_of(now, nid);
        let queued: Vec<MessageId> = self.messages.queued_on(|path| path.ni == id);
        // All leave their queues before the first gives back a credit, which would wake another.
        for message in &queued {
            self.withdraw(*message);
        }
        for message in queued {
            self.finalize_send(now, message, Err(Errno::ESHUTDOWN));
        }
        self.nis.remove(index);
        self.credits.remove_ni(id);
        self.health.remove(Target::Ni(id));
        if !self.is_local(nid.net()) {
            self.forget_gateways_on(nid.net());
            self.peers.net_removed(nid.net(), &self.local_nets());
            self.follow_peers(now);
            for orphan in self.peers.orphans() {
                self.peers.delete(orphan);
            }
            self.follow_peers(now);
        }
        self.info_changed();
        self.settle(now);
        Ok(())
    }

    /// Returns whether peers are told that an interface is up.
    pub(super) fn is_up(&self, ni: &Ni) -> bool {
        !ni.fatal && !ni.disabled && !ni.silent && self.health.is_published_up(ni.id)
    }

    pub(super) fn ni(&self, id: NiId) -> Option<&Ni> {
        self.nis.iter().find(|ni| ni.id == id)
    }

    pub(super) fn ni_mut(&mut self, id: NiId) -> Option<&mut Ni> {
        self.nis.iter_mut().find(|ni| ni.id == id)
    }

    pub(super) fn ni_of(&self, nid: Nid) -> Option<&Ni> {
        self.nis.iter().find(|ni| ni.config.nid == nid)
    }

    /// Returns whether one of our interfaces is on `net`.
    pub(super) fn is_local(&self, net: Net) -> bool {
        self.nis.iter().any(|ni| ni.config.nid.net() == net)
    }

    /// Returns our networks in the order in which they were configured.
    pub(super) fn local_nets(&self) -> Vec<Net> {
        let mut nets = Vec::new();
        for ni in &self.nis {
            let net = ni.config.nid.net();
            if !nets.contains(&net) {
                nets.push(net);
            }
        }
        nets
    }

    /// Returns the credits of a peer NI on `net`. Spec: lnet-behaviour §6.2.
    pub(super) fn allowance(&self, net: Net) -> Allowance {
        let first = self.nis.iter().find(|ni| ni.config.nid.net() == net);
        let Some(tunables) = first.map(|ni| &ni.config.tunables) else {
            return Allowance::default();
        };
        let tx = tunables.peer_credits;
        let router = [tunables.peer_buffer_credits, self.routing.config().peer_buffer_credits, tx];
        let router = router.into_iter().find(|credits| *credits > 0).unwrap_or(tx);
        Allowance { tx, router }
    }
}

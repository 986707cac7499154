//! Health: how well interfaces and those of peers have done, and what a failure means.
//! Spec: lnet-behaviour §11.1 to §11.5.

use std::time::Duration;

use fulmar_base::{Errno, MessageId, Time};
use fulmar_lnd::{FailureClass, SendError};
use fulmar_lnet_wire::Nid;

use crate::Lnet;
use crate::api::MdId;
use crate::machine::{HEALTH_MAX, Timer, Work};
use crate::message::Hold;
use crate::ni::NiId;
use crate::peer::PeerNiId;
use crate::views;

/// The health of an NI or a peer NI, and its recovery.
#[derive(Debug)]
pub(crate) struct Condition {
    /// 0 to [`HEALTH_MAX`].
    pub(crate) value: u32,
    /// Of an NI: it is told to peers as up. It becomes so at full health, and down at none.
    pub(crate) published_up: bool,
    /// What went wrong, by class.
    counts: views::Health,
    /// Recovery pings since it was last heard of.
    pub(crate) pings: u32,
    /// The recovery ping under way.
    pub(crate) ping: Option<MdId>,
}

/// Since when something has been asked and has not been heard of, and how long that usually takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Silence {
    since: Option<Time>,
    /// The longest of the last answers; older ones count for less and less.
    usual: Duration,
}

impl Silence {
    pub(crate) fn asked(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    pub(crate) fn heard(&mut self, now: Time) {
        if let Some(since) = self.since.take() {
            self.usual = now.since(since).max(self.usual - self.usual / 8);
        }
    }

    /// Returns how much better it is left alone while there are others: not at all for a while,
    /// then a step more whenever the silence has doubled, so that of two that are late the one that
    /// was heard lately wins. A small message is in the socket at once and gives its credit back, so
    /// that credits do not show that nothing arrives.
    pub(crate) fn doubt(&self, now: Time) -> u32 {
        let Some(since) = self.since else { return 0 };
        let (silent, patience) = (now.since(since), self.patience());
        // Every message asks this of every way, and hardly ever needs the division.
        match silent < patience {
            true => 0,
            false => 1 + (silent.as_nanos() / patience.as_nanos()).ilog2(),
        }
    }

    /// Returns several times what an answer takes: while it lasts, half of what is asked anew goes
    /// where nothing arrives.
    fn patience(&self) -> Duration {
        match self.usual {
            Duration::ZERO => PATIENCE_MAX,
            usual => (usual * 4).clamp(PATIENCE_MIN, PATIENCE_MAX),
        }
    }
}

/// Longer than anything takes that is not under way on a wire.
const PATIENCE_MIN: Duration = Duration::from_millis(25);
/// Longer than an answer takes, but on the longest of lines; there, all are alike.
const PATIENCE_MAX: Duration = Duration::from_millis(250);

impl Default for Condition {
    fn default() -> Self {
        Self {
            value: HEALTH_MAX,
            published_up: true,
            counts: views::Health::default(),
            pings: 0,
            ping: None,
        }
    }
}

impl Condition {
    /// Sets the health; tells whether what peers are told has changed with it.
    pub(crate) fn set(&mut self, value: u32) -> bool {
        let before = self.published_up;
        self.value = value.min(HEALTH_MAX);
        self.published_up = match self.value {
            0 => false,
            HEALTH_MAX => true,
            _ => before,
        };
        self.published_up != before
    }

    fn count(&mut self, failure: FailureClass) {
        let counts = &mut self.counts;
        let counter = match failure {
            FailureClass::LocalInterrupt => &mut counts.interrupts,
            FailureClass::LocalDropped | FailureClass::RemoteDropped => &mut counts.dropped,
            FailureClass::LocalAborted => &mut counts.aborted,
            FailureClass::LocalNoRoute => &mut counts.no_route,
            FailureClass::LocalError | FailureClass::RemoteError => &mut counts.error,
            FailureClass::LocalTimeout | FailureClass::RemoteTimeout => &mut counts.timeouts,
            FailureClass::NetworkTimeout => &mut counts.network_timeout,
        };
        *counter = counter.saturating_add(1);
    }

    /// Returns what is shown; `next` is when the next recovery ping is due.
    pub(crate) fn view(&self, next_ping: Option<Time>) -> views::Health {
        views::Health { value: self.value, ping_count: self.pings, next_ping, ..self.counts }
    }
}

/// What a failure says of the way that a message took. Spec: lnet-behaviour §11.3.
struct Blame {
    ours: bool,
    theirs: bool,
    /// It was not delivered, so that it may be sent again.
    again: bool,
}

fn blame(failure: FailureClass) -> Blame {
    use FailureClass as F;
    let (ours, theirs, again) = match failure {
        F::LocalInterrupt
        | F::LocalDropped
        | F::LocalAborted
        | F::LocalNoRoute
        | F::LocalTimeout => (true, false, true),
        F::LocalError => (true, false, false),
        F::RemoteDropped => (false, true, true),
        F::RemoteError | F::RemoteTimeout => (false, true, false),
        F::NetworkTimeout => (true, true, false),
    };
    Blame { ours, theirs, again }
}

impl Lnet {
    /// Ends a message that its LND could not send, or sends it again by another way.
    pub(crate) fn send_failed(&mut self, now: Time, id: MessageId, error: SendError) {
        let SendError { class: failure, errno } = error;
        self.counters.count_failure(failure);
        let path = self.messages.live(id).sending().expect("only what has a path fails on it");
        // What is late has been given up by whoever waited for it.
        if path.deadline < now {
            return self.finalize_send(now, id, Err(errno));
        }
        let Blame { ours, theirs, again } = blame(failure);
        let elsewhere = match ours {
            true => self.nis.len() > 1,
            false => self.has_other_ways(path.peer_ni),
        };
        if ours {
            self.lower_ni(now, path.ni, failure);
        }
        if theirs {
            self.lower_peer_ni(now, path.peer_ni, failure);
        }
        match again && elsewhere && self.may_go_again(id) {
            true => self.send_again(now, id),
            false => self.finalize_send(now, id, Err(errno)),
        }
    }

    /// Returns whether there may be another way than by a peer NI: its node has others, or it is a
    /// gateway, of which there may be more.
    fn has_other_ways(&self, peer_ni: PeerNiId) -> bool {
        let peer = self.peers.ni(peer_ni).and_then(|ni| self.peers.peer(ni.peer));
        peer.is_some_and(|peer| peer.nis.len() > 1 || peer.gateway.is_some())
    }

    fn may_go_again(&mut self, id: MessageId) -> bool {
        let retry_count = self.globals.retry_count;
        let message = self.messages.live(id);
        let (probe, retries) = (message.probe, message.retries);
        if probe || self.is_aborted(id) {
            return false;
        }
        if retries >= retry_count {
            self.counters.stats.failed_resends += u64::from(retries > 0);
            return false;
        }
        true
    }

    /// Takes a message off its path and sends it anew, from where its sender began.
    fn send_again(&mut self, now: Time, id: MessageId) {
        self.counters.stats.resend_count += 1;
        let message = self.messages.live(id);
        message.retries += 1;
        let first = message.retries == 1;
        self.take_off_path(id);
        // The first time there may be a better way at once; after that the trouble needs time.
        match first {
            true => self.work.push_back(Work::Launch(id)),
            false => self.timers.set(Timer::Resend(id), now + RESEND_DELAY),
        }
    }

    /// Takes a message off its path, so that it can be launched again.
    pub(crate) fn take_off_path(&mut self, id: MessageId) {
        let message = self.messages.live(id);
        let path = message.sending().expect("only what has a path leaves it");
        let len = message.header.payload_len;
        let in_transit = message.transit.is_some();
        message.leave_path();
        if !in_transit {
            self.counters.message_died();
        }
        self.release(path, len);
    }

    /// Has messages look for another way that wait for credits of a path which has failed.
    pub(crate) fn divert(&mut self, queued: Vec<MessageId>) {
        // All leave their queues before the first gives back a credit, which would wake another.
        for id in &queued {
            self.withdraw(*id);
        }
        for id in queued {
            self.take_off_path(id);
            self.work.push_back(Work::Launch(id));
        }
    }

    /// One of our interfaces has failed.
    pub(crate) fn lower_ni(&mut self, now: Time, id: NiId, failure: FailureClass) {
        let sensitivity = self.globals.health_sensitivity;
        let Some(ni) = self.ni_mut(id) else { return };
        ni.condition.count(failure);
        if sensitivity == 0 {
            return;
        }
        let value = ni.condition.value.saturating_sub(sensitivity);
        self.set_ni_value(now, id, value);
    }

    /// One of our interfaces has carried something.
    pub(crate) fn raise_ni(&mut self, now: Time, id: NiId) {
        let sensitivity = self.globals.health_sensitivity;
        let Some(ni) = self.ni_mut(id) else { return };
        if ni.condition.value < HEALTH_MAX {
            let value = ni.condition.value.saturating_add(sensitivity);
            self.set_ni_value(now, id, value);
        }
    }

    /// Sets the health of an interface, and has it recover if that is not the best.
    pub(crate) fn set_ni_value(&mut self, now: Time, id: NiId, value: u32) {
        let Some(ni) = self.ni_mut(id) else { return };
        let news = ni.condition.set(value);
        let well = ni.condition.value == HEALTH_MAX;
        if well {
            ni.condition.pings = 0;
            self.timers.clear(Timer::RecoverNi(id));
        } else {
            self.recover(now, Timer::RecoverNi(id));
        }
        if news {
            self.status_changed();
        }
    }

    /// A NID of a peer has failed. One that is its node's only one is not held to account, for
    /// there is no choice: but that of a gateway is, and a router does.
    pub(crate) fn lower_peer_ni(&mut self, now: Time, id: PeerNiId, failure: FailureClass) {
        let sensitivity = self.globals.health_sensitivity;
        let matters = self.has_other_ways(id) || self.forwards();
        let Some(ni) = self.peers.ni_mut(id) else { return };
        ni.condition.count(failure);
        let own = self.nis.iter().any(|own| own.config.nid == ni.nid);
        if !matters || own || sensitivity == 0 {
            return;
        }
        ni.condition.set(ni.condition.value.saturating_sub(sensitivity));
        self.recover(now, Timer::RecoverPeerNi(id));
    }

    /// Something has come from a NID of a peer.
    pub(crate) fn raise_peer_ni(&mut self, now: Time, id: PeerNiId) {
        let sensitivity = self.globals.health_sensitivity;
        let forwards = self.forwards();
        let Some(ni) = self.peers.ni(id) else { return };
        if ni.condition.value == HEALTH_MAX {
            return;
        }
        let gateway = self.peers.peer(ni.peer).is_some_and(|peer| peer.gateway.is_some());
        let Some(ni) = self.peers.ni_mut(id) else { return };
        ni.condition.pings = 0;
        let more = if gateway || forwards { HEALTH_MAX } else { sensitivity };
        ni.condition.set(ni.condition.value.saturating_add(more));
        match ni.condition.value {
            HEALTH_MAX => self.timers.clear(Timer::RecoverPeerNi(id)),
            _ => self.recover(now, Timer::RecoverPeerNi(id)),
        }
    }

    /// Sets the health of an interface, or of all. More than 1000 is 1000.
    ///
    /// # Errors
    /// ENOENT if there is no such interface.
    pub fn set_ni_health(&mut self, now: Time, nid: Option<Nid>, value: u32) -> Result<(), Errno> {
        let meant = self.nis.iter().filter(|ni| nid.is_none_or(|nid| ni.config.nid == nid));
        let meant: Vec<NiId> = meant.map(|ni| ni.id).collect();
        if meant.is_empty() && nid.is_some() {
            return Err(Errno::ENOENT);
        }
        for id in meant {
            self.set_ni_value(now, id, value);
        }
        self.settle(now);
        Ok(())
    }

    /// Sets the health of a NID of a peer, or of all of all peers. More than 1000 is 1000.
    ///
    /// # Errors
    /// ENOENT if no peer has this NID.
    pub fn set_peer_ni_health(
        &mut self,
        now: Time,
        nid: Option<Nid>,
        value: u32,
    ) -> Result<(), Errno> {
        let meant: Vec<PeerNiId> = match nid {
            Some(nid) => vec![self.peers.find(nid).ok_or(Errno::ENOENT)?],
            None => self.peers.all_nis().map(|(id, _)| id).collect(),
        };
        for id in meant {
            let Some(ni) = self.peers.ni_mut(id) else { continue };
            ni.condition.set(value);
            match ni.condition.value {
                HEALTH_MAX => self.timers.clear(Timer::RecoverPeerNi(id)),
                _ => self.recover(now, Timer::RecoverPeerNi(id)),
            }
        }
        self.settle(now);
        Ok(())
    }

    /// The path of a message that an LND has is known to work: the LND was done with it.
    pub(crate) fn sent_well(&mut self, now: Time, id: MessageId) {
        let message = self.messages.live(id);
        let retried = message.retries > 0;
        if let Some(path) = message.sending().filter(|path| path.hold == Hold::Both) {
            self.raise_ni(now, path.ni);
        }
        self.counters.stats.successful_resends += u64::from(retried);
    }
}

/// The pause before a message is sent for the third time.
const RESEND_DELAY: Duration = Duration::from_secs(1);

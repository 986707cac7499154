//! Failures of messages: what they say of the path, and whether the message goes again.
//! Spec: lnet-behaviour §11.1 to §11.5.

use std::time::Duration;

use fulmar_base::{Errno, MessageId, Time};
use fulmar_lnd::{FailureClass, SendError};
use fulmar_lnet_wire::Nid;

use super::Lnet;
use super::Work;
use super::message::Hold;
use crate::health::{HEALTH_MAX, Target};
use crate::ni::NiId;
use crate::peers::{PeerNi, PeerNiId};

/// What a failure says of the path that a message took. Spec: lnet-behaviour §11.3.
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
    /// Ends a message that its LND could not send, or sends it again by another path.
    pub(super) fn send_failed(&mut self, now: Time, id: MessageId, error: SendError) {
        let SendError { class: failure, errno } = error;
        self.counters.count_failure(failure);
        let path = self.messages.live(id).sending().expect("only what has a path fails on it");
        // Nothing waits any more for a message that is late.
        if path.deadline < now {
            return self.finalize_send(now, id, Err(errno));
        }
        let Blame { ours, theirs, again } = blame(failure);
        let elsewhere = if ours { self.nis.len() > 1 } else { self.has_other_paths(path.peer_ni) };
        if ours {
            self.lower_ni(now, path.ni, failure);
        }
        if theirs {
            self.lower_peer_ni(now, path.peer_ni, failure);
        }
        if again && elsewhere && self.may_go_again(id) {
            self.send_again(now, id)
        } else {
            self.finalize_send(now, id, Err(errno))
        }
    }

    /// Returns whether there may be another path than by a peer NI: its node has others, or it is a
    /// gateway, of which there may be more.
    fn has_other_paths(&self, peer_ni: PeerNiId) -> bool {
        let Some(id) = self.peers.ni(peer_ni).map(PeerNi::peer) else { return false };
        self.peers.peer(id).is_some_and(|peer| peer.nis().len() > 1) || self.routing.is_gateway(id)
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

    /// Removes a message from its path and sends it anew, from where its sender began.
    fn send_again(&mut self, now: Time, id: MessageId) {
        self.counters.stats.resend_count += 1;
        let message = self.messages.live(id);
        message.retries += 1;
        let first = message.retries == 1;
        self.take_off_path(id);
        // The first time there may be a better path at once; after that the trouble needs time.
        if first {
            self.work.push_back(Work::Launch(id))
        } else {
            self.resends.set(id, now + RESEND_DELAY)
        }
    }

    /// Removes a message from its path, so that it can be launched again.
    pub(super) fn take_off_path(&mut self, id: MessageId) {
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

    /// Sends messages by another path that wait for credits of a path which has failed.
    pub(super) fn divert(&mut self, queued: Vec<MessageId>) {
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
    pub(super) fn lower_ni(&mut self, now: Time, id: NiId, failure: FailureClass) {
        self.health.count(Target::Ni(id), failure);
        let sensitivity = self.globals.health_sensitivity;
        if sensitivity > 0 && self.health.lower(now, Target::Ni(id), sensitivity) {
            self.status_changed();
        }
    }

    /// One of our interfaces has carried something.
    pub(super) fn raise_ni(&mut self, now: Time, id: NiId) {
        if self.health.raise(now, Target::Ni(id), self.globals.health_sensitivity) {
            self.status_changed();
        }
    }

    /// A NID of a peer has failed. The only NID of a node loses no health, for there is no choice;
    /// but that of a gateway does, and on a router all do.
    pub(super) fn lower_peer_ni(&mut self, now: Time, id: PeerNiId, failure: FailureClass) {
        self.health.count(Target::PeerNi(id), failure);
        let sensitivity = self.globals.health_sensitivity;
        let matters = self.has_other_paths(id) || self.forwards();
        let Some((nid, peer)) = self.peers.ni(id).map(|ni| (ni.nid(), ni.peer())) else { return };
        if matters && sensitivity > 0 && self.ni_of(nid).is_none() {
            let by = self.sensitivity_of_gateway(peer).unwrap_or(sensitivity);
            self.health.lower(now, Target::PeerNi(id), by);
        }
    }

    /// Something has come from a NID of a peer that is not at full health.
    pub(super) fn raise_peer_ni(&mut self, now: Time, id: PeerNiId) {
        let peer = self.peers.ni(id).map(PeerNi::peer);
        let gateway = peer.is_some_and(|peer| self.routing.is_gateway(peer));
        let by =
            if gateway || self.forwards() { HEALTH_MAX } else { self.globals.health_sensitivity };
        self.health.raise(now, Target::PeerNi(id), by);
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
            if self.health.set(now, Target::Ni(id), value) {
                self.status_changed();
            }
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
            self.health.set(now, Target::PeerNi(id), value);
        }
        self.settle(now);
        Ok(())
    }

    /// The path of a message that an LND has is known to work: the LND was done with it.
    pub(super) fn sent_well(&mut self, now: Time, id: MessageId) {
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

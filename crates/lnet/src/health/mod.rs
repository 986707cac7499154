//! Health: how reliable interfaces and NIDs of peers have been, and the recovery of those that
//! failed. Spec: lnet-behaviour §11.1 to §11.6.
//!
//! ```text
//! add, remove                    an interface or a peer NI has come or gone
//! lower, raise, set              a failure, a sign of life, an administrator's value
//!                                -> whether what peers are told has changed
//! asked, heard                   a request has gone out, something has come in
//! pop_due -> Target              a recovery ping is due
//! ping_due, pinged, ping_ended   what becomes of the ping
//! ```
//!
//! Health is a number of an NI or a peer's NID. `send_failed` decides which side is blamed and
//! whether the message is sent again; `recovery` pings unhealthy NIs and NIDs, at growing
//! intervals, until they answer. Links (`handle_link`), the administrator's switch
//! (`set_ni_enabled`) and the path states that LNDs report (`handle_path`) are in `rail`.

mod condition;
#[cfg(test)]
mod tests;

use std::time::Duration;

use fulmar_base::{Time, Timers};
use fulmar_lnd::FailureClass;

use crate::api::MdId;
use crate::ni::NiId;
use crate::peers::PeerNiId;
use crate::slots::Slots;
use crate::views;

use condition::Condition;

/// The health of what never failed.
pub(crate) const HEALTH_MAX: u32 = 1000;
/// The pause before the first recovery ping.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// What has a health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Ni(NiId),
    PeerNi(PeerNiId),
}

/// A recovery ping that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PingDue {
    /// The previous one, if it is still under way.
    pub(crate) previous: Option<MdId>,
    /// How many came before since the latest sign of life.
    pub(crate) pings: u32,
    /// When something last came from the target.
    pub(crate) heard: Option<Time>,
}

/// What selection needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    /// 0 to [`HEALTH_MAX`].
    pub(crate) value: u32,
    /// How much others are to be preferred, because answers are late.
    pub(crate) doubt: u32,
    /// How much others are to be preferred, because many requests are not answered yet.
    pub(crate) unanswered: u32,
}

/// The health of all interfaces and of all NIDs of peers.
#[derive(Debug, Default)]
pub(crate) struct Health {
    nis: Vec<(NiId, Condition)>,
    peers: Slots<Condition>,
    /// When the next recovery ping is due.
    timers: Timers<Target>,
}

impl Health {
    pub(crate) fn add(&mut self, target: Target) {
        match target {
            Target::Ni(id) => self.nis.push((id, Condition::default())),
            Target::PeerNi(id) => self.peers.insert(id.0, Condition::default()),
        }
    }

    pub(crate) fn remove(&mut self, target: Target) {
        self.timers.clear(target);
        match target {
            Target::Ni(id) => self.nis.retain(|(other, _)| *other != id),
            Target::PeerNi(id) => drop(self.peers.remove(id.0)),
        }
    }

    /// Returns the health; 0 if there is no such target.
    pub(crate) fn value(&self, target: Target) -> u32 {
        self.get(target).map_or(0, Condition::value)
    }

    /// Returns whether a target exists and is at full health.
    pub(crate) fn is_full(&self, target: Target) -> bool {
        self.value(target) == HEALTH_MAX
    }

    /// Returns what selection needs to know.
    pub(crate) fn rank(&self, now: Time, target: Target) -> Rank {
        let found = self.get(target);
        found.map_or(Rank { value: 0, doubt: 0, unanswered: 0 }, |found| Rank {
            value: found.value(),
            doubt: found.silence.doubt(now),
            unanswered: found.silence.unanswered(),
        })
    }

    /// Returns whether peers are told that an interface is up, as far as its health goes.
    pub(crate) fn is_published_up(&self, ni: NiId) -> bool {
        self.get(Target::Ni(ni)).is_some_and(Condition::is_published_up)
    }

    /// Returns when something last came from a target.
    pub(crate) fn last_heard(&self, target: Target) -> Option<Time> {
        self.get(target)?.heard
    }

    pub(crate) fn view(&self, target: Target) -> views::Health {
        let next = self.timers.get(target);
        self.get(target).map(|found| found.view(next)).unwrap_or_default()
    }

    /// Returns what waits to recover.
    pub(crate) fn is_recovering(&self, target: Target) -> bool {
        self.timers.get(target).is_some()
    }

    /// A request goes out by this interface, or to this peer NI.
    pub(crate) fn asked(&mut self, now: Time, target: Target) {
        if let Some(found) = self.get_mut(target) {
            found.silence.asked(now);
        }
    }

    /// Something has come, and returns whether the health is full.
    pub(crate) fn heard(&mut self, now: Time, target: Target) -> bool {
        let Some(found) = self.get_mut(target) else { return true };
        found.heard = Some(now);
        found.silence.heard(now);
        found.value() == HEALTH_MAX
    }

    /// Counts a failure.
    pub(crate) fn count(&mut self, target: Target, failure: FailureClass) {
        if let Some(found) = self.get_mut(target) {
            found.count(failure);
        }
    }

    /// Lowers the health, and returns whether the ping info has changed.
    pub(crate) fn lower(&mut self, now: Time, target: Target, by: u32) -> bool {
        let value = self.value(target).saturating_sub(by);
        self.set(now, target, value)
    }

    /// Gives health after a sign of life, and returns whether what peers are told has changed.
    pub(crate) fn raise(&mut self, now: Time, target: Target, by: u32) -> bool {
        let Some(found) = self.get_mut(target).filter(|found| found.value() < HEALTH_MAX) else {
            return false;
        };
        // Only the sign of life of a peer is one of its own.
        if matches!(target, Target::PeerNi(_)) {
            found.pings = 0;
        }
        let value = found.value().saturating_add(by);
        self.set(now, target, value)
    }

    /// Sets the health. What is not at its best recovers from then on. Returns whether what peers
    /// are told has changed.
    pub(crate) fn set(&mut self, now: Time, target: Target, value: u32) -> bool {
        let Some(found) = self.get_mut(target) else { return false };
        let changed = found.set(value);
        if found.value() < HEALTH_MAX {
            if self.timers.get(target).is_none() {
                self.timers.set(target, now + FIRST_PAUSE);
            }
            return changed;
        }
        if matches!(target, Target::Ni(_)) {
            found.pings = 0;
        }
        self.timers.clear(target);
        changed
    }

    /// A target may work again: it is pinged at once if it is not at its best, and soon again if
    /// that fails.
    pub(crate) fn try_again(&mut self, now: Time, target: Target) {
        if self.get(target).is_some_and(|found| found.value() < HEALTH_MAX) {
            self.timers.set(target, now);
        }
    }

    /// Begins the pauses between recovery pings anew.
    pub(crate) fn reset_pauses(&mut self, target: Target) {
        if let Some(found) = self.get_mut(target) {
            found.pings = 0;
        }
    }

    /// Returns when the next recovery ping is due.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Returns the next target whose recovery ping is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Target> {
        self.timers.pop_due(now)
    }

    /// Returns what is known of the recovery of a target that is not at its best.
    pub(crate) fn ping_due(&self, target: Target) -> Option<PingDue> {
        let found = self.get(target).filter(|found| found.value() < HEALTH_MAX)?;
        Some(PingDue { previous: found.ping, pings: found.pings, heard: found.heard })
    }

    /// Sets when the next recovery ping is due.
    pub(crate) fn schedule(&mut self, target: Target, at: Time) {
        self.timers.set(target, at);
    }

    /// Records the recovery ping that was sent after `pings` others, if any could be.
    pub(crate) fn pinged(&mut self, target: Target, ping: Option<MdId>, pings: u32) {
        if let Some(found) = self.get_mut(target) {
            found.ping = ping;
            found.pings = pings.saturating_add(1);
        }
    }

    /// Forgets a recovery ping that has ended.
    pub(crate) fn ping_ended(&mut self, target: Target, ping: MdId) {
        if let Some(found) = self.get_mut(target).filter(|found| found.ping == Some(ping)) {
            found.ping = None;
        }
    }

    fn get(&self, target: Target) -> Option<&Condition> {
        match target {
            Target::Ni(id) => {
                let found = self.nis.iter().find(|(other, _)| *other == id);
                found.map(|(_, condition)| condition)
            }
            Target::PeerNi(id) => self.peers.get(id.0),
        }
    }

    fn get_mut(&mut self, target: Target) -> Option<&mut Condition> {
        match target {
            Target::Ni(id) => {
                let found = self.nis.iter_mut().find(|(other, _)| *other == id);
                found.map(|(_, condition)| condition)
            }
            Target::PeerNi(id) => self.peers.get_mut(id.0),
        }
    }
}

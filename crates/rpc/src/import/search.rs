//! The search for the node of a target. Spec: ptlrpc-ldlm-mgs §12.3, §12.4.

use std::time::Duration;

use fulmar_base::Time;

use crate::timeouts::{CONNECT_TIMEOUT, Timeouts};

/// Which NID of a target is tried, and when.
#[derive(Debug)]
pub(super) struct Search {
    current: usize,
    /// When each NID was last tried.
    tried: Vec<Option<Time>>,
    /// How often in succession the target was there and had to be asked again.
    refusals: u32,
}

/// No NID is tried again earlier than this after the last attempt.
const PAUSE: Duration = Duration::from_secs(CONNECT_TIMEOUT as u64);

impl Search {
    pub(super) fn new(nids: usize) -> Self {
        Self { current: 0, tried: vec![None; nids], refusals: 0 }
    }

    /// Returns the place of the NID that is tried or connected.
    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// Records an attempt.
    pub(super) fn attempt(&mut self, now: Time) {
        self.tried[self.current] = Some(now);
    }

    /// Records a success.
    pub(super) fn found(&mut self) {
        self.refusals = 0;
    }

    /// Records an answer of the target to a request: the connection works, so that its loss is a new one, and no pause is needed.
    pub(super) fn answered(&mut self) {
        self.tried[self.current] = None;
    }

    /// Chooses the next NID: the first after the present one that was not tried lately, or the one
    /// that was tried first. Returns when to try it, and whether all have been tried in this round.
    pub(super) fn next(&mut self, now: Time) -> (Time, bool) {
        let (before, count) = (self.current, self.tried.len());
        let following = || (1..=count).map(|step| (before + step) % count);
        let ready = following().find(|&place| self.due(place) <= now);
        let next = ready.or_else(|| following().min_by_key(|&place| self.due(place)));
        self.current = next.unwrap_or(before);
        (self.same(now), self.current <= before)
    }

    /// Returns when the present NID may be tried again.
    pub(super) fn same(&self, now: Time) -> Time {
        self.due(self.current).max(now)
    }

    fn due(&self, place: usize) -> Time {
        self.tried[place].map_or(Time::ZERO, |tried| tried + PAUSE)
    }

    /// Keeps the NID, since the target is there. Returns when to try again: later with each
    /// refusal.
    pub(super) fn again(&mut self, now: Time) -> Time {
        self.refusals = self.refusals.saturating_add(1);
        let seconds = CONNECT_TIMEOUT.saturating_mul(self.refusals).min(Timeouts::SEARCH_MAX);
        now + Duration::from_secs(seconds.into())
    }
}

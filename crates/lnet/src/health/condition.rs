//! What is known of the health of one interface or one NID of a peer.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnd::FailureClass;

use crate::api::MdId;
use crate::views;

use super::HEALTH_MAX;

/// The health of an NI or a peer NI, and its recovery.
#[derive(Debug)]
pub(super) struct Condition {
    /// 0 to [`HEALTH_MAX`].
    value: u32,
    /// Of an NI: peers are told that it is up. It becomes so at full health, and down at none.
    published_up: bool,
    /// What went wrong, by class.
    counts: views::Health,
    /// Recovery pings since the latest sign of life.
    pub(super) pings: u32,
    /// The recovery ping under way.
    pub(super) ping: Option<MdId>,
    /// When something last came from it.
    pub(super) heard: Option<Time>,
    pub(super) silence: Silence,
}

impl Default for Condition {
    fn default() -> Self {
        Self {
            value: HEALTH_MAX,
            published_up: true,
            counts: views::Health::default(),
            pings: 0,
            ping: None,
            heard: None,
            silence: Silence::default(),
        }
    }
}

impl Condition {
    pub(super) fn value(&self) -> u32 {
        self.value
    }

    pub(super) fn is_published_up(&self) -> bool {
        self.published_up
    }

    /// Sets the health, and returns whether what peers are told has changed with it.
    pub(super) fn set(&mut self, value: u32) -> bool {
        let before = self.published_up;
        self.value = value.min(HEALTH_MAX);
        self.published_up = match self.value {
            0 => false,
            HEALTH_MAX => true,
            _ => before,
        };
        self.published_up != before
    }

    pub(super) fn count(&mut self, failure: FailureClass) {
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
    pub(super) fn view(&self, next_ping: Option<Time>) -> views::Health {
        views::Health { value: self.value, ping_count: self.pings, next_ping, ..self.counts }
    }
}

/// Since when requests have gone unanswered, how many, and how long answers usually take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Silence {
    since: Option<Time>,
    /// Requests since the latest sign of life.
    asked: u32,
    /// The longest of the last answers; older ones count for less and less.
    usual: Duration,
}

impl Silence {
    pub(super) fn asked(&mut self, now: Time) {
        self.since.get_or_insert(now);
        self.asked = self.asked.saturating_add(1);
    }

    pub(super) fn heard(&mut self, now: Time) {
        self.asked = 0;
        if let Some(since) = self.since.take() {
            self.usual = now.since(since).max(self.usual - self.usual / 8);
        }
    }

    /// Returns how much others are to be preferred: not at all for a while, then a step more
    /// whenever the silence has doubled, so that of two that are late the one that was heard
    /// lately wins. What is in a socket has given its credit back, so that credits do not show that
    /// nothing arrives.
    pub(super) fn doubt(&self, now: Time) -> u32 {
        let Some(since) = self.since else { return 0 };
        let (silent, limit) = (now.since(since), self.limit());
        // Every message needs this for every path, and hardly ever needs the division.
        if silent < limit { 0 } else { 1 + (silent.as_nanos() / limit.as_nanos()).ilog2() }
    }

    /// Returns how much others are to be preferred that are not late either: not at all after a few
    /// requests, then a step more whenever their number has doubled. Otherwise all requests could
    /// have gone where nothing arrives before that is late.
    pub(super) fn unanswered(&self) -> u32 {
        (1 + self.asked.min(ASKED_MAX) / ASKED_FEW).ilog2()
    }

    /// Returns several times what an answer takes: while it lasts, half of the new requests go
    /// where nothing arrives.
    fn limit(&self) -> Duration {
        match self.usual {
            Duration::ZERO => LIMIT_MAX,
            usual => (usual * 4).clamp(LIMIT_MIN, LIMIT_MAX),
        }
    }
}

/// So many requests in a row are usual where others are answered.
const ASKED_FEW: u32 = 4;
/// How many are counted: after a sign of life so many may go the same way.
const ASKED_MAX: u32 = 64;
/// Longer than anything takes that is not under way on a wire.
const LIMIT_MIN: Duration = Duration::from_millis(25);
/// Longer than an answer takes except on the longest of lines; there, all are alike.
const LIMIT_MAX: Duration = Duration::from_millis(250);

//! Injected faults: messages that are dropped, failed or delayed by rule, for tests and users.
//!
//! ```text
//! received   drop_received -> dropped silently           step 10 of receiving
//!            delay         -> continues later            step 16
//! sent       delay         -> continues later            after both credits were taken
//!            fail_sent     -> fails with a class         instead of being passed to the LND
//!            fails         -> EIO, or dropped            a NID that is made to fail
//! ```
//!
//! The newest rule is tried first, and the first that fires ends the search; if a rule does not
//! fire, the next one is tried. Spec: lnet-behaviour §14.3.

mod rule;
#[cfg(test)]
mod tests;

use std::time::Duration;

use fulmar_base::{Errno, Rng, Time};
use fulmar_lnd::FailureClass;
use fulmar_lnet_wire::{Header, Nid, NidMatch};

use crate::views;

use rule::Rule;
pub use rule::{FaultEffect, FaultKind, FaultRule, MessageTypes};

/// The id of a rule that delays messages; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DelayId(u64);

/// The rules, each kind with the newest first.
#[derive(Debug)]
pub(crate) struct Faults {
    drops: Vec<Rule>,
    delays: Vec<(DelayId, Duration, Rule)>,
    /// NIDs that are made to fail, and how many times; `None` without limit.
    failing: Vec<(NidMatch, Option<u32>)>,
    next_delay: u64,
    rng: Rng,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            drops: Vec::new(),
            delays: Vec::new(),
            failing: Vec::new(),
            next_delay: 0,
            rng: Rng::new(seed),
        }
    }

    /// Returns whether to drop a message that `ni` has received.
    #[inline]
    pub(crate) fn drop_received(&mut self, now: Time, header: &Header, ni: Nid) -> bool {
        if self.drops.is_empty() {
            return false;
        }
        let Self { drops, rng, .. } = self;
        drops.iter_mut().any(|rule| rule.drops_received(ni) && rule.fires(now, header, rng))
    }

    /// Returns the failure of the sending of a message, if it is to fail.
    #[inline]
    pub(crate) fn fail_sent(&mut self, now: Time, header: &Header) -> Option<FailureClass> {
        if self.drops.is_empty() {
            return None;
        }
        let Self { drops, rng, .. } = self;
        drops.iter_mut().find_map(|rule| {
            let fires = rule.fails_sent() && rule.fires(now, header, rng);
            fires.then(|| rule.failure(rng))
        })
    }

    /// Returns until when a message is delayed, and by which rule.
    ///
    /// Messages that one rule delays continue in the order of these calls, also if times are equal.
    #[inline]
    pub(crate) fn delay(&mut self, now: Time, header: &Header) -> Option<(DelayId, Time)> {
        if self.delays.is_empty() {
            return None;
        }
        let Self { delays, rng, .. } = self;
        delays.iter_mut().find_map(|(id, latency, rule)| {
            rule.fires(now, header, rng).then(|| (*id, now + *latency))
        })
    }

    /// Returns whether a message to or from `nid` fails because of [`Lnet::fail_nid`](crate::Lnet::fail_nid).
    #[inline]
    pub(crate) fn fails(&mut self, nid: Nid) -> bool {
        if self.failing.is_empty() {
            return false;
        }
        let Some(at) = self.failing.iter().position(|(failing, _)| failing.matches(nid)) else {
            return false;
        };
        if let (_, Some(left)) = &mut self.failing[at] {
            *left -= 1;
            if *left == 0 {
                self.failing.remove(at);
            }
        }
        true
    }

    pub(crate) fn add(&mut self, now: Time, rule: FaultRule) -> Result<(), Errno> {
        let rule = rule.checked()?;
        let effect = rule.effect;
        let rule = Rule::new(now, rule, &mut self.rng);
        match effect {
            FaultEffect::Drop { .. } => self.drops.insert(0, rule),
            FaultEffect::Delay { latency } => {
                let id = DelayId(self.next_delay);
                self.next_delay += 1;
                self.delays.insert(0, (id, Duration::from_secs(latency.into()), rule));
            }
        }
        Ok(())
    }

    /// Returns the number of removed rules, and those that may have delayed messages.
    pub(crate) fn del(
        &mut self,
        kind: FaultKind,
        source: NidMatch,
        target: NidMatch,
    ) -> (usize, Vec<DelayId>) {
        match kind {
            FaultKind::Drop => {
                let removed = self.drops.extract_if(.., |rule| rule.is_between(source, target));
                (removed.count(), Vec::new())
            }
            FaultKind::Delay => {
                let named =
                    |(_, _, rule): &mut (DelayId, Duration, Rule)| rule.is_between(source, target);
                let ids: Vec<DelayId> =
                    self.delays.extract_if(.., named).map(|(id, ..)| id).collect();
                (ids.len(), ids)
            }
        }
    }

    pub(crate) fn reset(&mut self, now: Time, kind: FaultKind) {
        let Self { drops, delays, rng, .. } = self;
        match kind {
            FaultKind::Drop => drops.iter_mut().for_each(|rule| rule.reset(now, rng)),
            FaultKind::Delay => delays.iter_mut().for_each(|(.., rule)| rule.reset(now, rng)),
        }
    }

    pub(crate) fn fail_nid(&mut self, nid: NidMatch, times: Option<u32>) {
        self.failing.retain(|(failing, _)| match times {
            // 0 for any NID ends the failures of all NIDs.
            Some(0) => nid != NidMatch::Any && *failing != nid,
            _ => *failing != nid,
        });
        if times != Some(0) {
            self.failing.push((nid, times));
        }
    }

    pub(crate) fn views(&self) -> Vec<views::Fault> {
        let delays = self.delays.iter().map(|(.., rule)| rule);
        self.drops.iter().chain(delays).map(Rule::view).collect()
    }
}

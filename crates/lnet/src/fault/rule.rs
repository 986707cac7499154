//! One rule: which messages match, and when it fires.

use std::time::Duration;

use fulmar_base::{Errno, Rng, Time};
use fulmar_lnd::FailureClass;
use fulmar_lnet_wire::{Body, Header, Nid, NidMatch};

use crate::views;

/// The kinds of rules, as commands name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Messages are dropped, or their sending fails.
    Drop,
    /// Messages continue later.
    Delay,
}

/// A set of message types, as the bits that commands show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageTypes(pub u32);

impl MessageTypes {
    /// ACK.
    pub const ACK: Self = Self(1);
    /// PUT.
    pub const PUT: Self = Self(2);
    /// GET.
    pub const GET: Self = Self(4);
    /// REPLY.
    pub const REPLY: Self = Self(8);
    /// All of them.
    pub const ALL: Self = Self(15);

    /// Returns the type of a message.
    fn of(body: &Body) -> Self {
        match body {
            Body::Ack { .. } => Self::ACK,
            Body::Put { .. } => Self::PUT,
            Body::Get { .. } => Self::GET,
            Body::Reply { .. } => Self::REPLY,
        }
    }
}

/// The effect of a rule on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// It is dropped when it is received, or its sending fails.
    Drop {
        /// Not 0: sending fails with one of these classes, bit `1 << class` of [`FailureClass`]
        /// each; [`FaultRule::ANY_FAILURE`] for any class.
        failures: u32,
        /// The rule fires with probability ½; needs an interval, which is otherwise ignored.
        random: bool,
        /// The rule fires always, both when messages are received and when they are sent.
        all: bool,
    },
    /// It continues later.
    Delay {
        /// Seconds, at least 1.
        latency: u32,
    },
}

/// A rule, as it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// The source in the header.
    pub source: NidMatch,
    /// The target in the header.
    pub target: NidMatch,
    /// The interface that receives it. Only for rules that drop received messages.
    pub local: NidMatch,
    /// Bit n for portal n: PUTs and GETs to these portals only. 0 for every message.
    pub portals: u64,
    /// Empty for all.
    pub types: MessageTypes,
    /// One message of each window of this number of messages, at a random position in it. 0 to use
    /// the interval.
    pub rate: u32,
    /// One message in each period of this number of seconds, at a random second of it. 0 to use the
    /// rate.
    pub interval: u32,
    /// The effect.
    pub effect: FaultEffect,
}

impl FaultRule {
    /// Sending may fail in any way.
    pub const ANY_FAILURE: u32 = u32::MAX;
    /// The bits of all classes of failure.
    const FAILURES: u32 =
        ((1 << (FailureClass::NetworkTimeout as u32 + 1)) - 1) & !((1 << FIRST_CLASS) - 1);

    /// Returns the kind of the rule.
    pub fn kind(&self) -> FaultKind {
        match self.effect {
            FaultEffect::Drop { .. } => FaultKind::Drop,
            FaultEffect::Delay { .. } => FaultKind::Delay,
        }
    }

    /// Requires that the rule is consistent, and returns it with its types filled in.
    pub(super) fn checked(mut self) -> Result<Self, Errno> {
        let required = |met: bool| if met { Ok(()) } else { Err(Errno::EINVAL) };
        required(self.types.0 & !MessageTypes::ALL.0 == 0)?;
        if self.types == MessageTypes::default() {
            self.types = MessageTypes::ALL;
        }
        if self.portals != 0 {
            // No other type has a portal in its header.
            self.types.0 &= MessageTypes::PUT.0 | MessageTypes::GET.0;
            required(self.types != MessageTypes::default())?;
        }
        let one_of_both = (self.rate == 0) != (self.interval == 0);
        match self.effect {
            FaultEffect::Drop { failures, random, all } => {
                required(one_of_both || all)?;
                required(!random || self.interval != 0)?;
                required(failures == Self::ANY_FAILURE || failures & !Self::FAILURES == 0)?;
                required(self.local == NidMatch::Any || failures == 0)?;
            }
            FaultEffect::Delay { latency } => {
                required(one_of_both && latency != 0 && self.local == NidMatch::Any)?;
            }
        }
        Ok(self)
    }

    /// Returns whether a message matches the rule.
    fn matches(&self, header: &Header) -> bool {
        let portal = match header.body {
            _ if self.portals == 0 => true,
            Body::Put { portal, .. } | Body::Get { portal, .. } => {
                // The peer chose it: it may be larger than any valid portal.
                1_u64.checked_shl(portal).is_some_and(|bit| self.portals & bit != 0)
            }
            Body::Ack { .. } | Body::Reply { .. } => false,
        };
        portal
            && self.types.0 & MessageTypes::of(&header.body).0 != 0
            && self.source.matches(header.source)
            && self.target.matches(header.target)
    }
}

/// When a rule fires.
#[derive(Clone, Copy, Debug)]
enum Schedule {
    Always,
    /// With probability ½.
    Random,
    /// At message `at` of a window, of which `seen` messages have matched.
    Window {
        seen: u32,
        at: u32,
    },
    /// At the first message from `at` on; the next period begins at `end`.
    Period {
        at: Time,
        end: Time,
    },
}

impl Schedule {
    fn new(now: Time, rule: &FaultRule, rng: &mut Rng) -> Self {
        match rule.effect {
            FaultEffect::Drop { all: true, .. } => Self::Always,
            FaultEffect::Drop { random: true, .. } => Self::Random,
            _ if rule.rate != 0 => Self::Window { seen: 0, at: rng.below(rule.rate.into()) as u32 },
            _ => Self::period(now, rule, rng),
        }
    }

    fn period(start: Time, rule: &FaultRule, rng: &mut Rng) -> Self {
        let second = rng.below(rule.interval.into());
        let end = start + Duration::from_secs(rule.interval.into());
        Self::Period { at: start + Duration::from_secs(second), end }
    }

    /// Counts one matching message, and returns whether the rule fires.
    fn take(&mut self, now: Time, rule: &FaultRule, rng: &mut Rng) -> bool {
        match *self {
            Self::Always => true,
            Self::Random => rng.one_in(2),
            Self::Window { seen, at } => {
                *self = if seen + 1 < rule.rate {
                    Self::Window { seen: seen + 1, at }
                } else {
                    Self::new(now, rule, rng)
                };
                seen == at
            }
            Self::Period { at, end } if now >= at => {
                // After a long time without messages the next period begins now.
                *self = Self::period(end.max(now), rule, rng);
                true
            }
            Self::Period { .. } => false,
        }
    }

    /// Returns whether matching messages are counted.
    fn counts(&self) -> bool {
        matches!(self, Self::Window { .. } | Self::Period { .. })
    }
}

/// A rule in force.
#[derive(Debug)]
pub(super) struct Rule {
    rule: FaultRule,
    schedule: Schedule,
    examined: u64,
    hits: views::ByType,
}

impl Rule {
    pub(super) fn new(now: Time, rule: FaultRule, rng: &mut Rng) -> Self {
        let schedule = Schedule::new(now, &rule, rng);
        Self { rule, schedule, examined: 0, hits: views::ByType::default() }
    }

    pub(super) fn reset(&mut self, now: Time, rng: &mut Rng) {
        *self = Self::new(now, self.rule, rng);
    }

    /// Returns whether the rule can drop messages that `ni` has received.
    pub(super) fn drops_received(&self, ni: Nid) -> bool {
        let FaultEffect::Drop { failures, all, .. } = self.rule.effect else { return false };
        (failures == 0 || all) && self.rule.local.matches(ni)
    }

    /// Returns whether the rule can fail the sending of messages.
    pub(super) fn fails_sent(&self) -> bool {
        let FaultEffect::Drop { failures, all, .. } = self.rule.effect else { return false };
        (failures != 0 || all) && self.rule.local == NidMatch::Any
    }

    /// Counts one message, and returns whether the rule acts on it.
    pub(super) fn fires(&mut self, now: Time, header: &Header, rng: &mut Rng) -> bool {
        if !self.rule.matches(header) {
            return false;
        }
        self.examined += u64::from(self.schedule.counts());
        let fires = self.schedule.take(now, &self.rule, rng);
        let hits = match header.body {
            Body::Ack { .. } => &mut self.hits.ack,
            Body::Put { .. } => &mut self.hits.put,
            Body::Get { .. } => &mut self.hits.get,
            Body::Reply { .. } => &mut self.hits.reply,
        };
        *hits += u64::from(fires);
        fires
    }

    /// Draws the class with which a send fails.
    ///
    /// Any class is drawn first, whatever the rule says; one that it does not name gives way to
    /// the nearest that it does, the lower of two.
    pub(super) fn failure(&self, rng: &mut Rng) -> FailureClass {
        let FaultEffect::Drop { failures, .. } = self.rule.effect else {
            unreachable!("only rules that drop make sends fail")
        };
        let allowed = if failures == 0 { FaultRule::ANY_FAILURE } else { failures };
        let drawn = CLASSES[rng.below(CLASSES.len() as u64) as usize];
        let nearest = CLASSES
            .into_iter()
            .filter(|class| allowed & 1 << *class as u32 != 0)
            .min_by_key(|class| (*class as u32).abs_diff(drawn as u32));
        nearest.expect("a rule is only taken with at least one class")
    }

    /// Returns whether a command with these NIDs applies to the rule.
    pub(super) fn is_between(&self, source: NidMatch, target: NidMatch) -> bool {
        let means = |wanted, has| wanted == NidMatch::Any || wanted == has;
        means(source, self.rule.source) && means(target, self.rule.target)
    }

    pub(super) fn view(&self) -> views::Fault {
        views::Fault { rule: self.rule, examined: self.examined, hits: self.hits }
    }
}

/// The number of the first class.
const FIRST_CLASS: u32 = FailureClass::LocalInterrupt as u32;

/// The classes in the order of their numbers.
const CLASSES: [FailureClass; 10] = [
    FailureClass::LocalInterrupt,
    FailureClass::LocalDropped,
    FailureClass::LocalAborted,
    FailureClass::LocalNoRoute,
    FailureClass::LocalError,
    FailureClass::LocalTimeout,
    FailureClass::RemoteError,
    FailureClass::RemoteDropped,
    FailureClass::RemoteTimeout,
    FailureClass::NetworkTimeout,
];

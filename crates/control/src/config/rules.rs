//! Selection policies and injected faults, as configured and as shown.
//! Spec: lnet-admin §13, §14.

use fulmar_lnet::{FaultEffect, FaultKind, FaultRule, MessageTypes, UdspRule};
use fulmar_lnet_wire::{NidMatch, Selector};
use serde::{Deserialize, Serialize};

/// A user-defined selection policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct UdspConf {
    pub idx: Option<u32>,
    pub src: Option<Selector>,
    pub dst: Option<Selector>,
    pub rte: Option<Selector>,
    pub priority: Option<u32>,
}

impl UdspConf {
    /// Returns the rule for the node.
    pub fn rule(&self) -> UdspRule {
        let Self { src, dst, rte, priority, .. } = self.clone();
        UdspRule { src, dst, rte, priority }
    }

    /// Returns the rules of a node, with their indices.
    pub fn numbered(rules: Vec<UdspRule>) -> Vec<Self> {
        let conf = |(idx, rule): (u32, UdspRule)| {
            let UdspRule { src, dst, rte, priority } = rule;
            Self { idx: Some(idx), src, dst, rte, priority }
        };
        (0..).zip(rules).map(conf).collect()
    }
}

/// The kind of faults of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum FaultAction {
    Drop,
    Delay,
}

impl FaultAction {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Delay => "delay",
        }
    }

    /// Returns the kind for the node.
    pub fn kind(self) -> FaultKind {
        match self {
            Self::Drop => FaultKind::Drop,
            Self::Delay => FaultKind::Delay,
        }
    }
}

/// An injected fault: see [`FaultRule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FaultConf {
    pub action: FaultAction,
    pub source: NidMatch,
    pub target: NidMatch,
    #[serde(default)]
    pub local: NidMatch,
    /// Bit n for portal n; 0 for all.
    #[serde(default)]
    pub portals: u64,
    /// ACK 1, PUT 2, GET 4, REPLY 8; 0 for all.
    #[serde(default)]
    pub types: u32,
    #[serde(default)]
    pub rate: u32,
    /// Seconds.
    #[serde(default)]
    pub interval: u32,
    /// Of a drop rule: the bits of lnet-admin §14.
    #[serde(default)]
    pub health_error: u32,
    #[serde(default)]
    pub random: bool,
    #[serde(default)]
    pub drop_all: bool,
    /// Of a delay rule, in seconds.
    #[serde(default)]
    pub latency: u32,
}

impl FaultConf {
    /// Returns a rule between two NIDs without further conditions.
    pub fn new(action: FaultAction, source: NidMatch, target: NidMatch) -> Self {
        Self {
            action,
            source,
            target,
            local: NidMatch::Any,
            portals: 0,
            types: 0,
            rate: 0,
            interval: 0,
            health_error: 0,
            random: false,
            drop_all: false,
            latency: 0,
        }
    }

    /// Returns the rule for the node.
    pub fn rule(&self) -> FaultRule {
        let effect = match self.action {
            FaultAction::Drop => FaultEffect::Drop {
                failures: self.health_error,
                random: self.random,
                all: self.drop_all,
            },
            FaultAction::Delay => FaultEffect::Delay { latency: self.latency },
        };
        FaultRule {
            source: self.source,
            target: self.target,
            local: self.local,
            portals: self.portals,
            types: MessageTypes(self.types),
            rate: self.rate,
            interval: self.interval,
            effect,
        }
    }
}

impl From<FaultRule> for FaultConf {
    fn from(rule: FaultRule) -> Self {
        let action = match rule.kind() {
            FaultKind::Drop => FaultAction::Drop,
            FaultKind::Delay => FaultAction::Delay,
        };
        let conf = Self {
            local: rule.local,
            portals: rule.portals,
            types: rule.types.0,
            rate: rule.rate,
            interval: rule.interval,
            ..Self::new(action, rule.source, rule.target)
        };
        match rule.effect {
            FaultEffect::Drop { failures, random, all } => {
                Self { health_error: failures, random, drop_all: all, ..conf }
            }
            FaultEffect::Delay { latency } => Self { latency, ..conf },
        }
    }
}

/// The names of message types, and their bits.
pub const FAULT_TYPES: [(&str, u32); 4] = [
    ("PUT", MessageTypes::PUT.0),
    ("ACK", MessageTypes::ACK.0),
    ("GET", MessageTypes::GET.0),
    ("REPLY", MessageTypes::REPLY.0),
];

/// The names of the failure classes of sending, and their bits.
pub const HEALTH_ERRORS: [(&str, u32); 11] = [
    ("local_interrupt", 0x2),
    ("local_dropped", 0x4),
    ("local_aborted", 0x8),
    ("local_no_route", 0x10),
    ("local_error", 0x20),
    ("local_timeout", 0x40),
    ("remote_error", 0x80),
    ("remote_dropped", 0x100),
    ("remote_timeout", 0x200),
    ("network_timeout", 0x400),
    ("random", FaultRule::ANY_FAILURE),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_the_same_on_both_sides() {
        let drop = FaultConf {
            local: "10.0.0.1@tcp".parse().unwrap(),
            portals: 1 << 63,
            types: 6,
            rate: 10,
            health_error: 0x402,
            random: true,
            drop_all: true,
            ..FaultConf::new(FaultAction::Drop, NidMatch::Any, "*@tcp".parse().unwrap())
        };
        let delay = FaultConf {
            interval: 5,
            latency: 3,
            ..FaultConf::new(FaultAction::Delay, NidMatch::Any, NidMatch::Any)
        };
        for conf in [drop, delay] {
            assert_eq!(FaultConf::from(conf.rule()), conf);
            let json = serde_json::to_string(&conf).unwrap();
            assert_eq!(serde_json::from_str::<FaultConf>(&json).unwrap(), conf, "{json}");
        }
    }
}

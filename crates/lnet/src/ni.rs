//! Our own network interfaces. Spec: lnet-behaviour §2.3, §14.2.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnd::NiConfig;

use crate::views;

/// An interface; never used twice, so that a message in flight cannot return its credit to a
/// later interface of the same NID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NiId(pub(crate) u64);

impl NiId {
    /// `0@lo`, which is not in the list of interfaces.
    pub(crate) const LOOPBACK: Self = Self(0);
}

#[derive(Debug)]
pub(crate) struct Ni {
    pub(crate) id: NiId,
    pub(crate) config: NiConfig,
    /// How long its LND waits at most; sets the deadline of messages (lnet-behaviour §11.2).
    pub(crate) lnd_timeout: Duration,
    /// When it was last chosen; lower is longer ago.
    pub(crate) stamp: u64,
    /// Its link is down.
    pub(crate) fatal: bool,
    /// The administrator has taken it out of use.
    pub(crate) disabled: bool,
    /// No node of its network has pinged this router for long.
    pub(crate) silent: bool,
    /// UDSP: its own priority and that of its network.
    pub(crate) priority: u32,
    pub(crate) net_priority: u32,
    /// When a node of its network last pinged this one.
    pub(crate) pinged: Time,
    pub(crate) traffic: views::Traffic,
}

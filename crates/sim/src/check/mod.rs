//! Independent checkers of the nodes. They see [`Signal`]s and the expected results of operations,
//! and do not rely on the nodes' own verdict.
//!
//! [`table`] names the check of each invariant.
//!
//! | checker | invariants of lnet-behaviour §17 |
//! |---|---|
//! | `operations` | 7, 8, 10, 12, 13, 14, 16, 18: events, thresholds, lengths, duplicates |
//! | `data` | 16 and memory: the data that were sent arrive in the right place |
//! | `credits` | 1, 2, 4: the nodes' own invariants, and our count of messages in LNDs |
//! | `order` | 17: messages on one connection are received in order |
//! | `discovery` | 26: an unknown peer is pinged first |
//! | `rails` | 27, 32, 33: announced interfaces, health, given NIDs |
//! | `routers` | 1, 19, 20, 22, 23: forwarding, router buffers, reverse routes, closed routers |
//! | `selftest` | of lnet-selftest: data are correct, and memory is freed |
//! | `hostile` | hostile hosts neither mislead nor delay nodes; the bounds of SECURITY.md |
//! | `calm` | 7, 11: without faults nothing fails and no connection breaks |

mod calm;
mod credits;
mod data;
mod discovery;
mod hostile;
pub mod ledger;
mod operations;
mod order;
mod rails;
mod routers;
mod selftest;
pub mod table;

use std::collections::BTreeSet;
use std::fmt;

use fulmar_base::Time;

use crate::HostId;
use crate::options::Options;
use crate::signal::Signal;
use crate::world::World;
use ledger::Ledger;

/// A violation that a checker found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The checker.
    pub checker: &'static str,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.text)
    }
}

/// The result of a checker.
pub type Verdict = Result<(), Violation>;

/// Returns a violation unless `holds`.
pub(crate) fn require(
    holds: bool,
    checker: &'static str,
    text: impl FnOnce() -> String,
) -> Verdict {
    if holds { Ok(()) } else { Err(Violation { checker, text: text() }) }
}

/// Returns whether a router writes a message of a hostile host.
fn is_forwarded_for_hostile(world: &World, signal: &Signal) -> bool {
    matches!(signal, Signal::Wrote { header, .. } if world.is_hostile_nid(header.source))
}

/// Up to this number of nodes, all pairs have talked before a run ends.
const ALL_PAIRS_MAX: usize = 6;

/// All checkers.
#[derive(Debug)]
pub(crate) struct Checks {
    data: data::Memory,
    credits: credits::Recount,
    order: order::Order,
    discovery: Option<discovery::Discovery>,
    rails: rails::Rails,
    routers: Option<routers::Routers>,
    selftest: selftest::Selftests,
    calm: Option<calm::Calm>,
    hostile: Option<hostile::Hostile>,
}

impl Checks {
    /// Returns the checkers of a run.
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            data: data::Memory::new(options),
            credits: credits::Recount::new(options),
            order: order::Order::default(),
            discovery: options.discovery.then(discovery::Discovery::default),
            rails: rails::Rails::new(options),
            routers: routers::Routers::new(options),
            selftest: selftest::Selftests::new(options),
            calm: options.faults.is_none().then(calm::Calm::default),
            hostile: hostile::Hostile::new(options),
        }
    }

    /// Checks a signal.
    ///
    /// # Errors
    /// The violation.
    pub(crate) fn observe(
        &mut self,
        world: &World,
        ledger: &mut Ledger,
        signal: &Signal,
    ) -> Verdict {
        if let Signal::Broken { host, what } = signal {
            return require(false, "contract", || format!("{host}: {what}"));
        }
        let incarnation = world.incarnation(signal.host());
        self.data.observe(ledger, incarnation, signal)?;
        self.credits.observe(signal)?;
        if !is_forwarded_for_hostile(world, signal) {
            self.order.observe(ledger, signal)?;
        }
        if let Some(discovery) = &mut self.discovery {
            discovery.observe(world, ledger, signal)?;
        }
        self.rails.observe(world, ledger, signal)?;
        if let Some(routers) = &mut self.routers {
            routers.observe(world, signal)?;
        }
        if let Some(hostile) = &self.hostile {
            hostile.observe(world, ledger, incarnation, signal)?;
        }
        operations::observe(ledger, incarnation, self.hostile.is_some(), signal)?;
        self.selftest.observe(signal)?;
        if let Some(calm) = &mut self.calm {
            calm.observe(world, ledger, incarnation, signal)?;
        }
        Ok(())
    }

    /// Checks the state of these nodes when no more events are due at the current time.
    ///
    /// # Errors
    /// The violation.
    pub(crate) fn settled(&mut self, world: &World, hosts: &BTreeSet<HostId>) -> Verdict {
        for &host in hosts {
            if let Some(tcp) = world.lost_wakeup(host).filter(|_| !world.is_paused(host)) {
                let text = format!("{host} could read {tcp}, but was not woken up");
                return Err(Violation { checker: "wake-ups", text });
            }
            // Made once: a node may know many peers, and this is done after each step.
            let peers = world.node(host).map(|node| node.lnet().peers()).unwrap_or_default();
            self.credits.settled(world, host, &peers)?;
            self.rails.health_is_bounded(world, host, &peers)?;
            if let Some(routers) = &mut self.routers {
                routers.settled(world, host)?;
            }
            if let Some(hostile) = &self.hostile {
                hostile.settled(world, host, &peers)?;
            }
            selftest::settled(world, host)?;
        }
        Ok(())
    }

    /// Checks the final state, when every operation is over.
    ///
    /// # Errors
    /// The violation.
    pub(crate) fn finished(&self, world: &World, ledger: &Ledger, now: Time) -> Verdict {
        operations::finished(ledger)?;
        if let Some(calm) = &self.calm {
            calm.finished(ledger)?;
        }
        self.credits.idle(world, now)?;
        if let Some(routers) = &self.routers {
            routers.idle(world)?;
        }
        // In larger clusters not all pairs talk at the end.
        if world.host_ids().count() <= ALL_PAIRS_MAX {
            rails::peers_know_all_interfaces(world)?;
        }
        selftest::idle(world, now)
    }
}

//! Independent judges of what the nodes do. They see [`Signal`]s and what the workload meant,
//! and never ask a node whether it did well.
//!
//! [`table`] names the check of each invariant.
//!
//! | checker | guards, of lnet-behaviour §17 |
//! |---|---|
//! | `operations` | 7, 8, 10, 12, 13, 14, 16, 18: events, thresholds, lengths, duplicates |
//! | `data` | 16 and the discipline of memory: what arrived is what was sent, where it belongs |
//! | `credits` | 1, 2, 4: nodes' own invariants, and our own count of messages in LNDs |
//! | `order` | 17: what one connection carries is received in order |
//! | `discovery` | 26: nothing is sent to a stranger before a ping |
//! | `rails` | 27, 32, 33: what nodes say of their interfaces, health, NIDs that are given |
//! | `routers` | 1, 19, 20, 22, 23: what is forwarded, its memory, the way back, closed routers |
//! | `selftest` | of lnet-selftest: data are good, memory is freed, nothing is left behind |
//! | `calm` | 7, 11: without faults nothing fails and no connection breaks |

mod calm;
mod credits;
mod data;
mod discovery;
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

/// What a checker found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which checker.
    pub checker: &'static str,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.text)
    }
}

/// What a checker says.
pub type Verdict = Result<(), Violation>;

/// Returns a violation unless `holds`.
pub(crate) fn require(
    holds: bool,
    checker: &'static str,
    text: impl FnOnce() -> String,
) -> Verdict {
    if holds { Ok(()) } else { Err(Violation { checker, text: text() }) }
}

/// Among so many nodes everybody has talked to everybody before a run ends.
const TALKERS: usize = 6;

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
}

impl Checks {
    /// Returns the checkers of a run.
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            data: data::Memory::default(),
            credits: credits::Recount::new(options),
            order: order::Order::default(),
            discovery: options.discovery.then(discovery::Discovery::default),
            rails: rails::Rails::new(options),
            routers: routers::Routers::new(options),
            selftest: selftest::Selftests::new(options),
            calm: options.faults.is_none().then(calm::Calm::default),
        }
    }

    /// Judges what happened.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn observe(
        &mut self,
        world: &World,
        ledger: &mut Ledger,
        signal: &Signal,
    ) -> Verdict {
        if let Signal::Broken { host, what } = signal {
            return require(false, "contract", || format!("{host}: {what}"));
        }
        let life = world.life(signal.host());
        self.data.observe(ledger, life, signal)?;
        self.credits.observe(signal)?;
        self.order.observe(ledger, signal)?;
        if let Some(discovery) = &mut self.discovery {
            discovery.observe(world, signal)?;
        }
        self.rails.observe(world, ledger, signal)?;
        if let Some(routers) = &mut self.routers {
            routers.observe(world, signal)?;
        }
        operations::observe(ledger, life, signal)?;
        self.selftest.observe(signal)?;
        if let Some(calm) = &mut self.calm {
            calm.observe(ledger, life, signal)?;
        }
        Ok(())
    }

    /// Judges the state of these nodes when nothing more happens at this moment.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn settled(&mut self, world: &World, hosts: &BTreeSet<HostId>) -> Verdict {
        for &host in hosts {
            if let Some(tcp) = world.lost_wakeup(host).filter(|_| !world.is_paused(host)) {
                let text = format!("{host} could read {tcp}, and was not told to");
                return Err(Violation { checker: "wake-ups", text });
            }
            self.credits.settled(world, host)?;
            self.rails.health_is_bounded(world, host)?;
            if let Some(routers) = &mut self.routers {
                routers.settled(world, host)?;
            }
            selftest::settled(world, host)?;
        }
        Ok(())
    }

    /// Judges the end of a run, when every operation is over.
    ///
    /// # Errors
    /// What is left over.
    pub(crate) fn finished(&self, world: &World, ledger: &Ledger, now: Time) -> Verdict {
        operations::finished(ledger)?;
        if let Some(calm) = &self.calm {
            calm.finished(ledger)?;
        }
        self.credits.idle(world, now)?;
        if let Some(routers) = &self.routers {
            routers.idle(world)?;
        }
        // Those of more nodes do not all talk to each other in the end.
        if world.host_ids().count() <= TALKERS {
            rails::everybody_knows_the_interfaces(world)?;
        }
        selftest::idle(world, now)
    }
}

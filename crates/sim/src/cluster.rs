//! A run: nodes, applications, faults and checkers, in two phases.
//!
//! 1. *Safety*: operations start and faults occur. The checkers must hold at all times.
//! 2. *Liveness*: all faults are over. Within bounded time every operation ends, every node reaches
//!    every other, and all nodes become idle.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet::Forwarding;
use fulmar_lnet_wire::Nid;
use fulmar_selftest::Selftest;

use crate::HostId;
use crate::administrator::Administrators;
use crate::check::ledger::Ledger;
use crate::check::{Checks, Verdict, require};
use crate::faults::Schedule;
use crate::log::Log;
use crate::options::Options;
use crate::workload::Workload;
use crate::world::World;

/// A cluster under test.
#[derive(Debug)]
pub struct Cluster {
    /// The nodes and the network.
    pub world: World,
    /// The operations that were started.
    pub ledger: Ledger,
    /// The applications.
    pub workload: Workload,
    /// The administrators, who run selftests.
    pub administrators: Administrators,
    checks: Checks,
    faults: Schedule,
    options: Options,
    steps: u64,
}

impl Cluster {
    /// Kills the node of a host; see [`World::crash`].
    ///
    /// # Errors
    /// The violation that a checker found.
    pub fn crash(&mut self, host: HostId, silently: bool) -> Verdict {
        self.world.crash(host, silently);
        // The checkers must see the crash before the next incarnation does anything.
        self.judge()
    }

    /// Starts the node of a host that is down.
    pub fn restart(&mut self, host: HostId) {
        self.world.restart(host);
        self.workload.begin(&mut self.world, &mut self.ledger, host);
    }

    /// Starts the nodes of a run.
    pub fn new(options: &Options, log: Log) -> Self {
        let mut world = World::new(options, log);
        let mut ledger = Ledger::default();
        let workload = Workload::new(options, &mut world, &mut ledger);
        Self {
            world,
            ledger,
            workload,
            administrators: Administrators::new(options),
            checks: Checks::new(options),
            faults: Schedule::new(options),
            options: options.clone(),
            steps: 0,
        }
    }

    /// Runs both phases to their end.
    ///
    /// # Errors
    /// The violation that a checker found.
    pub fn run(&mut self) -> Verdict {
        self.run_until(self.options.safety)?;
        self.finish()
    }

    /// Runs the second phase to its end.
    ///
    /// # Errors
    /// The violation that a checker found.
    pub fn finish(&mut self) -> Verdict {
        self.heal()?;
        let operations = |this: &Self| {
            this.ledger.pending() + this.workload.queries_pending() + this.administrators.pending()
        };
        // An application must not post a buffer after the others were cleared.
        let busy = |this: &Self| operations(this) > 0 || this.workload.next().is_some();
        self.run_while("operations end", OPERATIONS_END, busy)?;
        self.enable_routers()?;
        self.probe_all()?;
        self.world.quiet_hostile();
        self.workload.clear(&mut self.world, &mut self.ledger);
        self.run_while("nodes become idle", NODES_IDLE, |this| !this.is_idle())?;
        self.checks.finished(&self.world, &self.ledger, self.world.now())
    }

    /// Starts a PUT with an ACK, of `len` bytes or of a drawn length, and returns its number.
    pub fn put(&mut self, pair: (HostId, HostId), len: Option<u32>) -> Option<usize> {
        self.workload.plain_put(&mut self.world, &mut self.ledger, pair, len)
    }

    /// Starts a PUT with an ACK, of `len` bytes, to a NID, and from a NID if one is given.
    pub fn put_to(
        &mut self,
        pair: (HostId, HostId),
        len: u32,
        nids: (Option<Nid>, Nid),
    ) -> Option<usize> {
        self.workload.pinned_put(&mut self.world, &mut self.ledger, pair, len, nids)
    }

    /// Returns the number of steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Runs until `end`.
    ///
    /// # Errors
    /// The violation that a checker found.
    pub fn run_until(&mut self, end: Time) -> Verdict {
        while self.next().is_some_and(|next| next <= end) {
            self.step()?;
        }
        self.world.advance_to(end);
        Ok(())
    }

    /// Runs while `busy` holds, for at most `bound`.
    ///
    /// # Errors
    /// The violation that a checker found, or that the time is up.
    pub fn run_while(
        &mut self,
        what: &str,
        bound: Duration,
        busy: impl Fn(&Self) -> bool,
    ) -> Verdict {
        let end = self.world.now() + bound;
        self.judge()?;
        while !self.world.is_settled() || busy(self) {
            let in_time = self.next().is_some_and(|next| next <= end);
            require(in_time, "liveness", || {
                let left = self.ledger.operations.iter().enumerate();
                let left: Vec<_> = left.filter(|(_, op)| !op.seen.is_over()).take(3).collect();
                format!("not true before {end}: {what}; unfinished: {left:?}")
            })?;
            self.step()?;
        }
        Ok(())
    }

    /// Runs the next event, and the checkers on it.
    ///
    /// # Errors
    /// The violation that a checker found.
    pub fn step(&mut self) -> Verdict {
        self.steps += 1;
        let world = self.world.next().unwrap_or(Time::MAX);
        let faults = self.faults.next().unwrap_or(Time::MAX);
        let workload = self.workload.next().unwrap_or(Time::MAX);
        let administrators = self.administrators.next().unwrap_or(Time::MAX);
        if world <= faults.min(workload).min(administrators) {
            self.world.step();
        } else if faults <= workload.min(administrators) {
            self.world.advance_to(faults);
            if let Some(host) = self.faults.inject(&mut self.world) {
                self.workload.begin(&mut self.world, &mut self.ledger, host);
            }
        } else if administrators <= workload {
            self.world.advance_to(administrators.max(self.world.now()));
            self.administrators.act(&mut self.world);
        } else {
            self.world.advance_to(workload.max(self.world.now()));
            self.workload.act(&mut self.world, &mut self.ledger);
        }
        self.judge()
    }

    /// Runs the checkers on the new signals.
    fn judge(&mut self) -> Verdict {
        while let Some(signal) = self.world.poll_signal() {
            self.checks.observe(&self.world, &mut self.ledger, &signal)?;
            self.workload.react(&self.world, &self.ledger, &signal);
            self.administrators.react(self.world.now(), &signal);
        }
        if self.world.is_settled() {
            let touched = self.world.take_touched();
            self.checks.settled(&self.world, &touched)?;
        }
        Ok(())
    }

    fn next(&self) -> Option<Time> {
        let all = [
            self.world.next(),
            self.faults.next(),
            self.workload.next(),
            self.administrators.next(),
        ];
        all.into_iter().flatten().min()
    }

    /// Ends the safety phase and all faults.
    fn heal(&mut self) -> Verdict {
        self.faults = Schedule::default();
        self.workload.stop_operations();
        self.administrators.end_sessions();
        let down: Vec<HostId> =
            self.world.host_ids().filter(|host| self.world.node(*host).is_none()).collect();
        self.world.heal_all();
        for host in down {
            self.restart(host);
        }
        self.judge()
    }

    /// Enables forwarding on every router, after a pending stop or drain has ended.
    fn enable_routers(&mut self) -> Verdict {
        let end = self.world.now() + ROUTERS_STOP;
        let routers = self.options.rails.as_ref().map_or(Vec::new(), |rails| rails.routers.clone());
        for host in routers {
            while self.world.set_forwarding(host, Forwarding::Enable) == Some(Err(Errno::EBUSY)) {
                require(self.world.now() <= end, "liveness", || format!("{host} never stops"))?;
                self.judge()?;
                self.run_until(self.world.now() + Duration::from_secs(10))?;
            }
        }
        self.judge()
    }

    /// Requires that every node reaches the others (of many nodes, the next few). A node may wait
    /// before it dials a peer again, so each may try more than once.
    fn probe_all(&mut self) -> Verdict {
        let mut open: BTreeMap<(HostId, HostId), Option<usize>> = BTreeMap::new();
        let hosts: Vec<HostId> = self.world.host_ids().collect();
        for (n, from) in hosts.iter().enumerate() {
            let others = hosts.iter().cycle().skip(n + 1).take(PROBES.min(hosts.len() - 1));
            open.extend(others.map(|to| ((*from, *to), None)));
        }
        let end = self.world.now() + ALL_REACHED;
        while !open.is_empty() {
            require(self.world.now() <= end, "liveness", || {
                format!("no connectivity after all faults ended: {:?}", open.keys())
            })?;
            for (&(from, to), probe) in &mut open {
                *probe = self.put((from, to), None);
            }
            self.judge()?;
            let all: Vec<usize> = open.values().flatten().copied().collect();
            self.run_while("probes end", OPERATIONS_END, |this| {
                all.iter().any(|number| !this.ledger.operations[*number].seen.is_over())
            })?;
            open.retain(|_, probe| {
                !probe.is_some_and(|number| self.ledger.operations[number].seen.response_ok)
            });
            if !open.is_empty() {
                self.run_until(self.world.now() + Duration::from_secs(5))?;
            }
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.world.host_ids().all(|host| {
            let node = self.world.node(host).map_or(Ok(()), |node| node.lnet().is_idle());
            let selftest = self.world.selftest(host).map_or(Ok(()), Selftest::is_idle);
            node.is_ok() && selftest.is_ok()
        })
    }
}

/// How many other nodes each node must reach at the end.
const PROBES: usize = 5;
/// A message may wait 151 s for credits, 225 s for discovery and 225 s for the response; dialling
/// may add waits of up to 60 s. Spec: lnet-behaviour §11.
const OPERATIONS_END: Duration = Duration::from_secs(900);
/// Three times the 110 s within which every node pings its routers, and a little more.
const ROUTERS_STOP: Duration = Duration::from_secs(340);
/// A few times the longest wait before a peer is dialled again.
const ALL_REACHED: Duration = Duration::from_secs(600);
/// Internal messages such as a push also wait for a response.
const NODES_IDLE: Duration = Duration::from_secs(300);

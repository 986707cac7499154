//! An independent check of one node over real sockets. The witness receives every message between
//! the core of the node and its LND, and every event, and checks them against lnet-behaviour §17
//! while a load runs. From the node itself it reads only what no observer can know.
//!
//! [`table`] lists the check of each invariant; those that cannot be observed are scenarios in
//! `tests/testbed/invariants`.
//!
//! | module | invariants of lnet-behaviour §17 that it checks |
//! |---|---|
//! | [`operations`] | 7, 8, 9, 12, 13, 33: operations, and the events of their descriptors |
//! | [`arrivals`] | 13, 14, 16, 17, 18, 22: messages received, their events, and the answers |
//! | [`answers`] | 15: effects of ACKs and REPLYs |
//! | [`credits`] | 2, 4, 20: messages in the LND, counted here |
//! | [`discovery`] | 26, 27: targets of messages, and the interfaces in ping info |
//! | [`transits`] | 19: forwarded messages |
//! | [`check`] | 1, 2, 3, 20, 32: the tables of the node, active and idle |

pub mod answers;
pub mod arrivals;
pub mod credits;
pub mod discovery;
pub mod operations;
pub mod table;
#[cfg(test)]
mod tests;
pub mod transits;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fulmar_base::{Errno, MessageId};
use fulmar_lnd::{Received, SendRequest};
use fulmar_lnet::{Event, EventDone, EventKind, MdId, Op};
use fulmar_lnet_wire::Nid;
use fulmar_net::{Node, Tap};
use fulmar_node::check::{self, Finding, Verdict, require};
use fulmar_node::{Crossing, Node as Machine};

pub use operations::Request;

/// Expectations of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The largest number of messages in flight to one peer NI.
    pub peer_credits: u32,
    /// The largest number of messages in flight through one of its interfaces.
    pub credits: u32,
    /// It discovers unknown nodes.
    pub discovers: bool,
    /// No failures, deliberate or otherwise: every operation succeeds and keeps its path.
    pub calm: bool,
    /// Its health sensitivity is 0.
    pub insensitive: bool,
    /// A rule delays messages, so that others overtake them and credits are held for longer.
    pub delays: bool,
}

impl Default for Terms {
    fn default() -> Self {
        let fulmar_lnd::NiTunables { peer_credits, credits, .. } = Default::default();
        let (discovers, insensitive) = (true, false);
        Self { peer_credits, credits, discovers, calm: false, insensitive, delays: false }
    }
}

/// Information on NIDs from the node.
pub trait Directory {
    /// Returns whether it is a local NID.
    fn is_own(&self, nid: Nid) -> bool;
    /// Returns all NIDs of the peer that has this one.
    fn of_peer(&self, nid: Nid) -> Vec<Nid>;
    /// Returns whether the peer that has this NID is the gateway of a route.
    fn is_gateway(&self, nid: Nid) -> bool;
}

impl Directory for Machine {
    fn is_own(&self, nid: Nid) -> bool {
        self.lnet().is_own(nid)
    }

    fn of_peer(&self, nid: Nid) -> Vec<Nid> {
        let peers = self.lnet().peers();
        let found = peers.into_iter().find(|peer| peer.nis.iter().any(|ni| ni.nid == nid));
        found.map_or_else(Vec::new, |peer| peer.nis.iter().map(|ni| ni.nid).collect())
    }

    fn is_gateway(&self, nid: Nid) -> bool {
        let nids = self.of_peer(nid);
        self.lnet().routes().iter().any(|route| nids.contains(&route.gateway))
    }
}

/// How long pings of the node may still be in progress when it should be idle.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many findings are kept: the first ones are the most useful.
const FINDINGS_MAX: usize = 8;

/// The witness of one node, for [`Options::tap`](fulmar_net::Options::tap).
#[derive(Debug)]
pub struct Witness {
    terms: Terms,
    judges: Mutex<Judges>,
}

/// All checks, and their findings.
#[derive(Debug)]
struct Judges {
    operations: operations::Operations,
    arrivals: arrivals::Arrivals,
    answers: answers::Answers,
    credits: credits::Credits,
    discovery: discovery::Discovery,
    transits: transits::Transits,
    /// Messages returned unsent by the LND: they may be sent again.
    unsent: BTreeSet<MessageId>,
    found: Vec<Finding>,
}

impl Witness {
    /// Creates a witness.
    pub fn new(terms: Terms) -> Arc<Self> {
        let judges = Judges {
            operations: operations::Operations::default(),
            arrivals: arrivals::Arrivals::new(terms),
            answers: answers::Answers::default(),
            credits: credits::Credits::new(terms),
            discovery: discovery::Discovery::new(terms),
            transits: transits::Transits::new(terms),
            unsent: BTreeSet::new(),
            found: Vec::new(),
        };
        Arc::new(Self { terms, judges: Mutex::new(judges) })
    }

    /// Returns how many PUTs were delivered twice.
    pub fn repeated(&self) -> u64 {
        self.lock().arrivals.repeated()
    }

    /// Returns how many messages to a NID are in the LND.
    pub fn in_lnd(&self, peer: Nid) -> i64 {
        self.lock().credits.in_lnd(peer)
    }

    /// Checks the tables of an active node.
    pub fn check_active(&self, node: &Node) {
        node.look(|machine| {
            let mut judges = self.lock();
            let verdict = check::at_work(machine, self.terms.insensitive)
                .and_then(|()| judges.credits.agrees_with_the_node(machine));
            judges.note(verdict);
        });
    }

    /// Checks an idle node, after its own pings have ended.
    pub fn check_idle(&self, node: &Node) {
        let begun = Instant::now();
        loop {
            let verdict = node.look(check::at_rest);
            let mut judges = self.lock();
            let verdict = verdict
                .and_then(|()| judges.operations.finished(self.terms.calm))
                .and_then(|()| judges.discovery.pushes_are_acknowledged());
            if verdict.is_ok() || begun.elapsed() > TIMEOUT {
                let left = judges.credits.left();
                let complete = |Finding { number, text }| Finding { number, text: text + &left };
                return judges.note(verdict.map_err(complete));
            }
            drop(judges);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the findings, if any.
    pub fn found(&self) -> Option<String> {
        let judges = self.lock();
        let found: Vec<String> = judges.found.iter().map(Finding::to_string).collect();
        (!found.is_empty()).then(|| found.join("; "))
    }

    fn lock(&self) -> MutexGuard<'_, Judges> {
        self.judges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tap for Witness {
    fn posted(&self, op: &Op, result: Result<MdId, Errno>) {
        if let Ok(id) = result {
            self.lock().operations.posted(id, op);
        }
    }

    fn crossing(&self, machine: &Machine, crossing: &Crossing) {
        let mut judges = self.lock();
        let verdict = judges.crossing(machine, crossing);
        judges.note(verdict);
    }

    fn event(&self, event: &Event) {
        let mut judges = self.lock();
        let verdict = judges.event(event);
        judges.note(verdict);
    }

    fn handled(&self, done: EventDone) {
        self.lock().arrivals.handled(done);
    }
}

impl Judges {
    fn note(&mut self, verdict: Verdict) {
        self.found.extend(verdict.err().filter(|_| self.found.len() < FINDINGS_MAX));
    }

    fn crossing(&mut self, directory: &dyn Directory, crossing: &Crossing) -> Verdict {
        match crossing {
            Crossing::Handed(SendRequest { message, ni, next_hop: peer, header, payload }) => {
                self.credits.handed(*message, (*ni, *peer), header, directory)?;
                // It was checked when it was first passed to the LND.
                if self.unsent.remove(message) {
                    return Ok(());
                }
                if !directory.is_own(header.source) {
                    return self.transits.forwarded_unchanged(header);
                }
                self.operations.given_pairs_are_kept(header)?;
                self.answers.asked(header);
                self.discovery.unknown_nodes_are_pinged_first(header, directory)?;
                self.discovery.a_change_has_a_new_sequence(header, payload)?;
                self.arrivals.answered(header, *peer, directory)
            }
            Crossing::Returned { message, sent } => {
                if !sent {
                    self.unsent.insert(*message);
                }
                self.credits.returned(*message);
                Ok(())
            }
            Crossing::Received(Received { conn, ni, from: peer, header }) => {
                if !directory.is_own(header.target) {
                    self.transits.given(header);
                    return Ok(());
                }
                self.answers.received(header);
                self.discovery.received(header);
                self.arrivals.received(*conn, (*ni, *peer), header);
                Ok(())
            }
        }
    }

    fn event(&mut self, event: &Event) -> Verdict {
        self.operations.event(event)?;
        match event.kind {
            EventKind::Put => self.arrivals.put(event),
            EventKind::Get => self.arrivals.get(event),
            EventKind::Ack | EventKind::Reply => self.answers.answers_were_requested(event),
            EventKind::Send | EventKind::Unlink => Ok(()),
        }
    }
}

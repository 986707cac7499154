//! An independent check of one node over real sockets. The witness sees every message between the
//! node's core and its LND, and every event, and checks them against lnet-behaviour §17 while a load
//! runs. From the node itself it reads only what only the node can know.
//!
//! [`table`] names the check of each invariant; those that cannot be seen by watching are scenarios
//! in `tests/testbed/invariants`.
//!
//! | module | invariants of lnet-behaviour §17 that it checks |
//! |---|---|
//! | [`operations`] | 7, 8, 9, 12, 13, 33: operations, and the events of their descriptors |
//! | [`arrivals`] | 13, 14, 16, 17, 18, 22: messages received, their events, and the answers |
//! | [`answers`] | 15: which ACKs and REPLYs have an effect |
//! | [`credits`] | 2, 4, 20: messages that the LND has, counted here |
//! | [`discovery`] | 26, 27: to whom messages go, and what ping info says of our interfaces |
//! | [`transits`] | 19: forwarded messages |
//! | [`check`] | 1, 2, 3, 20, 32: the node's tables, while it is busy and when it is idle |

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

/// What to expect of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The most messages that may be under way to one peer NI.
    pub peer_credits: u32,
    /// The most messages that may be under way through one of its interfaces.
    pub credits: u32,
    /// It discovers unknown nodes.
    pub discovers: bool,
    /// Nothing fails, on purpose or otherwise: every operation succeeds and keeps its path.
    pub calm: bool,
    /// Its health sensitivity is 0.
    pub insensitive: bool,
    /// A rule holds messages back, so that others overtake them and credits are held for longer.
    pub delays: bool,
}

impl Default for Terms {
    fn default() -> Self {
        let fulmar_lnd::NiTunables { peer_credits, credits, .. } = Default::default();
        let (discovers, insensitive) = (true, false);
        Self { peer_credits, credits, discovers, calm: false, insensitive, delays: false }
    }
}

/// What only the node knows of NIDs.
pub trait Directory {
    /// Whether it is one of ours.
    fn is_own(&self, nid: Nid) -> bool;
    /// Returns all NIDs of the peer that has this one.
    fn of_peer(&self, nid: Nid) -> Vec<Nid>;
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
}

/// How long pings of the node's own may still be under way when it should be idle.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many findings are kept: the first ones say most.
const FINDINGS_MAX: usize = 8;

/// The witness of one node, for [`Options::tap`](fulmar_net::Options::tap).
#[derive(Debug)]
pub struct Witness {
    terms: Terms,
    judges: Mutex<Judges>,
}

/// All checks, and what they found.
#[derive(Debug)]
struct Judges {
    operations: operations::Operations,
    arrivals: arrivals::Arrivals,
    answers: answers::Answers,
    credits: credits::Credits,
    discovery: discovery::Discovery,
    transits: transits::Transits,
    /// Messages that came back from the LND unsent: they may be sent again.
    unsent: BTreeSet<MessageId>,
    found: Vec<Finding>,
}

impl Witness {
    /// Returns a witness that has seen nothing.
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

    /// Returns how many messages to a NID the LND has.
    pub fn in_lnd(&self, peer: Nid) -> i64 {
        self.lock().credits.in_lnd(peer)
    }

    /// Checks the tables of a busy node.
    pub fn look(&self, node: &Node) {
        node.look(|machine| {
            let mut judges = self.lock();
            let verdict = check::at_work(machine, self.terms.insensitive)
                .and_then(|()| judges.credits.agrees_with_the_node(machine));
            judges.note(verdict);
        });
    }

    /// Checks a node that has nothing left to do, once its own pings are over.
    pub fn rest(&self, node: &Node) {
        let begun = Instant::now();
        loop {
            let verdict = node.look(check::at_rest);
            let mut judges = self.lock();
            let verdict = verdict
                .and_then(|()| judges.operations.finished(self.terms.calm))
                .and_then(|()| judges.discovery.pushes_are_acknowledged());
            if verdict.is_ok() || begun.elapsed() > PATIENCE {
                let left = judges.credits.left();
                let told = |Finding { number, text }| Finding { number, text: text + &left };
                return judges.note(verdict.map_err(told));
            }
            drop(judges);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns what was wrong, if anything.
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
                // It was checked when it was first handed over.
                if self.unsent.remove(message) {
                    return Ok(());
                }
                if !directory.is_own(header.source) {
                    return self.transits.forwarded_as_it_came(header);
                }
                self.operations.given_pairs_are_kept(header)?;
                self.answers.asked(header);
                self.discovery.strangers_are_pinged_first(header, directory)?;
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
            EventKind::Ack | EventKind::Reply => self.answers.answers_were_asked_for(event),
            EventKind::Send | EventKind::Unlink => Ok(()),
        }
    }
}

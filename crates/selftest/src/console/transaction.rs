//! Transactions: the same request to many nodes at once. Spec: lnet-selftest §13.3.
//!
//! ```text
//! queued --> in flight --> settled          a part; in flight again if it is a series
//!    +------------+------> settled: ETIMEDOUT at the deadline
//! ```
//!
//! Parts after the barrier are queued when all parts before it have succeeded, and have their own
//! deadline; if one before it failed they are dropped.

use std::collections::VecDeque;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::ProcessId;
use fulmar_lnet_wire::selftest::{BatchOperation, Body, SessionId};

use crate::api::CommandId;
use crate::rpc::{Call, CallId, Caller, Rpcs};

use super::api::{NodeAnswer, NodeError, NodeState, NodesReply, Reply};
use super::ask::{Ask, News};
use super::limits::TRANSACTION_TIMEOUT;
pub(super) use super::part::Part;
use super::session::Session;

/// A request to some nodes, and their answers.
#[derive(Debug)]
pub(super) struct Transaction {
    /// The command that waits for it; `None` for a background transaction.
    pub(super) command: Option<CommandId>,
    /// Its session, which may have ended.
    pub(super) session: SessionId,
    features: u32,
    ask: Ask,
    parts: Vec<Part>,
    /// The parts to send next.
    queue: VecDeque<usize>,
    in_flight: usize,
    /// The index of the first part after the barrier; the number of parts without a barrier.
    barrier: usize,
    timeout: Duration,
    pub(super) deadline: Time,
}

impl Transaction {
    pub(super) fn new(session: SessionId, features: u32, ask: Ask, parts: Vec<Part>) -> Self {
        Self {
            command: None,
            session,
            features,
            ask,
            queue: VecDeque::new(),
            in_flight: 0,
            barrier: parts.len(),
            parts,
            timeout: TRANSACTION_TIMEOUT,
            deadline: Time::MAX,
        }
    }

    /// Sets the command that waits for it.
    pub(super) fn for_command(self, command: CommandId) -> Self {
        Self { command: Some(command), ..self }
    }

    /// Sets another timeout.
    pub(super) fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Makes the parts from `barrier` on wait for those before it.
    pub(super) fn with_barrier(self, barrier: usize) -> Self {
        Self { barrier, ..self }
    }

    pub(super) fn ask(&self) -> &Ask {
        &self.ask
    }

    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns the number of nodes that have failed.
    pub(super) fn failures(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part.result, Some(Err(_)))).count()
    }

    /// Returns the number of nodes that report running units.
    pub(super) fn active(&self) -> usize {
        let runs = |part: &&Part| matches!(part.news, News::Active(count) if count > 0);
        self.parts.iter().filter(runs).count()
    }

    /// Starts: the parts before the barrier are queued first.
    pub(super) fn begin(&mut self, now: Time) {
        self.enqueue(now, 0, self.barrier);
    }

    /// Starts the queued calls; `tag` returns a tag for each. All at once: nodes that do not answer
    /// must not delay others.
    pub(super) fn pump(&mut self, now: Time, rpcs: &mut Rpcs, mut tag: impl FnMut(usize) -> u64) {
        while let Some(index) = self.queue.pop_front() {
            let tag = tag(index);
            let call = self.call(now, index, tag, rpcs);
            self.parts[index].flight = Some((tag, call));
            self.in_flight += 1;
        }
    }

    /// Handles the end of the call of a part, and updates the session if it still exists.
    pub(super) fn handle_reply(
        &mut self,
        now: Time,
        index: usize,
        reply: Result<(Body, u32), Errno>,
        mut session: Option<&mut Session>,
    ) {
        let part = &mut self.parts[index];
        part.flight.take().expect("only calls in flight end");
        self.in_flight -= 1;
        let parsed = reply.and_then(|(body, features)| Ok((self.ask.read(body)?, features)));
        let (parsed, features) = match parsed {
            Ok(parsed) => parsed,
            Err(errno) => return self.fail(index, errno, session),
        };
        part.state = NodeState::of(parsed.session, self.session);
        let mut result = self.ask.judge(parsed.status);
        if let (Ask::Make { .. }, Ok(())) = (&self.ask, result) {
            result = match (part.state, session.as_deref_mut()) {
                (NodeState::Active, Some(session)) => session.agree(features),
                (NodeState::Active, None) => Ok(()),
                _ => Err(Errno::EPROTO),
            };
        }
        let timeout = match parsed.news {
            News::Timeout(seconds) if result.is_ok() => Some(seconds),
            _ => None,
        };
        match result.and_then(|()| part.proceed(&self.ask, parsed.news)) {
            Ok(true) => self.queue.push_front(index),
            Ok(false) => part.result = Some(Ok(())),
            Err(errno) => part.result = Some(Err(NodeError::Framework(errno))),
        }
        self.note(index, session.as_deref_mut());
        if let Some(node) =
            session.and_then(|session| session.nodes.get_mut(self.parts[index].node))
        {
            node.heard = now;
            node.timeout = timeout.unwrap_or(node.timeout);
        }
    }

    /// Ends the transaction: calls in flight are aborted, and open parts fail. Returns the tags of
    /// these calls.
    pub(super) fn give_up(
        &mut self,
        errno: Errno,
        mut session: Option<&mut Session>,
        rpcs: &mut Rpcs,
    ) -> Vec<u64> {
        let mut tags = Vec::with_capacity(self.in_flight);
        self.parts.truncate(self.barrier);
        self.queue.clear();
        for index in 0..self.parts.len() {
            if let Some((tag, call)) = self.parts[index].flight.take() {
                self.in_flight -= 1;
                tags.push(tag);
                rpcs.abort(call, errno);
                self.fail(index, errno, session.as_deref_mut());
            } else if self.parts[index].result.is_none() {
                // The node was never queried, so its state is unknown.
                self.parts[index].result = Some(Err(NodeError::Rpc(errno)));
                self.forget(index, session.as_deref_mut());
            }
        }
        tags
    }

    /// Passes the barrier if possible, and returns whether all parts are settled.
    pub(super) fn is_over(&mut self, now: Time) -> bool {
        if self.in_flight > 0 || !self.queue.is_empty() {
            return false;
        }
        let barrier = std::mem::replace(&mut self.barrier, self.parts.len());
        if barrier < self.parts.len() {
            if self.failures() == 0 {
                self.enqueue(now, barrier, self.parts.len());
                return false;
            }
            self.parts.truncate(barrier);
            self.barrier = barrier;
        }
        true
    }

    /// Returns the answers of the nodes, in a session with these features.
    pub(super) fn into_reply(self, features: Option<u32>) -> Reply {
        let parts = self.parts.into_iter();
        match self.ask {
            Ask::Debug => Reply::Sessions(collect(parts, |part| match part.news {
                News::Session(info) => info,
                other => unreachable!("unexpected reply to a session query: {other:?}"),
            })),
            Ask::Batch { call, .. } if call.operation == BatchOperation::QUERY => {
                Reply::Active(collect(parts, |part| match part.news {
                    News::Active(count) => count,
                    other => unreachable!("unexpected reply to a batch query: {other:?}"),
                }))
            }
            Ask::Stat => Reply::Stats(collect(parts, |part| match part.news {
                News::Stats(stats) => stats,
                other => unreachable!("unexpected reply to a counter query: {other:?}"),
            })),
            Ask::Measure => Reply::Measures(collect(parts, |part| part.measures)),
            Ask::Make { .. } | Ask::Remove | Ask::Batch { .. } | Ask::Install(_) => {
                let features = features.unwrap_or(self.features);
                Reply::Nodes(NodesReply { features, nodes: collect(parts, |_| ()) })
            }
        }
    }

    /// Returns a broken invariant, if any.
    pub(super) fn check(&self) -> Result<(), String> {
        let in_flight = self.parts.iter().filter(|part| part.flight.is_some()).count();
        let open = self.parts[..self.barrier].iter().filter(|part| part.result.is_none()).count();
        if in_flight == self.in_flight && open == in_flight + self.queue.len() && open > 0 {
            Ok(())
        } else {
            Err(format!("{open} parts are open and {in_flight} in flight in {self:?}"))
        }
    }

    fn call(&self, now: Time, index: usize, tag: u64, rpcs: &mut Rpcs) -> CallId {
        let part = &self.parts[index];
        let call = Call {
            caller: Caller::Console(tag),
            target: ProcessId::lustre(part.nid),
            service: self.ask.service(),
            features: self.features,
            bulk: self.ask.bulk(index, self.features),
            // The transaction has a deadline, and aborts the call.
            timeout: None,
        };
        rpcs.start(now, call, |reply_id, bulk_id| {
            self.ask.request(self.session, index, part.step, (reply_id, bulk_id))
        })
    }

    fn enqueue(&mut self, now: Time, from: usize, to: usize) {
        let parts = &self.parts;
        self.queue.extend((from..to).filter(|index| parts[*index].result.is_none()));
        self.deadline = now + self.timeout;
    }

    /// Fails a part without an answer.
    fn fail(&mut self, index: usize, errno: Errno, session: Option<&mut Session>) {
        let part = &mut self.parts[index];
        part.state = NodeState::Down;
        part.result = Some(Err(NodeError::Rpc(errno)));
        self.note(index, session);
    }

    /// Updates the state of a node in the session.
    fn note(&mut self, index: usize, mut session: Option<&mut Session>) {
        let part = &self.parts[index];
        let node = session.as_deref_mut().and_then(|session| session.nodes.get_mut(part.node));
        if let Some(node) = node {
            node.state = part.state;
        }
        if part.result.is_some() {
            self.forget(index, session);
        }
    }

    /// Marks a node as no longer queried in the session.
    fn forget(&self, index: usize, session: Option<&mut Session>) {
        let part = &self.parts[index];
        let node = session.and_then(|session| session.nodes.get_mut(part.node));
        match (&self.ask, node) {
            (Ask::Make { .. }, Some(node)) => node.making = false,
            (Ask::Debug, Some(node)) if self.command.is_none() => node.pinging = false,
            _ => {}
        }
    }
}

fn collect<T>(parts: impl Iterator<Item = Part>, said: impl Fn(Part) -> T) -> Vec<NodeAnswer<T>> {
    parts.map(|part| part.into_answer(&said)).collect()
}

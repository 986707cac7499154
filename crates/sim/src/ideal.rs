//! An ideal network and its LND: no sockets, no losses, no connections to open.
//!
//! It is how a network driver over remote memory access behaves, in its simplest form. A header takes
//! the latency of the network. The payload then goes from the memory of one node to that of the
//! other, in a time of its own, so that many messages of one connection are being received at once
//! and end in any order. A message that waits for its verdict holds up no other.
//!
//! ```text
//! send ──latency──► Received ──verdict: Receive──transfer──► Completed at the target, Sent at the source
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fulmar_base::{BufferId, ConnId, Errno, MessageId, Payload, Rng, Sink, Span, Time};
use fulmar_lnd::{Lnd, NiConfig, Output, Received, RxId, SendError, SendRequest, Verdict};
use fulmar_lnet_wire::{Header, NetType, Nid};

/// A network without faults, and the memory of the nodes on it. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct IdealNetwork(Arc<Mutex<State>>);

/// The LND of one node on an [`IdealNetwork`].
#[derive(Debug)]
pub struct IdealLnd {
    network: IdealNetwork,
    node: usize,
}

#[derive(Debug)]
struct State {
    net_type: NetType,
    latency: Duration,
    rng: Rng,
    owners: BTreeMap<Nid, usize>,
    nodes: Vec<Endpoint>,
    memory: BTreeMap<(usize, BufferId), Vec<u8>>,
    /// Counts what was scheduled, so that things of one time keep their order.
    scheduled: u64,
    receiving_max: usize,
}

/// What the network keeps for one node.
#[derive(Debug, Default)]
struct Endpoint {
    /// What is due, and when.
    due: BTreeMap<(Time, u64), Due>,
    /// Messages whose headers were reported and are without a verdict, in order.
    unjudged: VecDeque<Flight>,
    /// Messages that wait for another verdict.
    waiting: BTreeMap<RxId, Flight>,
    /// How many payloads are on their way to it.
    receiving: usize,
    outputs: VecDeque<Output>,
}

/// A message between two nodes.
#[derive(Debug)]
struct Flight {
    source: usize,
    message: MessageId,
    ni: Nid,
    from: Nid,
    header: Header,
    payload: Payload,
}

#[derive(Debug)]
enum Due {
    Header(Flight),
    Transferred { flight: Flight, rx: RxId, sink: Sink },
}

impl IdealNetwork {
    /// Returns a network whose NIDs are of `net_type`. A header takes `latency`, a payload up to
    /// twice that.
    pub fn new(net_type: NetType, latency: Duration, seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            net_type,
            latency,
            rng: Rng::new(seed),
            owners: BTreeMap::new(),
            nodes: Vec::new(),
            memory: BTreeMap::new(),
            scheduled: 0,
            receiving_max: 0,
        })))
    }

    /// Returns the LND of another node, and the number by which the network knows the node.
    pub fn join(&self) -> (IdealLnd, usize) {
        let mut state = self.state();
        state.nodes.push(Endpoint::default());
        let node = state.nodes.len() - 1;
        (IdealLnd { network: self.clone(), node }, node)
    }

    /// Gives a node a buffer.
    pub fn allocate(&self, node: usize, buffer: BufferId, bytes: Vec<u8>) {
        let before = self.state().memory.insert((node, buffer), bytes);
        assert!(before.is_none(), "{buffer:?} of node {node} is allocated once");
    }

    /// Removes a buffer from a node, and returns its bytes.
    ///
    /// # Panics
    /// If there is no such buffer.
    pub fn release(&self, node: usize, buffer: BufferId) -> Vec<u8> {
        self.state().memory.remove(&(node, buffer)).expect("what is released was allocated")
    }

    /// Returns how many payloads were on their way to one node at the same time, at most.
    pub fn receiving_max(&self) -> usize {
        self.state().receiving_max
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn schedule(&mut self, node: usize, at: Time, due: Due) {
        self.scheduled += 1;
        self.nodes[node].due.insert((at, self.scheduled), due);
    }

    fn receive(&mut self, now: Time, node: usize, flight: Flight, rx: RxId, sink: Sink) {
        let most = self.latency.as_nanos() as u64 * 2 + 1;
        let at = now + Duration::from_nanos(self.rng.below(most));
        self.nodes[node].receiving += 1;
        self.receiving_max = self.receiving_max.max(self.nodes[node].receiving);
        self.schedule(node, at, Due::Transferred { flight, rx, sink });
    }

    /// Moves a payload, and returns the bytes of an inline sink.
    fn transfer(&mut self, from: (usize, &Payload), to: (usize, Sink)) -> Vec<u8> {
        let (Sink::Inline { len } | Sink::Discard { len } | Sink::Span(Span { len, .. })) = to.1;
        let bytes = match from.1 {
            Payload::Empty => Vec::new(),
            Payload::Inline(bytes) => bytes[..len as usize].to_vec(),
            Payload::Span(span) => self.memory[&(from.0, span.buffer)][range(*span, len)].to_vec(),
        };
        match to.1 {
            Sink::Discard { .. } => Vec::new(),
            Sink::Inline { .. } => bytes,
            Sink::Span(span) => {
                let memory = self.memory.get_mut(&(to.0, span.buffer));
                let memory = memory.expect("a sink is in memory of the node");
                memory[range(span, len)].copy_from_slice(&bytes);
                Vec::new()
            }
        }
    }

    fn handle_due(&mut self, node: usize, due: Due) {
        match due {
            Due::Header(flight) => {
                let Flight { ni, from, header, .. } = flight;
                let received = Received { conn: ConnId(0), ni, from, header };
                self.nodes[node].outputs.push_back(Output::Received(received));
                self.nodes[node].unjudged.push_back(flight);
            }
            Due::Transferred { flight, rx, sink } => {
                self.nodes[node].receiving -= 1;
                let bytes = self.transfer((flight.source, &flight.payload), (node, sink));
                let completed = Output::Completed { rx, result: Ok(bytes) };
                self.nodes[node].outputs.push_back(completed);
                self.sent(flight.source, flight.message, Ok(()));
            }
        }
    }

    fn sent(&mut self, node: usize, message: MessageId, result: Result<(), SendError>) {
        self.nodes[node].outputs.push_back(Output::Sent { message, result });
    }
}

fn range(span: Span, len: u32) -> std::ops::Range<usize> {
    let start = span.offset as usize;
    start..start + len as usize
}

impl Lnd for IdealLnd {
    fn net_type(&self) -> NetType {
        self.network.state().net_type
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn add_ni(&mut self, _: Time, ni: &NiConfig) {
        let before = self.network.state().owners.insert(ni.nid, self.node);
        assert!(before.is_none_or(|node| node == self.node), "a NID has one owner");
    }

    fn remove_ni(&mut self, _: Time, nid: Nid) {
        self.network.state().owners.remove(&nid);
    }

    fn send(&mut self, now: Time, request: SendRequest) {
        let SendRequest { message, ni, next_hop, header, payload } = request;
        let mut state = self.network.state();
        let Some(&target) = state.owners.get(&next_hop) else {
            let error = SendError::remote_error(Errno::EHOSTUNREACH);
            return state.sent(self.node, message, Err(error));
        };
        let flight = Flight { source: self.node, message, ni: next_hop, from: ni, header, payload };
        let at = now + state.latency;
        state.schedule(target, at, Due::Header(flight));
    }

    /// Every message moves.
    fn report_waiting(&mut self, _now: Time, _nid: Nid) {}

    fn handle_verdict(&mut self, now: Time, _: ConnId, rx: RxId, verdict: Verdict) {
        let mut state = self.network.state();
        let endpoint = &mut state.nodes[self.node];
        let flight = endpoint.waiting.remove(&rx).or_else(|| endpoint.unjudged.pop_front());
        let flight = flight.expect("a verdict is of a message that was received");
        match verdict {
            Verdict::Receive(sink) => state.receive(now, self.node, flight, rx, sink),
            Verdict::Wait => drop(endpoint.waiting.insert(rx, flight)),
            Verdict::Reject => {
                let error = SendError::remote_dropped(Errno::ECONNRESET);
                state.sent(flight.source, flight.message, Err(error));
            }
        }
    }

    fn handle_link(&mut self, _: Time, _: Nid, _: bool) {}

    fn close_peer(&mut self, _: Time, _: Nid) {}

    fn handle_timeout(&mut self, now: Time) {
        let mut state = self.network.state();
        while let Some(entry) = state.nodes[self.node].due.first_entry()
            && entry.key().0 <= now
        {
            let due = entry.remove();
            state.handle_due(self.node, due);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let state = self.network.state();
        state.nodes[self.node].due.keys().next().map(|(at, _)| *at)
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.network.state().nodes[self.node].outputs.pop_front()
    }
}

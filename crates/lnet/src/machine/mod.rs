//! The machine as its owner sees it: inputs, outputs, time and settings.

mod ageing;
mod backpressure;
mod check;
mod claims;
mod delay;
mod descriptors;
mod discovery;
mod failures;
mod faults;
mod finalize;
mod gateway;
mod interfaces;
mod loopback;
mod message;
mod ping;
mod policy;
mod rail;
mod receive;
mod recovery;
mod route;
mod router;
mod select;
mod send;
mod service;
mod stats;
mod track;
mod transit;
mod udsp;

use std::collections::{BTreeMap, VecDeque};

use fulmar_base::{Errno, MessageId, Rng, Table, Time, Timers};
use fulmar_lnet_wire::{Nid, Pid};

use crate::api::{Config, CopyId, Event, EventKind, Globals, MdId, Output, QueryId};
use crate::credits::CreditTable;
use crate::fault::Faults;
use crate::health::{HEALTH_MAX, Health};
use crate::matching::{Completion, Matching, Owner};
use crate::ni::Ni;
use crate::notice::Notice;
use crate::peers::{PeerId, PeerNiId, Peers};
use crate::routing::{Routing, Timer};
use crate::udsp::Udsp;

use backpressure::Backpressure;
use claims::Pushes;
use delay::Delays;
use loopback::LoopbackCopy;
use message::Messages;
use ping::OwnInfo;
use stats::Counters;

/// The LNet core of one node.
#[derive(Debug)]
pub struct Lnet {
    pid: Pid,
    globals: Globals,
    nis: Vec<Ni>,
    next_ni: u64,
    peers: Peers,
    credits: CreditTable,
    health: Health,
    /// When messages are sent again.
    resends: Timers<MessageId>,
    matching: Matching,
    messages: Messages,
    /// The messages that LNDs are receiving, by [`RxId`](fulmar_lnd::RxId): the message, if it is known by now.
    receiving: Table<Option<MessageId>>,
    copies: BTreeMap<CopyId, LoopbackCopy>,
    next_copy: u64,
    own: OwnInfo,
    routing: Routing,
    rng: Rng,
    delays: Delays,
    backpressure: Backpressure,
    pushes: Pushes,
    /// The pings that administrators requested, and their targets.
    queries: BTreeMap<QueryId, (MdId, Nid)>,
    next_query: u64,
    /// Counts sends: what interfaces were last used at.
    stamps: u64,
    counters: Counters,
    udsp: Udsp,
    faults: Faults,
    work: VecDeque<Work>,
    outputs: VecDeque<Output>,
}

/// What is left to do within one input. A list and not calls, so that a thousand messages that
/// fail one after the other do not nest a thousand deep.
#[derive(Debug)]
enum Work {
    /// A message has got the credit that it waited for.
    Post(MessageId),
    /// A message has got the router credit or the buffer that it waited for.
    Transit(MessageId),
    /// A peer has taken responses: its requests may go on.
    Requests(PeerNiId),
    /// A message needs a path: the peer that it waited for is discovered, or its last path failed.
    Launch(MessageId),
    /// Pushes of a peer may be acknowledged.
    Pushes(PeerId),
    /// An event of a descriptor of the machine's own.
    Own(OwnEvent),
    /// The discovery of a peer can go on.
    Advance(PeerId),
    /// A gateway is deleted, or is another peer than before.
    Gateways,
}

/// An event of a descriptor of the machine's own.
#[derive(Debug)]
struct OwnEvent {
    owner: Owner,
    md: MdId,
    kind: EventKind,
    status: Result<(), Errno>,
    /// Our NID and theirs.
    pair: (Nid, Nid),
    /// What a REPLY brought.
    bytes: Vec<u8>,
}

impl Lnet {
    /// Makes a node without network interfaces but for `0@lo`.
    ///
    /// Interfaces that are added before [`Lnet::start`] are what the node was configured with:
    /// they leave the sequence number of its ping info at 1.
    pub fn new(config: Config) -> Self {
        let mut lnet = Self {
            pid: config.pid,
            globals: config.globals,
            nis: Vec::new(),
            next_ni: 0,
            peers: Peers::default(),
            credits: CreditTable::default(),
            health: Health::default(),
            resends: Timers::default(),
            matching: Matching::new(config.interface_cookie),
            messages: Messages::default(),
            receiving: Table::default(),
            copies: BTreeMap::new(),
            next_copy: 0,
            own: OwnInfo::default(),
            routing: Routing::new(config.routing),
            rng: Rng::new(config.interface_cookie),
            delays: Delays::default(),
            backpressure: Backpressure::default(),
            pushes: Pushes::default(),
            queries: BTreeMap::new(),
            next_query: 0,
            stamps: 0,
            counters: Counters::default(),
            udsp: Udsp::default(),
            faults: Faults::new(config.interface_cookie),
            work: VecDeque::new(),
            outputs: VecDeque::new(),
        };
        lnet.own_changed();
        lnet
    }

    /// Ends the configuration: from now on peers are notified of each change of the interfaces.
    pub fn start(&mut self, now: Time) {
        self.own.started = true;
        self.start_router(now);
        self.settle(now);
    }

    /// Returns the next thing to do, if any.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns when to call [`Lnet::handle_timeout`] next, if at all.
    pub fn poll_timeout(&self) -> Option<Time> {
        let machines = [
            self.matching.poll_timeout(),
            self.health.poll_timeout(),
            self.routing.poll_timeout(),
            self.delays.poll_timeout(),
            self.resends.next(),
            self.peers.poll_timeout(),
            self.peers.ageing_due(),
        ];
        machines.into_iter().flatten().min()
    }

    /// Handles the passing of time.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(at) = self.poll_timeout().filter(|at| *at <= now) {
            if let Some(late) = self.matching.pop_late(at) {
                self.response_timed_out(now, late);
            } else if let Some(peer) = self.peers.pop_due(at) {
                self.work.push_back(Work::Advance(peer));
            } else if self.peers.ageing_due() == Some(at) {
                self.forget_idle_peers(now);
            } else if let Some(message) = self.resends.pop_due(at) {
                self.work.push_back(Work::Launch(message));
            } else if let Some(target) = self.health.pop_due(at) {
                self.recover(now, target);
            } else if self.delays.poll_timeout() == Some(at) {
                self.delays_due(now);
            } else if let Some(timer) = self.routing.pop_due(at) {
                self.routing_due(now, timer);
            }
            self.settle(now);
        }
    }

    fn routing_due(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::CheckGateway(peer) => self.check_gateway(now, peer),
            Timer::Forwarding => {
                if let Some(step) = self.routing.forwarding_due(now) {
                    self.follow(now, step);
                }
            }
            Timer::Silence => self.find_silent_nets(now),
        }
    }

    /// Returns what `lnetctl global show` prints.
    pub fn globals(&self) -> &Globals {
        &self.globals
    }

    /// Changes settings. Spec: lnet-admin §10.2.
    ///
    /// A health sensitivity that becomes 0 takes the retry count with it.
    ///
    /// # Errors
    /// EINVAL if a value is out of range or does not go with the others; nothing is changed then.
    pub fn set_globals(&mut self, now: Time, mut globals: Globals) -> Result<(), Errno> {
        if globals.health_sensitivity == 0 && self.globals.health_sensitivity != 0 {
            globals.retry_count = 0;
        }
        check_globals(&self.globals, &globals)?;
        let old = std::mem::replace(&mut self.globals, globals);
        self.own_changed();
        if old.discovery != self.globals.discovery {
            self.discovery_switched();
        }
        self.settle(now);
        Ok(())
    }

    /// Does what is left to do. Every input ends with this.
    fn settle(&mut self, now: Time) {
        loop {
            while let Some(work) = self.work.pop_front() {
                match work {
                    Work::Post(message) => self.post_send(now, message),
                    Work::Transit(message) => self.pass(now, message),
                    Work::Requests(peer_ni) => self.resume_requests(now, peer_ni),
                    Work::Launch(message) => self.launch(now, message),
                    Work::Pushes(peer) => self.acknowledge_pushes(now, peer),
                    Work::Own(event) => self.handle_own_event(now, event),
                    Work::Advance(peer) => self.advance(now, peer),
                    Work::Gateways => self.settle_gateways(now),
                }
            }
            self.follow_peers(now);
            if !self.work.is_empty() {
                continue;
            }
            match self.peers.next_to_discover() {
                Some(peer) => self.advance(now, peer),
                None => return,
            }
        }
    }

    fn handle_own_event(&mut self, now: Time, event: OwnEvent) {
        match event.owner {
            Owner::Query(query) => self.query_event(query, event),
            Owner::Ping(peer) => self.discovery_ping_event(now, peer, event),
            Owner::Push(peer, sequence) => self.push_event(now, peer, sequence, event),
            Owner::Probe(_) => self.probe_event(&event),
            Owner::Verification(id) => self.verification_event(now, id, event),
            Owner::Service(_) => unreachable!("events of services are outputs"),
        }
    }

    /// Passes an event to the owner of its descriptor.
    fn deliver(&mut self, ended: Completion, bytes: Vec<u8>) {
        let Completion { owner, event } = ended;
        if let Owner::Service(service) = owner {
            return self.outputs.push_back(Output::Event { service, event, bytes });
        }
        let pair = (event.target.nid, event.source.nid);
        let Event { md, kind, status, .. } = event;
        self.work.push_back(Work::Own(OwnEvent { owner, md, kind, status, pair, bytes }));
    }

    fn notice(&mut self, notice: Notice) {
        self.outputs.push_back(Output::Notice(notice));
    }
}

fn check_globals(old: &Globals, new: &Globals) -> Result<(), Errno> {
    let in_range = new.max_interfaces >= INTERFACES_MIN
        && new.health_sensitivity <= HEALTH_MAX
        && new.router_sensitivity <= 100
        && new.recovery_interval >= 1
        && new.response_tracking <= 3
        && new.max_recovery_ping_interval > 0;
    // A retry count may be raised to the timeout; a timeout may not be lowered to the count.
    let timeout_fits = if new.transaction_timeout == old.transaction_timeout {
        new.retry_count <= new.transaction_timeout
    } else {
        new.retry_count < new.transaction_timeout
    };
    let retries_fit = new.retry_count == 0 || new.health_sensitivity > 0;
    if in_range && new.transaction_timeout > 0 && timeout_fits && retries_fit {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// The least value of `max_interfaces`.
const INTERFACES_MIN: u32 = 16;

//! A network: several machines, and scripted nodes, in virtual time and real memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fulmar_base::{BufferId, Errno, Span, Time};
use fulmar_lnet_wire::selftest::{
    BULK_PORTAL, Body, Check, Damage, LnetCounters, Message, Service, Usage, fill, fill_poison,
    verify,
};
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_wire::Order;

use crate::console::{Answer, KeyedCommand};
use crate::{
    Access, CommandId, Config, Contents, Notice, OperationId, OperationResult, Output, Request,
    Selftest, Task,
};

/// Transit time of a message.
pub(crate) const LATENCY: Duration = Duration::from_micros(100);
/// Timeout of a GET.
const GET_TIMEOUT: Duration = Duration::from_secs(50);
/// How long the discovery of a mute node takes to fail.
pub(crate) const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(150);

/// Returns whether a packet gets lost.
pub(crate) type Loss = Box<dyn FnMut(&Packet) -> bool>;

/// The network with all nodes.
#[derive(Default)]
pub(crate) struct Wire {
    pub(crate) now: Time,
    machines: BTreeMap<Nid, Machine>,
    raws: BTreeMap<Nid, Raw>,
    events: BTreeMap<(Time, u64), Event>,
    next_event: u64,
    /// Time until a withdrawn operation is done.
    pub(crate) let_go: Duration,
    /// Nodes that do not answer discovery: nothing is sent to them.
    pub(crate) mute: BTreeSet<Nid>,
    /// Decides which packets are lost.
    pub(crate) lose: Option<Loss>,
}

/// A node with a machine.
struct Machine {
    selftest: Selftest,
    is_dead: bool,
    buffers: BTreeMap<BufferId, Vec<u8>>,
    /// The LNet operations of the machine, with their buffers.
    operations: BTreeMap<OperationId, Option<BufferId>>,
    /// Those that wait for a reply.
    gets: BTreeSet<OperationId>,
    buffers_max: usize,
    offers: BTreeMap<u64, Offer>,
    notices: Vec<Notice>,
    answers: BTreeMap<CommandId, Answer>,
    usage: Usage,
}

/// A scripted node.
#[derive(Default)]
pub(crate) struct Raw {
    /// Messages sent to it: with portal and match bits.
    pub(crate) inbox: VecDeque<(u32, u64, Vec<u8>)>,
    /// Data that it offers to be fetched, by match bits.
    pub(crate) offers: BTreeMap<u64, Vec<u8>>,
}

struct Offer {
    id: OperationId,
    from: ProcessId,
    what: OfferKind,
}

enum OfferKind {
    Message,
    Memory(Access, Span),
    Bytes(Vec<u8>),
}

/// A message of LNet.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) source: Nid,
    pub(crate) target: Nid,
    pub(crate) what: Parcel,
}

#[derive(Clone, Debug)]
pub(crate) enum Parcel {
    Put { portal: u32, match_bits: u64, bytes: Vec<u8> },
    Get { match_bits: u64, len: u32, id: OperationId },
    Reply { id: OperationId, bytes: Vec<u8> },
}

#[derive(Debug)]
enum Event {
    Packet(Packet),
    Done(Nid, OperationId, Result<OperationResult, Errno>),
}

impl Wire {
    /// Adds a node with a machine.
    pub(crate) fn add(&mut self, nid: Nid, config: Config) {
        let machine = Machine {
            selftest: Selftest::new(config),
            is_dead: false,
            buffers: BTreeMap::new(),
            operations: BTreeMap::new(),
            gets: BTreeSet::new(),
            buffers_max: 0,
            offers: BTreeMap::new(),
            notices: Vec::new(),
            answers: BTreeMap::new(),
            usage: Usage { cpu_ns: 7, retransmits: 8, window: 9 },
        };
        self.machines.insert(nid, machine);
    }

    /// Returns a scripted node, and adds it if there is none.
    pub(crate) fn raw(&mut self, nid: Nid) -> &mut Raw {
        self.raws.entry(nid).or_default()
    }

    pub(crate) fn machine(&self, nid: Nid) -> &Selftest {
        &self.machines[&nid].selftest
    }

    /// Returns the number of buffers of a node.
    pub(crate) fn buffers(&self, nid: Nid) -> usize {
        self.machines[&nid].buffers.len()
    }

    /// Returns the largest number of buffers that a node had at a time.
    pub(crate) fn buffers_max(&self, nid: Nid) -> usize {
        self.machines[&nid].buffers_max
    }

    /// Returns the number of LNet operations of a node.
    pub(crate) fn operations(&self, nid: Nid) -> usize {
        self.machines[&nid].operations.len()
    }

    /// Returns the notices of a node since the last call.
    pub(crate) fn notices(&mut self, nid: Nid) -> Vec<Notice> {
        std::mem::take(&mut self.machines.get_mut(&nid).unwrap().notices)
    }

    /// Makes a node silent forever.
    pub(crate) fn kill(&mut self, nid: Nid) {
        self.machines.get_mut(&nid).unwrap().is_dead = true;
    }

    /// Sends a command to the console of a node.
    pub(crate) fn command(&mut self, nid: Nid, command: KeyedCommand) -> CommandId {
        let machine = self.machines.get_mut(&nid).unwrap();
        let id = machine.selftest.command(self.now, Some(nid), command);
        self.drain(nid);
        id
    }

    /// Returns the answer to a command, once available.
    pub(crate) fn answer(&mut self, nid: Nid, command: CommandId) -> Option<Answer> {
        self.machines.get_mut(&nid).unwrap().answers.remove(&command)
    }

    /// Delivers bytes to a service of a node, at once.
    pub(crate) fn request(&mut self, source: Nid, target: Nid, service: u64, bytes: &[u8]) {
        let machine = self.machines.get_mut(&target).unwrap();
        let from = ProcessId::lustre(source);
        let request = Request { service, from, to: target, bytes };
        machine.selftest.handle_request(self.now, request);
        self.drain(target);
    }

    /// Sends a request from a scripted node, and returns the reply, if one arrives soon.
    pub(crate) fn ask(
        &mut self,
        source: Nid,
        target: Nid,
        service: Service,
        message: &Message,
    ) -> Option<Message> {
        self.request(source, target, service.0, &message.to_bytes());
        self.run_for(10 * LATENCY);
        self.reply(source)
    }

    /// Sends bytes from a scripted node.
    pub(crate) fn put_raw(
        &mut self,
        source: Nid,
        target: Nid,
        (portal, match_bits): (u32, u64),
        bytes: &[u8],
    ) {
        self.send(source, target, Parcel::Put { portal, match_bits, bytes: bytes.to_vec() });
    }

    /// Removes the oldest message that was sent to a scripted node.
    pub(crate) fn reply(&mut self, nid: Nid) -> Option<Message> {
        let (_, _, bytes) = self.raw(nid).inbox.pop_front()?;
        Some(Message::decode(&bytes).unwrap().0)
    }

    /// Advances time.
    pub(crate) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let alive = self.machines.values().filter(|machine| !machine.is_dead);
            let timer = alive.filter_map(|machine| machine.selftest.poll_timeout()).min();
            let Some(next) = event.into_iter().chain(timer).min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next);
            if event == Some(next) {
                let (_, event) = self.events.pop_first().unwrap();
                self.happen(event);
            } else {
                self.time_passes()
            }
        }
        self.now = end;
    }

    fn time_passes(&mut self) {
        let now = self.now;
        let nids: Vec<_> = self.machines.keys().copied().collect();
        for nid in nids {
            let machine = self.machines.get_mut(&nid).unwrap();
            if machine.selftest.poll_timeout().is_some_and(|at| at <= now) && !machine.is_dead {
                machine.selftest.handle_timeout(now);
                let next = machine.selftest.poll_timeout();
                assert!(
                    next.is_none_or(|at| at > now),
                    "a timeout at {now} leaves one at {next:?}"
                );
                self.drain(nid);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Done(nid, id, result) => self.done(nid, id, result),
            Event::Packet(packet) => {
                if self.raws.contains_key(&packet.target) {
                    self.arrive_raw(packet);
                } else if self.machines.get(&packet.target).is_some_and(|found| !found.is_dead) {
                    self.arrive(packet);
                }
            }
        }
    }

    /// Reports the end of an operation to a machine, unless already reported.
    fn done(&mut self, nid: Nid, id: OperationId, result: Result<OperationResult, Errno>) {
        let Some(machine) = self.machines.get_mut(&nid).filter(|machine| !machine.is_dead) else {
            return;
        };
        machine.gets.remove(&id);
        if machine.operations.remove(&id).is_some() {
            machine.selftest.handle_done(self.now, id, result);
            self.drain(nid);
        }
    }

    fn arrive(&mut self, packet: Packet) {
        let Packet { source, target, what } = packet;
        let (from, to) = (ProcessId::lustre(source), target);
        let machine = self.machines.get_mut(&target).unwrap();
        match what {
            Parcel::Put { portal, match_bits, bytes } if portal != BULK_PORTAL => {
                let service = match_bits;
                let request = Request { service, from, to, bytes: &bytes };
                machine.selftest.handle_request(self.now, request);
                self.drain(target);
            }
            Parcel::Put { match_bits, bytes, .. } => {
                let Some(offer) = machine.take_offer(match_bits, from, Access::Put) else { return };
                let len = bytes.len() as u32;
                let bytes = match offer.what {
                    OfferKind::Memory(_, span) => {
                        machine.bytes(span)[..bytes.len()].copy_from_slice(&bytes);
                        Vec::new()
                    }
                    _ => bytes,
                };
                self.done(target, offer.id, Ok(OperationResult { len, bytes }));
            }
            Parcel::Get { match_bits, len, id } => {
                let Some(offer) = machine.take_offer(match_bits, from, Access::Get) else { return };
                let mut bytes = match offer.what {
                    OfferKind::Memory(_, span) => machine.bytes(span).to_vec(),
                    OfferKind::Bytes(bytes) => bytes,
                    OfferKind::Message => unreachable!("an offer for a message cannot be read"),
                };
                bytes.truncate(len as usize);
                let done = OperationResult { len: bytes.len() as u32, bytes: Vec::new() };
                self.send(target, source, Parcel::Reply { id, bytes });
                self.done(target, offer.id, Ok(done));
            }
            Parcel::Reply { id, bytes } => self.fetched(target, id, bytes),
        }
    }

    fn arrive_raw(&mut self, packet: Packet) {
        let raw = self.raw(packet.target);
        match packet.what {
            Parcel::Put { portal, match_bits, bytes } => {
                raw.inbox.push_back((portal, match_bits, bytes));
            }
            Parcel::Get { match_bits, len, id } => {
                if let Some(mut bytes) = raw.offers.remove(&match_bits) {
                    bytes.truncate(len as usize);
                    self.send(packet.target, packet.source, Parcel::Reply { id, bytes });
                }
            }
            Parcel::Reply { .. } => unreachable!("a reply fetches nothing"),
        }
    }

    fn fetched(&mut self, nid: Nid, id: OperationId, bytes: Vec<u8>) {
        let machine = self.machines.get_mut(&nid).unwrap();
        let len = bytes.len() as u32;
        let bytes = match machine.operations.get(&id) {
            Some(Some(buffer)) => {
                let span = Span { buffer: *buffer, offset: 0, len };
                machine.bytes(span).copy_from_slice(&bytes);
                Vec::new()
            }
            _ => bytes,
        };
        self.done(nid, id, Ok(OperationResult { len, bytes }));
    }

    /// Executes an output of a machine.
    fn drain(&mut self, nid: Nid) {
        while let Some(output) = self.machines.get_mut(&nid).unwrap().selftest.poll_output() {
            self.carry_out(nid, output);
        }
        let machine = &self.machines[&nid];
        machine.selftest.check_invariants().unwrap();
    }

    fn carry_out(&mut self, nid: Nid, output: Output) {
        let now = self.now;
        let machine = self.machines.get_mut(&nid).unwrap();
        match output {
            Output::OfferReply { id, from, match_bits } => {
                machine.offer(match_bits, Offer { id, from, what: OfferKind::Message });
            }
            Output::OfferBulk { id, from, match_bits, access, span } => {
                let what = OfferKind::Memory(access, span);
                machine.offer(match_bits, Offer { id, from, what });
            }
            Output::OfferBytes { id, from, match_bits, bytes } => {
                let what = OfferKind::Bytes(bytes.to_vec());
                machine.offer(match_bits, Offer { id, from, what });
            }
            Output::Withdraw { id } => {
                assert!(machine.operations.contains_key(&id), "{id:?} is done already");
                if let Some((&match_bits, _)) =
                    machine.offers.iter().find(|(_, offer)| offer.id == id)
                {
                    machine.offers.remove(&match_bits);
                    self.schedule(self.let_go, Event::Done(nid, id, Err(Errno::ECANCELED)));
                } else if machine.gets.contains(&id) {
                    self.schedule(self.let_go, Event::Done(nid, id, Err(Errno::ECANCELED)));
                }
            }
            Output::Send { id, source, target, portal, match_bits, bytes } => {
                assert!(source.is_none_or(|source| source == nid || source.is_loopback()));
                machine.begin(id, None);
                let bytes = bytes.to_vec();
                self.put(nid, id, target, Parcel::Put { portal, match_bits, bytes });
            }
            Output::PutBulk { id, target, match_bits, span, .. } => {
                machine.begin(id, Some(span.buffer));
                let bytes = machine.bytes(span).to_vec();
                let portal = BULK_PORTAL;
                self.put(nid, id, target, Parcel::Put { portal, match_bits, bytes });
            }
            Output::GetBulk { id, target, match_bits, span, .. } => {
                assert_eq!(span.offset, 0);
                machine.begin(id, Some(span.buffer));
                self.get(nid, id, target, match_bits, span.len);
            }
            Output::GetBytes { id, target, match_bits, len, .. } => {
                machine.begin(id, None);
                self.get(nid, id, target, match_bits, len);
            }
            Output::Count { id } => {
                let counters = LnetCounters { send_count: 5, ..LnetCounters::default() };
                machine.selftest.handle_counted(now, id, counters);
            }
            Output::Task(task) => machine.perform(now, task),
            Output::Answer { command, answer } => {
                assert!(machine.answers.insert(command, answer).is_none(), "one answer to each");
            }
            Output::Notice(notice) => machine.notices.push(notice),
        }
    }

    fn put(&mut self, nid: Nid, id: OperationId, target: ProcessId, parcel: Parcel) {
        if self.mute.contains(&target.nid) {
            let failed = Event::Done(nid, id, Err(Errno::EHOSTUNREACH));
            return self.schedule(DISCOVERY_TIMEOUT, failed);
        }
        let result = self.reach(target.nid).map(|()| OperationResult::default());
        self.send(nid, target.nid, parcel);
        self.schedule(LATENCY / 2, Event::Done(nid, id, result));
    }

    fn get(&mut self, nid: Nid, id: OperationId, target: ProcessId, match_bits: u64, len: u32) {
        if self.mute.contains(&target.nid) {
            let failed = Event::Done(nid, id, Err(Errno::EHOSTUNREACH));
            return self.schedule(DISCOVERY_TIMEOUT, failed);
        }
        self.machines.get_mut(&nid).unwrap().gets.insert(id);
        self.send(nid, target.nid, Parcel::Get { match_bits, len, id });
        self.schedule(GET_TIMEOUT, Event::Done(nid, id, Err(Errno::ETIMEDOUT)));
    }

    fn reach(&self, nid: Nid) -> Result<(), Errno> {
        let is_known = self.machines.contains_key(&nid) || self.raws.contains_key(&nid);
        if is_known || nid.is_loopback() { Ok(()) } else { Err(Errno::EHOSTUNREACH) }
    }

    fn send(&mut self, source: Nid, target: Nid, what: Parcel) {
        let target = if target.is_loopback() { source } else { target };
        let packet = Packet { source, target, what };
        if !self.lose.as_mut().is_some_and(|lose| lose(&packet)) {
            self.schedule(LATENCY, Event::Packet(packet));
        }
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.events.insert((self.now + after, self.next_event), event);
        self.next_event += 1;
    }
}

impl Machine {
    fn begin(&mut self, id: OperationId, buffer: Option<BufferId>) {
        assert!(buffer.is_none_or(|buffer| self.buffers.contains_key(&buffer)));
        assert!(self.operations.insert(id, buffer).is_none(), "{id:?} is used twice");
    }

    fn offer(&mut self, match_bits: u64, offer: Offer) {
        let buffer = match &offer.what {
            OfferKind::Memory(_, span) => Some(span.buffer),
            _ => None,
        };
        self.begin(offer.id, buffer);
        let old = self.offers.insert(match_bits, offer);
        assert!(old.is_none(), "{match_bits:#x} is offered twice");
    }

    /// Removes and returns the offer that a message matches.
    fn take_offer(&mut self, match_bits: u64, from: ProcessId, access: Access) -> Option<Offer> {
        let offer = self.offers.get(&match_bits)?;
        let allows = match offer.what {
            OfferKind::Message => Access::Put,
            OfferKind::Memory(access, _) => access,
            OfferKind::Bytes(_) => Access::Get,
        };
        let matches = offer.from == from || offer.from.nid.is_loopback();
        (matches && allows == access).then(|| self.offers.remove(&match_bits))?
    }

    fn bytes(&mut self, span: Span) -> &mut [u8] {
        let buffer = self.buffers.get_mut(&span.buffer).expect("only allocated buffers are used");
        &mut buffer[span.offset as usize..][..span.len as usize]
    }
    /// Executes a task that does not involve the network.
    fn perform(&mut self, now: Time, task: Task) {
        match task {
            Task::Allocate { buffer, len, contents } => self.allocate(buffer, len, contents),
            Task::Release { buffer } => {
                let used = self.operations.values().any(|used| *used == Some(buffer));
                assert!(!used, "{buffer:?} is released while LNet uses it");
                self.buffers.remove(&buffer).expect("only allocated buffers are released");
            }
            Task::Damage { span, add } => {
                let word: &mut [u8; 8] = self.bytes(span).try_into().unwrap();
                *word = u64::from_le_bytes(*word).wrapping_add(add).to_le_bytes();
            }
            Task::Check { id, span, check, order } => {
                let result = check_words(self.bytes(span), check, order);
                fill_poison(self.bytes(span));
                self.selftest.handle_checked(now, id, result);
            }
            Task::Measure { id } => self.selftest.handle_measured(now, id, self.usage),
        }
    }

    fn allocate(&mut self, buffer: BufferId, len: u32, contents: Contents) {
        let mut bytes = vec![0; len as usize];
        match contents {
            Contents::Zeros => {}
            Contents::Good => fill(&mut bytes),
        }
        assert!(self.buffers.insert(buffer, bytes).is_none(), "{buffer:?} is used twice");
        self.buffers_max = self.buffers_max.max(self.buffers.len());
    }
}

fn check_words(bytes: &[u8], check: Check, order: Order) -> Result<(), Damage> {
    const PAGE: usize = 4096;
    let mut pages = bytes.chunks(PAGE).enumerate();
    pages.try_for_each(|(page, bytes)| verify(bytes, page * PAGE, check, order))
}

/// Decodes a packet, if it is a message of the selftest.
pub(crate) fn body(packet: &Packet) -> Option<Body> {
    match &packet.what {
        Parcel::Put { bytes, .. } => Message::decode(bytes).ok().map(|(message, _)| message.body),
        _ => None,
    }
}

//! The hosts, the network between them, and the loop that lets time pass.
//!
//! ```text
//! step() -> the next thing that happens -> poll_signal() until there is none
//! ```
//!
//! Things that happen at once (a socket that has room, bytes that can be read) wait in `todo` and
//! come before the next event, in order; a host that stands still does them when it wakes.

mod canary;
mod driver;
mod fault;
mod forge;
mod host;
mod memory;
mod network;
mod rail;
mod reading;
mod router;
mod transfer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fulmar_base::{Errno, Rng, Time};
use fulmar_lnd::{Closed, DialError};
use fulmar_lnet::{CopyId, EventDone, RouteConfig};
use fulmar_lnet_wire::{Net, Nid};
use fulmar_node::{Admin, Node, ServiceHandle};
use fulmar_selftest::console::Keyed;
use fulmar_selftest::{CommandId, Selftest, SelftestService};

pub use forge::Lie;
pub use host::{HostId, Port};

use crate::capture::Capture;
use crate::clock::Clock;
use crate::fabric::{Fabric, TrunkUse};
use crate::log::Log;
use crate::options::Options;
use crate::queue::Queue;
use crate::signal::Signal;
use crate::tcp::{Connection, Side};
use canary::Planted;
use host::{Host, Link};
use memory::Memory;
use transfer::{BurstId, Bursts};

/// A TCP connection of the simulated network; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TcpId(pub(crate) usize);

impl std::fmt::Display for TcpId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("t{}", self.0))
    }
}

/// A cluster in virtual time.
#[derive(Debug)]
pub struct World {
    options: Options,
    now: Time,
    queue: Queue<Happening>,
    todo: VecDeque<Todo>,
    hosts: Vec<Host>,
    /// What each node is told of the networks that it is not on.
    routes: BTreeMap<HostId, Vec<RouteConfig>>,
    fabric: Fabric,
    bursts: Bursts,
    /// Those that are over leave a hole, so that a number is never used twice.
    connections: Vec<Option<Box<Connection>>>,
    /// Pairs of hosts that cannot reach each other, the lower number first.
    partitions: BTreeSet<(HostId, HostId)>,
    rng: Rng,
    log: Log,
    signals: VecDeque<Signal>,
    /// Hosts whose nodes were called since the last [`World::take_touched`].
    touched: BTreeSet<HostId>,
    canary: Option<Planted>,
    capture: Option<Capture>,
    memory: Memory,
}

/// What happens at some time.
#[derive(Debug)]
enum Happening {
    /// A host's node asked for this time.
    Timer { host: HostId, at: Time },
    /// A call reaches its host.
    Syn { tcp: TcpId },
    /// The dialler learns what became of its call.
    Answer { tcp: TcpId, result: Result<(), DialError> },
    /// The head of a burst reaches its next lane.
    Hop(BurstId),
    /// The tail of a burst reaches its reader.
    Arrival(BurstId),
    /// The acknowledgement of a burst reaches its writer.
    Ack(BurstId),
    /// The news that there is room reaches a writer.
    Window { tcp: TcpId, writer: Side, upto: u64, edge: u64 },
    /// A reset reaches one end of a connection.
    Reset { tcp: TcpId, reader: Side },
    /// An interface has sent what it was given.
    Free(Port),
    /// The pace of a stream lets something go.
    Pace { tcp: TcpId, writer: Side },
    /// A stream has waited for news until this time.
    Silence { tcp: TcpId, writer: Side, at: Time },
    /// The host has something to do that waited.
    Todo(Todo),
}

/// What a host does as soon as it can.
#[derive(Debug)]
enum Todo {
    /// Take a call.
    Accept { tcp: TcpId },
    /// Tell the node what became of its own call.
    Dialled { tcp: TcpId, result: Result<(), DialError> },
    /// Read what has arrived. A slow reader rests first.
    Read { tcp: TcpId, side: Side, rested: bool },
    /// Acknowledge a burst. A kernel does this even where its host's node stands still.
    Acknowledge(BurstId),
    /// Tell the node that TCP hears nothing.
    Stalled { tcp: TcpId, side: Side },
    /// Tell the node what the socket took, and whether a message ended there.
    Sent { tcp: TcpId, side: Side, len: u64, messages: u32 },
    /// Tell the node that a connection has ended.
    Closed { tcp: TcpId, side: Side, how: Closed },
    /// The handler of an event returns.
    Handled { host: HostId, life: u32, done: EventDone },
    /// A copy is done.
    Copied { host: HostId, life: u32, copy: CopyId },
}

impl World {
    /// Returns a world of nodes that have started and know nothing of each other.
    pub fn new(options: &Options, log: Log) -> Self {
        let mut rng = Rng::new(options.seed ^ NETWORK_STREAM);
        let ports = |host| options.ports(HostId(host)).len();
        let clocks = options.faults.clocks > 0;
        let mut clock = || {
            let offset = if clocks { rng.below(CLOCKS_APART) } else { 0 };
            Clock::ahead(Duration::from_nanos(offset))
        };
        let hosts = (0..options.nodes).map(|n| Host::new(ports(n), clock())).collect();
        let fabric = Fabric::new(options, &mut rng);
        let mut world = Self {
            options: options.clone(),
            now: Time::ZERO,
            queue: Queue::default(),
            todo: VecDeque::new(),
            hosts,
            routes: options.routes(),
            fabric,
            bursts: Bursts::default(),
            connections: Vec::new(),
            partitions: BTreeSet::new(),
            canary: options.canary.map(|kind| Planted::new(kind, &mut rng)),
            capture: None,
            rng,
            log,
            signals: VecDeque::new(),
            touched: BTreeSet::new(),
            memory: Memory::default(),
        };
        for host in world.host_ids() {
            world.start(host);
        }
        world
    }

    /// Returns the time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns every host.
    pub fn host_ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts.len() as u32).map(HostId)
    }

    /// Returns the NID of a host's first interface, by which others know the node.
    pub fn nid(&self, host: HostId) -> Nid {
        self.nid_of(Port { host, index: 0 })
    }

    /// Returns the NIDs of all interfaces that a host should have.
    pub fn nids(&self, host: HostId) -> Vec<Nid> {
        self.options.ports(host).into_iter().map(|port| self.nid_of(port)).collect()
    }

    /// Returns the NID of an interface.
    pub fn nid_of(&self, port: Port) -> Nid {
        self.options.nid(port)
    }

    /// Returns the interface that has a NID.
    pub(crate) fn port_of(&self, nid: Nid) -> Option<Port> {
        Port::of_ip(nid.ip()?).filter(|port| self.has(*port) && self.nid_of(*port) == nid)
    }

    /// Returns the host of a NID.
    pub(crate) fn host_of(&self, nid: Nid) -> Option<HostId> {
        self.port_of(nid).map(|port| port.host)
    }

    /// Returns the NIDs at which a node can address another: those on the nearest networks. A
    /// router takes no message for its far side from its near side.
    pub fn reachable(&self, from: HostId, to: HostId) -> Vec<Nid> {
        let mut nets: BTreeMap<Net, u32> =
            self.nids(from).iter().map(|nid| (nid.net(), 0)).collect();
        for route in self.routes.get(&from).into_iter().flatten() {
            nets.entry(route.net).or_insert(route.hops.unwrap_or(1));
        }
        let hops = |nid: &Nid| nets.get(&nid.net()).copied();
        let nids = self.nids(to);
        let nearest = nids.iter().filter_map(hops).min();
        nids.into_iter().filter(|nid| nearest.is_some() && hops(nid) == nearest).collect()
    }

    fn has(&self, port: Port) -> bool {
        let host = self.hosts.get(port.host.0 as usize);
        host.is_some_and(|host| usize::from(port.index) < host.links.len())
    }

    /// Returns the node of a host, unless it is down.
    pub fn node(&self, host: HostId) -> Option<&Node> {
        self.host(host).node.as_ref()
    }

    /// Returns which life of its node a host is in.
    pub fn life(&self, host: HostId) -> u32 {
        self.host(host).life
    }

    /// Returns whether the host stands still.
    pub(crate) fn is_paused(&self, host: HostId) -> bool {
        self.host(host).paused_until > self.now
    }

    /// Returns the log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Has an administrator do something with a node, unless it is down.
    pub fn admin<R>(&mut self, host: HostId, call: impl FnOnce(&mut Admin<'_>) -> R) -> Option<R> {
        let now = self.shown(host);
        let result = call(&mut self.host_mut(host).node.as_mut()?.admin(now));
        self.drain(host);
        Some(result)
    }

    /// Has the application of a node do something, unless the node is down.
    pub fn application<R>(
        &mut self,
        host: HostId,
        call: impl FnOnce(&mut ServiceHandle<'_>) -> R,
    ) -> Option<R> {
        let now = self.shown(host);
        let node = self.host_mut(host).node.as_mut()?;
        let result = call(&mut node.service(now, host::APPLICATION));
        self.drain(host);
        Some(result)
    }

    /// Returns the selftest of a node, unless it has none or is down.
    pub fn selftest(&self, host: HostId) -> Option<&Selftest> {
        self.host(host).selftest.as_ref().map(SelftestService::machine)
    }

    /// Gives a command to the console of a node, unless it is down.
    ///
    /// # Errors
    /// EOPNOTSUPP if it has none.
    pub fn command(&mut self, host: HostId, command: Keyed) -> Option<Result<CommandId, Errno>> {
        let (time, now) = (self.now, self.shown(host));
        let text = format!("{:?}", command.command);
        let this = self.host_mut(host);
        let own = this.node.as_ref()?.lnet().first_small_nid();
        let selftest = this.selftest.as_mut().ok_or(Errno::EOPNOTSUPP);
        let id = selftest.map(|selftest| selftest.command(now, own, command));
        let subject = id.map_or("-".to_owned(), |id| format!("c{}", id.0));
        self.log.line(time, host, subject, format_args!("{text}"));
        self.drain(host);
        Some(id)
    }

    /// Records from now on what new connections carry.
    pub fn record(&mut self) {
        self.capture = Some(Capture::default());
    }

    /// Returns what was recorded, as a pcapng file, and records no more.
    pub fn recorded(&mut self) -> Vec<u8> {
        self.capture.take().unwrap_or_default().finish()
    }

    /// Adds a line to the log.
    pub fn note(&mut self, host: HostId, subject: &str, what: std::fmt::Arguments<'_>) {
        self.log.line(self.now, host, subject, what);
    }

    /// Returns the next thing to know, if any.
    pub fn poll_signal(&mut self) -> Option<Signal> {
        self.signals.pop_front()
    }

    /// Returns the hosts whose nodes have been called since the last time.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<HostId> {
        std::mem::take(&mut self.touched)
    }

    /// Returns when the next thing happens, if ever.
    pub fn next(&self) -> Option<Time> {
        if self.todo.is_empty() { self.queue.next() } else { Some(self.now) }
    }

    /// Returns whether all that can happen at this moment has happened.
    pub(crate) fn is_settled(&self) -> bool {
        self.next().is_none_or(|next| next > self.now)
    }

    /// Lets time pass until `at`, before which nothing happens.
    ///
    /// # Panics
    /// If something does, or if time would run backwards.
    pub fn advance_to(&mut self, at: Time) {
        assert!(at >= self.now, "time runs backwards from {} to {at}", self.now);
        assert!(self.next().is_none_or(|next| next >= at), "something happens before {at}");
        self.now = at;
    }

    /// Does the next thing that happens. Returns false if nothing ever does.
    pub fn step(&mut self) -> bool {
        if let Some(todo) = self.todo.pop_front() {
            self.perform(todo);
            return true;
        }
        let Some((at, happening)) = self.queue.pop() else { return false };
        self.now = at;
        match happening {
            Happening::Timer { host, at } => self.timer(host, at),
            Happening::Syn { tcp } => self.syn(tcp),
            Happening::Answer { tcp, result } => self.answer(tcp, result),
            Happening::Hop(burst) => self.hop(burst),
            Happening::Arrival(burst) => self.arrival(burst),
            Happening::Ack(burst) => self.ack(burst),
            Happening::Window { tcp, writer, upto, edge } => self.window(tcp, writer, upto, edge),
            Happening::Reset { tcp, reader } => self.reset_arrives(tcp, reader),
            Happening::Free(port) => self.free(port),
            Happening::Pace { tcp, writer } => self.pace(tcp, writer),
            Happening::Silence { tcp, writer, at } => self.silence(tcp, writer, at),
            Happening::Todo(todo) => self.todo.push_back(todo),
        }
        true
    }

    /// Does what a host had to do, or puts it off while the host stands still.
    fn perform(&mut self, todo: Todo) {
        if let Todo::Acknowledge(burst) = todo {
            return self.acknowledge(burst);
        }
        let Some(host) = self.host_doing(&todo) else { return };
        let until = self.host(host).paused_until;
        if until > self.now {
            return self.queue.push(until, Happening::Todo(todo));
        }
        match todo {
            Todo::Acknowledge(_) => {}
            Todo::Accept { tcp } => self.accept(tcp),
            Todo::Dialled { tcp, result } => self.dialled(tcp, result),
            Todo::Read { tcp, side, rested } => self.read(tcp, side, rested),
            Todo::Sent { tcp, side, len, messages } => self.sent(tcp, side, len, messages),
            Todo::Stalled { tcp, side } => self.stalled(tcp, side),
            Todo::Closed { tcp, side, how } => self.closed(tcp, side, how),
            Todo::Handled { host, life, done } => self.handled(host, life, done),
            Todo::Copied { host, life, copy } => self.copied(host, life, copy),
        }
    }

    fn host_doing(&self, todo: &Todo) -> Option<HostId> {
        let (tcp, side) = match *todo {
            Todo::Accept { tcp } => (tcp, Side::Acceptor),
            Todo::Dialled { tcp, .. } => (tcp, Side::Dialler),
            Todo::Read { tcp, side, .. }
            | Todo::Sent { tcp, side, .. }
            | Todo::Stalled { tcp, side }
            | Todo::Closed { tcp, side, .. } => (tcp, side),
            Todo::Acknowledge(_) => return None,
            Todo::Handled { host, .. } | Todo::Copied { host, .. } => return Some(host),
        };
        Some(self.connections[tcp.0].as_ref()?.end(side).host)
    }

    /// Returns what each direction of each trunk has carried.
    pub fn trunks(&self) -> Vec<TrunkUse> {
        self.fabric.trunks()
    }

    fn host(&self, host: HostId) -> &Host {
        &self.hosts[host.0 as usize]
    }

    fn link(&self, port: Port) -> &Link {
        &self.host(port.host).links[usize::from(port.index)]
    }

    fn link_mut(&mut self, port: Port) -> &mut Link {
        &mut self.host_mut(port.host).links[usize::from(port.index)]
    }

    fn host_mut(&mut self, host: HostId) -> &mut Host {
        &mut self.hosts[host.0 as usize]
    }
}

/// Clocks that are not right are up to an hour apart.
const CLOCKS_APART: u64 = 3_600_000_000_000;
/// Keeps what the network draws apart from what the options drew.
const NETWORK_STREAM: u64 = 0x6e65_7477_6f72_6b00;

//! The hosts, the network between them, and the event loop.
//!
//! ```text
//! step() -> the next event -> poll_signal() until there is none
//! ```
//!
//! Immediate tasks (a socket has room, bytes can be read) wait in `tasks` and run in order before
//! the next event; a paused host runs them when its pause ends.

mod defect;
mod driver;
mod fault;
mod flows;
mod forgery;
mod host;
mod hostile;
mod memory;
mod network;
mod rail;
mod reading;
mod router;
mod transfer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fulmar_base::{Errno, Rng, Time};
use fulmar_lnd::{CloseCause, DialError};
use fulmar_lnet::{CopyId, EventDone, RouteConfig};
use fulmar_lnet_wire::{Header, Net, Nid};
use fulmar_node::{Admin, Node, ServiceHandle};
use fulmar_selftest::console::KeyedCommand;
use fulmar_selftest::{CommandId, Selftest, SelftestService};

pub use flows::{CableUse, Flow};
pub use forgery::PingCorruption;
pub use host::{HostId, Port};

use crate::capture::Capture;
use crate::clock::Clock;
use crate::fabric::{Fabric, TrunkUse};
use crate::log::Log;
use crate::options::Options;
use crate::queue::Queue;
use crate::signal::Signal;
use crate::tcp::{Connection, Side};
use crate::words;
use defect::ArmedDefect;
use host::{Host, Link};
use memory::Memory;
pub(crate) use transfer::BurstId;
use transfer::Bursts;

/// A TCP connection of the simulated network; never reused.
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
    queue: Queue<ScheduledEvent>,
    tasks: VecDeque<HostTask>,
    hosts: Vec<Host>,
    /// The routes of each node.
    routes: BTreeMap<HostId, Vec<RouteConfig>>,
    fabric: Fabric,
    bursts: Bursts,
    /// A connection that is over becomes `None`, so that its number is not reused.
    connections: Vec<Option<Box<Connection>>>,
    /// Pairs of hosts that cannot reach each other, the lower number first.
    partitions: BTreeSet<(HostId, HostId)>,
    rng: Rng,
    log: Log,
    signals: VecDeque<Signal>,
    /// Hosts whose nodes were called since the last [`World::take_touched`].
    touched: BTreeSet<HostId>,
    defect: Option<ArmedDefect>,
    capture: Option<Capture>,
    memory: Memory,
    /// The last headers that nodes sent to each other, for the hostile hosts.
    overheard: VecDeque<Header>,
}

/// An event at a time.
#[derive(Debug)]
enum ScheduledEvent {
    /// The timer of a host's node expires.
    Timer { host: HostId, at: Time },
    /// A connection request reaches its host.
    Syn { tcp: TcpId },
    /// The result of dialling reaches the dialler.
    Answer { tcp: TcpId, result: Result<(), DialError> },
    /// The head of a burst reaches its next lane.
    Hop(BurstId),
    /// The tail of a burst reaches its reader.
    Arrival(BurstId),
    /// The acknowledgement of a burst reaches its writer.
    Ack(BurstId),
    /// A window update reaches its writer.
    Window { tcp: TcpId, writer: Side, upto: u64, edge: u64 },
    /// A reset reaches one side of a connection.
    Reset { tcp: TcpId, reader: Side },
    /// An interface has sent all its data.
    Free(Port),
    /// Pacing allows a stream to send.
    Pace { tcp: TcpId, writer: Side },
    /// The retransmission timer of a stream expires.
    RetransmitTimer { tcp: TcpId, writer: Side, at: Time },
    /// The delay of acknowledgements of a stream is over.
    LateAck { tcp: TcpId, writer: Side },
    /// A hostile host acts.
    Hostile(HostId),
    /// A host runs a delayed task.
    Task(HostTask),
}

/// A task that a host runs as soon as it can.
#[derive(Debug)]
enum HostTask {
    /// Accept a connection.
    Accept { tcp: TcpId },
    /// Notify the node of the result of dialling.
    Dialled { tcp: TcpId, result: Result<(), DialError> },
    /// Read arrived data. A slow reader waits first.
    Read { tcp: TcpId, side: Side, rested: bool },
    /// Acknowledge a burst. A kernel does this even while its node is paused.
    Acknowledge(BurstId),
    /// Notify the node that TCP receives no acknowledgements.
    Stalled { tcp: TcpId, side: Side },
    /// Notify the node of the data that the socket took, and of the messages that ended there.
    Sent { tcp: TcpId, side: Side, len: u64, messages: u32 },
    /// Notify the node that a connection has ended.
    Closed { tcp: TcpId, side: Side, how: CloseCause },
    /// The handler of an event returns.
    Handled { host: HostId, incarnation: u32, done: EventDone },
    /// A copy is done.
    Copied { host: HostId, incarnation: u32, copy: CopyId },
}

impl World {
    /// Returns a world whose nodes have started and do not know each other.
    pub fn new(options: &Options, log: Log) -> Self {
        let mut rng = Rng::new(options.seed ^ NETWORK_STREAM);
        let ports = |host| options.ports(HostId(host)).len();
        let clocks = options.faults.clocks > 0;
        let mut clock = || {
            let offset = if clocks { rng.below(CLOCKS_APART) } else { 0 };
            Clock::ahead(Duration::from_nanos(offset))
        };
        let hosts = (0..options.hosts()).map(|n| Host::new(ports(n), clock())).collect();
        let fabric = Fabric::new(options, &mut rng);
        let mut world = Self {
            options: options.clone(),
            now: Time::ZERO,
            queue: Queue::default(),
            tasks: VecDeque::new(),
            hosts,
            routes: options.routes(),
            fabric,
            bursts: Bursts::default(),
            connections: Vec::new(),
            partitions: BTreeSet::new(),
            defect: options.defect.map(|kind| ArmedDefect::new(kind, &mut rng)),
            capture: None,
            rng,
            log,
            signals: VecDeque::new(),
            touched: BTreeSet::new(),
            memory: Memory::default(),
            overheard: VecDeque::new(),
        };
        for host in world.host_ids() {
            world.start(host);
        }
        world.start_hostile();
        world
    }

    /// Returns the time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns every host with a node.
    pub fn host_ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.options.nodes).map(HostId)
    }

    /// Returns the NID of a host's first interface, the primary NID of the node.
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
    pub fn host_of(&self, nid: Nid) -> Option<HostId> {
        self.port_of(nid).map(|port| port.host)
    }

    /// Returns the NIDs at which a node can reach another: those on the nearest networks. A router
    /// accepts no message for its own NID on another network.
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

    /// Returns the incarnation of a host's node.
    pub fn incarnation(&self, host: HostId) -> u32 {
        self.host(host).incarnation
    }

    /// Returns whether the host is paused.
    pub(crate) fn is_paused(&self, host: HostId) -> bool {
        self.host(host).paused_until > self.now
    }

    /// Returns the log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Calls the administration interface of a node, unless the node is down.
    pub fn admin<R>(&mut self, host: HostId, call: impl FnOnce(&mut Admin<'_>) -> R) -> Option<R> {
        let now = self.shown(host);
        let result = call(&mut self.host_mut(host).node.as_mut()?.admin(now));
        self.drain(host);
        Some(result)
    }

    /// Calls the application service of a node, unless the node is down.
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

    /// Sends a command to the console of a node, unless it is down.
    ///
    /// # Errors
    /// EOPNOTSUPP if it has none.
    pub fn command(
        &mut self,
        host: HostId,
        command: KeyedCommand,
    ) -> Option<Result<CommandId, Errno>> {
        let (time, now) = (self.now, self.shown(host));
        let text = words::command(&command.command);
        let this = self.host_mut(host);
        let own = this.node.as_ref()?.lnet().first_small_nid();
        let selftest = this.selftest.as_mut().ok_or(Errno::EOPNOTSUPP);
        let id = selftest.map(|selftest| selftest.command(now, own, command));
        let subject = id.map_or("-".to_owned(), |id| format!("c{}", id.0));
        self.log.line(time, host, subject, format_args!("{text}"));
        self.drain(host);
        Some(id)
    }

    /// Starts to record the traffic of new connections.
    pub fn record(&mut self) {
        self.capture = Some(Capture::default());
    }

    /// Stops recording, and returns the recorded pcapng file.
    pub fn recorded(&mut self) -> Vec<u8> {
        self.capture.take().unwrap_or_default().finish()
    }

    /// Adds a line to the log.
    pub fn note(&mut self, host: HostId, subject: &str, what: std::fmt::Arguments<'_>) {
        self.log.line(self.now, host, subject, what);
    }

    /// Returns the next signal, if any.
    pub fn poll_signal(&mut self) -> Option<Signal> {
        self.signals.pop_front()
    }

    /// Returns the hosts whose nodes were called since the last call of this function.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<HostId> {
        std::mem::take(&mut self.touched)
    }

    /// Returns the time of the next event, if any.
    pub fn next(&self) -> Option<Time> {
        if self.tasks.is_empty() { self.queue.next() } else { Some(self.now) }
    }

    /// Returns whether no more events are due at the current time.
    pub(crate) fn is_settled(&self) -> bool {
        self.next().is_none_or(|next| next > self.now)
    }

    /// Advances the time to `at`, before which no event may be due.
    ///
    /// # Panics
    /// If an event is due before, or if time would run backwards.
    pub fn advance_to(&mut self, at: Time) {
        assert!(at >= self.now, "time runs backwards from {} to {at}", self.now);
        assert!(self.next().is_none_or(|next| next >= at), "an event is due before {at}");
        self.now = at;
    }

    /// Runs the next event or task. Returns false if there is none.
    pub fn step(&mut self) -> bool {
        if let Some(task) = self.tasks.pop_front() {
            self.perform(task);
            return true;
        }
        let Some((at, event)) = self.queue.pop() else { return false };
        self.now = at;
        match event {
            ScheduledEvent::Timer { host, at } => self.timer(host, at),
            ScheduledEvent::Syn { tcp } => self.syn(tcp),
            ScheduledEvent::Answer { tcp, result } => self.answer(tcp, result),
            ScheduledEvent::Hop(burst) => self.hop(burst),
            ScheduledEvent::Arrival(burst) => self.arrival(burst),
            ScheduledEvent::Ack(burst) => self.ack(burst),
            ScheduledEvent::Window { tcp, writer, upto, edge } => {
                self.window(tcp, writer, upto, edge)
            }
            ScheduledEvent::Reset { tcp, reader } => self.reset_arrives(tcp, reader),
            ScheduledEvent::Free(port) => self.free(port),
            ScheduledEvent::Pace { tcp, writer } => self.pace(tcp, writer),
            ScheduledEvent::RetransmitTimer { tcp, writer, at } => {
                self.retransmit_timer(tcp, writer, at)
            }
            ScheduledEvent::LateAck { tcp, writer } => self.late_ack(tcp, writer),
            ScheduledEvent::Hostile(host) => self.act_hostile(host),
            ScheduledEvent::Task(task) => self.tasks.push_back(task),
        }
        true
    }

    /// Runs a task of a host, or delays it while the host is paused.
    fn perform(&mut self, task: HostTask) {
        if let HostTask::Acknowledge(burst) = task {
            return self.acknowledge(burst);
        }
        let Some(host) = self.host_doing(&task) else { return };
        let until = self.host(host).paused_until;
        if until > self.now {
            return self.queue.push(until, ScheduledEvent::Task(task));
        }
        match task {
            HostTask::Acknowledge(_) => {}
            HostTask::Accept { tcp } => self.accept(tcp),
            HostTask::Dialled { tcp, result } => self.dialled(tcp, result),
            HostTask::Read { tcp, side, rested } => self.read(tcp, side, rested),
            HostTask::Sent { tcp, side, len, messages } => self.sent(tcp, side, len, messages),
            HostTask::Stalled { tcp, side } => self.stalled(tcp, side),
            HostTask::Closed { tcp, side, how } => self.closed(tcp, side, how),
            HostTask::Handled { host, incarnation, done } => self.handled(host, incarnation, done),
            HostTask::Copied { host, incarnation, copy } => self.copied(host, incarnation, copy),
        }
    }

    fn host_doing(&self, task: &HostTask) -> Option<HostId> {
        let (tcp, side) = match *task {
            HostTask::Accept { tcp } => (tcp, Side::Acceptor),
            HostTask::Dialled { tcp, .. } => (tcp, Side::Dialler),
            HostTask::Read { tcp, side, .. }
            | HostTask::Sent { tcp, side, .. }
            | HostTask::Stalled { tcp, side }
            | HostTask::Closed { tcp, side, .. } => (tcp, side),
            HostTask::Acknowledge(_) => return None,
            HostTask::Handled { host, .. } | HostTask::Copied { host, .. } => return Some(host),
        };
        Some(self.connections[tcp.0].as_ref()?.end(side).host)
    }

    /// Returns the traffic of each direction of each trunk.
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

/// The largest offset between clocks, in nanoseconds: an hour.
const CLOCKS_APART: u64 = 3_600_000_000_000;
/// Gives the network a random stream of its own.
const NETWORK_STREAM: u64 = 0x6e65_7477_6f72_6b00;

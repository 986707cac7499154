//! A node as applications and administrators see it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fulmar_base::{Errno, Time};
use fulmar_lnet::PingReply;
use fulmar_lnet::{self as lnet, Event, Get, Lnet, Md, MdId, Me, MeId, NiTunables, Put, QueryId};
use fulmar_lnet_wire::{Net, Nid, Pid, ProcessId};
use fulmar_node::{Config, ConsoleAnswer, Keyed, NiConfig};
use fulmar_socklnd::{AcceptMode, ConnInfo};
use socket2::SockRef;

use crate::buffer::Buffer;
use crate::core::{Answer, Core};
use crate::counters::IoCounters;
use crate::error::StartError;
use crate::interfaces;
use crate::listener::Listener;
use crate::node::{Shared, in_handler};
use crate::runtime::{Message, Runtime};
use crate::tap::Tap;

/// Called with the events of memory descriptors, by one thread at a time and in order.
///
/// A handler must not wait: the messages of the node wait for it. It may call the node.
pub trait Handler: Send + Sync {
    /// Takes an event. The acknowledgement of a PUT leaves when this has returned.
    fn handle(&self, node: &Node, event: &Event);
}

impl<F: Fn(&Node, &Event) + Send + Sync> Handler for F {
    fn handle(&self, node: &Node, event: &Event) {
        self(node, event);
    }
}

/// How a node starts.
#[derive(Clone, Debug)]
pub struct Options {
    /// Settings of its machines.
    pub config: Config,
    /// Its network interfaces.
    pub nis: Vec<NiOptions>,
    /// Who watches it, if anybody does.
    pub tap: Option<Arc<dyn Tap>>,
}

impl Default for Options {
    /// A node of Lustre's process without network interfaces.
    fn default() -> Self {
        let lnet = lnet::Config {
            pid: Pid::LUSTRE,
            interface_cookie: wall_clock(),
            globals: lnet::Globals::default(),
            routing: lnet::RoutingConfig::default(),
        };
        let config = Config { lnet, socklnd: Default::default() };
        Self { config, nis: Vec::new(), tap: None }
    }
}

/// A network interface that a node is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiOptions {
    /// Its network, of type `tcp`.
    pub net: Net,
    /// Where it is.
    pub address: NiAddress,
    /// Its credits.
    pub tunables: NiTunables,
    /// How many connections of each bulk kind are opened to a peer; 0 for what suits the link.
    pub conns_per_peer: u32,
}

impl NiOptions {
    /// Returns an interface on `tcp` with the usual credits.
    pub fn at(address: IpAddr) -> Self {
        let tunables = NiTunables::default();
        Self { net: Net::TCP, address: NiAddress::Ip(address), tunables, conns_per_peer: 0 }
    }
}

/// Where a network interface is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NiAddress {
    /// At an address of this machine.
    Ip(IpAddr),
    /// At the first address of the network interface so named, IPv4 before IPv6.
    Interface(String),
}

impl fmt::Display for NiAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{address}"),
            Self::Interface(name) => f.write_str(name),
        }
    }
}

/// An open connection, for `lctl conn_list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnDetails {
    /// What the machine knows of it.
    pub info: ConnInfo,
    /// The size of the socket's send buffer in bytes.
    pub send_buffer: usize,
    /// The size of the socket's receive buffer in bytes.
    pub receive_buffer: usize,
}

/// A running node. Clones are handles to the same node, which runs until [`Node::stop`].
#[derive(Clone)]
pub struct Node(pub(crate) Arc<Shared>);

impl Node {
    /// Starts a node.
    ///
    /// # Errors
    /// If a network interface cannot be had; then nothing of the node is left.
    pub fn start(runtime: &Runtime, options: Options) -> Result<Self, StartError> {
        let Options { config, nis, tap } = options;
        let name = nis.iter().map(|ni| ni.address.to_string()).collect::<Vec<_>>().join(",");
        let machine = fulmar_node::Node::new(config);
        let node = Self(Shared::new(&runtime.shared, machine, name, tap));
        for ni in nis {
            if let Err(error) = node.add_ni(ni) {
                node.stop();
                return Err(error);
            }
        }
        let _ = node.0.turn(|core, now, _| core.machine.apply(now, |lnet| lnet.start(now)));
        Ok(node)
    }

    /// Stops the node: its connections are closed and its handlers are called no more. When this
    /// returns nothing of it is left but what the application holds.
    ///
    /// Called by a handler, it does not wait for that.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Allocates memory for payload, of zeros.
    pub fn allocate(&self, len: usize) -> Buffer {
        self.0.table.allocate(len)
    }

    /// Attaches a match entry to a portal.
    ///
    /// # Errors
    /// As [`Lnet::me_attach`].
    pub fn me_attach(&self, portal: u32, me: Me) -> Result<MeId, Errno> {
        self.call(|lnet, _| lnet.me_attach(portal, me))?
    }

    /// Attaches a descriptor to a match entry. Its events go to `handler`.
    ///
    /// # Errors
    /// As [`Lnet::md_attach`], and EINVAL if the buffer is not of this node or too short.
    pub fn md_attach(&self, me: MeId, md: Md, handler: Arc<dyn Handler>) -> Result<MdId, Errno> {
        let region = self.0.table.find(md.buffer).ok_or(Errno::EINVAL)?;
        self.0.turn(|core, now, _| {
            core.describe(md, region, handler, |machine, md| {
                machine.apply(now, |lnet| lnet.md_attach(now, me, md))
            })
        })?
    }

    /// Makes a descriptor for [`Node::put`] or [`Node::get`]. Its events go to `handler`.
    ///
    /// # Errors
    /// As [`Lnet::md_bind`], and EINVAL if the buffer is not of this node or too short.
    pub fn md_bind(&self, md: Md, handler: Arc<dyn Handler>) -> Result<MdId, Errno> {
        let region = self.0.table.find(md.buffer).ok_or(Errno::EINVAL)?;
        self.0.turn(|core, now, _| {
            core.describe(md, region, handler, |machine, md| {
                machine.apply(now, |lnet| lnet.md_bind(md))
            })
        })?
    }

    /// Unlinks a descriptor; its last event says when it is gone.
    ///
    /// # Errors
    /// As [`Lnet::md_unlink`].
    pub fn md_unlink(&self, md: MdId) -> Result<(), Errno> {
        self.call(|lnet, now| lnet.md_unlink(now, md))?
    }

    /// Unlinks a match entry, and its descriptor.
    ///
    /// # Errors
    /// As [`Lnet::me_unlink`].
    pub fn me_unlink(&self, me: MeId) -> Result<(), Errno> {
        self.call(|lnet, now| lnet.me_unlink(now, me))?
    }

    /// Has the PUTs wait at a portal that no entry takes, or be dropped.
    ///
    /// # Errors
    /// As [`Lnet::set_lazy`].
    pub fn set_lazy(&self, portal: u32, lazy: bool) -> Result<(), Errno> {
        self.call(|lnet, now| lnet.set_lazy(now, portal, lazy))?
    }

    /// Begins to store at another node.
    ///
    /// # Errors
    /// As [`Lnet::put`].
    pub fn put(&self, put: Put) -> Result<(), Errno> {
        self.call(|lnet, now| lnet.put(now, put))?
    }

    /// Begins to fetch from another node.
    ///
    /// # Errors
    /// As [`Lnet::get`].
    pub fn get(&self, get: Get) -> Result<(), Errno> {
        self.call(|lnet, now| lnet.get(now, get))?
    }

    /// Asks another node for its NIDs and waits for the answer.
    ///
    /// # Errors
    /// Why there was none; EDEADLK in a handler, which must not wait.
    pub fn ping(
        &self,
        target: ProcessId,
        source: Option<Nid>,
        timeout: Duration,
    ) -> Result<PingReply, Errno> {
        self.ask(|lnet, now| lnet.ping(now, target, source, timeout))
    }

    /// Discovers another node and waits until that is done. Without `force`, what is known is good
    /// enough.
    ///
    /// # Errors
    /// Why it cannot be discovered; EDEADLK in a handler, which must not wait.
    pub fn discover(&self, nid: Nid, force: bool) -> Result<PingReply, Errno> {
        self.ask(|lnet, now| lnet.discover(now, nid, force))
    }

    /// Makes the node a test node and a console of LNet selftest.
    ///
    /// # Errors
    /// As [`fulmar_node::Node::open_selftest`].
    pub fn open_selftest(&self, config: fulmar_node::SelftestConfig) -> Result<(), Errno> {
        self.0.turn(|core, now, _| {
            let wall_clock = wall_clock().saturating_sub(now.0);
            let config = fulmar_node::SelftestConfig { wall_clock, ..config };
            core.machine.open_selftest(now, config)
        })?
    }

    /// Gives a command to the selftest's console and waits for its end.
    ///
    /// # Errors
    /// EOPNOTSUPP if the node has no selftest; EDEADLK in a handler, which must not wait.
    pub fn selftest(&self, command: Keyed) -> Result<ConsoleAnswer, Errno> {
        if in_handler() {
            return Err(EDEADLK);
        }
        let (waiting, answer) = sync_channel(1);
        self.0.turn(|core, now, _| {
            let id = core.machine.selftest_command(now, command)?;
            core.commands.insert(id, waiting);
            Ok(())
        })??;
        answer.recv().map_err(|_| Errno::ESHUTDOWN)
    }

    /// Calls the core.
    ///
    /// # Errors
    /// ESHUTDOWN if the node was stopped, EIO if it has failed.
    pub fn call<R>(&self, call: impl FnOnce(&mut Lnet, Time) -> R) -> Result<R, Errno> {
        self.0.turn(|core, now, _| core.machine.apply(now, |lnet| call(lnet, now)))
    }

    /// Looks at the machine, which waits meanwhile.
    pub fn with_machine<R>(&self, look: impl FnOnce(&fulmar_node::Node) -> R) -> R {
        self.0.view(|core| look(&core.machine))
    }

    /// Adds a network interface and listens at its address.
    ///
    /// # Errors
    /// If the address cannot be had, or the machine refuses the interface.
    pub fn add_ni(&self, options: NiOptions) -> Result<Nid, StartError> {
        let (address, conns) = locate(&options.address)?;
        let conns_per_peer =
            if options.conns_per_peer > 0 { options.conns_per_peer } else { conns };
        let nid = Nid::of_ip(options.net, address);
        let ni =
            NiConfig { nid, tunables: options.tunables, incarnation: wall_clock(), conns_per_peer };
        let up = interfaces::link_of(address);
        let up = up.map_err(StartError::system("see whether the link of the interface is up"))?;
        self.listen(address)?;
        let added = self.0.turn(|core, now, _| {
            core.machine.add_ni(now, ni)?;
            if up == Some(false) {
                core.machine.handle_link(now, nid, false);
            }
            Ok(())
        });
        match added.and_then(|added| added) {
            Ok(()) => {
                if let Some(up) = up {
                    self.0.runtime.watch.add(&self.0, nid, up);
                }
                Ok(nid)
            }
            Err(errno) => {
                self.unlisten(address);
                Err(StartError::Refused { nid, errno })
            }
        }
    }

    /// Removes a network interface, closes its connections and listens at its address no more.
    ///
    /// # Errors
    /// As [`fulmar_node::Node::remove_ni`].
    pub fn remove_ni(&self, nid: Nid) -> Result<(), Errno> {
        self.0.turn(|core, now, _| core.machine.remove_ni(now, nid))??;
        self.0.links.lock().remove(&nid);
        if let Some(address) = nid.ip() {
            self.unlisten(address);
        }
        Ok(())
    }

    /// Changes how many bulk connections are opened to each peer of an interface.
    ///
    /// # Errors
    /// ESHUTDOWN if the node was stopped, EIO if it has failed.
    pub fn set_conns_per_peer(&self, nid: Nid, conns: u32) -> Result<(), Errno> {
        self.0.turn(|core, _, _| core.machine.set_conns_per_peer(nid, conns))
    }

    /// Closes every connection with a peer.
    ///
    /// # Errors
    /// ESHUTDOWN if the node was stopped, EIO if it has failed.
    pub fn close_peer(&self, peer: Nid) -> Result<(), Errno> {
        self.0.turn(|core, now, _| core.machine.close_peer(now, peer))
    }

    /// Returns the open connections and what their sockets tell.
    pub fn connections(&self) -> Vec<ConnDetails> {
        let of = |core: &Core| {
            let infos = core.machine.socklnd().conns().into_iter();
            infos.map(|info| (core.conns.get(&info.conn).cloned(), info)).collect::<Vec<_>>()
        };
        let details = |(conn, info): (Option<Arc<crate::conn::Conn>>, ConnInfo)| {
            let conn = conn?;
            let socket = conn.socket();
            let socket = SockRef::from(&socket);
            let send_buffer = socket.send_buffer_size().unwrap_or(0);
            let receive_buffer = socket.recv_buffer_size().unwrap_or(0);
            Some(ConnDetails { info, send_buffer, receive_buffer })
        };
        self.0.view(of).into_iter().filter_map(details).collect()
    }

    /// Returns what the sockets have carried.
    pub fn io_counters(&self) -> IoCounters {
        self.0.counters.snapshot()
    }

    /// Returns the time in which the node's machine thinks.
    pub fn now(&self) -> Time {
        self.0.runtime.now()
    }

    fn ask(&self, begin: impl FnOnce(&mut Lnet, Time) -> QueryId) -> Result<PingReply, Errno> {
        if in_handler() {
            return Err(EDEADLK);
        }
        let (waiting, answer) = sync_channel::<Answer>(1);
        self.0.turn(|core, now, _| {
            // The answer is looked for after this: it may be there at once.
            let query = core.machine.apply(now, |lnet| begin(lnet, now));
            core.queries.insert(query, waiting);
        })?;
        answer.recv().unwrap_or(Err(Errno::ESHUTDOWN))
    }

    fn listen(&self, address: IpAddr) -> Result<(), StartError> {
        let mut listeners = self.0.listeners.lock();
        if let Some((_, count)) = listeners.get_mut(&address) {
            *count += 1;
            return Ok(());
        }
        let (mode, port) = self.with_machine(|machine| {
            let config = machine.socklnd().config();
            (config.accept, config.accept_port)
        });
        if mode != AcceptMode::None {
            let listener = Arc::new(Listener::open(address, port)?);
            let message = Message::Listen(self.0.clone(), listener.clone());
            self.0.runtime.post(self.0.home, message);
            listeners.insert(address, (listener, 1));
        }
        Ok(())
    }

    fn unlisten(&self, address: IpAddr) {
        let mut listeners = self.0.listeners.lock();
        let Some((_, count)) = listeners.get_mut(&address) else { return };
        *count -= 1;
        if *count == 0
            && let Some((listener, _)) = listeners.remove(&address)
        {
            listener.close();
            self.0.runtime.post(self.0.home, Message::Unlisten(listener));
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.0.key)
    }
}

/// Returns nanoseconds of wall clock, for what must differ from one life of a node to the next.
pub fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns an address of this machine, and how many connections suit its link.
fn locate(address: &NiAddress) -> Result<(IpAddr, u32), StartError> {
    match address {
        NiAddress::Ip(address) => {
            let conns = interfaces::with_address(*address).map_or(1, |one| one.conns_per_peer());
            Ok((*address, conns))
        }
        NiAddress::Interface(name) => {
            let interface = interfaces::named(name)?;
            let address = interface.addresses.first();
            let address = address.ok_or_else(|| StartError::NoAddress { name: name.clone() })?;
            Ok((*address, interface.conns_per_peer()))
        }
    }
}

const EDEADLK: Errno = Errno(libc::EDEADLK);

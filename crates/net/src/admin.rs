//! The interface of a node for administrators.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnd::NiConfig;
#[cfg(doc)]
use fulmar_lnet::Lnet;
use fulmar_lnet::{
    FaultKind, FaultRule, Forwarding, Globals, PingReply, QueryId, RouteConfig, RouterBuffers,
    RoutingConfig, UdspRule, views,
};
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::{Net, Nid, NidMatch, ProcessId};
use fulmar_node as node;
#[cfg(doc)]
use fulmar_socklnd::Socklnd;
use fulmar_socklnd::{AcceptMode, ConnInfo, Counters, PeerInfo};
use socket2::SockRef;

use crate::conn::Conn;
use crate::core::{Answer, Core};
use crate::error::StartError;
use crate::failure::Failure;
use crate::interfaces;
use crate::kernel::{TcpState, tcp_state};
use crate::listener::Listener;
use crate::node::{NiAddress, NiOptions, wall_clock};
use crate::runtime::Message;
use crate::shared::{ListenerUse, Shared};
use crate::tap::Tap;
use crate::turn::in_handler;

/// The operations of an administrator on a node. Clones are handles to the same node.
///
/// Every change fails with ESHUTDOWN if the node was stopped, and with EIO if it has failed.
#[derive(Clone)]
pub struct Admin(Arc<Shared>);

/// An open connection, for `lctl conn_list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnDetails {
    /// Its state in the machine.
    pub info: ConnInfo,
    /// The size of the socket's send buffer in bytes.
    pub send_buffer: usize,
    /// The size of the socket's receive buffer in bytes.
    pub receive_buffer: usize,
    /// The CPT whose I/O thread serves it.
    pub cpt: usize,
    /// The state of TCP.
    pub tcp: TcpState,
}

/// Changes whose documentation and errors are those of the core.
macro_rules! changes {
    ($($name:ident($($arg:ident: $type:ty),*);)+) => {
        $(
            #[doc = concat!("See [`Lnet::", stringify!($name), "`].")]
            ///
            /// # Errors
            /// Those, and of the node.
            pub fn $name(&self $(, $arg: $type)*) -> Result<(), Errno> {
                self.change(|admin| admin.$name($($arg),*))?
            }
        )+
    };
}

/// Views of the core and the socket LND, each taken under one lock.
macro_rules! views {
    ($($name:ident: $machine:ident, $type:ty $(, $clone:ident)?;)+) => {
        $(
            #[doc = concat!("See [`", stringify!($machine), "::", stringify!($name), "`].")]
            pub fn $name(&self) -> $type {
                self.0.view(|core| views!(@$machine core).$name()$(.$clone())?)
            }
        )+
    };
    (@Lnet $core:ident) => { $core.machine.lnet() };
    (@Socklnd $core:ident) => { $core.machine.socklnd() };
}

impl Admin {
    pub(crate) fn new(node: Arc<Shared>) -> Self {
        Self(node)
    }

    /// Returns why the node has failed, if it has. Its views are then those of a damaged state.
    pub fn failure(&self) -> Option<Failure> {
        self.0.end.failure()
    }

    changes! {
        set_globals(globals: Globals);
        set_ni_enabled(nid: Nid, enabled: bool);
        set_ni_health(nid: Option<Nid>, value: u32);
        set_peer_ni_health(nid: Option<Nid>, value: u32);
        set_peer_state(nid: Nid, state: u32);
        peer_add(primary: Nid, nids: &[Nid], multi_rail: bool);
        peer_del(primary: Nid, nids: &[Nid]);
        route_add(route: RouteConfig);
        route_del(net: Option<Net>, gateway: Option<Nid>);
        set_forwarding(forwarding: Forwarding);
        set_router_buffers(buffers: RouterBuffers);
        udsp_add(index: Option<usize>, rule: UdspRule);
        udsp_del(index: Option<usize>);
        fault_add(rule: FaultRule);
    }

    /// See [`Lnet::fault_del`](fulmar_lnet::Lnet::fault_del).
    ///
    /// # Errors
    /// Of the node.
    pub fn fault_del(
        &self,
        kind: FaultKind,
        source: NidMatch,
        target: NidMatch,
    ) -> Result<usize, Errno> {
        self.change(|admin| admin.fault_del(kind, source, target))
    }

    /// See [`Lnet::fault_reset`].
    ///
    /// # Errors
    /// Of the node.
    pub fn fault_reset(&self, kind: FaultKind) -> Result<(), Errno> {
        self.change(|admin| admin.fault_reset(kind))
    }

    /// See [`Lnet::fail_nid`].
    ///
    /// # Errors
    /// Of the node.
    pub fn fail_nid(&self, nid: NidMatch, times: Option<u32>) -> Result<(), Errno> {
        self.change(|admin| admin.fail_nid(nid, times))
    }

    /// See [`Lnet::reset_stats`].
    ///
    /// # Errors
    /// Of the node.
    pub fn reset_stats(&self) -> Result<(), Errno> {
        self.change(|admin| admin.reset_stats())
    }

    /// See [`Lnet::reset_ni_minima`].
    ///
    /// # Errors
    /// Of the node.
    pub fn reset_ni_minima(&self) -> Result<(), Errno> {
        self.change(|admin| admin.reset_ni_minima())
    }

    /// See [`Lnet::reset_peer_minima`].
    ///
    /// # Errors
    /// Of the node.
    pub fn reset_peer_minima(&self) -> Result<(), Errno> {
        self.change(|admin| admin.reset_peer_minima())
    }

    /// Has `observer` see the messages of the node from now on; `None` ends that. An observer that the
    /// node has had since its start ([`Options::tap`](crate::Options::tap)) stays.
    ///
    /// # Errors
    /// Of the node.
    pub fn observe(&self, observer: Option<Arc<dyn Tap>>) -> Result<(), Errno> {
        self.0.turn(|core, _, _| core.observe(observer))
    }

    /// Changes how many bulk connections are opened to each peer of an interface.
    ///
    /// # Errors
    /// Of the node.
    pub fn set_conns_per_peer(&self, nid: Nid, conns: u32) -> Result<(), Errno> {
        self.change(|admin| admin.set_conns_per_peer(nid, conns))
    }

    /// Changes how long an interface waits for its peers.
    ///
    /// # Errors
    /// ENOENT if there is no such interface.
    pub fn set_lnd_timeout(&self, nid: Nid, timeout: Duration) -> Result<(), Errno> {
        self.change(|admin| admin.set_lnd_timeout(nid, timeout))?
    }

    /// Closes every connection with a peer.
    ///
    /// # Errors
    /// Of the node.
    pub fn close_peer(&self, peer: Nid) -> Result<(), Errno> {
        self.change(|admin| admin.close_peer(peer))
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
        self.ask(|admin| admin.ping(target, source, timeout))
    }

    /// Discovers another node and waits for the result. Without `force`, an earlier discovery
    /// suffices.
    ///
    /// # Errors
    /// Why it cannot be discovered; EDEADLK in a handler, which must not wait.
    pub fn discover(&self, nid: Nid, force: bool) -> Result<PingReply, Errno> {
        self.ask(|admin| admin.discover(nid, force))
    }

    /// Adds a network interface and listens at its address.
    ///
    /// # Errors
    /// If the address is not one of this machine's or is in use, or the machine refuses the
    /// interface.
    pub fn add_ni(&self, options: NiOptions) -> Result<Nid, StartError> {
        let (address, conns) = locate(&options.address)?;
        // The configured number is not exceeded.
        let (conns_per_peer, conns_max) = match options.conns_per_peer {
            0 => (conns, CONNS_MAX),
            configured => (configured, configured),
        };
        let nid = Nid::of_ip(options.net, address);
        let cpts = self.cpts();
        if let Some(&cpt) = options.cpts.iter().find(|cpt| **cpt >= cpts) {
            return Err(StartError::NoCpt { nid, cpt, cpts });
        }
        let NiOptions { tunables, timeout, .. } = options;
        let incarnation = wall_clock();
        let ni = NiConfig { nid, tunables, incarnation, conns_per_peer, conns_max, timeout };
        let up = interfaces::link_of(address);
        let up = up.map_err(StartError::system("see whether the link of the interface is up"))?;
        if !options.cpts.is_empty() {
            self.0.cpts.lock().insert(address, options.cpts);
        }
        match options.tos {
            Some(tos) => self.0.tos.lock().insert(address, tos),
            None => self.0.tos.lock().remove(&address),
        };
        self.listen(address)?;
        let added = self.0.turn(|core, now, _| {
            core.machine.admin(now).add_ni(ni)?;
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

    /// Removes a network interface, closes its connections and stops listening at its address.
    ///
    /// # Errors
    /// ENOENT if there is no such interface.
    pub fn remove_ni(&self, nid: Nid) -> Result<(), Errno> {
        self.change(|admin| admin.remove_ni(nid))??;
        self.0.links.lock().remove(&nid);
        if let Some(address) = nid.ip() {
            self.unlisten(address);
        }
        Ok(())
    }

    views! {
        nis: Lnet, Vec<views::Ni>;
        peers: Lnet, Vec<views::Peer>;
        routes: Lnet, Vec<views::Route>;
        routers: Lnet, Vec<views::Router>;
        routing: Lnet, views::Routing;
        routing_config: Lnet, RoutingConfig, clone;
        recovery: Lnet, views::Recovery;
        stats: Lnet, views::Stats;
        globals: Lnet, Globals, clone;
        udsp: Lnet, Vec<UdspRule>;
        faults: Lnet, Vec<views::Fault>;
        ping_info: Lnet, PingInfo;
        config: Socklnd, fulmar_socklnd::Config, clone;
        counters: Socklnd, Counters, clone;
    }

    /// Returns a NID of ours that fits into the old form, as [`Lnet::first_small_nid`].
    pub fn first_small_nid(&self) -> Option<Nid> {
        self.0.view(|core| core.machine.lnet().first_small_nid())
    }

    /// Returns how many CPTs the I/O threads are in.
    pub fn cpts(&self) -> usize {
        self.0.runtime.cpts()
    }

    /// Returns the node's time.
    pub fn now(&self) -> Time {
        self.0.runtime.now()
    }

    /// Returns the peers of the socket LND, by NID.
    pub fn socklnd_peers(&self) -> Vec<PeerInfo> {
        self.paged(|core, last: Option<&PeerInfo>| {
            core.machine.socklnd().peers_after(last).take(PAGE).collect()
        })
    }

    /// Returns the open connections, and what their sockets report.
    pub fn connections(&self) -> Vec<ConnDetails> {
        let page = |core: &Core, last: Option<&(ConnInfo, Option<Arc<Conn>>)>| {
            let after = last.map(|(info, _)| info.conn);
            let infos = core.machine.socklnd().conns_after(after).take(PAGE);
            infos
                .map(|info| {
                    let conn = core.conns.get(&info.conn);
                    (info, conn.cloned())
                })
                .collect()
        };
        let all = self.paged(page).into_iter();
        all.filter_map(|(info, conn)| conn.map(|conn| self.details(info, &conn))).collect()
    }

    /// Returns the violated invariants of the node's state: none, unless there is a defect. With
    /// `idle`, also everything that an idle node must not hold.
    pub fn check(&self, idle: bool) -> Vec<String> {
        self.0.view(|core| node::check::broken(&core.machine, idle))
    }

    /// Collects a view page by page, so that messages pass between two pages.
    fn paged<T>(&self, page: impl Fn(&Core, Option<&T>) -> Vec<T>) -> Vec<T> {
        let mut all = Vec::new();
        loop {
            let next = self.0.view(|core| page(core, all.last()));
            let more = next.len() == PAGE;
            all.extend(next);
            if !more {
                return all;
            }
        }
    }

    fn details(&self, info: ConnInfo, conn: &Conn) -> ConnDetails {
        let socket = conn.socket();
        let tcp = tcp_state(socket).unwrap_or_default();
        let socket = SockRef::from(&socket);
        ConnDetails {
            info,
            tcp,
            send_buffer: socket.send_buffer_size().unwrap_or(0),
            receive_buffer: socket.recv_buffer_size().unwrap_or(0),
            cpt: self.0.runtime.cpt_of(conn.thread),
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut node::Admin<'_>) -> R) -> Result<R, Errno> {
        self.0.turn(|core, now, _| change(&mut core.machine.admin(now)))
    }

    fn ask(&self, begin: impl FnOnce(&mut node::Admin<'_>) -> QueryId) -> Answer {
        if in_handler() {
            return Err(EDEADLK);
        }
        let (waiting, answer) = sync_channel::<Answer>(1);
        self.0.turn(|core, now, _| {
            // The caller waits after this: the answer may be available at once.
            let query = begin(&mut core.machine.admin(now));
            core.queries.insert(query, waiting);
        })?;
        let ended = |_| if self.failure().is_some() { Errno::EIO } else { Errno::ESHUTDOWN };
        answer.recv().map_err(ended)?
    }

    fn listen(&self, address: IpAddr) -> Result<(), StartError> {
        let mut listeners = self.0.listeners.lock();
        if let Some(at) = listeners.get_mut(&address) {
            at.users += 1;
            return Ok(());
        }
        let config = self.config();
        if config.accept != AcceptMode::None {
            let ports = config.accept_ports();
            let opened = ports.map(|port| Ok(Arc::new(Listener::open(address, port)?)));
            let opened = opened.collect::<Result<Vec<_>, StartError>>()?;
            for listener in &opened {
                let message = Message::Listen(self.0.clone(), listener.clone());
                self.0.runtime.post(self.0.home, message);
            }
            listeners.insert(address, ListenerUse { listeners: opened, users: 1 });
        }
        Ok(())
    }

    fn unlisten(&self, address: IpAddr) {
        let mut listeners = self.0.listeners.lock();
        let Some(at) = listeners.get_mut(&address) else { return };
        at.users -= 1;
        if at.users > 0 {
            return;
        }
        let gone = listeners.remove(&address);
        for listener in gone.into_iter().flat_map(|at| at.listeners) {
            listener.close();
            self.0.runtime.post(self.0.home, Message::Unlisten(listener));
        }
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Admin(node {})", self.0.key)
    }
}

/// Returns an address of this machine, and the number of connections for its link.
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
/// The most connections of a type to a peer, where TCP windows limit the throughput.
const CONNS_MAX: u32 = 32;
/// The rows of a view that are taken under one lock.
const PAGE: usize = 64;

//! The interface of a node for its owner.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fulmar_base::{Errno, Time};
use fulmar_lnd::NiTunables;
use fulmar_lnet::{self as lnet, ServiceConfig};
use fulmar_lnet_wire::{Net, Pid};
use fulmar_node::Config;

use crate::admin::Admin;
use crate::core::LockUse;
use crate::counters::IoCounters;
use crate::error::StartError;
use crate::failure::Failure;
use crate::runtime::Runtime;
use crate::service::{Handler, Service};
use crate::shared::Shared;
use crate::tap::Tap;

/// The options of a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// Settings of its machines.
    pub config: Config,
    /// Its network interfaces.
    pub nis: Vec<NiOptions>,
    /// The observer of the node, for tests.
    pub tap: Option<Arc<dyn Tap>>,
    /// Whether to measure for how long its lock is held, for [`Node::lock_use`].
    pub lock_times: bool,
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
        Self { config, nis: Vec::new(), tap: None, lock_times: false }
    }
}

/// A network interface of a node, to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiOptions {
    /// Its network, of type `tcp`.
    pub net: Net,
    /// Its location.
    pub address: NiAddress,
    /// Its credits.
    pub tunables: NiTunables,
    /// Connections of each bulk type to a peer. 0 to choose by the link, and to open more where TCP
    /// windows limit the throughput.
    pub conns_per_peer: u32,
    /// The CPTs whose I/O threads serve its connections; all if the list is empty.
    pub cpts: Vec<usize>,
    /// The IP type of service of its connections, if it is not the usual one.
    pub tos: Option<u8>,
    /// How long its LND waits for a peer, if not for the time of the node.
    pub timeout: Option<Duration>,
}

impl NiOptions {
    /// Returns an interface on `tcp` with the usual credits.
    pub fn at(address: IpAddr) -> Self {
        let (address, tunables) = (NiAddress::Ip(address), NiTunables::default());
        let (net, conns_per_peer, cpts) = (Net::TCP, 0, Vec::new());
        Self { net, address, tunables, conns_per_peer, cpts, tos: None, timeout: None }
    }
}

/// The location of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NiAddress {
    /// At an address of this machine.
    Ip(IpAddr),
    /// At the first address of the network interface of this name, IPv4 before IPv6.
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

/// A running node. Clones are handles to the same node, which runs until [`Node::stop`].
#[derive(Clone)]
pub struct Node(pub(crate) Arc<Shared>);

impl Node {
    /// Starts a node.
    ///
    /// # Errors
    /// If a network interface cannot be added; then the node is stopped.
    pub fn start(runtime: &Runtime, options: Options) -> Result<Self, StartError> {
        let Options { config, nis, tap, lock_times } = options;
        let name = nis.iter().map(|ni| ni.address.to_string()).collect::<Vec<_>>().join(",");
        let machine = fulmar_node::Node::new(config);
        let node = Self(Shared::new(&runtime.shared, machine, name, tap, lock_times));
        for ni in nis {
            if let Err(error) = node.admin().add_ni(ni) {
                node.stop();
                return Err(error);
            }
        }
        let _ = node.0.turn(|core, now, _| core.machine.admin(now).start());
        Ok(node)
    }

    /// Stops the node: its connections are closed and its services are no longer called. When
    /// this returns, only the handles of programs remain.
    ///
    /// Called by a handler, it does not wait for that.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Waits until the node has been stopped, or has failed.
    ///
    /// # Errors
    /// Why it has failed.
    pub fn wait(&self) -> Result<(), Failure> {
        self.0.end.wait()
    }

    /// Opens a service: a user of LNet, whose events go to `handler`.
    ///
    /// # Errors
    /// ESHUTDOWN if the node was stopped, EIO if it has failed.
    pub fn open_service(
        &self,
        config: ServiceConfig,
        handler: Arc<dyn Handler>,
    ) -> Result<Service, Errno> {
        let id = self.0.turn(|core, _, _| {
            let id = core.machine.open_service(config);
            self.0.queues.lock().open(id, handler);
            id
        })?;
        Ok(Service::new(self.0.clone(), id))
    }

    /// Returns the handle of an administrator.
    pub fn admin(&self) -> Admin {
        Admin::new(self.0.clone())
    }

    /// Reads the machine, for checks. Messages wait meanwhile: administrators use the views of
    /// [`Admin`].
    pub fn look<R>(&self, look: impl FnOnce(&fulmar_node::Node) -> R) -> R {
        self.0.view(|core| look(&core.machine))
    }

    /// Returns the counters of the sockets.
    pub fn io_counters(&self) -> IoCounters {
        self.0.counters.snapshot()
    }

    /// Returns the use of the node's lock.
    pub fn lock_use(&self) -> LockUse {
        self.0.view(|core| core.lock)
    }

    /// Returns the node's time.
    pub fn now(&self) -> Time {
        self.0.runtime.now()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.0.key)
    }
}

/// Returns nanoseconds of wall-clock time, for numbers that differ between incarnations of a node.
pub fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

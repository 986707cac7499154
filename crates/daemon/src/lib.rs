//! The running node: the driver with its configuration, its control socket and its metrics.
//!
//! [`run`] starts a node from a [`NodeConfig`] and serves the administration API until a signal
//! ends it. The API is [`Admin`], which `admin` implements over the driver's node.
//!
//! ```text
//! run: read the configuration ──► bind the control socket ──► start the driver with its NIs ──► watch for failure
//!      ──► routes, peers, policies ──► start the targets ──► ready (sd_notify) ──► serve until a signal
//!      ──► stop the targets: what is cached reaches them ──► stop the node
//! ```
//!
//! | part | what it does |
//! |---|---|
//! | `admin`, `views`, `routing`, `rules` | the administration API over a running node |
//! | `networks` | the NIs as they were configured, of which the machine keeps only a part |
//! | `selftest`, `targets`, `mgs`, `changelogs` | the roles of the node: LNet selftest, and targets of a file system |
//! | `debug` | the debug log with its masks, as `lctl dk` prints it |
//! | `failure` | the end of a process whose node has failed |
//! | `check` | `fulmar node --check`: what a start would find |
//!
//! A mount is a process without this control socket: it has a [`DebugLog`], and with `-o
//! config=FILE` the networks and routes of a [`ClientSide`].
#![forbid(unsafe_code)]
// This crate is a process: it handles signals, writes a log and notifies the service manager.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod admin;
mod changelogs;
mod check;
mod debug;
mod failure;
mod mgs;
mod networks;
mod parameters;
mod routing;
mod rules;
mod selftest;
mod targets;
mod views;

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use fulmar_base::Errno;
use fulmar_control::api::{Admin, AdminError, BindError, Server};
use fulmar_control::config::{
    Cores, Interfaces, Module, NiSpec, NodeConfig, ResolveError, Role, RouteConf, fit_cpts,
};
use fulmar_lnet_wire::Nid;
use fulmar_net::{Interface, Node, Options, Runtime, StartError, Tap};
use fulmar_server::ServeError;
use sd_notify::NotifyState;
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};

use admin::Daemon;
use debug::Log;
use networks::Networks;
use targets::HostedTargets;

pub use check::{CheckReport, check};
pub use selftest::Selftest;

/// Why a node does not run. The first line of the text describes the failure, a second one a
/// remedy.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// The networks of the configuration do not fit the interfaces of this machine.
    #[error("{error}\nhelp: {}", error.help)]
    Resolve {
        /// The mismatch.
        error: ResolveError,
    },
    /// The global values contradict each other.
    #[error("inconsistent global values: {0}")]
    Globals(String),
    /// The CPTs do not fit this machine.
    #[error("cannot create the CPTs: {0}\nhelp: change cpu_npartitions or cpu_pattern")]
    Cpts(String),
    /// The control socket or the metrics port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The driver does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A part of the configuration was refused.
    #[error("cannot apply the configuration: {what}: {error}")]
    Configure {
        /// The part, such as `peer 10.0.0.1@tcp`.
        what: String,
        /// Why.
        error: Errno,
    },
    /// A route was refused.
    #[error("cannot apply the configuration: {what}: {error}\nhelp: {hint}")]
    Route {
        /// The route.
        what: String,
        /// Why.
        error: String,
        /// A remedy.
        hint: String,
    },
    /// A target is not served.
    #[error("cannot serve the targets: {0}")]
    Targets(#[from] ServeError),
    /// The operating system refused an operation.
    #[error("system error: {0}")]
    System(#[from] io::Error),
}

/// Runs a node until SIGINT or SIGTERM. If the node fails, the process writes a report to standard
/// error and ends with status 1 about a second later.
///
/// # Errors
/// Why the node does not start.
pub fn run(config: &NodeConfig) -> Result<(), DaemonError> {
    run_observed(config, None, |_| ())
}

/// Like [`run`]. `beside` is called when the node serves, and what it returns is dropped before its targets
/// stop.
///
/// # Errors
/// As [`run`].
pub fn run_beside<T>(
    config: &NodeConfig,
    beside: impl FnOnce(&Node) -> T,
) -> Result<(), DaemonError> {
    run_observed(config, None, beside)
}

/// Returns the NIDs that a node of this configuration has.
///
/// # Errors
/// If an interface or a name is not found.
pub fn nids(config: &NodeConfig) -> Result<Vec<Nid>, DaemonError> {
    let specs = config.nis(&Host).map_err(|error| DaemonError::Resolve { error })?;
    Ok(specs.iter().map(|spec| spec.nid).collect())
}

/// Like [`run_beside`], with an observer of the node, for tests.
///
/// # Errors
/// As [`run`].
pub fn run_observed<T>(
    config: &NodeConfig,
    tap: Option<Arc<dyn Tap>>,
    beside: impl FnOnce(&Node) -> T,
) -> Result<(), DaemonError> {
    fulmar_net::note_panics();
    let log = Log::install("info");
    warn_of_deprecated_names(config);
    config.unused().iter().for_each(|unused| tracing::warn!("{unused}"));
    let specs = resolved(config)?;
    let own: Vec<Nid> = specs.iter().map(|spec| spec.nid).collect();
    let server = bind(config)?;
    let port = config.options.parameters.socklnd().accept_port;
    let (_runtime, node) = start(config, &specs, tap)?;
    failure::watch(&node, server.path())?;
    let started = configured(&node, config, &specs, log).and_then(|daemon| {
        daemon.hosting.start(&config.targets, own.clone())?;
        Ok(Arc::new(daemon))
    });
    let daemon = match started {
        Ok(started) => started,
        Err(error) => {
            node.stop();
            return Err(error);
        }
    };
    for spec in &specs {
        tracing::info!("{} on {} listens at port {port}", spec.nid, spec.interface);
    }
    tracing::info!("control socket: {}", server.path().display());
    if let Some(address) = server.metrics_address() {
        tracing::info!("web page: http://{address}/ (metrics: http://{address}/metrics)");
    }
    let socket = server.path().to_owned();
    let beside = beside(&node);
    let served = serve(server, daemon.clone());
    if node.admin().failure().is_some() {
        // Its threads may never stop.
        failure::end(socket);
    }
    drop(beside);
    daemon.hosting.stop();
    node.stop();
    tracing::info!("stopped");
    Ok(served?)
}

/// The debug log of a process that is no node of its own, such as that of a mount.
#[derive(Debug)]
pub struct DebugLog {
    log: Arc<Log>,
    node: OnceLock<fulmar_net::Admin>,
}

impl DebugLog {
    /// Keeps the events of this process that its masks select. Nothing is printed unless a mask or `FULMAR_LOG` says so.
    pub fn install() -> Self {
        Self { log: Log::install("off"), node: OnceLock::new() }
    }

    /// Sets the node whose messages the log may have.
    pub fn observe(&self, node: fulmar_net::Admin) {
        let _ = self.node.set(node);
    }

    /// The names of its parameters.
    pub const PARAMETERS: &[&str] = &Log::PARAMETERS;

    /// Returns the value of a parameter; `None` if it is only written.
    pub fn read(&self, name: &str) -> Option<String> {
        self.log.read(name)
    }

    /// Sets a parameter.
    ///
    /// # Errors
    /// EINVAL if it cannot have the value, ENXIO before there is a node.
    pub fn write(&self, name: &str, value: &str) -> Result<(), Errno> {
        let node = self.node.get().ok_or(Errno::ENXIO)?;
        self.log.write(node, name, value).map_err(|error| Errno(-error.errno))
    }

    /// Removes and returns the oldest lines, up to so many bytes.
    pub fn take(&self, room: usize) -> String {
        self.log.take_up_to(room)
    }
}

/// A node of a configuration that is only a client: without roles, targets and a control socket. It ends when
/// this is dropped.
#[derive(Debug)]
pub struct ClientSide {
    /// The node.
    pub node: Node,
    /// Its NIDs.
    pub nids: Vec<Nid>,
    /// The TCP port of all nodes.
    pub port: u16,
    _runtime: Runtime,
}

impl ClientSide {
    /// Starts the node, with the routes and peers of the configuration.
    ///
    /// # Errors
    /// Why the node does not start.
    pub fn start(config: &NodeConfig) -> Result<Self, DaemonError> {
        let specs = resolved(config)?;
        let (runtime, node) = start(config, &specs, None)?;
        let port = config.options.parameters.socklnd().accept_port;
        let nids = specs.iter().map(|spec| spec.nid).collect();
        let started = Self { node, nids, port, _runtime: runtime };
        configured(&started.node, config, &specs, Arc::default())?;
        Ok(started)
    }
}

impl Drop for ClientSide {
    fn drop(&mut self) {
        self.node.stop();
    }
}

/// Starts the node of a configuration with its networks.
fn start(
    config: &NodeConfig,
    specs: &[NiSpec],
    tap: Option<Arc<dyn Tap>>,
) -> Result<(Runtime, Node), DaemonError> {
    let own: Vec<Nid> = specs.iter().map(|spec| spec.nid).collect();
    let mut options = Options { tap, ..Options::default() };
    options.config.lnet.globals = config.globals().map_err(DaemonError::Globals)?;
    options.config.lnet.routing = config.routing(&own);
    options.config.socklnd = config.options.parameters.socklnd();
    options.nis = specs.iter().map(networks::options).collect();
    let runtime = threads(config)?;
    let node = Node::start(&runtime, options)?;
    Ok((runtime, node))
}

/// Returns the NIs of a configuration. Their CPTs that this node does not have are left out: an export
/// of another node has all of that one.
fn resolved(config: &NodeConfig) -> Result<Vec<NiSpec>, DaemonError> {
    let mut specs = config.nis(&Host).map_err(|error| DaemonError::Resolve { error })?;
    let count = u32::try_from(cpts(config)?.len().max(1)).unwrap_or(u32::MAX);
    for spec in &mut specs {
        if let Some(note) = fit_cpts(&mut spec.cpts, count) {
            tracing::warn!("{}: {note}", spec.nid);
        }
    }
    Ok(specs)
}

/// Returns the cores of each configured CPT.
fn cpts(config: &NodeConfig) -> Result<Vec<Vec<usize>>, DaemonError> {
    let machine = Cores { usable: fulmar_net::usable_cores(), nodes: fulmar_net::numa_nodes() };
    config.options.parameters.cpts(&machine).map_err(DaemonError::Cpts)
}

/// Starts the I/O threads: one for each core, or those of the configured CPTs.
fn threads(config: &NodeConfig) -> Result<Runtime, DaemonError> {
    let parameters = &config.options.parameters;
    let cpts = cpts(config)?;
    Ok(if cpts.is_empty() {
        Runtime::new(parameters.nscheds())?
    } else {
        Runtime::with_cpts(&cpts, parameters.nscheds())?
    })
}

fn bind(config: &NodeConfig) -> Result<Server, BindError> {
    match &config.control {
        Some(path) => Server::bind(Path::new(path), config.metrics),
        None => Server::bind_default(config.metrics),
    }
}

/// Warns of deprecated parameter names.
fn warn_of_deprecated_names(config: &NodeConfig) {
    for old in ["live_router_check_interval", "dead_router_check_interval"] {
        if config.options.parameters.text(Module::Lnet, old).is_some() {
            tracing::warn!("{old} is deprecated: use alive_router_check_interval");
        }
    }
}

/// Applies roles and configuration to a node.
fn configured(
    node: &Node,
    config: &NodeConfig,
    specs: &[NiSpec],
    log: Arc<Log>,
) -> Result<Daemon, DaemonError> {
    let own: Vec<Nid> = specs.iter().map(|spec| spec.nid).collect();
    let networks = Networks::new(config.options.parameters.clone(), specs.to_vec());
    let port = config.options.parameters.socklnd().accept_port;
    let wanted = config.roles.contains(&Role::Selftest);
    let opened = wanted.then(|| Selftest::open(node, config.options.parameters.selftest()));
    let selftest = opened
        .transpose()
        .map_err(|error| DaemonError::Configure { what: "the role selftest".into(), error })?;
    let hosting = HostedTargets::new(node, port);
    let daemon = Daemon::new(node.admin(), networks, selftest, hosting, log);
    configure(&daemon, config, &own)?;
    Ok(daemon)
}

/// Applies routes, peers and selection policies.
fn configure(daemon: &Daemon, config: &NodeConfig, own: &[Nid]) -> Result<(), DaemonError> {
    configure_routes(daemon, config, own)?;
    configure_peers(daemon, config, own)?;
    if config.routing(own).check_routers_before_use {
        daemon.discover_routers();
    }
    Ok(())
}

/// Adds the routes of `routes=`, which may include routes of other nodes, and those of lnet.conf,
/// which are for this node.
fn configure_routes(daemon: &Daemon, config: &NodeConfig, own: &[Nid]) -> Result<(), DaemonError> {
    for route in config.shared_routes(own) {
        match daemon.add_route(&route) {
            Ok(()) | Err(Errno::EEXIST | Errno::EHOSTUNREACH) => {}
            Err(error) => return Err(no_route(&route, error)),
        }
    }
    for route in &config.lnet.routes {
        daemon.import_route(route).map_err(|error| no_route(route, error))?;
    }
    Ok(())
}

fn no_route(route: &RouteConf, error: Errno) -> DaemonError {
    let why = AdminError::route_add(error, route);
    let what = format!("the route to {} by {}", route.net, route.gateway);
    let hint = why.hint.unwrap_or_default();
    DaemonError::Route { what, error: why.descr, hint }
}

fn configure_peers(daemon: &Daemon, config: &NodeConfig, own: &[Nid]) -> Result<(), DaemonError> {
    for peer in &config.lnet.peers {
        if own.contains(&peer.primary) {
            // A kernel has a peer for itself, and exports it.
            tracing::info!("peer {} is this node itself", peer.primary);
            continue;
        }
        let add = fulmar_control::api::PeerAdd { peer: peer.clone(), lock_primary: false };
        daemon.peer_add(add).map_err(|error| DaemonError::Configure {
            what: format!("peer {}", peer.primary),
            error: Errno(-error.errno),
        })?;
    }
    let rules = &mut config.lnet.udsp.iter();
    rules
        .try_for_each(|rule| daemon.add_udsp(rule))
        .map_err(|error| DaemonError::Configure { what: "udsp".into(), error: Errno(-error.errno) })
}

/// Serves the control socket until a signal arrives.
fn serve(server: Server, daemon: Arc<Daemon>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        notify(NotifyState::Ready);
        if let Some(unserved) = daemon.unserved() {
            tracing::warn!("{unserved}. \"fulmar lctl dl\" says why");
            notify(NotifyState::Status(&unserved));
        }
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            notify(NotifyState::Stopping);
        };
        server.serve(daemon, stop).await
    });
    // Pings in progress must not delay the shutdown.
    runtime.shutdown_background();
    served
}

/// Reports the state to the service manager, if `NOTIFY_SOCKET` is set.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}

/// The interfaces of this machine.
struct Host;

impl Interfaces for Host {
    fn list(&self) -> Vec<Interface> {
        fulmar_net::interfaces().unwrap_or_else(|error| {
            tracing::error!("cannot list the network interfaces: {error}");
            Vec::new()
        })
    }
}

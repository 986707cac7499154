//! `fulmar node`: a node in the foreground, with its control socket.

mod admin;
mod networks;
mod routing;
mod rules;
mod views;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_control::api::{Admin, AdminError, BindError, Server};
use fulmar_control::config::{
    Interface, Interfaces, Module, NodeConfig, ResolveError, Role, RouteConf,
};
use fulmar_lnet_wire::Nid;
use fulmar_net::{Node, Options, Runtime, StartError};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};

use admin::Daemon;
use networks::Networks;

/// Why a node does not run. One line says what failed, another what to do.
#[derive(Debug, Error)]
pub(crate) enum DaemonError {
    #[error("{error}\nhelp: {}", error.help)]
    Resolve { error: ResolveError },
    #[error("the global values do not go together: {0}")]
    Globals(String),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("{what} of the configuration cannot be had: {error}")]
    Configure { what: String, error: Errno },
    #[error("{what} of the configuration cannot be had: {error}\nhelp: {hint}")]
    Route { what: String, error: String, hint: String },
    #[error("the system refuses: {0}")]
    System(#[from] io::Error),
}

/// Runs a node until SIGINT or SIGTERM.
pub(crate) fn run(config: &NodeConfig) -> Result<(), DaemonError> {
    log();
    warn_of_old_names(config);
    let specs = config.nis(&Host).map_err(|error| DaemonError::Resolve { error })?;
    let own: Vec<Nid> = specs.iter().map(|spec| spec.nid).collect();
    let mut options = Options::default();
    options.config.lnet.globals = config.globals().map_err(DaemonError::Globals)?;
    options.config.lnet.routing = config.routing(&own);
    options.config.socklnd = config.options.parameters.socklnd();
    options.nis = specs.iter().map(networks::options).collect();
    let port = options.config.socklnd.accept_port;
    let server = bind(config)?;
    let runtime = Runtime::new(None)?;
    let node = Node::start(&runtime, options)?;
    let networks = Networks::new(config.options.parameters.clone(), specs.clone());
    if config.roles.contains(&Role::Selftest) {
        let opened = node.open_selftest(config.options.parameters.selftest());
        if let Err(error) = opened {
            node.stop();
            return Err(DaemonError::Configure { what: "the role selftest".into(), error });
        }
    }
    let daemon = Arc::new(Daemon::new(node.clone(), networks));
    if let Err(error) = configure(&daemon, config, &own) {
        node.stop();
        return Err(error);
    }
    for spec in &specs {
        tracing::info!("{} on {} listens at port {port}", spec.nid, spec.interface);
    }
    tracing::info!("control socket: {}", server.path().display());
    if let Some(address) = server.metrics_address() {
        tracing::info!("metrics: http://{address}/metrics");
    }
    let served = serve(server, daemon);
    node.stop();
    tracing::info!("stopped");
    Ok(served?)
}

/// Writes the log to standard error; `FULMAR_LOG` says how much of it, `info` if it is not set.
fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("FULMAR_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let terminal = io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(terminal)
        .with_writer(io::stderr)
        .init();
}

fn bind(config: &NodeConfig) -> Result<Server, BindError> {
    match &config.control {
        Some(path) => Server::bind(Path::new(path), config.metrics),
        None => Server::bind_default(config.metrics),
    }
}

/// Parameters that had other names.
fn warn_of_old_names(config: &NodeConfig) {
    for old in ["live_router_check_interval", "dead_router_check_interval"] {
        if config.options.parameters.text(Module::Lnet, old).is_some() {
            tracing::warn!("{old} is an old name: write alive_router_check_interval");
        }
    }
}

/// Tells the node of routes and peers.
fn configure(daemon: &Daemon, config: &NodeConfig, own: &[Nid]) -> Result<(), DaemonError> {
    configure_routes(daemon, config, own)?;
    configure_peers(daemon, config)?;
    if config.routing(own).check_routers_before_use {
        daemon.discover_routers();
    }
    Ok(())
}

/// Adds the routes of `routes=`, which may be meant for other nodes, and those of lnet.conf, which
/// are meant for this one.
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

fn configure_peers(daemon: &Daemon, config: &NodeConfig) -> Result<(), DaemonError> {
    for peer in &config.lnet.peers {
        let add = fulmar_control::api::PeerAdd { peer: peer.clone(), lock_primary: false };
        daemon.peer_add(add).map_err(|error| DaemonError::Configure {
            what: format!("peer {}", peer.primary),
            error: Errno(-error.errno),
        })?;
    }
    daemon
        .import_udsp(&config.lnet.udsp)
        .map_err(|error| DaemonError::Configure { what: "udsp".into(), error: Errno(-error.errno) })
}

/// Serves the control socket until a signal says to stop.
fn serve(server: Server, daemon: Arc<Daemon>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tell_systemd("READY=1");
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tell_systemd("STOPPING=1");
        };
        server.serve(daemon, stop).await
    });
    // Pings that nobody waits for any more must not delay the end.
    runtime.shutdown_background();
    served
}

/// Tells the service manager how it goes, if there is one that asks.
fn tell_systemd(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let told = std::os::unix::net::UnixDatagram::unbound()
        .and_then(|socket| socket.send_to(state.as_bytes(), Path::new(&path)));
    if let Err(error) = told {
        tracing::warn!("cannot tell the service manager {state}: {error}");
    }
}

/// The interfaces of this machine.
pub(crate) struct Host;

impl Interfaces for Host {
    fn list(&self) -> Vec<Interface> {
        let found = fulmar_net::interfaces().unwrap_or_else(|error| {
            tracing::error!("cannot list the network interfaces: {error}");
            Vec::new()
        });
        let describe = |one: fulmar_net::Interface| Interface {
            name: one.name,
            ips: one.addresses,
            up: one.up,
            speed_mbps: one.speed.and_then(|speed| u32::try_from(speed).ok()),
        };
        found.into_iter().map(describe).collect()
    }
}

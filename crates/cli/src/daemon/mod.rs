//! `fulmar node`: a node in the foreground, with its control socket.

mod admin;
mod networks;
mod views;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_control::api::{Admin, BindError, Server};
use fulmar_control::config::{Interface, Interfaces, NodeConfig, ResolveError, Role};
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
    #[error("{what} is not supported by this node yet: leave it out of the configuration")]
    Unsupported { what: &'static str },
    #[error("the system refuses: {0}")]
    System(#[from] io::Error),
}

/// Runs a node until SIGINT or SIGTERM.
pub(crate) fn run(config: &NodeConfig) -> Result<(), DaemonError> {
    log();
    refuse_unsupported(config)?;
    let specs = config.nis(&Host).map_err(|error| DaemonError::Resolve { error })?;
    let globals = config.globals().map_err(DaemonError::Globals)?;
    let server = bind(config)?;
    let mut options = Options::default();
    options.config.lnet.globals = globals;
    options.config.socklnd = config.options.parameters.socklnd();
    options.nis = specs.iter().map(networks::options).collect();
    let port = options.config.socklnd.accept_port;
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
    if let Err(error) = configure_peers(&daemon, config) {
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

/// Some parts of a configuration are for features that come later: better said than ignored.
fn refuse_unsupported(config: &NodeConfig) -> Result<(), DaemonError> {
    let lnet = &config.lnet;
    let what = match () {
        () if !lnet.routes.is_empty() || !config.options.routes.is_empty() => "routes",
        () if lnet.routing == Some(true) => "routing",
        () if !lnet.udsp.is_empty() => "udsp",
        () => return Ok(()),
    };
    Err(DaemonError::Unsupported { what })
}

fn bind(config: &NodeConfig) -> Result<Server, BindError> {
    match &config.control {
        Some(path) => Server::bind(Path::new(path), config.metrics),
        None => Server::bind_default(config.metrics),
    }
}

fn configure_peers(daemon: &Daemon, config: &NodeConfig) -> Result<(), DaemonError> {
    for peer in &config.lnet.peers {
        let add = fulmar_control::api::PeerAdd { peer: peer.clone(), lock_primary: false };
        daemon.peer_add(add).map_err(|error| DaemonError::Configure {
            what: format!("peer {}", peer.primary),
            error: Errno(-error.errno),
        })?;
    }
    Ok(())
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

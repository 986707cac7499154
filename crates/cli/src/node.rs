//! `fulmar node`: builds the configuration from a file and options, and starts the node.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fulmar_control::config::{Diagnostic, Module, NodeConfig, Source};
use fulmar_daemon::CheckReport;
use fulmar_lnet_wire::Nid;
use fulmar_net::Node;

use crate::context::complain;

/// Run a node
///
/// The configuration is read from a file: lnet.conf as "lnetctl export --backup" writes it, with a
/// key "node" for settings of Fulmar; or modprobe.d lines such as "options lnet
/// networks=tcp(eth0)". Command line options override the file. Without either, the node is on tcp
/// at the first interface that other nodes can reach.
///
/// Exit status: 0 after SIGINT or SIGTERM, 1 if the node cannot start or has failed, with a report
/// on standard error, 2 if the configuration is not valid.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Configuration file
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Networks and their interfaces, such as 'tcp(eth0),tcp1(eth1)'; an address may replace an
    /// interface name
    #[arg(long, value_name = "NETS")]
    networks: Option<String>,
    /// Additional role of the node: selftest, for "fulmar lst"
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Directory of a target to serve, as "fulmar mkfs" has made it; once for each target. "fulmar
    /// target" starts and stops them later
    #[arg(long = "target", value_name = "DIR")]
    targets: Vec<PathBuf>,
    /// Which connections to accept: secure (from ports below 1024), all, or none
    #[arg(long, value_name = "WHOSE")]
    accept: Option<String>,
    /// NIDs that may connect from other addresses than their own, for nodes behind NAT:
    /// "10.1.0.*@tcp from 192.0.2.7; ..."
    #[arg(long, value_name = "RULES")]
    accept_nid: Option<String>,
    /// TCP port of this node and of its peers [default: 988]
    #[arg(long, value_name = "PORT")]
    accept_port: Option<String>,
    /// Control socket [default: /run/fulmar/control.sock, else
    /// $XDG_RUNTIME_DIR/fulmar/control.sock]
    #[arg(long, env = "FULMAR_CONTROL", hide_env_values = true, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Address and port to serve a web page of what "fulmar top" shows, and /metrics for
    /// Prometheus, such as 127.0.0.1:9988
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
    /// Check the configuration, and whether this machine has its interfaces, networks and CPUs; report
    /// all errors, and exit
    #[arg(long)]
    check: bool,
}

/// Exit status for an invalid request.
const INVALID: u8 = 2;

impl Args {
    /// Adds a directory of targets to serve.
    pub(crate) fn add_target(&mut self, directory: PathBuf) {
        self.targets.push(directory);
    }

    /// Returns whether the configuration is only checked.
    pub(crate) fn only_checks(&self) -> bool {
        self.check
    }
}

pub(crate) fn main(args: Args) -> ExitCode {
    run_as(args, |_| {}, |_, _| ())
}

/// Runs a node; `announce` gets its NIDs before it starts. When it serves, `beside` is called with them, and what
/// it returns is dropped before the node stops.
pub(crate) fn run_as<T>(
    args: Args,
    announce: impl FnOnce(&[Nid]),
    beside: impl FnOnce(&Node, &[Nid]) -> T,
) -> ExitCode {
    let check = args.check;
    match configure(args) {
        Ok(config) if check => report(&fulmar_daemon::check(&config)),
        Ok(config) => {
            // The start explains why there are none.
            let nids = fulmar_daemon::nids(&config).unwrap_or_default();
            if !nids.is_empty() {
                announce(&nids);
            }
            run(&config, |node| beside(node, &nids))
        }
        Err(message) => {
            complain(&format!("{message}\n"));
            ExitCode::from(INVALID)
        }
    }
}

/// Prints what a start would find.
fn report(checked: &CheckReport) -> ExitCode {
    for note in &checked.notes {
        complain(&format!("fulmar: note: {note}\n"));
    }
    for problem in &checked.problems {
        complain(&format!("fulmar: {problem}\n"));
    }
    if checked.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Reads the file and applies the options.
fn configure(args: Args) -> Result<NodeConfig, String> {
    let mut config = match &args.config {
        Some(path) => {
            let source = read_source(path)
                .map_err(|error| format!("fulmar: {error}; give the configuration file with -c"))?;
            NodeConfig::parse(&source).map_err(describe)?
        }
        None => NodeConfig::default(),
    };
    if let Some(networks) = &args.networks {
        config.set_networks(networks).map_err(describe)?;
    }
    let parameters = [
        ("accept", &args.accept),
        ("accept_nid", &args.accept_nid),
        ("accept_port", &args.accept_port),
    ];
    for (name, value) in parameters {
        if let Some(value) = value {
            config.set(Module::Lnet, name, value).map_err(describe)?;
        }
    }
    for role in &args.roles {
        config.add_role(role).map_err(describe)?;
    }
    config.targets.extend(args.targets);
    config.control = args.control.or(config.control);
    config.metrics = args.metrics.or(config.metrics);
    config.globals().map_err(|error| format!("fulmar: invalid global values: {error}"))?;
    Ok(config)
}

/// Returns how a node is stopped, by its service if that runs it.
pub(crate) fn how_to_stop() -> String {
    // The service manager keeps this link while the service runs.
    let unit = Path::new("/run/systemd/units/invocation:fulmar-node.service");
    let how = match unit.symlink_metadata() {
        Ok(_) => "systemctl stop fulmar-node",
        Err(_) => "end the process that runs \"fulmar node\"",
    };
    format!("LNet ends with its node: {how}")
}

/// Reads a file that has the configuration of a node.
pub(crate) fn read_source(path: &Path) -> Result<Source, String> {
    let name = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    Ok(Source::new(name.to_string(), text))
}

fn describe(error: Diagnostic) -> String {
    error.to_string()
}

/// Starts the node and returns when it has ended.
fn run<T>(config: &NodeConfig, beside: impl FnOnce(&Node) -> T) -> ExitCode {
    match fulmar_daemon::run_beside(config, beside) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("fulmar: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

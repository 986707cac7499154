//! `fulmar interop`: checks interoperability with a real Lustre node.

mod checks;
mod run;

use std::process::ExitCode;
use std::time::Duration;

use fulmar_lnet_wire::socklnd::{ACCEPT_PORT, ConnKind};
use fulmar_lnet_wire::{NetType, Nid};

use crate::context::complain;

pub use run::{Options, interface, run};

/// Check interoperability of this machine with a real Lustre node
///
/// Starts a node for the duration of the checks, connects it to the other node, and prints a line
/// for each check: handshake, connections, ping, discovery and more. The other node learns this one
/// as a peer: this node pushes its NIDs to it, may switch its own discovery off and on to make the
/// other push too, and sends it one message that it must drop. Its files and settings are not
/// changed.
///
/// Kernel nodes accept connections only from privileged ports: run as root or with
/// CAP_NET_BIND_SERVICE, while no other program on this machine uses the port.
///
/// Exit status: 0 if every check passed, 1 if one failed or could not run, 2 if the request is
/// invalid.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// NID of the node, such as 10.0.0.1@tcp
    #[arg(value_parser = tcp_nid)]
    nid: Nid,
    /// Local interface, by name or address; by default the one with the route to the node
    #[arg(long, value_name = "IF|ADDR")]
    interface: Option<String>,
    /// Timeout of an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=TIMEOUT_MAX))]
    timeout: u64,
    /// TCP port of both nodes
    #[arg(long, default_value_t = ACCEPT_PORT,
        value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
}

/// The longest timeout of an answer, in seconds.
const TIMEOUT_MAX: u64 = 3600;

/// Reads a NID on a TCP network.
fn tcp_nid(text: &str) -> Result<Nid, String> {
    let nid: Nid = text.parse().map_err(|error| format!("{error}"))?;
    match nid.net().kind() == NetType::TCP && nid.ip().is_some() {
        true => Ok(nid),
        false => Err("this network is not supported: use a NID on tcp".to_owned()),
    }
}

pub(crate) fn main(args: &Args) -> ExitCode {
    let options = Options {
        interface: args.interface.as_deref().map(interface),
        timeout: Duration::from_secs(args.timeout),
        port: args.port,
        ..Options::new(args.nid)
    };
    match run(&options, &mut std::io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("fulmar: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Returns the name of a kind of connection, as seen from this side.
pub(crate) fn connection_kind(kind: ConnKind) -> String {
    kind.name().unwrap_or("unknown").to_lowercase().replace('_', " ")
}

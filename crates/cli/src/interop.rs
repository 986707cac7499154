//! `fulmar interop`.

use std::process::ExitCode;
use std::time::Duration;

use fulmar_lnet_wire::{NetType, Nid};
use fulmar_proof::interop;

use crate::context::complain;

/// Check what works between this machine and a real Lustre node
///
/// Starts a node for as long as it takes, connects it to the other, and prints a line for each check:
/// handshake, connections, ping, discovery and more. The other node learns this one as a peer: our
/// list of NIDs is pushed to it, our discovery may be switched off and on again to see it push its
/// own, and one message is sent that it must drop. Its files and settings are left alone.
///
/// Nodes of the kernel take calls from privileged ports only: run as root or with
/// CAP_NET_BIND_SERVICE, while nothing else on this machine has the port.
///
/// Exit status: 0 if every check passed, 1 if one failed or none could be made, 2 if the request was
/// wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The node, such as 10.0.0.1@tcp
    #[arg(value_parser = tcp_nid)]
    nid: Nid,
    /// Our interface, by name or address; else the one that leads to the node
    #[arg(long, value_name = "IF|ADDR")]
    interface: Option<String>,
    /// How long an answer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=TIMEOUT_MAX))]
    timeout: u64,
    /// TCP port of both nodes
    #[arg(long, default_value_t = fulmar_lnet_wire::socklnd::ACCEPT_PORT,
        value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
}

/// Nobody waits longer for one answer, in seconds.
const TIMEOUT_MAX: u64 = 3600;

/// Reads the NID of a node that can be spoken to.
fn tcp_nid(text: &str) -> Result<Nid, String> {
    let nid: Nid = text.parse().map_err(|error| format!("{error}"))?;
    match nid.net().kind() == NetType::TCP && nid.ip().is_some() {
        true => Ok(nid),
        false => Err("it is on a network that is not spoken here: name a NID on tcp".to_owned()),
    }
}

pub(crate) fn main(args: &Args) -> ExitCode {
    let options = interop::Options {
        interface: args.interface.as_deref().map(interop::interface),
        timeout: Duration::from_secs(args.timeout),
        port: args.port,
        ..interop::Options::new(args.nid)
    };
    match interop::run(&options, &mut std::io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("fulmar: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

//! `fulmar interop`: checks interoperability with a real Lustre node, or with a file system of such nodes.

mod checks;
pub mod files;
mod run;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fulmar_client::{Address, AddressError, SessionOptions};
use fulmar_lnet_wire::socklnd::{ACCEPT_PORT, ConnKind};
use fulmar_lnet_wire::{NetType, Nid};

use crate::context::complain;

pub use run::{Options, interface, run};

/// Check interoperability of this machine with a real Lustre node, or with its file system
///
/// Of a node: starts a node for the duration of the checks, connects it to the other node, and prints a line
/// for each check: handshake, connections, ping, discovery and more. The other node learns this one
/// as a peer: this node pushes its NIDs to it, may switch its own discovery off and on to make the
/// other push too, and sends it one message that it must drop. Its files and settings are not
/// changed.
///
/// Of a file system: mounts it twice by FUSE, and checks in a new directory what programs expect of names, modes,
/// links, renames, data, attributes and locks, that each mount sees at once what the other has done, and
/// random operations by both. The mounts and the directory are removed at the end, also after SIGINT. This
/// needs root and /dev/fuse.
///
/// Kernel nodes accept connections only from privileged ports: run as root or with
/// CAP_NET_BIND_SERVICE, while no other program on this machine uses the port.
///
/// Exit status: 0 if every check passed, 1 if one failed or could not begin, 2 if the request is
/// invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// NID of the node, such as 10.0.0.1@tcp, or a file system as for mount: 10.0.0.1@tcp:/lustre
    #[arg(value_name = "NID|MGS:/NAME", value_parser = subject)]
    subject: Subject,
    /// Local interface, by name or address; by default the one with the route to the node
    #[arg(long, value_name = "IF|ADDR")]
    interface: Option<String>,
    /// Timeout of an answer; of a file system, how long to wait for its servers
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=TIMEOUT_MAX))]
    timeout: u64,
    /// TCP port of all nodes
    #[arg(long, default_value_t = ACCEPT_PORT,
        value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// How long each of the random checks of a file system takes
    #[arg(long, value_name = "SECONDS", default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..=RANDOM_MAX))]
    seconds: u64,
    /// What the random checks begin with, to repeat them
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Only the checks of a file system whose titles contain this, such as "random data"
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = files::title)]
    only: String,
}

const EXAMPLES: &str = "Examples:
  fulmar interop 10.0.0.1@tcp
  fulmar interop 10.0.0.1@tcp:/lustre --seconds 600";

/// What is checked.
#[derive(Clone, Debug)]
enum Subject {
    Node(Nid),
    FileSystem(Address),
}

/// The longest timeout of an answer, in seconds.
const TIMEOUT_MAX: u64 = 3600;
/// The longest random check, in seconds: a week.
const RANDOM_MAX: u64 = 7 * 24 * 3600;

fn subject(text: &str) -> Result<Subject, String> {
    if text.contains(":/") {
        let address = text.parse().map_err(|error: AddressError| error.to_string())?;
        return Ok(Subject::FileSystem(address));
    }
    tcp_nid(text).map(Subject::Node)
}

/// Reads a NID on a TCP network.
fn tcp_nid(text: &str) -> Result<Nid, String> {
    let nid: Nid = text.parse().map_err(|error| format!("{error}"))?;
    if nid.net().kind() == NetType::TCP && nid.ip().is_some() {
        Ok(nid)
    } else {
        Err("this network is not supported: use a NID on tcp".to_owned())
    }
}

pub(crate) fn main(args: &Args) -> ExitCode {
    let out = &mut std::io::stdout().lock();
    let passed = match &args.subject {
        Subject::Node(nid) => run(&args.of_node(*nid), out),
        Subject::FileSystem(address) => files::run(&args.of_file_system(address), out),
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("fulmar: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

impl Args {
    fn of_node(&self, nid: Nid) -> Options {
        Options {
            interface: self.interface.as_deref().map(interface),
            timeout: Duration::from_secs(self.timeout),
            port: self.port,
            ..Options::new(nid)
        }
    }

    fn of_file_system(&self, address: &Address) -> files::Options {
        let session = SessionOptions {
            interface: self.interface.as_deref().map(interface),
            port: self.port,
            timeout: Duration::from_secs(self.timeout),
        };
        let drawn =
            || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let seed = self.seed.unwrap_or_else(|| drawn().into());
        let time = Duration::from_secs(self.seconds);
        let only = self.only.clone();
        let settings = files::Settings { time, seed, only, stop: Arc::default() };
        files::Options { address: address.clone(), session, settings }
    }
}

/// Returns the name of a kind of connection, as seen from this side.
pub(crate) fn connection_kind(kind: ConnKind) -> String {
    kind.name().unwrap_or("unknown").to_lowercase().replace('_', " ")
}

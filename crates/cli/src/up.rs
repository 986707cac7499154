//! `fulmar up`: a whole file system on this node.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fulmar_client::{Address, AddressError};
use fulmar_lnet_wire::Nid;
use fulmar_rpc::import::TargetKind;
use fulmar_server::{StorageError, TargetLabel};

use crate::context::complain;
use crate::node;

/// Run a file system on this node
///
/// The directory gets a management service, an MDT and OSTs when it is empty or new, and one node
/// serves them all. After an end of any kind the next start goes on with what is there. More OSTs
/// than there are extend the file system.
///
/// Exit status: as that of "fulmar node".
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
// That of the node's arguments has the same name.
#[group(skip)]
pub(crate) struct Args {
    /// Directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Name of a new file system: 1 to 8 letters, digits, _ or -
    #[arg(long, value_name = "NAME", default_value = "lustre")]
    fsname: String,
    /// Number of OSTs, if there are fewer
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=OSTS_MAX))]
    osts: u16,
    #[command(flatten)]
    node: node::Args,
}

/// The most OSTs of one node: each has threads and a store.
const OSTS_MAX: i64 = 64;

const EXAMPLES: &str = "Examples:
  fulmar up /srv/lustre --networks 'tcp(eth0)'
  fulmar up /srv/lustre --osts 4
  fulmar fsck /srv/lustre";

pub(crate) fn main(mut args: Args) -> ExitCode {
    if !args.node.only_checks()
        && let Err(error) = make(&args)
    {
        complain(&format!("fulmar up: {error}\n"));
        return ExitCode::FAILURE;
    }
    args.node.add_target(args.directory.clone());
    node::run_as(args.node, |nids| println!("{}", welcome(&args.directory, nids)))
}

/// Makes what is missing in the directory.
fn make(args: &Args) -> Result<(), String> {
    let refused = |error: StorageError| error.to_string();
    let is_whole = fulmar_server::parts_of(&args.directory).len() > 1;
    // What is damaged there is reported when it is served.
    let known = is_whole.then(|| fulmar_server::file_system_of(&args.directory).ok()).flatten();
    let name = known.as_ref().unwrap_or(&args.fsname);
    // The management service is on the same node, whatever the NIDs of that are.
    let address: Address = format!("{}:/{name}", Nid::LOOPBACK)
        .parse()
        .map_err(|error: AddressError| error.to_string())?;
    let mdt = TargetLabel { kind: TargetKind::Mdt, index: 0, address };
    // Without the name no OST is made.
    let osts = if is_whole && known.is_none() { 0 } else { args.osts };
    fulmar_server::complete(&args.directory, &mdt, osts).map_err(refused)
}

/// What an administrator wants to know.
fn welcome(directory: &Path, nids: &[Nid]) -> String {
    let name = fulmar_server::file_system_of(directory);
    let name = name.unwrap_or_else(|_| "FSNAME".to_owned());
    let osts = fulmar_server::parts_of(directory).len() - 2;
    let plural = if osts == 1 { "" } else { "s" };
    let nids: Vec<String> = nids.iter().map(Nid::to_string).collect();
    let nids = nids.join(",");
    format!(
        "{}: file system {name}, {osts} OST{plural}\n\
         on clients with a kernel module: mount -t lustre -o flock {nids}:/{name} /mnt/{name}",
        directory.display()
    )
}

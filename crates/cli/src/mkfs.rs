//! `fulmar mkfs`: makes the storage of a target.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fulmar_client::AddressError;
use fulmar_lnet_wire::{Net, Nid};
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Label, Partners, Placement, StorageError, TargetLabel, TargetName, nodes_of};

use crate::context::complain;

/// Make the storage of a target in a directory
///
/// The directory must be empty, or is made. It contains a database and, later, a file for each
/// object; any local file system will do. Then serve it: "fulmar node --target DIR", or from a node that
/// runs, "fulmar target start DIR".
///
/// A management service (MGS) has the configurations of file systems: which targets each has, and
/// where. Targets of kernel servers register with it as with a kernel MGS: give its NID to
/// "mkfs.lustre --mgsnode". Clients mount the file system from it.
///
/// A metadata target (MDT) has the tree of a file system, and chooses where files go. With --mgs the
/// directory is for both, and the MDT registers with the MGS beside it.
///
/// An object storage target (OST) has the data of files. It joins a file system: it registers with
/// the MGS, and gets sequences for its objects from MDT0000.
///
/// Exit status: 0, 1 if the directory cannot be used, 2 if the request is invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = clap::ArgGroup::new("kind").required(true).multiple(true))]
pub(crate) struct Args {
    /// Make a management service
    #[arg(long, group = "kind")]
    mgs: bool,
    /// Make an MDT
    #[arg(long, group = "kind", requires = "fsname")]
    mdt: bool,
    /// Make an OST
    #[arg(long, group = "kind", conflicts_with_all = ["mgs", "mdt"], requires_all = ["fsname", "index", "mgsnode"])]
    ost: bool,
    /// Name of the file system: 1 to 8 letters, digits, _ or -
    #[arg(long, value_name = "NAME")]
    fsname: Option<String>,
    /// Index of the target in the file system; 0 for an MDT
    #[arg(long, value_name = "N", requires = "fsname", value_parser = clap::value_parser!(u16).range(..=INDEX_MAX))]
    index: Option<u16>,
    /// NIDs of the node of the MGS, with commas; once for each node that may run it
    #[arg(long, value_name = "NIDS", conflicts_with = "mgs")]
    mgsnode: Vec<String>,
    /// Register only the NIDs of these networks, with commas: clients reach the target there
    #[arg(long, value_name = "NETS", requires = "fsname", value_delimiter = ',')]
    network: Vec<Net>,
    /// NIDs of another node that may run the target, with commas; once for each node
    #[arg(long, value_name = "NIDS", requires = "fsname", conflicts_with = "servicenode")]
    failnode: Vec<String>,
    /// NIDs of a node that may run the target, with commas; once for each node, with the one that runs
    /// it first
    #[arg(long, value_name = "NIDS", requires = "fsname")]
    servicenode: Vec<String>,
    /// Directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The largest index.
const INDEX_MAX: i64 = TargetName::INDEX_MAX as i64;

const EXAMPLES: &str = "Examples:
  fulmar mkfs --mgs --mdt --fsname lustre /srv/mdt0
  fulmar mkfs --ost --fsname lustre --index 1 --mgsnode 10.0.0.1@tcp /srv/ost1
  fulmar mkfs --ost --fsname lustre --index 2 --mgsnode 10.0.0.1@tcp --network tcp1 /srv/ost2
  fulmar mkfs --ost --fsname lustre --index 3 --mgsnode 10.0.0.1@tcp \\
      --servicenode 10.0.0.3@tcp --servicenode 10.0.0.4@tcp /srv/ost3
  fulmar node --target /srv/mdt0 --target /srv/ost1 --networks 'tcp(eth0)'";

/// What is to be made.
enum FormatRequest {
    One(Label),
    /// A management service and an MDT.
    Both(TargetLabel),
}

pub(crate) fn main(args: &Args) -> ExitCode {
    let wanted = match wanted(args).and_then(|wanted| Ok((wanted, placement(args)?))) {
        Ok(wanted) => wanted,
        Err(error) => {
            complain(&format!("fulmar mkfs: {error}\n"));
            return ExitCode::from(2);
        }
    };
    match make(&args.directory, &wanted.0, &wanted.1) {
        Ok(made) => {
            println!("{}: made {made}", args.directory.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&format!("fulmar mkfs: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

fn make(
    directory: &Path,
    wanted: &FormatRequest,
    placement: &Placement,
) -> Result<String, StorageError> {
    let made = match wanted {
        FormatRequest::One(label) => {
            fulmar_server::format(directory, label)?;
            label.to_string()
        }
        FormatRequest::Both(mdt) => {
            fulmar_server::format_both(directory, mdt)?;
            format!("MGS and {}", mdt.name())
        }
    };
    if *placement != Placement::default() {
        fulmar_server::place(directory, placement)?;
    }
    Ok(made)
}

fn wanted(args: &Args) -> Result<FormatRequest, String> {
    let Some(name) = &args.fsname else { return Ok(FormatRequest::One(Label::Mgs)) };
    let kind = match (args.mdt, args.ost) {
        (false, false) => return Err("a management service has no --fsname".to_owned()),
        (true, _) => TargetKind::Mdt,
        (false, true) => TargetKind::Ost,
    };
    let mgs = match args.mgsnode.join(":") {
        text if !text.is_empty() => text,
        _ if args.mgs => Nid::LOOPBACK.to_string(),
        _ => return Err("where is the management service? Give --mgsnode, or --mgs".to_owned()),
    };
    let address = format!("{mgs}:/{name}").parse().map_err(|error: AddressError| error.to_string());
    let target = TargetLabel { kind, index: args.index.unwrap_or(0), address: address? };
    if kind == TargetKind::Mdt && target.index != 0 {
        return Err("a file system has one MDT for now: its --index is 0".to_owned());
    }
    Ok(if args.mgs {
        FormatRequest::Both(target)
    } else {
        FormatRequest::One(Label::Target(target))
    })
}

fn placement(args: &Args) -> Result<Placement, String> {
    let nodes = |given: &[String]| -> Result<Vec<Vec<Nid>>, String> {
        let nodes = given.iter().map(|text| nodes_of(text).map_err(|error| error.to_string()));
        Ok(nodes.collect::<Result<Vec<_>, _>>()?.concat())
    };
    let partners = match (args.failnode.is_empty(), args.servicenode.is_empty()) {
        (true, true) => Partners::None,
        (false, _) => Partners::FailNodes(nodes(&args.failnode)?),
        (true, false) => Partners::ServiceNodes(nodes(&args.servicenode)?),
    };
    let placement = Placement { networks: args.network.clone(), partners };
    if placement.is_short() {
        Ok(placement)
    } else {
        Err("there are too many networks and nodes".to_owned())
    }
}

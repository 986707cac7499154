//! `fulmar mkfs`: makes the storage of a target.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fulmar_client::AddressError;
use fulmar_lnet_wire::Nid;
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Label, StorageError, TargetLabel, TargetName};

use crate::context::complain;

/// Make the storage of a target in a directory
///
/// The directory must be empty, or is made. It contains a database and, later, a file for each
/// object; any local file system will do. Then serve it: "fulmar node --target DIR".
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
    /// Directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The largest index.
const INDEX_MAX: i64 = TargetName::INDEX_MAX as i64;

const EXAMPLES: &str = "Examples:
  fulmar mkfs --mgs --mdt --fsname lustre /srv/mdt0
  fulmar mkfs --ost --fsname lustre --index 1 --mgsnode 10.0.0.1@tcp /srv/ost1
  fulmar node --target /srv/mdt0 --target /srv/ost1 --networks 'tcp(eth0)'";

/// What is to be made.
enum Wanted {
    One(Label),
    /// A management service and an MDT.
    Both(TargetLabel),
}

pub(crate) fn main(args: &Args) -> ExitCode {
    let wanted = match wanted(args) {
        Ok(wanted) => wanted,
        Err(error) => {
            complain(&format!("fulmar mkfs: {error}\n"));
            return ExitCode::from(2);
        }
    };
    match make(&args.directory, &wanted) {
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

fn make(directory: &Path, wanted: &Wanted) -> Result<String, StorageError> {
    match wanted {
        Wanted::One(label) => {
            fulmar_server::format(directory, label)?;
            Ok(label.to_string())
        }
        Wanted::Both(mdt) => {
            fulmar_server::format_both(directory, mdt)?;
            Ok(format!("MGS and {}", mdt.name()))
        }
    }
}

fn wanted(args: &Args) -> Result<Wanted, String> {
    let Some(name) = &args.fsname else { return Ok(Wanted::One(Label::Mgs)) };
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
    Ok(match args.mgs {
        true => Wanted::Both(target),
        false => Wanted::One(Label::Target(target)),
    })
}

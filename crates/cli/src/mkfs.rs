//! `fulmar mkfs`: makes the storage of a target.

use std::path::PathBuf;
use std::process::ExitCode;

use fulmar_client::AddressError;
use fulmar_server::{Label, OstLabel, TargetName};

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
/// An object storage target (OST) has the data of files. It joins a file system: it registers with
/// the MGS, and gets sequences for its objects from MDT0000.
///
/// Exit status: 0, 1 if the directory cannot be used, 2 if the request is invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = clap::ArgGroup::new("kind").required(true))]
pub(crate) struct Args {
    /// Make a management service
    #[arg(long, group = "kind")]
    mgs: bool,
    /// Make an OST
    #[arg(long, group = "kind", requires_all = ["fsname", "index", "mgsnode"])]
    ost: bool,
    /// Name of the file system: 1 to 8 letters, digits, _ or -
    #[arg(long, value_name = "NAME", conflicts_with = "mgs")]
    fsname: Option<String>,
    /// Index of the target in the file system
    #[arg(long, value_name = "N", conflicts_with = "mgs", value_parser = clap::value_parser!(u16).range(..=INDEX_MAX))]
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
  fulmar mkfs --mgs /srv/mgs
  fulmar mkfs --ost --fsname lustre --index 1 --mgsnode 10.0.0.1@tcp /srv/ost1
  fulmar node --target /srv/mgs --target /srv/ost1 --networks 'tcp(eth0)'";

pub(crate) fn main(args: &Args) -> ExitCode {
    let label = match label(args) {
        Ok(label) => label,
        Err(error) => {
            complain(&format!("fulmar mkfs: {error}\n"));
            return ExitCode::from(2);
        }
    };
    match fulmar_server::format(&args.directory, &label) {
        Ok(()) => {
            println!("{}: made {label}", args.directory.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&format!("fulmar mkfs: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

fn label(args: &Args) -> Result<Label, AddressError> {
    match (args.ost, &args.fsname, args.index) {
        (true, Some(name), Some(index)) => {
            let address = format!("{}:/{name}", args.mgsnode.join(":")).parse()?;
            Ok(Label::Ost(OstLabel { index, address }))
        }
        _ => Ok(Label::Mgs),
    }
}

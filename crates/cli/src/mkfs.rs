//! `fulmar mkfs`: makes the storage of a target.

use std::path::PathBuf;
use std::process::ExitCode;

use fulmar_server::Label;

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
/// Exit status: 0, 1 if the directory cannot be used, 2 if the request is invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Make a management service
    #[arg(long, required = true)]
    mgs: bool,
    /// Directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

const EXAMPLES: &str = "Examples:
  fulmar mkfs --mgs /srv/mgs
  fulmar node --target /srv/mgs --networks 'tcp(eth0)'";

pub(crate) fn main(args: &Args) -> ExitCode {
    let directory = &args.directory;
    let label = Label::Mgs;
    match fulmar_server::format(directory, &label) {
        Ok(()) => {
            println!("{}: the storage of an MGS is made", directory.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&format!("fulmar: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

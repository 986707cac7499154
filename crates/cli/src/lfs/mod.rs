//! `fulmar lfs`: what Lustre's `lfs` says of a file system, of one that is not mounted.

mod check;
mod df;
mod files;
mod mount;
mod targets;

use std::process::ExitCode;

use clap::Subcommand;
use fulmar_base::Errno;

use crate::context::{Status, complain};

pub(crate) use mount::{Mount, MountArgs, ReachArgs};

/// Show the size, the use and the servers of a Lustre file system that is not mounted
///
/// Commands and output are those of Lustre's lfs. Instead of a mount point, give what mount takes:
/// the NIDs of the management service (MGS) and the name of the file system. The program connects
/// to the servers as a client does, and disconnects at the end.
///
/// Kernel nodes accept connections only from privileged ports: run as root or with
/// CAP_NET_BIND_SERVICE. No other LNet node may run at the same address of this machine.
///
/// Exit status: 0; 1 if the servers of the file system could not be found; 2 if the request is
/// invalid; else, as with Lustre's lfs, the number of the error of a target that does not answer.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  fulmar lfs df 10.0.0.1@tcp:/lustre
  fulmar lfs df -h 10.0.0.1@tcp:10.0.0.2@tcp:/lustre     (an MGS with a failover node)
  fulmar lfs check servers 10.0.0.1@tcp:/lustre --timeout 10
  fulmar lfs osts 10.0.0.1@tcp:/lustre --json
  fulmar lfs ls 10.0.0.1@tcp:/lustre/projects";

#[derive(Debug, Subcommand)]
enum Command {
    Df(df::Args),
    /// List the OSTs
    Osts(MountArgs),
    /// List the MDTs
    Mdts(MountArgs),
    Check(check::Args),
    Ls(files::LsArgs),
    Path2fid(files::PathArgs),
    Getstripe(files::PathArgs),
}

pub(crate) fn main(args: Args) -> ExitCode {
    ExitCode::from(match args.command {
        Command::Df(args) => df::run(&args),
        Command::Osts(mount) => targets::osts(&mount),
        Command::Mdts(mount) => targets::mdts(&mount),
        Command::Check(args) => check::run(&args),
        Command::Ls(args) => files::ls(&args),
        Command::Path2fid(args) => files::path2fid(&args),
        Command::Getstripe(args) => files::getstripe(&args),
    })
}

/// Exit status if the servers of the file system could not be found.
const NOT_FOUND: Status = 1;

/// Reports an error, with its remedy.
fn fail(command: &str, error: &str) -> Status {
    complain(&format!("fulmar {command}: {error}\n"));
    NOT_FOUND
}

/// Returns the exit status for results: that of the first error.
fn status<T>(results: &[Result<T, Errno>]) -> Status {
    let error = |result: &Result<T, Errno>| match result {
        // A target that is not active is in order.
        Ok(_) | Err(Errno::ENODATA) => None,
        Err(errno) => Some(Status::try_from(errno.0.unsigned_abs()).unwrap_or(NOT_FOUND)),
    };
    results.iter().find_map(error).unwrap_or(0)
}

//! `fulmar lfs`: what Lustre's `lfs` says of a file system and its files.

mod check;
mod df;
mod find;
mod getdirstripe;
mod getstripe;
mod ids;
mod ls;
mod mkdir;
mod mount;
mod names;
mod place;
mod quota;
mod setstripe;
mod targets;
mod whole;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Subcommand;
use fulmar_base::Errno;
use fulmar_rpc::import::TargetKind;

use crate::context::{Status, complain};

pub(crate) use getstripe::components_in_use;
pub(crate) use mount::{Mount, MountArgs, ReachArgs};
pub(crate) use setstripe::set_layout;

/// Show a Lustre file system and its servers, and the layouts of its files
///
/// Commands and output are those of Lustre's lfs. A file system that is not mounted is named as for mount,
/// by the NIDs of the management service (MGS) and its name: the program connects to the servers as a
/// client does, and disconnects at the end. All commands but ls also take paths on a mount by fulmar.
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
  fulmar lfs df -h /mnt/lustre
  fulmar lfs df 10.0.0.1@tcp:/lustre
  fulmar lfs df -h 10.0.0.1@tcp:10.0.0.2@tcp:/lustre     (an MGS with a failover node)
  fulmar lfs quota -h -u alice /mnt/lustre
  fulmar lfs check servers 10.0.0.1@tcp:/lustre --timeout 10
  fulmar lfs osts 10.0.0.1@tcp:/lustre --json
  fulmar lfs setstripe -c 4 -S 4M /mnt/lustre/wide
  fulmar lfs getstripe -d /mnt/lustre/wide
  fulmar lfs ls 10.0.0.1@tcp:/lustre/projects";

#[derive(Debug, Subcommand)]
enum Command {
    Df(df::Args),
    Quota(quota::Args),
    /// List the OSTs
    Osts(whole::WholeArgs),
    /// List the MDTs
    Mdts(whole::WholeArgs),
    Check(check::Args),
    Ls(ls::Args),
    Find(find::Args),
    Mkdir(mkdir::Args),
    /// The same as mkdir
    Setdirstripe(mkdir::Args),
    Getdirstripe(getdirstripe::Args),
    Getstripe(getstripe::Args),
    Setstripe(setstripe::Args),
    Path2fid(names::Path2FidArgs),
    Fid2path(names::Fid2PathArgs),
}

/// Returns the command line of `fulmar lfs` for one of `lfs`.
pub(crate) fn tool(args: &[OsString]) -> Vec<OsString> {
    let own = ["fulmar", "lfs"].map(OsString::from);
    own.into_iter().chain(args.iter().skip(1).cloned()).collect()
}

pub(crate) fn main(args: Args) -> ExitCode {
    ExitCode::from(match args.command {
        Command::Df(args) => df::run(&args),
        Command::Quota(args) => quota::run(&args),
        Command::Osts(args) => targets::run(&args, TargetKind::Ost),
        Command::Mdts(args) => targets::run(&args, TargetKind::Mdt),
        Command::Check(args) => check::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Find(args) => find::run(&args),
        Command::Mkdir(args) | Command::Setdirstripe(args) => mkdir::run(&args),
        Command::Getdirstripe(args) => getdirstripe::run(&args),
        Command::Getstripe(args) => getstripe::run(&args),
        Command::Setstripe(args) => setstripe::run(&args),
        Command::Path2fid(args) => names::path2fid(&args),
        Command::Fid2path(args) => names::fid2path(&args),
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

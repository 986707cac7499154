//! `fulmar target`: starts and stops targets of a running node.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use fulmar_control::api::{CallError, Operation, TargetShow, TargetStart, TargetStop};
use fulmar_control::show::Target;
use fulmar_text::{Table, left, right};

use crate::context::{NodeArgs, Status, complain, print};

/// Start and stop targets of a running node, and list them
///
/// What "mount -t lustre" and "umount" do on a kernel server. While a target is stopped its clients
/// wait; when it is started again, here or on another node that may serve it, they go on where they were. The
/// other targets of the node are not affected.
///
/// A target whose disk has failed is stopped and started again when the disk is repaired. What is
/// started so is for the present run of the node: the next one has the targets of its options and of its
/// configuration file.
///
/// Exit status: 0; 1 if the node refuses or there is none; 2 if the request is invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    which: NodeArgs,
}

const EXAMPLES: &str = "Examples:
  fulmar target list
  fulmar target stop lustre-OST0001
  fulmar target start /srv/ost1
  fulmar mkfs --ost --fsname lustre --index 2 --mgsnode 10.0.0.1@tcp /srv/ost2 && \\
      fulmar target start /srv/ost2";

#[derive(Debug, Subcommand)]
enum Command {
    /// List the targets of the node, their clients and directories, and why one is not served
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Serve the targets in directories that "fulmar mkfs" or "fulmar up" has made
    Start {
        /// Directory of a target, or of several
        #[arg(value_name = "DIR", required = true)]
        directories: Vec<PathBuf>,
    },
    /// Stop targets: what they have is on disk when the command returns, and their directories are free
    Stop {
        /// Name of a target, such as lustre-OST0001, or a directory
        #[arg(value_name = "TARGET", required = true)]
        targets: Vec<PathBuf>,
    },
}

pub(crate) fn main(args: &Args) -> ExitCode {
    ExitCode::from(match &args.command {
        Command::List { json } => list(args, *json).unwrap_or_else(|status| status),
        Command::Start { directories } => each(directories, |directory| {
            let directory = absolute(directory);
            report(args, "started", &TargetStart { directory })
        }),
        Command::Stop { targets } => each(targets, |target| {
            let (name, directory) = (target.display().to_string(), absolute(target));
            report(args, "stopped", &TargetStop { target: name, directory })
        }),
    })
}

/// Does something for all, also after one has failed.
fn each(all: &[PathBuf], mut change: impl FnMut(&Path) -> Result<Status, Status>) -> Status {
    let statuses = all.iter().map(|one| change(one).unwrap_or_else(|status| status));
    statuses.max().unwrap_or_default()
}

/// Changes something, and prints of which targets.
fn report<O: Operation<Reply = Vec<String>>>(
    args: &Args,
    done: &str,
    operation: &O,
) -> Result<Status, Status> {
    let names = call(args, operation)?;
    Ok(print(&names.iter().map(|name| format!("{done} {name}\n")).collect::<String>()))
}

fn list(args: &Args, json: bool) -> Result<Status, Status> {
    let targets = call(args, &TargetShow {})?;
    if json {
        let json = serde_json::to_string_pretty(&targets).expect("they are plain values");
        return Ok(print(&(json + "\n")));
    }
    let printed = print(&table(&targets).to_string());
    for Target { directory, error, .. } in &targets {
        if let Some(why) = error {
            complain(&format!("fulmar target: {directory} is not served: {why}\n"));
        }
    }
    Ok(printed)
}

fn table(targets: &[Target]) -> Table {
    let mut table = Table::new([left("name"), left("state"), right("clients"), left("directory")]);
    for Target { name, directory, clients, has_stopped, error, .. } in targets {
        let state = match (error, has_stopped) {
            (None, _) => "up",
            (Some(_), true) => "failed",
            (Some(_), false) => "not served",
        };
        table.row([name, state, &clients.to_string(), directory]);
    }
    table
}

fn call<O: Operation>(args: &Args, operation: &O) -> Result<O::Reply, Status> {
    args.which.client().call(operation).map_err(|error| {
        complain(&format!("fulmar target: {error}\n"));
        if let CallError::Refused(error) = error
            && let Some(hint) = error.hint
        {
            complain(&format!("hint: {hint}\n"));
        }
        1
    })
}

/// The node may have another working directory.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_shows_what_is_served_and_what_is_not() {
        let target = |name: &str, has_stopped, error: Option<&str>| Target {
            kind: "obdfilter".to_owned(),
            name: name.to_owned(),
            uuid: format!("{name}_UUID"),
            directory: "/srv/ost".to_owned(),
            clients: 3,
            in_hand: 0,
            queued: 0,
            has_stopped,
            error: error.map(str::to_owned),
        };
        let all = [
            target("lv-OST0000", false, None),
            target("lv-OST0001", true, Some("the disk")),
            target("-", false, Some("no such directory")),
        ];
        assert_eq!(
            table(&all).to_string(),
            "name        state       clients  directory\n\
             lv-OST0000  up                3  /srv/ost\n\
             lv-OST0001  failed            3  /srv/ost\n\
             -           not served        3  /srv/ost\n"
        );
    }
}

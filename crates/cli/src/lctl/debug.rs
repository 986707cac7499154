//! `lctl debug_kernel`, `clear`, `mark` and `debug_list`: the debug logs of the node and of mounts. Spec: lnet-admin §20.8.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Subcommand;
use fulmar_base::Errno;
use fulmar_control::api::{CallError, DebugDump, DebugMark, Operation};
use fulmar_control::masks::Masks;
use fulmar_control::show::exit;

use super::{CommandResult, failed, mount_parameters};
use crate::context::{Context, complain, print};

/// The longest text of a mark in bytes.
const MARK_MAX: usize = 255;

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(super) enum Command {
    /// Print the debug logs of the node and of what is mounted here, which are empty then
    ///
    /// The lines are in the order of their times; each has the process that wrote it. With --control, those of that node
    /// only. A log has the latest lines, 5 MB of them: "set_param debug_mb=N" changes that while the node runs. Warnings, errors
    /// and what is for the administrator are always there. "set_param debug=+TYPE" adds lines of a type: net (each
    /// message), neterror (messages that are dropped), rpctrace (each request to or of a target, its result and how long it
    /// took), dlmtrace (locks: requests, grants, callbacks, cancels), ha (connections of a mount, and of the clients of a
    /// target), config (configurations that are changed, registered or applied). There is nothing of the other types: their
    /// names are kept in the mask, and have no effect. neterror, ha and config are there from the start.
    #[command(visible_alias = "dk")]
    DebugKernel {
        /// File to write; standard output by default
        file: Option<PathBuf>,
    },
    /// Empty the debug logs of the node and of what is mounted here
    Clear,
    /// Write a line into these logs that can be found again
    Mark {
        /// Its text; the time by default
        text: Vec<String>,
    },
    /// List the subsystems or the types of the debug log
    DebugList {
        /// subs or types
        #[arg(value_parser = ["subs", "types"])]
        what: String,
    },
}

impl Command {
    pub(super) fn run(self, context: &Context) -> CommandResult {
        match self {
            Self::DebugKernel { file } => dump(file.as_deref(), context),
            Self::Clear => write("clear", &DebugDump { discard: true }, context),
            Self::Mark { text } => mark(&text, context),
            Self::DebugList { what } => Ok(print(&list(&what))),
        }
    }
}

fn dump(file: Option<&Path>, context: &Context) -> CommandResult {
    let mounts = mount_parameters::with_log(context);
    let mut lines = match context.client.call(&DebugDump { discard: false }) {
        Ok(dumped) => dumped.lines,
        Err(CallError::NoNode { .. }) if !mounts.is_empty() => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    lines.extend(mounts.iter().flat_map(|mount| mount_parameters::take_log(mount)));
    // The times have the same length.
    lines.sort_by(|one, other| time_of(one).cmp(&time_of(other)));
    let text = lines.concat();
    match file {
        None => drop(print(&text)),
        Some(path) => {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
            written.map_err(|error| {
                complain(&format!("lctl: cannot write {}: {error}\n", path.display()));
                exit::FAILED
            })?;
        }
    }
    let count = lines.len();
    Ok(print(&format!("Debug log: {count} lines, {count} kept, 0 dropped, 0 bad.\n")))
}

fn mark(text: &[String], context: &Context) -> CommandResult {
    let mut text = text.join(" ");
    if text.is_empty() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        text = format!("{} s since 1970", now.as_secs());
    }
    let end = (0..=MARK_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    write(&text, &DebugMark { text: text.clone() }, context)
}

/// Gives the logs of mounts a text for `debug_marker`, and the node the same as a request.
fn write<R: Operation>(text: &str, request: &R, context: &Context) -> CommandResult {
    let mounts = mount_parameters::with_log(context);
    for mount in &mounts {
        // One of another program has no log.
        if let Err(errno) = mount_parameters::mark_log(mount, text).or_else(no_log) {
            let place = mount.display();
            complain(&format!(
                "lctl: the log of the mount on {place} is not written: {errno}; be root\n"
            ));
            return Err(exit::of_errno(-errno.0));
        }
    }
    match context.client.call(request) {
        Ok(_) => Ok(0),
        Err(CallError::NoNode { .. }) if !mounts.is_empty() => Ok(0),
        Err(error) => Err(failed(error)),
    }
}

fn no_log(errno: Errno) -> Result<(), Errno> {
    if errno == Errno::ENODATA { Ok(()) } else { Err(errno) }
}

/// Returns the time in a line.
fn time_of(line: &str) -> Option<&str> {
    line.split(':').nth(3)
}

fn list(what: &str) -> String {
    let (title, all, masks) = match what {
        "subs" => ("Subsystems", "all_subs", Masks::Subsystems),
        _ => ("Types", "all_types", Masks::Types),
    };
    let names = masks.names().iter().filter(|name| !name.is_empty());
    let names: String = names.map(|name| format!(", {name}")).collect();
    format!("{title}: {all}{names}\n")
}

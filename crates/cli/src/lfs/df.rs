//! `lfs df`: the size and the use of each target, and of the file system. The format is that of
//! Lustre's lfs. Spec: mdt-ost §22.10.

use clap::ArgAction;
use fulmar_base::Errno;
use fulmar_client::{FsTarget, Usage};
use fulmar_lustre_wire::mdt::{Statfs, StatfsState};
use fulmar_rpc::import::TargetKind;
use serde_json::{Value, json};

use super::whole::{Whole, WholeArgs};
use super::{status, targets};
use crate::context::{Status, print};

/// Print the size and the use of each target, and of the file system
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, after_help = STATES)]
pub(super) struct Args {
    #[command(flatten)]
    whole: WholeArgs,
    #[command(flatten)]
    show: Show,
    /// Only MDTs, or only the one with this index
    #[arg(short, long, value_name = "INDEX", num_args = 0..=1, require_equals = true)]
    mdt: Option<Option<u32>>,
    /// Only OSTs, or only the one with this index
    #[arg(short, long, value_name = "INDEX", num_args = 0..=1, require_equals = true)]
    ost: Option<Option<u32>>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

const STATES: &str = "\
A letter at the end of a line is a state: D degraded, R read-only, N no new objects, S out of space,
I out of inodes; with -v also f, no rotating disks.

Examples:
  fulmar lfs df -h /mnt/lustre
  fulmar lfs df -h 10.0.0.1@tcp:/lustre";

/// How quantities are shown.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
struct Show {
    /// Sizes in units such as M, of 1024
    #[arg(short, long = "human-readable", overrides_with = "si")]
    human: bool,
    /// Sizes in units such as M, of 1000
    #[arg(short = 'H', long)]
    si: bool,
    /// Inodes instead of space
    #[arg(short, long)]
    inodes: bool,
    /// Also inactive targets, and states that are no problem
    #[arg(short, long)]
    verbose: bool,
}

/// A target, and its answer.
type Row = (FsTarget, Result<Statfs, Errno>);

pub(super) fn run(args: &Args) -> Status {
    let all = match args.whole.reach("lfs df") {
        Ok(all) => all,
        Err(status) => return status,
    };
    all.into_iter().map(|whole| args.show(whole)).find(|status| *status != 0).unwrap_or(0)
}

impl Args {
    fn show(&self, mut whole: Whole) -> Status {
        let rows: Vec<Row> = whole.statfs(|target| self.wants(target.kind, target.index));
        let has_whole = !matches!((self.mdt, self.ost), (Some(Some(_)), _) | (_, Some(Some(_))));
        print(&if self.whole.json {
            format!("{:#}\n", document(&rows, &whole.place))
        } else {
            table(&rows, self.show, &whole.place, has_whole)
        });
        let answers: Vec<_> = rows.into_iter().map(|(_, answer)| answer).collect();
        status(&answers)
    }

    fn wants(&self, kind: TargetKind, index: u32) -> bool {
        let selected = match kind {
            TargetKind::Mdt => self.mdt,
            _ => self.ost,
        };
        match (selected, self.mdt.is_none() && self.ost.is_none()) {
            (_, true) => true,
            (None, false) => false,
            (Some(only), false) => only.is_none_or(|only| only == index),
        }
    }
}

/// Returns a line for each target and, if `has_whole`, a heading and the sums.
fn table(rows: &[Row], show: Show, place: &str, has_whole: bool) -> String {
    let mut text = if has_whole { heading(show) } else { String::new() };
    for (target, answer) in rows {
        let uuid = target.uuid.to_string();
        match answer {
            Ok(statfs) => {
                let place = format!("{place}[{}]", target.place());
                let states = states(statfs.state, show.verbose);
                text += &line(&uuid, &Usage::of(statfs), show, &place, &states);
            }
            Err(Errno::ENODATA) if !show.verbose => {}
            Err(Errno::ENODATA) => {
                // Lustre's lfs does not know the UUID of such a target.
                let name = format!("{}{:04x}", target.kind_name(), target.index);
                text += &format!("{name:<20}: inactive device\n");
            }
            Err(errno) => text += &format!("{uuid:<20}: {errno}\n"),
        }
    }
    if has_whole {
        let whole = line("filesystem_summary:", &whole(rows), show, place, "");
        text += &format!("\n{whole}\n");
    }
    text
}

fn heading(show: Show) -> String {
    let [size, used, free, share] = match (show.inodes, show.is_scaled()) {
        (true, _) => ["Inodes", "IUsed", "IFree", "IUse%"],
        (false, true) => ["bytes", "Used", "Available", "Use%"],
        (false, false) => ["1K-blocks", "Used", "Available", "Use%"],
    };
    format!("{:<20} {size:>11} {used:>11} {free:>11} {share:>4}  Mounted on\n", "UUID")
}

fn line(uuid: &str, usage: &Usage, show: Show, place: &str, states: &str) -> String {
    let (quantities, share) = if show.inodes {
        let files = [usage.files, usage.used_files(), usage.free_files];
        (files, usage.percent_of_files())
    } else {
        let bytes = [usage.bytes, usage.used(), usage.available];
        let unit = if show.is_scaled() { 1 } else { 1024 };
        (bytes.map(|bytes| bytes / unit), usage.percent())
    };
    let [size, used, free] = quantities.map(|quantity| show.quantity(quantity));
    format!("{uuid:<20} {size} {used} {free} {share:>3}%  {place} {states}\n")
}

impl Show {
    fn is_scaled(self) -> bool {
        self.human || self.si
    }

    /// Returns a number, with a unit if that is wanted. Those with a unit are narrower.
    fn quantity(self, number: u64) -> String {
        let (base, units) = if self.human { (1024.0, "KMGTPEZY") } else { (1000.0, "kMGTPEZY") };
        let (mut scaled, mut unit) = (number as f64, None);
        let mut units = units.chars();
        while self.is_scaled() && scaled > base {
            scaled /= base;
            unit = units.next();
        }
        match unit {
            Some(unit) => format!("{scaled:>8.1}{unit}"),
            None => format!("{number:>11}"),
        }
    }
}

/// Returns the letters of a state: those of problems, or all.
fn states(state: StatfsState, is_verbose: bool) -> String {
    let letters = [
        (StatfsState::DEGRADED, 'D', true),
        (StatfsState::READONLY, 'R', true),
        (StatfsState::NOCREATE, 'N', true),
        (StatfsState::ENOSPC, 'S', true),
        (StatfsState::ENOINO, 'I', true),
        (StatfsState::SUM, 'a', false),
        (StatfsState::NONROT, 'f', false),
    ];
    let is_shown = |(flag, _, is_problem): &&(StatfsState, char, bool)| {
        state.has(*flag) && (is_verbose || *is_problem)
    };
    letters.iter().filter(is_shown).map(|(_, letter, _)| letter).collect()
}

/// Returns the use of the file system. Targets without an answer count with nothing.
fn whole(rows: &[Row]) -> Usage {
    let of = |kind| -> Vec<Usage> {
        let active = rows
            .iter()
            .filter(|(target, answer)| target.kind == kind && *answer != Err(Errno::ENODATA));
        active.map(|(_, answer)| answer.as_ref().map(Usage::of).unwrap_or_default()).collect()
    };
    Usage::of_targets(&of(TargetKind::Mdt), &of(TargetKind::Ost))
}

/// The same for programs.
fn document(rows: &[Row], place: &str) -> Value {
    let target = |(target, answer): &Row| {
        let mut object = targets::object(target);
        match answer {
            Ok(statfs) => {
                object["usage"] = usage(&Usage::of(statfs));
                object["state"] = json!(statfs.state);
            }
            Err(errno) => object["error"] = json!(errno.to_string()),
        }
        object
    };
    let targets: Vec<Value> = rows.iter().map(target).collect();
    json!({ "file_system": place, "usage": usage(&whole(rows)), "targets": targets })
}

fn usage(usage: &Usage) -> Value {
    json!({
        "bytes": usage.bytes,
        "used_bytes": usage.used(),
        "available_bytes": usage.available,
        "files": usage.files,
        "used_files": usage.used_files(),
        "free_files": usage.free_files,
    })
}

#[cfg(test)]
mod tests;

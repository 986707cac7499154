//! `fulmar fsck`: examines the storage of a target.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fulmar_server::StorageError;

use crate::context::complain;

/// Examine the storage of a target
///
/// Reads everything: the keys are compared with their checksums, the data of objects are read. No
/// node may serve the target meanwhile.
///
/// Exit status: 0 if all is good, 1 if something is damaged or the directory cannot be opened.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory that "fulmar mkfs" has made
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn main(args: &Args) -> ExitCode {
    let (mut has_damage, mut has_failed) = (false, false);
    for directory in fulmar_server::parts_of(&args.directory) {
        match examine(&directory) {
            Ok(is_good) => has_damage |= !is_good,
            Err(error) => {
                complain(&format!("fulmar fsck: {error}\n"));
                has_failed = true;
            }
        }
    }
    if has_damage {
        complain("help: restore the directory from a copy, or go on with what is left\n");
    }
    if has_damage || has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Examines the storage of one target. Returns whether it has no damage.
fn examine(directory: &Path) -> Result<bool, StorageError> {
    let (label, report) = fulmar_server::verify(directory)?;
    let (place, size) = (directory.display(), fulmar_text::bytes(report.bytes));
    println!("{place}: {label}, {} keys, {} objects of {size}", report.keys, report.objects);
    for damage in &report.damage {
        println!("{damage}");
    }
    if report.damage.is_empty() {
        println!("no damage");
    }
    Ok(report.damage.is_empty())
}

//! `fulmar fsck`: examines the storage of a target.

use std::path::PathBuf;
use std::process::ExitCode;

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
    let directory = args.directory.display();
    let (label, report) = match fulmar_server::verify(&args.directory) {
        Ok(verified) => verified,
        Err(error) => {
            complain(&format!("fulmar: {error}\n"));
            return ExitCode::FAILURE;
        }
    };
    let size = fulmar_text::bytes(report.bytes);
    println!("{directory}: {label}, {} keys, {} objects of {size}", report.keys, report.objects);
    for damage in &report.damage {
        println!("{damage}");
    }
    match report.damage.is_empty() {
        true => {
            println!("no damage");
            ExitCode::SUCCESS
        }
        false => {
            complain("help: restore the directory from a copy, or go on with what is left\n");
            ExitCode::FAILURE
        }
    }
}

//! `lfs path2fid` and `fid2path`.

use fulmar_base::Errno;
use fulmar_client::special;
use fulmar_lustre_wire::Fid;

use super::ReachArgs;
use super::place::{At, Place};
use crate::context::{Status, complain, print};

/// Print the FIDs of files
#[derive(Debug, clap::Args)]
pub(super) struct Path2FidArgs {
    /// Paths on a mount, or addresses: 10.0.0.1@tcp:/lustre/projects/a
    #[arg(value_name = "PATH|MGS:/NAME/PATH", required = true)]
    places: Vec<Place>,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Print the paths of FIDs
///
/// This needs the capability CAP_DAC_READ_SEARCH, such as root has it.
#[derive(Debug, clap::Args)]
pub(super) struct Fid2PathArgs {
    /// A mount, or an address: 10.0.0.1@tcp:/lustre
    #[arg(value_name = "MOUNT|MGS:/NAME")]
    place: Place,
    /// FIDs, as lfs path2fid prints them
    #[arg(value_name = "FID", required = true)]
    fids: Vec<Fid>,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Prints FIDs.
pub(super) fn path2fid(args: &Path2FidArgs) -> Status {
    let mut status = 0;
    for place in &args.places {
        let at = match place.reach("lfs path2fid", &args.reach) {
            Ok(at) => at,
            Err(status) => return status,
        };
        let shown = match at.attribute(at.path(), special::FID) {
            Ok(fid) if args.places.len() > 1 => {
                Ok(format!("{}: {}\n", at.path().display(), String::from_utf8_lossy(&fid)))
            }
            Ok(fid) => Ok(format!("{}\n", String::from_utf8_lossy(&fid))),
            Err(errno) => Err(errno),
        };
        status = tell("path2fid", &at.path().display().to_string(), shown).max(status);
        at.leave();
    }
    status
}

/// Prints paths.
pub(super) fn fid2path(args: &Fid2PathArgs) -> Status {
    let at = match args.place.reach("lfs fid2path", &args.reach) {
        Ok(at) => at,
        Err(status) => return status,
    };
    let mut status = 0;
    for fid in &args.fids {
        status = tell("fid2path", &fid.to_string(), paths(&at, *fid)).max(status);
    }
    at.leave();
    status
}

fn paths(at: &At, fid: Fid) -> Result<String, Errno> {
    let name = [special::PATHS, fid.to_string().as_bytes()].concat();
    let found = at.attribute(at.path(), &name)?;
    let paths = found.split_inclusive(|byte| *byte == 0);
    let line = |path: &[u8]| format!("{}\n", String::from_utf8_lossy(&path[..path.len() - 1]));
    // The root has an empty path.
    Ok(paths.map(line).map(|line| if line == "\n" { "/\n".to_owned() } else { line }).collect())
}

/// Prints a result, or why there is none.
fn tell(command: &str, of: &str, shown: Result<String, Errno>) -> Status {
    match shown {
        Ok(text) => {
            print(&text);
            0
        }
        Err(errno) => {
            complain(&format!("fulmar lfs {command}: {of}: {errno}\n"));
            Status::try_from(errno.0.unsigned_abs()).unwrap_or(1)
        }
    }
}

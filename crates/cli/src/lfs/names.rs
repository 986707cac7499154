//! `lfs path2fid` and `fid2path`.

use fulmar_base::Errno;
use fulmar_client::special;
use fulmar_lustre_wire::Fid;

use super::ReachArgs;
use super::place::{At, Place, print_each, tell};
use crate::context::Status;

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
    print_each(("path2fid", &args.reach), &args.places, |at, report| {
        let fid = at.attribute(at.path(), special::FID);
        let shown = fid.map(|fid| {
            let fid = String::from_utf8_lossy(&fid);
            if args.places.len() > 1 {
                format!("{}: {fid}\n", at.path().display())
            } else {
                format!("{fid}\n")
            }
        });
        report(at.path(), shown);
    })
}

/// Prints paths.
pub(super) fn fid2path(args: &Fid2PathArgs) -> Status {
    let at = match args.place.reach("lfs fid2path", &args.reach) {
        Ok(at) => at,
        Err(status) => return status,
    };
    let mut status = 0;
    for fid in &args.fids {
        if let Err(failed) = tell("fid2path", fid, paths(&at, *fid)) {
            status = failed;
        }
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

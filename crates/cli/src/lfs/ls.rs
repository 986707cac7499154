//! `lfs ls`: a directory of a file system that is not mounted.

use fulmar_base::Errno;
use fulmar_client::{Address, Attributes, Caller, blocking};

use super::ReachArgs;
use crate::context::{Status, complain, print};

/// List a directory
///
/// Prints the type and the permissions, the owner, the group, the size and the name of each file.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// NIDs of the MGS, name of the file system, and path: 10.0.0.1@tcp:/lustre/projects
    #[arg(value_name = "MGS:/NAME/PATH")]
    address: Address,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Lists a directory.
pub(super) fn run(args: &Args) -> Status {
    let (whole, path) = args.address.split();
    let path = if path.is_empty() { "/" } else { &path };
    let mount = match args.reach.mount("lfs ls", &whole) {
        Ok(mount) => mount,
        Err(status) => return status,
    };
    let listed = list(&mount, path);
    mount.unmount();
    match listed {
        Ok(()) => 0,
        Err(errno) => {
            complain(&format!("fulmar lfs ls: {path}: {errno}\n"));
            Status::try_from(errno.0.unsigned_abs()).unwrap_or(1)
        }
    }
}

fn list(mount: &blocking::FileSystem, path: &str) -> Result<(), Errno> {
    let mut items = mount.list(path)?;
    items.sort_by(|one, other| one.name.cmp(&other.name));
    for item in items {
        let found = blocking::wait(mount.inner().getattr(&Caller::of_process(), item.fid))?;
        print(&line(&found, &item.name));
    }
    Ok(())
}

/// Returns the line of a file.
fn line(found: &Attributes, name: &[u8]) -> String {
    let kind = match found.mode >> 12 {
        0o04 => 'd',
        0o12 => 'l',
        0o10 => '-',
        0o06 => 'b',
        0o02 => 'c',
        0o01 => 'p',
        _ => 's',
    };
    let bit = |place: u32, letter| if found.mode >> place & 1 == 1 { letter } else { '-' };
    let rights: String = (0..9).rev().map(|n| bit(n, ['x', 'w', 'r'][n as usize % 3])).collect();
    let name = String::from_utf8_lossy(name);
    let Attributes { uid, gid, size, .. } = found;
    format!("{kind}{rights} {uid:>6} {gid:>6} {size:>14} {name}\n")
}

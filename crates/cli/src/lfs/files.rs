//! Files of a file system that is not mounted: `ls`, `path2fid`, `getstripe`.

use fulmar_base::Errno;
use fulmar_client::{Address, Attributes, Caller, FileLayout, blocking};

use super::ReachArgs;
use crate::context::{Status, complain, print};

/// List a directory
///
/// Prints the type and the permissions, the owner, the group, the size and the name of each file.
#[derive(Debug, clap::Args)]
pub(super) struct LsArgs {
    #[command(flatten)]
    path: PathArgs,
}

/// A file, and how its servers are reached.
#[derive(Debug, clap::Args)]
pub(super) struct PathArgs {
    /// NIDs of the MGS, name of the file system, and path: 10.0.0.1@tcp:/lustre/projects/a
    #[arg(value_name = "MGS:/NAME/PATH")]
    address: Address,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Lists a directory.
pub(super) fn ls(args: &LsArgs) -> Status {
    args.path.run("lfs ls", |mount, path| {
        let mut items = mount.list(path)?;
        items.sort_by(|one, other| one.name.cmp(&other.name));
        for item in items {
            let found = blocking::wait(mount.inner().getattr(&Caller::of_process(), item.fid))?;
            print(&line(&found, &item.name));
        }
        Ok(())
    })
}

/// Prints the FID of a path.
pub(super) fn path2fid(args: &PathArgs) -> Status {
    args.run("lfs path2fid", |mount, path| {
        let fid = mount.find(path)?;
        print(&format!("{fid}\n"));
        Ok(())
    })
}

/// Prints the layout of a file.
pub(super) fn getstripe(args: &PathArgs) -> Status {
    args.run("lfs getstripe", |mount, path| {
        let fid = mount.find(path)?;
        let layout = blocking::wait(mount.inner().layout(&Caller::of_process(), fid))?;
        print(&format!("{path}\n{}", shown(&layout)));
        Ok(())
    })
}

impl PathArgs {
    /// Does something with the path on its file system.
    fn run(
        &self,
        command: &str,
        with: impl FnOnce(&blocking::FileSystem, &str) -> Result<(), Errno>,
    ) -> Status {
        let (whole, path) = self.address.split();
        let path = if path.is_empty() { "/" } else { &path };
        let mount = match self.reach.mount(command, &whole) {
            Ok(mount) => mount,
            Err(status) => return status,
        };
        let result = with(&mount, path);
        mount.unmount();
        match result {
            Ok(()) => 0,
            Err(errno) => {
                complain(&format!("fulmar {command}: {path}: {errno}\n"));
                Status::try_from(errno.0.unsigned_abs()).unwrap_or(1)
            }
        }
    }
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

/// Returns the description of a layout, a line for each component and each object.
fn shown(layout: &FileLayout) -> String {
    let mut text = String::new();
    for part in &layout.components {
        let end = if part.end == u64::MAX { "EOF".to_owned() } else { part.end.to_string() };
        text += &format!(
            "  component {} [{}, {end}) stripe_size {} stripe_count {}\n",
            part.id, part.start, part.stripe_size, part.stripe_count
        );
        for object in &part.objects {
            text += &format!("    OST{:04x} {}\n", object.ost, object.id);
        }
    }
    if text.is_empty() { "  has no stripe info\n".to_owned() } else { text }
}

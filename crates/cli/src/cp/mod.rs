//! `fulmar cp`: copies a file into a file system that is not mounted, or out of one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use fulmar_base::Errno;
use fulmar_client::{Address, OpenOptions, blocking};

use crate::context::{Status, complain};
use crate::lfs::ReachArgs;

/// Copy a file into a Lustre file system that is not mounted, or out of one
///
/// One of both files is of a Lustre file system: the NIDs of the management service, the name of the file
/// system and the path. What was copied into it is on the disks of its servers at the end.
///
/// Kernel nodes accept connections only from privileged ports: run as root or with
/// CAP_NET_BIND_SERVICE.
///
/// Exit status: 0; 1 if the copy failed; 2 if the request is invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file to copy
    from: String,
    /// Its copy
    to: String,
    #[command(flatten)]
    reach: ReachArgs,
}

const EXAMPLES: &str = "Examples:
  fulmar cp results.tar 10.0.0.1@tcp:/lustre/archive/results.tar
  fulmar cp 10.0.0.1@tcp:/lustre/archive/results.tar .";

/// How much is moved at once.
const PART: usize = 16 << 20;
/// The permissions of a new file.
const MODE: u32 = 0o644;

pub(crate) fn main(args: &Args) -> ExitCode {
    ExitCode::from(match (remote(&args.from), remote(&args.to)) {
        (None, Some(to)) => args.run(to, |mount, path| put(mount, &args.from, path)),
        (Some(from), None) => args.run(from, |mount, path| get(mount, path, &args.to)),
        _ => {
            complain(
                "fulmar cp: one of both files must be of a Lustre file system: MGS:/NAME/PATH\n",
            );
            2
        }
    })
}

/// Returns the file system and the path in an argument, if it is not a local file.
fn remote(argument: &str) -> Option<(Address, String)> {
    let address: Address = argument.parse().ok()?;
    Some(address.split()).filter(|(_, path)| !path.is_empty())
}

impl Args {
    fn run(
        &self,
        (address, path): (Address, String),
        copy: impl FnOnce(&blocking::FileSystem, &str) -> Result<(), String>,
    ) -> Status {
        let mount = match self.reach.mount("cp", &address) {
            Ok(mount) => mount,
            Err(status) => return status,
        };
        let result = copy(&mount, &path);
        mount.unmount();
        match result {
            Ok(()) => 0,
            Err(error) => {
                complain(&format!("fulmar cp: {error}\n"));
                1
            }
        }
    }
}

/// Copies a local file into the file system.
fn put(mount: &blocking::FileSystem, local: &str, path: &str) -> Result<(), String> {
    let mut from = File::open(local).map_err(|error| format!("{local}: {error}"))?;
    let failed = |errno: Errno| format!("{path}: {errno}");
    let options = OpenOptions { truncate: true, ..OpenOptions::create(MODE) };
    let to = mount.open(path, options).map_err(failed)?;
    let mut at = 0;
    loop {
        let mut part = Vec::new();
        let len = Read::by_ref(&mut from).take(PART as u64).read_to_end(&mut part);
        match len.map_err(|error| format!("{local}: {error}"))? {
            0 => break,
            len => {
                to.write(at, part).map_err(failed)?;
                at += len as u64;
            }
        }
    }
    to.sync().and_then(|()| to.close()).map_err(failed)
}

/// Copies a file of the file system to a local one.
fn get(mount: &blocking::FileSystem, path: &str, local: &str) -> Result<(), String> {
    let failed = |errno: Errno| format!("{path}: {errno}");
    let from = mount.open(path, OpenOptions::read()).map_err(failed)?;
    let name = path.rsplit('/').next().unwrap_or(path);
    let target = std::path::Path::new(local);
    let target = if target.is_dir() { target.join(name) } else { target.to_owned() };
    let wrong = |error: io::Error| format!("{}: {error}", target.display());
    let mut to = File::create(&target).map_err(wrong)?;
    let mut at = 0;
    loop {
        let part = from.read(at, PART as u64).map_err(failed)?;
        if part.is_empty() {
            break;
        }
        to.write_all(&part).map_err(wrong)?;
        at += part.len() as u64;
    }
    to.sync_all().map_err(wrong)?;
    from.close().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_a_file_system_has_a_management_service() {
        let (address, path) = remote("10.0.0.1@tcp:/lv/a/b").unwrap();
        assert_eq!((address.name.as_str(), path.as_str()), ("lv", "/a/b"));
        for local in ["/a/b", "a", "10.0.0.1@tcp:/lv", "."] {
            assert!(remote(local).is_none(), "{local}");
        }
    }
}

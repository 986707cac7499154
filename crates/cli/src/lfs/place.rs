//! A file that a command is about: of a mounted file system by its path, of another one by its address.
//!
//! On a mount, layouts, FIDs and paths are extended attributes, so the user of the command is the one whose
//! permissions count.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fulmar_base::Errno;
use fulmar_client::{Address, Caller, OpenOptions, XattrFlags, blocking};
use fulmar_lustre_wire::Fid;
use rustix::fs as calls;

use super::ReachArgs;
use crate::context::{Status, complain, print};
use crate::mounts::{self, errno};

/// The permissions of a file that is made for its layout.
const MODE: u32 = 0o644;

/// What the user has named.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Mounted(PathBuf),
    Remote(Address),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(address) => Ok(Self::Remote(address)),
            // A path with such a name is written as ./a@b:/c.
            Err(error)
                if text.contains("@") && text.contains(":/") && !text.starts_with(['.', '/']) =>
            {
                Err(format!("{text}: {error}"))
            }
            Err(_) => Ok(Self::Mounted(PathBuf::from(text))),
        }
    }
}

/// Goes to each place for `lfs COMMAND`, and prints what `show` reports of it. Returns the error that came last, as
/// the exit status.
pub(super) fn print_each(
    (command, reach): (&str, &ReachArgs),
    places: &[Place],
    mut show: impl FnMut(&At, &mut dyn FnMut(&Path, Result<String, Errno>)),
) -> Status {
    let mut status = 0;
    for place in places {
        let at = match place.reach(&format!("lfs {command}"), reach) {
            Ok(at) => at,
            Err(status) => return status,
        };
        show(&at, &mut |path, shown| {
            if let Err(failed) = tell(command, &path.display(), shown) {
                status = failed;
            }
        });
        at.leave();
    }
    status
}

/// Prints a result.
///
/// # Errors
/// The exit status, if there is none, after it was told why.
pub(super) fn tell(
    command: &str,
    of: &dyn fmt::Display,
    shown: Result<String, Errno>,
) -> Result<(), Status> {
    match shown {
        Ok(text) => {
            print(&text);
            Ok(())
        }
        Err(errno) => {
            complain(&format!("fulmar lfs {command}: {of}: {errno}\n"));
            Err(Status::try_from(errno.0.unsigned_abs()).unwrap_or(1))
        }
    }
}

/// A file whose file system is reached.
pub(super) struct At {
    files: Files,
    path: PathBuf,
}

enum Files {
    Mounted,
    Remote(blocking::FileSystem),
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Other,
}

impl Place {
    /// Reaches the file system, or reports why that failed, for `command`.
    pub(super) fn reach(&self, command: &str, reach: &ReachArgs) -> Result<At, Status> {
        match self {
            Self::Mounted(path) => Ok(At::mounted(path.clone())),
            Self::Remote(address) => {
                let (whole, path) = address.split();
                let files = Files::Remote(reach.mount(command, &whole)?);
                let path = if path.is_empty() { "/" } else { &path };
                Ok(At { files, path: PathBuf::from(path) })
            }
        }
    }
}

impl At {
    /// Returns a file on a mount.
    pub(super) fn mounted(path: PathBuf) -> Self {
        Self { files: Files::Mounted, path }
    }

    /// The path as it was given.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the connections of the command.
    pub(super) fn leave(self) {
        if let Files::Remote(file_system) = self.files {
            file_system.unmount();
        }
    }

    /// Returns an attribute of a file.
    pub(super) fn attribute(&self, path: &Path, name: &[u8]) -> Result<Vec<u8>, Errno> {
        match &self.files {
            Files::Mounted => mounts::attribute(path, name),
            Files::Remote(lv) => {
                let fid = lv.find(bytes(path))?;
                blocking::wait(lv.inner().get_xattr(&Caller::of_process(), fid, name))
            }
        }
    }

    /// Sets an attribute of the file, or removes it.
    pub(super) fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> Result<(), Errno> {
        let (path, caller) = (self.path(), Caller::of_process());
        match (&self.files, value) {
            (Files::Mounted, value) => mounts::set_attribute(path, name, value),
            (Files::Remote(lv), Some(value)) => {
                let fid = lv.find(bytes(path))?;
                let value = (value, XattrFlags::NONE);
                blocking::wait(lv.inner().set_xattr(&caller, fid, name, value))
            }
            (Files::Remote(lv), None) => {
                let fid = lv.find(bytes(path))?;
                blocking::wait(lv.inner().remove_xattr(&caller, fid, name))
            }
        }
    }

    /// Creates the file with a layout.
    pub(super) fn create(&self, attribute: &[u8], layout: &[u8]) -> Result<(), Errno> {
        match &self.files {
            // Such a file gets its layout by its first open, or before.
            Files::Mounted => {
                let (path, mode) = (self.path(), calls::Mode::from_raw_mode(MODE));
                let kind = calls::FileType::RegularFile;
                calls::mknodat(calls::CWD, path, kind, mode, 0).map_err(errno)?;
                self.set_attribute(attribute, Some(layout)).inspect_err(|_| {
                    let _ = std::fs::remove_file(path);
                })
            }
            Files::Remote(lv) => {
                let layout = Some(layout.to_vec());
                let options = OpenOptions { exclusive: true, layout, ..OpenOptions::create(MODE) };
                lv.open(bytes(self.path()), options)?.close()
            }
        }
    }

    /// Returns what a file is. A symbolic link is followed where the path is the user's.
    pub(super) fn kind(&self, path: &Path) -> Result<Kind, Errno> {
        let mode = match &self.files {
            Files::Mounted => {
                use std::os::unix::fs::MetadataExt;
                std::fs::metadata(path).map_err(|error| errno_of(&error))?.mode()
            }
            Files::Remote(lv) => {
                let fid: Fid = lv.find(bytes(path))?;
                blocking::wait(lv.inner().getattr(&Caller::of_process(), fid))?.mode
            }
        };
        Ok(match mode >> 12 {
            0o10 => Kind::File,
            0o04 => Kind::Directory,
            _ => Kind::Other,
        })
    }

    /// Returns the paths of the files of a directory, by name.
    pub(super) fn list(&self, directory: &Path) -> Result<Vec<PathBuf>, Errno> {
        let mut names: Vec<OsString> = match &self.files {
            Files::Mounted => {
                let entries = std::fs::read_dir(directory).map_err(|error| errno_of(&error))?;
                let name = |entry: io::Result<std::fs::DirEntry>| Ok(entry?.file_name());
                entries.map(name).collect::<io::Result<_>>().map_err(|error| errno_of(&error))?
            }
            Files::Remote(lv) => {
                let items = lv.list(bytes(directory))?;
                items.into_iter().map(|item| OsString::from_vec(item.name)).collect()
            }
        };
        names.sort();
        Ok(names.iter().map(|name| directory.join(name)).collect())
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn errno_of(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_or_a_path() {
        for path in ["/mnt/lv/a", "a", "./a@tcp:/b", "/mnt/a@b:/c", "user@host"] {
            assert!(matches!(path.parse(), Ok(Place::Mounted(_))), "{path}");
        }
        assert!(matches!("10.0.0.1@tcp:/lv/a".parse(), Ok(Place::Remote(_))));
        assert!("10.0.0.1@nonet:/lv".parse::<Place>().is_err());
    }
}

//! A file on one side of a copy.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fulmar_base::Errno;
use fulmar_client::{Attributes, Caller, Change, OpenOptions, SetTime, blocking};

use super::errno;
use super::file::CopyFile;

/// A name on this machine, or in a file system that is not mounted.
#[derive(Clone)]
pub(super) enum Place {
    Local(PathBuf),
    Remote(Box<(blocking::FileSystem, Vec<u8>)>),
}

/// What is at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlaceContent {
    Directory {
        mode: u32,
    },
    File(Meta),
    Link {
        target: Vec<u8>,
    },
    /// A device, a pipe or a socket.
    Other,
}

/// What a copy of a file gets from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) size: u64,
    /// The permissions.
    pub(super) mode: u32,
    /// The time of the last write in seconds: Lustre's protocol has no parts of them.
    pub(super) mtime: i64,
}

/// The bits of a mode that are the type, and types.
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
/// The permissions.
const PERMISSIONS: u32 = 0o7777;

impl Place {
    pub(super) fn local(path: &str) -> Self {
        Self::Local(PathBuf::from(path))
    }

    pub(super) fn remote(mount: blocking::FileSystem, path: &str) -> Self {
        let path = if path.is_empty() { "/" } else { path };
        Self::Remote(Box::new((mount, path.as_bytes().to_vec())))
    }

    /// Returns the same name in another mount of its file system.
    pub(super) fn at(&self, mount: &blocking::FileSystem) -> Self {
        match self {
            Self::Local(path) => Self::Local(path.clone()),
            Self::Remote(remote) => Self::Remote(Box::new((mount.clone(), remote.1.clone()))),
        }
    }

    /// Returns a name in this directory.
    pub(super) fn join(&self, name: &[u8]) -> Self {
        match self {
            Self::Local(path) => Self::Local(path.join(OsString::from_vec(name.to_vec()))),
            Self::Remote(remote) => {
                let (mount, path) = &**remote;
                let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
                let path = [&path[..end], b"/", name].concat();
                Self::Remote(Box::new((mount.clone(), path)))
            }
        }
    }

    /// Returns the last name of the path.
    pub(super) fn name(&self) -> Option<Vec<u8>> {
        let path = match self {
            Self::Local(path) => path.as_path(),
            Self::Remote(remote) => Path::new(std::ffi::OsStr::from_bytes(&remote.1)),
        };
        path.file_name().map(|name| name.as_bytes().to_vec())
    }

    fn failed(&self, error: impl fmt::Display) -> String {
        format!("{self}: {error}")
    }

    /// Returns what is there; `None` if nothing is.
    pub(super) fn look(&self) -> Result<Option<PlaceContent>, String> {
        self.looked(false).map_err(|error| self.failed(error))
    }

    /// The same of what a symbolic link points to.
    pub(super) fn follow(&self) -> Result<Option<PlaceContent>, String> {
        self.looked(true).map_err(|error| self.failed(error))
    }

    fn looked(&self, follows: bool) -> Result<Option<PlaceContent>, Errno> {
        let found = match self {
            Self::Local(path) => {
                let found = if follows { fs::metadata(path) } else { fs::symlink_metadata(path) };
                found.map_err(errno).and_then(|meta| {
                    let size = meta.len();
                    let target = || fs::read_link(path).map_err(errno);
                    let target = || target().map(|path| path.into_os_string().into_vec());
                    of_mode(meta.mode(), size, meta.mtime(), target)
                })
            }
            Self::Remote(remote) => {
                let (mount, path) = &**remote;
                let found = if follows { find(mount, path) } else { mount.attributes(path) };
                found.and_then(|found| {
                    let caller = Caller::of_process();
                    let target = || blocking::wait(mount.inner().read_link(&caller, found.fid));
                    of_mode(found.mode, found.size, found.mtime, target)
                })
            }
        };
        match found {
            Err(Errno::ENOENT) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Returns the names in a directory.
    pub(super) fn list(&self) -> Result<Vec<Vec<u8>>, String> {
        let names: Result<Vec<_>, Errno> = match self {
            Self::Local(path) => fs::read_dir(path).map_err(errno).and_then(|entries| {
                let name = |entry: io::Result<fs::DirEntry>| {
                    entry.map(|entry| entry.file_name().into_vec()).map_err(errno)
                };
                entries.map(name).collect()
            }),
            Self::Remote(remote) => {
                let listed = remote.0.list(&remote.1);
                listed.map(|items| items.into_iter().map(|item| item.name).collect())
            }
        };
        names.map_err(|error| self.failed(error))
    }

    /// Makes a directory, unless there is one.
    pub(super) fn make_directory(&self, mode: u32) -> Result<(), String> {
        // What is in it has to be made too.
        let mode = mode & PERMISSIONS | 0o700;
        let made = match self {
            Self::Local(path) => {
                let made = fs::create_dir(path);
                let mode = fs::Permissions::from_mode(mode);
                made.and_then(|()| fs::set_permissions(path, mode)).map_err(errno)
            }
            Self::Remote(remote) => remote.0.mkdir(&remote.1, mode).map(drop),
        };
        match made {
            Err(Errno::EEXIST)
                if matches!(self.follow()?, Some(PlaceContent::Directory { .. })) =>
            {
                Ok(())
            }
            made => made.map_err(|error| self.failed(error)),
        }
    }

    /// Makes a symbolic link, in the place of another one.
    pub(super) fn make_link(&self, target: &[u8]) -> Result<(), String> {
        if matches!(self.look()?, Some(PlaceContent::Link { .. })) {
            let removed = match self {
                Self::Local(path) => fs::remove_file(path).map_err(errno),
                Self::Remote(remote) => remote.0.unlink(&remote.1),
            };
            removed.map_err(|error| self.failed(error))?;
        }
        let made = match self {
            Self::Local(path) => {
                let target = OsString::from_vec(target.to_vec());
                std::os::unix::fs::symlink(target, path).map_err(errno)
            }
            Self::Remote(remote) => link(&remote.0, &remote.1, target),
        };
        made.map_err(|error| self.failed(error))
    }

    /// Opens a file to read it.
    pub(super) fn open(&self) -> Result<CopyFile, String> {
        let opened = match self {
            Self::Local(path) => fs::File::open(path).map(CopyFile::Local).map_err(errno),
            Self::Remote(remote) => remote
                .0
                .open(&remote.1, OpenOptions::read())
                .map(|file| CopyFile::Remote(Box::new(file))),
        };
        opened.map_err(|error| self.failed(error))
    }

    /// Opens a file to write all of it.
    pub(super) fn create(&self, mode: u32) -> Result<CopyFile, String> {
        // No other user reads what is not whole, or executes it with other rights.
        let mode = mode & 0o700 | 0o200;
        let opened = match self {
            Self::Local(path) => {
                let mut options = fs::OpenOptions::new();
                let file = options.write(true).create(true).truncate(true).mode(mode).open(path);
                file.map(CopyFile::Local).map_err(errno)
            }
            Self::Remote(remote) => {
                let options = OpenOptions { truncate: true, ..OpenOptions::create(mode) };
                remote.0.open(&remote.1, options).map(|file| CopyFile::Remote(Box::new(file)))
            }
        };
        opened.map_err(|error| self.failed(error))
    }

    /// Closes a file that was written, with its permissions and its time. One of Lustre is on disk then.
    pub(super) fn finish(&self, written: CopyFile, meta: &Meta) -> Result<(), String> {
        let done = match (self, written) {
            (Self::Remote(remote), CopyFile::Remote(file)) => {
                let (caller, fid) = (Caller::of_process(), file.inner().fid());
                let (mode, mtime) = (Some(meta.mode), Some(SetTime::At(meta.mtime)));
                let change = Change { mode, mtime, ..Change::default() };
                let closed = file.sync().and(file.close());
                closed.and_then(|()| {
                    blocking::wait(remote.0.inner().setattr(&caller, fid, change)).map(drop)
                })
            }
            (_, CopyFile::Local(file)) => {
                set_mode(&file, meta.mode).and_then(|()| set_time(&file, meta.mtime)).map_err(errno)
            }
            (Self::Local(_), CopyFile::Remote(_)) => Err(Errno::EBADF),
        };
        done.map_err(|error| self.failed(error))
    }

    /// Returns when what was written is on the disk of this machine. Files of Lustre are, when they are closed.
    pub(super) fn sync_all(&self) -> Result<(), String> {
        let Self::Local(path) = self else { return Ok(()) };
        let synced = fs::File::open(path)
            .map_err(errno)
            .and_then(|file| rustix::fs::syncfs(file).map_err(|error| Errno(error.raw_os_error())));
        match synced {
            // Why it is not there was told.
            Err(Errno::ENOENT) => Ok(()),
            synced => synced.map_err(|error| self.failed(error)),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
            Self::Remote(remote) => String::from_utf8_lossy(&remote.1).fmt(f),
        }
    }
}

/// Returns what a mode says of a file.
fn of_mode(
    mode: u32,
    size: u64,
    mtime: i64,
    target: impl FnOnce() -> Result<Vec<u8>, Errno>,
) -> Result<PlaceContent, Errno> {
    Ok(match mode & TYPE {
        DIRECTORY => PlaceContent::Directory { mode: mode & PERMISSIONS },
        REGULAR => PlaceContent::File(Meta { size, mode: mode & PERMISSIONS, mtime }),
        LINK => PlaceContent::Link { target: target()? },
        _ => PlaceContent::Other,
    })
}

fn find(mount: &blocking::FileSystem, path: &[u8]) -> Result<Attributes, Errno> {
    let fid = mount.find(path)?;
    blocking::wait(mount.inner().getattr(&Caller::of_process(), fid))
}

fn link(mount: &blocking::FileSystem, path: &[u8], target: &[u8]) -> Result<(), Errno> {
    let slash = path.iter().rposition(|byte| *byte == b'/').ok_or(Errno::EINVAL)?;
    let parent = mount.find(&path[..=slash])?;
    let caller = Caller::of_process();
    blocking::wait(mount.inner().symlink(&caller, parent, &path[slash + 1..], target)).map(drop)
}

fn set_mode(file: &fs::File, mode: u32) -> io::Result<()> {
    file.set_permissions(fs::Permissions::from_mode(mode))
}

fn set_time(file: &fs::File, seconds: i64) -> io::Result<()> {
    let since = std::time::Duration::from_secs(seconds.unsigned_abs());
    let time =
        if seconds < 0 { std::time::UNIX_EPOCH - since } else { std::time::UNIX_EPOCH + since };
    file.set_times(fs::FileTimes::new().set_modified(time))
}

//! Open files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use fulmar_base::Errno;
use fulmar_client::special;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::{FallocateFlags, FileType, FlockOperation, Mode, SeekFrom, XattrFlags};

use super::super::operation::{Operation, bytes, pages};
use super::super::outcome::{Outcome, write_all};
use super::super::words::{Access, How, Layout, Owner, What};
use super::{Directory, Open, OperationResult, call_errno, errno, map};

/// The permissions of new files, from which the umask is taken.
const MODE: u32 = 0o666;

impl Directory {
    pub(super) fn on_open(&mut self, operation: &Operation) -> OperationResult {
        match operation {
            Operation::Open { slot, path, access, layout } => {
                self.slots.remove(slot);
                let (file, appends) = (open(&self.path(path), *access, *layout)?, access.append);
                self.slots.insert(*slot, Open { file, appends });
                Ok(Outcome::Done)
            }
            Operation::Close { slot } => {
                self.slots.remove(slot).map(|_| Outcome::Done).ok_or(Errno::EBADF)
            }
            operation => {
                let slot = operation.slot().ok_or(Errno::EBADF)?;
                let open = self.slots.get(&slot).ok_or(Errno::EBADF)?;
                if let Operation::Copy { at, len, to, start, .. } = operation {
                    let to = self.slots.get(to).ok_or(Errno::EBADF)?;
                    return copy(&open.file, (*at, *len), &to.file, *start);
                }
                if let Operation::StatOpen { .. } = operation {
                    return open.file.metadata().map(|found| self.stat(&found)).map_err(errno);
                }
                on_file(open, operation)
            }
        }
    }
}

/// Opens a file. A new one with a layout is made before.
fn open(path: &Path, access: Access, layout: Layout) -> Result<File, Errno> {
    let is_missing =
        |result: io::Result<_>| result.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let has_no_name = is_missing(std::fs::symlink_metadata(path));
    if access.create && !access.exclusive && !has_no_name && is_missing(std::fs::metadata(path)) {
        // A symbolic link to nothing, which the model does not follow.
        return Err(Errno::ENOENT);
    }
    let mut options = OpenOptions::new();
    options.read(access.read).write(access.write).mode(MODE);
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let mut flags = flag(access.append, libc::O_APPEND)
        | flag(access.create, libc::O_CREAT)
        | flag(access.truncate, libc::O_TRUNC)
        | flag(access.exclusive, libc::O_EXCL)
        | flag(access.direct, libc::O_DIRECT)
        | flag(access.sync, libc::O_SYNC);
    let opened = if let Some(layout) = layout.to_bytes().filter(|_| access.create && has_no_name) {
        flags &= !(libc::O_CREAT | libc::O_EXCL);
        make_and_open(path, &layout, options.custom_flags(flags))
    } else {
        options.custom_flags(flags).open(path).map_err(errno)
    };
    if access.direct && opened.as_ref().is_err_and(|errno| *errno == Errno::EINVAL) && path.is_dir()
    {
        // A kernel refuses direct I/O on a directory before anything else.
        return Err(Errno::EISDIR);
    }
    let file = opened?;
    if file.metadata().map_err(errno)?.is_dir() { Err(Errno::EISDIR) } else { Ok(file) }
}

/// Makes a file with a layout and opens it. As one call, it would not have made a file that it does not open.
fn make_and_open(path: &Path, layout: &[u8], options: &OpenOptions) -> Result<File, Errno> {
    let (kind, mode) = (FileType::RegularFile, Mode::from_raw_mode(MODE));
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).map_err(call_errno)?;
    let name = std::str::from_utf8(special::LAYOUT).unwrap_or_default();
    let set = rustix::fs::setxattr(path, name, layout, XattrFlags::empty()).map_err(call_errno);
    let opened = set.and_then(|()| options.open(path).map_err(errno));
    if opened.is_err() {
        std::fs::remove_file(path).map_err(errno)?;
    }
    opened
}

fn on_file(open: &Open, operation: &Operation) -> OperationResult {
    let file = &open.file;
    match operation {
        Operation::Read { at, len, .. } => read(file, *at, *len).map(Outcome::Bytes).map_err(errno),
        Operation::Write { at, len, pattern, .. } => {
            // An append is at the end, and its pattern begins at 0.
            let at = if open.appends { 0 } else { *at };
            let data = bytes(*pattern, at, *len);
            write_all(&data, |done| file.write_at(&data[done..], at + done as u64).map_err(errno))
        }
        Operation::Store { at, len, pattern, .. } => {
            let end = file.metadata().map_err(errno)?.len().min(at + len);
            let data = bytes(*pattern, *at, end.saturating_sub(*at));
            map::store(file, *at, &data).map(|()| Outcome::Done).map_err(call_errno)
        }
        Operation::Load { at, len, .. } => {
            let end = file.metadata().map_err(errno)?.len().min(at + len);
            map::load(file, *at, end.saturating_sub(*at)).map(Outcome::Bytes).map_err(call_errno)
        }
        Operation::Private { at, len, pattern, .. } => {
            let size = file.metadata().map_err(errno)?.len();
            let (start, whole) = pages(*at, *len);
            let whole = size.min(start + whole).saturating_sub(start);
            let data = bytes(*pattern, *at, size.min(at + len).saturating_sub(*at));
            map::private(file, (start, whole), *at, &data).map(Outcome::Bytes).map_err(call_errno)
        }
        Operation::Cut { size, .. } => match file.set_len(*size).map_err(errno) {
            // A file that is not open to be written.
            Err(Errno::EINVAL) => Err(Errno::EBADF),
            done => done.map(|()| Outcome::Done),
        },
        Operation::Allocate { at, len, how, .. } => {
            let how = match how {
                How::Grow => FallocateFlags::empty(),
                How::Keep => FallocateFlags::KEEP_SIZE,
                How::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                How::Zero => FallocateFlags::ZERO_RANGE,
            };
            let done = rustix::fs::fallocate(file, how, *at, *len);
            done.map(|()| Outcome::Done).map_err(call_errno)
        }
        Operation::Seek { at, what, .. } => {
            let from = match what {
                What::Data => SeekFrom::Data(*at),
                What::Hole => SeekFrom::Hole(*at),
            };
            rustix::fs::seek(file, from).map(Outcome::Position).map_err(call_errno)
        }
        Operation::Sync { .. } => file.sync_all().map(|()| Outcome::Done).map_err(errno),
        operation => on_locks(file, operation),
    }
}

fn copy(from: &File, (at, len): (u64, u64), to: &File, start: u64) -> OperationResult {
    // As programs that copy do: a kernel copies up to the length that it was told last, and what is behind that is new.
    let size = from.metadata().map_err(errno)?.len();
    let (mut at, mut start, end) = (at, start, (at + len).min(size));
    while at < end {
        let left = (end - at) as usize;
        match rustix::fs::copy_file_range(from, Some(&mut at), to, Some(&mut start), left) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => return Err(call_errno(error)),
        }
    }
    Ok(Outcome::Done)
}

/// Reads by one call, which returns less only at the end of the file: by two, others could write in between.
fn read(file: &File, at: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    let count = file.read_at(&mut bytes, at)?;
    bytes.truncate(count);
    Ok(bytes)
}

fn flock(file: &File, operation: &Operation) -> OperationResult {
    let how = match operation {
        Operation::Lock { share, .. } if share.write => FlockOperation::NonBlockingLockExclusive,
        Operation::Lock { .. } => FlockOperation::NonBlockingLockShared,
        _ => FlockOperation::Unlock,
    };
    rustix::fs::flock(file, how).map(|()| Outcome::Done).map_err(call_errno)
}

fn on_locks(file: &File, operation: &Operation) -> OperationResult {
    let kind = |share: &Access| if share.write { libc::F_WRLCK } else { libc::F_RDLCK };
    let (owner, kind, start, len) = match operation {
        Operation::Lock { owner: Owner::Flock, .. }
        | Operation::Unlock { owner: Owner::Flock, .. } => return flock(file, operation),
        Operation::Lock { owner, share, start, len, .. }
        | Operation::TestLock { owner, share, start, len, .. } => (owner, kind(share), start, len),
        Operation::Unlock { owner, start, len, .. } => (owner, libc::F_UNLCK, start, len),
        other => panic!("{other} is not an operation on open files"),
    };
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: *start as libc::off_t,
        l_len: *len as libc::off_t,
        l_pid: 0,
    };
    let is_test = matches!(operation, Operation::TestLock { .. });
    let call = match (owner, is_test) {
        (Owner::Process, false) => FcntlArg::F_SETLK(&lock),
        (Owner::Process, true) => FcntlArg::F_GETLK(&mut lock),
        (Owner::Flock, _) => return Err(Errno::EINVAL),
        (Owner::OpenFile, false) => FcntlArg::F_OFD_SETLK(&lock),
        (Owner::OpenFile, true) => FcntlArg::F_OFD_GETLK(&mut lock),
    };
    fcntl(file, call).map_err(|error| Errno(error as i32))?;
    if is_test {
        return Ok(Outcome::IsRefused(i32::from(lock.l_type) != libc::F_UNLCK));
    }
    Ok(Outcome::Done)
}

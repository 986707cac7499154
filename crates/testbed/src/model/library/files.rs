//! Open files.

use fulmar_base::Errno;
use fulmar_client::{Allocate, FileLock, OpenOptions, Seek, Stability, blocking};

use super::super::operation::{Operation, bytes, pages, seen_privately};
use super::super::outcome::{Outcome, write_all};
use super::super::words::{Access, How, Layout, Owner, Slot, What};
use super::{CALLER, Client, Open, OperationResult};

/// The owner of the POSIX locks of a client, as its files open are counted from 1.
const PROCESS: u64 = 0;

impl Client {
    pub(super) fn on_open(&mut self, operation: &Operation) -> OperationResult {
        match operation {
            Operation::Open { slot, path, access, layout } => {
                self.open(*slot, path, *access, *layout)
            }
            Operation::Close { slot } => self.close(*slot),
            Operation::Read { slot, at, len } => {
                let open = self.opened(*slot)?;
                blocking::wait(open.file.read(*at, *len)).map(Outcome::Bytes)
            }
            Operation::Write { slot, at, len, pattern } => self.write(*slot, (*at, *len), *pattern),
            Operation::Store { slot, at, len, pattern } => {
                let open = self.mappable(*slot, true)?;
                let end = blocking::wait(open.file.attributes())?.size.min(at + len);
                let data = bytes(*pattern, *at, end.saturating_sub(*at));
                blocking::wait(open.file.write_to(Some(*at), data)).map(|_| Outcome::Done)
            }
            Operation::Load { slot, at, len } => {
                let open = self.mappable(*slot, false)?;
                blocking::wait(open.file.read(*at, *len)).map(Outcome::Bytes)
            }
            Operation::Private { slot, at, len, pattern } => {
                let open = self.mappable(*slot, false)?;
                let (start, whole) = pages(*at, *len);
                let found = blocking::wait(open.file.read(start, whole))?;
                Ok(Outcome::Bytes(seen_privately(found, *at, *len, *pattern)))
            }
            Operation::Copy { slot, at, len, to, start } => {
                self.copy(*slot, (*at, *len), *to, *start)
            }
            Operation::Cut { slot, size } => {
                let open = self.opened(*slot)?;
                blocking::wait(open.file.set_len(*size)).map(|()| Outcome::Done)
            }
            Operation::Allocate { slot, at, len, how } => {
                let open = self.opened(*slot)?;
                let how = match how {
                    How::Grow => Allocate::Grow,
                    How::Keep => Allocate::KeepSize,
                    How::Punch => Allocate::PunchHole,
                    How::Zero => Allocate::ZeroRange,
                };
                blocking::wait(open.file.allocate(*at, *len, how)).map(|()| Outcome::Done)
            }
            Operation::Seek { slot, at, what } => {
                let open = self.opened(*slot)?;
                let what = match what {
                    What::Data => Seek::Data,
                    What::Hole => Seek::Hole,
                };
                blocking::wait(open.file.seek(*at, what)).map(Outcome::Position)
            }
            Operation::Sync { slot } => {
                let open = self.opened(*slot)?;
                blocking::wait(open.file.sync(false)).map(|()| Outcome::Done)
            }
            Operation::StatOpen { slot } => {
                let open = self.opened(*slot)?;
                blocking::wait(open.file.attributes()).map(|found| self.stat(&found))
            }
            operation => self.on_locks(operation),
        }
    }

    fn write(&self, slot: Slot, (at, len): (u64, u64), pattern: u64) -> OperationResult {
        let open = self.opened(slot)?;
        let at = (!open.access.append).then_some(at);
        let data = bytes(pattern, at.unwrap_or(0), len);
        write_all(&data, |done| {
            let (at, rest) = (at.map(|at| at + done as u64), &data[done..]);
            let written = open.file.write_some(at, rest, stability(open.access));
            blocking::wait(written).map(|range| (range.end - range.start) as usize)
        })
    }

    /// Returns an open file that may be mapped.
    fn mappable(&self, slot: Slot, writes: bool) -> Result<&Open, Errno> {
        let open = self.opened(slot)?;
        let may = open.access.read && (open.access.write || !writes);
        if may { Ok(open) } else { Err(Errno::EACCES) }
    }

    fn copy(&self, from: Slot, (at, len): (u64, u64), to: Slot, start: u64) -> OperationResult {
        let (from, to) = (self.opened(from)?, self.opened(to)?);
        if !from.access.read || !to.access.write || to.access.append {
            return Err(Errno::EBADF);
        }
        let copied = blocking::wait(from.file.read(at, len))?;
        let len = copied.len() as u64;
        if from.file.fid() == to.file.fid() && at < start + len && start < at + len {
            return Err(Errno::EINVAL);
        }
        if !copied.is_empty() {
            blocking::wait(to.file.write(start, copied))?;
        }
        Ok(Outcome::Done)
    }

    fn opened(&self, slot: Slot) -> Result<&Open, Errno> {
        self.slots.get(&slot).ok_or(Errno::EBADF)
    }

    fn open(&mut self, slot: Slot, path: &str, access: Access, layout: Layout) -> OperationResult {
        if self.slots.contains_key(&slot) {
            self.close(slot)?;
        }
        let mount = &self.mount;
        let options = OpenOptions {
            read: access.read,
            write: access.write,
            append: access.append,
            truncate: access.truncate,
            create: access.create.then_some(0o666),
            exclusive: access.exclusive,
            layout: layout.to_bytes(),
            ..OpenOptions::default()
        };
        // Symbolic links are followed here, since the client opens what it is given.
        let is_new = access.create && access.exclusive;
        let file = match self.find(path, !is_new) {
            Ok(_) if is_new => return Err(Errno::EEXIST),
            Ok(fid) if blocking::wait(mount.getattr(&CALLER, fid))?.is_directory() => {
                return Err(Errno::EISDIR);
            }
            Ok(fid) => {
                let options = OpenOptions { create: None, layout: None, ..options };
                blocking::wait(mount.open_file(&CALLER, fid, options))?
            }
            Err(Errno::ENOENT) if access.create => {
                let (above, name) = self.parent(path)?;
                if !is_new && self.find(path, false).is_ok() {
                    // A symbolic link to nothing.
                    return Err(Errno::ENOENT);
                }
                blocking::wait(mount.open(&CALLER, above, name, options))?
            }
            Err(errno) => return Err(errno),
        };
        self.opens += 1;
        let (number, is_lost) = (self.opens, false);
        self.slots.insert(slot, Open { file, access, number, is_lost });
        Ok(Outcome::Done)
    }

    fn close(&mut self, slot: Slot) -> OperationResult {
        let open = self.slots.remove(&slot).ok_or(Errno::EBADF)?;
        let is_lost = open.is_lost;
        match self.close_open(open) {
            // No kernel tells that to a program.
            Err(_) if is_lost => Ok(Outcome::Done),
            closed => closed.map(|()| Outcome::Done),
        }
    }

    fn close_open(&self, open: Open) -> Result<(), Errno> {
        let (mount, fid) = (&self.mount, open.file.fid());
        for owner in [PROCESS, open.number] {
            let lock = file_lock(owner, true, 0, FileLock::END);
            blocking::wait(mount.unlock(fid, lock))?;
        }
        blocking::wait(open.file.close())
    }

    fn on_locks(&self, operation: &Operation) -> OperationResult {
        let mount = &self.mount;
        let of = |slot: &Slot, owner: &Owner, share: &Access, start: u64, len: u64| {
            let open = self.opened(*slot)?;
            let last = if *owner == Owner::Flock { FileLock::END } else { start + len - 1 };
            let start = if *owner == Owner::Flock { 0 } else { start };
            let owner = if *owner == Owner::Process { PROCESS } else { open.number };
            let lock = file_lock(owner, share.write, start, last);
            Ok::<_, Errno>((open, open.file.fid(), lock))
        };
        match operation {
            Operation::Lock { slot, owner, share, start, len } => {
                let (open, fid, lock) = of(slot, owner, share, *start, *len)?;
                let may = match (owner, share.write) {
                    (Owner::Flock, _) => true,
                    (_, true) => open.access.write,
                    (_, false) => open.access.read,
                };
                if !may {
                    return Err(Errno::EBADF);
                }
                blocking::wait(mount.lock(fid, lock, false)).map(|()| Outcome::Done)
            }
            Operation::Unlock { slot, owner, start, len } => {
                let (_, fid, lock) = of(slot, owner, &Access::default(), *start, *len)?;
                blocking::wait(mount.unlock(fid, lock)).map(|()| Outcome::Done)
            }
            Operation::TestLock { slot, owner, share, start, len } => {
                let (_, fid, lock) = of(slot, owner, share, *start, *len)?;
                let found = blocking::wait(mount.test_lock(fid, lock))?;
                Ok(Outcome::IsRefused(found.is_some()))
            }
            other => panic!("{other} is not an operation on open files"),
        }
    }
}

/// Returns what of a write is on disk when it ends, as a mount has it.
fn stability(access: Access) -> Stability {
    match access {
        Access { sync: true, .. } => Stability::File,
        Access { direct: true, .. } => Stability::Data,
        _ => Stability::Cached,
    }
}

fn file_lock(owner: u64, is_exclusive: bool, start: u64, end: u64) -> FileLock {
    FileLock { is_exclusive, start, end, owner: owner + 1, pid: owner as u32 + 1 }
}

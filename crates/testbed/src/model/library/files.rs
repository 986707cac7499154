//! Open files.

use fulmar_base::Errno;
use fulmar_client::{Allocate, FileLock, OpenOptions, Seek, blocking};

use super::super::operation::{Operation, Step, bytes};
use super::super::outcome::Outcome;
use super::super::words::{Access, How, Layout, Owner, Slot, What};
use super::{CALLER, Open, Performed, Run};

/// The owner of the POSIX locks of a client, as its files open are counted from 1.
const PROCESS: u64 = 0;

impl Run<'_> {
    pub(super) fn on_open(&mut self, step: &Step) -> Performed {
        let client = step.client;
        let key = |slot: &Slot| (client, *slot);
        match &step.operation {
            Operation::Open { slot, path, access, layout } => {
                self.open(key(slot), path, *access, *layout)
            }
            Operation::Close { slot } => self.close(key(slot)),
            Operation::Read { slot, at, len } => {
                let open = self.opened(key(slot))?;
                blocking::wait(open.file.read(*at, *len)).map(Outcome::Bytes)
            }
            Operation::Write { slot, at, len, pattern } => {
                let open = self.opened(key(slot))?;
                let mut at = *at;
                if open.access.append {
                    // The pattern depends on where it will be: clients take turns, so this is there.
                    at = blocking::wait(open.file.attributes())?.size;
                }
                let data = bytes(*pattern, at, *len);
                blocking::wait(open.file.write(at, data)).map(|_| Outcome::Done)
            }
            Operation::Cut { slot, size } => {
                let open = self.opened(key(slot))?;
                blocking::wait(open.file.set_len(*size)).map(|()| Outcome::Done)
            }
            Operation::Allocate { slot, at, len, how } => {
                let open = self.opened(key(slot))?;
                let how = match how {
                    How::Grow => Allocate::Grow,
                    How::Keep => Allocate::KeepSize,
                    How::Punch => Allocate::PunchHole,
                    How::Zero => Allocate::ZeroRange,
                };
                blocking::wait(open.file.allocate(*at, *len, how)).map(|()| Outcome::Done)
            }
            Operation::Seek { slot, at, what } => {
                let open = self.opened(key(slot))?;
                let what = match what {
                    What::Data => Seek::Data,
                    What::Hole => Seek::Hole,
                };
                blocking::wait(open.file.seek(*at, what)).map(Outcome::Position)
            }
            Operation::Sync { slot } => {
                let open = self.opened(key(slot))?;
                blocking::wait(open.file.sync(false)).map(|()| Outcome::Done)
            }
            Operation::StatOpen { slot } => {
                let open = self.opened(key(slot))?;
                blocking::wait(open.file.attributes()).map(|found| self.stat(&found))
            }
            operation => self.on_locks(client, operation),
        }
    }

    fn opened(&self, key: (u8, Slot)) -> Result<&Open, Errno> {
        self.slots.get(&key).ok_or(Errno::EBADF)
    }

    fn open(&mut self, key: (u8, Slot), path: &str, access: Access, layout: Layout) -> Performed {
        if self.slots.contains_key(&key) {
            self.close(key)?;
        }
        let (client, mount) = (key.0, self.mount(key.0));
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
        let file = match self.find(client, path, !is_new) {
            Ok(_) if is_new => return Err(Errno::EEXIST),
            Ok(fid) if blocking::wait(mount.getattr(&CALLER, fid))?.is_directory() => {
                return Err(Errno::EISDIR);
            }
            Ok(fid) => {
                let options = OpenOptions { create: None, layout: None, ..options };
                blocking::wait(mount.open_file(&CALLER, fid, options))?
            }
            Err(Errno::ENOENT) if access.create => {
                let (above, name) = self.parent(client, path)?;
                if self.find(client, path, false).is_ok() {
                    return Err(Errno::ENOENT);
                }
                blocking::wait(mount.open(&CALLER, above, name, options))?
            }
            Err(errno) => return Err(errno),
        };
        self.opens += 1;
        self.slots.insert(key, Open { file, access, number: self.opens });
        Ok(Outcome::Done)
    }

    fn close(&mut self, key: (u8, Slot)) -> Performed {
        let open = self.slots.remove(&key).ok_or(Errno::EBADF)?;
        let (mount, fid) = (self.mount(key.0), open.file.fid());
        for owner in [PROCESS, open.number] {
            let lock = file_lock(owner, true, 0, FileLock::END);
            blocking::wait(mount.unlock(fid, lock))?;
        }
        blocking::wait(open.file.close()).map(|()| Outcome::Done)
    }

    fn on_locks(&self, client: u8, operation: &Operation) -> Performed {
        let mount = self.mount(client);
        let of = |slot: &Slot, owner: &Owner, share: &Access, start: u64, len: u64| {
            let open = self.opened((client, *slot))?;
            let owner = if *owner == Owner::Process { PROCESS } else { open.number };
            let lock = file_lock(owner, share.write, start, start + len - 1);
            Ok::<_, Errno>((open, open.file.fid(), lock))
        };
        match operation {
            Operation::Lock { slot, owner, share, start, len } => {
                let (open, fid, lock) = of(slot, owner, share, *start, *len)?;
                let may = if share.write { open.access.write } else { open.access.read };
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

fn file_lock(owner: u64, is_exclusive: bool, start: u64, end: u64) -> FileLock {
    FileLock { is_exclusive, start, end, owner: owner + 1, pid: owner as u32 + 1 }
}

//! Open files: their data and their locks.

use fulmar_base::Errno;

use super::super::operation::{Operation, Step, bytes, pages, seen_privately};
use super::super::outcome::{Expectation, Outcome, Time};
use super::super::words::{Access, How, Layout, Owner, Slot, What};
use super::names::OperationResult;
use super::{Node, Open, World};

/// An open file: a client and its slot.
pub(super) type Key = (u8, Slot);

impl World {
    pub(super) fn apply_to_open(&mut self, step: &Step) -> OperationResult {
        let key = |slot: &Slot| (step.client, *slot);
        match &step.operation {
            Operation::Open { slot, path, access, layout } => {
                self.open(key(slot), path, *access, *layout)
            }
            Operation::Close { slot } => {
                self.opened(key(slot))?;
                self.close(key(slot));
                Ok(Outcome::Done)
            }
            Operation::Read { slot, at, len } => {
                let open = self.readable(key(slot))?;
                Ok(Outcome::Bytes(self.read(step.client, open.inode, *at, *len)))
            }
            Operation::Write { slot, at, len, pattern } => {
                let open = self.writable(key(slot))?;
                self.tell(key(slot));
                let inode = self.inode(open.inode);
                inode.touch();
                let Some(data) = inode.data() else { return Err(Errno::EISDIR) };
                let (place, at) = open.place(*at, data.size());
                data.change(step.client, at, &bytes(*pattern, place, *len));
                if open.access.sync || open.access.direct {
                    data.save(at, *len);
                }
                Ok(Outcome::Done)
            }
            Operation::Store { slot, .. }
            | Operation::Load { slot, .. }
            | Operation::Private { slot, .. } => self.apply_to_mapping(key(slot), &step.operation),
            Operation::Copy { slot, at, len, to, start } => {
                self.copy(key(slot), (*at, *len), key(to), *start)
            }
            Operation::Cut { slot, size } => {
                let open = self.writable(key(slot))?;
                self.cut(open.inode, *size)?;
                Ok(Outcome::Done)
            }
            Operation::Allocate { slot, at, len, how } => self.allocate(key(slot), *at, *len, *how),
            Operation::Sync { slot } => {
                let open = self.opened(key(slot))?;
                self.tell(key(slot));
                if let Some(data) = self.inode(open.inode).data() {
                    data.sync(step.client);
                }
                Ok(Outcome::Done)
            }
            Operation::StatOpen { slot } => {
                let open = self.opened(key(slot))?;
                Ok(Outcome::Stat(self.stat(open.inode)))
            }
            operation => self.apply_to_locks(step.client, operation),
        }
    }

    fn apply_to_mapping(&mut self, key: Key, operation: &Operation) -> OperationResult {
        match operation {
            Operation::Store { at, len, pattern, .. } => {
                let open = self.mappable(key, true)?;
                let inode = self.inode(open.inode);
                inode.atime = None;
                let Some(data) = inode.data() else { return Err(Errno::EACCES) };
                let end = data.size().min(at + len);
                if *at < end {
                    data.change(key.0, *at, &bytes(*pattern, *at, end - at));
                    // When the page is written is the kernel's choice.
                    inode.mtime = None;
                }
                Ok(Outcome::Done)
            }
            Operation::Load { at, len, .. } => {
                let open = self.mappable(key, false)?;
                Ok(Outcome::Bytes(self.read(key.0, open.inode, *at, *len)))
            }
            Operation::Private { at, len, pattern, .. } => {
                let open = self.mappable(key, false)?;
                let (start, whole) = pages(*at, *len);
                let found = self.read(key.0, open.inode, start, whole);
                Ok(Outcome::Bytes(seen_privately(found, *at, *len, *pattern)))
            }
            other => panic!("{other} is not an operation on a mapping"),
        }
    }

    fn apply_to_locks(&mut self, client: u8, operation: &Operation) -> OperationResult {
        let key = |slot: &Slot| (client, *slot);
        match operation {
            Operation::Lock { slot, owner, share, start, len } => {
                let open = match owner {
                    Owner::Flock => self.opened(key(slot))?,
                    _ => self.lockable(key(slot), *share)?,
                };
                let range = lock_range(*owner, *start, *len);
                let owner = lock_owner(client, &open, *owner);
                let locks = &mut self.inode(open.inode).locks;
                if locks.is_refused(owner, &range, share.write) {
                    return Err(Errno::EAGAIN);
                }
                locks.set(owner, &range, Some(share.write));
                Ok(Outcome::Done)
            }
            Operation::Unlock { slot, owner, start, len } => {
                let open = self.opened(key(slot))?;
                let range = lock_range(*owner, *start, *len);
                let owner = lock_owner(client, &open, *owner);
                self.inode(open.inode).locks.set(owner, &range, None);
                Ok(Outcome::Done)
            }
            Operation::TestLock { slot, owner, share, start, len } => {
                let open = self.opened(key(slot))?;
                let owner = lock_owner(client, &open, *owner);
                let locks = &self.inode(open.inode).locks;
                let is_refused = locks.is_refused(owner, &(*start..start + len), share.write);
                Ok(Outcome::IsRefused(is_refused))
            }
            other => panic!("{other} is not an operation on open files"),
        }
    }

    /// Returns the length of an open file.
    pub(crate) fn size(&self, key: Key) -> Option<u64> {
        match &self.inodes[&self.opens.get(&key)?.inode].node {
            Node::File(data) => Some(data.size()),
            _ => None,
        }
    }

    pub(super) fn opened(&self, key: Key) -> Result<Open, Errno> {
        self.opens.get(&key).cloned().ok_or(Errno::EBADF)
    }

    fn readable(&self, key: Key) -> Result<Open, Errno> {
        self.opened(key)
            .and_then(|open| if open.access.read { Ok(open) } else { Err(Errno::EBADF) })
    }

    pub(super) fn writable(&self, key: Key) -> Result<Open, Errno> {
        self.opened(key)
            .and_then(|open| if open.access.write { Ok(open) } else { Err(Errno::EBADF) })
    }

    /// Returns an open file that may be mapped, for which it has to be readable in any case.
    fn mappable(&self, key: Key, writes: bool) -> Result<Open, Errno> {
        let open = self.opened(key)?;
        let may = open.access.read && (open.access.write || !writes);
        if may { Ok(open) } else { Err(Errno::EACCES) }
    }

    /// Reads a file by a client.
    fn read(&mut self, client: u8, inode: u64, at: u64, len: u64) -> Vec<u8> {
        let inode = self.inode(inode);
        inode.atime = None;
        let Some(data) = inode.data() else { return Vec::new() };
        data.used(client, at, len);
        data.read(at, len)
    }

    fn copy(&mut self, from: Key, range: (u64, u64), to: Key, start: u64) -> OperationResult {
        let client = from.0;
        let copied = self.copied(from, range, to, start)?;
        self.tell(to);
        let to = self.opened(to)?;
        if !copied.is_empty() {
            let target = self.inode(to.inode);
            target.touch();
            let Some(data) = target.data() else { return Err(Errno::EISDIR) };
            data.change(client, start, &copied);
        }
        Ok(Outcome::Done)
    }

    /// Returns the bytes that are copied.
    pub(super) fn copied(
        &mut self,
        from: Key,
        (at, len): (u64, u64),
        to: Key,
        start: u64,
    ) -> Result<Vec<u8>, Errno> {
        let client = from.0;
        let (from, to) = (self.opened(from)?, self.opened(to)?);
        if !from.access.read || !to.access.write || to.access.append {
            return Err(Errno::EBADF);
        }
        let copied = self.read(client, from.inode, at, len);
        let len = copied.len() as u64;
        let is_overlap = from.inode == to.inode && at < start + len && start < at + len;
        if is_overlap { Err(Errno::EINVAL) } else { Ok(copied) }
    }

    fn lockable(&self, key: Key, share: Access) -> Result<Open, Errno> {
        if share.write { self.writable(key) } else { self.readable(key) }
    }

    fn open(&mut self, key: Key, path: &str, access: Access, layout: Layout) -> OperationResult {
        self.close(key);
        let is_new = access.create && access.exclusive;
        let found = match self.resolve(path, !is_new) {
            Ok(_) if is_new => return Err(Errno::EEXIST),
            Err(Errno::ENOENT) if access.create => {
                let (above, name) = self.parent(path)?;
                if self.names(above)?.contains_key(name) {
                    // A symbolic link to nothing.
                    return Err(Errno::ENOENT);
                }
                let made = self.add(above, name, Node::File(Default::default()), 0o666);
                let is_one = matches!(layout, Layout::Default | Layout::Plain);
                self.inode(made).has_one_object = is_one;
                made
            }
            found => found?,
        };
        if !matches!(self.inode(found).node, Node::File(_)) {
            return Err(Errno::EISDIR);
        }
        if access.truncate {
            self.cut(found, 0)?;
        }
        let number = self.next;
        self.next += 1;
        self.opens.insert(
            key,
            Open { inode: found, access, number, is_lost: false, is_unreported: false },
        );
        Ok(Outcome::Done)
    }

    /// Closes a slot: what was locked through it goes, and what the process of the client has locked of the file.
    pub(super) fn close(&mut self, key: Key) {
        let Some(open) = self.opens.remove(&key) else { return };
        let locks = &mut self.inode(open.inode).locks;
        locks.remove((key.0, Some(open.number)));
        locks.remove((key.0, None));
        self.forget(open.inode);
    }

    pub(super) fn cut(&mut self, number: u64, size: u64) -> Result<(), Errno> {
        let inode = self.inode(number);
        let Node::File(data) = &mut inode.node else { return Err(Errno::EISDIR) };
        let is_same = data.size() == size;
        data.cut(size);
        inode.touch();
        // Whether a cut to the same length is a change differs between systems.
        inode.mtime = inode.mtime.filter(|_| !is_same);
        Ok(())
    }

    fn allocate(&mut self, key: Key, at: u64, len: u64, how: How) -> OperationResult {
        let open = self.writable(key)?;
        let inode = self.inode(open.inode);
        // Whether a change of nothing is one differs between systems.
        inode.mtime = if inode.mtime == Some(Time::Now) { inode.mtime } else { None };
        let Some(data) = inode.data() else { return Err(Errno::EISDIR) };
        data.used(key.0, at, len);
        if matches!(how, How::Punch | How::Zero) {
            data.zero(at..at + len);
        }
        if matches!(how, How::Grow | How::Zero) {
            data.grow(at + len);
        }
        if how != How::Punch {
            data.allocate(at, len);
        }
        Ok(Outcome::Done)
    }

    /// Returns where data or a hole may be found. Bytes that are not zero are data; zeros may be either.
    pub(super) fn seek(&mut self, key: Key, at: u64, what: What) -> Expectation {
        let open = match self.opened(key) {
            Ok(open) => open,
            Err(errno) => return Expectation::Outcome(Outcome::Failed(errno)),
        };
        let Some(data) = self.inode(open.inode).data() else {
            return Expectation::Outcome(Outcome::Failed(Errno::EBADF));
        };
        let (size, is_hole) = (data.size(), what == What::Hole);
        if at >= size {
            return Expectation::Outcome(Outcome::Failed(Errno::ENXIO));
        }
        match (data.find(at, is_hole), is_hole) {
            (Some(found), false) => Expectation::Position(at..=found, false),
            (None, false) => Expectation::Position(at..=size - 1, true),
            (found, true) => Expectation::Position(found.unwrap_or(size)..=size, false),
        }
    }
}

fn lock_owner(client: u8, open: &Open, owner: Owner) -> (u8, Option<u64>) {
    (client, (owner != Owner::Process).then_some(open.number))
}

/// Returns what is locked: by `flock` the whole file. Locks of all kinds exclude each other, as with a kernel client.
fn lock_range(owner: Owner, start: u64, len: u64) -> std::ops::Range<u64> {
    if owner == Owner::Flock { 0..u64::MAX } else { start..start + len }
}

//! The files that clients have open.
//!
//! They are in memory: clients open them again after a restart. One handle of a file may be a
//! *lease*: the lock manager calls it back for an open that writes, and the host says that it is
//! broken before that open is executed. So a close that exchanges layouts, as `lfs migrate -n`
//! does, comes before the other open or changes nothing. Orphans that were not opened again by the
//! end of the recovery are removed. `Mdt::check` compares names, links, link counts, orphans and
//! sums.

use std::collections::BTreeMap;

use fulmar_base::Errno;
use fulmar_lustre_wire::mdt::OpenFlags;
use fulmar_lustre_wire::{Fid, Handle};

/// The most files that one client has open.
const OF_EXPORT_MAX: u32 = 1 << 20;

/// A file that a client has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) export: Handle,
    pub(crate) fid: Fid,
    pub(crate) flags: OpenFlags,
    /// The user and the group of the process.
    pub(crate) owner: (u32, u32),
}

/// A file, who has it open, and for what.
type ByOwner = (Fid, (u32, u32), u64);

/// How often a file is open, and for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Uses {
    handles: u32,
    writers: u32,
    executers: u32,
    /// The file was made without a name, for its creator alone.
    volatile: u32,
    lease: Option<Lease>,
    /// When somebody has set the time of its last access.
    atime_set: Option<i64>,
}

/// How often a client has a file open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClientUses {
    handles: u32,
    writers: u32,
}

/// A file that is open on the condition that no other client opens it for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lease {
    handle: Handle,
    /// Somebody else had to open it.
    is_broken: bool,
}

/// All files that clients have open.
#[derive(Debug)]
pub(crate) struct Opens {
    /// The upper half of all handles of this start: an old handle is never a new one.
    instance: u32,
    last: u32,
    handles: BTreeMap<Handle, Open>,
    by_export: BTreeMap<Handle, u32>,
    files: BTreeMap<Fid, Uses>,
    by_owner: BTreeMap<ByOwner, u32>,
    by_client: BTreeMap<(Fid, Handle), ClientUses>,
}

impl Open {
    fn by_owner(&self) -> ByOwner {
        (self.fid, self.owner, self.flags.0)
    }
}

impl Opens {
    pub(crate) fn new(instance: u32) -> Self {
        Self {
            instance,
            last: 0,
            handles: BTreeMap::new(),
            by_export: BTreeMap::new(),
            files: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            by_client: BTreeMap::new(),
        }
    }

    /// Checks that a file may be opened so: what is open to be written is not executed.
    ///
    /// # Errors
    /// ETXTBSY; EINPROGRESS if somebody has just got a lease, which is to be broken first.
    pub(crate) fn check(&self, fid: Fid, flags: OpenFlags) -> Result<(), Errno> {
        let uses = self.files.get(&fid).copied().unwrap_or_default();
        if breaks_lease(flags) && self.is_leased(fid) {
            return Err(Errno::EINPROGRESS);
        }
        let is_busy = flags.has(OpenFlags::WRITE) && uses.executers > 0
            || flags.has(OpenFlags::EXEC) && uses.writers > 0;
        if is_busy { Err(Errno::ETXTBSY) } else { Ok(()) }
    }

    /// Checks that a client may have a lease of a file. `own`: the file as it has it open already.
    ///
    /// # Errors
    /// EBUSY if somebody has one, or somebody else writes the file.
    pub(crate) fn check_lease(
        &self,
        fid: Fid,
        (export, own): (Handle, Handle),
    ) -> Result<(), Errno> {
        let uses = self.files.get(&fid).copied().unwrap_or_default();
        let own = self.get(export, own).filter(|open| open.fid == fid);
        let is_writer = |open: Open| open.flags.has(OpenFlags::WRITE);
        let others = uses.writers - u32::from(own.is_some_and(is_writer));
        if uses.lease.is_some() || others > 0 { Err(Errno::EBUSY) } else { Ok(()) }
    }

    /// Returns whether a client has a lease of a file that is not broken.
    pub(crate) fn is_leased(&self, fid: Fid) -> bool {
        let lease = self.files.get(&fid).and_then(|uses| uses.lease);
        lease.is_some_and(|lease| !lease.is_broken)
    }

    /// Returns whether a handle is that of a lease that is not broken.
    pub(crate) fn holds_lease(&self, fid: Fid, handle: Handle) -> bool {
        let lease = self.files.get(&fid).and_then(|uses| uses.lease);
        lease == Some(Lease { handle, is_broken: false })
    }

    /// Breaks the lease of a file, if there is one.
    pub(crate) fn break_lease(&mut self, fid: Fid) {
        if let Some(lease) = self.files.get_mut(&fid).and_then(|uses| uses.lease.as_mut()) {
            lease.is_broken = true;
        }
    }

    /// Returns whether somebody executes a file.
    pub(crate) fn is_executed(&self, fid: Fid) -> bool {
        self.files.get(&fid).is_some_and(|uses| uses.executers > 0)
    }

    /// Returns whether a file is one that was made without a name.
    pub(crate) fn is_volatile(&self, fid: Fid) -> bool {
        self.files.get(&fid).is_some_and(|uses| uses.volatile > 0)
    }

    /// Returns whether the same user has the file open for the same.
    pub(crate) fn is_open_by(&self, open: &Open) -> bool {
        self.by_owner.contains_key(&open.by_owner())
    }

    /// Somebody sets the time of the last access of a file at this time. What was read before is told by closes later.
    pub(crate) fn note_atime_set(&mut self, fid: Fid, now: i64) {
        if let Some(uses) = self.files.get_mut(&fid) {
            uses.atime_set = uses.atime_set.max(Some(now));
        }
    }

    /// Returns when somebody has set the time of the last access of a file, since it has been open.
    pub(crate) fn atime_set(&self, fid: Fid) -> Option<i64> {
        self.files.get(&fid).and_then(|uses| uses.atime_set)
    }

    /// Returns whether somebody has a file open.
    pub(crate) fn is_open(&self, fid: Fid) -> bool {
        self.files.contains_key(&fid)
    }

    /// Returns whether a client has a file open.
    pub(crate) fn is_open_for(&self, fid: Fid, export: Handle) -> bool {
        self.by_client.contains_key(&(fid, export))
    }

    /// Returns whether a client has a file open to write it.
    pub(crate) fn is_written_by(&self, fid: Fid, export: Handle) -> bool {
        self.by_client.get(&(fid, export)).is_some_and(|uses| uses.writers > 0)
    }

    /// Returns whether a client may have more files open.
    pub(crate) fn has_room(&self, export: Handle) -> bool {
        self.by_export.get(&export).is_none_or(|count| *count < OF_EXPORT_MAX)
    }

    /// Opens a file.
    pub(crate) fn open(&mut self, open: Open) -> Handle {
        loop {
            self.last = self.last.wrapping_add(1);
            let handle = Handle(u64::from(self.instance) << 32 | u64::from(self.last));
            if self.last != 0 && !self.handles.contains_key(&handle) {
                self.add(handle, open);
                return handle;
            }
        }
    }

    fn add(&mut self, handle: Handle, open: Open) {
        let uses = self.files.entry(open.fid).or_default();
        uses.handles += 1;
        uses.writers += u32::from(open.flags.has(OpenFlags::WRITE));
        uses.executers += u32::from(open.flags.has(OpenFlags::EXEC));
        uses.volatile += u32::from(open.flags.has(OpenFlags::VOLATILE));
        if open.flags.has(OpenFlags::LEASE) {
            uses.lease = Some(Lease { handle, is_broken: false });
        }
        *self.by_owner.entry(open.by_owner()).or_default() += 1;
        *self.by_export.entry(open.export).or_default() += 1;
        let of_client = self.by_client.entry((open.fid, open.export)).or_default();
        of_client.handles += 1;
        of_client.writers += u32::from(open.flags.has(OpenFlags::WRITE));
        self.handles.insert(handle, open);
    }

    /// Returns an open file of a client.
    pub(crate) fn get(&self, export: Handle, handle: Handle) -> Option<Open> {
        self.handles.get(&handle).copied().filter(|open| open.export == export)
    }

    /// Returns the handles of a client.
    pub(crate) fn of_export(&self, export: Handle) -> Vec<(Handle, Open)> {
        if !self.by_export.contains_key(&export) {
            return vec![];
        }
        let handles = self.handles.iter().filter(|(_, open)| open.export == export);
        handles.map(|(&handle, &open)| (handle, open)).collect()
    }

    /// Closes a file. Returns whether it is not open any more.
    pub(crate) fn close(&mut self, handle: Handle) -> bool {
        let Some(open) = self.handles.remove(&handle) else { return false };
        if let Some(count) = self.by_export.get_mut(&open.export) {
            *count -= 1;
            if *count == 0 {
                self.by_export.remove(&open.export);
            }
        }
        if let Some(count) = self.by_owner.get_mut(&open.by_owner()) {
            *count -= 1;
            if *count == 0 {
                self.by_owner.remove(&open.by_owner());
            }
        }
        let client = (open.fid, open.export);
        if let Some(uses) = self.by_client.get_mut(&client) {
            uses.handles -= 1;
            uses.writers -= u32::from(open.flags.has(OpenFlags::WRITE));
            if uses.handles == 0 {
                self.by_client.remove(&client);
            }
        }
        let Some(uses) = self.files.get_mut(&open.fid) else { return true };
        uses.handles -= 1;
        uses.writers -= u32::from(open.flags.has(OpenFlags::WRITE));
        uses.executers -= u32::from(open.flags.has(OpenFlags::EXEC));
        uses.volatile -= u32::from(open.flags.has(OpenFlags::VOLATILE));
        uses.lease = uses.lease.filter(|lease| lease.handle != handle);
        if uses.handles > 0 {
            return false;
        }
        self.files.remove(&open.fid);
        true
    }
}

/// Returns whether an open with these flags breaks the lease of somebody else.
pub(crate) fn breaks_lease(flags: OpenFlags) -> bool {
    let breaking = [OpenFlags::WRITE, OpenFlags::TRUNC, OpenFlags::APPEND, OpenFlags::EXEC];
    !flags.has(OpenFlags::LEASE) && breaking.into_iter().any(|flag| flags.has(flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Fid = Fid { seq: 0x2_0000_0400, oid: 1, version: 0 };

    #[test]
    fn a_lease_is_for_one_and_ends_when_others_write() {
        let mut opens = Opens::new(3);
        let open = |export, flags| Open { export: Handle(export), fid: FILE, flags, owner: (0, 0) };
        let lease = OpenFlags::READ | OpenFlags::LEASE;
        let own = opens.open(open(1, OpenFlags::READ | OpenFlags::WRITE));
        assert_eq!(opens.check_lease(FILE, (Handle(2), own)), Err(Errno::EBUSY), "another writes");
        assert_eq!(opens.check_lease(FILE, (Handle(1), own)), Ok(()));
        let leased = opens.open(open(1, lease));
        assert_eq!(opens.check_lease(FILE, (Handle(1), own)), Err(Errno::EBUSY), "there is one");
        assert_eq!(opens.check(FILE, OpenFlags::READ), Ok(()), "readers do not mind");
        assert_eq!(opens.check(FILE, OpenFlags::WRITE), Err(Errno::EINPROGRESS));
        assert!(opens.holds_lease(FILE, leased) && !opens.holds_lease(FILE, own));
        opens.break_lease(FILE);
        assert!(!opens.holds_lease(FILE, leased) && !opens.is_leased(FILE));
        assert_eq!(opens.check(FILE, OpenFlags::WRITE), Ok(()));
        opens.close(leased);
        assert_eq!(opens.check_lease(FILE, (Handle(1), own)), Ok(()));
    }

    #[test]
    fn what_is_executed_is_not_written() {
        let mut opens = Opens::new(3);
        let open = |flags| Open { export: Handle(1), fid: FILE, flags, owner: (0, 0) };
        let writer = opens.open(open(OpenFlags::READ | OpenFlags::WRITE));
        assert_eq!(opens.check(FILE, OpenFlags::EXEC), Err(Errno::ETXTBSY));
        assert_eq!(opens.check(FILE, OpenFlags::WRITE), Ok(()));
        assert!(opens.close(writer) && !opens.is_open(FILE));
        let executer = opens.open(open(OpenFlags::EXEC));
        assert_eq!(opens.check(FILE, OpenFlags::WRITE), Err(Errno::ETXTBSY));
        assert!(opens.is_executed(FILE) && executer != writer);
        assert_eq!(opens.get(Handle(2), executer), None, "of another client");
        assert_eq!(opens.of_export(Handle(1)).len(), 1);
        opens.close(executer);
        assert!(!opens.close(executer), "it was closed");
        assert_eq!((opens.files.len(), opens.by_export.len()), (0, 0));
    }

    #[test]
    fn each_client_has_files_open_for_itself() {
        let mut opens = Opens::new(3);
        let open = |export, flags| Open { export: Handle(export), fid: FILE, flags, owner: (0, 0) };
        let reader = opens.open(open(1, OpenFlags::READ));
        let writer = opens.open(open(2, OpenFlags::READ | OpenFlags::WRITE));
        let seen = |opens: &Opens| {
            [1, 2, 3].map(|export| {
                let client = Handle(export);
                (opens.is_open_for(FILE, client), opens.is_written_by(FILE, client))
            })
        };
        assert_eq!(seen(&opens), [(true, false), (true, true), (false, false)]);
        let second = opens.open(open(2, OpenFlags::READ));
        opens.close(writer);
        assert_eq!(seen(&opens), [(true, false), (true, false), (false, false)]);
        for handle in [reader, second] {
            opens.close(handle);
        }
        assert_eq!(seen(&opens), [(false, false); 3]);
    }
}

//! File systems with a fault each, which the tester must find: the model with something wrong in it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use fulmar_base::Errno;

use super::check::Executor;
use super::operation::{Operation, PAGE, Step, bytes};
use super::order::TimedOutcome;
use super::outcome::{Kind, Outcome, Stat, Time};
use super::words::{How, Slot};
use super::world::data::Data;
use super::world::{Inode, World};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Fault {
    /// Nothing: what must not be found.
    None,
    /// The first byte behind a border of stripes is not written.
    BorderIsLost,
    /// What was cut off is there again when the file grows.
    CutIsKept,
    /// The client of an append does not know of the last growth by another one.
    AppendIsOld,
    /// A hole leaves the last partial page as it was.
    PunchEndsEarly,
    /// Zeros behind the end do not make the file longer.
    ZeroKeepsLength,
    /// The first look for data goes to the next page.
    DataAreSkipped,
    /// A file without a name has no data.
    UnlinkedIsEmpty,
    /// A file that is replaced by a rename keeps its name.
    RenameDoesNotReplace,
    /// A second name is not counted.
    LinkIsNotCounted,
    /// After a seek, a name is listed twice.
    NameIsListedTwice,
    /// A client knows the length that it saw last.
    LengthIsOld,
    /// Times before 1970 are 1970.
    TimeIsUnsigned,
    /// A write does not change the time that was set.
    WriteKeepsTime,
    /// Written data have no blocks.
    NoBlocks,
    /// A removed attribute is there.
    XattrIsKept,
    /// A new mode leaves the access control list.
    AclIgnoresMode,
    /// A new file does not get the access control list of its directory.
    DefaultIsIgnored,
    /// Locks of other clients do not count.
    LocksAreLocal,
    /// Locks are kept when their file is closed.
    CloseKeepsLocks,
    /// What was not on disk is lost by a restart.
    RestartLosesWrites,
    /// Servers keep the locks of a client that they have evicted.
    EvictionKeepsLocks,
    /// An append is sent again when its connection breaks, and is executed twice.
    AppendIsRepeated,
    /// One of two writes at the same time is lost.
    UpdateIsLost,
    /// A file that is cut within its first component keeps what the next one begins with.
    CutStopsAtBorder,
    /// A hole up to the end takes the last growth of the file along.
    HoleTakesEnd,
    /// A store writes the other bytes of its page as this client has seen them at first.
    StoreIsPage,
    /// A store in a private mapping changes the file.
    PrivateIsShared,
    /// What was synced is lost when its client is killed.
    KillLosesSync,
    /// What was written synchronously is lost when its client is killed.
    KillLosesSyncWrites,
    /// A client lists a directory as it has seen it at first.
    ListingIsOld,
    /// What a server has refused for lack of room is told as written, and is lost.
    RefusedIsDone,
    /// What a client writes after it was refused room is lost too, although there is room for it.
    RefusalTakesNext,
    /// Who creates a name at the same time as another one replaces it.
    BothCreate,
}

impl Fault {
    /// All that must be found.
    pub const ALL: &[Self] = &[
        Self::BorderIsLost,
        Self::CutIsKept,
        Self::AppendIsOld,
        Self::PunchEndsEarly,
        Self::ZeroKeepsLength,
        Self::DataAreSkipped,
        Self::UnlinkedIsEmpty,
        Self::RenameDoesNotReplace,
        Self::LinkIsNotCounted,
        Self::NameIsListedTwice,
        Self::LengthIsOld,
        Self::TimeIsUnsigned,
        Self::WriteKeepsTime,
        Self::NoBlocks,
        Self::XattrIsKept,
        Self::AclIgnoresMode,
        Self::DefaultIsIgnored,
        Self::LocksAreLocal,
        Self::CloseKeepsLocks,
        Self::RestartLosesWrites,
        Self::EvictionKeepsLocks,
        Self::AppendIsRepeated,
        Self::UpdateIsLost,
        Self::BothCreate,
        Self::CutStopsAtBorder,
        Self::HoleTakesEnd,
        Self::StoreIsPage,
        Self::PrivateIsShared,
        Self::KillLosesSync,
        Self::KillLosesSyncWrites,
        Self::ListingIsOld,
        Self::RefusedIsDone,
        Self::RefusalTakesNext,
    ];
}

/// The smallest stripe.
const BORDER: u64 = 64 << 10;

/// A file system with a fault.
pub struct FaultyFileSystem {
    fault: Fault,
    world: World,
    /// The lengths that clients saw last, by inode.
    lengths: BTreeMap<(u8, u64), u64>,
    /// Pages that clients saw first: inode and number.
    pages: BTreeMap<(u8, u64, u64), Vec<u8>>,
    /// Listings that clients saw first, by inode.
    listings: BTreeMap<(u8, u64), Vec<(String, Kind)>>,
    /// Clients with a broken connection.
    broken: BTreeSet<u8>,
    /// What a write has replaced since the last sync: inode, offset, bytes.
    unsynced: Vec<(u64, u64, Vec<u8>)>,
    /// Clients that were refused room.
    refused: BTreeSet<u8>,
}

impl Executor for FaultyFileSystem {
    fn perform(&mut self, step: &Step) -> Outcome {
        let mut before = self.world.clone();
        let refusal = self.refusal(step);
        if let Some(found) = &refusal {
            self.world.adopt(step, found);
        }
        let mut outcome = self.world.apply(step).example();
        if self.fault == Fault::KillLosesSyncWrites {
            self.world.opens.values_mut().for_each(|open| open.access.sync = false);
        }
        if refusal.as_ref() == Some(&outcome) {
            return self.refuse(step.client, outcome);
        }
        let is_write = matches!(step.operation, Operation::Write { .. });
        if self.fault == Fault::RefusalTakesNext && is_write && self.refused.remove(&step.client) {
            self.world = before;
            return outcome;
        }
        self.spoil(step, &mut before, &mut outcome);
        outcome
    }

    fn perform_together(&mut self, steps: &[Step]) -> Vec<TimedOutcome> {
        let mut writers = BTreeSet::new();
        let each = steps.iter().map(|step| {
            let now = Instant::now();
            let is_write = matches!(step.operation, Operation::Write { .. });
            let is_later = is_write && !writers.is_empty() && writers.insert(step.client);
            if is_write {
                writers.insert(step.client);
            }
            let before =
                (self.fault == Fault::UpdateIsLost && is_later).then(|| self.world.clone());
            let mut outcome = self.perform(step);
            if let Some(before) = before {
                self.world = before;
            }
            if self.fault == Fault::BothCreate && outcome == Outcome::Failed(Errno::EEXIST) {
                outcome = Outcome::Done;
            }
            TimedOutcome { outcome, begun: now, ended: now }
        });
        each.collect()
    }
}

impl FaultyFileSystem {
    /// Returns a file system with a fault.
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            world: World::default(),
            lengths: BTreeMap::new(),
            pages: BTreeMap::new(),
            listings: BTreeMap::new(),
            broken: BTreeSet::new(),
            unsynced: Vec::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Returns the refusal of some writes that need room, if a server has none.
    fn refusal(&self, step: &Step) -> Option<Outcome> {
        let Operation::Write { slot, at, len, pattern } = &step.operation else { return None };
        let size = self.world.size((step.client, *slot))?;
        let needs_room = !self.world.full().is_empty() && at + len > size;
        match pattern % 3 {
            0 if needs_room => Some(Outcome::Failed(Errno::ENOSPC)),
            1 if needs_room && *len > 1 => Some(Outcome::Part(len / 2)),
            _ => None,
        }
    }

    /// Has the worst be that is admitted after a refusal: nothing more than what is said is written.
    fn refuse(&mut self, client: u8, outcome: Outcome) -> Outcome {
        self.world.inodes.values_mut().filter_map(Inode::data).for_each(Data::lose_all);
        self.refused.insert(client);
        if self.fault == Fault::RefusedIsDone { Outcome::Done } else { outcome }
    }

    /// Changes what an operation has done or returned.
    fn spoil(&mut self, step: &Step, before: &mut World, outcome: &mut Outcome) {
        if let Outcome::Stat(stat) = outcome {
            return self.spoil_stat(step, stat);
        }
        if step.operation.is_fault() {
            return self.spoil_after_fault(step, before);
        }
        if let Outcome::Names(names) = outcome {
            return self.spoil_listing(step, names);
        }
        let is_done = *outcome == Outcome::Done;
        match (self.fault, &step.operation) {
            (Fault::TimeIsUnsigned, Operation::Utimes { path, mtime, .. }) if is_done => {
                if let Ok(number) = self.world.resolve(path, true) {
                    self.world.inode(number).mtime = Some(Time::At((*mtime).max(0)));
                }
            }
            (
                Fault::StoreIsPage,
                Operation::Read { slot, at, len }
                | Operation::Load { slot, at, len }
                | Operation::Private { slot, at, len, .. },
            ) => {
                self.see(step.client, *slot, *at / PAGE..(at + len).div_ceil(PAGE));
            }
            (Fault::PrivateIsShared, Operation::Private { slot, at, len, pattern }) => {
                let inode = self.world.opens.get(&(step.client, *slot)).map(|open| open.inode);
                if let Some(data) = inode.and_then(|inode| self.world.inode(inode).data()) {
                    let end = data.size().min(at + len);
                    if *at < end {
                        data.write(*at, &bytes(*pattern, *at, end - at));
                    }
                }
            }
            (Fault::DataAreSkipped, Operation::Seek { .. }) => {
                if let Outcome::Position(at) = outcome {
                    *at += PAGE;
                }
            }
            (Fault::LocksAreLocal, Operation::Lock { .. }) if *outcome == AGAIN => {
                *outcome = Outcome::Done;
            }
            _ if is_done && step.operation.slot().is_some() => self.spoil_file(step, before),
            (Fault::UnlinkedIsEmpty, Operation::Read { slot, .. }) => {
                let open = self.world.opens.get(&(step.client, *slot));
                let paths = self.world.paths();
                let has_name = |number| {
                    paths.iter().any(|(path, _)| self.world.resolve(path, false) == Ok(number))
                };
                if open.is_some_and(|open| !has_name(open.inode)) {
                    *outcome = Outcome::Bytes(Vec::new());
                }
            }
            _ if is_done => self.spoil_names(step, before),
            _ => {}
        }
    }

    /// Changes what is there after a fault.
    fn spoil_after_fault(&mut self, step: &Step, before: &World) {
        match (self.fault, &step.operation) {
            (_, Operation::Kill {}) => {
                // The worst that is admitted.
                let inodes = self.world.inodes.values_mut();
                inodes.filter_map(Inode::data).for_each(Data::lose_all);
            }
            (Fault::EvictionKeepsLocks, Operation::Evict {}) => {
                for (number, inode) in &mut self.world.inodes {
                    inode.locks = before.inodes[number].locks.clone();
                }
            }
            (Fault::AppendIsRepeated, Operation::Disconnect { .. }) => {
                self.broken.insert(step.client);
            }
            (Fault::RestartLosesWrites, Operation::Restart { .. }) => {
                for (number, at, old) in self.unsynced.drain(..).rev() {
                    if let Some(inode) = self.world.inodes.get_mut(&number)
                        && let Some(data) = inode.data()
                        && data.size() >= at + old.len() as u64
                    {
                        data.write(at, &old);
                    }
                }
            }
            _ => {}
        }
    }

    /// Changes attributes that an operation has returned.
    fn spoil_stat(&mut self, step: &Step, stat: &mut Stat) {
        match (self.fault, &step.operation) {
            (Fault::NoBlocks, _) => stat.blocks = 0..=0,
            (Fault::LinkIsNotCounted, _) if stat.kind == Kind::File => {
                stat.links = stat.links.min(1);
            }
            (Fault::LengthIsOld, Operation::Stat { path }) => {
                if let (Ok(number), Some(size)) = (self.world.resolve(path, false), stat.size) {
                    let seen = *self.lengths.entry((step.client, number)).or_insert(size);
                    stat.size = Some(seen);
                }
            }
            _ => {}
        }
    }

    /// Changes names that an operation has returned.
    fn spoil_listing(&mut self, step: &Step, names: &mut Vec<(String, Kind)>) {
        let Operation::List { path, skip } = &step.operation else { return };
        match (self.fault, self.world.resolve(path, true)) {
            (Fault::ListingIsOld, Ok(number)) => {
                let first = self.listings.entry((step.client, number));
                names.clone_from(first.or_insert_with(|| names.clone()));
            }
            (Fault::NameIsListedTwice, _) => {
                if let Some(name) = names.get(*skip as usize).filter(|_| *skip > 0).cloned() {
                    names.insert(*skip as usize, name);
                }
            }
            _ => {}
        }
    }

    /// Notes what a client sees of pages that it has not seen before.
    fn see(&mut self, client: u8, slot: Slot, pages: std::ops::Range<u64>) {
        let Some(inode) = self.world.opens.get(&(client, slot)).map(|open| open.inode) else {
            return;
        };
        let Some(data) = self.world.inode(inode).data() else { return };
        for page in pages {
            let first = self.pages.entry((client, inode, page));
            first.or_insert_with(|| data.read(page * PAGE, PAGE));
        }
    }

    /// Changes an open file after an operation on it.
    fn spoil_file(&mut self, step: &Step, before: &mut World) {
        let key = (step.client, step.operation.slot().unwrap_or(Slot(0)));
        if let Operation::Close { .. } = &step.operation {
            return self.spoil_close(before, key);
        }
        let Some(open) = self.world.opens.get(&key).cloned() else { return };
        let old_size = before.size(key).unwrap_or_default();
        let mut old = before.inodes.get_mut(&open.inode);
        if let (Fault::DefaultIsIgnored, Operation::Open { access, .. }, true) =
            (self.fault, &step.operation, old.is_none())
            && access.create
        {
            self.world.inode(open.inode).acl = None;
        }
        let time = old.as_ref().map(|inode| inode.mtime);
        let old = old.as_mut().and_then(|inode| inode.data().map(|data| data.clone()));
        let inode = self.world.inode(open.inode);
        let (Some(old), Some(data)) = (old, inode.data()) else { return };
        match (self.fault, &step.operation) {
            (Fault::BorderIsLost, Operation::Write { at, len, .. }) => {
                let (_, at) = open.place(*at, old_size);
                let border = (at + 1).next_multiple_of(BORDER);
                if border < at + len {
                    data.zero(border..border + 1);
                }
            }
            (fault, Operation::Cut { size, .. }) if *size < old_size => {
                spoil_cut(fault, *size, old, data);
            }
            (Fault::AppendIsOld, Operation::Write { len, pattern, .. }) if open.access.append => {
                let seen = *self.lengths.entry((step.client, open.inode)).or_insert(old_size);
                if seen < old_size {
                    *data = old;
                    data.write(seen, &bytes(*pattern, 0, *len));
                }
                self.lengths.insert((step.client, open.inode), data.size());
            }
            (Fault::AppendIsRepeated, Operation::Write { len, pattern, .. })
                if open.access.append && self.broken.remove(&step.client) =>
            {
                data.write(data.size(), &bytes(*pattern, 0, *len));
            }
            (fault, Operation::Allocate { at, len, how, .. }) => {
                spoil_space(fault, (*at, *len, *how), &old, data);
            }
            (Fault::StoreIsPage, Operation::Store { at, len, .. }) if *at < old_size => {
                let page = at / PAGE;
                let first = self.pages.entry((step.client, open.inode, page));
                let first = first.or_insert_with(|| old.read(page * PAGE, PAGE)).clone();
                let own = data.read(*at, (*len).min(PAGE - at % PAGE));
                data.write(page * PAGE, &first);
                data.write(*at, &own);
            }
            (Fault::RestartLosesWrites, Operation::Write { at, len, .. }) => {
                let (_, at) = open.place(*at, old_size);
                let mut replaced = old.read(at, *len);
                replaced.resize(*len as usize, 0);
                self.unsynced.push((open.inode, at, replaced));
            }
            (Fault::RestartLosesWrites, Operation::Sync { .. }) => {
                self.unsynced.retain(|(number, ..)| *number != open.inode);
            }
            (Fault::KillLosesSync, Operation::Sync { .. }) => data.unsave(&old),
            (Fault::WriteKeepsTime, Operation::Write { .. }) => {
                inode.mtime = time.unwrap_or(inode.mtime);
            }
            _ => {}
        }
    }

    /// Changes a file after it was closed.
    fn spoil_close(&mut self, before: &World, key: (u8, Slot)) {
        let Some(open) = before.opens.get(&key) else { return };
        if let (Fault::CloseKeepsLocks, Some(inode)) =
            (self.fault, self.world.inodes.get_mut(&open.inode))
        {
            inode.locks = before.inodes[&open.inode].locks.clone();
        }
    }

    /// Changes names and attributes after an operation on them.
    fn spoil_names(&mut self, step: &Step, before: &mut World) {
        let old = |path: &str| before.resolve(path, true).ok();
        match (self.fault, &step.operation) {
            (Fault::RenameDoesNotReplace, Operation::Rename { from, to })
                if old(to).is_some() && old(from) != old(to) =>
            {
                self.world = before.clone();
            }
            (Fault::XattrIsKept, Operation::RemoveXattr { .. }) => self.world = before.clone(),
            (Fault::AclIgnoresMode, Operation::Chmod { path, .. }) => {
                if let (Ok(number), Some(was)) = (self.world.resolve(path, true), old(path)) {
                    self.world.inode(number).acl = before.inodes[&was].acl.clone();
                }
            }
            _ => {}
        }
    }
}

/// Changes a file after it was cut.
fn spoil_cut(fault: Fault, size: u64, old: Data, data: &mut Data) {
    match fault {
        Fault::CutIsKept => {
            *data = old;
            data.set_size(size);
        }
        Fault::CutStopsAtBorder if size < BORDER && old.size() > BORDER => data.grow(BORDER),
        _ => {}
    }
}

/// Changes a file after space of it was allocated or freed.
fn spoil_space(fault: Fault, (at, len, how): (u64, u64, How), old: &Data, data: &mut Data) {
    match (fault, how) {
        (Fault::PunchEndsEarly, How::Punch) => {
            let last = (at + len) / PAGE * PAGE;
            if last > at {
                data.write(last, &old.read(last, at + len - last));
            }
        }
        (Fault::HoleTakesEnd, How::Punch) if at < old.size() && at + len >= old.size() => {
            data.cut(at);
        }
        (Fault::ZeroKeepsLength, How::Zero) => data.cut(old.size()),
        _ => {}
    }
}

const AGAIN: Outcome = Outcome::Failed(Errno::EAGAIN);

//! A disk in memory that loses, tears and reorders what was not synced, by a seed.

mod crash;

use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_base::Rng;

use super::image::{Image, PAGE};
use super::{File, Medium, Name, Room, Seek};

/// A disk that can crash. The same calls with the same seed always leave the same contents.
///
/// Writes, lengths, holes and names are in the system's cache until they are synced. A crash keeps
/// some of them: none, all, a prefix, or any sector of 512 bytes in any of the states that it has
/// been in since the last sync. A sync that fails loses such a part for good: a later one succeeds
/// without it.
#[derive(Clone, Debug)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

/// What goes wrong. The default is nothing.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The room in bytes; `None` is any.
    pub capacity: Option<u64>,
    /// The machine stops at this change or sync, counted from 1 since the last start.
    pub crash_at: Option<u64>,
    /// This sync fails, counted from 1 since the last start.
    pub fail_sync_at: Option<u64>,
    /// Nothing can be changed or synced any more, as on a file system that was mounted read-only.
    pub read_only: bool,
    /// Syncs of keys do nothing, as on a disk that lies.
    pub ignore_key_syncs: bool,
    /// Syncs of objects do nothing.
    pub ignore_object_syncs: bool,
}

/// What a disk has done since its last start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counts {
    pub changes: u64,
    pub syncs: u64,
    pub written: u64,
}

#[derive(Debug)]
struct State {
    rng: Rng,
    faults: Faults,
    counts: Counts,
    /// Handles of earlier starts are dead.
    start: u64,
    crashed: bool,
    /// Nothing is ever lost, and nothing is kept for that.
    reliable: bool,
    used: u64,
    names: BTreeMap<Name, usize>,
    synced_names: BTreeMap<Name, usize>,
    name_changes: Vec<(Name, Option<usize>)>,
    contents: Vec<Contents>,
}

/// A file as the system sees it, as it is on the disk, and the changes between both.
#[derive(Debug, Default)]
struct Contents {
    current: Image,
    synced: Image,
    changes: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Punch(Range<u64>),
    SetLen(u64),
}

impl SimulatedDisk {
    /// Returns an empty disk whose crashes follow from the seed.
    pub fn new(seed: u64) -> Self {
        Self::with(seed, false)
    }

    /// Returns an empty disk that never loses anything.
    pub(crate) fn reliable() -> Self {
        Self::with(0, true)
    }

    fn with(seed: u64, reliable: bool) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng: Rng::new(seed),
            faults: Faults::default(),
            counts: Counts::default(),
            start: 0,
            crashed: false,
            reliable,
            used: 0,
            names: BTreeMap::new(),
            synced_names: BTreeMap::new(),
            name_changes: vec![],
            contents: vec![],
        })))
    }

    /// Sets what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Returns what the disk has done since its last start.
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Returns how many bytes are in use.
    pub fn used(&self) -> u64 {
        self.state().used * PAGE
    }

    /// Returns how many objects have a file.
    pub fn files(&self) -> usize {
        self.state().names.range(Name::Object(0)..).count()
    }

    /// Ends the machine and starts it again: unsynced changes are lost in part, everything that was
    /// open is dead, and the faults are those of the default.
    pub fn crash(&self) {
        self.state().crash();
    }

    /// Ends the process, but not the machine: everything that was open is dead, and nothing is lost.
    pub fn end_process(&self) {
        self.state().restart();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, state: &State, contents: usize) -> Arc<dyn File> {
        Arc::new(Handle { disk: self.clone(), start: state.start, contents })
    }
}

impl State {
    /// Begins a change or a sync, at which the machine may stop.
    fn step(&mut self) -> io::Result<()> {
        self.check_running()?;
        if self.faults.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        self.counts.changes += 1;
        if self.faults.crash_at == Some(self.counts.changes) {
            self.crashed = true;
        }
        Ok(())
    }

    fn check_running(&self) -> io::Result<()> {
        if self.crashed {
            Err(io::Error::other("the simulated machine has crashed"))
        } else {
            Ok(())
        }
    }

    /// Allocates pages, or fails as a whole.
    fn take(&mut self, pages: u64) -> io::Result<()> {
        let used = self.used + pages;
        if self.faults.capacity.is_some_and(|capacity| used * PAGE > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.used = used;
        Ok(())
    }

    fn rename(&mut self, name: Name, contents: Option<usize>) {
        match contents {
            Some(contents) => self.names.insert(name, contents),
            None => self.names.remove(&name),
        };
        if !self.reliable {
            self.name_changes.push((name, contents));
        }
    }

    /// Only what is synced can be forgotten.
    fn forget_cache(&mut self, contents: usize) {
        let file = &mut self.contents[contents];
        if file.changes.is_empty() {
            self.used -= file.current.allocated();
            file.current = file.synced.clone();
            self.used += file.current.allocated();
        }
    }

    fn sync_ignored(&self, contents: usize) -> bool {
        let is_key = self.names.get(&Name::Keys) == Some(&contents);
        let is_object = || {
            self.names.iter().any(|(name, at)| matches!(name, Name::Object(_)) && *at == contents)
        };
        (self.faults.ignore_key_syncs && is_key) || (self.faults.ignore_object_syncs && is_object())
    }

    fn sync(&mut self, contents: usize) -> io::Result<()> {
        self.step()?;
        self.counts.syncs += 1;
        if self.crashed {
            return self.check_running();
        }
        if self.faults.fail_sync_at == Some(self.counts.syncs) {
            self.contents[contents].lose(&mut self.rng);
            return Err(io::Error::other("the simulated disk lost a write"));
        }
        if !self.sync_ignored(contents) {
            self.contents[contents].sync();
        }
        Ok(())
    }
}

impl Medium for SimulatedDisk {
    fn place(&self) -> String {
        "the simulated disk".to_owned()
    }

    fn open(&self, name: Name) -> io::Result<Arc<dyn File>> {
        let state = self.state();
        state.check_running()?;
        let contents = *state.names.get(&name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(&state, contents))
    }

    fn create(&self, name: Name) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.step()?;
        let contents = match state.names.get(&name) {
            Some(contents) => {
                let contents = *contents;
                let changed = state.change(contents, Change::SetLen(0));
                changed.map(|()| contents)?
            }
            None => {
                state.contents.push(Contents::default());
                let contents = state.contents.len() - 1;
                state.rename(name, Some(contents));
                contents
            }
        };
        state.check_running()?;
        Ok(self.handle(&state, contents))
    }

    fn remove(&self, name: Name) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let contents = *state.names.get(&name).ok_or(io::ErrorKind::NotFound)?;
        state.used -= state.contents[contents].current.allocated();
        state.rename(name, None);
        if state.reliable {
            state.contents[contents] = Contents::default();
        }
        state.check_running()
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.name_changes.is_empty() {
            return state.check_running();
        }
        state.step()?;
        state.counts.syncs += 1;
        if state.faults.fail_sync_at == Some(state.counts.syncs) {
            state.lose_names();
            return Err(io::Error::other("the simulated disk lost a write"));
        }
        state.check_running()?;
        state.synced_names = state.names.clone();
        state.name_changes.clear();
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        let mut state = self.state();
        for contents in 0..state.contents.len() {
            if !state.contents[contents].changes.is_empty() {
                state.sync(contents)?;
            }
        }
        drop(state);
        self.sync_names()
    }

    fn objects_from(&self, first: u64) -> io::Result<Vec<u64>> {
        let state = self.state();
        state.check_running()?;
        let names = state.names.range(Name::Object(first)..);
        let number = |(name, _): (&Name, &usize)| match name {
            Name::Object(number) => Some(*number),
            _ => None,
        };
        Ok(names.filter_map(number).collect())
    }

    fn room(&self) -> io::Result<Room> {
        let state = self.state();
        let total = state.faults.capacity.unwrap_or(1 << 50);
        Ok(Room { total, free: total.saturating_sub(state.used * PAGE) })
    }
}

impl State {
    /// Makes a change in the system's cache.
    fn change(&mut self, contents: usize, change: Change) -> io::Result<()> {
        let current = &self.contents[contents].current;
        let before = current.allocated();
        if let Change::Write(offset, bytes) = &change {
            self.take(current.missing(*offset..offset + bytes.len() as u64))?;
        }
        let reliable = self.reliable;
        let file = &mut self.contents[contents];
        change.apply(&mut file.current);
        let after = file.current.allocated();
        if !matches!(change, Change::Write(..)) {
            self.used -= before - after;
        }
        if !reliable {
            file.changes.push(change);
        }
        Ok(())
    }
}

impl Change {
    fn apply(&self, image: &mut Image) {
        match self {
            Self::Write(offset, bytes) => {
                image.write(*offset, bytes);
                image.len = image.len.max(offset + bytes.len() as u64);
            }
            Self::Punch(range) => image.punch(range.clone()),
            Self::SetLen(len) => image.set_len(*len),
        }
    }
}

/// An open file of a simulated disk.
#[derive(Debug)]
struct Handle {
    disk: SimulatedDisk,
    start: u64,
    contents: usize,
}

impl Handle {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state();
        if state.start != self.start {
            return Err(io::Error::other("the simulated machine has crashed since"));
        }
        state.check_running()?;
        Ok(state)
    }

    /// A change at which the machine stops may be on the disk or not; its caller gets an error.
    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.state()?;
        state.step()?;
        state.change(self.contents, change)?;
        state.check_running()
    }
}

impl File for Handle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state()?.contents[self.contents].current.len)
    }

    fn allocated(&self) -> io::Result<u64> {
        Ok(self.state()?.contents[self.contents].current.allocated() * PAGE)
    }

    fn read(&self, offset: u64, segments: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let state = self.state()?;
        let image = &state.contents[self.contents].current;
        let mut done = 0;
        for segment in segments {
            let read = image.read(offset + done as u64, segment);
            done += read;
            if read < segment.len() {
                break;
            }
        }
        Ok(done)
    }

    fn write(&self, offset: u64, segments: &[IoSlice<'_>]) -> io::Result<()> {
        let bytes: Vec<u8> = segments.iter().flat_map(|segment| segment.iter().copied()).collect();
        self.disk.state().counts.written += bytes.len() as u64;
        self.change(Change::Write(offset, bytes))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::SetLen(len))
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.change(Change::Punch(offset..offset.saturating_add(len)))
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut state = self.state()?;
        state.step()?;
        let range = offset..offset + len;
        let missing = state.contents[self.contents].current.missing(range.clone());
        state.take(missing)?;
        let file = &mut state.contents[self.contents];
        file.current.allocate(range.clone());
        // Blocks are not contents: a crash does not take them.
        file.synced.allocate(range);
        state.check_running()
    }

    fn seek(&self, offset: u64, what: Seek) -> io::Result<Option<u64>> {
        Ok(self.state()?.contents[self.contents].current.seek(offset, what))
    }

    fn sync(&self) -> io::Result<()> {
        self.state()?.sync(self.contents)
    }

    fn forget_cache(&self) -> io::Result<()> {
        self.state()?.forget_cache(self.contents);
        Ok(())
    }
}

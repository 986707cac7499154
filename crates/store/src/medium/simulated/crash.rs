//! Which unsynced changes are on the disk after a crash or a failed sync.

use std::collections::BTreeMap;

use fulmar_base::Rng;

use super::super::image::Image;
use super::{Change, Contents, Counts, Faults, State};

/// The unit that a disk writes as a whole.
const SECTOR: u64 = 512;

/// How many of the changes, in order, each sector has seen.
enum SurvivingChanges {
    /// All sectors the same.
    All(usize),
    /// All sectors the same, but the last change is torn.
    Torn(usize, u64),
    /// Each sector another.
    Any(u64),
}

impl SurvivingChanges {
    fn draw(count: usize, rng: &mut Rng) -> Self {
        match rng.below(4) {
            0 => Self::All(0),
            1 => Self::All(count),
            2 => Self::Torn(rng.below(count as u64 + 1) as usize, rng.u64()),
            _ => Self::Any(rng.u64()),
        }
    }

    fn of_sector(&self, sector: u64, count: usize) -> usize {
        let draw = |seed: u64, bound| Rng::new(seed ^ sector.wrapping_mul(SECTOR | 1)).below(bound);
        match *self {
            Self::All(kept) => kept,
            Self::Torn(kept, seed) => kept.saturating_sub(draw(seed, 2) as usize),
            Self::Any(seed) => draw(seed, count as u64 + 1) as usize,
        }
    }
}

impl Contents {
    /// Everything is on the disk.
    pub(super) fn sync(&mut self) {
        for change in self.changes.drain(..) {
            change.apply(&mut self.synced);
        }
    }

    /// A part of the changes reaches the disk, the others never will.
    pub(super) fn lose(&mut self, rng: &mut Rng) {
        let changes = std::mem::take(&mut self.changes);
        let count = changes.len();
        let kept = SurvivingChanges::draw(count, rng);
        let kept_len = match &kept {
            SurvivingChanges::All(kept) | SurvivingChanges::Torn(kept, _) => *kept,
            SurvivingChanges::Any(_) => rng.below(count as u64 + 1) as usize,
        };
        let mut len = self.synced.len;
        for (at, change) in changes.iter().enumerate() {
            let on_disk = |sector| at < kept.of_sector(sector, count);
            change.apply_to_sectors(&mut self.synced, on_disk);
            if at < kept_len {
                len = change.len_after(len);
            }
        }
        // The length in the directory decides, whatever was written behind it.
        self.synced.cut(len);
    }
}

impl Change {
    fn len_after(&self, len: u64) -> u64 {
        match self {
            Self::Write(offset, bytes) => len.max(offset + bytes.len() as u64),
            Self::Punch(_) => len,
            Self::SetLen(len) => *len,
        }
    }

    fn apply_to_sectors(&self, image: &mut Image, on_disk: impl Fn(u64) -> bool) {
        let (start, end) = match self {
            Self::Write(offset, bytes) => (*offset, offset + bytes.len() as u64),
            Self::Punch(range) => (range.start, range.end.min(image.end())),
            Self::SetLen(len) => (*len, image.end()),
        };
        for sector in start / SECTOR..end.max(start).div_ceil(SECTOR) {
            let from = start.max(sector * SECTOR);
            let to = end.min((sector + 1) * SECTOR);
            if from >= to || !on_disk(sector) {
                continue;
            }
            match self {
                Self::Write(offset, bytes) => {
                    image.write(from, &bytes[(from - offset) as usize..(to - offset) as usize]);
                }
                Self::Punch(_) | Self::SetLen(_) => image.punch(from..to),
            }
        }
    }
}

impl State {
    /// See [`super::SimulatedDisk::crash`].
    pub(super) fn crash(&mut self) {
        for contents in &mut self.contents {
            contents.lose(&mut self.rng);
            contents.current = contents.synced.clone();
        }
        self.lose_names();
        self.names = self.synced_names.clone();
        self.restart();
        let named = self.names.values();
        self.used = named.map(|at| self.contents[*at].current.allocated()).sum();
    }

    /// Makes all handles dead, and ends all faults.
    pub(super) fn restart(&mut self) {
        self.faults = Faults::default();
        self.counts = Counts::default();
        self.start += 1;
        self.crashed = false;
    }

    /// Of the changes of each name the disk has seen some first ones.
    pub(super) fn lose_names(&mut self) {
        let mut lost = BTreeMap::new();
        for (name, contents) in std::mem::take(&mut self.name_changes) {
            let lost = lost.entry(name).or_insert(false);
            *lost = *lost || self.rng.one_in(2);
            match contents {
                _ if *lost => {}
                Some(contents) => drop(self.synced_names.insert(name, contents)),
                None => drop(self.synced_names.remove(&name)),
            }
        }
    }
}

//! The pages of files that the kernel has, and the requests that fill them.
//!
//! A page is locked in the kernel from before the request that fills it is sent until the reply to that is taken, and the
//! message that drops pages waits for the locks of those in its range. So the ranges of requests that wait are left out
//! ([`Pages::wave`]): what fills them is read later, under locks of that time.
//!
//! Files that are mapped have pages in the kernel, on Linux 6.16 under locks (docs/decisions/kernel-data.md). With
//! `datacache=locks` files that are open to be read only are read through the kernel's pages too; those that are open to be written, or with `O_DIRECT`, for direct I/O as ever: a
//! write through pages would keep them locked while it waits for a lock of a server. What the
//! kernel has is always protected or dropped, so opens keep it (`FOPEN_KEEP_CACHE`).
//!
//! * *The deadlock to avoid.* The kernel locks a page before it sends the request that fills it,
//!   until it has the reply, and `INVAL_INODE` waits for the locks of the pages in its range. A
//!   request may wait for a lock that another client gets first; that client waits for ours, and
//!   giving up ours waits for `INVAL_INODE`.
//! * *Waves.* So the message leaves out the ranges of the requests that wait, one message for each
//!   range in between. Their pages have never been filled, and will be with what is read later,
//!   under later locks. A request that comes after that may lock pages that were not there. If the
//!   message is not over after a millisecond and there is such a request, it is left behind, on its
//!   thread, and another wave is sent that leaves out that range too; and so on, twice as late each
//!   time. When one wave is over, each page was dropped by one of them, was not there, or is that
//!   of a request that waits. No request has to be answered under a lock that is given up.
//! * *A reply under way.* The client calls back when it has found the data, while the locks on them
//!   and the layout are held (`File::read_to_keep`). From then on the pages count as filled: a lock
//!   that is lost later has them dropped, and the message waits for the reply, which nothing
//!   delays. Data that were changed by this mount meanwhile, or lost their protection, are read
//!   again; those without any protection are dropped after the reply.
//! * *Which requests fill pages.* Those without an owner of locks: direct reads have one, whatever
//!   the file was opened for. So pages of files that are mapped are known too, also of those that
//!   are open to be written.
//! * *Own changes.* The kernel drops the pages of a range that was written directly or punched, and
//!   behind a cut, after the reply, and waits for requests that fill them.
//! * *Requests that the kernel holds back* would keep pages locked without a record here. So it may
//!   have 65,535 of them under way (fewer in mounts of others than the superuser), and is only
//!   asked not to read ahead from 256 on.
//! * *Mapped files* that are read show what others write as soon as their locks are granted. Pages
//!   that a program writes to where it has mapped the file are written to the servers by the kernel
//!   when it wants, whole; a wave that finds a dirty page has it written, and leaves the page
//!   behind while the write waits for its lock. The kernel may hold such writes back until a cut or
//!   an `fsync` of this mount has ended, so for files that are open to be read and written a wave
//!   is waited for during 10 s at most. What another client has written to a dirty page meanwhile is
//!   then overwritten.
//! * *Memory* that the kernel takes back costs a request. A lost target has all pages of all files
//!   dropped (`Stale::Everything`).

use std::collections::BTreeMap;
use std::ops::Range;

/// The length of a page.
const PAGE: u64 = 4096;
/// How often data are read again because locks do not protect them.
const TRIES: u32 = 3;

/// The pages of all files, by the numbers of these.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    files: BTreeMap<u64, FilePages>,
    /// The last request that fills pages, or that has written them.
    last: u64,
}

#[derive(Debug, Default)]
struct FilePages {
    /// Whether the kernel may have pages that are to be dropped when a lock is lost.
    is_kept: bool,
    /// How often this mount has changed the data since the first of `fills` has begun.
    changes: u64,
    /// How many files are open by which pages may be made dirty.
    writers: u32,
    /// How many drops are under way.
    drops: u32,
    fills: BTreeMap<u64, Fill>,
}

/// A request that fills pages, or writes those that a program has changed in memory.
#[derive(Debug)]
struct Fill {
    range: Range<u64>,
    /// The changes before its data were read.
    changes: u64,
    tries: u32,
    state: FillState,
}

/// What a request that fills pages has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillState {
    /// It waits, or what it has found is not valid any more.
    Nothing,
    /// Its reply is about to be written, with data that are dropped if what protects them is lost.
    Protected,
    /// The same with data that nothing protects.
    Unprotected,
}

/// What the kernel has to drop now of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wave {
    /// Pairs of a first byte and a length, which is 0 if there is no end.
    pub(crate) ranges: Vec<(u64, u64)>,
    /// The last request that is left out.
    pub(crate) last: u64,
}

impl Pages {
    /// The kernel wants to fill pages.
    pub(crate) fn begin(&mut self, file: u64, range: Range<u64>) -> u64 {
        self.last += 1;
        let pages = self.files.entry(file).or_default();
        let range = range.start / PAGE * PAGE..range.end.div_ceil(PAGE).saturating_mul(PAGE);
        let fill = Fill { range, changes: pages.changes, tries: 0, state: FillState::Nothing };
        pages.fills.insert(self.last, fill);
        self.last
    }

    /// The data of a request are about to be read, once more.
    pub(crate) fn attempt(&mut self, file: u64, fill: u64) {
        let Some(pages) = self.files.get_mut(&file) else { return };
        if let Some(fill) = pages.fills.get_mut(&fill) {
            fill.changes = pages.changes;
            fill.tries += 1;
        }
    }

    /// The data of a request are read. To be called while what protects them is held, if that is so.
    pub(crate) fn found(&mut self, file: u64, fill: u64, is_protected: bool) {
        let Some(pages) = self.files.get_mut(&file) else { return };
        let Some(fill) = pages.fills.get_mut(&fill) else { return };
        fill.state = match is_protected {
            _ if fill.changes != pages.changes => FillState::Nothing,
            true => FillState::Protected,
            false if fill.tries >= TRIES => FillState::Unprotected,
            false => FillState::Nothing,
        };
        pages.is_kept |= fill.state != FillState::Nothing;
    }

    /// The pages of a request stay, whatever was found.
    pub(crate) fn stays(&mut self, file: u64, fill: u64) {
        let Some(pages) = self.files.get_mut(&file) else { return };
        let Some(fill) = pages.fills.get_mut(&fill) else { return };
        if fill.state == FillState::Nothing {
            fill.state = FillState::Unprotected;
            pages.is_kept = true;
        }
    }

    /// Returns what a request has come to. One that is not known any more is not waited for: the mount has ended.
    pub(crate) fn state(&self, file: u64, fill: u64) -> FillState {
        let fill = self.files.get(&file).and_then(|pages| pages.fills.get(&fill));
        fill.map_or(FillState::Unprotected, |fill| fill.state)
    }

    /// The reply to a request is written.
    pub(crate) fn end(&mut self, file: u64, fill: u64) {
        self.with(file, |pages| _ = pages.fills.remove(&fill));
    }

    /// This mount has changed the data of a file.
    pub(crate) fn changed(&mut self, file: u64) {
        if let Some(pages) = self.files.get_mut(&file) {
            pages.changes += 1;
        }
    }

    /// Somebody may map a file and write to it from now on, or does no more.
    pub(crate) fn add_writer(&mut self, file: u64, is_new: bool) {
        self.with(file, |pages| {
            if is_new {
                pages.writers += 1
            } else {
                pages.writers = pages.writers.saturating_sub(1)
            }
        });
    }

    /// Returns whether pages of a file may be dirty.
    pub(crate) fn may_be_dirty(&self, file: u64) -> bool {
        self.files.get(&file).is_some_and(|pages| pages.writers > 0)
    }

    /// Returns whether the kernel may have pages of a file, or is dropping them.
    pub(crate) fn concerns(&self, file: u64) -> bool {
        self.files.get(&file).is_some_and(|pages| pages.is_kept || pages.drops > 0)
    }

    /// Begins to drop the pages of a file. Returns whether there may be some.
    pub(crate) fn lose(&mut self, file: u64) -> bool {
        let is_concerned = self.concerns(file);
        if is_concerned {
            self.with(file, |pages| {
                pages.is_kept = false;
                pages.drops += 1;
            });
        }
        is_concerned
    }

    /// The same for all files. Returns which have some.
    pub(crate) fn lose_all(&mut self) -> Vec<u64> {
        let files: Vec<u64> = self.files.keys().copied().collect();
        files.into_iter().filter(|file| self.lose(*file)).collect()
    }

    /// Returns what is to be dropped of a file: all but what requests wait for.
    pub(crate) fn wave(&self, file: u64) -> Wave {
        let waiting = self.files.get(&file).into_iter().flat_map(FilePages::waiting);
        let mut left_out: Vec<Range<u64>> = waiting.map(|(_, fill)| fill.range.clone()).collect();
        left_out.sort_unstable_by_key(|range| range.start);
        let (mut at, mut ranges) = (0, Vec::new());
        for range in left_out {
            if range.start > at {
                ranges.push((at, range.start - at));
            }
            at = at.max(range.end);
        }
        if at <= i64::MAX as u64 {
            ranges.push((at, 0));
        }
        Wave { ranges, last: self.last }
    }

    /// Returns whether a request has come after a wave was begun, which that may wait for.
    pub(crate) fn has_newer(&self, file: u64, wave: &Wave) -> bool {
        let mut waiting = self.files.get(&file).into_iter().flat_map(FilePages::waiting);
        waiting.any(|(number, _)| number > wave.last)
    }

    /// The pages of a file are dropped.
    pub(crate) fn lost(&mut self, file: u64) {
        self.with(file, |pages| pages.drops = pages.drops.saturating_sub(1));
    }

    /// The kernel has forgotten a file.
    pub(crate) fn forget(&mut self, file: u64) {
        self.with(file, |pages| pages.is_kept = false);
    }

    /// Changes what is known of a file, of which nothing is kept if there is nothing.
    fn with(&mut self, file: u64, change: impl FnOnce(&mut FilePages)) {
        let pages = self.files.entry(file).or_default();
        change(pages);
        let is_used = pages.is_kept || pages.writers > 0 || pages.drops > 0;
        if !is_used && pages.fills.is_empty() {
            self.files.remove(&file);
        }
    }
}

impl FilePages {
    fn waiting(&self) -> impl Iterator<Item = (u64, &Fill)> {
        let waits = |(_, fill): &(&u64, &Fill)| fill.state == FillState::Nothing;
        self.fills.iter().filter(waits).map(|(number, fill)| (*number, fill))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(pages: &Pages) -> Vec<(u64, u64)> {
        pages.wave(7).ranges
    }

    #[test]
    fn ranges_that_wait_are_left_out() {
        let mut pages = Pages::default();
        assert_eq!(ranges(&pages), [(0, 0)]);
        let first = pages.begin(7, 8192..12_288);
        assert_eq!(ranges(&pages), [(0, 8192), (12_288, 0)]);
        let second = pages.begin(7, 0..5000);
        pages.begin(8, 0..1 << 20);
        assert_eq!(ranges(&pages), [(12_288, 0)]);
        pages.attempt(7, second);
        pages.found(7, second, true);
        assert_eq!(ranges(&pages), [(0, 8192), (12_288, 0)]);
        pages.end(7, first);
        pages.begin(7, 0..u64::MAX);
        assert_eq!(ranges(&pages), []);
    }

    #[test]
    fn what_was_found_is_kept_until_it_is_lost() {
        let mut pages = Pages::default();
        let fill = pages.begin(7, 0..4096);
        assert!(!pages.concerns(7) && !pages.lose(7));
        pages.attempt(7, fill);
        pages.found(7, fill, true);
        assert_eq!(pages.state(7, fill), FillState::Protected);
        pages.end(7, fill);
        assert!(pages.concerns(7) && pages.lose(7));
        // Another lock is lost at the same time.
        assert!(pages.concerns(7) && pages.lose(7));
        pages.lost(7);
        assert!(pages.concerns(7));
        pages.lost(7);
        assert!(!pages.concerns(7) && pages.files.is_empty());
    }

    #[test]
    fn data_that_were_changed_here_are_read_again() {
        let mut pages = Pages::default();
        let fill = pages.begin(7, 0..4096);
        pages.attempt(7, fill);
        pages.changed(7);
        pages.found(7, fill, true);
        assert_eq!((pages.state(7, fill), pages.concerns(7)), (FillState::Nothing, false));
        pages.attempt(7, fill);
        pages.found(7, fill, true);
        assert_eq!(pages.state(7, fill), FillState::Protected);
    }

    #[test]
    fn data_without_protection_are_read_a_few_times() {
        let mut pages = Pages::default();
        let fill = pages.begin(7, 0..4096);
        for state in [FillState::Nothing, FillState::Nothing, FillState::Unprotected] {
            pages.attempt(7, fill);
            pages.found(7, fill, false);
            assert_eq!(pages.state(7, fill), state);
        }
        assert!(pages.concerns(7));
    }

    #[test]
    fn a_request_of_a_mount_that_has_ended_is_not_tried_again() {
        let mut pages = Pages::default();
        let fill = pages.begin(7, 0..4096);
        pages.attempt(7, fill);
        assert_eq!(pages.state(7, fill), FillState::Nothing);
        pages = Pages::default();
        pages.attempt(7, fill);
        pages.found(7, fill, true);
        assert_ne!(pages.state(7, fill), FillState::Nothing);
        pages.end(7, fill);
        assert!(!pages.lose(7) && pages.files.is_empty());
    }

    #[test]
    fn a_request_that_comes_later_is_left_out_of_the_next_wave() {
        let mut pages = Pages::default();
        let old = pages.begin(7, 0..4096);
        let wave = pages.wave(7);
        assert!(!pages.has_newer(7, &wave));
        pages.begin(8, 0..4096);
        assert!(!pages.has_newer(7, &wave));
        pages.end(7, old);
        pages.begin(7, 0..4096);
        assert!(pages.has_newer(7, &wave) && !pages.has_newer(7, &pages.wave(7)));
    }
}

//! A tree of files: several are copied at once.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::file;
use super::place::{Place, PlaceContent};

/// What is done with each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It is copied. `resumes`: unless its copy has its length and time.
    Copy { resumes: bool },
    /// It is compared with its copy.
    Compare,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) skipped: u64,
    pub(super) failures: u64,
}

/// What happens.
pub(super) enum Event {
    /// Something was not copied, or differs.
    Failed(String),
    /// What was done so far.
    Done(Totals),
}

/// The files that are to be copied.
pub(super) struct Tree {
    purpose: Purpose,
    workers: usize,
    work: Mutex<Work>,
    changed: Condvar,
}

/// What is found somewhere, and where it goes.
type Item = (Place, PlaceContent, Place);

/// The directories of which something is left to do, in the order in which they were listed.
#[derive(Default)]
struct Work {
    directories: BTreeMap<u64, Directory>,
    listed: u64,
}

#[derive(Default)]
struct Directory {
    /// Directories come last, so that there are few of which something waits.
    waiting: VecDeque<Item>,
    /// How many are being done.
    running: usize,
}

impl Work {
    fn add(&mut self, items: VecDeque<Item>) {
        if !items.is_empty() {
            self.listed += 1;
            self.directories.insert(self.listed, Directory { waiting: items, running: 0 });
        }
    }

    /// Removes and returns the next item, with its directory: that in which the fewest are being done, since
    /// files of one directory are made one after the other, and among equals the last one.
    fn take(&mut self) -> Option<(u64, Item)> {
        let left = self.directories.iter_mut().rev().filter(|(_, one)| !one.waiting.is_empty());
        let (number, directory) = left.min_by_key(|(_, one)| one.running)?;
        directory.running += 1;
        Some((*number, directory.waiting.pop_front()?))
    }

    fn done(&mut self, number: u64) {
        if let Entry::Occupied(mut entry) = self.directories.entry(number) {
            entry.get_mut().running -= 1;
            if entry.get().running == 0 && entry.get().waiting.is_empty() {
                entry.remove();
            }
        }
    }
}

/// The end of the work on something.
enum Outcome {
    /// A file of this many bytes was copied or is equal.
    File(u64),
    Skipped,
    /// A directory or a link.
    Other,
}

impl Purpose {
    /// What it does, for people.
    pub(super) fn doing(self) -> &'static str {
        match self {
            Self::Copy { .. } => "copying",
            Self::Compare => "comparing",
        }
    }
}

impl Tree {
    pub(super) fn new(purpose: Purpose, workers: usize) -> Self {
        Self { purpose, workers, work: Mutex::default(), changed: Condvar::new() }
    }

    /// Does all of a tree, from what is `found` at a place to another place, and reports it as it goes on.
    pub(super) fn run(
        &self,
        (from, found, to): (&Place, &PlaceContent, &Place),
        mut report: impl FnMut(Event),
    ) -> Totals {
        self.work().add(VecDeque::from([(from.clone(), found.clone(), to.clone())]));
        let (sender, results) = channel();
        let mut totals = Totals::default();
        std::thread::scope(|scope| {
            for _ in 0..self.workers {
                let sender = sender.clone();
                scope.spawn(move || self.work_on(&sender));
            }
            drop(sender);
            for result in results {
                match result {
                    Ok(Outcome::File(bytes)) => {
                        totals.files += 1;
                        totals.bytes += bytes;
                    }
                    Ok(Outcome::Skipped) => totals.skipped += 1,
                    Ok(Outcome::Other) => {}
                    Err(why) => {
                        totals.failures += 1;
                        report(Event::Failed(why));
                    }
                }
                report(Event::Done(totals));
            }
        });
        totals
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until nothing is left.
    fn work_on(&self, results: &Sender<Result<Outcome, String>>) {
        loop {
            let mut work = self.work();
            let next = loop {
                match work.take() {
                    Some(next) => break next,
                    None if work.directories.is_empty() => return,
                    None => {
                        let waited = self.changed.wait(work);
                        work = waited.unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(work);
            let (directory, (from, found, to)) = next;
            let outcome = self.one(&from, &found, &to, results);
            self.work().done(directory);
            self.changed.notify_all();
            // The receiver waits for all of them.
            let _ = results.send(outcome);
        }
    }

    fn one(
        &self,
        from: &Place,
        found: &PlaceContent,
        to: &Place,
        results: &Sender<Result<Outcome, String>>,
    ) -> Result<Outcome, String> {
        match (found, self.purpose) {
            (PlaceContent::Directory { mode }, purpose) => {
                if matches!(purpose, Purpose::Copy { .. }) {
                    to.make_directory(*mode)?;
                }
                self.list(from, to, results)?;
                Ok(Outcome::Other)
            }
            (PlaceContent::File(meta), Purpose::Copy { resumes }) => {
                let is_there = |copy: Option<PlaceContent>| match copy {
                    Some(PlaceContent::File(copy)) => {
                        (copy.size, copy.mtime) == (meta.size, meta.mtime)
                    }
                    _ => false,
                };
                if resumes && is_there(to.look()?) {
                    return Ok(Outcome::Skipped);
                }
                file::copy(from, meta, to).map(Outcome::File)
            }
            (PlaceContent::File(meta), Purpose::Compare) => {
                file::compare(from, meta, to).map(Outcome::File)
            }
            (PlaceContent::Link { target }, Purpose::Copy { .. }) => {
                to.make_link(target).map(|()| Outcome::Other)
            }
            (PlaceContent::Link { .. }, Purpose::Compare) => {
                if to.look()?.as_ref() == Some(found) {
                    Ok(Outcome::Other)
                } else {
                    Err(format!("{to} differs from {from}: it is not the same link"))
                }
            }
            (PlaceContent::Other, Purpose::Copy { .. }) => {
                Err(format!("{from} is a device, a pipe or a socket, and was not copied"))
            }
            (PlaceContent::Other, Purpose::Compare) => Ok(Outcome::Other),
        }
    }

    /// Adds what is in a directory.
    fn list(
        &self,
        from: &Place,
        to: &Place,
        results: &Sender<Result<Outcome, String>>,
    ) -> Result<(), String> {
        let mut items = VecDeque::new();
        for name in from.list()? {
            let place = from.join(&name);
            match place.look() {
                Ok(Some(found @ PlaceContent::Directory { .. })) => {
                    items.push_back((place, found, to.join(&name)));
                }
                Ok(Some(found)) => items.push_front((place, found, to.join(&name))),
                // It was removed meanwhile.
                Ok(None) => {}
                Err(why) => drop(results.send(Err(why))),
            }
        }
        self.work().add(items);
        self.changed.notify_all();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Copies between two directories of this machine.
    fn run(purpose: Purpose, from: &Place, to: &Place) -> (Totals, Vec<String>) {
        let found = from.follow().unwrap().unwrap();
        let mut failures = Vec::new();
        let totals = Tree::new(purpose, 4).run((from, &found, to), |event| {
            if let Event::Failed(why) = event {
                failures.push(why);
            }
        });
        (totals, failures)
    }

    #[test]
    fn work_is_spread_over_directories() {
        let items = |names: &[&str]| {
            let item = |name: &&str| (Place::local(name), PlaceContent::Other, Place::local(name));
            names.iter().map(item).collect()
        };
        let mut work = Work::default();
        work.add(items(&["a1", "a2", "a3"]));
        work.add(items(&["b1", "b2"]));
        let next = |work: &mut Work| {
            work.take().map(|(number, (from, ..))| (number, from.to_string())).unwrap()
        };
        let four = [0; 4].map(|_| next(&mut work));
        assert_eq!(four.each_ref().map(|(_, name)| name.as_str()), ["b1", "a1", "b2", "a2"]);
        work.done(four[1].0);
        assert_eq!(next(&mut work).1, "a3");
        for number in [1, 1, 2] {
            work.done(number);
            assert!(work.take().is_none() && !work.directories.is_empty(), "some are being done");
        }
        work.done(2);
        assert!(work.directories.is_empty());
    }

    #[test]
    fn a_tree_is_copied_compared_and_continued() {
        let top = std::env::temp_dir().join(format!("fulmar-cp-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        fs::create_dir_all(top.join("from/deep/deeper")).unwrap();
        for number in 0..50 {
            fs::write(top.join(format!("from/deep/{number}")), vec![number; 1000]).unwrap();
        }
        std::os::unix::fs::symlink("../nowhere", top.join("from/deep/deeper/link")).unwrap();
        let place = |name: &str| Place::Local(top.join(name));
        let (from, to) = (place("from"), place("to"));
        let copy = Purpose::Copy { resumes: false };
        let whole = Totals { files: 50, bytes: 50_000, ..Totals::default() };
        assert_eq!(run(copy, &from, &to), (whole, vec![]));
        assert_eq!(run(Purpose::Compare, &from, &to), (whole, vec![]));

        // One copy is incomplete, one has other bytes, and one is not there.
        fs::write(top.join("to/deep/7"), [7; 999]).unwrap();
        fs::write(top.join("to/deep/8"), [9; 1000]).unwrap();
        fs::remove_file(top.join("to/deep/9")).unwrap();
        let (totals, mut failures) = run(Purpose::Compare, &from, &to);
        failures.sort();
        assert_eq!((totals.files, totals.failures), (47, 3));
        assert!(failures[0].ends_with("/from/deep/7 at byte 999"), "{failures:?}");
        assert!(failures[1].ends_with("/from/deep/8 at byte 0"), "{failures:?}");
        assert!(failures[2].ends_with("/to/deep/9: No such file or directory"), "{failures:?}");
        let old = fs::File::open(top.join("to/deep/8")).unwrap();
        old.set_modified(std::time::UNIX_EPOCH).unwrap();
        let (totals, failures) = run(Purpose::Copy { resumes: true }, &from, &to);
        assert_eq!((totals.files, totals.skipped, failures), (3, 47, vec![]));
        assert_eq!(run(Purpose::Compare, &from, &to), (whole, vec![]));
        fs::remove_dir_all(&top).unwrap();
    }
}

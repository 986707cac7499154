//! Random operations of several clients at the same time: on some names in two directories, or on a page of a file.
//!
//! Each is one that systems execute at once: one name or two are looked up by the server that changes them, in directories
//! that stay where they are, and no read or write is more than a page, which a kernel fills and reads as a whole.

use super::generate::{Generator, NAMES, SLOTS, of_open_file, pick};
use super::operation::{Operation, PAGE, Step};
use super::outcome::Kind;
use super::words::{Access, Layout, Owner, Slot};

/// How many operations each client has at most.
const EACH: u64 = 4;
/// The longest append.
const APPEND_MAX: u64 = 500;
/// How many names are used in each directory.
const FEW: usize = 3;
/// Pages of a file that are used.
const PAGES: u64 = 20;

impl Generator {
    /// Returns operations at the same time.
    pub(super) fn together(&mut self) -> Vec<Step> {
        let files = if self.rng.one_in(2) { self.shared() } else { Vec::new() };
        let page = PAGE * self.rng.below(PAGES);
        let names = self.few_names();
        let mut steps = Vec::new();
        for client in 0..self.settings.clients {
            for _ in 0..self.rng.between(1, EACH) {
                let slot = files.iter().find(|(other, ..)| *other == client);
                let operation = match slot {
                    Some(&(_, slot, access)) => self.in_page(slot, access, page),
                    None if files.is_empty() => self.on_names(&names),
                    None => continue,
                };
                if is_renamed_alike(&steps, &operation) {
                    continue;
                }
                steps.push(Step { client, is_together: true, operation });
            }
        }
        steps
    }

    /// Returns slots of several clients that have one file open.
    fn shared(&mut self) -> Vec<(u8, Slot, Access)> {
        let opens =
            self.world.opens.iter().filter(|(_, open)| open.access.read || open.access.write);
        let opens: Vec<_> = opens.map(|(key, open)| (*key, open.inode, open.access)).collect();
        if opens.is_empty() {
            return Vec::new();
        }
        let inode = pick(&mut self.rng, &opens).1;
        let of_file = opens.into_iter().filter(|(_, other, _)| *other == inode);
        let mut all: Vec<_> =
            of_file.map(|((client, slot), _, access)| (client, slot, access)).collect();
        all.dedup_by_key(|(client, ..)| *client);
        if all.len() > 1 { all } else { Vec::new() }
    }

    fn in_page(&mut self, slot: Slot, access: Access, page: u64) -> Operation {
        let within = self.rng.below(PAGE);
        let (at, len) = (page + within, self.rng.between(1, PAGE - within + 1));
        let is_write = access.write && (!access.read || self.rng.one_in(2));
        if self.rng.one_in(5) {
            let share = Access { read: true, write: access.write, ..Access::default() };
            let owner = if self.rng.one_in(2) { Owner::Process } else { of_open_file(slot) };
            let (start, len) = (10 * self.rng.below(3), 20);
            if self.rng.one_in(3) {
                return Operation::Unlock { slot, owner, start, len };
            }
            return Operation::Lock { slot, owner, share, start, len };
        }
        match is_write {
            true if access.append => {
                let (len, pattern) = (self.rng.between(1, APPEND_MAX), self.rng.below(1000));
                Operation::Write { slot, at: 0, len, pattern }
            }
            true => Operation::Write { slot, at, len, pattern: self.rng.below(1000) },
            false => Operation::Read { slot, at, len },
        }
    }

    /// Returns paths in two directories, none of which is one of these or above them.
    fn few_names(&mut self) -> Vec<String> {
        let paths = self.world.paths().into_iter().filter(|(_, kind)| *kind == Kind::Directory);
        let all: Vec<String> =
            paths.map(|(path, _)| path.trim_end_matches('/').to_owned()).collect();
        let directories = [pick(&mut self.rng, &all).clone(), pick(&mut self.rng, &all).clone()];
        let first = self.rng.below(NAMES.len() as u64) as usize;
        let names = NAMES.iter().cycle().skip(first).take(FEW);
        let paths = names.flat_map(|name| directories.each_ref().map(|at| format!("{at}/{name}")));
        let is_above = |path: &str| {
            directories.iter().any(|at| format!("{at}/").starts_with(&format!("{path}/")))
        };
        paths.filter(|path| !is_above(path)).collect()
    }

    fn on_names(&mut self, paths: &[String]) -> Operation {
        let mut path = || pick(&mut self.rng, paths).clone();
        let (path, other) = (path(), path());
        match self.rng.below(10) {
            0 | 1 => Operation::MakeDirectory { path, mode: self.mode() },
            2 => Operation::RemoveDirectory { path },
            3 | 4 => Operation::Unlink { path },
            5 | 6 => Operation::Rename { from: path, to: other },
            7 => Operation::Symlink { path, target: "f0".to_owned() },
            8 => Operation::ReadLink { path },
            _ => {
                let slot = Slot(self.rng.below(SLOTS) as u8);
                let access = Access {
                    read: true,
                    write: true,
                    create: true,
                    exclusive: true,
                    ..Access::default()
                };
                Operation::Open { slot, path, access, layout: Layout::Default }
            }
        }
    }
}

/// Returns whether a rename is one that is there already. A kernel looks up the source and then the target. If the
/// other rename was executed between the two, it finds one file in both, and has nothing to do.
fn is_renamed_alike(steps: &[Step], operation: &Operation) -> bool {
    matches!(operation, Operation::Rename { .. })
        && steps.iter().any(|step| step.operation == *operation)
}

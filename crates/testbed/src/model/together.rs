//! Random operations of several clients at the same time: on names in one directory, or on a page of a file.
//!
//! Each is one that systems execute at once: one name or two are looked up by the server that changes them, and no read or
//! write is more than a page, which a kernel fills and reads as a whole.

use super::generate::{Generator, NAMES, SLOTS, pick};
use super::operation::{Operation, PAGE, Step};
use super::words::{Access, Layout, Owner, Slot};

/// How many operations each client has at most.
const EACH: u64 = 2;
/// The longest append.
const APPEND_MAX: u64 = 500;
/// Pages of a file that are used.
const PAGES: u64 = 20;

impl Generator {
    /// Returns operations at the same time.
    pub(super) fn together(&mut self) -> Vec<Step> {
        let files = if self.rng.one_in(2) { self.shared() } else { Vec::new() };
        let page = PAGE * self.rng.below(PAGES);
        let mut steps = Vec::new();
        for client in 0..self.settings.clients {
            for _ in 0..self.rng.between(1, EACH + 1) {
                let slot = files.iter().find(|(other, ..)| *other == client);
                let operation = match slot {
                    Some(&(_, slot, access)) => self.in_page(slot, access, page),
                    None if files.is_empty() => self.in_directory(),
                    None => continue,
                };
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
            let owner = if self.rng.one_in(2) { Owner::Process } else { Owner::OpenFile };
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

    fn in_directory(&mut self) -> Operation {
        let mut path = || format!("/{}", pick(&mut self.rng, NAMES));
        let (path, other) = (path(), path());
        match self.rng.below(8) {
            0 | 1 => Operation::MakeDirectory { path, mode: self.mode() },
            2 => Operation::RemoveDirectory { path },
            3 => Operation::Unlink { path },
            4 | 5 => Operation::Rename { from: path, to: other },
            6 => Operation::Symlink { path, target: "f0".to_owned() },
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

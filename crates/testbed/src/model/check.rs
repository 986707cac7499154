//! Operations are executed, and what they return is compared with the model.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::take;
use std::time::Instant;

use fulmar_base::Errno;

use super::operation::{Operation, Step};
use super::order::{self, TimedOutcome};
use super::outcome::{Expectation, Kind, Outcome};
use super::words::{Access, Layout, Slot, Target};
use super::world::World;
use super::world::kills::Place;

/// What executes operations: a file system with its clients, in a directory that is empty at first.
pub trait Executor {
    /// Executes an operation.
    fn perform(&mut self, step: &Step) -> Outcome;

    /// Executes operations at the same time, those of each client in their order; or, if that is not possible, one after
    /// another.
    fn perform_together(&mut self, steps: &[Step]) -> Vec<TimedOutcome> {
        let each = steps.iter().map(|step| {
            let begun = Instant::now();
            TimedOutcome { outcome: self.perform(step), begun, ended: Instant::now() }
        });
        each.collect()
    }

    /// Returns whether an outcome that the model does not admit is as it is known of these servers.
    fn admits(&self, _operation: &Operation, _expected: &Expectation, _found: &Outcome) -> bool {
        false
    }
}

/// Outcomes that the model does not admit.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was executed: the last ones failed.
    pub steps: Vec<Step>,
    /// What the model admits: any of these; of operations at the same time nothing, as they have no order.
    pub expected: Vec<Expectation>,
    /// What was returned, by each of the last operations.
    pub found: Vec<Outcome>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.steps.len() - self.found.len();
        if let (Some(expected), [found]) = (self.expected.first(), &self.found[..]) {
            writeln!(f, "operation {}, {:?}:", first + 1, self.steps[first].to_string())?;
            writeln!(f, "  expected {expected:?}")?;
            return writeln!(f, "  found    {found:?}{}", expected.difference(found));
        }
        writeln!(f, "operations from {} on, which no order explains:", first + 1)?;
        for (step, found) in self.steps[first..].iter().zip(&self.found) {
            writeln!(f, "  {step}: {found:?}")?;
        }
        Ok(())
    }
}

/// The slot in which all files are examined at the end.
const SLOT: Slot = Slot(9);
/// As much is read of each end of a file.
const READ: u64 = 768 << 10;

/// Executes operations, and then examines all files by each client.
///
/// # Errors
/// The first outcome that the model does not admit.
pub fn check(steps: &[Step], clients: u8, executor: &mut dyn Executor) -> Result<(), Box<Failure>> {
    let mut run = Run { worlds: vec![World::default()], steps: Vec::new(), clients, executor };
    let mut left = steps;
    while let Some(first) = left.first() {
        let count = left.iter().take_while(|step| step.is_together).count();
        if count == 0 {
            run.perform(first.clone())?;
        } else {
            run.perform_together(&left[..count])?;
        }
        left = &left[count.max(1)..];
    }
    if !run.world().full().is_empty() {
        run.perform(Step::alone(0, Operation::Drain { target: Target::All }))?;
    }
    for client in 0..clients {
        run.examine(client)?;
    }
    Ok(())
}

struct Run<'a> {
    /// What the file system may be: one, unless operations at the same time had several orders.
    worlds: Vec<World>,
    steps: Vec<Step>,
    clients: u8,
    executor: &'a mut dyn Executor,
}

impl Run<'_> {
    fn world(&self) -> &World {
        &self.worlds[0]
    }

    fn perform(&mut self, step: Step) -> Result<(), Box<Failure>> {
        match step.operation {
            Operation::Evict {} => self.write_back(step.client)?,
            // A program has no answer to it, which it would be told by a signal or not at all.
            Operation::Store { .. } if !self.world().full().is_empty() => return Ok(()),
            _ => {}
        }
        let found = self.executor.perform(&step);
        self.worlds.iter_mut().for_each(|world| world.adopt(&step, &found));
        let expected: Vec<_> = self.worlds.iter_mut().map(|world| world.apply(&step)).collect();
        let executor = &self.executor;
        let admits =
            |one: &Expectation| one.admits(&found) || executor.admits(&step.operation, one, &found);
        let admits: Vec<bool> = expected.iter().map(admits).collect();
        let client = step.client;
        let is_kill = step.operation == (Operation::Kill {});
        let is_refused = matches!(found, Outcome::Failed(Errno::ENOSPC) | Outcome::Part(_));
        self.steps.push(step);
        if !admits.contains(&true) {
            let found = vec![found];
            return Err(Box::new(Failure { steps: take(&mut self.steps), expected, found }));
        }
        let mut admits = admits.into_iter();
        self.worlds.retain(|_| admits.next().unwrap_or(false));
        if is_kill {
            self.settle_lost((client + 1) % self.clients)
        } else if is_refused {
            self.settle_refused(client)
        } else {
            Ok(())
        }
    }

    /// Has all open files of a client be told that it was refused room, and reads what is there.
    fn settle_refused(&mut self, client: u8) -> Result<(), Box<Failure>> {
        for slot in self.world().unreported(client) {
            self.perform(Step::alone(client, Operation::Sync { slot }))?;
        }
        self.settle_lost(client)
    }

    fn perform_together(&mut self, steps: &[Step]) -> Result<(), Box<Failure>> {
        let found = self.executor.perform_together(steps);
        self.steps.extend_from_slice(steps);
        let mut after: Vec<World> = Vec::new();
        for world in self.worlds.iter().flat_map(|world| order::after(world, steps, &found)) {
            order::add(&mut after, world);
        }
        if after.is_empty() {
            let found = found.into_iter().map(|timed| timed.outcome).collect();
            let steps = take(&mut self.steps);
            return Err(Box::new(Failure { steps, expected: Vec::new(), found }));
        }
        self.worlds = after;
        self.settle(steps)
    }

    /// Reads what operations at the same time have changed, so that fewer orders of them explain it.
    fn settle(&mut self, steps: &[Step]) -> Result<(), Box<Failure>> {
        let paths = self.world().paths().into_iter();
        for (path, _) in paths.filter(|(_, kind)| *kind == Kind::Directory) {
            self.perform(Step::alone(steps[0].client, Operation::List { path, skip: 0 }))?;
        }
        let opens = &self.world().opens;
        let is_readable = |key: &(u8, Slot)| opens.get(key).is_some_and(|open| open.access.read);
        let mut slots = steps.iter().filter_map(|step| Some((step.client, step.operation.slot()?)));
        match slots.find(is_readable) {
            Some((client, slot)) if self.worlds.len() > 1 => self.read(client, slot),
            _ => Ok(()),
        }
    }

    /// Has what a client has written be on disk, as an eviction takes what is in its cache. Nothing of a file that has no name
    /// any more can be promised: all clients close it.
    fn write_back(&mut self, client: u8) -> Result<(), Box<Failure>> {
        let world = self.world();
        let opens = world.opens.iter().map(|(key, open)| (*key, world.inodes[&open.inode].links));
        for ((other, slot), links) in opens.collect::<Vec<_>>() {
            if links == 0 {
                self.perform(Step::alone(other, Operation::Close { slot }))?;
            } else if other == client {
                self.perform(Step::alone(client, Operation::Sync { slot }))?;
            }
        }
        for (path, kind) in self.world().paths() {
            let world = self.world();
            let number = world.resolve(&path, false);
            let mut own = world.opens.iter().filter(|((other, _), _)| *other == client);
            // That would close it, which unlocks what its process has locked.
            let is_open = own.any(|(_, open)| Ok(open.inode) == number);
            if kind == Kind::File && !is_open {
                let access = Access { read: true, ..Access::default() };
                let (slot, layout) = (SLOT, Layout::Default);
                for operation in [
                    Operation::Open { slot, path, access, layout },
                    Operation::Sync { slot },
                    Operation::Close { slot },
                ] {
                    self.perform(Step::alone(client, operation))?;
                }
            }
        }
        Ok(())
    }

    /// Reads by a client what may be lost, so that it is known from then on.
    fn settle_lost(&mut self, client: u8) -> Result<(), Box<Failure>> {
        let mut lost = BTreeMap::new();
        self.worlds.iter().for_each(|world| lost.extend(world.lost()));
        for (number, ranges) in lost {
            let (client, slot, may_read) = match self.world().place_of(number) {
                Some(Place::Path(path)) => {
                    let open = questions(&path, Kind::File).pop();
                    open.map_or(Ok(()), |open| self.perform(Step::alone(client, open)))?;
                    (client, SLOT, true)
                }
                Some(Place::Open(client, slot, may_read)) => (client, slot, may_read),
                None => continue,
            };
            self.perform(Step::alone(client, Operation::StatOpen { slot }))?;
            for (at, len) in ranges.into_iter().filter(|_| may_read) {
                self.perform(Step::alone(client, Operation::Read { slot, at, len }))?;
            }
            if slot == SLOT {
                self.perform(Step::alone(client, Operation::Close { slot }))?;
            }
        }
        Ok(())
    }

    /// Reads everything by a client.
    fn examine(&mut self, client: u8) -> Result<(), Box<Failure>> {
        let opens = self.world().opens.iter().filter(|((other, _), _)| *other == client);
        let opens: Vec<(Slot, Access)> =
            opens.map(|((_, slot), open)| (*slot, open.access)).collect();
        for (slot, access) in opens {
            self.perform(Step::alone(client, Operation::StatOpen { slot }))?;
            if access.read {
                self.read(client, slot)?;
            }
        }
        for (path, kind) in self.world().paths() {
            for operation in questions(&path, kind) {
                self.perform(Step::alone(client, operation))?;
            }
            if kind == Kind::File {
                self.read(client, SLOT)?;
                self.perform(Step::alone(client, Operation::Close { slot: SLOT }))?;
            }
        }
        Ok(())
    }

    /// Reads the file of a slot: both ends, if it is long.
    fn read(&mut self, client: u8, slot: Slot) -> Result<(), Box<Failure>> {
        let size = self.world().size((client, slot)).unwrap_or_default();
        for at in [0, size.saturating_sub(READ)] {
            self.perform(Step::alone(client, Operation::Read { slot, at, len: READ }))?;
            if size <= READ {
                break;
            }
        }
        Ok(())
    }
}

/// Returns what is asked of each path; of a file last that it is opened.
fn questions(path: &str, kind: Kind) -> Vec<Operation> {
    let path = path.to_owned();
    let stat = Operation::Stat { path: path.clone() };
    let attributes =
        [Operation::ListXattrs { path: path.clone() }, Operation::GetAcl { path: path.clone() }];
    match kind {
        Kind::Symlink => vec![stat, Operation::ReadLink { path }],
        Kind::Directory => [
            vec![stat, Operation::List { path: path.clone(), skip: 2 }],
            vec![Operation::GetDefault { path }],
            attributes.to_vec(),
        ]
        .concat(),
        Kind::File => {
            let access = Access { read: true, ..Access::default() };
            let open = Operation::Open { slot: SLOT, path, access, layout: Layout::Default };
            [vec![stat], attributes.to_vec(), vec![open]].concat()
        }
    }
}

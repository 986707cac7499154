//! Operations are executed, and what they return is compared with the model.

use std::fmt;

use super::operation::{Operation, Step};
use super::outcome::{Expected, Kind, Outcome};
use super::words::{Access, Layout, Slot};
use super::world::World;

/// What executes operations: a file system with its clients, in a directory that is empty at first.
pub trait Executor {
    /// Executes an operation.
    fn perform(&mut self, step: &Step) -> Outcome;
}

/// An outcome that the model does not admit.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was executed: the last one failed.
    pub steps: Vec<Step>,
    /// What the model admits.
    pub expected: Expected,
    /// What it was.
    pub found: Outcome,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, difference) = (self.steps.len(), self.expected.difference(&self.found));
        let step = self.steps.last().map(Step::to_string).unwrap_or_default();
        writeln!(f, "operation {number}, {step:?}:")?;
        writeln!(f, "  expected {:?}", self.expected)?;
        writeln!(f, "  found    {:?}{difference}", self.found)
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
    let mut run = Run { world: World::default(), steps: Vec::new(), executor };
    for step in steps {
        run.perform(step.clone())?;
    }
    for client in 0..clients {
        run.examine(client)?;
    }
    Ok(())
}

struct Run<'a> {
    world: World,
    steps: Vec<Step>,
    executor: &'a mut dyn Executor,
}

impl Run<'_> {
    fn perform(&mut self, step: Step) -> Result<(), Box<Failure>> {
        let expected = self.world.apply(&step);
        let found = self.executor.perform(&step);
        self.steps.push(step);
        if expected.admits(&found) {
            return Ok(());
        }
        Err(Box::new(Failure { steps: std::mem::take(&mut self.steps), expected, found }))
    }

    /// Reads everything by a client.
    fn examine(&mut self, client: u8) -> Result<(), Box<Failure>> {
        let opens = self.world.opens.iter().filter(|((other, _), _)| *other == client);
        let opens: Vec<(Slot, Access)> =
            opens.map(|((_, slot), open)| (*slot, open.access)).collect();
        for (slot, access) in opens {
            self.perform(Step { client, operation: Operation::StatOpen { slot } })?;
            if access.read {
                self.read(client, slot)?;
            }
        }
        for (path, kind) in self.world.paths() {
            for operation in questions(&path, kind) {
                self.perform(Step { client, operation })?;
            }
            if kind == Kind::File {
                self.read(client, SLOT)?;
                self.perform(Step { client, operation: Operation::Close { slot: SLOT } })?;
            }
        }
        Ok(())
    }

    /// Reads the file of a slot: both ends, if it is long.
    fn read(&mut self, client: u8, slot: Slot) -> Result<(), Box<Failure>> {
        let size = self.world.size((client, slot)).unwrap_or_default();
        for at in [0, size.saturating_sub(READ)] {
            self.perform(Step { client, operation: Operation::Read { slot, at, len: READ } })?;
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

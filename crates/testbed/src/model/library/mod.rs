//! Operations by clients of this process, without a kernel, on servers of this process.
//!
//! What a kernel does for its programs is done here: slots and what they are open for, symbolic links that are opened, names in
//! what is no directory, and locks that go with a close.

mod files;
mod names;

use std::collections::BTreeMap;
use std::mem::{replace, take};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fulmar_base::Errno;
use fulmar_client::{Attributes, Caller, File, FileSystem, blocking};
use fulmar_lustre_wire::Fid;
use fulmar_net::Node;

use super::check::{Executor, Failure, check};
use super::operation::{Operation, Step};
use super::order::{TimedOutcome, timed};
use super::outcome::{Kind, Outcome, Stat, Time};
use super::servers::Servers;
use super::visit::visit;
use super::words::{Access, Slot};
use crate::kill::Net;

static CALLER: Caller = Caller::ROOT;

/// Servers, and clients with a mount each.
pub struct Library {
    servers: Servers,
    mounts: Vec<(FileSystem, Node)>,
    runs: u32,
}

impl Library {
    /// Starts servers over directories in `scratch`, and mounts them by as many clients.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn start(scratch: &Path, net: Net, clients: u8) -> Result<Self, String> {
        let servers = Servers::start(scratch, net)?;
        let mounts = (0..clients).map(|client| servers.mount(client)).collect::<Result<_, _>>()?;
        Ok(Self { servers, mounts, runs: 0 })
    }

    /// Executes operations in a new directory, and examines it by each client.
    ///
    /// # Errors
    /// The first outcome that the model does not admit.
    ///
    /// # Panics
    /// If no directory can be made.
    pub fn check(&mut self, steps: &[Step]) -> Result<(), Box<Failure>> {
        self.runs += 1;
        self.servers.drain_all();
        let name = format!("run{}", self.runs);
        let (first, clients) = (&self.mounts[0].0, self.mounts.len() as u8);
        let made = blocking::wait(first.mkdir(&CALLER, first.root(), name.as_bytes(), 0o755));
        made.unwrap_or_else(|errno| panic!("{name} cannot be made: {errno}"));
        let client = |(mount, _): &(FileSystem, Node)| Client {
            mount: mount.clone(),
            root: name.clone(),
            slots: BTreeMap::new(),
            begun: now(),
            opens: 0,
        };
        let each = self.mounts.iter().map(client).collect();
        let (servers, mounts) = (&mut self.servers, &mut self.mounts);
        check(steps, clients, &mut Run { servers, mounts, clients: each })
    }

    /// Ends the mounts and the servers.
    ///
    /// # Errors
    /// The damage of what the servers have stored.
    pub fn stop(self) -> Result<(), String> {
        for (mount, node) in self.mounts {
            blocking::wait(mount.unmount());
            node.stop();
        }
        let damage = self.servers.stop();
        if damage.is_empty() { Ok(()) } else { Err(damage.join("\n")) }
    }
}

/// Returns the time in seconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() as i64
}

/// The result of an operation.
type OperationResult = Result<Outcome, Errno>;

/// An open file.
struct Open {
    file: File,
    access: Access,
    /// Of all opens of the client: whose its locks are.
    number: u64,
    /// Whether the client was evicted since, so that the MDT does not know of it.
    is_lost: bool,
}

/// The operations of a run, in a directory of their own.
struct Run<'a> {
    servers: &'a mut Servers,
    mounts: &'a mut Vec<(FileSystem, Node)>,
    clients: Vec<Client>,
}

/// Those of a client.
struct Client {
    mount: FileSystem,
    root: String,
    slots: BTreeMap<Slot, Open>,
    begun: i64,
    opens: u64,
}

impl Executor for Run<'_> {
    fn perform(&mut self, step: &Step) -> Outcome {
        if step.operation.is_fault() {
            return self.perform_fault(step);
        }
        self.clients[usize::from(step.client)].perform(&step.operation)
    }

    fn perform_together(&mut self, steps: &[Step]) -> Vec<TimedOutcome> {
        timed(&mut self.clients, steps, Client::perform)
    }
}

impl Run<'_> {
    /// Ends the node of a client without a word to servers, and mounts the file system on another one with its address.
    fn kill(&mut self, client: u8) {
        let recovered = self.servers.wait_for_recovery();
        recovered.unwrap_or_else(|error| panic!("{error}"));
        let (mounted, own) =
            (&mut self.mounts[usize::from(client)], &mut self.clients[usize::from(client)]);
        mounted.1.stop();
        let evicted = self.servers.evict(client);
        let again = evicted.and_then(|()| self.servers.mount(client));
        let again = again.unwrap_or_else(|error| panic!("cannot mount again: {error}"));
        let (slots, mount) = (take(&mut own.slots), replace(&mut own.mount, again.0.clone()));
        let before = replace(mounted, again);
        // They wait some time for an end that servers do not hear of.
        std::thread::spawn(move || drop((slots, mount, before)));
    }

    fn perform_fault(&mut self, step: &Step) -> Outcome {
        if step.operation == (Operation::Kill {}) {
            self.kill(step.client);
            return Outcome::Done;
        }
        let done = self.servers.perform(step);
        match &step.operation {
            // It is to break what comes next.
            Operation::Disconnect { .. } => {}
            Operation::Evict {} => {
                self.use_servers();
                let slots = &mut self.clients[usize::from(step.client)].slots;
                slots.values_mut().for_each(|open| open.is_lost = true);
            }
            _ => self.use_servers(),
        }
        done
    }

    /// Has each client use all servers, so that it learns of a fault: targets recover when the last client is there, and one
    /// that does nothing sends them a ping only now and then.
    fn use_servers(&self) {
        let least = self.servers.least();
        std::thread::scope(|scope| {
            for client in &self.clients {
                scope.spawn(move || {
                    let size = || blocking::wait(client.mount.statfs()).ok();
                    let done = visit(least, || size().map(|found| (found.bytes, found.files)));
                    assert_eq!(done, Outcome::Done, "a client cannot use the servers");
                });
            }
        });
    }
}

impl Client {
    fn perform(&mut self, operation: &Operation) -> Outcome {
        let performed = if operation.slot().is_some() {
            self.on_open(operation)
        } else {
            self.on_names(operation)
        };
        performed.unwrap_or_else(Outcome::Failed)
    }

    fn path(&self, path: &str) -> Vec<u8> {
        format!("{}/{}", self.root, path.trim_start_matches('/')).into_bytes()
    }

    /// Returns the file of a path.
    fn find(&self, path: &str, follows: bool) -> Result<Fid, Errno> {
        blocking::wait(self.mount.resolve(&CALLER, &self.path(path), follows))
    }

    /// Returns the directory of a path, and the name in it.
    fn parent<'a>(&self, path: &'a str) -> Result<(Fid, &'a [u8]), Errno> {
        let (above, name) = path.rsplit_once('/').unwrap_or_default();
        if name.is_empty() {
            return Err(Errno::EBUSY);
        }
        let (mount, fid) = (&self.mount, self.find(above, true)?);
        let is_directory = blocking::wait(mount.getattr(&CALLER, fid))?.is_directory();
        if is_directory { Ok((fid, name.as_bytes())) } else { Err(Errno::ENOTDIR) }
    }

    fn stat(&self, found: &Attributes) -> Outcome {
        let Some(kind) = Kind::of_mode(found.mode) else { return Outcome::Failed(Errno::EIO) };
        let time = |seconds| Time::of(seconds, self.begun);
        Outcome::Stat(Stat {
            kind,
            mode: found.mode & 0o7777,
            uid: found.uid,
            gid: found.gid,
            links: found.links,
            size: Some(found.size),
            blocks: found.blocks..=found.blocks,
            atime: Some(time(found.atime)),
            mtime: Some(time(found.mtime)),
            ctime: time(found.ctime),
        })
    }
}

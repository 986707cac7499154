//! The targets in the driver.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use fulmar_base::{BufferId, Errno, Time};
use fulmar_net::{self as net, Buffer, Host, Job, Node, Running, Service};
use fulmar_rpc::export::TargetId;
use fulmar_store::{OnCommit, Sink, Source};
use fulmar_target::data::Room;

use crate::context::{Context, Work};
use crate::memory::{Memories, Memory, Part};
use crate::pool::{Pool, Queue};
use crate::target::Operation;
use crate::targets::Targets;

impl Memory for Buffer {
    fn size(&self) -> usize {
        self.len()
    }

    fn write_at(&self, offset: usize, bytes: &[u8]) {
        Self::write_at(self, offset, bytes);
    }

    fn read_at(&self, offset: usize, bytes: &mut [u8]) {
        Self::read_at(self, offset, bytes);
    }

    fn is_shared(&self) -> bool {
        Self::is_shared(self)
    }

    fn part(&self, range: Range<usize>) -> Box<dyn Part> {
        Box::new(Piece(self.slice(range).into()))
    }
}

/// A part of a buffer, between which and a file the kernel moves the bytes.
struct Piece(net::Memory);

impl Source for Piece {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn write_to(&self, file: BorrowedFd<'_>, offset: u64) -> io::Result<()> {
        match self.0.write_to(file, offset)? {
            written if written == self.0.len() => Ok(()),
            _ => Err(ErrorKind::WriteZero.into()),
        }
    }

    fn copy(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.0.len()];
        self.0.read_at(0, &mut bytes);
        bytes
    }
}

impl Sink for Piece {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_from(&mut self, file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<u64> {
        let part = self.0.slice(0..len as usize);
        Ok(part.read_from(file, offset)? as u64)
    }

    fn fill(&mut self, bytes: &[u8]) {
        self.0.write_at(0, bytes);
    }
}

impl Room for Piece {
    fn clear(&mut self, from: u64) {
        const ZEROS: [u8; 4096] = [0; 4096];
        let mut at = from as usize;
        while at < self.0.len() {
            let len = ZEROS.len().min(self.0.len() - at);
            self.0.write_at(at, &ZEROS[..len]);
            at += len;
        }
    }
}

/// Does the brief work of the targets' operations, and has threads do what may wait for a disk.
#[derive(Debug)]
pub struct TargetHost {
    memories: Arc<Memories<Buffer>>,
    queue: Arc<Queue>,
}

impl Host for TargetHost {
    type Service = Targets;

    fn memory(&self, buffer: BufferId) -> Option<net::Memory> {
        self.memories.get(buffer).map(|buffer| net::Memory::from(&*buffer))
    }

    fn handle(&self, _: &Service, _: &mut Targets, work: Work) -> Option<Job<Targets>> {
        if work.is_brief() {
            return Some(Box::new(move || {
                work.run();
                Box::new(Targets::resume)
            }));
        }
        self.queue.send(work);
        None
    }
}

/// Targets that are served.
pub struct RunningTargets {
    running: Running<TargetHost>,
    /// The same for the threads, until the end.
    machine: Machine,
    pool: Pool,
}

/// The machine, as long as it is served: what it uses is not used any more after that.
type Machine = Arc<Mutex<Option<Running<TargetHost>>>>;

/// Calls the machine, if it is served and its node has not failed.
fn call(machine: &Machine, call: impl FnOnce(&mut Targets, Time)) {
    let running = machine.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(running) = running {
        let _ = running.call(call);
    }
}

/// How many threads wait for disks.
const THREADS: usize = 16;

impl RunningTargets {
    /// Serves the targets on a node.
    ///
    /// # Errors
    /// Why a portal cannot be opened; EAGAIN if there are no threads.
    pub fn start(
        node: &Node,
        targets: Targets,
        memories: Arc<Memories<Buffer>>,
    ) -> Result<Self, Errno> {
        let machine = Machine::default();
        let of_threads = machine.clone();
        let done = move || call(&of_threads, Targets::resume);
        let pool = Pool::start(THREADS, done).map_err(|_| Errno::EAGAIN)?;
        let host = TargetHost { memories, queue: pool.queue() };
        let running = Running::start(node, Targets::CONFIG, targets, host, [])?;
        *machine.lock().unwrap_or_else(PoisonError::into_inner) = Some(running.clone());
        Ok(Self { running, machine, pool })
    }

    /// Returns what is called after each commit of a target's store. The thread that commits does not
    /// wait for the machine.
    pub fn on_commit(&self, target: TargetId) -> OnCommit {
        let (machine, queue) = (self.machine.clone(), self.pool.queue());
        Box::new(move |committed| {
            let machine = machine.clone();
            let report = move || {
                call(&machine, |targets, now| targets.committed(now, target, committed));
            };
            queue.send(Work::new(report));
        })
    }

    /// Returns what lets operations go on, when other threads than those of the targets have what they
    /// wait for.
    pub fn resume(&self) -> impl Fn() + Send + Sync + 'static {
        let queue = self.pool.queue();
        move || queue.send(Work::new(|| {}))
    }

    /// Returns what begins operations, until the end.
    pub(crate) fn starter(&self) -> Starter {
        Starter(self.machine.clone())
    }

    /// Returns the machine.
    pub fn running(&self) -> &Running<TargetHost> {
        &self.running
    }
}

/// Begins operations of targets that no client has requested, as long as they are served.
#[derive(Clone)]
pub(crate) struct Starter(Machine);

impl Starter {
    pub(crate) fn begin(&self, target: TargetId, operation: impl FnOnce(Context) -> Operation<()>) {
        call(&self.0, |targets, now| {
            let context = targets.context(target);
            targets.spawn(now, target, operation(context));
        });
    }
}

impl Drop for RunningTargets {
    fn drop(&mut self) {
        self.running.close();
        // Timers of the node may keep the machine for a while, but not the stores.
        call(&self.machine, |targets, _| targets.end());
        *self.machine.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

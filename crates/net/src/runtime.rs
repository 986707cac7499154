//! The I/O threads, and messages to them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use fulmar_base::Time;
use fulmar_lnet_wire::Nid;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{CpuSet, sched_setaffinity};
use tracing::warn;

use crate::actions::LoopCopy;
use crate::conn::Conn;
use crate::descriptors;
use crate::error::StartError;
use crate::failure::{Failure, catch};
use crate::listener::Listener;
use crate::lock::Lock;
use crate::messages::Messages;
use crate::shared as node;
use crate::thread::{Thread, TimeoutHandler};
use crate::watch::Watch;

/// The I/O threads that nodes share. Clones are handles to the same threads; they end with the
/// last.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) shared: Arc<Shared>,
    _threads: Arc<Threads>,
}

impl Runtime {
    /// Starts `threads` I/O threads, or as many as this process has cores.
    ///
    /// The limit of open files of the process is raised as far as it may be.
    ///
    /// # Errors
    /// If the operating system refuses a thread or a descriptor.
    pub fn new(threads: Option<usize>) -> Result<Self, StartError> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let count = threads.unwrap_or_else(cores).max(1);
        Self::start((0..count).map(|_| Place { cpt: 0, cores: Vec::new() }).collect())
    }

    /// Starts I/O threads for CPTs (CPU partitions), which are lists of cores: `nscheds` for each,
    /// or as many as it has cores. The threads of a CPT run on its cores only.
    ///
    /// # Errors
    /// As [`Runtime::new`].
    pub fn with_cpts(cpts: &[Vec<usize>], nscheds: Option<usize>) -> Result<Self, StartError> {
        let places = cpts.iter().enumerate().flat_map(|(cpt, cores)| {
            let count = nscheds.unwrap_or(cores.len()).max(1);
            (0..count).map(move |_| Place { cpt, cores: cores.clone() })
        });
        Self::start(places.collect())
    }

    fn start(places: Vec<Place>) -> Result<Self, StartError> {
        descriptors::raise_limit();
        let mailboxes = places.iter().map(|place| Mailbox::new(place.cpt));
        let mailboxes = mailboxes.collect::<io::Result<_>>();
        let shared = Arc::new(Shared {
            mailboxes: mailboxes.map_err(StartError::system("make an eventfd"))?,
            started: Instant::now(),
            keys: AtomicU64::new(0),
            nodes: Lock::default(),
            unprivileged: AtomicBool::new(false),
            watch: Watch::new().map_err(StartError::system("make an eventfd"))?,
        });
        let mut threads = Threads { shared: shared.clone(), handles: Vec::new() };
        for (index, place) in places.into_iter().enumerate() {
            let thread = Thread::new(index, shared.clone());
            let thread = thread.map_err(StartError::system("make an epoll descriptor"))?;
            let builder = std::thread::Builder::new().name(format!("fulmar-io-{index}"));
            let handle = builder.spawn(move || {
                pin(&place.cores);
                thread.run();
            });
            threads.handles.push(handle.map_err(StartError::system("start an I/O thread"))?);
        }
        let watched = shared.clone();
        let builder = std::thread::Builder::new().name("fulmar-watch".into());
        let handle = builder.spawn(move || {
            if let Err(failure) = catch(|| watched.watch.run(&watched)) {
                watched.fail(&failure);
            }
        });
        threads.handles.push(handle.map_err(StartError::system("start a thread"))?);
        Ok(Self { shared, _threads: Arc::new(threads) })
    }

    /// Returns the time of the machines of this runtime.
    pub fn now(&self) -> Time {
        self.shared.now()
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runtime({} threads)", self.shared.mailboxes.len())
    }
}

/// Where an I/O thread runs.
struct Place {
    cpt: usize,
    /// On these cores only; on any core if the list is empty.
    cores: Vec<usize>,
}

/// Ends the threads when the last handle is dropped.
struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

impl Drop for Threads {
    fn drop(&mut self) {
        for index in 0..self.shared.mailboxes.len() {
            self.shared.post(index, Message::Exit);
        }
        self.shared.watch.exit();
        for handle in self.handles.drain(..) {
            // A handler may have held the last handle: its thread ends by itself.
            if handle.thread().id() != std::thread::current().id() {
                let _ = handle.join();
            }
        }
    }
}

/// State that the threads share.
pub(crate) struct Shared {
    mailboxes: Vec<Mailbox>,
    started: Instant,
    keys: AtomicU64,
    /// Binding a privileged port was refused: it is not tried again.
    pub(crate) unprivileged: AtomicBool,
    /// Those that fail with an I/O thread.
    nodes: Lock<Vec<Weak<node::Shared>>>,
    /// The monitor of links and silent connections.
    pub(crate) watch: Watch,
}

impl Shared {
    pub(crate) fn now(&self) -> Time {
        Time(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns a number for a node, never reused.
    pub(crate) fn next_key(&self) -> u64 {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a node.
    pub(crate) fn add(&self, node: &Arc<node::Shared>) {
        let mut nodes = self.nodes.lock();
        nodes.retain(|node| node.strong_count() > 0);
        nodes.push(Arc::downgrade(node));
    }

    /// Fails every node: a thread has panicked, and it is not known what it was doing for which.
    pub(crate) fn fail(&self, failure: &Failure) {
        let nodes = self.nodes.lock().clone();
        for node in nodes.iter().filter_map(Weak::upgrade) {
            node.fail(failure.clone());
        }
    }

    /// Returns the thread with the fewest connections, so that those of one peer spread. It is one
    /// of
    /// `cpts`, if those are given and there are such.
    pub(crate) fn assign(&self, cpts: Option<&[usize]>) -> usize {
        let load = |mailbox: &Mailbox| mailbox.conns.load(Ordering::Relaxed);
        let bound = |mailbox: &Mailbox| cpts.is_some_and(|cpts| cpts.contains(&mailbox.cpt));
        let threads = || self.mailboxes.iter().enumerate();
        let of_cpts = threads().filter(|(_, mailbox)| bound(mailbox));
        let least = of_cpts.min_by_key(|(_, mailbox)| load(mailbox));
        let least = least.or_else(|| threads().min_by_key(|(_, mailbox)| load(mailbox)));
        let (index, mailbox) = least.expect("there is a thread");
        mailbox.conns.fetch_add(1, Ordering::Relaxed);
        index
    }

    /// Returns how many CPTs there are.
    pub(crate) fn cpts(&self) -> usize {
        self.mailboxes.last().map_or(1, |mailbox| mailbox.cpt + 1)
    }

    /// Returns the CPT of a thread.
    pub(crate) fn cpt_of(&self, thread: usize) -> usize {
        self.mailboxes[thread].cpt
    }

    /// Reverses [`Shared::assign`].
    pub(crate) fn unassign(&self, thread: usize) {
        self.mailboxes[thread].conns.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sends a message to a thread other than the calling one, if there is one, preferably to one
    /// that sleeps.
    pub(crate) fn post_to_another(&self, message: Message) {
        let (own, count) = (Thread::current(), self.mailboxes.len());
        let first = own.map_or(0, |own| own + 1);
        let others = (first..first + count).map(|index| index % count);
        let others = others.filter(|index| Some(*index) != own);
        let idle = |index: &usize| self.mailboxes[*index].messages.is_asleep();
        if let Some(thread) = others.clone().find(idle).or_else(|| others.clone().next()) {
            self.post(thread, message);
        }
    }

    /// Sends a message to a thread.
    pub(crate) fn post(&self, thread: usize, message: Message) {
        let mailbox = &self.mailboxes[thread];
        if mailbox.messages.post(message) {
            // epoll reports each write, so the thread never reads the counter.
            let _ = rustix::io::write(&mailbox.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Removes a node from every thread, and waits until that is done.
    pub(crate) fn leave(&self, node: u64) {
        let (done, waiting) = sync_channel(self.mailboxes.len());
        for index in 0..self.mailboxes.len() {
            self.post(index, Message::Leave(node, done.clone()));
        }
        drop(done);
        if !Thread::is_current() {
            for () in waiting {}
        }
    }

    /// Returns how many I/O threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.mailboxes.len()
    }

    pub(crate) fn mailbox(&self, thread: usize) -> &Messages<Message> {
        &self.mailboxes[thread].messages
    }

    /// Returns what wakes a thread.
    pub(crate) fn wake(&self, thread: usize) -> &OwnedFd {
        &self.mailboxes[thread].wake
    }
}

/// The part of a thread that other threads use.
struct Mailbox {
    /// The CPT of the thread.
    cpt: usize,
    messages: Messages<Message>,
    /// An eventfd among the descriptors that it waits for.
    wake: OwnedFd,
    /// How many connections the thread has.
    conns: AtomicUsize,
}

impl Mailbox {
    fn new(cpt: usize) -> io::Result<Self> {
        Ok(Self {
            cpt,
            messages: Messages::new(),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            conns: AtomicUsize::new(0),
        })
    }
}

/// A message for an I/O thread.
pub(crate) enum Message {
    /// The thread serves this connection from now on.
    Register { node: Arc<node::Shared>, conn: Arc<Conn>, dialling: bool },
    /// A connection has ended. With `linger`, queued bytes are still written, for a limited time.
    Forget { conn: Arc<Conn>, linger: bool },
    /// Continue to read a connection.
    Resume(Arc<Conn>),
    /// Accept connections.
    Listen(Arc<node::Shared>, Arc<Listener>),
    /// Stop accepting.
    Unlisten(Arc<Listener>),
    /// Call it at that time.
    Arm(Arc<dyn TimeoutHandler>, Time),
    /// Handle the events of the node's services.
    Dispatch(Arc<node::Shared>),
    /// Copy the messages of the node to itself.
    Copy(Arc<node::Shared>, Vec<LoopCopy>),
    /// The link of an interface has come up or gone down.
    Link(Arc<node::Shared>, Nid, bool),
    /// The peer of a connection acknowledges nothing.
    Stalled(Arc<node::Shared>, Arc<Conn>),
    /// A TCP window limits what is sent on a connection.
    WindowLimited(Arc<node::Shared>, Arc<Conn>),
    /// Remove a node.
    Leave(u64, SyncSender<()>),
    /// End.
    Exit,
}

/// Restricts the calling thread to these cores.
fn pin(cores: &[usize]) {
    if cores.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    for core in cores.iter().filter(|core| **core < CpuSet::MAX_CPU) {
        set.set(*core);
    }
    if let Err(error) = sched_setaffinity(None, &set) {
        warn!("cannot bind an I/O thread to cores {cores:?}: {error}");
    }
}

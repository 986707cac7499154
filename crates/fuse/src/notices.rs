//! Has the kernel drop what it keeps.
//!
//! Those about names and attributes are answered by the kernel at once: they wait for no lock that an operation holds while it waits for
//! a server. So a lock that a server takes back can wait for them. That of a single name does not: it needs the
//! lock of its directory, which a `mkdir` in it has until the server has replied.
//!
//! The message that drops one name, `INVAL_ENTRY`, needs the kernel's lock of the
//! directory, which a `mkdir` in it holds while it waits for a server, which may wait for the lock
//! that is to be given back. So it is sent only while something is mounted below (`below`), on a
//! thread of its own. The other two need no lock that an operation holds. After `INC_EPOCH`
//! (Linux 6.16; it is tried when the mount begins) every name is looked up again, in the client's
//! cache and mostly without a request to a server. Older kernels keep no names, but attributes.
//!
//! * *A reply under way.* What the kernel may keep is noted in the table of files before its locks
//!   are checked, or at the same time under the client's lock. So a loss is either seen by the
//!   check, or finds the note. The kernel drops the attributes of a reply whose request is older
//!   than `INVAL_INODE`, and each name is that of the epoch in which the kernel has requested it. A
//!   file that the kernel does not know yet may be in a reply to a lookup: the message is repeated
//!   until the kernel knows the file, or has forgotten it.
//! * *Replies to changes* have no lifetime: the kernel would keep their attributes even if they
//!   were dropped meanwhile.
//!
//! * *Nothing for nothing.* A lock that protects nothing that the kernel keeps is given up without
//!   a message (`Watcher::concerns`), and after one `INC_EPOCH` no other one is sent until a name
//!   was sent to the kernel again. A name that does not exist is kept only from the second time on,
//!   since the first one is mostly that of a new file, whose creation gives up the lock.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::{Stale, StaleGuard, Watcher};
use fulmar_lustre_wire::Fid;

use crate::below::Below;
use crate::dropping::begin_apart;
use crate::kernel_names::Name;
use crate::nodes::{Invalidation, Nodes};

/// `FUSE_NOTIFY_INVAL_INODE`: attributes, and pages from an offset on.
const INVALIDATE_INODE: i32 = 2;
/// `FUSE_NOTIFY_INVAL_ENTRY`: a name; with `FUSE_EXPIRE_ONLY` it is asked for again, and not dropped.
const INVALIDATE_NAME: i32 = 3;
const EXPIRE_ONLY: u32 = 1;
/// `FUSE_NOTIFY_INC_EPOCH`, of Linux 6.16 and later: all names.
const INCREASE_EPOCH: i32 = 8;
/// The length of the head of a message.
const HEAD: u32 = 16;
/// How long the kernel may need to take a reply that it waits for.
const TAKEN_MAX: Duration = Duration::from_secs(1);
/// How long it is left alone meanwhile.
const PAUSE: Duration = Duration::from_micros(200);

/// What the kernel knows and keeps, and the way to it.
#[derive(Debug)]
pub(crate) struct Notices {
    state: Mutex<State>,
    /// Who tells the kernel something; others wait until it is told.
    turn: Mutex<()>,
    device: Arc<OnceLock<File>>,
    /// Whether the kernel keeps the data of files.
    keeps_data: AtomicBool,
    below: OnceLock<Mutex<Below>>,
}

#[derive(Debug)]
struct State {
    nodes: Nodes,
    /// Whether the kernel is being told to drop something.
    is_telling: bool,
}

impl Notices {
    pub(crate) fn new(root: Fid) -> Self {
        let state = State { nodes: Nodes::new(root), is_telling: false };
        let (state, turn) = (Mutex::new(state), Mutex::default());
        let keeps_data = AtomicBool::new(false);
        Self { state, turn, device: Arc::default(), keeps_data, below: OnceLock::new() }
    }

    /// Sets the device of a mount that has begun. `names` and `data`: whether the kernel keeps names and the data of
    /// files, if it can; `below`: what may get mounted below.
    pub(crate) fn connect(&self, device: File, (names, data): (bool, bool), below: Below) {
        let device = self.device.get_or_init(|| device);
        self.below.get_or_init(|| Mutex::new(below));
        // An older kernel does not know the message. Nor does it drop the pages of what was written directly.
        let is_new = send(device, INCREASE_EPOCH, &[]).is_ok();
        self.state().nodes.keeps_names = names && is_new;
        self.keeps_data.store(data && is_new, Ordering::Relaxed);
    }

    /// Returns whether the kernel keeps the data of files.
    pub(crate) fn keeps_data(&self) -> bool {
        self.keeps_data.load(Ordering::Relaxed)
    }

    /// The mount has ended: the kernel has forgotten all without a word.
    pub(crate) fn end(&self) {
        self.nodes(Nodes::forget_all);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses what the kernel knows. Not while the file system is used.
    pub(crate) fn nodes<R>(&self, call: impl FnOnce(&mut Nodes) -> R) -> R {
        call(&mut self.state().nodes)
    }

    /// Has the kernel drop the attributes of a file, and its access control lists; also those that a reply
    /// which it has not taken yet tells. After a change that has failed too: some servers may have done their part, and a
    /// kernel takes it that nothing has changed.
    pub(crate) fn drop_attributes(&self, number: u64) {
        let Some(device) = self.device.get() else { return };
        // The pages stay: to drop them would wait for locks.
        let body: Vec<u8> = [number, u64::MAX, 0].into_iter().flat_map(u64::to_ne_bytes).collect();
        let begun = Instant::now();
        // A file that it does not know may be in a reply to a lookup that it is about to take.
        while send(device, INVALIDATE_INODE, &body) == Err(Errno::ENOENT)
            && begun.elapsed() < TAKEN_MAX
            && self.nodes(|nodes| nodes.fid(number).is_some())
        {
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns what has the kernel drop ranges of the pages of a file, which may wait for requests that fill
    /// some of them.
    pub(crate) fn drop_ranges(
        &self,
        number: u64,
        ranges: Vec<(u64, u64)>,
    ) -> impl FnOnce() + use<> {
        let device = self.device.clone();
        move || {
            let Some(device) = device.get() else { return };
            for (offset, len) in ranges {
                let body = [number, offset, len].into_iter().flat_map(u64::to_ne_bytes);
                // It fails when the kernel has forgotten the file, or the mount has ended.
                let _ = send(device, INVALIDATE_INODE, &body.collect::<Vec<u8>>());
            }
        }
    }

    fn tell(&self, names: bool, attributes: Vec<u64>) {
        attributes.into_iter().for_each(|number| self.drop_attributes(number));
        if names {
            self.until_listings_are_read();
            self.drop_names();
        }
    }

    /// Looks whether something is mounted below: then the kernel keeps no names.
    pub(crate) fn look_below(&self) {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.look_below_in(&turn);
    }

    fn look_below_in(&self, _turn: &MutexGuard<'_, ()>) {
        let below = self.below.get().map(|one| one.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(has_mounts) = below.and_then(|mut below| below.look()) else { return };
        let names = {
            let mut state = self.state();
            state.is_telling = true;
            state.nodes.set_mounts(has_mounts)
        };
        self.expire(names, true);
        self.state().is_telling = false;
    }

    /// Has the kernel ask for names again. That waits for the operations in their directories, but not for long: one of them
    /// may wait for the lock that is to be given back. `is_first`: a reply may be under way that tells one to keep.
    fn expire(&self, names: Vec<Name>, is_first: bool) {
        if names.is_empty() {
            return;
        }
        let (sender, sent) = channel();
        let device = self.device.clone();
        let is_begun = begin_apart(move || {
            let Some(device) = device.get() else { return };
            let send_all = || names.iter().for_each(|name| expire(device, name));
            send_all();
            let _ = sender.send(());
            if is_first {
                std::thread::sleep(TAKEN_MAX);
                send_all();
            }
        });
        if is_begun {
            let _ = sent.recv_timeout(TAKEN_MAX);
        }
    }

    fn drop_names(&self) {
        if let Some(device) = self.device.get() {
            // It fails only when the mount has ended.
            let _ = send(device, INCREASE_EPOCH, &[]);
        }
    }

    /// Waits until the kernel has read the names that are to be dropped. It may wait for the lookup of one of them, and
    /// that for this: then they are dropped once more when it has.
    fn until_listings_are_read(&self) {
        let begun = Instant::now();
        while self.nodes(|nodes| nodes.has_unread_listings()) {
            if begun.elapsed() > TAKEN_MAX {
                return self.nodes(Nodes::give_up_listings);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The kernel has given a file back.
    pub(crate) fn forget(&self, number: u64, lookups: u64) {
        if self.nodes(|nodes| nodes.forget(number, lookups)) {
            self.drop_names();
        }
    }

    /// Returns the file with a number, of which a thread wants to know something else than names in it: the thread has read
    /// what it was told of a directory.
    pub(crate) fn asked(&self, number: u64, thread: u32) -> Option<Fid> {
        let (file, was_late) =
            self.nodes(|nodes| (nodes.fid(number), nodes.listings.asked_by(thread)));
        if was_late {
            self.drop_names();
        }
        file
    }

    /// The kernel has read what it was told of an open directory.
    pub(crate) fn has_read(&self, handle: u64) {
        if self.nodes(|nodes| nodes.listings.read_by(handle)) {
            self.drop_names();
        }
    }
}

impl Watcher for Notices {
    fn concerns(&self, stale: &[Stale]) -> bool {
        let state = self.state();
        state.is_telling || state.nodes.concerns(stale)
    }

    fn stale(&self, stale: Vec<Stale>, done: StaleGuard) {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.look_below_in(&turn);
        let Invalidation { names, expired, attributes, pages } = {
            let mut state = self.state();
            state.is_telling = true;
            state.nodes.lose(&stale)
        };
        self.expire(expired, false);
        self.tell(names, attributes);
        self.state().is_telling = false;
        drop(turn);
        pages.into_iter().for_each(|number| self.drop_pages(number));
        drop(done);
    }
}

/// Has the kernel ask for a name again. It fails if the kernel has none, or the mount has ended.
fn expire(device: &File, (directory, name): &Name) {
    let mut body: Vec<u8> = directory.to_ne_bytes().into();
    body.extend([name.len() as u32, EXPIRE_ONLY].into_iter().flat_map(u32::to_ne_bytes));
    body.extend(&**name);
    body.push(0);
    let _ = send(device, INVALIDATE_NAME, &body);
}

/// Sends a message that answers no request.
fn send(mut device: &File, code: i32, body: &[u8]) -> Result<(), Errno> {
    let mut message = Vec::with_capacity(HEAD as usize + body.len());
    message.extend((HEAD + body.len() as u32).to_ne_bytes());
    message.extend(code.to_ne_bytes());
    message.extend(0u64.to_ne_bytes());
    message.extend(body);
    // The kernel takes all of it or nothing.
    device.write_all(&message).map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno))
}

//! The OSTs of an MDT: objects for new files, and what is to be done with those of old ones.
//! Spec: mdt-ost §14.3, §16.4, §16.5, ptlrpc-ldlm-mgs §34.4.
//!
//! ```text
//! thread of an OST: connect ─► clean up ─► create ahead ─► send what is to be done ─► statfs ─► ...
//!                                              │                    ▲
//! MDT: take ◄── objects without a file ───────┘        keys of the store, when they are committed
//! ```
//!
//! | key | value |
//! |---|---|
//! | `30` OST | the sequence of its objects for this MDT, and the last one that a file got |
//! | `31` OST, number | something that the OST has to do: remove an object, or give it another owner |
//!
//! The thread creates objects ahead, 32 at first and twice as many whenever they run low, so that a
//! creation takes one from memory. What a file got is in the transaction of the file; after a
//! restart the objects above it are removed (orphan clean-up). Removals are keys of the transaction
//! that removes the file. They are sent when that is on disk, and forgotten when the OST has them
//! on disk, so no crash of either leaves an object without a file or a file without its object. A
//! creation that finds no object waits until the thread says that there are some. OSTs that do not
//! answer, or that the configuration has switched off, count for no stripe of a new file until they
//! are connected again, and those without room until they have some, unless all are full.

mod link;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::mdt::{Statfs, StatfsState};
use fulmar_mdt::{Object, Objects, Owner, Plan};
use fulmar_store::{Store, StoreError, Transaction, Value};
use futures_channel::oneshot;

pub(crate) use link::{Link, Links};
use records::{LastObject, OstTask, TASKS, TaskKind, USED, encode, task_key};

/// The OSTs of an MDT.
pub struct Osts {
    osts: Mutex<BTreeMap<u32, Arc<Ost>>>,
    /// The pools of the file system.
    pools: Mutex<OstPools>,
    /// Where the next file begins.
    next: AtomicU32,
    /// The name of the next thing to do, above those of earlier starts.
    next_task: AtomicU64,
    /// Those who wait for objects.
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
    /// Lets operations go on that have waited.
    resume: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// An OST, as the MDT's threads and its own know it.
#[derive(Debug)]
pub(crate) struct Ost {
    index: u32,
    state: Mutex<State>,
    /// Signals to the thread that it has something to do.
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// It is connected, and was cleaned up.
    is_ready: bool,
    /// It does not answer, or is switched off: files are made without it until it is ready.
    is_lost: bool,
    is_full: bool,
    seq: u64,
    /// The last object that a file got.
    used: u32,
    /// The last object that exists.
    created: u32,
    /// Objects before it that no file got after all.
    given_back: Vec<Fid>,
    /// How many are created at once.
    count: u32,
    statfs: Statfs,
    has_tasks: bool,
    stops: bool,
}

/// What the thread of an OST does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It removes the objects that no file got.
    Clean,
    AskStatfs,
    /// It creates objects.
    Create,
    /// It has the OST do some of its tasks.
    SendTasks,
    Wait,
}

/// The pools of a file system, each with the indices of its OSTs.
type OstPools = BTreeMap<String, BTreeSet<u32>>;

/// The most OSTs of a file system.
const OSTS_MAX: usize = 1 << 16;
/// The objects that are created at once: at first, and at most.
const COUNT_MIN: u32 = 32;
const COUNT_MAX: u32 = 10_000;
/// Counts of stripes from `MANY` on mean several on each OST, as many as it takes to `NO_MORE`.
const MANY: usize = 0xffe0;
const NO_MORE: usize = 0x1_0000;

impl Osts {
    /// Returns the OSTs that an MDT knows, with the time of its start in seconds. They have no objects
    /// yet.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn load(store: &Store, now: i64) -> Result<Arc<Self>, StoreError> {
        let this = Self {
            osts: Mutex::default(),
            pools: Mutex::default(),
            next: AtomicU32::new(0),
            // What is to be done is named by the time, so that names are not used twice.
            next_task: AtomicU64::new((now as u64) << 28),
            waiting: Mutex::default(),
            resume: OnceLock::new(),
        };
        let all = store.scan(USED, Bound::Unbounded, Bound::Unbounded, OSTS_MAX)?;
        for (key, value) in all {
            let index = records::decode(&key, "the index of an OST")?;
            this.get_or_add(index, records::decode(&value, "the last object of an OST")?);
        }
        Ok(Arc::new(this))
    }

    /// Says what lets operations go on. It is called by the threads of the OSTs.
    pub(crate) fn on_change(&self, resume: impl Fn() + Send + Sync + 'static) {
        // It is said once, at the start.
        let _ = self.resume.set(Box::new(resume));
    }

    /// Says which pools the file system has.
    pub(crate) fn set_pools(&self, pools: OstPools) {
        *self.pools.lock().unwrap_or_else(PoisonError::into_inner) = pools;
    }

    /// Says which OSTs the configuration has, so that no file waits for others.
    pub(crate) fn lose_others(&self, is_used: impl Fn(u32) -> bool) {
        for ost in self.osts().values().filter(|ost| !is_used(ost.index)) {
            ost.state().is_lost = true;
        }
    }

    /// Returns the OSTs that a file may have: those of its pool, or all if there is no such pool or it is
    /// empty. Spec: mdt-ost §11.5.
    fn members(&self, plan: &Plan, osts: &BTreeMap<u32, Arc<Ost>>) -> Vec<Arc<Ost>> {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = plan.pool.and_then(|pool| pools.get(&pool.to_string()));
        match pool.filter(|pool| !pool.is_empty()) {
            Some(pool) => pool.iter().filter_map(|index| osts.get(index).cloned()).collect(),
            None => osts.values().cloned().collect(),
        }
    }

    /// Waits until an OST may have objects, or does not answer.
    pub(crate) async fn changed(&self) {
        let (sender, waiting) = oneshot::channel();
        self.waiting().push(sender);
        // All are told when this ends.
        let _ = waiting.await;
    }

    /// Returns the last states of all OSTs, by index.
    pub fn statfs(&self) -> Vec<(u32, Statfs)> {
        let osts = self.osts();
        osts.iter().map(|(index, ost)| (*index, ost.state().statfs)).collect()
    }

    /// Attaches an OST that has no thread: the host gives its objects, of this sequence
    /// ([`Objects::give_back`]), and removes those of removed files.
    pub fn attach(&self, index: u32, sequence: u64) {
        let ost = self.get_or_add(index, LastObject { seq: sequence, oid: 0 });
        ost.state().is_ready = true;
    }

    /// Returns an OST, which is added if it is new.
    fn get_or_add(&self, index: u32, used: LastObject) -> Arc<Ost> {
        let mut osts = self.osts();
        if let Some(ost) = osts.get(&index) {
            return ost.clone();
        }
        let (seq, oid) = (used.seq, used.oid);
        let state = State { seq, used: oid, created: oid, count: COUNT_MIN, ..State::default() };
        let state = State { has_tasks: true, ..state };
        let ost = Arc::new(Ost { index, state: Mutex::new(state), work: Condvar::new() });
        osts.insert(index, ost.clone());
        ost
    }

    /// Tells those who wait that something has changed.
    fn notify(&self) {
        let waiting = std::mem::take(&mut *self.waiting());
        if waiting.is_empty() {
            return;
        }
        for waiting in waiting {
            let _ = waiting.send(());
        }
        if let Some(resume) = self.resume.get() {
            resume();
        }
    }

    fn get(&self, index: u32) -> Option<Arc<Ost>> {
        self.osts().get(&index).cloned()
    }

    fn osts(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Ost>>> {
        self.osts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<oneshot::Sender<()>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the OSTs in the order in which a file gets its stripes, and how many stripes there are to be.
    fn candidates(&self, plan: &Plan) -> Result<(Vec<Arc<Ost>>, usize), Errno> {
        let osts = self.osts();
        // The client tries again.
        if osts.is_empty() {
            return Err(Errno::EINPROGRESS);
        }
        let most = usize::from(plan.stripes_max);
        if !plan.osts.is_empty() {
            let wanted: Option<Vec<_>> =
                plan.osts.iter().map(|index| osts.get(index).cloned()).collect();
            let wanted = wanted.ok_or(Errno::EINVAL)?;
            let count = wanted.len().min(most);
            return Ok((wanted, count));
        }
        let mut all = self.members(plan, &osts);
        // The OSTs of the pool are not connected yet.
        if all.is_empty() {
            return Err(Errno::EINPROGRESS);
        }
        let start = match plan.first {
            Some(first) => all.iter().position(|ost| ost.index == first).ok_or(Errno::EINVAL)?,
            None => self.next.fetch_add(1, Ordering::Relaxed) as usize % all.len(),
        };
        all.rotate_left(start);
        // As in a kernel MDT, files are made without those that are gone.
        let is_lost = |ost: &Arc<Ost>| ost.state().is_lost;
        if !all.iter().all(is_lost) {
            all.retain(|ost| !is_lost(ost));
        }
        // The objects that were created on a full one before are for when there are no others.
        let is_full = |ost: &Arc<Ost>| ost.state().is_full;
        if !all.iter().all(is_full) {
            all.retain(|ost| !is_full(ost));
        }
        let count = match usize::from(plan.stripe_count) {
            count if !plan.is_overstriped => count.min(all.len()),
            count if count >= MANY => all.len() * (NO_MORE - count),
            count => count,
        };
        let count = count.min(most);
        let rounds = count.div_ceil(all.len()).max(1);
        let turns = all.len() * rounds;
        Ok((all.into_iter().cycle().take(turns).collect(), count))
    }

    fn add_tasks(&self, transaction: &mut Transaction<'_>, objects: &[Object], task: OstTask) {
        for &(ost, object) in objects {
            let id = self.next_task.fetch_add(1, Ordering::Relaxed);
            let task = OstTask { object, ..task };
            let known = self.get(ost);
            transaction.put_numbered(TASKS, &task_key(ost, id), move |_| {
                // The thread waits for the commit before it looks.
                if let Some(ost) = &known {
                    ost.state().has_tasks = true;
                    ost.work.notify_all();
                }
                encode(&task)
            });
        }
    }
}

impl Objects for Osts {
    fn take(&self, plan: &Plan) -> Result<Vec<Object>, Errno> {
        let (candidates, count) = self.candidates(plan)?;
        let mut taken = Vec::with_capacity(count);
        let (mut is_late, mut is_away) = (false, false);
        for ost in candidates {
            if taken.len() == count {
                break;
            }
            match ost.take() {
                Ok(object) => taken.push((ost.index, object)),
                Err(errno) => {
                    is_late |= errno == Errno::EAGAIN;
                    is_away |= errno == Errno::ENOTCONN;
                }
            }
        }
        // With a little less than was wanted a file is still useful. Spec: mdt-ost §11.5.
        // With other OSTs than the wanted ones it is not.
        let needed = if plan.osts.is_empty() { (count * 3).div_ceil(4) } else { count };
        if taken.len() >= needed && !taken.is_empty() {
            return Ok(taken);
        } else {
            self.give_back(&taken)
        }
        Err(match () {
            () if is_late => Errno::EAGAIN,
            () if is_away => Errno::EINPROGRESS,
            () => Errno::ENOSPC,
        })
    }

    fn give_back(&self, objects: &[Object]) {
        for &(index, object) in objects {
            if let Some(ost) = self.get(index) {
                ost.state().given_back.push(object);
            }
        }
    }

    fn exists(&self, ost: u32) -> bool {
        let osts = self.osts();
        osts.is_empty() || osts.contains_key(&ost)
    }

    fn used(&self, transaction: &mut Transaction<'_>, objects: &[Object]) {
        for &(index, object) in objects {
            let Some(ost) = self.get(index) else { continue };
            transaction.put_numbered(USED, &encode(&index), move |_| {
                let mut state = ost.state();
                // What a client repeats after a restart was used then.
                if object.seq == state.seq {
                    state.used = state.used.max(object.oid);
                    state.created = state.created.max(state.used);
                }
                encode(&LastObject { seq: state.seq, oid: state.used })
            });
        }
    }

    fn destroy(&self, transaction: &mut Transaction<'_>, objects: &[Object]) {
        let task = OstTask { kind: TaskKind::DESTROY, ..OstTask::default() };
        self.add_tasks(transaction, objects, task);
    }

    fn set_owner(&self, transaction: &mut Transaction<'_>, objects: &[Object], owner: Owner) {
        let Owner { uid, gid, projid } = owner;
        let kind = TaskKind::SET_OWNER;
        let task = OstTask { kind, uid, gid, projid, ..OstTask::default() };
        self.add_tasks(transaction, objects, task);
    }
}

impl Ost {
    /// Removes and returns an object that no file has.
    fn take(&self) -> Result<Fid, Errno> {
        let mut state = self.state();
        if !state.is_ready {
            return Err(Errno::ENOTCONN);
        }
        while let Some(object) = state.given_back.pop() {
            if object.seq == state.seq {
                return Ok(object);
            }
        }
        let left = state.created - state.used;
        if left <= state.count / 2 {
            self.work.notify_all();
        }
        if left == 0 {
            return Err(if state.is_full { Errno::ENOSPC } else { Errno::EAGAIN });
        }
        state.used += 1;
        Ok(Fid { seq: state.seq, oid: state.used, version: 0 })
    }

    /// Waits until there is something to do, or for a time. Returns whether to go on.
    fn wait(&self, time: Duration) -> bool {
        let state = self.state();
        let idle = |state: &mut State| !state.stops && !state.has_tasks && !state.is_low();
        let waited = self.work.wait_timeout_while(state, time, idle);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.stops
    }

    /// Waits for a time, whatever there is to do. Returns whether to go on.
    fn pause(&self, time: Duration) -> bool {
        let waited = self.work.wait_timeout_while(self.state(), time, |state| !state.stops);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.stops
    }

    /// Returns the sequence of its objects, and the last one that a file got.
    fn known(&self) -> (u64, u32) {
        let state = self.state();
        (state.seq, state.used)
    }

    fn stop(&self) {
        self.state().stops = true;
        self.work.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Osts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Osts").field("osts", &self.osts).finish_non_exhaustive()
    }
}

impl State {
    /// Returns what to do next. Files wait for objects, and none for removals, of which there may always be more.
    fn next(&self, is_new: bool, is_statfs_due: bool) -> Step {
        match () {
            () if is_new => Step::Clean,
            () if is_statfs_due => Step::AskStatfs,
            () if self.is_low() => Step::Create,
            () if self.has_tasks => Step::SendTasks,
            () => Step::Wait,
        }
    }

    /// Returns whether more objects are to be created.
    fn is_low(&self) -> bool {
        self.is_ready && !self.is_full && self.created - self.used <= self.count / 2
    }

    fn take_statfs(&mut self, statfs: Statfs) {
        let takes_none = [StatfsState::ENOSPC, StatfsState::NOCREATE];
        let takes_none = takes_none.iter().any(|state| statfs.state.has(*state));
        self.is_full = takes_none || statfs.available == 0;
        self.statfs = statfs;
    }
}

/// Reads something that an OST has to do.
fn read_task(value: &Value) -> Result<OstTask, StoreError> {
    records::decode(value, "what an OST has to do")
}

#[cfg(test)]
mod tests;

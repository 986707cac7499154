//! One class of router buffers, shared fairly. Spec: lnet-behaviour §8.5.
//!
//! A message holds a buffer or is counted as waiting for one. A kernel serves those that wait in
//! the order in which they came, so that messages for one node that has stopped end up with all
//! buffers and all others wait for it. Here the messages for one NID are a lane, and
//!
//! * a lane takes a buffer only while it holds fewer than are free: it gets half of a pool, the
//!   next stopped one half of the rest, and so on, and something is left for the others;
//! * a buffer that is given back goes to the network that holds the fewest, and there to the lane
//!   that does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fulmar_base::{BufferId, MessageId};
use fulmar_lnet_wire::{Net, Nid};

use crate::views;

#[derive(Debug, Default)]
pub(super) struct Pool {
    /// How many messages may hold a buffer at once.
    limit: u32,
    /// Bytes of each; none need no memory.
    len: u32,
    held: u32,
    waiting: u32,
    /// The most that ever waited at once, or the fewest that ever were free.
    credits_min: i64,
    lanes: BTreeMap<Nid, Lane>,
    nets: BTreeMap<Net, Share>,
    /// Buffers that have memory and hold nothing. The one used last is the next.
    free: Vec<BufferId>,
    /// How many have memory.
    allocated: u32,
    /// Counts what is granted.
    turn: u64,
}

/// The messages for one NID.
#[derive(Debug, Default)]
struct Lane {
    held: u32,
    waiting: VecDeque<MessageId>,
    turn: u64,
}

/// The messages for one network.
#[derive(Debug, Default)]
struct Share {
    held: u32,
    /// The lanes in which messages wait, the first to be served first.
    hungry: BTreeSet<(u32, u64, Nid)>,
}

/// The memory that a message is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// There is nothing to keep.
    None,
    Kept(BufferId),
    /// To be made first.
    Fresh,
}

impl Pool {
    pub(super) fn new(limit: u32, len: u32) -> Self {
        Self { limit, len, credits_min: limit.into(), ..Self::default() }
    }

    /// Bytes of each buffer.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Changes how many messages may hold a buffer, and returns those that hold one from now on.
    pub(super) fn set_limit(&mut self, limit: u32) -> Vec<MessageId> {
        self.limit = limit;
        self.credits_min = self.credits_min.min(self.credits());
        self.wake()
    }

    /// Negative: so many messages wait. Otherwise so many buffers are free.
    pub(super) fn credits(&self) -> i64 {
        match self.waiting {
            0 => i64::from(self.limit) - i64::from(self.held),
            waiting => -i64::from(waiting),
        }
    }

    pub(super) fn view(&self) -> views::Pool {
        views::Pool {
            pages: self.len / PAGE,
            buffers: self.limit,
            allocated: self.allocated,
            credits: self.credits(),
            credits_min: self.credits_min,
        }
    }

    pub(super) fn reset_min(&mut self) {
        self.credits_min = self.credits();
    }

    /// Gives a message for `target` its buffer and returns true, or has it wait.
    pub(super) fn take(&mut self, message: MessageId, target: Nid) -> bool {
        let lane = self.lanes.entry(target).or_default();
        let granted = lane.waiting.is_empty() && self.held + lane.held < self.limit;
        if granted {
            self.grant(target);
        } else {
            if lane.waiting.is_empty() {
                let key = (lane.held, lane.turn, target);
                self.nets.entry(target.net()).or_default().hungry.insert(key);
            }
            lane.waiting.push_back(message);
            self.waiting += 1;
        }
        self.credits_min = self.credits_min.min(self.credits());
        granted
    }

    /// Receives a buffer back and returns the messages that hold one from now on.
    pub(super) fn give_back(&mut self, target: Nid) -> Vec<MessageId> {
        self.change(target, |lane| lane.held -= 1);
        let share = self.nets.get_mut(&target.net()).expect("a lane has a network");
        share.held -= 1;
        self.held -= 1;
        self.forget_if_idle(target);
        self.wake()
    }

    /// Removes a message that waits.
    pub(super) fn withdraw(&mut self, message: MessageId, target: Nid) {
        self.change(target, |lane| {
            let before = lane.waiting.len();
            lane.waiting.retain(|waiting| *waiting != message);
            assert_eq!(lane.waiting.len() + 1, before, "{message:?} waits exactly once");
        });
        self.waiting -= 1;
        self.forget_if_idle(target);
    }

    /// Returns memory for a message that was given a buffer.
    pub(super) fn memory(&mut self) -> Memory {
        if self.len == 0 {
            return Memory::None;
        }
        match self.free.pop() {
            Some(buffer) => Memory::Kept(buffer),
            None => {
                self.allocated += 1;
                Memory::Fresh
            }
        }
    }

    /// Receives the memory of a buffer back, or returns it to be freed if there is too much.
    pub(super) fn keep(&mut self, buffer: BufferId) -> Option<BufferId> {
        if self.allocated > self.limit {
            self.allocated -= 1;
            return Some(buffer);
        }
        self.free.push(buffer);
        None
    }

    /// Returns the memory that holds nothing, to be freed.
    pub(super) fn release(&mut self) -> Vec<BufferId> {
        self.allocated -= self.free.len() as u32;
        std::mem::take(&mut self.free)
    }

    /// Returns whether no message holds a buffer or waits for one.
    pub(super) fn is_idle(&self) -> bool {
        self.held == 0 && self.waiting == 0
    }

    /// Returns how many messages hold a buffer, and how many wait for one.
    pub(super) fn users(&self) -> (u32, u32) {
        (self.held, self.waiting)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let held: u32 = self.lanes.values().map(|lane| lane.held).sum();
        let waiting: usize = self.lanes.values().map(|lane| lane.waiting.len()).sum();
        let shares: u32 = self.nets.values().map(|share| share.held).sum();
        if held != self.held || shares != held || waiting != self.waiting as usize {
            return Err(format!("a pool of router buffers has lost count: {self:?}"));
        }
        if self.waiting > 0 && self.next().is_some() {
            return Err("a message waits for a router buffer that it could have".into());
        }
        if self.credits_min <= self.credits() {
            Ok(())
        } else {
            Err(format!("router buffers: not {} <= {}", self.credits_min, self.credits()))
        }
    }

    fn grant(&mut self, target: Nid) {
        self.turn += 1;
        let turn = self.turn;
        self.change(target, |lane| {
            lane.held += 1;
            lane.turn = turn;
        });
        self.nets.entry(target.net()).or_default().held += 1;
        self.held += 1;
    }

    /// Changes a lane, and keeps its place among those that wait.
    fn change(&mut self, target: Nid, change: impl FnOnce(&mut Lane)) {
        let lane = self.lanes.get_mut(&target).expect("the lane is in use");
        let share = self.nets.entry(target.net()).or_default();
        share.hungry.remove(&(lane.held, lane.turn, target));
        change(lane);
        if !lane.waiting.is_empty() {
            share.hungry.insert((lane.held, lane.turn, target));
        }
    }

    fn forget_if_idle(&mut self, target: Nid) {
        if self.lanes.get(&target).is_some_and(|lane| lane.held == 0 && lane.waiting.is_empty()) {
            self.lanes.remove(&target);
        }
        let net = target.net();
        if self.nets.get(&net).is_some_and(|share| share.held == 0 && share.hungry.is_empty()) {
            self.nets.remove(&net);
        }
    }

    /// Returns the lane that is served next, if one may have another buffer.
    fn next(&self) -> Option<Nid> {
        let first = |share: &Share| {
            share.hungry.first().filter(|(held, ..)| self.held + held < self.limit).copied()
        };
        let nets = self.nets.values().filter_map(|share| Some((share.held, first(share)?)));
        nets.min().map(|(_, (_, _, target))| target)
    }

    fn wake(&mut self) -> Vec<MessageId> {
        let mut woken = Vec::new();
        while let Some(target) = self.next() {
            self.change(target, |lane| woken.extend(lane.waiting.pop_front()));
            self.waiting -= 1;
            self.grant(target);
        }
        woken
    }
}

/// The unit of [`views::Pool::pages`].
const PAGE: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn nid(net: u32, n: u32) -> Nid {
        Nid::small(Net(Net::TCP.0 + net), n)
    }

    fn id(n: u64) -> MessageId {
        MessageId(n)
    }

    #[test]
    fn a_single_buffer_goes_from_one_message_to_the_next() {
        let mut pool = Pool::new(1, 4096);
        assert!(pool.take(id(1), nid(0, 1)));
        assert!(!pool.take(id(2), nid(0, 1)));
        assert!(!pool.take(id(3), nid(0, 1)));
        assert_eq!((pool.credits(), pool.view().credits_min), (-2, -2));
        assert_eq!(pool.give_back(nid(0, 1)), [id(2)]);
        assert_eq!(pool.give_back(nid(0, 1)), [id(3)]);
        assert_eq!(pool.give_back(nid(0, 1)), []);
        assert_eq!((pool.credits(), pool.view().credits_min), (1, -2));
        assert!(pool.is_idle() && pool.lanes.is_empty() && pool.nets.is_empty());
        assert_eq!(pool.check(), Ok(()));
    }

    #[test]
    fn stopped_nodes_leave_something_for_the_others() {
        let mut pool = Pool::new(16, 4096);
        for stopped in 0..3 {
            for n in 0..100 {
                pool.take(id(stopped * 100 + n), nid(0, stopped as u32));
            }
        }
        assert_eq!(pool.held, 8 + 4 + 2);
        assert!(pool.take(id(1000), nid(0, 7)), "one who is not stopped gets a buffer");
        assert_eq!(pool.check(), Ok(()));
    }

    #[test]
    fn what_is_given_back_goes_to_the_network_that_holds_the_fewest() {
        let mut pool = Pool::new(4, 4096);
        for n in 0..4 {
            assert!(pool.take(id(n), nid(0, n as u32)));
        }
        assert!(!pool.take(id(10), nid(0, 10)));
        assert!(!pool.take(id(11), nid(1, 11)));
        assert!(!pool.take(id(12), nid(1, 12)));
        assert_eq!(pool.give_back(nid(0, 0)), [id(11)]);
        assert_eq!(pool.give_back(nid(0, 1)), [id(12)]);
        assert_eq!(pool.give_back(nid(1, 11)), [id(10)]);
        assert_eq!(pool.check(), Ok(()));
    }

    #[test]
    fn memory_is_made_when_it_is_needed_and_the_warmest_is_used_again() {
        let mut pool = Pool::new(2, 4096);
        assert_eq!((pool.memory(), pool.memory()), (Memory::Fresh, Memory::Fresh));
        assert_eq!((pool.keep(BufferId(1)), pool.keep(BufferId(2))), (None, None));
        assert_eq!(pool.memory(), Memory::Kept(BufferId(2)));
        pool.set_limit(1);
        assert_eq!(pool.keep(BufferId(2)), Some(BufferId(2)), "there is one too many");
        assert_eq!(pool.release(), [BufferId(1)]);
        assert_eq!(pool.view().allocated, 0);
        assert_eq!(Pool::new(2, 0).memory(), Memory::None);
    }

    #[test]
    fn whatever_happens_no_message_waits_for_what_is_free() {
        let mut rng = fulmar_base::Rng::new(7);
        let mut pool = Pool::new(9, 4096);
        let (mut holding, mut waiting) = (Vec::new(), Vec::new());
        for n in 0..20_000 {
            let target = nid(rng.below(3) as u32, rng.below(5) as u32);
            let woken = match rng.below(4) {
                0 | 1 => {
                    let granted = pool.take(id(n), target);
                    let list = if granted { &mut holding } else { &mut waiting };
                    list.push((id(n), target));
                    Vec::new()
                }
                2 if !holding.is_empty() => {
                    let index = rng.below(holding.len() as u64) as usize;
                    pool.give_back(holding.swap_remove(index).1)
                }
                _ if !waiting.is_empty() => {
                    let index = rng.below(waiting.len() as u64) as usize;
                    let (message, target) = waiting.remove(index);
                    pool.withdraw(message, target);
                    Vec::new()
                }
                _ => Vec::new(),
            };
            for message in woken {
                let index = waiting.iter().position(|(waiting, _)| *waiting == message).unwrap();
                holding.push(waiting.remove(index));
            }
            assert_eq!((pool.held, pool.waiting), (holding.len() as u32, waiting.len() as u32));
            pool.check().unwrap();
        }
    }
}

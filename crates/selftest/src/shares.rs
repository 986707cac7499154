//! What each peer may hold of a budget, and what waits for it.
//!
//! ```text
//! pushed --> waiting, in turn ---- there is room ----> held --> ended
//!                 |    ^
//!   its peer has  v    | its peer gives back, or half of the budget is free again
//!   its share   waiting
//! ```
//!
//! Peers take turns, and the items of a peer go in order. A peer can hold half of the budget while
//! others hold little, and only a small part of it otherwise: a few peers that give nothing back
//! leave room for the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fulmar_lnet_wire::Nid;

/// The bounds of a budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// What all peers hold.
    pub(crate) whole: u64,
    /// What one peer holds.
    pub(crate) peer: u64,
    /// What one peer holds while more than half of the whole is held.
    pub(crate) crowded: u64,
    /// How many items wait.
    pub(crate) waiting: usize,
    /// How many items of one peer wait.
    pub(crate) waiting_peer: usize,
    /// How many items of one peer wait while more than half of all that may are waiting.
    pub(crate) waiting_crowded: usize,
}

/// A budget, with the shares of its peers.
#[derive(Debug)]
pub(crate) struct Shares<T> {
    limits: Limits,
    peers: BTreeMap<Nid, Share<T>>,
    held: u64,
    /// How many items are held.
    count: usize,
    waiting: usize,
    /// The peers whose first item may fit.
    turns: VecDeque<Nid>,
    /// The peers whose first item would fit if less than half of the whole were held.
    crowded_out: BTreeSet<Nid>,
}

#[derive(Debug)]
struct Share<T> {
    held: u64,
    count: usize,
    waiting: VecDeque<(u32, T)>,
    in_turn: bool,
}

/// How many peers are remembered that hold nothing: saves memory management for each item.
const IDLE_MAX: usize = 64;

impl<T> Default for Share<T> {
    fn default() -> Self {
        Self { held: 0, count: 0, waiting: VecDeque::new(), in_turn: false }
    }
}

impl<T> Share<T> {
    fn is_idle(&self) -> bool {
        self.count == 0 && self.waiting.is_empty()
    }
}

impl<T> Shares<T> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            peers: BTreeMap::new(),
            held: 0,
            count: 0,
            waiting: 0,
            turns: VecDeque::new(),
            crowded_out: BTreeSet::new(),
        }
    }

    /// Gives a peer `cost` of the budget at once, unless that is too much or others wait.
    pub(crate) fn take(&mut self, peer: Nid, cost: u32) -> bool {
        if self.waiting > 0 || !self.has_room(cost) {
            return false;
        }
        let limit = self.limit();
        let share = self.peers.entry(peer).or_default();
        if share.held + u64::from(cost) > limit {
            return false;
        }
        share.held += u64::from(cost);
        share.count += 1;
        self.held += u64::from(cost);
        self.count += 1;
        true
    }

    /// Lets an item wait; returns it if too many wait.
    pub(crate) fn push(&mut self, peer: Nid, cost: u32, item: T) -> Result<(), T> {
        let Limits { waiting, waiting_peer, waiting_crowded, .. } = self.limits;
        let most = if self.waiting < waiting / 2 { waiting_peer } else { waiting_crowded };
        let waits = self.peers.get(&peer).map_or(0, |share| share.waiting.len());
        if self.waiting >= waiting || waits >= most {
            return Err(item);
        }
        let share = self.peers.entry(peer).or_default();
        share.waiting.push_back((cost, item));
        self.waiting += 1;
        // One that has waited longer knows that there is no room.
        if waits == 0 {
            share.in_turn = true;
            self.turns.push_back(peer);
        }
        Ok(())
    }

    /// Returns the next item for which there is room; its peer holds its cost now.
    pub(crate) fn pop(&mut self) -> Option<T> {
        while let Some(peer) = self.turns.front().copied() {
            let limit = self.limit();
            let share = self.peers.get_mut(&peer).expect("a peer in turn is known");
            let cost = share.waiting.front().expect("a peer in turn has items").0;
            if self.held + u64::from(cost) > self.limits.whole {
                return None;
            }
            self.turns.pop_front();
            let held = share.held + u64::from(cost);
            if held > limit {
                share.in_turn = false;
                if held <= self.limits.peer {
                    self.crowded_out.insert(peer);
                }
                continue;
            }
            let (_, item) = share.waiting.pop_front().expect("it was just seen");
            share.held = held;
            share.count += 1;
            share.in_turn = !share.waiting.is_empty();
            if share.in_turn {
                self.turns.push_back(peer);
            }
            self.waiting -= 1;
            self.held += u64::from(cost);
            self.count += 1;
            return Some(item);
        }
        None
    }

    /// Releases what an item held.
    ///
    /// # Panics
    /// If its peer does not hold so much.
    pub(crate) fn give_back(&mut self, peer: Nid, cost: u32) {
        let share = self.peers.get_mut(&peer).expect("a peer that holds something is known");
        let back = u64::from(cost);
        share.held = share.held.checked_sub(back).expect("only what is held is given back");
        share.count -= 1;
        self.held -= back;
        self.count -= 1;
        let is_idle = share.is_idle();
        if !share.waiting.is_empty() {
            self.crowded_out.remove(&peer);
            self.call(peer);
        }
        // One at a time: each of them gives back again later.
        if !self.is_crowded()
            && let Some(other) = self.crowded_out.pop_first()
        {
            self.call(other);
        }
        if is_idle && self.peers.len() > IDLE_MAX {
            self.peers.remove(&peer);
        }
    }

    /// Removes and returns waiting items.
    pub(crate) fn withdraw(&mut self, mut is_it: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut gone = Vec::new();
        for (peer, share) in &mut self.peers {
            let old = std::mem::take(&mut share.waiting);
            for (cost, item) in old {
                if is_it(&item) { gone.push(item) } else { share.waiting.push_back((cost, item)) }
            }
            if share.waiting.is_empty() {
                share.in_turn = false;
                self.crowded_out.remove(peer);
            }
        }
        let peers = &self.peers;
        self.turns.retain(|peer| peers.get(peer).is_some_and(|share| share.in_turn));
        self.waiting -= gone.len();
        gone
    }

    /// Returns how many items are held.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns how many items wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns what all peers hold.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Returns an inconsistency of the books, if any.
    pub(crate) fn check(&self) -> Result<(), String> {
        let shares = || self.peers.values();
        let held: u64 = shares().map(|share| share.held).sum();
        let count: usize = shares().map(|share| share.count).sum();
        let waiting: usize = shares().map(|share| share.waiting.len()).sum();
        if (held, count, waiting) != (self.held, self.count, self.waiting) {
            let known = (self.held, self.count, self.waiting);
            return Err(format!("peers have {:?}, {known:?} is known", (held, count, waiting)));
        }
        if held > self.limits.whole || shares().any(|share| share.held > self.limits.peer) {
            return Err(format!("{held} of {} are held", self.limits.whole));
        }
        let mut in_turn = self.turns.iter().collect::<Vec<_>>();
        in_turn.sort_unstable();
        let marked = self.peers.iter().filter(|(_, share)| share.in_turn);
        if !marked.clone().map(|(peer, _)| peer).eq(in_turn)
            || marked.clone().any(|(_, share)| share.waiting.is_empty())
        {
            return Err(format!("{} peers have a turn", self.turns.len()));
        }
        let stuck = self
            .peers
            .iter()
            .find(|(_, share)| !share.waiting.is_empty() && !share.in_turn && share.count == 0);
        match stuck {
            None => Ok(()),
            Some((peer, _)) => Err(format!("{peer} waits for nothing")),
        }
    }

    /// Gives a peer with waiting items a turn.
    fn call(&mut self, peer: Nid) {
        let share = self.peers.get_mut(&peer).expect("a peer with items is known");
        if !std::mem::replace(&mut share.in_turn, true) {
            self.turns.push_back(peer);
        }
    }

    fn limit(&self) -> u64 {
        if self.is_crowded() { self.limits.crowded } else { self.limits.peer }
    }

    fn is_crowded(&self) -> bool {
        self.held > self.limits.whole / 2
    }

    fn has_room(&self, cost: u32) -> bool {
        self.held + u64::from(cost) <= self.limits.whole
    }
}

#[cfg(test)]
mod tests {
    use fulmar_base::Rng;
    use fulmar_lnet_wire::Net;

    use super::*;

    const LIMITS: Limits = Limits {
        whole: 100,
        peer: 50,
        crowded: 10,
        waiting: 40,
        waiting_peer: 30,
        waiting_crowded: 5,
    };

    fn nid(number: u32) -> Nid {
        Nid::small(Net::TCP, number)
    }

    /// Acquires shares for a peer until there is no more for it.
    fn exhaust(shares: &mut Shares<u32>, peer: u32) -> usize {
        std::iter::repeat_with(|| shares.take(nid(peer), 1)).take_while(|given| *given).count()
    }

    #[test]
    fn peers_that_give_nothing_back_leave_room_for_others() {
        let mut shares = Shares::new(LIMITS);
        assert_eq!(exhaust(&mut shares, 1), 50);
        assert_eq!(exhaust(&mut shares, 2), 10, "the second finds a crowd");
        shares.push(nid(1), 1, 11).unwrap();
        assert_eq!(shares.pop(), None);
        shares.push(nid(3), 1, 31).unwrap();
        assert_eq!(shares.pop(), Some(31), "it does not wait for the first");
        shares.check().unwrap();
        shares.give_back(nid(3), 1);
        for _ in 0..50 {
            shares.give_back(nid(1), 1);
        }
        assert_eq!(shares.pop(), Some(11));
        shares.check().unwrap();
    }

    #[test]
    fn peers_take_turns_and_their_items_go_in_order() {
        let mut shares = Shares::new(LIMITS);
        for peer in 1..=5 {
            while shares.take(nid(peer), 10) {}
        }
        assert_eq!(shares.held(), 90);
        assert!(shares.take(nid(6), 10));
        for item in [71, 72, 81, 82] {
            shares.push(nid(item / 10), 10, item).unwrap();
        }
        let mut order = Vec::new();
        for _ in 0..4 {
            assert_eq!(shares.pop(), None, "all is held");
            shares.give_back(nid(1), 10);
            order.extend(shares.pop());
        }
        // One that was served waits until it has given back.
        assert_eq!(order, [71, 81]);
        shares.give_back(nid(8), 10);
        assert_eq!(shares.pop(), Some(82));
        shares.check().unwrap();
    }

    #[test]
    fn what_waits_is_bounded_and_one_peer_leaves_room_for_others() {
        let mut shares = Shares::new(LIMITS);
        assert!(exhaust(&mut shares, 1) > 0);
        let mut pushed = |peer| (0..100).filter(|n| shares.push(nid(peer), 50, *n).is_ok()).count();
        assert_eq!((pushed(1), pushed(2), pushed(3), pushed(4), pushed(5)), (20, 5, 5, 5, 5));
        assert_eq!(pushed(6), 0);
        let odd = shares.withdraw(|item| item % 2 == 1);
        assert_eq!((odd.len(), shares.waiting()), (10 + 4 * 2, 40 - 18));
        shares.check().unwrap();
        shares.withdraw(|_| true);
        assert_eq!((shares.waiting(), shares.pop()), (0, None));
        shares.check().unwrap();
    }

    #[test]
    fn all_that_waits_is_served_in_the_end_whatever_happens() {
        for seed in 0..50 {
            let (mut rng, mut shares) = (Rng::new(seed), Shares::new(LIMITS));
            let (mut held, mut waiting) = (Vec::new(), 0);
            for round in 0..2000_u32 {
                let (peer, cost) = (rng.below(9) as u32, 1 + rng.below(10) as u32);
                match rng.below(9) {
                    0..=3 if shares.take(nid(peer), cost) => held.push((peer, cost)),
                    0..=3 => {
                        waiting += usize::from(shares.push(nid(peer), cost, (peer, cost)).is_ok())
                    }
                    4 if round % 64 == 0 => {
                        waiting -= shares.withdraw(|(of, _)| *of == peer).len();
                    }
                    _ if held.is_empty() => {}
                    _ => {
                        let (peer, cost) = held.swap_remove(rng.below(held.len() as u64) as usize);
                        shares.give_back(nid(peer), cost);
                    }
                }
                while let Some(item) = shares.pop() {
                    held.push(item);
                    waiting -= 1;
                }
                shares.check().unwrap();
                assert_eq!((shares.count(), shares.waiting()), (held.len(), waiting));
            }
            while let Some((peer, cost)) = held.pop() {
                shares.give_back(nid(peer), cost);
                held.extend(std::iter::from_fn(|| shares.pop()));
            }
            assert_eq!((shares.held(), shares.waiting()), (0, 0), "seed {seed}");
        }
    }

    #[test]
    fn idle_peers_are_forgotten() {
        let mut shares = Shares::<u32>::new(LIMITS);
        for peer in 0..1000 {
            assert!(shares.take(nid(peer), 1));
            shares.give_back(nid(peer), 1);
        }
        assert!(shares.peers.len() <= IDLE_MAX);
        shares.check().unwrap();
    }
}

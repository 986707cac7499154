//! Requests that wait and are executed: in two classes, and by node in turn.

use std::collections::{BTreeMap, VecDeque};

use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::Opcode;
use fulmar_lustre_wire::message::{Body, MessageFlags};

use super::RequestId;

/// The queue of a partition. Urgent requests go first, but ordinary ones are not starved. Nodes take
/// turns, and one node can have only a part of what is executed at once: requests of a node whose
/// bulk data never move leave room for others.
#[derive(Debug)]
pub(super) struct Queue {
    /// How many requests are executed at once, one of them urgent.
    running_max: u32,
    urgent: Class,
    ordinary: Class,
    /// How many urgent requests went since the last ordinary one.
    in_a_row: u32,
    running: u32,
}

/// Requests of a class, by node. Those of a node go in order.
#[derive(Debug, Default)]
struct Class {
    waiting: BTreeMap<Nid, VecDeque<RequestId>>,
    /// How many of each node are executed, where these are any.
    running: BTreeMap<Nid, u32>,
    /// The nodes with requests that wait, the next one first.
    turns: VecDeque<Nid>,
    len: usize,
}

impl Queue {
    /// After so many urgent requests in a row, one ordinary request goes.
    const IN_A_ROW: u32 = 10;

    pub(super) fn new(running_max: u32) -> Self {
        let (urgent, ordinary) = Default::default();
        Self { running_max, urgent, ordinary, in_a_row: 0, running: 0 }
    }

    pub(super) fn push(&mut self, node: Nid, id: RequestId, is_urgent: bool) {
        self.class(is_urgent).push(node, id);
    }

    /// Begins the next request, if one may be executed now.
    pub(super) fn pop(&mut self) -> Option<RequestId> {
        if self.running >= self.running_max {
            return None;
        }
        let (node, id, is_urgent) = self.next()?;
        self.begin(node, is_urgent);
        Some(id)
    }

    /// Counts a request that is executed.
    pub(super) fn begin(&mut self, node: Nid, is_urgent: bool) {
        self.running += 1;
        *self.class(is_urgent).running.entry(node).or_default() += 1;
    }

    /// Handles the end of the execution of a request.
    ///
    /// # Panics
    /// If none of the node is executed.
    pub(super) fn end(&mut self, node: Nid, is_urgent: bool) {
        self.running -= 1;
        let running = &mut self.class(is_urgent).running;
        let count = running.get_mut(&node).expect("a request of the node is executed");
        *count -= 1;
        if *count == 0 {
            running.remove(&node);
        }
    }

    /// Returns how many requests wait.
    pub(super) fn len(&self) -> usize {
        self.urgent.len + self.ordinary.len
    }

    /// Returns how many requests are executed.
    pub(super) fn running(&self) -> u32 {
        self.running
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RequestId> {
        let classes = [&self.urgent, &self.ordinary];
        classes.into_iter().flat_map(|class| class.waiting.values()).flatten().copied()
    }

    /// Returns whether the sums agree.
    pub(super) fn is_consistent(&self) -> bool {
        let classes = [&self.urgent, &self.ordinary];
        let waits = |class: &Class| class.waiting.values().map(VecDeque::len).sum::<usize>();
        classes.into_iter().all(|class| {
            let is_listed = |node| class.waiting.get(node).is_some_and(|ids| !ids.is_empty());
            waits(class) == class.len
                && class.turns.len() == class.waiting.len()
                && class.turns.iter().all(is_listed)
        }) && classes.into_iter().flat_map(|class| class.running.values()).sum::<u32>()
            == self.running
    }

    fn class(&mut self, is_urgent: bool) -> &mut Class {
        if is_urgent { &mut self.urgent } else { &mut self.ordinary }
    }

    fn next(&mut self) -> Option<(Nid, RequestId, bool)> {
        // The last place is for urgent requests, unless there is only one.
        let with_ordinary = self.running + 1 < self.running_max || self.running_max == 1;
        let is_turn = self.in_a_row >= Self::IN_A_ROW || self.urgent.len == 0;
        if with_ordinary
            && is_turn
            && let Some(next) = self.next_ordinary()
        {
            return Some(next);
        }
        if let Some((node, id)) = self.urgent.pop(self.part()) {
            self.in_a_row = self.in_a_row.saturating_add(1);
            return Some((node, id, true));
        }
        // Urgent requests of nodes that have their part do not hold up the others.
        if with_ordinary && !is_turn { self.next_ordinary() } else { None }
    }

    fn next_ordinary(&mut self) -> Option<(Nid, RequestId, bool)> {
        let (node, id) = self.ordinary.pop(self.part())?;
        self.in_a_row = 0;
        Some((node, id, false))
    }

    /// Returns how many requests of a class of one node are executed at once: half of all, and a
    /// sixteenth while half of the places are taken. The classes count apart, so that a node whose
    /// requests are stuck can still ping and reconnect.
    fn part(&self) -> u32 {
        let is_crowded = self.running >= self.running_max / 2;
        (self.running_max / if is_crowded { 16 } else { 2 }).max(1)
    }
}

impl Class {
    fn push(&mut self, node: Nid, id: RequestId) {
        let ids = self.waiting.entry(node).or_default();
        if ids.is_empty() {
            self.turns.push_back(node);
        }
        ids.push_back(id);
        self.len += 1;
    }

    /// Removes and returns the first request of the next node of which fewer than `part` requests are executed. Few
    /// nodes can have more than that at once, so that few are passed over.
    fn pop(&mut self, part: u32) -> Option<(Nid, RequestId)> {
        for _ in 0..self.turns.len() {
            let node = self.turns.pop_front()?;
            if self.running.get(&node).is_some_and(|count| *count >= part) {
                self.turns.push_back(node);
                continue;
            }
            let ids = self.waiting.get_mut(&node).expect("a node with a turn has requests");
            let id = ids.pop_front().expect("a node with a turn has requests");
            if ids.is_empty() {
                self.waiting.remove(&node);
            } else {
                self.turns.push_back(node)
            }
            self.len -= 1;
            return Some((node, id));
        }
        None
    }
}

/// Returns whether a request goes before others: it keeps a client connected, frees a lock, or is a
/// part of recovery.
pub(super) fn is_urgent(body: &Body) -> bool {
    let recovery =
        [MessageFlags::REPLAY, MessageFlags::REQ_REPLAY_DONE, MessageFlags::LOCK_REPLAY_DONE];
    body.opcode == Opcode::OBD_PING
        || body.opcode == Opcode::LDLM_CANCEL
        || body.opcode.is_connect()
        || recovery.into_iter().any(|flag| body.flags.has(flag))
}

#[cfg(test)]
mod tests {
    use fulmar_base::Rng;
    use fulmar_lnet_wire::Net;

    use super::*;

    fn node(n: u32) -> Nid {
        Nid::small(Net::TCP, n)
    }

    /// Begins all requests that may be executed now.
    fn begin_all(queue: &mut Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop()).map(|id| id.0).collect()
    }

    #[test]
    fn urgent_requests_go_first_and_ordinary_ones_are_not_starved() {
        let mut queue = Queue::new(1000);
        for n in 0..30 {
            queue.push(node(1), RequestId(n), true);
        }
        queue.push(node(1), RequestId(100), false);
        queue.push(node(1), RequestId(101), false);
        let order = begin_all(&mut queue);
        assert_eq!((order[10], order[21]), (100, 101));
        assert_eq!((order.len(), queue.running()), (32, 32));
    }

    #[test]
    fn the_last_place_is_for_urgent_requests() {
        let mut queue = Queue::new(2);
        for n in 0..3 {
            queue.push(node(n), RequestId(n.into()), false);
        }
        assert_eq!(begin_all(&mut queue), [0]);
        queue.push(node(3), RequestId(3), true);
        queue.push(node(4), RequestId(4), true);
        assert_eq!(begin_all(&mut queue), [3]);
        queue.end(node(3), true);
        queue.end(node(0), false);
        assert_eq!((queue.len(), queue.running()), (3, 0));
    }

    #[test]
    fn nodes_take_turns_and_the_requests_of_a_node_go_in_order() {
        let mut queue = Queue::new(100);
        for n in 0..10 {
            queue.push(node(1), RequestId(n), false);
        }
        queue.push(node(2), RequestId(50), false);
        queue.push(node(2), RequestId(51), false);
        queue.push(node(3), RequestId(60), false);
        assert_eq!(begin_all(&mut queue), [0, 50, 60, 1, 51, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn a_node_has_its_part_of_what_is_executed_and_others_are_served() {
        let mut queue = Queue::new(512);
        for attacker in [1, 2] {
            for n in 0..2000 {
                queue.push(node(attacker), RequestId(n), false);
                queue.push(node(attacker), RequestId(n), true);
            }
        }
        let begun = begin_all(&mut queue).len();
        assert!(begun < 400, "{begun} are executed");
        queue.push(node(3), RequestId(7000), false);
        queue.push(node(3), RequestId(7001), true);
        assert_eq!(begin_all(&mut queue), [7001, 7000]);
        assert!(queue.is_consistent());
        for _ in 0..queue.ordinary.running[&node(1)] {
            queue.end(node(1), false);
        }
        assert!(!begin_all(&mut queue).is_empty(), "a part is free again");
    }

    #[test]
    fn one_node_alone_is_served_with_any_number_of_places() {
        for places in 1..40 {
            let mut queue = Queue::new(places);
            (0..100).for_each(|n| queue.push(node(1), RequestId(n), false));
            for expected in 0..100 {
                assert_eq!(queue.pop(), Some(RequestId(expected)), "{places}");
                queue.end(node(1), false);
            }
            assert!(queue.is_consistent() && queue.len() == 0 && queue.ordinary.running.is_empty());
        }
    }

    #[test]
    fn no_request_is_lost() {
        let mut rng = Rng::new(1);
        let end = |queue: &mut Queue, (node, is_urgent)| queue.end(node, is_urgent);
        for _ in 0..200 {
            let mut queue = Queue::new(1 + rng.below(64) as u32);
            let (mut owners, mut running) = (Vec::new(), Vec::new());
            for _ in 0..400 {
                if rng.one_in(2) {
                    let owner = node(rng.below(5) as u32);
                    let is_urgent = rng.one_in(4);
                    queue.push(owner, RequestId(owners.len() as u64), is_urgent);
                    owners.push((owner, is_urgent));
                }
                if !running.is_empty() && rng.one_in(4) {
                    let ended: RequestId =
                        running.swap_remove(rng.below(running.len() as u64) as usize);
                    end(&mut queue, owners[ended.0 as usize]);
                }
                running.extend(queue.pop());
                assert!(queue.is_consistent() && queue.running() as usize == running.len());
            }
            let mut begun = owners.len() - queue.len();
            while let Some(ended) = running.pop() {
                end(&mut queue, owners[ended.0 as usize]);
                if let Some(next) = queue.pop() {
                    begun += 1;
                    running.push(next);
                }
            }
            assert_eq!((begun, queue.len()), (owners.len(), 0));
        }
    }
}

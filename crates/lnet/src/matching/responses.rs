//! The deadlines of responses. Spec: lnet-behaviour §11.7.
//!
//! Nearly all have the same timeout, so that their deadlines come in order and a queue is enough.
//! A deadline that is earlier than the last of the queue (a ping with its own timeout, or a
//! transaction timeout that was lowered) is kept in a tree.

use std::collections::VecDeque;

use fulmar_base::{Time, Timers};

use crate::api::MdId;

/// The deadlines. The descriptor itself holds the deadline that counts: an entry of the queue
/// that differs from it is obsolete, and is skipped.
#[derive(Debug, Default)]
pub(super) struct Responses {
    /// In the order of their deadlines. The first entry is never obsolete.
    queue: VecDeque<(Time, MdId)>,
    early: Timers<MdId>,
    /// How many descriptors have a deadline.
    awaited: usize,
}

/// The queue holds at most this many entries more than twice the descriptors that have a deadline.
const OBSOLETE_MIN: usize = 64;

impl Responses {
    /// Returns how many descriptors await a response.
    pub(super) fn len(&self) -> usize {
        self.awaited
    }

    /// Returns the earliest deadline.
    pub(super) fn next(&self) -> Option<Time> {
        let first = self.queue.front().map(|(at, _)| *at);
        match self.early.next() {
            None => first,
            early => [first, early].into_iter().flatten().min(),
        }
    }

    /// Adds the deadline of a descriptor. `had_one`: it replaces another.
    pub(super) fn add(&mut self, md: MdId, at: Time, had_one: bool) {
        if had_one {
            self.early.clear(md);
        } else {
            self.awaited += 1;
        }
        match self.queue.back() {
            Some((last, _)) if *last > at => self.early.set(md, at),
            _ => self.queue.push_back((at, md)),
        }
    }

    /// Removes the deadline of a descriptor.
    pub(super) fn remove(&mut self, md: MdId) {
        self.awaited -= 1;
        if !self.early.is_empty() {
            self.early.clear(md);
        }
    }

    /// Removes obsolete entries, as far as needed. `deadline` is that of a descriptor. To be
    /// called after each change.
    pub(super) fn prune(&mut self, deadline: impl Fn(MdId) -> Option<Time>) {
        let counts = |(at, md): &(Time, MdId)| deadline(*md) == Some(*at);
        while self.queue.front().is_some_and(|entry| !counts(entry)) {
            self.queue.pop_front();
        }
        if self.queue.len() > 2 * self.awaited + OBSOLETE_MIN {
            self.queue.retain(counts);
        }
    }

    /// Removes and returns the first descriptor whose deadline is not after `now`.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<MdId> {
        let at = self.next().filter(|at| *at <= now)?;
        self.awaited -= 1;
        let Some((_, md)) = self.queue.front().copied().filter(|(first, _)| *first == at) else {
            return self.early.pop_due(now);
        };
        self.queue.pop_front();
        if !self.early.is_empty() {
            self.early.clear(md);
        }
        Some(md)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fulmar_base::Rng;

    use super::*;

    /// The deadlines, and what a plain table of them says.
    #[derive(Default)]
    struct Model {
        responses: Responses,
        deadlines: BTreeMap<MdId, Time>,
    }

    impl Model {
        fn prune(&mut self) {
            self.responses.prune(|md| self.deadlines.get(&md).copied());
            assert!(self.responses.queue.len() <= 2 * self.deadlines.len() + OBSOLETE_MIN);
            assert_eq!(self.responses.len(), self.deadlines.len());
            assert_eq!(self.responses.next(), self.deadlines.values().min().copied());
        }

        fn add(&mut self, md: MdId, at: Time) {
            let old = self.deadlines.insert(md, at);
            self.responses.add(md, at, old.is_some());
            self.prune();
        }

        fn remove(&mut self, md: MdId) {
            if self.deadlines.remove(&md).is_some() {
                self.responses.remove(md);
                self.prune();
            }
        }

        fn pop(&mut self, now: Time) -> Option<Time> {
            let md = self.responses.pop_due(now)?;
            let at = self.deadlines.remove(&md).expect("a deadline passes once");
            self.prune();
            Some(at)
        }
    }

    #[test]
    fn deadlines_pass_in_order_whatever_comes_and_goes() {
        for seed in 0..20 {
            let (mut rng, mut model, mut now) = (Rng::new(seed), Model::default(), 0);
            for _ in 0..3000 {
                now += rng.below(3);
                let md = MdId(rng.below(200));
                match rng.below(8) {
                    0..=3 => model.add(md, Time(now + 150)),
                    4 => model.add(md, Time(now + 1 + rng.below(40))),
                    _ => model.remove(md),
                }
                while let Some(at) = model.pop(Time(now)) {
                    assert!(at <= Time(now));
                }
            }
            let mut last = Time::ZERO;
            while let Some(at) = model.pop(Time::MAX) {
                assert!(at >= last, "seed {seed}");
                last = at;
            }
            assert_eq!(model.responses.len(), 0);
        }
    }

    #[test]
    fn one_old_deadline_does_not_make_the_queue_grow() {
        let mut model = Model::default();
        model.add(MdId(0), Time(1));
        for n in 1..10_000 {
            model.add(MdId(n), Time(n + 1));
            model.remove(MdId(n));
        }
        assert_eq!(model.pop(Time(1)), Some(Time(1)));
        assert_eq!(model.responses.next(), None);
    }
}

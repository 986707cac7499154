//! A queue of future events.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use fulmar_base::Time;

/// Events by time; those of one time in the order in which they were pushed.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    pushed: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), pushed: 0 }
    }
}

impl<E> Queue<E> {
    /// Adds an event.
    pub(crate) fn push(&mut self, at: Time, event: E) {
        self.heap.push(Entry { at, order: self.pushed, event });
        self.pushed += 1;
    }

    /// Returns the time of the next event.
    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Removes and returns the next event.
    pub(crate) fn pop(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }

    /// Keeps the events for which `keep` returns true.
    pub(crate) fn retain(&mut self, keep: impl Fn(&E) -> bool) {
        self.heap.retain(|entry| keep(&entry.event));
    }
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    order: u64,
    event: E,
}

/// Reversed, because the heap returns its greatest element first.
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_time_keep_their_order() {
        let mut queue = Queue::default();
        queue.push(Time(5), 'c');
        queue.push(Time(3), 'a');
        queue.push(Time(5), 'd');
        queue.push(Time(3), 'b');
        let all: String = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        assert_eq!(all, "abcd");
    }
}

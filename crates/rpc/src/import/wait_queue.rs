//! Requests that wait to be sent.

use std::collections::VecDeque;

use super::RequestId;

/// What a request needs to be sent, beside a connection and a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Nothing, or it has its slot.
    Ordinary,
    /// A slot.
    Modifying,
    /// A slot, or the one for closes.
    Close,
}

/// Requests in order. One that may not be sent yet does not delay those that need less.
#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    /// By [`Lane`], with their places in the order of all.
    lanes: [VecDeque<(i64, RequestId)>; 3],
    front: i64,
    back: i64,
}

impl WaitQueue {
    const LANES: [Lane; 3] = [Lane::Ordinary, Lane::Modifying, Lane::Close];

    pub(super) fn push_back(&mut self, lane: Lane, id: RequestId) {
        self.back += 1;
        self.lanes[lane as usize].push_back((self.back, id));
    }

    /// Puts a request before all others.
    pub(super) fn push_front(&mut self, lane: Lane, id: RequestId) {
        self.front -= 1;
        self.lanes[lane as usize].push_front((self.front, id));
    }

    /// Puts a request before all that are later, as far as others of its lane do not precede it.
    pub(super) fn insert(
        &mut self,
        lane: Lane,
        id: RequestId,
        is_later: impl Fn(RequestId) -> bool,
    ) {
        let later = |&&(_, other): &&(i64, RequestId)| is_later(other);
        let firsts = self.lanes.iter().filter_map(|lane| lane.iter().find(later));
        let Some(place) = firsts.map(|(place, _)| *place).min() else {
            return self.push_back(lane, id);
        };
        let lane = &mut self.lanes[lane as usize];
        let at = lane.iter().position(|&(_, other)| is_later(other)).unwrap_or(lane.len());
        lane.insert(at, (place, id));
    }

    /// Removes and returns the first request of a lane that `may_go`.
    pub(super) fn pop(&mut self, may_go: impl Fn(Lane) -> bool) -> Option<RequestId> {
        let heads = Self::LANES.into_iter().filter(|&lane| may_go(lane));
        let heads = heads.filter_map(|lane| Some((self.lanes[lane as usize].front()?.0, lane)));
        let (_, lane) = heads.min_by_key(|&(place, _)| place)?;
        self.lanes[lane as usize].pop_front().map(|(_, id)| id)
    }

    /// Removes a request. Returns whether it was there.
    pub(super) fn remove(&mut self, id: RequestId) -> bool {
        self.lanes.iter_mut().any(|lane| {
            let at = lane.iter().position(|&(_, other)| other == id);
            at.and_then(|at| lane.remove(at)).is_some()
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(VecDeque::is_empty)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_keep_their_order_except_for_those_that_cannot_go() {
        let mut waiting = WaitQueue::default();
        let lanes = [Lane::Modifying, Lane::Ordinary, Lane::Close, Lane::Modifying, Lane::Ordinary];
        for (n, lane) in lanes.into_iter().enumerate() {
            waiting.push_back(lane, RequestId(n as u64));
        }
        waiting.push_front(Lane::Ordinary, RequestId(9));
        let mut pop = |may_go: fn(Lane) -> bool| waiting.pop(may_go).map(|id| id.0);
        assert_eq!(pop(|_| true), Some(9));
        assert_eq!(pop(|lane| lane == Lane::Ordinary), Some(1));
        assert_eq!(pop(|lane| lane != Lane::Modifying), Some(2));
        assert_eq!([pop(|_| true), pop(|_| true), pop(|_| true)], [Some(0), Some(3), Some(4)]);
        assert_eq!(pop(|_| true), None);
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_request_goes_before_those_that_are_later() {
        let mut waiting = WaitQueue::default();
        waiting.insert(Lane::Ordinary, RequestId(5), |_| false);
        for (lane, id) in [(Lane::Modifying, 7), (Lane::Ordinary, 9), (Lane::Close, 8)] {
            waiting.push_back(lane, RequestId(id));
        }
        waiting.insert(Lane::Ordinary, RequestId(6), |other| other.0 > 6);
        waiting.insert(Lane::Close, RequestId(4), |other| other.0 > 4);
        assert!(waiting.remove(RequestId(7)) && !waiting.remove(RequestId(7)));
        let order: Vec<u64> = std::iter::from_fn(|| waiting.pop(|_| true)).map(|id| id.0).collect();
        // Equal places: ordinary requests first.
        assert_eq!(order, [5, 4, 6, 9, 8]);
    }
}

//! Requests that wait, in two classes.

use std::collections::VecDeque;

use fulmar_lustre_wire::Opcode;
use fulmar_lustre_wire::message::{Body, MessageFlags};

use super::RequestId;

/// The queue of a partition. Urgent requests go first, but ordinary ones are not starved.
#[derive(Debug, Default)]
pub(super) struct Queue {
    urgent: VecDeque<RequestId>,
    ordinary: VecDeque<RequestId>,
    /// How many urgent requests went since the last ordinary one.
    in_a_row: u32,
}

impl Queue {
    /// After so many urgent requests in a row, one ordinary request goes.
    const IN_A_ROW: u32 = 10;

    pub(super) fn push(&mut self, id: RequestId, is_urgent: bool) {
        let class = if is_urgent { &mut self.urgent } else { &mut self.ordinary };
        class.push_back(id);
    }

    /// Takes the next request. `with_ordinary`: whether it may be an ordinary one.
    pub(super) fn pop(&mut self, with_ordinary: bool) -> Option<RequestId> {
        let is_turn = self.in_a_row >= Self::IN_A_ROW || self.urgent.is_empty();
        let ordinary = (with_ordinary && is_turn).then(|| self.ordinary.pop_front()).flatten();
        if ordinary.is_some() {
            self.in_a_row = 0;
            return ordinary;
        }
        let id = self.urgent.pop_front()?;
        self.in_a_row = self.in_a_row.saturating_add(1);
        Some(id)
    }

    pub(super) fn len(&self) -> usize {
        self.urgent.len() + self.ordinary.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RequestId> {
        self.urgent.iter().chain(&self.ordinary).copied()
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
    use super::*;

    #[test]
    fn urgent_requests_go_first_and_ordinary_ones_are_not_starved() {
        let mut queue = Queue::default();
        for n in 0..30 {
            queue.push(RequestId(n), true);
        }
        queue.push(RequestId(100), false);
        queue.push(RequestId(101), false);
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop(true)).map(|id| id.0).collect();
        assert_eq!((order[10], order[21]), (100, 101));
        assert_eq!(order.len(), 32);
        queue.push(RequestId(1), false);
        assert_eq!(queue.pop(false), None);
        assert_eq!(queue.len(), 1);
    }
}

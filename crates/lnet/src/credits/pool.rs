//! A number of credits and the messages that wait for one. Spec: lnet-behaviour §6.3, §6.4.

use std::collections::VecDeque;

use fulmar_base::MessageId;

/// A message holds a credit, or is counted as waiting for one: `current` is negative by as many
/// as wait.
#[derive(Debug, Default)]
pub(super) struct Credits {
    max: i64,
    current: i64,
    min: i64,
    waiting: VecDeque<MessageId>,
}

/// Credits as administrators see them. A negative number is that of waiting messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) max: i64,
    pub(crate) current: i64,
    /// The lowest value so far.
    pub(crate) min: i64,
}

impl Level {
    /// Returns how many messages hold a credit or wait for one.
    pub(crate) fn users(self) -> u64 {
        u64::try_from(self.max - self.current).unwrap_or(0)
    }
}

impl Credits {
    pub(super) fn new(max: u32) -> Self {
        let max = i64::from(max);
        Self { max, current: max, min: max, waiting: VecDeque::new() }
    }

    /// Makes the present value the lowest so far.
    pub(super) fn forget_minimum(&mut self) {
        self.min = self.current;
    }

    /// Acquires a credit for `message` and returns true, or puts it at the end of the queue.
    pub(super) fn take(&mut self, message: MessageId) -> bool {
        self.current -= 1;
        self.min = self.min.min(self.current);
        if self.current < 0 {
            self.waiting.push_back(message);
        }
        self.current >= 0
    }

    /// Receives a credit back and returns the waiting message that holds it from now on.
    pub(super) fn give_back(&mut self) -> Option<MessageId> {
        self.current += 1;
        assert!(self.current <= self.max, "more credits came back than were taken");
        if self.current > 0 {
            return None;
        }
        let next = self.waiting.pop_front();
        assert!(next.is_some(), "a message was counted as waiting and is not in the queue");
        next
    }

    /// Removes a waiting message.
    pub(super) fn withdraw(&mut self, message: MessageId) {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| *waiting != message);
        assert_eq!(self.waiting.len() + 1, before, "{message:?} waits exactly once");
        self.current += 1;
    }

    pub(super) fn current(&self) -> i64 {
        self.current
    }

    pub(super) fn level(&self) -> Level {
        let Self { max, current, min, .. } = *self;
        Level { max, current, min }
    }

    /// Returns whether no message holds a credit or waits for one.
    pub(super) fn is_idle(&self) -> bool {
        self.current == self.max
    }

    /// Checks what holds at any time, and that there are `users` messages.
    pub(super) fn check(&self, users: u64) -> Result<(), String> {
        let waiting = self.waiting.len() as i64;
        if waiting != (-self.current).max(0) {
            return Err(format!("{} credits and {waiting} messages waiting", self.current));
        }
        if self.min > self.current || self.current > self.max {
            return Err(format!("credits: not {} <= {} <= {}", self.min, self.current, self.max));
        }
        if self.level().users() == users {
            Ok(())
        } else {
            Err(format!("{users} messages, {} charged", self.level().users()))
        }
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = MessageId> {
        self.waiting.iter().copied()
    }
}

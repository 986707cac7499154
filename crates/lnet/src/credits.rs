//! A pool of credits and the messages that wait for one. Spec: lnet-behaviour §6.3, §6.4.

use std::collections::VecDeque;

use fulmar_base::MessageId;

/// A message holds a credit, or is counted as waiting for one: `current` is negative by as many
/// as wait.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    pub(crate) max: i64,
    pub(crate) current: i64,
    /// The lowest value so far: what administrators look at.
    pub(crate) min: i64,
    waiting: VecDeque<MessageId>,
}

impl Credits {
    pub(crate) fn new(max: u32) -> Self {
        let max = i64::from(max);
        Self { max, current: max, min: max, waiting: VecDeque::new() }
    }

    /// Takes a credit for `message` and returns true, or puts it at the end of the queue.
    pub(crate) fn take(&mut self, message: MessageId) -> bool {
        self.current -= 1;
        self.min = self.min.min(self.current);
        if self.current < 0 {
            self.waiting.push_back(message);
        }
        self.current >= 0
    }

    /// Takes a credit back and returns the waiting message that holds it from now on.
    pub(crate) fn give_back(&mut self) -> Option<MessageId> {
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
    pub(crate) fn withdraw(&mut self, message: MessageId) {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| *waiting != message);
        assert_eq!(self.waiting.len() + 1, before, "{message:?} waits exactly once");
        self.current += 1;
    }

    /// Returns whether nobody holds a credit or waits for one.
    pub(crate) fn is_idle(&self) -> bool {
        self.current == self.max
    }

    /// Returns how many messages hold a credit or wait for one.
    pub(crate) fn users(&self) -> u64 {
        u64::try_from(self.max - self.current).unwrap_or(0)
    }

    /// Checks what holds at any time.
    pub(crate) fn check(&self) -> Result<(), String> {
        let waiting = self.waiting.len() as i64;
        if waiting != (-self.current).max(0) {
            return Err(format!("{} credits and {waiting} messages waiting", self.current));
        }
        if self.min > self.current || self.current > self.max {
            return Err(format!("credits: not {} <= {} <= {}", self.min, self.current, self.max));
        }
        Ok(())
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = MessageId> {
        self.waiting.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_are_counted_and_woken_in_order_of_arrival() {
        let mut credits = Credits::new(1);
        assert!(credits.take(MessageId(1)));
        assert!(!credits.take(MessageId(2)));
        assert!(!credits.take(MessageId(3)));
        assert!(!credits.take(MessageId(4)));
        assert_eq!((credits.current, credits.min), (-3, -3));
        credits.withdraw(MessageId(3));
        assert_eq!(credits.give_back(), Some(MessageId(2)));
        assert_eq!(credits.give_back(), Some(MessageId(4)));
        assert_eq!(credits.check(), Ok(()));
        assert_eq!(credits.give_back(), None);
        assert!(credits.is_idle());
        assert_eq!(credits.min, -3);
    }
}

//! Messages that wait for an acknowledgement of the peer. Spec: lnet-wire §6.3.
//!
//! ```text
//! requested -- written --> waits -- acknowledged --> sent
//!     |                                               ^
//!     +----- acknowledged -----> taken -- written ----+
//! ```
//!
//! The owner may report the write of the end of a message only after it has reported the answer of
//! the peer to it.

use std::collections::BTreeMap;

use fulmar_base::{ConnId, MessageId, Time};
use fulmar_lnd::SendError;

/// The pending acknowledgements of one peer. The credits of LNet bound them.
#[derive(Debug, Default)]
pub(crate) struct ZeroCopy {
    /// How many cookies were used.
    drawn: u64,
    pending: BTreeMap<u64, ZeroCopySend>,
}

/// The result of a frame with cookies.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AckResult {
    /// The messages that are now sent.
    pub(crate) messages: Vec<MessageId>,
    /// How many cookies belonged to completed messages: a peer may acknowledge on any of its
    /// connections, also for one that was closed since.
    pub(crate) late: u64,
}

#[derive(Clone, Copy, Debug)]
struct ZeroCopySend {
    message: MessageId,
    conn: ConnId,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asked,
    Waits(Time),
    Taken,
}

impl ZeroCopy {
    /// Returns a new cookie for a message to be written on a connection.
    pub(crate) fn ask(&mut self, message: MessageId, conn: ConnId) -> u64 {
        let cookie = FIRST + self.drawn % (u64::MAX - FIRST);
        self.drawn += 1;
        self.pending.insert(cookie, ZeroCopySend { message, conn, state: State::Asked });
        cookie
    }

    /// Records that a message is completely in the socket, and returns its result if acknowledged.
    pub(crate) fn written(&mut self, now: Time, cookie: u64) -> Option<Result<(), SendError>> {
        let pending = self.pending.get_mut(&cookie)?;
        if pending.state == State::Taken {
            self.pending.remove(&cookie);
            return Some(Ok(()));
        }
        pending.state = State::Waits(now);
        None
    }

    /// Handles the cookies of a frame. Without `paired` the first one is ignored.
    ///
    /// # Errors
    /// A cookie that was never used, or whose message was acknowledged before its write completed.
    pub(crate) fn acknowledged(
        &mut self,
        cookies: [u64; 2],
        paired: bool,
    ) -> Result<AckResult, u64> {
        let [first, last] = cookies;
        // A descending pair is not a range.
        let ranges = match first {
            first if first == 0 || !paired => vec![last..=last],
            first if first > last => vec![first..=first, last..=last],
            first => vec![first..=last],
        };
        let ends = ranges.iter().flat_map(|range| [range.end(), range.start()]);
        if let Some(unknown) = ends.copied().find(|cookie| !self.is_drawn(*cookie)) {
            return Err(unknown);
        }
        let named: u64 = ranges.iter().map(|range| range.end() - range.start() + 1).sum();
        // Few messages wait, however long a range is.
        let waiting = || ranges.iter().flat_map(|range| self.pending.range(range.clone()));
        if let Some((twice, _)) = waiting().find(|(_, pending)| pending.state == State::Taken) {
            return Err(*twice);
        }
        let waiting: Vec<u64> = waiting().map(|(cookie, _)| *cookie).collect();
        let late = named - waiting.len() as u64;
        let messages = waiting.into_iter().filter_map(|cookie| self.take(cookie)).collect();
        Ok(AckResult { messages, late })
    }

    /// Returns whether no message waits for an acknowledgement.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    fn is_drawn(&self, cookie: u64) -> bool {
        cookie.checked_sub(FIRST).is_some_and(|before| before < self.drawn)
    }

    /// Records that a message was acknowledged, and returns it if it was written too.
    fn take(&mut self, cookie: u64) -> Option<MessageId> {
        let pending = self.pending.get_mut(&cookie)?;
        if pending.state == State::Asked {
            pending.state = State::Taken;
            return None;
        }
        self.pending.remove(&cookie).map(|pending| pending.message)
    }

    /// Returns since when a message that was written on a connection has been waiting.
    pub(crate) fn waits_since(&self, conn: ConnId) -> Option<Time> {
        let since = |pending: &ZeroCopySend| match pending.state {
            State::Waits(since) if pending.conn == conn => Some(since),
            _ => None,
        };
        self.pending.values().find_map(since)
    }

    /// Removes the messages of a connection that has ended.
    pub(crate) fn split_off(&mut self, conn: ConnId) -> Self {
        let of_it = self.pending.iter().filter(|(_, pending)| pending.conn == conn);
        let pending: BTreeMap<_, _> = of_it.map(|(cookie, pending)| (*cookie, *pending)).collect();
        self.pending.retain(|_, pending| pending.conn != conn);
        Self { drawn: 0, pending }
    }

    /// Returns the messages that were written completely and not acknowledged.
    pub(crate) fn unacknowledged(&self) -> impl Iterator<Item = MessageId> {
        let waits = |pending: &&ZeroCopySend| matches!(pending.state, State::Waits(_));
        self.pending.values().filter(waits).map(|pending| pending.message)
    }
}

/// 0 is no cookie, and 1 is a keepalive.
const FIRST: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const CONN: ConnId = ConnId(1);

    /// Returns messages 10, 11, … that were written and have cookies from 2 on.
    fn waiting(count: u64) -> ZeroCopy {
        let mut zero_copy = ZeroCopy::default();
        for n in 0..count {
            let cookie = zero_copy.ask(MessageId(10 + n), CONN);
            assert_eq!(cookie, 2 + n);
            assert_eq!(zero_copy.written(Time(n), cookie), None);
        }
        zero_copy
    }

    fn names(names: &[u64]) -> Result<AckResult, u64> {
        Ok(AckResult { messages: names.iter().copied().map(MessageId).collect(), late: 0 })
    }

    fn late(names: &[u64], late: u64) -> Result<AckResult, u64> {
        self::names(names).map(|acknowledged| AckResult { late, ..acknowledged })
    }

    #[test]
    fn one_two_or_a_range_of_cookies_are_acknowledged() {
        let mut zero_copy = waiting(7);
        assert_eq!(zero_copy.acknowledged([0, 3], true), names(&[11]));
        assert_eq!(zero_copy.acknowledged([4, 2], true), names(&[12, 10]));
        assert_eq!(zero_copy.acknowledged([5, 8], true), names(&[13, 14, 15, 16]));
        assert!(zero_copy.pending.is_empty());
    }

    #[test]
    fn unknown_cookies_are_reported() {
        let mut zero_copy = waiting(2);
        assert_eq!(zero_copy.acknowledged([0, 4], true), Err(4));
        assert_eq!(zero_copy.acknowledged([3, 1], true), Err(1));
        assert_eq!(zero_copy.acknowledged([2, u64::MAX], true), Err(u64::MAX));
        assert_eq!(zero_copy.acknowledged([1, 3], true), Err(1));
        assert_eq!(zero_copy.acknowledged([0, 2], true), names(&[10]));
        // Version 2 has neither pairs nor ranges.
        assert_eq!(zero_copy.acknowledged([2, 3], false), names(&[11]));
        assert_eq!(ZeroCopy::default().acknowledged([0, 2], true), Err(2));
    }

    #[test]
    fn cookies_of_completed_messages_are_counted() {
        let mut zero_copy = waiting(4);
        zero_copy.ask(MessageId(20), ConnId(2));
        zero_copy.split_off(CONN);
        assert_eq!(zero_copy.acknowledged([0, 3], true), late(&[], 1));
        assert_eq!(zero_copy.acknowledged([4, 2], true), late(&[], 2));
        assert_eq!(zero_copy.written(Time(9), 6), None);
        assert_eq!(zero_copy.acknowledged([2, 6], true), late(&[20], 4));
        assert_eq!(zero_copy.acknowledged([2, 7], true), Err(7));
    }

    #[test]
    fn an_acknowledgement_may_precede_the_write() {
        let mut zero_copy = ZeroCopy::default();
        let cookie = zero_copy.ask(MessageId(1), CONN);
        assert_eq!(zero_copy.acknowledged([0, cookie], true), names(&[]));
        assert_eq!(zero_copy.acknowledged([0, cookie], true), Err(cookie));
        assert_eq!(zero_copy.written(Time(1), cookie), Some(Ok(())));
        assert!(zero_copy.pending.is_empty());
    }

    #[test]
    fn the_end_of_a_connection_ends_its_messages() {
        let mut zero_copy = waiting(2);
        let other = zero_copy.ask(MessageId(20), ConnId(2));
        assert_eq!(zero_copy.waits_since(CONN), Some(Time(0)));
        let ended = zero_copy.split_off(CONN);
        assert_eq!(ended.unacknowledged().collect::<Vec<_>>(), [MessageId(10), MessageId(11)]);
        assert_eq!(zero_copy.waits_since(CONN), None);
        assert_eq!(zero_copy.written(Time(9), other), None);
        assert_eq!(zero_copy.waits_since(ConnId(2)), Some(Time(9)));
    }
}

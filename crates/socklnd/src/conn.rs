//! One TCP connection: in which phase it is, and what is being written on it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use fulmar_base::{MessageId, Time};
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::socklnd::ConnKind;
use fulmar_wire::Order;

use crate::handshake::Handshake;
use crate::peer::{Known, PeerKey};
use crate::rx::Rx;

/// A TCP connection or an attempt at one.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) phase: Phase,
    pub(crate) tx: Tx,
}

/// ```text
/// we dial    Dialling -- connected --> Calling -- agreed --> Open
/// they dial                            Called --- agreed --> Open
/// ```
#[derive(Debug)]
pub(crate) enum Phase {
    /// The owner is connecting.
    Dialling(PeerKey),
    /// Our call is written, its answer has not arrived.
    Calling(PeerKey, Handshake),
    /// A caller has not said yet what it wants. With its NID once that is known to be ours.
    Called(Option<Nid>, Handshake),
    /// Messages flow.
    Open(Open),
}

/// What a handshake leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreement {
    pub(crate) key: PeerKey,
    /// What the connection is for, as we see it.
    pub(crate) kind: ConnKind,
    pub(crate) known: Known,
    /// The order of the peer's frames.
    pub(crate) order: Order,
    /// We gave the peer another identity than the one it writes into its headers.
    pub(crate) imposed: bool,
}

/// What an open connection is.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) key: PeerKey,
    pub(crate) kind: ConnKind,
    pub(crate) imposed: bool,
    pub(crate) rx: Rx,
    pub(crate) opened: Time,
    /// The number of the last message, in the order of all messages that were sent.
    pub(crate) last_used: u64,
}

/// What was asked to be written and is not in the socket yet, in order.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    items: VecDeque<Item>,
    queued: u64,
    /// When the socket last took bytes, or the queue last became non-empty.
    progress: Time,
    noops: usize,
}

#[derive(Debug)]
struct Item {
    left: u64,
    written: Written,
}

/// What one write was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// Part of the handshake.
    Handshake,
    /// A frame without a message.
    Noop,
    /// A message with so many bytes of payload.
    Message(MessageId, u32),
    /// The same, and it is to be acknowledged by this cookie.
    ZeroCopy(MessageId, u32, u64),
}

impl Tx {
    /// Appends `len` bytes.
    pub(crate) fn push(&mut self, now: Time, len: u64, written: Written) {
        if self.items.is_empty() {
            self.progress = now;
        }
        self.noops += usize::from(written == Written::Noop);
        self.queued += len;
        self.items.push_back(Item { left: len, written });
    }

    /// Takes `bytes` off the front and names every write that is whole now.
    ///
    /// # Panics
    /// If so much was never asked for.
    pub(crate) fn advance(&mut self, now: Time, bytes: u64, mut done: impl FnMut(Written)) {
        assert!(bytes <= self.queued, "{bytes} bytes sent of {} asked for", self.queued);
        self.progress = now;
        self.queued -= bytes;
        let mut bytes = bytes;
        while let Some(item) = self.items.front_mut() {
            let taken = bytes.min(item.left);
            item.left -= taken;
            bytes -= taken;
            if item.left > 0 {
                return;
            }
            let written = item.written;
            self.items.pop_front();
            self.noops -= usize::from(written == Written::Noop);
            done(written);
        }
        if self.items.capacity() > IDLE_CAPACITY {
            self.items = VecDeque::new();
        }
    }

    /// Returns how many bytes wait.
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// Returns how many frames without a message wait.
    pub(crate) fn noops(&self) -> usize {
        self.noops
    }

    /// Returns when the socket last took bytes.
    pub(crate) fn progress(&self) -> Time {
        self.progress
    }

    /// Returns since when the socket has taken nothing of what waits.
    pub(crate) fn stalled_since(&self) -> Option<Time> {
        (!self.items.is_empty()).then_some(self.progress)
    }

    /// Names the messages that were not written whole.
    pub(crate) fn unsent(&self) -> impl Iterator<Item = MessageId> {
        self.items.iter().filter_map(|item| match item.written {
            Written::Message(message, _) | Written::ZeroCopy(message, ..) => Some(message),
            Written::Handshake | Written::Noop => None,
        })
    }
}

/// A queue that grew longer than this in a burst gives its memory back when it is empty.
const IDLE_CAPACITY: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_complete_in_order_and_only_when_whole() {
        let mut tx = Tx::default();
        tx.push(Time(1), 10, Written::Handshake);
        tx.push(Time(2), 5, Written::Message(MessageId(7), 0));
        tx.push(Time(2), 5, Written::Noop);
        assert_eq!(tx.stalled_since(), Some(Time(1)));
        let mut done = Vec::new();
        tx.advance(Time(3), 14, |written| done.push(written));
        assert_eq!(done, [Written::Handshake]);
        assert_eq!(tx.unsent().collect::<Vec<_>>(), [MessageId(7)]);
        tx.advance(Time(4), 6, |written| done.push(written));
        assert_eq!(done[1..], [Written::Message(MessageId(7), 0), Written::Noop]);
        assert_eq!((tx.stalled_since(), tx.queued(), tx.noops()), (None, 0, 0));
    }
}

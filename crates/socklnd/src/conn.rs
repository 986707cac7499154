//! One TCP connection: its phase, and its write queue.

use std::collections::VecDeque;
use std::net::SocketAddr;

use fulmar_base::{MessageId, Time};
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::socklnd::ConnKind;
use fulmar_wire::Order;

use crate::handshake::Handshake;
use crate::peer::{PeerInstance, PeerKey};
use crate::rx::Rx;

/// A TCP connection, or an attempt to open one.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) phase: Phase,
    pub(crate) tx: Tx,
}

impl Conn {
    /// Returns when its peer was last heard on it, if it is open.
    pub(crate) fn heard(&self) -> Time {
        match &self.phase {
            Phase::Open(open) => open.rx.last(),
            Phase::Dialling(_) | Phase::Calling(..) | Phase::Called(..) => Time::ZERO,
        }
    }
}

/// ```text
/// this end   Dialling -- connected --> Calling -- agreed --> Open
/// the peer                             Called --- agreed --> Open
/// ```
#[derive(Debug)]
pub(crate) enum Phase {
    /// The owner is connecting.
    Dialling(PeerKey),
    /// The request is written; its answer has not arrived.
    Calling(PeerKey, Handshake),
    /// An incoming connection without a complete request. Has the NID once it is known to be local.
    Called(Option<Nid>, Handshake),
    /// Messages can be sent.
    Open(Open),
}

/// The result of a handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreement {
    pub(crate) key: PeerKey,
    /// The kind of the connection, as seen from this node.
    pub(crate) kind: ConnKind,
    pub(crate) known: PeerInstance,
    /// The byte order of the frames of the peer.
    pub(crate) order: Order,
    /// This node gave the peer another identity than the one in its headers.
    pub(crate) imposed: bool,
}

/// State of an open connection.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) key: PeerKey,
    pub(crate) kind: ConnKind,
    pub(crate) imposed: bool,
    pub(crate) rx: Rx,
    pub(crate) opened: Time,
    /// Until then the peer is assumed not to read, and its messages not to move.
    pub(crate) slow_until: Time,
    /// It is an incoming one that may have to give way.
    pub(crate) on_probation: bool,
    /// The sequence number of the last message, over all sent messages.
    pub(crate) last_used: u64,
}

/// Queued writes that are not in the socket yet, in order.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    items: VecDeque<Item>,
    queued: u64,
    /// When the socket last accepted bytes, or the queue last became non-empty.
    progress: Time,
    /// When the last message was written.
    used: Time,
    noops: usize,
}

#[derive(Debug)]
struct Item {
    left: u64,
    written: WriteContent,
}

/// The contents of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteContent {
    /// Part of the handshake.
    Handshake,
    /// A frame without a message.
    Noop,
    /// A message with this payload length.
    Message(MessageId, u32),
    /// The same, to be acknowledged with this cookie.
    ZeroCopy(MessageId, u32, u64),
}

impl Tx {
    /// Appends `len` bytes.
    pub(crate) fn push(&mut self, now: Time, len: u64, written: WriteContent) {
        if self.items.is_empty() {
            self.progress = now;
        }
        self.noops += usize::from(written == WriteContent::Noop);
        self.queued += len;
        self.items.push_back(Item { left: len, written });
    }

    /// Removes `bytes` from the front and returns the completed writes.
    ///
    /// # Panics
    /// If more bytes are removed than were queued.
    pub(crate) fn advance(&mut self, now: Time, bytes: u64, mut done: impl FnMut(WriteContent)) {
        assert!(bytes <= self.queued, "{bytes} bytes sent of {} queued", self.queued);
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
            match written {
                WriteContent::Noop => self.noops -= 1,
                WriteContent::Message(..) | WriteContent::ZeroCopy(..) => self.used = now,
                WriteContent::Handshake => {}
            }
            done(written);
        }
        if self.items.capacity() > IDLE_CAPACITY {
            self.items = VecDeque::new();
        }
    }

    /// Returns the number of queued bytes.
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// Returns the number of queued frames without a message.
    pub(crate) fn noops(&self) -> usize {
        self.noops
    }

    /// Returns when the socket last accepted bytes.
    pub(crate) fn progress(&self) -> Time {
        self.progress
    }

    /// Returns when the last message was written.
    pub(crate) fn used(&self) -> Time {
        self.used
    }

    /// Returns since when the socket has not accepted any queued bytes.
    pub(crate) fn stalled_since(&self) -> Option<Time> {
        (!self.items.is_empty()).then_some(self.progress)
    }

    /// Returns the messages that were not written completely.
    pub(crate) fn unsent(&self) -> impl Iterator<Item = MessageId> {
        self.items.iter().filter_map(|item| match item.written {
            WriteContent::Message(message, _) | WriteContent::ZeroCopy(message, ..) => {
                Some(message)
            }
            WriteContent::Handshake | WriteContent::Noop => None,
        })
    }
}

/// A queue that grew longer than this releases its memory when it is empty.
const IDLE_CAPACITY: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_complete_in_order_and_only_when_whole() {
        let mut tx = Tx::default();
        tx.push(Time(1), 10, WriteContent::Handshake);
        tx.push(Time(2), 5, WriteContent::Message(MessageId(7), 0));
        tx.push(Time(2), 5, WriteContent::Noop);
        assert_eq!(tx.stalled_since(), Some(Time(1)));
        let mut done = Vec::new();
        tx.advance(Time(3), 14, |written| done.push(written));
        assert_eq!(done, [WriteContent::Handshake]);
        assert_eq!(tx.unsent().collect::<Vec<_>>(), [MessageId(7)]);
        tx.advance(Time(4), 6, |written| done.push(written));
        assert_eq!(done[1..], [WriteContent::Message(MessageId(7), 0), WriteContent::Noop]);
        assert_eq!((tx.stalled_since(), tx.queued(), tx.noops()), (None, 0, 0));
    }
}

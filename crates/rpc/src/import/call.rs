//! Requests of an import, and their replies.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::Opcode;
use fulmar_lustre_wire::message::{Container, Message};

use super::bulk::{PostedBulk, Transfer};
use super::replay_list::Key;
use super::slots::Slot;
use super::wait_queue::Lane;
use crate::Xid;
use crate::bulk::Bulk;

/// A request of an import. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// One transmission of a request. Never used twice on an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransmissionId(pub u64);

/// A request for a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub(super) message: Message<'static>,
    pub(super) portal: Option<u32>,
    pub(super) reply_len: usize,
    pub(super) resend: bool,
    pub(super) bulk: Option<Bulk>,
    /// Whether it needs a slot.
    pub(super) modifies: bool,
    pub(super) is_open: bool,
    pub(super) is_lock_replay: bool,
    /// Whether it is kept for replay if it is a transaction.
    pub(super) is_replayed: bool,
}

impl Request {
    /// Returns what is sent.
    pub fn message(&self) -> &Message<'static> {
        &self.message
    }

    /// Returns a request whose reply has at most `reply_len` bytes. It is sent again until there is
    /// a reply. If it was a transaction, it is kept, and replayed when a restart of the target has
    /// lost it.
    ///
    /// # Panics
    /// If `reply_len` is longer than any message.
    pub fn new(message: Message<'static>, reply_len: usize) -> Self {
        assert!(
            reply_len <= Container::LEN_MAX,
            "a reply has at most {} bytes",
            Container::LEN_MAX
        );
        Self {
            message,
            portal: None,
            reply_len,
            resend: true,
            bulk: None,
            modifies: false,
            is_open: false,
            is_lock_replay: false,
            is_replayed: true,
        }
    }

    /// Sends the request to `portal`, not to that of most requests.
    #[must_use]
    pub fn at(self, portal: u32) -> Self {
        Self { portal: Some(portal), ..self }
    }

    /// Lets the server move bulk data. Their memory is not touched until the request has ended. If it
    /// was a transaction that is not on disk, its data may be sent again: their memory must not change
    /// until [`Output::Released`](super::Output::Released). Spec: mdt-ost §17.7.
    ///
    /// # Panics
    /// If there are no bytes.
    #[must_use]
    pub fn with_bulk(self, bulk: Bulk) -> Self {
        assert!(!bulk.is_empty(), "bulk data have at least one byte");
        Self { bulk: Some(bulk), ..self }
    }

    /// Gives the request a slot, as metadata targets require for operations that modify.
    /// Spec: ptlrpc-ldlm-mgs §6.6.
    #[must_use]
    pub fn modifying(self) -> Self {
        Self { modifies: true, ..self }
    }

    /// Keeps the request after it is on disk, until [`Import::release`](super::Import::release): a
    /// replay of it opens its file again.
    #[must_use]
    pub fn opening(self) -> Self {
        Self { is_open: true, ..self }
    }

    /// Does not keep the request for replay: the owner does what is needed after a restart.
    #[must_use]
    pub fn not_replayed(self) -> Self {
        Self { is_replayed: false, ..self }
    }

    /// Makes the request a lock replay, which is sent in [`State::ReplayLocks`](super::State) only.
    /// Spec: ptlrpc-ldlm-mgs §21.6.
    #[must_use]
    pub fn replaying_lock(self) -> Self {
        Self { is_lock_replay: true, ..self }
    }

    /// Returns whether a slot beyond the others may be taken for it.
    pub(super) fn is_close(&self) -> bool {
        self.message.body.opcode == Opcode::MDS_CLOSE
    }

    /// Sends the request once: without a reply in time it fails with ETIMEDOUT.
    #[must_use]
    pub fn once(self) -> Self {
        Self { resend: false, ..self }
    }
}

/// A message to send, and where its reply is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// Names it.
    pub id: TransmissionId,
    /// The node of the target.
    pub to: ProcessId,
    /// The portal of the request.
    pub portal: u32,
    /// The number of the request, its match bits.
    pub xid: Xid,
    /// The portal of the reply.
    pub reply_portal: u32,
    /// The match bits of the reply.
    pub reply_bits: u64,
    /// The memory for early replies and the reply.
    pub room: ReplyRoom,
    /// The request.
    pub bytes: Vec<u8>,
    /// The bulk data of the request, if any.
    pub bulk: Option<PostedBulk>,
}

/// The memory for what answers a request, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyRoom {
    /// For early replies and the reply.
    pub len: usize,
    /// Of these, for early replies, which come first.
    pub early: usize,
}

/// A reply as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// The offset in the room for the reply.
    pub offset: u64,
    /// The length of what was sent: more than arrived, if the room was too small.
    pub sent_len: usize,
    /// What arrived.
    pub bytes: &'a [u8],
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A request of the owner.
    Owner,
    /// A test of an idle connection.
    Ping,
    /// A transaction that the target has lost.
    Replay(Key),
    /// A lock that the target has lost.
    LockReplay,
    /// The end of the recovery of the target: there is nothing more to replay.
    EndOfReplay,
}

/// A request until its end.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) request: Request,
    pub(super) purpose: Purpose,
    /// Assigned when it is first sent.
    pub(super) xid: Option<Xid>,
    /// The transmission that a reply is expected to.
    pub(super) sent: Option<SendState>,
    /// Whether the number was sent before, without a reply.
    pub(super) resent: bool,
    /// How often the server has not finished it and wanted it again.
    pub(super) postponed: u32,
    /// Whether its room was enlarged for a longer reply.
    pub(super) enlarged: bool,
    /// Its bulk data, if it has any.
    pub(super) transfer: Transfer,
    /// The reply, while it waits for the bulk data.
    pub(super) reply: Option<Box<Message<'static>>>,
    /// Held from the first transmission to the end.
    pub(super) slot: Option<Slot>,
}

/// The last transmission of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendState {
    pub(super) id: TransmissionId,
    pub(super) at: Time,
    /// Whether replies have an offset, and early ones may come.
    pub(super) has_early: bool,
}

impl Call {
    pub(super) fn new(request: Request, purpose: Purpose) -> Self {
        Self {
            request,
            purpose,
            xid: None,
            sent: None,
            resent: false,
            postponed: 0,
            enlarged: false,
            transfer: Transfer::Idle,
            reply: None,
            slot: None,
        }
    }

    /// Returns what the request waits for.
    pub(super) fn lane(&self) -> Lane {
        match self.request.modifies && self.slot.is_none() {
            false => Lane::Ordinary,
            true if self.request.is_close() => Lane::Close,
            true => Lane::Modifying,
        }
    }

    /// Returns when the request is sent again that the server has not finished: after 1 s, then
    /// 2 s, and so on up to `timeout` seconds. Spec: ptlrpc-ldlm-mgs §6.2.
    pub(super) fn postpone(&mut self, timeout: u32) -> Duration {
        self.postponed = self.postponed.saturating_add(1).min(timeout.max(1));
        Duration::from_secs(self.postponed.into())
    }
}

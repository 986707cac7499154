//! Requests of an import, and their replies.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::Opcode;
use fulmar_lustre_wire::message::{Container, Message};

use crate::Xid;

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
}

impl Request {
    /// Returns a request whose reply has at most `reply_len` bytes. It is sent again until there is
    /// a reply.
    ///
    /// # Panics
    /// If the operation may be a transaction: an import does not replay requests yet, so the change
    /// would be lost when the server restarts.
    pub fn new(message: Message<'static>, reply_len: usize) -> Self {
        let opcode = message.body.opcode;
        assert!(changes_nothing(opcode), "{opcode:?} may be a transaction");
        assert!(
            reply_len <= Container::LEN_MAX,
            "a reply has at most {} bytes",
            Container::LEN_MAX
        );
        Self { message, portal: None, reply_len, resend: true }
    }

    /// Sends the request to `portal`, not to that of most requests.
    #[must_use]
    pub fn at(self, portal: u32) -> Self {
        Self { portal: Some(portal), ..self }
    }

    /// Sends the request once: without a reply in time it fails with ETIMEDOUT.
    #[must_use]
    pub fn once(self) -> Self {
        Self { resend: false, ..self }
    }
}

/// Returns whether an operation never is a transaction.
fn changes_nothing(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::OBD_PING
            | Opcode::OST_STATFS
            | Opcode::OST_GETATTR
            | Opcode::OST_GET_INFO
            | Opcode::OST_SEEK
            | Opcode::MDS_STATFS
            | Opcode::MDS_GET_ROOT
            | Opcode::MDS_GETATTR
            | Opcode::MDS_GETATTR_NAME
            | Opcode::MDS_GETXATTR
            | Opcode::MDS_GET_INFO
            | Opcode::LLOG_CREATE
            | Opcode::LLOG_READ_HEADER
            | Opcode::LLOG_NEXT_BLOCK
            | Opcode::LLOG_PREV_BLOCK
            | Opcode::FLD_QUERY
            | Opcode::FLD_READ
    )
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
    /// The bytes for early replies and the reply.
    pub reply_room: usize,
    /// The request.
    pub bytes: Vec<u8>,
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
    pub(super) sent: Option<Sent>,
    /// Whether the number was sent before, without a reply.
    pub(super) resent: bool,
    /// How often the server has not finished it and wanted it again.
    pub(super) postponed: u32,
    /// Whether its room was enlarged for a longer reply.
    pub(super) enlarged: bool,
}

/// The last transmission of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) id: TransmissionId,
    pub(super) at: Time,
    /// Whether replies have an offset, and early ones may come.
    pub(super) has_early: bool,
}

impl Call {
    pub(super) fn new(request: Request, purpose: Purpose) -> Self {
        let (xid, sent) = (None, None);
        Self { request, purpose, xid, sent, resent: false, postponed: 0, enlarged: false }
    }

    /// Returns when the request is sent again that the server has not finished: after 1 s, then
    /// 2 s, and so on up to `timeout` seconds. Spec: ptlrpc-ldlm-mgs §6.2.
    pub(super) fn postpone(&mut self, timeout: u32) -> Duration {
        self.postponed = self.postponed.saturating_add(1).min(timeout.max(1));
        Duration::from_secs(self.postponed.into())
    }
}

//! Transmissions of calls. Spec: ptlrpc-ldlm-mgs §3.3, §6.1, §22.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnet::{MdId, Op};
use fulmar_lustre_wire::connect::{ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::message::MessageFlags;
use fulmar_lustre_wire::portal;

use super::{CallId, Output, PAUSE, Reverse, SendState, Timer, USER};
use crate::client::posts;
use crate::import::{Transmission, TransmissionId, expect_reply};

/// A descriptor of a transmission, until LNet has unlinked it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    pub(super) call: CallId,
    /// Whether it is the memory for the reply, or else the request.
    pub(super) is_reply: bool,
    /// Known after the post.
    pub(super) md: Option<MdId>,
    /// Whether it is not needed any more.
    pub(super) is_withdrawn: bool,
}

impl Reverse {
    /// Sends a call, perhaps again.
    pub(super) fn transmit(&mut self, now: Time, id: CallId) {
        let Some(active) = self.calls.get_mut(id.0) else { return };
        let Some(client) = self.clients.get(&active.export) else { return };
        let (xid, has_early) = (active.xid, client.flags.has(ConnectFlags::AT));
        let timeout = client.timeouts.service(portal::LDLM_CALLBACK_REQUEST);
        let mut message = active.call.message.clone();
        message.head.flavor = client.flavor;
        let room = expect_reply(&mut message.head, active.call.reply_len, has_early);
        message.body.handle = client.connection;
        message.body.timeout = timeout;
        message.body.last_xid = client.calls.keys().next().map_or(0, |first| first.0 - 1);
        if active.is_resent {
            message.body.flags = message.body.flags | MessageFlags::RESENT;
        }
        let mut reply_bits = xid.0;
        if client.flags2.has(ConnectFlags2::REP_MBITS) {
            if active.is_resent && client.flags.has(ConnectFlags::BULK_MBITS) {
                reply_bits = self.xids.allocate().0;
            }
            message.body.match_bits = reply_bits;
        }
        let transmission = Transmission {
            id: TransmissionId(0),
            to: client.to,
            portal: portal::LDLM_CALLBACK_REQUEST,
            xid,
            reply_portal: portal::LDLM_CALLBACK_REPLY,
            reply_bits,
            room,
            bytes: message.to_bytes(),
            bulk: None,
        };
        let posted = |is_reply| Descriptor { call: id, is_reply, md: None, is_withdrawn: false };
        let (reply, request) =
            (self.posted.insert(posted(true)), self.posted.insert(posted(false)));
        active.sent = Some(SendState { reply, request, at: now, has_early });
        let seconds = timeout.saturating_add(client.timeouts.network());
        self.timers.set(Timer::Resend(id), now + Duration::from_secs(seconds.into()));
        let posts = posts(transmission, USER | reply, USER | request);
        self.outputs.extend(posts.map(Output::Post));
    }

    /// Sends a call again.
    pub(super) fn resend(&mut self, now: Time, id: CallId) {
        self.take_back(id);
        self.transmit(now, id);
    }

    /// Sends a call again later, since it could not be sent.
    pub(super) fn pause(&mut self, now: Time, id: CallId) {
        self.take_back(id);
        self.timers.set(Timer::Resend(id), now + PAUSE);
    }

    /// Expects no reply to the last transmission of a call.
    fn take_back(&mut self, id: CallId) {
        self.timers.clear(Timer::Resend(id));
        let Some(active) = self.calls.get_mut(id.0) else { return };
        active.is_resent = true;
        let sent = active.sent.take();
        self.withdraw(sent);
    }

    /// Unlinks the memory for the reply to a transmission. What becomes of its request does not matter
    /// any more: a failure that LNet reports late is none of a later transmission.
    pub(super) fn withdraw(&mut self, sent: Option<SendState>) {
        let Some(sent) = sent else { return };
        if let Some(request) = self.posted.get_mut(sent.request) {
            request.is_withdrawn = true;
        }
        let Some(reply) = self.posted.get_mut(sent.reply) else { return };
        reply.is_withdrawn = true;
        if let Some(md) = reply.md {
            self.outputs.push_back(Output::Post(Op::Unlink(md)));
        }
    }
}

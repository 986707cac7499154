//! Replies to calls. Spec: ptlrpc-ldlm-mgs §6.2, §7.4, §22.5.

use fulmar_base::{Errno, Time};
use fulmar_lnet::Event;
use fulmar_lustre_wire::message::{Kind, Message};
use fulmar_lustre_wire::portal;

use super::{CallId, Reverse, SendState, Timer};

impl Reverse {
    /// Handles what arrived in the room for the reply.
    pub(super) fn handle_reply(&mut self, now: Time, id: CallId, event: &Event, bytes: &[u8]) {
        let Some(active) = self.calls.get(id.0) else { return };
        let Some(sent) = active.sent else { return };
        let (opcode, format) = (active.call.message.body.opcode, active.call.message.format());
        let is_whole = event.rlength as usize <= bytes.len();
        if sent.has_early && event.offset == 0 {
            if is_whole {
                self.handle_early(id, sent, bytes);
            }
            return;
        }
        let reply = match Message::decode(bytes) {
            _ if !is_whole => return self.end(now, id, Err(Errno::EOVERFLOW)),
            Ok(reply) if reply.body.kind != Kind::REQUEST && reply.body.opcode == opcode => {
                reply.answering(format)
            }
            _ => return self.end(now, id, Err(Errno::EPROTO)),
        };
        if let Some(client) = self.clients.get_mut(&active.export) {
            let (portal, trip) = (portal::LDLM_CALLBACK_REQUEST, now.since(sent.at));
            let body = &reply.body;
            client.timeouts.measure(now, portal, body.timeout, trip, body.service_time);
        }
        let result = match (reply.body.status.errno(), reply.body.kind) {
            (Some(errno), Kind::ERROR) => Err(errno),
            _ => Ok(reply.into_owned()),
        };
        self.end(now, id, result);
    }

    /// Handles an early reply: the client needs longer.
    fn handle_early(&mut self, id: CallId, sent: SendState, bytes: &[u8]) {
        let Ok(early) = Message::decode(bytes) else { return };
        let Some(active) = self.calls.get(id.0) else { return };
        let Some(client) = self.clients.get(&active.export) else { return };
        if early.has_early_checksum() {
            let deadline = client.timeouts.extended(sent.at, early.body.timeout);
            self.timers.set(Timer::Resend(id), deadline);
        }
    }
}

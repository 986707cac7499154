//! The IDs that a node gives to its RPCs, and all other free choices of a node in selftest
//! messages.
//!
//! Units of a test run concurrently. The protocol does not define which of them a kernel node
//! starts first, so the machine may have swapped the IDs of their RPCs. In the end both have used
//! the same IDs.

use std::collections::BTreeMap;

use fulmar_lnet_wire::selftest::{
    BULK_PORTAL, Body, FRAMEWORK_PORTAL, LnetCounters, Message, REQUEST_PORTAL, SessionId,
};
use fulmar_lnet_wire::{Body as Lnet, Header};

/// Allowed difference of clocks in milliseconds.
const TOLERANCE: u32 = 20;

/// The IDs of RPCs of the recorded node, and those of the machine.
pub(crate) struct Names {
    /// Earlier LNet counters of the recorded node, which the machine does not have.
    earlier: LnetCounters,
    /// IDs of replies and of bulk.
    ids: BTreeMap<u64, u64>,
    /// The numbers of pings, by the IDs of their replies.
    sequences: BTreeMap<u64, [u32; 2]>,
    /// The stamp of the session, if the machine replaces the console.
    stamp: Option<[i64; 2]>,
}

impl Names {
    pub(crate) fn new(earlier: LnetCounters) -> Self {
        Self { earlier, ids: BTreeMap::new(), sequences: BTreeMap::new(), stamp: None }
    }

    /// Finds the message that matches the recorded one: an identical one, if any.
    pub(crate) fn choose<'a>(
        &self,
        mut sent: impl Iterator<Item = (usize, &'a [u8])> + Clone,
        header: &Header,
        recorded: &[u8],
    ) -> Option<usize> {
        let Some(recorded) = message(header, recorded) else {
            return sent.next().map(|(index, _)| index);
        };
        let find = |normal: fn(Message) -> Message| {
            let recorded = normal(recorded.clone());
            let mut sent = sent.clone();
            let found = sent.find(|(_, bytes)| normal(self.ours(header, bytes)) == recorded);
            found.map(|(index, _)| index)
        };
        find(without_time).or_else(|| find(without_names))
    }

    /// Decodes a message of the machine, converted to the recorded session and with the earlier
    /// counters of the recorded node.
    fn ours(&self, header: &Header, bytes: &[u8]) -> Message {
        let mut message = message(header, bytes).expect("the headers are alike");
        if let (Some([recorded, ours]), Some(session)) = (self.stamp, session(&mut message.body)) {
            assert!([ours, -1].contains(&session.stamp), "{session:?} differs");
            session.stamp = if session.stamp == ours { recorded } else { -1 };
        }
        if let Body::StatReply(reply) = &mut message.body {
            let (lnet, earlier) = (&mut reply.lnet, &self.earlier);
            lnet.send_count += earlier.send_count;
            lnet.recv_count += earlier.recv_count;
            lnet.send_length += earlier.send_length;
            lnet.recv_length += earlier.recv_length;
        }
        message
    }

    /// Records the IDs of a message and its recorded counterpart. Returns whether it is a selftest
    /// message.
    pub(crate) fn learn(&mut self, header: &Header, ours: &[u8], recorded: &[u8]) -> bool {
        let Some(recorded) = message(header, recorded) else { return false };
        let ours = self.ours(header, ours);
        match (&ours.body, &recorded.body) {
            (Body::Ping(ours), Body::Ping(recorded)) => {
                let sequences = [recorded.sequence, ours.sequence];
                self.sequences.insert(recorded.reply_id, sequences);
                assert!(ours.nanoseconds < 1_000_000_000, "{ours:?}");
            }
            (Body::MakeSession(ours), Body::MakeSession(recorded)) if self.stamp.is_none() => {
                self.stamp = Some([recorded.session.stamp, ours.session.stamp]);
            }
            (Body::StatReply(ours), Body::StatReply(recorded)) => {
                let [ours, recorded] = [ours, recorded].map(|reply| reply.framework.running_ms);
                assert!(ours.abs_diff(recorded) <= TOLERANCE, "{ours} ms, not {recorded} ms");
            }
            _ => {}
        }
        for (recorded, ours) in ids(&recorded.body).into_iter().zip(ids(&ours.body)) {
            if recorded != 0 {
                assert_eq!(self.ids.insert(recorded, ours), None, "{recorded:#x} is used twice");
            }
        }
        true
    }

    /// Converts a message to the recorded node into one for the machine.
    pub(crate) fn translate(&self, header: &mut Header, payload: &[u8]) -> Vec<u8> {
        let mut payload = payload.to_vec();
        let (Lnet::Put { portal: BULK_PORTAL, match_bits, .. }
        | Lnet::Get { portal: BULK_PORTAL, match_bits, .. }) = &mut header.body
        else {
            return payload;
        };
        if let Ok((mut message, order)) = Message::decode(&payload) {
            if let (Body::PingReply(reply), Some([_, ours])) =
                (&mut message.body, self.sequences.get(match_bits))
            {
                reply.sequence = *ours;
            }
            if let (Some([recorded, ours]), Some(session)) =
                (self.stamp, session(&mut message.body))
            {
                session.stamp = if session.stamp == recorded { ours } else { -1 };
            }
            payload.clear();
            message.encode(order, &mut payload);
        }
        *match_bits = *self.ids.get(match_bits).expect("an answer to a request");
        payload
    }

    /// Requires that the machine used the same IDs as the recorded node, in any order.
    pub(crate) fn finish(&self) {
        let mut ours: Vec<u64> = self.ids.values().copied().collect();
        ours.sort_unstable();
        assert!(ours.iter().eq(self.ids.keys()), "{:x?}", self.ids);
        let [mut recorded, mut ours] =
            [0, 1].map(|side| self.sequences.values().map(|pair| pair[side]).collect::<Vec<_>>());
        recorded.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, recorded, "the numbers of the pings");
    }
}

/// Returns the selftest message that an LNet message carries, if any.
fn message(header: &Header, payload: &[u8]) -> Option<Message> {
    let Lnet::Put { portal, .. } = header.body else { return None };
    let is_message = [FRAMEWORK_PORTAL, REQUEST_PORTAL, BULK_PORTAL].contains(&portal);
    Message::decode(payload).ok().filter(|_| is_message).map(|(message, _)| message)
}

/// Returns the IDs of a request, of its reply and of its bulk.
fn ids(body: &Body) -> Vec<u64> {
    match body {
        Body::MakeSession(request) => vec![request.reply_id],
        Body::RemoveSession(request) => vec![request.reply_id],
        Body::Batch(request) => vec![request.reply_id],
        Body::Stat(request) => vec![request.reply_id],
        Body::Test(request) => vec![request.reply_id, request.bulk_id],
        Body::Brw(request) => vec![request.reply_id, request.bulk_id],
        Body::Ping(request) => vec![request.reply_id],
        _ => vec![],
    }
}

/// Returns the session of a message.
fn session(body: &mut Body) -> Option<&mut SessionId> {
    Some(match body {
        Body::MakeSession(request) => &mut request.session,
        Body::MakeSessionReply(reply) => &mut reply.session,
        Body::RemoveSession(request) => &mut request.session,
        Body::RemoveSessionReply(reply) => &mut reply.session,
        Body::Batch(request) => &mut request.session,
        Body::BatchReply(reply) => &mut reply.session,
        Body::Stat(request) => &mut request.session,
        Body::StatReply(reply) => &mut reply.session,
        Body::Test(request) => &mut request.session,
        Body::TestReply(reply) => &mut reply.session,
        _ => return None,
    })
}

/// Removes the parts of a message that depend on the clock or on the load of a node.
fn without_time(mut message: Message) -> Message {
    match &mut message.body {
        // The following fields must have the same session.
        Body::MakeSession(request) => request.session.stamp = 0,
        Body::Ping(ping) => (ping.seconds, ping.nanoseconds) = (0, 0),
        Body::StatReply(reply) => {
            reply.framework.running_ms = 0;
            (reply.lnet.msgs_alloc, reply.lnet.msgs_max) = (0, 0);
        }
        _ => {}
    }
    message
}

/// Removes the IDs of a load message, too.
fn without_names(message: Message) -> Message {
    let mut message = without_time(message);
    match &mut message.body {
        Body::Ping(ping) => (ping.reply_id, ping.sequence) = (0, 0),
        Body::Brw(brw) => (brw.reply_id, brw.bulk_id) = (0, 0),
        _ => {}
    }
    message
}

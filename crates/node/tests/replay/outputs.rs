//! Handling of the outputs of the machine during a replay.

use fulmar_base::{ConnId, Errno, Payload};
use fulmar_lnd::{DialError, Stream};
use fulmar_lnet_wire::Header;
use fulmar_lnet_wire::socklnd::{FrameHeader, FrameKind, Hello};
use fulmar_node::Output;
use fulmar_wire::Order;

use crate::player::{Player, Sent, form};

impl Player<'_> {
    pub(crate) fn drain(&mut self) {
        loop {
            while let Some(output) = self.node.poll_output() {
                self.handle_output(output);
            }
            let Some(upper) = &mut self.upper else { return };
            upper.serve(self.now, &mut self.node);
            match self.node.poll_output() {
                Some(output) => self.handle_output(output),
                None => return,
            }
        }
    }

    fn handle_output(&mut self, output: Output) {
        match output {
            Output::Stream(Stream::Dial { conn, local, remote }) => {
                if self.recording.conns.iter().any(|recorded| recorded.passive == remote) {
                    self.dialled.push_back((conn, local, remote));
                } else {
                    let absent = Err(DialError(Errno::EHOSTUNREACH));
                    self.node.handle_dialled(self.now, conn, absent);
                }
            }
            Output::Stream(Stream::Write { conn, head, payload, checksum }) => {
                assert!(!checksum, "checksums are for version 2");
                self.written(conn, &head, payload);
            }
            Output::Stream(Stream::Close { conn, .. }) => {
                if !self.is_refused(conn) {
                    self.failures.push(format!("{conn:?} was closed"));
                }
            }
            Output::Event { service, event, bytes } => {
                let upper = self.upper.as_mut();
                if upper.is_some_and(|u| u.handle_event(self.now, service, &event, bytes)) {
                    return;
                }
                if event.status.is_err() {
                    self.failures.push(format!("{event:?}"));
                }
                if let Some(done) = event.done {
                    self.node.handle_event_done(self.now, done);
                }
            }
            Output::Pinged { result, .. } | Output::Discovered { result, .. } => {
                if let Err(errno) = result {
                    self.failures.push(format!("a ping or a discovery: {errno}"));
                }
            }
            Output::Resume { .. } | Output::Crossing(_) => {}
            Output::Allocate { buffer, len } => self.buffers.allocate(buffer, len),
            Output::Release { buffer } => self.buffers.release(buffer),
            Output::Notice(notice) => println!("{} {notice}", self.now),
            Output::Copy { copy, from, .. } => {
                assert_eq!(from, Payload::Empty, "no bulk is sent to the node itself");
                self.node.handle_copied(self.now, copy);
            }
        }
    }

    /// Returns whether the recorded node refused the connection as well.
    fn is_refused(&self, conn: ConnId) -> bool {
        let end = self.ends.iter().position(|end| end.conn == Some(conn));
        end.is_some_and(|end| self.recording.lost.contains(&end))
    }

    fn written(&mut self, conn: ConnId, head: &[u8], payload: Payload) {
        let end = self
            .ends
            .iter()
            .position(|end| end.conn == Some(conn))
            .expect("the connection is open");
        let len = head.len() as u64 + u64::from(payload.len());
        self.node.handle_sent(self.now, conn, len);
        let frame = match head.get(..FrameHeader::LEN) {
            Some(bytes) if !is_handshake(head) => {
                FrameHeader::decode(bytes, Order::Little).expect("the machine writes frames")
            }
            _ => return self.ends[end].written.extend_from_slice(head),
        };
        if frame.kind == FrameKind::NOOP {
            let [zero, cookie] = frame.cookies;
            assert_eq!(zero, 0, "one cookie is acknowledged at a time");
            if cookie != FrameHeader::KEEPALIVE {
                *self.ends[end].acknowledged.entry(cookie).or_default() += 1;
            }
            return;
        }
        assert_eq!(frame, FrameHeader::lnet(), "no acknowledgement is requested");
        let header = Header::decode(&head[FrameHeader::LEN..], form(head))
            .expect("the machine writes headers");
        let bytes = match (&mut self.upper, payload) {
            (_, Payload::Span(span)) if self.buffers.has(span) => Some(self.buffers.bytes(span)),
            (Some(upper), payload) => Some(upper.bytes_of(&payload)),
            (None, Payload::Inline(bytes)) => Some(bytes.to_vec()),
            (None, _) => None,
        };
        self.sent.push(Sent { conn: end, header, bytes });
    }
}

/// Splits off a request to the acceptor, with or without the hello after it, or a hello.
fn is_handshake(head: &[u8]) -> bool {
    let magic = head.first_chunk().map(|magic| u32::from_le_bytes(*magic));
    matches!(magic, Some(Hello::MAGIC | fulmar_lnet_wire::acceptor::ConnRequest::MAGIC))
}

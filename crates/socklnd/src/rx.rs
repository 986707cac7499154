//! Reading from one open connection: frames, LNet headers, and the destination of their payload.
//!
//! ```text
//! Header -- LNet header --> Judging <-- wait --> Waiting
//!    ^                         |                    |
//!    |                         +----- receive ------+
//!    |                                  v
//!    +--------- all bytes in --------- Body
//! ```

use fulmar_base::{Sink, Time};
use fulmar_lnd::{Need, RxId};
use fulmar_lnet_wire::Header;
use fulmar_lnet_wire::socklnd::{FrameHeader, FrameKind, Version};
use fulmar_wire::{DecodeError, Order};

use crate::checksum;

/// The receiving half of a connection.
#[derive(Debug)]
pub(crate) struct Rx {
    version: Version,
    order: Order,
    state: State,
    /// The start of a truncated header; empty and without memory between headers.
    partial: Vec<u8>,
    /// When the peer was last heard, or reading was last resumed.
    last: Time,
    /// When a message last started or ended.
    used: Time,
}

#[derive(Debug)]
enum State {
    Header,
    Judging(Message),
    Waiting(Message, RxId),
    Body(Message, RxId, Body),
}

/// State of a message until it is complete.
#[derive(Clone, Copy, Debug)]
struct Message {
    payload_len: u32,
    /// Cookie to be acknowledged, unless 0.
    cookie: u64,
    check: Option<Check>,
}

/// A checksum that the payload must match.
#[derive(Clone, Copy, Debug)]
struct Check {
    expected: u32,
    state: u32,
}

#[derive(Debug)]
struct Body {
    /// The destination of the next bytes, without those already received.
    sink: Sink,
    /// How many bytes are discarded after that.
    rest: u32,
    /// The bytes of an inline sink.
    inline: Vec<u8>,
}

/// The item that received bytes complete.
#[derive(Debug)]
pub(crate) enum Event {
    /// More bytes are needed.
    More,
    /// A keepalive.
    Keepalive,
    /// Acknowledgements; see [`FrameHeader::cookies`].
    Acknowledged([u64; 2]),
    /// A message starts, with an acknowledgement unless 0; [`Rx::receive`] or a similar call must
    /// follow.
    Header(Header, u64),
    /// The message is complete.
    Complete(Complete),
}

/// A completely received message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complete {
    pub(crate) rx: RxId,
    pub(crate) payload_len: u32,
    /// Cookie to be acknowledged, unless 0.
    pub(crate) cookie: u64,
    /// The contents of an inline sink.
    pub(crate) inline: Vec<u8>,
}

/// A protocol violation of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Malformed(DecodeError),
    /// An acknowledgement that was never requested.
    Cookie(u64),
    Checksum {
        expected: u32,
        got: u32,
    },
}

impl Rx {
    /// Creates a reader for messages of `version`, with frames in `order`.
    pub(crate) fn new(version: Version, order: Order, now: Time) -> Self {
        Self { version, order, state: State::Header, partial: Vec::new(), last: now, used: now }
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Returns when the peer was last heard.
    pub(crate) fn last(&self) -> Time {
        self.last
    }

    /// Returns when a message last started or ended; at first, when the connection was opened.
    pub(crate) fn used(&self) -> Time {
        self.used
    }

    /// Returns since when the rest of a message is missing.
    pub(crate) fn stalled_since(&self) -> Option<Time> {
        let pending = match self.state {
            State::Header => !self.partial.is_empty(),
            State::Judging(_) | State::Waiting(..) => false,
            State::Body(..) => true,
        };
        pending.then_some(self.last)
    }

    /// Returns whether nothing of the next message has arrived.
    pub(crate) fn is_between_messages(&self) -> bool {
        matches!(self.state, State::Header) && self.partial.is_empty()
    }

    /// Returns the ID of the message that is not complete.
    pub(crate) fn in_message(&self) -> Option<RxId> {
        match self.state {
            State::Header | State::Judging(_) => None,
            State::Waiting(_, rx) | State::Body(_, rx, _) => Some(rx),
        }
    }

    pub(crate) fn need(&self) -> Need {
        match &self.state {
            State::Header => Need::Bytes(self.header_len() - self.partial.len()),
            State::Judging(_) => Need::Verdict,
            State::Waiting(..) => Need::Wait,
            State::Body(message, _, body) => match body.sink {
                Sink::Inline { len } => Need::Bytes(len as usize),
                sink => Need::Payload { sink, crc: message.check.map(|check| check.state) },
            },
        }
    }

    /// Consumes bytes of a header or an inline payload, and returns how many.
    pub(crate) fn take(&mut self, now: Time, bytes: &[u8]) -> (usize, Result<Event, Fault>) {
        match &mut self.state {
            State::Header => {
                self.last = now;
                self.take_header(bytes)
            }
            State::Body(message, _, body) => {
                let Sink::Inline { len } = body.sink else { return (0, Ok(Event::More)) };
                self.last = now;
                let taken = bytes.len().min(len as usize);
                let bytes = &bytes[..taken];
                body.inline.extend_from_slice(bytes);
                body.sink = Sink::Inline { len: len - taken as u32 };
                if let Some(check) = &mut message.check {
                    check.state = checksum::update(check.state, bytes);
                }
                (taken, self.finish_part())
            }
            State::Judging(_) | State::Waiting(..) => (0, Ok(Event::More)),
        }
    }

    /// Records that `len` bytes of payload were stored as [`Rx::need`] requested.
    ///
    /// # Panics
    /// If no payload was needed, or less.
    pub(crate) fn take_payload(
        &mut self,
        now: Time,
        len: u32,
        crc: Option<u32>,
    ) -> Result<Event, Fault> {
        self.last = now;
        let State::Body(message, _, body) = &mut self.state else {
            panic!("{len} bytes of payload arrived, but none were needed");
        };
        body.sink = match body.sink {
            Sink::Discard { len: left } if len <= left => Sink::Discard { len: left - len },
            Sink::Span(span) => Sink::Span(span.advance(len)),
            sink => panic!("{len} bytes of payload cannot go to {sink:?}"),
        };
        if let Some(check) = &mut message.check {
            check.state = crc.expect("the checksum state must be returned");
        }
        self.finish_part()
    }

    /// Stores the payload of the announced message into `sink`.
    ///
    /// # Panics
    /// If there is none, or if the sink is larger than its payload.
    pub(crate) fn receive(&mut self, now: Time, rx: RxId, sink: Sink) -> Result<Event, Fault> {
        let mut message = self.judged();
        // The time until the verdict does not count against the peer.
        self.last = now;
        let len = sink.len();
        assert!(len <= message.payload_len, "a sink of {len} for {} bytes", message.payload_len);
        if len < message.payload_len || matches!(sink, Sink::Discard { .. }) {
            // A truncated payload is not checked either.
            message.check = None;
        }
        let inline = match sink {
            Sink::Inline { len } => Vec::with_capacity(len as usize),
            Sink::Discard { .. } | Sink::Span(_) => Vec::new(),
        };
        let body = Body { sink, rest: message.payload_len - len, inline };
        self.state = State::Body(message, rx, body);
        self.finish_part()
    }

    /// Suspends reading until the next verdict.
    ///
    /// # Panics
    /// If no message waits for a verdict.
    pub(crate) fn wait(&mut self, rx: RxId) {
        self.state = State::Waiting(self.judged(), rx);
    }

    /// Discards the current message, as its owner has.
    ///
    /// # Panics
    /// If no message waits for a verdict.
    pub(crate) fn abandon(&mut self) {
        self.judged();
        self.state = State::Header;
    }

    fn judged(&self) -> Message {
        match self.state {
            State::Judging(message) | State::Waiting(message, _) => message,
            State::Header | State::Body(..) => panic!("no message waits for a verdict"),
        }
    }

    /// Returns the length of the start of a message.
    fn header_len(&self) -> usize {
        let frame = if self.version == Version::V1 { 0 } else { FrameHeader::LEN };
        frame + self.version.header_form().len()
    }

    fn take_header(&mut self, bytes: &[u8]) -> (usize, Result<Event, Fault>) {
        // Usually the header is complete, and nothing needs to be copied.
        let whole = self.partial.is_empty() && bytes.len() >= self.header_len();
        let (used, parsed) =
            if whole { self.parse_whole(bytes) } else { self.parse_partial(bytes) };
        let event = match parsed {
            Ok(ParseResult::Short(_)) => return (used, Ok(Event::More)),
            Ok(ParseResult::Noop(event)) => Ok(event),
            Ok(ParseResult::Header(header, message, acknowledged)) => {
                self.state = State::Judging(message);
                self.used = self.last;
                Ok(Event::Header(header, acknowledged))
            }
            Err(fault) => Err(fault),
        };
        self.partial = Vec::new();
        (used, event)
    }

    fn parse_whole(&self, bytes: &[u8]) -> (usize, Result<ParseResult, Fault>) {
        let parsed = self.parse(bytes);
        let noop = matches!(parsed, Ok(ParseResult::Noop(_)));
        (if noop { FrameHeader::LEN } else { self.header_len() }, parsed)
    }

    /// Collects only the current header, so that the payload goes directly to its destination.
    fn parse_partial(&mut self, bytes: &[u8]) -> (usize, Result<ParseResult, Fault>) {
        let mut used = 0;
        loop {
            let parsed = self.parse(&self.partial);
            let rest = &bytes[used..];
            match parsed {
                Ok(ParseResult::Short(missing)) if !rest.is_empty() => {
                    let taken = rest.len().min(missing);
                    self.partial.extend_from_slice(&rest[..taken]);
                    used += taken;
                }
                parsed => return (used, parsed),
            }
        }
    }

    /// Decodes the start of `bytes`.
    fn parse(&self, bytes: &[u8]) -> Result<ParseResult, Fault> {
        let mut frame = FrameHeader::lnet();
        let mut lnet = bytes;
        if self.version != Version::V1 {
            let Some((head, rest)) = bytes.split_at_checked(FrameHeader::LEN) else {
                return Ok(ParseResult::Short(FrameHeader::LEN - bytes.len()));
            };
            frame = FrameHeader::decode(head, self.order).map_err(Fault::Malformed)?;
            lnet = rest;
            match frame.kind {
                FrameKind::LNET => {}
                FrameKind::NOOP => return self.judge_noop(head, frame).map(ParseResult::Noop),
                FrameKind(got) => return Err(out_of_range("frame.kind", got.into())),
            }
        }
        let form = self.version.header_form();
        let Some(lnet) = lnet.get(..form.len()) else {
            return Ok(ParseResult::Short(form.len() - lnet.len()));
        };
        let header = Header::decode(lnet, form).map_err(Fault::Malformed)?;
        let check = self.check(&bytes[..self.header_len()], frame.checksum);
        let payload_len = header.payload_len;
        if payload_len == 0 {
            confirm(check)?;
        }
        let [cookie, acknowledged] = frame.cookies;
        Ok(ParseResult::Header(header, Message { payload_len, cookie, check }, acknowledged))
    }

    /// Spec: lnet-wire §6.3, §6.4.
    fn judge_noop(&self, head: &[u8], frame: FrameHeader) -> Result<Event, Fault> {
        confirm(self.check(head, frame.checksum))?;
        match frame.cookies {
            [_, 0] => Err(out_of_range("frame.cookie1", 0)),
            [0, FrameHeader::KEEPALIVE] if self.version >= Version::V3 => Ok(Event::Keepalive),
            cookies => Ok(Event::Acknowledged(cookies)),
        }
    }

    /// Starts to check a message with this `head`, if its sender requests that.
    fn check(&self, head: &[u8], expected: u32) -> Option<Check> {
        let state = match self.version {
            Version::V1 | Version::V2 => checksum::of_received_head,
            Version::V3 | Version::V4 => |_: &[u8]| checksum::INITIAL,
        };
        (expected != 0).then(|| Check { expected, state: state(head) })
    }

    /// Continues after a full sink: with the rest of the payload, or with the next header.
    fn finish_part(&mut self) -> Result<Event, Fault> {
        let State::Body(message, rx, body) = &mut self.state else { return Ok(Event::More) };
        if !body.sink.is_empty() {
            return Ok(Event::More);
        }
        if body.rest > 0 {
            body.sink = Sink::Discard { len: std::mem::take(&mut body.rest) };
            return Ok(Event::More);
        }
        confirm(message.check)?;
        let inline = std::mem::take(&mut body.inline);
        let (rx, Message { payload_len, cookie, .. }) = (*rx, *message);
        self.state = State::Header;
        self.used = self.last;
        Ok(Event::Complete(Complete { rx, payload_len, cookie, inline }))
    }
}

enum ParseResult {
    /// The number of missing bytes until decoding can continue.
    Short(usize),
    Noop(Event),
    /// With the acknowledged cookie, unless 0.
    Header(Header, Message, u64),
}

fn confirm(check: Option<Check>) -> Result<(), Fault> {
    match check {
        Some(Check { expected, state: got }) if got != expected => {
            Err(Fault::Checksum { expected, got })
        }
        _ => Ok(()),
    }
}

fn out_of_range(field: &'static str, got: u64) -> Fault {
    Fault::Malformed(DecodeError::Range { field, got })
}

//! Reading one open connection: frames, LNet headers, and where their payload goes.
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
    /// The start of a header that was cut; empty, and without memory, between headers.
    partial: Vec<u8>,
    /// When the peer was last heard, or reading was last resumed.
    last: Time,
}

#[derive(Debug)]
enum State {
    Header,
    Judging(Message),
    Waiting(Message, RxId),
    Body(Message, RxId, Body),
}

/// What must be remembered of a message until it is complete.
#[derive(Clone, Copy, Debug)]
struct Message {
    payload_len: u32,
    /// To be acknowledged, unless 0.
    cookie: u64,
    check: Option<Check>,
}

/// A checksum that the payload must confirm.
#[derive(Clone, Copy, Debug)]
struct Check {
    expected: u32,
    state: u32,
}

#[derive(Debug)]
struct Body {
    /// Where the next bytes go, less those that are there.
    sink: Sink,
    /// How many bytes are forgotten after that.
    rest: u32,
    /// The bytes of an inline sink.
    inline: Vec<u8>,
}

/// What the bytes amount to.
#[derive(Debug)]
pub(crate) enum Event {
    /// Bytes are missing.
    More,
    /// The peer says that it is there.
    Keepalive,
    /// The peer acknowledges messages; see [`FrameHeader::cookies`].
    Acknowledged([u64; 2]),
    /// A message begins, which may acknowledge one of ours (unless 0); [`Rx::receive`] or its like
    /// is awaited.
    Header(Header, u64),
    /// The message is complete.
    Complete(Complete),
}

/// A message that has been read to its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complete {
    pub(crate) rx: RxId,
    pub(crate) payload_len: u32,
    /// To be acknowledged, unless 0.
    pub(crate) cookie: u64,
    /// What an inline sink asked for.
    pub(crate) inline: Vec<u8>,
}

/// How the peer broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Malformed(DecodeError),
    /// It acknowledges what never asked for it.
    Cookie(u64),
    Checksum {
        expected: u32,
        got: u32,
    },
}

impl Rx {
    /// Reads messages of `version`, whose frames are in `order`.
    pub(crate) fn new(version: Version, order: Order, now: Time) -> Self {
        Self { version, order, state: State::Header, partial: Vec::new(), last: now }
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Returns when the peer was last heard.
    pub(crate) fn last(&self) -> Time {
        self.last
    }

    /// Returns since when the peer owes the rest of a message.
    pub(crate) fn stalled_since(&self) -> Option<Time> {
        let owed = match self.state {
            State::Header => !self.partial.is_empty(),
            State::Judging(_) | State::Waiting(..) => false,
            State::Body(..) => true,
        };
        owed.then_some(self.last)
    }

    /// Returns the message that LNet has named and that is not complete.
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

    /// Takes bytes of a header or an inline payload, and returns how many.
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

    /// Notes that `len` bytes of payload went where [`Rx::need`] said.
    ///
    /// # Panics
    /// If no payload was asked for, or less.
    pub(crate) fn take_payload(
        &mut self,
        now: Time,
        len: u32,
        crc: Option<u32>,
    ) -> Result<Event, Fault> {
        self.last = now;
        let State::Body(message, _, body) = &mut self.state else {
            panic!("{len} bytes of payload arrived, and none were asked for");
        };
        body.sink = match body.sink {
            Sink::Discard { len: left } if len <= left => Sink::Discard { len: left - len },
            Sink::Span(span) => Sink::Span(span.advance(len)),
            sink => panic!("{len} bytes of payload cannot go to {sink:?}"),
        };
        if let Some(check) = &mut message.check {
            check.state = crc.expect("the checksum state was handed out and must come back");
        }
        self.finish_part()
    }

    /// Puts the message whose header was passed on into `sink`.
    ///
    /// # Panics
    /// If there is none, or if the sink is larger than its payload.
    pub(crate) fn receive(&mut self, now: Time, rx: RxId, sink: Sink) -> Result<Event, Fault> {
        let mut message = self.judged();
        // The peer is not to blame for the time that the judge took.
        self.last = now;
        let len = sink.len();
        assert!(len <= message.payload_len, "a sink of {len} for {} bytes", message.payload_len);
        if len < message.payload_len || matches!(sink, Sink::Discard { .. }) {
            // What is not wanted whole is not checked either.
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

    /// Leaves the payload where it is until the next verdict.
    ///
    /// # Panics
    /// If there is no message to be judged.
    pub(crate) fn wait(&mut self, rx: RxId) {
        self.state = State::Waiting(self.judged(), rx);
    }

    /// Forgets the message at hand, as its owner has.
    ///
    /// # Panics
    /// If there is no message to be judged.
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

    /// Returns how many bytes a message begins with.
    fn header_len(&self) -> usize {
        let frame = if self.version == Version::V1 { 0 } else { FrameHeader::LEN };
        frame + self.version.header_form().len()
    }

    fn take_header(&mut self, bytes: &[u8]) -> (usize, Result<Event, Fault>) {
        // Usually the header is there whole, and nothing needs to be copied.
        let whole = self.partial.is_empty() && bytes.len() >= self.header_len();
        let (used, parsed) =
            if whole { self.parse_whole(bytes) } else { self.parse_partial(bytes) };
        let event = match parsed {
            Ok(Parsed::Short(_)) => return (used, Ok(Event::More)),
            Ok(Parsed::Noop(event)) => Ok(event),
            Ok(Parsed::Header(header, message, acknowledged)) => {
                self.state = State::Judging(message);
                Ok(Event::Header(header, acknowledged))
            }
            Err(fault) => Err(fault),
        };
        self.partial = Vec::new();
        (used, event)
    }

    fn parse_whole(&self, bytes: &[u8]) -> (usize, Result<Parsed, Fault>) {
        let parsed = self.parse(bytes);
        let noop = matches!(parsed, Ok(Parsed::Noop(_)));
        (if noop { FrameHeader::LEN } else { self.header_len() }, parsed)
    }

    /// Gathers no more than the header at hand, so that the payload goes where it belongs.
    fn parse_partial(&mut self, bytes: &[u8]) -> (usize, Result<Parsed, Fault>) {
        let mut used = 0;
        loop {
            let parsed = self.parse(&self.partial);
            let rest = &bytes[used..];
            match parsed {
                Ok(Parsed::Short(missing)) if !rest.is_empty() => {
                    let taken = rest.len().min(missing);
                    self.partial.extend_from_slice(&rest[..taken]);
                    used += taken;
                }
                parsed => return (used, parsed),
            }
        }
    }

    /// Reads what `bytes` begin with.
    fn parse(&self, bytes: &[u8]) -> Result<Parsed, Fault> {
        let mut frame = FrameHeader::lnet();
        let mut lnet = bytes;
        if self.version != Version::V1 {
            let Some((head, rest)) = bytes.split_at_checked(FrameHeader::LEN) else {
                return Ok(Parsed::Short(FrameHeader::LEN - bytes.len()));
            };
            frame = FrameHeader::decode(head, self.order).map_err(Fault::Malformed)?;
            lnet = rest;
            match frame.kind {
                FrameKind::LNET => {}
                FrameKind::NOOP => return self.judge_noop(head, frame).map(Parsed::Noop),
                FrameKind(got) => return Err(out_of_range("frame.kind", got.into())),
            }
        }
        let form = self.version.header_form();
        let Some(lnet) = lnet.get(..form.len()) else {
            return Ok(Parsed::Short(form.len() - lnet.len()));
        };
        let header = Header::decode(lnet, form).map_err(Fault::Malformed)?;
        let check = self.check(&bytes[..self.header_len()], frame.checksum);
        let payload_len = header.payload_len;
        if payload_len == 0 {
            confirm(check)?;
        }
        let [cookie, acknowledged] = frame.cookies;
        Ok(Parsed::Header(header, Message { payload_len, cookie, check }, acknowledged))
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

    /// Begins to check a message whose head is `head`, if its sender wants that.
    fn check(&self, head: &[u8], expected: u32) -> Option<Check> {
        let state = match self.version {
            Version::V1 | Version::V2 => checksum::of_received_head,
            Version::V3 | Version::V4 => |_: &[u8]| checksum::INITIAL,
        };
        (expected != 0).then(|| Check { expected, state: state(head) })
    }

    /// Goes on when a sink is full: to the rest of the payload, or to the next header.
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
        Ok(Event::Complete(Complete { rx, payload_len, cookie, inline }))
    }
}

enum Parsed {
    /// So many bytes are missing until more can be said.
    Short(usize),
    Noop(Event),
    /// With the cookie of ours that it acknowledges, unless 0.
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

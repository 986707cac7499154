//! One connection of a hostile host: what it reads, and how it answers.

use fulmar_base::ConnId;
use fulmar_lnet_wire::acceptor::ConnRequest;
use fulmar_lnet_wire::header::HeaderForm;
use fulmar_lnet_wire::socklnd::{ConnKind, FrameHeader, FrameKind, Hello};
use fulmar_lnet_wire::{Body, Header, Nid, ProcessId, RESERVED_PORTAL};
use fulmar_wire::Order;

use super::HostileHost;
use crate::options::pick;
use crate::tcp::Segment;

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    /// The interface of the node at its other end.
    pub(super) peer: Nid,
    /// The identity in the hello.
    pub(super) claims: ProcessId,
    pub(super) stage: Stage,
    /// It is not read.
    pub(super) deaf: bool,
    inbox: Vec<u8>,
    /// Bytes of a payload that have not arrived.
    skip: u64,
}

/// What is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing: the connection is not open yet.
    Dialling,
    /// The request of a dialler.
    Request,
    /// The hello of a dialler.
    Greeting,
    /// The hello that answers ours.
    Answer,
    Open,
    /// Bytes without a meaning.
    Lost,
}

impl Link {
    pub(super) fn new(peer: Nid, claims: ProcessId, stage: Stage) -> Self {
        Self { peer, claims, stage, deaf: false, inbox: Vec::new(), skip: 0 }
    }

    fn take(&mut self, segment: &Segment) {
        match segment {
            Segment::Bytes(bytes) => {
                let skipped = self.skip.min(bytes.len() as u64);
                self.skip -= skipped;
                self.inbox.extend(&bytes[skipped as usize..]);
            }
            Segment::Bulk(span) => self.skip = self.skip.saturating_sub(span.len.into()),
            Segment::Fin => {}
        }
    }

    /// Removes the next item from the inbox.
    fn next(&mut self) -> Option<Item> {
        let (item, used) = match self.stage {
            Stage::Dialling => return None,
            Stage::Lost => {
                self.inbox.clear();
                return None;
            }
            Stage::Request => match ConnRequest::decode(&self.inbox) {
                Ok(found) => (Item::Request, found?.1),
                Err(_) => (Item::Rubbish, 0),
            },
            Stage::Greeting | Stage::Answer => match Hello::decode(&self.inbox) {
                Ok(found) => found.map(|(hello, _, used)| (Item::Hello(hello), used))?,
                Err(_) => (Item::Rubbish, 0),
            },
            Stage::Open => self.frame()?,
        };
        self.inbox.drain(..used);
        Some(item)
    }

    fn frame(&mut self) -> Option<(Item, usize)> {
        let (frame, rest) = self.inbox.split_at_checked(FrameHeader::LEN)?;
        let Ok(frame) = FrameHeader::decode(frame, Order::Little) else {
            return Some((Item::Rubbish, 0));
        };
        if frame.kind != FrameKind::LNET {
            return Some((Item::Noop, FrameHeader::LEN));
        }
        let form = HeaderForm::Small;
        let used = FrameHeader::LEN + form.len();
        let Ok(header) = Header::decode(rest.get(..form.len())?, form) else {
            return Some((Item::Rubbish, 0));
        };
        // The payload may be here already, as bytes.
        let here = (self.inbox.len() - used).min(header.payload_len as usize);
        self.skip = u64::from(header.payload_len) - here as u64;
        Some((Item::Message(header, frame.cookies[0]), used + here))
    }
}

/// What arrived.
enum Item {
    Request,
    Hello(Hello),
    Noop,
    /// A message, and the cookie of its zero-copy acknowledgement unless 0.
    Message(Header, u64),
    Rubbish,
}

impl HostileHost {
    /// Handles data of a connection.
    pub(crate) fn handle_data(&mut self, conn: ConnId, segment: &Segment) {
        if let Some(link) = self.links.get_mut(&conn) {
            link.take(segment);
        }
        while let Some(item) = self.links.get_mut(&conn).and_then(Link::next) {
            self.handle_item(conn, item);
        }
    }

    fn handle_item(&mut self, conn: ConnId, item: Item) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        match (item, link.stage) {
            (Item::Rubbish, _) => link.stage = Stage::Lost,
            (Item::Request, _) => link.stage = Stage::Greeting,
            (Item::Hello(hello), Stage::Greeting) => self.greet_back(conn, hello),
            (Item::Hello(hello), _) if hello.kind == ConnKind::NONE => link.stage = Stage::Lost,
            (Item::Hello(_), _) => link.stage = Stage::Open,
            (Item::Noop, _) => {}
            (Item::Message(header, cookie), _) => self.answer(conn, &header, cookie),
        }
    }

    /// Answers the hello of a dialler.
    fn greet_back(&mut self, conn: ConnId, hello: Hello) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        link.stage = Stage::Open;
        let answer = Hello {
            source: link.claims,
            target: hello.source,
            source_incarnation: self.incarnation,
            kind: hello.kind.mirror().unwrap_or(ConnKind::NONE),
            ..hello
        };
        let mut bytes = Vec::new();
        answer.encode(Order::Little, &mut bytes);
        match self.rng.below(24) {
            0 => return,
            1 => self.flip(&mut bytes),
            _ => {}
        }
        self.write(conn, bytes);
    }

    /// Answers a message of a node: mostly in form, with any content.
    fn answer(&mut self, conn: ConnId, header: &Header, cookie: u64) {
        if cookie != 0 {
            let cookie = if self.rng.one_in(4) { self.rng.u64() } else { cookie };
            let mut bytes = Vec::new();
            FrameHeader::acknowledge(cookie).encode(Order::Little, &mut bytes);
            self.write(conn, bytes);
        }
        if self.rng.one_in(4) {
            return;
        }
        let (body, payload) = match header.body {
            Body::Get { reply, portal: RESERVED_PORTAL, .. } => {
                (Body::Reply { handle: reply }, self.info())
            }
            Body::Get { reply, .. } => {
                let len = *pick(&mut self.rng, &[0, 1, 4096]);
                (Body::Reply { handle: reply }, vec![0; len])
            }
            Body::Put { ack, match_bits, .. } => {
                let accepted = *pick(&mut self.rng, &[header.payload_len, 0, u32::MAX]);
                (Body::Ack { handle: ack, match_bits, accepted }, Vec::new())
            }
            Body::Ack { .. } | Body::Reply { .. } => return,
        };
        let answer = Header {
            target: header.source,
            source: header.target,
            payload_len: payload.len() as u32,
            body,
            ..*header
        };
        self.send(conn, &answer, &payload);
    }
}

//! The captures of kernel nodes in `testdata/traces`, decoded.
//!
//! Node N is 10.99.0.N and 10.99.1.N, and fd00:99::N in trace ipv6. Spec: lnet-wire §17.

use std::net::IpAddr;

use fulmar_base::Time;
use fulmar_lnet_wire::header::{Body, Handle, Header};
use fulmar_lnet_wire::socklnd::{ConnKind, FrameHeader};
use fulmar_trace::lnet::{Item, Kind, parse};
use fulmar_trace::{Capture, Connection, Conversation, Direction, Start, decompress};

pub(crate) const NAMES: [&str; 14] = [
    "ping",
    "selftest",
    "router",
    "multirail",
    "mount",
    "meta",
    "data",
    "contend",
    "recovery",
    "ost-join",
    "ipv6",
    "checksum",
    "selftest-remote",
    "mount-fresh",
];

/// One connection of a trace, without its bytes.
pub(crate) struct Link {
    pub(crate) active: IpAddr,
    pub(crate) passive: IpAddr,
    pub(crate) active_port: u16,
    pub(crate) start: Start,
    /// Bytes of both directions.
    pub(crate) bytes: usize,
    pub(crate) items: Vec<Item>,
}

/// A frame with its place.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) link: &'a Link,
    pub(crate) time: Time,
    pub(crate) direction: Direction,
    pub(crate) header: FrameHeader,
    pub(crate) lnet: Option<(&'a Header, &'a [u8])>,
}

/// Returns a trace, decompressed.
pub(crate) fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/../../testdata/traces/{name}.pcapng.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    decompress(&file).unwrap_or_else(|error| panic!("{path}: {error}")).into_owned()
}

pub(crate) fn load(name: &str) -> Vec<Link> {
    let file = file(name);
    let capture = Capture::read(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(!capture.truncated, "{name} ends inside a packet");
    Conversation::of(&capture).connections.iter().map(link).collect()
}

fn link(connection: &Connection<'_>) -> Link {
    for direction in [Direction::FromActive, Direction::FromPassive] {
        assert!(!connection.has_gap(direction), "a byte is missing: {connection:?}");
    }
    assert!(connection.chunks.is_sorted_by_key(|chunk| chunk.time));
    assert_eq!(connection.passive.port(), 988);
    Link {
        active: connection.active.ip(),
        passive: connection.passive.ip(),
        active_port: connection.active.port(),
        start: connection.start,
        bytes: connection.chunks.iter().map(|chunk| chunk.bytes.len()).sum(),
        items: parse(connection),
    }
}

impl Link {
    pub(crate) fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        self.items.iter().filter_map(|item| match &item.kind {
            Kind::Frame { header, lnet } => Some(Frame {
                link: self,
                time: item.time,
                direction: item.direction,
                header: *header,
                lnet: lnet.as_ref().map(|(header, payload)| (header, payload.as_slice())),
            }),
            _ => None,
        })
    }

    /// Returns the type of the connection, as the sender of a direction sees it.
    pub(crate) fn kind(&self, direction: Direction) -> ConnKind {
        let hello = self.items.iter().find_map(|item| match &item.kind {
            Kind::Hello(hello) if item.direction == Direction::FromActive => Some(hello.kind),
            _ => None,
        });
        let active = hello.unwrap_or_else(|| match self.active_port {
            1023 => ConnKind::CONTROL,
            1022 => ConnKind::BULK_IN,
            1021 => ConnKind::BULK_OUT,
            port => panic!("a connection from port {port} without a hello"),
        });
        match direction {
            Direction::FromActive => active,
            Direction::FromPassive => active.mirror().expect("the kind is known"),
        }
    }

    pub(crate) fn sender(&self, direction: Direction) -> IpAddr {
        match direction {
            Direction::FromActive => self.active,
            Direction::FromPassive => self.passive,
        }
    }
}

impl Frame<'_> {
    /// Returns the sender and the receiver of the frame on this hop.
    pub(crate) fn hop(&self) -> (IpAddr, IpAddr) {
        (self.link.sender(self.direction), self.link.sender(self.direction.reverse()))
    }
}

/// Returns the handle of a message that wants an answer.
pub(crate) fn wants_answer(header: &Header) -> Option<Handle> {
    match header.body {
        Body::Put { ack, .. } => (ack != Handle::NONE).then_some(ack),
        Body::Get { reply, .. } => Some(reply),
        _ => None,
    }
}

/// Returns the handle that an answer quotes.
pub(crate) fn answers(header: &Header) -> Option<Handle> {
    match header.body {
        Body::Ack { handle, .. } | Body::Reply { handle } => Some(handle),
        _ => None,
    }
}

//! A recorded conversation, as one list of what each side did.

use std::net::SocketAddr;
use std::path::Path;

use fulmar_base::Time;
use fulmar_lnet_wire::socklnd::Hello;
use fulmar_lnet_wire::{Body, Header, Nid};
use fulmar_trace::lnet::Kind;
use fulmar_trace::{Capture, Conversation, Direction};

/// One thing that happened.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) time: Time,
    /// The connection, as an index into [`Recording::conns`].
    pub(crate) conn: usize,
    /// Whether the side that called did it.
    pub(crate) from_active: bool,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// The connection was opened.
    Open,
    /// The acceptor's request or a hello, as it was on the wire.
    Handshake(Vec<u8>),
    /// An LNet message: the bytes of its frame without the payload, and the payload.
    Message { header: Header, cookie: u64, head: Vec<u8>, payload: Vec<u8> },
    /// A frame without a message.
    Noop(Vec<u8>),
}

/// One TCP connection of the recording.
#[derive(Clone, Debug)]
pub(crate) struct Conn {
    pub(crate) active: SocketAddr,
    pub(crate) passive: SocketAddr,
}

/// A conversation of two nodes from its first SYN.
pub(crate) struct Recording {
    pub(crate) conns: Vec<Conn>,
    pub(crate) steps: Vec<Step>,
    /// The hello of each network interface, by which its incarnation is known.
    hellos: Vec<Hello>,
}

impl Recording {
    /// Reads `name` from the traces of the repository. Connections that are older than the
    /// recording belong to other nodes and are left out.
    pub(crate) fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces").join(name);
        let file = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let bytes = fulmar_trace::decompress(&file).expect("the file is compressed");
        let capture = Capture::read(&bytes).expect("the file is a capture");
        let mut recording = Self { conns: Vec::new(), steps: Vec::new(), hellos: Vec::new() };
        for connection in Conversation::of(&capture).connections {
            if connection.start != fulmar_trace::Start::Handshake {
                continue;
            }
            recording.add(&connection);
        }
        recording.steps.sort_by_key(|step| step.time);
        recording
    }

    /// Returns the incarnation with which `nid` introduced itself.
    pub(crate) fn incarnation(&self, nid: Nid) -> u64 {
        let hello = self.hellos.iter().find(|hello| hello.source.nid == nid);
        hello.unwrap_or_else(|| panic!("{nid} never says hello")).source_incarnation
    }

    /// Returns the interface cookie in the handles that `nids` made.
    pub(crate) fn interface_cookie(&self, nids: &[Nid]) -> u64 {
        let handle = self.messages().find_map(|header| match header.body {
            Body::Put { ack, .. } if ack != fulmar_lnet_wire::Handle::NONE => {
                nids.contains(&header.source).then_some(ack)
            }
            Body::Get { reply, .. } => nids.contains(&header.source).then_some(reply),
            _ => None,
        });
        handle.map_or(1, |handle| handle.interface)
    }

    /// Returns every LNet header.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &Header> {
        self.steps.iter().filter_map(|step| match &step.what {
            What::Message { header, .. } => Some(header),
            _ => None,
        })
    }

    fn add(&mut self, connection: &fulmar_trace::Connection<'_>) {
        let (active, passive) = (connection.active, connection.passive);
        let conn = self.conns.len();
        let mut step = |time, from_active, what| {
            self.steps.push(Step { time, conn, from_active, what });
        };
        step(connection.opened, true, What::Open);
        for item in fulmar_trace::lnet::parse(connection) {
            let from_active = item.direction == Direction::FromActive;
            let what = match item.kind {
                Kind::ConnRequest(_) => What::Handshake(item.bytes),
                Kind::Hello(hello) => {
                    self.hellos.push(hello);
                    What::Handshake(item.bytes)
                }
                Kind::Frame { header: frame, lnet: Some((header, payload)) } => {
                    let cookie = frame.cookies[0];
                    What::Message { header, cookie, head: item.bytes, payload }
                }
                Kind::Frame { lnet: None, .. } => What::Noop(item.bytes),
                Kind::Incomplete => continue,
                Kind::Malformed(error) => panic!("the recording is malformed: {error}"),
            };
            step(item.time, from_active, what);
        }
        self.conns.push(Conn { active, passive });
    }
}

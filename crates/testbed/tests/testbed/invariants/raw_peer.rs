//! A peer whose bytes are written by the test, so that it can send bytes that no Fulmar node sends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use fulmar_lnet_wire::acceptor::ConnRequest;
use fulmar_lnet_wire::header::HeaderForm;
use fulmar_lnet_wire::ping::{Features, NiEntry, NiStatus, PingInfo};
use fulmar_lnet_wire::socklnd::{ACCEPT_PORT, ConnKind, FrameHeader, FrameKind, Hello, Version};
use fulmar_lnet_wire::{Body, Header, Nid, Pid, ProcessId, RESERVED_PORTAL};
use fulmar_testbed::lab::Host;
use fulmar_wire::Order;

use super::events::TIMEOUT;

/// A connection to a node whose other end is the test.
pub(crate) struct RawPeer {
    pub(crate) nid: Nid,
    node: Nid,
    stream: TcpStream,
}

/// A message of the node, or a zero-copy acknowledgement.
#[derive(Debug)]
pub(crate) enum PeerMessage {
    Message {
        header: Header,
        payload: Vec<u8>,
        /// Cookie to be acknowledged, unless 0.
        cookie: u64,
    },
    Noop,
}

impl RawPeer {
    /// Connects to a node from a host.
    pub(crate) fn call(host: &Host, (nid, node): (Nid, Nid), kind: ConnKind) -> Self {
        let address = (node.ip().unwrap(), ACCEPT_PORT);
        let stream = host.inside(|| TcpStream::connect(address)).unwrap().unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut this = Self { nid, node, stream };
        let mut bytes = Vec::new();
        ConnRequest { target: node }.encode(&mut bytes);
        let hello = Hello {
            version: Version::V3,
            source: ProcessId::lustre(nid),
            target: ProcessId::lustre(node),
            source_incarnation: 1,
            target_incarnation: 0,
            kind,
            ips: Vec::new(),
        };
        hello.encode(Order::Little, &mut bytes);
        this.stream.write_all(&bytes).unwrap();
        let mut got = Vec::new();
        while Hello::decode(&got).unwrap().is_none() {
            got.push(this.read(1)[0]);
        }
        this
    }

    fn read(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Returns the next item that the node sends.
    pub(crate) fn receive(&mut self) -> PeerMessage {
        let frame = FrameHeader::decode(&self.read(FrameHeader::LEN), Order::Little).unwrap();
        if frame.kind != FrameKind::LNET {
            return PeerMessage::Noop;
        }
        let header =
            Header::decode(&self.read(HeaderForm::Small.len()), HeaderForm::Small).unwrap();
        let payload = self.read(header.payload_len as usize);
        PeerMessage::Message { header, payload, cookie: frame.cookies[0] }
    }

    /// Returns the next message that is not discovery, answering pings meanwhile.
    pub(crate) fn receive_message(&mut self) -> (Header, Vec<u8>, u64) {
        let info = self.info();
        loop {
            let PeerMessage::Message { header, payload, cookie } = self.receive() else { continue };
            match header.body {
                Body::Get { portal: RESERVED_PORTAL, .. } => self.reply(&header, &info),
                _ => return (header, payload, cookie),
            }
        }
    }

    /// Returns the ping info of a node with this NID only.
    pub(crate) fn info(&self) -> Vec<u8> {
        let entry = NiEntry { nid: self.nid, status: NiStatus::UP };
        let features = Features::BASE.with(Features::NI_STATUS).with(Features::RTE_DISABLED);
        let info = PingInfo { features, pid: Pid::LUSTRE, sequence: 1, entries: vec![entry] };
        let mut bytes = Vec::new();
        info.encode(Order::Little, &mut bytes);
        bytes
    }

    /// Answers a GET.
    pub(crate) fn reply(&mut self, get: &Header, payload: &[u8]) {
        let Body::Get { reply: handle, .. } = get.body else { panic!("{get:?} is not a GET") };
        self.send(self.header(Body::Reply { handle }), payload);
    }

    /// Returns a header from the test to the node, without payload yet.
    pub(crate) fn header(&self, body: Body) -> Header {
        Header {
            target: self.node,
            source: self.nid,
            target_pid: Pid::LUSTRE,
            source_pid: Pid::LUSTRE,
            payload_len: 0,
            body,
        }
    }

    pub(crate) fn send(&mut self, header: Header, payload: &[u8]) {
        let mut bytes = Vec::new();
        FrameHeader::lnet().encode(Order::Little, &mut bytes);
        let header = Header { payload_len: payload.len() as u32, ..header };
        header.encode(HeaderForm::Small, &mut bytes);
        bytes.extend(payload);
        self.stream.write_all(&bytes).unwrap();
    }

    /// Acknowledges a message of the node as received.
    pub(crate) fn take(&mut self, cookie: u64) {
        let mut bytes = Vec::new();
        FrameHeader::acknowledge(cookie).encode(Order::Little, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// Waits until the node has closed the connection; returns whether it has.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

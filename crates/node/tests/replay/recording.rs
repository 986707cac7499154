//! A recorded conversation, as one list of the steps of both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnet_wire::acceptor::ConnRequest;
use fulmar_lnet_wire::header::HeaderForm;
use fulmar_lnet_wire::ping::{Features, NiEntry, NiStatus, PingInfo};
use fulmar_lnet_wire::selftest::{self, BatchOperation, Message};
use fulmar_lnet_wire::socklnd::{ConnKind, FrameHeader, Hello, Version};
use fulmar_lnet_wire::{
    Body, Handle, Header, Nid, PING_MATCH_BITS, Pid, ProcessId, RESERVED_PORTAL,
};
use fulmar_trace::lnet::Kind;
use fulmar_trace::{Capture, Conversation, Direction, Start};
use fulmar_wire::Order;

/// One step.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) time: Time,
    /// The connection, as an index into [`Recording::conns`].
    pub(crate) conn: usize,
    /// Whether the side that connected did it.
    pub(crate) from_active: bool,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// The connection was opened.
    Open,
    /// The request to the acceptor or a hello, as on the wire.
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
    /// The connections that were refused because the two nodes were connecting to each other.
    pub(crate) lost: BTreeSet<usize>,
    /// The hello of each network interface, with its incarnation.
    hellos: Vec<Hello>,
}

impl Recording {
    /// Reads `name` from the traces of the repository. Connections that are older than the
    /// recording belong to other nodes and are left out.
    pub(crate) fn read(name: &str) -> Self {
        Self::read_connections(name, Start::Handshake)
    }

    /// Reads `name`, whose connections are all older than the recording. Adds the missing steps
    /// before it: the handshakes, and a discovery of the other node by `ours`.
    pub(crate) fn read_older(name: &str, ours: Nid) -> Self {
        let mut recording = Self::read_connections(name, Start::Earlier);
        recording.add_handshakes();
        recording.add_discovery(ours);
        recording.steps.sort_by_key(|step| step.time);
        recording
    }

    fn read_connections(name: &str, wanted: Start) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces").join(name);
        let file = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let bytes = fulmar_trace::decompress(&file).expect("the file is compressed");
        let capture = Capture::read(&bytes).expect("the file is a capture");
        let mut recording = Self {
            conns: Vec::new(),
            steps: Vec::new(),
            lost: BTreeSet::new(),
            hellos: Vec::new(),
        };
        for connection in Conversation::of(&capture).connections {
            if connection.start == wanted {
                recording.add(&connection);
            }
        }
        recording.steps.sort_by_key(|step| step.time);
        recording
    }

    /// Moves each request to stop a batch to just before its reply. A node sees a request some time
    /// after it was on the wire, and ignores it until then.
    pub(crate) fn delay_stops(&mut self) {
        let mut stops = BTreeMap::new();
        for (index, step) in self.steps.iter().enumerate() {
            let What::Message { header, payload, .. } = &step.what else { continue };
            let Body::Put { match_bits, .. } = header.body else { continue };
            match Message::decode(payload).map(|(message, _)| message.body) {
                Ok(selftest::Body::Batch(batch)) if batch.operation == BatchOperation::STOP => {
                    stops.insert(batch.reply_id, (index, step.time));
                }
                Ok(selftest::Body::BatchReply(_)) => {
                    if let Some((_, time)) = stops.get_mut(&match_bits) {
                        *time = step.time - Duration::from_nanos(1);
                    }
                }
                _ => {}
            }
        }
        for (index, time) in stops.into_values() {
            self.steps[index].time = time;
        }
        self.steps.sort_by_key(|step| step.time);
    }

    /// Returns the incarnation in the hello of `nid`.
    pub(crate) fn incarnation(&self, nid: Nid) -> u64 {
        let hello = self.hellos.iter().find(|hello| hello.source.nid == nid);
        hello.unwrap_or_else(|| panic!("{nid} has no hello")).source_incarnation
    }

    /// Returns the interface cookie in the handles of `nids`.
    pub(crate) fn interface_cookie(&self, nids: &[Nid]) -> u64 {
        let handle = self.messages().find_map(|header| match header.body {
            Body::Put { ack, .. } if ack != Handle::NONE => {
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

    /// Adds handshakes for all connections: the port of each shows its kind.
    fn add_handshakes(&mut self) {
        let first = self.steps.iter().map(|step| step.time).min().expect("the recording has steps");
        let mut conns: Vec<(usize, Conn)> = self.conns.iter().cloned().enumerate().collect();
        // In the order of opening: control, bulk in, bulk out.
        conns.sort_by_key(|(_, conn)| std::cmp::Reverse(conn.active.port()));
        self.steps.retain(|step| !matches!(step.what, What::Open));
        for (order, (conn, Conn { active, passive })) in (1..).zip(conns) {
            let kind = match active.port() {
                1023 => ConnKind::CONTROL,
                1022 => ConnKind::BULK_IN,
                1021 => ConnKind::BULK_OUT,
                port => panic!("a connection from port {port}"),
            };
            let [active, passive] = [active, passive].map(nid);
            let mut request = Vec::new();
            ConnRequest { target: passive }.encode(&mut request);
            let mut hello = |source, target, kind| {
                let hello = made_up_hello(source, target, kind);
                let mut bytes = Vec::new();
                hello.encode(Order::Little, &mut bytes);
                self.hellos.push(hello);
                What::Handshake(bytes)
            };
            let called = hello(active, passive, kind);
            let answered = hello(passive, active, kind.mirror().expect("a known kind"));
            let time = first - Duration::from_millis(10) + Duration::from_millis(order);
            let steps = [
                (true, What::Open),
                (true, What::Handshake(request)),
                (true, called),
                (false, answered),
            ];
            let steps = steps.map(|(from_active, what)| Step { time, conn, from_active, what });
            self.steps.extend(steps);
        }
    }

    /// Adds a discovery of the other node, which reports one interface and no discovery in
    /// return.
    fn add_discovery(&mut self, ours: Nid) {
        let control = self.conns.iter().position(|conn| conn.active.port() == 1023);
        let conn = control.expect("small messages have a connection");
        let Conn { active, passive } = self.conns[conn].clone();
        let is_active = nid(active) == ours;
        let peer = nid(if is_active { passive } else { active });
        let handle = Handle { interface: self.interface_cookie(&[ours]), object: 1 };
        let get = Body::Get {
            reply: handle,
            match_bits: PING_MATCH_BITS,
            portal: RESERVED_PORTAL,
            offset: 0,
            sink_len: 272,
        };
        let info = PingInfo {
            features: Features::NI_STATUS,
            pid: Pid::LUSTRE,
            sequence: 1,
            entries: vec![NiEntry { nid: peer, status: NiStatus::UP }],
        };
        let mut payload = Vec::new();
        info.encode(Order::Little, &mut payload);
        let first = self.steps.iter().filter(|step| matches!(step.what, What::Message { .. }));
        let first = first.map(|step| step.time).min().expect("the recording has steps");
        let message = |source, target, body, payload: Vec<u8>, before| {
            let (source_pid, target_pid) = (Pid::LUSTRE, Pid::LUSTRE);
            let payload_len = payload.len() as u32;
            let header = Header { target, source, target_pid, source_pid, payload_len, body };
            let mut head = Vec::new();
            FrameHeader::lnet().encode(Order::Little, &mut head);
            header.encode(HeaderForm::Small, &mut head);
            let from_active = (source == ours) == is_active;
            let time = first - Duration::from_millis(before);
            let what = What::Message { header, cookie: 0, head, payload };
            Step { time, conn, from_active, what }
        };
        let reply = Body::Reply { handle };
        self.steps.push(message(ours, peer, get, vec![], 2));
        self.steps.push(message(peer, ours, reply, payload, 1));
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
                    if hello.kind == ConnKind::NONE {
                        self.lost.insert(conn);
                    }
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

fn nid(address: SocketAddr) -> Nid {
    format!("{}@tcp", address.ip()).parse().expect("an address of LNet")
}

fn made_up_hello(source: Nid, target: Nid, kind: ConnKind) -> Hello {
    Hello {
        version: Version::V3,
        source: ProcessId::lustre(source),
        target: ProcessId { nid: target, pid: Pid(0) },
        source_incarnation: 1 + source.to_small().expect("an address of version 4"),
        target_incarnation: 0,
        kind,
        ips: vec![],
    }
}

//! The machine in place of one node of a recording; the recording acts as the other node.
//!
//! Each step of the recorded peer is fed to the machine. Each step of the replaced node must be
//! produced by the machine, byte for byte except for free choices of the node: object cookies,
//! zero-copy requests, and the time of acknowledgements. Requests of its upper layers are made to
//! the machine when the recording shows them; pings, pushes, ACKs, REPLYs, hellos and requests to
//! the acceptor must come from the machine itself. So must selftest messages, where the selftest
//! runs on the machine: only its console gets commands.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use fulmar_base::{BufferId, ConnId, Time};
use fulmar_lnd::{Need, NiConfig, NiTunables};
use fulmar_lnet::{
    Get, Md, MdOptions, Me, MePosition, Memory, Put, RouteConfig, RoutingConfig, ServiceConfig,
    ServiceId, views,
};
use fulmar_lnet_wire::header::HeaderForm;
use fulmar_lnet_wire::ping::{Features, NiEntry, NiStatus, PingInfo};
use fulmar_lnet_wire::selftest::{BULK_PORTAL, REQUEST_PORTAL};
use fulmar_lnet_wire::socklnd::FrameHeader;
use fulmar_lnet_wire::{
    Body, Handle, Header, Net, Nid, PING_MATCH_BITS, Pid, ProcessId, RESERVED_PORTAL,
};
use fulmar_node::{Config, Node};
use fulmar_wire::Order;

use crate::buffers::Buffers;
use crate::recording::{Recording, Step, What};
use crate::selftest::Upper;

/// The sink length of a ping of an administrator; discovery has a smaller one.
const ADMIN_SINK: u32 = 3960;
/// Timeout of a command that needs no recorded node.
const TOLERANCE: Duration = Duration::from_secs(10);
/// The portals of selftest.
const SELFTEST: RangeInclusive<u32> = REQUEST_PORTAL..=BULK_PORTAL;

/// A message that our machine has sent.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) conn: usize,
    pub(crate) header: Header,
    /// The known part of the payload.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// The end of a recorded connection at the machine.
#[derive(Debug, Default)]
pub(crate) struct End {
    /// The ID of the machine for it.
    pub(crate) conn: Option<ConnId>,
    /// Bytes written by the machine that are not decoded yet.
    pub(crate) written: Vec<u8>,
    /// How often each cookie of the peer was acknowledged.
    pub(crate) acknowledged: BTreeMap<u64, u32>,
}

pub(crate) struct Player<'a> {
    pub(crate) recording: &'a Recording,
    ours: Vec<Nid>,
    pub(crate) node: Node,
    /// The upper layers of the recorded node.
    service: ServiceId,
    /// The selftest on the machine, if used.
    pub(crate) upper: Option<Upper>,
    /// The router buffers of the machine.
    pub(crate) buffers: Buffers,
    /// Routes that are not configured yet.
    routes: Vec<RouteConfig>,
    pub(crate) now: Time,
    pub(crate) ends: Vec<End>,
    /// Connections that the machine dialled and the recording has not shown yet.
    pub(crate) dialled: VecDeque<(ConnId, IpAddr, SocketAddr)>,
    /// Messages sent and not yet seen in the recording.
    pub(crate) sent: Vec<Sent>,
    /// Recorded handles and the handles of the machine.
    handles: BTreeMap<Handle, Handle>,
    /// Bytes of messages of the recorded peer to be acknowledged: connection and cookie.
    cookies: Vec<(usize, u64)>,
    pub(crate) answered: usize,
    pub(crate) failures: Vec<String>,
}

impl<'a> Player<'a> {
    /// Puts the machine in place of the node that has `ours`; `late` interfaces are added after the
    /// start, which the sequence number of the ping info shows.
    pub(crate) fn new(recording: &'a Recording, ours: &[Nid], late: bool) -> Self {
        Self::start(recording, ours, RoutingConfig::default(), late, None)
    }

    /// Puts the machine in place of the router that has `ours`.
    pub(crate) fn router(recording: &'a Recording, ours: &[Nid]) -> Self {
        let routing = RoutingConfig { forwarding: true, ..RoutingConfig::default() };
        Self::start(recording, ours, routing, false, None)
    }

    /// Configures a route when the node first acts: a route makes its router discovered, and the
    /// recording shows when that was.
    pub(crate) fn with_route(mut self, net: Net, gateway: Nid) -> Self {
        self.routes.push(RouteConfig::new(net, gateway));
        self
    }

    /// Puts the machine with its selftest in place of the node that has `ours`.
    pub(crate) fn with_selftest(recording: &'a Recording, ours: &[Nid], upper: Upper) -> Self {
        Self::start(recording, ours, RoutingConfig::default(), false, Some(upper))
    }

    fn start(
        recording: &'a Recording,
        ours: &[Nid],
        routing: RoutingConfig,
        late: bool,
        upper: Option<Upper>,
    ) -> Self {
        let globals = fulmar_lnet::Globals::default();
        let interface_cookie = recording.interface_cookie(ours);
        let lnet = fulmar_lnet::Config { pid: Pid::LUSTRE, interface_cookie, globals, routing };
        let mut node = Node::new(Config { lnet, socklnd: fulmar_socklnd::Config::default() });
        let now = Time::from_secs(1);
        if late {
            node.admin(now).start();
        }
        for &nid in ours {
            let incarnation = recording.incarnation(nid);
            let tunables = NiTunables::default();
            let (conns_per_peer, conns_max, timeout) = (1, 1, None);
            let ni = NiConfig { nid, tunables, incarnation, conns_per_peer, conns_max, timeout };
            node.admin(now).add_ni(ni).expect("the interface is new");
        }
        if !late {
            node.admin(now).start();
        }
        let service = node.open_service(ServiceConfig::default());
        let mut upper = upper;
        if let Some(upper) = &mut upper {
            upper.open(now, &mut node);
        }
        let mut ends = Vec::new();
        ends.resize_with(recording.conns.len(), End::default);
        let mut player = Self {
            recording,
            ours: ours.to_vec(),
            node,
            service,
            upper,
            buffers: Buffers::default(),
            routes: Vec::new(),
            now,
            ends,
            dialled: VecDeque::new(),
            sent: Vec::new(),
            handles: BTreeMap::new(),
            cookies: Vec::new(),
            answered: 0,
            failures: Vec::new(),
        };
        player.offer_memory();
        player.drain();
        player
    }

    /// Replays the whole recording and requires that the machine did all that the node did.
    pub(crate) fn play(&mut self) {
        let began = self.recording.steps.first().expect("the recording has steps").time;
        for step in &self.recording.steps {
            if !self.concerns_us(step) {
                continue;
            }
            self.advance_to(Time::from_secs(1) + step.time.since(began));
            if self.is_ours(step) {
                self.expect(step);
            } else {
                self.perform(step);
            }
        }
        self.expect_verification();
        assert!(self.sent.is_empty(), "not in the recording: {:?}", self.sent);
        assert!(self.dialled.is_empty(), "dialled and not in the recording: {:?}", self.dialled);
        for &(conn, cookie) in &self.cookies {
            let times = self.ends[conn].acknowledged.get(&cookie).copied().unwrap_or(0);
            assert_eq!(times, 1, "cookie {cookie} on connection {conn} was acknowledged so often");
        }
        assert_eq!(self.failures, Vec::<String>::new());
        self.node.lnet().check_invariants().expect("the machine is consistent");
        self.node.lnet().is_idle().expect("the machine is idle");
        if let Some(upper) = &self.upper {
            upper.finish();
        }
        assert!(self.routes.is_empty(), "never configured: {:?}", self.routes);
    }

    /// Removes what a kernel node does not do: one ping of each NID that a peer has only listed,
    /// and one connection for it.
    fn expect_verification(&mut self) {
        let peers = self.node.lnet().peers();
        let others = |peer: &views::Peer| {
            let nids = peer.nis.iter().map(|ni| ni.nid).filter(|nid| *nid != peer.primary);
            nids.collect::<Vec<_>>()
        };
        for nid in peers.iter().flat_map(others) {
            let verifies = |sent: &Sent| is_ping(&sent.header) && sent.header.target == nid;
            if let Some(index) = self.sent.iter().position(verifies) {
                self.sent.remove(index);
            }
            let to_it = |dial: &(ConnId, _, SocketAddr)| Some(dial.2.ip()) == nid.ip();
            if let Some(index) = self.dialled.iter().position(to_it) {
                self.dialled.remove(index);
            }
        }
    }

    /// Configures the remaining routes.
    fn add_routes(&mut self) {
        let now = self.now;
        for route in std::mem::take(&mut self.routes) {
            let added = self.node.admin(now).route_add(route);
            added.unwrap_or_else(|errno| panic!("{route:?}: {errno}"));
        }
        self.drain();
    }

    /// Attaches memory for every PUT and GET of the upper layers, as in the recording.
    fn offer_memory(&mut self) {
        for portal in 1..fulmar_lnet_wire::PORTALS {
            if self.upper.is_some() && SELFTEST.contains(&portal) {
                continue;
            }
            let me = Me {
                match_id: ProcessId::ANY,
                match_bits: 0,
                ignore_bits: u64::MAX,
                unlink: false,
                position: MePosition::After,
            };
            let md = Md {
                buffer: BufferId(portal.into()),
                offset: 0,
                len: 1 << 20,
                threshold: None,
                options: MdOptions::OP_PUT.with(MdOptions::OP_GET).with(MdOptions::MANAGE_REMOTE),
                max_size: 0,
                auto_unlink: false,
                user: 0,
            };
            let mut service = self.node.service(self.now, self.service);
            let me = service.me_attach(portal, me).expect("the portal is free");
            service.md_attach(me, md, Memory::Buffer).expect("the descriptor is valid");
        }
    }

    fn advance_to(&mut self, time: Time) {
        while let Some(at) = self.next_timeout().filter(|at| *at <= time) {
            self.now = self.now.max(at);
            self.node.handle_timeout(self.now);
            if let Some(upper) = &mut self.upper {
                upper.handle_timeout(self.now);
            }
            self.drain();
        }
        self.now = self.now.max(time);
    }

    fn next_timeout(&self) -> Option<Time> {
        let upper = self.upper.as_ref().and_then(Upper::poll_timeout);
        self.node.poll_timeout().into_iter().chain(upper).min()
    }

    /// Returns whether a step belongs to the replaced node. The caller decides whether to connect
    /// while the other node does; it is refused anyway.
    fn concerns_us(&self, step: &Step) -> bool {
        let conn = &self.recording.conns[step.conn];
        if self.recording.lost.contains(&step.conn) && self.has(conn.active) {
            return false;
        }
        self.has(conn.active) || self.has(conn.passive)
    }

    fn is_ours(&self, step: &Step) -> bool {
        let conn = &self.recording.conns[step.conn];
        self.has(if step.from_active { conn.active } else { conn.passive })
    }

    fn has(&self, address: SocketAddr) -> bool {
        self.ours.iter().any(|nid| nid.ip() == Some(address.ip()))
    }

    /// Executes a step of the recorded peer.
    fn perform(&mut self, step: &Step) {
        let recorded = &self.recording.conns[step.conn];
        match &step.what {
            What::Open => {
                let (local, remote) = (recorded.passive, recorded.active);
                let conn = self.node.handle_accepted(self.now, local, remote);
                self.ends[step.conn].conn = Some(conn.expect("the peer is accepted"));
            }
            What::Handshake(bytes) => self.feed(step.conn, &bytes.clone()),
            What::Noop(bytes) => {
                // Acknowledgements of zero-copy requests that the machine never makes.
                let frame = FrameHeader::decode(bytes, Order::Little).expect("recorded");
                if frame.cookies == [0, FrameHeader::KEEPALIVE] {
                    self.feed(step.conn, &bytes.clone());
                }
            }
            What::Message { header, cookie, head, payload } => {
                self.add_routes();
                if *cookie != 0 {
                    self.cookies.push((step.conn, *cookie));
                }
                let mut bytes = head[..FrameHeader::LEN].to_vec();
                let (header, payload) = self.in_our_words(*header, payload);
                header.encode(form(head), &mut bytes);
                bytes.extend(payload);
                self.feed(step.conn, &bytes);
            }
        }
        self.drain();
    }

    /// Replaces handles and selftest IDs of the recorded node by those of the machine.
    fn in_our_words(&self, mut header: Header, payload: &[u8]) -> (Header, Vec<u8>) {
        if let Body::Ack { handle, .. } | Body::Reply { handle } = &mut header.body {
            let ours = self.handles.get(handle);
            *handle = *ours.unwrap_or_else(|| panic!("{handle:?} is answered before its request"));
        }
        let payload = match &self.upper {
            Some(upper) => upper.names.translate(&mut header, payload),
            None => payload.to_vec(),
        };
        (header, payload)
    }

    /// Feeds bytes of a connection to the machine, payload by payload.
    fn feed(&mut self, end: usize, mut bytes: &[u8]) {
        let conn = self.ends[end].conn.expect("the connection is open");
        while !bytes.is_empty() {
            match self.node.need(conn) {
                Need::Bytes(_) => {
                    let used = self.node.handle_bytes(self.now, conn, bytes);
                    bytes = &bytes[used..];
                }
                Need::Payload { sink, crc } => {
                    assert_eq!(crc, None, "the recordings carry no checksums");
                    let len = sink.len().min(bytes.len() as u32);
                    let part = &bytes[..len as usize];
                    match &mut self.upper {
                        _ if self.buffers.store(&sink, part) => {}
                        Some(upper) => upper.store(&sink, part),
                        None => {}
                    }
                    self.node.handle_payload(self.now, conn, len, None);
                    bytes = &bytes[len as usize..];
                }
                need => panic!("{need:?} while {} bytes are there", bytes.len()),
            }
            self.drain();
        }
    }

    /// Executes a step of the replaced node: the machine must have done the same.
    fn expect(&mut self, step: &Step) {
        match &step.what {
            What::Open => self.expect_dial(step),
            What::Handshake(bytes) => self.expect_handshake(step.conn, bytes),
            // The receiver chooses when to acknowledge; that it does is checked at the end.
            What::Noop(_) => {}
            What::Message { header, payload, .. } => {
                self.expect_message(step.conn, header, payload);
            }
        }
    }

    fn expect_dial(&mut self, step: &Step) {
        let recorded = self.recording.conns[step.conn].clone();
        let (local, remote) = (recorded.active, recorded.passive);
        let same = |dial: &(ConnId, _, SocketAddr)| dial.1 == local.ip() && dial.2 == remote;
        let is_dialled = |player: &Self| player.dialled.iter().any(same);
        self.add_routes();
        if self.upper.is_some() {
            self.command_until(None, is_dialled);
        } else if !is_dialled(self) {
            self.begin_first_message(step);
        }
        let found = self.dialled.iter().position(same);
        let found = found.unwrap_or_else(|| panic!("no call from {local} to {remote}"));
        let (conn, ..) = self.dialled.remove(found).expect("just found");
        self.ends[step.conn].conn = Some(conn);
        self.node.handle_dialled(self.now, conn, Ok(local));
        self.drain();
    }

    /// Handles a connection that is opened for a message that the recording shows only later.
    fn begin_first_message(&mut self, step: &Step) {
        let recorded = &self.recording.conns[step.conn];
        let pair = |header: &&Header| {
            header.source.ip() == Some(recorded.active.ip())
                && header.target.ip() == Some(recorded.passive.ip())
        };
        let later = self.recording.steps.iter().filter(|other| other.time >= step.time);
        let mut messages = later.filter_map(|other| match &other.what {
            What::Message { header, payload, .. } => Some((header, payload)),
            _ => None,
        });
        let first =
            messages.find(|(header, _)| pair(header)).expect("a connection carries a message");
        let (header, payload) = (*first.0, first.1.len());
        self.ask(&header, payload);
    }

    fn expect_handshake(&mut self, end: usize, recorded: &[u8]) {
        let written = &mut self.ends[end].written;
        let len = recorded.len().min(written.len());
        let ours: Vec<u8> = written.drain(..len).collect();
        assert_eq!(ours, recorded, "handshake on connection {end}");
    }

    fn expect_message(&mut self, conn: usize, recorded: &Header, payload: &[u8]) {
        let is_sent = |player: &Self| player.find_sent(conn, recorded, payload).is_some();
        match recorded.body {
            Body::Put { portal, .. } | Body::Get { portal, .. }
                if self.upper.is_some() && SELFTEST.contains(&portal) =>
            {
                self.command_until(Some(portal), is_sent);
            }
            _ if is_sent(self) => {}
            _ => self.ask(recorded, payload.len()),
        }
        let found = self.find_sent(conn, recorded, payload);
        let found = found.unwrap_or_else(|| {
            panic!("never sent on connection {conn}: {recorded:?}; but {:?}", self.sent)
        });
        let sent = self.sent.remove(found);
        if let (Some(theirs), Some(ours)) = (own_handle(recorded), own_handle(&sent.header)) {
            self.handles.insert(theirs, ours);
        }
        match (&mut self.upper, &sent.bytes) {
            (Some(upper), Some(bytes)) => upper.sent(recorded, bytes, payload),
            (None, Some(bytes)) => assert_eq!(bytes, payload, "ping info in {recorded:?}"),
            (_, None) => {}
        }
        self.answered += 1;
    }

    /// Lets the administrator continue until the console has done what the recording shows, or can
    /// do nothing more for it.
    fn command_until(&mut self, portal: Option<u32>, is_done: impl Fn(&Self) -> bool) {
        let latest = self.now + TOLERANCE;
        while !is_done(self) {
            let Some(upper) = &mut self.upper else { return };
            if upper.is_asked() {
                // A command that needs no recorded node: let time pass.
                let next = self.node.poll_timeout().filter(|at| *at <= latest);
                let Some(next) = next else { return };
                self.advance_to(next);
            } else if !upper.may_command(portal) || !upper.command(self.now, &self.node) {
                return;
            }
            self.drain();
        }
    }

    /// Executes an operation of the upper layers of the recorded node.
    fn ask(&mut self, header: &Header, payload: usize) {
        let (now, source, target) =
            (self.now, Some(header.source), ProcessId::lustre(header.target));
        let md = Md {
            buffer: BufferId(0),
            offset: 0,
            len: payload as u64,
            threshold: Some(1),
            options: MdOptions::default(),
            max_size: 0,
            auto_unlink: true,
            user: 0,
        };
        match header.body {
            Body::Get { portal: RESERVED_PORTAL, sink_len: ADMIN_SINK, .. } => {
                self.node.admin(now).ping(target, source, Duration::from_secs(180));
            }
            Body::Get { portal: RESERVED_PORTAL, .. } => {
                self.node.admin(now).discover(header.target, false);
            }
            Body::Put { portal, match_bits, header_data, offset, ack } if portal != 0 => {
                let ack = ack != Handle::NONE;
                let md = Md { threshold: Some(1 + u32::from(ack)), ..md };
                let mut service = self.node.service(now, self.service);
                let md = service.md_bind(md, Memory::Buffer).expect("the descriptor is valid");
                let put = Put { ack, source, target, portal, match_bits, offset, header_data };
                service.put(md, put).expect("the put is valid");
            }
            Body::Get { portal, match_bits, offset, sink_len, .. } => {
                let md = Md { len: sink_len.into(), threshold: Some(2), ..md };
                let mut service = self.node.service(now, self.service);
                let md = service.md_bind(md, Memory::Buffer).expect("the descriptor is valid");
                let get = Get { source, target, portal, match_bits, offset };
                service.get(md, get).expect("the get is valid");
            }
            _ => {}
        }
        self.drain();
        self.answer_verification();
    }

    /// Answers the ping of a NID that its peer has only listed, which comes before a message for it.
    fn answer_verification(&mut self) {
        let peers = self.node.lnet().peers();
        let listed = |nid: Nid| {
            let has = |peer: &&views::Peer| peer.nis.iter().any(|ni| ni.nid == nid);
            peers.iter().find(has).filter(|peer| peer.primary != nid)
        };
        let found = self.sent.iter().enumerate().find_map(|(index, sent)| {
            let peer = is_ping(&sent.header).then(|| listed(sent.header.target))??;
            Some((index, peer.nis.iter().map(|ni| ni.nid).collect::<Vec<_>>()))
        });
        let Some((index, nids)) = found else { return };
        let Sent { conn, header, .. } = self.sent.remove(index);
        let Body::Get { reply, .. } = header.body else { unreachable!("a ping is a GET") };
        let features = Features::NI_STATUS | Features::MULTI_RAIL | Features::DISCOVERY;
        let entry = |nid| NiEntry { nid, status: NiStatus::UP };
        let entries = nids.into_iter().map(entry).collect();
        let info = PingInfo { features, pid: Pid::LUSTRE, sequence: 1, entries };
        let mut payload = Vec::new();
        info.encode(Order::Little, &mut payload);
        let answer = Header {
            target: header.source,
            source: header.target,
            target_pid: header.source_pid,
            source_pid: header.target_pid,
            payload_len: payload.len() as u32,
            body: Body::Reply { handle: reply },
        };
        let mut bytes = Vec::new();
        FrameHeader::lnet().encode(Order::Little, &mut bytes);
        answer.encode(HeaderForm::Small, &mut bytes);
        bytes.extend(payload);
        self.feed(conn, &bytes);
        self.drain();
    }

    fn find_sent(&self, conn: usize, recorded: &Header, payload: &[u8]) -> Option<usize> {
        let wanted = without_own_handle(recorded);
        let same = |sent: &Sent| sent.conn == conn && without_own_handle(&sent.header) == wanted;
        let mut alike = self.sent.iter().enumerate().filter(|(_, sent)| same(sent));
        let Some(upper) = &self.upper else { return alike.next().map(|(index, _)| index) };
        let bytes = alike.map(|(index, sent)| (index, sent.bytes.as_deref().unwrap_or_default()));
        upper.names.choose(bytes, recorded, payload)
    }
}

pub(crate) fn form(head: &[u8]) -> HeaderForm {
    match head.len() - FrameHeader::LEN {
        96 => HeaderForm::Large,
        _ => HeaderForm::Small,
    }
}

/// Returns the handle that the sender of a request made for its answer.
fn own_handle(header: &Header) -> Option<Handle> {
    match header.body {
        Body::Put { ack, .. } if ack != Handle::NONE => Some(ack),
        Body::Get { reply, .. } => Some(reply),
        _ => None,
    }
}

/// Returns all fields that must be equal: all but the object cookie of a local handle.
fn without_own_handle(header: &Header) -> Header {
    let mut header = *header;
    match &mut header.body {
        Body::Put { ack: handle, .. } | Body::Get { reply: handle, .. }
            if *handle != Handle::NONE =>
        {
            handle.object = 0;
        }
        _ => {}
    }
    header
}

fn is_ping(header: &Header) -> bool {
    matches!(header.body, Body::Get { portal: RESERVED_PORTAL, match_bits: PING_MATCH_BITS, .. })
}

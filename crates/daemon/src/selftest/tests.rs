//! LNet selftest on nodes of the loopback network.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use fulmar_lnet::EventKind;
use fulmar_lnet_wire::acceptor::ConnRequest;
use fulmar_lnet_wire::header::HeaderForm;
use fulmar_lnet_wire::selftest::{
    Body, DebugRequest, FEATURES, FRAMEWORK_PORTAL, LEN, Message, Ping, Service, SessionId,
};
use fulmar_lnet_wire::socklnd::{ConnKind, FrameHeader, Hello, Version};
use fulmar_lnet_wire::{Body as LnetBody, Handle, Header, Net, Nid, Pid, ProcessId};
use fulmar_net::exchange::{Exchange, Target};
use fulmar_net::{Buffer, NiOptions, Options, Runtime};
use fulmar_socklnd::AcceptMode;
use fulmar_wire::Order;

use super::*;

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(20);

fn start(runtime: &Runtime) -> (Node, ProcessId) {
    let address = IpAddr::from(fulmar_loopback::address());
    let mut options = Options::default();
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = 9988;
    options.nis.push(NiOptions::at(address));
    // The discovery of a peer that does not answer fails soon.
    options.config.lnet.globals.transaction_timeout = 2;
    (Node::start(runtime, options).unwrap(), ProcessId::lustre(Nid::of_ip(Net::TCP, address)))
}

#[test]
fn requests_that_want_an_ack_get_it_and_leave_nothing() {
    let runtime = Runtime::new(Some(2)).unwrap();
    let ((server, process), (client, _)) = (start(&runtime), start(&runtime));
    let _selftest = Selftest::open(&server, Config::default()).unwrap();
    let exchange = Exchange::open(&client).unwrap();
    let request = DebugRequest { reply_id: 7, session: SessionId::INVALID, flags: 0 };
    let valid = Buffer::new(LEN);
    valid.write_at(0, &Message::new(FEATURES, Body::Debug(request)).to_bytes());
    let target = Target { process, portal: FRAMEWORK_PORTAL, match_bits: Service::DEBUG.0 };
    let requests = [valid, Buffer::new(LEN), Buffer::new(LEN - 1), Buffer::new(1)];
    let sent: Vec<_> = (0..400)
        .map(|number| exchange.begin_put(target, &requests[number % 4], 0).unwrap())
        .collect();
    for events in sent {
        assert!(events.next_of(EventKind::Ack, TIMEOUT).is_some());
    }
    left_nothing(&server);
    client.stop();
    server.stop();
}

/// Waits until a node has no message.
#[track_caller]
fn left_nothing(node: &Node) {
    let (admin, deadline) = (node.admin(), Instant::now() + TIMEOUT);
    while admin.stats().msgs_alloc > 0 {
        assert!(Instant::now() < deadline, "messages are left: {:?}", admin.stats());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the handshake of `peer`, and then a ping of the selftest that wants an ACK, as bytes.
fn ping(peer: ProcessId, node: ProcessId) -> (Vec<u8>, Vec<u8>) {
    let mut hello = Vec::new();
    ConnRequest { target: node.nid }.encode(&mut hello);
    Hello {
        version: Version::V3,
        source: peer,
        target: node,
        source_incarnation: 1,
        target_incarnation: 0,
        kind: ConnKind::CONTROL,
        ips: Vec::new(),
    }
    .encode(Order::Little, &mut hello);
    let ping = Ping { reply_id: 7, magic: Ping::MAGIC, sequence: 1, seconds: 0, nanoseconds: 0 };
    let ping = Message::new(FEATURES, Body::Ping(ping)).to_bytes();
    let body = LnetBody::Put {
        ack: Handle { interface: 5, object: 5 },
        match_bits: Service::PING.0,
        header_data: 0,
        portal: Service::PING.portal(),
        offset: 0,
    };
    let (target, source, pid) = (node.nid, peer.nid, Pid::LUSTRE);
    let payload_len = ping.len() as u32;
    let header = Header { target, source, target_pid: pid, source_pid: pid, payload_len, body };
    let mut request = Vec::new();
    FrameHeader::lnet().encode(Order::Little, &mut request);
    header.encode(HeaderForm::Small, &mut request);
    request.extend(ping);
    (hello, request)
}

#[test]
fn a_peer_that_reads_neither_acks_nor_replies_leaves_nothing() {
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, process) = start(&runtime);
    let selftest = Selftest::open(&server, Config::default()).unwrap();
    // The address from which the loopback network is called.
    let peer = ProcessId::lustre(Nid::of_ip(Net::TCP, Ipv4Addr::LOCALHOST.into()));
    let (hello, request) = ping(peer, process);
    let mut stream = TcpStream::connect((process.nid.ip().unwrap(), 9988)).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    stream.write_all(&hello).unwrap();
    // The node stops reading when too many answers wait.
    let mut sent = 0;
    while stream.write_all(&request.repeat(64)).is_ok() {
        sent += 64;
        assert!(sent < 1 << 22, "the node reads for ever");
    }
    drop(stream);
    left_nothing(&server);
    let deadline = Instant::now() + TIMEOUT;
    while let Err(left) = selftest.0.call(|service, _| service.machine().is_idle()) {
        assert!(Instant::now() < deadline, "{left}");
        std::thread::sleep(Duration::from_millis(2));
    }
    server.stop();
}

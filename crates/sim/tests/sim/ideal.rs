//! Nodes over an LND that is not the socket LND: the core uses only its trait.

use std::time::Duration;

use fulmar_base::{BufferId, Time};
use fulmar_lnd::{NiConfig, NiTunables};
use fulmar_lnet::{
    Bound, Config, Event, EventKind, Get, Globals, Md, MdOptions, Me, MePosition, Memory, Op, Put,
    RouteConfig, RoutingConfig, ServiceConfig, ServiceId,
};
use fulmar_lnet_wire::{Net, NetType, Nid, Pid, ProcessId};
use fulmar_node::{Node, Output};
use fulmar_sim::ideal::IdealNetwork;

const APPLICATION: ServiceId = ServiceId(0);
const PORTAL: u32 = 20;
const LATENCY: Duration = Duration::from_millis(1);
const SIZE: usize = 1 << 16;

/// Nodes on one or more ideal networks of one type.
struct Cluster {
    now: Time,
    network: IdealNetwork,
    nodes: Vec<Node>,
    events: Vec<Vec<Event>>,
    buffers: u64,
}

fn nid(number: u16, host: u32) -> Nid {
    Nid::small(Net::new(NetType::O2IB, number), 0x0a00_0001 + host)
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..SIZE).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

impl Cluster {
    fn new(seed: u64) -> Self {
        let network = IdealNetwork::new(NetType::O2IB, LATENCY, seed);
        let (nodes, events) = (Vec::new(), Vec::new());
        Self { now: Time::ZERO, network, nodes, events, buffers: 0 }
    }

    /// Adds a node with one interface on each of `nets`, and routes.
    fn add(&mut self, nets: &[u16], routes: &[(u16, Nid)]) {
        let (lnd, host) = self.network.join();
        let routing = RoutingConfig { forwarding: nets.len() > 1, ..RoutingConfig::default() };
        let (pid, interface_cookie) = (Pid::LUSTRE, 1000 + host as u64);
        let lnet = Config { pid, interface_cookie, globals: Globals::default(), routing };
        // The socket LND exists too, without an interface.
        let socklnd = fulmar_socklnd::Config::default();
        let mut node = Node::new(fulmar_node::Config { lnet, socklnd });
        node.add_lnd(Box::new(lnd)).unwrap();
        for net in nets {
            let tunables = NiTunables { peer_credits: 64, ..NiTunables::default() };
            let ni = NiConfig {
                nid: nid(*net, host as u32),
                tunables,
                incarnation: 7,
                conns_per_peer: 1,
                conns_max: 1,
                timeout: None,
            };
            node.admin(self.now).add_ni(ni).unwrap();
        }
        node.admin(self.now).start();
        for (net, gateway) in routes {
            let net = Net::new(NetType::O2IB, *net);
            node.admin(self.now).route_add(RouteConfig::new(net, *gateway)).unwrap();
        }
        assert_eq!(node.open_service(ServiceConfig::default()), APPLICATION);
        self.nodes.push(node);
        self.events.push(Vec::new());
    }

    fn buffer(&mut self, host: usize, bytes: Vec<u8>) -> BufferId {
        self.buffers += 1;
        let buffer = BufferId(self.buffers);
        self.network.allocate(host, buffer, bytes);
        buffer
    }

    fn post(&mut self, host: usize, op: Op) {
        let mut posted = None;
        self.nodes[host].service(self.now, APPLICATION).post([op], |md| posted = Some(md));
        posted.expect("each operation has a result").unwrap();
    }

    /// Attaches an entry for one operation, with a descriptor over a new buffer.
    fn attach(&mut self, host: usize, portal: u32, match_bits: u64, bytes: Vec<u8>) -> BufferId {
        let buffer = self.buffer(host, bytes);
        let (match_id, position) = (ProcessId::ANY, MePosition::After);
        let me = Me { match_id, match_bits, ignore_bits: 0, unlink: true, position };
        let options = MdOptions::OP_PUT.with(MdOptions::OP_GET).with(MdOptions::MANAGE_REMOTE);
        let md = md(buffer, Some(1), options);
        self.post(host, Op::Attach { portal, me, md, memory: Memory::Buffer });
        buffer
    }

    fn put(&mut self, host: usize, target: Nid, portal: u32, match_bits: u64, bytes: Vec<u8>) {
        let buffer = self.buffer(host, bytes);
        let target = ProcessId { nid: target, pid: Pid::LUSTRE };
        let (source, offset, header_data) = (None, 0, 0);
        let put = Put { ack: true, source, target, portal, match_bits, offset, header_data };
        let from = Bound::New(md(buffer, Some(2), MdOptions::default()), Memory::Buffer);
        self.post(host, Op::Put { from, put });
    }

    fn get(&mut self, host: usize, target: Nid, match_bits: u64) -> BufferId {
        let buffer = self.buffer(host, vec![0; SIZE]);
        let target = ProcessId { nid: target, pid: Pid::LUSTRE };
        let get = Get { source: None, target, portal: PORTAL, match_bits, offset: 0 };
        let into = Bound::New(md(buffer, Some(2), MdOptions::default()), Memory::Buffer);
        self.post(host, Op::Get { into, get });
        buffer
    }

    /// Advances time until nothing happens within a second.
    fn settle(&mut self) {
        let end = self.now + Duration::from_secs(1);
        loop {
            while self.drain() {}
            let next = self.nodes.iter().filter_map(Node::poll_timeout).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            for node in &mut self.nodes {
                node.handle_timeout(self.now);
            }
        }
        self.now = end;
    }

    /// Handles the outputs of the nodes; returns whether there were any.
    fn drain(&mut self) -> bool {
        let mut any = false;
        for host in 0..self.nodes.len() {
            self.nodes[host].handle_lnd_ready(self.now);
            while let Some(output) = self.nodes[host].poll_output() {
                any = true;
                match output {
                    Output::Event { event, .. } => {
                        self.events[host].push(event);
                        if let Some(done) = event.done {
                            self.nodes[host].handle_event_done(self.now, done);
                        }
                    }
                    Output::Allocate { buffer, len } => {
                        self.network.allocate(host, buffer, vec![0; len as usize]);
                    }
                    Output::Release { buffer } => drop(self.network.release(host, buffer)),
                    Output::Notice(_) => {}
                    other => panic!("an ideal network needs no {other:?}"),
                }
            }
        }
        any
    }

    fn count(&self, host: usize, kind: EventKind) -> usize {
        let good = |event: &&Event| event.kind == kind && event.status.is_ok();
        self.events[host].iter().filter(good).count()
    }
}

fn md(buffer: BufferId, threshold: Option<u32>, options: MdOptions) -> Md {
    Md {
        buffer,
        offset: 0,
        len: SIZE as u64,
        threshold,
        options,
        max_size: 0,
        auto_unlink: true,
        user: 0,
    }
}

#[test]
fn many_messages_of_one_connection_are_received_at_once() {
    let mut cluster = Cluster::new(1);
    cluster.add(&[0], &[]);
    cluster.add(&[0], &[]);
    let sinks: Vec<_> = (0..48).map(|n| cluster.attach(1, PORTAL, n, vec![0; SIZE])).collect();
    for n in 0..48 {
        cluster.put(0, nid(0, 1), PORTAL, n, pattern(n as u8));
    }
    cluster.settle();
    assert_eq!(cluster.count(0, EventKind::Ack), 48);
    assert_eq!(cluster.count(1, EventKind::Put), 48);
    let order: Vec<u64> = cluster.events[1].iter().map(|event| event.match_bits).collect();
    assert!(!order.is_sorted(), "payloads end in another order: {order:?}");
    for (n, sink) in sinks.into_iter().enumerate() {
        assert_eq!(cluster.network.release(1, sink), pattern(n as u8), "payload {n}");
    }
    assert!(cluster.network.receiving_max() >= 16, "{}", cluster.network.receiving_max());
}

#[test]
fn gets_fetch_stored_data() {
    let mut cluster = Cluster::new(2);
    cluster.add(&[0], &[]);
    cluster.add(&[0], &[]);
    for n in 0..8 {
        cluster.attach(1, PORTAL, n, pattern(n as u8));
    }
    let fetched: Vec<_> = (0..8).map(|n| cluster.get(0, nid(0, 1), n)).collect();
    cluster.settle();
    assert_eq!((cluster.count(0, EventKind::Reply), cluster.count(1, EventKind::Get)), (8, 8));
    for (n, buffer) in fetched.into_iter().enumerate() {
        assert_eq!(cluster.network.release(0, buffer), pattern(n as u8), "payload {n}");
    }
}

#[test]
fn a_waiting_message_blocks_no_other() {
    let mut cluster = Cluster::new(3);
    cluster.add(&[0], &[]);
    cluster.add(&[0], &[]);
    cluster.nodes[1].service(Time::ZERO, APPLICATION).set_lazy(PORTAL + 1, true).unwrap();
    let quick = cluster.attach(1, PORTAL, 2, vec![0; SIZE]);
    cluster.put(0, nid(0, 1), PORTAL + 1, 1, pattern(1));
    cluster.put(0, nid(0, 1), PORTAL, 2, pattern(2));
    cluster.settle();
    assert_eq!(cluster.count(1, EventKind::Put), 1);
    assert_eq!(cluster.network.release(1, quick), pattern(2));
    let late = cluster.attach(1, PORTAL + 1, 1, vec![0; SIZE]);
    cluster.settle();
    assert_eq!((cluster.count(0, EventKind::Ack), cluster.count(1, EventKind::Put)), (2, 2));
    assert_eq!(cluster.network.release(1, late), pattern(1));
}

#[test]
fn a_router_forwards_between_networks() {
    let mut cluster = Cluster::new(4);
    // Gateways are checked as soon as a route to them is added: the router is added first.
    cluster.add(&[0, 1], &[]);
    cluster.add(&[0], &[(1, nid(0, 0))]);
    cluster.add(&[1], &[(0, nid(1, 0))]);
    let sinks: Vec<_> = (0..32).map(|n| cluster.attach(2, PORTAL, n, vec![0; SIZE])).collect();
    for n in 0..32 {
        cluster.put(1, nid(1, 2), PORTAL, n, pattern(n as u8));
    }
    cluster.settle();
    assert_eq!((cluster.count(1, EventKind::Ack), cluster.count(2, EventKind::Put)), (32, 32));
    for (n, sink) in sinks.into_iter().enumerate() {
        assert_eq!(cluster.network.release(2, sink), pattern(n as u8), "payload {n}");
    }
    assert!(cluster.nodes[0].lnet().stats().route_count >= 64, "PUTs and ACKs were forwarded");
}

#[test]
fn an_unknown_nid_fails_the_operation() {
    let mut cluster = Cluster::new(5);
    cluster.add(&[0], &[]);
    cluster.put(0, nid(0, 9), PORTAL, 1, pattern(1));
    cluster.settle();
    let [event] = &cluster.events[0][..] else { panic!("{:?}", cluster.events[0]) };
    assert!(event.kind == EventKind::Send && event.status.is_err(), "{event:?}");
}

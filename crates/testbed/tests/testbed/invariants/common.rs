//! Nodes in namespaces and their operations, for all tests.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use fulmar_base::Errno;
use fulmar_lnet::views::{self, Stats};
use fulmar_lnet::{
    EventKind, FaultEffect, FaultKind, FaultRule, Lnet, MdOptions, MessageTypes, Put, RouteConfig,
};
use fulmar_lnet_wire::{MTU, Net, NetType, Nid, NidMatch, ProcessId};
use fulmar_net::exchange::{Exchange, Target, anyone, pattern};
use fulmar_net::{Admin, Buffer, Descriptor, NiAddress, NiOptions, Options};
use fulmar_socklnd::AcceptMode;
use fulmar_testbed::lab::{Host, Lab, Resident, Switch};
use fulmar_testbed::witness::Terms;

pub(crate) use super::events::{Events, until};

/// The portal of all operations.
pub(crate) const PORTAL: u32 = 41;
/// The match bits of a buffer of 1 MiB that every node offers.
pub(crate) const ROOM: u64 = 1;

/// The configuration of a node.
#[derive(Clone)]
pub(crate) struct Plan {
    /// The switches of its interfaces; switch n is network `tcp`n.
    pub(crate) at: Vec<usize>,
    pub(crate) options: Options,
    pub(crate) terms: Terms,
    pub(crate) routes: Vec<RouteConfig>,
    pub(crate) peer_credits: u32,
}

impl Plan {
    /// Returns a node at these switches, without failures.
    pub(crate) fn at(at: &[usize]) -> Self {
        let mut options = Options::default();
        options.config.socklnd.accept = AcceptMode::All;
        let terms = Terms { calm: true, ..Terms::default() };
        Self { at: at.to_vec(), options, terms, routes: Vec::new(), peer_credits: 8 }
    }

    /// Tells the witness to expect failures.
    pub(crate) fn troubled(mut self) -> Self {
        self.terms.calm = false;
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Holds credits until the peer has acknowledged a message, as a kernel does.
    pub(crate) fn acknowledged(self) -> Self {
        self.with(|options| options.config.socklnd.zc_min_payload = Some(1))
    }

    pub(crate) fn credits(mut self, credits: u32) -> Self {
        (self.peer_credits, self.terms.peer_credits) = (credits, credits);
        self
    }

    pub(crate) fn route(mut self, net: usize, gateway: Nid) -> Self {
        let (net, hops, priority) = (self::net(net), None, 0);
        self.routes.push(RouteConfig { hops, priority, ..RouteConfig::new(net, gateway) });
        self
    }
}

pub(crate) fn net(switch: usize) -> Net {
    Net::new(NetType::TCP, switch as u16)
}

/// Returns the address of an interface of a node: by the switch, its index among the interfaces of
/// the node there, and the number of the node.
fn ip(switch: usize, nth: usize, node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, switch as u8 + 1, nth as u8, node as u8 + 1)
}

/// Returns the NID of that interface.
pub(crate) fn nid(switch: usize, nth: usize, node: usize) -> Nid {
    Nid::of_ip(net(switch), ip(switch, nth, node).into())
}

/// Nodes, and the switches between them.
pub(crate) struct World {
    pub(crate) members: Vec<Member>,
    pub(crate) switches: Vec<Switch>,
    /// Last, so that it is dropped last.
    lab: Lab,
}

/// A node.
pub(crate) struct Member {
    pub(crate) resident: Resident,
    exchange: Exchange,
    pub(crate) nids: Vec<Nid>,
    number: usize,
    pub(crate) room: Offer,
}

/// Memory that a node offers, and its events.
pub(crate) struct Offer {
    pub(crate) buffer: Buffer,
    pub(crate) events: Events,
}

/// An operation in progress.
pub(crate) struct Begun {
    pub(crate) buffer: Buffer,
    pub(crate) header_data: u64,
    pub(crate) events: Events,
}

impl World {
    /// Starts these nodes. Without network namespaces returns `None` and prints a notice.
    pub(crate) fn new(plans: &[Plan]) -> Option<Self> {
        let lab = Lab::hosts_or_not_run()?;
        let count = plans.iter().flat_map(|plan| &plan.at).max().map_or(1, |last| last + 1);
        let switches = (0..count).map(|n| lab.switch(&format!("s{n}")).unwrap()).collect();
        let mut world = Self { members: Vec::new(), switches, lab };
        for plan in plans {
            let member = world.member(plan);
            world.members.push(member);
        }
        // A gateway is pinged at once: one that does not run yet would be down until the next ping.
        for (plan, member) in plans.iter().zip(&world.members) {
            for route in &plan.routes {
                member.change(|admin| admin.route_add(*route));
            }
        }
        Some(world)
    }

    fn member(&self, plan: &Plan) -> Member {
        let number = self.members.len();
        let host = self.host(number, &plan.at);
        let mut options = plan.options.clone();
        let mut nids = Vec::new();
        for (switch, nth) in placed(&plan.at) {
            let ip = IpAddr::V4(ip(switch, nth, number));
            let mut ni = NiOptions { conns_per_peer: 1, net: net(switch), ..NiOptions::at(ip) };
            (ni.address, ni.tunables.peer_credits) = (NiAddress::Ip(ip), plan.peer_credits);
            options.nis.push(ni);
            nids.push(nid(switch, nth, number));
        }
        let resident = Resident::start(&host, options, plan.terms).unwrap();
        let exchange = Exchange::open(resident.node()).unwrap();
        let options = MdOptions::OP_PUT.with(MdOptions::OP_GET).with(MdOptions::MANAGE_REMOTE);
        let room = offer(&resident, &exchange, ROOM, MTU as usize, |made| made.options(options));
        Member { resident, exchange, nids, number, room }
    }

    /// Creates a host with interfaces at these switches, without a node.
    pub(crate) fn host(&self, number: usize, at: &[usize]) -> Host {
        let host = self.lab.host(&format!("h{number}")).unwrap();
        for (index, (switch, nth)) in placed(at).into_iter().enumerate() {
            let (interface, address) = (format!("eth{index}"), ip(switch, nth, number));
            self.switches[switch].connect(&host, &interface, None).unwrap();
            host.address(&interface, &format!("{address}/16")).unwrap();
            if at.iter().filter(|other| **other == switch).count() > 1 {
                let network = format!("10.{}.0.0/16", switch + 1);
                let route = (IpAddr::V4(address), &*network);
                host.leave_by(&interface, route, 100 + index as u32).unwrap();
            }
        }
        host
    }

    /// Ends the test: every node must become idle and must have kept every invariant.
    pub(crate) fn end(self) {
        for Member { resident, number, .. } in &self.members {
            assert_eq!(resident.judged(), None, "node {number}");
        }
    }
}

/// Numbers the interfaces at each switch.
fn placed(at: &[usize]) -> Vec<(usize, usize)> {
    let before = |index: usize| at[..index].iter().filter(|other| **other == at[index]).count();
    at.iter().enumerate().map(|(index, switch)| (*switch, before(index))).collect()
}

/// Attaches memory for every process, with these match bits.
fn offer(
    resident: &Resident,
    exchange: &Exchange,
    bits: u64,
    len: usize,
    change: impl FnOnce(Descriptor) -> Descriptor,
) -> Offer {
    let buffer = Buffer::new(len);
    let made = change(Descriptor::over(&buffer).options(MdOptions::OP_PUT));
    let attach = |user| exchange.service().attach(PORTAL, anyone(bits), made.user(user));
    let events = Events(resident.act(|_| exchange.begin(attach)).unwrap());
    Offer { buffer, events }
}

impl Member {
    pub(crate) fn offer(
        &self,
        bits: u64,
        len: usize,
        change: impl FnOnce(Descriptor) -> Descriptor,
    ) -> Offer {
        offer(&self.resident, &self.exchange, bits, len, change)
    }

    /// Starts a PUT of some bytes, which differ each time.
    pub(crate) fn put(&self, target: Nid, bits: u64, len: usize) -> Begun {
        self.put_like(target, bits, len, |put| put)
    }

    pub(crate) fn put_like(
        &self,
        target: Nid,
        bits: u64,
        len: usize,
        change: impl FnOnce(Put) -> Put,
    ) -> Begun {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let header_data = NEXT.fetch_add(1, Ordering::Relaxed);
        let (buffer, descriptor) = once(len);
        buffer.write_at(0, &pattern(header_data, len));
        let put = change(Put { header_data, ..at(target, bits).put() });
        let service = self.exchange.service();
        let begin = |user| service.put(descriptor.user(user), put);
        let events = Events(self.resident.act(|_| self.exchange.begin(begin)).unwrap());
        Begun { buffer, header_data: put.header_data, events }
    }

    /// Starts a GET of some bytes from the buffer of a node.
    pub(crate) fn get(&self, target: Nid, len: usize) -> Begun {
        let (buffer, descriptor) = once(len);
        let service = self.exchange.service();
        let begin = |user| service.get(descriptor.user(user), at(target, ROOM).get());
        let events = Events(self.resident.act(|_| self.exchange.begin(begin)).unwrap());
        Begun { buffer, header_data: 0, events }
    }

    /// Unlinks the descriptor of an operation.
    pub(crate) fn unlink(&self, begun: &Begun) {
        self.resident.act(|_| begun.events.unlink());
    }

    /// PUTs to the buffer of a node, and requires that all data arrives unchanged.
    pub(crate) fn put_well(&self, to: &Self, len: usize) {
        self.put_well_to(to, to.nids[0], len, None);
    }

    pub(crate) fn put_well_to(&self, to: &Self, target: Nid, len: usize, source: Option<Nid>) {
        let begun = self.put_like(target, ROOM, len, |put| Put { source, ..put });
        self.ends_well(to, len, &begun);
    }

    fn ends_well(&self, to: &Self, len: usize, begun: &Begun) {
        // First the event of an operation that fails.
        begun.events.wait(EventKind::Send);
        let event = to.room.events.wait(EventKind::Put);
        assert_eq!((event.mlength, event.header_data), (len as u32, begun.header_data));
        assert!(to.room.buffer.to_vec(0, len) == pattern(begun.header_data, len), "{len} bytes");
        begun.events.wait(EventKind::Ack);
        self.unlink(begun);
    }

    /// GETs from the buffer of a node, and requires the data of the last PUT.
    pub(crate) fn get_well(&self, to: &Self, len: usize) {
        let begun = self.get(to.nids[0], len);
        begun.events.wait(EventKind::Send);
        begun.events.wait(EventKind::Reply);
        assert!(begun.buffer.to_vec(0, len) == to.room.buffer.to_vec(0, len), "{len} bytes");
        to.room.events.wait(EventKind::Get);
        self.unlink(&begun);
    }

    /// Makes the portal lazy: messages without a match wait.
    pub(crate) fn set_lazy(&self) {
        self.resident.act(|_| self.exchange.service().set_lazy(PORTAL, true)).unwrap();
    }

    /// Changes the configuration, on the host of the node.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&Admin) -> Result<R, Errno>) -> R {
        self.resident.act(|node| change(&node.admin())).unwrap()
    }

    pub(crate) fn look<R>(&self, look: impl FnOnce(&Lnet) -> R) -> R {
        self.resident.node().look(|machine| look(machine.lnet()))
    }

    pub(crate) fn stats(&self) -> Stats {
        self.look(|lnet| lnet.stats())
    }

    /// Returns the local interfaces, without `0@lo`.
    pub(crate) fn nis(&self) -> Vec<views::Ni> {
        let all = self.look(|lnet| lnet.nis());
        all.into_iter().filter(|ni| !ni.nid.is_loopback()).collect()
    }

    /// Returns the state of a NID of another node.
    pub(crate) fn peer_ni(&self, nid: Nid) -> views::PeerNi {
        let all = self.look(|lnet| lnet.peers()).into_iter().flat_map(|peer| peer.nis);
        let mut found = all.filter(|ni| ni.nid == nid);
        found.next().unwrap_or_else(|| panic!("{nid} is unknown"))
    }

    /// Returns the known NIDs of another node.
    pub(crate) fn known(&self, nid: Nid) -> Vec<Nid> {
        let peers = self.look(|lnet| lnet.peers());
        let found = peers.iter().find(|peer| peer.nis.iter().any(|ni| ni.nid == nid));
        found.map_or_else(Vec::new, |peer| peer.nis.iter().map(|ni| ni.nid).collect())
    }

    pub(crate) fn fault(&self, rule: FaultRule) {
        self.change(|admin| admin.fault_add(rule));
    }

    /// Removes the rules of a kind.
    pub(crate) fn remove_rules(&self, kind: FaultKind) {
        let gone = self.change(|admin| admin.fault_del(kind, NidMatch::Any, NidMatch::Any));
        assert!(gone > 0, "there was a rule");
    }

    /// Returns how many PUTs each interface has sent.
    pub(crate) fn puts_sent(&self) -> Vec<u64> {
        self.nis().iter().map(|ni| ni.traffic.sent.put).collect()
    }
}

/// Returns memory and its descriptor for one request and one answer.
fn once(len: usize) -> (Buffer, Descriptor) {
    let buffer = Buffer::new(len);
    let descriptor = Descriptor::over(&buffer).times(2);
    (buffer, descriptor)
}

fn at(target: Nid, match_bits: u64) -> Target {
    Target { process: ProcessId::lustre(target), portal: PORTAL, match_bits }
}

/// Returns a rule for PUTs of applications.
pub(crate) fn puts(rate: u32, effect: FaultEffect) -> FaultRule {
    let (any, types) = (NidMatch::Any, MessageTypes::PUT);
    // Portal 0 belongs to discovery.
    let portals = !1;
    FaultRule { source: any, target: any, local: any, portals, types, rate, interval: 0, effect }
}

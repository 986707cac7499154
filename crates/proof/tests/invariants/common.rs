//! What the stories have in common: nodes in namespaces, and what they do.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use fulmar_base::Time;
use fulmar_lnet::views::{self, Stats};
use fulmar_lnet::{
    EventKind, FaultEffect, FaultKind, FaultRule, Get, Lnet, Md, MdId, MdOptions, Me, MessageTypes,
    Put, RouteConfig,
};
use fulmar_lnet_wire::{MTU, Net, NetType, Nid, NidMatch, ProcessId};
use fulmar_net::{Buffer, NiAddress, NiOptions, Options};
use fulmar_proof::exchange::{pattern, whole};
use fulmar_proof::lab::{Host, Lab, Resident, Switch};
use fulmar_proof::witness::Terms;
use fulmar_socklnd::AcceptMode;

use crate::events::recorder;
pub(crate) use crate::events::{Events, until};

/// Where everything is stored and fetched.
pub(crate) const PORTAL: u32 = 41;
/// Match bits that every node has room for, of up to 1 MiB.
const ROOM: u64 = 1;

/// A node to be.
#[derive(Clone)]
pub(crate) struct Plan {
    /// The switches that its interfaces are at; switch n is network `tcp`n.
    pub(crate) at: Vec<usize>,
    pub(crate) options: Options,
    pub(crate) terms: Terms,
    pub(crate) routes: Vec<RouteConfig>,
    pub(crate) peer_credits: u32,
}

impl Plan {
    /// A calm node at these switches.
    pub(crate) fn at(at: &[usize]) -> Self {
        let mut options = Options::default();
        options.config.socklnd.accept = AcceptMode::All;
        let terms = Terms { calm: true, ..Terms::default() };
        Self { at: at.to_vec(), options, terms, routes: Vec::new(), peer_credits: 8 }
    }

    /// Something will go wrong.
    pub(crate) fn troubled(mut self) -> Self {
        self.terms.calm = false;
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Messages are over for their sender when the peer has them, as a kernel's are.
    pub(crate) fn acknowledged(self) -> Self {
        self.with(|options| options.config.socklnd.zc_min_payload = Some(1))
    }

    pub(crate) fn credits(mut self, credits: u32) -> Self {
        (self.peer_credits, self.terms.peer_credits) = (credits, credits);
        self
    }

    pub(crate) fn route(mut self, net: usize, gateway: Nid) -> Self {
        let (net, hops, priority) = (self::net(net), None, 0);
        self.routes.push(RouteConfig { net, gateway, hops, priority });
        self
    }
}

pub(crate) fn net(switch: usize) -> Net {
    Net::new(NetType::TCP, switch as u16)
}

/// The address of an interface: that of a node at a switch, and as how manieth of its there.
fn ip(switch: usize, nth: usize, node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, switch as u8 + 1, nth as u8, node as u8 + 1)
}

/// The NID of that interface.
pub(crate) fn nid(switch: usize, nth: usize, node: usize) -> Nid {
    Nid::of_ip(net(switch), ip(switch, nth, node).into())
}

/// Nodes, and what joins them.
pub(crate) struct World {
    pub(crate) members: Vec<Member>,
    pub(crate) switches: Vec<Switch>,
    /// Last, so that it goes last.
    lab: Lab,
}

/// A node.
pub(crate) struct Member {
    pub(crate) resident: Resident,
    pub(crate) nids: Vec<Nid>,
    number: usize,
    room: Offer,
}

/// Memory that a node offers, and its events.
pub(crate) struct Offer {
    pub(crate) buffer: Buffer,
    pub(crate) events: Events,
}

/// An operation that was begun.
pub(crate) struct Begun {
    pub(crate) md: MdId,
    pub(crate) buffer: Buffer,
    pub(crate) header_data: u64,
    pub(crate) events: Events,
}

impl World {
    /// Makes these nodes. `None`, said loudly, where there can be no namespaces.
    pub(crate) fn new(plans: &[Plan]) -> Option<Self> {
        // No node of another process takes part.
        let lab = Lab::or_not_run(Path::new("/nonexistent"))?;
        let count = plans.iter().flat_map(|plan| &plan.at).max().map_or(1, |last| last + 1);
        let switches = (0..count).map(|n| lab.switch(&format!("s{n}")).unwrap()).collect();
        let mut world = Self { members: Vec::new(), switches, lab };
        for plan in plans {
            let member = world.member(plan);
            world.members.push(member);
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
        for route in &plan.routes {
            resident
                .act(|node| node.call(|lnet, now| lnet.route_add(now, *route)).unwrap())
                .unwrap();
        }
        let room = offer(&resident, ROOM, MTU as usize, |md| Md {
            options: MdOptions::OP_PUT.with(MdOptions::OP_GET).with(MdOptions::MANAGE_REMOTE),
            ..md
        });
        Member { resident, nids, number, room }
    }

    /// Makes a host with interfaces at these switches, and no node on it.
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

    /// Ends the story: every node comes to rest, and kept every invariant.
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

/// Opens memory to everybody who sends these bits.
fn offer(resident: &Resident, bits: u64, len: usize, change: impl FnOnce(Md) -> Md) -> Offer {
    let (handler, events) = recorder();
    let buffer = resident.node().allocate(len);
    let made = change(Md { options: MdOptions::OP_PUT, ..whole(&buffer) });
    let me = Me {
        match_id: ProcessId::ANY,
        match_bits: bits,
        ignore_bits: 0,
        unlink: true,
        position: fulmar_lnet::MePosition::After,
    };
    let md = resident.act(|node| {
        let me = node.me_attach(PORTAL, me).unwrap();
        node.md_attach(me, made, handler).unwrap()
    });
    resident.witness().declare(md, &made);
    Offer { buffer, events }
}

impl Member {
    pub(crate) fn offer(&self, bits: u64, len: usize, change: impl FnOnce(Md) -> Md) -> Offer {
        offer(&self.resident, bits, len, change)
    }

    /// Begins to store so many bytes, which differ each time.
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
        self.put_after(|_, _| (), target, bits, len, change)
    }

    /// Does something to the machine and then puts; nothing that arrives comes between.
    fn put_after(
        &self,
        first: impl FnOnce(&mut Lnet, Time),
        target: Nid,
        bits: u64,
        len: usize,
        change: impl FnOnce(Put) -> Put,
    ) -> Begun {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let header_data = NEXT.fetch_add(1, Ordering::Relaxed);
        let (buffer, md, events) = self.bind(len);
        buffer.write_at(0, &pattern(header_data, len));
        let (ack, source, target, offset) = (true, None, ProcessId::lustre(target), 0);
        let put = change(Put {
            md,
            ack,
            source,
            target,
            portal: PORTAL,
            match_bits: bits,
            offset,
            header_data,
        });
        self.resident.witness().begins(md, &(&put).into());
        let done = self.call(|lnet, now| {
            first(lnet, now);
            lnet.put(now, put)
        });
        done.unwrap();
        Begun { md, buffer, header_data: put.header_data, events }
    }

    /// Begins to fetch so many bytes of the room of a node.
    pub(crate) fn get(&self, target: Nid, len: usize) -> Begun {
        let (buffer, md, events) = self.bind(len);
        let (source, target, offset) = (None, ProcessId::lustre(target), 0);
        let get = Get { md, source, target, portal: PORTAL, match_bits: ROOM, offset };
        self.resident.witness().begins(md, &(&get).into());
        self.resident.act(|node| node.get(get)).unwrap();
        Begun { md, buffer, header_data: 0, events }
    }

    fn bind(&self, len: usize) -> (Buffer, MdId, Events) {
        let (handler, events) = recorder();
        let buffer = self.resident.node().allocate(len.max(1));
        // One request and one answer.
        let (len, threshold) = (len as u64, Some(2));
        let made = Md { len, threshold, auto_unlink: true, ..whole(&buffer) };
        let md = self.resident.act(|node| node.md_bind(made, handler)).unwrap();
        self.resident.witness().declare(md, &made);
        (buffer, md, events)
    }

    /// Unlinks a descriptor.
    pub(crate) fn unlink(&self, md: MdId) {
        self.resident.witness().unlinks(md);
        // It may be gone already.
        let _ = self.resident.act(|node| node.md_unlink(md));
    }

    /// Stores in the room of a node, and requires that all of it arrives as it was sent.
    pub(crate) fn put_well(&self, to: &Self, len: usize) {
        self.put_well_to(to, to.nids[0], len, None);
    }

    pub(crate) fn put_well_to(&self, to: &Self, target: Nid, len: usize, source: Option<Nid>) {
        let begun = self.put_like(target, ROOM, len, |put| Put { source, ..put });
        self.ends_well(to, len, &begun);
    }

    /// The same right after something else is done to the machine.
    pub(crate) fn put_well_after(
        &self,
        first: impl FnOnce(&mut Lnet, Time),
        to: &Self,
        len: usize,
    ) {
        let begun = self.put_after(first, to.nids[0], ROOM, len, |put| put);
        self.ends_well(to, len, &begun);
    }

    fn ends_well(&self, to: &Self, len: usize, begun: &Begun) {
        let event = to.room.events.wait(EventKind::Put);
        assert_eq!((event.mlength, event.header_data), (len as u32, begun.header_data));
        assert!(to.room.buffer.to_vec(0, len) == pattern(begun.header_data, len), "{len} bytes");
        begun.events.wait(EventKind::Ack);
        self.unlink(begun.md);
    }

    /// Fetches what was stored in the room of a node last, and requires that it is that.
    pub(crate) fn get_well(&self, to: &Self, len: usize) {
        let begun = self.get(to.nids[0], len);
        begun.events.wait(EventKind::Reply);
        assert!(begun.buffer.to_vec(0, len) == to.room.buffer.to_vec(0, len), "{len} bytes");
        to.room.events.wait(EventKind::Get);
        self.unlink(begun.md);
    }

    /// Has the portal keep what nobody takes, until somebody does.
    pub(crate) fn set_lazy(&self) {
        self.resident.act(|node| node.set_lazy(PORTAL, true)).unwrap();
    }

    pub(crate) fn call<R>(&self, call: impl FnOnce(&mut Lnet, Time) -> R) -> R {
        self.resident.act(|node| node.call(call)).unwrap()
    }

    pub(crate) fn look<R>(&self, look: impl FnOnce(&Lnet) -> R) -> R {
        self.resident.node().with_machine(|machine| look(machine.lnet()))
    }

    pub(crate) fn stats(&self) -> Stats {
        self.look(|lnet| lnet.stats())
    }

    /// Returns our interfaces, without `0@lo`.
    pub(crate) fn nis(&self) -> Vec<views::Ni> {
        let all = self.look(|lnet| lnet.nis());
        all.into_iter().filter(|ni| !ni.nid.is_loopback()).collect()
    }

    /// Returns what is known of a NID of another node.
    pub(crate) fn peer_ni(&self, nid: Nid) -> views::PeerNi {
        let all = self.look(|lnet| lnet.peers()).into_iter().flat_map(|peer| peer.nis);
        let mut found = all.filter(|ni| ni.nid == nid);
        found.next().unwrap_or_else(|| panic!("{nid} is not known"))
    }

    /// Returns the NIDs by which another node is known.
    pub(crate) fn known(&self, nid: Nid) -> Vec<Nid> {
        let peers = self.look(|lnet| lnet.peers());
        let found = peers.iter().find(|peer| peer.nis.iter().any(|ni| ni.nid == nid));
        found.map_or_else(Vec::new, |peer| peer.nis.iter().map(|ni| ni.nid).collect())
    }

    pub(crate) fn fault(&self, rule: FaultRule) {
        self.call(|lnet, now| lnet.fault_add(now, rule)).unwrap();
    }

    /// Removes the rules of a kind.
    pub(crate) fn heal(&self, kind: FaultKind) {
        let gone = self.call(|lnet, now| lnet.fault_del(now, kind, NidMatch::Any, NidMatch::Any));
        assert!(gone > 0, "there was a rule");
    }

    /// Returns how many PUTs each interface has sent.
    pub(crate) fn puts_sent(&self) -> Vec<u64> {
        self.nis().iter().map(|ni| ni.traffic.sent.put).collect()
    }
}

/// A rule about PUTs of applications.
pub(crate) fn puts(rate: u32, effect: FaultEffect) -> FaultRule {
    let (any, types) = (NidMatch::Any, MessageTypes::PUT);
    // Portal 0 is that of discovery.
    let portals = !1;
    FaultRule { source: any, target: any, local: any, portals, types, rate, interval: 0, effect }
}

//! What routers may do, and who may use them. Guards 19, 20, 22 and 23 of lnet-behaviour §17.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnet::Notice as Lnet;
use fulmar_lnet::views::{Pool, RoutingState};
use fulmar_lnet_wire::header::HeaderForm;
use fulmar_lnet_wire::{Body, Handle, Header, RESERVED_PORTAL};

use fulmar_node::Notice;

use super::{Verdict, require};
use crate::options::Options;
use crate::signal::Signal;
use crate::world::World;
use crate::{HostId, TcpId};

const CHECKER: &str = "routers";
/// Everybody asks a router every 60 s what it is, and takes it for dead 150 s after it was asked.
const EVERYBODY_KNOWS: Duration = Duration::from_secs(60 + 150 + 30);
/// The most that a small router buffer holds.
const SMALL: u32 = 4096;

/// What was given to routers and what came of it.
#[derive(Debug)]
pub(crate) struct Routers {
    routers: Vec<HostId>,
    router_credits: u32,
    /// The routers that have reason to think an interface broken: a fault, or a PUT of their own
    /// that nobody answered. `None` for all.
    in_doubt: Option<BTreeSet<HostId>>,
    /// The headers of messages for others, as each router was sent them.
    given: BTreeMap<HostId, BTreeSet<Vec<u8>>>,
    /// Who brought each request to its target.
    bringers: BTreeMap<(HostId, Handle), BTreeSet<HostId>>,
    /// What is being written: for forwarded messages the class of their buffers.
    writing: BTreeMap<(HostId, TcpId), VecDeque<Option<usize>>>,
    /// Since when a router does not forward, or not for long any more.
    closed: BTreeMap<HostId, Time>,
    /// When the life of each node began, unless it was with the run.
    born: BTreeMap<HostId, Time>,
}

impl Routers {
    pub(super) fn new(options: &Options) -> Option<Self> {
        let rails = options.rails.as_ref().filter(|rails| !rails.routers.is_empty())?;
        let own = rails.routing.peer_buffer_credits;
        Some(Self {
            routers: rails.routers.clone(),
            router_credits: if own > 0 { own } else { options.peer_credits },
            in_doubt: options.faults.is_none().then(BTreeSet::new),
            given: BTreeMap::new(),
            bringers: BTreeMap::new(),
            writing: BTreeMap::new(),
            closed: BTreeMap::new(),
            born: BTreeMap::new(),
        })
    }

    pub(super) fn observe(&mut self, world: &World, signal: &Signal) -> Verdict {
        match signal {
            Signal::Wrote { host, peer, tcp, header, .. } => {
                let from = world.host_of(header.source);
                let forwards = from != Some(*host);
                let class = forwards.then(|| class(header.payload_len));
                self.writing.entry((*host, *tcp)).or_default().push_back(class);
                if forwards {
                    self.forwarded_as_it_came(world, *host, *peer, header)?;
                } else {
                    self.responses_go_back_as_requests_came(*host, *peer, header)?;
                    self.closed_routers_are_left_alone(world, *host, *peer, header)?;
                }
                self.take_note(world, *host, *peer, header);
                Ok(())
            }
            Signal::Taken { host, tcp } => {
                if let Some(writing) = self.writing.get_mut(&(*host, *tcp)) {
                    writing.pop_front();
                }
                Ok(())
            }
            Signal::Ended { host, tcp } => {
                self.writing.remove(&(*host, *tcp));
                Ok(())
            }
            Signal::Notice { host, notice: Notice::Lnet(Lnet::ResponseTimeout { .. }) } => {
                if let Some(hosts) = &mut self.in_doubt {
                    hosts.insert(*host);
                }
                Ok(())
            }
            Signal::Crashed { host } => {
                self.writing.retain(|(one, _), _| one != host);
                self.given.remove(host);
                self.closed.remove(host);
                self.born.insert(*host, world.now());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn take_note(&mut self, world: &World, host: HostId, peer: HostId, header: &Header) {
        if world.host_of(header.target) != Some(peer) {
            self.given.entry(peer).or_default().insert(bytes(header));
            return;
        }
        if let Body::Put { ack: handle, .. } | Body::Get { reply: handle, .. } = header.body {
            self.bringers.entry((peer, handle)).or_default().insert(host);
        }
    }

    /// 19: only routers forward, only what they were given, and not a bit of it is changed. On the
    /// network of the target it goes to the target.
    fn forwarded_as_it_came(
        &self,
        world: &World,
        host: HostId,
        peer: HostId,
        header: &Header,
    ) -> Verdict {
        let routes = self.routers.contains(&host);
        let given = || self.given.get(&host).into_iter().flatten();
        // Where an interface of the target is broken, a router may choose another.
        let same = |given: &Vec<u8>| {
            let given = Header::decode(given, HeaderForm::Small);
            given.is_ok_and(|given| {
                let same_host = world.host_of(given.target) == world.host_of(header.target);
                Header { target: header.target, ..given } == *header && same_host
            })
        };
        let exactly = given().any(|given| *given == bytes(header));
        let doubts = self.in_doubt.as_ref().is_none_or(|hosts| hosts.contains(&host));
        require(routes && (exactly || (doubts && given().any(same))), CHECKER, || {
            format!("{host} forwards what it never was given: {header:?}")
        })?;
        let near = world.nids(host).iter().any(|nid| nid.net() == header.target.net());
        let arrives = world.host_of(header.target) == Some(peer);
        let gone = world.node(host).is_none_or(|node| {
            !node.lnet().nis().iter().any(|ni| ni.nid.net() == header.target.net())
        });
        require(!near || arrives || gone, CHECKER, || {
            format!("{host} is on the network of its target, and gives {peer} {header:?}")
        })
    }

    /// 22: an ACK or a REPLY goes to whom the request came from.
    fn responses_go_back_as_requests_came(
        &self,
        host: HostId,
        peer: HostId,
        header: &Header,
    ) -> Verdict {
        let (Body::Ack { handle, .. } | Body::Reply { handle }) = header.body else {
            return Ok(());
        };
        let bringers = self.bringers.get(&(host, handle));
        require(bringers.is_some_and(|bringers| bringers.contains(&peer)), CHECKER, || {
            format!("{host} answers by way of {peer} what {bringers:?} brought: {header:?}")
        })
    }

    /// 23: nobody uses a router that does not forward, once everybody has had time to ask it.
    fn closed_routers_are_left_alone(
        &self,
        world: &World,
        host: HostId,
        peer: HostId,
        header: &Header,
    ) -> Verdict {
        let asks = matches!(header.body, Body::Put { portal, .. } | Body::Get { portal, .. }
            if portal != RESERVED_PORTAL);
        let Some(since) = self.closed.get(&peer).filter(|_| asks) else { return Ok(()) };
        let since = self.born.get(&host).map_or(*since, |born| *since.max(born));
        let fair = world.host_of(header.target) == Some(peer)
            || world.now().since(since) <= EVERYBODY_KNOWS
            || world.is_paused(host)
            || world.is_paused(peer);
        require(fair, CHECKER, || {
            format!("{host} still uses {peer}, which has not forwarded since {since}: {header:?}")
        })
    }

    /// Judges a router when it has been told everything.
    pub(super) fn settled(&mut self, world: &World, host: HostId) -> Verdict {
        if !self.routers.contains(&host) {
            return Ok(());
        }
        let Some(node) = world.node(host) else { return Ok(()) };
        let routing = node.lnet().routing();
        match routing.state {
            RoutingState::Enabled | RoutingState::Starting => {
                self.closed.remove(&host);
            }
            _ => drop(self.closed.entry(host).or_insert(world.now())),
        }
        self.buffers_are_within_their_pools(world, host, &routing.pools)
    }

    /// 20, and 1 and 2 of pools: memory stays within what is configured, each message has a buffer
    /// of its class, and credits say how many are taken.
    fn buffers_are_within_their_pools(
        &self,
        world: &World,
        host: HostId,
        pools: &[Pool; 3],
    ) -> Verdict {
        let mut taken = [0; 3];
        let own = self.writing.iter().filter(|((one, _), _)| *one == host);
        for class in own.flat_map(|(_, writing)| writing).flatten() {
            taken[*class] += 1;
        }
        for (class, pool) in pools.iter().enumerate() {
            let used = i64::from(pool.buffers) - pool.credits;
            let sound = used >= taken[class]
                && pool.credits_min <= pool.credits
                && pool.credits <= i64::from(pool.buffers)
                && pool.allocated <= pool.buffers;
            // A router that stands still has not been told what its sockets took.
            require(sound || world.is_paused(host), CHECKER, || {
                let taken = taken[class];
                format!("{host}: {taken} messages of class {class} are being written: {pool:?}")
            })?;
        }
        let there = world.router_buffers(host);
        let said = [pools[1].allocated as usize, pools[2].allocated as usize];
        require(there == said, CHECKER, || {
            format!("{host} has {there:?} small and large buffers, and says {said:?}")
        })
    }

    /// 1, of routers: every pool and every router credit is whole.
    pub(super) fn idle(&self, world: &World) -> Verdict {
        for host in &self.routers {
            let Some(lnet) = world.node(*host).map(|node| node.lnet()) else { continue };
            for pool in lnet.routing().pools {
                let whole = pool.credits == i64::from(pool.buffers);
                require(whole, "idle", || format!("{host}: {pool:?}"))?;
            }
            let local: BTreeSet<_> = lnet.nis().iter().map(|ni| ni.net).collect();
            for ni in lnet.peers().into_iter().flat_map(|peer| peer.nis) {
                let whole = ni.router_credits == i64::from(self.router_credits);
                require(whole || !local.contains(&ni.nid.net()), "idle", || {
                    format!("{host}: {} router credits of {}", ni.router_credits, ni.nid)
                })?;
            }
        }
        Ok(())
    }
}

/// 20: nothing needs a tiny buffer, up to a page a small one.
fn class(payload: u32) -> usize {
    usize::from(payload > 0) + usize::from(payload > SMALL)
}

fn bytes(header: &Header) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.encode(HeaderForm::Small, &mut bytes);
    bytes
}

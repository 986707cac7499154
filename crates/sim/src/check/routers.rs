//! Checks routers and their use: invariants 19, 20, 22 and 23 of lnet-behaviour §17.

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
/// Nodes ping a router every 60 s, and treat it as down 150 s after an unanswered ping.
const PINGS_DONE: Duration = Duration::from_secs(60 + 150 + 30);
/// The size of a small router buffer, in bytes.
const SMALL: u32 = 4096;

/// The messages that routers received and forwarded.
#[derive(Debug)]
pub(crate) struct Routers {
    routers: Vec<HostId>,
    router_credits: u32,
    /// The routers that may treat an interface as unhealthy, after a fault or an unanswered PUT of
    /// their own. `None` for all.
    suspicious: Option<BTreeSet<HostId>>,
    /// The headers of the messages that each router received for forwarding.
    given: BTreeMap<HostId, BTreeSet<Vec<u8>>>,
    /// The last hop of each request to its target.
    last_hops: BTreeMap<(HostId, Handle), BTreeSet<HostId>>,
    /// Messages being written; for forwarded ones the class of their buffer.
    writing: BTreeMap<(HostId, TcpId), VecDeque<Option<usize>>>,
    /// Since when a router does not forward, or is stopping.
    closed: BTreeMap<HostId, Time>,
    /// When each node restarted, if it did.
    restarted: BTreeMap<HostId, Time>,
}

impl Routers {
    pub(super) fn new(options: &Options) -> Option<Self> {
        let rails = options.rails.as_ref().filter(|rails| !rails.routers.is_empty())?;
        let own = rails.routing.peer_buffer_credits;
        Some(Self {
            routers: rails.routers.clone(),
            router_credits: if own > 0 { own } else { options.peer_credits },
            suspicious: options.faults.is_none().then(BTreeSet::new),
            given: BTreeMap::new(),
            last_hops: BTreeMap::new(),
            writing: BTreeMap::new(),
            closed: BTreeMap::new(),
            restarted: BTreeMap::new(),
        })
    }

    pub(super) fn observe(&mut self, world: &World, signal: &Signal) -> Verdict {
        match signal {
            Signal::Wrote { host, peer, tcp, header, .. } => {
                let from = world.host_of(header.source);
                let forwards = from != Some(*host);
                let class = forwards.then(|| class(header.payload_len));
                self.writing.entry((*host, *tcp)).or_default().push_back(class);
                // What hostile hosts sent is not seen here: neither before a router nor before its
                // response.
                let hostile = |nid| world.is_hostile_nid(nid);
                if hostile(header.source) || (hostile(header.target) && !forwards) {
                    self.record(world, *host, *peer, header);
                    return Ok(());
                }
                if forwards {
                    self.forwarded_unchanged(world, *host, *peer, header)?;
                } else {
                    self.responses_take_the_reverse_route(world, *host, *peer, header)?;
                    self.closed_routers_are_not_used(world, *host, *peer, header)?;
                }
                self.record(world, *host, *peer, header);
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
                if let Some(hosts) = &mut self.suspicious {
                    hosts.insert(*host);
                }
                Ok(())
            }
            Signal::Crashed { host } => {
                self.writing.retain(|(one, _), _| one != host);
                self.given.remove(host);
                self.closed.remove(host);
                self.restarted.insert(*host, world.now());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn record(&mut self, world: &World, host: HostId, peer: HostId, header: &Header) {
        if world.host_of(header.target) != Some(peer) {
            self.given.entry(peer).or_default().insert(bytes(header));
            return;
        }
        if let Body::Put { ack: handle, .. } | Body::Get { reply: handle, .. } = header.body {
            self.last_hops.entry((peer, handle)).or_default().insert(host);
        }
    }

    /// 19: only routers forward, only messages that they received, and without any change. A router
    /// on the network of the target sends directly to the target.
    fn forwarded_unchanged(
        &self,
        world: &World,
        host: HostId,
        peer: HostId,
        header: &Header,
    ) -> Verdict {
        let routes = self.routers.contains(&host);
        let given = || self.given.get(&host).into_iter().flatten();
        // If an interface of the target is unhealthy, a router may choose another.
        let same = |given: &Vec<u8>| {
            let given = Header::decode(given, HeaderForm::Small);
            given.is_ok_and(|given| {
                let same_host = world.host_of(given.target) == world.host_of(header.target);
                Header { target: header.target, ..given } == *header && same_host
            })
        };
        let exactly = given().any(|given| *given == bytes(header));
        let may_reroute = self.suspicious.as_ref().is_none_or(|hosts| hosts.contains(&host));
        require(routes && (exactly || (may_reroute && given().any(same))), CHECKER, || {
            format!("{host} forwards a message that it did not receive: {header:?}")
        })?;
        let on_network = world.nids(host).iter().any(|nid| nid.net() == header.target.net());
        let arrives = world.host_of(header.target) == Some(peer);
        let removed = world.node(host).is_none_or(|node| {
            !node.lnet().nis().iter().any(|ni| ni.nid.net() == header.target.net())
        });
        require(!on_network || arrives || removed, CHECKER, || {
            format!("{host} is on the network of the target, but sends to {peer}: {header:?}")
        })
    }

    /// 22: an ACK or a REPLY goes to the node from which the request came, unless that is a router
    /// which has died meanwhile.
    fn responses_take_the_reverse_route(
        &self,
        world: &World,
        host: HostId,
        peer: HostId,
        header: &Header,
    ) -> Verdict {
        let (Body::Ack { handle, .. } | Body::Reply { handle }) = header.body else {
            return Ok(());
        };
        let last_hops = self.last_hops.get(&(host, handle));
        let died = |hop: &HostId| {
            let routers = world.node(host).map(|node| node.lnet().routers()).unwrap_or_default();
            routers.iter().any(|one| !one.alive && world.host_of(one.nid) == Some(*hop))
        };
        let is_right = last_hops
            .is_some_and(|last_hops| last_hops.contains(&peer) || last_hops.iter().all(died));
        require(is_right, CHECKER, || {
            format!(
                "{host} responds through {peer} to a request that came from {last_hops:?}: \
                 {header:?}"
            )
        })
    }

    /// 23: no node uses a router that does not forward, after the nodes have had time to ping it.
    fn closed_routers_are_not_used(
        &self,
        world: &World,
        host: HostId,
        peer: HostId,
        header: &Header,
    ) -> Verdict {
        let asks = matches!(header.body, Body::Put { portal, .. } | Body::Get { portal, .. }
            if portal != RESERVED_PORTAL);
        let Some(since) = self.closed.get(&peer).filter(|_| asks) else { return Ok(()) };
        let since = self.restarted.get(&host).map_or(*since, |restarted| *since.max(restarted));
        let allowed = world.host_of(header.target) == Some(peer)
            || world.now().since(since) <= PINGS_DONE
            || world.is_paused(host)
            || world.is_paused(peer);
        require(allowed, CHECKER, || {
            format!("{host} still uses {peer}, which has not forwarded since {since}: {header:?}")
        })
    }

    /// Checks a router after all notifications.
    pub(super) fn settled(&mut self, world: &World, host: HostId) -> Verdict {
        if !self.routers.contains(&host) {
            return Ok(());
        }
        let Some(node) = world.node(host) else { return Ok(()) };
        let routing = node.lnet().routing();
        match routing.state {
            RoutingState::Enabled => {
                self.closed.remove(&host);
            }
            _ => drop(self.closed.entry(host).or_insert(world.now())),
        }
        self.buffers_are_within_their_pools(world, host, &routing.pools)
    }

    /// 20, and 1 and 2 of pools: memory stays within its limits, each message has a buffer of its
    /// class, and credits match the number of used buffers.
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
            // A paused router has not been notified yet of the data that its sockets took.
            require(sound || world.is_paused(host), CHECKER, || {
                let taken = taken[class];
                format!("{host}: {taken} messages of class {class} are being written: {pool:?}")
            })?;
        }
        let actual = world.router_buffers(host);
        let reported = [pools[1].allocated as usize, pools[2].allocated as usize];
        require(actual == reported, CHECKER, || {
            format!("{host} has {actual:?} small and large buffers, but reports {reported:?}")
        })
    }

    /// 1, for routers: all pool credits and router credits are returned.
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

/// 20: no payload needs a tiny buffer, up to a page a small one, more a large one.
fn class(payload: u32) -> usize {
    usize::from(payload > 0) + usize::from(payload > SMALL)
}

fn bytes(header: &Header) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.encode(HeaderForm::Small, &mut bytes);
    bytes
}

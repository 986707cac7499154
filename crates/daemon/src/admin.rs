//! The administration API of a running node.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_control::api::{
    Admin, AdminError, ChangelogDeregister, ChangelogRegister, ChangelogUser, Checked, Connections,
    Counters, DebugCheck, DebugDump, DebugMark, DebugPeer, Disconnect, Discover, Dumped, ExportAll,
    FailNid, FaultAdd, FaultDel, FaultReset, FaultShow, GlobalSet, GlobalShow, Import, Imported,
    ListNids, Lst, LstReply, MgsNodemap, MgsNodemapTest, MgsPool, MgsPools, MgsSet, NetAdd, NetDel,
    NetSet, NetShow, Nids, NodemapTested, ParameterList, ParameterSet, ParameterShow, PeerAdd,
    PeerDel, PeerSet, PeerShow, Ping, Pools, RecoveryShow, Removed, RouteAdd, RouteDel, RouteShow,
    RoutersShow, RoutingDrain, RoutingSet, RoutingShow, SocklndInterfaces, SocklndPeers,
    StatsReset, StatsShow, TargetShow, TargetStart, TargetStop, UdspAdd, UdspDel, UdspShow,
    WhichNid, WhichReply,
};
use fulmar_control::config::{self, LnetConf, NiSpec, ResolveError, UdspConf};
use fulmar_control::show::{
    self, Answer, Connection, Export, Globals, Peer, SocklndCounters, SocklndInterface,
    SocklndPeer, Stats,
};
use fulmar_lnet::PingReply;
use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_net::StartError;

use crate::Host;
use crate::debug::{Log, Rotor};
use crate::networks::Networks;
use crate::selftest::Selftest;
use crate::targets::HostedTargets;
use crate::views;

/// The timeout of a ping whose caller gives none, in seconds.
const PING_TIMEOUT: u32 = 180;
/// Number of nodes that are queried concurrently.
const CONCURRENT_QUERIES_MAX: usize = 64;

pub(super) type Result<T> = std::result::Result<T, AdminError>;

/// A node and its configuration.
pub(crate) struct Daemon {
    pub(super) node: fulmar_net::Admin,
    pub(super) networks: Networks,
    selftest: Option<Selftest>,
    pub(super) hosting: HostedTargets,
    pub(super) log: Arc<Log>,
    pub(super) rotor: Rotor,
}

impl Daemon {
    pub(crate) fn new(
        node: fulmar_net::Admin,
        networks: Networks,
        selftest: Option<Selftest>,
        hosting: HostedTargets,
        log: Arc<Log>,
    ) -> Self {
        let rotor = Rotor::new(&networks.parameters);
        Self { node, networks, selftest, hosting, log, rotor }
    }

    fn lnd_timeout(&self) -> u32 {
        let timeout = self.node.config().timeout;
        u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX)
    }

    fn nets(&self) -> Vec<show::Net> {
        let nis = self.node.nis();
        let cpts = u32::try_from(self.node.cpts()).unwrap_or(u32::MAX);
        views::nets(nis, &self.networks.all(), self.lnd_timeout(), cpts, self.node.now())
    }

    pub(super) fn peers(&self) -> Vec<Peer> {
        self.node.peers()
    }

    fn globals(&self) -> fulmar_lnet::Globals {
        self.node.globals()
    }

    fn add_nis(&self, specs: &[NiSpec]) -> Result<()> {
        self.networks.add(&self.node, specs).map_err(|error| start_error(&error))
    }

    /// Sets the time for which an NI waits for its peers; 0 for that of the node.
    fn set_lnd_timeout(&self, nid: Nid, seconds: u32) -> Result<()> {
        let own = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        self.node
            .set_lnd_timeout(nid, own.unwrap_or(self.node.config().timeout))
            .map_err(|errno| AdminError::new(errno, "cannot set lnd timeout"))?;
        self.networks.update(nid, |spec| spec.timeout = own);
        Ok(())
    }

    /// Returns whether a peer is this node. A kernel has a peer for itself; here there is nothing to know about it.
    fn is_itself(&self, primary: Nid, nids: &[Nid]) -> bool {
        let own = self.meant(|_| true);
        own.contains(&primary) && nids.iter().all(|nid| own.contains(nid))
    }

    /// Returns the NIs that a command selects.
    fn meant(&self, keep: impl Fn(&NiSpec) -> bool) -> Vec<Nid> {
        self.networks.all().iter().filter(|spec| keep(spec)).map(|spec| spec.nid).collect()
    }

    fn set_globals(&self, globals: fulmar_lnet::Globals) -> Result<()> {
        self.node
            .set_globals(globals)
            .map_err(|errno| AdminError::new(errno, format!("cannot set: {errno}")))
    }

    /// Discovers the gateways of routes, so that the routes become usable early.
    pub(crate) fn discover_routers(&self) {
        let gateways: Vec<Nid> = self.routers().iter().map(|router| router.nid).collect();
        for answer in self.ask_all(&gateways, None, |node, nid| node.discover(nid, true)) {
            if let Err(errno) = answer.result {
                tracing::warn!("cannot discover router {}: {}", answer.nid, Errno(errno));
            }
        }
    }

    /// Queries all nodes concurrently, each with `timeout`.
    fn ask_all(
        &self,
        nids: &[Nid],
        timeout: Option<Duration>,
        ask: impl Fn(&fulmar_net::Admin, Nid) -> std::result::Result<PingReply, Errno>
        + Clone
        + Send
        + 'static,
    ) -> Vec<Answer> {
        let mut answers = Vec::new();
        for group in nids.chunks(CONCURRENT_QUERIES_MAX) {
            let asked: Vec<_> = group
                .iter()
                .map(|&nid| {
                    let (node, ask) = (self.node.clone(), ask.clone());
                    let (sender, answer) = mpsc::channel();
                    thread::spawn(move || sender.send(ask(&node, nid)));
                    (nid, answer)
                })
                .collect();
            let end = timeout.map(|timeout| Instant::now() + timeout);
            for (nid, answer) in asked {
                let result = match end {
                    None => answer.recv().unwrap_or(Err(Errno::ESHUTDOWN)),
                    Some(end) => answer
                        .recv_timeout(end.saturating_duration_since(Instant::now()))
                        .unwrap_or(Err(Errno::ETIMEDOUT)),
                };
                answers.push(Answer { nid, result: result.map(Into::into).map_err(|e| e.0) });
            }
        }
        answers
    }
}

impl Admin for Daemon {
    fn failure(&self) -> Option<String> {
        self.node.failure().map(|failure| failure.to_string())
    }

    fn net_show(&self, request: NetShow) -> Result<Vec<show::Net>> {
        let mut nets = self.nets();
        if let Some(wanted) = request.net {
            nets.retain(|net| net.net == wanted);
            if nets.is_empty() {
                return Err(AdminError::new(Errno::ESRCH, "Network is down"));
            }
        }
        Ok(nets)
    }

    fn net_add(&self, request: NetAdd) -> Result<()> {
        let parameters = &self.networks.parameters;
        let mut specs = config::resolve(&request.nets, parameters, &Host).map_err(resolve_error)?;
        if !request.ip2nets.is_empty() {
            let more = config::resolve_ip2nets(&request.ip2nets, parameters, &Host);
            specs.extend(more.map_err(resolve_error)?);
        }
        self.add_nis(&specs)
    }

    fn net_del(&self, request: NetDel) -> Result<()> {
        let NetDel { net, interface, nid } = request;
        if net == Some(Net::LOOPBACK) || nid == Some(Nid::LOOPBACK) {
            return Err(AdminError::new(Errno::EINVAL, "cannot del network")
                .with_hint("0@lo belongs to every node"));
        }
        let meant = self.meant(|spec| match nid {
            Some(nid) => spec.nid == nid,
            None => {
                net == Some(spec.nid.net())
                    && interface.as_ref().is_none_or(|name| spec.is_at(name))
            }
        });
        if meant.is_empty() {
            let (errno, descr) = match (interface, nid) {
                (Some(_), _) => (Errno::ENODEV, "cannot del LNet NI"),
                (None, Some(_)) => (Errno::ENOENT, "cannot del LNet NI"),
                (None, None) => (Errno::EINVAL, "cannot del network"),
            };
            let known = self.networks.all();
            let known: Vec<String> =
                known.iter().map(|spec| format!("{} on {}", spec.nid, spec.interface)).collect();
            return Err(AdminError::new(errno, descr)
                .with_hint(format!("this node has {}", listed(&known))));
        }
        for nid in meant {
            self.networks
                .remove(&self.node, nid)
                .map_err(|errno| AdminError::new(errno, "cannot del LNet NI"))?;
        }
        Ok(())
    }

    fn net_set(&self, request: NetSet) -> Result<()> {
        let NetSet { nid, net, conns_per_peer, lnd_timeout, .. } = request;
        let meant = self.meant(|spec| match (nid, net) {
            (Some(nid), _) => spec.nid == nid,
            (None, Some(net)) => spec.nid.net() == net,
            (None, None) => true,
        });
        if meant.is_empty() {
            return Err(AdminError::new(Errno::ENODEV, "interface / NID is missing")
                .with_hint("\"lnetctl net show\" lists the interfaces of this node"));
        }
        self.set_rails(&request, &meant)?;
        for nid in meant {
            if let Some(conns) = conns_per_peer.map(|conns| conns.max(1)) {
                self.node
                    .set_conns_per_peer(nid, conns)
                    .map_err(|errno| AdminError::new(errno, "cannot set conns_per_peer"))?;
                self.networks.update(nid, |spec| spec.conns_per_peer = conns);
            }
            if let Some(seconds) = lnd_timeout {
                self.set_lnd_timeout(nid, seconds)?;
            }
        }
        Ok(())
    }

    fn peer_show(&self, request: PeerShow) -> Result<Vec<Peer>> {
        let mut peers = self.peers();
        if let Some(nid) = request.nid {
            peers.retain(|peer| peer.nis.iter().any(|ni| ni.nid == nid));
        }
        Ok(peers)
    }

    fn peer_add(&self, request: PeerAdd) -> Result<()> {
        let config::PeerConf { primary, multi_rail, nids } = request.peer;
        if self.is_itself(primary, &nids) {
            return Ok(());
        }
        self.node
            .peer_add(primary, &nids, multi_rail)
            .map_err(|errno| AdminError::new(errno, "failed to add peer"))
    }

    fn peer_del(&self, request: PeerDel) -> Result<()> {
        let PeerDel { primary, nids, .. } = request;
        if self.is_itself(primary, &nids) {
            return Ok(());
        }
        let descr =
            if nids.is_empty() { "failed to del primary peer" } else { "failed to del peer" };
        self.node.peer_del(primary, &nids).map_err(|errno| AdminError::new(errno, descr))
    }

    fn peer_set(&self, request: PeerSet) -> Result<()> {
        self.set_peer(&request)
    }

    fn ping(&self, request: Ping) -> Result<Vec<Answer>> {
        let Ping { nids, source, timeout } = request;
        let timeout = Duration::from_secs(timeout.unwrap_or(PING_TIMEOUT).into());
        Ok(self.ask_all(&nids, None, move |node, nid| {
            node.ping(ProcessId::lustre(nid), source, timeout)
        }))
    }

    fn discover(&self, request: Discover) -> Result<Vec<Answer>> {
        let Discover { nids, timeout, force, .. } = request;
        let timeout = timeout.map(|seconds| Duration::from_secs(seconds.into()));
        Ok(self.ask_all(&nids, timeout, move |node, nid| node.discover(nid, force)))
    }

    fn stats_show(&self, _: StatsShow) -> Result<Stats> {
        Ok(self.node.stats())
    }

    fn stats_reset(&self, _: StatsReset) -> Result<()> {
        self.node
            .reset_stats()
            .map_err(|errno| AdminError::new(errno, "cannot reset the statistics"))
    }

    fn global_show(&self, _: GlobalShow) -> Result<Globals> {
        Ok(show::globals(&self.globals()))
    }

    fn global_set(&self, request: GlobalSet) -> Result<()> {
        let mut globals = self.globals();
        config::set(&mut globals, request.key, request.value)
            .map_err(|why| AdminError::global_set(request.key, why))?;
        self.set_globals(globals)
    }

    fn target_show(&self, _: TargetShow) -> Result<Vec<show::Target>> {
        Ok(self.all_targets())
    }

    fn target_start(&self, request: TargetStart) -> Result<Vec<String>> {
        self.start_targets(&request)
    }

    fn target_stop(&self, request: TargetStop) -> Result<Vec<String>> {
        self.stop_targets(&request)
    }

    fn parameter_show(&self, request: ParameterShow) -> Result<Vec<show::Parameter>> {
        Ok(self.shown_parameters(&request))
    }

    fn parameter_list(&self, request: ParameterList) -> Result<Vec<show::ParameterName>> {
        Ok(self.listed_parameters(&request))
    }

    fn mgs_nodemap(&self, request: MgsNodemap) -> Result<()> {
        self.change_nodemap(&request)
    }

    fn mgs_nodemap_test(&self, request: MgsNodemapTest) -> Result<NodemapTested> {
        self.test_nodemap(&request)
    }

    fn parameter_set(&self, request: ParameterSet) -> Result<Vec<String>> {
        self.set_parameters(&request)
    }

    fn debug_dump(&self, request: DebugDump) -> Result<Dumped> {
        let lines = self.log.take();
        let kept = if request.discard { Vec::new() } else { lines };
        Ok(Dumped { lines: kept.into_iter().map(String::from).collect() })
    }

    fn debug_mark(&self, request: DebugMark) -> Result<()> {
        Log::mark(&request.text);
        Ok(())
    }

    fn debug_peer(&self, request: DebugPeer) -> Result<()> {
        self.log_peer(request.nid);
        Ok(())
    }

    fn changelog_register(&self, request: ChangelogRegister) -> Result<ChangelogUser> {
        self.register_changelog_user(&request)
    }

    fn changelog_deregister(&self, request: ChangelogDeregister) -> Result<ChangelogUser> {
        self.deregister_changelog_user(&request)
    }

    fn export(&self, _: ExportAll) -> Result<Export> {
        Ok(Export {
            nets: self.nets(),
            peers: self.peers(),
            routes: self.routes(),
            routing: self.routing(),
            globals: show::globals(&self.globals()),
            rest: LnetConf { udsp: self.udsp(), ..LnetConf::default() },
        })
    }

    fn import(&self, request: Import) -> Result<Imported> {
        fulmar_control::api::import(self, &request)
    }

    fn connections(&self, request: Connections) -> Result<Vec<Connection>> {
        let all = self.node.connections();
        let on_net = all.iter().filter(|conn| conn.info.ni.net() == request.net);
        Ok(on_net.map(views::connection).collect())
    }

    fn socklnd_peers(&self, request: SocklndPeers) -> Result<Vec<SocklndPeer>> {
        let all = self.node.socklnd_peers();
        let on_net = all.iter().filter(|peer| peer.ni.net() == request.net);
        Ok(on_net.map(views::socklnd_peer).collect())
    }

    fn socklnd_interfaces(&self, request: SocklndInterfaces) -> Result<Vec<SocklndInterface>> {
        let peers = self.node.socklnd_peers();
        let specs = self.networks.all();
        let on_net = specs.iter().filter(|spec| spec.nid.net() == request.net);
        let shown = on_net.filter_map(|spec| {
            let ip = spec.nid.ip()?;
            let of = |peer: &&fulmar_socklnd::PeerInfo| peer.ni == spec.nid;
            let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            Some(SocklndInterface {
                ip,
                prefix: fulmar_net::prefix_of(ip),
                peers: 0,
                routes: count(peers.iter().filter(of).filter(|peer| peer.dials).count()),
            })
        });
        Ok(shown.collect())
    }

    fn disconnect(&self, request: Disconnect) -> Result<()> {
        let Disconnect { net, nid } = request;
        let mut peers = self.node.socklnd_peers();
        peers.retain(|peer| {
            peer.ni.net() == net && nid.is_none_or(|wanted| wanted == peer.peer.nid)
        });
        if let (Some(nid), true) = (nid, peers.is_empty()) {
            let descr = format!("no connection with {nid} on {net}");
            return Err(AdminError::new(Errno::ENOENT, descr));
        }
        for peer in peers {
            self.node
                .close_peer(peer.peer.nid)
                .map_err(|errno| AdminError::new(errno, "cannot disconnect"))?;
        }
        Ok(())
    }

    fn socklnd_counters(&self, _: Counters) -> Result<SocklndCounters> {
        Ok((&self.node.counters()).into())
    }

    fn list_nids(&self, _: ListNids) -> Result<Nids> {
        Ok(Nids { nids: self.meant(|_| true) })
    }

    /// Returns the NID of this node that reaches the nearest of the given NIDs, as `lctl` does.
    fn which_nid(&self, request: WhichNid) -> Result<WhichReply> {
        let (specs, routes) = (self.networks.all(), self.routes());
        let reached = |nid: &Nid| {
            if nid.is_loopback() {
                return Some(((0, 0), *nid));
            }
            if specs.iter().any(|spec| spec.nid == *nid) {
                return Some(((0, 1), *nid));
            }
            let on = |net: Net| specs.iter().position(|spec| spec.nid.net() == net);
            if let Some(place) = on(nid.net()) {
                return Some(((1, 2 + place), specs.get(place)?.nid));
            }
            let routes = routes.iter().filter(|route| route.net == nid.net());
            let route = routes.min_by_key(|route| (route.priority, route.hops.unwrap_or(1)))?;
            let (hops, place) = (route.hops.unwrap_or(1), on(route.gateway.net())?);
            Some(((1 + hops, 2 + place), specs.get(place)?.nid))
        };
        let nearest = request.nids.iter().filter_map(reached).min_by_key(|(distance, _)| *distance);
        Ok(WhichReply { nid: nearest.map(|(_, nid)| nid) })
    }

    fn recovery_show(&self, request: RecoveryShow) -> Result<Nids> {
        Ok(self.recovery(request.peers))
    }

    fn debug_check(&self, request: DebugCheck) -> Result<Checked> {
        Ok(Checked { broken: self.node.check(request.idle) })
    }

    fn route_show(&self, _: RouteShow) -> Result<Vec<show::Route>> {
        Ok(self.routes())
    }

    fn route_add(&self, request: RouteAdd) -> Result<()> {
        self.add_routes(&request.routes)
    }

    fn route_del(&self, request: RouteDel) -> Result<()> {
        self.delete_routes(&request.routes)
    }

    fn routers_show(&self, _: RoutersShow) -> Result<Vec<show::Router>> {
        Ok(self.routers())
    }

    fn routing_show(&self, _: RoutingShow) -> Result<show::Routing> {
        Ok(self.routing())
    }

    fn routing_set(&self, request: RoutingSet) -> Result<()> {
        let RoutingSet { enable, buffers } = request;
        let what = match (buffers.tiny, buffers.small, buffers.large) {
            (Some(_), None, None) => "tiny_buffers",
            (None, Some(_), None) => "small_buffers",
            (None, None, Some(_)) => "large_buffers",
            _ => "buffers",
        };
        self.set_buffers(&buffers, what)?;
        enable.map_or(Ok(()), |enable| self.set_routing(enable))
    }

    fn routing_drain(&self, _: RoutingDrain) -> Result<()> {
        self.drain()
    }

    fn udsp_show(&self, _: UdspShow) -> Result<Vec<UdspConf>> {
        Ok(self.udsp())
    }

    fn udsp_add(&self, request: UdspAdd) -> Result<()> {
        self.add_udsp(&request.rule)
    }

    fn udsp_del(&self, request: UdspDel) -> Result<()> {
        self.del_udsp(request.idx)
    }

    fn fault_show(&self, request: FaultShow) -> Result<Vec<show::Fault>> {
        Ok(self.faults(request.action))
    }

    fn fault_add(&self, request: FaultAdd) -> Result<()> {
        self.add_fault(&request.rule)
    }

    fn fault_del(&self, request: FaultDel) -> Result<Removed> {
        self.del_faults(&request)
    }

    fn fault_reset(&self, request: FaultReset) -> Result<()> {
        self.reset_faults(request.action)
    }

    fn fail_nid(&self, request: FailNid) -> Result<()> {
        self.make_fail(&request)
    }

    fn mgs_set(&self, request: MgsSet) -> Result<()> {
        self.set_parameter(&request)
    }

    fn mgs_pool(&self, request: MgsPool) -> Result<()> {
        self.change_pool(&request)
    }

    fn mgs_pools(&self, request: MgsPools) -> Result<Pools> {
        self.pools(&request)
    }

    fn lst(&self, request: Lst) -> Result<LstReply> {
        let selftest = self.selftest.as_ref().ok_or_else(AdminError::no_selftest)?;
        let answer = selftest
            .command(request.keyed)
            .map_err(|errno| AdminError::new(errno, "the node is stopping"))?;
        Ok(LstReply { answer })
    }
}

fn resolve_error(error: ResolveError) -> AdminError {
    let hint = format!("{}: {}", error.message, error.help);
    AdminError::new(error.errno, "cannot add LNet NI").with_hint(hint)
}

fn start_error(error: &StartError) -> AdminError {
    let (errno, descr) = match error {
        StartError::NoCpt { .. } => (Errno::ERANGE, "invalid CPT value"),
        error => (error.errno(), "cannot add LNet NI"),
    };
    AdminError::new(errno, descr).with_hint(error.to_string())
}

fn listed(items: &[String]) -> String {
    if items.is_empty() { "no network yet".into() } else { items.join(", ") }
}

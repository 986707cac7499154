//! For tests: a node in memory, without a network.

use std::sync::{Mutex, MutexGuard};

use fulmar_base::Errno;
use fulmar_lnd::NiTunables;
use fulmar_lnet::{Globals, RouterBuffers, views};
use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_net::Interface;
use fulmar_text::pattern;

use crate::api::*;
use crate::config::{self, Interfaces, LnetConf, NiSpec, NodeConfig, PeerConf, RouteConf};
use crate::show;

/// Answers as a node whose peers are all reachable, except addresses that end in 99.
#[derive(Debug)]
pub struct FakeNode(Mutex<State>);

#[derive(Debug)]
struct State {
    specs: Vec<NiSpec>,
    peers: Vec<PeerConf>,
    routes: Vec<RouteConf>,
    routing: show::Routing,
    buffers: RouterBuffers,
    /// NIs that the administrator has taken out of use.
    disabled: Vec<Nid>,
    /// The health of every NI and peer NI.
    health: u32,
    globals: Globals,
    stats: show::Stats,
    targets: Vec<show::Target>,
    parameters: Vec<show::Parameter>,
    /// Why the node has failed, if it has.
    failure: Option<String>,
}

/// `lo` and `eth0`, 10.0.0.1 at 100 Gb/s.
#[derive(Debug)]
pub struct FakeInterfaces;

impl Interfaces for FakeInterfaces {
    fn list(&self) -> Vec<Interface> {
        let interface = |name: &str, ip: [u8; 4], speed| Interface {
            name: name.into(),
            addresses: vec![ip.into()],
            up: true,
            speed,
        };
        vec![interface("lo", [127, 0, 0, 1], None), interface("eth0", [10, 0, 0, 1], Some(100_000))]
    }
}

impl FakeNode {
    /// Returns a node with the one NI of `tcp`.
    pub fn new() -> Self {
        let specs = NodeConfig::default().nis(&FakeInterfaces).expect("eth0 can be used");
        let globals = Globals::default();
        let stats = show::Stats { send_count: 7, ..show::Stats::default() };
        Self(Mutex::new(State {
            specs,
            peers: Vec::new(),
            routes: Vec::new(),
            routing: show::Routing::default(),
            buffers: RouterBuffers::default(),
            disabled: Vec::new(),
            health: 1000,
            globals,
            stats,
            targets: Vec::new(),
            parameters: Vec::new(),
            failure: None,
        }))
    }

    /// Makes the node fail.
    pub fn fail(&self, why: &str) {
        self.state().failure = Some(why.to_owned());
    }

    /// Changes the statistics of the node.
    pub fn count(&self, change: impl FnOnce(&mut show::Stats)) {
        change(&mut self.state().stats);
    }

    /// Adds a target, or replaces the one of this name and its parameters.
    pub fn serve(&self, target: show::Target, parameters: Vec<show::Parameter>) {
        let mut state = self.state();
        state.targets.retain(|known| known.name != target.name);
        state.parameters.retain(|known| !known.name.contains(&target.name));
        state.targets.push(target);
        state.parameters.extend(parameters);
    }

    /// Adds traffic that the node has forwarded.
    pub fn forward(&self, transit: views::Transit) {
        self.state().routing.transits.push(transit);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics while it holds this")
    }

    fn answers(nids: &[Nid], multi_rail: bool) -> Vec<show::Answer> {
        let reply = |nid: Nid| show::Reply { primary: nid, multi_rail, nids: vec![nid] };
        let answer = |nid: &Nid| {
            let reachable = nid.number() & 0xff != 99;
            let result = if reachable { Ok(reply(*nid)) } else { Err(Errno::EHOSTUNREACH.0) };
            show::Answer { nid: *nid, result }
        };
        nids.iter().map(answer).collect()
    }
}

impl Default for FakeNode {
    fn default() -> Self {
        Self::new()
    }
}

fn shown(spec: &NiSpec, state: &State) -> show::Ni {
    let credits = i64::from(spec.tunables.credits);
    let enabled = !state.disabled.contains(&spec.nid);
    let idle = ni_view(spec.nid);
    show::Ni {
        view: views::Ni {
            up: enabled,
            enabled,
            tunables: spec.tunables,
            credits_max: credits,
            credits,
            credits_min: credits,
            health: views::Health { value: state.health, ..idle.health },
            ..idle
        },
        alive: None,
        interface: Some(spec.interface.clone()),
        is_secondary: spec.is_secondary,
        lnd: Some(show::LndTunables {
            conns_per_peer: spec.conns_per_peer,
            timeout: spec.timeout.map_or(50, |timeout| timeout.as_secs() as u32),
            own_timeout: spec.timeout.is_some(),
            tos: spec.tos,
        }),
        dev_cpt: -1,
        cpts: spec.cpts.clone().unwrap_or(vec![0]),
        refs: 1,
    }
}

/// Returns an NI without traffic, credits or rules.
pub(crate) fn ni_view(nid: Nid) -> views::Ni {
    views::Ni {
        nid,
        net: nid.net(),
        up: true,
        fatal: false,
        enabled: true,
        tunables: NiTunables::default(),
        credits_max: 0,
        credits: 0,
        credits_min: 0,
        health: views::Health { value: 1000, ..views::Health::default() },
        priority: views::PRIORITY_LOWEST,
        net_priority: views::PRIORITY_LOWEST,
        pinged: None,
        traffic: views::Traffic::default(),
    }
}

/// Returns a peer NI without traffic, credits or rules.
pub(crate) fn peer_ni_view(nid: Nid) -> views::PeerNi {
    let views::Ni { health, priority, net_priority, traffic, .. } = ni_view(nid);
    views::PeerNi {
        nid,
        credits_max: 0,
        credits: 0,
        credits_min: 0,
        router_credits: 0,
        router_credits_min: 0,
        queued_bytes: 0,
        refcount: 1,
        health,
        alive: None,
        priority,
        net_priority,
        preferred_nids: Vec::new(),
        preferred_gateways: Vec::new(),
        traffic,
    }
}

impl Admin for FakeNode {
    fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    /// The statistics files, and the parameters of targets that a test gave.
    fn parameter_show(&self, request: ParameterShow) -> Result<Vec<show::Parameter>, AdminError> {
        let selected = request.patterns.iter().flat_map(|pattern| {
            TABLES.into_iter().filter(move |name| pattern::selects(pattern, &[name]))
        });
        let read = |name: &str| {
            Ok(show::Parameter { name: vec![name.to_owned()], value: table(self, name)? })
        };
        let is_selected = |one: &&show::Parameter| {
            request.patterns.iter().any(|pattern| one.is_selected(pattern))
        };
        let given: Vec<_> = self.state().parameters.iter().filter(is_selected).cloned().collect();
        selected.map(read).chain(given.into_iter().map(Ok)).collect()
    }

    fn parameter_list(&self, _: ParameterList) -> Result<Vec<show::ParameterName>, AdminError> {
        let listed = |name: &str| show::ParameterName {
            name: vec![name.to_owned()],
            is_readable: true,
            is_writable: matches!(name, "nis" | "peers" | "stats"),
        };
        Ok(TABLES.map(listed).to_vec())
    }

    fn net_show(&self, request: NetShow) -> Result<Vec<show::Net>, AdminError> {
        let mut nets: Vec<show::Net> = Vec::new();
        let state = self.state();
        for spec in &state.specs {
            let net = spec.nid.net();
            match nets.iter_mut().find(|known| known.net == net) {
                Some(known) => known.nis.push(shown(spec, &state)),
                None => nets.push(show::Net { net, nis: vec![shown(spec, &state)] }),
            }
        }
        nets.retain(|net| request.net.is_none_or(|wanted| net.net == wanted));
        Ok(nets)
    }

    fn net_add(&self, request: NetAdd) -> Result<(), AdminError> {
        let parameters = config::Parameters::default();
        let failed = |e: config::ResolveError| {
            AdminError::new(e.errno, "cannot add LNet NI")
                .with_hint(format!("{}: {}", e.message, e.help))
        };
        let mut specs =
            config::resolve(&request.nets, &parameters, &FakeInterfaces).map_err(failed)?;
        if !request.ip2nets.is_empty() {
            let more = config::resolve_ip2nets(&request.ip2nets, &parameters, &FakeInterfaces);
            specs.extend(more.map_err(failed)?);
        }
        let mut state = self.state();
        if specs.iter().any(|spec| state.specs.iter().any(|known| known.nid == spec.nid)) {
            return Err(AdminError::new(Errno::EEXIST, "cannot add LNet NI"));
        }
        state.specs.extend(specs);
        Ok(())
    }

    fn net_del(&self, request: NetDel) -> Result<(), AdminError> {
        let mut state = self.state();
        let before = state.specs.len();
        state.specs.retain(|spec| {
            request.net.is_some_and(|net| net != spec.nid.net())
                || request.nid.is_some_and(|nid| nid != spec.nid)
                || request.interface.as_ref().is_some_and(|name| !spec.is_at(name))
        });
        if state.specs.len() == before {
            Err(AdminError::new(Errno::EINVAL, "cannot del network"))
        } else {
            Ok(())
        }
    }

    fn net_set(&self, request: NetSet) -> Result<(), AdminError> {
        let mut state = self.state();
        let meant = |spec: &&NiSpec| match (request.nid, request.net) {
            (Some(nid), _) => spec.nid == nid,
            (None, net) => net.is_none_or(|net| spec.nid.net() == net),
        };
        let meant: Vec<Nid> = state.specs.iter().filter(meant).map(|spec| spec.nid).collect();
        if meant.is_empty() {
            return Err(AdminError::new(Errno::ENODEV, "interface / NID is missing"));
        }
        if let Some(enabled) = request.enabled {
            state.disabled.retain(|nid| !meant.contains(nid));
            state.disabled.extend(meant.iter().filter(|_| !enabled));
        }
        state.health = request.health.unwrap_or(state.health).min(1000);
        Ok(())
    }

    fn peer_show(&self, request: PeerShow) -> Result<Vec<show::Peer>, AdminError> {
        let health = self.state().health;
        let ni = |nid: &Nid| {
            let idle = peer_ni_view(*nid);
            views::PeerNi {
                credits_max: 8,
                credits: 8,
                credits_min: -3,
                router_credits: 8,
                router_credits_min: 8,
                health: views::Health { value: health, ..idle.health },
                ..idle
            }
        };
        let peer = |peer: &PeerConf| show::Peer {
            primary: peer.primary,
            multi_rail: peer.multi_rail,
            state: 273,
            configured: true,
            nis: peer.nids.iter().map(ni).collect(),
        };
        let mut peers: Vec<show::Peer> = self.state().peers.iter().map(peer).collect();
        peers.retain(|peer| {
            request.nid.is_none_or(|wanted| peer.nis.iter().any(|ni| ni.nid == wanted))
        });
        Ok(peers)
    }

    fn peer_add(&self, request: PeerAdd) -> Result<(), AdminError> {
        self.state().peers.push(request.peer);
        Ok(())
    }

    fn peer_del(&self, request: PeerDel) -> Result<(), AdminError> {
        self.state().peers.retain(|peer| peer.primary != request.primary);
        Ok(())
    }

    fn peer_set(&self, request: PeerSet) -> Result<(), AdminError> {
        let mut state = self.state();
        state.health = request.health.unwrap_or(state.health).min(1000);
        Ok(())
    }

    fn ping(&self, request: Ping) -> Result<Vec<show::Answer>, AdminError> {
        Ok(Self::answers(&request.nids, false))
    }

    fn discover(&self, request: Discover) -> Result<Vec<show::Answer>, AdminError> {
        Ok(Self::answers(&request.nids, true))
    }

    fn stats_show(&self, _: StatsShow) -> Result<show::Stats, AdminError> {
        Ok(self.state().stats)
    }

    fn stats_reset(&self, _: StatsReset) -> Result<(), AdminError> {
        self.state().stats = show::Stats::default();
        Ok(())
    }

    fn global_show(&self, _: GlobalShow) -> Result<show::Globals, AdminError> {
        Ok(show::globals(&self.state().globals))
    }

    fn global_set(&self, request: GlobalSet) -> Result<(), AdminError> {
        config::set(&mut self.state().globals, request.key, request.value)
            .map_err(|why| AdminError::global_set(request.key, why))
    }

    fn export(&self, _: ExportAll) -> Result<show::Export, AdminError> {
        Ok(show::Export {
            nets: self.net_show(NetShow::default())?,
            peers: self.peer_show(PeerShow::default())?,
            routes: self.route_show(RouteShow {})?,
            routing: self.routing_show(RoutingShow {})?,
            globals: self.global_show(GlobalShow {})?,
            rest: LnetConf::default(),
        })
    }

    fn import(&self, request: Import) -> Result<Imported, AdminError> {
        import(self, &request)
    }

    fn connections(&self, _: Connections) -> Result<Vec<show::Connection>, AdminError> {
        Ok(vec![show::Connection {
            peer: ProcessId::lustre(Nid::of_ip(Net::TCP, [10, 0, 0, 2].into())),
            kind: 'C',
            cpt: 0,
            local: ([10, 0, 0, 1], 1023).into(),
            remote: ([10, 0, 0, 2], 988).into(),
            send_buffer: 87040,
            receive_buffer: 131_072,
            nagle: false,
        }])
    }

    fn socklnd_peers(&self, _: SocklndPeers) -> Result<Vec<show::SocklndPeer>, AdminError> {
        Ok(Vec::new())
    }

    fn socklnd_interfaces(
        &self,
        _: SocklndInterfaces,
    ) -> Result<Vec<show::SocklndInterface>, AdminError> {
        let ip = [10, 0, 0, 1].into();
        Ok(vec![show::SocklndInterface { ip, prefix: 24, peers: 0, routes: 1 }])
    }

    fn disconnect(&self, _: Disconnect) -> Result<(), AdminError> {
        Ok(())
    }

    fn socklnd_counters(&self, _: Counters) -> Result<show::SocklndCounters, AdminError> {
        Ok(show::SocklndCounters { accepted: 3, ..show::SocklndCounters::default() })
    }

    fn list_nids(&self, _: ListNids) -> Result<Nids, AdminError> {
        Ok(Nids { nids: self.state().specs.iter().map(|spec| spec.nid).collect() })
    }

    fn which_nid(&self, request: WhichNid) -> Result<WhichReply, AdminError> {
        let reachable = |nid: &&Nid| nid.net() == Net::TCP;
        Ok(WhichReply { nid: request.nids.iter().find(reachable).copied() })
    }

    /// The local NID is in recovery if its health has been changed.
    fn recovery_show(&self, request: RecoveryShow) -> Result<Nids, AdminError> {
        let state = self.state();
        let ours = state.specs.iter().map(|spec| spec.nid);
        let theirs = state.peers.iter().flat_map(|peer| peer.nids.clone());
        let nids: Vec<Nid> = if request.peers { theirs.collect() } else { ours.collect() };
        Ok(Nids { nids: if state.health < 1000 { nids } else { Vec::new() } })
    }

    /// No violations, except that one message never ends.
    fn debug_check(&self, request: DebugCheck) -> Result<Checked, AdminError> {
        let left = "invariant 3: 1 messages are left".to_owned();
        Ok(Checked { broken: if request.idle { vec![left] } else { Vec::new() } })
    }

    fn target_show(&self, _: TargetShow) -> Result<Vec<show::Target>, AdminError> {
        Ok(self.state().targets.clone())
    }

    fn route_show(&self, _: RouteShow) -> Result<Vec<show::Route>, AdminError> {
        let shown = |route: &RouteConf| show::Route {
            net: route.net,
            gateway: route.gateway,
            hops: route.hop,
            priority: route.priority,
            health_sensitivity: route.health_sensitivity,
            up: true,
            single_hop: false,
            messages: 3,
            latency: views::Quantiles { samples: 2, max_nsec: 2000, ..views::Quantiles::default() },
        };
        Ok(self.state().routes.iter().map(shown).collect())
    }

    fn route_add(&self, request: RouteAdd) -> Result<(), AdminError> {
        let mut state = self.state();
        for route in request.routes {
            let local = |net: Net| state.specs.iter().any(|spec| spec.nid.net() == net);
            let same = |known: &RouteConf| (known.net, known.gateway) == (route.net, route.gateway);
            let refused = match () {
                () if route.gateway.net() == route.net => Errno::EINVAL,
                () if local(route.net) || state.routes.iter().any(same) => Errno::EEXIST,
                () if !local(route.gateway.net()) => Errno::EHOSTUNREACH,
                () => {
                    state.routes.push(route);
                    continue;
                }
            };
            return Err(AdminError::route_add(refused, &route));
        }
        Ok(())
    }

    fn route_del(&self, request: RouteDel) -> Result<(), AdminError> {
        let mut state = self.state();
        for route in request.routes {
            let before = state.routes.len();
            state.routes.retain(|known| (known.net, known.gateway) != (route.net, route.gateway));
            if state.routes.len() == before {
                return Err(AdminError::route_del(Errno::ENOENT, &route));
            }
        }
        Ok(())
    }

    fn routers_show(&self, _: RoutersShow) -> Result<Vec<show::Router>, AdminError> {
        let shown = |route: &RouteConf| show::Router {
            nid: route.gateway,
            refs: 4,
            routes: 1,
            alive: true,
        };
        Ok(self.state().routes.iter().map(shown).collect())
    }

    /// A draining node is drained after the state has been read once.
    fn routing_show(&self, _: RoutingShow) -> Result<show::Routing, AdminError> {
        let mut state = self.state();
        let seen = state.routing.clone();
        if seen.state == views::RoutingState::Draining {
            state.routing.state = views::RoutingState::Disabled;
        }
        Ok(seen)
    }

    fn routing_set(&self, request: RoutingSet) -> Result<(), AdminError> {
        let mut state = self.state();
        let counts = request.buffers.over(state.buffers);
        let wanted = counts;
        let counts = [(0, counts.tiny), (1, counts.small), (256, counts.large)];
        if counts.iter().any(|(_, count)| *count == 0) {
            return Err(AdminError::routing(Errno::EINVAL, "buffers"));
        }
        state.buffers = wanted;
        if request.enable == Some(true) {
            state.routing.state = views::RoutingState::Enabled;
            state.routing.pools = counts.map(|(pages, buffers)| views::Pool {
                pages,
                buffers,
                credits: buffers.into(),
                credits_min: buffers.into(),
                ..views::Pool::default()
            });
        } else if request.enable == Some(false) {
            state.routing.state = views::RoutingState::Disabled;
        }
        Ok(())
    }

    fn routing_drain(&self, _: RoutingDrain) -> Result<(), AdminError> {
        let mut state = self.state();
        if state.routing.state.is_on() {
            state.routing.state = views::RoutingState::Draining;
        }
        Ok(())
    }
}

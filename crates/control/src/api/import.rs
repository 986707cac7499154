//! The import of an lnet.conf: each part is one operation, and one that is refused does not keep the
//! others from being applied. Spec: lnet-admin §16.

use std::collections::BTreeMap;

use fulmar_base::Errno;
use fulmar_lnet_wire::{Net, Nid};

use super::error::AdminError;
use super::operations::*;
use crate::config::{
    BuffersConf, GlobalKey, Ip2NetsConf, LnetConf, NetConf, NiConf, PeerConf, RouteConf, UdspConf,
    fit_cpts,
};
use crate::show;

/// Adds or removes the content of an lnet.conf, and reports what became of each part.
///
/// # Errors
/// If the state of the node cannot be read.
pub fn import<A: Admin + ?Sized>(node: &A, request: &Import) -> Result<Imported, AdminError> {
    let Import { conf, delete } = request;
    let nets = node.net_show(NetShow::default())?;
    let own = node.list_nids(ListNids {})?.nids;
    let mut import = Importer { node, nets, own, parts: Vec::new() };
    if *delete {
        import.remove(conf)
    } else {
        import.add(conf)?
    }
    Ok(Imported { parts: import.parts })
}

const ADDED: &str = "added";
const THERE: &str = "is there already";
const REMOVED: &str = "removed";
const ITSELF: &str = "skipped: it is this node itself";

struct Importer<'a, A: ?Sized> {
    node: &'a A,
    /// The networks before the import.
    nets: Vec<show::Net>,
    /// The NIDs of the node.
    own: Vec<Nid>,
    parts: Vec<Part>,
}

impl<A: Admin + ?Sized> Importer<'_, A> {
    fn add(&mut self, conf: &LnetConf) -> Result<(), AdminError> {
        for net in &conf.nets {
            for ni in net.nis.iter().flat_map(NiConf::singles) {
                let result = self.add_ni(net.net, &ni);
                self.report("net", ni_name(net.net, &ni), result);
            }
        }
        if !conf.ip2nets.is_empty() {
            let result = self.add_ip2nets(&conf.ip2nets);
            self.report("ip2nets", format!("{} entries", conf.ip2nets.len()), result);
        }
        // New interfaces may have become NIDs of peers in the file.
        self.own = self.node.list_nids(ListNids {})?.nids;
        self.add_routes(&conf.routes)?;
        self.add_peers(&conf.peers)?;
        self.set_routing(conf);
        self.set_globals(conf)?;
        for rule in &conf.udsp {
            let result = match self.node.udsp_add(UdspAdd { rule: rule.clone() }) {
                Err(error) if error.is(Errno::EALREADY) => Ok(THERE.into()),
                added => added.map(|()| ADDED.into()),
            };
            self.report("udsp", udsp_name(rule), result);
        }
        for (name, asked) in [("ping", &conf.ping), ("discover", &conf.discover)] {
            if asked.is_some() {
                self.report(name, String::new(), Ok("not run: that takes import --exec".into()));
            }
        }
        Ok(())
    }

    fn remove(&mut self, conf: &LnetConf) {
        for route in &conf.routes {
            let routes = vec![route.clone()];
            let result = self.node.route_del(RouteDel { routes }).map(|()| REMOVED.into());
            self.report("route", route_name(route), result);
        }
        for net in &conf.nets {
            for ni in net.nis.iter().flat_map(NiConf::singles) {
                let interface = ni.interfaces.first().cloned();
                let nid = ni.nid.filter(|_| interface.is_none());
                let request = NetDel { net: Some(net.net), interface, nid };
                let result = self.node.net_del(request).map(|()| REMOVED.into());
                self.report("net", ni_name(net.net, &ni), result);
            }
        }
        for peer in &conf.peers {
            let (primary, nids) = (peer.primary, Vec::new());
            let result = if self.own.contains(&primary) {
                Ok(ITSELF.into())
            } else {
                self.node.peer_del(PeerDel { primary, nids, force: false }).map(|()| REMOVED.into())
            };
            self.report("peer", primary.to_string(), result);
        }
        for rule in &conf.udsp {
            let result = self.remove_udsp(rule);
            self.report("udsp", udsp_name(rule), result);
        }
    }

    fn report(&mut self, object: &str, what: String, result: Result<String, AdminError>) {
        let outcome = match result {
            Ok(text) => Outcome::Done(text),
            Err(error) => Outcome::Failed(error),
        };
        self.parts.push(Part { object: object.to_owned(), what, outcome });
    }

    /// Adds one NI. Its CPTs that do not exist here are left out: an export has all of its node.
    fn add_ni(&self, net: Net, ni: &NiConf) -> Result<String, AdminError> {
        let (ni, mut notes) = self.fitted(net, ni);
        let nets = vec![NetConf { net, nis: vec![ni.clone()] }];
        match self.node.net_add(NetAdd { nets, ip2nets: Vec::new() }) {
            Ok(()) => notes.insert(0, ADDED.into()),
            Err(error) if error.is(Errno::EEXIST) => {
                self.expect_ni(net, &ni, error)?;
                notes.insert(0, THERE.into());
            }
            Err(error) => return Err(error),
        }
        Ok(notes.join("; "))
    }

    fn add_ip2nets(&self, entries: &[Ip2NetsConf]) -> Result<String, AdminError> {
        let mut notes = vec![ADDED.to_owned()];
        let fitted = entries.iter().map(|entry| {
            let (ni, of_ni) = self.fitted(entry.net, &entry.ni);
            notes.extend(of_ni);
            Ip2NetsConf { ni, ..entry.clone() }
        });
        let ip2nets = fitted.collect();
        self.node.net_add(NetAdd { nets: Vec::new(), ip2nets })?;
        Ok(notes.join("; "))
    }

    /// Returns an NI without what this node does not have, and says what that is.
    fn fitted(&self, net: Net, ni: &NiConf) -> (NiConf, Vec<String>) {
        let nis = self.nets.iter().flat_map(|net| &net.nis);
        let last = nis.flat_map(|ni| ni.cpts.iter().copied()).max().unwrap_or(0);
        let (mut ni, mut notes) = (ni.clone(), ni.unused(net));
        notes.extend(fit_cpts(&mut ni.cpts, last + 1));
        (ni, notes)
    }

    /// Requires that an NI that is there already has the settings of the file.
    fn expect_ni(&self, net: Net, ni: &NiConf, error: AdminError) -> Result<(), AdminError> {
        let of_net = self.nets.iter().filter(|known| known.net == net).flat_map(|net| &net.nis);
        let is_meant = |known: &&show::Ni| {
            let ip = known.view.nid.ip().map(|ip| ip.to_string());
            let at =
                |name: &String| known.interface.as_ref() == Some(name) || ip.as_ref() == Some(name);
            ni.interfaces.iter().any(at) || ni.interfaces.is_empty()
        };
        let named = of_net.clone().find(|known| ni.nid == Some(known.view.nid));
        let Some(known) = named.or_else(|| of_net.clone().find(is_meant)) else {
            return Err(error);
        };
        let other = differences(known, ni);
        if other.is_empty() {
            return Ok(());
        }
        let descr = format!("it exists with other settings: {}", other.join(", "));
        let hint = format!("remove it first: lnetctl net del --nid {}", known.view.nid);
        Err(AdminError::new(Errno::EEXIST, descr).with_hint(hint))
    }

    fn add_routes(&mut self, routes: &[RouteConf]) -> Result<(), AdminError> {
        if routes.is_empty() {
            return Ok(());
        }
        let known = self.node.route_show(RouteShow {})?;
        for route in routes {
            let same = known.iter().find(|r| (r.net, r.gateway) == (route.net, route.gateway));
            let result = match same.map(RouteConf::from) {
                Some(same) if same == route.normal() => Ok(THERE.into()),
                _ => self
                    .node
                    .route_add(RouteAdd { routes: vec![route.clone()] })
                    .map(|()| ADDED.into()),
            };
            self.report("route", route_name(route), result);
        }
        Ok(())
    }

    fn add_peers(&mut self, peers: &[PeerConf]) -> Result<(), AdminError> {
        if peers.is_empty() {
            return Ok(());
        }
        let known = self.node.peer_show(PeerShow::default())?;
        let known: BTreeMap<Nid, &show::Peer> =
            known.iter().map(|one| (one.primary, one)).collect();
        for peer in peers {
            let result = match known.get(&peer.primary) {
                _ if self.own.contains(&peer.primary) => Ok(ITSELF.into()),
                Some(known) if known.configured && has_all(known, peer) => Ok(THERE.into()),
                _ => self.add_peer(peer),
            };
            self.report("peer", peer.primary.to_string(), result);
        }
        Ok(())
    }

    fn add_peer(&self, peer: &PeerConf) -> Result<String, AdminError> {
        let request = PeerAdd { peer: peer.clone(), lock_primary: false };
        let ours = peer.nids.iter().find(|nid| self.own.contains(nid));
        self.node.peer_add(request).map(|()| ADDED.into()).map_err(|error| match ours {
            Some(nid) => error.with_hint(format!("{nid} is a NID of this node")),
            None => error,
        })
    }

    fn set_routing(&mut self, conf: &LnetConf) {
        let buffers = conf.buffers.clone().unwrap_or_default();
        if buffers != BuffersConf::default() {
            let what = buffers_name(&buffers);
            let request = RoutingSet { enable: None, buffers };
            let result = self.node.routing_set(request).map(|()| "set".into());
            self.report("buffers", what, result);
        }
        if let Some(enable) = conf.routing {
            let request = RoutingSet { enable: Some(enable), buffers: BuffersConf::default() };
            let done = if enable { "enabled" } else { "disabled" };
            let result = self.node.routing_set(request).map(|()| done.into());
            self.report("routing", String::new(), result);
        }
    }

    /// Sets the global values, in an order in which none is refused because of an old one.
    fn set_globals(&mut self, conf: &LnetConf) -> Result<(), AdminError> {
        let mut values = conf.globals.clone();
        values.extend(conf.numa_range.map(|range| (GlobalKey::NumaRange, range)));
        if values.is_empty() {
            return Ok(());
        }
        let now = self.node.global_show(GlobalShow {})?;
        let of = |all: &[(GlobalKey, u32)], key| {
            all.iter().rev().find(|(other, _)| *other == key).map(|(_, value)| *value)
        };
        let (retries, before) =
            (of(&values, GlobalKey::RetryCount), of(&now, GlobalKey::RetryCount));
        let set = |key, value| self.node.global_set(GlobalSet { key, value });
        if retries.is_some() {
            // Without retries every other value is allowed.
            set(GlobalKey::RetryCount, 0)?;
        }
        let others = values
            .iter()
            .filter(|(key, _)| !matches!(key, GlobalKey::RetryCount | GlobalKey::LndTimeout));
        let mut results: Vec<_> = others.map(|(key, n)| (*key, *n, set(*key, *n))).collect();
        if let Some(retries) = retries {
            let result = set(GlobalKey::RetryCount, retries);
            if result.is_err() {
                let _ = set(GlobalKey::RetryCount, before.unwrap_or(0));
            }
            results.push((GlobalKey::RetryCount, retries, result));
        }
        let done = results.iter().filter(|(.., result)| result.is_ok());
        let done: Vec<String> = done.map(|(key, value, _)| format!("{key} {value}")).collect();
        if !done.is_empty() {
            self.report("global", done.join(", "), Ok("set".into()));
        }
        for (key, value, result) in results {
            if let Err(error) = result {
                self.report("global", format!("{key} {value}"), Err(error));
            }
        }
        self.compare_lnd_timeout(of(&values, GlobalKey::LndTimeout))
    }

    /// Reports a time that is not that of the file: it is computed from others.
    fn compare_lnd_timeout(&mut self, of_file: Option<u32>) -> Result<(), AdminError> {
        let now = self.node.global_show(GlobalShow {})?;
        let now =
            now.iter().find(|(key, _)| *key == GlobalKey::LndTimeout).map(|(_, value)| *value);
        if let (Some(of_file), Some(now)) = (of_file, now)
            && of_file != now
        {
            let done =
                format!("not set: it is {now}, computed from transaction_timeout and retry_count");
            self.report("global", format!("lnd_timeout {of_file}"), Ok(done));
        }
        Ok(())
    }

    /// Removes the rule with the same criteria, whatever its index.
    fn remove_udsp(&self, rule: &UdspConf) -> Result<String, AdminError> {
        let known = self.node.udsp_show(UdspShow {})?;
        let same = |known: &&UdspConf| {
            (&known.src, &known.dst, &known.rte) == (&rule.src, &rule.dst, &rule.rte)
        };
        let Some(idx) = known.iter().find(same).and_then(|known| known.idx) else {
            return Err(AdminError::udsp_del(Errno::ENOENT));
        };
        self.node.udsp_del(UdspDel { idx: Some(idx) })?;
        Ok(REMOVED.into())
    }
}

/// Returns in which settings an NI is not as the file has it: `credits 256, not 512`.
fn differences(known: &show::Ni, ni: &NiConf) -> Vec<String> {
    let (tunables, given) = (&known.view.tunables, &ni.tunables);
    let some = |n: Option<u32>| n.filter(|n| *n > 0).map(i64::from);
    let any = |n: Option<u32>| n.map(i64::from);
    let mut pairs = vec![
        ("peer_timeout", given.peer_timeout.map(i64::from), i64::from(tunables.peer_timeout)),
        (
            "peer_credits",
            // More than those of the interface are of no use.
            some(given.peer_credits.map(|n| n.min(tunables.credits))),
            tunables.peer_credits.into(),
        ),
        (
            "peer_buffer_credits",
            any(given.peer_buffer_credits),
            tunables.peer_buffer_credits.into(),
        ),
        ("credits", some(given.credits), tunables.credits.into()),
    ];
    if let Some(lnd) = &known.lnd {
        pairs.push(("conns_per_peer", some(ni.lnd.conns_per_peer), lnd.conns_per_peer.into()));
        pairs.push(("timeout", some(ni.lnd.timeout), lnd.timeout.into()));
        pairs.push(("tos", ni.lnd.tos.map(i64::from), lnd.tos.into()));
    }
    let others = pairs.into_iter().filter_map(|(name, wanted, is)| {
        let wanted = wanted.filter(|wanted| *wanted != is)?;
        Some(format!("{name} {is}, not {wanted}"))
    });
    let mut others: Vec<String> = others.collect();
    if let Some(cpts) = ni.cpts.as_ref().filter(|cpts| **cpts != known.cpts) {
        others.push(format!("CPT {:?}, not {cpts:?}", known.cpts));
    }
    others
}

/// Returns whether a peer of the node is as the file has it.
fn has_all(known: &show::Peer, peer: &PeerConf) -> bool {
    let has = |nid: &Nid| known.nis.iter().any(|ni| ni.nid == *nid);
    known.multi_rail == peer.multi_rail && peer.nids.iter().all(has)
}

/// `tcp(eth0)`.
fn ni_name(net: Net, ni: &NiConf) -> String {
    match (ni.interfaces.first(), ni.nid) {
        (Some(interface), _) => format!("{net}({interface})"),
        (None, Some(nid)) => nid.to_string(),
        (None, None) => net.to_string(),
    }
}

fn route_name(route: &RouteConf) -> String {
    format!("{} by {}", route.net, route.gateway)
}

/// `src tcp dst tcp1 priority 0`.
fn udsp_name(rule: &UdspConf) -> String {
    let text =
        |selector: &Option<fulmar_lnet_wire::Selector>| selector.as_ref().map(ToString::to_string);
    let parts = [
        ("src", text(&rule.src)),
        ("dst", text(&rule.dst)),
        ("rte", text(&rule.rte)),
        ("priority", rule.priority.map(|priority| priority.to_string())),
    ];
    let given = parts.into_iter().filter_map(|(key, value)| Some(format!("{key} {}", value?)));
    given.collect::<Vec<_>>().join(" ")
}

/// `tiny 4096, large 8`.
fn buffers_name(counts: &BuffersConf) -> String {
    let all = [("tiny", counts.tiny), ("small", counts.small), ("large", counts.large)];
    let given = all.into_iter().filter_map(|(name, count)| Some(format!("{name} {}", count?)));
    given.collect::<Vec<_>>().join(", ")
}

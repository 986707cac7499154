//! lnet.conf: from YAML to [`LnetConf`]. Spec: lnet-admin §16.3.
//!
//! Information in an export, such as statistics, is accepted and ignored, so that any export can be
//! imported.

use fulmar_lnet::views::PRIORITY_LOWEST;
use fulmar_lnet_wire::{Net, Nid, Selector};

use super::diagnostic::{Diagnostic, Source, Text};
use super::globals::GlobalKey;
use super::model::{
    BuffersConf, Ip2NetsConf, LndConf, LnetConf, NetConf, NiConf, PeerConf, QueryConf, RouteConf,
    TunablesConf,
};
use super::module_strings::interface_spec;
use super::pattern::{AddressPattern, number_list};
use super::rules::UdspConf;
use super::yaml::{self, Node};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The keys at the top of the file.
pub(crate) const TOP_KEYS: [&str; 13] = [
    "net",
    "ip2nets",
    "peer",
    "route",
    "routing",
    "buffers",
    "numa",
    "global",
    "udsp",
    "ping",
    "discover",
    "statistics",
    "transits",
];
const NET_KEYS: [&str; 7] =
    ["net type", "nid", "local NI(s)", "interfaces", "tunables", "lnd tunables", "CPT"];
const NI_KEYS: [&str; 5] = ["interfaces", "nid", "tunables", "lnd tunables", "CPT"];
/// The other keys of an NI in `net show`, besides [`NI_KEYS`].
const NI_INFO: [&str; 10] = [
    "status",
    "enabled",
    "statistics",
    "sent_stats",
    "received_stats",
    "dropped_stats",
    "health stats",
    "udsp info",
    "dev cpt",
    "tcp bonding",
];
const TUNABLE_KEYS: [&str; 4] = ["peer_timeout", "peer_credits", "peer_buffer_credits", "credits"];
const LND_KEYS: [&str; 18] = [
    "conns_per_peer",
    "timeout",
    "tos",
    "peercredits_hiw",
    "map_on_demand",
    "concurrent_sends",
    "fmr_pool_size",
    "fmr_flush_trigger",
    "fmr_cache",
    "ntx",
    "nqps",
    "prov_major_version",
    "prov_minor_version",
    "auth_key",
    "traffic_class",
    "traffic_class_num",
    "skip_mr_route_setup",
    "peercredits",
];
const IP2NETS_KEYS: [&str; 6] =
    ["net-spec", "interfaces", "ip-range", "tunables", "lnd tunables", "CPT"];
const PEER_KEYS: [&str; 4] = ["primary nid", "Multi-Rail", "peer ni", "peer state"];
const ROUTE_KEYS: [&str; 7] =
    ["net", "gateway", "hop", "priority", "health_sensitivity", "state", "type"];
const UDSP_KEYS: [&str; 6] = ["idx", "src", "dst", "rte", "priority", "action"];
const QUERY_KEYS: [&str; 3] = ["source", "timeout", "nids"];

impl LnetConf {
    /// Parses an lnet.conf.
    ///
    /// # Errors
    /// Points at the first error.
    pub fn parse(source: &Source) -> Result<Self> {
        let mut conf = Self::default();
        for (key, value) in yaml::parse(source)?.entries("the file")? {
            if key.s == "node" {
                let error = key.error("\"node\" is for the file of fulmar node -c");
                return Err(error.with_help("remove it here"));
            }
            conf.read(key, value, &TOP_KEYS)?;
        }
        Ok(conf)
    }

    /// Reads one of [`TOP_KEYS`].
    pub(crate) fn read(&mut self, key: Text<'_>, value: &Node<'_>, known: &[&str]) -> Result<()> {
        match key.s {
            "net" => self.nets = nets(value)?,
            "ip2nets" => self.ip2nets = each(value, "ip2nets", ip2nets)?,
            "peer" => self.peers = each(value, "peer", peer)?,
            "route" => self.routes = each(value, "route", route)?,
            "routing" => self.routing = routing(value)?,
            "buffers" => self.buffers = Some(buffers(value)?),
            "numa" => self.numa_range = numa(value)?,
            "global" => self.globals = globals(value)?,
            "udsp" => self.udsp = each(value, "udsp", udsp)?,
            "ping" => self.ping = Some(query(value)?),
            "discover" => self.discover = Some(query(value)?),
            "statistics" | "transits" => {}
            _ => return Err(key.unknown("key", known)),
        }
        Ok(())
    }
}

pub(super) fn each<T>(
    list: &Node<'_>,
    what: &str,
    read: impl Fn(&Node<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    list.items(what)?.iter().map(read).collect()
}

/// Returns `value`, which is required in the entry at `node`.
pub(super) fn required<T>(node: &Node<'_>, key: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| {
        let error = node.place().error(format!("this entry has no \"{key}\""));
        error.with_help(format!("add a line \"{key}: …\" to it"))
    })
}

fn nets(list: &Node<'_>) -> Result<Vec<NetConf>> {
    let mut nets = each(list, "net", net)?;
    // Every node has the loopback, and every plain export shows it.
    nets.retain(|net| net.net != Net::LOOPBACK);
    Ok(nets)
}

fn net(node: &Node<'_>) -> Result<NetConf> {
    let (mut net, mut nid, mut nis) = (None, None, Vec::new());
    let mut only = NiEntry::default();
    for (key, value) in node.entries("a net")? {
        match key.s {
            // The second is the key of releases before 2.10.
            "net type" | "net" => net = Some(value.text(key.s)?.parse::<Net>()?),
            "nid" => nid = Some(value.text(key.s)?.parse::<Nid>()?),
            "local NI(s)" => nis = each(value, key.s, ni)?.into_iter().flatten().collect(),
            info if NI_INFO.contains(&info) => {}
            // An NI without a list of them.
            _ => only.set(key, value, &NET_KEYS)?,
        }
    }
    if only != NiEntry::default() {
        nis.extend(only.nis());
    }
    let net = required(node, "net type", net.or(nid.map(Nid::net)))?;
    if nid.is_some() {
        nis.push(NiConf { nid, ..NiConf::default() });
    }
    if nis.is_empty() {
        nis.push(NiConf::default());
    }
    Ok(NetConf { net, nis })
}

fn ni(node: &Node<'_>) -> Result<Vec<NiConf>> {
    let mut entry = NiEntry::default();
    for (key, value) in node.entries("an NI")? {
        match key.s {
            "nid" => entry.ni.nid = Some(value.text(key.s)?.parse()?),
            info if NI_INFO.contains(&info) => {}
            _ => entry.set(key, value, &NI_KEYS)?,
        }
    }
    Ok(entry.nis())
}

/// Settings of an NI for each of its interfaces.
#[derive(Default, PartialEq)]
struct NiEntry {
    ni: NiConf,
    /// The interfaces, some with CPU partitions of their own.
    interfaces: Vec<NiConf>,
}

impl NiEntry {
    /// Reads a setting that `net` and `ip2nets` have in common.
    fn set(&mut self, key: Text<'_>, value: &Node<'_>, known: &[&str]) -> Result<()> {
        let ni = &mut self.ni;
        match key.s {
            "interfaces" => self.interfaces = numbered(value, "interfaces")?,
            "tunables" => ni.tunables = tunables(value)?,
            "lnd tunables" => ni.lnd = lnd(value)?,
            "CPT" => ni.cpts = Some(cpts(value)?),
            _ => return Err(key.unknown("key", known)),
        }
        Ok(())
    }

    /// Returns one NI for all interfaces, or one for each if some have CPU partitions of their own.
    fn nis(self) -> Vec<NiConf> {
        let Self { ni, interfaces } = self;
        if interfaces.iter().all(|interface| interface.cpts.is_none()) {
            let interfaces = interfaces.into_iter().flat_map(|one| one.interfaces).collect();
            return vec![NiConf { interfaces, ..ni }];
        }
        let each = interfaces.into_iter().map(|NiConf { interfaces, cpts, .. }| NiConf {
            interfaces,
            cpts: cpts.or(ni.cpts.clone()),
            ..ni.clone()
        });
        each.collect()
    }
}

/// Reads `"[0,1]"`, or the same as a list of YAML.
fn cpts(node: &Node<'_>) -> Result<Vec<u32>> {
    if !node.is_list() {
        return number_list(node.text("CPT")?, CPT_MAX);
    }
    let lists = each(node, "CPT", |one| number_list(one.text("CPT")?, CPT_MAX))?;
    Ok(lists.into_iter().flatten().collect())
}

/// The largest number of a CPU partition.
pub(crate) const CPT_MAX: u32 = 4095;

/// Reads `0: eth0`, `1: eth1[0,1]`, …, or a plain list.
fn numbered(node: &Node<'_>, what: &str) -> Result<Vec<NiConf>> {
    let interface = |value: &Node<'_>| interface_spec(value.text(what)?.trim());
    if node.is_list() {
        return each(node, what, interface);
    }
    let entries = node.entries(what)?;
    entries
        .iter()
        .map(|(key, value)| key.u32("the number of an entry").and_then(|_| interface(value)))
        .collect()
}

fn tunables(node: &Node<'_>) -> Result<TunablesConf> {
    let mut tunables = TunablesConf::default();
    for (key, value) in node.entries("tunables")? {
        let text = value.text(key.s)?;
        match key.s {
            "peer_timeout" => {
                let seconds = text.number(key.s, i32::MIN.into(), i32::MAX.into())?;
                tunables.peer_timeout = Some(seconds as i32);
            }
            "peer_credits" => tunables.peer_credits = unless_default(text, key.s)?,
            "peer_buffer_credits" => tunables.peer_buffer_credits = unless_default(text, key.s)?,
            "credits" => tunables.credits = unless_default(text, key.s)?,
            _ => return Err(key.unknown("tunable", &TUNABLE_KEYS)),
        }
    }
    Ok(tunables)
}

/// Reads a number; −1 stands for the default.
fn unless_default(text: Text<'_>, what: &str) -> Result<Option<u32>> {
    let number = text.number(what, -1, u32::MAX.into())?;
    Ok(u32::try_from(number).ok())
}

fn lnd(node: &Node<'_>) -> Result<LndConf> {
    let mut lnd = LndConf::default();
    for (key, value) in node.entries("lnd tunables")? {
        let text = value.text(key.s)?;
        match key.s {
            "conns_per_peer" => lnd.conns_per_peer = Some(text.number(key.s, 0, 127)? as u32),
            "timeout" => lnd.timeout = Some(text.u32(key.s)?),
            "tos" => lnd.tos = Some(text.number(key.s, -1, 255)? as i32),
            other if LND_KEYS.contains(&other) => {
                lnd.other.push((other.to_owned(), text.s.to_owned()));
            }
            _ => return Err(key.unknown("LND tunable", &LND_KEYS)),
        }
    }
    Ok(lnd)
}

fn ip2nets(node: &Node<'_>) -> Result<Ip2NetsConf> {
    let (mut net, mut entry, mut ranges) = (None, NiEntry::default(), Vec::new());
    for (index, (key, value)) in node.entries("an entry of ip2nets")?.into_iter().enumerate() {
        if (index == 0) != (key.s == "net-spec") {
            return Err(key.error("\"net-spec\" must be the first key of an entry"));
        }
        match key.s {
            "net-spec" => net = Some(value.text(key.s)?.parse::<Net>()?),
            "ip-range" => ranges = address_ranges(value)?,
            _ => entry.set(key, value, &IP2NETS_KEYS)?,
        }
    }
    let [ni] = &*entry.nis() else {
        let error = node.place().error("interfaces of one entry of ip2nets have different CPTs");
        return Err(error.with_help("write \"CPT\" once for the entry, or use \"net\""));
    };
    let ni = ni.clone();
    Ok(Ip2NetsConf { net: required(node, "net-spec", net)?, ni, ranges })
}

fn address_ranges(node: &Node<'_>) -> Result<Vec<AddressPattern>> {
    let entries = node.entries("ip-range")?;
    entries.iter().map(|(_, value)| AddressPattern::parse(value.text("ip-range")?)).collect()
}

fn peer(node: &Node<'_>) -> Result<PeerConf> {
    let (mut primary, mut multi_rail, mut nids) = (None, true, Vec::new());
    for (key, value) in node.entries("a peer")? {
        match key.s {
            "primary nid" => primary = Some(value.text(key.s)?.parse()?),
            "Multi-Rail" => multi_rail = boolean(value.text(key.s)?)?,
            "peer ni" => nids = each(value, key.s, peer_ni)?,
            "peer state" => {}
            _ => return Err(key.unknown("key", &PEER_KEYS)),
        }
    }
    Ok(PeerConf { primary: required(node, "primary nid", primary)?, multi_rail, nids })
}

/// Reads the NID of a peer NI, and ignores the other keys.
fn peer_ni(node: &Node<'_>) -> Result<Nid> {
    let mut nid = None;
    for (key, value) in node.entries("a peer NI")? {
        if key.s == "nid" {
            nid = Some(value.text("nid")?.parse()?);
        }
    }
    required(node, "nid", nid)
}

fn route(node: &Node<'_>) -> Result<RouteConf> {
    let (mut net, mut gateway) = (None, None);
    let (mut hop, mut priority, mut health_sensitivity) = (None, 0, None);
    for (key, value) in node.entries("a route")? {
        if key.s == "statistics" {
            continue;
        }
        let text = value.text(key.s)?;
        match key.s {
            "net" => net = Some(text.parse()?),
            "gateway" => gateway = Some(text.parse()?),
            "hop" if text.s == "-1" => {}
            "hop" => hop = Some(text.number(key.s, 1, 255)? as u32),
            "priority" => priority = text.u32(key.s)?,
            "health_sensitivity" => health_sensitivity = Some(text.u32(key.s)?),
            "state" | "type" => {}
            _ => return Err(key.unknown("key", &ROUTE_KEYS)),
        }
    }
    let (net, gateway) = (required(node, "net", net)?, required(node, "gateway", gateway)?);
    Ok(RouteConf { net, gateway, hop, priority, health_sensitivity })
}

/// Kernel nodes export a state here: 0 is disabled, 1 enabled, 2 stopping and 3 starting.
fn is_enabled(text: Text<'_>) -> Result<bool> {
    match text.s {
        "2" => Ok(false),
        "3" => Ok(true),
        _ => boolean(text),
    }
}

/// Reads `enable: 1`, or the list of an export, which has that as an item and pools as others.
fn routing(node: &Node<'_>) -> Result<Option<bool>> {
    let maps = if node.is_list() { node.items("routing")? } else { std::slice::from_ref(node) };
    let mut enable = None;
    for map in maps {
        for (key, value) in map.entries("routing")? {
            match key.s {
                "enable" => enable = Some(is_enabled(value.text(key.s)?)?),
                "state" => {}
                pool if pool.starts_with("cpt[") => {}
                _ => return Err(key.unknown("key", &["enable"])),
            }
        }
    }
    Ok(enable)
}

fn buffers(node: &Node<'_>) -> Result<BuffersConf> {
    let mut buffers = BuffersConf::default();
    for (key, value) in node.entries("buffers")? {
        let count = Some(value.text(key.s)?.u32(key.s)?);
        match key.s {
            "tiny" => buffers.tiny = count,
            "small" => buffers.small = count,
            "large" => buffers.large = count,
            _ => return Err(key.unknown("buffer", &["tiny", "small", "large"])),
        }
    }
    Ok(buffers)
}

fn numa(node: &Node<'_>) -> Result<Option<u32>> {
    let mut range = None;
    for (key, value) in node.entries("numa")? {
        match key.s {
            "range" => range = Some(value.text(key.s)?.u32(key.s)?),
            _ => return Err(key.unknown("key", &["range"])),
        }
    }
    Ok(range)
}

fn globals(node: &Node<'_>) -> Result<Vec<(GlobalKey, u32)>> {
    let read = |(key, value): (Text<'_>, &Node<'_>)| {
        let name = key.parse::<GlobalKey>()?;
        let (min, max) = name.range();
        Ok((name, value.text(key.s)?.number(key.s, min.into(), max.into())? as u32))
    };
    node.entries("global")?.into_iter().map(read).collect()
}

fn udsp(node: &Node<'_>) -> Result<UdspConf> {
    let mut rule = UdspConf::default();
    for (key, value) in node.entries("a UDSP rule")? {
        if key.s == "action" {
            for (key, value) in value.entries("action")? {
                match key.s {
                    "priority" => rule.priority = Some(priority(value.text(key.s)?)?),
                    _ => return Err(key.unknown("action", &["priority"])),
                }
            }
            continue;
        }
        let text = value.text(key.s)?;
        match key.s {
            "idx" => rule.idx = Some(text.u32(key.s)?),
            "src" => rule.src = selector(text)?,
            "dst" => rule.dst = selector(text)?,
            "rte" => rule.rte = selector(text)?,
            "priority" => rule.priority = Some(priority(text)?),
            _ => return Err(key.unknown("key", &UDSP_KEYS)),
        }
    }
    // A kernel that has imported a rule with two criteria shows the lowest priority for it.
    let is_pair = rule.rte.is_some() || (rule.src.is_some() && rule.dst.is_some());
    rule.priority = rule.priority.filter(|priority| !is_pair || *priority != PRIORITY_LOWEST);
    Ok(rule)
}

/// Reads a criterion; `NA` stands for none, as kernel nodes up to 2.15 export it.
fn selector(text: Text<'_>) -> Result<Option<Selector>> {
    if text.s == "NA" { Ok(None) } else { text.parse().map(Some) }
}

/// Reads a priority; −1 stands for the lowest.
fn priority(text: Text<'_>) -> Result<u32> {
    let number = text.number("priority", -1, u32::MAX.into())?;
    Ok(u32::try_from(number).unwrap_or(PRIORITY_LOWEST))
}

fn query(node: &Node<'_>) -> Result<QueryConf> {
    let mut query = QueryConf::default();
    for (key, value) in node.entries("ping or discover")? {
        match key.s {
            "source" => query.source = Some(value.text(key.s)?.parse()?),
            "timeout" => query.timeout = Some(value.text(key.s)?.u32(key.s)?),
            "nids" => query.nids = each(value, key.s, |nid| nid.text("a NID")?.parse())?,
            _ => return Err(key.unknown("key", &QUERY_KEYS)),
        }
    }
    Ok(query)
}

pub(crate) fn boolean(text: Text<'_>) -> Result<bool> {
    match text.s.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(text
            .error(format!("\"{}\" is not a boolean", text.s))
            .with_help("write True or False, or 1 or 0")),
    }
}

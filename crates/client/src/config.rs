//! The targets of a file system, by the records of its client log. Spec: ptlrpc-ldlm-mgs §30, §31.1.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::Uuid;
use fulmar_lustre_wire::llog::config::{Config, MarkerFlags, Member, Pool, SetupArguments};
use fulmar_rpc::import::TargetKind;

use crate::parameters;

/// The configuration of a file system: its targets and pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Its name.
    pub name: String,
    /// Its metadata targets, by index.
    pub mdts: Vec<FsTarget>,
    /// Its object targets, by index.
    pub osts: Vec<FsTarget>,
    /// Its pools, each with the indices of its object targets.
    pub pools: BTreeMap<String, BTreeSet<u32>>,
}

/// A target of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsTarget {
    /// Its kind.
    pub kind: TargetKind,
    /// Its index.
    pub index: u32,
    /// Its UUID, such as `lv-OST0000_UUID`.
    pub uuid: Uuid,
    /// The client's device for it, such as `lv-OST0000-osc`. Each client adds a number of its own.
    pub device: String,
    /// The NIDs where it may be: those of its first node, and then of those that it may fail over to.
    pub nids: Vec<Nid>,
    /// Whether it is to be used.
    pub is_active: bool,
}

impl Configuration {
    /// Returns the file system that the records of its client log describe, in their order, and those
    /// of the log of parameters for all clients.
    ///
    /// Records that are cancelled, and those that a client of the targets does not need, are ignored.
    /// A target without a valid name or index is left out.
    pub fn of(name: &str, records: &[Config], parameters: &[Config]) -> Self {
        let mut reader = Reader::default();
        records.iter().for_each(|record| reader.take(record));
        parameters.iter().for_each(|record| reader.take(record));
        let devices = reader.devices.iter().map(|(name, device)| (device.target.as_str(), name));
        let devices: BTreeMap<&str, &String> = devices.collect();
        let targets = |members: &BTreeMap<u32, ListEntry>, kind| {
            let target = |(index, listed): (&u32, &ListEntry)| {
                let device = devices.get(listed.uuid.as_str())?;
                reader.target(kind, *index, listed, device)
            };
            members.iter().filter_map(target).collect()
        };
        Self {
            name: name.to_owned(),
            mdts: targets(&reader.mdts, TargetKind::Mdt),
            osts: targets(&reader.osts, TargetKind::Ost),
            pools: reader.pools,
        }
    }

    /// Returns all targets, metadata first.
    pub fn targets(&self) -> impl Iterator<Item = &FsTarget> {
        self.mdts.iter().chain(&self.osts)
    }
}

impl FsTarget {
    /// Returns the name of its kind, such as `OST`.
    pub fn kind_name(&self) -> &'static str {
        Self::name_of(self.kind)
    }

    pub(crate) fn name_of(kind: TargetKind) -> &'static str {
        match kind {
            TargetKind::Mgs => "MGT",
            TargetKind::Mdt => "MDT",
            TargetKind::Ost => "OST",
            TargetKind::Client => "client",
        }
    }

    /// Returns the kind and index, such as `OST:0`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.kind_name(), self.index)
    }
}

/// What the records have said so far.
#[derive(Debug, Default)]
struct Reader {
    /// Whether records count: they are between markers.
    group: Group,
    /// The NIDs of nodes, by their UUIDs.
    nodes: BTreeMap<String, Vec<Nid>>,
    devices: BTreeMap<String, Device>,
    mdts: BTreeMap<u32, ListEntry>,
    osts: BTreeMap<u32, ListEntry>,
    pools: BTreeMap<String, BTreeSet<u32>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Group {
    #[default]
    Outside,
    Inside,
    Skipped,
}

/// A device for a target.
#[derive(Debug, Default)]
struct Device {
    /// Such as `osc`.
    kind: String,
    target: String,
    /// The UUIDs of the nodes of the target.
    nodes: Vec<String>,
    is_inactive: bool,
}

/// A target in the list of a device that unites targets.
#[derive(Debug)]
struct ListEntry {
    uuid: String,
    is_active: bool,
}

impl Reader {
    fn take(&mut self, record: &Config) {
        if let Config::Marker { marker, .. } = record {
            self.group = match marker.flags {
                flags if flags.has(MarkerFlags::END) => Group::Outside,
                flags if flags.has(MarkerFlags::SKIP) => Group::Skipped,
                _ => Group::Inside,
            };
        } else if self.group == Group::Inside {
            self.apply(record);
        }
    }

    fn apply(&mut self, record: &Config) {
        match record {
            Config::AddUuid { nid, node, large_nid } => {
                let large = large_nid.as_ref().and_then(|text| text.parse().ok());
                let small = (nid.0 != 0).then(|| nid.nid());
                if let Some(nid) = large.or(small) {
                    self.nodes.entry(node.clone()).or_default().push(nid);
                }
            }
            Config::DelUuid { node } => {
                self.nodes.remove(node);
            }
            Config::Attach { device, kind, .. } => {
                let attached = Device { kind: kind.clone(), ..Device::default() };
                self.devices.insert(device.clone(), attached);
            }
            Config::Setup { device, arguments: SetupArguments::Texts(texts) } => {
                if let [target, node, rest @ ..] = texts.as_slice()
                    && let Some(found) = self.devices.get_mut(device)
                {
                    found.target = target.clone();
                    found.nodes = vec![node.clone()];
                    found.is_inactive = rest.iter().any(|text| text == "inactive");
                }
            }
            Config::AddConn { device, node } => {
                if let Some(found) = self.devices.get_mut(device) {
                    found.nodes.push(node.clone());
                }
            }
            Config::DelConn { device, node } => {
                if let Some(found) = self.devices.get_mut(device) {
                    found.nodes.retain(|known| known != node);
                }
            }
            Config::AddMdt(member) => list(&mut self.mdts, member, true),
            Config::AddOst(member) => list(&mut self.osts, member, true),
            Config::AddInactiveOst(member) => list(&mut self.osts, member, false),
            Config::DelMdt(member) => unlist(&mut self.mdts, member),
            Config::DelOst(member) => unlist(&mut self.osts, member),
            Config::Param { device, parameters } => {
                for parameter in parameters {
                    if let Some((_, value)) = parameter.split_once(".active=")
                        && let Some(found) = self.devices.get_mut(device)
                    {
                        found.is_inactive = value == "0";
                    }
                }
            }
            Config::SetParam { parameter, .. } => {
                for (name, found) in &mut self.devices {
                    // Patterns expect the number that a client adds to the names of its devices.
                    let name = format!("{name}-{:016x}", 0);
                    if let Some(is_active) = parameters::is_active(parameter, &found.kind, &name) {
                        found.is_inactive = !is_active;
                    }
                }
            }
            _ => self.apply_to_pools(record),
        }
    }

    fn apply_to_pools(&mut self, record: &Config) {
        match record {
            Config::NewPool(pool) => drop(self.pools.entry(pool.pool.clone()).or_default()),
            Config::AddToPool(pool) => {
                self.pools.entry(pool.pool.clone()).or_default().extend(member_of(pool));
            }
            Config::RemoveFromPool(pool) => {
                if let (Some(osts), Some(ost)) = (self.pools.get_mut(&pool.pool), member_of(pool)) {
                    osts.remove(&ost);
                }
            }
            Config::DestroyPool(pool) => drop(self.pools.remove(&pool.pool)),
            _ => {}
        }
    }

    fn target(
        &self,
        kind: TargetKind,
        index: u32,
        listed: &ListEntry,
        name: &str,
    ) -> Option<FsTarget> {
        let (uuid, device) = (Uuid::new(&listed.uuid)?, self.devices.get(name)?);
        let mut nids: Vec<Nid> = Vec::new();
        for nid in device.nodes.iter().filter_map(|node| self.nodes.get(node)).flatten() {
            if !nids.contains(nid) {
                nids.push(*nid);
            }
        }
        let is_active = listed.is_active && !device.is_inactive;
        let device = name.to_owned();
        Some(FsTarget { kind, index, uuid, device, nids, is_active })
    }
}

/// Returns the index of the OST that a record about a pool names: `lv-OST0001_UUID`.
fn member_of(pool: &Pool) -> Option<u32> {
    let (_, digits) = pool.ost.as_ref()?.strip_suffix("_UUID")?.rsplit_once("-OST")?;
    u32::from_str_radix(digits, 16).ok()
}

fn list(members: &mut BTreeMap<u32, ListEntry>, member: &Member, is_active: bool) {
    if let Ok(index) = member.index.parse() {
        members.insert(index, ListEntry { uuid: member.uuid.clone(), is_active });
    }
}

fn unlist(members: &mut BTreeMap<u32, ListEntry>, member: &Member) {
    if let Ok(index) = member.index.parse::<u32>() {
        members.remove(&index);
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! What a client reads to mount a file system. Spec: ptlrpc-ldlm-mgs §31.1.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::connect::Release;
use fulmar_lustre_wire::layout::Pattern;
use fulmar_lustre_wire::llog::config::{
    Config, Marker, MarkerFlags, Member, SetupArguments, TargetDescriptor,
};
use fulmar_lustre_wire::{SmallNid, Text};

use crate::Log;

/// A file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Its name: 1 to 8 letters, digits, `_` and `-`.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// The MDTs in the order of their registration.
    pub mdts: Vec<Target>,
    /// The OSTs.
    pub osts: Vec<Target>,
}

/// A target, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its index in the file system.
    pub index: u16,
    /// The NIDs of its node, and then of each other node that may run it. Nodes without a NID are
    /// ignored.
    pub nodes: Vec<Vec<Nid>>,
}

/// Returns the log `<fs>-client`, with markers of this release.
///
/// # Errors
/// EINVAL if the name of the file system is too long; ENOSPC if there are too many targets.
pub fn client_log(fs: &FileSystem, release: Release) -> Result<Log, Errno> {
    let mut log = Groups { log: Log::new(fs.created), release, step: 0 };
    let name = &fs.name;
    let (lov, lmv) = (format!("{name}-clilov"), format!("{name}-clilmv"));
    log.group(&lov, "lov setup", device(&lov, "lov", striping(&lov)?))?;
    log.group(&lmv, "lmv setup", device(&lmv, "lmv", uuid_only(&lmv)?))?;
    let profile = format!("{name}-client");
    let (data, metadata) = (lov.clone(), Some(lmv.clone()));
    let mount = Config::MountOpt { profile: profile.clone(), data, metadata };
    log.group(&profile, "mount opts", vec![mount])?;
    for mdt in &fs.mdts {
        let target = format!("{name}-MDT{:04x}", mdt.index);
        let device = format!("{target}-mdc");
        let member = member(&lmv, &target, mdt.index, Some(format!("{device}_UUID")));
        let records = connection(mdt, &target, &device, "mdc", &lmv);
        log.group(&target, "add mdc", [records, vec![Config::AddMdt(member)]].concat())?;
    }
    for ost in &fs.osts {
        let target = format!("{name}-OST{:04x}", ost.index);
        let device = format!("{target}-osc");
        let member = member(&lov, &target, ost.index, None);
        let records = connection(ost, &target, &device, "osc", &lov);
        log.group(&target, "add osc", [records, vec![Config::AddOst(member)]].concat())?;
    }
    Ok(log.log)
}

/// A log of groups of records.
struct Groups {
    log: Log,
    release: Release,
    step: u32,
}

impl Groups {
    /// Appends records that belong together.
    fn group(&mut self, target: &str, comment: &str, records: Vec<Config>) -> Result<(), Errno> {
        self.step += 1;
        let start = Marker {
            step: self.step,
            flags: MarkerFlags::START,
            version: self.release.0,
            created: self.log.time(),
            target: Text::new(target).ok_or(Errno::EINVAL)?,
            comment: Text::new(comment).ok_or(Errno::EINVAL)?,
            ..Marker::default()
        };
        let end = Marker { flags: MarkerFlags::END, ..start };
        let marker = |marker| Config::Marker { device: String::new(), marker };
        self.log.append(&marker(start))?;
        records.iter().try_for_each(|record| self.log.append(record))?;
        self.log.append(&marker(end))
    }
}

/// Creates and starts a device.
fn device(name: &str, kind: &str, descriptor: TargetDescriptor) -> Vec<Config> {
    let (device, uuid) = (name.to_owned(), format!("{name}_UUID"));
    let attach = Config::Attach { device: device.clone(), kind: kind.into(), uuid };
    let arguments = SetupArguments::Descriptor(descriptor);
    vec![attach, Config::Setup { device, arguments }]
}

/// Creates and starts the device of a client for a target, which knows all its nodes.
fn connection(target: &Target, name: &str, device: &str, kind: &str, parent: &str) -> Vec<Config> {
    let mut nodes = target.nodes.iter().filter_map(|nids| Some((nids.first()?.to_string(), nids)));
    let Some((first, nids)) = nodes.next() else { return Vec::new() };
    let mut records = node(&first, nids);
    let (kind, uuid) = (kind.to_owned(), format!("{parent}_UUID"));
    records.push(Config::Attach { device: device.into(), kind, uuid });
    let arguments = SetupArguments::Texts(vec![format!("{name}_UUID"), first]);
    records.push(Config::Setup { device: device.into(), arguments });
    for (other, nids) in nodes {
        records.extend(node(&other, nids));
        records.push(Config::AddConn { device: device.into(), node: other });
    }
    records
}

/// Gives a node its NIDs.
fn node(name: &str, nids: &[Nid]) -> Vec<Config> {
    let add = |nid: &Nid| {
        let (small, node) = (nid.to_small(), name.to_owned());
        let large_nid = small.is_none().then(|| nid.to_string());
        Config::AddUuid { nid: SmallNid(small.unwrap_or_default()), node, large_nid }
    };
    nids.iter().map(add).collect()
}

fn member(device: &str, target: &str, index: u16, client: Option<String>) -> Member {
    let (device, uuid) = (device.to_owned(), format!("{target}_UUID"));
    Member { device, uuid, index: index.to_string(), generation: "1".into(), client }
}

/// Returns how files are striped unless they say otherwise.
fn striping(device: &str) -> Result<TargetDescriptor, Errno> {
    Ok(TargetDescriptor {
        magic: TargetDescriptor::MAGIC,
        stripe_count: 1,
        pattern: Pattern::RAID0,
        stripe_size: 4 << 20,
        stripe_offset: -1,
        qos_max_age: 5,
        ..uuid_only(device)?
    })
}

fn uuid_only(device: &str) -> Result<TargetDescriptor, Errno> {
    let uuid = Text::new(&format!("{device}_UUID")).ok_or(Errno::EINVAL)?;
    Ok(TargetDescriptor { uuid, ..TargetDescriptor::default() })
}

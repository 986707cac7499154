//! The records of configuration logs, in the groups and the order of a kernel MGS.
//! Spec: ptlrpc-ldlm-mgs §31.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::layout::Pattern;
use fulmar_lustre_wire::llog::config::{Config, Member, SetupArguments, TargetDescriptor};
use fulmar_lustre_wire::{SmallNid, Text};
use fulmar_rpc::import::TargetKind;

use crate::target::{Target, TargetName};

/// Records that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// What they are about, such as a target.
    pub(crate) target: String,
    /// What they do, such as `add osc`, or a parameter.
    pub(crate) comment: String,
    pub(crate) records: Vec<Config>,
}

impl Group {
    pub(crate) fn new(target: &str, comment: &str, records: Vec<Config>) -> Self {
        Self { target: target.to_owned(), comment: comment.to_owned(), records }
    }
}

/// How the log of a client begins.
///
/// # Errors
/// EINVAL if the name of the file system is too long.
pub(crate) fn client(fs: &str) -> Result<Vec<Group>, Errno> {
    let (lov, lmv) = (format!("{fs}-clilov"), format!("{fs}-clilmv"));
    let profile = format!("{fs}-client");
    let (data, metadata) = (lov.clone(), Some(lmv.clone()));
    let mount = Config::MountOpt { profile: profile.clone(), data, metadata };
    Ok(vec![
        Group::new(&lov, "lov setup", device(&lov, "lov", striping(&lov)?)),
        Group::new(&lmv, "lmv setup", device(&lmv, "lmv", uuid_only(&lmv)?)),
        Group::new(&profile, "mount opts", vec![mount]),
    ])
}

/// A target in the log of a client.
pub(crate) fn client_member(name: &TargetName, target: &Target) -> Group {
    let own = name.to_string();
    let fs = &name.file_system;
    match name.kind {
        TargetKind::Mdt => {
            let (lmv, device) = (format!("{fs}-clilmv"), format!("{own}-mdc"));
            let mut records = connection(target, &own, &device, "mdc", &lmv);
            let client = Some(format!("{device}_UUID"));
            records.push(Config::AddMdt(member(&lmv, name, client)));
            Group::new(&own, "add mdc", records)
        }
        _ => {
            let (lov, device) = (format!("{fs}-clilov"), format!("{own}-osc"));
            let mut records = connection(target, &own, &device, "osc", &lov);
            records.push(Config::AddOst(member(&lov, name, None)));
            Group::new(&own, "add osc", records)
        }
    }
}

/// How the log of an MDT begins.
///
/// # Errors
/// EINVAL if the name of the file system is too long.
pub(crate) fn mdt(name: &TargetName) -> Result<Vec<Group>, Errno> {
    let own = name.to_string();
    let (lov, uuid) = (format!("{own}-mdtlov"), format!("{own}_UUID"));
    let attach = Config::Attach { device: own.clone(), kind: "mdt".into(), uuid: uuid.clone() };
    let mount = Config::MountOpt { profile: own.clone(), data: lov.clone(), metadata: None };
    let arguments = vec![uuid, name.index.to_string(), lov.clone(), "f".into()];
    let arguments = SetupArguments::Texts(arguments);
    let setup = Config::Setup { device: own.clone(), arguments };
    Ok(vec![
        Group::new(&lov, "lov setup", device(&lov, "lov", striping(&lov)?)),
        Group::new(&own, "add mdt", vec![attach, mount, setup]),
    ])
}

/// A target in the log of the MDT `of`.
pub(crate) fn mdt_member(of: &TargetName, name: &TargetName, target: &Target) -> Group {
    let own = name.to_string();
    let (lov, suffix) = (format!("{of}-mdtlov"), of.suffix());
    match name.kind {
        TargetKind::Mdt => {
            let mut records = connection(target, &own, &format!("{own}-osp-{suffix}"), "osp", &lov);
            records.push(Config::AddMdt(member(&lov, name, None)));
            Group::new(&own, "add osp", records)
        }
        _ => {
            let mut records = connection(target, &own, &format!("{own}-osc-{suffix}"), "osc", &lov);
            records.push(Config::AddOst(member(&lov, name, None)));
            Group::new(&own, "add osc", records)
        }
    }
}

/// The log of an OST.
pub(crate) fn ost(name: &TargetName) -> Group {
    let device = name.to_string();
    let (kind, uuid) = ("obdfilter".into(), format!("{device}_UUID"));
    let attach = Config::Attach { device: device.clone(), kind, uuid };
    let arguments = ["dev", "type", "f"].map(str::to_owned).to_vec();
    let arguments = SetupArguments::Texts(arguments);
    let setup = Config::Setup { device: device.clone(), arguments };
    Group::new(&device, "add ost", vec![attach, setup])
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

fn member(device: &str, name: &TargetName, client: Option<String>) -> Member {
    let (device, uuid) = (device.to_owned(), format!("{name}_UUID"));
    Member { device, uuid, index: name.index.to_string(), generation: "1".into(), client }
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

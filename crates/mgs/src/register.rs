//! The registration of targets. Spec: ptlrpc-ldlm-mgs §33.

use std::fmt;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{TARGET_INFO, TARGET_NIDS};
use fulmar_lustre_wire::ldlm::{ConfigLock, ResourceId};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::mgs::{TargetFlags, TargetInfo, TargetNidsFlags};
use fulmar_lustre_wire::{Status, Text};
use fulmar_rpc::import::TargetKind;

use crate::parameters::PARAMS;
use crate::records;
use crate::service::Mgs;
use crate::table::Start;
use crate::target::{Target, TargetName, is_file_system_name};

/// What a change of the configuration is about: who has read it reads it again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigurationChange {
    /// The logs of a file system.
    Configuration(String),
    /// The table of started targets of a file system.
    Starts(String),
    /// The parameters of all nodes.
    Parameters,
    /// The nodemaps.
    Nodemaps,
}

impl ConfigurationChange {
    /// Returns the resource whose locks the readers have.
    pub fn resource(&self) -> ResourceId {
        match self {
            Self::Configuration(fs) => {
                ResourceId::of_log(&format!("{fs}-client"), ConfigLock::CONFIG)
            }
            Self::Starts(fs) => ResourceId::of_log(&format!("{fs}-cliir"), ConfigLock::RECOVER),
            Self::Parameters => ResourceId::of_log("params", ConfigLock::PARAMS),
            Self::Nodemaps => ResourceId::of_log("nodemap", ConfigLock::NODEMAP),
        }
    }
}

impl fmt::Display for ConfigurationChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(fs) => write!(f, "the configuration of {fs}"),
            Self::Starts(fs) => write!(f, "the table of started targets of {fs}"),
            Self::Parameters => f.write_str("the table of parameters of all nodes"),
            Self::Nodemaps => f.write_str("the index of nodemaps"),
        }
    }
}

/// The result of a registration.
#[derive(Debug)]
pub struct Registration {
    /// The reply.
    pub reply: Message<'static>,
    /// What has changed.
    pub changed: Vec<ConfigurationChange>,
}

/// The most NIDs of a target: the table of started targets has one byte for their number.
const NIDS_MAX: usize = 255;
/// What the reply to a registration does not have any more.
const DONE: TargetFlags = TargetFlags(
    TargetFlags::VIRGIN.0
        | TargetFlags::UPDATE.0
        | TargetFlags::NEED_INDEX.0
        | TargetFlags::WRITECONF.0,
);

impl Mgs {
    /// Registers a target, or takes its start. `now`: seconds since 1970.
    ///
    /// The changes are to be stored ([`Mgs::take_changes`]) before the reply is sent. If that fails, or
    /// if there is an error, this value is of no use any more: work on a clone.
    ///
    /// # Errors
    /// The errno, and the reply with it: EINVAL for a wrong name, kind, index or NID; EADDRINUSE if
    /// another target has the index; ENOENT for a target that is not known; ENOSPC if a log or the
    /// indices are used up; EPROTO without a whole request.
    pub fn register(
        &mut self,
        now: i64,
        request: &Message<'_>,
    ) -> Result<Registration, Box<Message<'static>>> {
        let format = request.format();
        let refused = |errno: Errno, info: Option<TargetInfo>| {
            let mut reply = Message::reply(format, Status::failed(errno));
            if let Some(mut info) = info {
                info.flags = info.flags | TargetFlags::ERROR;
                reply = reply.with(&TARGET_INFO, &TargetInfo { nid_texts: vec![], ..info });
            }
            Box::new(reply)
        };
        let Ok(info) = request.require(&TARGET_INFO) else {
            return Err(refused(Errno::EPROTO, None));
        };
        let result = nids(request, &info).and_then(|nids| {
            let mut info = info.clone();
            let changed = match info.flags {
                flags if flags.has(TargetFlags::OPC_REG) => self.enter(now, &mut info, nids),
                flags if flags.has(TargetFlags::OPC_READY) => self.started(&mut info, nids),
                flags if flags.has(TargetFlags::OPC_UNREG) => Err(Errno::EOPNOTSUPP),
                _ => Err(Errno::EINVAL),
            };
            Ok((info, changed?))
        });
        let (info, changed) = result.map_err(|errno| refused(errno, Some(info)))?;
        let info = TargetInfo { nid_texts: vec![], ..info };
        let reply = Message::reply(format, Status::OK).with(&TARGET_INFO, &info);
        Ok(Registration { reply, changed })
    }

    /// Handles the start of a target.
    fn started(
        &mut self,
        info: &mut TargetInfo,
        nids: Vec<Nid>,
    ) -> Result<Vec<ConfigurationChange>, Errno> {
        let (fs, kind) = subject(info)?;
        let index = u16::try_from(info.index).map_err(|_| Errno::EINVAL)?;
        let name = TargetName { file_system: fs.clone(), kind, index };
        if self.target(&name).is_none() {
            return Err(Errno::ENOENT);
        }
        self.table(&fs).started(Start { kind, index, instance: info.instance, nids });
        self.note_table(&fs);
        info.flags = info.flags | TargetFlags::IR_CAPABLE;
        Ok(vec![ConfigurationChange::Starts(fs)])
    }

    /// Enters a target into the logs, if it is new or its configuration is to be written again.
    fn enter(
        &mut self,
        now: i64,
        info: &mut TargetInfo,
        nids: Vec<Nid>,
    ) -> Result<Vec<ConfigurationChange>, Errno> {
        let (fs, kind) = subject(info)?;
        let needs_index = info.flags.has(TargetFlags::NEED_INDEX);
        let index = if needs_index {
            self.free_index(&fs, kind)?
        } else {
            u16::try_from(info.index).map_err(|_| Errno::EINVAL)?
        };
        let name = TargetName { file_system: fs.clone(), kind, index };
        if index > TargetName::INDEX_MAX {
            return Err(Errno::ERANGE);
        }
        if !needs_index && info.name.to_string() != name.to_string() {
            return Err(Errno::EINVAL);
        }
        let is_known = self.target(&name).is_some();
        let rewrites = info.flags.has(TargetFlags::WRITECONF);
        if info.flags.has(TargetFlags::VIRGIN) && is_known && !rewrites {
            return Err(Errno::EADDRINUSE);
        }
        let updates = rewrites || needs_index || info.flags.has(TargetFlags::UPDATE);
        if !updates && !is_known {
            return Err(Errno::ENOENT);
        }
        info.index = index.into();
        info.name = Text::new(&name.to_string()).ok_or(Errno::EINVAL)?;
        info.uuid = Text::new(&format!("{name}_UUID")).ok_or(Errno::EINVAL)?;
        if !updates {
            return Ok(Vec::new());
        }
        if rewrites && kind == TargetKind::Mdt && index == 0 {
            self.erase(&fs);
        }
        let nodes = nodes(info, nids)?;
        self.add(now, &name, Target { nodes })?;
        self.set_registered(now, &name, &info.parameters.to_string())?;
        info.flags = TargetFlags(info.flags.0 & !DONE.0) | TargetFlags::REWRITE_LDD;
        Ok(vec![ConfigurationChange::Configuration(fs)])
    }

    /// Writes a target into all logs that name it, and into its own, as its registration does. `now`:
    /// seconds since 1970.
    ///
    /// # Errors
    /// As [`Mgs::register`].
    pub fn add(&mut self, now: i64, name: &TargetName, target: Target) -> Result<(), Errno> {
        let fs = &name.file_system;
        // Nodes look for this log, and report that it is missing.
        self.make_log(PARAMS, now);
        let own = name.to_string();
        self.remove_log(&own);
        match name.kind {
            TargetKind::Mdt => {
                for group in records::mdt(name)? {
                    self.append(&own, &group, now)?;
                }
                self.add_to_client(now, name, &target)?;
                let others: Vec<_> = self.targets_of(fs).filter(|(of, _)| *of != name).collect();
                let groups: Vec<_> = others
                    .into_iter()
                    .map(|(other, target)| records::mdt_member(name, other, target))
                    .collect();
                for group in groups {
                    self.append(&own, &group, now)?;
                }
                self.add_to_mdts(now, name, &target)?;
            }
            _ => {
                self.append(&own, &records::ost(name), now)?;
                self.add_to_mdts(now, name, &target)?;
                self.add_to_client(now, name, &target)?;
            }
        }
        self.set_target(name.clone(), target);
        Ok(())
    }

    fn add_to_client(&mut self, now: i64, name: &TargetName, target: &Target) -> Result<(), Errno> {
        let client = format!("{}-client", name.file_system);
        if self.log_named(&client).is_none() {
            for group in records::client(&name.file_system)? {
                self.append(&client, &group, now)?;
            }
        }
        self.replace(&client, &records::client_member(name, target), now)
    }

    fn add_to_mdts(&mut self, now: i64, name: &TargetName, target: &Target) -> Result<(), Errno> {
        for mdt in self.mdts_of(&name.file_system).iter().filter(|mdt| *mdt != name) {
            let group = records::mdt_member(mdt, name, target);
            self.replace(&mdt.to_string(), &group, now)?;
        }
        Ok(())
    }
}

/// Returns the file system and the kind of a target.
fn subject(info: &TargetInfo) -> Result<(String, TargetKind), Errno> {
    let fs = info.file_system.to_string();
    if !is_file_system_name(&fs) {
        return Err(Errno::EINVAL);
    }
    let kind = match (info.flags.has(TargetFlags::MDT), info.flags.has(TargetFlags::OST)) {
        (true, false) => TargetKind::Mdt,
        (false, true) => TargetKind::Ost,
        _ => return Err(Errno::EINVAL),
    };
    Ok((fs, kind))
}

/// Returns the NIDs of the node of a target, at least one.
fn nids(request: &Message<'_>, info: &TargetInfo) -> Result<Vec<Nid>, Errno> {
    let list = request.get(&TARGET_NIDS).map_err(|_| Errno::EPROTO)?;
    let list = list.filter(|list| list.count > 0);
    if list.as_ref().is_some_and(|list| list.flags.has(TargetNidsFlags::IN_BULK)) {
        return Err(Errno::EOPNOTSUPP);
    }
    let texts = list.as_ref().map_or(&info.nid_texts, |list| &list.nids);
    let nids: Vec<Nid> = if texts.is_empty() {
        let old = info.nids.iter().take(info.nid_count as usize);
        old.map(|&nid| Nid::from_small(nid)).collect()
    } else {
        let nids = texts.iter().map(|text| text.to_string().parse().map_err(|_| Errno::EINVAL));
        nids.collect::<Result<_, _>>()?
    };
    if (1..=NIDS_MAX).contains(&nids.len()) { Ok(nids) } else { Err(Errno::EINVAL) }
}

/// Returns the nodes that may run a target: its own, and those of `failover.node`.
fn nodes(info: &TargetInfo, own: Vec<Nid>) -> Result<Vec<Vec<Nid>>, Errno> {
    // Of service nodes it is the one that registers, which is also among the others.
    let mut nodes = vec![own];
    let parameters = info.parameters.to_string();
    let values = parameters.split_whitespace().filter_map(|one| one.strip_prefix("failover.node="));
    for value in values {
        for node in split_nodes(value) {
            let nids = node.split(',').map(|nid| nid.parse().map_err(|_| Errno::EINVAL));
            nodes.push(nids.collect::<Result<Vec<Nid>, _>>()?);
        }
    }
    let count: usize = nodes.iter().map(Vec::len).sum();
    if count > NIDS_MAX {
        return Err(Errno::EINVAL);
    }
    Ok(nodes)
}

/// Splits nodes at the colons that are not within an IPv6 address.
pub fn split_nodes(value: &str) -> Vec<&str> {
    let (mut nodes, mut start, mut is_net) = (Vec::new(), 0, false);
    for (at, c) in value.char_indices() {
        match c {
            '@' => is_net = true,
            ',' => is_net = false,
            ':' if is_net => {
                nodes.push(&value[start..at]);
                (start, is_net) = (at + 1, false);
            }
            _ => {}
        }
    }
    nodes.push(&value[start..]);
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_separated_by_colons_that_addresses_have_too() {
        let split = split_nodes("10.0.0.1@tcp,10.1.0.1@o2ib:fd00::1@tcp,fd00::2@tcp1:10.0.0.3@tcp");
        let expected = ["10.0.0.1@tcp,10.1.0.1@o2ib", "fd00::1@tcp,fd00::2@tcp1", "10.0.0.3@tcp"];
        assert_eq!(split, expected);
    }
}

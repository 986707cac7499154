//! What configuration records say. Spec: ptlrpc-ldlm-mgs §30, §31.1.

use fulmar_wire::Order;
use serde::Serialize;

use super::{ConfigBuffer, ConfigCommand, ConfigRecord, Marker, TargetDescriptor};
use crate::Content;
use crate::nid::SmallNid;

/// What a configuration record says.
///
/// An empty text is a buffer without bytes: a record that does not name a device has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Config {
    /// Create a device of a type such as `osc`.
    Attach {
        device: String,
        kind: String,
        uuid: String,
    },
    /// Remove a device.
    Detach {
        device: String,
    },
    /// Start a device.
    Setup {
        device: String,
        arguments: SetupArguments,
    },
    /// Stop a device.
    Cleanup {
        device: String,
    },
    /// Give a node a NID. Before the setup of a target, one of its own; after it, of another node
    /// that may run it.
    AddUuid {
        nid: SmallNid,
        node: String,
        /// A NID that has no small form; then `nid` is 0.
        large_nid: Option<String>,
    },
    DelUuid {
        node: String,
    },
    /// The devices of a mount: data and, for clients, metadata.
    MountOpt {
        profile: String,
        data: String,
        metadata: Option<String>,
    },
    DelMountOpt {
        profile: String,
    },
    SetTimeout {
        device: String,
        seconds: u32,
    },
    SetLdlmTimeout {
        device: String,
        seconds: u32,
    },
    /// Add a node to a target.
    AddConn {
        device: String,
        node: String,
    },
    DelConn {
        device: String,
        node: String,
    },
    AddOst(Member),
    AddInactiveOst(Member),
    DelOst(Member),
    AddMdt(Member),
    DelMdt(Member),
    /// Parameters of a device, as `name=value`.
    Param {
        device: String,
        parameters: Vec<String>,
    },
    /// The start or the end of records that belong together.
    Marker {
        device: String,
        marker: Marker,
    },
    /// A rule of the security of a file system or a target.
    SecurityRule {
        target: String,
        rule: String,
    },
    NewPool(Pool),
    AddToPool(Pool),
    RemoveFromPool(Pool),
    DestroyPool(Pool),
    /// A parameter of every node that its name fits, as `name=value`.
    SetParam {
        target: String,
        parameter: String,
        upcall: Option<String>,
    },
    /// Anything else.
    Other(ConfigRecord),
}

/// What a device needs to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum SetupArguments {
    /// Of `lov` and `lmv`.
    Descriptor(TargetDescriptor),
    /// Of targets: their UUID, the UUID of a node, and others.
    Texts(Vec<String>),
}

/// A target of a device that unites targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Member {
    pub device: String,
    pub uuid: String,
    /// Decimal.
    pub index: String,
    pub generation: String,
    /// The UUID of the device for the target.
    pub client: Option<String>,
}

/// A pool and, if it changes, one of its OSTs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Pool {
    pub device: String,
    pub file_system: String,
    pub pool: String,
    pub ost: Option<String>,
}

impl Config {
    /// Returns what `record`, of a log in `order`, says. [`Config::record`] gives the same record.
    pub fn of(record: &ConfigRecord, order: Order) -> Self {
        let texts = record.buffers.iter().map(|buffer| {
            if buffer.is_empty() {
                Some(String::new())
            } else {
                buffer.as_text().map(str::to_owned)
            }
        });
        let said = match texts.collect::<Option<Vec<_>>>() {
            Some(texts) => Self::of_texts(record, texts),
            None => Self::of_structure(record, order),
        };
        let same = said.filter(|config| config.record(order) == *record);
        same.unwrap_or_else(|| Self::Other(record.clone()))
    }

    fn of_structure(record: &ConfigRecord, order: Order) -> Option<Self> {
        let [first, second] = record.buffers.as_slice() else { return None };
        let device = if first.is_empty() { "" } else { first.as_text()? }.to_owned();
        let structure = &second.data.0;
        match record.command {
            ConfigCommand::SETUP => {
                let descriptor = TargetDescriptor::decode(structure, order).ok()?;
                let arguments = SetupArguments::Descriptor(descriptor);
                Some(Self::Setup { device, arguments })
            }
            ConfigCommand::MARKER => {
                Some(Self::Marker { device, marker: Marker::decode(structure, order).ok()? })
            }
            _ => None,
        }
    }

    fn of_texts(record: &ConfigRecord, texts: Vec<String>) -> Option<Self> {
        type C = ConfigCommand;
        let mut texts = texts.into_iter();
        let device = texts.next()?;
        let mut next = || texts.next();
        Some(match record.command {
            C::ATTACH => Self::Attach { device, kind: next()?, uuid: next()? },
            C::DETACH => Self::Detach { device },
            C::SETUP => Self::Setup { device, arguments: SetupArguments::Texts(texts.collect()) },
            C::CLEANUP => Self::Cleanup { device },
            C::ADD_UUID => {
                Self::AddUuid { nid: SmallNid(record.nid), node: next()?, large_nid: next() }
            }
            C::DEL_UUID => Self::DelUuid { node: next()? },
            C::MOUNTOPT => Self::MountOpt { profile: next()?, data: next()?, metadata: next() },
            C::DEL_MOUNTOPT => Self::DelMountOpt { profile: next()? },
            C::SET_TIMEOUT => Self::SetTimeout { device, seconds: record.number },
            C::SET_LDLM_TIMEOUT => Self::SetLdlmTimeout { device, seconds: record.number },
            C::ADD_CONN => Self::AddConn { device, node: next()? },
            C::DEL_CONN => Self::DelConn { device, node: next()? },
            C::LOV_ADD_OBD => Self::AddOst(Member::of(device, next)?),
            C::LOV_ADD_INA => Self::AddInactiveOst(Member::of(device, next)?),
            C::LOV_DEL_OBD => Self::DelOst(Member::of(device, next)?),
            C::ADD_MDC => Self::AddMdt(Member::of(device, next)?),
            C::DEL_MDC => Self::DelMdt(Member::of(device, next)?),
            C::PARAM => Self::Param { device, parameters: texts.collect() },
            C::SPTLRPC_CONF => Self::SecurityRule { target: device, rule: next()? },
            C::POOL_NEW => Self::NewPool(Pool::of(device, next)?),
            C::POOL_ADD => Self::AddToPool(Pool::of(device, next)?),
            C::POOL_REM => Self::RemoveFromPool(Pool::of(device, next)?),
            C::POOL_DEL => Self::DestroyPool(Pool::of(device, next)?),
            C::SET_PARAM => Self::SetParam { target: device, parameter: next()?, upcall: next() },
            _ => return None,
        })
    }

    /// Returns the record that says this, for a log in `order`.
    pub fn record(&self, order: Order) -> ConfigRecord {
        type C = ConfigCommand;
        match self {
            Self::Attach { device, kind, uuid } => record(C::ATTACH, [device, kind, uuid], None),
            Self::Detach { device } => record(C::DETACH, [device], None),
            Self::Setup { device, arguments: SetupArguments::Texts(texts) } => {
                record(C::SETUP, [device], texts)
            }
            Self::Setup { device, arguments: SetupArguments::Descriptor(descriptor) } => {
                with_structure(C::SETUP, device, descriptor, order)
            }
            Self::Cleanup { device } => record(C::CLEANUP, [device], None),
            Self::AddUuid { nid, node, large_nid } => {
                ConfigRecord { nid: nid.0, ..record(C::ADD_UUID, ["", node], large_nid) }
            }
            Self::DelUuid { node } => record(C::DEL_UUID, ["", node], None),
            Self::MountOpt { profile, data, metadata } => {
                record(C::MOUNTOPT, ["", profile, data], metadata)
            }
            Self::DelMountOpt { profile } => record(C::DEL_MOUNTOPT, ["", profile], None),
            Self::SetTimeout { device, seconds } => {
                ConfigRecord { number: *seconds, ..record(C::SET_TIMEOUT, [device], None) }
            }
            Self::SetLdlmTimeout { device, seconds } => {
                ConfigRecord { number: *seconds, ..record(C::SET_LDLM_TIMEOUT, [device], None) }
            }
            Self::AddConn { device, node } => record(C::ADD_CONN, [device, node], None),
            Self::DelConn { device, node } => record(C::DEL_CONN, [device, node], None),
            Self::AddOst(member) => member.record(C::LOV_ADD_OBD),
            Self::AddInactiveOst(member) => member.record(C::LOV_ADD_INA),
            Self::DelOst(member) => member.record(C::LOV_DEL_OBD),
            Self::AddMdt(member) => member.record(C::ADD_MDC),
            Self::DelMdt(member) => member.record(C::DEL_MDC),
            Self::Param { device, parameters } => record(C::PARAM, [device], parameters),
            Self::Marker { device, marker } => with_structure(C::MARKER, device, marker, order),
            Self::SecurityRule { target, rule } => record(C::SPTLRPC_CONF, [target, rule], None),
            Self::NewPool(pool) => pool.record(C::POOL_NEW),
            Self::AddToPool(pool) => pool.record(C::POOL_ADD),
            Self::RemoveFromPool(pool) => pool.record(C::POOL_REM),
            Self::DestroyPool(pool) => pool.record(C::POOL_DEL),
            Self::SetParam { target, parameter, upcall } => {
                record(C::SET_PARAM, [target, parameter], upcall)
            }
            Self::Other(record) => record.clone(),
        }
    }
}

impl Member {
    fn of(device: String, mut next: impl FnMut() -> Option<String>) -> Option<Self> {
        let (uuid, index, generation) = (next()?, next()?, next()?);
        Some(Self { device, uuid, index, generation, client: next() })
    }

    fn record(&self, command: ConfigCommand) -> ConfigRecord {
        let texts = [&self.device, &self.uuid, &self.index, &self.generation];
        record(command, texts, &self.client)
    }
}

impl Pool {
    fn of(device: String, mut next: impl FnMut() -> Option<String>) -> Option<Self> {
        Some(Self { device, file_system: next()?, pool: next()?, ost: next() })
    }

    fn record(&self, command: ConfigCommand) -> ConfigRecord {
        record(command, [&self.device, &self.file_system, &self.pool], &self.ost)
    }
}

/// Returns a record of texts; an empty one is a buffer without bytes.
fn record<'a, T: AsRef<str>>(
    command: ConfigCommand,
    texts: impl IntoIterator<Item = T>,
    more: impl IntoIterator<Item = &'a String>,
) -> ConfigRecord {
    let mut buffers: Vec<_> = texts.into_iter().map(|text| buffer(text.as_ref())).collect();
    buffers.extend(more.into_iter().map(|text| buffer(text)));
    ConfigRecord::new(command, buffers)
}

fn with_structure(
    command: ConfigCommand,
    device: &str,
    structure: &impl Content,
    order: Order,
) -> ConfigRecord {
    let mut bytes = Vec::new();
    structure.encode(&mut fulmar_wire::Writer::new(&mut bytes, order));
    ConfigRecord::new(command, vec![buffer(device), ConfigBuffer::new(bytes)])
}

fn buffer(text: &str) -> ConfigBuffer {
    if text.is_empty() { ConfigBuffer::default() } else { ConfigBuffer::text(text) }
}

#[cfg(test)]
mod tests;

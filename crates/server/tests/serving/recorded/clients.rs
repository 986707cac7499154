//! Who the recorded clients are: their connections, which began before the recordings, and what they
//! send with requests that the rig makes for them.

use std::collections::BTreeMap;

use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::format::{
    CLIENT_UUID, CONNECT_DATA, CONNECTION, LOCK_REQUEST, OST_BODY, OST_CONNECT, TARGET_UUID,
};
use fulmar_lustre_wire::ldlm::{LockType, ResourceDesc};
use fulmar_lustre_wire::message::{ConnectOpFlags, Message};
use fulmar_lustre_wire::ost::OstId;
use fulmar_lustre_wire::{Handle, Opcode, Uuid, portal};
use fulmar_rpc::export::TargetId;
use fulmar_trace::rpc::Rpc;

use super::machine::{MDT, MGS, SEQUENCES};

/// The connections of the clients of a recording.
pub(crate) struct Clients {
    /// The target of each export.
    exports: BTreeMap<Handle, TargetId>,
    /// The client's object for the callbacks of a target.
    connections: BTreeMap<(Nid, TargetId), Handle>,
    /// How clients connect, by the operation.
    connects: BTreeMap<Opcode, Message<'static>>,
}

impl Clients {
    /// Returns those of a recording. `mount` is one of a mount.
    pub(crate) fn of(rpcs: &[Rpc<'_>], mount: &[Rpc<'_>]) -> Self {
        let mut connects = BTreeMap::new();
        for rpc in mount.iter().filter(|rpc| rpc.request.message.body.opcode.is_connect()) {
            let message = rpc.request.message.clone().into_owned();
            connects.entry(message.body.opcode).or_insert(message);
        }
        let (mut exports, mut connections) = (BTreeMap::new(), BTreeMap::new());
        for rpc in rpcs {
            let Some(target) = target_of(rpc) else { continue };
            let handle = rpc.request.message.body.handle;
            if is_callback(rpc) {
                connections.insert((rpc.server, target), handle);
            } else {
                exports.insert(handle, target);
            }
        }
        Self { exports, connections, connects }
    }

    /// Returns the target of an export.
    pub(crate) fn target(&self, export: Handle) -> Option<TargetId> {
        self.exports.get(&export).copied()
    }

    /// Returns how a client connects to a target.
    pub(crate) fn connect(&self, client: Nid, target: TargetId, attempt: u32) -> Message<'static> {
        let (opcode, name) = match target {
            MGS => (Opcode::MGS_CONNECT, "MGS".to_owned()),
            MDT => (Opcode::MDS_CONNECT, "lv-MDT0000_UUID".to_owned()),
            TargetId(ost) => (Opcode::OST_CONNECT, format!("lv-OST{:04x}_UUID", ost - 2)),
        };
        let uuid = Uuid::new(&format!("client-{client}")).unwrap();
        let connection = self.connections.get(&(client, target));
        let mut message = self.connects[&opcode]
            .clone()
            .with(&TARGET_UUID, &Uuid::new(&name).unwrap())
            .with(&CLIENT_UUID, &uuid)
            .with(&CONNECTION, &connection.copied().unwrap_or(Handle(0x77)));
        message.body.connection_count = attempt;
        message.body.connect_flags = ConnectOpFlags::INITIAL;
        message
    }
}

/// Returns how the MDT connects to an OST.
pub(crate) fn connect_mdt(ost: usize) -> Message<'static> {
    let flags = ConnectFlags::MDS
        | ConnectFlags::INDEX
        | ConnectFlags::SKIP_ORPHAN
        | ConnectFlags::FULL20
        | ConnectFlags::FID;
    let data = ConnectData { flags, index: ost as u32, ..ConnectData::default() };
    let mut message = Message::request(&OST_CONNECT)
        .with(&TARGET_UUID, &Uuid::new(&format!("lv-OST{ost:04x}_UUID")).unwrap())
        .with(&CLIENT_UUID, &Uuid::new("lv-MDT0000-mdtlov_UUID").unwrap())
        .with(&CONNECTION, &Handle(0x78))
        .with(&CONNECT_DATA, &data);
    (message.body.timeout, message.body.connection_count) = (5, 1);
    message.body.connect_flags = ConnectOpFlags::INITIAL;
    message
}

pub(crate) fn is_callback(rpc: &Rpc<'_>) -> bool {
    rpc.portal == portal::LDLM_CALLBACK_REQUEST
}

/// Returns the target of a request, or that which calls a client, if the message says it.
fn target_of(rpc: &Rpc<'_>) -> Option<TargetId> {
    match rpc.portal {
        portal::MGS_REQUEST => return Some(MGS),
        portal::OST_REQUEST | portal::OST_IO | portal::LDLM_CALLBACK_REQUEST => {}
        portal::OST_CREATE | portal::LDLM_CANCEL_REQUEST => return None,
        _ => return Some(MDT),
    }
    let message = &rpc.request.message;
    if let Ok(Some(body)) = message.get(&OST_BODY)
        && let OstId::Fid(fid) = body.id
    {
        return ost_of(fid.seq);
    }
    let ResourceDesc { kind, id, .. } = message.get(&LOCK_REQUEST).ok()??.lock.resource;
    match kind {
        LockType::EXTENT => ost_of(id.fid().seq),
        LockType::PLAIN => Some(MGS),
        _ => Some(MDT),
    }
}

pub(crate) fn ost_of(sequence: u64) -> Option<TargetId> {
    let index = SEQUENCES.iter().position(|one| *one == sequence)?;
    Some(TargetId(index as u32 + 2))
}

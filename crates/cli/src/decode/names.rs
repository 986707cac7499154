//! What the messages of a capture tell about handles and FIDs: the names of targets and files, the
//! files of objects, the resources of locks.

use std::collections::BTreeMap;

use fulmar_base::Time;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{
    CLIENT_UUID, CONNECTION, IO_EPOCH, IO_OBJECTS, LAYOUT, LLOG_BODY, LOCK_REPLY, LOCK_REQUEST,
    MDT_BODY, NAME, OST_BODY, REINT, TARGET_UUID,
};
use fulmar_lustre_wire::layout::{Layout, LovMd};
use fulmar_lustre_wire::ldlm::{LockType, ResourceDesc};
use fulmar_lustre_wire::llog::LogId;
use fulmar_lustre_wire::mdt::ReintChange;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Handle, Opcode};
use fulmar_trace::rpc::{Calls, Rpc};

/// The names that are known from the whole capture, also before the message that tells them.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Targets, by the node that has them and a client's export.
    exports: BTreeMap<(Nid, Handle), String>,
    /// Targets, by the client and its object for their callbacks.
    connections: BTreeMap<(Nid, Handle), String>,
    /// The names of files, each with the time from which it is known.
    files: BTreeMap<Fid, Vec<(Time, String)>>,
    /// The files of objects.
    objects: BTreeMap<Fid, Fid>,
    locks: BTreeMap<Handle, ResourceDesc>,
    opened: BTreeMap<Handle, Fid>,
    logs: BTreeMap<(u64, u64), String>,
}

impl Names {
    pub(super) fn of(calls: &Calls<'_>) -> Self {
        let mut this = Self::default();
        this.files.insert(Fid::ROOT, vec![(Time::ZERO, "/".to_owned())]);
        for rpc in &calls.rpcs {
            this.learn(rpc);
        }
        this
    }

    fn learn(&mut self, rpc: &Rpc<'_>) {
        let request = &rpc.request.message;
        let reply = rpc.reply().map(|packet| &packet.message);
        self.learn_target(rpc, request, reply);
        self.learn_locks(request, reply);
        if let Ok(Some(object)) = request.get(&OST_BODY)
            && let Some(fid) = object.id.fid(0)
            && object.parent_seq != 0
        {
            self.objects.insert(fid, object.parent());
        }
        let Some(reply) = reply else { return };
        if let (Ok(Some(name)), Ok(Some(log))) = (request.get(&NAME), reply.get(&LLOG_BODY)) {
            self.logs.insert((log.id.object, log.id.seq), name.to_string());
        }
        self.learn_file(rpc.request.time, request, reply);
    }

    fn learn_target(&mut self, rpc: &Rpc<'_>, request: &Message<'_>, reply: Option<&Message<'_>>) {
        let Ok(Some(target)) = request.get(&TARGET_UUID) else { return };
        let text = target.to_string();
        let target = text.strip_suffix("_UUID").unwrap_or(&text).to_owned();
        if let Ok(Some(connection)) = request.get(&CONNECTION) {
            self.connections.insert((rpc.client, connection), target.clone());
        }
        let exports = [Some(request.body.handle), reply.map(|reply| reply.body.handle)];
        for export in exports.into_iter().flatten().filter(|export| !export.is_none()) {
            self.exports.insert((rpc.server, export), target.clone());
        }
    }

    fn learn_locks(&mut self, request: &Message<'_>, reply: Option<&Message<'_>>) {
        let Ok(Some(asked)) = request.get(&LOCK_REQUEST) else { return };
        let opcode = request.body.opcode;
        let callbacks = [Opcode::LDLM_BL_CALLBACK, Opcode::LDLM_CP_CALLBACK];
        if callbacks.contains(&opcode)
            && let Some(&lock) = asked.handles.get(1)
        {
            self.locks.insert(lock, asked.lock.resource);
        }
        let granted = reply.and_then(|reply| reply.get(&LOCK_REPLY).ok().flatten());
        if let Some(granted) = granted.filter(|granted| !granted.handle.is_none()) {
            let is_set = granted.lock.resource.kind != LockType::default();
            let lock = if is_set { granted.lock } else { asked.lock };
            self.locks.insert(granted.handle, lock.resource);
        }
    }

    fn learn_file(&mut self, time: Time, request: &Message<'_>, reply: &Message<'_>) {
        let created = request.get(&REINT).ok().flatten().and_then(|reint| match reint.change {
            ReintChange::Create(create) => Some(create.child),
            _ => None,
        });
        let found = reply.get(&MDT_BODY).ok().flatten();
        let fid = found.map(|body| body.fid).filter(|fid| *fid != Fid::default()).or(created);
        let is_known = |fid: &Fid| *fid != Fid::default() && reply.body.status.errno().is_none();
        let Some(fid) = fid.filter(is_known) else { return };
        let is_removed = request.format().variant == Some("UNLINK");
        if let Ok(Some(name)) = request.get(&NAME)
            && !name.as_bytes().is_empty()
            && !is_removed
        {
            self.files.entry(fid).or_default().push((time, name.to_string()));
        }
        if let Some(body) = found.filter(|body| !body.open_handle.is_none()) {
            self.opened.insert(body.open_handle, fid);
        }
        let layouts: Vec<LovMd> = match reply.get(&LAYOUT) {
            Ok(Some(Layout::File(layout))) => vec![layout],
            Ok(Some(Layout::Composite(layout))) => {
                let layout = &layout;
                layout.components.iter().filter_map(|part| layout.layout(part).ok()).collect()
            }
            _ => vec![],
        };
        for object in layouts.iter().flat_map(|layout| &layout.objects) {
            if let Some(object) = object.id.fid(object.ost as u16) {
                self.objects.insert(object, fid);
            }
        }
    }

    /// Returns the name of the target that serves a request, or that calls back.
    pub(super) fn target(&self, rpc: &Rpc<'_>) -> Option<&str> {
        let request = &rpc.request.message;
        if let Ok(Some(target)) = request.get(&TARGET_UUID) {
            let known =
                self.connections.values().find(|name| target.to_string().starts_with(*name));
            return known.map(String::as_str);
        }
        let handle = request.body.handle;
        let names = if is_callback(rpc) {
            self.connections.get(&(rpc.server, handle))
        } else {
            self.exports.get(&(rpc.server, handle))
        };
        names.map(String::as_str)
    }

    /// Returns the name that a file had at a time, or got later; with its FID, which is all if no name
    /// is known. An object has the name of its file.
    pub(super) fn file(&self, fid: Fid, time: Time) -> String {
        match (self.name(fid, time), self.objects.get(&fid)) {
            (Some(name), _) => format!("{name} {fid}"),
            (None, Some(file)) => format!("{} object {fid}", self.directory(*file, time)),
            (None, None) => fid.to_string(),
        }
    }

    /// Returns the name of a file, or its FID.
    pub(super) fn directory(&self, fid: Fid, time: Time) -> String {
        self.name(fid, time).map_or_else(|| fid.to_string(), str::to_owned)
    }

    fn name(&self, fid: Fid, time: Time) -> Option<&str> {
        let names = self.files.get(&fid)?;
        let name = names.iter().rfind(|(since, _)| *since <= time).or(names.first());
        name.map(|(_, name)| name.as_str())
    }

    /// Returns the file that a handle of an open file, or an object, belongs to.
    pub(super) fn opened(&self, handle: Handle) -> Option<Fid> {
        self.opened.get(&handle).copied()
    }

    /// Returns the resource of a lock by the server's handle.
    pub(super) fn lock(&self, handle: Handle) -> Option<ResourceDesc> {
        self.locks.get(&handle).copied()
    }

    /// Returns the name of a log.
    pub(super) fn log(&self, log: LogId) -> Option<&str> {
        self.logs.get(&(log.object, log.seq)).map(String::as_str)
    }

    /// Returns the FIDs of files with this FID or name, and of their objects.
    pub(super) fn fids(&self, file: &str) -> Vec<Fid> {
        let named = |names: &Vec<(Time, String)>| names.iter().any(|(_, name)| name == file);
        let known = self.files.iter().filter(|(_, names)| named(names)).map(|(fid, _)| *fid);
        let objects = self.objects.iter().flat_map(|(object, file)| [*object, *file]);
        let same = objects.chain(self.files.keys().copied()).filter(|fid| fid.to_string() == file);
        let mut fids: Vec<Fid> = known.chain(same).collect();
        let of_files = self.objects.iter().filter(|(_, file)| fids.contains(file));
        let of_files: Vec<Fid> = of_files.map(|(object, _)| *object).collect();
        fids.extend(of_files);
        fids
    }
}

/// Returns whether a request is a callback, from a server to its client.
pub(super) fn is_callback(rpc: &Rpc<'_>) -> bool {
    rpc.portal == fulmar_lustre_wire::portal::LDLM_CALLBACK_REQUEST
}

/// Returns the client that connects.
pub(super) fn connecting(request: &Message<'_>) -> Option<String> {
    request.get(&CLIENT_UUID).ok().flatten().map(|uuid| uuid.to_string())
}

/// Returns every FID that a request, or its reply, is about.
pub(super) fn fids_of(names: &Names, rpc: &Rpc<'_>) -> Vec<Fid> {
    let mut fids = Vec::new();
    let messages = [Some(&rpc.request), rpc.reply()];
    for message in messages.into_iter().flatten().map(|packet| &packet.message) {
        if let Ok(Some(body)) = message.get(&MDT_BODY) {
            fids.extend([body.fid, body.child]);
        }
        if let Ok(Some(reint)) = message.get(&REINT) {
            fids.push(reint.head.fid);
            fids.extend(match reint.change {
                ReintChange::Create(change) => Some(change.child),
                ReintChange::Link(change) => Some(change.parent),
                ReintChange::Unlink(change) => Some(change.child),
                ReintChange::Rename(change) => Some(change.target),
                _ => None,
            });
        }
        if let Ok(Some(lock)) = message.get(&LOCK_REQUEST) {
            fids.push(lock.lock.resource.id.fid());
            let handles = lock.valid_handles().iter();
            let resources = handles.filter_map(|&handle| names.lock(handle));
            fids.extend(resources.map(|resource| resource.id.fid()));
        }
        if let Ok(Some(lock)) = message.get(&LOCK_REPLY) {
            fids.push(lock.lock.resource.id.fid());
        }
        if let Ok(Some(epoch)) = message.get(&IO_EPOCH) {
            fids.extend(names.opened(epoch.handle));
        }
        if let Ok(Some(object)) = message.get(&OST_BODY) {
            fids.extend(object.id.fid(0));
            fids.push(object.parent());
        }
        if let Ok(Some(objects)) = message.get(&IO_OBJECTS) {
            fids.extend(objects.0.iter().filter_map(|object| object.id.fid(0)));
        }
    }
    fids.retain(|fid| *fid != Fid::default());
    fids
}

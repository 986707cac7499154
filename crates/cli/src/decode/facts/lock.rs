//! Facts about locks and intents.

use fulmar_lustre_wire::format::{
    INTENT, LAYOUT_INTENT, LOCK_REPLY, LOCK_REQUEST, MDT_BODY, NAME, OST_LVB, REINT,
};
use fulmar_lustre_wire::ldlm::{
    ConfigLock, Disposition, IntentOps, LockDesc, LockFlags, LockMode, LockType, ResourceDesc,
    TypedPolicy,
};
use fulmar_lustre_wire::mdt::ReintChange;
use fulmar_lustre_wire::message::{Message, MessageFlags};
use fulmar_lustre_wire::{Fid, Opcode, Status};
use fulmar_text::count;
use fulmar_trace::rpc::Rpc;
use fulmar_wire::DecodeError;

use super::{Facts, range};

impl Facts<'_> {
    pub(super) fn add_lock(
        &mut self,
        rpc: &Rpc<'_>,
        request: &Message<'_>,
        reply: Option<&Message<'_>>,
    ) -> Result<(), DecodeError> {
        let Some(asked) = request.get(&LOCK_REQUEST)? else { return Ok(()) };
        if request.body.opcode == Opcode::LDLM_CANCEL {
            self.add_cancel(
                &asked
                    .valid_handles()
                    .iter()
                    .map(|&lock| self.names.lock(lock))
                    .collect::<Vec<_>>(),
            );
            return Ok(());
        }
        if let Some(intent) = request.get(&INTENT)? {
            self.add_intent(intent.ops, request, reply)?;
        } else {
            // A convert names its lock only by the handle.
            let named = asked.handles.first().and_then(|&lock| self.names.lock(lock));
            let is_named = asked.lock.resource.kind == LockType::default();
            let resource = named.filter(|_| is_named).unwrap_or(asked.lock.resource);
            let resource = self.resource(resource);
            self.add(resource);
        }
        let granted = reply.map(|reply| reply.get(&LOCK_REPLY)).transpose()?.flatten();
        if let Some(granted) = granted.filter(|reply| reply.lock.granted != LockMode(0)) {
            self.add(covers(&granted.lock));
        } else if request.body.opcode == Opcode::LDLM_BL_CALLBACK {
            // The extent of the lock that waits is not set.
            self.add(format_args!("for {:?}", asked.lock.requested));
        } else if reply.is_none_or(|reply| reply.body.status == Status::OK) {
            self.add(covers(&asked.lock));
        }
        let flags = granted.map_or(LockFlags::NONE, |granted| granted.flags) | asked.flags;
        let usual = LockFlags::HAS_INTENT | LockFlags::LOCK_CHANGED;
        if flags.without(usual) != LockFlags::NONE {
            self.add(flags.without(usual));
        }
        if request.body.flags.has(MessageFlags::REQ_REPLAY_DONE) {
            self.add("lock replay");
        }
        // Beside the lock of the request itself, an enqueue gives up others.
        let others = (asked.count as usize).saturating_sub(1);
        if rpc.request.message.body.opcode == Opcode::LDLM_ENQUEUE && others > 0 {
            self.add(format_args!("cancels {}", count(others as u64, "lock")));
        }
        for message in [Some(request), reply].into_iter().flatten() {
            if let Some(attributes) = message.get(&OST_LVB)? {
                self.add(format_args!("size {}", attributes.size));
            }
        }
        Ok(())
    }

    fn add_cancel(&mut self, resources: &[Option<ResourceDesc>]) {
        const SHOWN_MAX: usize = 3;
        let known: Vec<_> = resources.iter().flatten().copied().collect();
        for &resource in known.iter().take(SHOWN_MAX) {
            let resource = self.resource(resource);
            self.add(resource);
        }
        let others = resources.len() - known.len().min(SHOWN_MAX);
        match (others, known.len()) {
            (0, _) => {}
            (others, 0) => self.add(count(others as u64, "lock")),
            (others, _) => self.add(format_args!("and {}", count(others as u64, "lock"))),
        }
    }

    fn add_intent(
        &mut self,
        ops: IntentOps,
        request: &Message<'_>,
        reply: Option<&Message<'_>>,
    ) -> Result<(), DecodeError> {
        let reint = request.get(&REINT)?;
        let body = request.get(&MDT_BODY)?;
        let found = reply.map(|reply| reply.get(&MDT_BODY)).transpose()?.flatten();
        let found = found.map(|body| body.fid).filter(|fid| *fid != Fid::default());
        let parent = reint.map(|reint| reint.head.fid).or(body.map(|body| body.fid));
        let name = request.get(&NAME)?.filter(|name| !name.as_bytes().is_empty());
        let wanted = body.map(|body| body.child).filter(|fid| *fid != Fid::default());
        match (parent, name) {
            (Some(parent), Some(name)) => {
                self.add(format_args!("{name} in {}", self.directory(parent)));
                self.add(found.map(|found| format!("= {found}")).unwrap_or_default());
            }
            (parent, _) => {
                let resource = request.get(&LOCK_REQUEST)?.map(|lock| lock.lock.resource.id.fid());
                if let Some(fid) = found.or(wanted).or(parent).or(resource) {
                    self.add(self.file(fid));
                }
            }
        }
        if let Some(ReintChange::Create(create)) = reint.map(|reint| reint.change) {
            self.add(create.flags.0);
            if ops.has(IntentOps::CREAT) {
                self.add(format_args!("mode {:o}", create.mode));
            }
        }
        if let Some(layout) = request.get(&LAYOUT_INTENT)? {
            self.add(format_args!("{:?} {}", layout.op, range(layout.start, layout.end)));
        }
        let result = reply.map(|reply| reply.get(&LOCK_REPLY)).transpose()?.flatten();
        let usual = Disposition::IT_EXECD | Disposition::LOOKUP_EXECD;
        let result = result.map(|result| Disposition(result.result1).without(usual));
        if let Some(result) = result.filter(|result| *result != Disposition::NONE) {
            self.add(format_args!("-> {result}"));
        }
        Ok(())
    }

    /// Describes what a lock protects: a file, an object, a part of the configuration.
    fn resource(&self, resource: ResourceDesc) -> String {
        let [_, kind, ..] = resource.id.name;
        match resource.kind {
            LockType::PLAIN if ConfigLock(kind).name().is_some() => {
                let kind = match ConfigLock(kind) {
                    ConfigLock::RECOVER => "restarted targets",
                    ConfigLock::PARAMS => "parameters",
                    ConfigLock::NODEMAP => "nodemaps",
                    ConfigLock::BARRIER => "barrier",
                    _ => "configuration",
                };
                format!("{} ({kind})", resource.id.log())
            }
            _ => self.file(resource.id.fid()),
        }
    }
}

/// Describes the mode of a lock and what it covers.
fn covers(lock: &LockDesc) -> String {
    let mode = if lock.granted == LockMode(0) { lock.requested } else { lock.granted };
    let part = match lock.typed_policy() {
        TypedPolicy::Extent(extent) => range(extent.start, extent.end.saturating_add(1)),
        TypedPolicy::Flock(lock) => {
            format!("{} pid {}", range(lock.start, lock.end.saturating_add(1)), lock.pid)
        }
        TypedPolicy::Inodebits(bits) => bits.bits.to_string(),
        TypedPolicy::Other(_) => String::new(),
    };
    format!("{mode:?} {part}").trim_end().to_owned()
}

//! Open files after a restart of their target. Spec: ptlrpc-ldlm-mgs §14.3, §14.4.

use fulmar_lustre_wire::format::{IO_EPOCH, MDT_BODY, REINT};
use fulmar_lustre_wire::mdt::{IoEpoch, MdtBody, Reint, ReintChange};
use fulmar_lustre_wire::message::Message;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::RequestId;

use super::core::Core;

impl Core {
    /// An open was executed again: its file has another handle. A close that is under way names that too.
    pub(super) fn replayed(&mut self, import: ImportId, open: RequestId, reply: &Message<'_>) {
        let (now, mount) = (self.now, self.peers.get(&import).map(|peer| peer.mount));
        let file = mount.and_then(|mount| self.mounts.get(&mount)?.opens.get(&(import, open)));
        let handle = reply.get(&MDT_BODY).ok().flatten().map(|body: MdtBody| body.open_handle);
        if let (Some(file), Some(handle)) = (file.cloned(), handle.filter(|one| !one.is_none())) {
            file.set_handle(handle);
            let client = &mut self.both.client;
            if let Some(message) = client.message_mut(import, open)
                && let Ok(mut reint) = message.require(&REINT)
            {
                set_old_handle(&mut reint, handle);
                message.set(&REINT, &reint);
            }
            if let Some(close) = file.close()
                && let Some(message) = client.message_mut(import, close)
            {
                message.set(&IO_EPOCH, &IoEpoch { handle, ..IoEpoch::default() });
            }
        }
        self.both.client.continue_replay(now, import, open);
    }
}

/// Names the handle that a replay of an open replaces.
pub(crate) fn set_old_handle(reint: &mut Reint, handle: fulmar_lustre_wire::Handle) {
    if let ReintChange::Create(create) = &mut reint.change {
        create.old_handle = handle;
    }
}

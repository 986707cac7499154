//! The removal of files that are known by their FIDs. Spec: mdt-ost §7.14.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{FIDS, MDT_BODY, RESULTS};
use fulmar_lustre_wire::mdt::MdtBody;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, List, Status};
use fulmar_rpc::service::Request;

use super::MdtTarget;
use super::reint::ChangeLocks;
use crate::context::Context;
use crate::memory::Memory;
use crate::target::Answer;

/// The most files of a request.
const FILES_MAX: usize = 4096;

impl<M: Memory> MdtTarget<M> {
    /// Executes RMFID: removes all names of some files, each with its own result. What is removed is on disk
    /// when the reply is sent.
    pub(super) async fn rmfid(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        let List(fids) = request.message.require(&FIDS).map_err(|_| Errno::EPROTO)?;
        if fids.len() > FILES_MAX {
            return Err(Errno::EPROTO);
        }
        let mut results = Vec::new();
        for fid in &fids {
            let removed = self.clone().remove_file(&context, &request, *fid).await;
            results.push(removed.map_or_else(Status::failed, |()| Status::OK));
        }
        context.durable(&self.store, self.store.applied()).await?;
        let reply = Message::reply(request.message.format(), Status::OK)
            .with(&MDT_BODY, &MdtBody::default())
            .with(&FIDS, &List(fids))
            .with(&RESULTS, &List(results));
        Ok(Answer::Reply(reply))
    }

    /// Removes all names of a file.
    async fn remove_file(
        self: Arc<Self>,
        context: &Context,
        request: &Arc<Request>,
        fid: Fid,
    ) -> Result<(), Errno> {
        let (this, asked) = (self.clone(), request.clone());
        let names =
            context.run(move || this.mdt.names_to_remove(&this.call(&asked), fid)).await??;
        for (parent, name) in names {
            let places = [(parent, &name[..])];
            let mut held = ChangeLocks::default();
            self.lock_places(context, &mut held, &places).await?;
            let children = self.clone().children(context, &places).await?;
            self.lock_children(context, &mut held, &children, None).await?;
            let (this, asked) = (self.clone(), request.clone());
            let remove = move || this.mdt.remove_name(&this.call(&asked), fid, (parent, &name));
            context.run(remove).await??;
            drop(held);
        }
        Ok(())
    }
}

//! Writing to disk. Spec: mdt-ost §21.5.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::format::{MDS_SYNC, MDT_BODY, OST_BODY, OST_SYNC};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_rpc::import::Request;
use futures_util::future::join_all;

use super::object::{OBDO_LEN, described};
use super::state::OpenKey;
use crate::files::caller::Caller;
use crate::files::request::body;
use crate::machine::context::Context;
use crate::mounting::BODY_LEN;

impl Context {
    /// Returns when what was written to a file is on disk, with its attributes unless only data are wanted.
    /// What is dirty is written; then one round trip for the MDT, if this client has changed something there, and
    /// one for all objects.
    ///
    /// # Errors
    /// That of a write which the open file was not told of before, and what the servers say.
    pub(crate) async fn sync(
        &self,
        caller: &Caller,
        (key, fid): (OpenKey, Fid),
        only_data: bool,
    ) -> Result<(), Errno> {
        // What could be written is on disk, also if something could not.
        let flushed = self.flush_open((key, fid)).await;
        let synced = self.sync_targets(caller, fid, only_data).await;
        // A target may have lost meanwhile what it had not on disk.
        flushed.and(synced).and(self.take_error(key))
    }

    /// Returns when what this client has changed of a file at the MDT is on disk. One round trip if there is something.
    pub(super) async fn sync_mdt(&self, caller: &Caller, fid: Fid) -> Result<(), Errno> {
        let is_changed = {
            let mut core = self.core();
            let mount = core.mounts.get_mut(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            let inode = mount.inodes.get_mut(&fid);
            inode.is_some_and(|inode| std::mem::take(&mut inode.is_changed))
        };
        if is_changed {
            let mdt = self.mdt(fid).await?;
            let message = Message::request(&MDS_SYNC).with(&MDT_BODY, &body(caller, fid, None));
            let request = Request::new(message, len_with(&[Body::LEN, BODY_LEN]));
            if let Err(errno) = self.request(mdt, request).await {
                self.set_changed(fid);
                return Err(errno);
            }
        }
        Ok(())
    }

    /// The file is not on disk as this client has changed it.
    fn set_changed(&self, fid: Fid) {
        let mut core = self.core();
        let inode = core.mounts.get_mut(&self.mount).and_then(|mount| mount.inodes.get_mut(&fid));
        if let Some(inode) = inode {
            inode.is_changed = true;
        }
    }

    async fn sync_targets(&self, caller: &Caller, fid: Fid, only_data: bool) -> Result<(), Errno> {
        if !only_data {
            self.sync_mdt(caller, fid).await?;
        }
        let layout = self.layout(caller, fid).await?;
        let layout = &layout;
        let all = self.objects(fid, layout).await?.into_iter().map(|object| async move {
            let mut body = described(object.file, layout, object.place, object.id);
            body.valid = body.valid | Valid::FLSIZE | Valid::FLBLOCKS;
            (body.size, body.blocks) = (0, u64::MAX);
            let message = Message::request(&OST_SYNC).with(&OST_BODY, &body);
            let request = Request::new(message, len_with(&[Body::LEN, OBDO_LEN]));
            self.request(object.import, request.at(object.portal())).await.map(drop)
        });
        join_all(all).await.into_iter().collect()
    }
}

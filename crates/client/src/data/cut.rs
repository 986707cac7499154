//! Cutting files. Spec: mdt-ost §22.6.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::format::{OST_BODY, OST_PUNCH};
use fulmar_lustre_wire::ldlm::{InodeBits, LockMode};
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_rpc::import::Request;
use futures_util::future::join_all;

use super::object::{OBDO_LEN, Object, described};
use crate::files::layout::FileLayout;
use crate::machine::context::Context;

impl Context {
    /// Gives the objects of a file the lengths that belong to a size of the file.
    pub(crate) async fn cut(
        &self,
        fid: Fid,
        layout: &FileLayout,
        size: u64,
        owner: &MdtBody,
    ) -> Result<(), Errno> {
        let objects = self.objects(fid, layout).await?;
        let concerned = objects.into_iter().filter(|one| layout.components[one.place.0].end > size);
        let cut = concerned.map(|object| async move {
            let part = &layout.components[object.place.0];
            let at = part.object_offset(object.place.1, size.max(part.start));
            let held = self.lock_range(&object, LockMode::PW, (0, u64::MAX)).await?;
            let result = self.punch(layout, &object, at, owner).await;
            drop(held);
            result
        });
        join_all(cut).await.into_iter().collect()
    }

    async fn punch(
        &self,
        layout: &FileLayout,
        object: &Object,
        at: u64,
        owner: &MdtBody,
    ) -> Result<(), Errno> {
        let mut body = described(object.file, layout, object.place, object.id);
        let now = self.core().seconds();
        body.valid = body.valid
            | Valid::FLSIZE
            | Valid::FLBLOCKS
            | Valid::FLMTIME
            | Valid::FLCTIME
            | Valid::FLUID
            | Valid::FLGID
            | Valid::FLPROJID;
        (body.size, body.blocks) = (at, u64::MAX);
        (body.mtime, body.ctime) = (now, now);
        (body.uid, body.gid, body.projid) = (owner.uid, owner.gid, owner.projid);
        let message = Message::request(&OST_PUNCH).with(&OST_BODY, &body);
        let request =
            Request::new(message, len_with(&[Body::LEN, OBDO_LEN])).at(object.io_portal());
        self.request(object.import, request).await?;
        let mut core = self.core();
        let Some(mount) = core.mounts.get_mut(&self.mount) else { return Ok(()) };
        if object.is_on_mdt {
            if let Some(inode) = mount.inodes.get_mut(&object.file)
                && inode.bits.has(InodeBits::DOM)
            {
                inode.body.dom_size = at;
            }
        } else if let Some(known) = mount.objects.get_mut(&object.key()) {
            known.lvb.size = at;
            (known.lvb.mtime, known.lvb.ctime) = (now, now);
        }
        Ok(())
    }
}

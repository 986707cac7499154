//! Cutting files. Spec: mdt-ost §22.6.

use std::collections::BTreeMap;
use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::format::{OST_BODY, OST_PUNCH};
use fulmar_lustre_wire::ldlm::LockMode;
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_rpc::import::Request;
use futures_channel::oneshot;
use futures_util::future::join_all;

use super::io::CachedFile;
use super::locks::Piece;
use super::object::{OBDO_LEN, Object, described};
use super::state::CacheWaiter;
use crate::files::layout::FileLayout;
use crate::machine::context::Context;
use crate::machine::requester::Requester;

impl Context {
    /// Gives the objects of a file the lengths that belong to a size of the file, and drops what is cached
    /// behind it.
    pub(crate) async fn cut(
        &self,
        fid: Fid,
        layout: &Arc<FileLayout>,
        size: u64,
        owner: &MdtBody,
    ) -> Result<(), Errno> {
        let pass = self.exclude(fid).await;
        self.forget_inline(fid);
        let file = self.cached(fid, layout.clone()).await?;
        let sizes = self.core().with_data(self.mount, |data| data.cache.cut_sizes(file.id, size));
        let sizes: BTreeMap<_, _> = sizes.ok_or(Errno::ESHUTDOWN)?.into_iter().collect();
        let concerned = file
            .objects
            .iter()
            .filter_map(|object| Some((*object, *sizes.get(&object.cached)?..u64::MAX)));
        let concerned: Vec<Piece> = concerned.collect();
        let held = self.lock_all(&concerned, LockMode::PW).await?;
        self.check_requester()?;
        let result = Requester::finish(self.cut_pieces(&file, size, &concerned, owner)).await;
        drop((held, pass));
        result
    }

    /// Drops what is cached behind the size, then cuts the objects: what was dropped must not be there any more.
    async fn cut_pieces(
        &self,
        file: &CachedFile,
        size: u64,
        concerned: &[Piece],
        owner: &MdtBody,
    ) -> Result<(), Errno> {
        self.data_op(|data, now| {
            let op = data.cache.handle_truncate(now, file.id, size);
            let (sender, waiting) = oneshot::channel();
            data.waiting.insert(op, CacheWaiter::Flush(sender));
            Ok((op, waiting))
        })
        .await?;
        let cut = concerned.iter().map(|(object, range)| {
            let at = range.start;
            async move { self.punch(&file.layout, object, at, owner).await }
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
        // Before the request: who asks this client for the size while it is executed must not be told the one before,
        // which the target would then take for a growth.
        let before = self.set_size(object, (at, now));
        let done = self.request(object.import, request).await;
        if let (Err(_), Some(before)) = (&done, before) {
            self.set_size(object, (before, now));
        }
        done.map(drop)
    }

    /// Sets the size of an object, and the time of its last change. Returns the size before.
    fn set_size(&self, object: &Object, (size, time): (u64, i64)) -> Option<u64> {
        let mut core = self.core();
        let mount = core.mounts.get_mut(&self.mount)?;
        if object.is_on_mdt()
            && let Some(inode) = mount.inodes.get_mut(&object.file)
            && let Some(dom) = &mut inode.dom
        {
            dom.size = size;
        }
        let known = mount.objects.get_mut(&object.key())?;
        (known.lvb.mtime, known.lvb.ctime) = (time, time);
        Some(std::mem::replace(&mut known.lvb.size, size))
    }
}

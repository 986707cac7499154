//! Facts about metadata.

use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::format::{
    BATCH, FID2PATH, FID2PATH_KEY, FIDS, IO_EPOCH, KEY, LOCK_REQUEST, MDT_BODY, NAME, REINT,
    STATFS, SYMLINK, TARGET_NAME,
};
use fulmar_lustre_wire::mdt::{AttrValid, Bias, Reint, ReintChange, SetAttr};
use fulmar_lustre_wire::message::Message;
use fulmar_text::{bytes, count};
use fulmar_wire::DecodeError;

use super::Facts;

impl Facts<'_> {
    pub(super) fn add_metadata(
        &mut self,
        request: &Message<'_>,
        reply: Option<&Message<'_>>,
    ) -> Result<(), DecodeError> {
        if let Some(epoch) = request.get(&IO_EPOCH)?.filter(|epoch| !epoch.handle.is_none()) {
            return self.add_close(request, self.names.opened(epoch.handle));
        }
        if let Some(reint) = request.get(&REINT)? {
            return self.add_change(request, &reint);
        }
        if let Some(key) = request.get(&FID2PATH_KEY)? {
            let path = reply.map(|reply| reply.get(&FID2PATH)).transpose()?.flatten();
            self.add(key.question.fid);
            if let Some(path) = path {
                self.add(format_args!("= {}", path.path().escape_ascii()));
            }
            return Ok(());
        }
        if let Some(batch) = request.get(&BATCH)? {
            self.add(count(batch.requests, "request"));
        }
        if let Some(fids) = request.get(&FIDS)? {
            self.add(count(fids.0.len() as u64, "file"));
        }
        if let Some(key) = request.get(&KEY)? {
            self.add(key);
        }
        let found = reply.map(|reply| reply.get(&MDT_BODY)).transpose()?.flatten();
        let fid = request.get(&MDT_BODY)?.map(|body| body.fid);
        let fid = fid.filter(|fid| *fid != Fid::default()).or(found.map(|body| body.fid));
        let fid = fid.filter(|fid| *fid != Fid::default());
        let name = request.get(&NAME)?.filter(|name| !name.as_bytes().is_empty());
        match (name, fid) {
            (Some(name), Some(parent)) => {
                self.add(format_args!("{name} in {}", self.directory(parent)));
            }
            (None, Some(fid)) => self.add(self.file(fid)),
            (Some(name), None) => self.add(name),
            (None, None) => {}
        }
        self.add_statfs(reply)
    }

    /// Adds the size and the use of a target.
    pub(super) fn add_statfs(&mut self, reply: Option<&Message<'_>>) -> Result<(), DecodeError> {
        let Some(statfs) = reply.map(|reply| reply.get(&STATFS)).transpose()?.flatten() else {
            return Ok(());
        };
        let size = |blocks: u64| bytes(blocks.saturating_mul(statfs.block_size.into()));
        self.add(format_args!("{} of {} free", size(statfs.available), size(statfs.blocks)));
        if statfs.state.0 != 0 {
            self.add(statfs.state);
        }
        Ok(())
    }

    fn add_close(&mut self, request: &Message<'_>, opened: Option<Fid>) -> Result<(), DecodeError> {
        let reint = request.get(&REINT)?;
        let fid = reint.map(|reint| reint.head.fid).filter(|fid| *fid != Fid::default());
        if let Some(fid) = fid.or(opened) {
            self.add(self.file(fid));
        }
        if let Some(ReintChange::SetAttr(change)) = reint.map(|reint| reint.change) {
            if change.valid.has(AttrValid::SIZE) || change.valid.has(AttrValid::LSIZE) {
                self.add(format_args!("size {}", change.size));
            }
            if change.bias != Bias::NONE {
                self.add(change.bias);
            }
        }
        Ok(())
    }

    fn add_change(&mut self, request: &Message<'_>, reint: &Reint) -> Result<(), DecodeError> {
        let head = reint.head;
        let name = request.get(&NAME)?.unwrap_or_default();
        match &reint.change {
            ReintChange::Create(change) => {
                let parent = self.directory(head.fid);
                self.add(format_args!("{name} in {parent} = {}", change.child));
                self.add(format_args!("mode {:o}", change.mode));
                if let Some(target) = request.get(&SYMLINK)? {
                    self.add(format_args!("-> {target}"));
                }
            }
            ReintChange::Link(change) => {
                let (file, parent) = (self.file(head.fid), self.directory(change.parent));
                self.add(format_args!("{file} as {name} in {parent}"));
            }
            ReintChange::Unlink(change) => {
                self.add(format_args!("{name} in {}", self.directory(head.fid)));
                if change.child != Fid::default() {
                    self.add(format_args!("= {}", change.child));
                }
            }
            ReintChange::Rename(change) => {
                let (from, to) = (self.directory(head.fid), self.directory(change.target));
                let target = request.get(&TARGET_NAME)?.unwrap_or_default();
                self.add(format_args!("{name} in {from} to {target} in {to}"));
            }
            ReintChange::SetAttr(change) => {
                self.add(self.file(head.fid));
                self.add_attributes(change);
            }
            ReintChange::SetXattr(change) => {
                self.add(self.file(head.fid));
                self.add(format_args!("{name}, {}", bytes(change.size.into())));
            }
            ReintChange::Resync(_) | ReintChange::Unknown { .. } => self.add(self.file(head.fid)),
        }
        if let Some(lock) = request.get(&LOCK_REQUEST)?.filter(|lock| lock.count > 0) {
            self.add(format_args!("cancels {}", count(lock.count, "lock")));
        }
        Ok(())
    }

    fn add_attributes(&mut self, change: &SetAttr) {
        let valid = change.valid;
        let mut add_if = |bit, text: String| {
            if valid.has(bit) {
                self.add(text);
            }
        };
        add_if(AttrValid::MODE, format!("mode {:o}", change.mode));
        add_if(AttrValid::UID, format!("uid {}", change.uid));
        add_if(AttrValid::GID, format!("gid {}", change.gid));
        add_if(AttrValid::SIZE, format!("size {}", change.size));
        add_if(AttrValid::PROJID, format!("project {}", change.projid));
        let shown = AttrValid::MODE | AttrValid::UID | AttrValid::GID | AttrValid::SIZE;
        let rest = valid.without(shown | AttrValid::PROJID);
        if rest != AttrValid::NONE {
            self.add(rest);
        }
    }
}

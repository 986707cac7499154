//! Values by their keys: paths of files. Spec: mdt-ost §7.9, §7.10, §14.10.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{
    CHANGELOG_CLEAR, FID2PATH, FID2PATH_KEY, FIEMAP_KEY, KEY, VALUE, VALUE_LEN,
};
use fulmar_lustre_wire::mdt::{ChangelogClear, ChangelogFilter, Fid2Path, Fid2PathReply};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Bytes, Content, Fid, Status};
use fulmar_nodemap::Role;

use super::Answer;
use crate::Mdt;
use crate::mdt::{Call, Export};
use crate::records::Failure;

/// The key of a user of the changelog.
const CHANGELOG_USER: &[u8] = b"changelog_user";
/// The longest path.
const PATH_MAX: usize = 4096;
/// The most directories above a file.
const DEPTH_MAX: usize = 4096;

impl Mdt {
    pub(crate) fn get_info(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let reply = Message::reply(call.message.format(), Status::OK);
        let fiemap = call.message.get(&FIEMAP_KEY).ok().flatten();
        if let Some(key) = fiemap.filter(|key| key.name.as_bytes() == b"fiemap") {
            let map = self.map(&key.object, key.range)?;
            return Ok(Answer::new(call.data().reply_with_map(&map)));
        }
        if call.message.get(&KEY).ok().flatten().is_some_and(|key| key.as_bytes() == CHANGELOG_USER)
        {
            return self.changelog_user(call);
        }
        let key = call.message.require(&FID2PATH_KEY).map_err(|_| Errno::EOPNOTSUPP)?;
        if key.name.as_bytes() != b"fid2path" {
            return Err(Errno::EOPNOTSUPP.into());
        }
        if !self.view(call).has_role(Role::BYFID_OPS) {
            return Err(Errno::EPERM.into());
        }
        let len = call.message.require(&VALUE_LEN).map_err(|_| Errno::EPROTO)? as usize;
        let question = key.question;
        let head = question.to_bytes().len();
        if len < head || len > head + PATH_MAX || question.path_len as usize > PATH_MAX {
            return Err(Errno::EINVAL.into());
        }
        let root = key.root.filter(|root| *root != Fid::default()).unwrap_or(Fid::ROOT);
        let (mut path, link) = self.path(question, root)?;
        if path.len() >= (len - head).min(question.path_len as usize) {
            return Err(Errno::EOVERFLOW.into());
        }
        path.resize(len - head, 0);
        // Where the path begins.
        let answer = Fid2Path { fid: root, link, ..question };
        let answer = Fid2PathReply { answer, room: Bytes(path) };
        Ok(Answer::new(reply.with(&FID2PATH, &answer)))
    }

    /// Returns which kinds of records a user of the changelog wants.
    fn changelog_user(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let value = call.message.require(&VALUE).map_err(|_| Errno::EPROTO)?;
        let order = call.message.order;
        let asked = ChangelogFilter::decode(&value.0, order).map_err(|_| Errno::EPROTO)?;
        let (user, mask) = self.changelog_filter(asked.user, asked.name.as_bytes())?;
        let found = ChangelogFilter { mask, user, ..asked };
        let reply = Message::reply(call.message.format(), Status::OK);
        Ok(Answer::new(reply.with(&VALUE, &Bytes(found.to_bytes()))))
    }

    /// Returns a path of a file from `root`, and which link comes next.
    fn path(&self, question: Fid2Path, root: Fid) -> Result<(Vec<u8>, u32), Failure> {
        let mut parts: Vec<Vec<u8>> = vec![];
        let mut fid = question.fid;
        let (mut wanted, mut next) = (question.link as usize, question.link);
        while fid != root {
            let links = self.inode(fid)?.links().entries;
            // A file whose later names are not noted has at least the first.
            let link = links.get(wanted).or(links.first()).ok_or(Errno::ENOENT)?;
            if parts.is_empty() && wanted + 1 < links.len() {
                next += 1;
            }
            wanted = 0;
            parts.push(link.name.clone());
            fid = link.parent;
            if parts.len() > DEPTH_MAX {
                return Err(Errno::ELOOP.into());
            }
            if fid == Fid::ROOT && root != Fid::ROOT {
                return Err(Errno::ENOENT.into());
            }
        }
        parts.reverse();
        Ok((parts.join(&b'/'), next))
    }

    pub(crate) fn set_info(&self, call: &Call<'_>, export: Export) -> Result<Answer, Failure> {
        let key = call.message.require(&KEY).map_err(|_| Errno::EPROTO)?;
        let reply = Answer::new(Message::reply(call.message.format(), Status::OK));
        match key.as_bytes() {
            b"read-only" => {
                let value = call.message.require(&VALUE).map_err(|_| Errno::EPROTO)?;
                let is_set = value.0.first().is_some_and(|byte| *byte != 0);
                if !is_set && self.view(call).is_read_only() {
                    return Err(Errno::EROFS.into());
                }
                self.set_read_only(call.export, export, is_set);
                Ok(reply)
            }
            b"changelog_clear" => {
                self.check_reader(call)?;
                let ChangelogClear { record, user } =
                    call.message.require(&CHANGELOG_CLEAR).map_err(|_| Errno::EINVAL)?;
                self.clear_changelog(user, record, call.now)?;
                Ok(Answer { durable: Some(self.store.applied()), ..reply })
            }
            _ => Err(Errno::EINVAL.into()),
        }
    }

    fn set_read_only(&self, handle: fulmar_lustre_wire::Handle, mut export: Export, is_set: bool) {
        use fulmar_lustre_wire::connect::ConnectFlags;
        let flags = export.client.flags;
        export.client.flags = if is_set {
            flags.with(ConnectFlags::RDONLY)
        } else {
            flags.without(ConnectFlags::RDONLY)
        };
        self.exports().insert(handle, export);
    }
}

//! New directories, special files and symbolic links. Spec: mdt-ost §7.6, §22.4.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{
    LOCK_REQUEST, MDT_BODY, NAME, NEW_LAYOUT, REINT, REINT_CREATE, REINT_SYMLINK, SYMLINK,
};
use fulmar_lustre_wire::ldlm::InodeBits;
use fulmar_lustre_wire::mdt::{Create, ReintChange, ReintOp};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Name};
use fulmar_rpc::import::Request;

use super::attributes::{Attributes, Entry};
use super::caller::Caller;
use super::request::{body_room, excludes, given_up, name, record};
use crate::machine::context::Context;

/// What is created, besides regular files, which are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum New {
    /// A directory, with permissions.
    Directory(u32),
    /// A file of this type and these permissions; for a device its number.
    Special(u32, u32),
    /// A symbolic link to this.
    Symlink(Vec<u8>),
}

impl Context {
    /// Creates something. One round trip.
    ///
    /// # Errors
    /// EEXIST, ENOENT, EACCES, and what the server says.
    pub(crate) async fn create(
        &self,
        caller: &Caller,
        parent: Fid,
        text: &[u8],
        new: New,
    ) -> Result<Entry, Errno> {
        let name = name(text)?;
        let mdt = self.mdt(parent).await?;
        let child = self.new_fid(mdt).await?;
        let early = self.early(mdt, &[excludes(parent, InodeBits::UPDATE)]).await;
        let (mode, rdev) = match &new {
            New::Directory(mode) => (0o040_000 | mode & 0o7777, 0),
            New::Special(mode, device) => (*mode, u64::from(*device)),
            New::Symlink(_) => (0o120_777, 0),
        };
        let (time, umask) = (self.core().seconds(), caller.umask);
        let change =
            ReintChange::Create(Create { child, time, rdev, mode, umask, ..Create::default() });
        let group = self.group_of(parent);
        let record = record(caller, ReintOp::CREATE, (parent, [group, None]), change);
        let message = match new {
            New::Symlink(target) => {
                let target = Name::new(target).ok_or(Errno::EINVAL)?;
                Message::request(&REINT_SYMLINK)
                    .with(&REINT, &record)
                    .with(&NAME, &name)
                    .with(&SYMLINK, &target)
                    .with(&LOCK_REQUEST, &given_up(early))
            }
            _ => Message::request(&REINT_CREATE)
                .with(&REINT, &record)
                .with(&NAME, &name)
                .with_bytes(&NEW_LAYOUT, vec![])
                .with(&LOCK_REQUEST, &given_up(early)),
        };
        let request = Request::new(message, body_room()).modifying();
        let reply = self.request(mdt, request).await?;
        let body = reply.get(&MDT_BODY).map_err(|_| Errno::EPROTO)?.unwrap_or_default();
        if let Some(mount) = self.core().mounts.get_mut(&self.mount) {
            mount.remove_name(parent, &name);
        }
        Ok(Entry { fid: body.fid, attributes: Attributes::new(&body, None) })
    }
}

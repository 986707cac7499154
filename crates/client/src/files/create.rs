//! New directories, special files and symbolic links. Spec: mdt-ost §7.6, §22.4.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{
    LOCK_REQUEST, MDT_BODY, NAME, NEW_LAYOUT, REINT, REINT_CREATE, REINT_SYMLINK, SYMLINK,
};
use fulmar_lustre_wire::layout::LmvUserMd;
use fulmar_lustre_wire::ldlm::InodeBits;
use fulmar_lustre_wire::mdt::{Create, OpenFlags, ReintChange, ReintOp, SplitOpenFlags};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Content, Fid, Name};
use fulmar_rpc::import::Request;

use super::attributes::{Attributes, Entry};
use super::caller::Caller;
use super::request::{body_room, excludes, given_up, name, record};
use crate::machine::context::Context;

/// What is created, besides regular files, which are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum New {
    /// A directory, with permissions, and with a layout if a certain one is wanted.
    Directory(u32, Option<LmvUserMd>),
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
        let mut seen = self.seen(&[parent]);
        loop {
            match self.create_in(caller, parent, &name, &new).await {
                Err(errno) if self.has_changed(caller, &mut seen, errno).await => {}
                made => return made,
            }
        }
    }

    async fn create_in(
        &self,
        caller: &Caller,
        parent: Fid,
        name: &Name,
        new: &New,
    ) -> Result<Entry, Errno> {
        let (place, found) = self.receiver(caller, parent, name).await?;
        if found.is_some() {
            return Err(Errno::EEXIST);
        }
        let mdt = match new {
            New::Directory(_, wanted) => self.new_mdt(parent, place, wanted.as_ref())?,
            _ => place.mdt,
        };
        let child = self.new_fid(mdt).await?;
        let above = self.watched_name(parent);
        let group = self.group_for(caller, parent);
        let early = self.early(mdt, &[excludes(place.fid, InodeBits::UPDATE)]).await;
        let change = self.new_record(caller, child, new);
        let mut record = record(caller, ReintOp::CREATE, (place.fid, [group, None]), change);
        record.head.layout_version = place.version;
        let message = match new {
            New::Symlink(target) => {
                let target = Name::new(target.as_slice()).ok_or(Errno::EINVAL)?;
                Message::request(&REINT_SYMLINK)
                    .with(&REINT, &record)
                    .with(&NAME, name)
                    .with(&SYMLINK, &target)
                    .with(&LOCK_REQUEST, &given_up(early))
            }
            New::Directory(..) | New::Special(..) => Message::request(&REINT_CREATE)
                .with(&REINT, &record)
                .with(&NAME, name)
                .with_bytes(&NEW_LAYOUT, new.layout())
                .with(&LOCK_REQUEST, &given_up(early)),
        };
        let request = Request::new(message, body_room()).modifying();
        let reply = self.request(mdt, request).await?;
        let body = reply.get(&MDT_BODY).map_err(|_| Errno::EPROTO)?.unwrap_or_default();
        if let Some(mount) = self.core().mounts.get_mut(&self.mount) {
            mount.remove_name(parent, name);
        }
        self.look_up_again(caller, above);
        Ok(Entry { fid: body.fid, attributes: Attributes::new(&body, None) })
    }

    fn new_record(&self, caller: &Caller, child: Fid, new: &New) -> ReintChange {
        let (mode, rdev) = match new {
            New::Directory(mode, _) => (0o040_000 | mode & 0o7777, 0),
            New::Special(mode, device) => (*mode, u64::from(*device)),
            New::Symlink(_) => (0o120_777, 0),
        };
        let flags = match new {
            New::Directory(_, Some(_)) => OpenFlags::RESYNC,
            _ => OpenFlags::NONE,
        };
        let (time, umask) = (self.core().seconds(), caller.umask);
        let flags = SplitOpenFlags(flags);
        ReintChange::Create(Create { child, time, rdev, mode, umask, flags, ..Create::default() })
    }
}

impl New {
    fn layout(&self) -> Vec<u8> {
        match self {
            Self::Directory(_, Some(wanted)) => wanted.to_bytes(),
            _ => Vec::new(),
        }
    }
}

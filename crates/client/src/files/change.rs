//! Changes of names. Spec: mdt-ost §7.6, §22.7.
//!
//! Changes give up the lock on what they change, so attributes are not cached after them; they are
//! in the reply to a change, and to an open that creates a file. Before a change the attributes
//! that were read last are enough, unless the owner decides whether it is allowed. With the
//! attributes the lock on the layout may go: a change uses the layout that was cached when it
//! began, as long as the objects are there, and asks for it at the same time if none was. A new
//! time of the last write is sent to an object only if no write will carry it. It is not sent if
//! the object has dirty data, none of them are being written, and its target cannot know a newer
//! time: this client has created the file, has sent no time, and had the lock on the attributes
//! until now.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{
    LOCK_REQUEST, MDT_BODY, NAME, REINT, REINT_LINK, REINT_RENAME, REINT_UNLINK, TARGET_NAME,
};
use fulmar_lustre_wire::ldlm::InodeBits;
use fulmar_lustre_wire::mdt::{Link, MdtBody, Reint, ReintChange, ReintOp, Rename, Unlink, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Handle, Name, portal};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::Request;

use super::caller::Caller;
use super::request::{body_room, excludes, given_up, name, record};
use crate::machine::context::Context;

const DIRECTORY: u32 = 0o040_000;
/// How often a change is sent to the MDT that another one names.
const REMOTE_TRIES: usize = 4;
/// All bits of a file but those of its data.
const STATE: InodeBits = InodeBits(0x3f);

impl Context {
    /// Removes a name: that of a directory, or of anything else. One round trip.
    ///
    /// # Errors
    /// ENOENT, EISDIR, ENOTDIR, ENOTEMPTY, and what the server says.
    pub(crate) async fn unlink(
        &self,
        caller: &Caller,
        parent: Fid,
        text: &[u8],
        is_directory: bool,
    ) -> Result<(), Errno> {
        let name = name(text)?;
        let mut seen = self.seen(&[parent]);
        loop {
            match self.unlink_in(caller, parent, &name, is_directory).await {
                Err(errno) if self.has_changed(caller, &mut seen, errno).await => {}
                done => return done,
            }
        }
    }

    async fn unlink_in(
        &self,
        caller: &Caller,
        parent: Fid,
        name: &Name,
        is_directory: bool,
    ) -> Result<(), Errno> {
        let place = self.holder(caller, parent, name).await?;
        let known = self.known_file(parent, name);
        let mut child = match known {
            Some(fid) if self.mdt(fid).await? != place.mdt => Some(fid),
            _ => None,
        };
        for _ in 0..REMOTE_TRIES {
            // The MDT of the file removes both, and is told which file it is if it does not have the name.
            let mdt = match child {
                Some(fid) => self.mdt(fid).await?,
                None => place.mdt,
            };
            let conflicts = [(Some(place.fid), InodeBits::UPDATE), (known.or(child), STATE)];
            // Known as long as the locks are.
            let group = self.group_for(caller, parent);
            let early = self.give_up(mdt, &conflicts).await;
            let change = ReintChange::Unlink(Unlink {
                child: child.unwrap_or_default(),
                time: self.core().seconds(),
                mode: if is_directory { DIRECTORY } else { 0 },
                ..Unlink::default()
            });
            let record = record(caller, ReintOp::UNLINK, (place.fid, [group, None]), change);
            let message = Message::request(&REINT_UNLINK)
                .with(&REINT, &record)
                .with(&NAME, name)
                .with(&LOCK_REQUEST, &given_up(early));
            let request = Request::new(message, body_room()).modifying();
            match self.request_at(mdt, request, Errno::EREMOTE).await? {
                Some(remote) => child = Some(remote),
                None => {
                    self.forget_name(parent, name);
                    return Ok(());
                }
            }
        }
        Err(Errno::EREMOTE)
    }

    /// Sends a change, and returns the file on another MDT that has to make it, if the MDT has said so with `errno`.
    async fn request_at(
        &self,
        mdt: ImportId,
        request: Request,
        errno: Errno,
    ) -> Result<Option<Fid>, Errno> {
        let reply = self.request_with(mdt, request, None).await?.result?;
        match reply.body.status.errno() {
            None => Ok(None),
            Some(got) => {
                let body: Option<MdtBody> = reply.get(&MDT_BODY).ok().flatten();
                let remote = body.filter(|body| got == errno && body.valid.has(Valid::MDS));
                remote.map(|body| Some(body.fid)).ok_or(got)
            }
        }
    }

    /// Gives a file one more name. One round trip.
    ///
    /// # Errors
    /// EEXIST, EPERM for a directory, and what the server says.
    pub(crate) async fn link(
        &self,
        caller: &Caller,
        file: Fid,
        parent: Fid,
        text: &[u8],
    ) -> Result<(), Errno> {
        let name = name(text)?;
        let mut seen = self.seen(&[parent]);
        loop {
            match self.link_in(caller, file, parent, &name).await {
                Err(errno) if self.has_changed(caller, &mut seen, errno).await => {}
                done => return done,
            }
        }
    }

    async fn link_in(
        &self,
        caller: &Caller,
        file: Fid,
        parent: Fid,
        name: &Name,
    ) -> Result<(), Errno> {
        let (place, found) = self.receiver(caller, parent, name).await?;
        if found.is_some() {
            return Err(Errno::EEXIST);
        }
        let both = [(Some(place.fid), InodeBits::UPDATE), (Some(file), InodeBits::UPDATE)];
        let groups = [self.group_for(caller, file), self.group_for(caller, parent)];
        let early = self.give_up(place.mdt, &both).await;
        let time = self.core().seconds();
        let change = ReintChange::Link(Link { parent: place.fid, time, ..Link::default() });
        let record = record(caller, ReintOp::LINK, (file, groups), change);
        let message = Message::request(&REINT_LINK)
            .with(&REINT, &record)
            .with(&NAME, name)
            .with(&LOCK_REQUEST, &given_up(early));
        let request = Request::new(message, body_room()).modifying();
        self.request(place.mdt, request).await?;
        self.forget_name(parent, name);
        Ok(())
    }

    /// Renames a file, in place of the one that has the new name. One round trip.
    ///
    /// # Errors
    /// ENOENT, EEXIST, EISDIR, ENOTDIR, ENOTEMPTY, EXDEV, and what the server says.
    pub(crate) async fn rename(
        &self,
        caller: &Caller,
        (from, old): (Fid, &[u8]),
        (to, new): (Fid, &[u8]),
    ) -> Result<(), Errno> {
        let (old, new) = (name(old)?, name(new)?);
        let mut seen = self.seen(&[from, to]);
        loop {
            match self.rename_in(caller, (from, &old), (to, &new)).await {
                Err(errno) if self.has_changed(caller, &mut seen, errno).await => {}
                done => return done,
            }
        }
    }

    async fn rename_in(
        &self,
        caller: &Caller,
        (from, old): (Fid, &Name),
        (to, new): (Fid, &Name),
    ) -> Result<(), Errno> {
        let source_place = self.holder(caller, from, old).await?;
        let (target_place, found) = self.receiver(caller, to, new).await?;
        let source = self.known_file(from, old);
        let replaced = self.known_file(to, new).or(found);
        let mut mdt = match replaced {
            // It may be left without a name, which its own MDT has to see.
            Some(fid) => self.mdt(fid).await?,
            None => target_place.mdt,
        };
        // The server finds out what the names are; this only helps it to choose its locks.
        let mode = replaced.or(source).and_then(|fid| self.cached_mode(fid)).unwrap_or(0o100_000);
        for _ in 0..REMOTE_TRIES {
            let conflicts = [
                (Some(source_place.fid), InodeBits::UPDATE),
                (Some(target_place.fid), InodeBits::UPDATE),
                (source, InodeBits::LOOKUP),
                (replaced, STATE),
            ];
            let groups = [self.group_for(caller, from), self.group_for(caller, to)];
            let early = self.give_up(mdt, &conflicts).await;
            let (time, target) = (self.core().seconds(), target_place.fid);
            let change = ReintChange::Rename(Rename { target, time, mode, ..Rename::default() });
            let of = (source_place.fid, groups);
            let record: Reint = record(caller, ReintOp::RENAME, of, change);
            let message = Message::request(&REINT_RENAME)
                .with(&REINT, &record)
                .with(&NAME, old)
                .with(&TARGET_NAME, new)
                .with(&LOCK_REQUEST, &given_up(early));
            let request = Request::new(message, body_room()).at(portal::MDS_IO).modifying();
            match self.request_at(mdt, request, Errno::EXDEV).await? {
                Some(remote) => mdt = self.mdt(remote).await?,
                None => {
                    self.forget_name(from, old);
                    self.forget_name(to, new);
                    return Ok(());
                }
            }
        }
        Err(Errno::EXDEV)
    }

    /// Gives up locks that a change excludes. Returns their handles.
    pub(crate) async fn give_up(
        &self,
        mdt: ImportId,
        changed: &[(Option<Fid>, InodeBits)],
    ) -> Vec<Handle> {
        let known = changed.iter().filter_map(|(fid, bits)| Some(excludes((*fid)?, *bits)));
        let known: Vec<_> = known.collect();
        self.early(mdt, &known).await
    }

    pub(super) fn forget_name(&self, parent: Fid, name: &Name) {
        if let Some(mount) = self.core().mounts.get_mut(&self.mount) {
            mount.remove_name(parent, name);
        }
    }

    pub(super) fn known_file(&self, parent: Fid, name: &Name) -> Option<Fid> {
        let core = self.core();
        core.mounts.get(&self.mount)?.names.get(&(parent, name.clone())).copied()
    }

    fn cached_mode(&self, fid: Fid) -> Option<u32> {
        let core = self.core();
        let inode = core.mounts.get(&self.mount)?.inodes.get(&fid)?;
        inode.has_attributes().then_some(inode.body.mode)
    }
}

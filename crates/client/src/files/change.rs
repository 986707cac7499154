//! Changes of names. Spec: mdt-ost §7.6, §22.7.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{
    LOCK_REQUEST, NAME, REINT, REINT_LINK, REINT_RENAME, REINT_UNLINK, TARGET_NAME,
};
use fulmar_lustre_wire::ldlm::InodeBits;
use fulmar_lustre_wire::mdt::{Link, Reint, ReintChange, ReintOp, Rename, Unlink};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Handle, Name, portal};
use fulmar_rpc::import::Request;

use super::caller::Caller;
use super::request::{body_room, excludes, given_up, name, record};
use crate::machine::context::Context;

const DIRECTORY: u32 = 0o040_000;
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
        let mdt = self.mdt(parent).await?;
        let child = self.known_file(parent, &name);
        let conflicts = [(Some(parent), InodeBits::UPDATE), (child, STATE)];
        let early = self.give_up(mdt, &conflicts).await;
        let change = ReintChange::Unlink(Unlink {
            time: self.core().seconds(),
            mode: if is_directory { DIRECTORY } else { 0 },
            ..Unlink::default()
        });
        let group = self.group_of(parent);
        let record = record(caller, ReintOp::UNLINK, (parent, [group, None]), change);
        let message = Message::request(&REINT_UNLINK)
            .with(&REINT, &record)
            .with(&NAME, &name)
            .with(&LOCK_REQUEST, &given_up(early));
        let request = Request::new(message, body_room()).modifying();
        self.request(mdt, request).await?;
        self.forget_name(parent, &name);
        Ok(())
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
        let mdt = self.mdt(parent).await?;
        let both = [(Some(parent), InodeBits::UPDATE), (Some(file), InodeBits::UPDATE)];
        let early = self.give_up(mdt, &both).await;
        let change =
            ReintChange::Link(Link { parent, time: self.core().seconds(), ..Link::default() });
        let groups = [self.group_of(file), self.group_of(parent)];
        let record = record(caller, ReintOp::LINK, (file, groups), change);
        let message = Message::request(&REINT_LINK)
            .with(&REINT, &record)
            .with(&NAME, &name)
            .with(&LOCK_REQUEST, &given_up(early));
        let request = Request::new(message, body_room()).modifying();
        self.request(mdt, request).await?;
        self.forget_name(parent, &name);
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
        let mdt = self.mdt(from).await?;
        let (source, replaced) = (self.known_file(from, &old), self.known_file(to, &new));
        let conflicts = [
            (Some(from), InodeBits::UPDATE),
            (Some(to), InodeBits::UPDATE),
            (source, InodeBits::LOOKUP),
            (replaced, STATE),
        ];
        let early = self.give_up(mdt, &conflicts).await;
        // The server finds out what the names are; this only helps it to choose its locks.
        let mode = replaced.or(source).and_then(|fid| self.cached_mode(fid)).unwrap_or(0o100_000);
        let time = self.core().seconds();
        let change = ReintChange::Rename(Rename { target: to, time, mode, ..Rename::default() });
        let groups = [self.group_of(from), self.group_of(to)];
        let record: Reint = record(caller, ReintOp::RENAME, (from, groups), change);
        let message = Message::request(&REINT_RENAME)
            .with(&REINT, &record)
            .with(&NAME, &old)
            .with(&TARGET_NAME, &new)
            .with(&LOCK_REQUEST, &given_up(early));
        let request = Request::new(message, body_room()).at(portal::MDS_IO).modifying();
        self.request(mdt, request).await?;
        self.forget_name(from, &old);
        self.forget_name(to, &new);
        Ok(())
    }

    /// Gives up locks that a change excludes. Returns their handles.
    pub(crate) async fn give_up(
        &self,
        mdt: fulmar_rpc::client::ImportId,
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

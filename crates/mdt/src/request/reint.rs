//! Changes. Spec: mdt-ost §7.6.

use std::borrow::Cow;

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{EA_DATA, MDT_BODY, NAME, NEW_LAYOUT, SYMLINK, TARGET_NAME};
use fulmar_lustre_wire::layout::Layout;
use fulmar_lustre_wire::ldlm::ResourceId;
use fulmar_lustre_wire::mdt::{
    AttrValid, Create, Link, MdtBody, Reint, ReintChange, ReintOp, Rename, SetAttr, SetXattr,
    Unlink, Valid,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Content, Fid, Status};
use fulmar_nodemap::{IdKind, View};
use fulmar_wire::Order;

use super::Answer;
use super::attributes::{AttributeQuery, body};
use crate::Mdt;
use crate::access::{Caller, check_link_source};
use crate::change::Change;
use crate::data::object_of;
use crate::inode::{Extra, Inode};
use crate::layout::{ComponentChange, default_layout};
use crate::mdt::Call;
use crate::records::Failure;
use crate::tree::{New, SetXattr as Set};
use crate::{acl, mode};

/// What a change needs to know of its request.
struct Context<'a, 'b> {
    call: &'a Call<'b>,
    caller: Caller,
    view: View,
    /// The first file of the record.
    fid: Fid,
}

impl Mdt {
    /// Executes a change. The locks that it needs are the caller's.
    ///
    /// # Errors
    /// The status of a reply without buffers.
    pub fn reint(&self, call: &Call<'_>) -> Result<Answer, Errno> {
        let record: Reint =
            call.message.require(&fulmar_lustre_wire::format::REINT).map_err(|_| Errno::EPROTO)?;
        if self.export(call.export)?.is_read_only() {
            return Err(Errno::EROFS);
        }
        let caller = self.caller(call, Caller::of_reint(&record.head))?;
        let context = Context { call, caller, view: self.view(call), fid: record.head.fid };
        let done = match &record.change {
            ReintChange::SetAttr(asked) => self.reint_setattr(&context, asked),
            ReintChange::Create(asked) if record.head.op == ReintOp::CREATE => {
                self.reint_create(&context, asked)
            }
            ReintChange::Link(asked) => self.reint_link(&context, asked),
            ReintChange::Unlink(asked) if record.head.op == ReintOp::UNLINK => {
                self.reint_unlink(&context, asked)
            }
            ReintChange::Rename(asked) if record.head.op == ReintOp::RENAME => {
                self.reint_rename(&context, asked)
            }
            ReintChange::SetXattr(asked) => self.reint_setxattr(&context, asked),
            _ => return Err(Errno::EOPNOTSUPP),
        };
        Ok(done.unwrap_or_else(|failure| {
            let status = Status::failed(failure.errno());
            let reply = Message::reply(call.message.format(), status);
            Answer::new(reply.with(&MDT_BODY, &MdtBody::default()))
        }))
    }

    /// Makes a change. If it was made before the restart, `again` gives the reply.
    fn change<'a>(
        &'a self,
        call: &Call<'_>,
        build: impl FnMut(&mut Change<'a>) -> Result<Message<'static>, Failure>,
        again: impl FnOnce() -> MdtBody,
    ) -> Result<Answer, Failure> {
        let mut build = build;
        match self.commit(call, |change| Ok((build(change)?, change.gone())))? {
            Some((reply, gone)) => Ok(Answer { gone, ..Answer::new(reply) }),
            None => {
                let mut reply = Message::reply(call.message.format(), Status::OK);
                reply.body.transno = call.message.body.transno;
                Ok(Answer::new(reply.with(&MDT_BODY, &again())))
            }
        }
    }

    /// Returns the attributes of a file for a reply that is given again.
    fn body_again(&self, fid: Fid, view: &View) -> MdtBody {
        self.inode(fid).map_or_else(|_| MdtBody::default(), |inode| body(fid, &inode, view))
    }

    fn reint_setattr(&self, context: &Context<'_, '_>, asked: &SetAttr) -> Result<Answer, Failure> {
        let &Context { call, ref caller, ref view, fid } = context;
        let asked = &asked_in_fs(asked, view);
        let layout = call.message.bytes(&NEW_LAYOUT).unwrap_or_default();
        let valid = asked.valid;
        if valid.has(AttrValid::SIZE) && self.opens().is_executed(fid) {
            return Err(Errno::ETXTBSY.into());
        }
        // A write that is under way does not undo it.
        self.data.note_times(&call.data(), object_of(fid));
        let _locked = self.lock(&[fid]);
        let is_writer = self.opens().is_written_by(fid, call.export);
        let build = |change: &mut Change<'_>| {
            let inode = if layout.is_empty() {
                change.setattr(fid, asked, (caller, view), is_writer)?
            } else {
                change.set_default_layout(fid, layout, caller)?
            };
            let reply = Message::reply(call.message.format(), Status::OK);
            Ok(reply.with(&MDT_BODY, &body(fid, &inode, view)))
        };
        let mut answer = self.change(call, build, || self.body_again(fid, view))?;
        if valid.has(AttrValid::ATIME_SET) {
            self.opens().note_atime_set(fid, asked.ctime);
        }
        if self.inode_if_any(fid)?.is_some_and(|inode| inode.on_mdt().is_some()) {
            answer.changed = Some(ResourceId::of_fid(fid));
        }
        Ok(answer)
    }

    fn reint_create(&self, context: &Context<'_, '_>, asked: &Create) -> Result<Answer, Failure> {
        let &Context { call, ref caller, ref view, fid: parent } = context;
        let name = name_of(call)?;
        let symlink = call.message.get(&SYMLINK).ok().flatten().unwrap_or_default();
        let is_symlink = asked.mode & mode::FORMAT == mode::SYMLINK;
        if is_symlink && (symlink.as_bytes().is_empty() || symlink.as_bytes().len() > 4095) {
            return Err(Errno::EPROTO.into());
        }
        if makes_device(asked) && view.is_mapped() {
            return Err(Errno::EPERM.into());
        }
        let new = New {
            fid: asked.child,
            mode: asked.mode,
            umask: asked.umask,
            rdev: asked.rdev as u32,
            symlink: if is_symlink { symlink.as_bytes() } else { b"" },
            time: asked.time,
        };
        let export = self.export(call.export)?;
        let wanted = AttributeQuery { valid: Valid::NONE, ea_size: 0, flags: export.client.flags };
        let _locked = self.lock(&[parent, asked.child]);
        let build = |change: &mut Change<'_>| {
            let inode = change.create(parent, &name, &new, caller)?;
            let reply = Message::reply(call.message.format(), Status::OK);
            Ok(self.fill(reply, asked.child, &inode, (wanted, view)))
        };
        self.change(call, build, || self.body_again(asked.child, view))
    }

    fn reint_link(&self, context: &Context<'_, '_>, asked: &Link) -> Result<Answer, Failure> {
        let &Context { call, ref caller, ref view, fid } = context;
        let name = name_of(call)?;
        let _locked = self.lock(&[fid, asked.parent]);
        let build = |change: &mut Change<'_>| {
            if view.is_mapped() {
                check_link_source(&change.existing(fid)?, caller)?;
            }
            change.link(fid, asked.parent, &name, caller, asked.time)?;
            let reply = Message::reply(call.message.format(), Status::OK);
            Ok(reply.with(&MDT_BODY, &MdtBody::default()))
        };
        self.change(call, build, MdtBody::default)
    }

    fn reint_unlink(&self, context: &Context<'_, '_>, asked: &Unlink) -> Result<Answer, Failure> {
        let &Context { call, ref caller, ref view, fid: parent } = context;
        let name = name_of(call)?;
        let is_directory = asked.mode & mode::FORMAT == mode::DIRECTORY;
        let _locked = self.lock_with_entries(&[(parent, &name)])?;
        let build = |change: &mut Change<'_>| {
            let removed = change.unlink(parent, &name, is_directory, caller, asked.time)?;
            let reply = Message::reply(call.message.format(), Status::OK);
            Ok(reply.with(&MDT_BODY, &body(removed.fid, &removed.inode, view)))
        };
        self.change(call, build, MdtBody::default)
    }

    fn reint_rename(&self, context: &Context<'_, '_>, asked: &Rename) -> Result<Answer, Failure> {
        let &Context { call, ref caller, ref view, fid: parent } = context;
        let name = name_of(call)?;
        let new_name = call.message.require(&TARGET_NAME).map_err(|_| Errno::EPROTO)?;
        let (source, target) = ((parent, &name[..]), (asked.target, new_name.as_bytes()));
        // What is above a directory does not change while another one is moved.
        let _moving = (parent != asked.target).then(|| self.moves());
        let _locked = self.lock_with_entries(&[source, target])?;
        let build = |change: &mut Change<'_>| {
            let removed = change.rename(source, target, caller, asked.time)?;
            let body = removed.map(|removed| body(removed.fid, &removed.inode, view));
            let reply = Message::reply(call.message.format(), Status::OK);
            Ok(reply.with(&MDT_BODY, &body.unwrap_or_default()))
        };
        self.change(call, build, MdtBody::default)
    }

    fn reint_setxattr(
        &self,
        context: &Context<'_, '_>,
        asked: &SetXattr,
    ) -> Result<Answer, Failure> {
        let &Context { call, ref caller, ref view, fid } = context;
        let name = name_of(call)?;
        let value = call.message.bytes(&EA_DATA).unwrap_or_default();
        let value = &acl_to_fs(&name, value, view)?[..];
        let removes = asked.valid.has(Valid::FLXATTRRM);
        let value = (!removes).then_some(value);
        let set = Set { name: &name, value, flags: asked.flags, time: asked.time };
        let default = match &name[..] {
            b"lustre.lov" | b"trusted.lov" => Some(value.unwrap_or_default()),
            _ => None,
        };
        let is_layout = |value: &[u8]| {
            let found = Layout::decode(value, Order::Little);
            found.is_ok_and(|found| !matches!(found, Layout::Other(_)))
        };
        if name == b"lustre.lov"
            && value.is_some_and(|value| !value.is_empty() && !is_layout(value))
        {
            return Err(Errno::EINVAL.into());
        }
        let components = ComponentChange::of_name(&name)?;
        let _locked = self.lock(&[fid]);
        let build = |change: &mut Change<'_>| {
            match (components, default) {
                (Some(components), _) => {
                    change.change_components(fid, components, &set, caller)?;
                }
                (_, Some(value)) if change.existing(fid)?.is_directory() => {
                    change.set_default_layout(fid, value, caller)?;
                }
                _ => drop(change.setxattr(fid, &set, caller)?),
            }
            let reply = Message::reply(call.message.format(), Status::OK);
            Ok(reply.with(&MDT_BODY, &MdtBody::default()))
        };
        self.change(call, build, MdtBody::default)
    }
}

impl Change<'_> {
    /// Sets the layout that new files, or new directories, of a directory get; no bytes for none.
    fn set_default_layout(
        &mut self,
        fid: Fid,
        asked: &[u8],
        caller: &Caller,
    ) -> Result<Inode, Failure> {
        let mut inode = self.existing(fid)?;
        if !inode.is_directory() {
            return Err(Errno::EINVAL.into());
        }
        if !caller.owns(&inode) {
            return Err(Errno::EPERM.into());
        }
        let wanted = Layout::decode(asked, Order::Little);
        let extra = if matches!(wanted, Ok(Layout::DirectoryDefault(_))) {
            Extra::DefaultLmv
        } else {
            Extra::Layout
        };
        let kept = match asked {
            b"" => vec![],
            asked => default_layout(asked, inode.extra(Extra::Layout), self.mdt.rules()?)?,
        };
        inode.set_extra(extra, kept);
        self.set(fid, inode.clone())?;
        match extra {
            Extra::Layout => self.note_layout(fid),
            _ => self.note_xattr(fid, b"trusted.dmv"),
        }
        Ok(inode)
    }
}

/// Returns whether a request makes a device that opens something. A character device without a number is what overlays
/// put for names that are gone.
fn makes_device(asked: &Create) -> bool {
    let kind = asked.mode & mode::FORMAT;
    kind == mode::BLOCK || kind == mode::CHARACTER && asked.rdev != 0
}

/// Returns attributes that are to be set with the ids of the file system.
fn asked_in_fs(asked: &SetAttr, view: &View) -> SetAttr {
    let id = |bit, kind, id| if asked.valid.has(bit) { view.to_fs(kind, id).id } else { id };
    SetAttr {
        uid: id(AttrValid::UID, IdKind::User, asked.uid),
        gid: id(AttrValid::GID, IdKind::Group, asked.gid),
        projid: id(AttrValid::PROJID, IdKind::Project, asked.projid),
        ..*asked
    }
}

/// Returns the value of an extended attribute with the ids of the file system.
fn acl_to_fs<'a>(name: &[u8], value: &'a [u8], view: &View) -> Result<Cow<'a, [u8]>, Errno> {
    let is_list = matches!(Extra::of_name(name), Some(Extra::Acl | Extra::DefaultAcl));
    // Four bytes are a list without entries.
    if view.is_plain() || !is_list || value.len() <= 4 {
        return Ok(value.into());
    }
    Ok(view.acl_to_fs(&acl::decode(value)?).to_bytes().into())
}

/// Returns the name of a request.
pub(crate) fn name_of(call: &Call<'_>) -> Result<Vec<u8>, Errno> {
    let name = call.message.require(&NAME).map_err(|_| Errno::EPROTO)?;
    Ok(name.as_bytes().to_vec())
}

//! Opening files, and creating them. Spec: mdt-ost §5.5, §6.1, §8.3.

use fulmar_base::Errno;
use fulmar_lustre_wire::changelog::ChangeKind;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::format::{INLINE_DATA, LOCK_REPLY, MDT_BODY, NAME, NEW_LAYOUT, REINT};
use fulmar_lustre_wire::ldlm::{Disposition, LockReply};
use fulmar_lustre_wire::mdt::{Create, MdtBody, OpenFlags, ReintChange, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Handle, Status};
use fulmar_nodemap::View;

use super::IntentReply;
use super::attributes::AttributeQuery;
use super::getattr::check_shown;
use super::layout::LayoutSource;
use crate::Mdt;
use crate::access::{APPEND_ONLY, AccessMode, Caller, check};
use crate::change::Change;
use crate::changelog::Note;
use crate::inode::{Extra, Inode};
use crate::layout::objects_of;
use crate::mdt::{Call, Export};
use crate::mode;
use crate::opens::Open;
use crate::records::Failure;
use crate::tree::New;

/// What a client gets to know of a file that it opens.
const WANTED: Valid = Valid::FLEASIZE.with(Valid::FLMODEASIZE).with(Valid::FLACL);

/// The bytes of a range without data, which is in the reply when no data are.
const NO_DATA: usize = 16;

/// An open under way.
struct Opening<'a, 'b> {
    call: &'a Call<'b>,
    export: Export,
    caller: Caller,
    view: View,
    parent: Fid,
    record: Create,
    name: Vec<u8>,
    disposition: Disposition,
}

/// What an open has come to.
struct OpenOutcome {
    reply: Message<'static>,
    result: Result<(), Errno>,
}

impl Mdt {
    /// Executes the intent OPEN, or OPEN and CREAT.
    pub fn open(&self, call: &Call<'_>) -> IntentReply {
        let mut opening = match self.opening(call) {
            Ok(opening) => opening,
            Err(errno) => {
                let disposition = Disposition::IT_EXECD | Disposition::LOOKUP_EXECD;
                return IntentReply { reply: empty(call), disposition, result: Err(errno) };
            }
        };
        let OpenOutcome { reply, result } =
            self.execute_open(&mut opening).unwrap_or_else(|failure| OpenOutcome {
                reply: empty(call),
                result: Err(failure.errno()),
            });
        IntentReply { reply, disposition: opening.disposition, result }
    }

    fn opening<'a, 'b>(&self, call: &'a Call<'b>) -> Result<Opening<'a, 'b>, Errno> {
        let record = call.message.require(&REINT).map_err(|_| Errno::EPROTO)?;
        let ReintChange::Create(create) = record.change else { return Err(Errno::EPROTO) };
        let flags = create.flags.0;
        let has_no_lock = flags.has(OpenFlags::LEASE) && !flags.has(OpenFlags::LOCK);
        if flags == OpenFlags::NONE || has_no_lock {
            return Err(Errno::EPROTO);
        }
        let export = self.export(call.export)?;
        if create.flags.0.has(OpenFlags::WRITE) && export.is_read_only() {
            return Err(Errno::EROFS);
        }
        if !self.opens().has_room(call.export) {
            return Err(Errno::EMFILE);
        }
        let name = call.message.get(&NAME).map_err(|_| Errno::EPROTO)?.unwrap_or_default();
        Ok(Opening {
            call,
            export,
            view: self.view(call),
            caller: self.caller(call, Caller::of_reint(&record.head))?,
            parent: record.head.fid,
            record: create,
            name: name.as_bytes().to_vec(),
            disposition: Disposition::IT_EXECD | Disposition::LOOKUP_EXECD,
        })
    }

    fn execute_open(&self, opening: &mut Opening<'_, '_>) -> Result<OpenOutcome, Failure> {
        let Opening { call, parent, record, .. } = *opening;
        let flags = record.flags.0;
        if flags.has(OpenFlags::VOLATILE) && self.inode_if_any(record.child)?.is_none() {
            opening.disposition = opening.disposition | Disposition::LOOKUP_NEG;
            return self.create_and_open(opening);
        }
        // What a replay created may be on disk, with another name by now.
        let by_fid = flags.has(OpenFlags::BY_FID)
            || call.is_replay() && self.inode_if_any(record.child)?.is_some();
        let found = if by_fid {
            self.inode_if_any(record.child)?.map(|_| record.child)
        } else {
            self.lookup(parent, &opening.name, &opening.caller)?
        };
        match found {
            Some(fid) => {
                opening.disposition = opening.disposition | Disposition::LOOKUP_POS;
                self.open_existing(opening, fid)
            }
            None => {
                opening.disposition = opening.disposition | Disposition::LOOKUP_NEG;
                if flags.has(OpenFlags::CREAT) && !by_fid {
                    self.create_and_open(opening)
                } else {
                    Ok(OpenOutcome { reply: empty(call), result: Ok(()) })
                }
            }
        }
    }

    /// Returns a file, if it exists.
    pub(crate) fn inode_if_any(&self, fid: Fid) -> Result<Option<Inode>, Failure> {
        match self.inode(fid) {
            Ok(inode) => Ok(Some(inode)),
            Err(Failure::Refused(Errno::ENOENT)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn create_and_open(&self, opening: &mut Opening<'_, '_>) -> Result<OpenOutcome, Failure> {
        let Opening { call, parent, record, .. } = *opening;
        let caller = opening.caller.clone();
        if opening.export.is_read_only() {
            return Err(Errno::EROFS.into());
        }
        opening.disposition = opening.disposition | Disposition::OPEN_CREATE;
        let new = New {
            fid: record.child,
            mode: mode::REGULAR | record.mode & mode::PERMISSIONS,
            umask: record.umask,
            rdev: 0,
            symlink: b"",
            time: record.time,
        };
        let name = opening.name.clone();
        let is_nameless = record.flags.0.has(OpenFlags::VOLATILE);
        let _locked = self.lock(&[parent, new.fid]);
        let done = self.commit_open(opening, new.fid, |change| {
            if is_nameless {
                change.create_nameless(parent, &new, &caller)
            } else {
                change.create(parent, &name, &new, &caller)
            }
        });
        if let Err(failure) = done {
            // As if it had not been tried, but for the reason.
            let reply = empty(call);
            return Ok(OpenOutcome { reply, result: Err(failure.errno()) });
        }
        done
    }

    fn open_existing(
        &self,
        opening: &mut Opening<'_, '_>,
        fid: Fid,
    ) -> Result<OpenOutcome, Failure> {
        let (call, flags) = (opening.call, opening.record.flags.0);
        let _locked = self.lock(&[fid]);
        let inode = self.inode(fid)?;
        check_shown(&opening.export, &inode)?;
        let filled = self.fill(empty(call), fid, &inode, (opening.asked(), &opening.view));
        let has_handle = inode.is_regular() || inode.is_directory();
        // Symbolic links are never opened, special files by the client alone.
        if !has_handle {
            return Ok(OpenOutcome { reply: filled, result: Ok(()) });
        }
        let creates = flags.has(OpenFlags::CREAT) && !call.is_replay();
        let is_refused = match () {
            () if creates && flags.has(OpenFlags::EXCL) => Err(Errno::EEXIST),
            () if inode.is_directory() && (creates || flags.has(OpenFlags::WRITE)) => {
                Err(Errno::EISDIR)
            }
            () if flags.has(OpenFlags::DIRECTORY) && !inode.is_directory() => {
                return Ok(OpenOutcome { reply: empty(call), result: Err(Errno::ENOTDIR) });
            }
            () => self.check_open(opening, fid, &inode),
        };
        if let Err(errno) = is_refused {
            return Ok(OpenOutcome { reply: filled, result: Err(errno) });
        }
        let done = self.commit_open(opening, fid, |change| change.existing(fid));
        done.or_else(|failure| Ok(OpenOutcome { reply: filled, result: Err(failure.errno()) }))
    }

    /// Checks that a caller may open a file so.
    fn check_open(&self, opening: &Opening<'_, '_>, fid: Fid, inode: &Inode) -> Result<(), Errno> {
        let flags = opening.record.flags.0;
        let is_owner = opening.caller.uid == inode.attributes.uid;
        let overrides = flags.has(OpenFlags::OWNEROVERRIDE) && is_owner;
        let changes = [OpenFlags::WRITE, OpenFlags::TRUNC, OpenFlags::APPEND];
        let changes = changes.iter().any(|&flag| flags.has(flag));
        if changes && opening.export.is_read_only() {
            return Err(Errno::EROFS);
        }
        if !overrides && !opening.call.is_replay() {
            let part = |is_wanted, wanted| if is_wanted { wanted } else { AccessMode::NOTHING };
            // A program is read to be run.
            let reads = flags.has(OpenFlags::READ) && !flags.has(OpenFlags::EXEC);
            let wanted = part(reads, AccessMode::READ)
                .and(part(changes, AccessMode::WRITE))
                .and(part(flags.has(OpenFlags::EXEC), AccessMode::EXECUTE));
            check(inode, &opening.caller, wanted)?;
        }
        if inode.attributes.flags & APPEND_ONLY != 0 && changes && !flags.has(OpenFlags::APPEND) {
            return Err(Errno::EPERM);
        }
        if flags.has(OpenFlags::HAS_EA)
            && !flags.has(OpenFlags::CREAT)
            && !opening.call.is_replay()
            && !inode.extra(Extra::Layout).is_empty()
        {
            return Err(Errno::EEXIST);
        }
        if flags.has(OpenFlags::LEASE) && !opening.call.is_replay() {
            let own = (opening.call.export, opening.record.old_handle);
            self.opens().check_lease(fid, own)
        } else {
            self.opens().check(fid, flags)
        }
    }

    /// Opens a file that `find` returns or creates. The client repeats it after a restart, so it has a
    /// transaction.
    fn commit_open<'a>(
        &'a self,
        opening: &mut Opening<'_, '_>,
        fid: Fid,
        mut find: impl FnMut(&mut Change<'a>) -> Result<Inode, Failure>,
    ) -> Result<OpenOutcome, Failure> {
        let Opening { call, ref record, .. } = *opening;
        let flags = record.flags.0;
        let owner = (opening.caller.uid, opening.caller.gid);
        let open = Open { export: call.export, fid, flags, owner };
        let (handle, is_first) = {
            let mut opens = self.opens();
            let is_first = !opens.is_open_by(&open);
            (opens.open(open), is_first)
        };
        let mut new_layout = None;
        let is_new = opening.disposition.has(Disposition::OPEN_CREATE);
        let mut passes_layout = false;
        let this = &*opening;
        let committed = self.commit(call, |change| {
            let mut inode = find(change)?;
            let needs_layout = this.needs_layout(&inode);
            // A new file gets its layout with its inode.
            passes_layout = this.is_without_layout(&inode) && !(is_new && needs_layout);
            if needs_layout {
                if new_layout.is_none() {
                    let parent = inode.parent_or(this.parent);
                    new_layout = Some(self.new_layout(
                        (fid, inode.attributes.size),
                        parent,
                        this.wanted_layout(),
                    )?);
                }
                let layout = new_layout.clone().unwrap_or_default();
                inode = change.set_layout(fid, layout)?;
                if !this.disposition.has(Disposition::OPEN_CREATE) {
                    change.note_layout(fid);
                }
            }
            if is_first {
                change.note(opened_first(fid, flags));
            }
            Ok((self.opened(this, fid, &inode, handle), ()))
        });
        let reply = match committed {
            Ok(Some((reply, ()))) => Ok(reply),
            // It was done before the restart, but for the handle.
            Ok(None) => self.inode(fid).map(|inode| {
                let mut reply = self.opened(this, fid, &inode, handle);
                reply.body.transno = call.message.body.transno;
                reply
            }),
            Err(failure) => Err(failure),
        };
        if reply.is_err() {
            self.opens().close(handle);
            // If the store has failed, it is unknown whether they are used.
            if let (Err(Failure::Refused(_)), LayoutSource::Request(_)) =
                (&reply, this.wanted_layout())
            {
                self.objects.give_back(&objects_of(&new_layout.unwrap_or_default()));
            }
        }
        let reply = reply?;
        opening.note_opened(passes_layout);
        Ok(OpenOutcome { reply, result: Ok(()) })
    }

    /// Returns the reply about an open file.
    fn opened(
        &self,
        opening: &Opening<'_, '_>,
        fid: Fid,
        inode: &Inode,
        handle: Handle,
    ) -> Message<'static> {
        let reply = self.fill(empty(opening.call), fid, inode, (opening.asked(), &opening.view));
        let mut body = reply.get(&MDT_BODY).ok().flatten().unwrap_or_default();
        body.open_handle = handle;
        reply.with(&MDT_BODY, &body)
    }
}

impl Opening<'_, '_> {
    /// Records that the file is open.
    fn note_opened(&mut self, passes_layout: bool) {
        let mut done = self.disposition | Disposition::OPEN_OPEN;
        if self.record.flags.0.has(OpenFlags::LEASE) {
            done = done | Disposition::OPEN_LEASE;
        }
        if passes_layout {
            done = done | Disposition::OPEN_STRIPE;
        }
        self.disposition = done;
    }

    /// Returns the layout that the client wants, or, after a restart, had.
    fn wanted_layout(&self) -> LayoutSource<'_> {
        let flags = self.record.flags.0;
        let layout = self.call.message.bytes(&NEW_LAYOUT).unwrap_or_default();
        match () {
            // It was in the reply that the client had.
            () if self.call.is_replay() => LayoutSource::Replay(layout),
            () if flags.has(OpenFlags::HAS_EA) => LayoutSource::Request(layout),
            () => LayoutSource::Request(b""),
        }
    }

    fn asked(&self) -> AttributeQuery {
        let flags = self.export.client.flags.with(ConnectFlags::NONE);
        AttributeQuery { valid: WANTED, ea_size: u32::MAX, flags }
    }

    /// Returns whether a file that is opened for writing has no layout.
    fn is_without_layout(&self, inode: &Inode) -> bool {
        let writes = self.record.flags.0.has(OpenFlags::WRITE);
        writes && inode.is_regular() && inode.extra(Extra::Layout).is_empty()
    }

    /// Returns whether the open gives a file its layout.
    fn needs_layout(&self, inode: &Inode) -> bool {
        let flags = self.record.flags.0;
        let layout = self.call.message.bytes(&NEW_LAYOUT).unwrap_or_default();
        // A replay never takes new objects: there are none while the MDT recovers.
        let is_wanted = if self.call.is_replay() {
            // Without a layout in the reply there is only room for one.
            layout.iter().any(|byte| *byte != 0)
        } else {
            flags.has(OpenFlags::WRITE)
        };
        inode.is_regular()
            && inode.extra(Extra::Layout).is_empty()
            && is_wanted
            && !flags.has(OpenFlags::DELAY_CREATE)
            && !flags.has(OpenFlags::LEASE)
    }
}

/// Returns what the changelog says of the first open of a file by a user.
fn opened_first(fid: Fid, flags: OpenFlags) -> Note {
    let note = Note::new(ChangeKind::OPEN, fid).with_flags(flags.0 as u16);
    Note { open_flags: Some(flags.0 as u32), ..note }
}

/// Returns a reply that says nothing of a file.
fn empty(call: &Call<'_>) -> Message<'static> {
    Message::reply(call.message.format(), Status::OK)
        .with(&LOCK_REPLY, &LockReply::default())
        .with(&MDT_BODY, &MdtBody::default())
        .with_bytes(&INLINE_DATA, vec![0; NO_DATA])
}

//! The data of files that are on the MDT (Data-on-MDT). Spec: mdt-ost §13.1 to §13.3.
//!
//! A file whose layout has a component on the MDT has an object in the store with the name of its FID. The
//! requests are those to an OST, about the file instead of an object; its size is that of the object, its times
//! are those of the inode.
//!
//! The inode has the times and what is charged for it. Both targets execute them with
//! `target::data`, an MDT under its lock of the file, in one transaction with the inode. The
//! component has 1 MiB at most (`lod.*.dom_stripesize`), and half of that, a quarter and so on, as
//! long as less of the medium is free than this share of its half. The host takes the locks, on one
//! bit of the file (`DOM`): an open or a lookup gets it if it is free, and then size and times, an
//! open also the data if they fit into its reply, or their end. Data on the MDT take no part in an
//! exchange of layouts: only a copy without a name, which the migration of a file makes, may be
//! exchanged with such a file, and if the copy is on OSTs, what was on the MDT goes. When such a
//! file goes, clients drop its data from their caches.

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::{ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{INLINE_DATA, KEY, MDT_BODY};
use fulmar_lustre_wire::ldlm::{Nanoseconds, OstLvb, ResourceId};
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use fulmar_lustre_wire::ost::{Fiemap, FiemapHeader, Niobuf, Obdo, OstId};
use fulmar_lustre_wire::{Content, Fid, Handle, List, Opcode};
use fulmar_nodemap::IdKind;
use fulmar_store::{ObjectId, StoreError};
use fulmar_target::data::{
    self, Data, EOF, Holder, ObjectSpace, Sources, Transfer, WriteResult, block_end,
};
use fulmar_target::{Answer, Call as Io, Failure};

use crate::change::Change;
use crate::inode::Inode;
use crate::layout::{OnMdt, Rules};
use crate::mdt::{Call, Settings};
use crate::request::IntentReply;
use crate::{Mdt, records};

const TIMES: Valid = Valid(Valid::FLATIME.0 | Valid::FLMTIME.0 | Valid::FLCTIME.0);
const NAME: Valid = Valid(Valid::FLID.0 | Valid::FLGROUP.0);
const SIZES: Valid = Valid(Valid::FLSIZE.0 | Valid::FLBLOCKS.0);
const KIND: Valid = Valid(Valid::FLMODE.0 | Valid::FLTYPE.0);
const OWNER: Valid = Valid(Valid::FLUID.0 | Valid::FLGID.0 | Valid::FLPROJID.0);
/// The largest object: no component on the MDT is larger.
const BYTES_MAX: u64 = 4 << 30;
/// Components end at multiples of this.
const UNIT: u64 = 64 << 10;
/// The most data in the reply to an open: replies are kept for clients that may not have got them.
const INLINE_MAX: u64 = 64 << 10;
/// The room in a reply for what comes to it later.
const REPLY_MARGIN: usize = 256;

impl From<records::Failure> for Failure {
    fn from(failure: records::Failure) -> Self {
        match failure {
            records::Failure::Refused(errno) => Self::Refused(errno),
            records::Failure::Store(error) => Self::Store(error),
        }
    }
}

/// Returns the object of a file.
pub(crate) fn object_of(fid: Fid) -> ObjectId {
    ObjectId(fid.seq, fid.oid.into())
}

/// Returns what clients may do with the data of an MDT.
pub(crate) fn data_settings(settings: &Settings) -> data::Settings {
    let Settings { brw_size, reserved, .. } = *settings;
    let checksums = data::Settings::CHECKSUMS;
    data::Settings { brw_size, bytes_max: BYTES_MAX, reserved, checksums }
}

/// Returns the file that a body names.
fn file_of(asked: &Obdo) -> Result<Fid, Errno> {
    match asked.id {
        OstId::Fid(fid) if asked.valid.has(Valid::FLID) && fid.version == 0 => Ok(fid),
        _ => Err(Errno::EPROTO),
    }
}

/// Returns what the body of a reply says of a file.
fn describe(id: OstId, inode: &Inode, size: u64, valid: Valid) -> Obdo {
    let of = &inode.attributes;
    Obdo {
        valid,
        id,
        size,
        blocks: inode.charged() / 512,
        mtime: of.mtime,
        atime: of.atime,
        ctime: of.ctime,
        mode: if valid.has(Valid::FLMODE) { of.mode } else { 0 },
        uid: of.uid,
        gid: of.gid,
        projid: of.projid,
        ..Obdo::default()
    }
}

/// Notes the times of a change of the data: those of the request, or the present one.
fn take_times(inode: &mut Inode, asked: &Obdo, now: i64) {
    let said = |bit, time| if asked.valid.has(bit) { time } else { now };
    let attributes = &mut inode.attributes;
    attributes.mtime = said(Valid::FLMTIME, asked.mtime);
    attributes.ctime = attributes.ctime.max(said(Valid::FLCTIME, asked.ctime));
    if asked.valid.has(Valid::FLATIME) {
        attributes.atime = asked.atime;
    }
}

impl Holder for Mdt {
    fn data(&self) -> &Data {
        &self.data
    }

    fn is_recovering(&self) -> bool {
        self.recovers()
    }

    fn flags(&self, export: Handle) -> Result<ConnectFlags, Errno> {
        Ok(self.export(export)?.client.flags)
    }

    fn named(&self, asked: &Obdo) -> Result<ObjectId, Errno> {
        file_of(asked).map(object_of)
    }

    fn check_transfer(&self, _: &Io<'_>, transfer: &Transfer) -> Result<(), Failure> {
        let (_, part) = self.with_data(file_of(transfer.asked())?)?;
        if transfer.is_write() && transfer.end() > part.end {
            Err(Errno::EFBIG.into())
        } else {
            Ok(())
        }
    }

    fn commit_write<'a>(
        &'a self,
        call: &Io<'_>,
        transfer: &Transfer,
        sources: Sources<'a>,
        checksum: Option<u32>,
    ) -> Result<Answer, Failure> {
        const SAID: Valid = Valid(SIZES.0 | KIND.0 | OWNER.0 | Valid::FLCTIME.0);
        let (object, asked) = (transfer.object(), transfer.asked());
        let fid = file_of(asked)?;
        let sets_times = self.data.may_set_times(call, object);
        let _locked = self.lock(&[fid]);
        let committed = self.commit(&Call::of_data(call), |change| {
            let mut inode = change.existing(fid)?;
            inode.on_mdt().ok_or(Errno::ENOENT)?;
            if sets_times {
                take_times(&mut inode, asked, call.now);
            }
            let was = change.space(fid, &inode)?;
            let written = transfer.write(&self.data, &mut change.transaction, was, sources)?;
            let WriteResult { charged, size, results } = written;
            inode.set_charged(charged);
            let shown = self.seen(call, describe(asked.id, &inode, size, SAID));
            change.set(fid, inode)?;
            Ok((transfer.write_reply(call, &shown, checksum, Some(results)), ()))
        })?;
        let changed = Some(asked.id.resource());
        let Some((reply, ())) = committed else {
            let (inode, _) = self.with_data(fid)?;
            let size = self.store.size(object)?;
            let shown = self.seen(call, describe(asked.id, &inode, size, SAID));
            let mut reply = transfer.write_reply(call, &shown, checksum, None);
            reply.body.transno = call.message.body.transno;
            return Ok(Answer { changed, ..Answer::new(reply) });
        };
        let durable = transfer.is_synchronous().then(|| self.store.applied());
        Ok(Answer { durable, changed, ..Answer::new(reply) })
    }

    fn execute(&self, call: &Io<'_>) -> Result<Answer, Errno> {
        Self::execute(self, &Call::of_data(call))
    }
}

impl Mdt {
    /// Returns what limits the layouts that somebody wants. On a medium that is more than half full, parts on
    /// the MDT are smaller. Spec: mdt-ost §11.4.
    pub(crate) fn rules(&self) -> Result<Rules<'_>, records::Failure> {
        Ok(Rules { objects: &*self.objects, on_mdt_max: self.on_mdt_max()? })
    }

    /// Returns the most bytes of a file that are on the MDT now.
    pub(crate) fn on_mdt_max(&self) -> Result<u64, StoreError> {
        let room = self.store.room()?;
        let mut most = u64::from(self.tuning().on_mdt_max);
        let mut needed = room.total / 2;
        while most > 0 && room.free < needed {
            (most, needed) = (most / 2 / UNIT * UNIT, needed / 2);
        }
        Ok(most)
    }

    /// Returns a body with the ids of the client.
    fn seen(&self, call: &Io<'_>, body: Obdo) -> Obdo {
        let view = self.view(&Call::of_data(call));
        Obdo {
            uid: view.to_client(IdKind::User, body.uid),
            gid: view.to_client(IdKind::Group, body.gid),
            projid: view.to_client(IdKind::Project, body.projid),
            ..body
        }
    }

    /// Returns a file with data here.
    fn with_data(&self, fid: Fid) -> Result<(Inode, OnMdt), Failure> {
        let inode = self.inode(fid)?;
        let part = inode.on_mdt().ok_or(Errno::ENOENT)?;
        Ok((inode, part))
    }

    /// Executes a request about data whose data, if it has any, are in its message.
    pub(crate) fn execute_data(&self, call: &Call<'_>) -> Result<Answer, Errno> {
        let call = &call.data();
        let opcode = call.message.body.opcode;
        let export = self.export(call.export)?;
        let changes = [Opcode::OST_WRITE, Opcode::OST_PUNCH, Opcode::OST_FALLOCATE];
        if export.is_read_only() && changes.contains(&opcode) {
            return Err(Errno::EROFS);
        }
        call.finish(match opcode {
            Opcode::OST_READ | Opcode::OST_WRITE => self.short(call),
            Opcode::OST_PUNCH => self.punch(call),
            Opcode::OST_FALLOCATE => self.fallocate(call),
            Opcode::OST_SYNC => self.sync_data(call),
            Opcode::OST_SEEK => self.seek(call),
            Opcode::OST_SET_INFO => self.shrink_grant(call),
            _ => Err(Errno::EOPNOTSUPP.into()),
        })
    }

    /// Executes PUNCH, which cuts a file.
    fn punch(&self, call: &Io<'_>) -> Result<Answer, Failure> {
        let asked = call.body()?;
        if !asked.valid.has(SIZES) || asked.blocks != EOF {
            return Err(Errno::EPROTO.into());
        }
        self.change_data(call, &asked, |change, object, part, was| {
            let size = asked.size.min(part.end);
            Ok((self.data.cut(&mut change.transaction, object, was, size)?, size))
        })
    }

    /// Executes FALLOCATE.
    fn fallocate(&self, call: &Io<'_>) -> Result<Answer, Failure> {
        let asked = call.body()?;
        let is_old = self.export(call.export)?.client.flags.has(ConnectFlags::OLD_FALLOC);
        let allocation = self.data.allocation(&asked, is_old)?;
        self.change_data(call, &asked, |change, object, part, was| {
            if allocation.is_hole() || allocation.end() <= part.end {
                Ok(self.data.allocate(&mut change.transaction, object, &allocation, was)?)
            } else {
                Err(Errno::EFBIG.into())
            }
        })
    }

    /// Changes the data of a file. `change` returns what they occupy and their size afterwards.
    fn change_data<'a>(
        &'a self,
        call: &Io<'_>,
        asked: &Obdo,
        change: impl Fn(
            &mut Change<'a>,
            ObjectId,
            OnMdt,
            ObjectSpace,
        ) -> Result<(u64, u64), records::Failure>,
    ) -> Result<Answer, Failure> {
        const SAID: Valid = Valid(Valid::FLID.0 | TIMES.0 | SIZES.0);
        let fid = file_of(asked)?;
        let object = object_of(fid);
        self.data.note_times(call, object);
        let _locked = self.lock(&[fid]);
        let committed = self.commit(&Call::of_data(call), |new| {
            let mut inode = new.existing(fid)?;
            let part = inode.on_mdt().ok_or(Errno::ENOENT)?;
            take_times(&mut inode, asked, call.now);
            let was = new.space(fid, &inode)?;
            let (charged, size) = change(new, object, part, was)?;
            inode.set_charged(charged);
            let reply = call.reply_with(&describe(asked.id, &inode, size, SAID));
            new.set(fid, inode)?;
            Ok((reply, ()))
        })?;
        let reply = match committed {
            Some((reply, ())) => reply,
            None => {
                let (inode, _) = self.with_data(fid)?;
                let body = describe(asked.id, &inode, self.store.size(object)?, SAID);
                let mut reply = call.reply_with(&body);
                reply.body.transno = call.message.body.transno;
                reply
            }
        };
        Ok(Answer { changed: Some(asked.id.resource()), ..Answer::new(reply) })
    }

    /// Answers SYNC: the reply waits until everything is durable.
    fn sync_data(&self, call: &Io<'_>) -> Result<Answer, Failure> {
        let asked = call.body()?;
        let durable = Some(self.store.applied());
        let body = match asked.id {
            OstId::Old(0) => Obdo::default(),
            _ => {
                let fid = file_of(&asked)?;
                let (inode, _) = self.with_data(fid)?;
                let size = self.store.size(object_of(fid))?;
                describe(asked.id, &inode, size, NAME | TIMES | SIZES | KIND)
            }
        };
        Ok(Answer { durable, ..Answer::new(call.reply_with(&body)) })
    }

    /// Answers SEEK.
    fn seek(&self, call: &Io<'_>) -> Result<Answer, Failure> {
        let asked = call.body()?;
        let fid = file_of(&asked)?;
        Data::check_seek(&asked)?;
        self.with_data(fid)?;
        Ok(Answer::new(call.reply_with(&self.data.seek(&asked, object_of(fid))?)))
    }

    /// Returns where a file has data here.
    pub(crate) fn map(
        &self,
        asked: &Obdo,
        range: FiemapHeader,
    ) -> Result<Fiemap, records::Failure> {
        let fid = file_of(asked)?;
        self.inode(fid)?.on_mdt().ok_or(Errno::ENOENT)?;
        Ok(self.data.map(object_of(fid), range, self.settings.index)?)
    }

    /// Executes SET_INFO: a client gives grant back.
    fn shrink_grant(&self, call: &Io<'_>) -> Result<Answer, Failure> {
        let key = call.message.require(&KEY).map_err(|_| Errno::EPROTO)?;
        if key.as_bytes() != b"grant_shrink" {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let asked = call.body()?;
        self.data.shrink(call.export, asked.grant)?;
        Ok(Answer::new(call.reply_with(&Obdo { grant: 0, ..asked })))
    }

    /// Returns the attributes that locks on the data of a file carry. Spec: mdt-ost §15.5.
    ///
    /// # Errors
    /// ENOENT if there is no such file with data here, EIO if the store does not give them.
    pub fn lvb(&self, resource: ResourceId) -> Result<OstLvb, Errno> {
        let fid = resource.fid();
        let found = self.with_data(fid).map_err(|failure| failure.errno());
        let (inode, _) = found?;
        let size = self.store.size(object_of(fid)).map_err(|error| Failure::from(error).errno())?;
        let of = &inode.attributes;
        let (blocks, nanoseconds) = (inode.charged() / 512, Some(Nanoseconds::default()));
        Ok(OstLvb { size, mtime: of.mtime, atime: of.atime, ctime: of.ctime, blocks, nanoseconds })
    }

    /// Returns whether a client waits for nothing while others drop what they have of a file that is gone.
    pub fn discards_later(&self, export: Handle) -> bool {
        self.export(export)
            .is_ok_and(|export| export.client.flags2.has(ConnectFlags2::ASYNC_DISCARD))
    }

    /// Adds the attributes of the data that a file has here to the reply to an intent whose client gets the
    /// lock on them; `reads`: and the data themselves, if the client has room. Returns false if the file
    /// has none: then its client must not get that lock. Spec: mdt-ost §13.2, §13.3.
    pub fn show_data(&self, call: &Call<'_>, done: &mut IntentReply, reads: bool) -> bool {
        let Ok(Some(body)) = done.reply.get(&MDT_BODY) else { return false };
        let Ok((_, part)) = self.with_data(body.fid) else { return false };
        let Ok(lvb) = self.lvb(ResourceId::of_fid(body.fid)) else { return false };
        let body = MdtBody {
            valid: body.valid | Valid::DOM_SIZE,
            dom_size: lvb.size,
            dom_blocks: lvb.blocks,
            mtime: lvb.mtime,
            atime: lvb.atime,
            ctime: lvb.ctime,
            ..body
        };
        done.reply = done.reply.clone().with(&MDT_BODY, &body);
        if reads && let Some(data) = self.inline_data(call, done, (body.fid, lvb.size), part) {
            done.reply = done.reply.clone().with_bytes(&INLINE_DATA, data);
        }
        true
    }

    /// Returns the data for the reply to an open: all, or the end to which the client may append.
    fn inline_data(
        &self,
        call: &Call<'_>,
        done: &IntentReply,
        (fid, size): (Fid, u64),
        part: OnMdt,
    ) -> Option<Vec<u8>> {
        let taken = done.reply.to_bytes().len() + REPLY_MARGIN;
        let room = u64::from(call.message.head.reply_room).checked_sub(taken as u64)?;
        let room = room.min(INLINE_MAX);
        // No client has larger pages.
        let offset = if size <= room { 0 } else { size / UNIT * UNIT };
        let len = size - offset;
        if len == 0 || len > room || size > room && size >= part.end {
            return None;
        }
        let range = Niobuf { offset, len: len as u32, ..Niobuf::default() };
        let mut bytes = List(vec![range]).to_bytes();
        let head = bytes.len();
        bytes.resize(head + len as usize, 0);
        let data = &mut [std::io::IoSliceMut::new(&mut bytes[head..])];
        let read = self.store.read(object_of(fid), offset, data).ok()?;
        (read as u64 == len).then_some(bytes)
    }

    /// Checks what is noted of the data of a file against its object.
    pub(crate) fn check_data(&self, fid: Fid, inode: &Inode) -> Result<(), String> {
        let size = self.store.size(object_of(fid)).map_err(|error| error.to_string())?;
        let end = inode.on_mdt().map_or(0, |part| part.end);
        let charged = inode.charged();
        if size > end || charged > block_end(end) {
            Err(format!("{fid} has {size} bytes of data in {charged} bytes, and {end} can be here"))
        } else {
            Ok(())
        }
    }
}

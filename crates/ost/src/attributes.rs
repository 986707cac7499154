//! Attributes of objects: asked, set, and changed with the data. Spec: mdt-ost §16.2, §16.3, §16.6 to §16.9.

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::format::ADVICE_LIST;
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::ost::{AdviceList, FlagWord, Obdo, ObdoFlags, OstId};
use fulmar_store::ObjectId;
use fulmar_target::data::{Data, EOF};

use crate::Ost;
use crate::ids;
use crate::ost::{Answer, Call, Change, Failure};
use crate::records::Attributes;

const TIMES: Valid = Valid(Valid::FLATIME.0 | Valid::FLMTIME.0 | Valid::FLCTIME.0);
pub(crate) const SHAPE: Valid =
    Valid(Valid::FLSIZE.0 | Valid::FLBLOCKS.0 | Valid::FLMODE.0 | Valid::FLTYPE.0);
pub(crate) const OWNER: Valid = Valid(Valid::FLUID.0 | Valid::FLGID.0 | Valid::FLPROJID.0);
const NAME: Valid = Valid(Valid::FLID.0 | Valid::FLGROUP.0);

impl Attributes {
    /// Adopts what a write says about owner and file. Spec: mdt-ost §16.3.
    ///
    /// # Errors
    /// ESTALE if the client has an old layout.
    pub(crate) fn take_file(&mut self, asked: &Obdo) -> Result<(), Errno> {
        let fields = [
            (Valid::FLUID, 0o4000, &mut self.uid, asked.uid),
            (Valid::FLGID, 0o2000, &mut self.gid, asked.gid),
            (Valid::FLPROJID, 0o1000, &mut self.projid, asked.projid),
        ];
        for (valid, unset, own, new) in fields {
            if asked.valid.has(valid) && self.mode & unset != 0 {
                self.mode &= !unset;
                *own = new;
            }
        }
        if asked.valid.has(Valid::LAYOUT_VERSION) {
            if asked.layout_version < self.layout_version {
                return Err(Errno::ESTALE);
            }
            self.layout_version = asked.layout_version;
        }
        if asked.valid.has(Valid::FLFID) {
            // The version of the parent is where clients say which stripe the object is.
            (self.parent, self.stripe_index) = (asked.parent(), asked.stripe_index);
        }
        if asked.valid.has(Valid::FLOSTLAYOUT) {
            self.layout = asked.layout;
        }
        Ok(())
    }

    /// Adopts the times that a request says.
    pub(crate) fn take_times(&mut self, asked: &Obdo) {
        for (valid, own, new) in [
            (Valid::FLATIME, &mut self.atime, asked.atime),
            (Valid::FLMTIME, &mut self.mtime, asked.mtime),
            (Valid::FLCTIME, &mut self.ctime, asked.ctime),
        ] {
            if asked.valid.has(valid) {
                *own = new;
            }
        }
    }

    /// Adopts the times of a change of the data: those of the request, or the present one.
    pub(crate) fn take_change(&mut self, asked: &Obdo, now: i64) {
        (self.mtime, self.ctime) = (now, now);
        self.take_times(asked);
    }

    /// Returns a body with these attributes.
    pub(crate) fn describe(&self, id: OstId, size: u64, valid: Valid) -> Obdo {
        let number = |bit, value| if valid.has(bit) { value } else { 0 };
        let time = |bit, value| if valid.has(bit) { value } else { 0 };
        let short = |bit, value| if valid.has(bit) { value } else { 0 };
        Obdo {
            valid,
            id,
            size: number(Valid::FLSIZE, size),
            blocks: number(Valid::FLBLOCKS, self.blocks()),
            mtime: time(Valid::FLMTIME, self.mtime),
            atime: time(Valid::FLATIME, self.atime),
            ctime: time(Valid::FLCTIME, self.ctime),
            mode: short(Valid::FLMODE, self.mode),
            uid: short(Valid::FLUID, self.uid),
            gid: short(Valid::FLGID, self.gid),
            projid: short(Valid::FLPROJID, self.projid),
            ..Obdo::default()
        }
    }
}

/// What a change of an object sees and sets.
pub(crate) struct Target<'c, 'a> {
    pub(crate) change: &'c mut Change<'a>,
    pub(crate) before: Attributes,
    pub(crate) after: Attributes,
    /// The size before.
    pub(crate) size: u64,
}

impl Ost {
    /// Answers GETATTR.
    pub(crate) fn getattr(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = self.body_in_fs(call)?;
        let object = named(&asked)?;
        // Clients write their data first, also if there is no object.
        let flags = FlagWord { flags: ObdoFlags::FLUSH, ..FlagWord::default() };
        let empty = Obdo { valid: NAME | Valid::FLFLAGS, id: asked.id, flags, ..Obdo::default() };
        let Some(found) = self.attributes(object)? else {
            return Err(Failure::Failed(Errno::ENOENT, Box::new(empty)));
        };
        let size = self.store.size(object)?;
        let valid = NAME | TIMES | SHAPE | OWNER | Valid::FLDATAVERSION | Valid::FLFLAGS;
        let body = found.describe(asked.id, size, valid);
        let body = self.body_in_client(call, body);
        let mut body = Obdo { data_version: found.version, flags, ..body };
        if found.layout_version > 0 {
            body.valid = body.valid | Valid::LAYOUT_VERSION;
            body.layout_version = found.layout_version;
        }
        Ok(Answer::new(call.reply_with(&body)))
    }

    /// Executes SETATTR.
    pub(crate) fn setattr(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = self.body_in_fs(call)?;
        let object = named(&asked)?;
        if asked.valid.has(Valid::FLSIZE) && asked.size != EOF {
            let empty = Obdo { valid: NAME, id: asked.id, ..Obdo::default() };
            return Err(Failure::Failed(Errno::EPERM, Box::new(empty)));
        }
        self.data.note_times(call, object);
        let valid = NAME | TIMES | SHAPE | OWNER;
        let mut answer = self.change_object(call, &asked, object, (NAME, valid), |target| {
            // An owner that is set replaces the one of the first write.
            let unset = [(Valid::FLUID, 0o4000), (Valid::FLGID, 0o2000), (Valid::FLPROJID, 0o1000)];
            let said = unset.iter().filter(|(valid, _)| asked.valid.has(*valid));
            target.after.mode |= said.map(|(_, bit)| bit).sum::<u32>();
            target.after.take_file(&asked)?;
            target.after.take_times(&asked);
            Ok(target.size)
        })?;
        // Glimpses only raise times, and these may be older ones.
        answer.changed = Some(asked.id.resource());
        Ok(answer)
    }

    /// Executes PUNCH, which cuts an object.
    pub(crate) fn punch(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = self.body_in_fs(call)?;
        if !asked.valid.has(Valid::FLSIZE | Valid::FLBLOCKS) {
            return Err(Errno::EPROTO.into());
        }
        let (object, size) = (named(&asked)?, asked.size);
        if asked.blocks != EOF {
            return Err(Errno::EPROTO.into());
        }
        let empty = Obdo { valid: Valid::FLID, id: asked.id, ..Obdo::default() };
        if size > self.settings.bytes_max {
            return Err(Failure::Failed(Errno::EFBIG, Box::new(empty)));
        }
        let mut answer = self.change_object(
            call,
            &asked,
            object,
            (Valid::FLID, Valid::FLID | Valid::FLBLOCKS),
            |target| {
                target.after.take_file(&asked)?;
                target.after.take_change(&asked, call.now);
                let was = target.change.space(&target.before, target.size);
                let transaction = &mut target.change.transaction;
                target.after.charged = self.data.cut(transaction, object, was, size)?;
                Ok(size)
            },
        )?;
        answer.changed = Some(asked.id.resource());
        Ok(answer)
    }

    /// Executes FALLOCATE.
    pub(crate) fn fallocate(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = self.body_in_fs(call)?;
        let object = named(&asked)?;
        let is_old = self.export(call.export)?.client.flags.has(ConnectFlags::OLD_FALLOC);
        let allocation = self.data.allocation(&asked, is_old)?;
        let valid = Valid::FLID | TIMES | SHAPE;
        let mut answer =
            self.change_object(call, &asked, object, (Valid::FLID, valid), |target| {
                target.after.take_file(&asked)?;
                target.after.take_change(&asked, call.now);
                let was = target.change.space(&target.before, target.size);
                let transaction = &mut target.change.transaction;
                let (charged, size) = self.data.allocate(transaction, object, &allocation, was)?;
                target.after.charged = charged;
                Ok(size)
            })?;
        answer.changed = Some(asked.id.resource());
        Ok(answer)
    }

    /// Answers SYNC: the reply waits until everything is durable.
    pub(crate) fn sync(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = self.body_in_fs(call)?;
        let durable = Some(self.store.applied());
        if ids::any_object(asked.id)?.1 == 0 {
            return Ok(Answer { durable, ..Answer::new(call.reply_with(&Obdo::default())) });
        }
        let object = named(&asked)?;
        let Some(found) = self.attributes(object)? else {
            return Err(Failure::Failed(Errno::ENOENT, Box::default()));
        };
        let size = self.store.size(object)?;
        let body = found.describe(asked.id, size, NAME | TIMES | SHAPE);
        Ok(Answer { durable, ..Answer::new(call.reply_with(&body)) })
    }

    /// Answers SEEK. Spec: mdt-ost §16.9.
    pub(crate) fn seek(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = call.body()?;
        let object = named(&asked)?;
        Data::check_seek(&asked)?;
        match self.attributes(object)? {
            Some(_) => Ok(Answer::new(call.reply_with(&self.data.seek(&asked, object)?))),
            None => Err(Failure::Failed(Errno::ENOENT, Box::new(asked))),
        }
    }

    /// Answers LADVISE. The store has no cache of its own that advice could change.
    pub(crate) fn advise(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = self.body_in_fs(call)?;
        let object = named(&asked)?;
        let list = call.message.require(&ADVICE_LIST).map_err(|_| Errno::EPROTO)?;
        if list.magic != AdviceList::MAGIC {
            return Err(Errno::EPROTO.into());
        }
        let body = Obdo { valid: Valid::FLID, id: asked.id, ..Obdo::default() };
        match self.attributes(object)? {
            Some(_) => Ok(Answer::new(call.reply_with(&body))),
            None => Err(Failure::Failed(Errno::ENOENT, Box::new(body))),
        }
    }

    /// Changes an object that exists. `change` returns the size afterwards. `valid`: what the body of a
    /// failure says, and that of success.
    fn change_object(
        &self,
        call: &Call<'_>,
        asked: &Obdo,
        object: ObjectId,
        (failed, valid): (Valid, Valid),
        change: impl Fn(&mut Target<'_, '_>) -> Result<u64, Failure>,
    ) -> Result<Answer, Failure> {
        let _lock = self.lock(object);
        let missing = || {
            let body = Obdo { valid: failed, id: asked.id, ..Obdo::default() };
            Failure::Failed(Errno::ENOENT, Box::new(body))
        };
        let committed = self.commit(call, |new| {
            let before = new.attributes(object)?.ok_or_else(missing)?;
            let size = self.store.size(object)?;
            let mut target = Target { change: new, before, after: before, size };
            let size = change(&mut target)?;
            let after = target.after;
            new.set(object, Some(&before), after);
            let shown = self.body_in_client(call, after.describe(asked.id, size, valid));
            Ok(call.reply_with(&shown))
        })?;
        self.answer(call, committed, || {
            let found = self.attributes(object)?.ok_or_else(missing)?;
            let shown = found.describe(asked.id, self.store.size(object)?, valid);
            Ok(self.body_in_client(call, shown))
        })
    }
}

/// Returns the object that a body names.
pub(crate) fn named(body: &Obdo) -> Result<ObjectId, Errno> {
    if body.valid.has(Valid::FLID) { ids::object(body.id) } else { Err(Errno::EPROTO) }
}

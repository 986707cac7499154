//! Reads and writes: what is the OST's own. Spec: mdt-ost §16.3, §17.1 to §17.8.

use fulmar_base::Errno;
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::ost::Obdo;
use fulmar_store::ObjectId;
use fulmar_target::data::{Data, Holder, Sources, Transfer, WriteResult};
use fulmar_target::transactions::Numbering;

use crate::ost::{Answer, Call, Change, Failure};
use crate::records::Attributes;
use crate::{Ost, attributes};

/// What the reply to a write says of its object.
const SAID: Valid = Valid(attributes::SHAPE.0 | attributes::OWNER.0 | Valid::FLCTIME.0);

impl Holder for Ost {
    fn data(&self) -> &Data {
        &self.data
    }

    fn is_recovering(&self) -> bool {
        self.transactions.recovers()
    }

    fn flags(&self, export: Handle) -> Result<ConnectFlags, Errno> {
        Ok(self.export(export)?.client.flags)
    }

    fn body(&self, call: &Call<'_>) -> Result<Obdo, Errno> {
        self.body_in_fs(call)
    }

    fn named(&self, asked: &Obdo) -> Result<ObjectId, Errno> {
        attributes::named(asked)
    }

    fn check_transfer(&self, call: &Call<'_>, transfer: &Transfer) -> Result<(), Failure> {
        let (asked, is_write) = (transfer.asked(), transfer.is_write());
        self.check_nodemap(call, is_write)?;
        let is_replay = call.message.body.transno != 0;
        match self.attributes(transfer.object())? {
            Some(found)
                if is_write
                    && asked.valid.has(Valid::LAYOUT_VERSION)
                    && asked.layout_version < found.layout_version =>
            {
                Err(failed(asked, Errno::ESTALE))
            }
            // The object may be made by the replay itself.
            None if !(is_write && is_replay) => Err(failed(asked, Errno::ENOENT)),
            _ => Ok(()),
        }
    }

    fn count(&self, call: &Call<'_>, transfer: &Transfer) {
        let mut stats = self.stats();
        stats.count_bytes(call, transfer.is_write(), transfer.len());
        stats.count_bulk(transfer.is_write(), transfer.ranges());
    }

    fn commit_write<'a>(
        &'a self,
        call: &Call<'_>,
        transfer: &Transfer,
        sources: Sources<'a>,
        checksum: Option<u32>,
    ) -> Result<Answer, Failure> {
        let (object, asked) = (transfer.object(), transfer.asked());
        let sets_times = self.data.may_set_times(call, object);
        let _lock = self.lock(object);
        let committed = self.commit(call, |change| {
            let before = self.written_object(change, object, asked)?;
            let mut after = before;
            after.take_file(asked).map_err(|errno| failed(asked, errno))?;
            if sets_times {
                after.take_change(asked, call.now);
            }
            let was = change.space(&before, self.store.size(object)?);
            let written = transfer.write(&self.data, &mut change.transaction, was, sources)?;
            let WriteResult { charged, size, results } = written;
            after.charged = charged;
            change.set(object, Some(&before), after);
            let shown = self.body_in_client(call, after.describe(asked.id, size, SAID));
            Ok(transfer.write_reply(call, &shown, checksum, Some(results)))
        });
        let changed = Some(asked.id.resource());
        let Some((reply, number)) = committed? else {
            let found = self.attributes(object)?;
            let found = found.ok_or_else(|| failed(asked, Errno::ENOENT))?;
            let shown = found.describe(asked.id, self.store.size(object)?, SAID);
            let shown = self.body_in_client(call, shown);
            let mut reply = transfer.write_reply(call, &shown, checksum, None);
            reply.body.transno = call.message.body.transno;
            return Ok(Answer { changed, ..Answer::new(reply) });
        };
        let durable = transfer.is_synchronous().then_some(number);
        Ok(Answer { durable, changed, ..Answer::new(reply) })
    }

    fn execute(&self, call: &Call<'_>) -> Result<Answer, Errno> {
        Self::execute(self, call)
    }
}

impl Ost {
    /// Returns the attributes of an object that is written. A replay makes one that was lost.
    fn written_object(
        &self,
        change: &mut Change<'_>,
        object: ObjectId,
        asked: &Obdo,
    ) -> Result<Attributes, Failure> {
        if let Some(found) = change.attributes(object)? {
            return Ok(found);
        }
        let ObjectId(seq, id) = object;
        let last = change.last(seq)?;
        if !matches!(change.numbering, Numbering::Replay(_))
            || id <= last
            || id - last > crate::create::AHEAD_MAX
        {
            return Err(failed(asked, Errno::ENOENT));
        }
        change.create(seq, last + 1, id);
        Ok(Attributes::unused())
    }
}

fn failed(asked: &Obdo, errno: Errno) -> Failure {
    Failure::Failed(errno, Box::new(Obdo { valid: Valid::NONE, grant: 0, ..*asked }))
}

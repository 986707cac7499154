//! Creation of objects in advance, and their removal. Spec: mdt-ost §16.4, §16.5, ptlrpc-ldlm-mgs §34.4.

use std::ops::Bound;

use fulmar_base::Errno;
use fulmar_lustre_wire::Status;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::ost::{Obdo, ObdoFlags, OstId};
use fulmar_store::{ObjectId, StoreError};
use fulmar_target::usage::{Charge, UsageRecord};

use crate::Ost;
use crate::ids;
use crate::ost::{Answer, Call, Change, Failure};
use crate::records::{Attributes, LAST, OBJECTS, decode, encode, object_key, object_of};

/// The most objects that an MDT has in advance. Spec: mdt-ost §16.4.
#[doc(alias = "OST_MAX_PRECREATE")]
pub(crate) const AHEAD_MAX: u64 = 20_000;
/// The numbers of a sequence.
const WIDTH: u64 = 0x1ff_ffff;
/// The most objects that one request removes.
const REMOVED_MAX: u64 = 5 * AHEAD_MAX;

impl Change<'_> {
    /// Returns the last object of a sequence that was created, 0 if none was.
    pub(crate) fn last(&mut self, seq: u64) -> Result<u64, StoreError> {
        let value = self.transaction.get(LAST, &encode(&seq))?;
        value.map_or(Ok(0), |value| decode(&value, "the last object"))
    }

    /// Creates unused objects.
    pub(crate) fn create(&mut self, seq: u64, first: u64, last: u64) {
        for id in first..=last {
            self.transaction.put(OBJECTS, &object_key(ObjectId(seq, id)), *b"");
        }
        let unused = Attributes::unused().charge();
        let used = UsageRecord { objects: last + 1 - first, ..unused.used };
        self.deltas.add(&Charge { used, ..unused });
        self.transaction.put(LAST, &encode(&seq), encode(&last));
    }
}

impl Ost {
    /// Returns the last object of a sequence that was created, 0 if none was.
    pub(crate) fn last(&self, seq: u64) -> Result<u64, StoreError> {
        let value = self.store.get(LAST, &encode(&seq))?;
        value.map_or(Ok(0), |value| decode(&value, "the last object"))
    }

    /// Executes CREATE: creates objects up to the requested one, or removes those after it.
    pub(crate) fn create(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = self.body_in_fs(call)?;
        let export = self.export(call.export)?;
        if !asked.valid.has(Valid::FLGROUP) {
            return Err(Errno::EPROTO.into());
        }
        let ObjectId(seq, id) = ids::any_object(asked.id)?;
        let body = Obdo { valid: Valid::FLSIZE, id: asked.id, size: WIDTH, ..Obdo::default() };
        let flags =
            if asked.valid.has(Valid::FLFLAGS) { asked.flags.flags } else { ObdoFlags::NONE };
        let reply = |last| {
            let valid = body.valid | Valid::FLID | Valid::FLGROUP;
            let id = OstId::Fid(ids::fid(ObjectId(seq, last), self.settings.index));
            call.reply_with(&Obdo { valid, id, ..body })
        };
        if flags.has(ObdoFlags::RECREATE_OBJS) {
            // Replayed writes create their objects.
            return if self.transactions.recovers() && id <= self.last(seq)? {
                Ok(Answer::new(reply(id)))
            } else {
                Err(Failure::Failed(Errno::EINVAL, Box::new(body)))
            };
        }
        let cleans = flags.has(ObdoFlags::DELORPHAN);
        let keeps_numbers = export.client.flags.has(ConnectFlags::SKIP_ORPHAN);
        let is_full = !cleans && self.is_nearly_full()?;
        let _lock = self.lock(ObjectId(seq, 0));
        let committed = self.commit(call, |change| {
            let last = change.last(seq)?;
            // Without a number one more is wanted.
            let id = if id == 0 && !cleans { last + 1 } else { id };
            let behind = last.saturating_sub(id);
            let end = match () {
                // The MDT is told that it is wrong.
                () if behind > 0 && (!cleans || behind > AHEAD_MAX) => last + 1,
                () if behind > 0 => {
                    let removed = self.remove_range(change, seq, id + 1..=last)?;
                    debug_assert!(removed <= behind, "the range has no more objects");
                    if keeps_numbers {
                        last
                    } else {
                        change.transaction.put(LAST, &encode(&seq), encode(&id));
                        id
                    }
                }
                () => {
                    // A new OST in the place of an old one creates only the last ones.
                    let first = if id - last > 5 * AHEAD_MAX { id - AHEAD_MAX } else { last };
                    if id > last && is_full {
                        return Err(Failure::Failed(Errno::ENOSPC, Box::new(body)));
                    }
                    if id > last {
                        change.create(seq, first + 1, id);
                    }
                    id
                }
            };
            Ok(reply(end))
        })?;
        match committed {
            // Files get these objects without another request. After a crash they must still be there.
            Some((reply, number)) => Ok(Answer { durable: Some(number), ..Answer::new(reply) }),
            None => {
                let mut reply = reply(self.last(seq)?);
                reply.body.transno = call.message.body.transno;
                Ok(Answer::new(reply))
            }
        }
    }

    /// Executes DESTROY. That there is no such object is said, but the others are removed.
    pub(crate) fn destroy(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = self.body_in_fs(call)?;
        let ObjectId(seq, id) = crate::attributes::named(&asked)?;
        let counted = asked.valid.has(Valid::FLOBJCOUNT);
        let count = if counted { u64::from(asked.misc) } else { 1 };
        let end = id.checked_add(count).filter(|_| count <= REMOVED_MAX).ok_or(Errno::EINVAL)?;
        let next = match asked.id {
            OstId::Old(_) => OstId::Old(end),
            OstId::Fid(_) => OstId::Fid(ids::fid(ObjectId(seq, end), self.settings.index)),
        };
        let body = Obdo { id: next, ..Obdo::default() };
        let missing = || Failure::Failed(Errno::ENOENT, Box::new(body));
        // Of several objects the others cost a conflict, if somebody changes them now.
        let lock = self.lock(ObjectId(seq, id));
        let committed = self.commit(call, |change| {
            let removed = self.remove_range(change, seq, id..=end.saturating_sub(1))?;
            if removed == 0 && count > 0 {
                return Err(missing());
            }
            let mut reply = call.reply_with(&body);
            if removed < count {
                reply.body.status = Status::failed(Errno::ENOENT);
            }
            Ok(reply)
        })?;
        drop(lock);
        let mut answer = self.answer(call, committed, || Ok(body))?;
        answer.changed = Some(asked.id.resource());
        Ok(answer)
    }

    /// Removes the objects of a range that exist, and returns how many there were.
    fn remove_range(
        &self,
        change: &mut Change<'_>,
        seq: u64,
        ids: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, Failure> {
        let [first, last] = [*ids.start(), *ids.end()].map(|id| object_key(ObjectId(seq, id)));
        let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        let found = if ids.is_empty() {
            vec![]
        } else {
            self.store.scan(OBJECTS, range.0, range.1, REMOVED_MAX as usize)?
        };
        let mut removed = 0;
        for (key, _) in found {
            let object = object_of(&key)?;
            // Read again, so that another change of it is noticed.
            if let Some(before) = change.attributes(object)? {
                change.remove(object, &before);
                removed += 1;
            }
        }
        Ok(removed)
    }
}

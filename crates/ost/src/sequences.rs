//! Sequences for the objects of MDTs, out of a range that the OST gets from MDT0000.
//! Spec: ptlrpc-ldlm-mgs §34.3, §34.4, §35.3.

use fulmar_base::Errno;
use fulmar_lustre_wire::Status;
use fulmar_lustre_wire::format::{SEQ_OP, SEQ_RANGE};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::seq::{SeqKind, SeqOp, SeqRange};
use fulmar_store::{StoreError, Transaction};

use crate::Ost;
use crate::ost::{Answer, Call, Failure};
use crate::records::{SEQUENCES, decode, encode};

/// The range whose first sequence is the next one.
const FREE: &[u8] = b"free";

impl Ost {
    /// Returns whether the OST has no sequences left. Its host asks MDT0000 for a range then.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn needs_sequences(&self) -> Result<bool, StoreError> {
        let free = self.store.get(SEQUENCES, FREE)?;
        let free = free.map(|free| read(&free)).transpose()?;
        Ok(free.is_none_or(|free| free.start >= free.end))
    }

    /// Accepts a range from MDT0000, if there are no others. Returns whether it did. The range is used
    /// from the next request on, and is durable with the first sequence of it.
    ///
    /// # Errors
    /// If the store has ended, is full or cannot be read.
    pub fn add_sequences(&self, range: SeqRange) -> Result<bool, StoreError> {
        loop {
            let mut transaction = self.store.begin();
            if free(&mut transaction)?.is_some() {
                return Ok(false);
            }
            transaction.put(SEQUENCES, FREE, encode(&range));
            match transaction.apply() {
                Err(StoreError::Conflict) => {}
                applied => return applied.map(|_| true),
            }
        }
    }

    /// Answers SEQ_QUERY of an MDT: the next sequence, which is never given out again.
    pub(crate) fn allocate_sequence(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let message = call.message;
        let op = message.require(&SEQ_OP).map_err(|_| Errno::EPROTO)?;
        let asked = message.require(&SEQ_RANGE).map_err(|_| Errno::EPROTO)?;
        if op != SeqOp::ALLOC_META {
            return Err(Errno::EINVAL.into());
        }
        loop {
            let mut transaction = self.store.begin();
            // The MDT asks again until the host has a range.
            let range = free(&mut transaction)?.ok_or(Errno::EINPROGRESS)?;
            let start = range.start;
            transaction.put(SEQUENCES, FREE, encode(&SeqRange { start: start + 1, ..range }));
            match transaction.apply() {
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
                Ok(number) => {
                    let given = SeqRange { start, end: start + 1, kind: SeqKind::OST, ..asked };
                    let reply = Message::reply(message.format(), Status::OK);
                    let reply = reply.with(&SEQ_RANGE, &given);
                    return Ok(Answer { durable: Some(number), ..Answer::new(reply) });
                }
            }
        }
    }
}

/// Returns the free sequences; `None` if there are none.
fn free(transaction: &mut Transaction<'_>) -> Result<Option<SeqRange>, StoreError> {
    let free = transaction.get(SEQUENCES, FREE)?.map(|free| read(&free)).transpose()?;
    Ok(free.filter(|free| free.start < free.end))
}

fn read(value: &[u8]) -> Result<SeqRange, StoreError> {
    decode(value, "the free sequences")
}

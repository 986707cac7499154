//! The sequences of the objects: a range from MDT0000, out of which each MDT gets its own.
//! Spec: ptlrpc-ldlm-mgs §34.3, §35.3.
//!
//! ```text
//! MDT0000 ── ALLOC_SUPER: 2^30 sequences ──► OST ── ALLOC_META: one sequence ──► each MDT
//! ```

use fulmar_base::Errno;
use fulmar_lustre_wire::Status;
use fulmar_lustre_wire::format::{SEQ_OP, SEQ_RANGE};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::seq::{SeqKind, SeqOp, SeqRange};
use fulmar_store::StoreError;

use crate::Ost;
use crate::ost::errno_of;
use crate::records::{SEQUENCES, decode, encode};

/// The key of the range.
const RANGE: &[u8] = b"range";
/// The key of the first sequence that is not given away.
const NEXT: &[u8] = b"next";

impl Ost {
    /// Returns what MDT0000 is to be asked for, unless the OST has sequences.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn wanted_sequences(&self) -> Result<Option<SeqRange>, StoreError> {
        let index = self.settings.index.into();
        let wanted = SeqRange { index, kind: SeqKind::OST, ..SeqRange::default() };
        Ok(self.sequences()?.is_none_or(|(range, next)| next >= range.end).then_some(wanted))
    }

    /// Takes the range that MDT0000 has given, and returns the transaction of the store.
    ///
    /// # Errors
    /// If the store has ended, or is full.
    pub fn take_sequences(&self, range: SeqRange) -> Result<u64, StoreError> {
        let mut transaction = self.store.begin();
        transaction.put(SEQUENCES, RANGE, encode(&range));
        transaction.put(SEQUENCES, NEXT, encode(&range.start));
        transaction.apply()
    }

    /// Executes SEQ_QUERY: gives an MDT one sequence. Returns the reply, and the transaction that must be
    /// durable before it is sent.
    ///
    /// # Errors
    /// EINPROGRESS if there are no sequences yet, EPROTO or EINVAL for a wrong request, EIO.
    pub fn give_sequence(&self, request: &Message<'_>) -> Result<(Message<'static>, u64), Errno> {
        let (op, asked) = (request.require(&SEQ_OP), request.require(&SEQ_RANGE));
        let (Ok(op), Ok(asked)) = (op, asked) else { return Err(Errno::EPROTO) };
        if op != SeqOp::ALLOC_META || asked.kind != SeqKind::OST {
            return Err(Errno::EINVAL);
        }
        loop {
            match self.give_next() {
                Ok(Some((start, number))) => {
                    let given = SeqRange { start, end: start + 1, ..asked };
                    let reply = Message::reply(request.format(), Status::OK);
                    return Ok((reply.with(&SEQ_RANGE, &given), number));
                }
                Ok(None) => return Err(Errno::EINPROGRESS),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(errno_of(&error)),
            }
        }
    }

    fn give_next(&self) -> Result<Option<(u64, u64)>, StoreError> {
        let mut transaction = self.store.begin();
        let range = transaction.get(SEQUENCES, RANGE)?;
        let next = transaction.get(SEQUENCES, NEXT)?;
        let (Some(range), Some(next)) = (range, next) else { return Ok(None) };
        let range: SeqRange = decode(&range, "the sequences")?;
        let next: u64 = decode(&next, "the next sequence")?;
        if next >= range.end {
            return Ok(None);
        }
        transaction.put(SEQUENCES, NEXT, encode(&(next + 1)));
        Ok(Some((next, transaction.apply()?)))
    }

    fn sequences(&self) -> Result<Option<(SeqRange, u64)>, StoreError> {
        let range = self.store.get(SEQUENCES, RANGE)?;
        let next = self.store.get(SEQUENCES, NEXT)?;
        let (Some(range), Some(next)) = (range, next) else { return Ok(None) };
        Ok(Some((decode(&range, "the sequences")?, decode(&next, "the next sequence")?)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fulmar_lustre_wire::format::SEQ_QUERY;
    use fulmar_store::{Policy, Store};

    use super::*;
    use crate::Settings;

    fn query(op: SeqOp, kind: SeqKind) -> Message<'static> {
        let range = SeqRange { kind, ..SeqRange::default() };
        Message::request(&SEQ_QUERY).with(&SEQ_OP, &op).with(&SEQ_RANGE, &range)
    }

    #[test]
    fn each_mdt_gets_a_sequence_of_its_own_also_after_a_restart() {
        let store = Arc::new(Store::memory(b"", Policy::default()));
        let settings = Settings { index: 2, ..Settings::default() };
        let ost = Ost::start(store.clone(), settings).unwrap();
        let asked = query(SeqOp::ALLOC_META, SeqKind::OST);
        assert_eq!(ost.give_sequence(&asked).unwrap_err(), Errno::EINPROGRESS);
        let wanted = ost.wanted_sequences().unwrap().unwrap();
        assert_eq!(wanted, SeqRange { start: 0, end: 0, index: 2, kind: SeqKind::OST });
        let given = SeqRange { start: 0x2_c000_0400, end: 0x2_c000_0402, ..wanted };
        ost.take_sequences(given).unwrap();
        assert_eq!(ost.wanted_sequences().unwrap(), None);
        let start = |ost: &Ost| {
            let reply = ost.give_sequence(&asked).unwrap().0;
            let range = reply.require(&SEQ_RANGE).unwrap();
            assert_eq!((range.end, range.index, range.kind), (range.start + 1, 0, SeqKind::OST));
            range.start
        };
        assert_eq!(start(&ost), 0x2_c000_0400);
        let ost = Ost::start(store, settings).unwrap();
        assert_eq!(start(&ost), 0x2_c000_0401);
        assert_eq!(ost.give_sequence(&asked).unwrap_err(), Errno::EINPROGRESS);
        assert!(ost.wanted_sequences().unwrap().is_some(), "they are used up");
        for (op, kind) in [(SeqOp::ALLOC_SUPER, SeqKind::OST), (SeqOp::ALLOC_META, SeqKind::MDT)] {
            assert_eq!(ost.give_sequence(&query(op, kind)).unwrap_err(), Errno::EINVAL);
        }
    }
}

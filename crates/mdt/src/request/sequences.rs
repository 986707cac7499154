//! Sequences of FIDs, and which target has them. Spec: ptlrpc-ldlm-mgs §35.

use std::ops::Bound;

use fulmar_base::Errno;
use fulmar_lustre_wire::fld::{FldOp, SeqRanges};
use fulmar_lustre_wire::format::{FLD_OP, SEQ_OP, SEQ_RANGE, SEQ_RANGES};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::seq::{Seq, SeqKind, SeqOp, SeqRange};
use fulmar_lustre_wire::{Bytes, Status};
use fulmar_store::StoreError;

use super::Answer;
use crate::Mdt;
use crate::mdt::Call;
use crate::records::{Failure, LOCATIONS, STATE, decode, encode};

/// The first free sequence.
const NEXT: &[u8] = b"sequences";
/// How many sequences a server gets at once.
const SUPER: u64 = 1 << 30;
/// The first sequences are those of this target's clients.
const FIRST_SUPER: u64 = Seq::NORMAL.0 + (1 << 30) - 0x400;

/// The most ranges of servers.
const SERVERS_MAX: usize = 1 << 17;

impl Mdt {
    /// Executes SEQ_QUERY: one sequence for a client, or many for a server.
    pub(crate) fn allocate_sequences(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let op = call.message.require(&SEQ_OP).map_err(|_| Errno::EPROTO)?;
        let asked: SeqRange = call.message.require(&SEQ_RANGE).map_err(|_| Errno::EPROTO)?;
        let (given, number) = match op {
            SeqOp::ALLOC_META => self.take_one()?,
            SeqOp::ALLOC_SUPER => self.take_super(&asked)?,
            _ => return Err(Errno::EINVAL.into()),
        };
        let reply = Message::reply(call.message.format(), Status::OK).with(&SEQ_RANGE, &given);
        Ok(Answer { durable: Some(number), ..Answer::new(reply) })
    }

    /// Allocates a sequence of this target for a client.
    fn take_one(&self) -> Result<(SeqRange, u64), StoreError> {
        let index = u32::from(self.settings.index);
        loop {
            let mut transaction = self.store.begin();
            let next = transaction.get(STATE, NEXT)?;
            let start = next.map_or(Ok(Seq::NORMAL.0), |next| decode(&next, "the sequences"))?;
            transaction.put(STATE, NEXT, encode(&(start + 1)));
            match transaction.apply() {
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error),
                Ok(number) => {
                    let kind = SeqKind::MDT;
                    return Ok((SeqRange { start, end: start + 1, index, kind }, number));
                }
            }
        }
    }

    /// Allocates a range for a server, and notes its owner. A server that has one already that no client
    /// uses gets another one.
    fn take_super(&self, asked: &SeqRange) -> Result<(SeqRange, u64), StoreError> {
        loop {
            let mut transaction = self.store.begin();
            let last = transaction.get(STATE, b"super")?;
            let start: u64 =
                last.map_or(Ok(FIRST_SUPER), |last| decode(&last, "the ranges of servers"))?;
            let given = SeqRange { start, end: start + SUPER, ..*asked };
            transaction.put(STATE, b"super", encode(&given.end));
            transaction.put(LOCATIONS, &encode(&start), encode(&given));
            match transaction.apply() {
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error),
                Ok(number) => return Ok((given, number)),
            }
        }
    }

    /// Executes FLD_QUERY: which target has a sequence.
    pub(crate) fn locate(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let op = call.message.require(&FLD_OP).map_err(|_| Errno::EPROTO)?;
        let asked: SeqRange = call.message.require(&SEQ_RANGE).map_err(|_| Errno::EPROTO)?;
        if op != FldOp::LOOKUP {
            return Err(Errno::EINVAL.into());
        }
        let found = match asked.start {
            0..FIRST_SUPER => SeqRange {
                start: Seq::NORMAL.0,
                end: FIRST_SUPER,
                index: u32::from(self.settings.index),
                kind: SeqKind::MDT,
            },
            seq => self.range_of(seq)?.ok_or(Errno::ENOENT)?,
        };
        let reply = Message::reply(call.message.format(), Status::OK).with(&SEQ_RANGE, &found);
        Ok(Answer::new(reply))
    }

    /// Executes FLD_READ: the ranges of a server that starts, as many as fit. EAGAIN with ranges: there are
    /// more, after the last of them.
    pub(crate) fn read_locations(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        /// The bytes of the reply, and the ranges that they have room for.
        const ROOM: usize = 4096;
        const RANGES_MAX: usize = (ROOM - 8) / 24;
        let asked: SeqRange = call.message.require(&SEQ_RANGE).map_err(|_| Errno::EPROTO)?;
        let first = encode(&asked.end);
        let all =
            self.store.scan(LOCATIONS, Bound::Included(&first), Bound::Unbounded, SERVERS_MAX)?;
        let (mut ranges, mut status) = (vec![], Status::OK);
        for (_, value) in all {
            let range: SeqRange = decode(&value, "the range of a server")?;
            let is_own = range.index == asked.index && range.kind == asked.kind;
            if !is_own || range.start <= asked.start {
                continue;
            }
            if ranges.len() == RANGES_MAX {
                status = Status::failed(Errno::EAGAIN);
                break;
            }
            ranges.push(range);
        }
        let rest = Bytes(vec![0; ROOM - 8 - 24 * ranges.len()]);
        let found = SeqRanges { ranges, rest, ..SeqRanges::default() };
        let reply = Message::reply(call.message.format(), status).with(&SEQ_RANGES, &found);
        Ok(Answer::new(reply))
    }

    fn range_of(&self, seq: u64) -> Result<Option<SeqRange>, StoreError> {
        let first = encode(&seq.saturating_sub(SUPER - 1));
        let last = encode(&seq);
        let (from, to) = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        for (_, value) in self.store.scan(LOCATIONS, from, to, 2)? {
            let range: SeqRange = decode(&value, "the range of a server")?;
            if range.contains(seq) {
                return Ok(Some(range));
            }
        }
        Ok(None)
    }
}

//! Sequences of FIDs: each is given once, also over restarts, and everybody finds who has it.

use std::collections::BTreeSet;

use fulmar_base::Errno;
use fulmar_lustre_wire::fld::FldOp;
use fulmar_lustre_wire::format::{
    FLD_OP, FLD_QUERY, FLD_READ, SEQ_OP, SEQ_QUERY, SEQ_RANGE, SEQ_RANGES,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::seq::{Seq, SeqKind, SeqOp, SeqRange};

use crate::rig::Rig;

impl Rig {
    fn allocate(&mut self, op: SeqOp, asked: SeqRange) -> Result<SeqRange, Errno> {
        let request = Message::request(&SEQ_QUERY).with(&SEQ_OP, &op).with(&SEQ_RANGE, &asked);
        Ok(self.ask(1, &request)?.message.require(&SEQ_RANGE).unwrap())
    }

    fn locate(&mut self, seq: u64) -> Result<SeqRange, Errno> {
        let asked = SeqRange { start: seq, kind: SeqKind::ANY, ..SeqRange::default() };
        let request = Message::request(&FLD_QUERY).with(&FLD_OP, &FldOp::LOOKUP);
        let reply = self.ask(1, &request.with(&SEQ_RANGE, &asked))?;
        Ok(reply.message.require(&SEQ_RANGE).unwrap())
    }
}

fn of_ost(index: u32) -> SeqRange {
    SeqRange { index, kind: SeqKind::OST, ..SeqRange::default() }
}

#[test]
fn clients_never_get_the_same_sequence() {
    let mut rig = Rig::new();
    let mut given = BTreeSet::new();
    for round in 0..30 {
        let range = rig.allocate(SeqOp::ALLOC_META, SeqRange::default()).unwrap();
        assert_eq!((range.end - range.start, range.kind), (1, SeqKind::MDT));
        assert!(range.start >= Seq::NORMAL.0 && given.insert(range.start), "{range:?}");
        assert_eq!(rig.locate(range.start).unwrap().index, 0);
        if round % 10 == 9 {
            let store = rig.store.clone();
            rig.restart(store);
        }
    }
    assert_eq!(rig.allocate(SeqOp(9), SeqRange::default()), Err(Errno::EINVAL));
}

#[test]
fn servers_get_ranges_and_are_found_by_them() {
    let mut rig = Rig::new();
    let ranges: Vec<SeqRange> =
        (0..3).map(|index| rig.allocate(SeqOp::ALLOC_SUPER, of_ost(index)).unwrap()).collect();
    assert!(ranges.is_sorted_by(|a, b| a.end <= b.start && a.start < a.end));
    let own = rig.allocate(SeqOp::ALLOC_META, SeqRange::default()).unwrap();
    assert!(own.start < ranges[0].start);
    let store = rig.store.clone();
    rig.restart(store);
    for (index, range) in ranges.iter().enumerate() {
        assert_eq!((range.index, range.kind), (index as u32, SeqKind::OST));
        for seq in [range.start, range.end - 1] {
            assert_eq!(rig.locate(seq).unwrap(), *range);
        }
    }
    assert_eq!(rig.locate(ranges[2].end), Err(Errno::ENOENT));
    assert_eq!(rig.locate(u64::MAX), Err(Errno::ENOENT));
}

#[test]
fn a_server_that_starts_reads_its_ranges() {
    let mut rig = Rig::new();
    // More than fit into one reply.
    let own: Vec<SeqRange> =
        (0..200).map(|_| rig.allocate(SeqOp::ALLOC_SUPER, of_ost(1)).unwrap()).collect();
    rig.allocate(SeqOp::ALLOC_SUPER, of_ost(2)).unwrap();
    let mut found: Vec<SeqRange> = vec![];
    loop {
        let asked = found.last().copied().unwrap_or(of_ost(1));
        let reply = rig.send(1, &Message::request(&FLD_READ).with(&SEQ_RANGE, &asked)).unwrap();
        found.extend(reply.message.require(&SEQ_RANGES).unwrap().ranges);
        match reply.result {
            Ok(()) => break,
            Err(errno) => assert_eq!(errno, Errno::EAGAIN, "there are more"),
        }
    }
    assert_eq!(found, own);
}

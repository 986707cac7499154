//! Random operations, crashes at any change of the disk, and replays, also of what was replayed. What is
//! durable must still be there, each request must be applied once, files that clients have open must
//! stay, and in the end the tree and the objects must equal a model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fulmar_base::{Errno, Rng};
use fulmar_lustre_wire::changelog::{ChangeKind, Changelog};
use fulmar_lustre_wire::format::{EA_DATA, NEW_LAYOUT};
use fulmar_lustre_wire::mdt::{AttrValid, Create, OpenFlags, SetAttr, SplitOpenFlags, XattrFlags};
use fulmar_lustre_wire::message::{Message, MessageFlags};
use fulmar_lustre_wire::{Fid, Handle};
use fulmar_mdt::{Settings, mode};
use fulmar_store::{Faults, Policy, SimulatedDisk, Store};

use crate::data;
use crate::requests::{self, ROOT};
use crate::rig::{NOW, Reply, Rig, call, object_of};
use crate::tree::{Op, Tree};

const SEEDS: u64 = 500;
const STARTS: u64 = 3;
const XATTR: &str = "user.a";

/// What all seeds together have done: a test that did nothing would always pass.
#[derive(Debug, Default)]
struct Totals {
    requests: u64,
    refused: u64,
    replays: u64,
    reopened: u64,
    repeated: u64,
    resent: u64,
    lost: u64,
    crashed_recoveries: u64,
    saved: u64,
    evicted: u64,
    orphans: u64,
    destroyed: u64,
    /// Files with data on the MDT that were compared.
    data: u64,
    records: u64,
    cleared: u64,
}

/// A request as its client keeps it until it is durable; an open until its close is.
#[derive(Clone, Debug)]
struct StoredRequest {
    client: u64,
    xid: u64,
    transno: u64,
    op: Op,
}

/// A file that a client has open, and what it learnt.
#[derive(Clone, Debug)]
struct OpenFile {
    client: u64,
    fid: Fid,
    handle: Handle,
    layout: Vec<u8>,
    /// The transaction of its close.
    closed: Option<u64>,
}

struct Run<'a> {
    rng: Rng,
    disk: SimulatedDisk,
    rig: Rig,
    tree: Tree,
    open: BTreeMap<u64, OpenFile>,
    kept: Vec<StoredRequest>,
    /// The transactions that were answered.
    answered: Vec<StoredRequest>,
    unanswered: Option<(u64, u64, Op)>,
    /// The last durable transaction that clients were told.
    told: u64,
    /// New files have their data on the MDT.
    keeps_data: bool,
    /// What the changelog has said of each operation.
    records: Vec<(ChangeKind, Fid, Vec<u8>)>,
    /// The records that a user has cleared, perhaps for good.
    cleared: BTreeSet<u64>,
    totals: &'a mut Totals,
}

/// Returns what a record says, but for its number.
fn said(record: Changelog) -> (ChangeKind, Fid, Vec<u8>) {
    (record.kind, record.target, record.name)
}

fn policy() -> Policy {
    Policy { reserve: 0, cache: 1 << 20, ..Policy::default() }
}

impl<'a> Run<'a> {
    fn new(seed: u64, totals: &'a mut Totals) -> Self {
        let disk = SimulatedDisk::new(seed);
        let store = Store::create(&disk, b"MDT", policy()).unwrap();
        let settings = Settings { reserved: 0, ..Settings::default() };
        let mut rig = Rig::on(Arc::new(store), settings);
        rig.connect(1);
        rig.connect(2);
        let keeps_data = seed % 2 == 1;
        if keeps_data {
            rig.connect(3);
            data::keep_on_mdt(&mut rig, 3);
            rig.mdt.forget(Handle(3), NOW).unwrap();
        }
        rig.mdt.register_changelog_user(None, None, NOW).unwrap();
        rig.store.commit().unwrap();
        let (rng, tree, open) = (Rng::new(seed), Tree::new(), BTreeMap::new());
        let (kept, answered, unanswered) = (vec![], vec![], None);
        let (told, records, cleared) = (0, vec![], BTreeSet::from([0]));
        Self {
            rng,
            disk,
            rig,
            tree,
            open,
            kept,
            answered,
            unanswered,
            told,
            keeps_data,
            records,
            cleared,
            totals,
        }
    }

    fn go(&mut self) {
        for _ in 0..STARTS {
            self.work();
            self.restart();
            self.recover();
            self.compare();
            if self.rng.one_in(4) {
                self.evict();
                self.compare();
            }
        }
    }

    /// Sends requests until the machine crashes, or there were enough.
    fn work(&mut self) {
        if !self.rng.one_in(4) {
            let crash_at = Some(self.disk.counts().changes + self.rng.between(1, 40));
            self.disk.set_faults(Faults { crash_at, ..Faults::default() });
        }
        let mut has_failed = false;
        for _ in 0..self.rng.between(5, 60) {
            let client = self.rng.between(1, 2);
            let is_own = |open: &OpenFile| open.client == client && open.closed.is_none();
            let own = self.open.iter().filter(|(_, open)| is_own(open));
            let own: Vec<u64> = own.map(|(number, _)| *number).collect();
            let (new, xid) = (self.rig.next_fid(), self.rig.next_xid());
            let op = self.tree.random(&mut self.rng, (new, xid), &own);
            if !self.ask(client, xid, op) {
                return;
            }
            if self.rng.one_in(20) {
                self.clear();
            }
            has_failed |= self.rng.one_in(6) && self.rig.store.commit().is_err();
            // After a failure of the disk the next change is not answered.
            if !has_failed {
                self.settle();
            }
        }
    }

    /// Sends a new request. Returns false if the store has ended.
    fn ask(&mut self, client: u64, xid: u64, op: Op) -> bool {
        let request = self.request(&op);
        let Some(reply) = self.send(client, xid, &request) else {
            self.unanswered = Some((client, xid, op));
            return false;
        };
        self.totals.requests += 1;
        let transno = reply.transno();
        let done = self.apply(client, &op, &reply);
        assert_eq!(reply.result, done.map(drop), "{op:?}");
        // A name that does not exist is found without a transaction.
        assert_eq!(transno > 0, done.unwrap_or_default(), "{op:?}");
        if transno == 0 {
            self.totals.refused += 1;
            return true;
        }
        assert!(transno > self.answered.last().map_or(0, |last| last.transno));
        let new = self.rig.changes(self.records.len() as u64);
        self.records.extend(new.into_iter().map(said));
        let kept = StoredRequest { client, xid, transno, op };
        self.kept.push(kept.clone());
        self.answered.push(kept);
        true
    }

    /// The user of the changelog has read some records.
    fn clear(&mut self) {
        let (before, last) = (self.cleared.last().copied().unwrap_or(0), self.records.len() as u64);
        if before >= last {
            return;
        }
        let record = self.rng.between(before + 1, last);
        let request = requests::changelog_clear(1, record);
        let xid = self.rig.next_xid();
        // If the store ends, the records may be gone nevertheless.
        if self.send(1, xid, &request).is_none_or(|reply| reply.result.is_ok()) {
            self.cleared.insert(record);
            self.totals.cleared += 1;
        }
    }

    /// Each operation has its records once, in their order, but for those that were cleared.
    fn compare_records(&mut self) {
        let found = self.rig.changes(0);
        let first = found.first().map_or(self.records.len() as u64, |record| record.index - 1);
        let numbers = found.iter().map(|record| record.index);
        assert!(numbers.eq(first + 1..=self.records.len() as u64));
        assert!(self.cleared.contains(&first), "{first} of {:?}", self.cleared);
        let found: Vec<_> = found.into_iter().map(said).collect();
        assert_eq!(found, self.records[first as usize..]);
        self.totals.records += found.len() as u64;
    }

    /// Does the same with the model, and notes what the client learns. Returns whether there was
    /// something to do.
    fn apply(&mut self, client: u64, op: &Op, reply: &Reply) -> Result<bool, Errno> {
        match *op {
            Op::Open(place, child, flags, number) => {
                let Some(fid) = self.tree.open(place, child, flags)? else { return Ok(false) };
                let (body, layout) = (reply.body(), reply.layout().to_vec());
                assert_eq!(body.fid, fid);
                let node = self.tree.nodes.get_mut(&fid).unwrap();
                let has_data = node.mode & mode::FORMAT == mode::REGULAR;
                let object = object_of(&layout);
                let has_layout = node.object.is_some() || node.data.is_some();
                if !has_layout && flags.has(OpenFlags::WRITE) && has_data {
                    assert_eq!(object.is_none(), self.keeps_data, "{op:?}");
                    node.object = object;
                    node.data = self.keeps_data.then(Vec::new);
                }
                assert_eq!(object, node.object, "{op:?}");
                let (handle, closed) = (body.open_handle, None);
                self.open.insert(number, OpenFile { client, fid, handle, layout, closed });
            }
            Op::Close(number) => {
                let open = self.open.get_mut(&number).unwrap();
                open.closed = Some(reply.transno());
                self.tree.close(open.fid);
            }
            _ => self.tree.apply(op)?,
        }
        Ok(true)
    }

    /// Returns the request, as it is sent first.
    fn request(&self, op: &Op) -> Message<'static> {
        let nothing = SetAttr::default();
        match op {
            &Op::Make(place, fid, mode) => requests::create(&ROOT, place, fid, mode),
            &Op::Link(fid, place) => requests::link(&ROOT, fid, place),
            &Op::Unlink(place) => requests::unlink(&ROOT, place),
            &Op::Rmdir(place) => requests::rmdir(&ROOT, place),
            &Op::Rename(from, to) => requests::rename(&ROOT, from, to),
            &Op::Chmod(fid, bits) => requests::chmod(&ROOT, fid, bits),
            &Op::Chown(fid, uid) => {
                let change = SetAttr { valid: AttrValid::UID, uid, ..nothing };
                requests::setattr(&ROOT, fid, change)
            }
            Op::Xattr(fid, value) => {
                let value = value.as_ref().map(std::slice::from_ref);
                requests::setxattr(&ROOT, *fid, XATTR, value, XattrFlags::NONE)
            }
            &Op::Open(place, child, flags, _) => requests::open(&ROOT, place, child, flags),
            &Op::Write(fid, offset, len, value) => {
                data::write(data::about(fid), offset, &vec![value; len as usize])
            }
            &Op::Cut(fid, size) => data::cut(fid, size),
            Op::Close(number) => {
                let open = &self.open[number];
                requests::close(open.fid, open.handle, nothing)
            }
        }
    }

    /// Returns the request as it is repeated after a restart: with what the client learnt.
    fn replayed(&self, kept: &StoredRequest) -> Message<'static> {
        let mut message = match kept.op {
            Op::Open(place, _, flags, number) => {
                let OpenFile { fid, handle, ref layout, .. } = self.open[&number];
                let record = Create {
                    child: fid,
                    old_handle: handle,
                    time: NOW,
                    mode: mode::REGULAR | 0o644,
                    flags: SplitOpenFlags(flags),
                    ..Create::default()
                };
                requests::open_as(&ROOT, place, record).with_bytes(&NEW_LAYOUT, layout.clone())
            }
            _ => self.request(&kept.op),
        };
        message.body.transno = kept.transno;
        message.body.flags = message.body.flags | MessageFlags::REPLAY;
        message
    }

    /// Returns the reply; `None` if the store has ended.
    fn send(&mut self, client: u64, xid: u64, message: &Message<'_>) -> Option<Reply> {
        let call = call(client, xid, message);
        match self.rig.execute(&call) {
            Err(Errno::EIO) | Ok(Reply { result: Err(Errno::EIO), .. }) => None,
            reply => Some(reply.unwrap()),
        }
    }

    /// Forgets what is durable.
    fn settle(&mut self) {
        let told = self.rig.mdt.last_committed();
        assert!(told >= self.told, "{told:#x} after {:#x}", self.told);
        self.told = told;
        self.forget_durable();
        self.rig.mdt.check().unwrap();
    }

    fn forget_durable(&mut self) {
        let (told, open) = (self.told, &self.open);
        let is_open = |number: &u64| open[number].closed.is_none_or(|closed| closed > told);
        self.kept.retain(|kept| {
            kept.transno > told || matches!(&kept.op, Op::Open(.., number) if is_open(number))
        });
    }

    fn restart(&mut self) {
        if self.rng.one_in(4) {
            self.disk.end_process();
        } else {
            self.disk.crash();
        }
        self.disk.set_faults(Faults::default());
        let store = Arc::new(Store::open(&self.disk, policy()).unwrap());
        self.rig.restart(store);
        let last = self.rig.mdt.last_committed();
        assert!(last >= self.told, "{last:#x} is on disk, clients were told {:#x}", self.told);
        self.told = last;
        self.totals.lost += self.kept.iter().filter(|kept| kept.transno > last).count() as u64;
        self.forget_durable();
        self.check_known(last);
        self.rig.mdt.check().unwrap();
    }

    /// The saved reply of each client is that of its last transaction on disk.
    fn check_known(&mut self, last: u64) {
        let known = self.rig.mdt.known_clients();
        let names: Vec<String> = known.iter().map(|one| one.client.to_string()).collect();
        assert_eq!(names, ["client1", "client2"]);
        for (client, known) in [(1, &known[0]), (2, &known[1])] {
            let is_durable = |one: &&StoredRequest| one.client == client && one.transno <= last;
            let own = self.answered.iter().rev().find(is_durable);
            let saved = known.replies.iter().map(|saved| (saved.xid, saved.reply.body.transno));
            let expected = own.map(|one| (one.xid, one.transno));
            assert_eq!(saved.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
            self.totals.saved += u64::from(own.is_some());
        }
    }

    /// Replays what was lost, in order. The machine may crash again meanwhile.
    fn recover(&mut self) {
        let mut crashes = self.rng.below(3);
        while crashes > 0 {
            crashes -= 1;
            let count = self.rng.below(self.kept.len() as u64 + 1) as usize;
            self.replay(count);
            if self.rng.one_in(2) {
                self.rig.store.commit().unwrap();
            }
            self.restart();
            self.totals.crashed_recoveries += 1;
        }
        self.replay(self.kept.len());
        self.rig.mdt.recovered(NOW).unwrap();
        if let Some((client, xid, op)) = self.unanswered.take() {
            self.totals.resent += 1;
            assert!(self.ask(client, xid, op));
        }
        self.rig.store.commit().unwrap();
        self.settle();
        let is_open = |kept: &StoredRequest| matches!(kept.op, Op::Open(..));
        assert!(self.kept.iter().all(is_open), "{:?}", self.kept);
    }

    fn replay(&mut self, count: usize) {
        let mut left: Vec<StoredRequest> = self.kept.iter().take(count).cloned().collect();
        while !left.is_empty() {
            let kept = left.remove(self.next_of(&left));
            self.replay_one(&kept);
            // The second time changes nothing. A handle would be another one.
            if !matches!(kept.op, Op::Open(..) | Op::Close(_)) && self.rng.one_in(3) {
                let applied = self.rig.store.applied();
                self.replay_one(&kept);
                assert_eq!(self.rig.store.applied(), applied);
                self.totals.repeated += 1;
            }
            self.totals.replays += 1;
        }
    }

    /// Returns which replay comes next. What was lost has its turn; an open that was on disk comes at any time before what its
    /// client has lost.
    fn next_of(&mut self, left: &[StoredRequest]) -> usize {
        let is_durable = |kept: &StoredRequest| kept.transno <= self.told;
        let open = left.iter().position(is_durable);
        let turn = left.iter().position(|kept| !is_durable(kept)).filter(|&lost| {
            !left.iter().any(|kept| is_durable(kept) && kept.client == left[lost].client)
        });
        match (turn, open) {
            (Some(turn), Some(open)) => {
                if self.rng.one_in(2) {
                    turn
                } else {
                    open
                }
            }
            (turn, open) => turn.or(open).expect("something is left"),
        }
    }

    fn replay_one(&mut self, kept: &StoredRequest) {
        let request = self.replayed(kept);
        let reply = self.send(kept.client, kept.xid, &request).unwrap();
        assert_eq!((reply.result, reply.transno()), (Ok(()), kept.transno), "{kept:?}");
        if let Op::Open(.., number) = kept.op {
            let open = self.open.get_mut(&number).unwrap();
            assert_eq!(reply.body().fid, open.fid);
            assert_ne!(reply.body().open_handle, open.handle);
            assert!(open.layout.is_empty() || reply.layout() == open.layout, "{kept:?}");
            open.handle = reply.body().open_handle;
            self.totals.reopened += 1;
        }
    }

    /// A client is gone with all files that it has open, and another one comes.
    fn evict(&mut self) {
        self.rig.mdt.forget(Handle(2), NOW).unwrap();
        self.rig.connect(2);
        self.rig.store.commit().unwrap();
        for open in self.open.values_mut().filter(|open| open.client == 2) {
            if open.closed.is_none() {
                self.tree.close(open.fid);
            }
        }
        self.open.retain(|_, open| open.client != 2);
        self.kept.retain(|kept| kept.client != 2);
        self.answered.retain(|kept| kept.client != 2);
        self.totals.evicted += 1;
        self.settle();
    }

    fn compare(&mut self) {
        self.rig.mdt.check().unwrap();
        self.compare_records();
        let mut live = BTreeSet::new();
        for (fid, node) in self.tree.nodes.clone() {
            let body = self.rig.getattr(fid).unwrap_or_else(|_| panic!("{fid} is lost: {node:?}"));
            let expected = (node.mode, node.uid, node.nlink);
            assert_eq!((body.mode, body.uid, body.nlink), expected, "{fid}");
            let value = self.rig.ask(1, &requests::getxattr(fid, XATTR, 100)).ok();
            let value = value.map(|reply| reply.message.bytes(&EA_DATA).unwrap()[0]);
            assert_eq!(value, node.xattr, "{fid}");
            if node.mode & mode::FORMAT == mode::DIRECTORY {
                let names: Vec<&str> = node.entries.keys().copied().collect();
                assert_eq!(self.rig.names(fid), names, "{fid}");
                for (name, child) in node.entries {
                    assert_eq!(self.rig.find((fid, name)), Some(child), "{name} of {fid}");
                }
            }
            assert_eq!(self.rig.object(fid), node.object, "{fid}");
            if let Some(expected) = &node.data {
                assert!(data::contents(&mut self.rig, fid) == *expected, "the data of {fid}");
                self.totals.data += u64::from(!expected.is_empty());
            }
            live.extend(node.object);
            self.totals.orphans += u64::from(node.nlink == 0);
        }
        for (object, fate) in self.rig.fates() {
            let is_live = live.remove(&object);
            let expected = (1, u8::from(!is_live));
            assert_eq!((fate.used, fate.destroyed), expected, "object {object}");
            self.totals.destroyed += u64::from(!is_live);
        }
        assert!(live.is_empty(), "no file uses them: {live:?}");
    }
}

#[test]
fn nothing_durable_is_lost_and_replays_are_applied_once() {
    let mut totals = Totals::default();
    for seed in 0..SEEDS {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            Run::new(seed, &mut totals).go();
        }));
        assert!(result.is_ok(), "seed {seed}");
    }
    let Totals { requests, refused, replays, reopened, repeated, lost, .. } = totals;
    let many = [requests, refused, replays, reopened, repeated, lost, totals.crashed_recoveries];
    assert!(many.iter().all(|count| *count >= SEEDS), "{totals:?}");
    assert!(totals.records >= 10 * SEEDS && totals.cleared >= SEEDS / 2, "{totals:?}");
    let some = [totals.resent, totals.saved, totals.evicted, totals.orphans, totals.destroyed];
    assert!(totals.data >= SEEDS, "{totals:?}");
    assert!(some.iter().all(|count| *count >= SEEDS / 10), "{totals:?}");
}

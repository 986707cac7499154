//! Random operations, crashes at any change of the disk, and replays, also of what was replayed. What is
//! durable must still be there, each request must be applied once, and in the end the objects
//! must equal a model.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fulmar_base::{Errno, Rng};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{
    Format, OST_BODY, OST_CREATE, OST_DESTROY, OST_FALLOCATE, OST_GETATTR, OST_PUNCH, OST_READ,
    OST_SETATTR, OST_WRITE, SHORT_IO,
};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::{Message, MessageFlags};
use fulmar_lustre_wire::ost::{FlagWord, NiobufFlags, Obdo, ObdoFlags};
use fulmar_lustre_wire::{Bytes, Handle, Opcode, Status, Uuid};
use fulmar_ost::{Answer, Call, Settings};
use fulmar_store::{Faults, Policy, SimulatedDisk, Store};

use crate::rig::{NOW, Rig, about, asked, asked_by_mdt, id, range, transfer};

const SEEDS: u64 = 16;
const STARTS: u64 = 4;
/// The objects that are used.
const OBJECTS: u64 = 12;
/// The largest object.
const SIZE_MAX: u64 = 40_000;
/// Space counts in blocks of so many bytes.
const BLOCK: usize = 4096;

/// What all seeds together have done: a test that did nothing would always pass.
#[derive(Debug, Default)]
struct Totals {
    requests: u64,
    replays: u64,
    repeated: u64,
    resent: u64,
    lost: u64,
    crashed_recoveries: u64,
    saved: u64,
}

/// An object as it must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Object {
    data: Vec<u8>,
    uid: Option<u32>,
}

type Model = BTreeMap<u64, Object>;

/// What a client asks for.
#[derive(Clone)]
enum Op {
    Create(u64),
    Destroy(u64),
    Write { object: u64, offset: u64, data: Vec<u8>, uid: u32, is_short: bool },
    Cut(u64, u64),
    Hole(u64, u64, u64),
    Own(u64, u32),
}

/// A request as its client keeps it until it is durable.
#[derive(Clone, Debug)]
struct StoredRequest {
    client: u64,
    xid: u64,
    transno: u64,
    op: Op,
}

struct Run<'a> {
    rng: Rng,
    disk: SimulatedDisk,
    rig: Rig,
    model: Model,
    last: u64,
    kept: Vec<StoredRequest>,
    /// The last transaction of each client that was answered, by client, with its XID.
    answered: Vec<StoredRequest>,
    unanswered: Option<(u64, u64, Op)>,
    /// Whether requests are those that got no answer.
    is_resent: bool,
    /// The last durable transaction that clients were told.
    told: u64,
    totals: &'a mut Totals,
}

fn policy() -> Policy {
    Policy { reserve: 0, cache: 1 << 20, ..Policy::default() }
}

fn settings() -> Settings {
    Settings { reserved: 0, ..Settings::default() }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(last) => write!(f, "create up to {last}"),
            Self::Destroy(object) => write!(f, "destroy {object}"),
            Self::Cut(object, size) => write!(f, "cut {object} to {size}"),
            Self::Hole(object, start, end) => write!(f, "hole in {object}: {start} to {end}"),
            Self::Own(object, uid) => write!(f, "give {object} to {uid}"),
            Self::Write { object, offset, data, is_short, .. } => {
                write!(f, "write {} at {offset} of {object}, short: {is_short}", data.len())
            }
        }
    }
}

impl Op {
    fn random(rng: &mut Rng, last: u64) -> Self {
        let object = rng.between(1, OBJECTS);
        match rng.below(12) {
            0 => Self::Create(last + rng.below(4)),
            1 => Self::Destroy(object),
            2 => Self::Cut(object, rng.below(SIZE_MAX)),
            3 => Self::Cut(object, 0),
            4 => {
                let start = rng.below(SIZE_MAX);
                Self::Hole(object, start, start + rng.between(1, 10_000))
            }
            5 => Self::Own(object, rng.below(5) as u32),
            _ => {
                let offset = rng.below(SIZE_MAX / 2);
                let len = rng.between(1, SIZE_MAX / 2) as usize;
                let first = rng.below(256) as u8;
                let data = (0..len).map(|at| first.wrapping_add((at / 7) as u8)).collect();
                let (uid, is_short) = (rng.below(5) as u32, rng.one_in(2));
                Self::Write { object, offset, data, uid, is_short }
            }
        }
    }

    /// Returns the client that asks for it: the MDT, or a client.
    fn client(&self) -> u64 {
        if matches!(self, Self::Create(_) | Self::Destroy(_)) { 1 } else { 2 }
    }

    fn request(&self) -> Message<'static> {
        let with = |format: &'static Format, body| Message::request(format).with(&OST_BODY, &body);
        let body = |object: u64| about(object as u32);
        match self {
            Self::Create(last) => {
                let id = id(*last as u32);
                with(&OST_CREATE, Obdo { valid: Valid::FLGROUP, id, ..Obdo::default() })
            }
            Self::Destroy(object) => with(&OST_DESTROY, body(*object)),
            Self::Cut(object, size) => {
                let valid = body(0).valid | Valid::FLSIZE | Valid::FLBLOCKS;
                with(&OST_PUNCH, Obdo { valid, size: *size, blocks: u64::MAX, ..body(*object) })
            }
            Self::Hole(object, start, end) => {
                let valid = body(0).valid | Valid::FLSIZE | Valid::FLBLOCKS;
                let hole = Obdo { valid, size: *start, blocks: *end, nlink: 3, ..body(*object) };
                with(&OST_FALLOCATE, hole)
            }
            Self::Own(object, uid) => {
                let valid = body(0).valid | Valid::FLUID;
                with(&OST_SETATTR, Obdo { valid, uid: *uid, ..body(*object) })
            }
            Self::Write { object, offset, data, uid, is_short } => {
                let kind = if *is_short { ObdoFlags::SHORT_IO } else { ObdoFlags::NONE };
                let valid = body(0).valid | Valid::FLUID | Valid::FLFLAGS;
                let flags = FlagWord { flags: kind, ..FlagWord::default() };
                let asked = Obdo { valid, uid: *uid, flags, ..body(*object) };
                let ranges = [range(*offset, data.len() as u32, NiobufFlags::ASYNC)];
                let request = transfer(&OST_WRITE, &asked, &ranges);
                if *is_short { request.with(&SHORT_IO, &Bytes(data.clone())) } else { request }
            }
        }
    }

    /// Applies it to the model. Returns whether it was possible.
    fn apply(&self, model: &mut Model, last: &mut u64) -> bool {
        match self {
            Self::Create(to) => {
                (*last + 1..=*to).for_each(|object| drop(model.insert(object, Object::default())));
                *last = (*to).max(*last);
                true
            }
            Self::Destroy(object) => model.remove(object).is_some(),
            Self::Cut(object, size) => {
                model.get_mut(object).map(|found| found.data.resize(*size as usize, 0)).is_some()
            }
            Self::Hole(object, start, end) => model
                .get_mut(object)
                .map(|found| {
                    let end = (*end as usize).min(found.data.len());
                    let start = (*start as usize).min(end);
                    found.data[start..end].fill(0);
                })
                .is_some(),
            Self::Own(object, uid) => {
                model.get_mut(object).map(|found| found.uid = Some(*uid)).is_some()
            }
            Self::Write { object, offset, data, uid, .. } => model
                .get_mut(object)
                .map(|found| {
                    let (start, end) = (*offset as usize, *offset as usize + data.len());
                    found.data.resize(found.data.len().max(end), 0);
                    found.data[start..end].copy_from_slice(data);
                    found.uid.get_or_insert(*uid);
                })
                .is_some(),
        }
    }
}

impl<'a> Run<'a> {
    fn new(seed: u64, totals: &'a mut Totals) -> Self {
        let disk = SimulatedDisk::new(seed);
        let store = Store::create(&disk, b"OST", policy()).unwrap();
        let mut rig = Rig::on(Arc::new(store), settings());
        rig.connect(1, "mdt", asked_by_mdt()).unwrap();
        rig.connect(2, "client", asked()).unwrap();
        rig.store.commit().unwrap();
        let (model, kept, answered) = (Model::new(), vec![], vec![]);
        let (rng, unanswered) = (Rng::new(seed), None);
        let (last, told, is_resent) = (0, 0, false);
        Self { rng, disk, rig, model, last, kept, answered, unanswered, is_resent, told, totals }
    }

    fn go(&mut self) {
        for _ in 0..STARTS {
            self.work();
            self.restart();
            self.recover();
            self.compare();
        }
    }

    /// Sends requests until the machine crashes, or there were enough.
    fn work(&mut self) {
        if !self.rng.one_in(4) {
            let crash_at = Some(self.disk.counts().changes + self.rng.between(1, 60));
            self.disk.set_faults(Faults { crash_at, ..Faults::default() });
        }
        for _ in 0..self.rng.between(5, 50) {
            let op = Op::random(&mut self.rng, self.last);
            let xid = self.rig.next_xid();
            if !self.ask(op.client(), xid, op) {
                return;
            }
            if self.rng.one_in(5) && self.rig.store.commit().is_err() {
                return;
            }
            self.settle();
        }
    }

    /// Sends a new request. Returns false if the store has ended.
    fn ask(&mut self, client: u64, xid: u64, op: Op) -> bool {
        let Some(answer) = self.send(client, xid, &op, 0) else {
            self.unanswered = Some((client, xid, op));
            return false;
        };
        let was_possible = op.apply(&mut self.model, &mut self.last);
        let status = answer.reply.body.status;
        assert_eq!(status == Status::OK, was_possible, "{op:?}: {status}");
        let transno = answer.reply.body.transno;
        if was_possible {
            assert!(transno > self.answered.last().map_or(0, |last| last.transno));
            self.kept.push(StoredRequest { client, xid, transno, op });
            self.answered.extend(self.kept.last().cloned());
        }
        self.totals.requests += 1;
        true
    }

    /// Returns the answer; `None` if the store has ended.
    fn send(&mut self, client: u64, xid: u64, op: &Op, transno: u64) -> Option<Answer> {
        let mut message = op.request();
        message.body.transno = transno;
        if transno != 0 {
            message.body.flags = message.body.flags | MessageFlags::REPLAY;
        }
        if self.is_resent {
            message.body.flags = message.body.flags | MessageFlags::RESENT;
        }
        let call =
            Call { export: Handle(client), nid: Nid::LOOPBACK, xid, now: NOW, message: &message };
        let is_bulk = matches!(op, Op::Write { is_short: false, .. });
        let result = match op {
            Op::Write { data, .. } if is_bulk => self.rig.write_call(&call, data),
            _ => self.rig.ost.execute(&call),
        };
        match result {
            Ok(answer) => Some(answer),
            // The disk, or all of the machine, does not answer any more.
            Err(Errno::EIO) => None,
            Err(errno) if is_bulk => {
                let reply = Message::error(&OST_WRITE, Status::failed(errno));
                Some(Answer::new(reply))
            }
            Err(errno) => panic!("{op:?}: {errno}"),
        }
    }

    /// Forgets what is durable.
    fn settle(&mut self) {
        let told = self.rig.ost.last_committed();
        assert!(told >= self.told, "{told:#x} after {:#x}", self.told);
        self.told = told;
        self.kept.retain(|kept| kept.transno > told);
        self.rig.ost.check().unwrap();
    }

    fn restart(&mut self) {
        if self.rng.one_in(4) {
            self.disk.end_process();
        } else {
            self.disk.crash();
        }
        self.disk.set_faults(Faults::default());
        let store = Arc::new(Store::open(&self.disk, policy()).unwrap());
        self.rig.restart(store, settings());
        let last = self.rig.ost.last_committed();
        assert!(last >= self.told, "{last:#x} is on disk, clients were told {:#x}", self.told);
        self.told = last;
        self.totals.lost += self.kept.iter().filter(|kept| kept.transno > last).count() as u64;
        self.kept.retain(|kept| kept.transno > last);
        self.check_known(last);
        for (export, name) in [(1, "mdt"), (2, "client")] {
            self.rig.ost.restore(Handle(export), Uuid::new(name).unwrap()).unwrap();
            let asked = if export == 1 { asked_by_mdt() } else { asked() };
            self.rig.connect(export, name, asked).unwrap();
        }
    }

    /// The saved reply of each client is that of its last transaction on disk.
    fn check_known(&mut self, last: u64) {
        let known = self.rig.ost.known_clients();
        let names: Vec<String> = known.iter().map(|one| one.client.to_string()).collect();
        assert_eq!(names, ["client", "mdt"]);
        for (client, known) in [(2, &known[0]), (1, &known[1])] {
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
        self.rig.ost.recovered().unwrap();
        if let Some((client, xid, op)) = self.unanswered.take() {
            self.totals.resent += 1;
            self.is_resent = true;
            assert!(self.ask(client, xid, op));
            self.is_resent = false;
        }
        self.rig.store.commit().unwrap();
        self.settle();
        assert!(self.kept.is_empty(), "{:?}", self.kept);
    }

    fn replay(&mut self, count: usize) {
        let kept: Vec<StoredRequest> = self.kept.iter().take(count).cloned().collect();
        for kept in kept {
            let times = self.rng.between(1, 2);
            let mut applied = 0;
            for time in 0..times {
                let answer = self.send(kept.client, kept.xid, &kept.op, kept.transno).unwrap();
                let body = answer.reply.body;
                assert_eq!((body.status, body.transno), (Status::OK, kept.transno), "{kept:?}");
                // The second time changes nothing.
                assert!(time == 0 || self.rig.store.applied() == applied);
                applied = self.rig.store.applied();
            }
            self.totals.replays += 1;
            self.totals.repeated += times - 1;
        }
    }

    fn compare(&mut self) {
        self.rig.ost.check().unwrap();
        for object in 1..=OBJECTS {
            let (status, body) = self.rig.ask(2, &OST_GETATTR, &about(object as u32));
            let Some(expected) = self.model.get(&object).cloned() else {
                assert_ne!(status, Status::OK, "object {object} should be gone");
                continue;
            };
            assert_eq!(status, Status::OK, "object {object} is lost");
            let found = (body.size, body.uid);
            let uid = expected.uid.unwrap_or(0);
            assert_eq!(found, (expected.data.len() as u64, uid), "object {object}");
            assert!(self.read(object, expected.data.len()) == expected.data, "object {object}");
            let blocks =
                expected.data.chunks(BLOCK).filter(|block| block.iter().any(|byte| *byte != 0));
            let most = expected.data.len().div_ceil(BLOCK);
            let range = (blocks.count() * BLOCK / 512) as u64..=(most * BLOCK / 512) as u64;
            assert!(
                range.contains(&body.blocks),
                "object {object}: {} not in {range:?}",
                body.blocks
            );
        }
    }

    fn read(&mut self, object: u64, len: usize) -> Vec<u8> {
        let ranges = [range(0, len.max(1) as u32, NiobufFlags::READ)];
        let request = transfer(&OST_READ, &about(object as u32), &ranges);
        assert_eq!(request.body.opcode, Opcode::OST_READ);
        let xid = self.rig.next_xid();
        let call = Call { export: Handle(2), nid: Nid::LOOPBACK, xid, now: NOW, message: &request };
        let (_, mut data) = self.rig.read_call(&call).unwrap();
        data.truncate(len);
        data
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
    let Totals { requests, replays, repeated, resent, lost, crashed_recoveries, saved } = totals;
    let many = [requests, replays, repeated, lost, crashed_recoveries, saved];
    assert!(many.iter().all(|count| *count >= SEEDS) && resent > 0, "{totals:?}");
}

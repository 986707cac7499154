//! Targets whose storage fails while they are served.

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{
    ENQUEUE_EXTENT, IO_OBJECTS, LOCK_REPLY, LOCK_REQUEST, OST_BODY, OST_CREATE, OST_DESTROY,
    OST_READ, OST_WRITE, RESULTS, SHORT_IO,
};
use fulmar_lustre_wire::ldlm::{
    Extent, LockDesc, LockMode, LockReply, LockRequest, LockType, ResourceDesc,
};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{FlagWord, IoObject, MaxBrw, Obdo, OstId};
use fulmar_lustre_wire::{Bytes, Fid, Handle, List, Status, portal};
use fulmar_rpc::export::TargetId;
use fulmar_store::{Faults, Policy, SimulatedDisk, Store};

use crate::ost::object;
use crate::recorded::clients::connect_mdt;
use crate::recorded::machine::{Machine, SEQUENCES};

/// A file system whose targets have a simulated disk each, and its MDT as the only client of its OSTs.
struct Rig {
    machine: Machine,
    disks: Vec<SimulatedDisk>,
    exports: Vec<Handle>,
    xid: u64,
}

/// The place of the first OST.
const OST: usize = 2;
/// What an OST keeps free of data.
const RESERVED: u64 = 512 << 20;
const LEN: usize = 16 << 10;

fn mdt() -> Nid {
    "10.0.0.1@tcp".parse().unwrap()
}

impl Rig {
    fn new() -> Self {
        Self::over((0..4).map(SimulatedDisk::new).collect())
    }

    /// Starts the file system on disks, which are new or have a store.
    fn over(disks: Vec<SimulatedDisk>) -> Self {
        let policy = || Policy { reserve: 1 << 20, ..Policy::default() };
        let machine = Machine::over(Time::from_secs(1_000_000), mdt(), (2, 2), |place| {
            let disk = &disks[place.0 as usize];
            Store::open(disk, policy()).or_else(|_| Store::create(disk, b"", policy())).unwrap()
        });
        let mut this = Self { machine, disks, exports: vec![], xid: 0x1000 };
        for ost in 0..2 {
            let reply = this.ask(Handle::NONE, connect_mdt(ost)).expect("it is answered");
            assert_eq!(reply.body.status.errno(), None);
            this.exports.push(reply.body.handle);
        }
        this
    }

    /// Starts the first OST again, which was removed, and connects to it.
    fn start_again(&mut self) -> TargetId {
        let disk = self.disks[OST].clone();
        disk.crash();
        let policy = Policy { reserve: 1 << 20, ..Policy::default() };
        let target = self.machine.start_ost(0, Store::open(&disk, policy).unwrap());
        let connected = self.ask(Handle::NONE, connect_mdt(0)).expect("it is answered");
        assert_eq!(connected.body.status.errno(), None);
        self.exports[0] = connected.body.handle;
        target
    }

    /// Ends all targets, and starts them again. The disk of the first OST goes on, the others are new.
    fn restart(self, faults: Faults) -> Self {
        let Self { machine, disks, .. } = self;
        drop(machine);
        let disk = disks[OST].clone();
        disk.crash();
        disk.set_faults(faults);
        let new = |place: u64| SimulatedDisk::new(10 + place);
        Self::over(vec![new(0), new(1), disk, new(3)])
    }

    /// Sends the first OST a read of an object whose data do not move, and returns whether it waits.
    fn begin_read(&mut self, number: u32) -> bool {
        let mut message = object(&OST_READ, id(0, number), &[], LEN as u32);
        let body: Obdo = message.require(&OST_BODY).unwrap();
        // One part.
        let object = IoObject { id: body.id, max_brw: MaxBrw(0), ranges: 1 };
        let body = Obdo { flags: FlagWord::default(), ..body };
        message = message.with(&OST_BODY, &body).with(&IO_OBJECTS, &List(vec![object]));
        let reply = self.ask(self.exports[0], message);
        reply.is_none() && !self.machine.moves.is_empty()
    }

    fn set_faults(&self, faults: Faults) {
        self.disks[OST].set_faults(faults);
    }

    fn ask(&mut self, export: Handle, mut message: Message<'static>) -> Option<Message<'static>> {
        self.xid += 128;
        let body = &mut message.body;
        (body.handle, body.timeout, body.match_bits) = (export, 5, self.xid);
        body.connection_count = body.connection_count.max(1);
        self.machine.request(mdt(), portal::OST_REQUEST, self.xid, message.to_bytes());
        let sent = std::mem::take(&mut self.machine.sent);
        let reply = sent.iter().find(|sent| sent.put.match_bits == self.xid)?;
        let reply = Message::decode(&reply.bytes).unwrap().answering(message.format());
        Some(reply.into_owned())
    }

    /// Sends a request to an OST, and returns the error; `Ok(None)` if there is no answer.
    fn of_ost(
        &mut self,
        ost: usize,
        message: Message<'static>,
    ) -> Result<Option<Message<'static>>, Errno> {
        let Some(reply) = self.ask(self.exports[ost], message) else { return Ok(None) };
        // Of a write each range has a result.
        let results = reply.get(&RESULTS).ok().flatten().map(|List(results)| results);
        let failed = results.unwrap_or_default().into_iter().find_map(Status::errno);
        match reply.body.status.errno().or(failed) {
            Some(errno) => Err(errno),
            None => Ok(Some(reply)),
        }
    }

    fn create(&mut self, ost: usize, last: u32) -> Result<bool, Errno> {
        let body = Obdo { valid: Valid::FLGROUP, id: id(ost, last), ..Obdo::default() };
        let message = Message::request(&OST_CREATE).with(&OST_BODY, &body);
        Ok(self.of_ost(ost, message)?.is_some())
    }

    fn write(&mut self, ost: usize, number: u32) -> Result<bool, Errno> {
        let data = [number as u8; LEN];
        let message = object(&OST_WRITE, id(ost, number), &data, LEN as u32);
        Ok(self.of_ost(ost, message)?.is_some())
    }

    fn destroy(&mut self, ost: usize, number: u32) -> Result<bool, Errno> {
        let valid = Valid::FLID | Valid::FLGROUP | Valid::FLOBJCOUNT;
        let body = Obdo { valid, id: id(ost, number), misc: 1, ..Obdo::default() };
        let message = Message::request(&OST_DESTROY).with(&OST_BODY, &body);
        Ok(self.of_ost(ost, message)?.is_some())
    }

    /// Returns whether an object has what was written to it.
    fn has(&mut self, ost: usize, number: u32) -> bool {
        let message = object(&OST_READ, id(ost, number), &[], LEN as u32);
        let reply = self.of_ost(ost, message).unwrap().expect("it is answered");
        let Bytes(found) = reply.require(&SHORT_IO).unwrap();
        found == [number as u8; LEN]
    }
}

fn id(ost: usize, number: u32) -> OstId {
    OstId::Fid(Fid { seq: SEQUENCES[ost], oid: number, version: 0 })
}

#[test]
fn a_target_whose_disk_becomes_read_only_ends_alone_and_loses_nothing() {
    let mut rig = Rig::new();
    for ost in 0..2 {
        assert_eq!(rig.create(ost, 100), Ok(true));
        assert_eq!(rig.write(ost, 1), Ok(true));
    }
    rig.set_faults(Faults { read_only: true, ..Faults::default() });
    assert_eq!(rig.write(0, 2), Err(Errno::EROFS), "data are refused");
    assert!(rig.has(0, 1), "and read");
    // What only changes keys fails with its commit, which ends the target: the client keeps it.
    assert_eq!(rig.create(0, 200), Ok(false));
    assert_eq!(rig.create(0, 300), Err(Errno::ENODEV));
    assert_eq!(rig.write(0, 2), Err(Errno::ENODEV));
    let connected = rig.ask(Handle::NONE, connect_mdt(0)).unwrap();
    assert_eq!(connected.body.status.errno(), Some(Errno::ENODEV));
    assert_eq!(rig.write(1, 2), Ok(true), "the other OST is served");
    assert!(rig.has(1, 2));

    let mut rig = rig.restart(Faults::default());
    assert!(rig.has(0, 1));
    assert_eq!(rig.write(0, 2), Ok(true));
}

#[test]
fn a_target_is_removed_with_what_is_under_way_and_started_again() {
    let mut rig = Rig::new();
    for ost in 0..2 {
        assert_eq!(rig.create(ost, 100), Ok(true));
        assert_eq!(rig.write(ost, 1), Ok(true));
    }
    let first = TargetId(OST as u32);
    assert!(rig.machine.is_drained(first));
    assert!(rig.begin_read(1) && !rig.machine.is_drained(first));
    rig.machine.remove(first);
    assert_eq!(rig.machine.taken(), 0);
    // LNet gives the memory back: the client is told to look for the target elsewhere.
    let part = rig.machine.moves.pop().unwrap();
    rig.machine.finish(&part, None);
    let told = rig.machine.sent.pop().and_then(|sent| {
        let reply = Message::decode(&sent.bytes).unwrap();
        reply.body.status.errno()
    });
    assert_eq!(told, Some(Errno::ENODEV));
    assert_eq!(rig.write(0, 2), Err(Errno::ENOTCONN), "its export is gone");
    let connected = rig.ask(Handle::NONE, connect_mdt(0)).unwrap();
    assert_eq!(connected.body.status.errno(), Some(Errno::ENODEV));
    assert_eq!(rig.write(1, 2), Ok(true), "the other OST is served");

    assert_eq!(rig.start_again(), TargetId(4), "numbers are not used twice");
    assert!(rig.has(0, 1));
    assert_eq!(rig.write(0, 2), Ok(true));
}

#[test]
fn a_target_that_stops_does_not_wait_for_locks() {
    let mut rig = Rig::new();
    assert_eq!(rig.create(0, 100), Ok(true));
    let extent = Extent { start: 0, end: Extent::EOF, gid: 0 };
    let (id, kind) = (id(0, 1).resource(), LockType::EXTENT);
    let resource = ResourceDesc { kind, id, ..ResourceDesc::default() };
    let (requested, policy) = (LockMode::PW, extent.into());
    let lock = LockDesc { resource, requested, policy, ..LockDesc::default() };
    let (count, handles) = (1, vec![Handle(7), Handle(0)]);
    let request = LockRequest { count, lock, handles, ..LockRequest::default() };
    let message = Message::request(&ENQUEUE_EXTENT).with(&LOCK_REQUEST, &request);
    let granted: LockReply = rig.of_ost(0, message).unwrap().unwrap().require(&LOCK_REPLY).unwrap();
    assert_eq!(granted.lock.granted, LockMode::PW);
    // The client does not give it up.
    assert_eq!(rig.destroy(0, 1), Ok(false));
    let first = TargetId(OST as u32);
    assert!(rig.machine.is_drained(first));
    rig.machine.remove(first);
    let told = rig.machine.sent.iter().filter(|sent| {
        let reply = Message::decode(&sent.bytes).unwrap();
        reply.body.status.errno() == Some(Errno::ENODEV)
    });
    assert_eq!(told.count(), 1, "the client sends it again when the target is back");
}

#[test]
fn a_target_whose_disk_failed_is_started_again_when_it_is_repaired() {
    let mut rig = Rig::new();
    assert_eq!(rig.create(0, 100), Ok(true));
    assert_eq!(rig.write(0, 1), Ok(true));
    rig.set_faults(Faults { read_only: true, ..Faults::default() });
    assert_eq!(rig.create(0, 200), Ok(false));
    rig.machine.remove(TargetId(OST as u32));
    rig.set_faults(Faults::default());
    rig.start_again();
    assert!(rig.has(0, 1));
    assert_eq!(rig.create(0, 200), Ok(true));
    assert_eq!(rig.write(0, 150), Ok(true));
}

#[test]
fn a_target_with_a_full_disk_refuses_what_needs_room_and_goes_on_when_there_is_some() {
    let mut rig = Rig::new();
    assert_eq!(rig.create(0, 1000), Ok(true));
    assert_eq!(rig.write(0, 1), Ok(true));
    let limit = |rig: &Rig, more: u64| {
        let capacity = Some(rig.disks[OST].used() + more);
        rig.set_faults(Faults { capacity, ..Faults::default() });
    };
    limit(&rig, RESERVED + (2 << 20));
    let full = (2..1000).find(|number| match rig.write(0, *number) {
        Ok(answered) => !answered,
        Err(errno) => {
            assert_eq!(errno, Errno::ENOSPC);
            true
        }
    });
    let full = full.expect("the disk is full");
    assert!((1..full).all(|number| rig.has(0, number)));
    // Metadata fill what is left, and the store's reserve is for removals.
    limit(&rig, 1 << 20);
    let refused = (2..100_u32).find_map(|step| rig.create(0, 1000 * step).err());
    assert_eq!(refused, Some(Errno::ENOSPC));
    assert_eq!(rig.destroy(0, 2), Ok(true));

    let capacity = Some(rig.disks[OST].used());
    let mut rig = rig.restart(Faults { capacity, ..Faults::default() });
    assert!(rig.has(0, 1) && rig.has(0, full - 1));
    assert_eq!(rig.write(0, full), Err(Errno::ENOSPC));
    assert_eq!(rig.destroy(0, 3), Ok(true));
    rig.set_faults(Faults::default());
    assert_eq!(rig.write(0, full), Ok(true), "others have made room");
    assert!(rig.has(0, full));
}

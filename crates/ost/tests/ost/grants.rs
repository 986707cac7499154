//! Grants: the accounts add up after each step, and what a client has cached by its grant fits.

use std::collections::BTreeMap;
use std::sync::Arc;

use fulmar_base::{Errno, Rng};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::format::{
    KEY, OST_BODY, OST_DISCONNECT, OST_FALLOCATE, OST_GRANT_SHRINK, OST_STATFS, OST_WRITE, RESULTS,
    STATFS,
};
use fulmar_lustre_wire::mdt::{StatfsState, Valid};
use fulmar_lustre_wire::message::{Message, MessageFlags};
use fulmar_lustre_wire::ost::{FlagWord, Niobuf, NiobufFlags, Obdo, ObdoFlags};
use fulmar_lustre_wire::{Handle, Key, Status, Uuid};
use fulmar_ost::{Call, Holder, Ost, Settings, Transfer};
use fulmar_store::{Faults, Policy, SimulatedDisk, Source, Store};

use fulmar_target::parameters::Moment;

use crate::rig::{Memory, NOW, Rig, about, asked, asked_by_mdt, range, transfer};

const MIB: u64 = 1 << 20;
/// What a client pays for an extent.
const TAX: u64 = 24 << 10;
/// What a client gets at once.
const CHUNK: u64 = 2 * (4 * MIB + TAX);
const CACHED: NiobufFlags = NiobufFlags(NiobufFlags::ASYNC.0 | NiobufFlags::FROM_GRANT.0);

/// Returns an OST on a disk of this size, of which 2 MiB are for the store itself.
fn on_disk(capacity: u64) -> Rig {
    let disk = SimulatedDisk::new(1);
    let policy = Policy { reserve: 1 << 16, cache: 1 << 20, ..Policy::default() };
    let store = Store::create(&disk, b"OST", policy).unwrap();
    disk.set_faults(Faults { capacity: Some(capacity), ..Faults::default() });
    let settings = Settings { reserved: 2 * MIB, ..Settings::default() };
    let mut rig = Rig::on(Arc::new(store), settings);
    rig.connect(1, "mdt", asked_by_mdt()).unwrap();
    rig.create(16);
    rig
}

/// What a write says about grants.
#[derive(Clone, Copy, Debug, Default)]
struct Says {
    has: u64,
    dirty: u64,
    wanted: u32,
    dropped: u32,
    used: u64,
    flags: ObdoFlags,
}

fn body(oid: u32, says: Says) -> Obdo {
    let valid = about(oid).valid | Valid::FLBLOCKS | Valid::FLGRANT | Valid::FLFLAGS;
    Obdo {
        valid,
        grant: says.has,
        blocks: says.dirty,
        mode: says.wanted,
        misc: says.dropped,
        data_version: says.used,
        flags: FlagWord { flags: says.flags, ..FlagWord::default() },
        ..about(oid)
    }
}

/// Writes, and returns the results of the ranges and the grant that came back.
fn write(
    rig: &mut Rig,
    export: u64,
    body: &Obdo,
    ranges: &[Niobuf],
) -> Result<(Vec<Status>, u64), Errno> {
    let message = transfer(&OST_WRITE, body, ranges);
    let xid = rig.next_xid();
    let len = ranges.iter().map(|range| range.len as usize).sum();
    let call =
        Call { export: Handle(export), nid: Nid::LOOPBACK, xid, now: NOW, message: &message };
    let answer = rig.write_call(&call, &vec![7; len])?;
    rig.ost.check().unwrap();
    let reply = answer.reply.require(&OST_BODY).unwrap();
    let grant = if reply.valid.has(Valid::FLGRANT) { reply.grant } else { 0 };
    Ok((answer.reply.require(&RESULTS).unwrap().0, grant))
}

#[test]
fn a_connection_and_each_write_bring_grant_until_there_is_enough() {
    let mut rig = Rig::with_objects(1);
    let granted = rig.ost.granted().granted;
    assert_eq!(granted, CHUNK);
    let wanted = 4 * CHUNK as u32;
    let (mut has, mut more) = (CHUNK, vec![]);
    for _ in 0..5 {
        let used = 4096 + TAX;
        let says = Says { has: has - used, dirty: used, wanted, used, ..Says::default() };
        let (_, grant) = write(&mut rig, 2, &body(1, says), &[range(0, 4096, CACHED)]).unwrap();
        has = has - used + grant;
        more.push(grant);
        assert_eq!(rig.ost.granted().granted, has);
    }
    assert_eq!(more[..3], [CHUNK; 3]);
    // Then only what it has used.
    assert!(more[3..].iter().all(|grant| *grant <= 5 * (4096 + TAX)), "{more:?}");
    assert_eq!(has, u64::from(wanted));
    // Dropped grant is free again, and so is that of a client that leaves.
    let says = Says { has: has - CHUNK, wanted: 0, dropped: CHUNK as u32, ..Says::default() };
    write(&mut rig, 2, &body(1, says), &[range(0, 4096, NiobufFlags::SYNC)]).unwrap();
    assert_eq!(rig.ost.granted().granted, has - CHUNK);
    rig.send(2, &Message::request(&OST_DISCONNECT)).unwrap();
    assert_eq!(rig.ost.granted().granted, 0);
    assert!(rig.send(2, &Message::request(&OST_DISCONNECT)).is_err());
}

#[test]
fn what_a_client_repeats_is_not_paid_twice() {
    let mut rig = Rig::with_objects(1);
    let says = Says { has: CHUNK, used: 4096, flags: ObdoFlags::RECOV_RESEND, ..Says::default() };
    write(&mut rig, 2, &body(1, says), &[range(0, 4096, CACHED)]).unwrap();
    assert_eq!(rig.ost.granted().granted, CHUNK);
    // What a resent request says about grants is old.
    let says = Says { has: 0, dropped: 4096, used: 4096, wanted: u32::MAX >> 1, ..Says::default() };
    let mut message = transfer(&OST_WRITE, &body(1, says), &[range(0, 4096, CACHED)]);
    message.body.flags = message.body.flags | MessageFlags::RESENT;
    let xid = rig.next_xid();
    let call = Call { export: Handle(2), nid: Nid::LOOPBACK, xid, now: NOW, message: &message };
    let answer = rig.write_call(&call, &[7; 4096]).unwrap();
    assert!(!answer.reply.require(&OST_BODY).unwrap().valid.has(Valid::FLGRANT));
    assert_eq!(rig.ost.granted().granted, CHUNK - 4096);
}

#[test]
fn a_client_keeps_its_grant_over_a_restart() {
    let mut rig = Rig::with_objects(1);
    rig.store.commit().unwrap();
    rig.restart(rig.store.clone(), Settings::default());
    assert_eq!(rig.ost.known_clients().len(), 2);
    rig.ost.restore(Handle(12), Uuid::new("client").unwrap()).unwrap();
    let held = 20 * MIB;
    let again = rig.connect(12, "client", ConnectData { grant: held as u32, ..asked() }).unwrap();
    assert_eq!((u64::from(again.grant), again.instance), (held, 2));
    rig.ost.recovered().unwrap();
    // What it has cached is not taken as lost.
    let says = Says { has: held - 4096, dirty: 4096, used: 4096, ..Says::default() };
    write(&mut rig, 12, &body(1, says), &[range(0, 4096, CACHED)]).unwrap();
    assert_eq!(rig.ost.granted().granted, held - 4096);
}

#[test]
fn clients_that_do_not_say_what_they_use_and_those_that_only_read() {
    let mut rig = Rig::with_objects(1);
    let without = |flag: ConnectFlags| ConnectData {
        flags: ConnectFlags(asked().flags.0 & !flag.0),
        ..asked()
    };
    let old = rig.connect(3, "old", without(ConnectFlags::GRANT_PARAM)).unwrap();
    assert_eq!((u64::from(old.grant), old.grant_tax_kib), (8 * MIB, 0));
    write(
        &mut rig,
        3,
        &body(1, Says { has: 8 * MIB, ..Says::default() }),
        &[range(5, 9000, CACHED)],
    )
    .unwrap();
    assert_eq!(rig.ost.granted().granted, CHUNK + 8 * MIB - 12288);
    rig.connect(4, "none", without(ConnectFlags::GRANT)).unwrap();
    let flags = asked().flags | ConnectFlags::RDONLY;
    rig.connect(5, "reader", ConnectData { flags, ..asked() }).unwrap();
    assert_eq!(rig.ost.granted().granted, CHUNK + 8 * MIB - 12288);
    rig.ost.check().unwrap();
}

#[test]
fn an_idle_client_gives_its_grant_back_when_that_matters() {
    let shrink = |rig: &mut Rig| {
        let body = Obdo { grant: CHUNK, ..about(1) };
        let key = Key(b"grant_shrink\0".to_vec());
        let request = Message::request(&OST_GRANT_SHRINK).with(&KEY, &key).with(&OST_BODY, &body);
        rig.send(2, &request).unwrap();
        rig.ost.check().unwrap();
        rig.ost.granted().granted
    };
    let mut large = Rig::with_objects(1);
    assert_eq!(shrink(&mut large), CHUNK);
    let mut small = on_disk(32 * MIB);
    let grant = u64::from(small.connect(2, "client", asked()).unwrap().grant);
    small.connect(3, "other", asked()).unwrap();
    let mut before = small.ost.granted().granted;
    for export in 4..16 {
        small.connect(export, &format!("client {export}"), asked()).unwrap();
        before = small.ost.granted().granted;
    }
    assert_eq!(shrink(&mut small), before - grant);
}

#[test]
fn what_is_cached_by_grant_fits_although_others_fill_the_disk() {
    let mut rig = on_disk(40 * MIB);
    let mut grant = u64::from(rig.connect(2, "honest", asked()).unwrap().grant);
    assert!(grant > MIB);
    rig.connect(3, "greedy", asked()).unwrap();
    let greedy = |rig: &mut Rig, oid, offset| {
        write(rig, 3, &body(oid, Says::default()), &[range(offset, MIB as u32, NiobufFlags::SYNC)])
    };
    let wrote = (0..60).find(|at| {
        let (results, _) = greedy(&mut rig, 1, at * MIB).unwrap();
        rig.store.commit().unwrap();
        results == [Status::failed(Errno::ENOSPC)]
    });
    let wrote = wrote.expect("the disk is full at last");
    assert!(wrote > 10, "{wrote} MiB were written");
    // What has its blocks can still be overwritten.
    assert_eq!(greedy(&mut rig, 1, 0).unwrap().0, [Status::OK]);
    assert_eq!(greedy(&mut rig, 2, 0).unwrap().0, [Status::failed(Errno::ENOSPC)]);
    let statfs =
        rig.send(2, &Message::request(&OST_STATFS)).unwrap().reply.require(&STATFS).unwrap();
    assert!(statfs.granted > 0);
    // The other one has cached this in time.
    let mut offset = 0;
    while grant > 256 * 1024 + TAX {
        let used = 128 * 1024 + TAX;
        grant -= used;
        let says = Says { has: grant, dirty: used, used, ..Says::default() };
        let ranges = [range(offset, 128 * 1024, CACHED)];
        assert_eq!(write(&mut rig, 2, &body(3, says), &ranges).unwrap().0, [Status::OK]);
        offset += 128 * 1024;
        rig.store.commit().unwrap();
    }
    assert!(offset >= MIB, "{offset} bytes were written by grant");
}

/// Returns the result of an allocation in the second object.
fn allocate(rig: &mut Rig, bytes: u64) -> Status {
    let valid = about(2).valid | Valid::FLSIZE | Valid::FLBLOCKS;
    let body = Obdo { valid, size: 0, blocks: bytes, nlink: 1, ..about(2) };
    rig.ask(2, &OST_FALLOCATE, &body).0
}

#[test]
fn an_allocation_does_not_get_what_was_granted() {
    let mut rig = on_disk(40 * MIB);
    rig.connect(2, "client", asked()).unwrap();
    let statfs =
        rig.send(2, &Message::request(&OST_STATFS)).unwrap().reply.require(&STATFS).unwrap();
    let (free, granted) = (statfs.available * 4096, rig.ost.granted().granted);
    assert!(granted > MIB);
    assert_eq!(allocate(&mut rig, free - granted / 2), Status::failed(Errno::ENOSPC));
    assert_eq!(allocate(&mut rig, free - granted), Status::OK);
}

#[test]
fn what_an_administrator_reserves_no_client_gets_and_what_was_granted_stays() {
    let mut rig = Rig::with_objects(2);
    let parameter = Ost::PARAMETERS.iter().find(|one| one.name == "obdfilter.*.reserved_mb");
    let parameter = parameter.unwrap();
    let reserve = |rig: &Rig, text: &str| parameter.write.unwrap()(&rig.ost, text);
    assert!(reserve(&rig, "-1").is_err() && reserve(&rig, "all").is_err());
    assert_eq!((parameter.read)(&rig.ost, &Moment::default()).unwrap(), "512\n");
    reserve(&rig, "4294967295").unwrap();
    assert_eq!((parameter.read)(&rig.ost, &Moment::default()).unwrap(), "4294967295\n");

    let late = rig.connect(3, "late", asked()).unwrap();
    assert_eq!(late.grant, 0);
    let by_late = |rig: &mut Rig| {
        let ranges = [range(0, 4096, NiobufFlags::SYNC)];
        write(rig, 3, &body(1, Says::default()), &ranges).unwrap().0
    };
    assert_eq!(by_late(&mut rig), [Status::failed(Errno::ENOSPC)]);
    assert_eq!(allocate(&mut rig, 4096), Status::failed(Errno::ENOSPC));
    let statfs =
        rig.send(2, &Message::request(&OST_STATFS)).unwrap().reply.require(&STATFS).unwrap();
    assert!(statfs.available == 0 && statfs.state.has(StatfsState::ENOSPC));
    // This client has a grant from before.
    let used = 4096 + TAX;
    let says = Says { has: CHUNK - used, dirty: used, used, ..Says::default() };
    let written = write(&mut rig, 2, &body(2, says), &[range(0, 4096, CACHED)]).unwrap();
    assert_eq!(written, (vec![Status::OK], 0));

    reserve(&rig, "512").unwrap();
    assert_eq!(by_late(&mut rig), [Status::OK]);
    assert_eq!(allocate(&mut rig, 8192), Status::OK);
}

/// A write whose data have not come yet.
struct UnderWay {
    export: u64,
    message: Message<'static>,
    transfer: Transfer,
}

/// Clients that say what they like.
struct Mix {
    rng: Rng,
    rig: Rig,
    under_way: Vec<UnderWay>,
}

impl Mix {
    /// Does something, and returns what.
    fn step(&mut self) -> &'static str {
        let export = self.rng.between(2, 6);
        match self.rng.below(20) {
            0 => {
                let param = if self.rng.one_in(3) { ConnectFlags::GRANT_PARAM.0 } else { 0 };
                let flags = ConnectFlags(asked().flags.0 & !param);
                let grant = self.rng.below(1 << 32) as u32;
                let asked = ConnectData { flags, grant, ..asked() };
                self.rig.connect(export, &format!("client {export}"), asked).unwrap();
                "connect"
            }
            1 => {
                self.rig.ost.forget(Handle(export)).unwrap();
                "forget"
            }
            2..=9 => self.prepare(export),
            _ if self.under_way.is_empty() => "nothing",
            10 | 11 => {
                let one = self.take();
                self.rig.ost.abandon(one.transfer);
                "abandon"
            }
            _ => self.write(),
        }
    }

    fn prepare(&mut self, export: u64) -> &'static str {
        let rng = &mut self.rng;
        let says = Says {
            has: rng.below(64 * MIB),
            dirty: rng.below(16 * MIB),
            wanted: rng.below(1 << 32) as u32,
            dropped: if rng.one_in(4) { rng.below(4 * MIB) as u32 } else { 0 },
            used: if rng.one_in(2) { rng.below(4 * MIB) } else { 0 },
            flags: match rng.below(8) {
                0 => ObdoFlags::SHRINK_GRANT,
                1 => ObdoFlags::RECOV_RESEND,
                _ => ObdoFlags::NONE,
            },
        };
        let flags = if rng.one_in(2) { CACHED } else { NiobufFlags::SYNC };
        let ranges = [
            range(rng.below(MIB), rng.between(1, 65536) as u32, flags),
            range(2 * MIB + rng.below(MIB), rng.between(1, 65536) as u32, CACHED),
        ];
        let oid = rng.between(1, 16) as u32;
        let message = transfer(&OST_WRITE, &body(oid, says), &ranges);
        let xid = self.rig.next_xid();
        let call =
            Call { export: Handle(export), nid: Nid::LOOPBACK, xid, now: NOW, message: &message };
        match self.rig.ost.prepare(&call) {
            Ok(transfer) => {
                let transfer = transfer.unwrap();
                self.under_way.push(UnderWay { export, message, transfer });
                "prepare"
            }
            Err(errno) => {
                assert_eq!(errno, Errno::ENOTCONN);
                "unconnected"
            }
        }
    }

    fn take(&mut self) -> UnderWay {
        let at = self.rng.below(self.under_way.len() as u64) as usize;
        self.under_way.swap_remove(at)
    }

    fn write(&mut self) -> &'static str {
        let UnderWay { export, message, transfer } = self.take();
        let xid = self.rig.next_xid();
        let call =
            Call { export: Handle(export), nid: Nid::LOOPBACK, xid, now: NOW, message: &message };
        let lens = transfer.ranges().iter().map(|range| range.len as usize);
        let memories: Vec<Memory> = lens.map(|len| Memory(vec![7; len])).collect();
        let sources: Vec<&dyn Source> = memories.iter().map(|one| one as _).collect();
        match self.rig.ost.write(&call, transfer, &sources, None) {
            Ok(_) => "write",
            Err(errno) => {
                assert_eq!(errno, Errno::ENOTCONN, "the client has left");
                "late write"
            }
        }
    }
}

#[test]
fn the_accounts_add_up_whatever_clients_say() {
    let mut mix = Mix { rng: Rng::new(7), rig: on_disk(96 * MIB), under_way: vec![] };
    let mut done: BTreeMap<&str, u32> = BTreeMap::new();
    for _ in 0..3000 {
        *done.entry(mix.step()).or_default() += 1;
        mix.rig.ost.check().unwrap();
        if mix.rng.one_in(10) {
            mix.rig.store.commit().unwrap();
        }
    }
    let Mix { rig, under_way, .. } = mix;
    under_way.into_iter().for_each(|one| rig.ost.abandon(one.transfer));
    (2..7).for_each(|export| rig.ost.forget(Handle(export)).unwrap());
    rig.ost.check().unwrap();
    let total = rig.ost.granted();
    assert_eq!((total.granted, total.dirty, total.pending), (0, 0, 0));
    let steps = ["connect", "forget", "prepare", "unconnected", "abandon", "write", "late write"];
    assert!(steps.iter().all(|step| done[step] >= 10), "{done:?}");
}

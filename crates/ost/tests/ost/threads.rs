//! Threads that share an OST, as those of its host do.

use std::sync::Arc;
use std::thread;

use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{OST_BODY, OST_GETATTR, OST_PUNCH, OST_WRITE};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{NiobufFlags, Obdo};
use fulmar_lustre_wire::quota::QuotaKind;
use fulmar_lustre_wire::{Handle, Status};
use fulmar_ost::{Call, Settings};
use fulmar_store::{Policy, SimulatedDisk, Store};

use crate::rig::{NOW, Rig, about, asked, asked_by_mdt, range, transfer};

const THREADS: u64 = 8;
const WRITES: u64 = 60;

/// All write to one object, and each to one of its own, of the same user; one cuts and commits.
#[test]
fn writes_of_many_threads_are_all_there_and_all_counted() {
    let disk = SimulatedDisk::new(3);
    let policy = Policy { reserve: 0, cache: 1 << 20, ..Policy::default() };
    let store = Store::create(&disk, b"OST", policy).unwrap();
    let mut rig = Rig::on(Arc::new(store), Settings::default());
    rig.connect(1, "mdt", asked_by_mdt()).unwrap();
    rig.connect(2, "client", asked()).unwrap();
    rig.create(32);
    let owner = Valid::FLUID | Valid::FLGID | Valid::FLPROJID;
    let body =
        |oid| Obdo { valid: about(oid).valid | owner, uid: 5, gid: 6, projid: 7, ..about(oid) };
    let rig = &rig;
    let write = |oid, offset, xid| {
        let ranges = [range(offset, 4096, NiobufFlags::ASYNC)];
        let message = transfer(&OST_WRITE, &body(oid), &ranges);
        let call = Call { export: Handle(2), nid: Nid::LOOPBACK, xid, now: NOW, message: &message };
        let answer = rig.write_call(&call, &[oid as u8; 4096]).unwrap();
        assert_eq!(answer.reply.body.status, Status::OK);
        answer.reply.body.transno
    };
    let cut = |xid| {
        let valid = about(31).valid | Valid::FLSIZE | Valid::FLBLOCKS;
        let cut = Obdo { valid, blocks: u64::MAX, size: xid * 1000, ..about(31) };
        let message = Message::request(&OST_PUNCH).with(&OST_BODY, &cut);
        rig.ost
            .execute(&Call {
                export: Handle(2),
                nid: Nid::LOOPBACK,
                xid,
                now: NOW,
                message: &message,
            })
            .unwrap();
        rig.store.commit().unwrap();
    };
    let mut numbers: Vec<u64> = thread::scope(|scope| {
        let writers = (0..THREADS).map(|own| {
            scope.spawn(move || {
                let both = (0..WRITES).flat_map(|count| {
                    let shared = write(30, (count * THREADS + own) * 4096, count);
                    [shared, write(own as u32 + 1, count * 4096, count)]
                });
                both.collect::<Vec<u64>>()
            })
        });
        let writers: Vec<_> = writers.collect();
        scope.spawn(move || (0..WRITES / 4).for_each(cut));
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len() as u64, 2 * THREADS * WRITES);
    rig.ost.check().unwrap();
    let used = rig.ost.used(QuotaKind::PROJECT, 7);
    assert_eq!((used.bytes, used.objects), (2 * THREADS * WRITES * 4096, THREADS + 1));
    let message = Message::request(&OST_GETATTR).with(&OST_BODY, &about(30));
    let call = Call { export: Handle(2), nid: Nid::LOOPBACK, xid: 1, now: NOW, message: &message };
    let found = rig.ost.execute(&call).unwrap().reply.require(&OST_BODY).unwrap();
    assert_eq!((found.size, found.blocks), (THREADS * WRITES * 4096, THREADS * WRITES * 8));
}

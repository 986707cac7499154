//! Leases of open files, and layouts that are exchanged when they end.

use fulmar_base::Errno;
use fulmar_lustre_wire::changelog::ChangeKind;
use fulmar_lustre_wire::format::{CLOSE, CLOSE_DATA, IO_EPOCH, REINT};
use fulmar_lustre_wire::ldlm::Disposition;
use fulmar_lustre_wire::mdt::{
    Bias, CloseData, Create, IoEpoch, OpenFlags, SetAttr, SplitOpenFlags, Valid,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Handle};
use fulmar_mdt::Caller;

use crate::data::{about, contents, keep_on_mdt, write};
use crate::requests::{self, ROOT, USER};
use crate::rig::{NOW, Reply, Rig};

const TOP: Fid = Fid::ROOT;
const LEASE: OpenFlags =
    OpenFlags::READ.with(OpenFlags::LOCK).with(OpenFlags::BY_FID).with(OpenFlags::LEASE);

/// Requests a lease of a file that the client has open already.
fn lease(rig: &mut Rig, export: u64, file: Fid, own: Handle) -> Result<Reply, Errno> {
    let record = Create {
        child: file,
        old_handle: own,
        mode: 0o100_000,
        flags: SplitOpenFlags(LEASE),
        time: NOW,
        ..Create::default()
    };
    rig.ask(export, &requests::open_as(&ROOT, (file, ""), record))
}

/// Closes a lease, and exchanges the layout with that of another file.
fn swap(who: &Caller, file: Fid, handle: Handle, other: Fid, lease: Handle) -> Message<'static> {
    let bias = Bias::CLOSE_LAYOUT_SWAP | Bias::CLOSE_LAYOUT_SWAP_HSM;
    let record = requests::close_record(who, file, SetAttr { bias, ..SetAttr::default() });
    let data = CloseData { lease, fid: other, ..CloseData::default() };
    Message::request(&CLOSE)
        .with(&IO_EPOCH, &IoEpoch { handle, ..IoEpoch::default() })
        .with(&REINT, &record)
        .with(&CLOSE_DATA, &data)
}

#[test]
fn layouts_are_exchanged_when_a_lease_ends() {
    let mut rig = Rig::new();
    let file = rig.touch(&ROOT, (TOP, "f"));
    let new = rig.next_fid();
    let flags = OpenFlags::CREAT | OpenFlags::WRITE | OpenFlags::VOLATILE;
    let volatile = rig.must(&requests::open(&ROOT, (TOP, "v"), new, flags));
    let (before, after) = (rig.object(file), rig.object(new));
    rig.mdt.register_changelog_user(None, None, NOW).unwrap();
    let by_fid = OpenFlags::WRITE | OpenFlags::BY_FID;
    let again = rig.must(&requests::open(&ROOT, (TOP, "v"), new, by_fid)).body().open_handle;
    rig.close(1, new, again);
    let own = rig.open((TOP, "f"), OpenFlags::READ);
    let leased = lease(&mut rig, 1, file, own).unwrap();
    assert!(leased.disposition.has(Disposition::OPEN_LEASE) && rig.mdt.is_leased(file));
    let handle = leased.body().open_handle;
    let body = rig.must(&swap(&ROOT, file, handle, new, Handle(77))).body();
    assert!(body.valid.has(Valid::CLOSE_INTENT_EXECED));
    assert_eq!((rig.object(file), rig.object(new)), (after, before));
    assert!(!rig.mdt.is_leased(file));
    let kinds: Vec<_> = rig.changes(0).iter().map(|record| (record.kind, record.target)).collect();
    assert_eq!(kinds, [(ChangeKind::LAYOUT, file)], "the other one is unknown");
    rig.close(1, new, volatile.body().open_handle);
    rig.mdt.check().unwrap();
}

#[test]
fn a_lease_that_was_broken_changes_nothing() {
    let mut rig = Rig::new();
    let (file, other) = (rig.touch(&ROOT, (TOP, "f")), rig.touch(&ROOT, (TOP, "g")));
    let objects = (rig.object(file), rig.object(other));
    let handle = lease(&mut rig, 1, file, Handle(0)).unwrap().body().open_handle;
    assert_eq!(lease(&mut rig, 2, file, Handle(0)).unwrap_err(), Errno::EBUSY);
    let write = requests::open(&ROOT, (TOP, "f"), Fid::default(), OpenFlags::WRITE);
    assert!(rig.mdt.must_break_lease(file, OpenFlags::WRITE));
    assert!(!rig.mdt.must_break_lease(file, OpenFlags::READ));
    assert_eq!(rig.ask(2, &write).unwrap_err(), Errno::EINPROGRESS, "the host breaks it first");
    rig.mdt.break_lease(file);
    let writer = rig.ask(2, &write).unwrap().body().open_handle;
    let refused = rig.send(1, &swap(&ROOT, file, handle, other, Handle(77))).unwrap();
    assert_eq!(refused.result, Err(Errno::ESTALE));
    assert_eq!((rig.object(file), rig.object(other)), objects);
    assert_eq!(lease(&mut rig, 1, file, Handle(0)).unwrap_err(), Errno::EBUSY, "another writes");
    rig.close(2, file, writer);
    lease(&mut rig, 1, file, Handle(0)).unwrap();
    // A client that is gone has no lease.
    rig.mdt.forget(Handle(1), NOW).unwrap();
    lease(&mut rig, 2, file, Handle(0)).unwrap();
}

#[test]
fn what_else_a_close_is_to_do_is_refused_but_the_file_is_closed() {
    let mut rig = Rig::new();
    rig.must(&requests::chmod(&ROOT, TOP, 0o777));
    let (file, other) = (rig.touch(&ROOT, (TOP, "f")), rig.touch(&USER, (TOP, "g")));
    let mut refused = |request: &dyn Fn(Handle) -> Message<'static>| {
        let handle = lease(&mut rig, 1, file, Handle(0)).unwrap().body().open_handle;
        let reply = rig.send(1, &request(handle)).unwrap();
        assert!(!rig.mdt.is_leased(file) && reply.transno() != 0);
        reply.result.unwrap_err()
    };
    assert_eq!(refused(&|handle| swap(&USER, file, handle, other, Handle(7))), Errno::EACCES);
    assert_eq!(refused(&|handle| swap(&ROOT, file, handle, other, Handle(7))), Errno::EPERM);
    assert_eq!(refused(&|handle| swap(&ROOT, file, handle, file, Handle(7))), Errno::EINVAL);
    assert_eq!(refused(&|handle| swap(&ROOT, file, handle, other, Handle(0))), Errno::ESTALE);
    let merge = |handle| {
        let bias = Bias::CLOSE_LAYOUT_MERGE;
        let record = requests::close_record(&ROOT, file, SetAttr { bias, ..SetAttr::default() });
        swap(&ROOT, file, handle, other, Handle(7)).with(&REINT, &record)
    };
    assert_eq!(refused(&merge), Errno::EOPNOTSUPP);
}

/// Opens a new file without a name. Returns it and its handle.
fn volatile(rig: &mut Rig) -> (Fid, Handle) {
    let new = rig.next_fid();
    let flags = OpenFlags::CREAT | OpenFlags::WRITE | OpenFlags::VOLATILE;
    let opened = rig.must(&requests::open(&ROOT, (TOP, "v"), new, flags));
    (new, opened.body().open_handle)
}

/// Gives a file the layout of another one, as the migration of a file ends.
fn migrate(rig: &mut Rig, file: Fid, other: Fid) -> Result<(), Errno> {
    let handle = lease(rig, 1, file, Handle(0)).unwrap().body().open_handle;
    let closed = rig.send(1, &swap(&ROOT, file, handle, other, Handle(7))).unwrap();
    rig.mdt.check().unwrap();
    closed.result
}

#[test]
fn a_migrated_file_keeps_its_data_on_the_mdt_or_leaves_none() {
    let mut rig = Rig::new();
    let on_osts = volatile(&mut rig);
    keep_on_mdt(&mut rig, 1);
    let (file, named) = (rig.touch(&ROOT, (TOP, "f")), rig.touch(&ROOT, (TOP, "g")));
    rig.must(&write(about(file), 0, b"data"));
    assert_eq!(migrate(&mut rig, file, named), Err(Errno::EOPNOTSUPP), "it is no copy");
    let same = volatile(&mut rig);
    let objects = (rig.object(file), rig.object(same.0));
    assert_eq!(migrate(&mut rig, file, same.0), Ok(()));
    assert_eq!((rig.object(same.0), rig.object(file)), objects);
    assert_eq!(contents(&mut rig, file), b"data");

    let object = rig.object(on_osts.0);
    assert_eq!(migrate(&mut rig, file, on_osts.0), Ok(()));
    assert_eq!(rig.object(file), object);
    assert_eq!(rig.fails(&write(about(file), 0, b"late")), Errno::ENOENT);
    assert!(rig.store.objects().unwrap().is_empty());
    // Its first bytes would not be copied to the MDT.
    let back = volatile(&mut rig);
    assert_eq!(migrate(&mut rig, file, back.0), Err(Errno::EOPNOTSUPP));
    for (copy, handle) in [same, on_osts, back] {
        rig.close(1, copy, handle);
    }
    rig.mdt.check().unwrap();
}

//! Files whose layouts have several components.

use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::{Address, Configuration, Session};
use fulmar_lustre_wire::format::{
    ENQUEUE_LAYOUT, ENQUEUE_OPEN, INTENT, LAYOUT, LAYOUT_INTENT, LOCK_REPLY, LOCK_REQUEST,
    MDT_BODY, NAME, NEW_LAYOUT, REINT, REINT_UNLINK,
};
use fulmar_lustre_wire::layout::{
    Component, ComponentFlags, CompositeHeader, CompositeMd, Layout, LayoutMagic, LovHeader, LovMd,
    LovObject, Pattern,
};
use fulmar_lustre_wire::ldlm::{
    InodeBits, InodebitsPolicy, Intent, IntentOps, LayoutIntent, LayoutIntentFlags, LayoutIntentOp,
    LockDesc, LockFlags, LockMode, LockReply, LockRequest, LockType, ResourceDesc, ResourceId,
};
use fulmar_lustre_wire::mdt::{
    Create, MdtBody, OpenFlags, ReintChange, ReintOp, SplitOpenFlags, Unlink,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::OstId;
use fulmar_lustre_wire::{Bytes, Content, Fid, Handle, Text};
use fulmar_net::Runtime;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Label, TargetLabel};

use crate::mdt::{close, name, new_fid, record, root, size};
use crate::rig::{Scratch, TIMEOUT, ask, node, serve, session};

const MIB: u64 = 1 << 20;
const ANY: u16 = 0xffff;

pub(crate) fn wanted(magic: LayoutMagic, stripe_count: u16) -> LovMd {
    let header = LovHeader {
        magic,
        pattern: Pattern::NONE,
        object: 0,
        seq: 0,
        stripe_size: 0,
        stripe_count,
        generation: ANY,
    };
    LovMd { header, pool: None, objects: vec![], rest: Bytes::default() }
}

/// One stripe up to 1 MiB, and two behind it.
fn growing() -> Vec<u8> {
    let header = CompositeHeader::new(0);
    let first = Component { end: MIB, ..Component::default() };
    let second = Component { start: MIB, end: u64::MAX, ..Component::default() };
    let plain = |count| wanted(LayoutMagic::LOV_V1, count);
    CompositeMd::new(header, vec![(first, plain(1)), (second, plain(2))]).to_bytes()
}

/// Asks for a lock, and gives another one up.
pub(crate) fn lock_request(
    (fid, mode, bits): (Fid, LockMode, InodeBits),
    given_up: Handle,
) -> LockRequest {
    let kind = LockType::IBITS;
    let resource = ResourceDesc { kind, id: ResourceId::of_fid(fid), ..ResourceDesc::default() };
    let policy = InodebitsPolicy { bits, try_bits: InodeBits::NONE, gid: 0, initiator: 0 }.into();
    let lock = LockDesc { resource, requested: mode, policy, ..LockDesc::default() };
    let handles = vec![Handle(0x77), given_up];
    let count = if given_up == Handle(0) { 1 } else { 2 };
    LockRequest { flags: LockFlags::HAS_INTENT, count, lock, handles }
}

/// Creates a file with a layout and opens it. Returns the handle, the layout and the lock on the file, or what
/// the MDT says.
pub(crate) fn create(
    session: &Session,
    mdt: ImportId,
    (parent, child, title): (Fid, Fid, &str),
    layout: &[u8],
) -> Result<(Handle, Layout, Handle), i64> {
    let flags = OpenFlags::CREAT | OpenFlags::WRITE | OpenFlags::HAS_EA;
    let new = Create { child, mode: 0o100_644, flags: SplitOpenFlags(flags), ..Create::default() };
    let message = Message::request(&ENQUEUE_OPEN)
        .with(&LOCK_REQUEST, &lock_request((parent, LockMode::CW, InodeBits::UPDATE), Handle(0)))
        .with(&INTENT, &Intent { ops: IntentOps::OPEN | IntentOps::CREAT })
        .with(&REINT, &record(ReintOp::OPEN, parent, ReintChange::Create(new)))
        .with(&NAME, &name(title))
        .with_bytes(&NEW_LAYOUT, layout.to_vec());
    let reply = ask(session, mdt, message);
    let answer: LockReply = reply.require(&LOCK_REPLY).unwrap();
    if answer.result2 != 0 {
        return Err(answer.result2);
    }
    let body: MdtBody = reply.require(&MDT_BODY).unwrap();
    assert_eq!(answer.lock.granted, LockMode::PR);
    Ok((body.open_handle, reply.require(&LAYOUT).unwrap(), answer.handle))
}

/// Says that a file is about to be written up to `end`, and gives up a lock on its layout. Returns another
/// lock and the layout, or what the MDT says.
fn about_to_write(
    session: &Session,
    mdt: ImportId,
    (fid, end): (Fid, u64),
    lock: Handle,
) -> Result<(Handle, CompositeMd), i64> {
    let op = LayoutIntentOp::WRITE;
    let intent = LayoutIntent { op, flags: LayoutIntentFlags::NONE, start: 0, end };
    let message = Message::request(&ENQUEUE_LAYOUT)
        .with(&LOCK_REQUEST, &lock_request((fid, LockMode::CR, InodeBits::LAYOUT), lock))
        .with(&INTENT, &Intent { ops: IntentOps::LAYOUT })
        .with(&LAYOUT_INTENT, &intent)
        .with_bytes(&NEW_LAYOUT, vec![]);
    let reply = ask(session, mdt, message);
    let answer: LockReply = reply.require(&LOCK_REPLY).unwrap();
    if answer.result2 != 0 {
        return Err(answer.result2);
    }
    match reply.require(&LAYOUT) {
        Ok(Layout::Composite(layout)) => Ok((answer.handle, layout)),
        other => panic!("{other:?}"),
    }
}

fn objects(layout: &CompositeMd) -> Vec<(u32, OstId)> {
    let layouts = layout.initialised();
    let objects = layouts.into_iter().flat_map(|layout| layout.objects);
    objects.map(|object| (object.ost, object.id)).collect()
}

/// Waits until the file system has an MDT and two OSTs, and connects to them.
fn connect(session: &mut Session, address: &Address) -> (ImportId, Vec<ImportId>) {
    let mgs = session.connect_mgs(address).unwrap();
    let begun = Instant::now();
    let Configuration { mdts, osts, .. } = loop {
        match session.file_system(mgs, address) {
            Ok(found) if found.osts.len() == 2 && !found.mdts.is_empty() => break found,
            other => assert!(begun.elapsed() < TIMEOUT, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let mut connect = |target| session.connect_as(Default::default(), target).unwrap();
    (connect(&mdts[0]), osts.iter().map(connect).collect())
}

/// Creates a file on both OSTs, the second one first, as soon as the MDT knows them. Returns the lock on it.
fn create_on_both(session: &Session, mdt: ImportId, parent: Fid, child: Fid) -> Handle {
    let mut layout = wanted(LayoutMagic::LOV_SPECIFIC, 2);
    let place = |ost| LovObject { ost, ..LovObject::default() };
    (layout.pool, layout.objects) = (Text::new(""), vec![place(1), place(0)]);
    let begun = Instant::now();
    loop {
        match create(session, mdt, (parent, child, "on-both"), &layout.to_bytes()) {
            Ok((handle, Layout::File(made), lock)) => {
                let osts: Vec<u32> = made.objects.iter().map(|object| object.ost).collect();
                assert_eq!(osts, [1, 0]);
                close(session, mdt, (child, handle));
                return lock;
            }
            other => assert!(begun.elapsed() < TIMEOUT, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Removes a name, and gives up a lock on the file.
fn unlink(session: &Session, mdt: ImportId, place: (Fid, Fid, &str), lock: Handle) {
    let (parent, child, title) = place;
    let given_up = LockRequest { count: 1, handles: vec![lock], ..LockRequest::default() };
    let change = ReintChange::Unlink(Unlink { child, ..Unlink::default() });
    let message = Message::request(&REINT_UNLINK)
        .with(&REINT, &record(ReintOp::UNLINK, parent, change))
        .with(&NAME, &name(title))
        .with(&LOCK_REQUEST, &given_up);
    ask(session, mdt, message);
}

#[test]
fn components_get_objects_when_they_are_written_and_lose_them_with_the_file() {
    let scratch = Scratch::new("components");
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, nid) = node(&runtime);
    let address: Address = format!("{nid}:/lv").parse().unwrap();
    let directories = ["mdt", "ost0", "ost1"].map(|target| scratch.0.join(target));
    let label = |kind, index| TargetLabel { kind, index, address: address.clone() };
    fulmar_server::format_both(&directories[0], &label(TargetKind::Mdt, 0)).unwrap();
    for (directory, index) in directories[1..].iter().zip(0..) {
        let label = Label::Target(label(TargetKind::Ost, index));
        fulmar_server::format(directory, &label).unwrap();
    }
    let (client, own) = node(&runtime);

    let serving = serve(&server, nid, directories.to_vec());
    let mut known = session(&client, own);
    let (mdt, _) = connect(&mut known, &address);
    let (parent, both) = (root(&known, mdt), new_fid(&known, mdt));
    let of_both = create_on_both(&known, mdt, parent, both);
    let child = Fid { oid: 2, ..both };
    let place = (parent, child, "file");
    let (handle, layout, lock) = create(&known, mdt, place, &growing()).unwrap();
    let Layout::Composite(layout) = layout else { panic!("{layout:?}") };
    let shown = |layout: &CompositeMd| -> Vec<_> {
        layout.components.iter().map(|component| (component.id, component.flags)).collect()
    };
    let init = ComponentFlags::INIT;
    assert_eq!(shown(&layout), [(1, init), (2, ComponentFlags::NONE)]);
    assert_eq!((layout.header.generation, objects(&layout).len()), (2, 1));

    let none = Handle(0);
    let (lock, whole) = about_to_write(&known, mdt, (child, MIB + 1), lock).unwrap();
    assert_eq!(shown(&whole), [(1, init), (2, init)]);
    assert_eq!((whole.header.generation, objects(&whole).len()), (3, 3));
    let (_, again) = about_to_write(&known, mdt, (child, u64::MAX), lock).unwrap();
    assert_eq!(again, whole);
    let einval = -i64::from(Errno::EINVAL.0);
    let failed = about_to_write(&known, mdt, (both, 1), of_both);
    assert_eq!(failed, Err(einval), "it has no components");
    close(&known, mdt, (child, handle));
    drop(known);
    serving.stop();

    let serving = serve(&server, nid, directories.to_vec());
    let mut known = session(&client, own);
    let (mdt, osts) = connect(&mut known, &address);
    let (lock, again) = about_to_write(&known, mdt, (child, 1), none).unwrap();
    assert_eq!(again, whole);
    let exists = |(ost, id): (u32, OstId)| size(&known, osts[ost as usize], id).is_ok();
    assert!(objects(&whole).into_iter().all(exists));
    unlink(&known, mdt, (parent, child, "file"), lock);
    let begun = Instant::now();
    while objects(&whole).into_iter().any(exists) {
        assert!(begun.elapsed() < TIMEOUT, "objects of a removed file stay");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(known);
    serving.stop();
    for directory in directories {
        for part in fulmar_server::parts_of(&directory) {
            let (_, report) = fulmar_server::verify(&part).unwrap();
            assert_eq!(report.damage, Vec::<String>::new());
        }
    }
    client.stop();
    server.stop();
}

//! A whole file system on one node: files with data, over restarts.

use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::{Address, Configuration, Session};
use fulmar_lustre_wire::format::{
    CLOSE, ENQUEUE_OPEN, GET_ROOT, GETATTR_NAME, INTENT, IO_EPOCH, LAYOUT, LOCK_REPLY,
    LOCK_REQUEST, MDT_BODY, NAME, OST_BODY, OST_GETATTR, OST_WRITE, REINT, REINT_CREATE,
    REINT_LINK, REINT_RENAME, REINT_UNLINK, SEQ_OP, SEQ_QUERY, SEQ_RANGE, TARGET_NAME,
};
use fulmar_lustre_wire::layout::Layout;
use fulmar_lustre_wire::ldlm::{
    Disposition, InodeBits, InodebitsPolicy, Intent, IntentOps, LockDesc, LockFlags, LockMode,
    LockReply, LockRequest, LockType, ResourceDesc, ResourceId,
};
use fulmar_lustre_wire::mdt::{
    Create, IoEpoch, Link, MdtBody, OpenFlags, Reint, ReintChange, ReintHead, ReintOp, Rename,
    SetAttr, SplitOpenFlags, Unlink, Valid,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{Obdo, OstId};
use fulmar_lustre_wire::seq::{SeqOp, SeqRange};
use fulmar_lustre_wire::{Fid, Handle, Name, Status, portal};
use fulmar_net::Runtime;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::Request;

use crate::ost::object;
use crate::rig::{Scratch, TIMEOUT, ask, file_system, node, serve, session};

/// Waits until the file system has an MDT and an OST, and connects to both.
pub(crate) fn connect(session: &mut Session, address: &Address) -> (ImportId, ImportId) {
    let mgs = session.connect_mgs(address).unwrap();
    let begun = Instant::now();
    let Configuration { mdts, osts, .. } = loop {
        match session.file_system(mgs, address) {
            Ok(found) if !found.osts.is_empty() && !found.mdts.is_empty() => break found,
            other => assert!(begun.elapsed() < TIMEOUT, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let mut connect = |target| session.connect_as(Default::default(), target).unwrap();
    (connect(&mdts[0]), connect(&osts[0]))
}

pub(crate) fn root(session: &Session, mdt: ImportId) -> Fid {
    let reply = ask(session, mdt, Message::request(&GET_ROOT).with(&MDT_BODY, &MdtBody::default()));
    let body: MdtBody = reply.require(&MDT_BODY).unwrap();
    body.fid
}

/// Asks for a sequence, and returns the first FID of it.
pub(crate) fn new_fid(session: &Session, mdt: ImportId) -> Fid {
    let message = Message::request(&SEQ_QUERY)
        .with(&SEQ_OP, &SeqOp::ALLOC_META)
        .with(&SEQ_RANGE, &SeqRange::default());
    let request = Request::new(message, 1024).at(portal::SEQ_METADATA);
    let range: SeqRange = session.call(mdt, request).unwrap().require(&SEQ_RANGE).unwrap();
    Fid { seq: range.start, oid: 1, version: 0 }
}

/// Returns a change of a file, or of a name in a directory.
pub(crate) fn record(op: ReintOp, fid: Fid, change: ReintChange) -> Reint {
    let all = ReintHead {
        capability: u32::MAX,
        suppgid1: u32::MAX,
        suppgid2: u32::MAX,
        ..ReintHead::default()
    };
    Reint::new(ReintHead { op, fid, ..all }, change).unwrap()
}

/// Creates a file and opens it for writing. Returns the handle and the object that it got.
pub(crate) fn create(session: &Session, mdt: ImportId, parent: Fid, child: Fid) -> (Handle, OstId) {
    let kind = LockType::IBITS;
    let resource = ResourceDesc { kind, id: ResourceId::of_fid(parent), ..ResourceDesc::default() };
    let policy = InodebitsPolicy {
        bits: InodeBits::UPDATE,
        try_bits: InodeBits::NONE,
        gid: 0,
        initiator: 0,
    }
    .into();
    let lock = LockDesc { resource, requested: LockMode::CW, policy, ..LockDesc::default() };
    let lock = LockRequest {
        flags: LockFlags::HAS_INTENT,
        count: 1,
        lock,
        handles: vec![Handle(0x77), Handle(0)],
    };
    let flags = OpenFlags::CREAT | OpenFlags::WRITE;
    let new = Create { child, mode: 0o100_644, flags: SplitOpenFlags(flags), ..Create::default() };
    let message = Message::request(&ENQUEUE_OPEN)
        .with(&LOCK_REQUEST, &lock)
        .with(&INTENT, &Intent { ops: IntentOps::OPEN | IntentOps::CREAT })
        .with(&REINT, &record(ReintOp::OPEN, parent, ReintChange::Create(new)))
        .with(&NAME, &name("file"));
    let begun = Instant::now();
    let (reply, answer) = loop {
        let reply = ask(session, mdt, message.clone());
        let answer: LockReply = reply.require(&LOCK_REPLY).unwrap();
        // The MDT may not have met its OST yet.
        if Status(answer.result2 as i32).errno() != Some(Errno::EINPROGRESS) {
            break (reply, answer);
        }
        assert!(begun.elapsed() < TIMEOUT, "there are no objects");
        std::thread::sleep(Duration::from_millis(50));
    };
    let done = Disposition(answer.result1);
    assert!(done.has(Disposition::OPEN_CREATE) && done.has(Disposition::OPEN_OPEN), "{answer:?}");
    let body: MdtBody = reply.require(&MDT_BODY).unwrap();
    assert_eq!(body.fid, child);
    let Ok(Layout::File(layout)) = reply.require(&LAYOUT) else { panic!("no layout: {reply:?}") };
    assert_eq!(layout.objects.len(), 1);
    (body.open_handle, layout.objects[0].id)
}

pub(crate) fn close(session: &Session, mdt: ImportId, (fid, handle): (Fid, Handle)) {
    let change = ReintChange::SetAttr(SetAttr::default());
    let message = Message::request(&CLOSE)
        .with(&IO_EPOCH, &IoEpoch { handle, ..IoEpoch::default() })
        .with(&REINT, &record(ReintOp::SETATTR, fid, change));
    session.call(mdt, Request::new(message, 4096).at(portal::MDS_READPAGE)).unwrap();
}

/// Returns the file in the root directory.
pub(crate) fn lookup(session: &Session, mdt: ImportId, parent: Fid) -> Result<Fid, Errno> {
    let body = MdtBody { fid: parent, valid: Valid::FLID, ..MdtBody::default() };
    let message = Message::request(&GETATTR_NAME).with(&MDT_BODY, &body).with(&NAME, &name("file"));
    let reply = session.call(mdt, Request::new(message, 4096))?;
    let found: MdtBody = reply.require(&MDT_BODY).unwrap();
    Ok(found.fid)
}

/// Returns the size of an object.
pub(crate) fn size(session: &Session, ost: ImportId, id: OstId) -> Result<u64, Errno> {
    let body = Obdo { valid: Valid::FLID | Valid::FLGROUP, id, ..Obdo::default() };
    let message = Message::request(&OST_GETATTR).with(&OST_BODY, &body);
    let reply = session.call(ost, Request::new(message, 4096))?;
    let found: Obdo = reply.require(&OST_BODY).unwrap();
    Ok(found.size)
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

#[test]
fn a_file_keeps_its_object_over_restarts_and_takes_it_along() {
    let scratch = Scratch::new("file-system");
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, nid) = node(&runtime);
    let (address, directories) = file_system(&scratch, nid);
    let (client, own) = node(&runtime);

    let serving = serve(&server, nid, directories.clone());
    let names = serving.devices().all().into_iter().map(|device| device.name);
    assert!(names.eq(["MGS", "lv-MDT0000", "lv-OST0000"]));
    let mut known = session(&client, own);
    let (mdt, ost) = connect(&mut known, &address);
    let (parent, child) = (root(&known, mdt), new_fid(&known, mdt));
    assert_eq!(lookup(&known, mdt, parent), Err(Errno::ENOENT));
    let (handle, made) = create(&known, mdt, parent, child);
    ask(&known, ost, object(&OST_WRITE, made, b"what was written", 16));
    close(&known, mdt, (child, handle));
    drop(known);
    serving.stop();

    let serving = serve(&server, nid, directories.clone());
    let mut known = session(&client, own);
    let (mdt, ost) = connect(&mut known, &address);
    assert_eq!((lookup(&known, mdt, parent), size(&known, ost, made)), (Ok(child), Ok(16)));
    let gone = Unlink { child, ..Unlink::default() };
    let message = Message::request(&REINT_UNLINK)
        .with(&REINT, &record(ReintOp::UNLINK, parent, ReintChange::Unlink(gone)))
        .with(&NAME, &name("file"));
    ask(&known, mdt, message);
    assert_eq!(lookup(&known, mdt, parent), Err(Errno::ENOENT));
    let begun = Instant::now();
    while size(&known, ost, made) != Err(Errno::ENOENT) {
        assert!(begun.elapsed() < TIMEOUT, "the object of a removed file stays");
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

#[test]
fn a_directory_that_would_get_a_name_in_itself_is_refused_and_others_go_on() {
    let scratch = Scratch::new("into-itself");
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, nid) = node(&runtime);
    let (address, directories) = file_system(&scratch, nid);
    let (client, own) = node(&runtime);
    let serving = serve(&server, nid, directories);
    let mut known = session(&client, own);
    let (mdt, _) = connect(&mut known, &address);
    let (top, first) = (root(&known, mdt), new_fid(&known, mdt));
    let below = |oid| Fid { oid, ..first };
    let make = |parent, child, text: &str, mode| {
        let new = Create { child, mode, ..Create::default() };
        Message::request(&REINT_CREATE)
            .with(&REINT, &record(ReintOp::CREATE, parent, ReintChange::Create(new)))
            .with(&NAME, &name(text))
    };
    let link = |file, parent| {
        let change = ReintChange::Link(Link { parent, ..Link::default() });
        Message::request(&REINT_LINK)
            .with(&REINT, &record(ReintOp::LINK, file, change))
            .with(&NAME, &name("more"))
    };
    let rename = |(source, old): (Fid, &str), (target, new): (Fid, &str)| {
        let change = ReintChange::Rename(Rename { target, ..Rename::default() });
        Message::request(&REINT_RENAME)
            .with(&REINT, &record(ReintOp::RENAME, source, change))
            .with(&NAME, &name(old))
            .with(&TARGET_NAME, &name(new))
    };
    let (outer, inner, file) = (below(2), below(3), below(4));
    ask(&known, mdt, make(top, outer, "outer", 0o040_755));
    ask(&known, mdt, make(outer, inner, "inner", 0o040_755));
    ask(&known, mdt, make(top, file, "file", 0o100_644));
    let fails = |message| {
        let answer = known.call(mdt, Request::new(message, 4096));
        answer.map_or_else(|errno| errno, |reply| reply.body.status.errno().unwrap())
    };
    for (fid, parent) in [(outer, outer), (outer, inner), (inner, outer), (file, file)] {
        assert_eq!(fails(link(fid, parent)), Errno::EPERM, "{fid} {parent}");
    }
    assert_eq!(fails(link(file, below(9))), Errno::ENOENT);
    for target in [outer, inner] {
        assert_eq!(fails(rename((top, "outer"), (target, "new"))), Errno::EINVAL);
    }
    assert_eq!(fails(rename((outer, "inner"), (top, "outer"))), Errno::ENOTEMPTY);
    assert_eq!(fails(rename((top, "file"), (file, "new"))), Errno::ENOTDIR);
    // Nothing of all that is left locked.
    ask(&known, mdt, link(file, inner));
    ask(&known, mdt, rename((inner, "more"), (outer, "more")));
    drop(known);
    serving.stop();
    client.stop();
    server.stop();
}

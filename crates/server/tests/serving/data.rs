//! Data on the MDT: under locks, over a restart, until their file goes.

use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::{Address, Session};
use fulmar_lustre_wire::format::{
    ENQUEUE_DOM, ENQUEUE_GETATTR, ENQUEUE_OPEN, INLINE_DATA, INTENT, LOCK_REPLY, LOCK_REQUEST,
    MDT_BODY, NAME, OST_LVB, OST_READ, OST_WRITE, REINT, REINT_UNLINK, SHORT_IO,
};
use fulmar_lustre_wire::layout::{
    Component, ComponentFlags, CompositeHeader, CompositeMd, Layout, LayoutMagic, Pattern,
};
use fulmar_lustre_wire::ldlm::{
    InodeBits, Intent, IntentOps, LockMode, LockReply, LockRequest, OstLvb,
};
use fulmar_lustre_wire::mdt::{
    Create, MdtBody, OpenFlags, ReintChange, ReintOp, SplitOpenFlags, Unlink, Valid,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::OstId;
use fulmar_lustre_wire::{Content, Fid, Handle, Status, portal};
use fulmar_net::Runtime;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, TargetKind};
use fulmar_server::TargetLabel;

use crate::layout::{create, lock_request, wanted};
use crate::mdt::{close, name, new_fid, record, root};
use crate::ost::object;
use crate::rig::{Scratch, TIMEOUT, ask, node, serve, session};

const MIB: u64 = 1 << 20;
const DATA: &[u8] = b"what was written";

/// A layout of which 1 MiB is on the MDT, and nothing else.
fn on_mdt() -> Vec<u8> {
    let header = CompositeHeader::new(0);
    let mut layout = wanted(LayoutMagic::LOV_V1, 0);
    (layout.header.pattern, layout.header.stripe_size) = (Pattern::MDT, MIB as u32);
    let component = Component { end: MIB, ..Component::default() };
    CompositeMd::new(header, vec![(component, layout)]).to_bytes()
}

/// Waits until the file system has an MDT, and connects to it.
fn connect(session: &mut Session, address: &Address) -> ImportId {
    let mgs = session.connect_mgs(address).unwrap();
    let begun = Instant::now();
    loop {
        match session.file_system(mgs, address) {
            Ok(found) if !found.mdts.is_empty() => {
                return session.connect_as(Default::default(), &found.mdts[0]).unwrap();
            }
            other => assert!(begun.elapsed() < TIMEOUT, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends a request about data, as clients do.
fn io(session: &Session, mdt: ImportId, message: Message<'static>) -> Box<Message<'static>> {
    session.call(mdt, Request::new(message, 64 << 10).at(portal::MDS_IO)).unwrap()
}

fn enqueue(session: &Session, mdt: ImportId, lock: &LockRequest) -> (Status, LockReply, OstLvb) {
    let reply = ask(session, mdt, Message::request(&ENQUEUE_DOM).with(&LOCK_REQUEST, lock));
    (reply.body.status, reply.require(&LOCK_REPLY).unwrap(), reply.require(&OST_LVB).unwrap())
}

/// Opens the file to read it. Returns what the reply says of it, with its data.
fn open(session: &Session, mdt: ImportId, parent: Fid) -> (LockReply, MdtBody, Vec<u8>) {
    let flags = SplitOpenFlags(OpenFlags::READ);
    let record =
        record(ReintOp::OPEN, parent, ReintChange::Create(Create { flags, ..Create::default() }));
    let mut message = Message::request(&ENQUEUE_OPEN)
        .with(&LOCK_REQUEST, &lock_request((parent, LockMode::CR, InodeBits::LOOKUP), Handle(0)))
        .with(&INTENT, &Intent { ops: IntentOps::OPEN })
        .with(&REINT, &record)
        .with(&NAME, &name("file"));
    message.head.reply_room = 32 << 10;
    let reply = ask(session, mdt, message);
    let data = reply.bytes(&INLINE_DATA).unwrap().to_vec();
    (reply.require(&LOCK_REPLY).unwrap(), reply.require(&MDT_BODY).unwrap(), data)
}

#[test]
fn a_file_keeps_its_data_on_the_mdt() {
    let scratch = Scratch::new("data");
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, nid) = node(&runtime);
    let address: Address = format!("{nid}:/lv").parse().unwrap();
    let directory = scratch.0.join("mdt");
    let label = TargetLabel { kind: TargetKind::Mdt, index: 0, address: address.clone() };
    fulmar_server::format_both(&directory, &label).unwrap();
    let (client, own) = node(&runtime);

    let serving = serve(&server, nid, vec![directory.clone()]);
    let mut writer = session(&client, own);
    let mdt = connect(&mut writer, &address);
    let (parent, child) = (root(&writer, mdt), new_fid(&writer, mdt));
    let (handle, layout, _) = create(&writer, mdt, (parent, child, "file"), &on_mdt()).unwrap();
    let Layout::Composite(layout) = layout else { panic!("{layout:?}") };
    assert_eq!(layout.components[0].flags, ComponentFlags::INIT);
    let whole = |mode, bits| lock_request((child, mode, bits), Handle(0));
    let plain = LockRequest {
        flags: fulmar_lustre_wire::ldlm::LockFlags::NONE,
        ..whole(LockMode::PW, InodeBits::DOM)
    };
    let (status, lock, lvb) = enqueue(&writer, mdt, &plain);
    assert_eq!((status, lock.lock.granted, lvb.size), (Status::OK, LockMode::PW, 0));
    let written = io(&writer, mdt, object(&OST_WRITE, OstId::Fid(child), DATA, DATA.len() as u32));
    assert!(written.body.transno > 0);
    close(&writer, mdt, (child, handle));
    drop(writer);
    serving.stop();

    let serving = serve(&server, nid, vec![directory.clone()]);
    let mut reader = session(&client, own);
    let mdt = connect(&mut reader, &address);
    let (lock, body, inline) = open(&reader, mdt, parent);
    let bits = lock.lock.policy.inodebits().bits;
    assert!(bits.has(InodeBits::DOM) && bits.has(InodeBits::LAYOUT), "{bits:?}");
    assert!(body.valid.has(Valid::DOM_SIZE));
    assert_eq!((body.dom_size, &inline[16..]), (DATA.len() as u64, DATA));
    let read = io(&reader, mdt, object(&OST_READ, OstId::Fid(child), &[], 4096));
    assert_eq!(&read.bytes(&SHORT_IO).unwrap()[..DATA.len()], DATA);
    // A glimpse needs nothing of others who read.
    let (status, lock, lvb) = enqueue(&reader, mdt, &whole(LockMode::PR, InodeBits::DOM));
    assert_eq!((status, lock.lock.granted), (Status::OK, LockMode::PR));
    assert_eq!((lvb.size, lvb.blocks), (DATA.len() as u64, 8));
    close(&reader, mdt, (child, body.open_handle));

    let gone = ReintChange::Unlink(Unlink { child, ..Unlink::default() });
    let unlink = Message::request(&REINT_UNLINK)
        .with(&REINT, &record(ReintOp::UNLINK, parent, gone))
        .with(&NAME, &name("file"));
    drop(reader);
    let mut last = session(&client, own);
    let mdt = connect(&mut last, &address);
    ask(&last, mdt, unlink);
    let late = object(&OST_READ, OstId::Fid(child), &[], 4096);
    let late = last.call(mdt, Request::new(late, 64 << 10).at(portal::MDS_IO));
    assert_eq!(late.unwrap_err(), Errno::ENOENT);
    drop(last);
    serving.stop();
    for part in fulmar_server::parts_of(&directory) {
        let (_, report) = fulmar_server::verify(&part).unwrap();
        assert_eq!((report.objects, report.damage), (0, vec![]));
    }
    client.stop();
    server.stop();
}

#[test]
fn a_lock_on_data_comes_with_a_lookup_only_if_there_are_data() {
    let scratch = Scratch::new("lookup");
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, nid) = node(&runtime);
    let address: Address = format!("{nid}:/lv").parse().unwrap();
    let directory = scratch.0.join("mdt");
    let label = TargetLabel { kind: TargetKind::Mdt, index: 0, address: address.clone() };
    fulmar_server::format_both(&directory, &label).unwrap();
    let (client, own) = node(&runtime);
    let serving = serve(&server, nid, vec![directory]);
    let mut known = session(&client, own);
    let mdt = connect(&mut known, &address);
    let (parent, child) = (root(&known, mdt), new_fid(&known, mdt));
    let (handle, _, _) = create(&known, mdt, (parent, child, "file"), &on_mdt()).unwrap();
    close(&known, mdt, (child, handle));
    let lookup = |title: &str| {
        let body =
            MdtBody { fid: parent, valid: Valid::FLEASIZE, ea_size: 4096, ..MdtBody::default() };
        let lock = lock_request((parent, LockMode::CR, InodeBits::UPDATE), Handle(0));
        let message = Message::request(&ENQUEUE_GETATTR)
            .with(&LOCK_REQUEST, &lock)
            .with(&INTENT, &Intent { ops: IntentOps::GETATTR })
            .with(&MDT_BODY, &body)
            .with(&NAME, &name(title));
        let reply = ask(&known, mdt, message);
        let lock: LockReply = reply.require(&LOCK_REPLY).unwrap();
        let body: MdtBody = reply.require(&MDT_BODY).unwrap();
        (lock.lock.policy.inodebits().bits.has(InodeBits::DOM), body.valid.has(Valid::DOM_SIZE))
    };
    assert_eq!((lookup("file"), lookup(".")), ((true, true), (false, false)));
    drop(known);
    serving.stop();
    client.stop();
    server.stop();
}

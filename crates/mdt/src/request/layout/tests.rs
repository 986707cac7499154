use std::sync::{Arc, Mutex};

use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags2};
use fulmar_lustre_wire::format::{
    CLIENT_UUID, CONNECT_DATA, EA_DATA, ENQUEUE_LAYOUT, ENQUEUE_OPEN, GETATTR, MDS_CONNECT,
    MDS_SWAP_LAYOUTS, MDT_BODY, NAME, REINT, REINT_CREATE, REINT_SETATTR, REINT_SETXATTR,
    REINT_UNLINK, SWAP_LAYOUTS,
};
use fulmar_lustre_wire::layout::{
    Component, ComponentFlags, CompositeHeader, CompositeMd, LayoutMagic, LovHeader, LovMd, Pattern,
};
use fulmar_lustre_wire::ldlm::{LayoutIntent, LayoutIntentFlags};
use fulmar_lustre_wire::mdt::{
    AttrValid, Create, MdtBody, OpenFlags, Reint, ReintChange, ReintHead, ReintOp, SetAttr,
    SetXattr, SplitOpenFlags, SwapLayouts, Unlink, Valid,
};
use fulmar_lustre_wire::message::MessageFlags;
use fulmar_lustre_wire::{Bytes, Content, Handle, Name, Uuid};
use fulmar_store::{Policy, Store, Transaction};
use fulmar_wire::Order;

use super::*;
use crate::Plan;
use crate::objects::{Object, Objects, Owner};
use crate::{Answer, Settings, mode};

const NOW: i64 = 1_795_184_574;
const MIB: u64 = 1 << 20;
const FILE: Fid = Fid { seq: 0x2_0000_0401, oid: 1, version: 0 };
const OTHER: Fid = Fid { oid: 2, ..FILE };
/// The client, and one that knows no layouts with several stripes on an OST.
const CLIENT: Handle = Handle(1);
const OLD_CLIENT: Handle = Handle(2);

/// Objects of two OSTs, and what became of them.
#[derive(Default)]
struct Osts {
    taken: Mutex<u32>,
    used: Mutex<Vec<Object>>,
    destroyed: Mutex<Vec<Object>>,
}

impl Objects for Osts {
    fn take(&self, plan: &Plan) -> Result<Vec<Object>, Errno> {
        let mut taken = self.taken.lock().unwrap();
        let count = if plan.is_overstriped { plan.stripe_count } else { plan.stripe_count.min(2) };
        let object = |at| {
            *taken += 1;
            (u32::from(at % 2), Fid { seq: 0x2_4000_0400, oid: *taken, version: 0 })
        };
        Ok((0..count).map(object).collect())
    }

    fn used(&self, _: &mut Transaction<'_>, objects: &[Object]) {
        self.used.lock().unwrap().extend(objects);
    }

    fn destroy(&self, _: &mut Transaction<'_>, objects: &[Object]) {
        self.destroyed.lock().unwrap().extend(objects);
    }

    fn set_owner(&self, _: &mut Transaction<'_>, _: &[Object], _: Owner) {}
}

struct Rig {
    mdt: Mdt,
    osts: Arc<Osts>,
    xid: u64,
}

impl Rig {
    fn new() -> Self {
        let store = Arc::new(Store::memory(b"MDT", Policy::default()));
        let osts = Arc::new(Osts::default());
        let mdt = Mdt::start(store, Settings::default(), osts.clone(), NOW).unwrap();
        let mut this = Self { mdt, osts, xid: 0x6b00_5767_0000_0000 };
        let flags = ConnectFlags::FID
            .with(ConnectFlags::IBITS)
            .with(ConnectFlags::LAYOUTLOCK)
            .with(ConnectFlags::FLAGS2);
        for (export, flags2) in
            [(CLIENT, ConnectFlags2::OVERSTRIPING), (OLD_CLIENT, ConnectFlags2::NONE)]
        {
            let asked = ConnectData { flags, flags2, ..ConnectData::default() };
            let request = Message::request(&MDS_CONNECT)
                .with(&CLIENT_UUID, &Uuid::new(&format!("client{}", export.0)).unwrap())
                .with(&CONNECT_DATA, &asked);
            this.send(export, &request, |mdt, call| mdt.execute(call)).unwrap();
        }
        this
    }

    fn send<T>(
        &mut self,
        export: Handle,
        request: &Message<'_>,
        execute: impl FnOnce(&Mdt, &Call<'_>) -> T,
    ) -> T {
        self.xid += 128;
        let (xid, nid) = (self.xid, Nid::LOOPBACK);
        let call = Call { export, nid, xid, now: NOW, nanos: 0, message: request };
        execute(&self.mdt, &call)
    }

    fn open(&mut self, request: &Message<'_>) -> IntentReply {
        self.send(CLIENT, request, |mdt, call| mdt.open(call))
    }

    fn intent(&mut self, request: &Message<'_>) -> IntentReply {
        self.send(CLIENT, request, |mdt, call| mdt.layout_intent(call, FILE))
    }

    fn reint(&mut self, request: &Message<'_>) -> Result<(), Errno> {
        let Answer { reply, .. } = self.send(CLIENT, request, |mdt, call| mdt.reint(call))?;
        reply.body.status.errno().map_or(Ok(()), Err)
    }

    fn layout(&self, fid: Fid) -> Vec<u8> {
        self.mdt.inode(fid).unwrap().extra(Extra::Layout).to_vec()
    }
}

fn wanted(stripe_count: u16, pattern: Pattern) -> LovMd {
    let header = LovHeader {
        magic: LayoutMagic::LOV_V1,
        pattern,
        object: 0,
        seq: 0,
        stripe_size: 0,
        stripe_count,
        generation: 0xffff,
    };
    LovMd { header, pool: None, objects: vec![], rest: Bytes::default() }
}

fn composite(parts: Vec<(Component, LovMd)>) -> Vec<u8> {
    let header = CompositeHeader::new(0);
    CompositeMd::new(header, parts).to_bytes()
}

/// One stripe up to 1 MiB, and two behind it.
fn growing() -> Vec<u8> {
    let first = Component { end: MIB, ..Component::default() };
    let second = Component { start: MIB, end: u64::MAX, ..Component::default() };
    composite(vec![(first, wanted(1, Pattern::NONE)), (second, wanted(2, Pattern::NONE))])
}

fn record(op: ReintOp, fid: Fid, change: ReintChange) -> Reint {
    let groups = ReintHead { suppgid1: u32::MAX, suppgid2: u32::MAX, ..ReintHead::default() };
    Reint::new(ReintHead { op, fid, capability: u32::MAX, ..groups }, change).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Creates a file and opens it.
fn creation((parent, child, title): (Fid, Fid, &str), layout: &[u8]) -> Message<'static> {
    let flags = OpenFlags::CREAT | OpenFlags::WRITE;
    let flags = if layout.is_empty() { flags } else { flags | OpenFlags::HAS_EA };
    let new = Create { child, mode: 0o100_644, flags: SplitOpenFlags(flags), ..Create::default() };
    Message::request(&ENQUEUE_OPEN)
        .with(&REINT, &record(ReintOp::OPEN, parent, ReintChange::Create(new)))
        .with(&NAME, &name(title))
        .with_bytes(&NEW_LAYOUT, layout.to_vec())
}

fn write_to(end: u64) -> Message<'static> {
    let op = LayoutIntentOp::WRITE;
    let intent = LayoutIntent { op, flags: LayoutIntentFlags::NONE, start: 0, end };
    Message::request(&ENQUEUE_LAYOUT).with(&LAYOUT_INTENT, &intent).with_bytes(&NEW_LAYOUT, vec![])
}

fn attribute(fid: Fid, title: &str, value: Vec<u8>) -> Message<'static> {
    let set = SetXattr { valid: Valid::FLXATTR, time: NOW, ..SetXattr::default() };
    Message::request(&REINT_SETXATTR)
        .with(&REINT, &record(ReintOp::SETXATTR, fid, ReintChange::SetXattr(set)))
        .with(&NAME, &name(title))
        .with_bytes(&EA_DATA, value)
}

/// Makes a request a repetition after a restart, with the layout that the client got as it keeps it.
fn repetition(request: Message<'static>, reply: &Message<'_>) -> Message<'static> {
    let kept = CompositeMd::decode(reply.bytes(&LAYOUT).unwrap(), Order::Little).unwrap();
    let part = |component: &Component| {
        let mut layout = kept.layout(component).unwrap();
        layout.header.generation = 0xffff;
        (*component, layout)
    };
    let parts = kept.components.iter().map(part).collect();
    let layout = CompositeMd::new(kept.header, parts).to_bytes();
    let mut request = request.with_bytes(&NEW_LAYOUT, layout);
    request.body.flags = request.body.flags | MessageFlags::REPLAY;
    request.body.transno = reply.body.transno;
    request
}

#[test]
fn a_client_repeats_the_layouts_that_a_crash_has_lost() {
    let mut rig = Rig::new();
    let create = creation((Fid::ROOT, FILE, "file"), &growing());
    let created = rig.open(&create).reply;
    let written = rig.intent(&write_to(2 * MIB)).reply;
    let layout = rig.layout(FILE);
    assert_eq!(written.bytes(&LAYOUT), Some(&layout[..]));
    assert_eq!((objects_of(&layout).len(), written.body.transno != 0), (3, true));

    let mut again = Rig::new();
    // Others would get the same numbers now.
    *again.osts.taken.lock().unwrap() = 100;
    let flags = OpenFlags::CREAT | OpenFlags::WRITE | OpenFlags::HAS_OBJS;
    let new =
        Create { child: FILE, mode: 0o100_644, flags: SplitOpenFlags(flags), ..Create::default() };
    let create = create.with(&REINT, &record(ReintOp::OPEN, Fid::ROOT, ReintChange::Create(new)));
    assert_eq!(again.open(&repetition(create, &created)).result, Ok(()));
    assert_eq!(again.layout(FILE), created.bytes(&LAYOUT).unwrap());
    let repeated = repetition(write_to(2 * MIB), &written);
    let done = again.intent(&repeated);
    assert_eq!((done.result, done.reply.body.transno), (Ok(()), written.body.transno));
    assert_eq!(again.layout(FILE), layout);
    assert!(
        objects_of(&layout).iter().all(|object| again.osts.used.lock().unwrap().contains(object))
    );
    // What is there already is not done again.
    let done = again.intent(&repeated);
    assert_eq!((done.result, done.reply.body.transno), (Ok(()), written.body.transno));
    assert_eq!(again.layout(FILE), layout);
}

#[test]
fn a_client_repeats_the_creation_of_a_file_without_a_layout() {
    let mut rig = Rig::new();
    let flags = SplitOpenFlags(OpenFlags::CREAT | OpenFlags::READ);
    let new = Create { child: FILE, mode: 0o100_644, flags, ..Create::default() };
    let mut request = Message::request(&ENQUEUE_OPEN)
        .with(&REINT, &record(ReintOp::OPEN, Fid::ROOT, ReintChange::Create(new)))
        .with(&NAME, &name("file"))
        // The room for a layout that did not come. Spec: mdt-ost §8.3.
        .with_bytes(&NEW_LAYOUT, vec![0; 128]);
    request.body.flags = request.body.flags | MessageFlags::REPLAY;
    request.body.transno = 1 << 40;
    assert_eq!(rig.open(&request).result, Ok(()));
    assert_eq!(rig.layout(FILE), b"");
}

/// A kernel client that is not told that nothing had the name looks for an inode under it, and crashes.
#[test]
fn a_file_without_a_name_is_new_like_any_other() {
    let mut rig = Rig::new();
    let flags = OpenFlags::CREAT | OpenFlags::WRITE | OpenFlags::VOLATILE;
    let flags = SplitOpenFlags(flags);
    let new = Create { child: FILE, mode: 0o100_600, flags, ..Create::default() };
    let request = Message::request(&ENQUEUE_OPEN)
        .with(&REINT, &record(ReintOp::OPEN, Fid::ROOT, ReintChange::Create(new)))
        .with(&NAME, &name("\u{c}VOLATILE:0000:00000000:"))
        .with_bytes(&NEW_LAYOUT, vec![]);
    let done = rig.open(&request);
    let looked_up = Disposition::IT_EXECD | Disposition::LOOKUP_EXECD | Disposition::LOOKUP_NEG;
    let opened = Disposition::OPEN_CREATE | Disposition::OPEN_OPEN;
    assert_eq!((done.result, done.disposition), (Ok(()), looked_up | opened));
}

#[test]
fn an_intent_gives_objects_once_and_only_to_components() {
    let mut rig = Rig::new();
    rig.open(&creation((Fid::ROOT, FILE, "file"), &growing()));
    let before = rig.layout(FILE);
    let done = rig.intent(&write_to(MIB));
    assert_eq!((done.result, done.reply.body.transno), (Ok(()), 0));
    assert_eq!(done.reply.bytes(&LAYOUT), Some(&before[..]));
    rig.intent(&write_to(MIB + 1));
    let whole = rig.layout(FILE);
    let done = rig.intent(&write_to(u64::MAX));
    assert_eq!((done.reply.bytes(&LAYOUT), rig.layout(FILE)), (Some(&whole[..]), whole.clone()));
    rig.open(&creation((Fid::ROOT, OTHER, "other"), b""));
    let done = rig.send(CLIENT, &write_to(1), |mdt, call| mdt.layout_intent(call, OTHER));
    assert_eq!(done.result, Err(Errno::EINVAL));
    let done = rig.send(CLIENT, &write_to(1), |mdt, call| mdt.layout_intent(call, Fid::ROOT));
    assert_eq!(done.result, Err(Errno::EINVAL));
}

#[test]
fn removed_components_and_removed_files_lose_their_objects() {
    let mut rig = Rig::new();
    let opened = rig.open(&creation((Fid::ROOT, FILE, "file"), &growing())).reply;
    rig.intent(&write_to(u64::MAX));
    let all = objects_of(&rig.layout(FILE));
    let second = Component { id: 2, ..Component::default() };
    let second = composite(vec![(second, wanted(0, Pattern::NONE))]);
    let delete = attribute(FILE, "lustre.lov.del", second);
    assert_eq!(rig.reint(&delete), Ok(()));
    assert_eq!(*rig.osts.destroyed.lock().unwrap(), all[1..]);
    assert_eq!(objects_of(&rig.layout(FILE)), all[..1]);
    assert_eq!(rig.reint(&delete), Err(Errno::EINVAL));
    assert_eq!(rig.reint(&attribute(FILE, "lustre.lov.what", growing())), Err(Errno::EINVAL));
    let add = attribute(Fid::ROOT, "lustre.lov.add", growing());
    assert_eq!(rig.reint(&add), Err(Errno::EOPNOTSUPP));
    let change = ReintChange::Unlink(Unlink { child: FILE, ..Unlink::default() });
    let unlink = Message::request(&REINT_UNLINK)
        .with(&REINT, &record(ReintOp::UNLINK, Fid::ROOT, change))
        .with(&NAME, &name("file"));
    assert_eq!(rig.reint(&unlink), Ok(()));
    let body: MdtBody = opened.require(&MDT_BODY).unwrap();
    assert_ne!(body.open_handle, Handle(0));
    rig.mdt.forget(CLIENT, NOW).unwrap();
    let mut destroyed = rig.osts.destroyed.lock().unwrap().clone();
    destroyed.sort_unstable_by_key(|(_, object)| object.oid);
    assert_eq!(destroyed, all);
}

#[test]
fn a_default_with_components_goes_to_new_files_and_directories() {
    let mut rig = Rig::new();
    let mkdir = |parent, child, title| {
        let new = Create { child, mode: mode::DIRECTORY | 0o755, ..Create::default() };
        Message::request(&REINT_CREATE)
            .with(&REINT, &record(ReintOp::CREATE, parent, ReintChange::Create(new)))
            .with(&NAME, &name(title))
    };
    let [outer, inner] = [10, 11].map(|oid| Fid { oid, ..FILE });
    assert_eq!(rig.reint(&mkdir(Fid::ROOT, outer, "outer")), Ok(()));
    let set = |layout: Vec<u8>| {
        let change = ReintChange::SetAttr(SetAttr::default());
        Message::request(&REINT_SETATTR)
            .with(&REINT, &record(ReintOp::SETATTR, outer, change))
            .with_bytes(&NEW_LAYOUT, layout)
    };
    assert_eq!(rig.reint(&set(growing())), Ok(()));
    assert_eq!(rig.reint(&mkdir(outer, inner, "inner")), Ok(()));
    assert_eq!(rig.layout(inner), rig.layout(outer));
    let opened = rig.open(&creation((inner, FILE, "file"), b""));
    assert_eq!(opened.result, Ok(()));
    let layout = CompositeMd::decode(&rig.layout(FILE), Order::Little).unwrap();
    // The client knows from now on how much room it needs.
    let body: MdtBody = opened.reply.require(&MDT_BODY).unwrap();
    assert_eq!((body.ea_size, body.max_md_size), (layout.header.size, layout.header.size));
    let flags: Vec<_> = layout.components.iter().map(|component| component.flags).collect();
    assert_eq!(flags, [ComponentFlags::INIT, ComponentFlags::NONE]);
    let nothing = wanted(0, Pattern::NONE).to_bytes();
    assert_eq!(rig.reint(&set(nothing)), Ok(()));
    assert_eq!(rig.layout(outer), b"");
    assert_eq!(rig.reint(&set(b"what".to_vec())), Err(Errno::EINVAL));
}

#[test]
fn a_client_does_not_get_layouts_that_it_does_not_know() {
    let mut rig = Rig::new();
    let wide = wanted(4, Pattern::RAID0 | Pattern::OVERSTRIPING).to_bytes();
    assert_eq!(rig.open(&creation((Fid::ROOT, FILE, "file"), &wide)).result, Ok(()));
    assert_eq!(objects_of(&rig.layout(FILE)).len(), 4);
    let body = MdtBody { fid: FILE, valid: Valid::FLEASIZE, ea_size: 4096, ..MdtBody::default() };
    let getattr = Message::request(&GETATTR).with(&MDT_BODY, &body);
    for (export, expected) in [(CLIENT, Ok(())), (OLD_CLIENT, Err(Errno::EOPNOTSUPP))] {
        let answer = rig.send(export, &getattr, |mdt, call| mdt.execute(call));
        assert_eq!(answer.map(drop), expected);
        let flags = SplitOpenFlags(OpenFlags::READ);
        let open = Create { child: FILE, flags, ..Create::default() };
        let open = Message::request(&ENQUEUE_OPEN)
            .with(&REINT, &record(ReintOp::OPEN, Fid::ROOT, ReintChange::Create(open)))
            .with(&NAME, &name("file"));
        let done = rig.send(export, &open, |mdt, call| mdt.open(call));
        assert_eq!(done.result, expected);
    }
}

fn swap(rig: &mut Rig, first: Fid, second: Fid) -> Result<(), Errno> {
    let body = MdtBody {
        fid: first,
        child: second,
        capability: u32::MAX,
        suppgid: u32::MAX,
        ..MdtBody::default()
    };
    let request = Message::request(&MDS_SWAP_LAYOUTS)
        .with(&MDT_BODY, &body)
        .with(&SWAP_LAYOUTS, &SwapLayouts::default());
    rig.send(CLIENT, &request, |mdt, call| mdt.execute(call)).map(drop)
}

#[test]
fn files_exchange_their_layouts() {
    let mut rig = Rig::new();
    rig.open(&creation((Fid::ROOT, FILE, "file"), &growing()));
    rig.intent(&write_to(u64::MAX));
    rig.open(&creation((Fid::ROOT, OTHER, "other"), &wanted(2, Pattern::NONE).to_bytes()));
    let before = [FILE, OTHER].map(|fid| rig.layout(fid));
    assert_eq!(swap(&mut rig, FILE, OTHER), Ok(()));
    let after = [FILE, OTHER].map(|fid| rig.layout(fid));
    assert_eq!(objects_of(&after[0]), objects_of(&before[1]));
    assert_eq!(objects_of(&after[1]), objects_of(&before[0]));
    let plain = LovMd::decode(&after[0], Order::Little).unwrap();
    let of_parts = CompositeMd::decode(&after[1], Order::Little).unwrap();
    let generation = CompositeMd::decode(&before[0], Order::Little).unwrap().header.generation + 1;
    assert_eq!(u32::from(plain.header.generation), generation);
    assert_eq!(of_parts.header.generation, generation);
    // Each layout names the file that has it.
    assert_eq!(plain.header.object, u64::from(FILE.oid));
    for component in &of_parts.components {
        assert_eq!(of_parts.layout(component).unwrap().header.object, u64::from(OTHER.oid));
    }
    assert!(rig.osts.destroyed.lock().unwrap().is_empty());
}

#[test]
fn a_file_without_a_layout_takes_that_of_another() {
    let mut rig = Rig::new();
    rig.open(&creation((Fid::ROOT, FILE, "file"), b""));
    let flags = SplitOpenFlags(OpenFlags::CREAT | OpenFlags::READ);
    let new = Create { child: OTHER, mode: 0o100_644, flags, ..Create::default() };
    let create = Message::request(&ENQUEUE_OPEN)
        .with(&REINT, &record(ReintOp::OPEN, Fid::ROOT, ReintChange::Create(new)))
        .with(&NAME, &name("other"))
        .with_bytes(&NEW_LAYOUT, vec![]);
    assert_eq!(rig.open(&create).result, Ok(()));
    let objects = objects_of(&rig.layout(FILE));
    assert_eq!(swap(&mut rig, FILE, OTHER), Ok(()));
    assert_eq!((rig.layout(FILE), objects_of(&rig.layout(OTHER))), (vec![], objects));
}

#[test]
fn only_files_of_one_owner_exchange_their_layouts() {
    let mut rig = Rig::new();
    rig.open(&creation((Fid::ROOT, FILE, "file"), b""));
    rig.open(&creation((Fid::ROOT, OTHER, "other"), b""));
    let layout = rig.layout(FILE);
    assert_eq!(swap(&mut rig, FILE, FILE), Ok(()));
    assert_eq!(swap(&mut rig, FILE, Fid { oid: 77, ..FILE }), Err(Errno::ENOENT));
    assert_eq!(swap(&mut rig, FILE, Fid::ROOT), Err(Errno::ENOTDIR));
    let owner = SetAttr { valid: AttrValid::UID, uid: 1000, ..SetAttr::default() };
    let chown = Message::request(&REINT_SETATTR)
        .with(&REINT, &record(ReintOp::SETATTR, OTHER, ReintChange::SetAttr(owner)))
        .with_bytes(&NEW_LAYOUT, vec![]);
    assert_eq!(rig.reint(&chown), Ok(()));
    assert_eq!(swap(&mut rig, FILE, OTHER), Err(Errno::EPERM));
    assert_eq!(rig.layout(FILE), layout);
}

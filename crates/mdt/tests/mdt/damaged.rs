//! Damaged and senseless requests: each is answered or refused, and all adds up afterwards.

use std::collections::BTreeSet;

use fulmar_base::{Errno, Rng};
use fulmar_lustre_wire::fld::FldOp;
use fulmar_lustre_wire::format::{
    ENQUEUE_GETXATTR, ENQUEUE_LAYOUT, FID2PATH_KEY, FLD_OP, FLD_QUERY, FLD_READ, GET_ROOT,
    GETXATTR, HSM_STATE_SET, INTENT, LAYOUT_INTENT, LOCK_REQUEST, MDS_FID2PATH, MDS_HSM_STATE_GET,
    MDS_HSM_STATE_SET, MDS_STATFS, MDS_SYNC, MDT_BODY, NAME, NEW_LAYOUT, SEQ_OP, SEQ_QUERY,
    SEQ_RANGE, VALUE_LEN,
};
use fulmar_lustre_wire::ldlm::{
    Intent, IntentOps, LayoutIntent, LayoutIntentFlags, LayoutIntentOp,
};
use fulmar_lustre_wire::mdt::{
    AttrValid, Fid2Path, Fid2PathKey, HsmStateSet, MdtBody, OpenFlags, SetAttr, Valid, XattrFlags,
};
use fulmar_lustre_wire::message::{Container, Message, MessageFlags};
use fulmar_lustre_wire::seq::{SeqOp, SeqRange};
use fulmar_lustre_wire::{Fid, Handle, Text};

use crate::requests::{self, ROOT, SEQ, USER, fid, name};
use crate::rig::{NOW, Rig, call};

/// How many requests are played.
const ROUNDS: usize = 30_000;
const NAMES: [&str; 8] = ["a", "b", "c", ".", "..", "", "/", ".lustre"];
const XATTRS: [&str; 6] = [
    "user.a",
    "trusted.a",
    "system.posix_acl_access",
    "system.posix_acl_default",
    "lustre.lov",
    "lustre.lov.add",
];
/// The place of what follows the body of a message.
const CONTENT: u64 = 200;

fn one<T: Clone>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.below(all.len() as u64) as usize].clone()
}

fn any_fid(rng: &mut Rng) -> Fid {
    match rng.below(6) {
        0 => Fid::ROOT,
        1 => Fid::DOT_LUSTRE,
        2 => Fid { seq: rng.u64(), oid: rng.below(4) as u32, version: rng.below(2) as u32 },
        _ => fid(rng.between(1, 8) as u32),
    }
}

fn bytes(rng: &mut Rng) -> Vec<u8> {
    let len = rng.below(80);
    let magic = one(rng, &[2, 0x0bd1_0bd0_u32, 0x0bd3_0bd0, 0x0bd6_0bd0, 0x0cd4_0cd0]);
    let mut bytes = magic.to_le_bytes().to_vec();
    bytes.extend((0..len).map(|_| one(rng, &[0, 0, 1, 0xff])));
    bytes
}

/// Returns a change.
fn change(rng: &mut Rng) -> Message<'static> {
    let who = one(rng, &[ROOT, USER]);
    let (a, b) = (any_fid(rng), any_fid(rng));
    let (x, y) = (one(rng, &NAMES), one(rng, &NAMES));
    match rng.below(9) {
        0 => requests::create(&who, (a, x), b, rng.below(1 << 17) as u32),
        1 => requests::mkdir(&who, (a, x), b),
        2 => requests::symlink(&who, (a, x), b, y),
        3 => requests::link(&who, b, (a, x)),
        4 => requests::unlink(&who, (a, x)),
        5 => requests::rmdir(&who, (a, x)),
        6 => requests::rename(&who, (a, x), (b, y)),
        7 => {
            let (valid, size) = (AttrValid(rng.u64() & 0x7_ffff), rng.u64());
            let (mode, projid, mtime) = (rng.u64() as u32, rng.below(3) as u32, size as i64);
            let change = SetAttr { valid, size, mode, projid, mtime, ..SetAttr::default() };
            requests::setattr(&who, a, change)
        }
        _ => {
            let value = (!rng.one_in(3)).then(|| bytes(rng));
            let flags = XattrFlags(rng.below(4) as u32);
            requests::setxattr(&who, a, one(rng, &XATTRS), value.as_deref(), flags)
        }
    }
}

/// Returns an open, or another intent.
fn intent(rng: &mut Rng) -> Message<'static> {
    let (a, b) = (any_fid(rng), any_fid(rng));
    let x = one(rng, &NAMES);
    let with = |format, ops| {
        let request = Message::request(format).with(&LOCK_REQUEST, &requests::lock(a));
        request.with(&INTENT, &Intent { ops })
    };
    match rng.below(6) {
        0 => requests::lookup(&USER, (a, x)),
        1 => {
            let asked = MdtBody { ea_size: 4096, ..requests::body(&ROOT, a, Valid::FLXATTR) };
            with(&ENQUEUE_GETXATTR, IntentOps::GETXATTR).with(&MDT_BODY, &asked)
        }
        2 => {
            let op = LayoutIntentOp(rng.below(12) as u32);
            let (flags, end) = (LayoutIntentFlags::NONE, rng.u64());
            let asked = LayoutIntent { op, flags, start: 0, end };
            with(&ENQUEUE_LAYOUT, IntentOps::LAYOUT).with(&LAYOUT_INTENT, &asked)
        }
        _ => {
            let flags = OpenFlags(rng.u64() & rng.u64() | rng.below(8));
            let flags = if rng.one_in(2) { flags | OpenFlags::CREAT } else { flags };
            let request = requests::open(&one(rng, &[ROOT, USER]), (a, x), b, flags);
            let layout = if rng.one_in(2) { vec![] } else { bytes(rng) };
            request.with_bytes(&NEW_LAYOUT, layout)
        }
    }
}

/// Returns a request that changes nothing, or a close.
fn question(rng: &mut Rng, handles: &[Handle]) -> Message<'static> {
    let a = any_fid(rng);
    let asked = requests::body(&USER, a, Valid(rng.u64()));
    match rng.below(15) {
        0 => requests::getattr(a),
        1 => requests::readpage(a, rng.u64(), rng.below(16_384) as u32),
        2 => requests::getxattr(a, one(rng, &XATTRS), rng.below(100) as u32),
        3 => Message::request(&MDS_SYNC).with(&MDT_BODY, &asked),
        4 => Message::request(&MDS_STATFS).with(&MDT_BODY, &asked),
        5 => Message::request(&GET_ROOT).with(&MDT_BODY, &asked).with(&NAME, &name("a/b")),
        6 => Message::request(&MDS_HSM_STATE_GET).with(&MDT_BODY, &asked),
        7 => {
            let (set, clear, valid) = (rng.u64(), rng.u64(), rng.below(8) as u32);
            let set = HsmStateSet { valid, set, clear, ..HsmStateSet::default() };
            let request = Message::request(&MDS_HSM_STATE_SET).with(&MDT_BODY, &asked);
            request.with(&HSM_STATE_SET, &set)
        }
        8 => Message::request(&GETXATTR).with(&MDT_BODY, &asked),
        9 => {
            let (link, path_len) = (rng.below(3) as u32, rng.below(5000) as u32);
            let question = Fid2Path { fid: a, record: u64::MAX, link, path_len };
            let root = rng.one_in(2).then(|| any_fid(rng));
            let key = Fid2PathKey { name: Text::new("fid2path").unwrap(), question, root };
            let request = Message::request(&MDS_FID2PATH).with(&FID2PATH_KEY, &key);
            request.with(&VALUE_LEN, &(rng.below(5000) as u32))
        }
        10 => {
            let (op, start, end) = (SeqOp(rng.below(3) as u32), rng.u64(), rng.u64());
            let range = SeqRange { start, end, ..SeqRange::default() };
            Message::request(&SEQ_QUERY).with(&SEQ_OP, &op).with(&SEQ_RANGE, &range)
        }
        11 => {
            let start = one(rng, &[0, 1, SEQ, u64::MAX]);
            let range = SeqRange { start, ..SeqRange::default() };
            let request = Message::request(&FLD_QUERY).with(&FLD_OP, &FldOp::LOOKUP);
            request.with(&SEQ_RANGE, &range)
        }
        12 => {
            let range = SeqRange { start: rng.u64(), end: rng.u64(), ..SeqRange::default() };
            Message::request(&FLD_READ).with(&SEQ_RANGE, &range)
        }
        _ => {
            let handle = if handles.is_empty() { Handle(7) } else { one(rng, handles) };
            let valid = AttrValid(rng.u64() & 0x7_ffff);
            let change = SetAttr { valid, size: rng.u64(), mtime: NOW + 1, ..SetAttr::default() };
            requests::close(a, handle, change)
        }
    }
}

/// Damages what follows the body.
fn damage(rng: &mut Rng, bytes: &mut [u8]) {
    let last = bytes.len() as u64 - 1;
    for _ in 0..rng.below(5) {
        if last < CONTENT {
            return;
        }
        let byte = &mut bytes[rng.between(CONTENT, last) as usize];
        *byte = match rng.below(4) {
            0 => 0,
            1 => 0xff,
            2 => byte.wrapping_add(1),
            _ => rng.below(256) as u8,
        };
    }
}

#[test]
fn damaged_requests_are_answered_or_refused() {
    let mut rng = Rng::new(7);
    let mut rig = Rig::new();
    let mut handles: Vec<Handle> = vec![];
    let (mut done, mut refused) = (0, BTreeSet::new());
    for round in 0..ROUNDS {
        let request = match rng.below(3) {
            0 => change(&mut rng),
            1 => intent(&mut rng),
            _ => question(&mut rng, &handles),
        };
        let mut bytes = request.to_bytes();
        damage(&mut rng, &mut bytes);
        if Container::decode(&bytes).is_err() {
            continue;
        }
        let Ok(mut message) = Message::decode(&bytes) else { continue };
        if rng.one_in(10) {
            message.body.flags = message.body.flags | MessageFlags::REPLAY;
            message.body.transno = rig.store.applied() + rng.below(3);
        }
        let xid = rig.next_xid();
        let call = call(rng.between(1, 3), xid, &message);
        match rig.execute(&call).and_then(|reply| reply.result.map(|()| reply)) {
            Ok(reply) => {
                done += 1;
                let body: Option<MdtBody> = reply.message.get(&MDT_BODY).ok().flatten();
                let handle = body.map(|body| body.open_handle).unwrap_or_default();
                handles.extend((handle != Handle(0)).then_some(handle));
            }
            Err(errno) => drop(refused.insert(errno)),
        }
        if round % 100 == 0 {
            rig.store.commit().unwrap();
            rig.mdt.check().unwrap();
        }
        if round % 5000 == 0 {
            rig.mdt.forget(Handle(2), NOW).unwrap();
            rig.connect(2);
        }
    }
    rig.mdt.check().unwrap();
    assert!(done > ROUNDS / 10, "{done}");
    let known = [Errno::EPROTO, Errno::ENOENT, Errno::EACCES, Errno::EINVAL, Errno::ENOTCONN];
    assert!(known.iter().all(|errno| refused.contains(errno)), "{refused:?}");
}

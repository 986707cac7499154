//! Batches: what they return, and where they stop.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{
    BATCH, BATCH_BUFFERS, BATCH_REPLY, ENQUEUE_GETATTR, INTENT, LOCK_REPLY, LOCK_REQUEST,
    MDS_BATCH, MDT_BODY, NAME,
};
use fulmar_lustre_wire::ldlm::{
    InodeBits, InodebitsPolicy, Intent, IntentOps, LockDesc, LockFlags, LockMode, LockRequest,
    LockType, ResourceDesc, ResourceId,
};
use fulmar_lustre_wire::mdt::{BatchBuffer, BatchHeader, BatchReply, BatchRequest, MdtBody, Valid};
use fulmar_lustre_wire::message::{Container, Head, Message};
use fulmar_lustre_wire::{Bytes, Content, Fid, Handle, List, Status, portal};
use fulmar_net::Runtime;
use fulmar_rpc::import::Request;

use crate::mdt::{close, connect, create, name, new_fid, root};
use crate::rig::{Scratch, file_system, node, serve, session};

/// Returns a part: what a name in a directory leads to, and a lock with a handle of the client.
fn part(parent: Fid, text: &str, handle: u64) -> Container<'static> {
    let kind = LockType::IBITS;
    let resource = ResourceDesc { kind, id: ResourceId::of_fid(parent), ..ResourceDesc::default() };
    let (bits, none) = (InodeBits::LOOKUP | InodeBits::UPDATE, InodeBits::NONE);
    let policy = InodebitsPolicy { bits, try_bits: none, gid: 0, initiator: 0 }.into();
    let lock = LockDesc { resource, requested: LockMode::CR, policy, ..LockDesc::default() };
    let handles = vec![Handle(handle), Handle::NONE];
    let lock = LockRequest { flags: LockFlags::HAS_INTENT, count: 0, lock, handles };
    let valid = Valid::GETATTR | Valid::FLID;
    let body = MdtBody { fid: parent, valid, ea_size: 4096, ..MdtBody::default() };
    Message::request(&ENQUEUE_GETATTR)
        .with(&LOCK_REQUEST, &lock)
        .with(&INTENT, &Intent { ops: IntentOps::GETATTR })
        .with(&MDT_BODY, &body)
        .with(&NAME, &name(text))
        .into_part(Head { part: BatchRequest::GETATTR, ..Head::default() })
}

fn header(parts: &[Container<'_>]) -> BatchHeader {
    let mut messages = Vec::new();
    parts.iter().for_each(|part| part.encode(&mut messages));
    let (count, messages) = (parts.len() as u16, Bytes(messages));
    let data = BatchRequest { count, messages, ..BatchRequest::default() }.to_bytes();
    BatchHeader {
        buffers: 1,
        inline_len: data.len() as u32,
        reply_size: 4096,
        requests: u32::from(count),
        data: Bytes(data),
        ..BatchHeader::default()
    }
}

#[test]
fn a_batch_is_executed_up_to_where_it_cannot_go_on() {
    let scratch = Scratch::new("batch");
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, nid) = node(&runtime);
    let (address, directories) = file_system(&scratch, nid);
    let serving = serve(&server, nid, directories);
    let (client, own) = node(&runtime);
    let mut known = session(&client, own);
    let (mdt, _) = connect(&mut known, &address);
    let (parent, child) = (root(&known, mdt), new_fid(&known, mdt));
    let (handle, _) = create(&known, mdt, parent, child);
    close(&known, mdt, (child, handle));

    let ask = |header: &BatchHeader| {
        let message = Message::request(&MDS_BATCH)
            .with(&BATCH, header)
            .with(&BATCH_BUFFERS, &List(vec![BatchBuffer::default()]));
        let reply = known.call(mdt, Request::new(message, 64 << 10).at(portal::OUT))?;
        Ok::<BatchReply, Errno>(reply.require(&BATCH_REPLY).unwrap())
    };
    let count_of_locks = ["ldlm", "namespaces", "mdt-lv-MDT0000_UUID", "lock_count"];
    let locks = || serving.parameters().selected(|name| name == count_of_locks);
    let twice = [part(parent, "file", 0x101), part(parent, "file", 0x102)];
    let done = ask(&header(&twice)).unwrap();
    let mut handles = Vec::new();
    for reply in Message::replies_in(&done, &ENQUEUE_GETATTR).unwrap() {
        let (found, lock) =
            (reply.require(&MDT_BODY).unwrap(), reply.require(&LOCK_REPLY).unwrap());
        assert_eq!((reply.body.status, found.fid), (Status::OK, child));
        assert!(lock.lock.policy.inodebits().bits.has(InodeBits::UPDATE), "{lock:?}");
        handles.push(lock.handle);
    }
    assert!(handles.len() == 2 && handles[0] != handles[1], "{handles:?}");
    let stats = serving.parameters().selected(|name| name == ["mdt", "lv-MDT0000", "md_stats"]);
    assert!(stats[0].1.contains("\ngetattr                             2 samples"), "{stats:?}");

    let before = locks();
    assert_eq!(before.len(), 1);
    let whole = header(&[part(parent, "none", 0x103), part(parent, "file", 0x104)]);
    assert_eq!(ask(&whole).unwrap_err(), Errno::ENOENT);
    let mut other = part(parent, "file", 0x105);
    other.head.part = 2;
    assert_eq!(ask(&header(&[other])).unwrap_err(), Errno::EOPNOTSUPP);
    let one = header(&twice[..1]);
    // Its client does not get to know of the lock, which ends.
    assert_eq!(ask(&BatchHeader { reply_size: 100, ..one.clone() }).unwrap_err(), Errno::EOVERFLOW);
    let far = BatchHeader { inline_len: 0, ..one.clone() };
    let wrong = [
        BatchHeader { inline_len: 1 << 20, ..one.clone() },
        BatchHeader { data: Bytes(one.data.0[..40].to_vec()), inline_len: 40, ..one.clone() },
        BatchHeader { buffers: 0, ..far.clone() },
        BatchHeader { buffers: u32::MAX, ..far },
    ];
    for header in wrong {
        assert_eq!(ask(&header).unwrap_err(), Errno::EPROTO, "{header:?}");
    }
    assert_eq!(locks(), before);
    assert_eq!(ask(&one).unwrap().count, 1);
    drop(known);
    serving.stop();
    client.stop();
    server.stop();
}

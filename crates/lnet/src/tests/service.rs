//! Descriptors of services within the node: their few bytes never leave the machine.

use std::sync::Arc;

use fulmar_base::Payload;

use super::*;

fn room(len: u64) -> Md {
    posted(len, MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE))
}

/// Takes what the services are told.
fn told(lnet: &mut Lnet) -> Vec<(Event, Vec<u8>)> {
    let mut told = Vec::new();
    while let Some(output) = lnet.poll_output() {
        if let Output::Service { event, bytes } = output {
            told.push((event, bytes));
        }
    }
    told
}

#[test]
fn bytes_that_are_put_come_with_the_event_and_too_many_are_dropped() {
    let mut s = Script::acquainted();
    let me = s.lnet.me_attach(PORTAL, catch_all()).unwrap();
    s.lnet.service_attach(s.now, me, room(8), ServiceMemory::Room).unwrap();
    let body =
        Body::Put { ack: Handle::NONE, match_bits: 5, header_data: 0, portal: PORTAL, offset: 0 };
    let rx = s.receive(5, body);
    assert_eq!(s.verdicts(), [(rx, Verdict::Receive(Sink::Inline { len: 5 }))]);
    s.lnet.handle_receive_done(s.now, rx, Ok(b"hello".to_vec()));
    let told = told(&mut s.lnet);
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].0.kind, told[0].0.mlength, &told[0].1[..]),
        (EventKind::Put, 5, &b"hello"[..])
    );
    let rx = s.receive(9, body);
    assert_eq!(s.verdicts(), [(rx, Verdict::Receive(Sink::Discard { len: 9 }))]);
}

#[test]
fn bytes_are_sent_whole_or_as_much_as_was_asked_for() {
    let mut s = Script::acquainted();
    let bytes: Arc<[u8]> = b"0123456789".as_slice().into();
    let md = s.lnet.service_bind(bound(10, 1), ServiceMemory::Bytes(bytes.clone())).unwrap();
    s.lnet.put(s.now, put(md, tcp(2))).unwrap();
    let sent = s.sent_one();
    assert_eq!(sent.payload, Payload::Inline(bytes.clone()));
    s.done(&sent);
    let me = s.lnet.me_attach(PORTAL, catch_all()).unwrap();
    let offered = posted(10, MdOptions::OP_GET.with(MdOptions::MANAGE_REMOTE));
    s.lnet.service_attach(s.now, me, offered, ServiceMemory::Bytes(bytes)).unwrap();
    let reply = Handle { interface: 1, object: 2 };
    s.receive(0, Body::Get { reply, match_bits: 5, portal: PORTAL, offset: 3, sink_len: 4 });
    let sent = s.sent_one();
    assert_eq!(sent.payload, Payload::Inline(b"3456".as_slice().into()));
}

#[test]
fn a_service_is_told_when_its_idle_descriptor_is_unlinked() {
    let mut s = Script::acquainted();
    let me = s.lnet.me_attach(PORTAL, catch_all()).unwrap();
    let md = s.lnet.service_attach(s.now, me, room(8), ServiceMemory::Room).unwrap();
    s.lnet.md_unlink(s.now, md).unwrap();
    let told = told(&mut s.lnet);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0.kind, told[0].0.unlinked), (EventKind::Unlink, true));
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_service_talks_to_another_of_the_same_node() {
    let mut s = Script::acquainted();
    let me = s.lnet.me_attach(PORTAL, catch_all()).unwrap();
    s.lnet.service_attach(s.now, me, room(8), ServiceMemory::Room).unwrap();
    let bytes: Arc<[u8]> = b"self".as_slice().into();
    let md = s.lnet.service_bind(bound(4, 1), ServiceMemory::Bytes(bytes)).unwrap();
    s.lnet.put(s.now, put(md, Nid::LOOPBACK)).unwrap();
    // Through the owner, or two services that answer each other would never come to an end.
    let copies = s.take(|output| match output {
        Output::Copy { copy, from: Payload::Empty, .. } => Some(*copy),
        _ => None,
    });
    let [copy] = copies[..] else { panic!("{copies:?}") };
    s.lnet.handle_copied(s.now, copy);
    let told = told(&mut s.lnet);
    let kinds: Vec<_> = told.iter().map(|(event, bytes)| (event.kind, bytes.len())).collect();
    assert_eq!(kinds, [(EventKind::Put, 4), (EventKind::Send, 0)]);
}

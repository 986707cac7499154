//! Descriptors of services within the node: their few bytes never leave the machine.

use std::sync::Arc;

use fulmar_base::Payload;

use super::*;

fn room(len: u64) -> Md {
    posted(len, MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE))
}

/// Drains the events of the services.
fn told(lnet: &mut Lnet) -> Vec<(Event, Vec<u8>)> {
    let mut told = Vec::new();
    while let Some(output) = lnet.poll_output() {
        if let Output::Event { event, bytes, .. } = output {
            told.push((event, bytes));
        }
    }
    told
}

#[test]
fn bytes_that_are_put_come_with_the_event_and_too_many_are_dropped() {
    let mut s = Script::acquainted();
    let me = s.lnet.me_attach(SERVICE, PORTAL, catch_all()).unwrap();
    s.lnet.md_attach(s.now, SERVICE, me, room(8), Memory::Inline).unwrap();
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
    let md = s.lnet.md_bind(SERVICE, bound(10, 1), Memory::Bytes(bytes.clone())).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(tcp(2))).unwrap();
    let sent = s.sent_one();
    assert_eq!(sent.payload, Payload::Inline(bytes.clone()));
    s.done(&sent);
    let me = s.lnet.me_attach(SERVICE, PORTAL, catch_all()).unwrap();
    let offered = posted(10, MdOptions::OP_GET.with(MdOptions::MANAGE_REMOTE));
    s.lnet.md_attach(s.now, SERVICE, me, offered, Memory::Bytes(bytes)).unwrap();
    let reply = Handle { interface: 1, object: 2 };
    s.receive(0, Body::Get { reply, match_bits: 5, portal: PORTAL, offset: 3, sink_len: 4 });
    let sent = s.sent_one();
    assert_eq!(sent.payload, Payload::Inline(b"3456".as_slice().into()));
}

#[test]
fn a_service_is_told_when_its_idle_descriptor_is_unlinked() {
    let mut s = Script::acquainted();
    let me = s.lnet.me_attach(SERVICE, PORTAL, catch_all()).unwrap();
    let md = s.lnet.md_attach(s.now, SERVICE, me, room(8), Memory::Inline).unwrap();
    s.lnet.md_unlink(s.now, SERVICE, md).unwrap();
    let told = told(&mut s.lnet);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0.kind, told[0].0.unlinked), (EventKind::Unlink, true));
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_service_talks_to_another_of_the_same_node() {
    let mut s = Script::acquainted();
    let me = s.lnet.me_attach(SERVICE, PORTAL, catch_all()).unwrap();
    s.lnet.md_attach(s.now, SERVICE, me, room(8), Memory::Inline).unwrap();
    let bytes: Arc<[u8]> = b"self".as_slice().into();
    let md = s.lnet.md_bind(SERVICE, bound(4, 1), Memory::Bytes(bytes)).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(Nid::LOOPBACK)).unwrap();
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

#[test]
fn a_batch_is_done_in_order_and_what_fails_leaves_nothing_behind() {
    let mut s = Script::acquainted();
    let op = |user, target| Op::Put {
        from: Bound::New(Md { user, ..bound(9, 1) }, Memory::Buffer),
        put: put(target),
    };
    let offered =
        Op::Attach { portal: PORTAL, me: catch_all(), md: room(8), memory: Memory::Inline };
    let exact = Me { ignore_bits: 0, match_id: ProcessId::lustre(tcp(3)), ..catch_all() };
    let refused = [
        // The portal has become one of wildcards.
        (
            Op::Attach { portal: PORTAL, me: exact, md: room(8), memory: Memory::Inline },
            Errno::EPERM,
        ),
        // It accepts nothing.
        (
            Op::Attach { portal: PORTAL, me: catch_all(), md: bound(8, 1), memory: Memory::Buffer },
            Errno::EINVAL,
        ),
        (Op::Put { from: Bound::Again(MdId(1 << 40)), put: put(tcp(2)) }, Errno::ENOENT),
        (Op::Unlink(MdId(1 << 40)), Errno::ENOENT),
    ];
    let (ops, errors): (Vec<Op>, Vec<Errno>) = refused.into_iter().unzip();
    let ops = [vec![offered, op(1, tcp(2))], ops, vec![op(2, tcp(2))]].concat();
    let mut results = Vec::new();
    s.lnet.post(s.now, SERVICE, ops, |result| results.push(result));
    assert!(results[0].is_ok() && results[1].is_ok() && results[6].is_ok());
    let failed: Vec<_> = results[2..6].iter().map(|result| result.unwrap_err()).collect();
    assert_eq!(failed, errors);
    let sent = s.sent();
    assert_eq!(sent.len(), 2);
    sent.iter().for_each(|request| s.done(request));
    let users: Vec<u64> = s.events().iter().map(|event| event.user).collect();
    assert_eq!(users, [1, 2]);
    s.lnet.fail_nid("10.0.0.2@tcp".parse().unwrap(), None);
    s.lnet.post(s.now, SERVICE, [op(3, tcp(2))], |result| {
        assert_eq!(result, Err(Errno::EIO));
    });
    assert_eq!(s.events(), []);
    s.lnet.md_unlink(s.now, SERVICE, results[0].unwrap()).unwrap();
    s.lnet.is_idle().unwrap();
}

#[test]
fn services_do_not_touch_what_is_anothers() {
    let mut s = Script::acquainted();
    let other = s.lnet.open_service(ServiceConfig::default());
    let me = s.lnet.me_attach(SERVICE, PORTAL, catch_all()).unwrap();
    let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
    assert_eq!(s.lnet.md_attach(s.now, other, me, room(8), Memory::Inline), Err(Errno::ENOENT));
    assert_eq!(s.lnet.me_unlink(s.now, other, me), Err(Errno::ENOENT));
    assert_eq!(s.lnet.md_unlink(s.now, other, md), Err(Errno::ENOENT));
    assert_eq!(s.lnet.put(s.now, other, md, put(tcp(2))), Err(Errno::ENOENT));
    assert_eq!(s.lnet.get(s.now, other, md, get(tcp(2))), Err(Errno::ENOENT));
    // Bytes to send are no room for a reply, and room is nothing to send.
    let bytes = Memory::Bytes(b"9 bytes..".as_slice().into());
    let bytes = s.lnet.md_bind(other, bound(9, 2), bytes).unwrap();
    let inline = s.lnet.md_bind(other, bound(9, 2), Memory::Inline).unwrap();
    assert_eq!(s.lnet.get(s.now, other, bytes, get(tcp(2))), Err(Errno::ENOENT));
    assert_eq!(s.lnet.put(s.now, other, inline, put(tcp(2))), Err(Errno::ENOENT));
}

#[test]
fn a_service_that_is_closed_leaves_nothing_but_the_events_of_what_is_under_way() {
    let mut s = Script::acquainted();
    let other = s.lnet.open_service(ServiceConfig::default());
    let me = s.lnet.me_attach(other, PORTAL, catch_all()).unwrap();
    s.lnet.md_attach(s.now, other, me, room(8), Memory::Inline).unwrap();
    let md = s.lnet.md_bind(other, bound(9, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, other, md, put(tcp(2))).unwrap();
    let sent = s.sent_one();
    s.lnet.close_service(s.now, other).unwrap();
    assert_eq!(s.lnet.close_service(s.now, other), Err(Errno::ENOENT));
    assert_eq!(s.event().kind, EventKind::Unlink);
    s.done(&sent);
    let last = s.event();
    assert_eq!((last.kind, last.md, last.unlinked), (EventKind::Send, md, true));
    assert_eq!(s.lnet.me_attach(other, PORTAL, catch_all()), Err(Errno::ESHUTDOWN));
    assert_eq!(s.lnet.md_bind(other, bound(9, 1), Memory::Buffer), Err(Errno::ESHUTDOWN));
    let rx = s.receive_put(5);
    assert_eq!(s.sink(), (rx, Sink::Discard { len: 5 }));
    s.lnet.is_idle().unwrap();
}

#[test]
fn own_nids_stand_for_loopback_where_a_service_wants_that() {
    for (own_nids_are_loopback, looped) in [(true, 1), (false, 0)] {
        let mut s = Script::acquainted();
        let other = s.lnet.open_service(ServiceConfig { own_nids_are_loopback });
        let me = Me { match_id: ProcessId::lustre(tcp(1)), ..catch_all() };
        let me = s.lnet.me_attach(other, PORTAL, me).unwrap();
        s.lnet.md_attach(s.now, other, me, room(9), Memory::Inline).unwrap();
        let md =
            s.lnet.md_bind(other, bound(4, 1), Memory::Bytes(b"self".as_slice().into())).unwrap();
        s.lnet.put(s.now, other, md, put(tcp(1))).unwrap();
        let copies = s.take(|output| matches!(output, Output::Copy { .. }).then_some(()));
        assert_eq!(copies.len(), looped, "{own_nids_are_loopback}");
    }
}

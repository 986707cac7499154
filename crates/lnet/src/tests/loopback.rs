//! Messages to `0@lo`. Spec: lnet-behaviour §4.8.

use fulmar_base::Payload;

use super::*;

fn attach(s: &mut Script, md: Md) {
    let me = s.lnet.me_attach(SERVICE, PORTAL, catch_all()).unwrap();
    s.lnet.md_attach(s.now, SERVICE, me, md, Memory::Buffer).unwrap();
}

/// Drains the only copy and makes it.
fn copy(s: &mut Script) -> (Payload, Sink) {
    let copies = s.take(|output| match output {
        Output::Copy { copy, from, to } => Some((*copy, from.clone(), *to)),
        _ => None,
    });
    let [(id, from, to)] = &copies[..] else { panic!("{copies:?}") };
    s.lnet.handle_copied(s.now, *id);
    (from.clone(), *to)
}

#[test]
fn a_looped_put_is_copied_and_its_put_event_precedes_its_send_event() {
    let mut s = Script::new();
    attach(&mut s, posted(100, MdOptions::OP_PUT));
    let md = s.lnet.md_bind(SERVICE, bound(60, 2), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, Put { ack: true, ..put(Nid::LOOPBACK) }).unwrap();
    assert_eq!(copy(&mut s), (Payload::Span(span(7, 0, 60)), Sink::Span(span(8, 0, 60))));
    let events = s.events();
    assert_eq!((events[0].kind, events[1].kind), (EventKind::Put, EventKind::Send));
    assert_eq!((events[0].source.nid, events[0].target.nid), (Nid::LOOPBACK, Nid::LOOPBACK));
    assert_eq!(events[0].mlength, 60);
    s.lnet.handle_event_done(s.now, events[0].done.unwrap());
    let ack = s.event();
    assert_eq!((ack.kind, ack.mlength, ack.unlinked), (EventKind::Ack, 60, true));
    assert_eq!(s.sent(), []);
    s.lnet.is_idle().unwrap();
    assert_eq!(s.lnet.peers(), []);
    let traffic = s.lnet.nis()[0].traffic;
    assert_eq!((traffic.sent.put, traffic.received.put, traffic.sent.ack), (1, 1, 1));
}

#[test]
fn a_looped_put_that_is_cut_copies_only_what_fits() {
    let mut s = Script::new();
    attach(&mut s, posted(10, MdOptions::OP_PUT.with(MdOptions::TRUNCATE)));
    let md = s.lnet.md_bind(SERVICE, bound(60, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(Nid::LOOPBACK)).unwrap();
    assert_eq!(copy(&mut s), (Payload::Span(span(7, 0, 10)), Sink::Span(span(8, 0, 10))));
    assert_eq!(s.events()[0].mlength, 10);
}

#[test]
fn a_looped_get_is_copied_the_other_way() {
    let mut s = Script::new();
    attach(&mut s, posted(40, MdOptions::OP_GET.with(MdOptions::TRUNCATE)));
    let md = s.lnet.md_bind(SERVICE, bound(60, 2), Memory::Buffer).unwrap();
    s.lnet.get(s.now, SERVICE, md, get(Nid::LOOPBACK)).unwrap();
    assert_eq!(copy(&mut s), (Payload::Span(span(8, 0, 40)), Sink::Span(span(7, 0, 40))));
    let kinds: Vec<_> = s.events().iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Send, EventKind::Reply, EventKind::Get]);
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_looped_put_without_a_match_is_sent_and_gone() {
    let mut s = Script::new();
    let md = s.lnet.md_bind(SERVICE, bound(60, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(Nid::LOOPBACK)).unwrap();
    assert_eq!(s.event().kind, EventKind::Send);
    assert_eq!(s.lnet.stats().drop_count, 1);
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_looped_put_waits_at_a_lazy_portal_too() {
    let mut s = Script::new();
    s.lnet.set_lazy(s.now, PORTAL, true).unwrap();
    let md = s.lnet.md_bind(SERVICE, bound(0, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(Nid::LOOPBACK)).unwrap();
    assert_eq!(s.events(), []);
    attach(&mut s, posted(10, MdOptions::OP_PUT));
    let kinds: Vec<_> = s.events().iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Put, EventKind::Send]);
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_node_can_ping_itself() {
    let mut s = Script::new();
    let timeout = Duration::from_secs(1);
    s.lnet.ping(s.now, ProcessId::lustre(Nid::LOOPBACK), None, timeout);
    let outputs = s.drain();
    let [Output::Pinged { result: Ok(reply), .. }] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((reply.primary, &reply.nids[..]), (Nid::LOOPBACK, &[tcp(1)][..]));
    assert_eq!(s.lnet.poll_timeout(), None);
    s.lnet.is_idle().unwrap();
}

#[test]
fn an_application_cannot_get_ping_info_by_loopback() {
    let mut s = Script::new();
    let md = s.lnet.md_bind(SERVICE, bound(272, 2), Memory::Buffer).unwrap();
    let own = Get { portal: 0, match_bits: PING_MATCH_BITS, ..get(Nid::LOOPBACK) };
    s.lnet.get(s.now, SERVICE, md, own).unwrap();
    let reply = s.events().into_iter().find(|event| event.kind == EventKind::Reply).unwrap();
    assert_eq!(reply.status, Err(Errno::EOPNOTSUPP));
    s.lnet.is_idle().unwrap();
}

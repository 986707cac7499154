//! Rules for every message of kernel nodes. Spec: lnet-wire §17.3.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use fulmar_base::Time;
use fulmar_lnet_wire::header::{Body, Handle, Header, HeaderForm};
use fulmar_lnet_wire::ping::{NiStatus, PingInfo};
use fulmar_lnet_wire::socklnd::{ConnKind, FrameHeader, Hello, Version};
use fulmar_lnet_wire::{Nid, PING_MATCH_BITS, Pid};
use fulmar_trace::Direction;
use fulmar_trace::lnet::Kind;

use crate::traces::{Frame, Link, NAMES, answers, load, wants_answer};

fn frames(links: &[Link]) -> impl Iterator<Item = Frame<'_>> {
    links.iter().flat_map(Link::frames)
}

fn messages(links: &[Link]) -> impl Iterator<Item = (Frame<'_>, &Header)> {
    frames(links).filter_map(|frame| frame.lnet.map(|(header, _)| (frame, header)))
}

fn hellos(link: &Link) -> impl Iterator<Item = (Direction, &Hello)> {
    link.items.iter().filter_map(|item| match &item.kind {
        Kind::Hello(hello) => Some((item.direction, hello)),
        _ => None,
    })
}

#[test]
fn checksums_are_zero_and_all_pids_are_lustres() {
    for name in NAMES {
        let links = load(name);
        assert!(frames(&links).all(|frame| frame.header.checksum == 0), "{name}");
        for (_, header) in messages(&links) {
            assert_eq!((header.source_pid, header.target_pid), (Pid::LUSTRE, Pid::LUSTRE));
            let is_ping = match header.body {
                Body::Put { portal, .. } | Body::Get { portal, .. } => portal == 0,
                _ => false,
            };
            if let (true, Body::Put { match_bits, .. } | Body::Get { match_bits, .. }) =
                (is_ping, header.body)
            {
                assert_eq!(match_bits, PING_MATCH_BITS, "{name}: {header:?}");
            }
        }
    }
}

#[test]
fn a_hello_names_both_sides_and_its_answer_mirrors_the_kind() {
    for name in NAMES {
        for link in load(name) {
            for (direction, hello) in hellos(&link) {
                assert_eq!(hello.source.nid.ip(), Some(link.sender(direction)), "{name}");
                assert_eq!(hello.target.nid.ip(), Some(link.sender(direction.reverse())));
                assert_eq!((hello.source.pid, hello.target.pid), (Pid::LUSTRE, Pid(0)));
                assert_eq!((hello.target_incarnation, hello.ips.len()), (0, 0));
                let version = if link.active.is_ipv6() { Version::V4 } else { Version::V3 };
                assert_eq!(hello.version, version);
            }
            if let [(_, call), (_, answer)] = hellos(&link).collect::<Vec<_>>()[..] {
                let mirrored = Some(answer.kind) == call.kind.mirror();
                assert!(mirrored || answer.kind == ConnKind::NONE, "{name}: {answer:?}");
            }
            for item in &link.items {
                if let Kind::ConnRequest(request) = item.kind {
                    assert_eq!(request.target.ip(), Some(link.passive), "{name}");
                }
            }
        }
    }
}

#[test]
fn the_kinds_of_the_hellos_are_as_counted() {
    for name in NAMES {
        let mut kinds = BTreeMap::new();
        for link in &load(name) {
            hellos(link).for_each(|(_, hello)| *kinds.entry(hello.kind).or_insert(0) += 1);
        }
        let [control, bulk_in, bulk_out, none] =
            [ConnKind::CONTROL, ConnKind::BULK_IN, ConnKind::BULK_OUT, ConnKind::NONE]
                .map(|kind| kinds.remove(&kind).unwrap_or(0));
        assert!(kinds.is_empty(), "{name}: {kinds:?}");
        match name {
            "router" => assert_eq!([control, bulk_in, bulk_out, none], [4, 5, 4, 1]),
            _ => assert_eq!([bulk_in, bulk_out, none], [control, control, 0], "{name}"),
        }
    }
}

#[test]
fn an_interface_has_one_incarnation() {
    for name in NAMES {
        let mut of_nid: BTreeMap<Nid, u64> = BTreeMap::new();
        let links = load(name);
        for (_, hello) in links.iter().flat_map(hellos) {
            let incarnation = hello.source_incarnation;
            let known = *of_nid.entry(hello.source.nid).or_insert(incarnation);
            assert_eq!(known, incarnation, "{name}: {} has two incarnations", hello.source);
        }
        let different: BTreeSet<u64> = of_nid.values().copied().collect();
        assert_eq!(different.len(), of_nid.len(), "{name}: {of_nid:?}");
    }
}

#[test]
fn each_kind_of_connection_carries_messages_of_its_sizes() {
    let (mut largest_small, mut smallest_large) = (0, usize::MAX);
    for name in NAMES {
        let links = load(name);
        for frame in frames(&links) {
            let kind = frame.link.kind(frame.direction);
            let Some((_, payload)) = frame.lnet else {
                assert_eq!(kind, ConnKind::BULK_IN, "{name}: {:?}", frame.header);
                continue;
            };
            let form = match frame.link.active {
                IpAddr::V4(_) => HeaderForm::Small,
                IpAddr::V6(_) => HeaderForm::Large,
            };
            let size = FrameHeader::LEN + form.len() + payload.len();
            if size < 1024 {
                assert_eq!(kind, ConnKind::CONTROL, "{name}: {:?}", frame.lnet);
                largest_small = largest_small.max(size);
            } else {
                assert_eq!(kind, ConnKind::BULK_OUT, "{name}: {:?}", frame.lnet);
                smallest_large = smallest_large.min(size);
            }
        }
    }
    assert_eq!((largest_small, smallest_large), (944, 1096));
}

#[test]
fn a_cookie_is_acknowledged_once_on_its_connection_after_the_payload() {
    for name in NAMES {
        for link in &load(name) {
            for direction in [Direction::FromActive, Direction::FromPassive] {
                let asked = cookies_asked(link, direction);
                let acknowledged = cookies_acknowledged(link, direction.reverse());
                let cookies = |list: &[(u64, Time)]| -> BTreeSet<u64> {
                    list.iter().map(|(cookie, _)| *cookie).collect()
                };
                assert_eq!(cookies(&asked), cookies(&acknowledged), "{name}");
                assert_eq!(cookies(&asked).len(), asked.len(), "{name}: requested twice");
                assert_eq!(cookies(&asked).len(), acknowledged.len(), "{name}: acknowledged twice");
                let asked: BTreeMap<u64, Time> = asked.into_iter().collect();
                for (cookie, time) in acknowledged {
                    assert!(asked[&cookie] < time, "{name}: cookie {cookie}");
                }
            }
        }
    }
}

fn cookies_asked(link: &Link, direction: Direction) -> Vec<(u64, Time)> {
    let sent = link.frames().filter(|frame| frame.direction == direction && frame.lnet.is_some());
    let cookies = sent.map(|frame| {
        assert_eq!(frame.header.cookies[1], 0, "a message has no acknowledgement");
        (frame.header.cookies[0], frame.time)
    });
    cookies.filter(|(cookie, _)| *cookie != 0).collect()
}

fn cookies_acknowledged(link: &Link, direction: Direction) -> Vec<(u64, Time)> {
    let sent = link.frames().filter(|frame| frame.direction == direction && frame.lnet.is_none());
    let cookies = sent.flat_map(|frame| match frame.header.cookies {
        [0, FrameHeader::KEEPALIVE] => vec![],
        [0, cookie] => vec![(cookie, frame.time)],
        [first, second] => {
            assert!(first > second, "the traces have no range");
            vec![(first, frame.time), (second, frame.time)]
        }
    });
    cookies.collect()
}

#[test]
fn a_large_payload_has_a_cookie_except_four_replies() {
    let mut exceptions = BTreeMap::new();
    for name in NAMES {
        let links = load(name);
        for (frame, header) in messages(&links) {
            let large = header.payload_len >= 16_384;
            let cookie = frame.header.cookies[0] != 0;
            if large && !cookie {
                assert!(matches!(header.body, Body::Reply { .. }), "{name}: {header:?}");
                assert!(header.payload_len <= 32_768, "{name}: {header:?}");
                *exceptions.entry(name).or_insert(0) += 1;
            } else {
                assert_eq!(large, cookie, "{name}: {header:?}");
            }
        }
    }
    assert!(exceptions.keys().eq(["meta", "recovery"].iter()), "{exceptions:?}");
    assert_eq!(exceptions.values().sum::<usize>(), 4);
}

#[test]
fn every_request_has_its_mirrored_answer_on_the_same_hop() {
    for name in NAMES {
        let links = load(name);
        let mut waiting = BTreeMap::new();
        for (frame, header) in messages(&links) {
            if let Some(handle) = wants_answer(header) {
                let twice = waiting.insert((frame.hop(), handle), (frame.time, header));
                assert!(twice.is_none(), "{name}: {header:?} reuses a handle");
            }
        }
        for (frame, header) in messages(&links) {
            let Some(handle) = answers(header) else { continue };
            let (from, to) = frame.hop();
            let Some((asked, request)) = waiting.remove(&((to, from), handle)) else {
                panic!("{name}: {header:?} has no request");
            };
            assert!(asked < frame.time, "{name}: {header:?} comes before {request:?}");
            assert_eq!((header.target, header.source), (request.source, request.target));
            match (request.body, header.body) {
                (
                    Body::Put { match_bits, .. },
                    Body::Ack { match_bits: mirrored, accepted, .. },
                ) => {
                    assert_eq!((mirrored, accepted), (match_bits, request.payload_len));
                }
                (Body::Get { sink_len, .. }, Body::Reply { .. }) => {
                    assert!(header.payload_len <= sink_len, "{name}: {header:?}");
                }
                _ => panic!("{name}: {header:?} answers {request:?}"),
            }
        }
        assert!(waiting.is_empty(), "{name}: {:?} are not answered", waiting.values());
    }
}

#[test]
fn fields_that_lustre_does_not_use_are_zero() {
    for name in NAMES {
        for (_, header) in messages(&load(name)) {
            match header.body {
                Body::Put { header_data, offset, .. } => {
                    assert_eq!(header_data, 0, "{name}: {header:?}");
                    assert!([0, 224].contains(&offset), "{name}: {header:?}");
                }
                Body::Get { offset, .. } => assert_eq!(offset, 0, "{name}: {header:?}"),
                _ => {}
            }
        }
    }
}

#[test]
fn acknowledgements_are_requested_for_pushes_bulk_and_some_replies() {
    for name in NAMES {
        for (_, header) in messages(&load(name)) {
            let Body::Put { ack, portal, .. } = header.body else { continue };
            let wanted = ack != Handle::NONE;
            match portal {
                0 | 8 | 14 | 33 => assert!(wanted, "{name}: {header:?}"),
                10 => {}
                _ => assert!(!wanted, "{name}: {header:?}"),
            }
        }
    }
}

#[test]
fn object_cookies_are_one_more_than_a_multiple_of_four_and_increase() {
    for name in NAMES {
        for link in load(name) {
            let mut last: BTreeMap<(IpAddr, u64), u64> = BTreeMap::new();
            for frame in link.frames() {
                let Some(handle) = frame.lnet.and_then(|(header, _)| wants_answer(header)) else {
                    continue;
                };
                assert_eq!(handle.object % 4, 1, "{name}: {handle:?}");
                let key = (link.sender(frame.direction), handle.interface);
                let before = last.insert(key, handle.object).unwrap_or(0);
                assert!(before < handle.object, "{name}: {before:#x} before {handle:?}");
            }
        }
    }
}

#[test]
fn ping_info_lists_usable_interfaces_and_routers() {
    for name in NAMES {
        let links = load(name);
        let pings: BTreeSet<Handle> = messages(&links)
            .filter_map(|(_, header)| match header.body {
                Body::Get { reply, portal: 0, .. } => Some(reply),
                _ => None,
            })
            .collect();
        for frame in frames(&links) {
            let Some((header, payload)) = frame.lnet else { continue };
            match header.body {
                Body::Put { portal: 0, .. } => {}
                Body::Reply { handle } if pings.contains(&handle) => {}
                _ => continue,
            }
            let info = PingInfo::decode(payload).unwrap().info;
            assert!(info.entries.iter().all(|entry| entry.status == NiStatus::UP), "{info:?}");
            assert!(info.entries.iter().any(|entry| entry.nid == header.source), "{info:?}");
            let routes = name == "router" && is_node_4(header.source);
            if name == "ipv6" {
                assert_eq!((info.features.0, payload.len(), info.sequence), (0x7e, 56, 2));
            } else {
                assert_eq!(info.features.0, if routes { 0x1a } else { 0x1e }, "{name}: {info:?}");
                assert_eq!(payload.len(), 32 + 16 * info.entries.len());
            }
        }
    }
}

fn is_node_4(nid: Nid) -> bool {
    matches!(nid.ip(), Some(IpAddr::V4(ip)) if ip.octets()[3] == 4)
}

#[test]
fn a_routed_message_appears_once_on_each_hop() {
    let links = load("router");
    let mut hops: BTreeMap<Handle, Vec<(IpAddr, IpAddr)>> = BTreeMap::new();
    let mut routed = 0;
    let mut messages: Vec<_> = messages(&links).collect();
    messages.sort_by_key(|(frame, _)| frame.time);
    for (frame, header) in messages {
        let (from, to) = frame.hop();
        let direct = header.source.ip() == Some(from) && header.target.ip() == Some(to);
        if let (false, Body::Get { reply, .. }) = (direct, header.body) {
            hops.entry(reply).or_default().push((from, to));
            routed += 1;
        }
    }
    assert!(routed > 0);
    for (handle, hops) in hops {
        let [(_, gateway), (again, _)] = hops[..] else { panic!("{handle:?}: {hops:?}") };
        assert_eq!(gateway.to_string().rsplit('.').next(), again.to_string().rsplit('.').next());
    }
}

#[test]
fn a_refused_connection_has_no_bytes() {
    let links = load("mount-fresh");
    let attempts = links.iter().filter(|link| link.start == fulmar_trace::Start::Attempt);
    let to_node_3 = attempts.filter(|link| link.passive.to_string().ends_with(".3"));
    assert_eq!(to_node_3.count(), 10);
}

//! Rules for every message. Spec: lnet-selftest §22.2.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_lnet_wire::header::{self, Handle};
use fulmar_lnet_wire::selftest::{
    Body, Check, Destination, Direction, FEATURES, GOOD, LEN, Ping, Service, SessionId, WORD,
    verify,
};
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_wire::Order;

use super::{Bulk, CapturedMessage, NAMES, Rpc, ids, node, reverse, rpcs};
use crate::traces::{Link, load};

/// Calls `check` with each RPC of each trace.
fn for_each_rpc(mut check: impl FnMut(&str, &Rpc<'_>)) {
    for name in NAMES {
        for rpc in rpcs(&load(name)) {
            check(name, &rpc);
        }
    }
}

#[test]
fn messages_are_puts_of_160_bytes_without_acknowledgement() {
    for_each_rpc(|name, rpc| {
        for CapturedMessage { header, .. } in [&rpc.request, &rpc.reply] {
            let header::Body::Put { ack, offset, header_data, .. } = header.body else {
                panic!("{name}: {header:?}")
            };
            assert_eq!(header.payload_len as usize, LEN, "{name}: {header:?}");
            assert_eq!((ack, offset, header_data), (Handle::NONE, 0, 0), "{name}: {header:?}");
        }
    });
}

#[test]
fn the_type_of_a_request_is_that_of_its_service_and_of_a_reply_one_more() {
    for_each_rpc(|name, rpc| {
        let kind = rpc.service.request_type();
        assert_eq!(Some(rpc.request.body.message_type()), kind, "{name}: {:?}", rpc.request.body);
        let reply = rpc.reply.body.message_type();
        assert_eq!(kind.map(|kind| kind.0 + 1), Some(reply.0), "{name}: {:?}", rpc.reply.body);
    });
}

#[test]
fn bulk_and_reply_run_between_the_nids_of_the_request() {
    for_each_rpc(|name, rpc| {
        let request = rpc.request.header;
        let mirrored = (request.target, request.source);
        assert_eq!((rpc.reply.header.source, rpc.reply.header.target), mirrored, "{name}");
        assert_eq!(rpc.reply.frame.hop(), reverse(rpc.request.frame.hop()), "{name}");
        let Some(Bulk { asked: (_, asked), moved: (_, moved), .. }) = &rpc.bulk else { return };
        assert_eq!((asked.source, asked.target), mirrored, "{name}");
        match moved.body {
            header::Body::Reply { .. } => {
                assert_eq!((moved.target, moved.source), mirrored, "{name}");
            }
            _ => assert_eq!(moved, asked, "{name}"),
        }
    });
}

#[test]
fn bulk_arrives_before_the_reply_except_behind_a_router() {
    let mut late = BTreeMap::new();
    for_each_rpc(|name, rpc| {
        let Some(bulk) = &rpc.bulk else { return };
        assert!(rpc.request.frame.time < bulk.asked.0.time, "{name}");
        if rpc.reply.frame.time < bulk.moved.0.time {
            assert_eq!((bulk.is_get(), bulk.data.len()), (false, 1 << 20), "{name}");
            *late.entry(name.to_owned()).or_insert(0) += 1;
        }
    });
    assert_eq!(late, BTreeMap::from([("router".to_owned(), 2)]));
}

#[test]
fn a_read_is_answered_after_its_bulk_is_acknowledged() {
    let mut answered = 0;
    for name in NAMES {
        let links = load(name);
        for rpc in rpcs(&links) {
            let Some(bulk) = rpc.bulk.as_ref().filter(|bulk| !bulk.is_get()) else { continue };
            let frame = bulk.asked.0;
            let is_server = bulk.asked.1.source.ip() == Some(frame.hop().0);
            if !is_server {
                continue;
            }
            let cookie = frame.header.cookies[0];
            let acknowledged = acknowledged(frame.link, cookie);
            assert!(acknowledged < rpc.reply.frame.time, "{name}: cookie {cookie}");
            answered += 1;
        }
    }
    assert_eq!(answered, 8 + 2 + 2 + 3 + 2);
}

fn acknowledged(link: &Link, cookie: u64) -> fulmar_base::Time {
    let mut noops = link.frames().filter(|frame| frame.lnet.is_none());
    let noop = noops.find(|frame| frame.header.cookies.contains(&cookie));
    noop.expect("it is acknowledged").time
}

#[test]
fn statuses_are_zero_and_sessions_are_the_consoles() {
    for name in NAMES {
        let links = load(name);
        let rpcs = rpcs(&links);
        let sessions: BTreeSet<SessionId> = rpcs
            .iter()
            .filter_map(|rpc| match rpc.request.body {
                Body::MakeSession(request) => Some(request.session),
                _ => None,
            })
            .collect();
        assert_eq!(sessions.len(), 1, "{name}");
        for rpc in &rpcs {
            let expected = match rpc.service {
                Service::BRW | Service::PING => None,
                Service::REMOVE_SESSION => Some(SessionId::INVALID),
                _ => sessions.first().copied(),
            };
            assert_eq!(outcome(&rpc.reply.body), (0, expected), "{name}: {:?}", rpc.reply.body);
            if let Some(session) = session(&rpc.request.body) {
                assert!(sessions.contains(&session), "{name}: {:?}", rpc.request.body);
            }
        }
    }
}

fn session(request: &Body) -> Option<SessionId> {
    match request {
        Body::MakeSession(request) => Some(request.session),
        Body::RemoveSession(request) => Some(request.session),
        Body::Batch(request) => Some(request.session),
        Body::Stat(request) => Some(request.session),
        Body::Test(request) => Some(request.session),
        _ => None,
    }
}

/// Returns the status of a reply and its session, if it has one that a kernel node sets.
fn outcome(reply: &Body) -> (u32, Option<SessionId>) {
    match reply {
        Body::MakeSessionReply(reply) => {
            assert_eq!((reply.timeout, reply.name.bytes()), (100, &b""[..]));
            (reply.status, Some(reply.session))
        }
        Body::RemoveSessionReply(reply) => (reply.status, Some(reply.session)),
        Body::BatchReply(reply) => {
            assert_eq!((reply.active, reply.time), (0, 0));
            (reply.status, Some(reply.session))
        }
        Body::StatReply(reply) => (reply.status, Some(reply.session)),
        Body::TestReply(reply) => (reply.status, Some(reply.session)),
        Body::BrwReply(reply) => (reply.status, None),
        Body::PingReply(reply) => (reply.status, None),
        other => panic!("not in the traces: {other:?}"),
    }
}

#[test]
fn ids_count_from_a_base_of_the_clock() {
    let mut bases: BTreeMap<(&str, u8), BTreeSet<u64>> = BTreeMap::new();
    let mut used: BTreeMap<(&str, u8), BTreeSet<u64>> = BTreeMap::new();
    for name in NAMES {
        for rpc in rpcs(&load(name)) {
            let request = rpc.request.header;
            if request.source.ip() != Some(rpc.request.frame.hop().0) {
                continue;
            }
            let from = node(rpc.request.frame.hop().0);
            let (reply_id, bulk_id) = ids(&rpc.request.body);
            assert!(bulk_id.is_none_or(|bulk_id| bulk_id == reply_id + 1), "{name}: {request:?}");
            if let (Service::TEST, None, Body::Test(test)) =
                (rpc.service, bulk_id, &rpc.request.body)
            {
                assert_eq!(test.bulk_id, 0, "{name}");
            }
            for id in [Some(reply_id), bulk_id].into_iter().flatten() {
                bases.entry((name, from)).or_default().insert(id >> 48);
                let fresh = used.entry((name, from)).or_default().insert(id & 0xffff_ffff_ffff);
                assert!(fresh, "{name}: {id:#x} is used twice");
            }
        }
    }
    let base = |name, node| bases[&(name, node)].iter().copied().collect::<Vec<_>>();
    assert_eq!((base("selftest", 1), base("multirail", 3)), (vec![0x5719], vec![0x5907]));
    let remote = (base("selftest-remote", 1), base("selftest-remote", 3));
    assert_eq!(remote, (vec![0x6807], vec![0x680d]));
    assert!(used[&("selftest-remote", 3)].iter().copied().eq(1..=1239));
    // A node that could not be reached used up an id.
    let console = &used[&("selftest-remote", 1)];
    let last = *console.last().unwrap();
    assert!((1..=last).filter(|id| !console.contains(id)).eq([0x1c]), "{console:x?}");
}

#[test]
fn pings_are_numbered_without_gaps_and_echoed() {
    for (name, batches) in [("selftest", &[12][..]), ("selftest-remote", &[10, 1211])] {
        let links = load(name);
        let rpcs = rpcs(&links);
        let mut sequences =
            rpcs.iter().filter_map(|rpc| match (&rpc.request.body, &rpc.reply.body) {
                (Body::Ping(request), Body::PingReply(reply)) => {
                    assert_eq!((request.magic, reply.magic), (Ping::MAGIC, Ping::MAGIC));
                    assert_eq!(request.sequence, reply.sequence);
                    assert!(request.nanoseconds < 1_000_000_000);
                    Some(request.sequence)
                }
                _ => None,
            });
        for &count in batches {
            let batch: BTreeSet<u32> = sequences.by_ref().take(count as usize).collect();
            assert!(batch.into_iter().eq(0..count), "{name}");
        }
        assert_eq!(sequences.next(), None);
    }
}

#[test]
fn a_client_answers_after_it_has_fetched_its_destinations() {
    let mut lists = 0;
    for_each_rpc(|name, rpc| {
        let Body::Test(test) = &rpc.request.body else { return };
        assert_eq!(rpc.bulk.is_some(), test.is_client, "{name}");
        let Some(bulk) = &rpc.bulk else { return };
        assert!(bulk.is_get() && bulk.moved.0.time < rpc.reply.frame.time);
        let list = Destination::decode_list(bulk.data, test.destinations, Order::Little);
        let server: Nid = "10.99.0.4@tcp".parse().unwrap();
        assert_eq!(list, Ok(vec![ProcessId::lustre(server)]));
        assert_eq!(Destination::encode_list(&list.unwrap(), FEATURES), bulk.data);
        lists += 1;
    });
    assert_eq!(lists, 4);
}

#[test]
fn data_pass_the_check_of_their_request() {
    let mut transfers = BTreeMap::new();
    for_each_rpc(|name, rpc| {
        let (Body::Brw(brw), Some(bulk)) = (&rpc.request.body, &rpc.bulk) else {
            assert!(rpc.service != Service::BRW, "{name}: no bulk");
            return;
        };
        assert_eq!(bulk.data.len(), brw.len as usize, "{name}");
        assert_eq!(bulk.is_get(), brw.direction == Direction::WRITE, "{name}");
        let check = Check(brw.flags);
        assert_eq!(verify(bulk.data, 0, check, Order::Little), Ok(()), "{name}");
        // Words that the check does not cover have the earlier content of the memory.
        for word in bulk.data.chunks(WORD) {
            assert!([[0; WORD], GOOD.to_le_bytes()].contains(&word.try_into().unwrap()), "{name}");
        }
        *transfers.entry(brw.flags).or_insert(0) += 1;
    });
    let [none, simple, full] = [2, 8, 8 + 2 * 10 + 10 + 9 + 6];
    assert_eq!(transfers, BTreeMap::from([(1, none), (2, simple), (3, full)]));
}

//! What is stored and fetched over real sockets is what was meant.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{Host, PORTAL, TIMEOUT, at, pattern};
use fulmar_base::Errno;
use fulmar_lnet::{EventKind, MdOptions, Put, ServiceConfig};
use fulmar_lnet_wire::socklnd::Version;
use fulmar_net::exchange::anyone;
use fulmar_net::{Batch, Buffer, Delivery, Descriptor, Memory, Runtime, Service};

/// Nothing, little, both sides of `min_bulk`, a page, and more than a socket holds.
const SIZES: [usize; 8] = [0, 1, 927, 928, 4096, 65536, 1_000_001, 1 << 20];

#[test]
fn puts_of_every_size_arrive_and_are_acknowledged() {
    let runtime = Runtime::new(Some(2)).unwrap();
    let (a, b) = (Host::start(&runtime), Host::start(&runtime));
    for (seed, size) in SIZES.into_iter().cycle().take(3 * SIZES.len()).enumerate() {
        let (source, target) = (Buffer::new(size), Buffer::new(size + 16));
        source.write_at(0, &pattern(seed, size));
        let stored = b.offer(7, &target, MdOptions::OP_PUT);
        let events = a.put(b.id(), 7, &source);
        let event = stored.wait(EventKind::Put);
        assert_eq!((event.status, event.mlength as usize), (Ok(()), size));
        assert_eq!(event.initiator, a.id());
        assert!(target.to_vec(0, size) == pattern(seed, size), "{size} bytes arrive unchanged");
        assert_eq!(target.to_vec(size, 16), [0; 16], "and nothing beyond them");
        assert_eq!(events.wait(EventKind::Ack).mlength as usize, size);
        stored.unlink();
        stored.wait(EventKind::Unlink);
    }
    a.node.stop();
    b.node.stop();
}

#[test]
fn gets_of_every_size_bring_what_is_there() {
    let runtime = Runtime::new(Some(2)).unwrap();
    let (a, b) = (Host::start(&runtime), Host::start(&runtime));
    for (seed, size) in SIZES.into_iter().enumerate() {
        let (source, target) = (Buffer::new(size), Buffer::new(size));
        source.write_at(0, &pattern(seed, size));
        let fetched = b.offer(7, &source, MdOptions::OP_GET.with(MdOptions::TRUNCATE));
        let events = a.get(b.id(), 7, &target);
        let event = events.wait(EventKind::Reply);
        assert_eq!((event.status, event.mlength as usize), (Ok(()), size));
        assert!(target.to_vec(0, size) == pattern(seed, size), "{size} bytes arrive unchanged");
        fetched.wait(EventKind::Get);
        fetched.unlink();
        fetched.wait(EventKind::Unlink);
    }
    a.node.stop();
    b.node.stop();
}

#[test]
fn each_node_pings_and_discovers_the_other() {
    let runtime = Runtime::new(Some(2)).unwrap();
    let (a, b) = (Host::start(&runtime), Host::start(&runtime));
    for (from, to) in [(&a, &b), (&b, &a)] {
        let reply = from.admin.ping(to.id(), None, Duration::from_secs(5)).unwrap();
        assert_eq!((reply.pid, reply.nids), (to.id().pid, vec![to.nid]));
        let reply = from.admin.discover(to.nid, true).unwrap();
        assert_eq!(reply.primary, to.nid);
    }
    assert!(a.admin.connections().iter().all(|conn| conn.send_buffer > 0));
    assert!(!a.admin.connections().is_empty());
    a.node.stop();
    b.node.stop();
}

#[test]
fn a_node_stores_at_itself() {
    let runtime = Runtime::new(Some(1)).unwrap();
    let a = Host::start(&runtime);
    let (source, target) = (Buffer::new(100_000), Buffer::new(100_000));
    source.write_at(0, &pattern(3, 100_000));
    let stored = a.offer(7, &target, MdOptions::OP_PUT);
    let lo = fulmar_lnet_wire::ProcessId::lustre(fulmar_lnet_wire::Nid::LOOPBACK);
    let events = a.put(lo, 7, &source);
    assert_eq!(stored.wait(EventKind::Put).mlength, 100_000);
    events.wait(EventKind::Ack);
    assert!(target.to_vec(0, 100_000) == pattern(3, 100_000));
    assert_eq!(a.node.io_counters().payload_bytes_looped, 100_000);
    a.node.stop();
}

#[test]
fn large_payload_is_copied_by_the_kernel_alone() {
    const COUNT: usize = 64;
    let runtime = Runtime::new(Some(2)).unwrap();
    let (a, b) = (Host::start(&runtime), Host::start(&runtime));
    // Until there is a connection for it, bulk takes the one for small messages.
    a.admin.discover(b.nid, true).unwrap();
    common::eventually("three connections", || b.admin.connections().len() == 3);
    let (sent, got) = (a.node.io_counters(), b.node.io_counters());
    let mut total = 0;
    for size in [928, 4096, 1 << 20] {
        let (source, target) = (Buffer::new(size), Buffer::new(size));
        let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE);
        let stored = b.offer(7, &target, options);
        let events: Vec<_> = (0..COUNT).map(|_| a.put(b.id(), 7, &source)).collect();
        for events in events {
            events.wait(EventKind::Ack);
            stored.wait(EventKind::Put);
        }
        stored.unlink();
        stored.wait(EventKind::Unlink);
        total += (COUNT * size) as u64;
    }
    let (sent_now, got_now) = (a.node.io_counters(), b.node.io_counters());
    assert_eq!(sent_now.payload_bytes_out - sent.payload_bytes_out, total);
    assert_eq!(got_now.payload_bytes_direct_in - got.payload_bytes_direct_in, total);
    assert_eq!(got_now.payload_bytes_staged_in, got.payload_bytes_staged_in);
    a.node.stop();
    b.node.stop();
}

#[test]
fn messages_wait_at_a_lazy_portal_until_somebody_takes_them() {
    let runtime = Runtime::new(Some(2)).unwrap();
    let (a, b) = (Host::start(&runtime), Host::start(&runtime));
    b.exchange.service().set_lazy(PORTAL, true).unwrap();
    let sizes = [8, 100, 2000, 300_000, 8, 0];
    let puts: Vec<_> = sizes
        .iter()
        .enumerate()
        .map(|(seed, size)| {
            let source = Buffer::new(*size);
            source.write_at(0, &pattern(seed, *size));
            let events = a.put(b.id(), seed as u64, &source);
            std::thread::sleep(Duration::from_millis(20));
            events
        })
        .collect();
    assert!(puts.iter().all(|events| {
        std::iter::from_fn(|| events.try_next()).all(|event| event.kind == EventKind::Send)
    }));
    for (seed, size) in sizes.into_iter().enumerate() {
        let target = Buffer::new(size);
        let stored = b.offer(seed as u64, &target, MdOptions::OP_PUT);
        assert_eq!(stored.wait(EventKind::Put).mlength as usize, size);
        puts[seed].wait(EventKind::Ack);
        assert!(target.to_vec(0, size) == pattern(seed, size));
    }
    a.node.stop();
    b.node.stop();
}

#[test]
fn checksums_are_sent_and_confirmed() {
    let runtime = Runtime::new(Some(2)).unwrap();
    let old = |options: &mut fulmar_net::Options| {
        options.config.socklnd.version = Version::V2;
        options.config.socklnd.enable_csum = true;
    };
    let (a, b) = (Host::start_with(&runtime, old), Host::start_with(&runtime, old));
    a.admin.discover(b.nid, true).unwrap();
    for (seed, size) in SIZES.into_iter().enumerate() {
        let (source, target) = (Buffer::new(size), Buffer::new(size));
        source.write_at(0, &pattern(seed, size));
        let stored = b.offer(seed as u64, &target, MdOptions::OP_PUT);
        let acknowledged = a.put(b.id(), seed as u64, &source);
        assert_eq!(stored.wait(EventKind::Put).status, Ok(()));
        acknowledged.wait(EventKind::Ack);
        assert!(target.to_vec(0, size) == pattern(seed, size));
    }
    assert_eq!(b.admin.connections()[0].info.version, Version::V2);
    assert_eq!(b.admin.counters().checksum_errors, 0);
    a.node.stop();
    b.node.stop();
}

#[test]
fn messages_that_ask_to_be_acknowledged_are() {
    let runtime = Runtime::new(Some(2)).unwrap();
    let asking = |options: &mut fulmar_net::Options| {
        options.config.socklnd.zc_min_payload = Some(16_384);
    };
    let (a, b) = (Host::start_with(&runtime, asking), Host::start(&runtime));
    for (seed, size) in SIZES.into_iter().enumerate() {
        let (source, target) = (Buffer::new(size), Buffer::new(size));
        source.write_at(0, &pattern(seed, size));
        let stored = b.offer(seed as u64, &target, MdOptions::OP_PUT);
        let events = a.put(b.id(), seed as u64, &source);
        assert_eq!(stored.wait(EventKind::Put).status, Ok(()));
        assert_eq!(events.wait(EventKind::Send).status, Ok(()));
        assert!(target.to_vec(0, size) == pattern(seed, size));
    }
    let acknowledged = |host: &Host| {
        let counters = host.admin.counters();
        (counters.zc_acks_sent, counters.zc_acks_received)
    };
    assert_eq!((acknowledged(&a), acknowledged(&b)), ((0, 3), (3, 0)));
    a.node.stop();
    b.node.stop();
}

#[test]
fn many_threads_store_in_both_directions_at_once() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 60;
    let runtime = Runtime::new(Some(2)).unwrap();
    let hosts = [Host::start(&runtime), Host::start(&runtime), Host::start(&runtime)];
    let hosts = &hosts;
    std::thread::scope(|scope| {
        for thread in 0..THREADS * hosts.len() {
            scope.spawn(move || {
                let (from, to) = (&hosts[thread % 3], &hosts[(thread + 1) % 3]);
                let bits = thread as u64;
                for round in 0..ROUNDS {
                    let size = [8, 1500, 70_000, 0, 400_000][(thread + round) % 5];
                    let (source, target) = (Buffer::new(size), Buffer::new(size));
                    source.write_at(0, &pattern(round, size));
                    let stored = to.offer(bits, &target, MdOptions::OP_PUT);
                    let acknowledged = from.put(to.id(), bits, &source);
                    assert_eq!(stored.wait(EventKind::Put).status, Ok(()));
                    acknowledged.wait(EventKind::Ack);
                    assert!(target.to_vec(0, size) == pattern(round, size));
                    stored.unlink();
                    stored.wait(EventKind::Unlink);
                }
            });
        }
    });
    for host in hosts {
        host.node.stop();
    }
}

#[test]
fn what_is_read_only_is_sent_from_and_not_received_into() {
    let runtime = Runtime::new(Some(1)).unwrap();
    let (a, b) = (Host::start(&runtime), Host::start(&runtime));
    let (page, target) = (Buffer::new(4096), Buffer::new(8192));
    page.write_at(0, &pattern(5, 4096));
    // The same page twice, by two descriptors at once.
    let shared = page.read_only();
    let twice = Memory::gather([shared.clone(), shared.clone()]).unwrap();
    let stored = b.offer(7, &target, MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE));
    let puts = [a.put(b.id(), 7, twice.clone()), a.put(b.id(), 7, twice)];
    for events in puts {
        events.wait(EventKind::Ack);
        stored.wait(EventKind::Put);
    }
    assert!(target.to_vec(0, 8192) == [pattern(5, 4096), pattern(5, 4096)].concat());
    let service = b.exchange.service();
    let attach = |memory: Memory| {
        service.attach(PORTAL, anyone(8), Descriptor::over(memory).options(MdOptions::OP_PUT))
    };
    assert_eq!(attach(shared.clone().into()), Err(Errno::EINVAL));
    let fetched = service.get(Descriptor::over(shared), at(a.id(), 8).get());
    assert_eq!(fetched, Err(Errno::EINVAL));
    assert!(attach(target.into()).is_ok());
    a.node.stop();
    b.node.stop();
}

#[test]
fn bulk_goes_to_and_from_4096_segments() {
    const SEGMENTS: usize = 4096;
    const SIZE: usize = 256;
    let runtime = Runtime::new(Some(2)).unwrap();
    let (a, b) = (Host::start(&runtime), Host::start(&runtime));
    // The segments are in reverse order, so that none joins its neighbour.
    let scattered = || {
        let buffer = Buffer::new(SEGMENTS * SIZE);
        let slices = (0..SEGMENTS).rev().map(|n| buffer.slice(n * SIZE..(n + 1) * SIZE));
        Memory::gather(slices.collect::<Vec<_>>()).unwrap()
    };
    let (source, target, back) = (scattered(), scattered(), scattered());
    let data = pattern(7, SEGMENTS * SIZE);
    source.write_at(0, &data);
    let options = MdOptions::OP_PUT.with(MdOptions::OP_GET);
    let offered = b.offer(7, target.clone(), options.with(MdOptions::MANAGE_REMOTE));
    a.put(b.id(), 7, source).wait(EventKind::Ack);
    assert_eq!(offered.wait(EventKind::Put).mlength as usize, data.len());
    assert_eq!(a.get(b.id(), 7, back.clone()).wait(EventKind::Reply).mlength as usize, data.len());
    for memory in [target, back] {
        let mut bytes = vec![0; data.len()];
        memory.read_at(0, &mut bytes);
        assert!(bytes == data);
    }
    a.node.stop();
    b.node.stop();
}

#[test]
fn a_batch_is_posted_in_order_and_what_fails_leaves_nothing() {
    let runtime = Runtime::new(Some(2)).unwrap();
    let (a, b) = (Host::start(&runtime), Host::start(&runtime));
    let (sender, received) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let handler = move |_: &Service, events: &mut Vec<Delivery>| {
        for Delivery { event, bytes, .. } in events.drain(..) {
            let _ = sender.lock().unwrap().send((event.kind, event.user, bytes));
        }
    };
    let service = a.node.open_service(ServiceConfig::default(), Arc::new(handler)).unwrap();
    let mut batch = Batch::new();
    // It stores at the other node, which sends it back, as RPC does.
    batch.attach(PORTAL, anyone(1), put_once(Descriptor::room(16)).user(1));
    batch.attach(60_000, anyone(1), put_once(Descriptor::room(16)).user(2));
    batch.put(Descriptor::bytes(*b"request").times(2).user(3), at(b.id(), 7).put());
    batch.put(Descriptor::over(Buffer::new((1 << 20) + 1)).user(4), at(b.id(), 7).put());
    let target = Buffer::new(7);
    let stored = b.offer(7, &target, MdOptions::OP_PUT);
    let results = service.post(batch);
    assert!(results[0].is_ok() && results[2].is_ok());
    assert_eq!([results[1], results[3]], [Err(Errno::EINVAL); 2]);
    stored.wait(EventKind::Put);
    assert_eq!(target.to_vec(0, 7), b"request");
    b.put(a.id(), 1, reply()).wait(EventKind::Ack);
    let mut seen: Vec<_> = (0..3).map(|_| received.recv_timeout(TIMEOUT).unwrap()).collect();
    seen.sort_by_key(|(kind, user, _)| (*user, *kind));
    let expected = [
        (EventKind::Put, 1, b"reply".to_vec()),
        (EventKind::Ack, 3, vec![]),
        (EventKind::Send, 3, vec![]),
    ];
    assert_eq!(seen, expected);
    service.close();
    assert_eq!(service.attach(PORTAL, anyone(1), Descriptor::room(1)), Err(Errno::ESHUTDOWN));
    a.node.stop();
    b.node.stop();
}

fn put_once(descriptor: Descriptor) -> Descriptor {
    descriptor.times(1).options(MdOptions::OP_PUT)
}

fn reply() -> Buffer {
    let buffer = Buffer::new(5);
    buffer.write_at(0, b"reply");
    buffer
}

#[test]
fn services_are_served_at_the_same_time() {
    let runtime = Runtime::new(Some(3)).unwrap();
    let (a, b) = (Host::start(&runtime), Host::start(&runtime));
    let (inside, met) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    for bits in [1, 2] {
        let (inside, met) = (inside.clone(), met.clone());
        // Each handler stays for a moment, in which the other may come.
        let handler = move |_: &Service, _: &mut Vec<Delivery>| {
            inside.fetch_add(1, Ordering::SeqCst);
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(1));
                met.fetch_or(inside.load(Ordering::SeqCst) == 2, Ordering::SeqCst);
            }
            inside.fetch_sub(1, Ordering::SeqCst);
        };
        let service = b.node.open_service(ServiceConfig::default(), Arc::new(handler)).unwrap();
        let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE);
        service.attach(PORTAL, anyone(bits), Descriptor::room(8).options(options)).unwrap();
    }
    common::eventually("both handlers at the same time", || {
        // What is posted together arrives together, sooner or later.
        let mut batch = Batch::new();
        for bits in [1, 2] {
            let put = Put { ack: false, ..at(b.id(), bits).put() };
            batch.put(Descriptor::bytes([0; 8]).times(1), put);
        }
        a.exchange.service().post(batch);
        std::thread::sleep(Duration::from_millis(30));
        met.load(Ordering::SeqCst)
    });
    a.node.stop();
    b.node.stop();
}

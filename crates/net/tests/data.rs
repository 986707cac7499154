//! What is stored and fetched over real sockets is what was meant.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use std::time::Duration;

use common::{Host, PORTAL, pattern, whole};
use fulmar_lnet::{EventKind, Md, MdOptions};
use fulmar_lnet_wire::socklnd::Version;
use fulmar_net::Runtime;

/// Nothing, little, both sides of `min_bulk`, a page, and more than a socket holds.
const SIZES: [usize; 8] = [0, 1, 927, 928, 4096, 65536, 1_000_001, 1 << 20];

#[test]
fn puts_of_every_size_arrive_and_are_acknowledged() {
    let runtime = Runtime::new(Some(2)).unwrap();
    let (a, b) = (Host::start(&runtime), Host::start(&runtime));
    for (seed, size) in SIZES.into_iter().cycle().take(3 * SIZES.len()).enumerate() {
        let (source, target) = (a.node.allocate(size), b.node.allocate(size + 16));
        source.write_at(0, &pattern(seed, size));
        let (_, stored) = b.offer(7, &target, MdOptions::OP_PUT);
        let events = a.put(b.id(), 7, &source);
        let event = stored.wait(EventKind::Put);
        assert_eq!((event.status, event.mlength as usize), (Ok(()), size));
        assert_eq!(event.initiator, a.id());
        assert!(target.to_vec(0, size) == pattern(seed, size), "{size} bytes arrive unchanged");
        assert_eq!(target.to_vec(size, 16), [0; 16], "and nothing beyond them");
        assert_eq!(events.wait(EventKind::Ack).mlength as usize, size);
        b.node.md_unlink(event.md).unwrap();
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
        let (source, target) = (b.node.allocate(size), a.node.allocate(size));
        source.write_at(0, &pattern(seed, size));
        let (md, fetched) = b.offer(7, &source, MdOptions::OP_GET.with(MdOptions::TRUNCATE));
        let events = a.get(b.id(), 7, &target);
        let event = events.wait(EventKind::Reply);
        assert_eq!((event.status, event.mlength as usize), (Ok(()), size));
        assert!(target.to_vec(0, size) == pattern(seed, size), "{size} bytes arrive unchanged");
        fetched.wait(EventKind::Get);
        b.node.md_unlink(md).unwrap();
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
        let reply = from.node.ping(to.id(), None, Duration::from_secs(5)).unwrap();
        assert_eq!((reply.pid, reply.nids), (to.id().pid, vec![to.nid]));
        let reply = from.node.discover(to.nid, true).unwrap();
        assert_eq!(reply.primary, to.nid);
    }
    assert!(a.node.connections().iter().all(|conn| conn.send_buffer > 0));
    assert!(!a.node.connections().is_empty());
    a.node.stop();
    b.node.stop();
}

#[test]
fn a_node_stores_at_itself() {
    let runtime = Runtime::new(Some(1)).unwrap();
    let a = Host::start(&runtime);
    let (source, target) = (a.node.allocate(100_000), a.node.allocate(100_000));
    source.write_at(0, &pattern(3, 100_000));
    let (_, stored) = a.offer(7, &target, MdOptions::OP_PUT);
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
    a.node.discover(b.nid, true).unwrap();
    common::eventually("three connections", || b.node.connections().len() == 3);
    let (sent, got) = (a.node.io_counters(), b.node.io_counters());
    let mut total = 0;
    for size in [928, 4096, 1 << 20] {
        let (source, target) = (a.node.allocate(size), b.node.allocate(size));
        let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE);
        let (md, stored) = b.offer(7, &target, options);
        let events: Vec<_> = (0..COUNT).map(|_| a.put(b.id(), 7, &source)).collect();
        for events in events {
            events.wait(EventKind::Ack);
            stored.wait(EventKind::Put);
        }
        b.node.md_unlink(md).unwrap();
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
    b.node.set_lazy(PORTAL, true).unwrap();
    let sizes = [8, 100, 2000, 300_000, 8, 0];
    let puts: Vec<_> = sizes
        .iter()
        .enumerate()
        .map(|(seed, size)| {
            let source = a.node.allocate(*size);
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
        let target = b.node.allocate(size);
        let (_, stored) = b.offer(seed as u64, &target, MdOptions::OP_PUT);
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
    a.node.discover(b.nid, true).unwrap();
    for (seed, size) in SIZES.into_iter().enumerate() {
        let (source, target) = (a.node.allocate(size), b.node.allocate(size));
        source.write_at(0, &pattern(seed, size));
        let (_, stored) = b.offer(seed as u64, &target, MdOptions::OP_PUT);
        let acknowledged = a.put(b.id(), seed as u64, &source);
        assert_eq!(stored.wait(EventKind::Put).status, Ok(()));
        acknowledged.wait(EventKind::Ack);
        assert!(target.to_vec(0, size) == pattern(seed, size));
    }
    let (version, errors) = b.node.with_machine(|machine| {
        let socklnd = machine.socklnd();
        (socklnd.conns()[0].version, socklnd.counters().checksum_errors)
    });
    assert_eq!((version, errors), (Version::V2, 0));
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
        let (source, target) = (a.node.allocate(size), b.node.allocate(size));
        source.write_at(0, &pattern(seed, size));
        let (_, stored) = b.offer(seed as u64, &target, MdOptions::OP_PUT);
        let events = a.put(b.id(), seed as u64, &source);
        assert_eq!(stored.wait(EventKind::Put).status, Ok(()));
        assert_eq!(events.wait(EventKind::Send).status, Ok(()));
        assert!(target.to_vec(0, size) == pattern(seed, size));
    }
    let acknowledged = |host: &Host| {
        host.node.with_machine(|machine| {
            let counters = machine.socklnd().counters();
            (counters.zc_acks_sent, counters.zc_acks_received)
        })
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
                    let (source, target) = (from.node.allocate(size), to.node.allocate(size));
                    source.write_at(0, &pattern(round, size));
                    let (md, stored) = to.offer(bits, &target, MdOptions::OP_PUT);
                    let acknowledged = from.put(to.id(), bits, &source);
                    assert_eq!(stored.wait(EventKind::Put).status, Ok(()));
                    acknowledged.wait(EventKind::Ack);
                    assert!(target.to_vec(0, size) == pattern(round, size));
                    to.node.md_unlink(md).unwrap();
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
fn a_descriptor_must_lie_within_its_buffer() {
    let runtime = Runtime::new(Some(1)).unwrap();
    let a = Host::start(&runtime);
    let buffer = a.node.allocate(100);
    let (handler, _events) = common::recorder();
    let beyond = Md { offset: 1, ..whole(&buffer) };
    assert_eq!(a.node.md_bind(beyond, handler.clone()), Err(fulmar_base::Errno::EINVAL));
    let gone = whole(&buffer);
    drop(buffer);
    assert_eq!(a.node.md_bind(gone, handler), Err(fulmar_base::Errno::EINVAL));
    a.node.stop();
}

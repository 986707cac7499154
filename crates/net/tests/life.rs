//! Nodes come and go, peers misbehave, and no other node notices.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Host, PORT, PORTAL, TIMEOUT, address, at, eventually, options, pattern};
use fulmar_base::Errno;
use fulmar_lnet::{Event, EventDone, EventKind, MdId, MdOptions, Op, ServiceConfig};
use fulmar_lnet_wire::socklnd::ConnKind;
use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_net::exchange::anyone;
use fulmar_net::{
    Buffer, Delivery, Descriptor, Handler, NiAddress, NiOptions, Node, Runtime, Service,
    StartError, Tap,
};
use fulmar_node::{Crossing, Node as Machine};
use fulmar_socklnd::AcceptMode;

/// The tests that count what the whole process holds, and all others, take turns.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> impl Drop {
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[test]
fn bulk_may_have_a_port_of_its_own() {
    const BULK: u16 = PORT + 1;
    let runtime = Runtime::new(Some(2)).unwrap();
    let start = || {
        Host::start_with(&runtime, |options| {
            options.config.socklnd.accept_port_bulk = Some(BULK);
        })
    };
    let (a, b) = (start(), start());
    a.admin.ping(b.id(), None, TIMEOUT).unwrap();
    eventually("three connections", || a.admin.connections().len() == 3);
    let remote = |conn: &fulmar_net::ConnDetails| (conn.info.kind, conn.info.remote.port());
    let mut ports: Vec<_> = a.admin.connections().iter().map(remote).collect();
    ports.sort();
    let wanted = [ConnKind::CONTROL, ConnKind::BULK_IN, ConnKind::BULK_OUT];
    let mut wanted: Vec<_> =
        wanted.map(|kind| (kind, if kind == ConnKind::CONTROL { PORT } else { BULK })).to_vec();
    wanted.sort();
    assert_eq!(ports, wanted);
    for host in [a, b] {
        host.node.stop();
    }
}

#[test]
fn a_thousand_connections_leave_nothing_behind() {
    const PEERS: usize = 340;
    let _guard = alone();
    let before = at_rest();
    let at_first = resident();
    let runtime = Runtime::new(Some(2)).unwrap();
    let hub = Host::start(&runtime);
    let peers: Vec<_> = (0..PEERS).map(|_| Host::start(&runtime)).collect();
    std::thread::scope(|scope| {
        for part in peers.chunks(PEERS.div_ceil(8)) {
            let hub = &hub;
            scope.spawn(move || {
                for peer in part {
                    peer.admin.ping(hub.id(), None, TIMEOUT).unwrap();
                }
            });
        }
    });
    eventually("three connections with each", || hub.admin.connections().len() >= 3 * PEERS);
    // Both ends of each connection are here, and the nodes with their portals.
    let grown = resident().saturating_sub(at_first) / (2 * 3 * PEERS);
    assert!(grown < 12 << 10, "{grown} bytes are resident for each end of a connection");
    for peer in &peers {
        peer.node.stop();
    }
    eventually("the hub has no connection", || hub.admin.connections().is_empty());
    hub.node.stop();
    drop((hub, peers, runtime));
    nothing_left_since(before);
}

#[test]
fn a_node_stops_in_the_middle_of_traffic() {
    let _guard = alone();
    for round in 0..5 {
        let before = at_rest();
        let runtime = Runtime::new(Some(2)).unwrap();
        let (a, b) = (Host::start(&runtime), Host::start(&runtime));
        let (acks, stopping) = storm(&a, &b, 1 << 18);
        eventually("traffic", || acks.load(Ordering::Relaxed) > 100);
        if round % 2 == 0 {
            b.node.stop()
        } else {
            a.node.stop()
        }
        stopping.store(true, Ordering::Relaxed);
        let buffer = Buffer::new(1);
        if round % 2 == 1 {
            let refused = a.exchange.begin_put(at(b.id(), 7), &buffer, 0);
            assert_eq!(refused.unwrap_err(), Errno::ESHUTDOWN);
        }
        a.node.stop();
        b.node.stop();
        drop((a, b, buffer, runtime));
        nothing_left_since(before);
    }
}

#[test]
fn a_peer_that_stops_reading_hurts_no_other_node() {
    let _guard = alone();
    let (runtime, slow) = (Runtime::new(Some(1)).unwrap(), Runtime::new(Some(1)).unwrap());
    let (a, b, stuck) = (Host::start(&runtime), Host::start(&runtime), Host::start(&slow));
    // A handler that waits stops the only thread that reads for the peer.
    let hold = Arc::new(Mutex::new(()));
    let held = hold.lock().unwrap();
    let sink = Buffer::new(1 << 20);
    let waiting = hold.clone();
    let handler = move |_: &Service, _: &mut Vec<Delivery>| drop(waiting.lock());
    let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE);
    serve(&stuck.node, &sink, Arc::new(handler));
    let bulk = Buffer::new(1 << 20);
    let stuck_puts: Vec<_> = (0..16).map(|_| a.put(stuck.id(), 7, &bulk)).collect();
    std::thread::sleep(Duration::from_millis(100));

    let (source, target) = (Buffer::new(1 << 20), Buffer::new(1 << 20));
    source.write_at(0, &pattern(1, 1 << 20));
    let stored = b.offer(7, &target, options);
    // They end while the other service is stuck, which it is until `held` is dropped.
    for _ in 0..20 {
        a.put(b.id(), 7, &source).wait(EventKind::Ack);
        stored.wait(EventKind::Put);
    }
    assert!(target.to_vec(0, 1 << 20) == pattern(1, 1 << 20));

    drop(held);
    for events in stuck_puts {
        events.wait(EventKind::Ack);
    }
    for host in [a, b, stuck] {
        host.node.stop();
    }
}

#[test]
fn silent_and_babbling_callers_are_sent_away() {
    let _guard = alone();
    let runtime = Runtime::new(Some(2)).unwrap();
    let host = Host::start_with(&runtime, |options| {
        options.config.socklnd.accept_timeout = Duration::from_millis(200);
    });
    let at = SocketAddr::new(host.nid.ip().unwrap(), PORT);
    let mut silent: Vec<_> = (0..50).map(|_| TcpStream::connect(at).unwrap()).collect();
    let mut babbling = TcpStream::connect(at).unwrap();
    babbling.write_all(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n").unwrap();
    let peer = Host::start(&runtime);
    peer.admin.ping(host.id(), None, Duration::from_secs(5)).unwrap();
    for stream in silent.iter_mut().chain([&mut babbling]) {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let end = stream.read(&mut [0; 64]);
        let reset = end.as_ref().err().map(std::io::Error::kind);
        let hung_up = end.is_ok_and(|count| count == 0);
        assert!(hung_up || reset == Some(std::io::ErrorKind::ConnectionReset), "{reset:?}");
    }
    peer.node.stop();
    host.node.stop();
}

#[test]
fn interfaces_come_and_go_while_the_node_runs() {
    let _guard = alone();
    let runtime = Runtime::new(Some(2)).unwrap();
    let (a, b) = (Host::start(&runtime), Host::start(&runtime));
    a.admin.ping(b.id(), None, Duration::from_secs(5)).unwrap();
    let second = address();
    for _ in 0..3 {
        let nid = b.admin.add_ni(NiOptions::at(second)).unwrap();
        let other = NiOptions { net: "tcp7".parse().unwrap(), ..NiOptions::at(second) };
        let other = b.admin.add_ni(other).unwrap();
        let id = ProcessId::lustre(nid);
        // It was lost a moment ago and is not called again at once.
        eventually("an answer", || a.admin.ping(id, None, Duration::from_secs(5)).is_ok());
        let reply = a.admin.ping(id, None, Duration::from_secs(5)).unwrap();
        assert_eq!(reply.nids, [b.nid, nid, other]);
        b.admin.remove_ni(nid).unwrap();
        assert!(TcpStream::connect((second, PORT)).is_ok(), "another interface has the address");
        b.admin.remove_ni(other).unwrap();
        let error = TcpStream::connect((second, PORT)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        a.admin.ping(b.id(), None, Duration::from_secs(5)).unwrap();
    }
    assert_eq!(b.admin.remove_ni(Nid::of_ip(Net::TCP, second)), Err(Errno::ENOENT));
    a.node.stop();
    b.node.stop();
}

#[test]
fn what_cannot_be_started_says_why_and_what_to_do() {
    let _guard = alone();
    let runtime = Runtime::new(Some(1)).unwrap();
    let start = |ni: NiOptions, port: u16| {
        let mut options = options();
        options.config.socklnd.accept_port = port;
        options.nis.push(ni);
        Node::start(&runtime, options).unwrap_err()
    };
    let elsewhere: IpAddr = "192.0.2.1".parse().unwrap();
    let error = start(NiOptions::at(elsewhere), PORT);
    assert!(matches!(error, StartError::AddressNotHere { .. }), "{error}");
    assert!(error.to_string().contains("127.0.0.1"), "{error}");

    let host = Host::start(&runtime);
    let error = start(NiOptions::at(host.nid.ip().unwrap()), PORT);
    assert!(matches!(error, StartError::PortInUse { port: PORT, .. }), "{error}");
    assert!(error.to_string().contains("9988"), "{error}");

    let name = NiAddress::Interface("nope0".into());
    let error = start(NiOptions { address: name, ..NiOptions::at(elsewhere) }, PORT);
    assert!(matches!(error, StartError::NoInterface { .. }), "{error}");
    assert!(!error.to_string().contains('\n'));

    let privileged = NiOptions::at(address());
    let mut options = options();
    options.config.socklnd.accept_port = 988;
    options.nis.push(privileged);
    match Node::start(&runtime, options) {
        Ok(node) => node.stop(),
        Err(error) => {
            assert!(error.to_string().contains("CAP_NET_BIND_SERVICE"), "{error}");
            assert!(error.to_string().contains("ip_unprivileged_port_start"), "{error}");
        }
    }
    host.node.stop();
}

#[test]
fn a_node_that_takes_no_calls_makes_them() {
    let _guard = alone();
    let runtime = Runtime::new(Some(2)).unwrap();
    let deaf = Host::start_with(&runtime, |options| {
        options.config.socklnd.accept = AcceptMode::None;
    });
    let host = Host::start(&runtime);
    assert!(TcpStream::connect((deaf.nid.ip().unwrap(), PORT)).is_err());
    deaf.admin.ping(host.id(), None, Duration::from_secs(5)).unwrap();
    host.admin.ping(deaf.id(), None, Duration::from_secs(5)).unwrap();
    deaf.node.stop();
    host.node.stop();
}

/// Panics, under the node's lock, once it is armed.
#[derive(Debug, Default)]
struct Trap(AtomicBool);

impl Tap for Trap {
    fn posted(&self, _: &Op, _: Result<MdId, Errno>) {}

    fn crossing(&self, _: &Machine, _: &Crossing) {
        assert!(!self.0.load(Ordering::Relaxed), "this is a test");
    }

    fn event(&self, _: &Event) {}

    fn handled(&self, _: EventDone) {}
}

#[test]
fn a_panic_costs_one_node_and_a_handler_only_itself() {
    let _guard = alone();
    let runtime = Runtime::new(Some(1)).unwrap();
    let (a, c) = (Host::start(&runtime), Host::start(&runtime));
    let trap = Arc::new(Trap::default());
    let b = Host::start_with(&runtime, |options| options.tap = Some(trap.clone()));
    let handler = |_: &Service, _: &mut Vec<Delivery>| panic!("this is a test");
    serve(&b.node, &Buffer::new(8), Arc::new(handler));
    a.put(b.id(), 7, Buffer::new(8)).wait(EventKind::Ack);
    eventually("the panic", || b.node.io_counters().handler_panics == 1);

    trap.0.store(true, Ordering::Relaxed);
    assert_eq!(b.admin.ping(a.id(), None, TIMEOUT), Err(Errno::EIO));
    assert_eq!(b.admin.set_ni_enabled(b.nid, false), Err(Errno::EIO));
    assert_eq!(b.node.wait().unwrap_err().what, "this is a test");
    assert!(TcpStream::connect((b.nid.ip().unwrap(), PORT)).is_err(), "it accepts nothing");
    assert!(a.admin.failure().is_none() && c.admin.failure().is_none());
    a.admin.ping(c.id(), None, Duration::from_secs(5)).unwrap();
    for host in [a, b, c] {
        host.node.stop();
    }
}

#[test]
fn a_handler_may_not_wait_for_the_node() {
    let _guard = alone();
    let runtime = Runtime::new(Some(1)).unwrap();
    let (a, b) = (Host::start(&runtime), Host::start(&runtime));
    let answer = Arc::new(Mutex::new(None));
    let (seen, peer, admin) = (answer.clone(), a.id(), b.admin.clone());
    let handler = move |_: &Service, _: &mut Vec<Delivery>| {
        *seen.lock().unwrap() = Some(admin.ping(peer, None, TIMEOUT));
    };
    serve(&b.node, &Buffer::new(8), Arc::new(handler));
    a.put(b.id(), 7, Buffer::new(8)).wait(EventKind::Ack);
    let error = answer.lock().unwrap().take().unwrap().unwrap_err();
    assert_eq!(error, Errno(35), "EDEADLK");
    a.node.stop();
    b.node.stop();
}

#[test]
fn a_handler_may_close_its_service_and_stop_its_node() {
    let _guard = alone();
    let before = at_rest();
    let runtime = Runtime::new(Some(2)).unwrap();
    let (a, b) = (Host::start(&runtime), Host::start(&runtime));
    let sink = Buffer::new(8);
    let calls = Arc::new(AtomicU64::new(0));
    let seen = calls.clone();
    let handler = move |service: &Service, _: &mut Vec<Delivery>| {
        seen.fetch_add(1, Ordering::Relaxed);
        service.close();
    };
    serve(&b.node, &sink, Arc::new(handler));
    a.put(b.id(), 7, Buffer::new(8)).wait(EventKind::Ack);
    let dropped = a.put(b.id(), 7, Buffer::new(8));
    dropped.wait(EventKind::Send);
    let node = b.node.clone();
    serve(&b.node, &sink, Arc::new(move |_: &Service, _: &mut Vec<Delivery>| node.stop()));
    a.put(b.id(), 7, Buffer::new(8)).wait(EventKind::Send);
    eventually("the end of the node", || {
        b.admin.set_ni_enabled(b.nid, false) == Err(Errno::ESHUTDOWN)
    });
    assert_eq!(calls.load(Ordering::Relaxed), 1, "a closed service is not called");
    a.node.stop();
    drop((a, b, dropped, runtime));
    nothing_left_since(before);
}

/// Records the events that are to be reported done, and those that were.
#[derive(Debug, Default)]
struct Record {
    events: AtomicU64,
    handled: AtomicU64,
}

impl Tap for Record {
    fn posted(&self, _: &Op, _: Result<MdId, Errno>) {}

    fn crossing(&self, _: &Machine, _: &Crossing) {}

    fn event(&self, event: &Event) {
        self.events.fetch_add(event.done.is_some().into(), Ordering::Relaxed);
    }

    fn handled(&self, _: EventDone) {
        self.handled.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn an_observer_learns_that_events_of_a_closed_service_are_done() {
    let _guard = alone();
    // The connections of a sender are on several threads: with two, those for small messages can all be on one.
    let (runtime, others) = (Runtime::new(Some(4)).unwrap(), Runtime::new(Some(1)).unwrap());
    let record = Arc::new(Record::default());
    let server = Host::start_with(&runtime, |options| options.tap = Some(record.clone()));
    // So many that more than one thread has such connections.
    let senders: Vec<Host> = (0..16).map(|_| Host::start(&others)).collect();
    for sender in &senders {
        sender.admin.ping(server.id(), None, TIMEOUT).unwrap();
    }
    let (release, released) = channel();
    let released = Mutex::new(released);
    let handler =
        move |_: &Service, _: &mut Vec<Delivery>| released.lock().unwrap().recv().unwrap();
    let service = serve(&server.node, &Buffer::new(8), Arc::new(handler));
    // One thread waits in the handler, and another one receives what comes to it.
    let puts: Vec<_> =
        senders.iter().map(|sender| sender.put(server.id(), 7, Buffer::new(8))).collect();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    eventually("an event that waits", || count(&record.events) >= 2);
    service.close();
    release.send(()).unwrap();
    for put in &puts {
        put.wait(EventKind::Send);
    }
    eventually("all events are done", || count(&record.handled) == count(&record.events));
    server.node.stop();
    senders.iter().for_each(|sender| sender.node.stop());
}

/// Opens a service that takes whatever is stored at the tests' portal.
fn serve(node: &Node, sink: &Buffer, handler: Arc<dyn Handler>) -> Service {
    let service = node.open_service(ServiceConfig::default(), handler).unwrap();
    let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE);
    service.attach(PORTAL, anyone(7), Descriptor::over(sink).options(options)).unwrap();
    service
}

/// Has `a` store at `b` without end. Returns the count of acknowledgements, and how to end it.
fn storm(a: &Host, b: &Host, len: usize) -> (Arc<AtomicU64>, Arc<AtomicBool>) {
    let (acks, stopping) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    serve(&b.node, &Buffer::new(len), Arc::new(|_: &Service, _: &mut Vec<Delivery>| ()));
    let (count, stop, target) = (acks.clone(), stopping.clone(), at(b.id(), 7));
    let handler = move |service: &Service, events: &mut Vec<Delivery>| {
        for Delivery { event, .. } in events.drain(..) {
            if event.kind == EventKind::Ack && !stop.load(Ordering::Relaxed) {
                count.fetch_add(1, Ordering::Relaxed);
                let _ = service.put_again(event.md, target.put());
            }
        }
    };
    let service = a.node.open_service(ServiceConfig::default(), Arc::new(handler)).unwrap();
    for _ in 0..16 {
        service.put(Descriptor::over(Buffer::new(len)), target.put()).unwrap();
    }
    (acks, stopping)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Returns how many I/O threads there are; the test harness has threads too.
fn io_threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.starts_with("fulmar-io")).count()
}

/// Returns how many descriptors the process has when no node runs. A thread of an earlier test that
/// was joined is listed by the kernel for another moment.
fn at_rest() -> usize {
    eventually("no I/O threads", || io_threads() == 0);
    // What the process needs for its addresses it has from then on.
    address();
    descriptors()
}

/// Waits until there are no I/O threads, and no more descriptors than before.
#[track_caller]
fn nothing_left_since(before: usize) {
    let deadline = Instant::now() + TIMEOUT;
    while io_threads() > 0 || descriptors() > before {
        let left = (io_threads(), descriptors());
        assert!(Instant::now() < deadline, "I/O threads, descriptors: {left:?}, {before} before");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns how many bytes of memory the process has.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

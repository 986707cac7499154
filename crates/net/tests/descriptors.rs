//! A process whose file descriptors are all in use. It has a process of its own, because the limit
//! is that of a process.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Host, PORT, TIMEOUT, eventually};
use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_net::Runtime;
use fulmar_socklnd::AcceptMode;
use rustix::process::{Resource, Rlimit, setrlimit};
use socket2::{Domain, Socket, Type};

const LIMIT: u64 = 1024;
/// The descriptors that connections do not take.
const RESERVED: usize = 128;
/// Of each of two processes: more than there are descriptors.
const PEERS: usize = 180;
const SILENT: u16 = 200;
/// The environment variable with the address to connect to.
const ADDRESS: &str = "FULMAR_TEST_CALL";
const CONNECTED: &str = "all are connected";
/// How long a listener pauses after an error.
const PAUSE: Duration = Duration::from_millis(100);

#[test]
fn connections_leave_descriptors_and_listeners_outlive_their_lack() {
    let runtime = Runtime::new(Some(2)).unwrap();
    let host = Host::start_with(&runtime, |options| {
        options.config.socklnd.accept_timeout = 2 * TIMEOUT;
    });
    // It may be changed while the node runs.
    let limit = Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) };
    setrlimit(Resource::Nofile, limit).unwrap();
    a_listener_without_descriptors_pauses(&host);
    peers_and_silent_connections_leave_descriptors(&runtime, &host);
    let peer = Host::start(&runtime);
    eventually("an answer", || peer.admin.ping(host.id(), None, TIMEOUT).is_ok());
    for host in [peer, host] {
        host.node.stop();
    }
}

fn peers_and_silent_connections_leave_descriptors(runtime: &Runtime, host: &Host) {
    let address = SocketAddr::new(host.nid.ip().unwrap(), PORT);
    let failures = host.node.io_counters().accept_failures;
    let mut crowds: Vec<Crowd> = (0..2).map(|_| Crowd::start(address)).collect();
    crowds.iter_mut().for_each(Crowd::wait);
    let counters = || host.node.io_counters();
    let gave_way = || {
        host.node.look(|node| {
            let counters = node.socklnd().counters();
            (counters.gave_way, counters.refused_handshakes)
        })
    };
    eventually("peers and silent ones give way", || gave_way().0 > 0 && gave_way().1 > 0);
    let newcomer = Host::start(runtime);
    // The crowds go on meanwhile: a connection may give way to them before its ping is answered.
    eventually("a newcomer has an answer", || {
        newcomer.admin.ping(host.id(), None, TIMEOUT / 10).is_ok()
    });
    newcomer.node.stop();
    let files: Vec<_> = (0..RESERVED).map_while(|_| File::open("/dev/null").ok()).collect();
    assert_eq!(files.len(), RESERVED, "descriptors are left");
    assert_eq!(counters().accept_failures, failures, "the listener never lacks any");
    drop((files, crowds));
}

/// A process that opens connections.
struct Crowd {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Crowd {
    fn start(address: SocketAddr) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "crowd", "--nocapture"]).env(ADDRESS, address.to_string());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Waits until all connections are opened or refused.
    fn wait(&mut self) {
        let mut lines = self.output.by_ref().lines();
        assert!(lines.any(|line| line.unwrap() == CONNECTED), "they connect");
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In a process of its own: peers with three connections each, and connections that say nothing.
#[test]
fn crowd() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let address: SocketAddr = address.parse().unwrap();
    let runtime = Runtime::new(Some(1)).unwrap();
    let host = ProcessId::lustre(Nid::of_ip(Net::TCP, address.ip()));
    let peers: Vec<_> = (0..PEERS)
        .map(|_| Host::start_with(&runtime, |o| o.config.socklnd.accept = AcceptMode::None))
        .collect();
    std::thread::scope(|scope| {
        for peer in &peers {
            // Some are refused.
            scope.spawn(|| peer.admin.ping(host, None, Duration::from_secs(2)));
        }
    });
    let _silent: Vec<TcpStream> = (0..SILENT).map(|number| call(address, number)).collect();
    println!("{CONNECTED}");
    std::thread::sleep(10 * TIMEOUT);
}

fn a_listener_without_descriptors_pauses(host: &Host) {
    let address = SocketAddr::new(host.nid.ip().unwrap(), PORT);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let started = Instant::now();
    socket.connect(&address.into()).unwrap();
    let failures = || host.node.io_counters().accept_failures;
    eventually("the listener tries again", || failures() >= 3);
    let most = started.elapsed().as_millis() / PAUSE.as_millis() + 1;
    assert!(u128::from(failures()) <= most + 1, "{} failures in {most} pauses", failures());
    drop(files);
}

/// Connects from an address of its own.
fn call(address: SocketAddr, number: u16) -> TcpStream {
    let [high, low] = number.to_be_bytes();
    let own = Ipv4Addr::new(127, 9, high, low + u8::from(low == 0));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(own.into(), 0).into()).unwrap();
    socket.connect(&address.into()).unwrap();
    socket.into()
}

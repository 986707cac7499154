//! Nodes on the loopback network, each at an address of its own.
#![allow(dead_code, unreachable_pub, clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::IpAddr;
use std::time::{Duration, Instant};

use fulmar_lnet::{Event, EventKind, MdId, MdOptions};
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_net::exchange::{self, Exchange, Target};
use fulmar_net::{Admin, Memory, NiOptions, Node, Options, Runtime};
use fulmar_socklnd::AcceptMode;

/// Unprivileged, so that the tests need not run as root.
pub const PORT: u16 = 9988;
/// Where the tests store and fetch.
pub const PORTAL: u32 = 9;
/// Longer than anything takes that works.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A node with one network interface, and a service.
pub struct Host {
    pub node: Node,
    pub admin: Admin,
    pub exchange: Exchange,
    pub nid: Nid,
}

impl Host {
    pub fn start(runtime: &Runtime) -> Self {
        Self::start_with(runtime, |_| ())
    }

    pub fn start_with(runtime: &Runtime, change: impl FnOnce(&mut Options)) -> Self {
        Self::start_at(runtime, address(), change)
    }

    pub fn start_at(runtime: &Runtime, address: IpAddr, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = options();
        options.nis.push(NiOptions::at(address));
        change(&mut options);
        let node = Node::start(runtime, options).unwrap();
        let (admin, exchange) = (node.admin(), Exchange::open(&node).unwrap());
        Self { node, admin, exchange, nid: Nid::of_ip(fulmar_lnet_wire::Net::TCP, address) }
    }

    pub fn id(&self) -> ProcessId {
        ProcessId::lustre(self.nid)
    }

    /// Opens `memory` to every sender of `bits`.
    pub fn offer(&self, bits: u64, memory: impl Into<Memory>, options: MdOptions) -> Events {
        Events(self.exchange.offer((PORTAL, bits), memory, options).unwrap())
    }

    /// Stores `memory` at `target`, with an acknowledgement.
    pub fn put(&self, target: ProcessId, bits: u64, memory: impl Into<Memory>) -> Events {
        Events(self.exchange.begin_put(at(target, bits), memory, 0).unwrap())
    }

    /// Fetches from `target` into `memory`.
    pub fn get(&self, target: ProcessId, bits: u64, memory: impl Into<Memory>) -> Events {
        Events(self.exchange.begin_get(at(target, bits), memory).unwrap())
    }
}

/// Returns the tests' portal of `process`.
pub fn at(process: ProcessId, match_bits: u64) -> Target {
    Target { process, portal: PORTAL, match_bits }
}

pub fn options() -> Options {
    let mut options = Options::default();
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = PORT;
    options
}

/// Returns an address that no other test has.
pub fn address() -> IpAddr {
    fulmar_loopback::address().into()
}

/// The events of a descriptor, for a test to wait for.
pub struct Events(exchange::Events);

impl Events {
    pub fn md(&self) -> MdId {
        self.0.md()
    }

    pub fn unlink(&self) {
        self.0.unlink();
    }

    /// Returns the next event of `kind`. Others stay for later calls.
    #[track_caller]
    pub fn wait(&self, kind: EventKind) -> Event {
        let Some(event) = self.0.next_of(kind, TIMEOUT) else { panic!("no {kind:?}") };
        event
    }

    /// Returns the next event that is there already.
    pub fn try_next(&self) -> Option<Event> {
        self.0.next(Duration::ZERO)
    }
}

/// Waits until `done`.
#[track_caller]
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !done() {
        assert!(Instant::now() < deadline, "{what} within {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|n| ((n + seed).wrapping_mul(2_654_435_761) >> 7) as u8).collect()
}

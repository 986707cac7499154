//! Nodes on the loopback network, each at an address of its own.
#![allow(dead_code, unreachable_pub, clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use fulmar_lnet::{Event, EventKind, Get, Md, MdId, MdOptions, Me, MePosition, Put};
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_net::{Buffer, Handler, NiOptions, Node, Options, Runtime};
use fulmar_socklnd::AcceptMode;

/// Unprivileged, so that the tests need not run as root.
pub const PORT: u16 = 9988;
/// Where the tests store and fetch.
pub const PORTAL: u32 = 9;
/// Longer than anything takes that works.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A node with one network interface.
pub struct Host {
    pub node: Node,
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
        Self { node, nid: Nid::of_ip(fulmar_lnet_wire::Net::TCP, address) }
    }

    pub fn id(&self) -> ProcessId {
        ProcessId::lustre(self.nid)
    }

    /// Opens `buffer` to everybody who sends `bits`.
    pub fn offer(&self, bits: u64, buffer: &Buffer, options: MdOptions) -> (MdId, Events) {
        let (handler, events) = recorder();
        (self.offer_to(bits, buffer, options, handler), events)
    }

    pub fn offer_to(
        &self,
        bits: u64,
        buffer: &Buffer,
        options: MdOptions,
        handler: Arc<dyn Handler>,
    ) -> MdId {
        let me = self.node.me_attach(PORTAL, anyone(bits)).unwrap();
        let md = Md { options, ..whole(buffer) };
        self.node.md_attach(me, md, handler).unwrap()
    }

    /// Stores `buffer` at `target`, with an acknowledgement.
    pub fn put(&self, target: ProcessId, bits: u64, buffer: &Buffer) -> Events {
        let (handler, events) = recorder();
        let md = Md { threshold: Some(2), auto_unlink: true, ..whole(buffer) };
        let md = self.node.md_bind(md, handler).unwrap();
        self.node.put(put(md, target, bits)).unwrap();
        events
    }

    /// Fetches from `target` into `buffer`.
    pub fn get(&self, target: ProcessId, bits: u64, buffer: &Buffer) -> Events {
        let (handler, events) = recorder();
        let md = Md { threshold: Some(2), auto_unlink: true, ..whole(buffer) };
        let md = self.node.md_bind(md, handler).unwrap();
        let get = Get { md, source: None, target, portal: PORTAL, match_bits: bits, offset: 0 };
        self.node.get(get).unwrap();
        events
    }
}

pub fn options() -> Options {
    let mut options = Options::default();
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = PORT;
    options
}

/// Returns an address that no other test has.
pub fn address() -> IpAddr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let process = (std::process::id() % 200) as u8;
    Ipv4Addr::new(127, 20 + process, high, low).into()
}

pub fn anyone(bits: u64) -> Me {
    Me {
        match_id: ProcessId::ANY,
        match_bits: bits,
        ignore_bits: 0,
        unlink: true,
        position: MePosition::After,
    }
}

/// A descriptor of all of `buffer`.
pub fn whole(buffer: &Buffer) -> Md {
    Md {
        buffer: buffer.id(),
        offset: 0,
        len: buffer.len() as u64,
        threshold: None,
        options: MdOptions::default(),
        max_size: 0,
        auto_unlink: false,
        user: 0,
    }
}

pub fn put(md: MdId, target: ProcessId, match_bits: u64) -> Put {
    Put {
        md,
        ack: true,
        source: None,
        target,
        portal: PORTAL,
        match_bits,
        offset: 0,
        header_data: 0,
    }
}

/// The events of a handler, for a test to wait for.
pub struct Events(Receiver<Event>);

pub fn recorder() -> (Arc<dyn Handler>, Events) {
    let (sender, receiver) = channel();
    let handler = move |_: &Node, event: &Event| {
        let _ = sender.send(*event);
    };
    (Arc::new(handler), Events(receiver))
}

impl Events {
    /// Returns the next event of `kind`.
    #[track_caller]
    pub fn wait(&self, kind: EventKind) -> Event {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.0.recv_timeout(left) {
                Ok(event) if event.kind == kind => return event,
                Ok(_) => {}
                Err(error) => panic!("no {kind:?}: {error}"),
            }
        }
    }

    /// Returns the next event that is there already.
    pub fn try_next(&self) -> Option<Event> {
        self.0.try_recv().ok()
    }

    /// Returns whether nothing happens for `time`.
    pub fn quiet_for(&self, time: Duration) -> bool {
        self.0.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }
}

/// Waits until `done`.
#[track_caller]
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what} within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|n| ((n + seed).wrapping_mul(2_654_435_761) >> 7) as u8).collect()
}

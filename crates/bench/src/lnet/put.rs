//! One node that sends PUTs, and one that receives them.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fulmar_lnet::{Event, EventKind, Md, MdOptions, Me, MePosition, Put};
use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_net::{Buffer, Handler, Node};
use serde::{Deserialize, Serialize};

use super::{MIB, runtime, start, wait_for_the_end};
use crate::Failure;

const TARGET: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const PORTAL: u32 = 40;
const MATCH_BITS: u64 = 7;
/// What is not measured: connections are opened and buffers grow.
const WARM_UP: Duration = Duration::from_millis(300);

/// PUTs of `len` bytes, `window` of them under way at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) len: u32,
    pub(crate) window: u32,
}

/// What the sender counted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// PUTs that were acknowledged while it was measured,
    puts: f64,
    /// in so many seconds,
    seconds: f64,
    /// and in all.
    total: f64,
}

/// What the receiver counted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Received {
    /// Payload bytes that the kernel put where they belong,
    direct: f64,
    /// and those that were copied once more.
    staged: f64,
}

impl Sent {
    /// PUTs per second.
    pub(crate) fn rate(&self) -> f64 {
        self.puts / self.seconds
    }

    pub(crate) fn gigabytes_per_second(&self, len: u32) -> f64 {
        self.rate() * f64::from(len) / 1e9
    }

    /// All that was sent.
    pub(crate) fn gigabytes(&self, len: u32) -> f64 {
        self.total * f64::from(len) / 1e9
    }
}

impl Received {
    /// The share of the bytes that was copied once more.
    pub(crate) fn copied(&self) -> f64 {
        self.staged / (self.direct + self.staged)
    }
}

/// Takes PUTs until standard input ends.
pub(crate) fn receive(port: u16) -> Result<(), Failure> {
    let runtime = runtime()?;
    let node = start(&runtime, TARGET.into(), port)?;
    let me = Me {
        match_id: ProcessId::ANY,
        match_bits: MATCH_BITS,
        ignore_bits: 0,
        unlink: false,
        position: MePosition::After,
    };
    let me = node.me_attach(PORTAL, me).map_err(refused)?;
    let buffer = node.allocate(MIB as usize);
    let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE);
    node.md_attach(me, descriptor(&buffer, options), Arc::new(|_: &Node, _: &Event| {}))
        .map_err(refused)?;
    println!("ready");
    wait_for_the_end();
    let counters = node.io_counters();
    node.stop();
    let direct = counters.payload_bytes_direct_in as f64;
    report(&Received { direct, staged: counters.payload_bytes_staged_in as f64 });
    Ok(())
}

/// Sends PUTs for some time, each as soon as an earlier one is acknowledged.
pub(crate) fn send(port: u16, flow: Flow, duration: Duration) -> Result<(), Failure> {
    let runtime = runtime()?;
    let node = start(&runtime, SOURCE.into(), port)?;
    let target = ProcessId::lustre(Nid::of_ip(Net::TCP, TARGET.into()));
    node.ping(target, None, Duration::from_secs(5)).map_err(refused)?;
    let sender = Arc::new(Sender::to(target));
    // One buffer for all, as iperf3 sends one again and again: both are as warm in the caches.
    let buffer = node.allocate(flow.len as usize);
    // All that nobody has written is one page of zeros, which no cache could lose.
    buffer.fill(1);
    for _ in 0..flow.window {
        let md = descriptor(&buffer, MdOptions::default());
        let md = node.md_bind(md, sender.clone()).map_err(refused)?;
        node.put(put(md, target)).map_err(refused)?;
    }
    sleep(WARM_UP);
    let (begun, before) = (Instant::now(), sender.check()?);
    sleep(duration);
    let (seconds, after) = (begun.elapsed().as_secs_f64(), sender.check()?);
    sender.stopping.store(true, Ordering::Relaxed);
    let deadline = Instant::now() + Duration::from_secs(5);
    while sender.stopped.load(Ordering::Relaxed) < u64::from(flow.window) {
        if Instant::now() > deadline {
            return Err(Failure("PUTs were not acknowledged within 5 s".into()));
        }
        sleep(Duration::from_millis(1));
    }
    let total = sender.check()?;
    node.stop();
    report(&Sent { puts: (after - before) as f64, seconds, total: total as f64 });
    Ok(())
}

/// Counts the acknowledgements, and sends again.
struct Sender {
    target: ProcessId,
    acknowledged: AtomicU64,
    failed: AtomicU64,
    stopping: AtomicBool,
    stopped: AtomicU64,
}

impl Handler for Sender {
    fn handle(&self, node: &Node, event: &Event) {
        match (event.kind, event.status) {
            (EventKind::Ack, Ok(())) => self.acknowledged.fetch_add(1, Ordering::Relaxed),
            (EventKind::Send, Ok(())) => return,
            _ => self.failed.fetch_add(1, Ordering::Relaxed),
        };
        if self.stopping.load(Ordering::Relaxed) {
            self.stopped.fetch_add(1, Ordering::Relaxed);
        } else if node.put(put(event.md, self.target)).is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Sender {
    fn to(target: ProcessId) -> Self {
        Self {
            target,
            acknowledged: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            stopped: AtomicU64::new(0),
        }
    }

    /// Returns how many PUTs have been acknowledged, provided that none has failed.
    fn check(&self) -> Result<u64, Failure> {
        match self.failed.load(Ordering::Relaxed) {
            0 => Ok(self.acknowledged.load(Ordering::Relaxed)),
            failed => Err(Failure(format!("{failed} PUTs failed"))),
        }
    }
}

fn descriptor(buffer: &Buffer, options: MdOptions) -> Md {
    Md {
        buffer: buffer.id(),
        offset: 0,
        len: buffer.len() as u64,
        threshold: None,
        options,
        max_size: 0,
        auto_unlink: false,
        user: 0,
    }
}

fn put(md: fulmar_lnet::MdId, target: ProcessId) -> Put {
    Put {
        md,
        ack: true,
        source: None,
        target,
        portal: PORTAL,
        match_bits: MATCH_BITS,
        offset: 0,
        header_data: 0,
    }
}

fn refused(errno: fulmar_base::Errno) -> Failure {
    Failure(format!("the node refused: {errno}"))
}

fn report(value: &impl Serialize) {
    println!("{}", serde_json::to_string(value).expect("numbers are JSON"));
}

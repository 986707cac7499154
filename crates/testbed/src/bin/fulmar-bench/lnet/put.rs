//! One node that sends PUTs, and one that receives them.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fulmar_lnet::{EventKind, MdOptions, Put, ServiceConfig};
use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_net::exchange::{Target, anyone};
use fulmar_net::{
    Batch, Buffer, Delivery, Descriptor, Handler, LockUse, Memory, Node, Service, processor_time,
};
use serde::{Deserialize, Serialize};

use super::{runtime, start_with, wait_for_end_of_input};
use crate::Failure;

const TARGET: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const PORTAL: u32 = 40;
const MATCH_BITS: u64 = 7;
const PAGE: usize = 4096;
/// Warm-up, in which connections are opened and buffers grow.
const WARM_UP: Duration = Duration::from_millis(300);

/// PUTs of `len` bytes, `window` of them in flight at once.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Flow {
    pub(crate) len: u32,
    pub(crate) window: u32,
    /// Whether the PUTs use the pages of one memory in mixed order.
    pub(crate) scattered: bool,
    /// Whether to measure the lock use of the nodes.
    pub(crate) lock_times: bool,
}

impl Flow {
    pub(crate) fn new(len: u32, window: u32) -> Self {
        Self { len, window, scattered: false, lock_times: false }
    }

    /// Returns the memory of a whole window at both ends, or of one message for all.
    fn memory(&self) -> Memory {
        let (len, window) = (self.len as usize, self.window as usize);
        let buffer = Buffer::new(if self.scattered { len * window } else { len });
        // Unwritten memory is a single page of zeros, which would always be in the cache.
        buffer.fill(1);
        if !self.scattered {
            return buffer.into();
        }
        let pages = buffer.len() / PAGE;
        // An odd factor visits every page of a power of two exactly once.
        let place = |page: usize| page * 2_654_435_761 % pages * PAGE;
        let slices = (0..pages).map(|page| buffer.slice(place(page)..place(page) + PAGE));
        Memory::gather(slices.collect::<Vec<_>>()).expect("no more pages than segments")
    }

    /// Returns the offset of a message of the window in the memory.
    fn offset(&self, message: u32) -> u32 {
        if self.scattered { message * self.len } else { 0 }
    }
}

/// Use of the lock of a node, and CPU time of its process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Lock {
    pub(crate) turns: f64,
    /// CPU time in seconds.
    held: f64,
    cpu: f64,
}

impl Lock {
    fn of(node: &Node) -> Self {
        let LockUse { turns, held } = node.lock_use();
        Self { turns: turns as f64, held: held.as_secs_f64(), cpu: processor_time().as_secs_f64() }
    }

    /// Returns the share of the CPU time for which the lock was held.
    pub(crate) fn share(&self) -> f64 {
        self.held / self.cpu
    }
}

/// The counts of the sender.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SenderCounts {
    /// PUTs that were acknowledged during the measurement.
    puts: f64,
    /// Duration of the measurement in seconds.
    seconds: f64,
    /// PUTs in total.
    total: f64,
    pub(crate) lock: Lock,
}

/// The counts of the receiver.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReceiverCounts {
    /// Payload bytes that the kernel stored directly at their destination.
    direct: f64,
    /// Payload bytes that were copied once more.
    staged: f64,
    pub(crate) lock: Lock,
}

impl SenderCounts {
    /// Returns PUTs per second.
    pub(crate) fn rate(&self) -> f64 {
        self.puts / self.seconds
    }

    pub(crate) fn gigabytes_per_second(&self, len: u32) -> f64 {
        self.rate() * f64::from(len) / 1e9
    }

    /// Returns the number of all PUTs.
    pub(crate) fn total(&self) -> f64 {
        self.total
    }

    /// Returns the amount of all sent data.
    pub(crate) fn gigabytes(&self, len: u32) -> f64 {
        self.total * f64::from(len) / 1e9
    }
}

impl ReceiverCounts {
    /// Returns the share of the bytes that was copied once more.
    pub(crate) fn copied(&self) -> f64 {
        self.staged / (self.direct + self.staged)
    }
}

/// Receives PUTs until standard input ends.
pub(crate) fn receive(port: u16, flow: Flow) -> Result<(), Failure> {
    let runtime = runtime()?;
    let node = start_with(&runtime, TARGET.into(), port, flow.lock_times)?;
    let ignore = Arc::new(|_: &Service, _: &mut Vec<Delivery>| {});
    let service = node.open_service(ServiceConfig::default(), ignore).map_err(refused)?;
    let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE);
    let descriptor = Descriptor::over(flow.memory()).options(options);
    service.attach(PORTAL, anyone(MATCH_BITS), descriptor).map_err(refused)?;
    println!("ready");
    wait_for_end_of_input();
    let (counters, lock) = (node.io_counters(), Lock::of(&node));
    node.stop();
    let direct = counters.payload_bytes_direct_in as f64;
    report(&ReceiverCounts { direct, staged: counters.payload_bytes_staged_in as f64, lock });
    Ok(())
}

/// Sends PUTs for some time, each as soon as an earlier one is acknowledged.
pub(crate) fn send(port: u16, flow: Flow, duration: Duration) -> Result<(), Failure> {
    let runtime = runtime()?;
    let node = start_with(&runtime, SOURCE.into(), port, flow.lock_times)?;
    let target = ProcessId::lustre(Nid::of_ip(Net::TCP, TARGET.into()));
    node.admin().ping(target, None, Duration::from_secs(5)).map_err(refused)?;
    let sender = Arc::new(Sender::to(target));
    let service = node.open_service(ServiceConfig::default(), sender.clone()).map_err(refused)?;
    // One buffer for all, as iperf3 sends the same one repeatedly: cache effects are equal.
    let memory = flow.memory();
    let mut batch = Batch::new();
    for message in 0..flow.window {
        let offset = flow.offset(message);
        let part = memory.slice(offset as usize..(offset + flow.len) as usize);
        let descriptor = Descriptor::over(part).user(offset.into());
        batch.put(descriptor, sender.put(offset));
    }
    service.post(batch).into_iter().try_for_each(|begun| begun.map(drop)).map_err(refused)?;
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
    let (total, lock) = (sender.check()? as f64, Lock::of(&node));
    node.stop();
    report(&SenderCounts { puts: (after - before) as f64, seconds, total, lock });
    Ok(())
}

/// Counts the acknowledgements, and sends the next PUTs.
struct Sender {
    target: Target,
    acknowledged: AtomicU64,
    failed: AtomicU64,
    stopping: AtomicBool,
    stopped: AtomicU64,
}

impl Handler for Sender {
    fn handle(&self, service: &Service, events: &mut Vec<Delivery>) {
        let mut batch = Batch::new();
        for Delivery { event, .. } in events.drain(..) {
            match (event.kind, event.status) {
                (EventKind::Ack, Ok(())) => self.acknowledged.fetch_add(1, Ordering::Relaxed),
                (EventKind::Send, Ok(())) => continue,
                _ => self.failed.fetch_add(1, Ordering::Relaxed),
            };
            if self.stopping.load(Ordering::Relaxed) {
                self.stopped.fetch_add(1, Ordering::Relaxed);
            } else {
                batch.put_again(event.md, self.put(event.user as u32));
            }
        }
        if !batch.is_empty() {
            let failed = service.post(batch).into_iter().filter(Result::is_err).count();
            self.failed.fetch_add(failed as u64, Ordering::Relaxed);
        }
    }
}

impl Sender {
    fn to(process: ProcessId) -> Self {
        Self {
            target: Target { process, portal: PORTAL, match_bits: MATCH_BITS },
            acknowledged: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            stopped: AtomicU64::new(0),
        }
    }

    fn put(&self, offset: u32) -> Put {
        Put { offset, ..self.target.put() }
    }

    /// Returns how many PUTs have been acknowledged, or fails if any PUT failed.
    fn check(&self) -> Result<u64, Failure> {
        match self.failed.load(Ordering::Relaxed) {
            0 => Ok(self.acknowledged.load(Ordering::Relaxed)),
            failed => Err(Failure(format!("{failed} PUTs failed"))),
        }
    }
}

fn refused(errno: fulmar_base::Errno) -> Failure {
    Failure(format!("the node refused: {errno}"))
}

fn report(value: &impl Serialize) {
    println!("{}", serde_json::to_string(value).expect("numbers are JSON"));
}

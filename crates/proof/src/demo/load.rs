//! Many operations at once from one node to another, each begun when an earlier one is done.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventKind, Get, Md, MdId, MdOptions, MeId, Put};
use fulmar_lnet_wire::ProcessId;
use fulmar_net::{Buffer, Handler, Node};

use crate::check::Checker;
use crate::exchange::{self, whole};

/// What is done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// It is stored at the other node, which acknowledges it.
    Put,
    /// It is fetched from the other node.
    Get,
}

/// Messages of one length, so many of them under way at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) name: &'static str,
    pub(super) operation: Operation,
    pub(super) len: usize,
    pub(super) window: usize,
}

/// What was carried while it was measured.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) work: Work,
    pub(super) elapsed: Duration,
    /// Of each operation, in nanoseconds, sorted.
    pub(super) latencies: Vec<u64>,
    /// Payload that arrived: all of it, and that which was copied once only.
    pub(super) received: u64,
    pub(super) copied_once: u64,
}

impl Measured {
    pub(super) fn operations_per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    pub(super) fn bytes_per_second(&self) -> f64 {
        self.operations_per_second() * self.work.len as f64
    }

    /// Returns the latency that so many of a hundred operations do not exceed.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let at = (self.latencies.len() * percent).div_ceil(100).max(1) - 1;
        Duration::from_nanos(self.latencies.get(at).copied().unwrap_or(0))
    }

    pub(super) fn mean(&self) -> Duration {
        let sum: u64 = self.latencies.iter().sum();
        Duration::from_nanos(sum.checked_div(self.latencies.len() as u64).unwrap_or(0))
    }
}

/// Does `work` for `length` and says every now and then how many operations were done, and when.
///
/// # Errors
/// What failed.
pub(super) fn run(
    (from, to): (&Node, &Node),
    target: ProcessId,
    work: Work,
    length: Duration,
    mut watch: impl FnMut(u64, Duration),
) -> Result<Measured, String> {
    let failed = |errno: Errno| format!("{} cannot begin: {errno}", work.name);
    let flow = Arc::new(Flow::new(from, to, target, work));
    let entry = flow.open(to).map_err(failed)?;
    flow.begin_all(from).map_err(failed)?;
    std::thread::sleep(WARM_UP);
    let receiver = if work.operation == Operation::Put { to } else { from };
    let before = receiver.io_counters();
    let begun = flow.measure();
    while begun.elapsed() < length {
        std::thread::sleep(TICK.min(length.saturating_sub(begun.elapsed())));
        watch(flow.count()?, begun.elapsed());
    }
    let (latencies, elapsed) = flow.stop(begun)?;
    let after = receiver.io_counters();
    let copied_once = after.payload_bytes_direct_in - before.payload_bytes_direct_in;
    let staged = after.payload_bytes_staged_in - before.payload_bytes_staged_in;
    to.me_unlink(entry).map_err(|errno| format!("{} cannot end: {errno}", work.name))?;
    flow.arrived.result()?;
    Ok(Measured { work, elapsed, latencies, received: copied_once + staged, copied_once })
}

/// The operations of one [`run`]. Message `n` of the window is at `n * len` of both buffers.
struct Flow {
    work: Work,
    target: ProcessId,
    /// At the node that begins the operations, and at the other.
    near: Buffer,
    far: Buffer,
    arrived: Checker,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    measuring: bool,
    stopping: bool,
    active: usize,
    /// The number of the next message.
    next: u64,
    /// When the operation of each place in the window began.
    begun: Vec<Option<Instant>>,
    latencies: Vec<u64>,
    failure: Option<String>,
}

impl Flow {
    fn new(from: &Node, to: &Node, target: ProcessId, work: Work) -> Self {
        let (near, far) =
            (from.allocate(work.len * work.window), to.allocate(work.len * work.window));
        let arrived = Checker::new(work.len);
        arrived.fill(if work.operation == Operation::Put { &near } else { &far });
        let state = State { begun: vec![None; work.window], ..Default::default() };
        Self { work, target, near, far, arrived, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Lets the other node take part.
    fn open(self: &Arc<Self>, to: &Node) -> Result<MeId, Errno> {
        let access = match self.work.operation {
            Operation::Put => MdOptions::OP_PUT,
            Operation::Get => MdOptions::OP_GET,
        };
        let flow = self.clone();
        let handler = move |_: &Node, event: &Event| flow.handle_far(event);
        let options = access.with(MdOptions::MANAGE_REMOTE);
        let address = (PORTAL, MATCH_BITS);
        exchange::offer(to, address, &self.far, options, Arc::new(handler)).map(|(me, _)| me)
    }

    fn begin_all(self: &Arc<Self>, from: &Node) -> Result<(), Errno> {
        self.lock().active = self.work.window;
        for place in 0..self.work.window {
            let (offset, len) = ((place * self.work.len) as u64, self.work.len as u64);
            let md = Md { offset, len, user: place as u64, ..whole(&self.near) };
            let md = from.md_bind(md, self.clone())?;
            self.begin(from, md, place)?;
        }
        Ok(())
    }

    fn begin(&self, node: &Node, md: MdId, place: usize) -> Result<(), Errno> {
        let at = place * self.work.len;
        let number = {
            let mut state = self.lock();
            state.next += 1;
            state.next
        };
        let (target, source, portal) = (self.target, None, PORTAL);
        let (match_bits, offset) = (MATCH_BITS, at as u32);
        let begin = |now| self.lock().begun[place] = Some(now);
        match self.work.operation {
            Operation::Put => {
                self.arrived.stamp(&self.near, at, number);
                begin(Instant::now());
                let (ack, header_data) = (true, number);
                node.put(Put { md, ack, source, target, portal, match_bits, offset, header_data })
            }
            Operation::Get => {
                begin(Instant::now());
                node.get(Get { md, source, target, portal, match_bits, offset })
            }
        }
    }

    /// Forgets what was done so far, and returns when that was.
    fn measure(&self) -> Instant {
        let mut state = self.lock();
        state.measuring = true;
        Instant::now()
    }

    /// Returns how many operations have been done while it was measured.
    fn count(&self) -> Result<u64, String> {
        let state = self.lock();
        state.failure.clone().map_or(Ok(state.latencies.len() as u64), Err)
    }

    /// Ends the measurement, waits for the operations that are under way, and returns the sorted
    /// latencies and how long it was.
    fn stop(&self, begun: Instant) -> Result<(Vec<u64>, Duration), String> {
        let mut state = self.lock();
        let elapsed = begun.elapsed();
        (state.measuring, state.stopping) = (false, true);
        let mut latencies = std::mem::take(&mut state.latencies);
        let waits = |state: &mut State| state.active > 0 && state.failure.is_none();
        let waited = self.changed.wait_timeout_while(state, PATIENCE, waits);
        let (state, timeout) = waited.expect("no handler panics");
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        if timeout.timed_out() {
            let (active, name) = (state.active, self.work.name);
            return Err(format!("{active} {name} were not answered within {PATIENCE:?}"));
        }
        if latencies.is_empty() {
            return Err(format!("no {} was answered within {elapsed:?}", self.work.name));
        }
        latencies.sort_unstable();
        Ok((latencies, elapsed))
    }

    /// A message has come to the other node, or has been fetched from there.
    fn handle_far(&self, event: &Event) {
        match (event.kind, event.status) {
            (EventKind::Put, Ok(())) => {
                self.arrived.check(&self.far, event.offset as usize, event.header_data);
            }
            (EventKind::Get | EventKind::Unlink, Ok(())) => {}
            (kind, status) => self.fail(kind, status),
        }
    }

    fn fail(&self, kind: EventKind, status: Result<(), Errno>) {
        let text = format!("{}: {kind:?} ended with {status:?}", self.work.name);
        self.lock().failure.get_or_insert(text);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no handler panics")
    }
}

impl Handler for Flow {
    /// An operation that we began is done, or has got further.
    fn handle(&self, node: &Node, event: &Event) {
        let place = event.user as usize;
        match (event.kind, event.status) {
            (EventKind::Send | EventKind::Unlink, Ok(())) => return,
            (EventKind::Ack, Ok(())) => {}
            (EventKind::Reply, Ok(())) => {
                self.arrived.check(&self.near, place * self.work.len, place as u64);
            }
            (kind, status) => return self.fail(kind, status),
        }
        let mut state = self.lock();
        if let (true, Some(begun)) = (state.measuring, state.begun[place]) {
            state.latencies.push(begun.elapsed().as_nanos() as u64);
        }
        if !state.stopping {
            drop(state);
            if let Err(errno) = self.begin(node, event.md, place) {
                self.fail(event.kind, Err(errno));
            }
            return;
        }
        state.active -= 1;
        drop(state);
        self.changed.notify_all();
        // It is idle, so that it goes at once.
        let _ = node.md_unlink(event.md);
    }
}

const PORTAL: u32 = 40;
const MATCH_BITS: u64 = 0x6675_6c6d_6172;
/// What is not measured: buffers and windows grow.
const WARM_UP: Duration = Duration::from_millis(200);
const TICK: Duration = Duration::from_millis(100);
/// How long what is under way at the end may take.
const PATIENCE: Duration = Duration::from_secs(5);

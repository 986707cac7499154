//! Concurrent operations from one node to another: each one that completes starts the next.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventKind, Get, MdOptions, Put, ServiceConfig};
use fulmar_lnet_wire::ProcessId;
use fulmar_net::exchange::{Checker, Target, anyone};
use fulmar_net::{Batch, Buffer, Delivery, Descriptor, Handler, Node, Service};

/// An operation on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Stores data at the other node, which acknowledges it.
    Put,
    /// Fetches data from the other node.
    Get,
}

/// Messages of one length, `window` of them in flight at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) name: &'static str,
    pub(super) operation: Operation,
    pub(super) len: usize,
    pub(super) window: usize,
}

/// The result of a measurement.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    pub(super) work: Work,
    pub(super) elapsed: Duration,
    /// Latency of each operation in nanoseconds, sorted.
    pub(super) latencies: Vec<u64>,
    /// Payload that arrived, in bytes: all of it, and the part that was copied only once.
    pub(super) received: u64,
    pub(super) copied_once: u64,
}

impl Measurement {
    pub(super) fn operations_per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    pub(super) fn bytes_per_second(&self) -> f64 {
        self.operations_per_second() * self.work.len as f64
    }

    /// Returns a percentile of the latencies.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let at = (self.latencies.len() * percent).div_ceil(100).max(1) - 1;
        Duration::from_nanos(self.latencies.get(at).copied().unwrap_or(0))
    }

    pub(super) fn mean(&self) -> Duration {
        let sum: u64 = self.latencies.iter().sum();
        Duration::from_nanos(sum.checked_div(self.latencies.len() as u64).unwrap_or(0))
    }
}

/// Runs `work` for `length`; calls `watch` regularly with the number of operations and the time.
///
/// # Errors
/// A description of the failure.
pub(super) fn run(
    (from, to): (&Node, &Node),
    target: ProcessId,
    work: Work,
    length: Duration,
    mut watch: impl FnMut(u64, Duration),
) -> Result<Measurement, String> {
    let failed = |errno: Errno| format!("{} cannot start: {errno}", work.name);
    let flow = Arc::new(Flow::new(target, work));
    let far = flow.open(to).map_err(failed)?;
    let near = from.open_service(ServiceConfig::default(), flow.clone()).map_err(failed)?;
    flow.begin_all(&near).map_err(failed)?;
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
    far.close();
    near.close();
    flow.arrived.result()?;
    Ok(Measurement { work, elapsed, latencies, received: copied_once + staged, copied_once })
}

/// The operations of one [`run`]. Message `n` of the window is at offset `n * len` of both buffers.
struct Flow {
    work: Work,
    target: ProcessId,
    /// Buffers of the node that starts the operations, and of the other node.
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
    /// When the operation in each slot of the window started.
    begun: Vec<Option<Instant>>,
    latencies: Vec<u64>,
    failure: Option<String>,
}

impl Flow {
    fn new(target: ProcessId, work: Work) -> Self {
        let (near, far) =
            (Buffer::new(work.len * work.window), Buffer::new(work.len * work.window));
        let arrived = Checker::new(work.len);
        arrived.fill(if work.operation == Operation::Put { &near } else { &far });
        let state = State { begun: vec![None; work.window], ..Default::default() };
        Self { work, target, near, far, arrived, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Attaches the buffer of the other node.
    fn open(self: &Arc<Self>, to: &Node) -> Result<Service, Errno> {
        let access = match self.work.operation {
            Operation::Put => MdOptions::OP_PUT,
            Operation::Get => MdOptions::OP_GET,
        };
        let flow = self.clone();
        let handler = move |_: &Service, events: &mut Vec<Delivery>| {
            events.iter().for_each(|delivery| flow.handle_far(&delivery.event));
        };
        let service = to.open_service(ServiceConfig::default(), Arc::new(handler))?;
        let options = access.with(MdOptions::MANAGE_REMOTE);
        let descriptor = Descriptor::over(&self.far).options(options);
        service.attach(PORTAL, anyone(MATCH_BITS), descriptor)?;
        Ok(service)
    }

    fn begin_all(&self, service: &Service) -> Result<(), Errno> {
        self.lock().active = self.work.window;
        for place in 0..self.work.window {
            let slice = self.near.slice(place * self.work.len..(place + 1) * self.work.len);
            let descriptor = Descriptor::over(slice).user(place as u64);
            match self.next(place) {
                Next::Put(put) => service.put(descriptor, put)?,
                Next::Get(get) => service.get(descriptor, get)?,
            };
        }
        Ok(())
    }

    /// Returns the next operation of a slot of the window; its latency counts from now.
    fn next(&self, place: usize) -> Next {
        let at = place * self.work.len;
        let number = {
            let mut state = self.lock();
            state.next += 1;
            state.next
        };
        let target = Target { process: self.target, portal: PORTAL, match_bits: MATCH_BITS };
        let offset = at as u32;
        let next = match self.work.operation {
            Operation::Put => {
                self.arrived.stamp(&self.near, at, number);
                Next::Put(Put { offset, header_data: number, ..target.put() })
            }
            Operation::Get => Next::Get(Get { offset, ..target.get() }),
        };
        self.lock().begun[place] = Some(Instant::now());
        next
    }

    /// Handles an event of an operation of this node. Returns the next operation, if there is one.
    fn handle_near(&self, event: &Event) -> Option<Next> {
        let place = event.user as usize;
        match (event.kind, event.status) {
            (EventKind::Send | EventKind::Unlink, Ok(())) => return None,
            (EventKind::Ack, Ok(())) => {}
            (EventKind::Reply, Ok(())) => {
                self.arrived.check(&self.near, place * self.work.len, place as u64);
            }
            (kind, status) => {
                self.fail(kind, status);
                return None;
            }
        }
        let mut state = self.lock();
        if let (true, Some(begun)) = (state.measuring, state.begun[place]) {
            state.latencies.push(begun.elapsed().as_nanos() as u64);
        }
        if state.stopping {
            state.active -= 1;
            drop(state);
            self.changed.notify_all();
            return None;
        }
        drop(state);
        Some(self.next(place))
    }

    /// Starts the measurement and returns the time.
    fn measure(&self) -> Instant {
        let mut state = self.lock();
        state.measuring = true;
        Instant::now()
    }

    /// Returns the number of operations.
    fn count(&self) -> Result<u64, String> {
        let state = self.lock();
        state.failure.clone().map_or(Ok(state.latencies.len() as u64), Err)
    }

    /// Ends the measurement and waits for the operations in flight. Returns the sorted latencies
    /// and the duration.
    fn stop(&self, begun: Instant) -> Result<(Vec<u64>, Duration), String> {
        let mut state = self.lock();
        let elapsed = begun.elapsed();
        (state.measuring, state.stopping) = (false, true);
        let mut latencies = std::mem::take(&mut state.latencies);
        let waits = |state: &mut State| state.active > 0 && state.failure.is_none();
        let waited = self.changed.wait_timeout_while(state, TIMEOUT, waits);
        let (state, timeout) = waited.expect("no handler panics");
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        if timeout.timed_out() {
            let (active, name) = (state.active, self.work.name);
            return Err(format!("{active} {name} were not answered within {TIMEOUT:?}"));
        }
        if latencies.is_empty() {
            return Err(format!("no {} was answered within {elapsed:?}", self.work.name));
        }
        latencies.sort_unstable();
        Ok((latencies, elapsed))
    }

    /// Handles a message that arrived at, or was fetched from, the other node.
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
    fn handle(&self, service: &Service, events: &mut Vec<Delivery>) {
        let mut batch = Batch::new();
        for Delivery { event, .. } in events.drain(..) {
            match self.handle_near(&event) {
                Some(Next::Put(put)) => batch.put_again(event.md, put),
                Some(Next::Get(get)) => batch.get_again(event.md, get),
                None => {}
            }
        }
        if let Some(errno) = service.post(batch).into_iter().find_map(Result::err) {
            self.fail(EventKind::Send, Err(errno));
        }
    }
}

/// An operation to start.
enum Next {
    Put(Put),
    Get(Get),
}

const PORTAL: u32 = 40;
const MATCH_BITS: u64 = 0x6675_6c6d_6172;
/// Time before the measurement, in which buffers and windows grow.
const WARM_UP: Duration = Duration::from_millis(200);
const TICK: Duration = Duration::from_millis(100);
/// Timeout of the last operations.
const TIMEOUT: Duration = Duration::from_secs(5);

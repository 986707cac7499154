//! The process that sends PUTs and GETs, many messages at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventKind, Get, Put, ServiceConfig};
use fulmar_net::exchange::{Checker, Target};
use fulmar_net::{Buffer, Delivery, Descriptor, Handler, Runtime, Service};

use super::serve::UNCHECKED;
use super::{
    Endpoint, Outcome, PLACES, PORTAL, Sample, TICK, Work, match_bits, now_ms, print_line, process,
    wait_for_end_of_input,
};
use crate::witness::Witness;

/// Additional time for the last messages, beyond the transaction timeout.
const EXTRA_TIMEOUT: Duration = Duration::from_secs(10);
/// How many failures are described.
const FAILURES_TOLD: usize = 8;

/// Runs `work` until standard input ends. Prints `ready` after the first answered message, then a
/// [`Sample`] every [`TICK`], and at the end an [`Outcome`].
///
/// # Errors
/// Why it cannot start.
pub fn load(endpoint: &Endpoint, work: &Work) -> Result<(), String> {
    let runtime = Runtime::new(None).map_err(|error| error.to_string())?;
    let (node, witness) = endpoint.start(&runtime)?;
    let window = Window::new(witness, work)?;
    let service = node.open_service(ServiceConfig::default(), window.clone());
    let service = service.map_err(|errno| errno.to_string())?;
    window.begin_all(&service)?;
    let answered = window.wait(|state| state.done + state.failed > 0, timeout(endpoint));
    if !answered {
        return Err(format!("{} does not answer", work.target));
    }
    println!("ready");
    let printed = {
        let (window, ended) = (window.clone(), Arc::new(AtomicBool::new(false)));
        let (node, end) = (node.clone(), ended.clone());
        let teller = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                print_line(&window.lock().sample());
                window.witness.check_active(&node);
                window.begin_again(&service);
                std::thread::sleep(TICK);
            }
        });
        wait_for_end_of_input();
        end.store(true, Ordering::Relaxed);
        teller.join()
    };
    printed.map_err(|_| "cannot print the figures".to_owned())?;
    {
        let mut state = window.lock();
        state.stopping = true;
        state.active -= std::mem::take(&mut state.resting).len();
    }
    window.wait(|state| state.active == 0, timeout(endpoint));
    window.witness.check_idle(&node);
    let resent = node.admin().stats().resend_count;
    node.stop();
    print_line(&Outcome { resent, ..window.outcome() });
    Ok(())
}

fn timeout(endpoint: &Endpoint) -> Duration {
    let usual = fulmar_lnet::Globals::default().transaction_timeout;
    EXTRA_TIMEOUT + Duration::from_secs(endpoint.transaction_timeout.unwrap_or(usual).into())
}

/// The messages in flight; each has its own slot at both ends.
struct Window {
    witness: Arc<Witness>,
    work: Work,
    places: Vec<Place>,
    state: Mutex<State>,
    changed: Condvar,
}

struct Place {
    put: bool,
    size: usize,
    /// The remote target.
    offset: u32,
    buffer: Buffer,
    checker: Checker,
    /// A message failed here and may still arrive beside another one, so that data is not checked
    /// any more.
    doubtful: AtomicBool,
}

#[derive(Default)]
struct State {
    stopping: bool,
    active: usize,
    number: u64,
    done: u64,
    bytes: u64,
    failed: u64,
    longest: Duration,
    begun: Vec<Option<Instant>>,
    /// Number of descriptors created.
    descriptors: u64,
    /// [`Descriptor::user`] of the descriptor of each slot, made of its number and that of the
    /// slot; events of earlier descriptors are ignored.
    current: Vec<Option<u64>>,
    /// Slots whose message has failed: they pause for a moment.
    resting: Vec<usize>,
    failures: Vec<String>,
}

impl State {
    fn sample(&self) -> Sample {
        let Self { done, bytes, failed, .. } = *self;
        Sample { at_ms: now_ms(), done, bytes, failed }
    }
}

impl Window {
    fn new(witness: Arc<Witness>, work: &Work) -> Result<Arc<Self>, String> {
        if work.window == 0 || work.window > PLACES || work.sizes.is_empty() {
            return Err(format!("the window must be 1 to {PLACES}, with at least one size"));
        }
        let place = |number: usize| {
            let put = if work.puts && work.gets { number.is_multiple_of(2) } else { work.puts };
            // Slots with equal index modulo the lengths share a length.
            let turn = if work.puts && work.gets { number / 2 } else { number };
            let size = work.sizes[turn % work.sizes.len()];
            let (buffer, checker) = (Buffer::new(size), Checker::new(size));
            checker.fill(&buffer);
            let offset = if put { (number * size) as u32 } else { 0 };
            Place { put, size, offset, buffer, checker, doubtful: AtomicBool::new(false) }
        };
        let places = (0..work.window).map(place).collect();
        let (begun, current) = (vec![None; work.window], vec![None; work.window]);
        let state = State { begun, current, ..State::default() };
        let (work, state) = (work.clone(), Mutex::new(state));
        Ok(Arc::new(Self { witness, work, places, state, changed: Condvar::new() }))
    }

    fn begin_all(&self, service: &Service) -> Result<(), String> {
        for number in 0..self.places.len() {
            self.lock().active += 1;
            self.begin_new(service, number).map_err(|errno| format!("cannot start: {errno}"))?;
        }
        Ok(())
    }

    /// Starts a message with a new descriptor, so that late answers to the previous one are
    /// dropped.
    fn begin_new(&self, service: &Service, number: usize) -> Result<(), Errno> {
        let user = {
            let mut state = self.lock();
            state.descriptors += 1;
            let user = state.descriptors * PLACES as u64 + number as u64;
            state.current[number] = Some(user);
            user
        };
        let descriptor = Descriptor::over(&self.places[number].buffer).user(user);
        match self.next(number) {
            Next::Put(put) => service.put(descriptor, put).map(drop),
            Next::Get(get) => service.get(descriptor, get).map(drop),
        }
    }

    /// Returns the next message of a slot; its time starts now.
    fn next(&self, number: usize) -> Next {
        let place = &self.places[number];
        let header_data = {
            let mut state = self.lock();
            state.number += 1;
            state.begun[number] = Some(Instant::now());
            state.number
        };
        let (process, match_bits) = (process(self.work.target), match_bits(place.size, place.put));
        let target = Target { process, portal: PORTAL, match_bits };
        if !place.put {
            return Next::Get(Get { offset: place.offset, ..target.get() });
        }
        let header_data = if place.doubtful.load(Ordering::Relaxed) {
            UNCHECKED
        } else {
            place.checker.stamp(&place.buffer, 0, header_data);
            header_data
        };
        Next::Put(Put { offset: place.offset, header_data, ..target.put() })
    }

    /// Restarts slots whose message has failed.
    fn begin_again(&self, service: &Service) {
        let resting = std::mem::take(&mut self.lock().resting);
        for number in resting {
            if let Err(errno) = self.begin_new(service, number) {
                self.ended(number, Err(format!("cannot start: {errno}")));
            }
        }
    }

    /// Counts the message of a slot as done or failed; returns whether the next one starts at once.
    fn ended(&self, number: usize, result: Result<(), String>) -> bool {
        let place = &self.places[number];
        let mut state = self.lock();
        if let Some(begun) = state.begun[number].take() {
            state.longest = state.longest.max(begun.elapsed());
        }
        let is_fine = result.is_ok();
        match result {
            Ok(()) => {
                state.done += 1;
                state.bytes += place.size as u64;
            }
            Err(why) => {
                place.doubtful.store(true, Ordering::Relaxed);
                state.failed += 1;
                state.current[number] = None;
                if state.failures.len() < FAILURES_TOLD {
                    state.failures.push(why);
                }
            }
        }
        match (state.stopping, is_fine) {
            (true, _) => {
                state.active -= 1;
                state.current[number] = None;
            }
            (false, false) => state.resting.push(number),
            (false, true) => {}
        }
        let goes_on = !state.stopping && is_fine;
        drop(state);
        self.changed.notify_all();
        goes_on
    }

    /// Waits until a condition holds, or for `timeout`; returns whether it holds.
    fn wait(&self, is_so: impl Fn(&State) -> bool, timeout: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, |s| !is_so(s));
        waited.is_ok_and(|(_, timeout)| !timeout.timed_out())
    }

    fn outcome(&self) -> Outcome {
        let state = self.lock();
        Outcome {
            sum: state.sample(),
            lost: state.active as u64,
            longest_ms: state.longest.as_millis() as u64,
            failures: state.failures.clone(),
            wrong: self.places.iter().find_map(|place| place.checker.result().err()),
            broken: self.witness.found(),
            resent: 0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message to start.
enum Next {
    Put(Put),
    Get(Get),
}

impl Window {
    /// Returns the result of the message of a slot, if it has ended.
    fn result(&self, event: &Event, number: usize) -> Option<Result<(), String>> {
        let place = &self.places[number];
        match (event.kind, event.status) {
            (EventKind::Send, Ok(())) => None,
            (EventKind::Ack, Ok(())) => Some(Ok(())),
            (EventKind::Reply, Ok(())) => {
                if !place.doubtful.load(Ordering::Relaxed) {
                    // A GET reads message 0 of its length.
                    place.checker.check(&place.buffer, 0, 0);
                }
                Some(Ok(()))
            }
            (kind, status) => Some(Err(format!("{kind:?} of {} bytes: {status:?}", place.size))),
        }
    }
}

impl Handler for Window {
    fn handle(&self, service: &Service, events: &mut Vec<Delivery>) {
        for Delivery { event, .. } in events.drain(..) {
            let number = (event.user % PLACES as u64) as usize;
            if self.lock().current[number] != Some(event.user) {
                continue;
            }
            let Some(result) = self.result(&event, number) else { continue };
            if !self.ended(number, result) {
                // An idle descriptor is unlinked at once; a failed one may still get events.
                let _ = service.unlink(event.md);
                continue;
            }
            let begun = match self.next(number) {
                Next::Put(put) => service.put_again(event.md, put),
                Next::Get(get) => service.get_again(event.md, get),
            };
            if let Err(errno) = begun {
                self.ended(number, Err(format!("cannot start: {errno}")));
            }
        }
    }
}

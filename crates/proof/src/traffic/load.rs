//! The process that stores and fetches, many messages at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventKind, Get, Md, MdId, Put};
use fulmar_net::{Buffer, Handler, Node, Runtime};

use super::serve::UNCHECKED;
use super::{
    Endpoint, Outcome, PLACES, PORTAL, Sample, TICK, Work, match_bits, now_ms, process, tell,
    wait_for_the_end,
};
use crate::check::Checker;
use crate::exchange::whole;
use crate::witness::Witness;

/// How long what is under way at the end may take beside the transaction timeout.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many failures are told of in words.
const FAILURES_TOLD: usize = 8;

/// Does `work` until standard input ends. Says `ready` when a first message has been through, then a
/// [`Sample`] every [`TICK`], and in the end an [`Outcome`].
///
/// # Errors
/// Why it cannot begin.
pub fn load(endpoint: &Endpoint, work: &Work) -> Result<(), String> {
    let runtime = Runtime::new(None).map_err(|error| error.to_string())?;
    let (node, witness) = endpoint.start(&runtime)?;
    let window = Window::new(&node, witness, work)?;
    window.begin_all(&node)?;
    let answered = window.wait(|state| state.done + state.failed > 0, patience(endpoint));
    if !answered {
        return Err(format!("{} has not answered anything", work.target));
    }
    println!("ready");
    let told = {
        let (window, ended) = (window.clone(), Arc::new(AtomicBool::new(false)));
        let node = node.clone();
        let end = ended.clone();
        let teller = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                tell(&window.lock().sample());
                window.witness.look(&node);
                window.begin_again(&node);
                std::thread::sleep(TICK);
            }
        });
        wait_for_the_end();
        end.store(true, Ordering::Relaxed);
        teller.join()
    };
    told.map_err(|_| "the figures cannot be told".to_owned())?;
    {
        let mut state = window.lock();
        state.stopping = true;
        state.active -= std::mem::take(&mut state.resting).len();
    }
    window.wait(|state| state.active == 0, patience(endpoint));
    window.witness.rest(&node);
    let resent = node.with_machine(|machine| machine.lnet().stats().resend_count);
    node.stop();
    tell(&Outcome { resent, ..window.outcome() });
    Ok(())
}

fn patience(endpoint: &Endpoint) -> Duration {
    let usual = fulmar_lnet::Globals::default().transaction_timeout;
    PATIENCE + Duration::from_secs(endpoint.transaction_timeout.unwrap_or(usual).into())
}

/// The messages that are under way; each has a place of its own at either end.
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
    /// Where at the other end.
    offset: u32,
    buffer: Buffer,
    checker: Checker,
    /// A message has failed here and may still arrive, beside another: nothing is checked any more.
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
    /// The descriptor of each place; what is said of an earlier one is of no interest.
    current: Vec<Option<MdId>>,
    /// Places whose message has failed: they rest for a moment.
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
    fn new(node: &Node, witness: Arc<Witness>, work: &Work) -> Result<Arc<Self>, String> {
        if work.window == 0 || work.window > PLACES || work.sizes.is_empty() {
            return Err(format!("1 to {PLACES} messages can be under way, of some length"));
        }
        let place = |number: usize| {
            let put = if work.puts && work.gets { number.is_multiple_of(2) } else { work.puts };
            // Of those who share a length, each has every length.
            let turn = if work.puts && work.gets { number / 2 } else { number };
            let size = work.sizes[turn % work.sizes.len()];
            let (buffer, checker) = (node.allocate(size), Checker::new(size));
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

    fn begin_all(self: &Arc<Self>, node: &Node) -> Result<(), String> {
        for number in 0..self.places.len() {
            self.lock().active += 1;
            self.bind_and_begin(node, number).map_err(|errno| format!("cannot begin: {errno}"))?;
        }
        Ok(())
    }

    /// Begins with a new descriptor: what comes late for the one before finds it no more.
    fn bind_and_begin(self: &Arc<Self>, node: &Node, number: usize) -> Result<(), Errno> {
        let handler = Arc::new(InPlace { window: self.clone(), number });
        let md = Md { user: number as u64, ..whole(&self.places[number].buffer) };
        let md = node.md_bind(md, handler)?;
        self.lock().current[number] = Some(md);
        self.begin(node, md, number)
    }

    fn begin(&self, node: &Node, md: MdId, number: usize) -> Result<(), Errno> {
        let place = &self.places[number];
        let header_data = {
            let mut state = self.lock();
            state.number += 1;
            state.begun[number] = Some(Instant::now());
            state.number
        };
        let (target, portal, source) = (process(self.work.target), PORTAL, None);
        let (match_bits, offset) = (match_bits(place.size, place.put), place.offset);
        if !place.put {
            let get = Get { md, source, target, portal, match_bits, offset };
            self.witness.begins(md, &(&get).into());
            return node.get(get).inspect_err(|_| self.witness.refused(md, &(&get).into()));
        }
        let header_data = match place.doubtful.load(Ordering::Relaxed) {
            true => UNCHECKED,
            false => {
                place.checker.stamp(&place.buffer, 0, header_data);
                header_data
            }
        };
        let ack = true;
        let put = Put { md, ack, source, target, portal, match_bits, offset, header_data };
        self.witness.begins(md, &(&put).into());
        node.put(put).inspect_err(|_| self.witness.refused(md, &(&put).into()))
    }

    /// Begins where a message has failed.
    fn begin_again(self: &Arc<Self>, node: &Node) {
        let resting = std::mem::take(&mut self.lock().resting);
        for number in resting {
            if let Err(errno) = self.bind_and_begin(node, number) {
                self.ended(number, Err(format!("cannot begin: {errno}")));
            }
        }
    }

    /// Counts what has become of the message in a place; whether another is to follow at once.
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

    /// Waits until something is so, or for `patience`; whether it is.
    fn wait(&self, is_so: impl Fn(&State) -> bool, patience: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |s| !is_so(s));
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

/// The descriptor of one place.
struct InPlace {
    window: Arc<Window>,
    number: usize,
}

impl Handler for InPlace {
    fn handle(&self, node: &Node, event: &Event) {
        let Self { window, number } = self;
        let place = &window.places[*number];
        if window.lock().current[*number] != Some(event.md) {
            return;
        }
        let result = match (event.kind, event.status) {
            (EventKind::Send, Ok(())) => return,
            (EventKind::Ack, Ok(())) => Ok(()),
            (EventKind::Reply, Ok(())) => {
                if !place.doubtful.load(Ordering::Relaxed) {
                    // What is offered to GETs is message 0 of its length.
                    place.checker.check(&place.buffer, 0, 0);
                }
                Ok(())
            }
            (kind, status) => Err(format!("{kind:?} of {} bytes: {status:?}", place.size)),
        };
        if !window.ended(*number, result) {
            // It is idle, so that it goes at once; unless it has failed, and more may come for it.
            window.witness.unlinks(event.md);
            let _ = node.md_unlink(event.md);
        } else if let Err(errno) = window.begin(node, event.md, *number) {
            window.ended(*number, Err(format!("cannot begin: {errno}")));
        }
    }
}

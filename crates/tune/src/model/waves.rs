//! Convoys: the queue for the credits of one sender, followed message by message.
//!
//! ```text
//! bulk ─► [ waits for a credit, first in first out ] ─► line ─► ½ RTT ─► the other end
//!   ▲                        ▲                                                 │
//!   └── RTT ── small ◄───────┴──────────── ½ RTT ◄─────────────────────────────┘
//! ```
//!
//! The small message is a client's next request (write) or a server's reply (read). It also needs a
//! credit for a short time, and waits behind the bulk of other RPCs. In front of a router the two are in two
//! connections, and the first message of each waits for a credit of the router, which go to them in turn.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::terms::Facts;
use super::{Hold, Load};

/// With more messages in flight than this, the length of the convoy gives the result.
const FOLLOWED_MAX: u64 = 4096;
const ROUNDS_BEFORE: u32 = 6;
const ROUNDS: u32 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// All bulk of an RPC is requested.
    Bulk,
    /// One of its messages returned its credit.
    Credit,
    /// One of its messages has arrived, so that the small message may follow.
    Moved,
}

#[derive(Clone, Copy, Debug)]
enum Waiting {
    Bulk(usize),
    Small(usize),
}

/// The messages that wait for a credit.
struct Line {
    is_one_queue: bool,
    /// All messages, or those of the bulk connection.
    first: VecDeque<Waiting>,
    /// Small messages, if they have a connection of their own.
    small: VecDeque<Waiting>,
    small_is_next: bool,
}

impl Line {
    fn push(&mut self, message: Waiting) {
        match message {
            Waiting::Small(_) if !self.is_one_queue => self.small.push_back(message),
            _ => self.first.push_back(message),
        }
    }

    fn pop(&mut self) -> Option<Waiting> {
        let small =
            if self.small_is_next || self.first.is_empty() { self.small.pop_front() } else { None };
        self.small_is_next = small.is_none();
        small.or_else(|| self.first.pop_front())
    }
}

/// Nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Rpc {
    moving: u64,
    /// The time when the last of its data has left the line.
    left: u64,
    rounds: u32,
}

struct Queue {
    now: u64,
    rtt: u64,
    /// The time of a message on the other hops.
    stored: u64,
    /// The time of a message on a line that it uses alone, and on its share of the line.
    message: u64,
    slot: u64,
    /// How much earlier the socket has a message than it has crossed the line.
    ahead: u64,
    hold: Hold,
    waits_for_bulk: bool,
    messages: u64,
    credits: u64,
    line_free: u64,
    waiting: Line,
    events: BinaryHeap<Reverse<(u64, u64, Event, usize)>>,
    count: u64,
    rpcs: Vec<Rpc>,
}

/// Returns the bytes per second of all senders together, if each has `credits`.
pub(super) fn follow(facts: &Facts, share: f64, credits: f64) -> f64 {
    let Load { rpc_bytes, .. } = facts.load;
    let rpcs = facts.customers().round().max(1.);
    let messages = facts.load.messages();
    if rpcs * messages as f64 > FOLLOWED_MAX as f64 {
        return long_convoy(facts, share, credits);
    }
    let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
    let ahead = (facts.way_window() / share - facts.rtt()).max(0.);
    let mut queue = Queue {
        now: 0,
        rtt: nanoseconds(facts.rtt()),
        stored: nanoseconds(facts.stored_time()),
        message: nanoseconds(facts.message_time()),
        slot: nanoseconds(facts.message() / share).max(1),
        ahead: nanoseconds(ahead),
        hold: facts.settings.hold,
        waits_for_bulk: facts.waits_for_bulk,
        messages,
        credits: (credits.floor() as u64).max(1),
        line_free: 0,
        waiting: Line {
            is_one_queue: facts.is_one_queue(),
            first: VecDeque::new(),
            small: VecDeque::new(),
            small_is_next: false,
        },
        events: BinaryHeap::new(),
        count: 0,
        rpcs: vec![Rpc::default(); rpcs as usize],
    };
    let (rounds, nanoseconds) = queue.run();
    // Of RPCs that are not a whole number for each sender, the nearest number was followed.
    let rounds = rounds as f64 * facts.customers() / rpcs;
    let done = rounds * rpc_bytes.max(1) as f64;
    done / (nanoseconds as f64 * 1e-9).max(1e-9) * f64::from(facts.ways)
}

/// Returns the rate of a convoy that is longer than a round trip: all bulk, then an idle round
/// trip.
fn long_convoy(facts: &Facts, share: f64, credits: f64) -> f64 {
    let data = facts.customers() * facts.load.rpc_bytes as f64;
    let rate = (credits.max(1.) * facts.message() / facts.hold_time()).min(share);
    let inside = facts.way_window().min(credits * facts.message());
    let silent = if inside >= data { 0. } else { facts.rtt() };
    data / (data / rate + silent) * f64::from(facts.ways)
}

impl Queue {
    /// Returns the rounds of all RPCs during some rounds of the first one, and how long these take. RPCs
    /// overtake each other, so that the others may have more rounds or fewer.
    fn run(&mut self) -> (u64, u64) {
        for rpc in 0..self.rpcs.len() {
            self.at(0, Event::Bulk, rpc);
        }
        let (mut rounds, mut began, mut before) = (0, 0, 0);
        while let Some(Reverse((time, _, event, rpc))) = self.events.pop() {
            self.now = time;
            match event {
                Event::Credit => self.credits += 1,
                Event::Moved => self.moved(rpc),
                Event::Bulk => {
                    match self.rpcs[rpc].rounds {
                        ROUNDS_BEFORE if rpc == 0 => (began, before) = (time, rounds),
                        of_first if rpc == 0 && of_first == ROUNDS_BEFORE + ROUNDS => {
                            return (rounds - before, time - began);
                        }
                        _ => {}
                    }
                    rounds += 1;
                    self.rpcs[rpc].rounds += 1;
                    self.rpcs[rpc].moving = self.messages;
                    for _ in 0..self.messages {
                        self.waiting.push(Waiting::Bulk(rpc));
                    }
                }
            }
            self.serve();
        }
        unreachable!("every RPC starts another one")
    }

    fn at(&mut self, time: u64, event: Event, rpc: usize) {
        self.count += 1;
        self.events.push(Reverse((time, self.count, event, rpc)));
    }

    fn moved(&mut self, rpc: usize) {
        self.rpcs[rpc].moving -= 1;
        if self.rpcs[rpc].moving == 0 {
            self.waiting.push(Waiting::Small(rpc));
        }
    }

    fn serve(&mut self) {
        while self.credits > 0 {
            match self.waiting.pop() {
                None => return,
                Some(Waiting::Small(rpc)) => {
                    let begins = self.now.max(self.rpcs[rpc].left) + self.rtt + self.stored;
                    self.at(begins, Event::Bulk, rpc);
                }
                Some(Waiting::Bulk(rpc)) => self.send(rpc),
            }
        }
    }

    fn send(&mut self, rpc: usize) {
        self.credits -= 1;
        let starts = self.line_free.max(self.now);
        self.line_free = starts + self.slot;
        let left = starts + self.message;
        self.rpcs[rpc].left = self.rpcs[rpc].left.max(left);
        let written = left.saturating_sub(self.ahead).max(self.now);
        let back = match self.hold {
            Hold::Written => written,
            Hold::RoundTrip => left + self.rtt,
        };
        self.at(back, Event::Credit, rpc);
        // A server that does not wait for its bulk queues the reply after it at once.
        let moved = if self.waits_for_bulk { left + self.rtt } else { written };
        self.at(moved, Event::Moved, rpc);
    }
}

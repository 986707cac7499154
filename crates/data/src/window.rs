//! How many RPCs are in flight to a target: twice what its path holds.
//!
//! The rate is measured over the time of an RPC, and the shortest of these times is the round trip. The window is
//! twice their product, so as long as the window is what limits the rate, it doubles in each round trip.
//! Bytes and RPCs are measured apart: small RPCs need many of them, large ones many bytes.

use std::time::Duration;

use fulmar_base::Time;

/// Windows of one direction of one target.
#[derive(Clone, Debug)]
pub struct Window {
    /// What the administrator wants.
    fixed: Option<u32>,
    rpc_size: u64,
    in_flight: Amount,
    done: Amount,
    done_at: Time,
    /// For each second.
    rate: Amount,
    round_trip: Option<Duration>,
}

/// Something that is counted in RPCs and in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    rpcs: u64,
    bytes: u64,
}

/// An RPC in flight.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    bytes: u64,
    sent: Time,
    /// What was done then, and since when.
    done: Amount,
    done_at: Time,
    was_limited: bool,
}

impl Window {
    /// The window as long as nothing is measured.
    pub const FIRST: u64 = 8;
    /// The largest window.
    pub const MAX: u64 = 256;

    /// Returns the window of a path of which nothing is known. `fixed`: a number that the administrator has
    /// set.
    pub fn new(rpc_size: u64, fixed: Option<u32>) -> Self {
        Self {
            fixed,
            rpc_size,
            in_flight: Amount::default(),
            done: Amount::default(),
            done_at: Time::ZERO,
            rate: Amount::default(),
            round_trip: None,
        }
    }

    /// The administrator sets a number, or leaves it to what is measured.
    pub fn fix(&mut self, fixed: Option<u32>) {
        self.fixed = fixed;
    }

    /// The path is another one. What is in flight stays so.
    pub fn forget(&mut self, rpc_size: u64) {
        self.rpc_size = rpc_size;
        self.rate = Amount::default();
        self.round_trip = None;
    }

    /// Returns whether another RPC may be sent; `more`: one more than otherwise, for what is urgent.
    pub fn has_room(&self, more: bool) -> bool {
        let rpcs = self.in_flight.rpcs < self.rpcs() + u64::from(more);
        let bytes = self.fixed.is_some() || self.in_flight.bytes < self.bytes();
        rpcs && (bytes || more)
    }

    /// An RPC is sent.
    pub fn start(&mut self, now: Time, bytes: u64) -> Ticket {
        if self.in_flight.rpcs == 0 {
            // The time without RPCs does not count.
            self.done_at = now;
        }
        self.in_flight.rpcs += 1;
        self.in_flight.bytes += bytes;
        let was_limited = !self.has_room(false);
        Ticket { bytes, sent: now, done: self.done, done_at: self.done_at, was_limited }
    }

    /// An RPC has ended. `moved`: whether it did what it was for, so that its time says something.
    pub fn end(&mut self, now: Time, ticket: Ticket, moved: bool) {
        self.in_flight.rpcs -= 1;
        self.in_flight.bytes -= ticket.bytes;
        if !moved {
            return;
        }
        self.done.rpcs += 1;
        self.done.bytes += ticket.bytes;
        self.done_at = now;
        let took = now.since(ticket.sent).max(Duration::from_micros(1));
        self.round_trip = Some(self.round_trip.map_or(took, |least| least.min(took)));
        let time = now.since(ticket.done_at).max(took);
        let measure = |rate: &mut u64, done: u64| {
            let now = (u128::from(done) * 1_000_000_000 / time.as_nanos()) as u64;
            if now > *rate {
                *rate = now;
            } else if ticket.was_limited {
                // The path is slower than it was.
                *rate = *rate - *rate / 16 + now / 16;
            }
        };
        measure(&mut self.rate.rpcs, self.done.rpcs - ticket.done.rpcs);
        measure(&mut self.rate.bytes, self.done.bytes - ticket.done.bytes);
    }

    /// Returns how many RPCs may be in flight.
    pub fn rpcs(&self) -> u64 {
        let measured = (2 * self.held(self.rate.rpcs)).clamp(Self::FIRST, Self::MAX);
        self.fixed.map_or(measured, |fixed| fixed.max(1).into())
    }

    /// Returns how many bytes may be in flight.
    pub fn bytes(&self) -> u64 {
        match self.fixed {
            Some(fixed) => u64::from(fixed.max(1)) * self.rpc_size,
            None => {
                let least = Self::FIRST * self.rpc_size;
                (2 * self.held(self.rate.bytes)).clamp(least, Self::MAX * self.rpc_size)
            }
        }
    }

    /// Returns what the path holds of something with this rate.
    fn held(&self, rate: u64) -> u64 {
        let round_trip = self.round_trip.unwrap_or_default().as_nanos();
        (u128::from(rate) * round_trip / 1_000_000_000) as u64
    }

    /// Returns the measured rate in bytes for each second, and the time of the shortest RPC.
    pub fn measured(&self) -> (u64, Option<Duration>) {
        (self.rate.bytes, self.round_trip)
    }

    /// Returns how many RPCs are in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.rpcs
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const RPC: u64 = 4 << 20;

    /// Sends RPCs for two seconds over a path of a rate and a round trip, and returns the window and the
    /// rate of the last second.
    fn run(fixed: Option<u32>, rate: u64, round_trip: Duration, len: u64) -> (u64, u64) {
        let (mut window, mut now, mut free) = (Window::new(RPC, fixed), Time::ZERO, Time::ZERO);
        let (mut ends, mut moved) = (BTreeMap::new(), 0);
        while now < Time::from_secs(2) {
            while window.has_room(false) {
                free = free.max(now) + Duration::from_nanos(len * 1_000_000_000 / rate);
                ends.insert(free + round_trip, window.start(now, len));
            }
            let (at, ticket) = ends.pop_first().unwrap();
            now = at;
            window.end(now, ticket, true);
            moved += if now > Time::from_secs(1) { len } else { 0 };
        }
        (window.rpcs(), moved)
    }

    #[test]
    fn a_long_path_is_filled_without_settings() {
        let round_trip = Duration::from_micros(50_500);
        let (rpcs, moved) = run(None, 1_250_000_000, round_trip, RPC);
        assert!(moved > 1_200_000_000, "{moved}");
        assert!((30..=40).contains(&rpcs), "{rpcs}");
        // Small RPCs are many.
        let (rpcs, _) = run(None, 1_250_000_000, round_trip, 4096);
        assert_eq!(rpcs, Window::MAX);
    }

    #[test]
    fn a_short_path_keeps_the_first_window_and_a_set_one_wins() {
        assert_eq!(run(None, 1_250_000_000, Duration::from_micros(100), RPC).0, Window::FIRST);
        let (rpcs, moved) = run(Some(2), 1_250_000_000, Duration::from_millis(50), RPC);
        assert_eq!(rpcs, 2);
        assert!(moved < 200_000_000, "{moved}");
    }

    #[test]
    fn the_window_follows_a_path_that_is_slower_than_before() {
        let (mut window, mut now) = (Window::new(RPC, None), Time::ZERO);
        let step = |window: &mut Window, now: &mut Time, each: u64| {
            let mut tickets = Vec::new();
            while window.has_room(false) {
                tickets.push(window.start(*now, RPC));
            }
            *now = *now + Duration::from_millis(50);
            for ticket in tickets {
                *now = *now + Duration::from_micros(each);
                window.end(*now, ticket, true);
            }
        };
        (0..20).for_each(|_| step(&mut window, &mut now, 100));
        let fast = window.rpcs();
        (0..50).for_each(|_| step(&mut window, &mut now, 20_000));
        assert!(fast > 100 && window.rpcs() <= 16, "{fast}, then {}", window.rpcs());
        assert_eq!(window.in_flight(), 0);
    }

    #[test]
    fn failed_rpcs_say_nothing_about_the_path() {
        let mut window = Window::new(RPC, None);
        let ticket = window.start(Time(5), RPC);
        window.end(Time(6), ticket, false);
        assert_eq!((window.rpcs(), window.round_trip), (Window::FIRST, None));
    }
}

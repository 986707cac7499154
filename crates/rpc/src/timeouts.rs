//! Adaptive timeouts: how long requests take, and how long to wait for a reply.
//! Spec: ptlrpc-ldlm-mgs §7.
//!
//! Both ends keep estimates in whole seconds, as they are on the wire. A server estimates the time
//! of its service; a client estimates that of each service of a target, which the server reports, and
//! the latency of the network. An estimate is the maximum over a sliding window of time.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::Time;

/// How long before the deadline of a request its server sends an early reply, unless it is set.
const EARLY_MARGIN: Duration = Duration::from_secs(5);

/// The seconds that an early reply asks for, unless they are set.
const EARLY_EXTRA: u32 = 30;

/// The seconds that a server has to reply to a connect, and between two attempts.
pub const CONNECT_TIMEOUT: u32 = 5;

/// The limits of estimates. Spec: ptlrpc-ldlm-mgs §7.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The shortest estimate in seconds.
    pub min: u32,
    /// The longest estimate in seconds.
    pub max: u32,
    /// For how long a measurement counts.
    pub history: Duration,
    /// How long before the deadline of a request its server sends an early reply.
    pub early_margin: Duration,
    /// The seconds that an early reply asks for.
    pub early_extra: u32,
    /// The seconds from which the time of a recovery is derived.
    pub base: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min: 5,
            max: 600,
            history: Duration::from_secs(600),
            early_margin: EARLY_MARGIN,
            early_extra: EARLY_EXTRA,
            base: 100,
        }
    }
}

/// The estimate of one duration: the maximum of what was measured in the last
/// [`Limits::history`], with a resolution of a quarter of it.
///
/// Without new measurements the estimate stays, however old it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    limits: Limits,
    current: u32,
    /// The maximum of each quarter of the history, the present one first.
    bins: [u32; Self::BINS],
    /// When the present quarter began; `None` before the first measurement.
    began: Option<Time>,
}

impl Estimate {
    const BINS: usize = 4;

    /// Begins with an estimate of `seconds`, which the first measurement replaces.
    pub fn new(limits: Limits, seconds: u32) -> Self {
        let current = limits.clamp(seconds);
        Self { limits, current, bins: [0; Self::BINS], began: None }
    }

    /// Changes the limits. The estimate stays as far as they allow it.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.current = limits.clamp(self.current);
    }

    /// Returns the estimate in seconds.
    pub fn seconds(&self) -> u32 {
        self.current
    }

    /// Adds a measurement. Zero is none: it says that the peer has not measured.
    pub fn measure(&mut self, now: Time, seconds: u32) {
        if seconds == 0 {
            return;
        }
        self.advance(now);
        self.bins[0] = self.bins[0].max(seconds);
        self.current = self.limits.clamp(self.bins.into_iter().max().unwrap_or(seconds));
    }

    /// Begins a new quarter, if the present one is over, and forgets the oldest ones.
    fn advance(&mut self, now: Time) {
        let began = *self.began.get_or_insert(now);
        let quarter = (self.limits.history / Self::BINS as u32).max(Duration::from_secs(1));
        let passed = now.since(began).as_nanos() / quarter.as_nanos();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        if passed == 0 {
            return;
        }
        let gone = Self::BINS.min(passed as usize);
        self.bins.rotate_right(gone);
        self.bins[..gone].fill(0);
        self.began = Some(began + quarter.saturating_mul(passed));
    }
}

impl Limits {
    fn clamp(&self, seconds: u32) -> u32 {
        seconds.min(self.max).max(self.min)
    }
}

/// Returns the seconds that a server has for a request, by the estimate of its service.
/// Spec: ptlrpc-ldlm-mgs §7.2.
pub fn timeout(estimate: u32) -> u32 {
    estimate.saturating_add(estimate / 4).saturating_add(5)
}

/// Returns the estimate from which a timeout was made, or about one second less.
/// Spec: ptlrpc-ldlm-mgs §7.2.
pub fn estimate(timeout: u32) -> u32 {
    let four_fifths = u64::from(timeout) * 4 / 5;
    u32::try_from(four_fifths).unwrap_or(u32::MAX).max(5) - 4
}

/// Returns the latency of the network in seconds, at least 1, by the time from a request to its reply
/// and the seconds that the server says it was there.
pub fn latency(round_trip: Duration, service_time: u32) -> u32 {
    let seconds = u32::try_from(round_trip.as_secs()).unwrap_or(u32::MAX);
    seconds.saturating_sub(service_time).saturating_add(1)
}

/// The estimates of a client for one target: one for each service, by its request portal, and
/// one for the network.
#[derive(Clone, Debug)]
pub struct Timeouts {
    limits: Limits,
    services: BTreeMap<u32, Estimate>,
    network: Estimate,
    /// The seconds that the search allows the network, while none of the target's NIDs answers.
    search: u32,
}

impl Timeouts {
    /// The most seconds that the search for a connection raises the latency of the network to.
    pub const SEARCH_MAX: u32 = 50;
    /// By how many seconds each round of the search raises it.
    pub const SEARCH_STEP: u32 = 5;

    /// Begins with nothing measured.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            services: BTreeMap::new(),
            network: Estimate::new(limits, limits.min),
            search: 0,
        }
    }

    /// Returns the seconds that the service at `portal` has for a request.
    pub fn service(&self, portal: u32) -> u32 {
        timeout(self.services.get(&portal).map_or(self.limits.min, Estimate::seconds))
    }

    /// Returns the latency of the network in seconds.
    pub fn network(&self) -> u32 {
        self.network.seconds()
    }

    /// Returns until when to wait for the reply to a request of the time `sent`, when an early reply says
    /// that the service needs `seconds` for it. Spec: ptlrpc-ldlm-mgs §7.4.
    pub fn extended(&self, sent: Time, seconds: u32) -> Time {
        let seconds = seconds.min(self.limits.max).saturating_add(self.network());
        sent + Duration::from_secs(seconds.into())
    }

    /// Applies what a reply from the service at `portal` says: the server's `estimate`, and its
    /// `service_time` of a request whose reply came `round_trip` after it.
    pub fn measure(
        &mut self,
        now: Time,
        portal: u32,
        estimate: u32,
        round_trip: Duration,
        service_time: u32,
    ) {
        let limits = self.limits;
        let service = self.services.entry(portal).or_insert_with(|| Estimate::new(limits, 0));
        service.measure(now, estimate);
        self.network.measure(now, latency(round_trip, service_time));
    }

    /// Returns the latency of the network in seconds that a connect allows.
    pub fn search(&self) -> u32 {
        self.network().max(self.search)
    }

    /// Allows the network more time, since none of the target's NIDs has answered.
    /// Spec: ptlrpc-ldlm-mgs §12.4.
    pub fn search_longer(&mut self) {
        self.search = (self.search() + Self::SEARCH_STEP).min(Self::SEARCH_MAX).max(self.network());
    }

    /// Handles the end of the search. How long it was says nothing about the latency of the network,
    /// which the answer has measured: lost messages would make each later loss last longer.
    pub fn search_ended(&mut self) {
        self.search = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        min: 5,
        max: 600,
        history: Duration::from_secs(600),
        early_margin: EARLY_MARGIN,
        early_extra: EARLY_EXTRA,
        base: 100,
    };

    #[test]
    fn an_estimate_follows_new_limits() {
        let mut estimate = Estimate::new(LIMITS, 0);
        estimate.set_limits(Limits { min: 20, ..LIMITS });
        assert_eq!(estimate.seconds(), 20);
        estimate.measure(Time::from_secs(10), 40);
        estimate.set_limits(Limits { max: 30, ..LIMITS });
        assert_eq!(estimate.seconds(), 30);
    }

    #[test]
    fn an_estimate_is_the_maximum_of_its_history() {
        let mut estimate = Estimate::new(LIMITS, 0);
        assert_eq!(estimate.seconds(), 5);
        estimate.measure(Time::from_secs(10), 40);
        estimate.measure(Time::from_secs(20), 7);
        estimate.measure(Time::from_secs(200), 9);
        assert_eq!(estimate.seconds(), 40);
        // The quarters begin 150 s apart, at 10 s.
        estimate.measure(Time::from_secs(609), 6);
        assert_eq!(estimate.seconds(), 40);
        estimate.measure(Time::from_secs(610), 6);
        assert_eq!(estimate.seconds(), 9);
        estimate.measure(Time::from_secs(10_000), 8);
        assert_eq!(estimate.seconds(), 8);
    }

    #[test]
    fn estimates_are_limited_and_zero_is_no_measurement() {
        let mut estimate = Estimate::new(LIMITS, 30);
        assert_eq!(estimate.seconds(), 30);
        estimate.measure(Time::ZERO, 0);
        assert_eq!(estimate.seconds(), 30);
        estimate.measure(Time::ZERO, 1);
        assert_eq!(estimate.seconds(), 5);
        estimate.measure(Time::ZERO, u32::MAX);
        assert_eq!(estimate.seconds(), 600);
    }

    #[test]
    fn time_that_jumps_forgets_everything_and_does_not_overflow() {
        let mut estimate = Estimate::new(Limits { history: Duration::ZERO, ..LIMITS }, 0);
        estimate.measure(Time::ZERO, 100);
        estimate.measure(Time::MAX, 20);
        assert_eq!(estimate.seconds(), 20);
        estimate.measure(Time::ZERO, 10);
        assert_eq!(estimate.seconds(), 20);
    }

    #[test]
    fn timeouts_and_estimates_are_converted_as_by_kernel_nodes() {
        assert_eq!([5, 6, 36, 600].map(timeout), [11, 12, 50, 755]);
        assert_eq!([0, 5, 11, 12, 36].map(estimate), [1, 1, 4, 5, 24]);
        assert_eq!((timeout(u32::MAX), estimate(u32::MAX)), (u32::MAX, 3_435_973_832));
    }

    #[test]
    fn the_latency_is_what_the_server_did_not_take() {
        assert_eq!(latency(Duration::from_millis(7_900), 7), 1);
        assert_eq!(latency(Duration::from_secs(9), 2), 8);
        assert_eq!(latency(Duration::from_secs(1), u32::MAX), 1);
        assert_eq!(latency(Duration::MAX, 0), u32::MAX);
    }

    #[test]
    fn a_target_has_an_estimate_for_each_service_and_one_for_the_network() {
        let mut timeouts = Timeouts::new(LIMITS);
        assert_eq!((timeouts.service(28), timeouts.network()), (11, 5));
        timeouts.measure(Time::ZERO, 28, 36, Duration::from_secs(12), 1);
        assert_eq!((timeouts.service(28), timeouts.service(6), timeouts.network()), (50, 11, 12));
    }

    #[test]
    fn an_early_reply_gives_no_more_time_than_the_limit() {
        let timeouts = Timeouts::new(LIMITS);
        let until = |seconds| timeouts.extended(Time::from_secs(7), seconds);
        assert_eq!([36, u32::MAX].map(until), [7 + 36 + 5, 7 + 600 + 5].map(Time::from_secs));
    }

    #[test]
    fn a_search_for_the_target_takes_longer_with_each_round() {
        let mut timeouts = Timeouts::new(LIMITS);
        let mut round = || {
            timeouts.search_longer();
            timeouts.search()
        };
        let rounds = [(); 11].map(|()| round());
        assert_eq!(rounds, [10, 15, 20, 25, 30, 35, 40, 45, 50, 50, 50]);
        assert_eq!(timeouts.network(), 5, "nothing was measured");
        timeouts.search_ended();
        assert_eq!(timeouts.search(), 5);
        timeouts.measure(Time::ZERO, 28, 5, Duration::from_secs(79), 0);
        timeouts.search_longer();
        assert_eq!(timeouts.search(), 80, "a slow network is not hurried");
    }
}

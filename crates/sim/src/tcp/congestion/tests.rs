use super::*;

const SEGMENT: u64 = 8948;

/// A sender that always has data, simulated by round trips of ten bursts.
struct Flow {
    congestion: Congestion,
    now: Time,
    rtt: Duration,
    sent: u64,
}

impl Flow {
    fn new(control: Control, rtt: Duration) -> Self {
        let tcp = Tcp { congestion: control, mtu: 9000, ..Tcp::default() };
        let congestion = Congestion::new(&tcp);
        Self { congestion, now: Time::ZERO, rtt, sent: 0 }
    }

    /// Sends and acknowledges a window over a line that carries `capacity` bytes in a round trip
    /// and queues as many again; the rest is lost. Returns whether there was a loss.
    fn round(&mut self, capacity: u64) -> bool {
        let window = self.congestion.window();
        let carried = window.min(capacity);
        let waiting = Duration::from_secs_f64(
            self.rtt.as_secs_f64() * window.saturating_sub(capacity).min(capacity) as f64
                / capacity as f64,
        );
        let took = self.rtt + waiting;
        let rate = (carried as f64 / self.rtt.as_secs_f64()) as u64;
        for n in 0..10 {
            let sample = Sample {
                acked: carried / 10,
                rtt: took,
                rate,
                limited: true,
                new_round: n == 0,
                spread: Duration::ZERO,
            };
            self.congestion.handle_ack(self.now + took * (n + 1) / 10, sample);
        }
        self.now = self.now + took;
        self.sent += carried;
        let lost = window > 2 * capacity;
        if lost {
            self.congestion.handle_loss();
        }
        lost
    }

    /// Sends so many windows without loss.
    fn rounds(&mut self, count: u32) {
        for _ in 0..count {
            self.round(u64::MAX / 4);
        }
    }

    /// Returns the mean window in packets with a loss of one packet in `apart`.
    fn mean_window(&mut self, apart: u64) -> f64 {
        let (mut packets, mut rounds) = (0.0, 0.0);
        let mut left = apart as f64;
        for round in 0..40_000 {
            let window = self.congestion.window() as f64 / SEGMENT as f64;
            self.round(u64::MAX / 4);
            left -= window;
            while left <= 0.0 {
                self.congestion.handle_loss();
                left += apart as f64;
            }
            if round > 2_000 {
                packets += window;
                rounds += 1.0;
            }
        }
        packets / rounds
    }
}

const RTT: Duration = Duration::from_millis(100);

#[test]
fn slow_start_doubles_in_a_round_trip() {
    for control in [Control::Reno, Control::Cubic, Control::Bbr] {
        let mut flow = Flow::new(control, RTT);
        let before = flow.congestion.window();
        flow.rounds(6);
        let growth = flow.congestion.window() as f64 / before as f64;
        assert!((60.0..=66.0).contains(&growth), "{control:?}: {growth}");
    }
}

#[test]
fn slow_start_ends_when_round_trips_grow() {
    let capacity = 1_000 * SEGMENT;
    for control in [Control::Reno, Control::Cubic] {
        let mut flow = Flow::new(control, RTT);
        let lost = (0..9).any(|_| flow.round(capacity));
        let window = flow.congestion.window();
        assert!(!lost && window < 2 * capacity, "{control:?}: {}", window / SEGMENT);
    }
}

/// Mathis: 1.22 / sqrt(p) packets in a round trip.
#[test]
fn reno_under_loss_follows_the_square_root_law() {
    for apart in [1_000, 100_000] {
        let law = 1.22 * (apart as f64).sqrt();
        let mean = Flow::new(Control::Reno, RTT).mean_window(apart);
        assert!((0.85..=1.15).contains(&(mean / law)), "1 in {apart}: {mean:.0}, law {law:.0}");
    }
}

/// RFC 9438 §5.1: 1.054 (RTT / p)^(3/4) packets, where that is more than Reno's.
#[test]
fn cubic_under_loss_follows_its_response_function() {
    for apart in [100_000, 1_000_000] {
        let law = 1.054 * (RTT.as_secs_f64() * apart as f64).powf(0.75);
        let mean = Flow::new(Control::Cubic, RTT).mean_window(apart);
        assert!((0.85..=1.15).contains(&(mean / law)), "1 in {apart}: {mean:.0}, law {law:.0}");
    }
}

#[test]
fn cubic_is_never_slower_than_reno() {
    let short = Duration::from_millis(1);
    let reno = Flow::new(Control::Reno, short).mean_window(10_000);
    let cubic = Flow::new(Control::Cubic, short).mean_window(10_000);
    assert!(cubic > 0.85 * reno, "{cubic:.0} to Reno's {reno:.0}");
}

#[test]
fn cubic_regains_its_window_in_the_time_of_the_cubic_function() {
    let mut flow = Flow::new(Control::Cubic, RTT);
    while flow.congestion.window() < 2_000 * SEGMENT {
        flow.round(u64::MAX / 4);
    }
    let lost_at = flow.congestion.window();
    flow.congestion.handle_loss();
    assert!((flow.congestion.window() as f64 / lost_at as f64 - 0.7).abs() < 0.01);
    let start = flow.now;
    while flow.congestion.window() < lost_at - lost_at / 100 {
        flow.round(u64::MAX / 4);
    }
    let packets = lost_at as f64 / SEGMENT as f64;
    let plateau = (packets * 0.3 / 0.4).cbrt();
    let took = flow.now.since(start).as_secs_f64();
    // The window is close to the plateau long before it reaches it.
    assert!((0.6..=1.05).contains(&(took / plateau)), "{took:.1} s of {plateau:.1}");
}

#[test]
fn bbr_keeps_a_window_of_two_bandwidth_delay_products_under_loss() {
    let capacity = 10_000 * SEGMENT;
    let mut flow = Flow::new(Control::Bbr, RTT);
    for round in 0..60 {
        flow.round(capacity);
        if round % 3 == 0 {
            flow.congestion.handle_loss();
        }
    }
    let window = flow.congestion.window() as f64 / capacity as f64;
    assert!((1.9..=2.1).contains(&window), "{window}");
    let paces: Vec<f64> = (0..8)
        .map(|_| {
            flow.round(capacity);
            let pace = flow.congestion.pacing().expect("the rate is known");
            pace as f64 * RTT.as_secs_f64() / capacity as f64
        })
        .collect();
    let mean = paces.iter().sum::<f64>() / 8.0;
    assert!((0.97..=1.03).contains(&mean), "{paces:?}");
}

#[test]
fn the_window_after_a_timeout_is_one_packet() {
    for control in [Control::Reno, Control::Cubic, Control::Bbr] {
        let mut flow = Flow::new(control, RTT);
        flow.rounds(5);
        flow.congestion.handle_timeout();
        assert_eq!(flow.congestion.window(), SEGMENT, "{control:?}");
    }
}

/// RFC 2861: half for each timeout, but not less than the initial window, and slow start up to three quarters.
#[test]
fn an_idle_time_shrinks_the_window_and_slow_start_leads_back() {
    for control in [Control::Reno, Control::Cubic] {
        let mut flow = Flow::new(control, RTT);
        flow.rounds(5);
        flow.congestion.handle_loss();
        let before = flow.congestion.window();
        flow.congestion.handle_idle(Duration::from_secs(1), 2);
        assert_eq!(flow.congestion.window(), before / 4, "{control:?}");
        flow.congestion.handle_idle(Duration::from_secs(60), 100);
        assert_eq!(flow.congestion.window(), 10 * SEGMENT, "{control:?}");
        let mut rounds = 0;
        while flow.congestion.window() < before * 3 / 4 {
            flow.rounds(1);
            rounds += 1;
        }
        assert!(rounds <= 5, "{control:?}: {rounds}");
    }
    let mut bbr = Flow::new(Control::Bbr, RTT);
    bbr.rounds(5);
    let before = bbr.congestion.window();
    bbr.congestion.handle_idle(Duration::from_secs(60), 100);
    assert_eq!(bbr.congestion.window(), before);
}

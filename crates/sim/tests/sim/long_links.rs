//! Scenarios of long links, trunks and losses, with expected values that are easy to calculate.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_sim::options::{
    Control, Duplex, Faults, Line, Network, Rails, Site, Tcp, Topology, Trunk,
};
use fulmar_sim::{Cluster, HostId, Log, Options, Port};

const A: HostId = HostId(0);
const B: HostId = HostId(1);
const C: HostId = HostId(2);
const D: HostId = HostId(3);
const MIB: u32 = 1 << 20;
/// Messages started ahead of the arrived ones: more than 10 Gbit/s carry in 20 ms and a few round
/// trips.
const AHEAD: usize = 80;
/// The payload share of a packet of 9000 bytes on Ethernet.
const PAYLOAD: f64 = 8948.0 / 9038.0;

/// Two sites of two hosts each, with cables of 10 Gbit/s, and one trunk.
fn sites(line: Line, congestion: Control) -> Options {
    let cable = Line::new(10_000, Duration::from_micros(5));
    let sites = vec![Site::of(0..2, cable.clone()), Site::of(2..4, cable)];
    let mut network = Network::sites(sites, vec![Trunk { between: (0, 1), line }]);
    let tcp = Tcp { mtu: 9000, congestion, ..Tcp::default() };
    network.tcp = tcp.with_buffers(64 << 20);
    Options { network, ..Options::plain(4) }
}

fn trunk(rate_mbps: u64, delay_ms: u64) -> Line {
    Line::new(rate_mbps, Duration::from_millis(delay_ms))
}

/// A cluster in which pairs of nodes transfer messages of 1 MiB.
struct Scenario {
    cluster: Cluster,
    pairs: Vec<Pair>,
}

/// A sender and a receiver, the most messages, and the started ones.
struct Pair {
    hosts: (HostId, HostId),
    messages: usize,
    started: Vec<usize>,
    served: usize,
}

impl Pair {
    /// Keeps more messages queued than can be in flight.
    fn refill(&mut self, cluster: &mut Cluster) {
        let seen = |put: &usize| cluster.ledger.operations[*put].seen.served > 0;
        while self.started.get(self.served).is_some_and(seen) {
            self.served += 1;
        }
        while self.started.len() < self.messages.min(self.served + AHEAD) {
            self.started.push(cluster.put(self.hosts, Some(MIB)).expect("it is up"));
        }
    }
}

impl Scenario {
    fn new(options: &Options, pairs: &[(HostId, HostId)], messages: usize) -> Self {
        let mut cluster = Cluster::new(options, Log::new(400));
        // The nodes discover each other and open their connections.
        let known: Vec<usize> =
            pairs.iter().map(|pair| cluster.put(*pair, Some(0)).unwrap()).collect();
        let busy = |c: &Cluster| known.iter().any(|put| c.ledger.operations[*put].seen.served == 0);
        cluster.run_while("they know each other", Duration::from_secs(60), busy).unwrap();
        let later = cluster.world.now() + Duration::from_secs(2);
        cluster.run_until(later).unwrap();
        let pair = |hosts: &_| Pair { hosts: *hosts, messages, started: Vec::new(), served: 0 };
        Self { cluster, pairs: pairs.iter().map(pair).collect() }
    }

    fn pass(&mut self, millis: u64) {
        let end = self.cluster.world.now() + Duration::from_millis(millis);
        while self.cluster.world.now() < end {
            self.pairs.iter_mut().for_each(|pair| pair.refill(&mut self.cluster));
            let soon = self.cluster.world.now() + Duration::from_millis(10);
            if let Err(violation) = self.cluster.run_until(soon.min(end)) {
                let log: Vec<&str> = self.cluster.world.log().lines().collect();
                panic!("{}\n{violation}", log.join("\n"));
            }
        }
        self.pairs.iter_mut().for_each(|pair| pair.refill(&mut self.cluster));
    }

    /// Starts no more messages, and requires that all have arrived after `millis`.
    fn end(&mut self, millis: u64) {
        self.pairs.iter_mut().for_each(|pair| pair.messages = pair.started.len());
        self.pass(millis);
        let started: Vec<usize> = self.pairs.iter().map(|pair| pair.started.len()).collect();
        assert_eq!(self.served(), started);
    }

    /// Returns the number of arrived messages of each pair.
    fn served(&self) -> Vec<usize> {
        self.pairs.iter().map(|pair| pair.served).collect()
    }

    /// Returns the payload rate of each pair in the steady state, in Mbit/s.
    fn rates(&mut self, settle: u64, measure: u64) -> Vec<f64> {
        self.pass(settle);
        let before = self.served();
        self.pass(measure);
        let counts = self.served().into_iter().zip(before).map(|(now, then)| now - then);
        let mbit = f64::from(MIB) * 8.0 / 1e6;
        counts.map(|count| count as f64 * mbit / measure as f64 * 1e3).collect()
    }
}

/// 10, 20, 40 packets and so on: 64 MiB are 7,500 packets, so ten round trips of 100 ms.
#[test]
fn slow_start_takes_a_round_trip_for_each_doubling() {
    let mut scenario = Scenario::new(&sites(trunk(10_000, 50), Control::Cubic), &[(A, C)], 64);
    scenario.pass(850);
    assert!((8..64).contains(&scenario.served()[0]), "{:?}", scenario.served());
    scenario.pass(250);
    assert_eq!(scenario.served(), [64]);
}

#[test]
fn two_flows_share_a_trunk_evenly_and_fill_it() {
    let pairs = [(A, C), (B, D)];
    let line = Line { queue: 12 << 20, ..trunk(10_000, 5) };
    let mut scenario = Scenario::new(&sites(line, Control::Cubic), &pairs, usize::MAX);
    let rates = scenario.rates(1_500, 2_000);
    let sum = rates[0] + rates[1];
    assert!((0.95..=1.0).contains(&(sum / 10_000.0 / PAYLOAD)), "{rates:?}");
    assert!((rates[0] / rates[1] - 1.0).abs() < 0.1, "{rates:?}");
}

#[test]
fn connections_between_two_sites_use_both_of_two_trunks() {
    let mut options = sites(trunk(5_000, 5), Control::Cubic);
    if let Topology::Sites { trunks, .. } = &mut options.network.topology {
        trunks.extend(trunks.clone());
    }
    options.conns_per_peer = 4;
    let mut scenario = Scenario::new(&options, &[(A, C)], usize::MAX);
    let rates = scenario.rates(500, 500);
    assert!((0.9..=1.0).contains(&(rates[0] / 10_000.0 / PAYLOAD)), "{rates:?}");
    let carried: Vec<u64> =
        scenario.cluster.world.trunks().iter().map(|t| t.carried.bytes).collect();
    assert!(carried[0].abs_diff(carried[2]) < carried[0] / 4, "{carried:?}");
}

/// A loss of one in 1,000 at a round trip of 2 ms: Reno's law allows 38.6 packets in a round trip,
/// 1,380 Mbit/s, and CUBIC at least as much; BBR is not affected.
#[test]
fn a_lossy_trunk_limits_cubic_but_not_bbr() {
    let line = Line { loss_ppb: 1_000_000, queue: 32 << 20, ..trunk(10_000, 1) };
    let rate = |control| {
        let mut scenario = Scenario::new(&sites(line.clone(), control), &[(A, C)], usize::MAX);
        scenario.rates(1_000, 2_000)[0]
    };
    let (reno, cubic, bbr) = (rate(Control::Reno), rate(Control::Cubic), rate(Control::Bbr));
    assert!((0.75..=1.25).contains(&(reno / 1_380.0)), "{reno:.0} Mbit/s");
    assert!((0.75..=1.4).contains(&(cubic / 1_380.0)), "{cubic:.0} Mbit/s");
    assert!(bbr > 0.85 * 10_000.0, "{bbr:.0} Mbit/s");
}

/// Acknowledgements queue behind the data of the other direction, which costs a tenth.
#[test]
fn both_directions_share_a_half_duplex_trunk() {
    for (duplex, expected) in [(Duplex::Full, 2_000.0), (Duplex::Half, 1_000.0)] {
        let line = Line { duplex, queue: 1 << 20, ..trunk(1_000, 1) };
        let pairs = [(A, C), (D, B)];
        let mut scenario = Scenario::new(&sites(line, Control::Cubic), &pairs, usize::MAX);
        let rates = scenario.rates(1_000, 1_000);
        let sum = rates[0] + rates[1];
        assert!((0.85..=1.01).contains(&(sum / expected / PAYLOAD)), "{duplex:?}: {rates:?}");
    }
}

/// 10 Gbit/s into 1 Gbit/s with a queue of a tenth of the bandwidth-delay product: packets are lost
/// early in slow start, CUBIC takes many seconds to find its window, and all messages arrive.
#[test]
fn a_short_queue_loses_packets_and_no_messages() {
    let line = Line { queue: 256 << 10, ..trunk(1_000, 10) };
    let mut scenario = Scenario::new(&sites(line, Control::Cubic), &[(A, C)], usize::MAX);
    let rates = scenario.rates(12_000, 8_000);
    assert!((0.65..=1.0).contains(&(rates[0] / 1_000.0 / PAYLOAD)), "{rates:?}");
    let carried = scenario.cluster.world.trunks()[0].carried;
    assert!(carried.overflowed > 0 && carried.queued_max <= 300 << 10, "{carried:?}");
    scenario.end(2_000);
}

/// A full queue adds its length to round trips: 4 MiB at 1 Gbit/s are 34 ms.
#[test]
fn a_full_queue_adds_latency() {
    let ping = |messages| {
        let line = Line { queue: 4 << 20, ..trunk(1_000, 1) };
        let mut scenario = Scenario::new(&sites(line, Control::Cubic), &[(A, C)], messages);
        scenario.pass(2_000);
        let started = scenario.cluster.world.now();
        let put = scenario.cluster.put((B, D), Some(0)).unwrap();
        let open = |c: &Cluster| !c.ledger.operations[put].seen.response_ok;
        scenario.cluster.run_while("it is answered", Duration::from_secs(9), open).unwrap();
        scenario.cluster.world.now().since(started)
    };
    let (idle, busy) = (ping(0), ping(800));
    // TCP handshake, two socket LND handshakes, a ping and the PUT pass the queue.
    let waited = busy.saturating_sub(idle);
    let expected = Duration::from_millis(20)..Duration::from_millis(6 * 40);
    assert!(expected.contains(&waited), "{idle:?} and {busy:?}");
}

#[test]
fn a_flapping_link_loses_no_message() {
    let options = sites(trunk(10_000, 5), Control::Cubic);
    let faults = Faults { pauses: 1, longest: Duration::from_nanos(1), ..Faults::default() };
    let mut scenario = Scenario::new(&Options { faults, ..options }, &[(A, C)], usize::MAX);
    scenario.pass(300);
    let port = Port { host: A, index: 0 };
    for reported in [false, true] {
        scenario.cluster.world.cut_link(port, reported);
        scenario.pass(50);
        let before = scenario.served();
        scenario.pass(950);
        assert_eq!(scenario.served(), before, "nothing passes");
        scenario.cluster.world.restore_link(port);
        scenario.pass(2_500);
        assert!(scenario.served()[0] > before[0] + 100, "traffic continues");
    }
    scenario.end(2_000);
}

#[test]
fn clock_drift_causes_no_failures() {
    let options = Options::plain_on(Rails::even(2, &[0]));
    let faults = Faults { clocks: 1, longest: Duration::from_nanos(1), ..Faults::default() };
    let mut cluster = Cluster::new(&Options { faults, ..options }, Log::new(5_000));
    cluster.world.drift(A, 1_000);
    cluster.world.drift(B, -1_000);
    for _ in 0..30 {
        let put = cluster.put((A, B), Some(4096)).unwrap();
        let open = |c: &Cluster| !c.ledger.operations[put].seen.response_ok;
        cluster.run_while("it is answered", Duration::from_secs(1), open).unwrap();
        let later = cluster.world.now() + Duration::from_secs(60);
        cluster.run_until(later).unwrap();
    }
    assert!(cluster.world.now() > Time::from_secs(1_800));
    let dials = cluster.world.log().lines().filter(|line| line.contains("dial ")).count();
    assert!(dials <= 6, "{dials} dials: both nodes may dial at first, but not again");
}

//! TCP throughput, what limits it, and the latency that it causes.

use fulmar_text::{bit_rate, bytes, count, micros, percent};

use super::PathNeed;
use crate::finding::{Finding, Level, Place};
use crate::measure::{Direction, TcpRun};

/// The links of both hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// The speed of the slower one in bits per second, if known.
    pub rate: Option<f64>,
    /// The name of the local interface.
    pub local: String,
    /// The name of the remote interface.
    pub remote: String,
}

/// Judges TCP loads on a path.
pub fn tcp(runs: &[TcpRun], path: PathNeed, lines: &Lines) -> Vec<Finding> {
    let mut found: Vec<Finding> = runs.iter().map(|run| rate_of(run, lines)).collect();
    found.extend(asymmetry(runs));
    for run in runs {
        found.extend(retransmits(run, path));
        found.extend(limits(run));
    }
    found.extend(one_against_many(runs));
    found.extend(bloat(runs, path, lines));
    found
}

/// The least share of the slower link's rate that several connections should reach.
const SHARE_LEAST: f64 = 0.5;

fn rate_of(run: &TcpRun, lines: &Lines) -> Finding {
    let connections = count(run.streams, "connection");
    let what = format!("TCP {}, {connections}: {}", run.direction.word(), bit_rate(run.settled));
    let share = lines.rate.filter(|line| *line > 0.0).map(|line| run.settled / line);
    let evidence = format!(
        "{} in {:.1} s, {} retransmitted, window {}{}",
        bytes(run.bytes),
        run.seconds,
        percent(run.retransmitted()),
        bytes(run.sender.window),
        share.map(|share| format!(", {} of the link", percent(share))).unwrap_or_default()
    );
    if run.bytes == 0 {
        let remedy = "see the check mtu: full-size packets may be lost";
        return Finding::new(Level::Error, Place::Path, what, evidence).remedy(remedy);
    }
    // One connection need not fill a link; several should nearly do so.
    match share {
        Some(share) if share < SHARE_LEAST && run.streams > 1 => {
            let remedy = "see the other findings for the cause: loss, buffers, a traffic shaper, \
                          CPUs; otherwise look for other load on the path";
            Finding::new(Level::Warning, Place::Path, what, evidence).remedy(remedy)
        }
        _ => Finding::ok(Place::Path, what, evidence),
    }
}

/// A smaller ratio of the rates of both directions is reported.
const SYMMETRY_LEAST: f64 = 0.5;

fn asymmetry(runs: &[TcpRun]) -> Option<Finding> {
    let best = |direction| {
        let of = runs.iter().filter(|run| run.direction == direction);
        of.map(|run| run.settled).reduce(f64::max)
    };
    let (out, back) = (best(Direction::Out)?, best(Direction::In)?);
    (out.min(back) < out.max(back) * SYMMETRY_LEAST).then(|| {
        let what = "one direction is much slower than the other";
        let evidence = format!("{} to the remote host, {} from it", bit_rate(out), bit_rate(back));
        let remedy =
            "compare the findings of both hosts; the routes may differ: traceroute on both hosts";
        Finding::new(Level::Warning, Place::Path, what, evidence).remedy(remedy)
    })
}

/// Shares of retransmitted segments.
const RETRANSMITS_NOTE: f64 = 1e-4;
const RETRANSMITS_WARNING: f64 = 2e-3;

fn retransmits(run: &TcpRun, path: PathNeed) -> Option<Finding> {
    let share = run.retransmitted();
    // With a short round trip, TCP finds its rate by losses and recovers quickly.
    let level = match share {
        RETRANSMITS_WARNING.. if path.is_long() => Level::Warning,
        RETRANSMITS_WARNING.. => Level::Note,
        RETRANSMITS_NOTE.. if path.is_long() => Level::Note,
        _ => return None,
    };
    let what = format!("TCP {} retransmits {}", run.direction.word(), percent(share));
    let evidence = format!(
        "{} of {} segments, {}",
        run.sender.retransmits,
        run.sender.segments,
        count(run.streams, "connection")
    );
    let remedy = "a queue on the path is too short for bursts, or a link loses packets: pace with \
                  tc qdisc replace dev DEV root fq, and compare the check udp";
    Some(Finding::new(level, Place::Path, what, evidence).remedy(remedy))
}

/// A limit that applies for a smaller share of the time is not reported.
const LIMITED_LEAST: f64 = 0.2;

fn limits(run: &TcpRun) -> Vec<Finding> {
    let (sender, receiver) = match run.direction {
        Direction::Out => (Place::Local, Place::Remote),
        Direction::In => (Place::Remote, Place::Local),
    };
    let connections = count(run.streams, "connection");
    let evidence = |share: f64| {
        format!("{} of the time, {connections} {}", percent(share), run.direction.word())
    };
    let mut found = Vec::new();
    let share = run.limited(run.sender.receiver_limited_us);
    if share >= LIMITED_LEAST {
        let what = "the receiver's window limits TCP";
        let remedy = "on the receiver: sysctl -w net.ipv4.tcp_rmem=\"4096 131072 LARGER\" (see \
                      the check sockets); if it is large enough, the receiver reads too slowly";
        found.push(Finding::new(Level::Note, receiver, what, evidence(share)).remedy(remedy));
    }
    let share = run.limited(run.sender.buffer_limited_us);
    if share >= LIMITED_LEAST {
        let what = "the send buffer limits TCP";
        let remedy = "on the sender: sysctl -w net.ipv4.tcp_wmem=\"4096 16384 LARGER\" (see the \
                      check sockets)";
        found.push(Finding::new(Level::Warning, sender, what, evidence(share)).remedy(remedy));
    }
    found
}

/// Several connections are advised if they are faster than one by this factor.
const MANY_GAIN: f64 = 1.5;

fn one_against_many(runs: &[TcpRun]) -> Option<Finding> {
    let gain = |direction| {
        let one = runs.iter().find(|run| run.direction == direction && run.streams == 1)?;
        let many = runs.iter().find(|run| run.direction == direction && run.streams > 1)?;
        (one.settled > 0.0).then(|| (many.settled / one.settled, *one, *many))
    };
    let gains = [gain(Direction::Out), gain(Direction::In)].into_iter().flatten();
    let (gain, one, many) = gains.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (gain >= MANY_GAIN).then(|| {
        let what = format!("{} connections are {gain:.1} times as fast as one", many.streams);
        let evidence = format!(
            "{} and {}, {}",
            bit_rate(many.settled),
            bit_rate(one.settled),
            one.direction.word()
        );
        let remedy = format!(
            "on both hosts: lnetctl net set --net tcp --conns-per-peer {0}; or in modprobe.d: \
             options ksocklnd conns_per_peer={0}",
            many.streams.clamp(2, 127)
        );
        Finding::new(Level::Note, Place::Path, what, evidence).remedy(remedy)
    })
}

/// Extra delay of small packets under load, in microseconds.
const BLOAT_NOTE_US: f64 = 10_000.0;
const BLOAT_WARNING_US: f64 = 100_000.0;

fn bloat(runs: &[TcpRun], path: PathNeed, lines: &Lines) -> Option<Finding> {
    let loaded = runs.iter().filter_map(|run| Some((run.loaded?, run)));
    let (worst, run) = loaded.max_by(|a, b| a.0.median_us.total_cmp(&b.0.median_us))?;
    let longer = worst.median_us - path.round_trip_us;
    let level = match longer {
        BLOAT_WARNING_US.. => Level::Warning,
        BLOAT_NOTE_US.. => Level::Note,
        _ => Level::Ok,
    };
    let evidence = format!(
        "round trip {} idle; under load {} ({})",
        micros(path.round_trip_us),
        micros(worst.median_us),
        count(run.streams, "connection"),
    );
    if level == Level::Ok {
        let what = "a load delays small packets little";
        return Some(Finding::ok(Place::Path, what, evidence));
    }
    let device = if run.direction == Direction::Out { &lines.local } else { &lines.remote };
    let what = format!("a load delays small packets by {}", micros(longer));
    let remedy = format!(
        "a queue on the path is too long: before its slowest link, tc qdisc replace dev {device} \
        root fq_codel; or use bbr on both hosts: sysctl -w net.ipv4.tcp_congestion_control=bbr"
    );
    Some(Finding::new(level, Place::Path, what, evidence).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Spread;
    use crate::remote::StreamStats;

    fn run(direction: Direction, streams: u32, settled: f64) -> TcpRun {
        let sender =
            StreamStats { segments: 100_000, busy_us: 1_000_000, ..StreamStats::default() };
        let bytes = 1 << 30;
        TcpRun {
            direction,
            streams,
            bytes,
            seconds: 3.0,
            mean: settled,
            settled,
            sender,
            loaded: None,
        }
    }

    const LONG: PathNeed = PathNeed { rate: 10e9, round_trip_us: 50_000.0 };

    fn judged(runs: &[TcpRun]) -> Vec<(Level, Place)> {
        let lines = Lines { rate: Some(10e9), ..Lines::default() };
        let found = tcp(runs, LONG, &lines);
        found.into_iter().map(|finding| (finding.level, finding.place)).collect()
    }

    #[test]
    fn a_load_below_half_of_the_link_rate_is_a_warning() {
        assert_eq!(judged(&[run(Direction::Out, 4, 9.4e9)]), [(Level::Ok, Place::Path)]);
        assert_eq!(judged(&[run(Direction::Out, 4, 3e9)]), [(Level::Warning, Place::Path)]);
        assert_eq!(judged(&[run(Direction::Out, 1, 3e9)]), [(Level::Ok, Place::Path)]);
        let nothing = TcpRun { bytes: 0, ..run(Direction::Out, 1, 0.0) };
        assert_eq!(judged(&[nothing]), [(Level::Error, Place::Path)]);
    }

    #[test]
    fn limits_are_attributed_to_the_right_host() {
        let mut back = run(Direction::In, 1, 9e9);
        back.sender.receiver_limited_us = 900_000;
        assert_eq!(judged(&[back])[1], (Level::Note, Place::Local));
        let mut out = run(Direction::Out, 1, 9e9);
        out.sender.buffer_limited_us = 900_000;
        assert_eq!(judged(&[out])[1], (Level::Warning, Place::Local));
        out.sender = StreamStats { segments: 1000, retransmits: 30, ..StreamStats::default() };
        assert_eq!(judged(&[out])[1], (Level::Warning, Place::Path));
    }

    #[test]
    fn useful_connections_and_asymmetry_are_reported() {
        let found = judged(&[run(Direction::Out, 1, 2e9), run(Direction::Out, 4, 8e9)]);
        assert_eq!(
            found,
            [(Level::Ok, Place::Path), (Level::Ok, Place::Path), (Level::Note, Place::Path)]
        );
        let found = judged(&[run(Direction::Out, 1, 9e9), run(Direction::In, 1, 1e9)]);
        assert_eq!(found[2], (Level::Warning, Place::Path));
    }

    #[test]
    fn a_long_queue_is_found_by_the_latency_under_load() {
        let loaded = |median_us| {
            let spread = Spread { count: 9, median_us, ..Spread::default() };
            judged(&[TcpRun { loaded: Some(spread), ..run(Direction::Out, 1, 9e9) }])[1].0
        };
        assert_eq!(loaded(51_000.0), Level::Ok);
        assert_eq!(loaded(80_000.0), Level::Note);
        assert_eq!(loaded(400_000.0), Level::Warning);
    }
}

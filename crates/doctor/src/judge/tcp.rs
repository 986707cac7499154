//! Throughput of TCP, what holds it down, and what waits behind it.

use fulmar_text::{bit_rate, bytes, count, micros, percent};

use super::PathNeed;
use crate::finding::{Finding, Level, Place};
use crate::measure::{TcpRun, Way};

/// What the links of both ends carry, in bits per second, as far as that is known, and the devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// The slower of both.
    pub rate: Option<f64>,
    /// Our interface's name.
    pub here: String,
    /// The far end's.
    pub there: String,
}

/// Judges loads on the path. `path` is its shortest round trip, and its rate.
pub fn tcp(runs: &[TcpRun], path: PathNeed, lines: &Lines) -> Vec<Finding> {
    let mut found: Vec<Finding> = runs.iter().map(|run| rate_of(run, lines)).collect();
    found.extend(sides(runs));
    for run in runs {
        found.extend(retransmits(run, path));
        found.extend(limits(run));
    }
    found.extend(one_against_many(runs));
    found.extend(bloat(runs, path, lines));
    found
}

/// A load that carries less of the slower link's rate leaves much of it idle.
const SHARE_LEAST: f64 = 0.5;

fn rate_of(run: &TcpRun, lines: &Lines) -> Finding {
    let connections = count(run.streams, "connection");
    let what = format!("TCP {}, {connections}: {}", run.way.word(), bit_rate(run.settled));
    let share = lines.rate.filter(|line| *line > 0.0).map(|line| run.settled / line);
    let evidence = format!(
        "{} in {:.1} s, {} sent again, window {}{}",
        bytes(run.bytes),
        run.seconds,
        percent(run.retransmitted()),
        bytes(run.sender.window),
        share.map(|share| format!(", {} of the link", percent(share))).unwrap_or_default()
    );
    if run.bytes == 0 {
        let mend = "see the check mtu: packets of full size may vanish";
        return Finding::new(Level::Error, Place::Path, what, evidence).mend(mend);
    }
    // One connection need not fill a link; several should come near it.
    match share {
        Some(share) if share < SHARE_LEAST && run.streams > 1 => {
            let mend = "what holds it down is among the findings beside this: loss, buffers, a \
                        shaper, processors; else another load on the path";
            Finding::new(Level::Warning, Place::Path, what, evidence).mend(mend)
        }
        _ => Finding::ok(Place::Path, what, evidence),
    }
}

/// One way that carries less than this of the other is odd.
const SIDES_LEAST: f64 = 0.5;

fn sides(runs: &[TcpRun]) -> Option<Finding> {
    let best = |way| {
        let of = runs.iter().filter(|run| run.way == way);
        of.map(|run| run.settled).reduce(f64::max)
    };
    let (out, back) = (best(Way::Out)?, best(Way::Back)?);
    (out.min(back) < out.max(back) * SIDES_LEAST).then(|| {
        let what = "one way carries much less than the other";
        let evidence = format!("{} to the far end, {} from it", bit_rate(out), bit_rate(back));
        let mend = "compare both hosts' findings; the ways may differ: traceroute from both ends";
        Finding::new(Level::Warning, Place::Path, what, evidence).mend(mend)
    })
}

/// Shares of segments sent again.
const AGAIN_NOTE: f64 = 1e-4;
const AGAIN_WARNING: f64 = 2e-3;

fn retransmits(run: &TcpRun, path: PathNeed) -> Option<Finding> {
    let share = run.retransmitted();
    // Where a round trip is short, losses are how TCP finds the rate.
    let level = match share {
        AGAIN_WARNING.. if path.is_long() => Level::Warning,
        AGAIN_WARNING.. => Level::Note,
        AGAIN_NOTE.. if path.is_long() => Level::Note,
        _ => return None,
    };
    let what = format!("TCP {} is sent again: {}", run.way.word(), percent(share));
    let evidence = format!(
        "{} of {} segments, {}",
        run.sender.retransmits,
        run.sender.segments,
        count(run.streams, "connection")
    );
    let mend = "a queue on the path is too short for the bursts, or a link loses: pace (tc qdisc \
                replace dev DEV root fq) and compare the check udp";
    Some(Finding::new(level, Place::Path, what, evidence).mend(mend))
}

/// A limit that holds for less of the time is none.
const LIMITED_LEAST: f64 = 0.2;

fn limits(run: &TcpRun) -> Vec<Finding> {
    let (sender, receiver) = match run.way {
        Way::Out => (Place::Here, Place::There),
        Way::Back => (Place::There, Place::Here),
    };
    let connections = count(run.streams, "connection");
    let evidence =
        |share: f64| format!("{} of the time on {connections} {}", percent(share), run.way.word());
    let mut found = Vec::new();
    let share = run.limited(run.sender.receiver_limited_us);
    if share >= LIMITED_LEAST {
        let what = "the receiver's window holds TCP back";
        let mend = "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 LARGER\" on the receiver (see the check \
                    sockets); if it is large enough, the receiver is too slow to read";
        found.push(Finding::new(Level::Note, receiver, what, evidence(share)).mend(mend));
    }
    let share = run.limited(run.sender.buffer_limited_us);
    if share >= LIMITED_LEAST {
        let what = "the send buffer holds TCP back";
        let mend = "sysctl -w net.ipv4.tcp_wmem=\"4096 16384 LARGER\" on the sender (see the check \
                    sockets)";
        found.push(Finding::new(Level::Warning, sender, what, evidence(share)).mend(mend));
    }
    found
}

/// Several connections that carry so much more than one are worth having.
const MANY_GAIN: f64 = 1.5;

fn one_against_many(runs: &[TcpRun]) -> Option<Finding> {
    let gain = |way| {
        let one = runs.iter().find(|run| run.way == way && run.streams == 1)?;
        let many = runs.iter().find(|run| run.way == way && run.streams > 1)?;
        (one.settled > 0.0).then(|| (many.settled / one.settled, *one, *many))
    };
    let gains = [gain(Way::Out), gain(Way::Back)].into_iter().flatten();
    let (gain, one, many) = gains.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (gain >= MANY_GAIN).then(|| {
        let what = format!("{} connections carry {gain:.1} times as much as one", many.streams);
        let evidence =
            format!("{} and {}, {}", bit_rate(many.settled), bit_rate(one.settled), one.way.word());
        let mend = format!(
            "lnetctl net set --net tcp --conns-per-peer {0} at both ends; or: options ksocklnd \
             conns_per_peer={0}",
            many.streams.clamp(2, 127)
        );
        Finding::new(Level::Note, Place::Path, what, evidence).mend(mend)
    })
}

/// Small packets that wait so much longer behind a load, in microseconds.
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
        return Some(Finding::ok(Place::Path, "small packets pass beside a load", evidence));
    }
    let device = if run.way == Way::Out { &lines.here } else { &lines.there };
    let what = format!("small packets wait {} behind a load", micros(longer));
    let mend = format!(
        "a queue on the path is long: at its slowest link, tc qdisc replace dev {device} root \
         fq_codel; or bbr as congestion control at both ends"
    );
    Some(Finding::new(level, Place::Path, what, evidence).mend(mend))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::far::StreamsSeen;
    use crate::measure::Spread;

    fn run(way: Way, streams: u32, settled: f64) -> TcpRun {
        let sender =
            StreamsSeen { segments: 100_000, busy_us: 1_000_000, ..StreamsSeen::default() };
        let bytes = 1 << 30;
        TcpRun { way, streams, bytes, seconds: 3.0, mean: settled, settled, sender, loaded: None }
    }

    const LONG: PathNeed = PathNeed { rate: 10e9, round_trip_us: 50_000.0 };

    fn judged(runs: &[TcpRun]) -> Vec<(Level, Place)> {
        let lines = Lines { rate: Some(10e9), ..Lines::default() };
        let found = tcp(runs, LONG, &lines);
        found.into_iter().map(|finding| (finding.level, finding.place)).collect()
    }

    #[test]
    fn a_load_that_fills_the_link_is_fine_and_half_of_it_is_not() {
        assert_eq!(judged(&[run(Way::Out, 4, 9.4e9)]), [(Level::Ok, Place::Path)]);
        assert_eq!(judged(&[run(Way::Out, 4, 3e9)]), [(Level::Warning, Place::Path)]);
        assert_eq!(judged(&[run(Way::Out, 1, 3e9)]), [(Level::Ok, Place::Path)]);
        let nothing = TcpRun { bytes: 0, ..run(Way::Out, 1, 0.0) };
        assert_eq!(judged(&[nothing]), [(Level::Error, Place::Path)]);
    }

    #[test]
    fn what_the_kernel_counted_is_blamed_on_the_right_end() {
        let mut back = run(Way::Back, 1, 9e9);
        back.sender.receiver_limited_us = 900_000;
        assert_eq!(judged(&[back])[1], (Level::Note, Place::Here));
        let mut out = run(Way::Out, 1, 9e9);
        out.sender.buffer_limited_us = 900_000;
        assert_eq!(judged(&[out])[1], (Level::Warning, Place::Here));
        out.sender = StreamsSeen { segments: 1000, retransmits: 30, ..StreamsSeen::default() };
        assert_eq!(judged(&[out])[1], (Level::Warning, Place::Path));
    }

    #[test]
    fn connections_that_help_and_ways_that_differ_are_told() {
        let found = judged(&[run(Way::Out, 1, 2e9), run(Way::Out, 4, 8e9)]);
        assert_eq!(
            found,
            [(Level::Ok, Place::Path), (Level::Ok, Place::Path), (Level::Note, Place::Path)]
        );
        let found = judged(&[run(Way::Out, 1, 9e9), run(Way::Back, 1, 1e9)]);
        assert_eq!(found[2], (Level::Warning, Place::Path));
    }

    #[test]
    fn a_queue_that_is_long_is_seen_by_what_waits_in_it() {
        let loaded = |median_us| {
            let spread = Spread { count: 9, median_us, ..Spread::default() };
            judged(&[TcpRun { loaded: Some(spread), ..run(Way::Out, 1, 9e9) }])[1].0
        };
        assert_eq!(loaded(51_000.0), Level::Ok);
        assert_eq!(loaded(80_000.0), Level::Note);
        assert_eq!(loaded(400_000.0), Level::Warning);
    }
}

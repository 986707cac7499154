//! The report of the study.

use std::collections::BTreeMap;

use fulmar_text::{Table, fixed, left, right};
use fulmar_tune::model::Bound;
use serde::Serialize;

use super::compare::why_not;
use super::grid::{
    BUFFERS, CABLE_MBPS, CLIENTS, CONCURRENCIES, CREDITS, Distance, Hold, Key, MTU, PEER_CREDITS,
    SERVERS, TRUNK_MBPS, TRUNKS,
};
use super::{Point, Study, line_rate};
use crate::scenario::Direction;

/// A summary of the study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of points.
    pub points: usize,
    /// Real duration on all cores, in seconds.
    pub seconds: f64,
    /// Number of points to which the closed-form model applies.
    pub compared: usize,
    /// The largest difference of these from the closed-form model: 0.05 is 5 %.
    pub max_error: f64,
    /// The point with that difference.
    pub worst: Option<Key>,
    /// The mean difference.
    pub mean_error: f64,
    /// Number of these points with a difference of more than 5 %.
    pub beyond: usize,
    /// Number of points that were not steady at the end.
    pub unsteady: usize,
}

/// The allowed difference from the closed-form model.
pub(super) const ALLOWED: f64 = 0.05;

pub(super) fn summary(study: &Study) -> Summary {
    let compared: Vec<&Point> =
        study.points.iter().filter(|point| why_not(point).is_none()).collect();
    let worst = compared.iter().max_by(|a, b| a.error.abs().total_cmp(&b.error.abs()));
    let sum: f64 = compared.iter().map(|point| point.error.abs()).sum();
    Summary {
        points: study.points.len(),
        seconds: study.took.as_secs_f64(),
        compared: compared.len(),
        max_error: worst.map_or(0.0, |point| point.error.abs()),
        worst: worst.map(|point| point.key),
        mean_error: sum / compared.len().max(1) as f64,
        beyond: compared.iter().filter(|point| point.error.abs() > ALLOWED).count(),
        unsteady: study.points.iter().filter(|point| !point.simulated.steady).count(),
    }
}

pub(super) fn markdown(study: &Study) -> String {
    let summary = summary(study);
    let mut text = String::from("# What fills 100 Gb/s over an ocean\n\n");
    text += &conditions(&summary);
    text += &what_fills(study);
    text += &comparison(study, &summary);
    text += &outside_the_model(study);
    text += &simultaneous_start(study);
    text
}

fn conditions(summary: &Summary) -> String {
    format!(
        "{} points, simulated with Fulmar's nodes in virtual time. Two sites: up to {CLIENTS} \
         clients at one and {SERVERS} servers at the other, each with {} Gb/s; between them \
         {TRUNKS} trunks of {} Gb/s, which carry {:.2} GB/s of payload; round trip {}, or {} back \
         to back. TCP buffers of {} MiB, MTU {MTU}, `credits` {CREDITS}, one connection of each \
         type to a peer; no loss, and warm connections without slow start. Each client uses one \
         server, as with `lst add_test brw` and `--distribute 1:1`. Rates are measured over whole \
         rounds of RPCs, so bursts at their edges can raise a rate above the capacity of the \
         trunks, by one per cent at most.\n\n\
         *Kernel-like* nodes hold the credit of a message of 16 KiB or more until its zero-copy \
         acknowledgement arrives; *Fulmar* returns it when the socket has taken the message.\n\n",
        summary.points,
        CABLE_MBPS / 1000,
        TRUNK_MBPS / 1000,
        line_rate() / 1e9,
        Distance::Ocean.name(),
        Distance::BackToBack.name(),
        BUFFERS >> 20,
    )
}

/// The most RPCs of a client.
const MOST: u32 = CONCURRENCIES[CONCURRENCIES.len() - 1];

fn what_fills(study: &Study) -> String {
    let at_most = format!("at {MOST}, GB/s");
    let mut table = Table::new([
        left(""),
        right("peer_credits"),
        right("write: RPCs"),
        right(&*at_most),
        right("read: RPCs"),
        right(at_most),
    ]);
    for hold in Hold::ALL.into_iter().rev() {
        for peer_credits in PEER_CREDITS {
            let mut row = vec![hold.name().to_owned(), peer_credits.to_string()];
            for direction in [Direction::Write, Direction::Read] {
                let usual = Key::usual(direction, hold, peer_credits);
                let rate = |concurrency| {
                    let point = study.get(&Key { concurrency, ..usual });
                    point.map_or(0.0, |point| point.simulated.bytes_per_second)
                };
                let fills = CONCURRENCIES.iter().find(|n| rate(**n) >= 0.95 * line_rate());
                row.push(fills.map_or("none".to_owned(), u32::to_string));
                row.push(fixed(rate(MOST) / 1e9, 2));
            }
            table.row(row);
        }
    }
    format!(
        "## What fills the pipe\n\n\
         The least number of RPCs in flight per client that fills 95 % of the trunks with \
         transfers of 1 MiB, and the throughput with {MOST}.\n\n{}",
        table.markdown()
    )
}

fn comparison(study: &Study, summary: &Summary) -> String {
    let mut bounds: BTreeMap<Bound, Vec<f64>> = BTreeMap::new();
    for point in study.points.iter().filter(|point| why_not(point).is_none()) {
        bounds.entry(point.closed.bound).or_default().push(point.error.abs());
    }
    let mut table = Table::new([
        left("bottleneck in the model"),
        right("points"),
        right("mean difference"),
        right("largest difference"),
    ]);
    for (bound, errors) in bounds {
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let worst = errors.iter().copied().fold(0.0, f64::max);
        table.row([
            bound.name().to_owned(),
            errors.len().to_string(),
            format!("{} %", fixed(mean * 100.0, 2)),
            format!("{} %", fixed(worst * 100.0, 2)),
        ]);
    }
    format!(
        "\n## Comparison with the closed-form model\n\n\
         The closed-form model applies to {} of {} points. {}; the mean difference is {:.1} %, the \
         largest {:.1} %.\n\n{}",
        summary.compared,
        summary.points,
        match summary.beyond {
            0 => "All are within 5 %".to_owned(),
            n => format!("{n} differ by more than 5 %"),
        },
        summary.mean_error * 100.0,
        summary.max_error * 100.0,
        table.markdown()
    )
}

fn outside_the_model(study: &Study) -> String {
    let mut reasons: BTreeMap<&str, Vec<&Point>> = BTreeMap::new();
    for point in &study.points {
        let beyond = point.error.abs() > ALLOWED;
        let reason = why_not(point).or(beyond.then_some("The cause is unknown."));
        if let Some(reason) = reason {
            reasons.entry(reason).or_default().push(point);
        }
    }
    let mut text = String::from("\n## Points to which the model does not apply\n");
    if reasons.is_empty() {
        text += "\nIt applies to all points.\n";
    }
    for (reason, points) in reasons {
        let names = ["", "credits", "round trip"].map(left).into_iter();
        let numbers =
            ["peer_credits", "RPCs", "bytes", "clients", "simulated, GB/s", "closed, GB/s", ""];
        let mut table = Table::new(names.chain(numbers.map(right)));
        for point in points {
            table.row(row(point));
        }
        text += &format!("\n{reason}\n\n{}", table.markdown());
    }
    text
}

fn simultaneous_start(study: &Study) -> String {
    let names = ["", "credits"].map(left).into_iter();
    let numbers = ["RPCs", "clients", "in turn, GB/s", "at once, GB/s", ""].map(right);
    let mut table = Table::new(names.chain(numbers));
    for point in &study.together {
        let Key { direction, hold, concurrency, clients, .. } = point.key;
        let in_turn = study.get(&point.key).map_or(0.0, |point| point.simulated.bytes_per_second);
        let together = point.simulated.bytes_per_second;
        table.row([
            direction.name().to_owned(),
            hold.name().to_owned(),
            concurrency.to_string(),
            clients.to_string(),
            fixed(in_turn / 1e9, 2),
            fixed(together / 1e9, 2),
            difference(together / in_turn - 1.0),
        ]);
    }
    TOGETHER_TITLE.to_owned() + &table.markdown()
}

const TOGETHER_TITLE: &str = "
## Simultaneous start of all clients

Above, the clients start one after the other within two round trips, and the ocean's delay varies \
by 0.2 ms. If they start at the same time, like the ranks of a job, their RPCs queue at the \
trunks from the first round trip on.

";

fn row(point: &Point) -> [String; 10] {
    let Key { direction, hold, distance, peer_credits, concurrency, size, clients } = point.key;
    [
        direction.name().to_owned(),
        hold.name().to_owned(),
        distance.name().to_owned(),
        peer_credits.to_string(),
        concurrency.to_string(),
        size.to_string(),
        clients.to_string(),
        fixed(point.simulated.bytes_per_second / 1e9, 3),
        fixed(point.closed.bytes_per_second / 1e9, 3),
        difference(point.error),
    ]
}

/// Returns a relative difference, with its sign.
fn difference(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

//! The study of SC11 in virtual time: the throughput of 31 clients and 16 servers on both sides of
//! an ocean over 100 Gb/s, by concurrency, `peer_credits`, message size and nodes.

mod compare;
pub mod grid;
mod pictures;
mod report;

use std::time::{Duration, Instant};

use serde::Serialize;

pub use compare::{ClosedForm, closed};
use grid::Distance;
pub use grid::Key;
pub use pictures::Figure;
pub use report::Summary;

use crate::parallel::on_all_cores;
use crate::predict::{Effort, Prediction, predict};
use crate::scenario::{Begin, Scenario};
use crate::session::StudyError;

/// A point with the results of the simulation and of the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The parameters.
    #[serde(flatten)]
    pub key: Key,
    /// The result of the simulation.
    pub simulated: Prediction,
    /// The result of the closed-form model.
    pub closed: ClosedForm,
    /// The difference of the simulation, relative to the closed-form model.
    pub error: f64,
    /// Real duration of the simulation.
    pub took: Duration,
}

/// All points.
#[derive(Clone, Debug)]
pub struct Study {
    /// The points, in the order of their keys.
    pub points: Vec<Point>,
    /// Some of them again, with clients that start at the same time.
    pub together: Vec<Point>,
    /// Real duration of the study.
    pub took: Duration,
}

/// Returns how long to simulate a point. Connections are warm, so few rounds are enough for many
/// RPCs in flight, unless queues grow from round to round. Back to back, an RPC is cut into more
/// bursts and costs more.
fn effort(key: &Key, closed: &ClosedForm) -> Effort {
    let rpcs = match key.distance {
        Distance::Ocean => 12_000,
        Distance::BackToBack => 4_000,
    };
    let least_rounds =
        if compare::queues(key, closed) { 64 } else { (rpcs / key.units()).clamp(8, 24) as usize };
    Effort { least_rounds, most_rounds: 6 * least_rounds, latencies: false }
}

/// Simulates every point on all cores. `progress` receives the number of finished points and the
/// total.
///
/// # Errors
/// If a point cannot be simulated.
pub fn run(progress: impl Fn(usize, usize) + Sync) -> Result<Study, StudyError> {
    let start = Instant::now();
    let mut keys: Vec<(Key, bool)> = grid::together().map(|key| (key, true)).to_vec();
    keys.extend(grid::points().into_iter().map(|key| (key, false)));
    let one = |(key, together): &(Key, bool)| {
        if *together {
            point(key, Scenario { begin: Begin::Together, ..key.scenario() })
        } else {
            simulate(key)
        }
    };
    let results = on_all_cores(&keys, one, |done| progress(done, keys.len()));
    let mut together: Vec<Point> = results.into_iter().collect::<Result<_, _>>()?;
    let mut points = together.split_off(grid::together().len());
    points.sort_by_key(|point| point.key);
    Ok(Study { points, together, took: start.elapsed() })
}

/// Simulates one point.
///
/// # Errors
/// If it cannot be simulated.
pub fn simulate(key: &Key) -> Result<Point, StudyError> {
    point(key, key.scenario())
}

fn point(key: &Key, scenario: Scenario) -> Result<Point, StudyError> {
    let start = Instant::now();
    let closed = closed(key);
    let simulated = predict(&scenario, effort(key, &closed))
        .map_err(|error| StudyError(format!("{key:?}: {error}")))?;
    let error = compare::error(&simulated, &closed);
    Ok(Point { key: *key, simulated, closed, error, took: start.elapsed() })
}

/// Returns the payload rate of full trunks, in bytes per second.
pub fn line_rate() -> f64 {
    let bits = grid::TRUNK_MBPS * grid::TRUNKS as u64 * 1_000_000;
    fulmar_tune::model::payload_rate(bits, grid::MTU) as f64
}

impl Study {
    /// Returns a point, if it was simulated.
    pub fn get(&self, key: &Key) -> Option<&Point> {
        let found = self.points.binary_search_by_key(key, |point| point.key);
        found.ok().map(|n| &self.points[n])
    }

    /// Returns the figures with their values.
    pub fn figures(&self) -> Vec<Figure> {
        pictures::all(self)
    }

    /// Returns every point as CSV.
    pub fn csv(&self) -> String {
        let keys: Vec<Key> = self.points.iter().map(|point| point.key).collect();
        pictures::csv(self, &keys)
    }

    /// Returns the summary.
    pub fn summary(&self) -> Summary {
        report::summary(self)
    }

    /// Returns the report, as Markdown.
    pub fn report(&self) -> String {
        report::markdown(self)
    }
}

//! The study of SC11 in virtual time: what 31 clients and 16 servers at either end of an ocean
//! carry over 100 Gb/s, by concurrency, `peer_credits`, message size and nodes.

mod compare;
pub mod grid;
mod pictures;
mod report;

use std::time::{Duration, Instant};

use serde::Serialize;

pub use compare::{Closed, closed};
use grid::Distance;
pub use grid::Key;
pub use pictures::Figure;
pub use report::Summary;

use crate::parallel::on_all_cores;
use crate::predict::{Effort, Prediction, predict};
use crate::scenario::{Begin, Scenario};
use crate::session::StudyError;

/// One point, simulated and calculated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Which.
    #[serde(flatten)]
    pub key: Key,
    /// What the simulation says.
    pub simulated: Prediction,
    /// What the closed model says.
    pub closed: Closed,
    /// How far the simulation is from the closed model, of what that says.
    pub error: f64,
    /// How long it took to simulate.
    pub took: Duration,
}

/// All points.
#[derive(Clone, Debug)]
pub struct Study {
    /// In the order of their keys.
    pub points: Vec<Point>,
    /// Some of them again, with clients that begin all at once.
    pub together: Vec<Point>,
    /// How long all of it took.
    pub took: Duration,
}

/// Returns how long a point is watched: connections are warm, so few rounds do where many RPCs are
/// under way, unless convoys dissolve. Back to back an RPC is cut into more bursts, and costs more.
fn effort(key: &Key) -> Effort {
    let rpcs = match key.distance {
        Distance::Ocean => 12_000,
        Distance::BackToBack => 4_000,
    };
    let least_rounds = (rpcs / key.units()).clamp(8, 24) as usize;
    Effort { least_rounds, most_rounds: 6 * least_rounds, latencies: false }
}

/// Simulates every point on all cores, and tells how many are done of how many.
///
/// # Errors
/// If a point cannot be simulated.
pub fn run(progress: impl Fn(usize, usize) + Sync) -> Result<Study, StudyError> {
    let began = Instant::now();
    let mut keys: Vec<(Key, bool)> = grid::together().map(|key| (key, true)).to_vec();
    keys.extend(grid::points().into_iter().map(|key| (key, false)));
    let one = |(key, together): &(Key, bool)| match together {
        true => point(key, Scenario { begin: Begin::Together, ..key.scenario() }),
        false => simulate(key),
    };
    let results = on_all_cores(&keys, one, |done| progress(done, keys.len()));
    let mut together: Vec<Point> = results.into_iter().collect::<Result<_, _>>()?;
    let mut points = together.split_off(grid::together().len());
    points.sort_by_key(|point| point.key);
    Ok(Study { points, together, took: began.elapsed() })
}

/// Simulates one point.
///
/// # Errors
/// If it cannot be simulated.
pub fn simulate(key: &Key) -> Result<Point, StudyError> {
    point(key, key.scenario())
}

fn point(key: &Key, scenario: Scenario) -> Result<Point, StudyError> {
    let began = Instant::now();
    let simulated =
        predict(&scenario, effort(key)).map_err(|error| StudyError(format!("{key:?}: {error}")))?;
    let closed = closed(key);
    let error = compare::error(&simulated, &closed);
    Ok(Point { key: *key, simulated, closed, error, took: began.elapsed() })
}

/// Returns what the trunks carry at most, in bytes of payload per second.
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

    /// Returns the pictures with their numbers.
    pub fn figures(&self) -> Vec<Figure> {
        pictures::all(self)
    }

    /// Returns every point as CSV.
    pub fn csv(&self) -> String {
        let keys: Vec<Key> = self.points.iter().map(|point| point.key).collect();
        pictures::csv(self, &keys)
    }

    /// Returns what it comes to.
    pub fn summary(&self) -> Summary {
        report::summary(self)
    }

    /// Returns the report, as Markdown.
    pub fn report(&self) -> String {
        report::markdown(self)
    }
}

//! The prediction: the least of the terms, reduced by convoys.

use std::time::Duration;

use super::terms::Facts;
use super::{Bound, Load, Path, Prediction, Settings, waves};

/// Smaller differences are ignored.
const SAME: f64 = 0.995;

/// Predicts the throughput of `load` over `path` with `settings`, and its bound.
///
/// A zero in any argument counts as one.
pub fn predict(path: &Path, load: &Load, settings: &Settings) -> Prediction {
    let facts = Facts::new(path, load, settings);
    let terms = facts.terms();
    let (mut bytes_per_second, mut bound) = (f64::INFINITY, Bound::Line);
    for term in &terms {
        if term.bytes_per_second < bytes_per_second {
            (bytes_per_second, bound) = (term.bytes_per_second, term.what);
        }
    }
    let (credits, what) = facts.way_credits();
    let wanted = facts.customers() * load.messages() as f64;
    let mut convoy = 1.;
    if wanted > credits {
        let followed = waves::follow(&facts, share(&facts), credits);
        if followed < bytes_per_second * SAME {
            convoy = followed / bytes_per_second;
            (bytes_per_second, bound) = (followed, what);
        }
    }
    let rpc_time = Duration::from_secs_f64(facts.rpc_time().clamp(0., 1e9));
    Prediction { bytes_per_second, bound, terms, convoy, rpc_time }
}

/// Returns the share of one direction of a pair in the lines that all share.
fn share(facts: &Facts) -> f64 {
    let shared = [Bound::Line, Bound::Nic, Bound::Router, Bound::Window];
    let terms = facts.terms();
    let rates = terms.iter().filter(|term| shared.contains(&term.what));
    let least = rates.map(|term| term.bytes_per_second).fold(f64::INFINITY, f64::min);
    (least / f64::from(facts.ways)).max(1.)
}

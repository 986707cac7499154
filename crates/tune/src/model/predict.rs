//! The least of the terms, or less.

use std::time::Duration;

use super::terms::Facts;
use super::{Bound, Load, Path, Prediction, Settings, waves};

/// What differs less than this is the same.
const SAME: f64 = 0.995;

/// Says what `load` carries over `path` with `settings`, and what binds.
///
/// A zero in any of them counts as one, so that there is an answer to everything.
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

/// What one way has of lines that all share.
fn share(facts: &Facts) -> f64 {
    let shared = [Bound::Line, Bound::Nic, Bound::Router, Bound::Window];
    let terms = facts.terms();
    let rates = terms.iter().filter(|term| shared.contains(&term.what));
    let least = rates.map(|term| term.bytes_per_second).fold(f64::INFINITY, f64::min);
    (least / f64::from(facts.ways)).max(1.)
}

//! The family `sim`: the simulator, beside the closed-form model.
//!
//! Its results are the same on any machine; its duration depends on this one, and is measured once.

use fulmar_study::sc11;

use crate::report::{Bar, Figure};
use crate::{Effort, Failure};

/// The whole sweep of `fulmar sim sc11`: its duration on all cores, and the largest error of the
/// closed-form model at the points that it covers.
pub(crate) fn sc11(_effort: Effort) -> Result<Vec<Figure>, Failure> {
    let study = sc11::run(|_, _| ());
    let study = study.map_err(|error| Failure(format!("cannot simulate: {error}")))?;
    let summary = study.summary();
    Ok(vec![
        Figure::plain("sim.sc11.seconds", summary.seconds, "s").held_to(Bar::AtMost(60.0)),
        Figure::plain("sim.sc11.max_error", summary.max_error, "ratio").held_to(Bar::AtMost(0.05)),
    ])
}

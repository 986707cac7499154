//! Measurements in network namespaces, where those are allowed.

use std::path::PathBuf;
use std::time::Duration;

use fulmar::demo::ocean::{Ocean, Sites};
use fulmar_testbed::lab::{Lab, binaries, check_allowed, not_run};

use crate::report::Figure;
use crate::{Effort, Failure};

/// Measures in namespaces. Where those are not allowed there are no figures, and a line says so.
pub(crate) fn measured(
    effort: Effort,
    measure: impl FnOnce(&Maker, Duration) -> Result<Vec<Figure>, String>,
) -> Result<Vec<Figure>, Failure> {
    if let Err(why) = check_allowed() {
        not_run(&why.to_string());
        return Ok(Vec::new());
    }
    let binaries = binaries().map_err(Failure)?;
    measure(&Maker { binaries }, effort.duration).map_err(Failure)
}

/// Makes hosts for each trial.
pub(crate) struct Maker {
    binaries: PathBuf,
}

impl Maker {
    /// Returns a new laboratory.
    pub(crate) fn lab(&self) -> Result<Lab, String> {
        Lab::new(&self.binaries)
    }

    /// Returns two new sites with a long link between them.
    pub(crate) fn sites(&self, ocean: Ocean) -> Result<Sites, String> {
        Sites::new(&self.binaries.join("fulmar"), ocean)
    }

    /// Returns two new sites where TCP has the system's default settings.
    pub(crate) fn sites_with_default_tcp(&self, ocean: Ocean) -> Result<Sites, String> {
        Sites::with_default_tcp(&self.binaries.join("fulmar"), ocean)
    }
}

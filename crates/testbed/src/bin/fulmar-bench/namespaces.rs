//! Measurements in network namespaces, where they are permitted.

use std::path::PathBuf;
use std::time::Duration;

use fulmar::demo::ocean::{Ocean, Sites};
use fulmar_testbed::lab::{Lab, binaries, check_allowed, not_run};

use crate::report::Figure;
use crate::{Effort, Failure};

/// Runs a measurement in namespaces. Without permission returns no figures, and prints a notice.
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

/// Creates hosts for each trial.
pub(crate) struct Maker {
    binaries: PathBuf,
}

impl Maker {
    /// Creates a laboratory.
    pub(crate) fn lab(&self) -> Result<Lab, String> {
        Lab::new(&self.binaries)
    }

    /// Creates two sites with a long link between them.
    pub(crate) fn sites(&self, ocean: Ocean) -> Result<Sites, String> {
        Sites::new(&self.binaries.join("fulmar"), ocean)
    }

    /// Creates two sites with the default TCP settings of the system.
    pub(crate) fn sites_with_default_tcp(&self, ocean: Ocean) -> Result<Sites, String> {
        Sites::with_default_tcp(&self.binaries.join("fulmar"), ocean)
    }
}

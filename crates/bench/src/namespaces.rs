//! What is measured in network namespaces, where that is allowed.

use std::time::Duration;

use fulmar_proof::lab::{Lab, not_run};

use crate::report::Figure;
use crate::{Effort, Failure};

/// Measures in a laboratory; without one there are no figures, which is said loudly.
pub(crate) fn measured(
    effort: Effort,
    measure: impl FnOnce(&Maker, Duration) -> Result<Vec<Figure>, String>,
) -> Result<Vec<Figure>, Failure> {
    let program = std::env::current_exe().map_err(Failure::io("find this program"))?;
    let fulmar = program.with_file_name("fulmar");
    if !fulmar.exists() {
        let path = fulmar.display();
        return Err(Failure(format!("there is no {path}: build it with the profile of this")));
    }
    let make = move || Lab::new(&fulmar);
    if let Err(why) = make() {
        not_run(&why);
        return Ok(Vec::new());
    }
    measure(&make, effort.duration).map_err(Failure)
}

/// What makes a laboratory for each trial.
pub(crate) type Maker = dyn Fn() -> Result<Lab, String>;

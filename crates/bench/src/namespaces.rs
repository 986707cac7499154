//! What is measured in network namespaces, where that is allowed.

use std::time::Duration;

use fulmar_proof::lab::{Lab, check_allowed, not_run};

use crate::report::Figure;
use crate::{Effort, Failure};

/// Measures in a laboratory; who may not have one gets no figures, which is said loudly.
pub(crate) fn measured(
    effort: Effort,
    measure: impl FnOnce(&Maker, Duration) -> Result<Vec<Figure>, String>,
) -> Result<Vec<Figure>, Failure> {
    if let Err(why) = check_allowed() {
        not_run(&why);
        return Ok(Vec::new());
    }
    let program = std::env::current_exe().map_err(Failure::io("find this program"))?;
    let fulmar = program.with_file_name("fulmar");
    if !fulmar.exists() {
        let path = fulmar.display();
        return Err(Failure(format!("there is no {path}: build it with the profile of this")));
    }
    measure(&move || Lab::new(&fulmar), effort.duration).map_err(Failure)
}

/// What makes a laboratory for each trial.
pub(crate) type Maker = dyn Fn() -> Result<Lab, String>;

//! The family `hostile`: the service of a node while others attack it.
//!
//! Each figure is the worst of all attacks; a table of each attack is printed before.

use fulmar_testbed::hostile::{self, ATTACKS, AttackReport};

use crate::namespaces::measured;
use crate::report::{Bar, Figure};
use crate::{Effort, Failure};

/// The seed of all attackers.
const SEED: u64 = 1;

/// All attacks, one after the other.
pub(crate) fn attacks(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |make, _| {
        let (mut all, mut failed) = (Vec::new(), Vec::new());
        for attack in ATTACKS {
            match hostile::measure(&make.lab()?, attack, SEED) {
                Ok(measured) => all.push(measured),
                Err(why) => failed.push(why),
            }
        }
        eprint!("{}", hostile::table(&all));
        if failed.is_empty() { Ok(figures(&all)) } else { Err(failed.join("\n")) }
    })
}

/// A figure of an attack.
type Value = fn(&AttackReport) -> f64;

fn figures(all: &[AttackReport]) -> Vec<Figure> {
    let highest = |value: Value| all.iter().map(value).fold(0.0, f64::max);
    let lowest = |value: Value| all.iter().map(value).fold(f64::INFINITY, f64::min);
    let at_most = |name, value, unit, most| {
        Figure::plain(name, highest(value), unit).held_to(Bar::AtMost(most))
    };
    vec![
        at_most("hostile.ping_p99_ms", |one| one.ping_p99_ms, "ms", 50.0),
        Figure::plain("hostile.lst_share", lowest(|one| one.lst_share), "ratio")
            .held_to(Bar::AtLeast(0.3)),
        at_most("hostile.rss_mib", |one| one.rss_mib, "MiB", 256.0),
        at_most("hostile.after_s", |one| one.after_s, "s", 10.0),
        at_most("hostile.newcomer_s", |one| one.newcomer_s, "s", 1.0),
        at_most("hostile.hijacked", |one| one.hijacked as f64, "messages", 0.0),
    ]
}

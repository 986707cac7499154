//! The family `wan`: `lst` across an emulated ocean, beside iperf3 and beside what was foretold.

use std::time::Duration;

use fulmar_link::Rate;
use fulmar_proof::wan::{Ocean, Setup, Sites, Trial, as_printed, foretell};
use fulmar_tune::model::{Direction, Hold};

use crate::namespaces::{Maker, measured};
use crate::report::{Bar, Figure};
use crate::{Effort, Failure};

/// That of the study.
const ROUND_TRIP: Duration = Duration::from_micros(50_500);
/// From what no two cores hold to what any do.
const MEGABITS: [u64; 13] =
    [20000, 16000, 12000, 10000, 8000, 6000, 5000, 4000, 3000, 2500, 2000, 1500, 1000];
/// A rate that the machine holds, iperf3 fills so far; as much is asked of `lst`.
const FILLED: f64 = 0.95;
const TRIAL: Trial = Trial { warmup: Duration::from_secs(5), duration: Duration::from_secs(10) };

/// At the highest rate that the machine holds, `lst` with exactly what `fulmar tune` prints.
pub(crate) fn tuned(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |lab, _| {
        let Some((ocean, stream)) = highest(lab)? else {
            return Err("this machine holds no link at all, or iperf3 is missing".to_owned());
        };
        let sites = Sites::new(lab()?, ocean)?;
        let carried = as_printed(&sites, &ocean.advice(Direction::Write))?;
        let gigabits = |rate: f64| rate * 8e-9;
        Ok(vec![
            Figure::plain("wan.lst_tuned.gbps", gigabits(carried), "Gb/s").beside(gigabits(stream)),
            Figure::plain("wan.lst_tuned.vs_link", ocean.share(carried), "ratio")
                .beside(ocean.share(stream))
                .held_to(Bar::AtLeast(FILLED)),
        ])
    })
}

/// Returns the link of the highest rate that a stream of iperf3 fills, and what it carries.
fn highest(lab: &Maker) -> Result<Option<(Ocean, f64)>, String> {
    for megabits in MEGABITS {
        let ocean = Ocean::new(Rate::bits_per_second(megabits * 1_000_000), ROUND_TRIP);
        let sites = Sites::new(lab()?, ocean)?;
        let stream = sites.iperf3(TRIAL.warmup, TRIAL.duration)?;
        if let Some(stream) = stream.filter(|stream| ocean.share(*stream) >= FILLED) {
            return Ok(Some((ocean, stream)));
        }
    }
    Ok(None)
}

/// Five settings over a link that any machine holds: how far the formula and the simulator are from
/// what was measured, at worst. The baseline is the rate with the kernel's default credits.
pub(crate) fn foretold(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |lab, _| {
        let ocean = Ocean::new(Rate::bits_per_second(MODELLED), ROUND_TRIP);
        let advice = ocean.advice(Direction::Write);
        let kernel = Setup::kernel_credits(&advice);
        let credits = |peer_credits| Setup { peer_credits, ..kernel.clone() };
        let few = |concurrency| Setup { concurrency, ..Setup::advised(&advice) };
        let setups = [kernel.clone(), credits(4), credits(12), few(6), Setup::advised(&advice)];
        let sites = Sites::new(lab()?, ocean)?;
        let (mut model, mut simulated) = (Vec::new(), Vec::new());
        let mut baseline = 0.0;
        for setup in &setups {
            let carried = TRIAL.run(&sites, setup)?;
            let foretold = foretell(&ocean, setup)?;
            eprintln!(
                "  {} credits, {:?}, {} RPCs: {:.3} Gb/s, simulated {:.3}, by formula {:.3}",
                setup.peer_credits,
                setup.hold,
                setup.concurrency,
                carried * 8e-9,
                foretold.simulated * 8e-9,
                foretold.model * 8e-9
            );
            if setup.hold == Hold::RoundTrip && setup.peer_credits == kernel.peer_credits {
                baseline = carried * 8e-9;
            }
            model.push(error(foretold.model, carried));
            simulated.push(error(foretold.simulated, carried));
        }
        let worst = |errors: &[f64]| errors.iter().copied().fold(0.0, f64::max);
        let told = |name, value| {
            Figure::plain(name, value, "ratio").beside(baseline).held_to(Bar::AtMost(0.1))
        };
        Ok(vec![
            told("wan.model.kernel_credits_error", model[0]),
            told("wan.model.max_error", worst(&model)),
            told("wan.model.simulator_max_error", worst(&simulated)),
        ])
    })
}

fn error(foretold: f64, measured: f64) -> f64 {
    (foretold / measured - 1.0).abs()
}

/// More than the kernel's default credits fill at this distance, which is 1.3 Gbit/s.
const MODELLED: u64 = 2_000_000_000;

//! `lst` across an emulated long link, beside iperf3 and the predictions.

use std::time::Duration;

use fulmar::demo::ocean::{DEVICE, LINK_IPS, Lst, Ocean, Settings, Setup, Sites, Trial, predict};
use fulmar_link::Rate;
use fulmar_testbed::printed::as_printed;
use fulmar_tune::model::{Direction, Hold};

use crate::namespaces::{Maker, measured};
use crate::report::{Bar, Figure};
use crate::stats::Series;
use crate::{Effort, Failure};

use super::{ROUND_TRIP, SUSTAINED};

/// Rates to try, from too fast for two cores to easy for any.
const MEGABITS: [u64; 13] =
    [20000, 16000, 12000, 10000, 8000, 6000, 5000, 4000, 3000, 2500, 2000, 1500, 1000];
/// A rate counts as sustained if iperf3 fills this share of it; the same is required of `lst`.
const FILLED: f64 = 0.95;
/// The link is limited, so that few repeats suffice.
const REPEATS: usize = 3;
/// In this time the node detects that windows limit it, and TCP grows the additional connections.
const GROWTH: Duration = Duration::from_secs(15);
const TRIAL: Trial = Trial { warmup: Duration::from_secs(5), duration: Duration::from_secs(10) };

/// `lst` with exactly what `fulmar tune` prints, at the highest rate that the machine sustains.
pub(crate) fn tuned(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |make, _| {
        let Some((ocean, stream)) = highest(make)? else {
            return Err("this machine sustains no link rate, or iperf3 is missing".to_owned());
        };
        let advice = ocean.advice(Direction::Write);
        let (mut carried, mut streams) = (vec![], vec![stream]);
        for _ in 0..REPEATS {
            carried.push(as_printed(&make.sites(ocean)?, &advice)?);
            streams.extend(make.sites(ocean)?.iperf3(TRIAL.warmup, TRIAL.duration)?);
        }
        let gigabits = |rates: &[f64]| Series::new(rates.iter().map(|rate| rate * 8e-9));
        let shares = |rates: &[f64]| Series::new(rates.iter().map(|rate| ocean.share(*rate)));
        Ok(vec![
            Figure::median("wan.lst_tuned.gbps", &gigabits(&carried), "Gb/s")
                .beside_median(&gigabits(&streams)),
            Figure::median("wan.lst_tuned.vs_link", &shares(&carried), "ratio")
                .beside_median(&shares(&streams))
                .held_to(Bar::AtLeast(FILLED)),
        ])
    })
}

/// `lst` between two nodes without configuration, over a link that any machine sustains, with the
/// default TCP settings of the system. The baseline is an iperf3 stream with the same settings.
pub(crate) fn unconfigured(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |make, _| {
        let ocean = Ocean::new(Rate::bits_per_second(SUSTAINED), ROUND_TRIP);
        let (mut carried, mut streams) = (vec![], vec![]);
        for _ in 0..REPEATS {
            let sites = make.sites_with_default_tcp(ocean)?;
            carried.push(ocean.share(with_nothing_configured(&sites)?));
            let stream = sites.iperf3(TRIAL.warmup, TRIAL.duration)?;
            streams.extend(stream.map(|stream| ocean.share(stream)));
        }
        let figure = Figure::median("wan.lst_default.vs_link", &Series::new(carried), "ratio");
        let figure =
            if streams.is_empty() { figure } else { figure.beside_median(&Series::new(streams)) };
        Ok(vec![figure.held_to(Bar::AtLeast(FILLED))])
    })
}

/// Returns the payload in bytes per second that `lst` carries, with enough RPCs for the link.
fn with_nothing_configured(sites: &Sites) -> Result<f64, String> {
    let settings = Settings::networks(&format!("tcp({DEVICE})"));
    let [a, b] = sites.ends();
    let (a, _b) = (sites.start(a, &settings)?, sites.start(b, &settings)?);
    let [from, to] = LINK_IPS.map(|address| format!("{address}@tcp"));
    let seconds = TRIAL.duration.as_secs_f64();
    let lst = Lst {
        concurrency: 32,
        warmup: GROWTH.as_secs_f64(),
        ..Lst::new(&from, &to, "brw write --size 1M", seconds)
    };
    lst.run(&a)?.rate()
}

/// Returns the link of the highest rate that an iperf3 stream fills, and the rate of the stream.
fn highest(make: &Maker) -> Result<Option<(Ocean, f64)>, String> {
    for megabits in MEGABITS {
        let ocean = Ocean::new(Rate::bits_per_second(megabits * 1_000_000), ROUND_TRIP);
        let sites = make.sites(ocean)?;
        let stream = sites.iperf3(TRIAL.warmup, TRIAL.duration)?;
        if let Some(stream) = stream.filter(|stream| ocean.share(*stream) >= FILLED) {
            return Ok(Some((ocean, stream)));
        }
    }
    Ok(None)
}

/// Five settings over a link that any machine sustains: the largest errors of the model and of the
/// simulator. The baseline is the rate with the kernel's default credits.
pub(crate) fn predicted(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |make, _| {
        let ocean = Ocean::new(Rate::bits_per_second(SUSTAINED), ROUND_TRIP);
        let advice = ocean.advice(Direction::Write);
        let kernel = Setup::kernel_credits(&advice);
        let credits = |peer_credits| Setup { peer_credits, ..kernel.clone() };
        let few = |concurrency| Setup { concurrency, ..Setup::advised(&advice) };
        let setups = [kernel.clone(), credits(4), credits(12), few(6), Setup::advised(&advice)];
        let sites = make.sites(ocean)?;
        let (mut model, mut simulated) = (Vec::new(), Vec::new());
        let mut baseline = 0.0;
        for setup in &setups {
            let carried = TRIAL.run(&sites, setup)?;
            let predicted = predict(&ocean, setup)?;
            eprintln!(
                "  {} credits, {:?}, {} RPCs: {:.3} Gb/s, simulated {:.3}, by model {:.3}",
                setup.peer_credits,
                setup.hold,
                setup.concurrency,
                carried * 8e-9,
                predicted.simulated * 8e-9,
                predicted.model * 8e-9
            );
            if setup.hold == Hold::RoundTrip && setup.peer_credits == kernel.peer_credits {
                baseline = carried * 8e-9;
            }
            model.push(error(predicted.model, carried));
            simulated.push(error(predicted.simulated, carried));
        }
        let worst = |errors: &[f64]| errors.iter().copied().fold(0.0, f64::max);
        let figure = |name, value| {
            Figure::plain(name, value, "ratio").beside(baseline).held_to(Bar::AtMost(0.1))
        };
        Ok(vec![
            figure("wan.model.kernel_credits_error", model[0]),
            figure("wan.model.max_error", worst(&model)),
            figure("wan.model.simulator_max_error", worst(&simulated)),
        ])
    })
}

fn error(predicted: f64, measured: f64) -> f64 {
    (predicted / measured - 1.0).abs()
}

//! The family `multirail`: two rails at once, and the loss of one.
//!
//! The rails are limited to 1 Gbit/s each, so the figures do not depend on the machine: each is
//! measured once.

use fulmar_testbed::lab::Rate;
use fulmar_testbed::rails::Nets;
use fulmar_testbed::rails::cut::{self, Course, Cut, Trial};
use fulmar_testbed::rails::two_rails::{self, RailRates};

use crate::namespaces::measured;
use crate::report::{Bar, Figure};
use crate::{Effort, Failure};

const RAIL: Rate = Rate::megabits(1000);
const GIGA: f64 = 1e9;
/// The required ratio of two rails to one.
const TWICE: Bar = Bar::AtLeast(1.94);

/// `lst` in both directions over two rails, in one net and in two, and over two nets with a server
/// in each, beside one rail. The reported figure is the worst.
pub(crate) fn two_rails(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |make, duration| {
        let seconds = duration.as_secs_f64();
        let one_net = two_rails::between_two_nodes(make.lab()?, Nets::One, RAIL, seconds)?;
        let two_nets = two_rails::between_two_nodes(make.lab()?, Nets::Two, RAIL, seconds)?;
        let servers = two_rails::with_a_server_on_each_net(make.lab()?, RAIL, seconds)?;
        let all = [
            ("multirail.two_rails.one_net_write", one_net[0]),
            ("multirail.two_rails.one_net_read", one_net[1]),
            ("multirail.two_rails.two_nets_write", two_nets[0]),
            ("multirail.two_rails.two_nets_read", two_nets[1]),
            ("multirail.two_rails.two_servers_write", servers[0]),
            ("multirail.two_rails.two_servers_read", servers[1]),
        ];
        let told = |(name, carried): &(&'static str, RailRates)| {
            Figure::plain(*name, carried.two / GIGA, "GB/s").beside(carried.one / GIGA)
        };
        let mut figures: Vec<Figure> = all.iter().map(told).collect();
        let carried = all.iter().map(|(_, carried)| *carried);
        let worst = carried.min_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        figures.extend(worst.map(|worst| {
            Figure::plain("multirail.two_rails.vs_one", worst.ratio(), "ratio")
                .beside(worst.one / GIGA)
                .held_to(TWICE)
        }));
        Ok(figures)
    })
}

/// The transaction timeout would suffice, but TCP detects the loss within a few seconds.
const SILENCE_FOUND_OUT: f64 = 5.0;

/// The results of several trials.
#[derive(Default)]
struct Worst {
    recovered: f64,
    returned: f64,
    failed: u64,
    one: f64,
}

impl Worst {
    fn add(&mut self, trial: &Trial, course: &Course, failed: u64) {
        // An event that did not happen took longer than the observation.
        let never = trial.cut_for.as_secs_f64();
        self.recovered = self.recovered.max(course.recovered.unwrap_or(never));
        self.returned = self.returned.max(course.returned.unwrap_or(never));
        self.failed += failed;
        self.one = course.one;
    }

    fn figures(&self, names: [&'static str; 3], recovered: f64) -> Vec<Figure> {
        let [recovery, back, errors] = names;
        let one = self.one / GIGA;
        vec![
            Figure::plain(recovery, self.recovered, "s")
                .beside(one)
                .held_to(Bar::AtMost(recovered)),
            Figure::plain(back, self.returned, "s").beside(one).held_to(Bar::AtMost(5.0)),
            Figure::plain(errors, self.failed as f64, "errors").held_to(Bar::AtMost(0.0)),
        ]
    }
}

/// A rail that is cut under `lst`, and under 64 PUTs and GETs: the time until the other carries the
/// full rate, the time until both do again, and the number of errors. The baseline is the rate of
/// one rail.
pub(crate) fn cut(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let names = ["multirail.cut.recovery_s", "multirail.cut.return_s", "multirail.cut.errors"];
    worst(effort, Cut::LinkDown, names, 1.0)
}

/// The same with a rail that silently loses all packets.
pub(crate) fn silence(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let names =
        ["multirail.silence.recovery_s", "multirail.silence.return_s", "multirail.silence.errors"];
    worst(effort, Cut::Silence, names, SILENCE_FOUND_OUT)
}

fn worst(
    effort: Effort,
    cut: Cut,
    names: [&'static str; 3],
    recovered: f64,
) -> Result<Vec<Figure>, Failure> {
    measured(effort, |make, _| {
        let mut worst = Worst::default();
        for nets in [Nets::One, Nets::Two] {
            let trial = Trial::new(nets, cut);
            let (course, report) = cut::under_lst(make.lab()?, &trial)?;
            worst.add(&trial, &course, report.total.errors + report.failed.len() as u64);
            let (course, outcome, served) = cut::under_messages(make.lab()?, &trial)?;
            let wrong = outcome.wrong.or(served.wrong);
            wrong.map_or(Ok(()), Err)?;
            worst.add(&trial, &course, outcome.sum.failed + outcome.lost);
        }
        Ok(worst.figures(names, recovered))
    })
}

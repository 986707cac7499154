//! The demonstration: one table and one picture.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use fulmar_chart::{Bar, Bars, Picture, Unit};
use fulmar_tune::model::{Direction, Hold};

use super::{Foretold, MTU, Ocean, Setup, Sites, Trial, foretell};
use crate::lab::Lab;
use crate::text::Table;

/// How the demonstration runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The link.
    pub ocean: Ocean,
    /// How long each trial is.
    pub trial: Trial,
    /// Where the picture goes, as SVG or PNG by its name.
    pub picture: Option<PathBuf>,
}

impl Default for Options {
    /// The link of the study, at a rate that two nodes, two routers and the link fit on two cores,
    /// for less than a minute.
    fn default() -> Self {
        let rate = fulmar_link::Rate::bits_per_second(2_000_000_000);
        let ocean = Ocean { rate, round_trip: Duration::from_micros(50_500), routed: true };
        let trial = Trial { warmup: Duration::from_secs(4), duration: Duration::from_secs(8) };
        Self { ocean, trial, picture: None }
    }
}

/// A line of the table.
struct Row {
    setup: Setup,
    foretold: Foretold,
    measured: Option<f64>,
}

/// Shows what the credits of a kernel node and those that `fulmar tune` advises carry across, beside
/// iperf3 and beside what was foretold. Without a laboratory it is only foretold, which is said.
///
/// # Errors
/// What failed, and what to do about it.
pub fn run(
    lab: Result<Lab, String>,
    options: &Options,
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    let Options { ocean, trial, picture } = options;
    introduce(ocean, out)?;
    let sites = match lab {
        Ok(lab) => Some(Sites::new(lab, *ocean)?),
        Err(why) => {
            writeln!(out, "NOT MEASURED, only foretold: {why}\n")?;
            None
        }
    };
    let advice = ocean.advice(Direction::Write);
    let mut rows = Vec::new();
    for setup in [Setup::kernel_credits(&advice), Setup::advised(&advice)] {
        let foretold = foretell(ocean, &setup)?;
        rows.push(Row { setup, foretold, measured: None });
    }
    let mut stream = None;
    if let Some(sites) = &sites {
        writeln!(out, "Measuring: iperf3 ...")?;
        stream = sites.iperf3(trial.warmup, trial.duration)?;
        for row in &mut rows {
            writeln!(out, "Measuring: lst, {} ...", row.setup.name)?;
            row.measured = Some(trial.run(sites, &row.setup)?);
        }
        writeln!(out)?;
    }
    writeln!(out, "{}", table(ocean, &rows, stream))?;
    conclude(ocean, &rows, out)?;
    if let Some(path) = picture {
        draw(ocean, &rows, stream, path)?;
        writeln!(out, "The picture is in {}.", path.display())?;
    }
    Ok(())
}

fn introduce(ocean: &Ocean, out: &mut dyn Write) -> std::io::Result<()> {
    let trip = ocean.round_trip.as_secs_f64() * 1e3;
    let flight = ocean.path().bytes_in_flight() as f64 / f64::from(1 << 20);
    let routers = if ocean.routed { ", a Fulmar router at each shore," } else { "" };
    writeln!(
        out,
        "Two sites, {trip} ms there and back, with a link of {}/s between them{routers} and a node \
         at each.\nFull, the link has {flight:.1} MiB of payload under way (MTU {MTU}).\n",
        ocean.rate
    )
}

fn table(ocean: &Ocean, rows: &[Row], stream: Option<f64>) -> String {
    let mut table = Table::new(&[
        "",
        "peer_credits",
        "<held",
        "RPCs",
        "Gb/s",
        "of the link",
        "simulated",
        "by formula",
        "<what binds",
    ]);
    let gigabits = |rate: f64| format!("{:.3}", rate * 8e-9);
    let share = |rate: f64| format!("{:.1} %", 100.0 * ocean.share(rate));
    let or_not = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    if let Some(rate) = stream {
        let empty = || String::new();
        table.row([
            "iperf3, one stream of TCP".into(),
            empty(),
            empty(),
            empty(),
            gigabits(rate),
            share(rate),
            empty(),
            empty(),
            empty(),
        ]);
    }
    for Row { setup, foretold, measured } in rows {
        let held = match setup.hold {
            Hold::RoundTrip => "a round trip",
            Hold::Written => "until written",
        };
        table.row([
            format!("lst write, {}", setup.name),
            setup.peer_credits.to_string(),
            held.to_owned(),
            setup.concurrency.to_string(),
            or_not(measured.map(gigabits)),
            or_not(measured.map(share)),
            gigabits(foretold.simulated) + if foretold.steady { "" } else { " (uneven)" },
            gigabits(foretold.model),
            foretold.bound.name().to_owned(),
        ]);
    }
    table.to_string()
}

fn conclude(ocean: &Ocean, rows: &[Row], out: &mut dyn Write) -> std::io::Result<()> {
    let carried = |row: &Row| row.measured.unwrap_or(row.foretold.simulated);
    let [kernel, advised] = rows else { return Ok(()) };
    writeln!(
        out,
        "With {} credits, each held for {:.1} ms, {:.0} % of the link stay empty; as advised {:.1} % \
         of it are payload.",
        kernel.setup.peer_credits,
        ocean.round_trip.as_secs_f64() * 1e3,
        100.0 * (1.0 - ocean.share(carried(kernel))),
        100.0 * ocean.share(carried(advised)),
    )
}

fn draw(
    ocean: &Ocean,
    rows: &[Row],
    stream: Option<f64>,
    path: &std::path::Path,
) -> Result<(), Box<dyn Error>> {
    let gigabits = |rate: f64| rate * 8e-9;
    let mut groups = Vec::new();
    if let Some(rate) = stream {
        let values = vec![Some(gigabits(rate)), None, None];
        groups.push(Bar { name: "iperf3".into(), values });
    }
    for Row { setup, foretold, measured } in rows {
        let values = [*measured, Some(foretold.simulated), Some(foretold.model)];
        let values = values.map(|value| value.map(gigabits)).to_vec();
        groups.push(Bar { name: setup.name.clone(), values });
    }
    let trip = ocean.round_trip.as_secs_f64() * 1e3;
    let picture = Picture::of(Bars {
        title: format!("lst across {trip} ms"),
        subtitle: "brw write of 1 MiB, one node at each end".into(),
        label: "payload, Gb/s".into(),
        unit: Unit::default(),
        names: ["measured", "simulated", "by formula"].map(str::to_owned).to_vec(),
        groups,
        yardstick: Some(("the link".into(), ocean.rate.bits() as f64 * 1e-9)),
        notes: Vec::new(),
    });
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory)?;
    }
    let is_svg = path.extension().is_some_and(|extension| extension == "svg");
    let bytes = if is_svg { picture.svg().into_bytes() } else { picture.png() };
    let failed = |error| format!("cannot write {}: {error}", path.display());
    std::fs::write(path, bytes).map_err(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_laboratory_it_is_foretold_and_said_so() {
        let options = Options::default();
        let mut out = Vec::new();
        run(Err("there are no namespaces".into()), &options, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for part in ["NOT MEASURED", "no namespaces", "peer_credits", "as fulmar tune advises"] {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }
}

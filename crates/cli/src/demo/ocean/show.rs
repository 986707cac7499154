//! The demonstration: a table and a picture.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use fulmar_study::chart::{Bar, Bars, Picture, Unit};
use fulmar_text::{Table, fixed, left, or_unknown, right};
use fulmar_tune::model::{Direction, Hold};

use super::{MTU, Ocean, OceanPrediction, Runner, Setup, Sites, Trial, predict};
use crate::demo::indented;

/// Options of the demonstration.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The link.
    pub ocean: Ocean,
    /// Duration of each trial.
    pub trial: Trial,
    /// File of the picture, SVG or PNG by its extension.
    pub picture: Option<PathBuf>,
}

impl Default for Options {
    /// The round trip of the study, at a rate that two cores can carry; takes less than a minute.
    fn default() -> Self {
        let rate = fulmar_link::Rate::bits_per_second(2_000_000_000);
        let ocean = Ocean { rate, round_trip: Duration::from_micros(50_500), routed: true };
        let trial = Trial { warmup: Duration::from_secs(4), duration: Duration::from_secs(8) };
        Self { ocean, trial, picture: None }
    }
}

/// A row of the table.
struct Row {
    setup: Setup,
    predicted: OceanPrediction,
    measured: Option<f64>,
}

/// Shows the throughput across the link with the default credits of a kernel node and with those
/// that `fulmar tune` advises, beside iperf3 and the predictions. Where nodes cannot run it shows
/// only the predictions, and says so.
///
/// # Errors
/// A description of the failure, with a remedy.
pub fn run(
    runner: Result<Runner, String>,
    options: &Options,
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    let Options { ocean, trial, picture } = options;
    introduce(ocean, out)?;
    let sites = match runner {
        Ok(runner) => Some(Sites::with(runner, *ocean)?),
        Err(why) => {
            writeln!(out, "NOT MEASURED, only predicted: {why}\n")?;
            None
        }
    };
    let advice = ocean.advice(Direction::Write);
    let mut rows = Vec::new();
    for setup in [Setup::kernel_credits(&advice), Setup::advised(&advice)] {
        let predicted = predict(ocean, &setup)?;
        rows.push(Row { setup, predicted, measured: None });
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
        writeln!(out, "Wrote the picture to {}.", path.display())?;
    }
    Ok(())
}

fn introduce(ocean: &Ocean, out: &mut dyn Write) -> std::io::Result<()> {
    let trip = ocean.round_trip.as_secs_f64() * 1e3;
    let flight = ocean.path().bytes_in_flight() as f64 / f64::from(1 << 20);
    let routers = if ocean.routed { ", a Fulmar router at each end," } else { "" };
    writeln!(
        out,
        "Two sites, round trip {trip} ms, with a link of {}/s between them{routers} and a node at \
         each site.\nThe full link holds {flight:.1} MiB of payload in flight (MTU {MTU}).\n",
        ocean.rate
    )
}

fn table(ocean: &Ocean, rows: &[Row], stream: Option<f64>) -> String {
    let mut table = Table::new([
        left(""),
        right("peer_credits"),
        left("held"),
        right("RPCs"),
        right("Gbit/s"),
        right("of the link"),
        right("simulated"),
        right("by model"),
        left("bottleneck"),
    ]);
    let gigabits = |rate: f64| fixed(rate * 8e-9, 3);
    let share = |rate: f64| format!("{} %", fixed(100.0 * ocean.share(rate), 1));
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
    for Row { setup, predicted, measured } in rows {
        let held = match setup.hold {
            Hold::RoundTrip => "a round trip",
            Hold::Written => "until written",
        };
        table.row([
            format!("lst write, {}", setup.name),
            setup.peer_credits.to_string(),
            held.to_owned(),
            setup.concurrency.to_string(),
            or_unknown(*measured, gigabits),
            or_unknown(*measured, share),
            gigabits(predicted.simulated) + if predicted.steady { "" } else { " (uneven)" },
            gigabits(predicted.model),
            predicted.bound.name().to_owned(),
        ]);
    }
    indented(&table)
}

fn conclude(ocean: &Ocean, rows: &[Row], out: &mut dyn Write) -> std::io::Result<()> {
    let carried = |row: &Row| row.measured.unwrap_or(row.predicted.simulated);
    let [kernel, advised] = rows else { return Ok(()) };
    writeln!(
        out,
        "With {} credits, each held for {:.1} ms, {:.0} % of the link is unused; with the advised \
         settings {:.1} % of it is payload.",
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
    for Row { setup, predicted, measured } in rows {
        let values = [*measured, Some(predicted.simulated), Some(predicted.model)];
        let values = values.map(|value| value.map(gigabits)).to_vec();
        groups.push(Bar { name: setup.name.clone(), values });
    }
    let trip = ocean.round_trip.as_secs_f64() * 1e3;
    let picture = Picture::of(Bars {
        title: format!("lst across {trip} ms"),
        subtitle: "brw write of 1 MiB, one node at each end".into(),
        label: "payload, Gbit/s".into(),
        unit: Unit::default(),
        names: ["measured", "simulated", "by model"].map(str::to_owned).to_vec(),
        groups,
        baseline: Some(("the link".into(), ocean.rate.bits() as f64 * 1e-9)),
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
    fn output_says_that_it_is_only_predicted_where_nodes_cannot_run() {
        let options = Options::default();
        let mut out = Vec::new();
        run(Err("there are no namespaces".into()), &options, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for part in ["NOT MEASURED", "no namespaces", "peer_credits", "as fulmar tune advises"] {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }
}

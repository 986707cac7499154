//! `fulmar sim sc11`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fulmar_study::sc11::{self, Study, Summary};
use fulmar_study::{Direction, sc11::grid};
use fulmar_text::{Table, fixed, left, right};
use indicatif::{ProgressBar, ProgressStyle};

use crate::context::{complain, print};

/// Simulate 100 Gb/s across an ocean (SC11): a parameter sweep, with pictures
///
/// Simulates the SC11 testbed in virtual time: up to 31 clients at one site and 16 servers at the
/// other, each with 10 Gb/s, joined by two trunks of 50 Gb/s with a round trip of 50.5 ms. About a
/// hundred points are simulated on all cores: throughput over RPCs in flight, message size and
/// number of nodes, across the ocean and within one site; each for peer_credits of 8 to 64, held
/// for a round trip as the kernel's zero-copy sends do, and returned at once as Fulmar does.
///
/// Each point is compared with the closed-form model of "fulmar tune". With --out the directory gets
/// report (report.md), every point (points.csv, points.json), and for each figure a picture (.svg,
/// .png) and its numbers (.csv).
///
/// Exit status: 0 if all points could be simulated and those covered by the model agree with it
/// within 5 %, 1 if not, 2 if the request is invalid.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory for pictures, numbers and the report; created if missing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the summary and every point as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("fulmar: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Returns whether the model agrees with the simulation.
fn run(args: &Args) -> Result<bool, String> {
    if let Some(directory) = &args.out {
        // The sweep takes a minute, so a directory error is reported first.
        fs::create_dir_all(directory).map_err(|error| {
            format!(
                "cannot create {}: {error}; give another directory with --out",
                directory.display()
            )
        })?;
    }
    let style = ProgressStyle::with_template("[{bar:40}] {pos} of {len} points");
    let bar = ProgressBar::no_length();
    bar.set_style(style.expect("the template is valid").progress_chars("##."));
    let study = sc11::run(|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let study = study.map_err(|error| format!("a point cannot be simulated: {error}"))?;
    let summary = study.summary();
    if args.json {
        let document = serde_json::json!({ "summary": summary, "points": study.points });
        print(&format!("{document:#}\n"));
    } else {
        print(&table(&study, &summary));
    }
    if let Some(directory) = &args.out {
        let written = write(&study, directory)?;
        if !args.json {
            print(&format!("\nWrote {written} files to {}\n", directory.display()));
        }
    }
    Ok(summary.beyond == 0)
}

/// Returns the throughput of each `peer_credits`, and the errors of the model.
fn table(study: &Study, summary: &Summary) -> String {
    let mut text = format!(
        "Payload in GB/s of {} clients over 50.5 ms and 2 x 50 Gb/s, which carry {:.2}; 1 MiB a \
         transfer, by RPCs in flight of each client\n\n",
        grid::CLIENTS,
        sc11::line_rate() / 1e9
    );
    let names = [left("test"), left("credits"), right("peer_credits")].into_iter();
    let loads = grid::CONCURRENCIES.map(|concurrency| right(format!("{concurrency} RPCs")));
    let mut rates = Table::new(names.chain(loads));
    for direction in [Direction::Write, Direction::Read] {
        for hold in grid::Hold::ALL.into_iter().rev() {
            for peer_credits in grid::PEER_CREDITS {
                let usual = grid::Key::usual(direction, hold, peer_credits);
                let names = [direction.name(), hold.name()].map(str::to_owned);
                let carried = grid::CONCURRENCIES.map(|concurrency| {
                    let key = grid::Key { concurrency, ..usual };
                    let rate = study.get(&key).map_or(0.0, |p| p.simulated.bytes_per_second);
                    fixed(rate / 1e9, 2)
                });
                rates.row(names.into_iter().chain([peer_credits.to_string()]).chain(carried));
            }
        }
    }
    text += &rates.to_string();
    text += &format!(
        "\n{} points in {:.1} s; the closed-form model covers {} of them: average error {:.2} %, \
         largest error {:.2} %, {} beyond 5 %\n",
        summary.points,
        summary.seconds,
        summary.compared,
        summary.mean_error * 100.0,
        summary.max_error * 100.0,
        summary.beyond
    );
    text
}

/// Writes all files and returns their number.
fn write(study: &Study, directory: &Path) -> Result<usize, String> {
    let points = serde_json::to_string_pretty(&study.points).expect("points are plain numbers");
    let mut files: Vec<(String, Vec<u8>)> = vec![
        ("report.md".into(), study.report().into_bytes()),
        ("points.csv".into(), study.csv().into_bytes()),
        ("points.json".into(), points.into_bytes()),
    ];
    for figure in study.figures() {
        let named = |ending: &str| format!("{}.{ending}", figure.name);
        files.push((named("svg"), figure.picture.svg().into_bytes()));
        files.push((named("png"), figure.picture.png()));
        files.push((named("csv"), figure.csv.into_bytes()));
    }
    let count = files.len();
    for (name, bytes) in files {
        let path = directory.join(name);
        fs::File::create(&path)
            .and_then(|mut file| file.write_all(&bytes))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(count)
}

//! `fulmar top`: what nodes do now, on a terminal, as text, and from a recording.

mod ask;
mod draw;
mod here;
mod play;
mod screen;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use fulmar_control::api::Place;
use fulmar_top::record::{Header, Round};
use fulmar_top::{Model, NODES_MAX, State};

use crate::context::{NodeArgs, complain, print};
use ask::{Poller, Source};
use here::Here;
use play::Recording;

/// Show what nodes do now: rates, credits, health, latencies, routers, targets, mounts
///
/// Without a node: that of this machine, and what "fulmar mount" has mounted here. On a terminal, keys are listed in
/// the last line. Where standard output is no terminal, and with --batch or --once, frames are printed as text. The
/// same is a page for browsers at the address of "fulmar node --metrics".
///
/// Exit status: 0, 1 if no node has answered in the last frame of --once or --batch, 2 if the request is not valid.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Nodes: HOST:PORT of "fulmar node --metrics", or the path of a control socket, such as ./node.sock
    #[arg(value_name = "NODE", conflicts_with = "play")]
    nodes: Vec<Place>,
    #[command(flatten)]
    which: NodeArgs,
    /// Seconds between two frames
    #[arg(short, long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
    interval: Duration,
    /// Print one frame as text, with the rates of one interval
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Print frames as text
    #[arg(short, long)]
    batch: bool,
    /// Stop after this number of frames
    #[arg(short = 'n', long, value_name = "FRAMES")]
    count: Option<u64>,
    /// Write what the nodes answer to a file, for --play
    #[arg(long, value_name = "FILE", conflicts_with = "play")]
    record: Option<PathBuf>,
    /// Show a recording; with --batch or --once all of it, or its end, at once
    #[arg(long, value_name = "FILE", conflicts_with = "interval")]
    play: Option<PathBuf>,
    /// How many times faster a recording is shown than it was recorded
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = speed, requires = "play")]
    speed: f64,
}

/// Exit status for an invalid request.
const INVALID: u8 = 2;

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    if (0.2..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("it is 0.2 to 3600 seconds".to_owned())
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let times: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if (0.01..=10_000.0).contains(&times) {
        Ok(times)
    } else {
        Err("it is 0.01 to 10000".to_owned())
    }
}

pub(crate) fn main(args: Args) -> ExitCode {
    match run(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            complain(&format!("fulmar top: {message}\n"));
            ExitCode::from(INVALID)
        }
    }
}

/// Returns whether a node has answered.
fn run(args: Args) -> Result<bool, String> {
    let is_text = args.once || args.batch || !io::stdout().is_terminal();
    let feed = match &args.play {
        Some(path) => Feed::Played(Recording::open(path)?),
        None => Feed::Asked(live(&args)?),
    };
    if is_text { as_text(&args, feed) } else { screen::run(feed, args.speed).map(|()| true) }
}

/// Begins to ask the nodes.
fn live(args: &Args) -> Result<Poller, String> {
    if args.nodes.len() > NODES_MAX {
        return Err(format!("{} nodes are given, and {NODES_MAX} are possible", args.nodes.len()));
    }
    let named = args.nodes.iter().cloned().map(Source::Node);
    let sources: Vec<Source> = if args.nodes.is_empty() {
        vec![Source::Here(Here::new(&args.which))]
    } else {
        named.collect()
    };
    let places: Vec<String> = sources.iter().map(Source::name).collect();
    let recorder = args.record.as_ref().map(|path| Recorder::create(path, &places)).transpose()?;
    let asked = Poller::start(sources, args.interval, recorder);
    asked.map_err(|error| format!("cannot start a thread for each node: {error}"))
}

/// Where answers come from.
enum Feed {
    Asked(Poller),
    Played(Recording),
}

impl Feed {
    /// Returns a model of its nodes.
    fn model(&self) -> Model {
        Model::new(match self {
            Self::Asked(asked) => asked.places().to_vec(),
            Self::Played(recording) => recording.places().to_vec(),
        })
    }

    /// Returns the next round, when all nodes have answered; `None` at the end of a recording.
    fn next(&mut self) -> Result<Option<Round>, String> {
        match self {
            Self::Asked(asked) => asked.next().map(Some),
            Self::Played(recording) => recording.next(),
        }
    }
}

fn take(model: &mut Model, round: Round) {
    for (node, answer) in round.answers.into_iter().enumerate() {
        if let Some(answer) = answer {
            model.handle_answer(node, answer);
        }
    }
}

/// Prints frames. Returns whether a node has answered in the last one.
fn as_text(args: &Args, mut feed: Feed) -> Result<bool, String> {
    let mut model = feed.model();
    let is_live = matches!(feed, Feed::Asked(_));
    let (mut rounds, mut printed) = (0_u64, 0_u64);
    while args.count.is_none_or(|count| printed < count) {
        let Some(round) = feed.next()? else { break };
        take(&mut model, round);
        rounds += 1;
        // The first answer of a node has no rates yet.
        let is_shown = !args.once && (rounds > 1 || !is_live);
        if is_shown {
            printed += 1;
            if print(&(model.view().text() + "\n")) != 0 {
                break;
            }
        }
        if args.once && is_live && rounds == 2 {
            break;
        }
    }
    if args.once {
        print(&model.view().text());
    }
    Ok(model.view().nodes.iter().any(|node| matches!(node.state, State::Up | State::Failed)))
}

/// The file of a recording.
struct Recorder {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Recorder {
    fn create(path: &PathBuf, places: &[String]) -> Result<Self, String> {
        let failed = |error| format!("cannot record to {}: {error}", path.display());
        let file = File::create(path).map_err(failed)?;
        let mut recorder = Self { path: path.clone(), file: BufWriter::new(file) };
        recorder.write(&Header::new(places.to_vec()).line())?;
        Ok(recorder)
    }

    /// Writes a line, so that it is in the file if the process ends.
    fn write(&mut self, line: &str) -> Result<(), String> {
        let done = self.file.write_all(line.as_bytes()).and_then(|()| self.file.flush());
        done.map_err(|error| format!("cannot go on recording to {}: {error}", self.path.display()))
    }
}

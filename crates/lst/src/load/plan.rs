//! The arguments of `lst run` and `lst mesh`.

use std::time::Duration;

use clap::{Parser, ValueEnum};
use fulmar_lnet_wire::{MTU, Nid, NidList};
use fulmar_selftest::console::{DataCheck, TestSpec};

use super::drive::{Cell, Flow};
use super::grid::{Grid, Point};

/// Measure the throughput and latency between nodes with one command
///
/// Adds the nodes to a new session, lets the clients (--from) load the servers (--to), measures,
/// and ends the session, also if it is interrupted or a step fails. Nodes may run Fulmar or the
/// kernel's LNet; kernel nodes report only rates and errors.
///
/// Exit status: 0 without errors, 1 if there were errors or a node failed, 2 if the request is
/// invalid, 130 if interrupted.
#[derive(Debug, Parser)]
#[command(name = "lst run", max_term_width = 100, after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// Clients: NIDs separated by commas, such as 10.0.0.[1-4]@tcp; may be repeated
    #[arg(long, value_name = "NIDS", required = true)]
    from: Vec<String>,
    /// Servers, as for --from
    #[arg(long, value_name = "NIDS", required = true)]
    to: Vec<String>,
    /// "ping", "brw read" or "brw write", with the parameters of add_test, such as size=1M
    #[arg(value_name = "TEST", required = true)]
    test: Vec<String>,
    /// Bytes of each transfer, such as 4k or 1M [default: 1M]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    size: Option<u32>,
    /// How the data is checked [default: none]
    #[arg(long, value_name = "HOW")]
    check: Option<CheckArg>,
    /// Offset of the data in the first page of the client
    #[arg(long, value_name = "BYTES", value_parser = offset)]
    off: Option<u32>,
    /// RPCs in flight between each client and each of its servers [default: 1]
    #[arg(long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=CONCURRENCY_MAX))]
    concurrency: Option<u32>,
    /// How many clients share how many servers
    #[arg(long, value_name = "D:S", default_value = "1:1", value_parser = distribute)]
    distribute: (u32, u32),
    /// How long to measure
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = positive_seconds)]
    time: Duration,
    /// Warm-up: how long the load runs before the measurement starts
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    warmup: Duration,
    /// Measure each point of a grid, such as concurrency=1..64x2,size=4k,64k,1M. A..BxM multiplies,
    /// A..B+S adds
    #[arg(long, value_name = "GRID")]
    sweep: Option<Grid>,
    /// How often to measure each point of the grid [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=REPEATS_MAX))]
    repeats: Option<u32>,
    /// Print a Markdown table of the mean MB/s, with a row for each size
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub(super) markdown: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,
    /// Print comma-separated values
    #[arg(long)]
    pub(super) csv: bool,
    /// Replace the session of this node, and take nodes from other sessions
    #[arg(long)]
    force: bool,
    /// Print progress every second, also if standard error is not a terminal
    #[arg(long)]
    pub(super) progress: bool,
}

const RUN_EXAMPLES: &str = "Examples:
  lst run --from 10.0.0.1@tcp --to 10.0.0.2@tcp ping
  lst run --from 10.0.0.[1-4]@tcp --to 10.0.1.[1-4]@tcp --distribute 1:4 brw write --size 1M \\
      --concurrency 8 --time 30
  lst run --from 10.0.0.1@tcp --to 10.0.0.2@tcp brw read --sweep concurrency=1..64x2,size=4k,1M

--control PATH selects the node by its control socket, as for every command.";

/// Measure bandwidth and latency from every node to every other
///
/// Measures one ordered pair after another: writes with brw for the bandwidth, and pings for the
/// latency. Prints both as a matrix, and lists the worst pairs.
///
/// Exit status: as for "lst run".
#[derive(Debug, Parser)]
#[command(name = "lst mesh", max_term_width = 100, after_help = MESH_EXAMPLES)]
pub(crate) struct MeshArgs {
    /// Two or more nodes, such as 10.0.0.[1-8]@tcp
    #[arg(required = true, value_name = "NIDS")]
    nids: Vec<String>,
    /// How long to measure each of bandwidth and latency
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = positive_seconds)]
    pub(super) time: Duration,
    /// Warm-up: how long each load runs before the measurement starts
    #[arg(long, value_name = "SECONDS", default_value = "0.2", value_parser = seconds)]
    pub(super) warmup: Duration,
    /// Bytes of each transfer
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = size)]
    pub(super) size: u32,
    /// Transfers in flight in each pair; pings are sent one at a time
    #[arg(long, value_name = "N", default_value_t = 8,
        value_parser = clap::value_parser!(u32).range(1..=CONCURRENCY_MAX))]
    pub(super) concurrency: u32,
    /// Measure pairs without common nodes at the same time
    #[arg(long)]
    pub(super) parallel: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Replace the session of this node, and take nodes from other sessions
    #[arg(long)]
    pub(super) force: bool,
    /// Print progress, also if standard error is not a terminal
    #[arg(long)]
    pub(super) progress: bool,
}

const MESH_EXAMPLES: &str = "Examples:
  lst mesh 10.0.0.[1-8]@tcp
  lst mesh 10.0.0.[1-64]@tcp --parallel --json

--control PATH selects the node by its control socket, as for every command.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CheckArg {
    None,
    Simple,
    Full,
}

/// The largest concurrency of a test between two nodes. Spec: lnet-selftest §1.
pub(super) const CONCURRENCY_MAX: i64 = 1024;
/// The largest number of servers of one client. Spec: lnet-selftest §7.3.
const SPAN_MAX: u32 = 341;
/// The largest number of repeats.
const REPEATS_MAX: i64 = 1000;
/// The longest measurement, in seconds: within it the milliseconds of the nodes do not wrap.
const SECONDS_MAX: f64 = 30.0 * 86_400.0;
/// The largest number of nodes on one side of a test.
const NODES_MAX: usize = 4096;
/// The largest number of nodes of a mesh.
const MESH_MAX: usize = 256;

impl RunArgs {
    /// Returns the cell at one point of the grid, or the only one.
    ///
    /// # Errors
    /// Why the request is invalid.
    pub(super) fn cell(&self, point: Point) -> Result<Cell, String> {
        self.check_grid()?;
        let flow = Flow {
            from: nids("--from", &self.from, NODES_MAX)?,
            to: nids("--to", &self.to, NODES_MAX)?,
        };
        let (clients_sharing, span) = self.distribute;
        if span as usize > flow.to.len() {
            return Err(format!(
                "--distribute {clients_sharing}:{span} gives each client {span} servers, but --to \
                 has {}: give more, or write {clients_sharing}:{}",
                flow.to.len(),
                flow.to.len()
            ));
        }
        let test = self.test(point.size)?;
        if point.concurrency.is_some() && self.concurrency.is_some() {
            return Err("--concurrency is in the grid too: remove one of them".to_owned());
        }
        Ok(Cell {
            name: format!("run-{}", std::process::id()),
            flows: vec![flow],
            test,
            concurrency: point.concurrency.or(self.concurrency).unwrap_or(1),
            distribute: self.distribute,
            time: self.time,
            warmup: self.warmup,
            force: self.force,
        })
    }

    /// Returns how often each point of the grid is measured.
    pub(super) fn repeats(&self) -> u32 {
        self.repeats.unwrap_or(3)
    }

    /// Checks that options for a grid have one.
    ///
    /// # Errors
    /// What to do about one that has none.
    fn check_grid(&self) -> Result<(), String> {
        let [option, what] = match self {
            Self { sweep: Some(_), .. } => return Ok(()),
            Self { repeats: Some(_), .. } => ["--repeats", "measures each point of a grid again"],
            Self { markdown: true, .. } => ["--markdown", "prints the table of a grid"],
            _ => return Ok(()),
        };
        Err(format!(
            "{option} {what}, and there is none: add --sweep, such as --sweep concurrency=1..16x2, \
             or leave {option} out"
        ))
    }

    /// Returns the grid, if there is one.
    pub(super) fn grid(&self) -> Option<&Grid> {
        self.sweep.as_ref()
    }

    /// Returns the test that the parameters and the options describe together.
    fn test(&self, swept: Option<u32>) -> Result<TestSpec, String> {
        let words = TestWords::parse(&self.test)?;
        let size = only("size", [words.size, self.size, swept])?;
        let check = only("check", [words.check, self.check.map(DataCheck::from)])?;
        let offset = only("off", [words.offset, self.off])?;
        match words.brw {
            true => Ok(TestSpec::Brw {
                write: words.write,
                check: check.unwrap_or_default(),
                size: size.unwrap_or(MTU),
                offset: offset.unwrap_or(0),
            }),
            false if size.is_some() || check.is_some() || offset.is_some() => {
                Err("a ping has no data: remove size, check and off, or use brw".to_owned())
            }
            false => Ok(TestSpec::Ping),
        }
    }
}

impl MeshArgs {
    /// Returns the nodes.
    ///
    /// # Errors
    /// Why they are invalid.
    pub(super) fn nodes(&self) -> Result<Vec<Nid>, String> {
        match nids("NIDS", &self.nids, MESH_MAX)? {
            nodes if nodes.len() < 2 => Err("a mesh needs two nodes or more".to_owned()),
            nodes => Ok(nodes),
        }
    }
}

/// The test in the syntax of `lst add_test`. Spec: lnet-selftest §16.10.
#[derive(Default)]
struct TestWords {
    brw: bool,
    write: bool,
    size: Option<u32>,
    check: Option<DataCheck>,
    offset: Option<u32>,
}

impl TestWords {
    fn parse(words: &[String]) -> Result<Self, String> {
        // In a shell they may be one word in quotes.
        let words = words.iter().flat_map(|word| word.split_whitespace());
        let mut words = words.map(str::to_lowercase);
        let mut this = Self::default();
        match words.next().as_deref() {
            Some("brw") => this.brw = true,
            Some("ping") => {}
            other => return Err(no_test(other.unwrap_or_default())),
        }
        for word in words {
            match word.split_once('=') {
                None if word.contains('@') => return Err(no_test(&word)),
                None if this.brw && ["read", "r"].contains(&word.as_str()) => this.write = false,
                None if this.brw && ["write", "w"].contains(&word.as_str()) => this.write = true,
                Some(("size" | "s", value)) => this.size = Some(size(value)?),
                Some(("off" | "o", value)) => this.offset = Some(offset(value)?),
                Some(("check" | "c", value)) => {
                    let check = CheckArg::from_str(value, false).map_err(|_| {
                        format!("unknown check={value}: write none, simple or full")
                    })?;
                    this.check = Some(check.into());
                }
                _ if this.brw => {
                    return Err(format!(
                        "unknown parameter {word:?} of brw: use read, write, size=, check= and off="
                    ));
                }
                _ => return Err(format!("unknown parameter {word:?}: a ping has no parameters")),
            }
        }
        Ok(this)
    }
}

fn no_test(word: &str) -> String {
    if word.contains('@') {
        format!("{word} is not a test: separate NIDs by commas, without blanks")
    } else {
        format!("{word:?} is not a test: write ping, brw read or brw write")
    }
}

impl From<CheckArg> for DataCheck {
    fn from(check: CheckArg) -> Self {
        match check {
            CheckArg::None => Self::None,
            CheckArg::Simple => Self::Simple,
            CheckArg::Full => Self::Full,
        }
    }
}

/// Returns the only value that was given, if any.
fn only<T, const N: usize>(name: &str, values: [Option<T>; N]) -> Result<Option<T>, String> {
    let mut given = values.into_iter().flatten();
    match (given.next(), given.next()) {
        (value, None) => Ok(value),
        _ => Err(format!("the {name} is given twice: remove one of them")),
    }
}

fn nids(option: &str, texts: &[String], max: usize) -> Result<Vec<Nid>, String> {
    let list: NidList = texts.join(" ").parse().map_err(|error| format!("{option}: {error}"))?;
    let nids = list.expand(max).map_err(|error| format!("{option}: {error}"))?;
    match nids.iter().find(|nid| nid.to_small().is_none()) {
        None => Ok(nids),
        Some(nid) => Err(format!("{option}: selftest supports only 4-byte addresses, not {nid}")),
    }
}

/// Parses the size of a transfer in bytes.
pub(super) fn size(text: &str) -> Result<u32, String> {
    match bytes(text) {
        Some(bytes) if (8..=MTU).contains(&bytes) && bytes.is_multiple_of(8) => Ok(bytes),
        Some(_) => Err(format!("{text} is not a valid size: write a multiple of 8 up to 1M")),
        None => Err(format!("{text:?} is not a valid size: write bytes, such as 4096, 64k or 1M")),
    }
}

fn offset(text: &str) -> Result<u32, String> {
    match bytes(text) {
        Some(bytes) if bytes < 4096 && bytes.is_multiple_of(8) => Ok(bytes),
        _ => Err(format!("{text:?} is not a valid offset: write a multiple of 8 below 4096")),
    }
}

/// Parses digits with an optional `k` or `M`.
fn bytes(text: &str) -> Option<u32> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        _ => (text, 1),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u32>().ok()?.checked_mul(unit)
}

fn distribute(text: &str) -> Result<(u32, u32), String> {
    let read = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
    let pair = text.split_once(':').and_then(|(d, s)| read(d).zip(read(s)));
    match pair {
        Some((_, span)) if span > SPAN_MAX => {
            Err(format!("a client can have at most {SPAN_MAX} servers"))
        }
        Some(pair) => Ok(pair),
        None => Err("write how many clients share how many servers, such as 1:4".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("write a number of seconds, such as 30 or 0.5".to_owned()),
    }
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        time if time < Duration::from_millis(100) => Err("the minimum is 0.1 seconds".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(words: &str) -> Result<Cell, String> {
        let words = ["lst run"].into_iter().chain(words.split_whitespace());
        let args = RunArgs::try_parse_from(words).map_err(|error| error.to_string())?;
        args.cell(Point::default())
    }

    #[test]
    fn options_and_parameters_of_add_test_are_equivalent() {
        let brw = TestSpec::Brw { write: true, check: DataCheck::Full, size: 65536, offset: 0 };
        let nodes = "--from 10.0.0.[1-2]@tcp --to 10.0.1.1@tcp,10.0.1.2@tcp --to 10.0.1.3@tcp";
        for test in ["brw write --size 64k --check full", "brw w size=64K check=full"] {
            let cell = cell(&format!("{nodes} {test} --distribute 1:3 --time 0.5")).unwrap();
            assert_eq!((cell.test, cell.distribute), (brw, (1, 3)));
            assert_eq!((cell.flows[0].from.len(), cell.flows[0].to.len()), (2, 3));
            assert_eq!(cell.time, Duration::from_millis(500));
        }
        let quoted = ["lst run", "--from", "1.1.1.1@tcp", "--to", "1.1.1.2@tcp", "brw w size=64K"];
        let quoted = RunArgs::try_parse_from(quoted).unwrap().cell(Point::default()).unwrap();
        assert_eq!(
            quoted.test,
            TestSpec::Brw { write: true, check: DataCheck::None, size: 65536, offset: 0 }
        );
        let ping = cell(&format!("{nodes} ping")).unwrap();
        assert_eq!((ping.test, ping.concurrency), (TestSpec::Ping, 1));
    }

    #[test]
    fn invalid_requests_are_refused_with_a_remedy() {
        let nodes = "--from 1.1.1.1@tcp --to 1.1.1.2@tcp";
        for (words, remedy) in [
            ("brw write --size 3", "write a multiple of 8 up to 1M"),
            ("brw write size=2M", "write a multiple of 8 up to 1M"),
            ("brw write size=4k --size 4k", "the size is given twice"),
            ("brw write check=half", "write none, simple or full"),
            ("brw sideways", "use read, write, size=, check= and off="),
            ("ping --size 4k", "a ping has no data"),
            ("pong", "write ping, brw read or brw write"),
            ("1.1.1.3@tcp ping", "separate NIDs by commas"),
            ("ping --distribute 1:2", "give more, or write 1:1"),
            ("ping --distribute 4", "such as 1:4"),
            ("ping --time 0", "the minimum is 0.1 seconds"),
            ("ping --concurrency 1025", "1..=1024"),
            ("ping --repeats 2", "--sweep"),
        ] {
            let error = cell(&format!("{nodes} {words}")).unwrap_err();
            assert!(error.contains(remedy), "{words}: {error}");
        }
        let error = cell("--from 1.1.1.[3-1]@tcp --to 1.1.1.2@tcp ping").unwrap_err();
        assert!(error.contains("--from: column 8") && error.contains("write 1-3"), "{error}");
        let error = cell("--from 1.1.1.1@tcp --to 2001:db8::1@tcp ping").unwrap_err();
        assert!(error.contains("not 2001:db8::1@tcp"), "{error}");
    }
}

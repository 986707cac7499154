//! Running `lst run` from a node, and its report.

use fulmar_link::Program;
use serde::Deserialize;

use super::Node;

/// A load of LNet selftest.
#[derive(Clone, Debug)]
pub struct Lst {
    /// Clients, separated by commas.
    pub from: String,
    /// Servers, separated by commas.
    pub to: String,
    /// How clients are distributed over servers, as `--distribute` of `lst`.
    pub distribute: &'static str,
    /// `brw read` or `brw write`.
    pub test: String,
    /// Transfers in flight between each client and each of its servers.
    pub concurrency: u32,
    /// Duration of the measurement in seconds.
    pub seconds: f64,
    /// Duration of the warm-up in seconds.
    pub warmup: f64,
}

/// The report of a measurement.
#[derive(Clone, Debug, Deserialize)]
pub struct LstReport {
    /// The sum over all clients.
    pub total: LstLine,
    /// Each node.
    pub nodes: Vec<LstLine>,
    /// Nodes that failed before the end.
    pub failed: Vec<serde_json::Value>,
}

/// The results of one node, or of all.
#[derive(Clone, Debug, Deserialize)]
pub struct LstLine {
    /// NID of the node.
    pub node: String,
    /// Payload in bytes per second.
    pub bytes_per_second: Option<f64>,
    /// RPCs that failed.
    pub errors: u64,
}

impl LstReport {
    /// Returns the payload of all clients, in bytes per second.
    ///
    /// # Errors
    /// Fails if any RPC or node failed.
    pub fn rate(&self) -> Result<f64, String> {
        if self.total.errors > 0 || !self.failed.is_empty() {
            return Err(format!("lst saw {} errors; {:?}", self.total.errors, self.failed));
        }
        self.total.bytes_per_second.ok_or_else(|| "lst reported no rate".to_owned())
    }
}

impl Lst {
    /// Returns a load of 1 MiB transfers, sixteen of them in flight between each pair.
    pub fn new(from: &str, to: &str, test: &str, seconds: f64) -> Self {
        let (from, to, test) = (from.to_owned(), to.to_owned(), test.to_owned());
        Self { from, to, distribute: "1:1", test, concurrency: 16, seconds, warmup: 1.0 }
    }

    fn words(&self) -> String {
        let Self { from, to, distribute, test, concurrency, seconds, warmup } = self;
        format!(
            "lst run --json --from {from} --to {to} --distribute {distribute} --concurrency \
             {concurrency} --time {seconds} --warmup {warmup} {test}"
        )
    }

    /// Runs the load from the console of `node`.
    ///
    /// # Errors
    /// A description of the failure. Failed RPCs are not an error: they are in the report.
    pub fn run(&self, node: &Node) -> Result<LstReport, String> {
        let output = node.tool(&self.words()).output();
        let output = output.map_err(|error| format!("cannot run lst: {error}"))?;
        // The status is a failure if RPCs failed, but the report is complete nevertheless.
        serde_json::from_slice(&output.stdout).map_err(|_| {
            format!("lst printed no report: {}", String::from_utf8_lossy(&output.stderr).trim())
        })
    }

    /// Starts the load.
    ///
    /// # Errors
    /// Fails if the program does not start.
    pub fn start(&self, node: &Node) -> Result<LstLoad, String> {
        Program::start(&mut node.tool(&self.words())).map(LstLoad)
    }
}

/// A running load.
#[derive(Debug)]
pub struct LstLoad(Program);

impl LstLoad {
    /// Waits for the end of the load.
    ///
    /// # Errors
    /// As [`Lst::run`].
    pub fn finish(self) -> Result<LstReport, String> {
        let text = self.0.all()?;
        serde_json::from_str(&text).map_err(|_| format!("lst printed no report: {text}"))
    }
}

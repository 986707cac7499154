//! One node that generates the load, and one that serves it.

use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fulmar_daemon::Selftest;
use fulmar_lnet_wire::{Net, Nid};
use fulmar_selftest::Config;
use fulmar_selftest::console::{
    Command, DataCheck, KeyedCommand, Measures, NodeError, NodesReply, Reply, Target, TestSpec,
};
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::lnet::{runtime, start, wait_for_end_of_input};

const SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// The key of the session.
const KEY: u32 = 1;
/// Warm-up, in which connections are opened and buffers grow.
const WARM_UP: Duration = Duration::from_millis(300);
/// Timeout of an answer, in seconds.
const TIMEOUT: u32 = 5;

/// The test that the client repeats.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Load {
    /// Bulk without data checks.
    Brw { write: bool, size: u32, concurrency: u32 },
    /// Bulk reads with a check of every word.
    Checked { size: u32, concurrency: u32 },
    /// Small messages.
    Ping { concurrency: u32 },
}

/// The results of the measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Rates {
    rpcs: f64,
    bytes: f64,
    seconds: f64,
}

impl Rates {
    pub(crate) fn gigabytes_per_second(&self) -> f64 {
        self.bytes / self.seconds / 1e9
    }

    pub(crate) fn rpcs_per_second(&self) -> f64 {
        self.rpcs / self.seconds
    }
}

impl Load {
    fn test(self) -> (TestSpec, u32) {
        let brw = |write, check, size| TestSpec::Brw { write, check, size, offset: 0 };
        match self {
            Self::Brw { write, size, concurrency } => {
                (brw(write, DataCheck::None, size), concurrency)
            }
            Self::Checked { size, concurrency } => (brw(false, DataCheck::Full, size), concurrency),
            Self::Ping { concurrency } => (TestSpec::Ping, concurrency),
        }
    }
}

/// Serves tests until standard input ends.
pub(crate) fn serve(port: u16) -> Result<(), Failure> {
    let runtime = runtime()?;
    let node = start(&runtime, SERVER.into(), port)?;
    Selftest::open(&node, Config::default()).map_err(refused)?;
    println!("ready");
    wait_for_end_of_input();
    node.stop();
    Ok(())
}

/// Runs a load for some time and prints the results while it is still running.
pub(crate) fn run_load(port: u16, load: Load, duration: Duration) -> Result<(), Failure> {
    let runtime = runtime()?;
    let node = start(&runtime, CLIENT.into(), port)?;
    let selftest = Selftest::open(&node, Config::default()).map_err(refused)?;
    let console = Console(selftest);
    console.prepare(load)?;
    console.nodes(Command::Run { batch: "bench".into(), timeout: 0 })?;
    sleep(WARM_UP);
    let (begun, before) = (Instant::now(), console.measure()?);
    sleep(duration);
    let (seconds, after) = (begun.elapsed().as_secs_f64(), console.measure()?);
    let rates = Rates {
        rpcs: (after.rpcs - before.rpcs) as f64,
        bytes: (after.bytes - before.bytes) as f64,
        seconds,
    };
    println!("{}", serde_json::to_string(&rates).expect("numbers are JSON"));
    wait_for_end_of_input();
    console.nodes(Command::Stop { batch: "bench".into(), force: false })?;
    console.ask(Command::EndSession {})?;
    node.stop();
    Ok(())
}

/// The console of the local node.
struct Console(Selftest);

impl Console {
    fn prepare(&self, load: Load) -> Result<(), Failure> {
        let session = Command::NewSession {
            name: "bench".into(),
            timeout: 300,
            force: false,
            features: fulmar_lnet_wire::selftest::FEATURES,
        };
        self.ask(session)?;
        for (group, address) in [("clients", CLIENT), ("servers", SERVER)] {
            self.ask(Command::AddGroup { group: group.into() })?;
            let nodes = vec![Nid::of_ip(Net::TCP, address.into())];
            self.nodes(Command::AddNodes { group: group.into(), nodes })?;
        }
        self.ask(Command::AddBatch { batch: "bench".into() })?;
        let (test, concurrency) = load.test();
        self.nodes(Command::AddTest {
            batch: "bench".into(),
            test,
            loops: -1,
            concurrency,
            distribute: (1, 1),
            from: "clients".into(),
            to: "servers".into(),
        })
    }

    fn ask(&self, command: Command) -> Result<Reply, Failure> {
        let what = format!("{command:?}");
        let answer = self.0.command(KeyedCommand { key: KEY, command }).map_err(refused)?;
        answer.map_err(|errno| Failure(format!("the console refused {what}: {errno}")))
    }

    /// Executes a command that must succeed on every node.
    fn nodes(&self, command: Command) -> Result<(), Failure> {
        let Reply::Nodes(NodesReply { nodes, .. }) = self.ask(command)? else { return Ok(()) };
        nodes.into_iter().try_for_each(|node| node.result.map_err(|error| failed(node.nid, error)))
    }

    fn measure(&self) -> Result<Measures, Failure> {
        let target = Target::Group("clients".into());
        let Reply::Measures(mut nodes) = self.ask(Command::Measure { target, timeout: TIMEOUT })?
        else {
            return Err(Failure("the console did not measure".into()));
        };
        let node = nodes.pop().ok_or_else(|| Failure("there is no client".into()))?;
        node.result.map_err(|error| failed(node.nid, error))
    }
}

fn failed(nid: Nid, error: NodeError) -> Failure {
    Failure(format!("{nid} failed: {error:?}"))
}

fn refused(errno: fulmar_base::Errno) -> Failure {
    Failure(format!("the node refused: {errno}"))
}

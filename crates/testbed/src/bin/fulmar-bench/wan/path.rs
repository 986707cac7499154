//! Five points of `fulmar sim path`, measured over emulated links. They differ in everything that the command
//! knows: rate, round trip, direction, size, RPCs, credits, the time for which those are held, buffers, routers.

use std::process::Command;
use std::time::Duration;

use fulmar::demo::ocean::{Ocean, Setup, Sites, Trial};
use fulmar_link::{Line, Rate, Tcp};
use fulmar_testbed::lab::binaries;
use fulmar_tune::model::{Direction, Hold};

use crate::namespaces::{Maker, measured};
use crate::report::{Bar, Figure};
use crate::{Effort, Failure};

const TRIAL: Trial = Trial { warmup: Duration::from_secs(5), duration: Duration::from_secs(10) };

/// A point: a path, its settings and its load.
struct Point {
    name: &'static str,
    megabits: u64,
    millis: f64,
    direction: Direction,
    kibibytes: u32,
    concurrency: u32,
    peer_credits: u32,
    held: bool,
    routed: bool,
    /// The limit of `tcp_wmem`, if it is not that of a link that is to be filled.
    send_buffer: Option<u64>,
}

const USUAL: Point = Point {
    name: "rpcs",
    megabits: 400,
    millis: 60.0,
    direction: Direction::Read,
    kibibytes: 512,
    concurrency: 4,
    peer_credits: 8,
    held: false,
    routed: false,
    send_buffer: None,
};

/// Each has another bound.
const POINTS: [Point; 5] = [
    USUAL,
    Point {
        name: "credits",
        megabits: 1000,
        millis: 40.0,
        direction: Direction::Write,
        concurrency: 32,
        held: true,
        ..USUAL
    },
    Point {
        name: "send_buffer",
        megabits: 500,
        millis: 100.0,
        direction: Direction::Write,
        kibibytes: 1024,
        concurrency: 16,
        peer_credits: 16,
        send_buffer: Some(3 << 20),
        ..USUAL
    },
    Point {
        name: "small_writes",
        megabits: 200,
        millis: 50.0,
        direction: Direction::Write,
        kibibytes: 32,
        concurrency: 12,
        peer_credits: 16,
        ..USUAL
    },
    Point {
        name: "routers",
        megabits: 600,
        direction: Direction::Write,
        kibibytes: 1024,
        concurrency: 3,
        routed: true,
        ..USUAL
    },
];

/// Predicts and measures the points. The baseline of each is what was measured, in Mbit/s.
pub(crate) fn five_points(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |make, _| POINTS.iter().map(|point| point.figure(make)).collect())
}

impl Point {
    fn figure(&self, make: &Maker) -> Result<Figure, String> {
        let predicted = self.predicted()?;
        let sites = make.sites(self.ocean())?;
        self.limit_send_buffers(&sites)?;
        let carried = TRIAL.run(&sites, &self.setup())?;
        let megabits = |bytes: f64| bytes * 8e-6;
        eprintln!(
            "  {}: predicted {:.1} Mbit/s, measured {:.1}: {:+.1} %\n    fulmar sim path {}",
            self.name,
            megabits(predicted),
            megabits(carried),
            (predicted / carried - 1.0) * 100.0,
            self.words().join(" ")
        );
        let error = (predicted / carried - 1.0).abs();
        let figure = Figure::plain(format!("wan.path.{}_error", self.name), error, "ratio");
        Ok(figure.beside(megabits(carried)).held_to(Bar::AtMost(0.1)))
    }

    /// Returns the payload in bytes per second that `fulmar sim path` predicts.
    fn predicted(&self) -> Result<f64, String> {
        let mut command = Command::new(binaries()?.join("fulmar"));
        command.args(["sim", "path", "--json"]).args(self.words());
        let output = command.output().map_err(|error| format!("cannot run fulmar: {error}"))?;
        let wrong = || format!("fulmar sim path: {}", String::from_utf8_lossy(&output.stderr));
        let value: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|_| wrong())?;
        value["simulated"]["bytes_per_second"].as_f64().ok_or_else(wrong)
    }

    fn words(&self) -> Vec<String> {
        let buffer = self.buffer();
        let send_buffer = self.send_buffer.unwrap_or(buffer);
        let words = format!(
            "--rate {}Mbit --rtt {}ms --test {} --size {}k --concurrency {} --peer-credits {} \
             --tcp rmem={buffer} --tcp wmem={send_buffer}{}{}",
            self.megabits,
            self.millis,
            self.direction.name(),
            self.kibibytes,
            self.concurrency,
            self.peer_credits,
            if self.held { " --held" } else { "" },
            if self.routed { " --routers 1" } else { "" },
        );
        words.split_whitespace().map(str::to_owned).collect()
    }

    fn ocean(&self) -> Ocean {
        let round_trip = Duration::from_secs_f64(self.millis / 1e3);
        let rate = Rate::bits_per_second(self.megabits * 1_000_000);
        Ocean { routed: self.routed, ..Ocean::new(rate, round_trip) }
    }

    /// Returns the limit of socket buffers in the namespaces.
    fn buffer(&self) -> u64 {
        let ocean = self.ocean();
        Tcp::filling(&[Line::new(ocean.rate, ocean.round_trip / 2); 2]).buffer
    }

    fn setup(&self) -> Setup {
        Setup {
            name: self.name.to_owned(),
            peer_credits: self.peer_credits,
            credits: 256,
            peer_buffer_credits: 0,
            large_buffers: 0,
            conns_per_peer: 1,
            hold: if self.held { Hold::RoundTrip } else { Hold::Written },
            concurrency: self.concurrency,
            direction: self.direction,
            size: self.kibibytes << 10,
        }
    }

    fn limit_send_buffers(&self, sites: &Sites) -> Result<(), String> {
        let Some(most) = self.send_buffer else { return Ok(()) };
        for at in sites.link_hosts() {
            let mut sysctl = at.command("sysctl".as_ref());
            sysctl.arg("-qw").arg(format!("net.ipv4.tcp_wmem=4096 16384 {most}"));
            let done = sysctl.status().map_err(|error| format!("cannot run sysctl: {error}"))?;
            if !done.success() {
                return Err("sysctl refuses the limit of send buffers".to_owned());
            }
        }
        Ok(())
    }
}

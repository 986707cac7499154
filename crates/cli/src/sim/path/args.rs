//! The options of `fulmar sim path`, and the plan that they describe.

use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{Args as _, FromArgMatches as _};
use fulmar_base::quantity;
use fulmar_control::config::{TestConf, line_rate, nearest, round_trip, transfer};
use fulmar_lnet::RouterBuffers;
use fulmar_sim::options::Line;
use fulmar_study::path::{Group, Link, Load, Plan, Port, Work};
use fulmar_study::{Credits, OCEAN_JITTER};
use fulmar_tune::model::Direction;
use fulmar_tune::quantity as of_path;

use super::file;
use super::sweep::Sweep;
use super::tcp::{Setting, settings};

/// Simulate a path of your own: its throughput, what bounds it, and what the formula says
///
/// Clients at one site read from or write to servers at another, over one link, as "lst run" does.
/// The nodes run the code of "fulmar node"; time, TCP and the link are simulated. Prints the
/// throughput after the warm-up, the share of the link, what bounds it, and beside it the
/// prediction of the formula of "fulmar tune". The same options give the same result.
///
/// Exit status: 0 if it could be simulated, 1 if not or a file cannot be written, 2 if the request
/// is invalid.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// YAML file with nodes, links and loads, instead of two sites and one link; see docs/paths
    #[arg(value_name = "FILE", conflicts_with_all = ["rate", "rtt", "clients", "servers", "node_rate",
        "test", "concurrency", "size", "held", "routers", "loss", "jitter", "queue"])]
    file: Option<PathBuf>,
    /// Rate of the link, in bits per second with all headers, such as 10Gbit
    #[arg(long, value_name = "RATE", value_parser = line_rate, default_value = "10Gbit")]
    rate: u64,
    /// Round-trip time of the link, such as 50.5ms
    #[arg(long, value_name = "TIME", value_parser = round_trip, default_value = "50.5ms")]
    rtt: Duration,
    /// Clients
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = whole(1, 5000))]
    clients: u32,
    /// Servers; each client uses one of them
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = whole(1, 1000))]
    servers: u32,
    /// Rate of the interface of a node [default: ten times that of the link]
    #[arg(long, value_name = "RATE", value_parser = line_rate)]
    node_rate: Option<u64>,
    /// What clients do: write, read or ping
    #[arg(long, value_name = "TEST", value_parser = test, default_value = "write")]
    test: TestConf,
    /// RPCs of each client in flight
    #[arg(long, value_name = "N", default_value_t = 8,
        value_parser = whole(1, 1024))]
    concurrency: u32,
    /// Bytes of each transfer, such as 64k or 1M
    #[arg(long, value_name = "BYTES", value_parser = transfer, default_value = "1M")]
    size: u32,
    /// Messages of a node in flight to one peer (peer_credits)
    #[arg(long, value_name = "N", default_value_t = 8,
        value_parser = whole(1, 65_535))]
    peer_credits: u32,
    /// Messages of an interface in flight (credits)
    #[arg(long, value_name = "N", default_value_t = 256,
        value_parser = whole(1, 1_000_000))]
    credits: u32,
    /// Connections of each bulk kind to a peer (conns_per_peer)
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = whole(1, 127))]
    conns: u32,
    /// Hold credits for a round trip from 16 KiB on, as the zero copy of a kernel node does
    #[arg(long)]
    held: bool,
    /// LNet routers at each end of the link
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = whole(0, 1000))]
    routers: u32,
    /// Buffers of 1 MiB of each router
    #[arg(long, value_name = "N", default_value_t = RouterBuffers::default().large,
        value_parser = whole(1, 1_000_000))]
    router_buffers: u32,
    /// Share of packets that the link loses at random, such as 0.01% or 1e-6
    #[arg(long, value_name = "SHARE", value_parser = of_path::chance, default_value = "0%")]
    loss: f64,
    /// Largest extra delay of a burst [default: 0.2ms, or less on a short link]
    #[arg(long, value_name = "TIME", value_parser = of_path::time)]
    jitter: Option<Duration>,
    /// Longest queue of the link, in bytes [default: one round trip at the rate]
    #[arg(long, value_name = "BYTES", value_parser = of_path::size)]
    queue: Option<u64>,
    /// Longest IP packet
    #[arg(long, value_name = "BYTES", default_value_t = 9000,
        value_parser = whole(576, 65_535))]
    mtu: u32,
    /// Setting of TCP on every host; "--tcp help" lists them
    #[arg(long, value_name = "KEY=VALUE")]
    tcp: Vec<Setting>,
    /// Seed of losses and jitter
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How long the load runs before it is measured
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    warmup: Duration,
    /// How long it is measured
    #[arg(long, value_name = "TIME", value_parser = positive, default_value = "10s")]
    time: Duration,
    /// Simulate each value of one option, such as concurrency=1..64x2 or rtt=1ms,10ms,100ms; A..BxM
    /// multiplies, A..B+S adds
    #[arg(long, value_name = "OPTION=VALUES", conflicts_with = "svg")]
    sweep: Option<Sweep>,
    /// Draw throughput and windows over time to this file
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

const EXAMPLES: &str = "Examples:
  fulmar sim path docs/paths/routers.yaml
  fulmar sim path --rate 100Gbit --rtt 50.5ms --clients 16 --servers 16 --concurrency 64
  fulmar sim path --rate 10Gbit --rtt 80ms --held --sweep peer-credits=8..256x2
  fulmar sim path --rate 1Gbit --rtt 20ms --test read --loss 1e-5 --tcp congestion=bbr --svg a.svg";

/// The numbers of the groups.
const CLIENTS: usize = 0;
const SERVERS: usize = 1;

impl Args {
    pub(super) fn sweep(&self) -> Option<&Sweep> {
        self.sweep.as_ref()
    }

    /// Returns the plan of the options.
    ///
    /// # Errors
    /// If options do not fit each other.
    pub(super) fn plan(&self) -> Result<Plan, String> {
        if let Some(path) = &self.file {
            return file::plan(self, path);
        }
        let mbps = self.rate / MEGABIT;
        let work = work(self.test, self.size);
        let line = line(self.rate, self.rtt, self.loss, self.jitter, self.queue);
        let load = Load { from: CLIENTS, to: SERVERS, work, concurrency: self.concurrency };
        Ok(Plan {
            sites: vec!["A".into(), "B".into()],
            links: vec![Link { between: (0, 1), line }],
            groups: self.groups(self.node_rate.map_or(mbps * 10, |rate| rate / MEGABIT)),
            loads: vec![load],
            ..self.settings()
        })
    }

    /// Returns a plan with the settings only.
    pub(super) fn settings(&self) -> Plan {
        Plan {
            sites: Vec::new(),
            links: Vec::new(),
            groups: Vec::new(),
            loads: Vec::new(),
            credits: Credits {
                peer_credits: self.peer_credits,
                credits: self.credits,
                conns_per_peer: self.conns,
                zc_min_payload: self.held.then_some(Credits::KERNEL_ZERO_COPY),
            },
            buffers: RouterBuffers { large: self.router_buffers, ..RouterBuffers::default() },
            peer_buffer_credits: 0,
            tcp: settings(&self.tcp, self.mtu),
            seed: self.seed,
            warmup: self.warmup,
            time: self.time,
        }
    }

    /// Sets one option, as on the command line; all others keep their values.
    ///
    /// # Errors
    /// What is wrong with the value, or that there is no such option.
    pub(super) fn set(&mut self, option: &str, value: &str) -> Result<(), String> {
        if option == "tcp" {
            self.tcp.push(value.parse()?);
            return Ok(());
        }
        let command = Self::augment_args_for_update(clap::Command::new("path"));
        let known: Vec<&str> = command.get_opts().filter_map(clap::Arg::get_long).collect();
        if !known.contains(&option) {
            return Err(format!("there is no option \"{option}\": {}", nearest(option, &known)));
        }
        let command = command.mut_args(|arg| arg.default_value(Resettable::Reset));
        let matches = command.try_get_matches_from(["path", &format!("--{option}={value}")]);
        let set = matches.and_then(|matches| self.update_from_arg_matches(&matches));
        set.map_err(|error| match (error.kind(), error.source()) {
            (ErrorKind::TooManyValues, _) => {
                format!("--{option} has no value: run once with it, and once without")
            }
            (_, Some(source)) => source.to_string(),
            _ => error.to_string().lines().next().unwrap_or_default().to_owned(),
        })
    }

    /// Returns clients, servers, and if there are any the routers of both sites.
    fn groups(&self, node_mbps: u64) -> Vec<Group> {
        let cable = Line::new(node_mbps, Duration::ZERO);
        let port = |site, net| Port { site, net, cable: cable.clone() };
        let group = |name: &str, count, router, ports| Group {
            name: name.to_owned(),
            count,
            router,
            ports,
        };
        let far = if self.routers > 0 { 2 } else { 0 };
        let mut groups = vec![
            group("clients", self.clients, false, vec![port(0, 0)]),
            group("servers", self.servers, false, vec![port(1, far)]),
        ];
        if self.routers > 0 {
            groups.push(group("routers A", self.routers, true, vec![port(0, 0), port(0, 1)]));
            groups.push(group("routers B", self.routers, true, vec![port(1, 1), port(1, 2)]));
        }
        groups
    }
}

/// Returns the RPCs of a test.
pub(super) fn work(test: TestConf, size: u32) -> Work {
    match test {
        TestConf::Ping => Work::Ping,
        TestConf::Read => Work::Bulk(Direction::Read, size),
        TestConf::Write => Work::Bulk(Direction::Write, size),
    }
}

/// Returns a line; by default its queue holds a round trip at the rate.
pub(super) fn line(
    rate: u64,
    rtt: Duration,
    loss: f64,
    jitter: Option<Duration>,
    queue: Option<u64>,
) -> Line {
    let delay = rtt / 2;
    let in_flight = (rate as f64 / 8.0 * rtt.as_secs_f64()) as u64;
    Line {
        jitter: jitter.unwrap_or_else(|| OCEAN_JITTER.min(delay / 10)),
        loss_ppb: (loss * 1e9).round() as u32,
        queue: queue.unwrap_or(in_flight.max(QUEUE_MIN)),
        ..Line::new(rate / MEGABIT, delay)
    }
}

pub(super) const MEGABIT: u64 = 1_000_000;
/// The shortest queue, in bytes: a burst of a kernel's segmentation offload, twice.
const QUEUE_MIN: u64 = 128 << 10;
/// The most virtual time.
const TIME_MAX: Duration = Duration::from_secs(3600);
fn test(text: &str) -> Result<TestConf, String> {
    text.parse()
}

/// Returns the parser of a whole number.
fn whole(low: u32, high: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| match text.parse() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(format!("\"{text}\" is not possible: write a whole number from {low} to {high}")),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    match quantity::time(text)? {
        time if time <= TIME_MAX => Ok(time),
        _ => Err(format!("{text} is too long: simulate at most an hour, 3600s")),
    }
}

fn positive(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time >= Duration::from_millis(1) => Ok(time),
        _ => Err(format!("{text} is too short: measure for a millisecond or more")),
    }
}

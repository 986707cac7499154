//! `fulmar tune`: options and output.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use fulmar_tune::advice::{Advice, Site, Whose, advise};
use fulmar_tune::model::{Direction, Kind};
use fulmar_tune::quantity;
use fulmar_tune::texts::{self, Language, Names};

use crate::context::{NodeArgs, complain, print};

mod host;
mod measure;
mod report;
#[cfg(test)]
mod tests;

use host::Host;

/// Compute the settings that a path of this rate and round trip needs
///
/// Prints the predicted throughput, each setting with its reason and its present value on this
/// host, and texts ready for configuration files and tools. Nothing is changed.
///
/// Exit status: 0 if the settings fill the line, 1 if they cannot (memory, too few nodes) or the
/// round trip cannot be measured, 2 if the request is invalid.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Rate of the slowest line of the path, in bits per second, such as 100Gbit
    #[arg(long, value_name = "RATE", value_parser = quantity::rate)]
    rate: u64,
    /// Round-trip time of the path, such as 50.5ms
    #[arg(long, value_name = "TIME", value_parser = quantity::time,
        required_unless_present = "to")]
    rtt: Option<Duration>,
    /// Measure the round trip to this host instead: HOST, HOST:PORT or a NID
    #[arg(long, value_name = "HOST", conflicts_with = "rtt")]
    to: Option<String>,
    /// Active nodes at each end, each paired with one at the other end
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: u32,
    /// Rate of the interface of a node, in bits per second [default: that of the line]
    #[arg(long, value_name = "RATE", value_parser = quantity::rate)]
    node_rate: Option<u64>,
    /// Routers at each end of the path
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=1000))]
    routers: u32,
    /// Memory of a node, such as 64G [default: that of this host]
    #[arg(long, value_name = "BYTES", value_parser = quantity::size)]
    memory: Option<u64>,
    /// Share of lost packets, such as 1e-6 or 0.0001% [default: unknown]
    #[arg(long, value_name = "PART", value_parser = quantity::chance)]
    loss: Option<f64>,
    /// MTU of the whole path
    #[arg(long, value_name = "BYTES", default_value_t = 9000,
        value_parser = clap::value_parser!(u32).range(576..=65_535))]
    mtu: u32,
    /// Connections of each bulk kind to a peer [default: chosen for the line]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=127))]
    conns: Option<u32>,
    /// Kind of nodes to configure
    #[arg(long = "for", value_name = "WHOSE", default_value = "fulmar")]
    whose: WhoseArg,
    /// Kind of load: bulk tests of lst, or the file system
    #[arg(long, value_name = "WHAT", default_value = "selftest")]
    load: LoadArg,
    /// Direction of the data; writes need the most
    #[arg(long, value_name = "DIRECTION", default_value = "write")]
    direction: DirectionArg,
    /// LNet network name, for the texts
    #[arg(long, value_name = "NET", default_value = "tcp")]
    net: fulmar_lnet_wire::Net,
    /// Network device of this host, and for the texts [default: that of the default route]
    #[arg(long, value_name = "NAME", value_parser = device_name)]
    device: Option<String>,
    /// The settings are for other hosts: do not read those of this one
    #[arg(long)]
    elsewhere: bool,
    /// Output format
    #[arg(long, value_name = "HOW", default_value = "text")]
    format: FormatArg,
    /// Print JSON, as --format json does
    #[arg(long, conflicts_with = "format")]
    json: bool,
    #[command(flatten)]
    which: NodeArgs,
}

const EXAMPLES: &str = "Examples:
  fulmar tune --rate 100Gbit --rtt 50.5ms
  fulmar tune --rate 100Gbit --rtt 50.5ms --for kernel --load lustre --nodes 16 --memory 256G
  fulmar tune --rate 10Gbit --to 10.0.1.2@tcp --loss 1e-6 --mtu 1500
  fulmar tune --rate 100Gbit --rtt 50.5ms --format sysctl > /etc/sysctl.d/90-long-path.conf";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WhoseArg {
    Fulmar,
    Kernel,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LoadArg {
    Selftest,
    Lustre,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DirectionArg {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// Everything, for people
    Text,
    /// Everything, for programs
    Json,
    /// The file of "fulmar node -c"
    Node,
    /// Commands of lnetctl
    Lnetctl,
    /// A file for modprobe.d, which "fulmar node -c" accepts too
    Modprobe,
    /// A file for sysctl.d
    Sysctl,
    /// Commands of lctl
    Lctl,
    /// Commands of ip and tc
    Device,
    /// The command that measures the throughput
    Lst,
}

impl FormatArg {
    fn language(self) -> Option<Language> {
        match self {
            Self::Text | Self::Json => None,
            Self::Node => Some(Language::Node),
            Self::Lnetctl => Some(Language::Lnetctl),
            Self::Modprobe => Some(Language::Modprobe),
            Self::Sysctl => Some(Language::Sysctl),
            Self::Lctl => Some(Language::Lctl),
            Self::Device => Some(Language::Device),
            Self::Lst => Some(Language::Lst),
        }
    }
}

/// Why nothing is printed.
#[derive(Debug)]
enum Refusal {
    /// The round trip cannot be measured.
    Failed(String),
    /// The request is invalid.
    Wrong(String),
}

/// Share of the line from which it counts as full.
const FULL: f64 = 0.95;

pub(crate) fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(status) => ExitCode::from(status),
        Err(refusal) => {
            let (status, message) = match refusal {
                Refusal::Failed(message) => (1, message),
                Refusal::Wrong(message) => (2, message),
            };
            complain(&format!("fulmar tune: {message}\n"));
            ExitCode::from(status)
        }
    }
}

/// Prints the requested output and returns the exit status.
fn run(args: &Args) -> Result<u8, Refusal> {
    let host =
        (!args.elsewhere).then(|| Host::read(args.device.as_deref(), args.whose(), &args.which));
    let site = args.site(host.as_ref())?;
    let advice = advise(&site);
    let device = args.device.clone().or_else(|| host.as_ref()?.device.clone());
    let usual = Names::default();
    let names = Names {
        net: args.net.to_string(),
        interface: device.unwrap_or(usual.interface.clone()),
        has_queues: host.as_ref().is_some_and(|host| host.queues > 1),
        ..usual
    };
    let text = match args.format.language() {
        Some(language) => only(&advice, &names, language).map_err(Refusal::Wrong)?,
        None if args.json || args.format == FormatArg::Json => {
            report::json(&advice, host.as_ref(), &names)
        }
        None => report::text(&advice, host.as_ref(), &names),
    };
    let printed = print(&text);
    let part = advice.prediction.bytes_per_second / site.rate() as f64;
    Ok(if part < FULL { printed.max(1) } else { printed })
}

/// Returns the texts of one language, each with its title if there are several.
fn only(advice: &Advice, names: &Names, language: Language) -> Result<String, String> {
    let blocks = texts::blocks(advice, names);
    let meant: Vec<_> = blocks.iter().filter(|block| block.language == language).collect();
    match meant.as_slice() {
        [] => {
            let others: Vec<String> =
                blocks.iter().map(|block| format!("{:?}", block.language).to_lowercase()).collect();
            Err(format!("this format is not available here; available are {}", others.join(", ")))
        }
        [block] => Ok(block.text.clone()),
        several => {
            let titled = several.iter().map(|block| format!("# {}\n{}", block.title, block.text));
            Ok(titled.collect::<Vec<_>>().join("---\n"))
        }
    }
}

impl Args {
    fn whose(&self) -> Whose {
        match self.whose {
            WhoseArg::Fulmar => Whose::Fulmar,
            WhoseArg::Kernel => Whose::Kernel,
        }
    }

    fn site(&self, host: Option<&Host>) -> Result<Site, Refusal> {
        let rtt = match (&self.rtt, &self.to) {
            (Some(rtt), _) => *rtt,
            (None, Some(to)) => measure::round_trip(to).map_err(Refusal::Failed)?,
            (None, None) => {
                let message = "give the round trip with --rtt, or a host with --to";
                return Err(Refusal::Wrong(message.to_owned()));
            }
        };
        Ok(Site {
            line_bits: self.rate,
            interface_bits: self.node_rate,
            rtt,
            mtu: self.mtu,
            loss: self.loss,
            nodes: self.nodes,
            routers: self.routers,
            memory: self.memory.or_else(|| host?.memory),
            connections: self.conns,
            whose: self.whose(),
            kind: match self.load {
                LoadArg::Selftest => Kind::Selftest,
                LoadArg::Lustre => Kind::Lustre,
            },
            direction: match self.direction {
                DirectionArg::Read => Direction::Read,
                DirectionArg::Write => Direction::Write,
            },
        })
    }
}

/// Checks that a name needs no quotes in any of the texts.
fn device_name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@:".contains(c);
    if (1..=15).contains(&text.len()) && text.chars().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a valid name of a network device, such as eth0"))
    }
}

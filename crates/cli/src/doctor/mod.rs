//! `fulmar doctor`: a host examined, and a path from both its ends.

mod check;
mod serve;

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use fulmar_doctor::Check;

use crate::context::Which;

/// Find what keeps LNet from working, or from being fast, on this host and on a path
///
/// Without a host, this one alone is examined. With one, the path to it too: names, TCP port 988, the
/// hello of LNet. The path is measured as well (MTU, UDP loss, TCP throughput, latency), and both
/// hosts are compared, if the other one runs "fulmar doctor serve" meanwhile.
///
/// Each finding has a level, the evidence, and the mend: often a command to be run. Nothing is
/// changed on either host. Loads last some seconds and use what the path has.
///
/// Run as root to see all there is (firewalls, rings of interfaces), and to call kernel nodes, which
/// take calls from privileged ports only. If a node runs on this host, that one asks: Fulmar's at
/// --control, or the kernel's.
///
/// Exit status: 0 if nothing is worse than a warning, 1 if there are errors, 2 if the request was
/// wrong.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = CHECKS)]
pub(crate) struct Args {
    #[command(subcommand)]
    end: Option<End>,
    #[command(flatten)]
    check: CheckArgs,
}

#[derive(Debug, clap::Subcommand)]
enum End {
    /// Examine the path to a host, from here
    ///
    /// The same as "fulmar doctor HOST".
    #[command(after_help = CHECKS)]
    Check(CheckArgs),
    Serve(ServeArgs),
}

/// Serve as the far end, until interrupted
///
/// Whoever reaches the port may examine, one at a time: have loads of at most 60 s sent and received,
/// and see this host's settings of network and processors (no addresses of others, no rules of
/// firewalls, no names of users). Name those who may with --from, and end it when you are done.
///
/// Exit status: 0 when interrupted, 1 if the port cannot be had, 2 if the request was wrong.
#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// Our address; all of them by default
    #[arg(long, value_name = "ADDR")]
    bind: Option<IpAddr>,
    /// TCP and UDP port
    #[arg(long, default_value_t = fulmar_doctor::remote::PORT)]
    port: u16,
    /// Who may examine; everybody by default
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    from: Vec<IpAddr>,
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// The far end, by name, address or NID; this host alone if there is none
    #[arg(value_name = "HOST|NID")]
    targets: Vec<String>,
    /// Make only these checks
    #[arg(long, value_name = "CHECKS", value_delimiter = ',', value_parser = check)]
    only: Vec<Check>,
    /// Leave these checks out
    #[arg(long, value_name = "CHECKS", value_delimiter = ',', value_parser = check)]
    skip: Vec<Check>,
    /// How long each load of TCP lasts; there are four
    #[arg(long, value_name = "SECONDS", default_value_t = 3,
        value_parser = clap::value_parser!(u64).range(1..=TIME_MAX))]
    time: u64,
    /// Connections of TCP at once, beside one
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..=STREAMS_MAX))]
    streams: u32,
    /// Rate of datagrams on the wire of Ethernet, such as 1Gbit
    #[arg(long, value_name = "RATE", default_value = "100Mbit",
        value_parser = fulmar_doctor::remote::parse_rate)]
    udp_rate: u64,
    /// Port of "fulmar doctor serve" at the far end
    #[arg(long, default_value_t = fulmar_doctor::remote::PORT)]
    port: u16,
    /// TCP port of LNet at the far end
    #[arg(long, default_value_t = fulmar_lnet_wire::socklnd::ACCEPT_PORT, value_name = "PORT")]
    lnet_port: u16,
    /// Our address; by default the one from which the far end is reached
    #[arg(long, value_name = "ADDR")]
    bind: Option<IpAddr>,
    /// How long an answer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=TIME_MAX))]
    timeout: u64,
    /// Print JSON: the findings, what was measured, and what both hosts say of themselves
    #[arg(long)]
    json: bool,
    /// Write a file for support: the report, and what it was judged from (sysctls, ip, tc, ethtool,
    /// counters, lnetctl export), such as doctor.tar.gz
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

/// What the far end does for longer, in seconds.
const TIME_MAX: u64 = fulmar_doctor::remote::LOAD_MAX.as_secs();
const STREAMS_MAX: i64 = fulmar_doctor::remote::STREAMS_MAX as i64;

impl CheckArgs {
    /// Leaves out the word "check" behind options, where it would be the name of a host.
    fn without_word(mut self) -> Self {
        if self.targets.first().is_some_and(|word| word == "check") {
            self.targets.remove(0);
        }
        self
    }
}

const CHECKS: &str = "Checks:
  names       what the host's name stands for, both ways, and what /etc/hosts says
  port        TCP port 988: open, closed, or dropped by a firewall
  lnet        hello and ping of LNet: NIDs, versions, features
  mtu *       the largest packet that passes uncut, both ways; black holes
  udp *       loss, order and jitter at --udp-rate
  tcp *       throughput of one and of several connections, both ways; what holds it back; how long
              small packets wait meanwhile
  latency *   messages from 1 byte to 1 MiB, there and back
  clock       the difference of both clocks, and what keeps them
  sockets     buffers of sockets against what the path needs
  congestion  congestion control
  queue       queueing disciplines and their lengths
  nic         link, rings, errors
  offload     segmentation and checksums
  irq         interrupts, queues and NUMA
  cpu         frequency governor
  limits      open files
  firewall    hints of one

Those with * need \"fulmar doctor serve\" at the far end. The others look at the far host as well if
it is there.";

fn check(text: &str) -> Result<Check, String> {
    text.parse()
}

/// The request was wrong.
const WRONG: u8 = 2;

pub(crate) fn main(args: Args) -> ExitCode {
    match args.end {
        None => check::main(&args.check.without_word()),
        Some(End::Check(check)) => check::main(&check),
        Some(End::Serve(serve)) => serve::main(&serve),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn read(line: &str) -> Args {
        Line::try_parse_from(line.split_whitespace()).unwrap().args
    }

    #[test]
    fn the_words_that_one_would_guess_are_understood() {
        assert_eq!(read("doctor oss1").check.targets, ["oss1"]);
        assert!(read("doctor").check.targets.is_empty());
        assert_eq!(read("doctor --json check oss1").check.without_word().targets, ["oss1"]);
        let Some(End::Check(check)) = read("doctor check 10.0.0.5@tcp --only tcp,mtu").end else {
            panic!("check is not understood")
        };
        assert_eq!(
            (check.targets, check.only),
            (vec!["10.0.0.5@tcp".to_owned()], vec![Check::Tcp, Check::Mtu])
        );
        let Some(End::Serve(serve)) = read("doctor serve --bind 10.0.0.1 --port 9000").end else {
            panic!("serve is not understood")
        };
        assert_eq!((serve.bind, serve.port), (Some("10.0.0.1".parse().unwrap()), 9000));
    }

    #[test]
    fn the_node_is_named_as_by_other_tools() {
        let path = Some(std::path::Path::new("/run/a.sock"));
        assert_eq!(read("doctor --control /run/a.sock oss1").check.which.path(), path);
        let Some(End::Check(check)) = read("doctor check oss1 --control /run/a.sock").end else {
            panic!("check is not understood")
        };
        assert_eq!(check.which.path(), path);
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_right() {
        for (line, told) in [
            ("doctor --only tpc", "use one of names, port, lnet"),
            ("doctor a --udp-rate fast", "write bits per second, such as 10Gbit"),
            ("doctor a --udp-rate 500G", "between 1 kbit/s and 400 Gbit/s"),
            ("doctor a --time 600", "1..=60"),
        ] {
            let error = Line::try_parse_from(line.split_whitespace()).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}

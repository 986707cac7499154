//! `fulmar doctor`: examines this host, and a path from both ends.

mod check;
mod serve;

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use fulmar_doctor::Check;

use crate::context::NodeArgs;

/// Find what prevents LNet from working, or slows it down, on this host and on a path
///
/// Without HOST, examines only this host. With HOST, examines the path to it too: names, TCP port
/// 988 and the LNet hello. If "fulmar doctor serve" runs on the other host, the path is also
/// measured (MTU, UDP loss, TCP throughput, latency) and both hosts are compared.
///
/// Each finding has a level, the evidence and a fix, often a command to run. Nothing is changed on
/// either host. Loads last some seconds and use the full capacity of the path.
///
/// Run as root to see everything (firewalls, rings of interfaces) and to connect to kernel nodes,
/// which accept connections only from privileged ports. If a node runs on this host, it is queried
/// too: a Fulmar node at --control, or the kernel's LNet.
///
/// Exit status: 0 if there is nothing worse than a warning, 1 if there are errors, 2 if the request
/// is invalid.
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

/// Serve as the remote host, until interrupted
///
/// Every host that can reach the port may run checks, one host at a time: send and receive loads of
/// at most 60 s, and read this host's network and CPU settings (no addresses of other hosts, no
/// firewall rules, no user names). Limit the hosts with --from, and stop the server when done.
///
/// Exit status: 0 when interrupted, 1 if the port cannot be opened, 2 if the request is invalid.
#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// Local address; all addresses by default
    #[arg(long, value_name = "ADDR")]
    bind: Option<IpAddr>,
    /// TCP and UDP port
    #[arg(long, default_value_t = fulmar_doctor::remote::PORT)]
    port: u16,
    /// Hosts that may run checks; all by default
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    from: Vec<IpAddr>,
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// Remote host: name, address or NID; only this host if omitted
    #[arg(value_name = "HOST|NID")]
    targets: Vec<String>,
    /// Run only these checks
    #[arg(long, value_name = "CHECKS", value_delimiter = ',', value_parser = check)]
    only: Vec<Check>,
    /// Skip these checks
    #[arg(long, value_name = "CHECKS", value_delimiter = ',', value_parser = check)]
    skip: Vec<Check>,
    /// Duration of each of the four TCP loads
    #[arg(long, value_name = "SECONDS", default_value_t = 3,
        value_parser = clap::value_parser!(u64).range(1..=TIME_MAX))]
    time: u64,
    /// Number of parallel TCP connections, measured besides a single one
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..=STREAMS_MAX))]
    streams: u32,
    /// Rate of UDP datagrams, Ethernet framing included, such as 1Gbit
    #[arg(long, value_name = "RATE", default_value = "100Mbit",
        value_parser = fulmar_doctor::remote::parse_rate)]
    udp_rate: u64,
    /// Port of "fulmar doctor serve" on the remote host
    #[arg(long, default_value_t = fulmar_doctor::remote::PORT)]
    port: u16,
    /// TCP port of LNet on the remote host
    #[arg(long, default_value_t = fulmar_lnet_wire::socklnd::ACCEPT_PORT, value_name = "PORT")]
    lnet_port: u16,
    /// Local address; by default the one that has the route to the remote host
    #[arg(long, value_name = "ADDR")]
    bind: Option<IpAddr>,
    /// Timeout of an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=TIME_MAX))]
    timeout: u64,
    /// Print JSON: the findings, the measurements and the settings of both hosts
    #[arg(long)]
    json: bool,
    /// Write a file for support: the report and its evidence (sysctls, ip, tc, ethtool, counters,
    /// lnetctl export), such as doctor.tar.gz
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    #[command(flatten)]
    which: NodeArgs,
}

/// The longest load that the remote host accepts, in seconds.
const TIME_MAX: u64 = fulmar_doctor::remote::LOAD_MAX.as_secs();
const STREAMS_MAX: i64 = fulmar_doctor::remote::STREAMS_MAX as i64;

impl CheckArgs {
    /// Drops the word "check" after options, where clap takes it for the name of a host.
    fn without_word(mut self) -> Self {
        if self.targets.first().is_some_and(|word| word == "check") {
            self.targets.remove(0);
        }
        self
    }
}

const CHECKS: &str = "Checks:
  names       forward and reverse resolution of the host name, and /etc/hosts
  port        TCP port 988: open, closed, or dropped by a firewall
  lnet        hello and ping of LNet: NIDs, versions, features
  mtu         the largest unfragmented packet in both directions; black holes. Without \"doctor
              serve\" there, only towards the remote host, by ICMP echoes
  udp *       loss, order and jitter at --udp-rate
  tcp *       throughput of one and of several connections in both directions; the bottleneck;
              latency of small packets under load
  latency *   round trips of messages from 1 byte to 1 MiB
  clock       the offset between both clocks, and their time service
  sockets     socket buffers compared with what the path needs
  congestion  congestion control
  queue       queueing disciplines and their lengths
  nic         link, rings, errors
  offload     segmentation and checksums
  irq         interrupts, queues and NUMA
  cpu         frequency governor
  limits      open files
  firewall    signs of a firewall

Those with * need \"fulmar doctor serve\" on the remote host. The others examine the remote host too
if it runs there.";

fn check(text: &str) -> Result<Check, String> {
    text.parse()
}

/// Exit status for an invalid request.
const INVALID: u8 = 2;

pub(crate) fn main(args: Args) -> ExitCode {
    match args.end {
        None => check::main(&args.check.without_word()),
        Some(End::Check(check)) => check::main(&check),
        Some(End::Serve(serve)) => serve::main(&serve),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::parsed;

    fn read(line: &str) -> Args {
        parsed(line).unwrap()
    }

    #[test]
    fn command_words_are_parsed() {
        assert_eq!(read("doctor oss1").check.targets, ["oss1"]);
        assert!(read("doctor").check.targets.is_empty());
        assert_eq!(read("doctor --json check oss1").check.without_word().targets, ["oss1"]);
        let Some(End::Check(check)) = read("doctor check 10.0.0.5@tcp --only tcp,mtu").end else {
            panic!("check is not parsed")
        };
        assert_eq!(
            (check.targets, check.only),
            (vec!["10.0.0.5@tcp".to_owned()], vec![Check::Tcp, Check::Mtu])
        );
        let Some(End::Serve(serve)) = read("doctor serve --bind 10.0.0.1 --port 9000").end else {
            panic!("serve is not parsed")
        };
        assert_eq!((serve.bind, serve.port), (Some("10.0.0.1".parse().unwrap()), 9000));
    }

    #[test]
    fn the_control_socket_option_is_that_of_other_tools() {
        let path = Some(std::path::Path::new("/run/a.sock"));
        assert_eq!(read("doctor --control /run/a.sock oss1").check.which.path(), path);
        let Some(End::Check(check)) = read("doctor check oss1 --control /run/a.sock").end else {
            panic!("check is not parsed")
        };
        assert_eq!(check.which.path(), path);
    }

    #[test]
    fn errors_name_the_valid_values() {
        for (line, expected) in [
            ("doctor --only tpc", "use one of names, port, lnet"),
            ("doctor a --udp-rate fast", "write bits per second, such as 10Gbit"),
            ("doctor a --udp-rate 500G", "between 1 kbit/s and 400 Gbit/s"),
            ("doctor a --time 600", "1..=60"),
        ] {
            let error = parsed::<Args>(line).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

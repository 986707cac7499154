//! Two nodes on this machine: ping, discovery, and the highest message rates.

mod load;
mod report;

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_net::exchange::{Exchange, feature_names};
use fulmar_net::{NiOptions, Node, Runtime, StartError};
use fulmar_socklnd::AcceptMode;
use fulmar_text::{bytes, duration, grouped, significant};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use load::{Measurement, Operation, Work};

/// Options of the demonstration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The TCP port of both nodes; if it is in use, the next free one is taken.
    pub port: u16,
    /// How long each kind of large message is measured.
    pub bulk: Duration,
    /// How long each kind of small message is measured.
    pub small: Duration,
    /// Whether to draw a progress bar on standard output.
    pub live: bool,
}

impl Default for Options {
    /// Ten seconds in total; draws if standard output is a terminal.
    fn default() -> Self {
        Self {
            port: 19988,
            bulk: Duration::from_secs(3),
            small: Duration::from_millis(1500),
            live: io::stdout().is_terminal(),
        }
    }
}

/// Runs two nodes, shows their traffic, and checks the data.
///
/// # Errors
/// A description of the failure, with a remedy.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new(None)?;
    let (nodes, port) = start(&runtime, options.port)?;
    let nids: Vec<String> = nodes.iter().map(|host| host.nid.to_string()).collect();
    writeln!(
        out,
        "Two Fulmar nodes on this machine, {}, use LNet over TCP port {port}.\n",
        nids.join(" and ")
    )?;
    let result = show(options, &nodes, out);
    nodes.iter().for_each(|host| host.node.stop());
    result
}

/// One of the nodes, with its only NID.
struct Host {
    nid: Nid,
    node: Node,
}

fn show(options: &Options, nodes: &[Host], out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    ping(nodes, out)?;
    discover(nodes, out)?;
    let begun = Instant::now();
    let mut all = Vec::new();
    writeln!(out, "Traffic, from {} to {}", nodes[0].nid, nodes[1].nid)?;
    for work in WORKS {
        all.push(measure(options, nodes, work, out)?);
    }
    writeln!(out)?;
    report::traffic(out, &all)?;
    report::copies(out, &all)?;
    report::sockets(out, nodes)?;
    writeln!(out, "Credits\n")?;
    report::credits(out, nodes)?;
    writeln!(out, "Connections\n")?;
    report::connections(out, nodes)?;
    let messages: usize = all.iter().map(|measured| measured.latencies.len()).sum();
    let payload: u64 = all.iter().map(|measured| measured.received).sum();
    writeln!(
        out,
        "All data was correct: {} messages with {} in {}. The number at both ends of each \
         message and one page between them were checked on arrival.",
        grouped(messages as u64),
        bytes(payload),
        duration(begun.elapsed())
    )?;
    Ok(())
}

/// Starts both nodes on the first free port, beginning with `first`.
fn start(runtime: &Runtime, first: u16) -> Result<(Vec<Host>, u16), StartError> {
    let mut port = first;
    loop {
        match start_at(runtime, port) {
            Ok(nodes) => return Ok((nodes, port)),
            Err(StartError::PortInUse { .. }) if port - first < PORTS && port < u16::MAX => {
                port += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

fn start_at(runtime: &Runtime, port: u16) -> Result<Vec<Host>, StartError> {
    let mut nodes: Vec<Host> = Vec::new();
    for address in ADDRESSES {
        let mut options = fulmar_net::Options::default();
        options.config.socklnd.accept = AcceptMode::All;
        options.config.socklnd.accept_port = port;
        options.nis.push(NiOptions::at(address));
        match Node::start(runtime, options) {
            Ok(node) => nodes.push(Host { nid: Nid::of_ip(Net::TCP, address), node }),
            Err(error) => {
                nodes.iter().for_each(|host| host.node.stop());
                return Err(error);
            }
        }
    }
    Ok(nodes)
}

fn ping(nodes: &[Host], out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "Ping")?;
    let notes = ["including TCP connection and hello", "over the same connections"];
    for ((from, to), note) in pairs(nodes).into_iter().zip(notes) {
        let begun = Instant::now();
        let reply = from.node.admin().ping(ProcessId::lustre(to.nid), None, TIMEOUT);
        let took = duration(begun.elapsed());
        let reply = reply.map_err(|errno| unanswered(from.nid, to.nid, errno))?;
        let nids: Vec<String> = reply.nids.iter().map(ToString::to_string).collect();
        let (pid, nids) = (reply.pid, nids.join(" "));
        writeln!(
            out,
            "  {} -> {}  answered in {took:>7}: {pid}-{nids}  ({note})",
            from.nid, to.nid
        )?;
    }
    writeln!(out)?;
    Ok(())
}

fn discover(nodes: &[Host], out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "Discovery")?;
    for (from, to) in pairs(nodes) {
        let begun = Instant::now();
        let found = from.node.admin().discover(to.nid, true);
        let took = duration(begun.elapsed());
        let found = found.map_err(|errno| unanswered(from.nid, to.nid, errno))?;
        let exchange = Exchange::open(&from.node);
        let peer = ProcessId::lustre(to.nid);
        let info = exchange.and_then(|exchange| exchange.ping_info(peer, TIMEOUT));
        let info = info.map_err(|errno| unanswered(from.nid, to.nid, errno))?;
        let nids: Vec<String> = found.nids.iter().map(ToString::to_string).collect();
        writeln!(
            out,
            "  {} found {} in {took:>7}: primary NID {}, NIDs {}, {}multi-rail",
            from.nid,
            to.nid,
            found.primary,
            nids.join(" "),
            if found.multi_rail { "" } else { "not " },
        )?;
        let (number, names) = (info.features.0, feature_names(info.features));
        writeln!(
            out,
            "  {:width$}       features {number:#x}: {names}",
            "",
            width = nid_len(from)
        )?;
    }
    writeln!(out)?;
    Ok(())
}

/// Runs one load and shows a progress bar.
fn measure(
    options: &Options,
    nodes: &[Host],
    work: Work,
    out: &mut dyn Write,
) -> Result<Measurement, Box<dyn Error>> {
    let length = if work.len > SMALL_MAX { options.bulk } else { options.small };
    let title = format!("{}, {} in flight", work.name, work.window);
    let bar = bar(options, &title, length);
    let draw = |done: u64, elapsed: Duration| {
        bar.set_position(elapsed.as_millis() as u64);
        bar.set_message(rate(work, done, elapsed));
    };
    let measured = load::run(
        (&nodes[0].node, &nodes[1].node),
        ProcessId::lustre(nodes[1].nid),
        work,
        length,
        draw,
    );
    bar.finish_and_clear();
    let measured = measured?;
    let (count, took) = (measured.latencies.len() as u64, duration(measured.elapsed));
    writeln!(out, "  {title:<TITLE_WIDTH$}  {} messages in {took}", grouped(count))?;
    Ok(measured)
}

/// Returns the progress bar of a load of this length.
fn bar(options: &Options, title: &str, length: Duration) -> ProgressBar {
    if !options.live {
        return ProgressBar::hidden();
    }
    let template = format!("  {title:<TITLE_WIDTH$}  [{{bar:30}}] {{msg:>20}}");
    let style = ProgressStyle::with_template(&template).expect("the template is valid");
    let target = ProgressDrawTarget::stdout();
    let bar = ProgressBar::with_draw_target(Some(length.as_millis() as u64), target);
    bar.with_style(style.progress_chars("##."))
}

fn rate(work: Work, done: u64, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64();
    if work.len > SMALL_MAX {
        format!("{} MB/s", significant(rate * work.len as f64 / 1e6, 3))
    } else {
        format!("{} messages/s", grouped(rate as u64))
    }
}

/// Returns the pairs of nodes in both directions.
fn pairs(nodes: &[Host]) -> [(&Host, &Host); 2] {
    [(&nodes[0], &nodes[1]), (&nodes[1], &nodes[0])]
}

fn nid_len(node: &Host) -> usize {
    node.nid.to_string().len()
}

fn unanswered(from: Nid, to: Nid, errno: fulmar_base::Errno) -> String {
    format!(
        "{to} did not answer {from}: {errno}. Both are on the loopback interface of this \
         machine: check that it is up (`ip link set lo up`) and that no firewall rule blocks it"
    )
}

const WORKS: [Work; 4] = [
    Work { name: "1 MiB PUT", operation: Operation::Put, len: 1 << 20, window: 8 },
    Work { name: "1 MiB GET", operation: Operation::Get, len: 1 << 20, window: 8 },
    Work { name: "8 byte PUT", operation: Operation::Put, len: 8, window: 1 },
    Work { name: "8 byte PUT", operation: Operation::Put, len: 8, window: 64 },
];
/// Messages up to this length are shown as messages per second, longer ones as bytes per second.
const SMALL_MAX: usize = 4096;
const ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3))];
/// How many ports are tried.
const PORTS: u16 = 20;
/// Timeout of an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
const TITLE_WIDTH: usize = 24;

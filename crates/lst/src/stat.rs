//! `lst stat`. Spec: lnet-selftest §16.15.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_lnet_wire::Nid;
use fulmar_selftest::console::{NodeAnswer, Stats};

use super::options::{Line, Opt};
use super::targets::{self, NamedTarget};
use super::tool::{CommandResult, Failure, Tool, failures};
use super::{Key, Subcommand};

/// Timeout of an answer, and interval between two samples, in seconds.
const TIMEOUT: u32 = 5;
const DELAY: u32 = 5;
/// The count that means no end.
const ENDLESS: i64 = -1;

pub(super) const STAT: Subcommand = Subcommand {
    name: "stat",
    about: "Print the traffic rates of nodes",
    usage: "Usage: lst stat [--bw] [--rate] [--read] [--write] [--max] [--min]  [--avg] [--mbs] \
            [--timeout #] [--delay #] [--count #] GROUP [GROUP]",
    options: &[
        Opt::valued('d', "delay", "SECONDS", "Interval between two samples"),
        Opt {
            short: None,
            long: "count",
            value: Some("N"),
            help: "Number of results; without end by default",
        },
        Opt::valued('t', "timeout", "SECONDS", "Timeout of an answer"),
        Opt::flag('a', "rate", "Only messages per second"),
        Opt::flag('b', "bw", "Only bytes per second"),
        Opt::flag('r', "read", "Only the [W] lines, as in every release"),
        Opt::flag('w', "write", "Only the [R] lines, as in every release"),
        Opt::flag('g', "avg", "Average over the nodes"),
        Opt::flag('n', "min", "Minimum over the nodes"),
        Opt::flag('x', "max", "Maximum over the nodes"),
        Opt::flag('m', "mbs", "MB/s, of 10^6 bytes, instead of MiB/s"),
        Opt::flag('l', "lnet", "Counters of LNet; the default"),
        Opt::flag('c', "rpc", "Counters of RPCs; prints nothing"),
    ],
    operands: "GROUP|IDS...",
    note: "[R] is received and [W] is sent data of the nodes. --read prints the [W] lines and \
           --write the [R] lines, as in every release.",
    key: Key::Needed,
    run: stat,
};

fn stat(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    let positive = |long, default| line.number(long, default).filter(|seconds: &u32| *seconds > 0);
    let (Some(timeout), Some(delay)) = (positive("timeout", TIMEOUT), positive("delay", DELAY))
    else {
        return tool.fail("Invalid timeout or delay value");
    };
    let count = match line.number("count", ENDLESS) {
        Some(ENDLESS) => None,
        Some(count) if count > 0 => Some(count),
        _ => return tool.fail("Invalid count value"),
    };
    let form = Form::of(line);
    let delay = Duration::from_secs(u64::from(delay));
    let targets = targets::resolve(tool, &line.operands)?;
    let start = tool.clock.now();
    let mut earlier = sample(tool, &targets, timeout)?;
    let mut failed = Vec::new();
    let mut printed = 0;
    while count.is_none_or(|count| printed < count) {
        // Samples at regular times, however long the nodes took; missed times are skipped.
        let beats = (tool.clock.now() - start).as_nanos() / delay.as_nanos() + 1;
        tool.clock.wait_until(start + delay.saturating_mul(beats as u32));
        let later = sample(tool, &targets, timeout)?;
        for (target, (earlier, later)) in targets.iter().zip(earlier.iter().zip(&later)) {
            let change = Change::between(earlier, later);
            change.print(tool, &target.name, &form)?;
            if failed.is_empty() {
                failed = change.failed;
            }
        }
        earlier = later;
        printed += 1;
    }
    tool.conclude(&failed)
}

/// The answers of the nodes of one operand.
type Sample = Vec<NodeAnswer<Stats>>;

fn sample(
    tool: &mut Tool<'_>,
    targets: &[NamedTarget],
    timeout: u32,
) -> CommandResult<Vec<Sample>> {
    targets.iter().map(|target| target.stats(tool, timeout)).collect()
}

/// The rates of a node, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    messages_in: f64,
    messages_out: f64,
    bytes_in: f64,
    bytes_out: f64,
}

impl Rates {
    /// Compares two samples of a node by the clock of the node. Counts and the clock wrap.
    fn between(earlier: &Stats, later: &Stats) -> Self {
        let ms = later.running_ms.wrapping_sub(earlier.running_ms);
        if ms == 0 {
            return Self::default();
        }
        let seconds = f64::from(ms) / 1000.0;
        let count = |later: u32, earlier: u32| f64::from(later.wrapping_sub(earlier)) / seconds;
        let bytes = |later: u64, earlier: u64| later.saturating_sub(earlier) as f64 / seconds;
        Self {
            messages_in: count(later.recv_count, earlier.recv_count),
            messages_out: count(later.send_count, earlier.send_count),
            bytes_in: bytes(later.recv_length, earlier.recv_length),
            bytes_out: bytes(later.send_length, earlier.send_length),
        }
    }
}

/// The difference of a group between two samples.
struct Change {
    /// Rates of the nodes that answered both times.
    rates: Vec<Rates>,
    failed: Vec<Failure>,
    /// Whether its nodes have changed.
    changed: bool,
}

impl Change {
    fn between(earlier: &Sample, later: &Sample) -> Self {
        let nids = |sample: &Sample| sample.iter().map(|answer| answer.nid).collect::<Vec<_>>();
        let answered: BTreeMap<Nid, &Stats> =
            earlier.iter().filter_map(|a| Some((a.nid, a.result.as_ref().ok()?))).collect();
        let rates = |answer: &NodeAnswer<Stats>| {
            let earlier = answered.get(&answer.nid)?;
            Some(Rates::between(earlier, answer.result.as_ref().ok()?))
        };
        Self {
            rates: later.iter().filter_map(rates).collect(),
            failed: failures(later),
            changed: nids(earlier) != nids(later),
        }
    }

    fn print(&self, tool: &mut Tool<'_>, name: &str, form: &Form) -> CommandResult {
        if self.changed {
            tool.complain("Group is changed, re-run stat");
        }
        if !self.failed.is_empty() {
            tool.print(&format!("Failed to stat on {} nodes\n", self.failed.len()))?;
            tool.name_failed("stat", &self.failed);
        }
        tool.print(&form.text(name, &self.rates))
    }
}

/// What to print.
struct Form {
    rates: bool,
    bandwidth: bool,
    received: bool,
    sent: bool,
    average: bool,
    least: bool,
    most: bool,
    /// Bytes per unit, and its name with trailing blanks.
    unit: (f64, &'static str),
}

impl Form {
    fn of(line: &Line) -> Self {
        let has = |long| line.has(long);
        // Without any option of a kind, all of that kind apply.
        let any = |longs: &[&str]| longs.iter().any(|long| line.has(long));
        let (figures, amounts) = (any(&["avg", "min", "max"]), any(&["rate", "bw"]));
        // No release prints RPC statistics.
        let lnet = has("lnet") || !has("rpc");
        Self {
            rates: lnet && (has("rate") || !amounts),
            bandwidth: lnet && (has("bw") || !amounts),
            // Each option hides the lines of the other: every release does so, and scripts rely on
            // it.
            received: has("write") || !has("read"),
            sent: has("read") || !has("write"),
            average: has("avg") || !figures,
            least: has("min") || !figures,
            most: has("max") || !figures,
            unit: if has("mbs") { (1e6, "MB/s  ") } else { (1_048_576.0, "MiB/s ") },
        }
    }

    /// Returns the lines for the nodes of a group; empty if no node was measured.
    fn text(&self, name: &str, nodes: &[Rates]) -> String {
        let mut text = String::new();
        if nodes.is_empty() {
            return text;
        }
        if self.rates {
            text += &format!("[LNet Rates of {name}]\n");
            let figure = |name: &str, value: f64| {
                let blank = if name == "Max" { "" } else { " " };
                format!("{name}: {value:<8.0} RPC/s{blank}")
            };
            text += &self.lines(nodes, |node| node.messages_in, |node| node.messages_out, figure);
        }
        if self.bandwidth {
            let (bytes, unit) = self.unit;
            text += &format!("[LNet Bandwidth of {name}]\n");
            let figure = |name: &str, value: f64| format!("{name}: {:<8.2} {unit}", value / bytes);
            text += &self.lines(nodes, |node| node.bytes_in, |node| node.bytes_out, figure);
        }
        text
    }

    fn lines(
        &self,
        nodes: &[Rates],
        received: fn(&Rates) -> f64,
        sent: fn(&Rates) -> f64,
        figure: impl Fn(&str, f64) -> String,
    ) -> String {
        let mut text = String::new();
        for (shown, letter, amount) in [(self.received, 'R', received), (self.sent, 'W', sent)] {
            if shown {
                let figures = self.figures(nodes, amount);
                let line: String = figures.iter().map(|(name, v)| figure(name, *v)).collect();
                text += &format!("[{letter}] {line}\n");
            }
        }
        text
    }

    /// Returns the figures over the nodes. The minimum may be 0, where other releases use that of
    /// the next node: it must show an idle node.
    fn figures(&self, nodes: &[Rates], amount: fn(&Rates) -> f64) -> Vec<(&'static str, f64)> {
        let amounts = || nodes.iter().map(amount);
        let figures = [
            (self.average, "Avg", amounts().sum::<f64>() / nodes.len() as f64),
            (self.least, "Min", amounts().fold(f64::INFINITY, f64::min)),
            (self.most, "Max", amounts().fold(0.0, f64::max)),
        ];
        figures.into_iter().filter(|(shown, ..)| *shown).map(|(_, n, v)| (n, v)).collect()
    }
}

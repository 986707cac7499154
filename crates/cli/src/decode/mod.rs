//! `fulmar decode`: the conversation of Lustre nodes in a capture.

mod clock;
mod facts;
mod filter;
mod names;
mod summary;
mod yaml;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fulmar_base::Time;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::message::Message;
use fulmar_text::{Table, count, duration, left, or_unknown, printable, right};
use fulmar_trace::lnet::{self, Item};
use fulmar_trace::rpc::{Calls, Rpc};
use serde_json::{Value, json};
use terminal_size::{Width, terminal_size_of};

use self::facts::{Facts, label, outcome};
use self::filter::Filter;
use self::names::{Names, is_callback};
use self::summary::Summary;
use crate::context::{complain, print};

/// Print the requests between Lustre nodes in a capture
///
/// FILE is a capture of TCP port 988 by tcpdump or Wireshark, which may be compressed by gzip. Each
/// line is a request with its reply: when it was sent, how long the reply took, who asked whom, for
/// what, and the result. The names of targets and files are shown if the capture contains them.
///
/// Exit status: 0, or 1 if the file cannot be read.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Capture: pcap or pcapng
    #[arg(value_name = "FILE")]
    capture: PathBuf,
    #[command(flatten)]
    filter: Filter,
    /// Print whole messages: YAML, or more JSON
    #[arg(short, long)]
    verbose: bool,
    /// Print the number and the latencies of each operation instead
    #[arg(long)]
    summary: bool,
    /// Print JSON: an object in each line
    #[arg(long)]
    json: bool,
    /// Do not cut lines at the width of the terminal
    #[arg(long)]
    wide: bool,
}

const EXAMPLES: &str = "Examples:
  tcpdump -i any -s 0 -w mount.pcap port 988     (then mount, and stop with Ctrl-C)
  fulmar decode mount.pcap
  fulmar decode mount.pcap --summary
  fulmar decode mount.pcap --node 10.0.0.1 --slower 10ms
  fulmar decode mount.pcap --file results.csv -v";

pub(crate) fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(text) => ExitCode::from(print(&text)),
        Err(error) => {
            complain(&format!("fulmar decode: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<String, String> {
    let items = read(&args.capture)?;
    let calls = Calls::of(&items);
    let names = Names::of(&calls);
    let is_shown = args.filter.checker(&names);
    let rpcs: Vec<&Rpc<'_>> = calls.rpcs.iter().filter(|rpc| is_shown(rpc)).collect();
    let start = calls.rpcs.first().map_or(Time::ZERO, |rpc| rpc.request.time);
    Ok(match (args.summary, args.json) {
        (true, true) => Summary::of(rpcs).json(),
        (true, false) => heading(args, &calls, rpcs.len()) + &Summary::of(rpcs).text(),
        (false, true) => rpcs
            .iter()
            .map(|rpc| object(rpc, &names, start, args.verbose).to_string() + "\n")
            .collect(),
        (false, false) if args.verbose => {
            let text: String = rpcs.iter().map(|rpc| document(rpc, &names, start)).collect();
            heading(args, &calls, rpcs.len()) + &text
        }
        (false, false) => {
            heading(args, &calls, rpcs.len()) + &cut(&table(&rpcs, &names, start), args)
        }
    })
}

fn read(path: &Path) -> Result<Vec<Item>, String> {
    let shown = path.display();
    let file = std::fs::read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    lnet::items(&file).map_err(|error| format!("cannot read {shown}: {error}"))
}

/// Returns what the file contains, as comments.
fn heading(args: &Args, calls: &Calls<'_>, shown: usize) -> String {
    let mut text =
        format!("# {}: {}", args.capture.display(), count(calls.rpcs.len() as u64, "RPC"));
    if let (Some(first), Some(last)) = (calls.rpcs.first(), calls.rpcs.last()) {
        let (from, to) = (first.request.time, last.request.time);
        let span = duration(to.since(from));
        text += &format!(" from {} UTC on, in {span}", clock::date(from));
    }
    if shown < calls.rpcs.len() {
        text += &format!("; {} shown", fulmar_text::grouped(shown as u64));
    }
    text.push('\n');
    if calls.rpcs.is_empty() {
        text += "# There is no message of Lustre: capture TCP port 988 with \"tcpdump -s 0\".\n";
    }
    let (lost, damaged): (Vec<_>, Vec<_>) = calls.strays.iter().partition(|s| s.error.is_none());
    if !lost.is_empty() {
        let number = count(lost.len() as u64, "message");
        text += &format!("# {number} not shown: the requests were sent before the capture.\n");
    }
    if let Some(error) = damaged.first().and_then(|stray| stray.error) {
        let number = count(damaged.len() as u64, "message");
        text += &format!("# {number} not shown: not valid, the first because {error}.\n");
    }
    text
}

/// One line for each RPC.
fn table(rpcs: &[&Rpc<'_>], names: &Names, start: Time) -> String {
    let columns =
        [right("time"), right("latency"), left("client"), left("server"), left("operation")];
    let mut table =
        Table::new(columns.into_iter().chain([left("result"), left("xid"), left("about")]));
    for rpc in rpcs {
        let (client, server) = ends(rpc, names);
        table.row([
            seconds(rpc.request.time, start),
            or_unknown(rpc.latency(), duration),
            client,
            server,
            label(&rpc.request.message),
            outcome(rpc),
            format!("{:x}", rpc.xid),
            printable(&Facts::of(rpc, names)),
        ]);
    }
    table.to_string()
}

/// The sender and the receiver of a request: NIDs, and a target where its name is known.
fn ends(rpc: &Rpc<'_>, names: &Names) -> (String, String) {
    let named = |nid: Nid, target: Option<&str>| {
        target.map_or_else(|| nid.to_string(), |target| format!("{target} {nid}"))
    };
    let target = names.target(rpc);
    if is_callback(rpc) {
        (named(rpc.client, target), named(rpc.server, None))
    } else {
        (named(rpc.client, None), named(rpc.server, target))
    }
}

/// Seconds since the first request.
fn seconds(time: Time, start: Time) -> String {
    format!("{:.6}", time.since(start).as_secs_f64())
}

/// Cuts lines at the width of a terminal.
fn cut(text: &str, args: &Args) -> String {
    // `None` if standard output is not a terminal.
    let width = terminal_size_of(std::io::stdout()).map(|(Width(width), _)| usize::from(width));
    let Some(width) = width.filter(|_| !args.wide) else { return text.to_owned() };
    let shorten = |line: &str| match line.char_indices().nth(width) {
        Some(_) => line.chars().take(width.saturating_sub(1)).chain(['…', '\n']).collect(),
        None => format!("{line}\n"),
    };
    text.lines().map(shorten).collect()
}

/// An RPC as a document of YAML.
fn document(rpc: &Rpc<'_>, names: &Names, start: Time) -> String {
    let mut text = "---\n".to_owned();
    yaml::write(&mut text, &object(rpc, names, start, true), 0);
    text
}

/// An RPC for programs, with its messages if they are wanted.
fn object(rpc: &Rpc<'_>, names: &Names, start: Time, has_messages: bool) -> Value {
    let request = &rpc.request.message;
    let reply = rpc.reply();
    let transno = reply.map_or(0, |reply| reply.message.body.transno);
    let mut value = json!({
        "time": clock::date(rpc.request.time),
        "since_start_s": rpc.request.time.since(start).as_secs_f64(),
        "latency_s": rpc.latency().map(|latency| latency.as_secs_f64()),
        "client": rpc.client,
        "server": rpc.server,
        "target": names.target(rpc),
        "portal": rpc.portal,
        "xid": format!("{:#x}", rpc.xid),
        "operation": label(request),
        "result": outcome(rpc),
        "transno": (transno != 0).then(|| format!("{transno:#x}")),
        "resent": rpc.resends.len(),
        "early_replies": rpc.early.len(),
        "bulk_bytes": rpc.bulk_len(),
        "about": Facts::of(rpc, names),
    });
    if has_messages {
        value["request"] = json!(request);
        value["reply"] = json!(reply.map(|reply| &reply.message));
        let bulk: Vec<Value> = rpc.bulk.iter().map(|part| bulk(request, part.bytes)).collect();
        value["bulk"] = json!(bulk);
    }
    value
}

/// A part of the bulk data: what it contains, or the length of the content of a file.
fn bulk(request: &Message<'_>, bytes: &[u8]) -> Value {
    let len = bytes.len();
    match request.format().bulk(bytes).filter(|_| len > 0) {
        None => json!({ "bytes": len }),
        Some(field) => match field.value(bytes, request.order) {
            Ok(value) => json!({ "bytes": len, field.name(): value }),
            Err(error) => json!({ "bytes": len, "error": error.to_string() }),
        },
    }
}

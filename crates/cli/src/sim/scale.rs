//! `fulmar sim scale`.

use std::process::ExitCode;
use std::time::Duration;

use fulmar_study::Direction;
use fulmar_study::scale::{self, Buffers, Scale, Size};
use fulmar_text::{Table, bytes, left};
use indicatif::ProgressBar;

use crate::context::{complain, print};

/// Simulate 10,000 nodes and 64 routers in virtual time
///
/// Clients on one network read from or write to servers on another, at a round trip of 50.5 ms,
/// each with one RPC at a time. Routers between the networks have realistic buffers and credits;
/// each client uses four of them. Prints the throughput, how evenly it is spread over routers and
/// servers, how many router buffers were used, and the cost of the simulation.
///
/// Exit status: 0 if the run completed, 1 if not, 2 if the request is invalid.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Clients
    #[arg(long, value_name = "N", default_value_t = Size::default().nodes,
        value_parser = clap::value_parser!(u32).range(1..=16_000))]
    nodes: u32,
    /// Routers
    #[arg(long, value_name = "N", default_value_t = Size::default().routers,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    routers: u32,
    /// Servers
    #[arg(long, value_name = "N", default_value_t = Size::default().servers,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    servers: u32,
    /// Routers that each client uses
    #[arg(long, value_name = "N", default_value_t = Size::default().routers_of_node,
        value_parser = clap::value_parser!(u32).range(1..))]
    routers_of_node: u32,
    /// Read from the servers instead of writing to them
    #[arg(long)]
    read: bool,
    /// Virtual seconds to measure, after all nodes have connected
    #[arg(long, value_name = "SECONDS", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> ExitCode {
    if args.routers_of_node > args.routers {
        complain(&format!(
            "fulmar: a client cannot use {} routers, there are only {}: give fewer with \
             --routers-of-node\n",
            args.routers_of_node, args.routers
        ));
        return ExitCode::from(2);
    }
    let size = Size {
        nodes: args.nodes,
        routers: args.routers,
        servers: args.servers,
        routers_of_node: args.routers_of_node,
        direction: if args.read { Direction::Read } else { Direction::Write },
        measured: Duration::from_secs(args.seconds),
        ..Size::default()
    };
    let step = ProgressBar::new_spinner();
    let result = scale::run(size, |what: &str| step.set_message(format!("{what} ...")));
    step.finish_and_clear();
    match result {
        Ok(scale) if args.json => {
            let text = serde_json::to_string_pretty(&scale).expect("plain numbers");
            print(&format!("{text}\n"));
            ExitCode::SUCCESS
        }
        Ok(scale) => {
            print(&table(&scale));
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&format!("fulmar: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

fn table(scale: &Scale) -> String {
    let Scale { size, rpcs, steps, took, .. } = scale;
    let percent = |(least, most): (f64, f64)| {
        format!("{:.1} to {:.1} % of the average", least * 100.0, most * 100.0)
    };
    let Buffers { tiny, small, large } = scale.buffers;
    let rows = [
        (
            "nodes",
            format!("{} clients, {} servers, {} routers", size.nodes, size.servers, size.routers),
        ),
        (
            "load",
            format!(
                "{} of {} KiB, one at a time, round trip {} ms",
                size.direction.name(),
                size.transfer >> 10,
                size.round_trip.as_secs_f64() * 1e3
            ),
        ),
        (
            "throughput",
            format!(
                "{:.2} GB/s, {:.1} % of the limit by the round trip; {rpcs} RPCs",
                scale.bytes_per_second / 1e9,
                scale.bytes_per_second / scale.ideal_bytes_per_second * 100.0
            ),
        ),
        ("each router forwards", percent(scale.router_shares)),
        ("each server answers", percent(scale.server_shares)),
        (
            "router buffers used",
            format!(
                "tiny {} of {}, small {} of {}, large {} of {}, maximum of one router",
                tiny.0, tiny.1, small.0, small.1, large.0, large.1
            ),
        ),
        ("connections", scale.connections.to_string()),
        (
            "simulated",
            format!(
                "{:.2} s; {:.1} s to connect, {:.1} s to run: {steps} events, {:.0} per second",
                scale.virtual_time.as_secs_f64(),
                took.0.as_secs_f64(),
                took.1.as_secs_f64(),
                scale.steps_per_second()
            ),
        ),
        ("memory", bytes(scale.memory)),
    ];
    let mut table = Table::new([left(""), left("")]);
    for (name, value) in rows {
        table.row([name, &value]);
    }
    table.to_string()
}

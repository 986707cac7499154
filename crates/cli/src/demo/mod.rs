//! `fulmar demo`: two nodes on this machine, then two sites with a long link between them.

pub mod nodes;
pub mod ocean;

use std::error::Error;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use fulmar_link::{Rate, words_of_time};
use fulmar_text::Table;

use crate::context::complain;

/// Demonstrate Fulmar: two nodes on this machine, then two sites joined by a long link
///
/// First two nodes at 127.0.0.2 and 127.0.0.3 ping and discover each other. One sends the other as
/// many messages as it can, and the data is checked. Takes about ten seconds; needs no privilege.
///
/// Then two sites in network namespaces are joined by an emulated link of 50.5 ms, with a router at
/// each end. `lst run` writes across it, first with the default credits of a kernel node, then with
/// those that `fulmar tune` advises. The results are compared with iperf3, if it is installed, with
/// the simulator and with the model. Takes about forty seconds; needs root. Without root only the
/// predictions are shown. Nothing on this machine is changed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run only this part
    #[arg(value_enum, value_name = "PART")]
    part: Option<Part>,
    /// TCP port of the two nodes; if it is in use, the next free one is taken
    #[arg(long, value_name = "PORT", default_value_t = nodes::Options::default().port,
        value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Rate of the link
    #[arg(long, value_name = "RATE", default_value = "2Gbit")]
    rate: Rate,
    /// Round-trip time of the link
    #[arg(long, value_name = "TIME", default_value = "50.5ms", value_parser = words_of_time)]
    rtt: Duration,
    /// File for the picture of the second part, .png or .svg
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Two nodes on this machine
    Nodes,
    /// Two sites with an ocean between them
    Ocean,
}

pub(crate) fn main(args: Args) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let mut result = Ok(());
    if args.part != Some(Part::Ocean) {
        let options = nodes::Options { port: args.port, ..nodes::Options::default() };
        result = nodes::run(&options, &mut out);
    }
    if args.part.is_none() && result.is_ok() {
        result = writeln!(out).map_err(Into::into);
    }
    if args.part != Some(Part::Nodes) && result.is_ok() {
        let usual = ocean::Options::default();
        let link = ocean::Ocean { rate: args.rate, round_trip: args.rtt, ..usual.ocean };
        let options = ocean::Options { ocean: link, picture: args.picture, ..usual };
        let runner = std::env::current_exe()
            .map_err(|error| format!("cannot find this program: {error}"))
            .and_then(|fulmar| ocean::Runner::new(&fulmar));
        result = ocean::run(runner, &options, &mut out);
    }
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !is_broken_pipe(error.as_ref()) {
                complain(&format!("fulmar: {error}\n"));
            }
            ExitCode::FAILURE
        }
    }
}

/// Returns whether an error only means that the reader of the output has closed it.
fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Returns a table, indented.
fn indented(table: &Table) -> String {
    table.to_string().lines().map(|line| format!("  {line}\n")).collect()
}

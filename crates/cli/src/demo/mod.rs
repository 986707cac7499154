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

/// See it work: two nodes on this machine, then two sites with an ocean between them
///
/// First two nodes at 127.0.0.2 and 127.0.0.3 ping and discover each other, and one sends the other
/// as many messages as it can, of which the data is checked: some ten seconds, without privilege.
///
/// Then two sites in network namespaces are joined by an emulated link of 50.5 ms, with a router at
/// each end. `lst run` writes across it with the credits that a kernel node has by default and with
/// those that `fulmar tune` advises, beside iperf3 if that is installed and beside what the
/// simulator and the formula predict: some forty seconds, as root. Without root there are only the
/// predictions. Nothing on this machine is changed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this part
    #[arg(value_enum, value_name = "PART")]
    part: Option<Part>,
    /// TCP port of the two nodes; if it is in use, one of the next is taken
    #[arg(long, value_name = "PORT", default_value_t = nodes::Options::default().port,
        value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// What the link carries
    #[arg(long, value_name = "RATE", default_value = "2Gbit")]
    rate: Rate,
    /// From one site to the other and back
    #[arg(long, value_name = "TIME", default_value = "50.5ms", value_parser = words_of_time)]
    rtt: Duration,
    /// Where the picture of the ocean goes: a file .png or .svg
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
            if !nobody_reads(error.as_ref()) {
                complain(&format!("fulmar: {error}\n"));
            }
            ExitCode::FAILURE
        }
    }
}

/// Returns whether an error only says that the reader of the output has gone.
fn nobody_reads(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Returns a table below a title.
fn indented(table: &Table) -> String {
    table.to_string().lines().map(|line| format!("  {line}\n")).collect()
}

//! `fulmar demo`: two nodes on this machine, then two sites with a long link between them, then a file system
//! across that link.

pub mod files;
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
/// predictions are shown.
///
/// Then a file system of an MDT and two OSTs at one site is mounted at the other. A large file and a tree of
/// sources go there and come back, and are compared. Takes over two minutes; needs root, and /dev/fuse for the
/// mount: without it "fulmar cp" copies the files. Nothing on this machine is changed.
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
    /// Tree of files to copy in the third part; if it is missing, one is made
    #[arg(long, value_name = "DIR", default_value = "crates")]
    tree: PathBuf,
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
    /// A file system across the ocean
    Files,
}

pub(crate) fn main(args: Args) -> ExitCode {
    match args.run(&mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !is_broken_pipe(error.as_ref()) {
                complain(&format!("fulmar: {error}\n"));
            }
            ExitCode::FAILURE
        }
    }
}

impl Args {
    /// Runs the parts that were chosen, or all.
    fn run(self, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
        let runner = || {
            std::env::current_exe()
                .map_err(|error| format!("cannot find this program: {error}"))
                .and_then(|fulmar| ocean::Runner::new(&fulmar))
        };
        let usual = ocean::Options::default();
        let link = ocean::Ocean { rate: self.rate, round_trip: self.rtt, ..usual.ocean };
        let chosen = |part| self.part.is_none_or(|only| only == part);
        if chosen(Part::Nodes) {
            nodes::run(&nodes::Options { port: self.port, ..nodes::Options::default() }, out)?;
        }
        if self.part.is_none() {
            writeln!(out)?;
        }
        if chosen(Part::Ocean) {
            let options = ocean::Options { ocean: link, picture: self.picture, ..usual };
            ocean::run(runner(), &options, out)?;
        }
        if self.part.is_none() {
            writeln!(out)?;
        }
        if chosen(Part::Files) {
            let usual = files::Options::default();
            files::run(runner(), &files::Options { ocean: link, tree: self.tree, ..usual }, out)?;
        }
        Ok(())
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

//! `fulmar sim`: the simulator.

mod flavour;
mod path;
mod run;
mod sc11;
mod scale;
mod swarm;

use std::process::ExitCode;

use clap::Subcommand;

/// Run nodes in virtual time, on this machine only
///
/// The nodes run the same code as "fulmar node"; time, TCP and the network between them are
/// simulated, so that hours pass in seconds and nothing leaves this machine. Needs no privilege.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Path(Box<path::Args>),
    Run(run::Args),
    Swarm(swarm::Args),
    Sc11(sc11::Args),
    Scale(scale::Args),
}

pub(crate) fn main(args: &Args) -> ExitCode {
    match &args.command {
        Command::Path(args) => path::main(args),
        Command::Run(args) => run::main(args),
        Command::Swarm(args) => swarm::main(args),
        Command::Sc11(args) => sc11::main(args),
        Command::Scale(args) => scale::main(args),
    }
}

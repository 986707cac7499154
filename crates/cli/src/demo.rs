//! `fulmar demo`.

use std::process::ExitCode;

use fulmar_proof::demo;

use crate::context::complain;

/// See it work: two nodes on this machine, and what they carry
///
/// Two nodes at 127.0.0.2 and 127.0.0.3 ping and discover each other; then one sends the other as
/// many messages as it can, for some ten seconds, of which the data is checked. Needs no privilege
/// and changes nothing on this machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// TCP port of both nodes; if it is in use, one of the next is taken
    #[arg(long, value_name = "PORT", default_value_t = demo::Options::default().port,
        value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
}

pub(crate) fn main(args: &Args) -> ExitCode {
    let options = demo::Options { port: args.port, ..demo::Options::default() };
    match demo::run(&options, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("fulmar: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

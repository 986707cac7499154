//! `fulmar link`: emulates a long link on one machine.

mod args;
mod run;
mod show;

use std::process::ExitCode;

use fulmar_link::{Link, LinkError, Options, SiteOptions, Sites, Tcp};

use crate::context::complain;
use args::{EndArg, LineArgs, LinkArgs, SiteArgs};
use run::{LinkDisplay, Signals};
use show::Show;

/// Emulate a long link between two network namespaces
///
/// The link joins two network namespaces with a device in each. In each direction it has a rate, a
/// delay and a queue, and optionally jitter, loss and reordering. It needs root, but not netem. It
/// works until it is interrupted; then its devices are removed.
///
///   ip netns add east; ip netns add west
///   fulmar link --a east:wan0=10.9.0.1/24 --b west:wan0=10.9.0.2/24 --rate 10Gbit --delay 25.25ms
///
/// "fulmar link sites" creates the namespaces too.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    /// End A: a namespace, by its name in "ip netns" or by path; the device to create, wan0 by
    /// default; its addresses, if any, separated by commas
    #[arg(long, value_name = "NS:DEV=ADDR", required = true)]
    a: Option<EndArg>,
    /// The same for end B
    #[arg(long, value_name = "NS:DEV=ADDR", required = true)]
    b: Option<EndArg>,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    line: LineArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Part {
    Sites(SiteArgs),
}

/// Exit status for an invalid request.
const INVALID: u8 = 2;

pub(crate) fn main(args: Args) -> ExitCode {
    let done = match args.part {
        Some(Part::Sites(sites)) => run_sites(&sites),
        None => run_link(args),
    };
    done.unwrap_or_else(|error| {
        complain(&format!("fulmar link: {error}\n"));
        match error {
            LinkError::Value(_) | LinkError::Line { .. } => ExitCode::from(INVALID),
            _ => ExitCode::FAILURE,
        }
    })
}

fn run_link(args: Args) -> Result<ExitCode, LinkError> {
    let (Some(a), Some(b)) = (args.a, args.b) else { return Ok(ExitCode::from(INVALID)) };
    let lines = args.line.lines()?;
    let signals = Signals::take()?;
    let ends = [a.0, b.0];
    let names = format!("{} to {}", ends[0].namespace, ends[1].namespace);
    let link = Link::start(&Options { ends, lines, mtu: args.link.mtu, seed: args.link.seed })?;
    let mut show = Show::new(args.link.json, lines);
    show.started(&[format!("The link from {names} works until this command is interrupted.")]);
    Ok(LinkDisplay { link: &link, show }.until_interrupted(signals))
}

fn run_sites(args: &SiteArgs) -> Result<ExitCode, LinkError> {
    let lines = args.line.lines()?;
    let filling = Tcp::filling(&lines);
    let tcp = Tcp {
        buffer: args.tcp_buffer.map_or(filling.buffer, |size| size.0),
        congestion: args.congestion.clone(),
    };
    let signals = Signals::take()?;
    let sites = Sites::start(&SiteOptions {
        name: args.name.clone(),
        device: fulmar_link::DEFAULT_DEVICE.to_owned(),
        addresses: [args.addr_a.clone(), args.addr_b.clone()],
        lines,
        mtu: args.link.mtu,
        seed: args.link.seed,
        tcp: tcp.clone(),
    })?;
    let mut show = Show::new(args.link.json, lines);
    let watched = match args.command.split_first() {
        None => {
            show.started(&args.notes(&sites, &tcp));
            LinkDisplay { link: sites.link(), show }.until_interrupted(signals)
        }
        Some((program, words)) => {
            let mut command = sites.command(0, program.as_ref());
            command.args(words).envs(args.environment(&sites));
            LinkDisplay { link: sites.link(), show }.while_running(&mut command, signals)
        }
    };
    Ok(watched)
}

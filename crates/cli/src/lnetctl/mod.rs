//! `fulmar lnetctl`: the commands of Lustre's `lnetctl`. Spec: lnet-admin §3 to §16.

mod conf;
mod debug;
mod net;
mod peer;
mod query;
mod route;
mod routing;
mod rules;
mod setup;
mod values;

use std::convert::Infallible;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use fulmar_base::Errno;
use fulmar_control::api::{AdminError, ListNids, StatsReset, StatsShow};
use fulmar_control::show;

use crate::context::{Context, Form, NodeArgs, OutputArgs, Status};
use crate::shell;

/// Show and change networks, peers and settings of a node with the commands of Lustre's lnetctl
///
/// Without a command, lnetctl reads commands line by line from standard input.
#[derive(Debug, Parser)]
#[command(name = "lnetctl", version, max_term_width = 100, infer_long_args = true)]
pub(crate) struct Args {
    #[command(flatten)]
    which: NodeArgs,
    #[command(flatten)]
    how: OutputArgs,
    /// List every command
    #[arg(long)]
    list_commands: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start or stop LNet
    #[command(subcommand)]
    Lnet(LnetCommand),
    /// Routes to other networks
    #[command(subcommand)]
    Route(route::Command),
    /// Networks and interfaces of this node
    #[command(subcommand)]
    Net(net::Command),
    /// Forwarding of messages between networks
    #[command(subcommand)]
    Routing(routing::Command),
    /// Change a setting of the whole node
    Set(values::Set),
    /// Apply a file lnet.conf
    Import(conf::Import),
    /// Print the configuration
    Export(conf::Export),
    /// Traffic counters of the node
    #[command(subcommand)]
    Stats(StatsCommand),
    /// Internal state of the node
    #[command(subcommand)]
    Debug(debug::Command),
    /// Settings of the whole node
    #[command(subcommand)]
    Global(GlobalCommand),
    /// Other nodes
    #[command(subcommand)]
    Peer(peer::Command),
    /// Query nodes for their NIDs
    Ping(query::Ping),
    /// Query nodes for their NIDs, store them, and push ours
    Discover(query::Discover),
    /// Selection policies
    #[command(subcommand)]
    Udsp(rules::Udsp),
    /// Drop or delay messages for tests
    #[command(subcommand)]
    Fault(rules::Fault),
    /// Print the CPU partition that serves a NID
    CptOfNid(debug::CptOfNid),
    /// Set up the routing tables of this machine for several interfaces on one IP network
    SetupMrrouting,
    /// Set up the parameters of this machine's kernel for a large network
    SetupSysctl,
    /// List every command
    #[command(hide = true)]
    ListCommands,
}

#[derive(Debug, Subcommand)]
enum LnetCommand {
    /// Start LNet; a running node has done so
    Configure {
        /// Its networks too
        #[arg(short, long)]
        all: bool,
        /// Prefer IPv6 addresses
        #[arg(short, long)]
        large: bool,
    },
    /// Stop LNet
    Unconfigure,
}

#[derive(Debug, Subcommand)]
enum StatsCommand {
    /// Print the statistics
    Show,
    /// Reset the counters
    Reset,
}

#[derive(Debug, Subcommand)]
enum GlobalCommand {
    /// Print the settings
    Show,
}

/// Runs the tool with `args`, of which the first is its name.
pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    ExitCode::from(execute(args))
}

fn execute(words: Vec<OsString>) -> Status {
    if let Some(status) = shell::list_group(Args::command(), &words) {
        return status;
    }
    match Args::try_parse_from(&words) {
        Ok(args) if args.list_commands => shell::list_commands(&Args::command()),
        Ok(Args { command: None, .. }) => {
            // Options given before the first line apply to each line.
            let options: Vec<OsString> = words.iter().skip(1).cloned().collect();
            shell::run("lnetctl", |line| {
                let (tool, rest) = line.split_at(1);
                execute([tool, &options, rest].concat())
            })
        }
        Ok(Args { which, how, command: Some(command), .. }) => {
            run(command, &Context::new("lnetctl", &which, &how))
        }
        Err(error) => shell::usage(Args::command(), &error, &words),
    }
}

fn run(command: Command, context: &Context) -> Status {
    match command {
        Command::Net(command) => command.run(context),
        Command::Peer(command) => command.run(context),
        Command::Ping(args) => args.run(context),
        Command::Discover(args) => args.run(context),
        Command::Set(args) => args.run(context),
        Command::Import(args) => args.run(context),
        Command::Export(args) => args.run(context),
        Command::Lnet(command) => lnet(command, context),
        Command::Route(command) => command.run(context),
        Command::Routing(command) => command.run(context),
        Command::Stats(StatsCommand::Show) => {
            context.query(Form::Classic, "show", "statistics", &StatsShow {}, |stats| {
                context.show(&show::stats_show(&stats))
            })
        }
        Command::Stats(StatsCommand::Reset) => {
            context.execute(Form::Classic, "reset", "statistics", &StatsReset {})
        }
        Command::Global(GlobalCommand::Show) => values::global_show(context),
        Command::Debug(command) => command.run(context),
        Command::CptOfNid(args) => args.run(context),
        Command::SetupMrrouting => setup::routing(context),
        Command::SetupSysctl => setup::sysctl(context),
        Command::Udsp(command) => command.run(context),
        Command::Fault(command) => command.run(context),
        Command::ListCommands => shell::list_commands(&Args::command()),
    }
}

/// Reads the level of `-v`. As in Lustre's tool more than 4 is as 4, and what is not a number as 1.
#[allow(clippy::unnecessary_wraps, reason = "a parser of the command line returns a result")]
fn level(text: &str) -> Result<u8, Infallible> {
    let level = text.parse::<u64>().unwrap_or(1);
    Ok(u8::try_from(level).unwrap_or(LEVEL_MAX).min(LEVEL_MAX))
}

/// The highest level of `-v`.
const LEVEL_MAX: u8 = 4;

fn lnet(command: LnetCommand, context: &Context) -> Status {
    match command {
        // LNet runs as long as the node does; the call only checks that the node runs.
        LnetCommand::Configure { .. } => {
            context.query(Form::Classic, "configure", "lnet", &ListNids {}, |_| 0)
        }
        LnetCommand::Unconfigure => {
            let error = AdminError::new(Errno::EBUSY, "LNet configure error: LNET busy")
                .with_hint(crate::node::how_to_stop());
            context.refuse(Form::Classic, "configure", "lnet", &error)
        }
    }
}

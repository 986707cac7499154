//! `fulmar lctl`: the network commands of Lustre's `lctl`, `dl`, those for the management service and for
//! changelogs.
//! Spec: lnet-admin §19, §20.

mod changelog;
mod debug;
mod devices;
mod entries;
mod faults;
mod mgs;
pub(crate) mod mount_parameters;
mod nodemap;
mod parameters;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use fulmar_base::Errno;
use fulmar_control::api::{
    CallError, Connections, Disconnect, ListNids, Ping, RouteAdd, RouteDel, RouteShow,
    SocklndInterfaces, SocklndPeers, WhichNid,
};
use fulmar_control::config::RouteConf;
use fulmar_control::show::{exit, tables};
use fulmar_lnet_wire::{Net, NetType, Nid, ProcessId};

use crate::context::{Context, NodeArgs, OutputArgs, Status, complain, print};
use crate::shell;

/// The exit status of lctl for a wrong command line.
const HELP: Status = 4;
/// The longest wait for an answer to a ping, in seconds.
const TIMEOUT_MAX: u32 = 120;

/// Show and change a node's network, and file systems of its MGS, with the commands of Lustre's lctl
///
/// Without a command, lctl reads commands line by line from standard input.
#[derive(Debug, Parser)]
#[command(name = "lctl", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(flatten)]
    which: NodeArgs,
    /// Network that the command is for
    #[arg(long, global = true)]
    net: Option<Net>,
    /// List every command
    #[arg(long)]
    list_commands: bool,
    /// Target that the command is for, such as lustre-MDT0000
    #[arg(long, global = true)]
    device: Option<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
enum Command {
    /// Start or stop LNet
    #[command(alias = "net")]
    Network {
        /// up or configure, down or unconfigure
        action: String,
        /// Use what is configured already
        #[arg(short = 'l')]
        existing: bool,
    },
    /// Print the NIDs of this node
    ListNids {
        /// "all" prints 0@lo too
        #[arg(value_parser = ["all"])]
        all: Option<String>,
    },
    /// Print the NID that this node would use
    WhichNid {
        /// NIDs to choose from
        #[arg(required = true)]
        nids: Vec<String>,
    },
    /// Ask a node for its NIDs
    Ping {
        /// Node to ping
        nid: ProcessId,
        /// How long to wait, in seconds
        timeout: Option<u32>,
    },
    /// Print the connections of a network: --net tcp conn_list
    ConnList,
    /// Print the peers of a network: --net tcp peer_list
    PeerList,
    /// Print the interfaces of a network: --net tcp interface_list
    InterfaceList,
    /// Close the connections with a peer, or with all: --net tcp disconnect 10.0.0.2@tcp
    Disconnect {
        /// NID of the peer; all if omitted
        nid: Option<Nid>,
    },
    /// Print the routes to other networks
    #[command(visible_alias = "route_list")]
    ShowRoute,
    /// Add a route to a network: --net tcp1 add_route 10.0.0.9@tcp
    AddRoute {
        /// Router on a network of this node
        gateway: Nid,
        /// How many routers a message passes through
        #[arg(value_parser = clap::value_parser!(u32).range(1..=255))]
        hops: Option<u32>,
        /// Lower is preferred
        #[arg(default_value_t = 0)]
        priority: u32,
    },
    /// Remove a route to a network: --net tcp1 del_route 10.0.0.9@tcp
    DelRoute {
        /// NID of the router
        gateway: Nid,
    },
    /// Make messages to and from a NID fail
    Fail {
        /// The NID; "_all_" for every NID
        nid: String,
        /// How many times; -1 without limit, 0 to stop
        #[arg(default_value_t = -1, allow_hyphen_values = true,
            value_parser = clap::value_parser!(i64).range(-1..=i64::from(i32::MAX)))]
        count: i64,
    },
    #[command(flatten)]
    Fault(faults::Command),
    #[command(flatten)]
    Mgs(mgs::Command),
    ChangelogRegister(changelog::Register),
    ChangelogDeregister(changelog::Deregister),
    /// Register or forget a user of the changelog of an MDT
    #[command(subcommand)]
    Changelog(changelog::ChangelogCommand),
    #[command(flatten)]
    Nodemap(nodemap::Command),
    #[command(flatten)]
    Parameters(parameters::Command),
    #[command(flatten)]
    Debug(debug::Command),
    #[command(visible_alias = "device_list")]
    Dl(devices::Args),
    /// List every command
    #[command(name = "list-commands", hide = true)]
    ListCommands,
}

/// Runs the tool with `args`, of which the first is its name.
pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    ExitCode::from(positive(execute(args)))
}

/// Returns the exit status of lctl, which is an error number: other tools have the low byte of the negative one.
fn positive(status: Status) -> Status {
    if status > i8::MAX as Status { status.wrapping_neg() } else { status }
}

fn execute(words: Vec<OsString>) -> Status {
    if let Some(status) = shell::list_group(Args::command(), &words) {
        return status;
    }
    match Args::try_parse_from(&words) {
        Ok(args) if args.list_commands => shell::list_commands(&Args::command()),
        Ok(Args { command: None, .. }) => {
            let options: Vec<OsString> = words.iter().skip(1).cloned().collect();
            shell::run("lctl", |line| {
                let (tool, rest) = line.split_at(1);
                execute([tool, &options, rest].concat())
            })
        }
        Ok(Args { which, net, device, command: Some(command), .. }) => {
            let of = Selection { net, device };
            run(command, of, &Context::new("lctl", &which, &OutputArgs::default()))
                .unwrap_or_else(|status| status)
        }
        Err(error) => match shell::usage(Args::command(), &error, &words) {
            exit::BAD_PARAM if error.kind() != ErrorKind::ValueValidation => HELP,
            status => status,
        },
    }
}

/// A status on both sides, so that `?` returns that of a failed call.
type CommandResult = Result<Status, Status>;

/// What the options before a command select.
struct Selection {
    net: Option<Net>,
    device: Option<String>,
}

fn run(command: Command, of: Selection, context: &Context) -> CommandResult {
    let Selection { net, device } = of;
    match command {
        Command::Network { action, existing } => network(&action, existing, context),
        Command::ListNids { all } => {
            let mut nids = context.client.call(&ListNids {}).map_err(failed)?.nids;
            if all.is_some() {
                nids.insert(0, Nid::LOOPBACK);
            }
            Ok(print(&tables::nids(&nids)))
        }
        Command::WhichNid { nids } => which_nid(&nids, context),
        Command::Ping { nid, timeout } => ping(nid, timeout, context),
        Command::ConnList => {
            let net = socket_net(net, "conn_list")?;
            let all = context.client.call(&Connections { net }).map_err(failed)?;
            Ok(print(&tables::connections(&all)))
        }
        Command::PeerList => {
            let net = socket_net(net, "peer_list")?;
            let all = context.client.call(&SocklndPeers { net }).map_err(failed)?;
            Ok(print(&tables::socklnd_peers(&all)))
        }
        Command::InterfaceList => {
            let net = socket_net(net, "interface_list")?;
            let all = context.client.call(&SocklndInterfaces { net }).map_err(failed)?;
            Ok(print(&tables::interfaces(&all)))
        }
        Command::Disconnect { nid } => {
            let net = socket_net(net, "disconnect")?;
            context.client.call(&Disconnect { net, nid }).map_err(failed)?;
            Ok(0)
        }
        Command::ShowRoute => {
            let routes = context.client.call(&RouteShow {}).map_err(failed)?;
            Ok(print(&tables::route_lines(&routes)))
        }
        Command::AddRoute { gateway, hops, priority } => {
            let route = route(any_net(net, "add_route")?, gateway, hops, priority);
            context.client.call(&RouteAdd { routes: vec![route] }).map_err(failed)?;
            Ok(0)
        }
        Command::DelRoute { gateway } => {
            let route = route(any_net(net, "del_route")?, gateway, None, 0);
            context.client.call(&RouteDel { routes: vec![route] }).map_err(failed)?;
            Ok(0)
        }
        Command::Fail { nid, count } => faults::fail(&nid, count, context),
        Command::Fault(command) => command.run(context),
        Command::Mgs(command) => command.run(context),
        Command::Nodemap(command) => command.run(context),
        Command::ChangelogRegister(args) => args.run(device, context),
        Command::ChangelogDeregister(args) => args.run(device, context),
        Command::Changelog(command) => command.run(device, context),
        Command::Parameters(command) => command.run(context),
        Command::Debug(command) => command.run(context),
        Command::Dl(args) => devices::run(&args, context),
        Command::ListCommands => Ok(shell::list_commands(&Args::command())),
    }
}

fn failed(error: CallError) -> Status {
    complain(&format!("lctl: {error}\n"));
    match error {
        CallError::Refused(error) => {
            if let Some(hint) = error.hint {
                complain(&format!("hint: {hint}\n"));
            }
            exit::of_errno(error.errno)
        }
        _ => exit::NO_NODE,
    }
}

fn network(action: &str, existing: bool, context: &Context) -> CommandResult {
    match action {
        "up" | "configure" => {
            context.client.call(&ListNids {}).map_err(failed)?;
            let what = if existing { "Overridden existing one" } else { "New Created" };
            Ok(print(&format!("LNET configured: {what}\n")))
        }
        "down" | "unconfigure" => {
            print("LNET busy\n");
            complain(&format!("hint: {}\n", crate::node::how_to_stop()));
            Err(exit::of_errno(-Errno::EBUSY.0))
        }
        _ => {
            complain(&format!("Can't parse net {action}\n"));
            complain("hint: write up or down; --net NET before a command selects a network\n");
            Err(exit::FAILED)
        }
    }
}

/// Requires a network that the socket LND carries.
fn socket_net(net: Option<Net>, command: &str) -> Result<Net, Status> {
    let net = any_net(net, command)?;
    if net.kind() == NetType::TCP {
        return Ok(net);
    }
    complain(&format!("Command {command} not compatible with {net} NAL\n"));
    Err(exit::FAILED)
}

/// Requires a network.
fn any_net(net: Option<Net>, command: &str) -> Result<Net, Status> {
    net.ok_or_else(|| {
        complain(&format!("You must say '--net <network>' before '{command}'\n"));
        exit::FAILED
    })
}

fn route(net: Net, gateway: Nid, hop: Option<u32>, priority: u32) -> RouteConf {
    RouteConf { net, gateway, hop, priority, health_sensitivity: None }
}

fn which_nid(nids: &[String], context: &Context) -> CommandResult {
    let parse = |text: &String| {
        text.parse::<Nid>().map_err(|error| {
            complain(&format!("Can't parse NID {text}\nhint: {error}\n"));
            exit::FAILED
        })
    };
    let nids = nids.iter().map(parse).collect::<Result<_, _>>()?;
    match context.client.call(&WhichNid { nids }).map_err(failed)?.nid {
        Some(nid) => Ok(print(&format!("{nid}\n"))),
        None => {
            print("No reachable NID\n");
            Err(exit::FAILED)
        }
    }
}

fn ping(target: ProcessId, timeout: Option<u32>, context: &Context) -> CommandResult {
    if let Some(seconds) = timeout.filter(|seconds| *seconds > TIMEOUT_MAX) {
        complain(&format!("Timeout {seconds} is to large: use {TIMEOUT_MAX} or less\n"));
        return Err(exit::BAD_PARAM);
    }
    let request = Ping { nids: vec![target.nid], source: None, timeout };
    let answers = context.client.call(&request).map_err(failed)?;
    match answers.into_iter().next().map(|answer| answer.result) {
        Some(Ok(reply)) => Ok(print(&tables::pinged(&reply))),
        Some(Err(errno)) => {
            print(&format!("failed to ping {}: {}\n", target.nid, Errno(errno)));
            Err(exit::of_errno(-errno))
        }
        None => Err(exit::FAILED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_all_commands_are_consistent() {
        Args::command().debug_assert();
    }
}

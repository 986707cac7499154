//! `fulmar lnetctl`: the words of Lustre's `lnetctl`. Spec: lnet-admin §3 to §16.

mod conf;
mod debug;
mod net;
mod peer;
mod query;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use fulmar_base::Errno;
use fulmar_control::api::{
    AdminError, Fault, ListNids, RouteAdd, RouteDel, RouteShow, StatsReset, StatsShow, UdspAdd,
    UdspDel, UdspShow,
};
use fulmar_control::config::{RouteConf, UdspConf, nid_list};
use fulmar_control::show;
use fulmar_lnet_wire::Net;

use crate::context::{Context, Form, How, Status, Which};
use crate::shell;

/// Show and change a node's networks, peers and settings, in the words of Lustre's lnetctl
///
/// Without a command, lnetctl reads commands line by line from standard input.
#[derive(Debug, Parser)]
#[command(name = "lnetctl", version, max_term_width = 100, infer_long_args = true)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    how: How,
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
    Route(RouteCommand),
    /// Networks and interfaces of this node
    #[command(subcommand)]
    Net(net::Command),
    /// Forwarding of messages
    #[command(subcommand)]
    Routing(RoutingCommand),
    /// Change a setting of the whole node
    Set(values::Set),
    /// Read lnet.conf and do what it says
    Import(conf::Import),
    /// Print the configuration
    Export(conf::Export),
    /// What the node has carried
    #[command(subcommand)]
    Stats(StatsCommand),
    /// Look into the node
    #[command(subcommand)]
    Debug(debug::Command),
    /// Settings of the whole node
    #[command(subcommand)]
    Global(GlobalCommand),
    /// Other nodes
    #[command(subcommand)]
    Peer(peer::Command),
    /// Ask nodes for their NIDs
    Ping(query::Ping),
    /// Ask nodes for their NIDs, remember them, and tell them ours
    Discover(query::Discover),
    /// Selection policies
    #[command(subcommand)]
    Udsp(UdspCommand),
    /// Drop or delay messages on purpose
    #[command(subcommand)]
    Fault(FaultCommand),
    /// Print the CPU partition that serves a NID
    CptOfNid(debug::CptOfNid),
    /// List every command
    #[command(hide = true)]
    ListCommands,
}

#[derive(Debug, Subcommand)]
enum LnetCommand {
    /// Start LNet; a node that runs has done so
    Configure {
        /// And its networks
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
    /// Begin to count anew
    Reset,
}

#[derive(Debug, Subcommand)]
enum GlobalCommand {
    /// Print the settings
    Show,
}

#[derive(Debug, Subcommand)]
enum RoutingCommand {
    /// Print the router's buffers
    Show,
}

#[derive(Debug, Subcommand)]
enum RouteCommand {
    /// Add routes
    Add(RouteArgs),
    /// Remove routes
    Del(RouteArgs),
    /// Print the routes
    Show {
        /// To this network alone
        #[arg(short, long)]
        net: Option<Net>,
        /// Through this gateway alone
        #[arg(short, long, value_name = "NID")]
        gateway: Option<String>,
        /// How much to print
        #[arg(short, long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "1",
            default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=4),
            hide_default_value = true)]
        verbose: u8,
    },
}

#[derive(Debug, clap::Args)]
struct RouteArgs {
    /// The network to which the route leads
    #[arg(short, long)]
    net: Net,
    /// Routers, such as 10.0.0.[1-4]@tcp
    #[arg(short, long, value_name = "NIDS")]
    gateway: String,
    /// How many routers a message passes
    #[arg(short = 'c', long, visible_alias = "hop-count", allow_hyphen_values = true,
        value_parser = clap::value_parser!(i64).range(-1..=255))]
    hop: Option<i64>,
    /// Smaller is preferred
    #[arg(short, long, default_value_t = 0)]
    priority: u32,
    /// How much the health of the gateway counts
    #[arg(long = "health_sensitivity", alias = "health-sensitivity", value_name = "N")]
    health_sensitivity: Option<u32>,
}

#[derive(Debug, Subcommand)]
enum UdspCommand {
    /// Add a rule
    Add {
        /// Our NIDs or a network
        #[arg(long, value_name = "NIDS")]
        src: Option<String>,
        /// NIDs of peers or a network
        #[arg(long, value_name = "NIDS")]
        dst: Option<String>,
        /// NIDs of routers
        #[arg(long, value_name = "NIDS")]
        rte: Option<String>,
        /// 0 is the highest
        #[arg(long)]
        priority: Option<u32>,
        /// Where in the list; else at its end
        #[arg(long)]
        idx: Option<u32>,
    },
    /// Remove a rule
    Del {
        /// Which
        #[arg(long)]
        idx: Option<u32>,
        /// All of them
        #[arg(long)]
        all: bool,
    },
    /// Print the rules
    Show {
        /// Which; else all
        #[arg(long)]
        idx: Option<u32>,
    },
}

#[derive(Debug, Subcommand)]
enum FaultCommand {
    /// Messages that are dropped
    #[command(subcommand)]
    Drop(FaultAction),
    /// Messages that are delayed
    #[command(subcommand)]
    Delay(FaultAction),
}

#[derive(Debug, Subcommand)]
enum FaultAction {
    /// Add a rule
    Add(FaultArgs),
    /// Remove rules
    Del(FaultArgs),
    /// Begin to count anew
    Reset,
    /// Print the rules
    Show,
}

/// The options of a rule, which no node takes yet.
#[derive(Debug, clap::Args)]
struct FaultArgs {
    /// The rule
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rule: Vec<String>,
}

/// Runs the tool with `args`, of which the first is its name.
pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    ExitCode::from(execute(args))
}

fn execute(words: Vec<OsString>) -> Status {
    match Args::try_parse_from(&words) {
        Ok(args) if args.list_commands => shell::list_commands(&Args::command()),
        Ok(Args { command: None, .. }) => {
            // What was said before the first line holds for each.
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
        Command::Route(command) => route(command, context),
        Command::Routing(RoutingCommand::Show) => {
            // A node that forwards nothing has nothing to show.
            context.ask(Form::Classic, "show", "routing", &ListNids {}, |_| 0)
        }
        Command::Stats(StatsCommand::Show) => {
            context.ask(Form::Classic, "show", "statistics", &StatsShow {}, |stats| {
                context.show(&show::stats_show(&stats))
            })
        }
        Command::Stats(StatsCommand::Reset) => {
            context.tell(Form::Classic, "reset", "statistics", &StatsReset {})
        }
        Command::Global(GlobalCommand::Show) => values::global_show(context),
        Command::Debug(command) => command.run(context),
        Command::CptOfNid(args) => args.run(context),
        Command::Udsp(command) => udsp(command, context),
        Command::Fault(FaultCommand::Drop(action) | FaultCommand::Delay(action)) => {
            fault(&action, context)
        }
        Command::ListCommands => shell::list_commands(&Args::command()),
    }
}

fn lnet(command: LnetCommand, context: &Context) -> Status {
    match command {
        // The node has LNet as long as it runs; only its absence can be told.
        LnetCommand::Configure { .. } => {
            context.ask(Form::Classic, "configure", "lnet", &ListNids {}, |_| 0)
        }
        LnetCommand::Unconfigure => {
            let error = AdminError::new(Errno::EBUSY, "LNet configure error: LNET busy")
                .with_hint("LNet ends with its node: systemctl stop fulmar-node");
            context.refuse(Form::Classic, "configure", "lnet", &error)
        }
    }
}

fn route(command: RouteCommand, context: &Context) -> Status {
    match command {
        RouteCommand::Add(args) => match args.routes() {
            Ok(routes) => context.tell(Form::Listing, "add", "route", &RouteAdd { routes }),
            Err(error) => context.refuse(Form::Listing, "add", "route", &error),
        },
        RouteCommand::Del(args) => match args.routes() {
            Ok(routes) => context.tell(Form::Listing, "del", "route", &RouteDel { routes }),
            Err(error) => context.refuse(Form::Listing, "del", "route", &error),
        },
        RouteCommand::Show { net, gateway, verbose } => {
            context.ask(Form::Listing, "show", "route", &RouteShow {}, |mut routes| {
                routes.retain(|route| {
                    net.is_none_or(|net| net == route.net)
                        && gateway.as_ref().is_none_or(|nid| *nid == route.gateway.to_string())
                });
                context.show(&show::route_show(&routes, verbose > 0))
            })
        }
    }
}

impl RouteArgs {
    fn routes(&self) -> Result<Vec<RouteConf>, AdminError> {
        let hop = self.hop.filter(|hop| *hop != -1).map(|hop| hop as u32);
        if hop == Some(0) {
            let text = "invalid hop count must be between 1 and 255";
            return Err(AdminError::new(Errno::EINVAL, text));
        }
        let gateways = nid_list(&self.gateway).map_err(|error| {
            AdminError::new(Errno::ENODEV, "cannot parse gateway").with_hint(error.to_string())
        })?;
        let route = |gateway| RouteConf {
            net: self.net,
            gateway,
            hop,
            priority: self.priority,
            health_sensitivity: self.health_sensitivity,
        };
        Ok(gateways.into_iter().map(route).collect())
    }
}

fn udsp(command: UdspCommand, context: &Context) -> Status {
    match command {
        UdspCommand::Add { src, dst, rte, priority, idx } => {
            let rule = UdspConf { idx, src, dst, rte, priority };
            context.tell(Form::Classic, "add", "udsp", &UdspAdd { rule })
        }
        UdspCommand::Del { idx, all } if idx.is_some() || all => {
            context.tell(Form::Classic, "del", "udsp", &UdspDel { idx })
        }
        UdspCommand::Del { .. } => {
            let error = AdminError::new(Errno::EINVAL, "say --idx N or --all");
            context.refuse(Form::Classic, "del", "udsp", &error)
        }
        UdspCommand::Show { idx } => {
            context.ask(Form::Classic, "show", "udsp", &UdspShow {}, |mut rules| {
                rules.retain(|rule| idx.is_none() || rule.idx == idx);
                context.show(&show::udsp_show(&rules))
            })
        }
    }
}

fn fault(action: &FaultAction, context: &Context) -> Status {
    match action {
        FaultAction::Show => 0,
        FaultAction::Add(FaultArgs { .. }) => {
            context.tell(Form::Listing, "add", "fault", &Fault {})
        }
        FaultAction::Del(FaultArgs { .. }) => {
            context.tell(Form::Listing, "del", "fault", &Fault {})
        }
        FaultAction::Reset => context.tell(Form::Listing, "reset", "fault", &Fault {}),
    }
}

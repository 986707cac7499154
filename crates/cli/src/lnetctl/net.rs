//! `lnetctl net`. Spec: lnet-admin §5.

use clap::{Subcommand, ValueEnum};
use fulmar_base::Errno;
use fulmar_control::api::{AdminError, NetAdd, NetDel, NetSet, NetShow};
use fulmar_control::config::{
    Diagnostic, Ip2NetsConf, LndConf, NetConf, NiConf, TunablesConf, cpt_list, interface_list,
    ip2nets_list,
};
use fulmar_control::show::{self, exit};
use fulmar_lnet_wire::{Net, Nid};

use super::level;
use crate::context::{Context, Form, Status};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add interfaces to a network
    Add(Box<Add>),
    /// Remove a network, or one interface of it
    Del {
        /// Network
        #[arg(short, long)]
        net: Option<Net>,
        /// Interface, by its NID
        #[arg(long)]
        nid: Option<Nid>,
        /// Interface of the network
        #[arg(short, long = "if", value_name = "IF")]
        interface: Option<String>,
    },
    /// Print networks and their interfaces
    Show {
        /// Only this network
        #[arg(short, long)]
        net: Option<Net>,
        /// How much to print: 1 statistics and tunables, 2 messages by type and health, 4 all
        #[arg(short, long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "1",
            default_value_t = 0, value_parser = level, hide_default_value = true)]
        verbose: u8,
    },
    /// Change interfaces
    Set {
        /// Interface, by its NID
        #[arg(short, long)]
        nid: Option<Nid>,
        /// All interfaces
        #[arg(short, long, conflicts_with = "nid")]
        all: bool,
        /// Health value, at most 1000; below that the interface recovers by itself
        #[arg(short = 't', long, value_name = "N", allow_negative_numbers = true)]
        health: Option<i64>,
        /// Disable interfaces, or enable them again: messages in flight are completed, and peers
        /// are notified
        #[arg(long, value_name = "WHICH", conflicts_with = "all")]
        state: Option<Switch>,
        /// Connections of each bulk kind to a peer, at most 127; 0 to choose by the speed of the link
        #[arg(short = 'm', long, value_name = "N", allow_negative_numbers = true)]
        conns_per_peer: Option<i64>,
        /// The interfaces of this network
        #[arg(short = 'i', long)]
        net: Option<Net>,
        /// Timeout of the LND, in seconds
        #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true)]
        lnd_timeout: Option<i64>,
    },
}

/// The administrative state of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    Up,
    Down,
}

#[derive(Debug, clap::Args)]
pub(super) struct Add {
    /// Network
    #[arg(short, long, conflicts_with = "nid")]
    net: Option<Net>,
    #[arg(
        short,
        long = "if",
        value_name = "IFS",
        help = "Interfaces, optionally with CPU partitions: eth0[0,1],eth1"
    )]
    interfaces: Option<String>,
    /// Use the interface that has the address of this NID
    #[arg(long)]
    nid: Option<Nid>,
    /// Rules to choose networks by the addresses of the node: 'tcp(eth0) 10.0.*.*'
    #[arg(short = 'p', long, value_name = "RULES", conflicts_with_all = ["net", "nid"])]
    ip2net: Option<String>,
    /// Peer timeout in seconds; if above 0 a router monitors its peers
    #[arg(short = 't', long, value_name = "SECONDS", allow_hyphen_values = true)]
    peer_timeout: Option<i32>,
    /// Messages in flight to one peer; 0 for the default
    #[arg(short = 'c', long, value_name = "N", allow_negative_numbers = true)]
    peer_credits: Option<i64>,
    /// Messages forwarded from one peer at once
    #[arg(short = 'b', long, value_name = "N", allow_negative_numbers = true)]
    peer_buffer_credits: Option<i64>,
    /// Messages in flight on the interface; 0 for the default
    #[arg(short = 'r', long, value_name = "N", allow_negative_numbers = true)]
    credits: Option<i64>,
    #[arg(short = 's', long, value_name = "LIST", help = "CPU partitions: [0,1]")]
    cpt: Option<String>,
    /// Connections of each bulk kind to a peer, at most 127; 0 to choose by the speed of the link
    #[arg(short = 'm', long, value_name = "N", allow_negative_numbers = true)]
    conns_per_peer: Option<i64>,
    /// Accepted and ignored: the routes of the machine are not changed
    #[arg(short = 'k', long)]
    skip_mr_route_setup: bool,
    /// IP type of service of connections, at most 255; -1 for the default
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    tos: Option<i64>,
}

impl Command {
    pub(super) fn run(self, context: &Context) -> Status {
        match self {
            Self::Add(args) => args.run(context),
            Self::Del { net: None, nid: None, .. } => {
                let error = AdminError::new(Errno::EINVAL, "interface / NID is missing")
                    .with_hint("select it: --net NET, --net NET --if IF, or --nid NID");
                context.refuse(Form::Listing, "del", "net", &error)
            }
            Self::Del { net, nid, interface } => {
                context.execute(Form::Listing, "del", "net", &NetDel { net, interface, nid })
            }
            Self::Show { net, verbose } => {
                context.query(Form::Listing, "show", "net", &NetShow { net }, |nets| {
                    if nets.is_empty() && net.is_some() {
                        let error = AdminError::new(Errno::ESRCH, "Network is down")
                            .with_hint("\"lnetctl net show\" lists the networks of this node");
                        return context.refuse(Form::Listing, "show", "net", &error);
                    }
                    context.show(&show::net_show(&nets, verbose, context.dialect))
                })
            }
            Self::Set { nid, all, health, state, conns_per_peer, net, lnd_timeout } => {
                if conns_per_peer.is_some_and(|conns| conns > CONNS_MAX) {
                    return context.reject("net", "set", CONNS_RANGE);
                }
                if let Some(descr) = wrong_timeout(lnd_timeout, net) {
                    let error = AdminError::new(Errno::EINVAL, descr);
                    return context.refuse(Form::Classic, "net", "set", &error);
                }
                if nid.is_none() && !all && net.is_none() {
                    let error =
                        AdminError::new(Errno::EINVAL, "Invalid option or missing argument")
                            .with_hint("select interfaces: --nid NID, --net NET, or --all");
                    return context.refuse(Form::Listing, "set", "net", &error);
                }
                let request = NetSet {
                    nid,
                    net,
                    health: given(health),
                    conns_per_peer: given(conns_per_peer),
                    lnd_timeout: given(lnd_timeout),
                    enabled: state.map(|switch| switch == Switch::Up),
                };
                if state.is_some() {
                    return context.execute(Form::Listing, "set", "net", &request);
                }
                let hint =
                    "there is no such interface: \"lnetctl net show\" lists those of this node";
                context.execute_if_there(("set", "net"), &request, (Errno::ENODEV, hint))
            }
        }
    }
}

/// The most connections of a bulk kind, and what the tool says to more.
const CONNS_MAX: i64 = 127;
const CONNS_RANGE: &str = "invalid conns-per-peer value (valid range 0-127)";

/// Returns a number, unless it is negative: that stands for the default, or for no change.
fn given(number: Option<i64>) -> Option<u32> {
    number.and_then(|number| u32::try_from(number).ok())
}

fn wrong_timeout(timeout: Option<i64>, net: Option<Net>) -> Option<String> {
    let timeout = timeout?;
    if timeout < 0 {
        return Some(format!("Invalid LND timeout value '{timeout}', must be >= 0"));
    }
    net.is_none().then(|| "Specified --lnd-timeout without --net option".to_owned())
}

impl Add {
    fn run(self, context: &Context) -> Status {
        if self.conns_per_peer.is_some_and(|conns| conns > CONNS_MAX) {
            return context.reject("ni", "add", CONNS_RANGE);
        }
        if self.tos.is_some_and(|tos| !(-1..=255).contains(&tos)) {
            context.reject("ni", "add", "Invalid ToS argument");
            return exit::BAD_PARAM;
        }
        match self.request() {
            Ok(request) => context.execute(Form::Listing, "add", "net", &request),
            Err(error) => context.refuse(Form::Listing, "add", "net", &error),
        }
    }

    /// Returns a request for one NI for each interface, all with the same settings.
    fn request(self) -> Result<NetAdd, AdminError> {
        let wrong = |descr: &'static str| {
            move |error: Diagnostic| AdminError::new(Errno::EINVAL, descr).with_hint(error.brief())
        };
        let cpts = self.cpt.as_deref().map(cpt_list).transpose();
        let cpts = cpts.map_err(wrong("invalid CPT set"))?;
        let mut ip2nets: Vec<Ip2NetsConf> = Vec::new();
        if let Some(rules) = &self.ip2net {
            ip2nets = ip2nets_list(rules).map_err(wrong("cannot parse net"))?;
        }
        let mut nis = match &self.interfaces {
            Some(interfaces) => {
                interface_list(interfaces).map_err(wrong("cannot parse interface"))?
            }
            None if self.nid.is_some() => vec![NiConf { nid: self.nid, ..NiConf::default() }],
            None if !ip2nets.is_empty() => Vec::new(),
            None => {
                let text = "creating a local NI needs at least one interface";
                return Err(AdminError::new(Errno::EINVAL, text)
                    .with_hint("select them: --net tcp --if eth0"));
            }
        };
        for ni in nis.iter_mut().chain(ip2nets.iter_mut().map(|entry| &mut entry.ni)) {
            ni.cpts = ni.cpts.take().or(cpts.clone());
            ni.tunables = TunablesConf {
                peer_timeout: self.peer_timeout,
                peer_credits: given(self.peer_credits),
                peer_buffer_credits: given(self.peer_buffer_credits),
                credits: given(self.credits),
            };
            ni.lnd = LndConf {
                conns_per_peer: given(self.conns_per_peer),
                tos: self.tos.map(|tos| tos as i32),
                ..LndConf::default()
            };
        }
        let nets = match self.net.or(self.nid.map(Nid::net)) {
            Some(net) => vec![NetConf { net, nis }],
            None if !ip2nets.is_empty() => Vec::new(),
            None => {
                let text = "missing mandatory parameters in NI config: 'net'";
                return Err(
                    AdminError::new(Errno::EINVAL, text).with_hint("select a network: --net tcp")
                );
            }
        };
        Ok(NetAdd { nets, ip2nets })
    }
}

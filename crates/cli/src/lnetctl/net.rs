//! `lnetctl net`. Spec: lnet-admin §5.

use clap::{Subcommand, ValueEnum};
use fulmar_base::Errno;
use fulmar_control::api::{AdminError, NetAdd, NetDel, NetSet, NetShow};
use fulmar_control::config::{
    Diagnostic, Ip2NetsConf, LndConf, NetConf, NiConf, TunablesConf, cpt_list, interface_list,
    ip2nets_list,
};
use fulmar_control::show;
use fulmar_lnet_wire::{Net, Nid};

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
            default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=4),
            hide_default_value = true)]
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
        #[arg(short = 't', long, value_name = "N")]
        health: Option<u32>,
        /// Disable interfaces, or enable them again: messages in flight are completed, and peers
        /// are notified
        #[arg(long, value_name = "WHICH", conflicts_with = "all")]
        state: Option<Switch>,
        /// Connections of each bulk kind to a peer; 0 to choose by the speed of the link
        #[arg(short = 'm', long, value_name = "N",
            value_parser = clap::value_parser!(u32).range(0..=127))]
        conns_per_peer: Option<u32>,
        /// The interfaces of this network
        #[arg(short = 'i', long)]
        net: Option<Net>,
        /// Timeout of the LND, in seconds
        #[arg(short, long, value_name = "SECONDS", requires = "net")]
        lnd_timeout: Option<u32>,
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
    /// Messages in flight to one peer
    #[arg(short = 'c', long, value_name = "N")]
    peer_credits: Option<u32>,
    /// Messages forwarded from one peer at once
    #[arg(short = 'b', long, value_name = "N")]
    peer_buffer_credits: Option<u32>,
    /// Messages in flight on the interface
    #[arg(short = 'r', long, value_name = "N")]
    credits: Option<u32>,
    #[arg(short = 's', long, value_name = "LIST", help = "CPU partitions: [0,1]")]
    cpt: Option<String>,
    /// Connections of each bulk kind to a peer; 0 to choose by the speed of the link
    #[arg(short = 'm', long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(0..=127))]
    conns_per_peer: Option<u32>,
    /// Accepted and ignored: the routes of the machine are not changed
    #[arg(short = 'k', long)]
    skip_mr_route_setup: bool,
    /// IP type of service; -1 for the default
    #[arg(long, value_name = "N", allow_hyphen_values = true,
        value_parser = clap::value_parser!(i32).range(-1..=255))]
    tos: Option<i32>,
}

impl Command {
    pub(super) fn run(self, context: &Context) -> Status {
        match self {
            Self::Add(args) => match args.request() {
                Ok(request) => context.execute(Form::Listing, "add", "net", &request),
                Err(error) => context.refuse(Form::Listing, "add", "net", &error),
            },
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
                if nid.is_none() && !all && net.is_none() {
                    let error =
                        AdminError::new(Errno::EINVAL, "Invalid option or missing argument")
                            .with_hint("select interfaces: --nid NID, --net NET, or --all");
                    return context.refuse(Form::Listing, "set", "net", &error);
                }
                let enabled = state.map(|switch| switch == Switch::Up);
                let request = NetSet { nid, net, health, conns_per_peer, lnd_timeout, enabled };
                context.execute(Form::Listing, "set", "net", &request)
            }
        }
    }
}

impl Add {
    /// Returns a request for one NI for each interface, all with the same settings.
    fn request(self) -> Result<NetAdd, AdminError> {
        let wrong = |descr: &'static str| {
            move |error: Diagnostic| {
                AdminError::new(Errno::EINVAL, descr).with_hint(error.to_string())
            }
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
                peer_credits: self.peer_credits,
                peer_buffer_credits: self.peer_buffer_credits,
                credits: self.credits,
            };
            ni.lnd = LndConf {
                conns_per_peer: self.conns_per_peer,
                tos: self.tos,
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

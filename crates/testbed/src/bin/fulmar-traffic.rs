//! `fulmar-traffic`: the processes of [`fulmar_testbed::traffic`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use fulmar_lnet::RouteConfig;
use fulmar_lnet_wire::{Net, Nid};
use fulmar_testbed::traffic::{self, Endpoint, SIZES, Work};

/// Send PUTs and GETs between processes, and report the progress
///
/// Tests and benchmarks run this in their hosts.
#[derive(Debug, Parser)]
#[command(name = "fulmar-traffic")]
struct Args {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, clap::Subcommand)]
enum Part {
    /// Offer memory until standard input ends
    Serve {
        #[command(flatten)]
        endpoint: EndpointArgs,
    },
    /// Send PUTs and GETs until standard input ends
    Load {
        #[command(flatten)]
        endpoint: EndpointArgs,
        /// NID of the serving node
        #[arg(long)]
        to: Nid,
        /// Messages in flight at once
        #[arg(long, default_value_t = 64)]
        window: usize,
        /// Lengths of the messages, in rotation
        #[arg(long, value_delimiter = ',', default_values_t = SIZES)]
        sizes: Vec<usize>,
        /// Only PUTs
        #[arg(long, conflicts_with = "gets")]
        puts: bool,
        /// Only GETs
        #[arg(long)]
        gets: bool,
    },
    /// Let a node at each NID send PUTs at once
    Flood {
        #[command(flatten)]
        endpoint: EndpointArgs,
        /// NID of the serving node
        #[arg(long)]
        to: Nid,
        /// How many 1 MiB PUTs each node sends
        #[arg(long, default_value_t = 8)]
        each: usize,
    },
}

#[derive(Debug, clap::Args)]
struct EndpointArgs {
    /// A NID of this node
    #[arg(long = "nid", required = true, value_delimiter = ',')]
    nids: Vec<Nid>,
    /// A route to another network, such as tcp1=10.1.0.254@tcp
    #[arg(long = "route", value_parser = route)]
    routes: Vec<RouteConfig>,
    /// Messages in flight to each NID of a peer
    #[arg(long)]
    peer_credits: Option<u32>,
    /// Timeout of an answer
    #[arg(long)]
    transaction_timeout: Option<u32>,
    /// Connections of each bulk kind to a peer; 0 to choose by the link
    #[arg(long, default_value_t = 0)]
    conns_per_peer: u32,
}

impl From<EndpointArgs> for Endpoint {
    fn from(args: EndpointArgs) -> Self {
        let EndpointArgs { nids, routes, peer_credits, transaction_timeout, conns_per_peer } = args;
        Self { nids, routes, peer_credits, transaction_timeout, conns_per_peer }
    }
}

fn route(text: &str) -> Result<RouteConfig, String> {
    let (net, gateway) = text.split_once('=').ok_or("write it as NET=GATEWAY")?;
    let net: Net = net.parse().map_err(|error| format!("{error}"))?;
    let gateway: Nid = gateway.parse().map_err(|error| format!("{error}"))?;
    Ok(RouteConfig::new(net, gateway))
}

fn main() -> ExitCode {
    let done = match Args::parse().part {
        Part::Serve { endpoint } => traffic::serve(&endpoint.into()),
        Part::Load { endpoint, to, window, sizes, puts, gets } => {
            let (puts, gets) = if puts || gets { (puts, gets) } else { (true, true) };
            let work = Work { target: to, sizes, puts, gets, window };
            traffic::load(&endpoint.into(), &work)
        }
        Part::Flood { endpoint, to, each } => traffic::flood(&endpoint.into(), to, each),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fulmar-traffic: {error}");
            ExitCode::FAILURE
        }
    }
}

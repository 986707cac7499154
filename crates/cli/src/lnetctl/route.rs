//! `lnetctl route`. Spec: lnet-admin §7.

use clap::Subcommand;
use fulmar_base::Errno;
use fulmar_control::api::{AdminError, RouteAdd, RouteDel, RouteShow};
use fulmar_control::config::{RouteConf, nid_list};
use fulmar_control::show::{self, Route, exit};
use fulmar_lnet_wire::{Net, Nid};

use crate::context::{Context, Form, Status, print};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add routes to a network, one by each gateway
    Add(Box<Which>),
    /// Remove routes to a network
    Del(Box<Which>),
    /// Print the routes
    Show(Show),
}

#[derive(Debug, clap::Args)]
pub(super) struct Which {
    /// Network to which the routes lead
    #[arg(short, long)]
    net: Option<Net>,
    /// Routers on a network of this node, such as 10.0.0.[1-4]@tcp
    #[arg(short, long, value_name = "NIDS")]
    gateway: Option<String>,
    /// How many routers a message passes, 1 to 255; -1 if nobody knows
    #[arg(
        short = 'c',
        long,
        visible_alias = "hop-count",
        value_name = "N",
        allow_hyphen_values = true
    )]
    hop: Option<i64>,
    /// Smaller is preferred
    #[arg(short, long, value_name = "N", allow_hyphen_values = true, default_value_t = 0)]
    priority: i64,
    /// Taken and ignored: what counts is set for all by "lnetctl set router_sensitivity"
    #[arg(
        long = "health_sensitivity",
        alias = "health-sensitivity",
        value_name = "N",
        hide = true
    )]
    health_sensitivity: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// To this network alone
    #[arg(short, long)]
    net: Option<Net>,
    /// Through this gateway alone
    #[arg(short, long, value_name = "NID")]
    gateway: Option<Nid>,
    /// Over so many routers alone
    #[arg(
        short = 'c',
        long,
        visible_alias = "hop-count",
        value_name = "N",
        allow_hyphen_values = true
    )]
    hop: Option<i64>,
    /// Of this priority alone
    #[arg(short, long, value_name = "N")]
    priority: Option<u32>,
    /// How much to print: 1 hops, priority and state, 4 messages and latencies too
    #[arg(short, long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "1",
        default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=4),
        hide_default_value = true)]
    verbose: u8,
}

impl Command {
    pub(super) fn run(self, context: &Context) -> Status {
        match self {
            Self::Add(which) => match which.missing() {
                Some(status) => status,
                None => match which.routes() {
                    Ok(routes) => context.tell(Form::Listing, "add", "route", &RouteAdd { routes }),
                    Err(error) => context.refuse(Form::Listing, "add", "route", &error),
                },
            },
            Self::Del(which) => match which.missing() {
                Some(status) => status,
                None => match which.routes() {
                    Ok(routes) => context.tell(Form::Listing, "del", "route", &RouteDel { routes }),
                    Err(error) => context.refuse(Form::Listing, "del", "route", &error),
                },
            },
            Self::Show(show) => {
                context.ask(Form::Listing, "show", "route", &RouteShow {}, |mut routes| {
                    routes.retain(|route| show.shows(route));
                    context.show(&show::route_show(&routes, show.verbose))
                })
            }
        }
    }
}

impl Show {
    fn shows(&self, route: &Route) -> bool {
        let hop = route.hop.map_or(-1, i64::from);
        self.net.is_none_or(|net| net == route.net)
            && self.gateway.is_none_or(|nid| nid == route.gateway)
            && self.hop.is_none_or(|wanted| wanted == hop)
            && self.priority.is_none_or(|wanted| wanted == route.priority)
    }
}

impl Which {
    /// Tells what was left out, where the tools tell it.
    fn missing(&self) -> Option<Status> {
        let left_out = [("net", self.net.is_none()), ("gateway", self.gateway.is_none())];
        let names: Vec<&str> =
            left_out.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        if names.is_empty() {
            return None;
        }
        print(&format!("missing mandatory parameters:'{}'\n", names.join(" , ")));
        Some(exit::BAD_PARAM)
    }

    fn routes(&self) -> Result<Vec<RouteConf>, AdminError> {
        let (Some(net), Some(gateways)) = (self.net, &self.gateway) else {
            unreachable!("it was looked for before")
        };
        let hop = match self.hop {
            None | Some(-1) => None,
            Some(hop) => {
                Some(u32::try_from(hop).ok().filter(|hop| (1..=255).contains(hop)).ok_or(
                    AdminError::new(Errno::EINVAL, "invalid hop count must be between 1 and 255"),
                )?)
            }
        };
        let priority = u32::try_from(self.priority).map_err(|_| {
            AdminError::new(Errno::EINVAL, "invalid priority, must not be negative")
        })?;
        let gateways = nid_list(gateways).map_err(|error| {
            AdminError::new(Errno::ENODEV, "cannot parse gateway").with_hint(error.to_string())
        })?;
        if net == Net::LOOPBACK || gateways.contains(&Nid::LOOPBACK) {
            return Err(AdminError::new(Errno::EACCES, "setting @lo not allowed"));
        }
        let health_sensitivity = self.health_sensitivity;
        let route = |gateway| RouteConf { net, gateway, hop, priority, health_sensitivity };
        Ok(gateways.into_iter().map(route).collect())
    }
}

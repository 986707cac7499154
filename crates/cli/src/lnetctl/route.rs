//! `lnetctl route`. Spec: lnet-admin §7.

use clap::Subcommand;
use fulmar_base::Errno;
use fulmar_control::api::{AdminError, RouteAdd, RouteDel, RouteShow};
use fulmar_control::config::{RouteConf, nid_list};
use fulmar_control::show::{self, Route, exit};
use fulmar_lnet_wire::{Net, Nid};

use super::level;
use crate::context::{Context, Form, Status, print};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add routes to a network, one for each gateway
    Add(Box<RouteArgs>),
    /// Remove routes to a network
    Del(Box<RouteArgs>),
    /// Print the routes
    Show(Show),
}

#[derive(Debug, clap::Args)]
pub(super) struct RouteArgs {
    /// Network that the routes lead to
    #[arg(short, long)]
    net: Option<Net>,
    /// Routers on a network of this node, such as 10.0.0.[1-4]@tcp
    #[arg(short, long, value_name = "NIDS")]
    gateway: Option<String>,
    /// How many routers a message passes through, 1 to 255; -1 if unknown
    #[arg(
        short = 'c',
        long,
        visible_alias = "hop-count",
        value_name = "N",
        allow_hyphen_values = true
    )]
    hop: Option<i64>,
    /// Lower is preferred
    #[arg(short, long, value_name = "N", allow_hyphen_values = true, default_value_t = 0)]
    priority: i64,
    /// What a failure takes from the health of the routers, instead of the value of the node
    #[arg(long = "health_sensitivity", alias = "health-sensitivity", value_name = "N")]
    health_sensitivity: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// Only routes to this network
    #[arg(short, long)]
    net: Option<Net>,
    /// Only routes through this gateway
    #[arg(short, long, value_name = "NID")]
    gateway: Option<Nid>,
    /// Only routes with this hop count
    #[arg(
        short = 'c',
        long,
        visible_alias = "hop-count",
        value_name = "N",
        allow_hyphen_values = true
    )]
    hop: Option<i64>,
    /// Only routes of this priority
    #[arg(short, long, value_name = "N")]
    priority: Option<u32>,
    /// How much to print: 1 hops, priority and state, 4 messages and latencies too
    #[arg(short, long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "1",
        default_value_t = 0, value_parser = level, hide_default_value = true)]
    verbose: u8,
}

impl Command {
    pub(super) fn run(self, context: &Context) -> Status {
        match self {
            Self::Add(which) => match which.missing("add", context) {
                Some(status) => status,
                None => match which.routes() {
                    Ok(routes) => {
                        context.execute(Form::Listing, "add", "route", &RouteAdd { routes })
                    }
                    Err(error) => context.refuse(Form::Listing, "add", "route", &error),
                },
            },
            Self::Del(which) => match which.missing("del", context) {
                Some(status) => status,
                None => match which.routes() {
                    Ok(routes) => {
                        let hint = "there is no such route: \"lnetctl route show\" lists them";
                        let absent = (Errno::ENOENT, hint);
                        context.execute_if_there(("del", "route"), &RouteDel { routes }, absent)
                    }
                    Err(error) => context.refuse(Form::Listing, "del", "route", &error),
                },
            },
            Self::Show(show) => {
                context.query(Form::Listing, "show", "route", &RouteShow {}, |mut routes| {
                    routes.retain(|route| show.shows(route));
                    context.show(&show::route_show(&routes, show.verbose))
                })
            }
        }
    }
}

impl Show {
    fn shows(&self, route: &Route) -> bool {
        let hop = route.hops.map_or(-1, i64::from);
        self.net.is_none_or(|net| net == route.net)
            && self.gateway.is_none_or(|nid| nid == route.gateway)
            && self.hop.is_none_or(|wanted| wanted == hop)
            && self.priority.is_none_or(|wanted| wanted == route.priority)
    }
}

impl RouteArgs {
    /// Reports missing parameters in the words of the kernel tools.
    fn missing(&self, op: &str, context: &Context) -> Option<Status> {
        let left_out = [("net", self.net.is_none()), ("gateway", self.gateway.is_none())];
        let names: Vec<&str> =
            left_out.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        if names.is_empty() {
            return None;
        }
        let text = format!("missing mandatory parameters:'{}'\n", names.join(" , "));
        if context.json {
            context.tell(op, "route", &text, Errno::EINVAL)
        } else {
            print(&text);
        }
        Some(exit::BAD_PARAM)
    }

    fn routes(&self) -> Result<Vec<RouteConf>, AdminError> {
        let (Some(net), Some(gateways)) = (self.net, &self.gateway) else {
            unreachable!("checked by missing()")
        };
        let hop = match self.hop {
            None | Some(-1) => None,
            Some(hop) => {
                Some(u32::try_from(hop).ok().filter(|hop| (1..=255).contains(hop)).ok_or(
                    AdminError::new(Errno::EINVAL, "invalid hop count must be between 1 and 255"),
                )?)
            }
        };
        // -1 is the number of Lustre's tool for none.
        let priority = if self.priority == -1 { 0 } else { self.priority };
        let priority = u32::try_from(priority).map_err(|_| {
            AdminError::new(Errno::EINVAL, "invalid priority, must not be negative")
        })?;
        let gateways = nid_list(gateways).map_err(|error| {
            AdminError::new(Errno::ENODEV, "cannot parse gateway").with_hint(error.brief())
        })?;
        if net == Net::LOOPBACK || gateways.contains(&Nid::LOOPBACK) {
            return Err(AdminError::new(Errno::EACCES, "setting @lo not allowed"));
        }
        let health_sensitivity = self.health_sensitivity;
        let route = |gateway| RouteConf { net, gateway, hop, priority, health_sensitivity };
        Ok(gateways.into_iter().map(route).collect())
    }
}

//! The errors of routes and routing for administrators. Spec: lnet-admin §2, lnet-behaviour §8.1.

use fulmar_base::Errno;

use super::error::AdminError;
use crate::config::RouteConf;

impl AdminError {
    /// Returns the error of adding a route.
    pub fn route_add(errno: Errno, route: &RouteConf) -> Self {
        let RouteConf { net, gateway, .. } = route;
        let (descr, hint) = match errno {
            Errno::EEXIST => (
                "Route already exists or the specified network is local",
                "\"lnetctl route show\" lists the routes, \"lnetctl net show\" the networks",
            ),
            Errno::EHOSTUNREACH => (
                "No interface configured on the same net as gateway",
                "\"lnetctl net show\" lists the possible networks of a gateway",
            ),
            Errno::EINVAL => (
                "invalid settings for route creation",
                "a gateway is a NID of another node, on another network than the target network; \
                 hops are 1 to 255",
            ),
            Errno::EPERM => (
                "failed to create route",
                "that NID is this node's own: to make this node a router, use \
                 \"lnetctl set routing 1\"",
            ),
            Errno::ESHUTDOWN => ("Network is down", "the node is stopping"),
            _ => ("failed to create route", "see the node's log"),
        };
        Self::new(errno, descr).with_hint(format!("{net} by {gateway}: {hint}"))
    }

    /// Returns the error of removing a route.
    pub fn route_del(errno: Errno, route: &RouteConf) -> Self {
        let RouteConf { net, gateway, .. } = route;
        let hint = match errno {
            Errno::ENOENT => "there is no such route: \"lnetctl route show\" lists them",
            _ => "see the node's log",
        };
        Self::new(errno, "failed to delete route").with_hint(format!("{net} by {gateway}: {hint}"))
    }

    /// Returns the error of changing the routing settings; `what` is a name of `lnetctl set`.
    pub fn routing(errno: Errno, what: &str) -> Self {
        let error = Self::new(errno, format!("cannot configure {what}: {errno}"));
        match errno {
            Errno::EBUSY => error.with_hint(
                "the node is about to stop forwarding: try again when \"lnetctl routing show -v\" \
                 shows disabled",
            ),
            Errno::EINVAL => error.with_hint("a router needs at least one buffer of each size"),
            _ => error,
        }
    }
}

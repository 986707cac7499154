//! What an administrator is told of routes that cannot be had. Spec: lnet-admin §2,
//! lnet-behaviour §8.1.

use fulmar_base::Errno;

use super::operations::AdminError;
use crate::config::RouteConf;

impl AdminError {
    /// Says why a route was not added.
    pub fn route_add(errno: Errno, route: &RouteConf) -> Self {
        let RouteConf { net, gateway, .. } = route;
        let (descr, hint) = match errno {
            Errno::EEXIST => (
                "Route already exists or the specified network is local",
                "\"lnetctl route show\" lists the routes, \"lnetctl net show\" the networks",
            ),
            Errno::EHOSTUNREACH => (
                "No interface configured on the same net as gateway",
                "\"lnetctl net show\" lists the networks on which a gateway can be",
            ),
            Errno::EINVAL => (
                "invalid settings for route creation",
                "a gateway is a NID of another node, on another network than the one behind it; \
                 hops are 1 to 255",
            ),
            Errno::EPERM => (
                "failed to create route",
                "that NID is this node's own: a gateway is another node, and \"lnetctl set routing \
                 1\" makes a router of this one",
            ),
            Errno::ESHUTDOWN => ("Network is down", "the node is stopping"),
            _ => ("failed to create route", "the node's log may say more"),
        };
        Self::new(errno, descr).with_hint(format!("{net} by {gateway}: {hint}"))
    }

    /// Says why a route was not removed.
    pub fn route_del(errno: Errno, route: &RouteConf) -> Self {
        let RouteConf { net, gateway, .. } = route;
        let hint = match errno {
            Errno::ENOENT => "there is no such route: \"lnetctl route show\" lists them",
            _ => "the node's log may say more",
        };
        Self::new(errno, "failed to delete route").with_hint(format!("{net} by {gateway}: {hint}"))
    }

    /// Says why the node does not change as a router; `what` is a word of `lnetctl set`.
    pub fn routing(errno: Errno, what: &str) -> Self {
        let error = Self::new(errno, format!("cannot configure {what}: {errno}"));
        match errno {
            Errno::EBUSY => error.with_hint(
                "the node is about to stop forwarding: try again when \"lnetctl routing show -v\" \
                 says disabled",
            ),
            Errno::EINVAL => error.with_hint("a router needs at least one buffer of each size"),
            _ => error,
        }
    }
}

//! Networks with routers between them.

pub mod forward;
pub mod groups;
pub mod haproxy;
pub mod path;
pub mod senders;

use crate::lab::{Host, Lab, Node, Rate, Settings};

/// A client, a router and a server in a row: `tcp` before the router, `tcp1` behind it.
#[derive(Debug)]
pub struct Row {
    /// On `tcp`.
    pub client: Host,
    /// On both.
    pub router: Host,
    /// On `tcp1`.
    pub server: Host,
}

/// The NIDs of a [`Row`].
pub const CLIENT: &str = "10.1.0.1@tcp";
/// The NID of the router on the side of the client.
pub const FRONT: &str = "10.1.0.254@tcp";
/// The NID of the router on the side of the server.
pub const BACK: &str = "10.2.0.254@tcp1";
/// See [`CLIENT`].
pub const SERVER: &str = "10.2.0.1@tcp1";

impl Row {
    /// Creates the network.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new(lab: &Lab) -> Result<Self, String> {
        let (client, router) = (lab.host("client")?, lab.host("router")?);
        let server = lab.host("server")?;
        join((&client, "eth0"), (&router, "eth0"), ["10.1.0.1/16", "10.1.0.254/16"], None)?;
        join((&router, "eth1"), (&server, "eth0"), ["10.2.0.254/16", "10.2.0.1/16"], None)?;
        Ok(Self { client, router, server })
    }

    /// Starts the router.
    ///
    /// # Errors
    /// Why the router does not start.
    pub fn route(&self, lab: &Lab, settings: Settings) -> Result<Node, String> {
        lab.node(&self.router, &settings.router())
    }

    /// The networks of the router.
    pub fn networks() -> Settings {
        Settings::networks("tcp(eth0),tcp1(eth1)")
    }
}

/// Connects two hosts by a cable with addresses at both ends, and limits both if requested.
fn join(
    near: (&Host, &str),
    far: (&Host, &str),
    addresses: [&str; 2],
    rate: Option<Rate>,
) -> Result<(), String> {
    near.0.cable(near.1, far)?;
    for ((host, interface), address) in [near, far].into_iter().zip(addresses) {
        host.address(interface, address)?;
        if let Some(rate) = rate {
            host.limit(interface, rate)?;
        }
    }
    Ok(())
}

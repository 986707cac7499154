//! Switches, whose ports can silently lose all packets.

use super::{Host, Rate};

/// A host that only forwards frames between its ports.
#[derive(Clone, Debug)]
pub struct Switch(Host);

/// The interface that the ports belong to.
const BRIDGE: &str = "bridge";

impl Switch {
    pub(super) fn new(host: Host) -> Result<Self, String> {
        host.ip(&["link", "add", BRIDGE, "type", "bridge"])?;
        host.ip(&["link", "set", BRIDGE, "up"])?;
        Ok(Self(host))
    }

    /// Connects an interface of a host by a cable to a port of the switch that is named after them,
    /// and limits both ends.
    ///
    /// # Errors
    /// The error of the system.
    pub fn connect(&self, host: &Host, interface: &str, rate: Option<Rate>) -> Result<(), String> {
        let port = port(host, interface);
        host.cable(interface, (&self.0, &port))?;
        self.0.ip(&["link", "set", &port, "master", BRIDGE])?;
        match rate {
            Some(rate) => host.limit(interface, rate).and_then(|()| self.0.limit(&port, rate)),
            None => Ok(()),
        }
    }

    /// Makes the port of an interface lose all frames in both directions, or forward them again.
    /// The carrier stays, so that neither end is notified.
    ///
    /// # Errors
    /// The error of the system.
    pub fn set_silent(&self, host: &Host, interface: &str, silent: bool) -> Result<(), String> {
        // The states of a port in the spanning tree: disabled, and forwarding.
        let state = if silent { "0" } else { "3" };
        self.0
            .run("bridge", &["link", "set", "dev", &port(host, interface), "state", state])
            .map(drop)
    }
}

/// Returns the name of the port of an interface.
fn port(host: &Host, interface: &str) -> String {
    format!("{}-{interface}", host.name())
}

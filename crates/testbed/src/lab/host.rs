//! Hosts and the cables between them.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use fulmar_link::{LinkError, Namespace, Rate};

/// A network namespace with interfaces. Clones are the same host.
#[derive(Clone, Debug)]
pub struct Host {
    name: String,
    namespace: Arc<Namespace>,
    /// Routes to set again when a link comes up: the kernel removes them with the link.
    routes: Arc<Mutex<Vec<PolicyRoute>>>,
}

/// Policy route: packets from an address leave by its own interface.
#[derive(Clone, Debug)]
struct PolicyRoute {
    interface: String,
    network: String,
    table: String,
}

impl Host {
    pub(super) fn new(namespace: Arc<Namespace>, name: &str) -> Result<Self, String> {
        let this = Self { name: name.to_owned(), namespace, routes: Arc::default() };
        // The manual of Lustre requires this of a host with two interfaces in one network: each
        // answers only for its own addresses, and accepts packets that could have arrived at the
        // other.
        for (setting, value) in [
            ("conf/all/rp_filter", "0"),
            ("conf/default/rp_filter", "0"),
            ("conf/all/arp_ignore", "1"),
            ("conf/all/arp_announce", "2"),
        ] {
            this.run("sh", &["-c", &format!("echo {value} >/proc/sys/net/ipv4/{setting}")])?;
        }
        Ok(this)
    }

    /// Returns the name given at creation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the network namespace.
    pub fn namespace(&self) -> &str {
        self.namespace.name()
    }

    /// Returns the network namespace.
    pub(super) fn shared(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    /// Connects `interface` of this host and an interface of another by a cable. Both are up.
    ///
    /// # Errors
    /// The error of the system.
    pub fn cable(&self, interface: &str, to: (&Self, &str)) -> Result<(), String> {
        let (other, their) = to;
        self.namespace.cable(interface, (&other.namespace, their)).map_err(text)
    }

    /// Adds an address such as `10.1.0.1/24` to an interface.
    ///
    /// # Errors
    /// The error of the system.
    pub fn address(&self, interface: &str, address: &str) -> Result<(), String> {
        self.namespace.add_address(interface, address).map_err(text)
    }

    /// Makes packets from `address` leave by `interface`, although another interface is in the same
    /// `network`. Each call needs another number `table`.
    ///
    /// # Errors
    /// The error of the system.
    pub fn leave_by(
        &self,
        interface: &str,
        (address, network): (IpAddr, &str),
        table: u32,
    ) -> Result<(), String> {
        let (address, table) = (address.to_string(), table.to_string());
        self.ip(&["rule", "add", "from", &address, "lookup", &table])?;
        let network = network.to_owned();
        let route = PolicyRoute { interface: interface.to_owned(), network, table };
        self.set_route(&route)?;
        self.routes.lock().unwrap_or_else(PoisonError::into_inner).push(route);
        Ok(())
    }

    fn set_route(&self, route: &PolicyRoute) -> Result<(), String> {
        let PolicyRoute { interface, network, table } = route;
        self.ip(&["route", "replace", network, "dev", interface, "table", table])
    }

    /// Limits the sending rate of an interface.
    ///
    /// # Errors
    /// The error of the system.
    pub fn limit(&self, interface: &str, rate: Rate) -> Result<(), String> {
        let bits = format!("{}bit", rate.bits());
        // A burst holds whole segments of TCP offload, which would otherwise be split into frames;
        // the queue can hold the windows of all senders that meet at a switch.
        let burst = (rate.bits() / 8 / 1000).max(256 << 10).to_string();
        let words = ["qdisc", "replace", "dev", interface, "root", "tbf", "rate", &bits];
        let rest = ["burst", &burst, "latency", "50ms"];
        self.run("tc", &[&words[..], &rest].concat()).map(drop)
    }

    /// Sets an interface down, as when a cable is cut, or up again.
    ///
    /// # Errors
    /// The error of the system.
    pub fn set_link(&self, interface: &str, up: bool) -> Result<(), String> {
        self.ip(&["link", "set", interface, if up { "up" } else { "down" }])?;
        if up {
            self.namespace.wait_for_carrier(interface).map_err(text)?;
            let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
            for route in routes.iter().filter(|route| route.interface == interface) {
                self.set_route(route)?;
            }
        }
        Ok(())
    }

    /// Runs `ip` with these arguments on the host.
    ///
    /// # Errors
    /// The output of the program.
    pub fn ip(&self, words: &[&str]) -> Result<(), String> {
        self.namespace.ip(words).map(drop).map_err(text)
    }

    /// Runs a program on the host and returns its output.
    ///
    /// # Errors
    /// The output of the program, if it failed.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String, String> {
        self.namespace.run(program, args).map_err(text)
    }

    /// Runs `work` on the host, in this thread. Threads started by it stay there.
    ///
    /// # Errors
    /// Fails if this thread cannot enter the namespace.
    pub fn inside<R>(&self, work: impl FnOnce() -> R) -> Result<R, String> {
        let _visit = self.namespace.visit().map_err(text)?;
        Ok(work())
    }

    /// Returns a command that runs a program on the host. The program is killed when the thread
    /// that started it ends.
    pub fn command(&self, program: &Path) -> Command {
        self.namespace.command(program)
    }
}

fn text(error: LinkError) -> String {
    error.to_string()
}

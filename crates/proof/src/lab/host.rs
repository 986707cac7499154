//! Hosts and the cables between them.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use super::namespace::Namespace;

/// What a link carries at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(u64);

impl Rate {
    /// So many million bits per second.
    pub const fn megabits(megabits: u64) -> Self {
        Self(megabits * 1_000_000)
    }

    /// Returns bits per second.
    pub fn bits(self) -> u64 {
        self.0
    }
}

/// A network namespace with interfaces. Clones are the same host.
#[derive(Clone, Debug)]
pub struct Host {
    name: String,
    namespace: Arc<Namespace>,
    /// What must be said again when a link comes back: the kernel forgets routes with it.
    routes: Arc<Mutex<Vec<PolicyRoute>>>,
}

/// Packets from an address leave by its own interface.
#[derive(Clone, Debug)]
struct PolicyRoute {
    interface: String,
    network: String,
    table: String,
}

impl Host {
    pub(super) fn new(namespace: String, name: &str) -> Result<Self, String> {
        let namespace = Arc::new(Namespace::new(namespace)?);
        let this = Self { name: name.to_owned(), namespace, routes: Arc::default() };
        // What Lustre's manual asks of a host with two interfaces in one network: each answers for
        // its own addresses only, and takes packets that could have come by the other.
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

    /// Returns the name that it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the network namespace.
    pub fn namespace(&self) -> &str {
        self.namespace.name()
    }

    /// Lays a cable from `interface` of this host to an interface of another. Both are up.
    ///
    /// # Errors
    /// What the system refused.
    pub fn cable(&self, interface: &str, to: (&Self, &str)) -> Result<(), String> {
        let (other, their) = to;
        super::namespace::ip(&[
            "link",
            "add",
            interface,
            "netns",
            self.namespace(),
            "type",
            "veth",
            "peer",
            "name",
            their,
            "netns",
            other.namespace(),
        ])?;
        self.ip(&["link", "set", interface, "up"])?;
        other.ip(&["link", "set", their, "up"])?;
        // The kernel notices a little later that both ends are there.
        self.wait_for_carrier(interface).and_then(|()| other.wait_for_carrier(their))
    }

    fn wait_for_carrier(&self, interface: &str) -> Result<(), String> {
        let state = format!("/sys/class/net/{interface}/operstate");
        let script =
            "for _ in $(seq 500); do [ \"$(cat $0)\" = up ] && exit; sleep 0.01; done; exit 1";
        self.run("sh", &["-c", script, &state]).map(drop)
    }

    /// Gives an address such as `10.1.0.1/24` to an interface.
    ///
    /// # Errors
    /// What the system refused.
    pub fn address(&self, interface: &str, address: &str) -> Result<(), String> {
        // An IPv6 address could not be used before others have been asked whether it is theirs.
        let last = if address.contains(':') { &["nodad"][..] } else { &[] };
        self.ip(&[&["address", "add", address, "dev", interface], last].concat())
    }

    /// Lets packets from `address` leave by `interface`, although another interface is in the same
    /// `network`. Number `table` is free to choose, and to be chosen once.
    ///
    /// # Errors
    /// What the system refused.
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
        self.say(&route)?;
        self.routes.lock().unwrap_or_else(PoisonError::into_inner).push(route);
        Ok(())
    }

    fn say(&self, route: &PolicyRoute) -> Result<(), String> {
        let PolicyRoute { interface, network, table } = route;
        self.ip(&["route", "replace", network, "dev", interface, "table", table])
    }

    /// Limits what an interface sends.
    ///
    /// # Errors
    /// What the system refused.
    pub fn limit(&self, interface: &str, rate: Rate) -> Result<(), String> {
        let bits = format!("{}bit", rate.bits());
        // A burst takes whole segments of TCP offload, which would be cut to frames otherwise; the
        // queue is deep enough for what senders that meet at a switch have in their windows.
        let burst = (rate.bits() / 8 / 1000).max(256 << 10).to_string();
        let words = ["qdisc", "replace", "dev", interface, "root", "tbf", "rate", &bits];
        let rest = ["burst", &burst, "latency", "50ms"];
        self.run("tc", &[&words[..], &rest].concat()).map(drop)
    }

    /// Takes an interface down, as a cable that is cut, or up again.
    ///
    /// # Errors
    /// What the system refused.
    pub fn set_link(&self, interface: &str, up: bool) -> Result<(), String> {
        self.ip(&["link", "set", interface, if up { "up" } else { "down" }])?;
        if up {
            self.wait_for_carrier(interface)?;
            let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
            for route in routes.iter().filter(|route| route.interface == interface) {
                self.say(route)?;
            }
        }
        Ok(())
    }

    /// Runs `ip` with these words on the host.
    ///
    /// # Errors
    /// What it said.
    pub fn ip(&self, words: &[&str]) -> Result<(), String> {
        self.namespace.ip(words)
    }

    /// Runs a program on the host and returns what it printed.
    ///
    /// # Errors
    /// What it said, if it failed.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String, String> {
        self.namespace.run(program, args)
    }

    /// Does something on the host, in this thread. Threads that it starts stay there.
    ///
    /// # Errors
    /// If this thread cannot go there.
    pub fn inside<R>(&self, work: impl FnOnce() -> R) -> Result<R, String> {
        let _visit = self.namespace.visit()?;
        Ok(work())
    }

    /// Returns a command that runs a program on the host. The program is killed when the thread
    /// that started it ends.
    pub fn command(&self, program: &Path) -> Command {
        self.namespace.command(program)
    }
}

//! Hosts with two rails: both are used at once, and one of them may fail.

pub mod cut;
pub mod series;
pub mod two_rails;

use std::net::{IpAddr, Ipv4Addr};

use crate::lab::{Host, Lab, Rate, Settings, Switch};

/// The networks of two rails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nets {
    /// One network, in which every node has two interfaces: `tcp(eth0,eth1)`.
    One,
    /// Two networks, each with one interface of every node: `tcp(eth0),tcp1(eth1)`.
    Two,
}

/// The interfaces of every host.
pub const RAILS: [&str; 2] = ["eth0", "eth1"];

/// Hosts that are connected by two rails.
#[derive(Debug)]
pub struct Rails {
    nets: Nets,
    /// One for each rail; in one network both are the same.
    switches: [Switch; 2],
    hosts: Vec<Host>,
    /// Last, so that it is dropped last.
    lab: Lab,
}

impl Rails {
    /// Creates hosts of these names, each with an interface on both rails.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new(lab: Lab, nets: Nets, names: &[&str], rate: Rate) -> Result<Self, String> {
        let first = lab.switch("s0")?;
        let second = if nets == Nets::Two { lab.switch("s1")? } else { first.clone() };
        let hosts: Result<Vec<Host>, String> = names.iter().map(|name| lab.host(name)).collect();
        let this = Self { nets, switches: [first, second], hosts: hosts?, lab };
        for (number, host) in this.hosts.iter().enumerate() {
            for (rail, interface) in RAILS.iter().enumerate() {
                this.switches[rail].connect(host, interface, Some(rate))?;
                let address = this.ip(number, rail);
                host.address(interface, &format!("{address}/16"))?;
                if nets == Nets::One {
                    let route = (IpAddr::V4(address), NETWORK);
                    host.leave_by(interface, route, 100 + rail as u32)?;
                }
            }
        }
        Ok(this)
    }

    fn ip(&self, host: usize, rail: usize) -> Ipv4Addr {
        let (rail, host) = (rail as u8, host as u8 + 1);
        match self.nets {
            Nets::One => Ipv4Addr::new(10, 1, rail, host),
            Nets::Two => Ipv4Addr::new(10, 1 + rail, 0, host),
        }
    }

    /// Returns the laboratory.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Returns a host by its index in the names.
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number]
    }

    /// Returns the switch of a rail.
    pub fn switch(&self, rail: usize) -> &Switch {
        &self.switches[rail]
    }

    /// Returns the NID of a host at a rail.
    pub fn nid(&self, host: usize, rail: usize) -> String {
        let net = if self.nets == Nets::Two && rail == 1 { "tcp1" } else { "tcp" };
        format!("{}@{net}", self.ip(host, rail))
    }

    /// Returns the NIDs of a host, the primary one first.
    pub fn nids(&self, host: usize) -> String {
        format!("{},{}", self.nid(host, 0), self.nid(host, 1))
    }

    /// Returns the configuration of a node that uses only these rails.
    pub fn settings(&self, rails: &[usize]) -> Settings {
        let names: Vec<&str> = rails.iter().map(|rail| RAILS[*rail]).collect();
        Settings::networks(&match self.nets {
            Nets::One => format!("tcp({})", names.join(",")),
            Nets::Two => {
                let net = |rail: &usize| if *rail == 1 { "tcp1(eth1)" } else { "tcp(eth0)" };
                rails.iter().map(net).collect::<Vec<_>>().join(",")
            }
        })
    }
}

/// The network of both rails, if they share one.
const NETWORK: &str = "10.1.0.0/16";

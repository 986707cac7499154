//! The hosts, the cables and the link.

use std::time::Duration;

use fulmar_link::{Counters, End, Line, Link, Options, Tcp};

use super::{MTU, Ocean};
use crate::iperf3;
use crate::lab::{Host, Lab};

/// Two sites that are joined by a link. It goes before they do.
#[derive(Debug)]
pub struct Sites {
    ocean: Ocean,
    link: LinkGuard,
    /// A's and B's, where the link ends.
    shores: [Host; 2],
    /// The hosts behind them, if there are routers.
    inland: Option<[Host; 2]>,
    /// Last, so that it goes last.
    lab: Lab,
}

struct LinkGuard(Link);

impl std::fmt::Debug for LinkGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Link").field(&self.0.lines()).finish()
    }
}

/// The interface at either end of the link.
pub(super) const DEVICE: &str = "wan0";
/// The port of its servers; nobody else is there.
const IPERF3_PORT: u16 = 5201;
/// Its addresses: A's and B's.
pub const SHORES: [&str; 2] = ["10.2.0.1", "10.2.0.2"];
/// The addresses of the hosts behind routers, and those of the routers on their side.
pub(super) const INLAND: [&str; 2] = ["10.1.0.1", "10.3.0.1"];
pub(super) const GATES: [&str; 2] = ["10.1.0.254", "10.3.0.254"];

impl Sites {
    /// Makes the sites. TCP may use as much memory as the link needs, there and nowhere else.
    ///
    /// # Errors
    /// What the system refused.
    pub fn new(lab: Lab, ocean: Ocean) -> Result<Self, String> {
        let (names, behind) = match ocean.routed {
            true => (["router-a", "router-b"], Some(["a", "b"])),
            false => (["a", "b"], None),
        };
        let make =
            |[a, b]: [&str; 2]| -> Result<[Host; 2], String> { Ok([lab.host(a)?, lab.host(b)?]) };
        let shores = make(names)?;
        let inland = behind.map(make).transpose()?;
        let lines = [Line::new(ocean.rate, ocean.round_trip / 2); 2];
        let end = |side: usize| End {
            namespace: shores[side].namespace().to_owned(),
            device: DEVICE.to_owned(),
            addresses: vec![format!("{}/24", SHORES[side])],
        };
        let options = Options { ends: [end(0), end(1)], lines, mtu: MTU, seed: 1 };
        let link = Link::start(&options).map_err(|error| error.to_string())?;
        for (side, host) in inland.iter().flatten().enumerate() {
            cable(host, &shores[side], side)?;
        }
        let congestion = Some(ocean.congestion().name().to_owned());
        let tcp = Tcp { congestion, ..Tcp::filling(&lines) };
        for host in shores.iter().chain(inland.iter().flatten()) {
            tcp.set(host.namespace()).map_err(|error| error.to_string())?;
        }
        Ok(Self { ocean, link: LinkGuard(link), shores, inland, lab })
    }

    /// Returns what the sites are apart.
    pub fn ocean(&self) -> &Ocean {
        &self.ocean
    }

    /// Returns the laboratory.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Returns the hosts where the link ends.
    pub fn shores(&self) -> [&Host; 2] {
        self.shores.each_ref()
    }

    /// Returns the hosts that talk to each other.
    pub fn ends(&self) -> [&Host; 2] {
        self.inland.as_ref().unwrap_or(&self.shores).each_ref()
    }

    /// Returns what the link has carried each way.
    pub fn counters(&self) -> [Counters; 2] {
        self.link.0.counters()
    }

    /// Returns the payload in bytes per second of one stream of iperf3 over the link, after
    /// `warmup`; `None` where iperf3 is not installed.
    ///
    /// # Errors
    /// What it said.
    pub fn iperf3(&self, warmup: Duration, duration: Duration) -> Result<Option<f64>, String> {
        let seconds = |time: Duration| time.as_secs_f64().ceil().max(1.0) as u32;
        if !iperf3::is_installed() {
            return Ok(None);
        }
        let address = SHORES[1].parse().expect("it is an address");
        let (warmup, seconds) = (seconds(warmup), seconds(duration));
        let stream = iperf3::Stream { address, port: IPERF3_PORT, warmup, seconds };
        let [client, server] = self.shores().map(|host| host.command(iperf3::IPERF3.as_ref()));
        stream.run(client, server).map(|received| Some(received.bytes_per_second()))
    }
}

/// Joins a host to the router of its site.
fn cable(host: &Host, router: &Host, side: usize) -> Result<(), String> {
    host.cable("eth0", (router, "eth0"))?;
    for (end, address) in [(host, INLAND[side]), (router, GATES[side])] {
        end.ip(&["link", "set", "eth0", "mtu", &MTU.to_string()])?;
        end.address("eth0", &format!("{address}/24"))?;
    }
    Ok(())
}

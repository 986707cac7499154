//! Two groups of servers, each on its own network, behind one router.

use std::time::Duration;

use super::join;
use crate::lab::{Host, Lab, Load, Node, Rate, Server, Settings, Switch};

/// Throughput to the groups, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Groups {
    /// Each while the other was idle.
    pub alone: [f64; 2],
    /// Both at once.
    pub together: [f64; 2],
}

impl Groups {
    /// Returns the sum of both at once as a share of the sum of each alone.
    pub fn sum_ratio(&self) -> f64 {
        (self.together[0] + self.together[1]) / (self.alone[0] + self.alone[1])
    }

    /// Returns the share of its rate that a group keeps when the other starts.
    pub fn kept(&self, group: usize) -> f64 {
        self.together[group] / self.alone[group]
    }
}

/// A router with its clients on `tcp`, a client for each group, and the groups on `tcp1` and
/// `tcp2`.
struct TwoGroups {
    clients: [Host; 2],
    servers: [Host; 2],
    router: Node,
    _front: Switch,
}

impl TwoGroups {
    /// `rates` limit the networks of the groups, and `front` the link between clients and router.
    fn new(lab: &Lab, front: Option<Rate>, rates: [Option<Rate>; 2]) -> Result<Self, String> {
        let router = lab.host("router")?;
        let switch = lab.switch("front")?;
        switch.connect(&router, "eth0", front)?;
        router.address("eth0", "10.1.0.254/16")?;
        let group = |number: usize, rate| -> Result<[Host; 2], String> {
            let client = lab.host(&format!("client{number}"))?;
            switch.connect(&client, "eth0", None)?;
            client.address("eth0", &format!("10.1.0.{}/16", number + 1))?;
            let server = lab.host(&format!("server{number}"))?;
            let net = number + 2;
            let addresses = [format!("10.{net}.0.254/16"), format!("10.{net}.0.1/16")];
            let ends = ((&router, &*format!("eth{}", number + 1)), (&server, "eth0"));
            join(ends.0, ends.1, [&addresses[0], &addresses[1]], rate)?;
            Ok([client, server])
        };
        let ([c0, s0], [c1, s1]) = (group(0, rates[0])?, group(1, rates[1])?);
        let networks = Settings::networks("tcp(eth0),tcp1(eth1),tcp2(eth2)");
        let router = lab.node(&router, &networks.router())?;
        Ok(Self { clients: [c0, c1], servers: [s0, s1], router, _front: switch })
    }

    fn serve(&self, lab: &Lab, group: usize) -> Result<Server, String> {
        let words = format!("--nid {} --route tcp={}", server(group), gateway(group));
        Server::start(lab, &self.servers[group], &words)
    }

    fn load(&self, lab: &Lab, group: usize) -> Result<Load, String> {
        let words = format!(
            "--nid 10.1.0.{}@tcp --route tcp{}=10.1.0.254@tcp --to {} --puts --sizes 1048576 \
             --window 16",
            group + 1,
            group + 1,
            server(group)
        );
        Load::start(lab, &self.clients[group], &words)
    }
}

fn server(group: usize) -> String {
    format!("10.{}.0.1@tcp{}", group + 2, group + 1)
}

fn gateway(group: usize) -> String {
    format!("10.{}.0.254@tcp{}", group + 2, group + 1)
}

const WARM_UP: Duration = Duration::from_secs(1);

/// Measures each group alone, then both at once.
///
/// # Errors
/// A description of the failure, also for failed messages.
pub fn measure(
    lab: &Lab,
    front: Option<Rate>,
    rates: [Option<Rate>; 2],
    duration: Duration,
) -> Result<Groups, String> {
    let both = TwoGroups::new(lab, front, rates)?;
    let _servers = [both.serve(lab, 0)?, both.serve(lab, 1)?];
    let alone = |group| -> Result<f64, String> {
        let mut load = both.load(lab, group)?;
        load.run_for(WARM_UP);
        let rate = load.rate(duration)?;
        fine(load)?;
        Ok(rate)
    };
    let alone = [alone(0)?, alone(1)?];
    let mut loads = [both.load(lab, 0)?, both.load(lab, 1)?];
    loads[0].run_for(WARM_UP);
    let [first, second] = &mut loads;
    // The samples of the second load for the same time are read afterwards.
    let begun = crate::traffic::now_ms();
    let one = first.rate(duration)?;
    let samples = crate::rails::series::of(second.samples());
    let other = crate::rails::series::rate(&samples, begun, crate::traffic::now_ms());
    let other = other.ok_or("the second load has printed no samples")?;
    both.router.check()?;
    loads.into_iter().try_for_each(fine)?;
    both.router.check_idle()?;
    Ok(Groups { alone, together: [one, other] })
}

/// Ends a load, which must have no failed messages.
fn fine(load: Load) -> Result<(), String> {
    let (outcome, _) = load.finish()?;
    outcome.fault().map_or(Ok(()), Err)
}

//! Two rails carry twice as much as one.

use super::{Nets, Rails};
use crate::lab::{Lab, Lst, Node, Rate};

/// Throughput in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RailRates {
    /// Over one rail.
    pub one: f64,
    /// Over both.
    pub two: f64,
}

impl RailRates {
    /// Returns the ratio of both to one.
    pub fn ratio(&self) -> f64 {
        self.two / self.one
    }
}

/// The two directions of bulk of `lst`.
pub const DIRECTIONS: [&str; 2] = ["brw write", "brw read"];

/// Measures between two nodes with `lst` in both directions, over one rail and over both.
///
/// # Errors
/// A description of the failure, also for failed RPCs.
pub fn between_two_nodes(
    lab: Lab,
    nets: Nets,
    rate: Rate,
    seconds: f64,
) -> Result<[RailRates; 2], String> {
    let rails = Rails::new(lab, nets, &["a", "b"], rate)?;
    let measure = |used: &[usize]| -> Result<[f64; 2], String> {
        let settings = rails.settings(used);
        let a = rails.lab().node(rails.host(0), &settings)?;
        let b = rails.lab().node(rails.host(1), &settings)?;
        let run = |test| Lst::new(&rails.nid(0, 0), &rails.nid(1, 0), test, seconds).run(&a);
        let [write, read] = DIRECTIONS;
        let rates = [run(write)?.rate()?, run(read)?.rate()?];
        a.check_idle().and_then(|()| b.check_idle())?;
        Ok(rates)
    };
    let (one, two) = (measure(&[0])?, measure(&[0, 1])?);
    Ok([0, 1].map(|at| RailRates { one: one[at], two: two[at] }))
}

/// Measures between a client on two nets and two servers, one on each, in both directions: with the
/// first server alone, and with both.
///
/// # Errors
/// A description of the failure, also for failed RPCs.
pub fn with_a_server_on_each_net(
    lab: Lab,
    rate: Rate,
    seconds: f64,
) -> Result<[RailRates; 2], String> {
    let rails = Rails::new(lab, Nets::Two, &["client", "s0", "s1"], rate)?;
    let client = rails.lab().node(rails.host(0), &rails.settings(&[0, 1]))?;
    let first = rails.lab().node(rails.host(1), &rails.settings(&[0]))?;
    let second = rails.lab().node(rails.host(2), &rails.settings(&[1]))?;
    let servers = [rails.nid(1, 0), rails.nid(2, 1)];
    let measure = |test| -> Result<RailRates, String> {
        let alone = Lst::new(&rails.nid(0, 0), &servers[0], test, seconds);
        let both = Lst { to: servers.join(","), distribute: "1:2", ..alone.clone() };
        Ok(RailRates { one: alone.run(&client)?.rate()?, two: both.run(&client)?.rate()? })
    };
    let [write, read] = DIRECTIONS;
    let carried = [measure(write)?, measure(read)?];
    [client, first, second].iter().try_for_each(Node::check_idle)?;
    Ok(carried)
}

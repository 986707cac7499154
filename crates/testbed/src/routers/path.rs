//! Two parallel routers, one of which is killed; and two in a row.

use std::time::Duration;

use super::{SERVER, join};
use crate::lab::{Host, Lab, Load, Node, Rate, Server, Settings};
use crate::rails::series;
use crate::traffic::{Outcome, ServerReport, now_ms};

/// The messages when a router was killed.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterLoss {
    /// Bytes per second before the kill.
    pub before: f64,
    /// Bytes per second from a second after the kill.
    pub after: f64,
    /// Seconds until the rate was again that of one router, within a tenth.
    pub recovered: Option<f64>,
    /// The outcome of the load.
    pub outcome: Outcome,
    /// The report of the receiver.
    pub served: ServerReport,
}

/// Kills one of two routers under 64 PUTs and GETs of every length.
///
/// # Errors
/// Fails if the experiment fails. Failed messages are in the outcome.
pub fn kill_one_of_two(lab: &Lab, transaction_timeout: u32) -> Result<RouterLoss, String> {
    let (front, back) = (lab.switch("front")?, lab.switch("back")?);
    let connect = |name: &str, sides: &[(bool, String)]| -> Result<Host, String> {
        let host = lab.host(name)?;
        for (number, (is_front, address)) in sides.iter().enumerate() {
            let interface = format!("eth{number}");
            let switch = if *is_front { &front } else { &back };
            switch.connect(&host, &interface, Some(RATE))?;
            host.address(&interface, address)?;
        }
        Ok(host)
    };
    let client = connect("client", &[(true, "10.1.0.1/16".into())])?;
    let server = connect("server", &[(false, "10.2.0.1/16".into())])?;
    let settings = Settings::networks("tcp(eth0),tcp1(eth1)").router();
    let router = |number: u8| -> Result<Node, String> {
        let sides = [(true, format!("10.1.0.{number}/16")), (false, format!("10.2.0.{number}/16"))];
        let host = connect(&format!("router{number}"), &sides)?;
        lab.node(&host, &settings)
    };
    let (first, second) = (router(253)?, router(254)?);
    let timeout = format!("--transaction-timeout {transaction_timeout}");
    let words =
        format!("--nid {SERVER} --route tcp=10.2.0.253@tcp1 --route tcp=10.2.0.254@tcp1 {timeout}");
    let server = Server::start(lab, &server, &words)?;
    let words = format!(
        "--nid 10.1.0.1@tcp --route tcp1=10.1.0.253@tcp --route tcp1=10.1.0.254@tcp \
         --to {SERVER} {timeout}"
    );
    let mut load = Load::start(lab, &client, &words)?;
    load.run_for(Duration::from_secs(1));
    let before = load.rate(Duration::from_secs(2))?;
    let killed_at = now_ms();
    first.signal("KILL")?;
    load.run_for(Duration::from_secs(u64::from(transaction_timeout) + 5));
    second.check()?;
    let (outcome, samples) = load.finish()?;
    second.check_idle()?;
    let series = series::of(&samples);
    let end = series.last().map_or(killed_at, |(at, _)| *at);
    Ok(RouterLoss {
        before,
        after: series::rate(&series, killed_at + 1000, end).unwrap_or(0.0),
        recovered: series::reached(&series, (killed_at, end), 0.9 * before),
        outcome,
        served: server.finish()?,
    })
}

/// The rate of each host of [`kill_one_of_two`]: one router can carry it.
const RATE: Rate = Rate::megabits(1000);

/// Sends messages of every length over two routers in a row, in both directions.
///
/// # Errors
/// Fails if the experiment fails. Failed messages are in the outcomes.
pub fn two_in_a_row(lab: &Lab, duration: Duration) -> Result<[(Outcome, ServerReport); 2], String> {
    let hosts = [lab.host("a")?, lab.host("r1")?, lab.host("r2")?, lab.host("b")?];
    let [a, r1, r2, b] = &hosts;
    join((a, "eth0"), (r1, "eth0"), ["10.1.0.1/16", "10.1.0.254/16"], None)?;
    join((r1, "eth1"), (r2, "eth0"), ["10.2.0.1/16", "10.2.0.2/16"], None)?;
    join((r2, "eth1"), (b, "eth0"), ["10.3.0.254/16", "10.3.0.1/16"], None)?;
    let settings = Settings::networks("tcp(eth0),tcp1(eth1)").routes("tcp2 10.2.0.2@tcp1");
    let first = lab.node(r1, &settings.router())?;
    let settings = Settings::networks("tcp1(eth0),tcp2(eth1)").routes("tcp 10.2.0.1@tcp1");
    let second = lab.node(r2, &settings.router())?;
    let near = (a, "10.1.0.1@tcp", "--route tcp2=10.1.0.254@tcp");
    let far = (b, "10.3.0.1@tcp2", "--route tcp=10.3.0.254@tcp2");
    let send = |from: (&Host, &str, &str), to: (&Host, &str, &str)| {
        let endpoint = |(_, nid, route): (_, &str, &str)| {
            format!("--nid {nid} {route} --transaction-timeout 10")
        };
        let server = Server::start(lab, to.0, &endpoint(to))?;
        let words = format!("{} --to {}", endpoint(from), to.1);
        let mut load = Load::start(lab, from.0, &words)?;
        load.run_for(duration);
        Ok::<_, String>((load.finish()?.0, server.finish()?))
    };
    let sent = [send(near, far)?, send(far, near)?];
    first.check_idle().and_then(|()| second.check_idle())?;
    Ok(sent)
}

//! The cost of forwarding 1 MiB messages: by a router, and by haproxy on the same path.

use std::time::Duration;

use super::haproxy::{self, ProxyPath};
use super::{BACK, CLIENT, FRONT, Row, SERVER};
use crate::lab::{Host, Lab, Load, Server, bytes_per_second, cpu_seconds};

/// Throughput and cost of forwarding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForwardReport {
    /// Payload in bytes per second.
    pub bytes_per_second: f64,
    /// CPU time of the forwarding process for 10^9 bytes of payload.
    pub cpu_per_gigabyte: f64,
}

/// The load of both.
const WORK: &str = "--puts --sizes 1048576 --window 16 --peer-credits 16";
const WARM_UP: Duration = Duration::from_millis(500);

/// Measures a router for some time.
///
/// # Errors
/// A description of the failure.
pub fn by_router(lab: &Lab, duration: Duration) -> Result<ForwardReport, String> {
    let row = Row::new(lab)?;
    let router = row.route(lab, Row::networks())?;
    let ends = [
        (&row.client, format!("--nid {CLIENT} --route tcp1={FRONT}")),
        (&row.server, format!("--nid {SERVER} --route tcp={BACK}")),
    ];
    let forwarded = measure(lab, ends, SERVER, router.id(), duration)?;
    router.check_idle()?;
    Ok(forwarded)
}

/// Measures haproxy for some time, with its defaults or with `splice`.
///
/// # Errors
/// A description of the failure.
pub fn by_haproxy(lab: &Lab, splice: bool, duration: Duration) -> Result<ForwardReport, String> {
    let proxied = ProxyPath::new(lab, splice)?;
    let ends = [
        (&proxied.client, format!("--nid {}", haproxy::CLIENT)),
        (&proxied.server, format!("--nid {}", haproxy::SERVER)),
    ];
    measure(lab, ends, haproxy::SERVER, proxied.proxy.id(), duration)
}

fn measure(
    lab: &Lab,
    [client, server]: [(&Host, String); 2],
    to: &str,
    middle: u32,
    duration: Duration,
) -> Result<ForwardReport, String> {
    let server = Server::start(lab, server.0, &server.1)?;
    let words = format!("{} --to {to} {WORK}", client.1);
    let mut load = Load::start(lab, client.0, &words)?;
    load.run_for(WARM_UP);
    let (first, cpu) = (last(&mut load)?, cpu_seconds(middle)?);
    load.run_for(duration);
    let (last, cpu) = (last(&mut load)?, cpu_seconds(middle)? - cpu);
    let (outcome, _) = load.finish()?;
    let served = server.finish()?;
    outcome.fault().or(served.fault(outcome.resent)).map_or(Ok(()), Err)?;
    let gigabytes = (last.bytes - first.bytes) as f64 / 1e9;
    Ok(ForwardReport {
        bytes_per_second: bytes_per_second(&first, &last),
        cpu_per_gigabyte: cpu / gigabytes,
    })
}

fn last(load: &mut Load) -> Result<crate::traffic::Sample, String> {
    load.samples().last().copied().ok_or_else(|| "the load has printed no samples".to_owned())
}

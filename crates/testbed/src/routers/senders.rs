//! Many senders, one stopped receiver, and the memory of the router between them.

use std::time::Duration;

use super::{BACK, FRONT, Row, SERVER};
use crate::lab::{Flood, Lab, Server, resident_mib};
use crate::traffic::FloodReport;

/// The state of the router and of the senders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StallReport {
    /// Memory of the router with all connections before any message, in MiB.
    pub before: f64,
    /// Memory of the router while no message moved, in MiB.
    pub stalled: f64,
    /// The capacity of its pools in MiB.
    pub pools: f64,
    /// Free large buffers at that time; negative if messages waited for one.
    pub large_free: i64,
    /// The counters of the senders at that time.
    pub held: FloodReport,
    /// The same after the receiver was resumed.
    pub end: FloodReport,
}

/// Buffers of the router's pools: tiny, small and large.
const POOLS: [u32; 3] = [512, 1024, 64];

/// Makes many nodes send `each` messages of 1 MiB to a stopped receiver, then resumes it.
///
/// # Errors
/// A description of the failure.
pub fn into_a_stopped_receiver(lab: &Lab, senders: u8, each: usize) -> Result<StallReport, String> {
    let row = Row::new(lab)?;
    let nids: Vec<String> = (1..=senders).map(|number| format!("10.1.1.{number}")).collect();
    for ip in &nids {
        row.client.address("eth0", &format!("{ip}/16"))?;
    }
    let [tiny, small, large] = POOLS;
    let settings = Row::networks()
        .lnet("tiny_router_buffers", tiny)
        .lnet("small_router_buffers", small)
        .lnet("large_router_buffers", large);
    let router = row.route(lab, settings)?;
    let words = format!("--nid {SERVER} --route tcp={BACK}");
    let server = Server::start(lab, &row.server, &words)?;
    let nids = nids.iter().map(|ip| format!("{ip}@tcp")).collect::<Vec<_>>().join(",");
    let words = format!("--nid {nids} --route tcp1={FRONT} --to {SERVER} --each {each}");
    let mut flood = Flood::start(lab, &row.client, &words)?;
    let before = resident_mib(router.id())?;
    server.program().signal("STOP")?;
    flood.go()?;
    let held = flood.stalled(Duration::from_secs(2))?;
    let stalled = resident_mib(router.id())?;
    let large_free = large_free(&router.run("lctl get_param buffers")?)?;
    router.check()?;
    server.program().signal("CONT")?;
    let end = flood.finish()?;
    router.check_idle()?;
    server.finish()?.fault(0).map_or(Ok(()), Err)?;
    let pools = f64::from(large) + f64::from(small) * 4096.0 / f64::from(1 << 20);
    Ok(StallReport { before, stalled, pools, large_free, held, end })
}

/// Finds the credits of the pool of large buffers in the table `buffers`.
fn large_free(table: &str) -> Result<i64, String> {
    let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let credits = rows.find_map(|row| match row[..] {
        ["256", _, credits, _] => credits.parse().ok(),
        _ => None,
    });
    credits.ok_or_else(|| format!("no large buffers in:\n{table}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_large_buffers_is_found() {
        let table = "buffers=\npages count credits     min\n    0  512     512     511\n    \
                     1  1024    1024    1020\n  256    64    -100    -120\n";
        assert_eq!(large_free(table), Ok(-100));
        assert!(large_free("buffers=\n").is_err());
    }
}

//! The family `lst`: the tests of LNet selftest between two nodes over loopback.
//!
//! One process is console and client, the other server, as `lst` is used most.

mod load;

use crate::process::Worker;
use crate::report::{Bar, Figure};
use crate::stats::{interleave, median};
use crate::{Effort, Failure, iperf3, ping_pong};

pub(crate) use load::{Load, Rates, run_load, serve};

const MIB: u32 = 1 << 20;

/// 1 MiB reads and writes beside one iperf3 stream, and the memory of many at once.
pub(crate) fn bulk(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for ((rate, ratio), write, concurrency, bar) in [
        (("lst.brw_write_1m_c8.rate", "lst.brw_write_1m_c8.vs_iperf3"), true, 8, Some(0.9)),
        (("lst.brw_read_1m_c8.rate", "lst.brw_read_1m_c8.vs_iperf3"), false, 8, Some(0.9)),
        (("lst.brw_write_1m_c1.rate", "lst.brw_write_1m_c1.vs_iperf3"), true, 1, Some(0.75)),
        (("lst.brw_read_1m_c1.rate", "lst.brw_read_1m_c1.vs_iperf3"), false, 1, None),
    ] {
        let load = Load::Brw { write, size: MIB, concurrency };
        let ours = || transfer(load, effort).map(|(rates, _)| rates.gigabytes_per_second());
        let (ours, theirs) = interleave(effort.repeats, ours, || iperf3::run(effort.duration))?;
        let ours = median(ours);
        let theirs = median(theirs.iter().map(|bulk| bulk.gigabytes_per_second).collect());
        figures.push(Figure::plain(rate, ours, "GB/s").beside(theirs));
        let ratio = Figure::plain(ratio, ours / theirs, "ratio").beside(theirs);
        figures.push(match bar {
            Some(bar) => ratio.held_to(Bar::AtLeast(bar)),
            None => ratio,
        });
    }
    Ok(figures)
}

/// The ping test beside a bare ping-pong, and many of them at once.
pub(crate) fn latency(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let run = |concurrency| {
        transfer(Load::Ping { concurrency }, effort).map(|(rates, _)| rates.rpcs_per_second())
    };
    let (one, bare) = interleave(effort.repeats, || run(1), || ping_pong::run(effort.duration))?;
    let (one, bare) = (median(one), median(bare));
    let (many, alone) = interleave(effort.repeats, || run(64), || run(1))?;
    let (many, alone) = (median(many), median(alone));
    Ok(vec![
        Figure::plain("lst.ping_c1.rate", one, "1/s").beside(bare),
        Figure::plain("lst.ping_c1.vs_tcp_pingpong", one / bare, "ratio")
            .beside(bare)
            .held_to(Bar::AtLeast(0.5)),
        Figure::plain("lst.ping_c64.rate", many, "1/s").beside(alone),
        Figure::plain("lst.ping.c64_vs_c1", many / alone, "ratio")
            .beside(alone)
            .held_to(Bar::AtLeast(6.0)),
    ])
}

/// The memory of a node in the middle of 64 transfers of 1 MiB, all of whose data is checked: the
/// larger of the client's and the server's.
pub(crate) fn memory(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let load = Load::Checked { size: MIB, concurrency: 64 };
    let (_, resident) = transfer(load, effort)?;
    let figure = Figure::plain("lst.node_c64.rss_mib", resident, "MiB");
    Ok(vec![figure.held_to(Bar::AtMost(300.0))])
}

/// Runs a load from one process to another. Returns its rates, and the memory of the larger
/// process at the end.
fn transfer(load: Load, effort: Effort) -> Result<(Rates, f64), Failure> {
    let port = iperf3::free_port()?.to_string();
    let mut server = Worker::start(&["lst-server", &port])?;
    server.line()?;
    let seconds = effort.duration.as_secs_f64().to_string();
    let load = serde_json::to_string(&load).expect("a load is plain");
    let mut client = Worker::start(&["lst-client", &port, &load, &seconds])?;
    // It says this while the load is still running.
    let rates = client.line()?;
    let resident = client.resident_mib()?.max(server.resident_mib()?);
    client.finish()?;
    server.finish()?;
    let broken = |error| Failure(format!("a worker's report is damaged: {error}"));
    Ok((serde_json::from_str(&rates).map_err(broken)?, resident))
}

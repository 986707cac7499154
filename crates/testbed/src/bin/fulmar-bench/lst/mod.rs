//! The family `lst`: the tests of LNet selftest between two nodes over loopback.
//!
//! One process is console and client, the other is the server, as in most uses of `lst`.

mod load;

use crate::process::Worker;
use crate::report::{Bar, Figure};
use crate::stats::{Series, interleave};
use crate::{Effort, Failure, argument, iperf3, ping_pong};

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
        let ours = Series::new(ours);
        let theirs = Series::new(theirs.iter().map(|bulk| bulk.gigabytes_per_second));
        figures.push(Figure::median(rate, &ours, "GB/s").beside_median(&theirs));
        let ratio = Figure::ratio(ratio, &ours, &theirs);
        figures.push(match bar {
            Some(bar) => ratio.held_to(Bar::AtLeast(bar)),
            None => ratio,
        });
    }
    Ok(figures)
}

/// The ping test beside a plain TCP ping-pong, and many pings at once.
pub(crate) fn latency(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let run = |concurrency| {
        transfer(Load::Ping { concurrency }, effort).map(|(rates, _)| rates.rpcs_per_second())
    };
    let ours = || Ok((run(1)?, run(64)?));
    let (ours, bare) = interleave(effort.repeats, ours, || ping_pong::run(effort.duration))?;
    let one = Series::new(ours.iter().map(|(one, _)| *one));
    let many = Series::new(ours.iter().map(|(_, many)| *many));
    let bare = Series::new(bare);
    Ok(vec![
        Figure::median("lst.ping_c1.rate", &one, "1/s").beside_median(&bare),
        Figure::ratio("lst.ping_c1.vs_tcp_pingpong", &one, &bare).held_to(Bar::AtLeast(0.8)),
        Figure::median("lst.ping_c64.rate", &many, "1/s").beside_median(&bare),
        Figure::ratio("lst.ping_c64.vs_tcp_pingpong", &many, &bare).held_to(Bar::AtLeast(4.0)),
    ])
}

/// The memory of a node during 64 transfers of 1 MiB with data checks: the larger of the client's
/// and the server's.
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
    // The client prints this while the load is still running.
    let rates = client.line()?;
    let resident = client.resident_mib()?.max(server.resident_mib()?);
    client.finish()?;
    server.finish()?;
    Ok((argument(&rates)?, resident))
}

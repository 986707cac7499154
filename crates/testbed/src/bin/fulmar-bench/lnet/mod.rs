//! The family `lnet`: PUTs between two nodes over loopback, and a node with many idle peers.

mod idle;
mod put;
mod rest;

use std::net::IpAddr;
use std::time::Duration;

use fulmar_net::{NiOptions, Node, Options, Runtime};
use fulmar_socklnd::AcceptMode;

use crate::process::{Worker, with_cpu_time};
use crate::report::{Bar, Figure};
use crate::stats::{Series, interleave};
use crate::{Effort, Failure, argument, iperf3, ping_pong};

pub(crate) use idle::{hold_peers, serve_peers};
pub(crate) use put::{Flow, ReceiverCounts, SenderCounts, receive, send};
pub(crate) use rest::run_idle_nodes;

const MIB: u32 = 1 << 20;
/// 1 MiB PUTs in flight: the usual peer credits.
const BULK_WINDOW: u32 = 8;
/// The PUTs of a bulk of 16 MiB.
const BULK_OF_16: u32 = 16;
/// The largest number of messages in flight of any flow.
const PEER_CREDITS: u32 = 64;
const PEERS: u32 = 1000;
/// One for control and one for each direction of bulk.
const CONNECTIONS_PER_PEER: u32 = 3;

/// 1 MiB PUTs beside one iperf3 stream.
pub(crate) fn bulk(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let flow = Flow::new(MIB, BULK_WINDOW);
    let ours = || with_cpu_time(|| transfer(flow, effort));
    let (ours, theirs) = interleave(effort.repeats, ours, || iperf3::run(effort.duration))?;
    let rate =
        |((sent, _), _): &((SenderCounts, ReceiverCounts), f64)| sent.gigabytes_per_second(MIB);
    let cpu = |((sent, _), cpu): &((SenderCounts, ReceiverCounts), f64)| cpu / sent.gigabytes(MIB);
    let (rate, cpu) = (Series::new(ours.iter().map(rate)), Series::new(ours.iter().map(cpu)));
    let copied = Series::new(ours.iter().map(|((_, received), _)| received.copied()));
    let their_rate = Series::new(theirs.iter().map(|bulk| bulk.gigabytes_per_second));
    let their_cpu = Series::new(theirs.iter().map(|bulk| bulk.cpu_per_gigabyte));
    Ok(vec![
        Figure::median("lnet.put_1m.rate", &rate, "GB/s").beside_median(&their_rate),
        Figure::ratio("lnet.put_1m.vs_iperf3", &rate, &their_rate).held_to(Bar::AtLeast(0.9)),
        Figure::median("lnet.put_1m.cpu", &cpu, "CPU s/GB").beside_median(&their_cpu),
        Figure::ratio("lnet.put_1m.cpu_vs_iperf3", &cpu, &their_cpu).held_to(Bar::AtMost(1.2)),
        // Bytes that the receiving program copied itself; the copy of the kernel from the socket
        // directly into the destination is allowed and not counted.
        Figure::plain("lnet.put_1m.copied_again", copied.median(), "bytes/byte")
            .held_to(Bar::AtMost(0.01)),
    ])
}

/// Bulk of 16 MiB between 4,096 pages at both ends, in 16 PUTs, beside one iperf3 stream.
pub(crate) fn segments(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let flow = Flow { scattered: true, ..Flow::new(MIB, BULK_OF_16) };
    let ours = || transfer(flow, effort).map(|(sent, _)| sent.gigabytes_per_second(MIB));
    let theirs = || iperf3::run(effort.duration).map(|bulk| bulk.gigabytes_per_second);
    let (ours, theirs) = interleave(effort.repeats, ours, theirs)?;
    let (ours, theirs) = (Series::new(ours), Series::new(theirs));
    Ok(vec![
        Figure::median("lnet.put_16m_4096_segments.rate", &ours, "GB/s").beside_median(&theirs),
        Figure::ratio("lnet.put_16m_4096_segments.vs_iperf3", &ours, &theirs)
            .held_to(Bar::AtLeast(0.9)),
    ])
}

/// 8-byte PUTs with their ACKs, one and 64 at a time, beside a plain TCP ping-pong.
pub(crate) fn latency(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let run = |window| transfer(Flow::new(8, window), effort).map(|(sent, _)| sent.rate());
    let ours = || Ok((run(1)?, run(64)?));
    let (ours, bare) = interleave(effort.repeats, ours, || ping_pong::run(effort.duration))?;
    let one = Series::new(ours.iter().map(|(one, _)| *one));
    let many = Series::new(ours.iter().map(|(_, many)| *many));
    let bare = Series::new(bare);
    Ok(vec![
        Figure::median("lnet.put_8b.rate", &one, "1/s").beside_median(&bare),
        Figure::ratio("lnet.put_8b.vs_tcp_pingpong", &one, &bare).held_to(Bar::AtLeast(0.9)),
        Figure::median("lnet.put_8b.rate_64", &many, "1/s").beside_median(&bare),
        Figure::ratio("lnet.put_8b.c64_vs_tcp_pingpong", &many, &bare).held_to(Bar::AtLeast(7.0)),
    ])
}

/// Use of the lock of a node, on the side that uses it more: how often for a PUT of 1 MiB, and for
/// which share of the CPU time of its process.
pub(crate) fn lock(effort: Effort) -> Result<Vec<Figure>, Failure> {
    // Connecting and the warm-up take turns too, which a short trial does not outweigh.
    let effort = Effort { duration: effort.duration.max(Duration::from_secs(4)), ..effort };
    let used = |len, window| -> Result<(f64, f64), Failure> {
        let flow = Flow { lock_times: true, ..Flow::new(len, window) };
        let (sent, received) = transfer(flow, effort)?;
        let (ours, theirs) = (&sent.lock, &received.lock);
        let turns = ours.turns.max(theirs.turns) / sent.total();
        Ok((turns, ours.share().max(theirs.share())))
    };
    let repeat = |len, window| -> Result<[Series; 2], Failure> {
        let all: Vec<_> =
            (0..effort.repeats).map(|_| used(len, window)).collect::<Result<_, _>>()?;
        let series = |each: fn(&(f64, f64)) -> f64| Series::new(all.iter().map(each));
        Ok([series(|used| used.0), series(|used| used.1)])
    };
    let [turns, share_1m] = repeat(MIB, BULK_WINDOW)?;
    let [_, share_8b] = repeat(8, 64)?;
    // Shares of a few percent vary widely.
    Ok(vec![
        Figure::plain("lnet.lock.turns_per_1m_put", turns.median(), "turns")
            .held_to(Bar::AtMost(3.0)),
        Figure::plain("lnet.lock.share_1m", share_1m.median(), "ratio").held_to(Bar::AtMost(0.03)),
        Figure::plain("lnet.lock.share_8b", share_8b.median(), "ratio").held_to(Bar::AtMost(0.4)),
    ])
}

/// The share of a core that two idle connected nodes use.
pub(crate) fn rest(_effort: Effort) -> Result<Vec<Figure>, Failure> {
    let port = iperf3::free_port()?.to_string();
    let mut nodes = Worker::start(&["lnet-rest", &port, "10"])?;
    let share = nodes.number()?;
    nodes.finish()?;
    Ok(vec![Figure::plain("lnet.rest_cpu", share, "cores").held_to(Bar::AtMost(0.01))])
}

/// The memory of a node to which a thousand others are connected.
pub(crate) fn idle(_effort: Effort) -> Result<Vec<Figure>, Failure> {
    let port = iperf3::free_port()?.to_string();
    let peers = PEERS.to_string();
    let mut node = Worker::start(&["lnet-hub", &port, &peers])?;
    node.line()?;
    let alone = node.resident_mib()?;
    let mut others = Worker::start(&["lnet-peers", &port, &peers])?;
    others.line()?;
    node.line()?;
    let resident = node.resident_mib()?;
    others.finish()?;
    node.finish()?;
    let figure = Figure::plain("lnet.idle_1000_peers.rss_mib", resident, "MiB").beside(alone);
    Ok(vec![figure.held_to(Bar::AtMost(64.0))])
}

/// Sends PUTs from one process to another for some time.
fn transfer(flow: Flow, effort: Effort) -> Result<(SenderCounts, ReceiverCounts), Failure> {
    let port = iperf3::free_port()?.to_string();
    let flow = serde_json::to_string(&flow).expect("a flow is plain");
    let mut target = Worker::start(&["lnet-target", &port, &flow])?;
    target.line()?;
    let seconds = effort.duration.as_secs_f64().to_string();
    let source = Worker::start(&["lnet-source", &port, &flow, &seconds])?;
    let sent = source.finish()?;
    let received = target.finish()?;
    Ok((argument(&sent)?, argument(&received)?))
}

/// Starts a node at an address of the loopback interface.
pub(crate) fn start(runtime: &Runtime, address: IpAddr, port: u16) -> Result<Node, Failure> {
    start_with(runtime, address, port, false)
}

fn start_with(
    runtime: &Runtime,
    address: IpAddr,
    port: u16,
    lock_times: bool,
) -> Result<Node, Failure> {
    let mut options = Options { lock_times, ..Options::default() };
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = port;
    let mut ni = NiOptions::at(address);
    // With the usual 8, most of 64 messages would wait for a credit and not be in flight.
    ni.tunables.peer_credits = PEER_CREDITS;
    options.nis.push(ni);
    Node::start(runtime, options).map_err(|error| Failure(error.to_string()))
}

pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Runtime::new(None).map_err(|error| Failure(error.to_string()))
}

/// Waits until the benchmark closes standard input.
pub(crate) fn wait_for_end_of_input() {
    // An error ends it too.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}

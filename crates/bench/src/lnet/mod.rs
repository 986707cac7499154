//! The family `lnet`: PUTs between two nodes over loopback, and a node with many idle peers.

mod idle;
mod put;

use std::net::IpAddr;

use fulmar_net::{NiOptions, Node, Options, Runtime};
use fulmar_socklnd::AcceptMode;

use crate::process::{Worker, with_cpu_time};
use crate::report::{Bar, Figure};
use crate::stats::{interleave, median};
use crate::{Effort, Failure, iperf3, ping_pong};

pub(crate) use idle::{hold_peers, serve_peers};
pub(crate) use put::{Flow, Received, Sent, receive, send};

const MIB: u32 = 1 << 20;
/// How many PUTs of 1 MiB are under way at once: the usual peer credits.
const BULK_WINDOW: u32 = 8;
/// As many messages as any flow has under way.
const PEER_CREDITS: u32 = 64;
const PEERS: u32 = 1000;
/// One for control and one for each direction of bulk.
const CONNECTIONS_PER_PEER: u32 = 3;

/// 1 MiB PUTs beside one iperf3 stream.
pub(crate) fn bulk(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let flow = Flow { len: MIB, window: BULK_WINDOW };
    let ours = || with_cpu_time(|| transfer(flow, effort));
    let (ours, theirs) = interleave(effort.repeats, ours, || iperf3::run(effort.duration))?;
    let rate = median(ours.iter().map(|((sent, _), _)| sent.gigabytes_per_second(MIB)).collect());
    let cpu = |((sent, _), cpu): &((Sent, Received), f64)| cpu / sent.gigabytes(MIB);
    let cpu = median(ours.iter().map(cpu).collect());
    let copied = median(ours.iter().map(|((_, received), _)| received.copied()).collect());
    let their_rate = median(theirs.iter().map(|bulk| bulk.gigabytes_per_second).collect());
    let their_cpu = median(theirs.iter().map(|bulk| bulk.cpu_per_gigabyte).collect());
    Ok(vec![
        Figure::plain("lnet.put_1m.rate", rate, "GB/s").beside(their_rate),
        Figure::plain("lnet.put_1m.vs_iperf3", rate / their_rate, "ratio")
            .beside(their_rate)
            .held_to(Bar::AtLeast(0.9)),
        Figure::plain("lnet.put_1m.cpu", cpu, "CPU s/GB").beside(their_cpu),
        Figure::plain("lnet.put_1m.cpu_vs_iperf3", cpu / their_cpu, "ratio")
            .beside(their_cpu)
            .held_to(Bar::AtMost(1.2)),
        // What the receiving program itself copied of each byte; the kernel's copy out of the
        // socket, straight to where the byte belongs, is the one that is allowed.
        Figure::plain("lnet.put_1m.copied_again", copied, "bytes/byte").held_to(Bar::AtMost(0.01)),
    ])
}

/// 8-byte PUTs with their ACKs, one at a time, beside a bare ping-pong; then many at a time.
pub(crate) fn latency(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let run = |window| transfer(Flow { len: 8, window }, effort).map(|(sent, _)| sent.rate());
    let (one, bare) = interleave(effort.repeats, || run(1), || ping_pong::run(effort.duration))?;
    let (one, bare) = (median(one), median(bare));
    let (many, alone) = interleave(effort.repeats, || run(64), || run(1))?;
    let (many, alone) = (median(many), median(alone));
    Ok(vec![
        Figure::plain("lnet.put_8b.rate", one, "1/s").beside(bare),
        Figure::plain("lnet.put_8b.vs_tcp_pingpong", one / bare, "ratio")
            .beside(bare)
            .held_to(Bar::AtLeast(0.6)),
        Figure::plain("lnet.put_8b.rate_64", many, "1/s").beside(alone),
        Figure::plain("lnet.put_8b.pipeline", many / alone, "ratio")
            .beside(alone)
            .held_to(Bar::AtLeast(8.0)),
    ])
}

/// The memory of a node that a thousand others have called.
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
fn transfer(flow: Flow, effort: Effort) -> Result<(Sent, Received), Failure> {
    let port = iperf3::free_port()?.to_string();
    let mut target = Worker::start(&["lnet-target", &port])?;
    target.line()?;
    let (len, window) = (flow.len.to_string(), flow.window.to_string());
    let seconds = effort.duration.as_secs_f64().to_string();
    let source = Worker::start(&["lnet-source", &port, &len, &window, &seconds])?;
    let sent = source.finish()?;
    let received = target.finish()?;
    let broken = |error| Failure(format!("a worker's report is damaged: {error}"));
    Ok((
        serde_json::from_str(&sent).map_err(broken)?,
        serde_json::from_str(&received).map_err(broken)?,
    ))
}

/// Starts a node at an address of the loopback interface.
pub(crate) fn start(runtime: &Runtime, address: IpAddr, port: u16) -> Result<Node, Failure> {
    let mut options = Options::default();
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = port;
    let mut ni = NiOptions::at(address);
    // With the usual 8, most of 64 messages would wait for a credit and not be under way.
    ni.tunables.peer_credits = PEER_CREDITS;
    options.nis.push(ni);
    Node::start(runtime, options).map_err(|error| Failure(error.to_string()))
}

pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Runtime::new(None).map_err(|error| Failure(error.to_string()))
}

/// Waits until the benchmark has seen enough.
pub(crate) fn wait_for_the_end() {
    // An error is as good an end as any.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}

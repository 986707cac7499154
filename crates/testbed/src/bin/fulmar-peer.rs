//! A node for the tests of this crate, which run it in network namespaces.
//!
//! ```text
//! fulmar-peer serve ADDRESS             offers memory until standard input ends
//! fulmar-peer converse ADDRESS PEER     runs every operation with it
//! fulmar-peer call ADDRESS PEER         pings it, and accepts no connections
//! ```
//!
//! All use port 988 and accept connections only from privileged ports. Each prints lines for the
//! test.
#![forbid(unsafe_code)]
// This program uses real clocks, sockets and arguments.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_lnet::{EventKind, MdOptions, ServiceConfig};
use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_net::exchange::{Exchange, Target, anyone, pattern};
use fulmar_net::{Buffer, Delivery, Descriptor, NiOptions, Node, Options, Runtime, Service};
use fulmar_socklnd::AcceptMode;

const PORTAL: u32 = 9;
const PUT_BITS: u64 = 1;
const GET_BITS: u64 = 2;
const MIB: usize = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(20);

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["serve", own] => serve(own.parse()?),
        ["converse", own, peer] => converse(own.parse()?, peer.parse()?),
        ["call", own, peer] => call(own.parse()?, peer.parse()?),
        _ => Err("usage: fulmar-peer serve ADDRESS | converse|call ADDRESS PEER".into()),
    }
}

fn start(runtime: &Runtime, address: IpAddr, accept: AcceptMode) -> Result<Node, Box<dyn Error>> {
    let mut options = Options::default();
    options.config.socklnd.accept = accept;
    // One connection of each kind, whatever speed a virtual cable reports.
    options.nis.push(NiOptions { conns_per_peer: 1, ..NiOptions::at(address) });
    Ok(Node::start(runtime, options)?)
}

/// Accepts PUTs and answers GETs; prints each, and at the end how many connections were refused.
fn serve(own: IpAddr) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new(Some(2))?;
    let node = start(&runtime, own, AcceptMode::Secure)?;
    let (sink, source) = (Buffer::new(MIB), Buffer::new(MIB));
    source.write_at(0, &pattern(GET_BITS, MIB));
    let stored = sink.clone();
    let handler = move |_: &Service, events: &mut Vec<Delivery>| {
        for Delivery { event, .. } in events.drain(..) {
            let len = event.mlength as usize;
            if event.kind == EventKind::Put {
                let is_right = stored.to_vec(0, len) == pattern(event.header_data, len);
                println!("stored {len} {}", if is_right { "right" } else { "WRONG" });
            } else {
                println!("fetched {len}");
            }
        }
    };
    let service = node.open_service(ServiceConfig::default(), Arc::new(handler))?;
    let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE);
    service.attach(PORTAL, anyone(PUT_BITS), Descriptor::over(&sink).options(options))?;
    let options = MdOptions::OP_GET.with(MdOptions::MANAGE_REMOTE).with(MdOptions::TRUNCATE);
    service.attach(PORTAL, anyone(GET_BITS), Descriptor::over(&source).options(options))?;
    println!("ready");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    let refused = node.admin().counters().refused_unprivileged;
    println!("refused {refused}");
    node.stop();
    Ok(())
}

/// Ping, discovery with both pushes, three PUTs and two GETs.
fn converse(own: IpAddr, peer: IpAddr) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new(Some(2))?;
    let node = start(&runtime, own, AcceptMode::Secure)?;
    let peer = ProcessId::lustre(Nid::of_ip(Net::TCP, peer));
    let failed = |what: &'static str| move |errno| format!("{what}: {errno}");
    let reply = node.admin().ping(peer, None, TIMEOUT).map_err(failed("ping"))?;
    println!("pinged {:?}", reply.nids);
    let found = node.admin().discover(peer.nid, true).map_err(failed("discover"))?;
    println!("discovered {} multi-rail={}", found.primary, found.multi_rail);
    wait_for_push(&node, peer.nid)?;
    let exchange = Exchange::open(&node)?;
    let info = exchange.ping_info(peer, TIMEOUT).map_err(failed("ping info"))?;
    println!("features {:#x}", info.features.0);
    let target = |match_bits| Target { process: peer, portal: PORTAL, match_bits };
    for len in [100, 65536, MIB] {
        let buffer = Buffer::new(len);
        buffer.write_at(0, &pattern(len as u64, len));
        let ack = exchange.put(target(PUT_BITS), &buffer, len as u64, TIMEOUT);
        println!("put {}", ack.map_err(failed("put"))?.mlength);
    }
    for len in [100, MIB] {
        let buffer = Buffer::new(len);
        exchange.get(target(GET_BITS), &buffer, TIMEOUT).map_err(failed("get"))?;
        let is_right = buffer.to_vec(0, len) == pattern(GET_BITS, len);
        println!("got {len} {}", if is_right { "right" } else { "WRONG" });
    }
    for conn in node.admin().connections() {
        let (info, kind) = (&conn.info, conn.info.kind.0);
        println!("connection {kind} version {} port {}", info.version.number(), info.local.port());
    }
    node.stop();
    Ok(())
}

/// Waits until the peer has pushed its NIDs, so that the push is in the capture.
fn wait_for_push(node: &Node, peer: Nid) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let peers = node.admin().peers();
        let ni = peers.iter().flat_map(|peer| &peer.nis).find(|ni| ni.nid == peer);
        if ni.is_some_and(|ni| ni.traffic.received.put > 0) {
            println!("pushed");
            return Ok(());
        }
        if begun.elapsed() > TIMEOUT {
            return Err("the peer did not push".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn call(own: IpAddr, peer: IpAddr) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new(Some(1))?;
    let node = start(&runtime, own, AcceptMode::None)?;
    let peer = ProcessId::lustre(Nid::of_ip(Net::TCP, peer));
    match node.admin().ping(peer, None, Duration::from_secs(3)) {
        Ok(reply) => println!("let in: {:?}", reply.nids),
        Err(errno) => println!("kept out: {errno:?}"),
    }
    node.stop();
    Ok(())
}

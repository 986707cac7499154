//! One node with many peers, which one process runs.

use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fulmar_lnet_wire::{Net, Nid, ProcessId};

use super::{CONNECTIONS_PER_PEER, runtime, start, wait_for_end_of_input};
use crate::Failure;

const HUB: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// How long all peers may take to connect.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the node; prints a line when it has started, and when every peer has all its connections
/// and there is no traffic.
pub(crate) fn serve_peers(port: u16, peers: u32) -> Result<(), Failure> {
    let runtime = runtime()?;
    let node = start(&runtime, HUB.into(), port)?;
    println!("ready");
    let (begun, wanted) = (Instant::now(), (peers * CONNECTIONS_PER_PEER) as usize);
    loop {
        let open = node.admin().connections().len();
        if open == wanted {
            break;
        }
        if begun.elapsed() > TIMEOUT {
            return Err(Failure(format!("{open} connections of {wanted} within {TIMEOUT:?}")));
        }
        sleep(Duration::from_millis(200));
    }
    sleep(Duration::from_secs(1));
    println!("idle");
    wait_for_end_of_input();
    node.stop();
    Ok(())
}

/// Runs many nodes, each of which pings the one node; prints a line when all have.
pub(crate) fn hold_peers(port: u16, peers: u32) -> Result<(), Failure> {
    let runtime = runtime()?;
    let hub = ProcessId::lustre(Nid::of_ip(Net::TCP, HUB.into()));
    let first = u32::from(Ipv4Addr::new(127, 1, 0, 1));
    let mut nodes = vec![];
    for number in 0..peers {
        let address = Ipv4Addr::from(first + number);
        let node = start(&runtime, address.into(), port)?;
        node.admin()
            .ping(hub, None, Duration::from_secs(10))
            .map_err(|errno| Failure(format!("{address} cannot ping the node: {errno}")))?;
        nodes.push(node);
    }
    println!("connected");
    wait_for_end_of_input();
    nodes.iter().for_each(fulmar_net::Node::stop);
    Ok(())
}

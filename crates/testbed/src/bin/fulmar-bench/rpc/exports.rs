//! Many clients of one server, on few nodes.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::client::{connect, open};
use crate::Failure;
use crate::lnet::{runtime, start, wait_for_end_of_input};

/// How many clients there are.
pub(crate) const CLIENTS: u32 = 10_000;
/// On how many nodes: a server admits up to 1,024 clients of a node.
const NODES: u32 = 10;
/// How long all may take to connect.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Connects all clients and prints how many are connected; holds them until standard input ends.
pub(crate) fn hold(port: u16) -> Result<(), Failure> {
    let runtime = runtime()?;
    let first = u32::from(Ipv4Addr::new(127, 1, 0, 1));
    let (mut nodes, mut clients) = (Vec::new(), Vec::new());
    for number in 0..NODES {
        let address = Ipv4Addr::from(first + number);
        let node = start(&runtime, address.into(), port)?;
        let (client, connected) = open(&node, None)?;
        for client_number in 0..CLIENTS / NODES {
            connect(&client, number * CLIENTS / NODES + client_number, 8)?;
        }
        nodes.push(node);
        clients.push((client, connected));
    }
    let begun = Instant::now();
    let mut count = 0;
    for (_, connected) in &clients {
        for _ in 0..CLIENTS / NODES {
            let left = TIMEOUT.saturating_sub(begun.elapsed());
            match connected.recv_timeout(left) {
                Ok(_) => count += 1,
                Err(_) => break,
            }
        }
    }
    println!("{count}");
    wait_for_end_of_input();
    nodes.iter().for_each(fulmar_net::Node::stop);
    Ok(())
}

//! Many nodes in one process that all send to one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventKind, Put};
use fulmar_lnet_wire::{MTU, Nid};
use fulmar_net::{Node, Runtime};
use serde::{Deserialize, Serialize};

use super::serve::UNCHECKED;
use super::{Endpoint, PORTAL, TICK, match_bits, process, tell};
use crate::exchange::whole;
use crate::witness::Witness;

/// How long all may take after somebody has said that they can end.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a flood fares, told every [`TICK`] and at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flooded {
    /// Messages that were begun.
    pub begun: u64,
    /// Messages that have left their node.
    pub sent: u64,
    /// Messages that were acknowledged.
    pub done: u64,
    /// Messages that failed.
    pub failed: u64,
}

/// Starts a node for each NID of `endpoint`, and says `ready` when all know `target`. When a line has
/// been read, each sends it `each` PUTs of 1 MiB, which `target` may be slow to take; says how it
/// goes until all are done.
///
/// # Errors
/// Why it cannot begin, or that not all was done.
pub fn flood(endpoint: &Endpoint, target: Nid, each: usize) -> Result<(), String> {
    let runtime = Runtime::new(None).map_err(|error| error.to_string())?;
    let (ended, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let sent = Arc::new(AtomicU64::new(0));
    let mut nodes = Vec::new();
    for nid in &endpoint.nids {
        let one = Endpoint { nids: vec![*nid], ..endpoint.clone() };
        let (node, witness) = one.start(&runtime)?;
        let known = node.discover(target, false);
        known.map_err(|errno| format!("{nid} does not find {target}: {errno}"))?;
        nodes.push((node, witness));
    }
    println!("ready");
    let mut go = String::new();
    std::io::stdin().read_line(&mut go).map_err(|error| format!("nobody says go: {error}"))?;
    for (node, witness) in &nodes {
        let counts = (sent.clone(), ended.clone(), failed.clone());
        let refused = |errno: Errno| format!("a node cannot send: {errno}");
        send((node, witness), target, each, counts).map_err(refused)?;
    }
    let begun = (each * nodes.len()) as u64;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let start = Instant::now();
    loop {
        let (done, failed) = (count(&ended), count(&failed));
        tell(&Flooded { begun, sent: count(&sent), done, failed });
        if done + failed >= begun {
            break;
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("{} of {begun} messages were not answered", begun - done));
        }
        nodes.iter().for_each(|(node, witness)| witness.look(node));
        std::thread::sleep(TICK * 5);
    }
    let broken = nodes.iter().find_map(|(node, witness)| {
        witness.rest(node);
        node.stop();
        witness.found()
    });
    broken.map_or(Ok(()), Err)
}

type Counts = (Arc<AtomicU64>, Arc<AtomicU64>, Arc<AtomicU64>);

fn send(
    (node, witness): (&Node, &Witness),
    target: Nid,
    each: usize,
    counts: Counts,
) -> Result<(), Errno> {
    let (sent, done, failed) = counts;
    // One buffer for all: nobody looks at it.
    let buffer = node.allocate(MTU as usize);
    let handler = move |_: &Node, event: &Event| {
        let counter = match (event.kind, event.status) {
            (EventKind::Send, Ok(())) => &sent,
            (EventKind::Ack, Ok(())) => &done,
            (EventKind::Unlink, Ok(())) => return,
            _ => &failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    };
    let md = node.md_bind(whole(&buffer), Arc::new(handler))?;
    for _ in 0..each {
        let put = Put {
            md,
            ack: true,
            source: None,
            target: process(target),
            portal: PORTAL,
            match_bits: match_bits(MTU as usize, true),
            offset: 0,
            header_data: UNCHECKED,
        };
        witness.begins(md, &(&put).into());
        node.put(put)?;
    }
    Ok(())
}

//! Many nodes in one process that all send to one node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_lnet::{EventKind, Put, ServiceConfig};
use fulmar_lnet_wire::{MTU, Nid};
use fulmar_net::exchange::Target;
use fulmar_net::{Batch, Buffer, Delivery, Descriptor, Node, Runtime, Service};
use serde::{Deserialize, Serialize};

use super::serve::UNCHECKED;
use super::{Endpoint, PORTAL, TICK, match_bits, print_line, process};

/// Timeout of all messages after the end of standard input.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The counters of a flood, printed every [`TICK`] and at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloodReport {
    /// Messages that were started.
    pub begun: u64,
    /// Messages that have left their node.
    pub sent: u64,
    /// Messages that were acknowledged.
    pub done: u64,
    /// Messages that failed.
    pub failed: u64,
}

/// Starts a node for each NID of `endpoint`, and prints `ready` when all know `target`. After a
/// line of input, each sends it `each` PUTs of 1 MiB, which `target` may receive slowly; prints the
/// counters until all are done.
///
/// Why it cannot start, or that some messages were not answered.
/// Why it cannot start, or that not all messages were answered.
pub fn flood(endpoint: &Endpoint, target: Nid, each: usize) -> Result<(), String> {
    let runtime = Runtime::new(None).map_err(|error| error.to_string())?;
    let (ended, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let sent = Arc::new(AtomicU64::new(0));
    let mut nodes = Vec::new();
    for nid in &endpoint.nids {
        let one = Endpoint { nids: vec![*nid], ..endpoint.clone() };
        let (node, witness) = one.start(&runtime)?;
        let known = node.admin().discover(target, false);
        known.map_err(|errno| format!("{nid} cannot discover {target}: {errno}"))?;
        nodes.push((node, witness));
    }
    println!("ready");
    let mut go = String::new();
    std::io::stdin()
        .read_line(&mut go)
        .map_err(|error| format!("cannot read the start line: {error}"))?;
    for (node, _) in &nodes {
        let counts = (sent.clone(), ended.clone(), failed.clone());
        let refused = |errno: Errno| format!("a node cannot send: {errno}");
        send(node, target, each, counts).map_err(refused)?;
    }
    let begun = (each * nodes.len()) as u64;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let start = Instant::now();
    loop {
        let (done, failed) = (count(&ended), count(&failed));
        print_line(&FloodReport { begun, sent: count(&sent), done, failed });
        if done + failed >= begun {
            break;
        }
        if start.elapsed() > TIMEOUT {
            return Err(format!("{} of {begun} messages were not answered", begun - done));
        }
        nodes.iter().for_each(|(node, witness)| witness.check_active(node));
        std::thread::sleep(TICK * 5);
    }
    let broken = nodes.iter().find_map(|(node, witness)| {
        witness.check_idle(node);
        node.stop();
        witness.found()
    });
    broken.map_or(Ok(()), Err)
}

type Counts = (Arc<AtomicU64>, Arc<AtomicU64>, Arc<AtomicU64>);

fn send(node: &Node, target: Nid, each: usize, counts: Counts) -> Result<(), Errno> {
    let (sent, done, failed) = counts;
    let handler = move |_: &Service, events: &mut Vec<Delivery>| {
        for Delivery { event, .. } in events.drain(..) {
            let counter = match (event.kind, event.status) {
                (EventKind::Send, Ok(())) => &sent,
                (EventKind::Ack, Ok(())) => &done,
                (EventKind::Unlink, Ok(())) => continue,
                _ => &failed,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    };
    let service = node.open_service(ServiceConfig::default(), Arc::new(handler))?;
    // One buffer for all: its data is not checked.
    let buffer = Buffer::new(MTU as usize);
    let match_bits = match_bits(MTU as usize, true);
    let target = Target { process: process(target), portal: PORTAL, match_bits };
    let put = Put { header_data: UNCHECKED, ..target.put() };
    let mut batch = Batch::new();
    (0..each).for_each(|_| batch.put(Descriptor::over(&buffer).times(2), put));
    service.post(batch).into_iter().try_for_each(|result| result.map(drop))
}

//! What must be so of a node that has nothing to do.

use std::time::{Duration, Instant};

use fulmar_net::Node;

/// How long pings of the node's own may still be under way.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns what is not as it must be when nothing is under way any more. Spec: lnet-behaviour
/// §17, invariants 1 and 3.
pub(super) fn unrest(node: &Node) -> Option<String> {
    let begun = Instant::now();
    loop {
        let unrest = look(node);
        if unrest.is_none() || begun.elapsed() > PATIENCE {
            return unrest;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn look(node: &Node) -> Option<String> {
    let (nis, peers, stats) = node.with_machine(|machine| {
        let lnet = machine.lnet();
        (lnet.nis(), lnet.peers(), lnet.stats())
    });
    let ni = nis.iter().find(|ni| ni.credits != ni.credits_max);
    if let Some(ni) = ni {
        return Some(format!("{} has {} of {} credits", ni.nid, ni.credits, ni.credits_max));
    }
    let peer = peers.iter().flat_map(|peer| &peer.nis);
    let mut peer = peer.filter(|ni| ni.credits != ni.credits_max || ni.queued_bytes != 0);
    if let Some(ni) = peer.next() {
        let (now, max, bytes) = (ni.credits, ni.credits_max, ni.queued_bytes);
        return Some(format!("{} has {now} of {max} credits, {bytes} bytes wait", ni.nid));
    }
    (stats.msgs_alloc != 0).then(|| format!("{} messages are left", stats.msgs_alloc))
}

//! The scale scenario with fewer nodes.

use std::time::Duration;

use fulmar_study::scale::{Size, run};

#[test]
fn two_hundred_nodes_share_eight_routers_evenly_without_queueing() {
    let size = Size {
        nodes: 200,
        routers: 8,
        servers: 4,
        measured: Duration::from_millis(500),
        ..Size::default()
    };
    let scale = run(size, |_| ()).unwrap();
    assert!(scale.bytes_per_second > 0.9 * scale.ideal_bytes_per_second, "{scale:?}");
    assert!(scale.router_shares.0 > 0.8 && scale.router_shares.1 < 1.2, "{scale:?}");
    let (used, total) = scale.buffers.large;
    assert!(used > 0 && used <= total, "{scale:?}");
}

#[test]
fn unsupported_sizes_are_refused() {
    let wrong = [
        Size { nodes: 0, ..Size::default() },
        Size { nodes: 20_000, ..Size::default() },
        Size { routers_of_node: 65, ..Size::default() },
    ];
    assert!(wrong.into_iter().all(|size| run(size, |_| ()).is_err()));
}

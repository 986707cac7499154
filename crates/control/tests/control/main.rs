//! What the port of a node serves: the page in a browser, and the metrics of the dashboard.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod dashboard;
mod page;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use fulmar_control::api::{Admin, Client, RouteAdd, RoutingSet, Server, ServerHandle};
use fulmar_control::config::{PeerConf, RouteConf};
use fulmar_control::show::{Parameter, Target};
use fulmar_control::testing::FakeNode;
use fulmar_lnet::views::{Quantiles, Transit};

/// A node with a peer, a route, forwarded traffic and targets, and its server.
struct NodeFixture {
    directory: PathBuf,
    node: Arc<FakeNode>,
    client: Client,
    port: SocketAddr,
    handle: Option<ServerHandle>,
}

impl NodeFixture {
    fn start(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("fulmar-port-{name}-{}", std::process::id()));
        let path = directory.join("control.sock");
        let server = Server::bind(&path, Some(([127, 0, 0, 1], 0).into())).unwrap();
        let port = server.metrics_address().unwrap();
        let node = Arc::new(FakeNode::new());
        fill(&node);
        let handle = Some(server.spawn(node.clone()).unwrap());
        Self { directory, node, client: Client::new(path), port, handle }
    }
}

impl Drop for NodeFixture {
    fn drop(&mut self) {
        drop(self.handle.take());
        std::fs::remove_dir_all(&self.directory).unwrap();
    }
}

fn fill(node: &FakeNode) {
    let primary = "10.0.0.2@tcp".parse().unwrap();
    let peer = PeerConf { primary, multi_rail: true, nids: vec![primary] };
    node.peer_add(fulmar_control::api::PeerAdd { peer, lock_primary: false }).unwrap();
    let route = RouteConf {
        net: "o2ib".parse().unwrap(),
        gateway: "10.0.0.9@tcp".parse().unwrap(),
        hop: None,
        priority: 0,
        health_sensitivity: None,
    };
    node.route_add(RouteAdd { routes: vec![route] }).unwrap();
    node.routing_set(RoutingSet { enable: Some(true), ..RoutingSet::default() }).unwrap();
    let (from, to) = ("tcp".parse().unwrap(), "o2ib".parse().unwrap());
    node.forward(Transit { from, to, messages: 5, bytes: 1 << 20, latency: Quantiles::default() });
    serve(node, "lv-OST0000", None);
}

/// Gives a node a target that has read 1 MiB.
fn serve(node: &FakeNode, name: &str, error: Option<&str>) {
    let parameter = |file: &str, value: &str| Parameter {
        name: ["obdfilter", name, file].map(str::to_owned).to_vec(),
        value: value.to_owned(),
    };
    let stats = "read_bytes 1 samples [bytes] 1048576 1048576 1048576 0\n\
        read 1 samples [usecs] 300 300 300 90000\n";
    let target = Target {
        kind: "obdfilter".into(),
        name: name.into(),
        uuid: format!("{name}_UUID"),
        directory: "ost0".into(),
        clients: 3,
        in_hand: 2,
        queued: 1,
        has_stopped: false,
        error: error.map(str::to_owned),
    };
    let sizes = [("kbytestotal", "1048576\n"), ("kbytesavail", "524288\n"), ("stats", stats)];
    node.serve(target, sizes.map(|(file, value)| parameter(file, value)).to_vec());
}

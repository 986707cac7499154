use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_base::Errno;

use super::places::Limits;
use super::*;
use crate::config::GlobalKey;
use crate::testing::FakeNode;

struct Node {
    directory: PathBuf,
    client: Client,
    metrics: std::net::SocketAddr,
    node: Arc<FakeNode>,
    handle: Option<ServerHandle>,
}

fn start(name: &str) -> Node {
    start_with(name, |_| ())
}

fn start_with(name: &str, change: impl FnOnce(&mut Limits)) -> Node {
    let directory = std::env::temp_dir().join(format!("fulmar-{name}-{}", std::process::id()));
    let path = directory.join("control.sock");
    let mut server = Server::bind(&path, Some(([127, 0, 0, 1], 0).into())).unwrap();
    change(&mut server.limits);
    let metrics = server.metrics_address().unwrap();
    let node = Arc::new(FakeNode::new());
    let handle = Some(server.spawn(node.clone()).unwrap());
    Node { directory, client: Client::new(path), metrics, node, handle }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.handle.take());
        std::fs::remove_dir_all(&self.directory).unwrap();
    }
}

fn nid(text: &str) -> fulmar_lnet_wire::Nid {
    text.parse().unwrap()
}

#[test]
fn replies_arrive_unchanged() {
    let node = start("says");
    let nets = node.client.call(&NetShow::default()).unwrap();
    assert_eq!(nets, FakeNode::new().net_show(NetShow::default()).unwrap());
    let ping = Ping {
        nids: vec![nid("10.0.0.2@tcp"), nid("10.0.0.99@tcp")],
        source: None,
        timeout: Some(1),
    };
    let answers = node.client.call(&ping).unwrap();
    assert!(answers[0].result.is_ok());
    assert_eq!(answers[1].result, Err(Errno::EHOSTUNREACH.0));
    node.client.call(&GlobalSet { key: GlobalKey::RetryCount, value: 5 }).unwrap();
    let globals = node.client.call(&GlobalShow {}).unwrap();
    assert!(globals.contains(&(GlobalKey::RetryCount, 5)));
    let export = node.client.call(&ExportAll {}).unwrap();
    assert_eq!(export.nets, nets);
}

#[test]
fn refusals_arrive_with_errno_and_hint() {
    let node = start("refuses");
    let call = node.client.call(&NetAdd {
        nets: vec![crate::config::NetConf {
            net: "tcp9".parse().unwrap(),
            nis: crate::config::interface_list("nosuch0").unwrap(),
        }],
        ip2nets: Vec::new(),
    });
    let Err(CallError::Refused(error)) = call else { panic!("{call:?}") };
    assert_eq!((error.errno, error.descr.as_str()), (-100, "cannot add LNet NI"));
    assert!(error.hint.unwrap().starts_with("there is no interface nosuch0 for tcp9"));
    let route = |net: &str, gateway: &str| crate::config::RouteConf {
        net: net.parse().unwrap(),
        gateway: nid(gateway),
        hop: None,
        priority: 0,
        health_sensitivity: None,
    };
    for (net, gateway, errno, descr) in [
        ("tcp", "10.0.0.9@tcp1", -17, "Route already exists or the specified network is local"),
        ("tcp2", "10.0.0.9@tcp1", -113, "No interface configured on the same net as gateway"),
        ("tcp1", "10.0.0.9@tcp1", -22, "invalid settings for route creation"),
    ] {
        let call = node.client.call(&RouteAdd { routes: vec![route(net, gateway)] });
        let Err(CallError::Refused(error)) = call else { panic!("{call:?}") };
        assert_eq!((error.errno, error.descr.as_str()), (errno, descr));
        assert!(error.hint.unwrap().starts_with(&format!("{net} by {gateway}: ")));
    }
    assert_eq!(node.client.call(&RouteShow {}).unwrap(), []);
    let call = node.client.call(&RouteDel { routes: vec![route("tcp2", "10.0.0.9@tcp")] });
    let Err(CallError::Refused(error)) = call else { panic!("{call:?}") };
    assert_eq!((error.errno, error.descr.as_str()), (-2, "failed to delete route"));
}

#[test]
fn tables_and_metrics_are_text() {
    let node = start("tables");
    let nis = node.client.get("/v1/table/nis").unwrap();
    assert!(
        nis.contains("10.0.0.1@tcp                 up    -1    1    8    0   256   256   256\n")
    );
    let Err(CallError::Refused(error)) = node.client.get("/v1/table/nothing") else {
        panic!("there is no such table")
    };
    assert_eq!(error.errno, -Errno::ENOENT.0);
    let metrics = node.client.get("/metrics").unwrap();
    for line in [
        "# HELP fulmar_ni_credits Free credits; if negative, waiting messages.",
        "# TYPE fulmar_messages counter",
        "fulmar_messages_total{direction=\"sent\"} 7",
        "fulmar_ni_credits{nid=\"10.0.0.1@tcp\"} 256",
        "fulmar_ni_messages_total{nid=\"10.0.0.1@tcp\",direction=\"sent\",type=\"put\"} 0",
        "fulmar_ni_failures_total{nid=\"10.0.0.1@tcp\",class=\"no_route\"} 0",
        "# HELP fulmar_socklnd_accepted Connections that peers opened.",
        "fulmar_socklnd_accepted_total 3",
        "# EOF",
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line} in\n{metrics}");
    }
    assert!(metrics.contains("process_resident_memory_bytes "), "{metrics}");
}

#[test]
fn a_router_and_its_routes_are_measured() {
    let node = start("router");
    let quiet = node.client.get("/metrics").unwrap();
    assert!(!quiet.contains("fulmar_router_buffers{"), "{quiet}");
    let route = crate::config::RouteConf {
        net: "o2ib".parse().unwrap(),
        gateway: nid("10.0.0.9@tcp"),
        hop: None,
        priority: 0,
        health_sensitivity: None,
    };
    node.client.call(&RouteAdd { routes: vec![route] }).unwrap();
    node.client.call(&RoutingSet { enable: Some(true), ..RoutingSet::default() }).unwrap();
    let metrics = node.client.get("/metrics").unwrap();
    for line in [
        "fulmar_route_up{net=\"o2ib\",gateway=\"10.0.0.9@tcp\"} 1",
        "fulmar_route_messages_total{net=\"o2ib\",gateway=\"10.0.0.9@tcp\"} 3",
        "fulmar_route_latency_nanoseconds{net=\"o2ib\",gateway=\"10.0.0.9@tcp\",quantile=\"1\"} 2000",
        "fulmar_router_alive{nid=\"10.0.0.9@tcp\"} 1",
        "fulmar_routing_state{state=\"enabled\"} 1",
        "fulmar_router_buffers{pool=\"large\"} 1024",
        "fulmar_router_buffer_credits_min{pool=\"tiny\"} 2048",
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line} in\n{metrics}");
    }
    let routes = node.client.get("/v1/table/routes").unwrap();
    assert!(routes.starts_with("Routing enabled\nnet "), "{routes}");
    assert!(node.client.get("/v1/table/routers").unwrap().contains("up 10.0.0.9@tcp\n"));
    assert!(node.client.get("/v1/table/buffers").unwrap().contains("  256  1024    1024"));
}

#[test]
fn only_so_many_peers_have_metrics() {
    use crate::config::PeerConf;
    let admin = FakeNode::new();
    let before = admin.peer_show(PeerShow::default()).unwrap();
    let before: usize = before.iter().map(|peer| peer.nis.len()).sum();
    let nids = (0..5000).map(|n| nid(&format!("10.9.{}.{}@tcp", n / 250, n % 250))).collect();
    let peer = PeerConf { primary: nid("10.9.0.0@tcp"), multi_rail: true, nids };
    admin.peer_add(PeerAdd { peer, lock_primary: false }).unwrap();
    let metrics = metrics::scrape(&admin).unwrap();
    assert_eq!(metrics.matches("fulmar_peer_health{").count(), 4096);
    assert!(metrics.contains(&format!("fulmar_peer_nids {}\n", before + 5000)));
}

#[test]
fn the_metrics_port_serves_only_what_changes_nothing() {
    let node = start("port");
    let ask = |method: &str, path: &str| {
        let mut stream = std::net::TcpStream::connect(node.metrics).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    };
    let metrics = ask("GET", "/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200") && metrics.contains("fulmar_ni_up{"), "{metrics}");
    for path in ["/", "/v1/view", "/v1/sample"] {
        assert!(ask("GET", path).starts_with("HTTP/1.1 200"), "{path}");
    }
    for (method, path) in
        [("GET", "/v1/table/nis"), ("POST", "/v1/net/show"), ("POST", "/v1/net/del")]
    {
        assert!(ask(method, path).starts_with("HTTP/1.1 404"), "{path}");
    }
}

/// What slow clients send: nothing, a part of the head of a request, and a part of its body.
const PARTS: [&str; 3] = [
    "",
    "POST /v1/net/sh",
    "POST /v1/net/show HTTP/1.1\r\nhost: x\r\ncontent-length: 90000\r\n\r\n{",
];

#[test]
fn clients_that_send_no_whole_request_do_not_block_others() {
    let node = start("silent");
    let clients: Vec<_> = PARTS
        .iter()
        .cycle()
        .take(2 * CONNECTIONS_MAX)
        .map(|part| {
            let mut client = UnixStream::connect(node.client.path()).unwrap();
            client.write_all(part.as_bytes()).unwrap();
            client
        })
        .collect();
    assert!(node.client.call(&NetShow::default()).is_ok());
    let scrapers: Vec<_> = (0..4 * SCRAPERS_MAX)
        .map(|_| std::net::TcpStream::connect(node.metrics).unwrap())
        .collect();
    let mut scraper = std::net::TcpStream::connect(node.metrics).unwrap();
    scraper.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut reply = String::new();
    scraper.read_to_string(&mut reply).unwrap();
    assert!(reply.ends_with("# EOF\n"), "{reply}");
    drop((clients, scrapers));
}

#[test]
fn clients_that_do_not_read_their_replies_do_not_block_others() {
    let node = start("unread");
    long_metrics(&node);
    let clients: Vec<_> = (0..CONNECTIONS_MAX + 10).map(|_| scraper(&node)).collect();
    assert!(node.client.call(&NetShow::default()).is_ok());
    drop(clients);
}

#[test]
fn slow_clients_are_sent_away() {
    let node = start_with("slow", |limits| {
        let time = Duration::from_millis(50);
        *limits = Limits { request: time, pause: time, ..*limits };
    });
    for part in PARTS {
        let mut client = UnixStream::connect(node.client.path()).unwrap();
        client.write_all(part.as_bytes()).unwrap();
        closed(client);
    }
    long_metrics(&node);
    closed(scraper(&node));
}

/// Gives the node so many peers that its metrics are longer than the buffers of a socket.
fn long_metrics(node: &Node) {
    for number in 0..600 {
        let primary = nid(&format!("10.1.{}.{}@tcp", number / 100, number % 100 + 1));
        let peer = crate::config::PeerConf { primary, multi_rail: true, nids: vec![primary] };
        node.node.peer_add(PeerAdd { peer, lock_primary: false }).unwrap();
    }
    let length = metrics::scrape(&*node.node).unwrap().len();
    assert!(length > 1 << 20, "{length} bytes");
}

/// Returns a client that requests the metrics.
fn scraper(node: &Node) -> UnixStream {
    let mut client = UnixStream::connect(node.client.path()).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    client
}

/// Waits until the server has closed a connection on which the client writes byte by byte.
fn closed(mut client: UnixStream) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while client.write_all(b"x").is_ok() {
        assert!(Instant::now() < deadline, "it is still open");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_node_that_has_failed_says_so_and_nothing_else() {
    let node = start("failed");
    let healthy = node.client.get("/metrics").unwrap();
    assert!(healthy.contains("\nfulmar_node_failed 0\n"), "{healthy}");
    node.node.fail("a credit was returned twice");
    let call = node.client.call(&NetShow::default());
    let Err(CallError::Refused(error)) = call else { panic!("{call:?}") };
    assert_eq!(error.errno, -Errno::EIO.0);
    assert_eq!(error.descr, "the node has failed: a credit was returned twice");
    assert!(error.hint.unwrap().contains("its process is about to end"));
    assert!(node.client.get("/v1/table/nis").is_err());
    let metrics = node.client.get("/metrics").unwrap();
    let lines: Vec<_> = metrics.lines().filter(|line| !line.starts_with("# HELP")).collect();
    assert_eq!(lines, ["# TYPE fulmar_node_failed gauge", "fulmar_node_failed 1", "# EOF"]);
}

#[test]
fn long_and_wrong_requests_are_refused() {
    let node = start("wrong");
    let post = |path: &str, body: &str| {
        let mut stream = UnixStream::connect(node.client.path()).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        // The server may disconnect before it has read everything.
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
        let mut reply = String::new();
        let _ = stream.read_to_string(&mut reply);
        reply
    };
    assert!(post("/v1/net/show", "").starts_with("HTTP/1.1 200"));
    let unknown = post("/v1/net/show", "{\"nett\": \"tcp\"}");
    assert!(unknown.starts_with("HTTP/1.1 400") && unknown.contains("unknown field"), "{unknown}");
    let long = " ".repeat(REQUEST_BYTES_MAX + 1);
    assert!(post("/v1/net/show", &long).starts_with("HTTP/1.1 413"));
    assert!(post("/v1/nothing", "").starts_with("HTTP/1.1 404"));
}

#[test]
fn a_socket_belongs_to_one_node_and_a_stale_one_is_replaced() {
    let node = start("socket");
    let path = node.client.path().to_owned();
    let second = Server::bind(&path, None).unwrap_err().to_string();
    assert!(second.starts_with("another node answers at"), "{second}");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let stale = node.directory.join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    let server = Server::bind(&stale, None).unwrap();
    drop(server.spawn(Arc::new(FakeNode::new())).unwrap());
    assert!(!stale.exists(), "a server removes its socket");
}

#[test]
fn what_is_no_socket_is_neither_replaced_nor_removed() {
    let node = start("no-socket");
    let (file, link) = (node.directory.join("file"), node.directory.join("link"));
    std::fs::write(&file, "of somebody").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in [&file, &link] {
        let refused = Server::bind(path, None).unwrap_err().to_string();
        assert!(refused.contains("what is there is no socket"), "{refused}");
        remove_socket(path);
        assert_eq!(std::fs::read_to_string(path).unwrap(), "of somebody");
    }
    // A file that took the place of the socket stays when the server ends.
    let path = node.directory.join("other.sock");
    let server = Server::bind(&path, None).unwrap();
    let handle = server.spawn(Arc::new(FakeNode::new())).unwrap();
    std::fs::rename(&file, &path).unwrap();
    drop(handle);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "of somebody");
}

#[test]
fn without_a_node_the_error_says_what_to_do() {
    let client = Client::new("/nonexistent/control.sock");
    let error = client.call(&StatsShow {}).unwrap_err().to_string();
    assert!(error.starts_with("no node answers at /nonexistent/control.sock ("), "{error}");
    assert!(error.ends_with("with --control or FULMAR_CONTROL"), "{error}");
}

//! An administrator works while many others connect.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::lab::{Lab, Node};

/// Opens connections to the control socket that send nothing, or only a part of a request.
fn silent_clients(node: &Node, count: usize) -> Vec<UnixStream> {
    let parts = ["", "GET /met", "POST /v1/net/show HTTP/1.1\r\ncontent-length: 9\r\n\r\n{"];
    let parts = parts.iter().cycle().take(count);
    parts
        .map(|part| {
            let mut client = node.client();
            client.write_all(part.as_bytes()).unwrap();
            client
        })
        .collect()
}

/// Opens connections to the acceptor, each from an address of its own, that send nothing.
fn silent_callers(address: SocketAddr, count: u8) -> Vec<TcpStream> {
    let call = |number| {
        let own = Ipv4Addr::new(127, 7, number, 1);
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::new(own.into(), 0)).unwrap();
        connect(&socket, &address).unwrap();
        TcpStream::from(socket)
    };
    (0..count).flat_map(|number| [call(number), call(number)]).collect()
}

#[test]
fn an_administrator_is_not_kept_waiting_by_a_hundred_silent_clients() {
    let lab = Lab::new("clients");
    let node = lab.node(2);
    let clients = silent_clients(&node, 100);
    for _ in 0..3 {
        assert!(node.output("lnetctl net show").contains("nid: 127.0.0.2@tcp\n"));
    }
    assert!(node.get("/metrics").contains("\nfulmar_node_failed 0\n"));
    drop(clients);
}

#[test]
fn a_node_with_few_descriptors_answers_while_hundreds_connect() {
    let lab = Lab::new("files");
    let a = lab.node_with_files(2, 256, &["--networks", "tcp(127.0.0.2)"]);
    let b = lab.node(3);
    let callers = silent_callers(([127, 0, 0, 2], lab.port).into(), 250);
    let clients = silent_clients(&a, 100);
    assert!(a.output("lnetctl net show").contains("nid: 127.0.0.2@tcp\n"));
    assert!(a.get("/metrics").contains("\nfulmar_node_failed 0\n"));
    // Either node opens connections. That of a caller may be one of those that give way.
    let ping = b.wait_for_success("lnetctl ping 127.0.0.2@tcp");
    assert!(ping.contains("nid: 127.0.0.2@tcp\n"));
    assert!(a.output("lnetctl discover 127.0.0.3@tcp").contains("nid: 127.0.0.3@tcp\n"));
    drop((callers, clients));
    assert_eq!(a.output("lnetctl debug check"), "all invariants hold\n");
}

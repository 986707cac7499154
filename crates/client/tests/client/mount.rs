//! Everything between an address and the size of its targets.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_client::blocking::wait;
use fulmar_client::{Address, ClientNode, Error, MountOptions, Session, SessionOptions, Usage};
use fulmar_loopback::ports;
use fulmar_lustre_wire::Opcode;
use fulmar_net::{NiAddress, NiOptions, Node, Options, Runtime};
use fulmar_socklnd::AcceptMode;

use crate::server::Servers;

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

fn session(address: &Address, port: u16) -> Session {
    let options = SessionOptions { interface: None, port, timeout: Duration::from_secs(60) };
    Session::start(&address.mgs, options).unwrap()
}

#[test]
fn a_client_asks_every_target_and_leaves() {
    let port = ports(1);
    let servers = Servers::start("127.0.0.7@tcp", port);
    // The first of these nodes is down.
    let address = address("127.0.0.6@tcp:127.0.0.7@tcp:/lv");
    let mut session = session(&address, port);
    let mgs = session.connect_mgs(&address).unwrap();
    assert_eq!(session.nid(mgs), Some(servers.nid));
    let file_system = session.file_system(mgs, &address).unwrap();
    assert_eq!((file_system.mdts.len(), file_system.osts.len()), (1, 2));
    assert!(file_system.targets().all(|target| target.nids == [servers.nid]));

    let members = session.connect_targets(file_system.targets());
    // The OST recovers for a while.
    servers.refuse(2);
    let answers = members.statfs(&session);
    // That of the metadata target, and of the OST that there is.
    let sizes = [0, 1].map(|place| Usage::of(answers[place].as_ref().unwrap()).bytes);
    assert_eq!(sizes, [245_504 << 10, 441_344 << 10]);
    assert_eq!(answers[2], Err(Errno::ENODEV));
    assert_eq!(members.ping(&session), [Ok(()), Ok(()), Err(Errno::ENODEV)]);
    assert_eq!(session.ping(mgs), Ok(()));
    assert_eq!(servers.clients(), 3);

    drop(session);
    assert_eq!(servers.clients(), 0);
    let served = servers.served();
    assert_eq!(served.iter().filter(|one| **one == Opcode::OST_STATFS).count(), 3);
    assert_eq!(served.iter().filter(|one| **one == Opcode::MDS_STATFS).count(), 1);
    let logs: Vec<_> = served.iter().filter(|one| (501..509).contains(&one.0)).collect();
    // Both logs are opened and have a header; that of parameters has no record.
    let expected = [
        Opcode::LLOG_CREATE,
        Opcode::LLOG_READ_HEADER,
        Opcode::LLOG_NEXT_BLOCK,
        Opcode::LLOG_CREATE,
        Opcode::LLOG_READ_HEADER,
    ];
    assert_eq!(logs, expected.iter().collect::<Vec<_>>());
}

#[test]
fn a_target_that_does_not_recover_in_time_is_reported() {
    let port = ports(1);
    let servers = Servers::start("127.0.0.12@tcp", port);
    servers.refuse(u32::MAX);
    let address = address("127.0.0.12@tcp:/lv");
    let options = SessionOptions { interface: None, port, timeout: Duration::from_secs(1) };
    let mut session = Session::start(&address.mgs, options).unwrap();
    let mgs = session.connect_mgs(&address).unwrap();
    let file_system = session.file_system(mgs, &address).unwrap();
    let members = session.connect_targets(&file_system.osts[..1]);
    assert_eq!(members.statfs(&session), [Err(Errno::EAGAIN)]);
}

#[test]
fn a_file_system_that_does_not_exist_is_an_error() {
    let port = ports(1);
    let servers = Servers::start("127.0.0.8@tcp", port);
    let address = address("127.0.0.8@tcp:/other");
    let mut session = session(&address, port);
    let mgs = session.connect_mgs(&address).unwrap();
    let error = session.file_system(mgs, &address).unwrap_err();
    assert!(matches!(error, Error::NoFileSystem { .. }), "{error}");
    assert_eq!(error.errno(), Some(Errno::ENOENT));
    drop(session);
    assert_eq!(servers.clients(), 0);
}

/// A lock of a client that is gone would keep others waiting.
#[test]
fn a_mount_that_fails_leaves_nothing_at_the_servers() {
    let port = ports(1);
    let servers = Servers::start("127.0.0.91@tcp", port);
    let options = SessionOptions { interface: None, port, timeout: Duration::from_secs(30) };
    let wanted = address("127.0.0.91@tcp:/other");
    let node = ClientNode::start(&wanted.mgs, options).unwrap();
    let error = wait(node.mount(&wanted, MountOptions::default())).unwrap_err();
    assert!(matches!(error, Error::NoFileSystem { .. }), "{error}");
    assert_eq!(servers.clients(), 0);
}

#[test]
fn a_management_service_that_does_not_exist_is_an_error_at_once() {
    let address = address("127.0.0.9@tcp:127.0.0.10@tcp:/lv");
    let mut session = session(&address, ports(1));
    let error = session.connect_mgs(&address).unwrap_err();
    let text = "the MGS at 127.0.0.9@tcp, 127.0.0.10@tcp does not answer: ";
    assert!(error.to_string().starts_with(text), "{error}");
    assert!(matches!(error, Error::Unreachable { lnet: None, .. }), "{error:?}");
}

#[test]
fn a_node_without_a_management_service_is_named() {
    let port = ports(1);
    let mut options =
        Options { nis: vec![NiOptions::at([127, 0, 0, 11].into())], ..Options::default() };
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = port;
    let runtime = Runtime::new(Some(1)).unwrap();
    let node = Node::start(&runtime, options).unwrap();
    let address = address("127.0.0.11@tcp:/lv");
    let options = SessionOptions { interface: None, port, timeout: Duration::from_millis(100) };
    let mut session = Session::start(&address.mgs, options).unwrap();
    let error = session.connect_mgs(&address).unwrap_err();
    let expected = (Some(Errno::ETIMEDOUT), Some(address.mgs[0]));
    let lnet = match &error {
        Error::Unreachable { lnet, .. } => *lnet,
        _ => None,
    };
    assert_eq!((error.errno(), lnet), expected, "{error:?}");
    node.stop();
}

#[test]
fn two_sessions_with_one_nid_follow_each_other() {
    let port = ports(1);
    let servers = Servers::start("127.0.0.13@tcp", port);
    let address = address("127.0.0.13@tcp:/lv");
    let first = session(&address, port);
    let started = std::thread::scope(|scope| {
        let second = scope.spawn(|| session(&address, port));
        drop(first);
        second.join()
    });
    assert!(started.unwrap().connect_mgs(&address).is_ok());
    let other = NiAddress::Ip([127, 0, 0, 14].into());
    let first = session(&address, port);
    let options = SessionOptions { interface: Some(other), port, timeout: Duration::ZERO };
    assert!(Session::start(&address.mgs, options).is_ok());
    drop((first, servers));
}

#[test]
fn networks_that_are_not_supported_are_an_error() {
    let options = SessionOptions { interface: None, port: 988, timeout: Duration::ZERO };
    let address = address("10.0.0.1@o2ib:/lv");
    let error = Session::start(&address.mgs, options).unwrap_err();
    assert_eq!(error.to_string(), "the network of 10.0.0.1@o2ib is not supported: only tcp is");
}

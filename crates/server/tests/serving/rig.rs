//! Nodes, directories of targets, and a client.

use std::path::PathBuf;
use std::time::Duration;

use fulmar_client::{Address, Session, SessionOptions};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::message::Message;
use fulmar_net::{NiOptions, Node, Options, Runtime};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, TargetKind};
use fulmar_server::{Label, ServeOptions, Serving, TargetLabel};
use fulmar_socklnd::AcceptMode;

pub(crate) const PORT: u16 = 9971;
/// Longer than anything takes that works.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A directory that is removed with the test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fulmar-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes a file system with the name `lv`, whose management service is at `nid`. Returns its address and the directories
/// of its MDT and its OST.
pub(crate) fn file_system(scratch: &Scratch, nid: Nid) -> (Address, Vec<PathBuf>) {
    let address: Address = format!("{nid}:/lv").parse().unwrap();
    let directories = vec![scratch.0.join("mdt"), scratch.0.join("ost")];
    let label = |kind| TargetLabel { kind, index: 0, address: address.clone() };
    fulmar_server::format_both(&directories[0], &label(TargetKind::Mdt)).unwrap();
    fulmar_server::format(&directories[1], &Label::Target(label(TargetKind::Ost))).unwrap();
    (address, directories)
}

/// Starts a node at a loopback address that no other test has.
pub(crate) fn node(runtime: &Runtime) -> (Node, Nid) {
    let address = fulmar_loopback::address().into();
    let mut options = Options::default();
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = PORT;
    options.nis.push(NiOptions::at(address));
    let nid = format!("{address}@tcp").parse().unwrap();
    (Node::start(runtime, options).unwrap(), nid)
}

pub(crate) fn serve(node: &Node, nid: Nid, directories: Vec<PathBuf>) -> Serving {
    let options = ServeOptions { directories, nids: vec![nid], port: PORT };
    Serving::start(node, &options).unwrap()
}

/// Begins a session of a client.
pub(crate) fn session(client: &Node, own: Nid) -> Session {
    session_at(client, own, PORT)
}

/// The same where all nodes have another port.
pub(crate) fn session_at(client: &Node, own: Nid, port: u16) -> Session {
    let options = SessionOptions { interface: None, port, timeout: TIMEOUT };
    Session::on(client, &[own], options).unwrap()
}

pub(crate) fn ask(
    session: &Session,
    target: ImportId,
    request: Message<'static>,
) -> Box<Message<'static>> {
    session.call(target, Request::new(request, 64 << 10)).unwrap()
}

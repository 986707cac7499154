//! The service of callbacks of a client node, and servers that break the rules.

use fulmar_lustre_wire::format::{BLOCKING, OST_DISCONNECT};
use fulmar_lustre_wire::message::Flavor;

use super::*;

const TARGET: TargetId = TargetId(0);
const CONNECTED: Handle = Handle(0x1234_5678_9abc);

fn client_node() -> Rig {
    let mut config = config();
    config.partitions = vec![PartitionConfig::callbacks()];
    config.targets[0].kind = TargetKind::Client;
    config.targets[0].operations = &[Opcode::LDLM_BL_CALLBACK];
    let mut rig = Rig::new(config);
    admit(&mut rig);
    rig
}

fn admit(rig: &mut Rig) {
    let granted = ConnectData { flags: ConnectFlags::AT, ..ConnectData::default() };
    rig.server.admit_server(rig.now, TARGET, CONNECTED, node(1), Flavor::NULL, &granted);
    rig.server.check_invariants().unwrap();
}

fn callback(handle: Handle) -> Message<'static> {
    let mut message = request(&BLOCKING, handle);
    message.body.connection_count = 0;
    message
}

fn send(rig: &mut Rig, xid: u64, message: &Message<'_>) {
    rig.deliver(node(1), portal::LDLM_CALLBACK_REQUEST, xid, message.to_bytes());
}

fn status(rig: &mut Rig, message: &Message<'_>) -> (Kind, i32) {
    send(rig, 1 << 20, message);
    assert!(rig.tasks.is_empty());
    rig.sent.pop_front().expect("there is a reply").status()
}

#[test]
fn a_callback_names_the_connection_of_an_import() {
    let mut rig = client_node();
    send(&mut rig, 128, &callback(CONNECTED));
    let request = rig.request();
    assert_eq!((request.export, request.target), (CONNECTED, TARGET));
    let sent = rig.reply(request.id, Message::reply(&BLOCKING, Status::OK));
    assert_eq!((sent.put.portal, sent.put.offset), (portal::LDLM_CALLBACK_REPLY, 224));
    let refused = (Kind::ERROR, -107);
    assert_eq!(status(&mut rig, &callback(Handle(5))), refused);
    assert!(rig.server.dismiss_server(CONNECTED) && !rig.server.dismiss_server(CONNECTED));
    assert_eq!(status(&mut rig, &callback(CONNECTED)), refused);
    assert!(rig.server.exports().is_empty() && rig.tasks.is_empty());
}

#[test]
fn nothing_connects_to_a_client_node_or_ends_its_imports() {
    let mut rig = client_node();
    assert_eq!(status(&mut rig, &connect("other")), (Kind::ERROR, -95));
    assert_eq!(status(&mut rig, &request(&OST_DISCONNECT, CONNECTED)), (Kind::ERROR, -95));
    assert_eq!(status(&mut rig, &ping(CONNECTED)), (Kind::ERROR, -95));
    let unknown = request(&fulmar_lustre_wire::format::UNKNOWN, CONNECTED);
    assert_eq!(status(&mut rig, &unknown), (Kind::ERROR, -95));
    assert_eq!(rig.server.exports().len(), 1);
    // A server is silent as long as there is nothing to say.
    rig.advance(100_000);
    assert_eq!(rig.server.exports().len(), 1);
}

#[test]
fn a_server_that_is_reached_again_may_count_anew() {
    let mut rig = client_node();
    let mut later = callback(CONNECTED);
    later.body.last_xid = 1 << 40;
    send(&mut rig, (1 << 40) + 128, &later);
    assert!(rig.request().id.0 == 0);
    assert_eq!(status(&mut rig, &callback(CONNECTED)), (Kind::ERROR, -71));
    admit(&mut rig);
    send(&mut rig, 256, &callback(CONNECTED));
    assert_eq!(rig.request().xid, 256);
}

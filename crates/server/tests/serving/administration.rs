//! What an administrator changes while clients have read the configuration.

use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::{Address, Session};
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::format::{ENQUEUE, LOCK_REPLY, LOCK_REQUEST};
use fulmar_lustre_wire::ldlm::{
    ConfigLock, LockDesc, LockMode, LockReply, LockRequest, LockType, ResourceDesc, ResourceId,
};
use fulmar_lustre_wire::message::Message;
use fulmar_net::Runtime;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::TargetKind;
use fulmar_server::{PoolChange, TargetLabel, TargetName};

use crate::rig::{Scratch, TIMEOUT, ask, node, serve, session};

/// Asks for the lock of those who have read a log. Returns whether it is granted at once.
fn lock(session: &Session, mgs: ImportId, (log, kind): (&str, ConfigLock), handle: u64) -> bool {
    let id = ResourceId::of_log(log, kind);
    let resource = ResourceDesc { kind: LockType::PLAIN, id, ..ResourceDesc::default() };
    let lock = LockDesc { resource, requested: LockMode::CR, ..LockDesc::default() };
    let handles = vec![Handle(handle), Handle(0)];
    let lock = LockRequest { count: 1, lock, handles, ..LockRequest::default() };
    let reply = ask(session, mgs, Message::request(&ENQUEUE).with(&LOCK_REQUEST, &lock));
    let answer: LockReply = reply.require(&LOCK_REPLY).unwrap();
    answer.lock.granted == LockMode::CR
}

#[test]
fn readers_of_a_changed_configuration_are_called_back() {
    let scratch = Scratch::new("administration");
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, nid) = node(&runtime);
    let address: Address = format!("{nid}:/lv").parse().unwrap();
    let label = TargetLabel { kind: TargetKind::Mdt, index: 0, address: address.clone() };
    fulmar_server::format_both(&scratch.0, &label).unwrap();
    let serving = serve(&server, nid, vec![scratch.0.clone()]);
    let administration = serving.administration().unwrap();

    let (client, own) = node(&runtime);
    let mut known = session(&client, own);
    let mgs = known.connect_mgs(&address).unwrap();
    let begun = Instant::now();
    while administration.pools("lv").is_err() {
        assert!(begun.elapsed() < TIMEOUT, "the MDT does not register");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut handle = 0x100;
    for (log, change) in [
        (("params", ConfigLock::PARAMS), "osc.*.max_dirty_mb=64"),
        (("lv-client", ConfigLock::CONFIG), "lv.sys.timeout=40"),
    ] {
        assert!(lock(&known, mgs, log, handle));
        if change.starts_with("lv.") {
            administration.set_parameter(change, false).unwrap()
        } else {
            administration.set_parameter_of_all(change, false).unwrap()
        }
        // The service waits until those who have the lock have given it back: no other client gets it before.
        let begun = Instant::now();
        loop {
            handle += 1;
            if !lock(&known, mgs, log, handle) {
                break;
            }
            assert!(begun.elapsed() < TIMEOUT, "no client is called back about {change}");
        }
        handle += 1;
    }
    let ost = TargetName { file_system: "lv".into(), kind: TargetKind::Ost, index: 0 };
    let refused = administration.change_pool("lv", "flash", &PoolChange::Add(ost));
    assert_eq!(refused, Err(Errno::ENODEV));
    drop(known);
    serving.stop();
    assert_eq!(administration.set_parameter("lv.sys.timeout=50", false), Err(Errno::ENODEV));
    client.stop();
    server.stop();
}

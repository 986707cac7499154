//! What an administrator sets for good, applied by the targets of the node, also after a restart.

use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::{Address, Session};
use fulmar_lustre_wire::Uuid;
use fulmar_lustre_wire::format::{GETATTR, MDT_BODY};
use fulmar_lustre_wire::mdt::MdtBody;
use fulmar_lustre_wire::message::Message;
use fulmar_net::Runtime;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, TargetKind};
use fulmar_server::{NodemapChange, Parameters, Property, TargetLabel, Unset};

use crate::mdt::root;
use crate::rig::{Scratch, TIMEOUT, node, serve, session};

fn value(parameters: &Parameters, name: &str) -> Option<String> {
    let all = parameters.all().into_iter();
    let found = all.map(|(parts, text)| (parts.join("."), text)).find(|(full, _)| full == name);
    found.map(|(_, text)| text.trim_end().to_owned())
}

fn wait(parameters: &Parameters, name: &str, expected: &str) {
    let begun = Instant::now();
    while value(parameters, name).as_deref() != Some(expected) {
        assert!(begun.elapsed() < TIMEOUT, "{name} is {:?}", value(parameters, name));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn targets_apply_what_an_administrator_sets_for_good() {
    let scratch = Scratch::new("settings");
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, nid) = node(&runtime);
    let address: Address = format!("{nid}:/lv").parse().unwrap();
    let label = TargetLabel { kind: TargetKind::Mdt, index: 0, address };
    fulmar_server::format_both(&scratch.0, &label).unwrap();
    let serving = serve(&server, nid, vec![scratch.0.clone()]);
    let administration = serving.administration().unwrap();
    let parameters = serving.parameters();
    assert_eq!(value(&parameters, "mdt.lv-MDT0000.root_squash").as_deref(), Some("0:0"));
    assert_eq!(value(&parameters, "timeout").as_deref(), Some("100"));

    let begun = Instant::now();
    while administration.pools("lv").is_err() {
        assert!(begun.elapsed() < TIMEOUT, "the MDT does not register");
        std::thread::sleep(Duration::from_millis(50));
    }
    for text in ["lv.mdt.root_squash=99:98", "lv.sys.at_max=300", "lv.sys.timeout=40"] {
        administration.set_parameter(text, false).unwrap();
    }
    administration.set_parameter("lv-MDT0000.mdt.no_such_parameter=1", false).unwrap();
    let of_all = "mdt.*.job_cleanup_interval=30";
    administration.set_parameter_of_all(of_all, false).unwrap();
    wait(&parameters, "mdt.lv-MDT0000.root_squash", "99:98");
    wait(&parameters, "at_max", "300");
    wait(&parameters, "mdt.lv-MDT0000.job_cleanup_interval", "30");

    // What is set at the target itself holds until it ends.
    let set = parameters.set("mdt.*.root_squash", "5:5");
    assert_eq!(set, Ok(vec!["mdt.lv-MDT0000.root_squash".to_owned()]));
    assert_eq!(value(&parameters, "mdt.lv-MDT0000.root_squash").as_deref(), Some("5:5"));
    assert!(matches!(parameters.set("mdt.*.instance", "1"), Err(Unset::ReadOnly(_))));
    assert!(matches!(parameters.set("mdt.*.root_squash", "x"), Err(Unset::Invalid { .. })));
    assert!(matches!(parameters.set("mdt.*.none", "1"), Err(Unset::Unknown(_))));
    serving.stop();
    assert!(value(&parameters, "mdt.lv-MDT0000.root_squash").is_none(), "they end with the target");

    let serving = serve(&server, nid, vec![scratch.0.clone()]);
    let parameters = serving.parameters();
    assert_eq!(value(&parameters, "mdt.lv-MDT0000.root_squash").as_deref(), Some("99:98"));
    assert_eq!(value(&parameters, "timeout").as_deref(), Some("40"));
    serving.stop();
    server.stop();
}

#[test]
fn targets_use_the_nodemaps_of_their_mgs() {
    let scratch = Scratch::new("nodemaps");
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, nid) = node(&runtime);
    let address: Address = format!("{nid}:/lv").parse().unwrap();
    let label = TargetLabel { kind: TargetKind::Mdt, index: 0, address: address.clone() };
    fulmar_server::format_both(&scratch.0, &label).unwrap();
    let serving = serve(&server, nid, vec![scratch.0.clone()]);
    let administration = serving.administration().unwrap();

    let (client, own) = node(&runtime);
    let mut session = session(&client, own);
    let mgs = session.connect_mgs(&address).unwrap();
    let begun = Instant::now();
    let found = loop {
        let found = session.file_system(mgs, &address).ok().and_then(|fs| fs.mdts.first().cloned());
        if let Some(found) = found {
            break found;
        }
        assert!(begun.elapsed() < TIMEOUT, "the MDT does not register");
        std::thread::sleep(Duration::from_millis(50));
    };
    let mdt = session.connect_as(Uuid::new("client").unwrap(), &found).unwrap();
    // A client on the node of the server.
    let mut local = crate::rig::session(&server, nid);
    let local_mdt = local.connect_as(Uuid::new("local").unwrap(), &found).unwrap();
    let top = root(&session, mdt);
    let owner_at = |(session, mdt): (&Session, ImportId)| {
        let asked = MdtBody { fid: top, ..MdtBody::default() };
        let message = Message::request(&GETATTR).with(&MDT_BODY, &asked);
        let reply = session.call(mdt, Request::new(message, 8192));
        reply.map(|reply| reply.require(&MDT_BODY).unwrap().uid)
    };
    let wait_at = |client: (&Session, ImportId), expected: Result<u32, Errno>| {
        let begun = Instant::now();
        while owner_at(client) != expected {
            let owner = owner_at(client);
            assert!(begun.elapsed() < TIMEOUT, "the owner of the root is {owner:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let wait = |expected| wait_at((&session, mdt), expected);
    wait(Ok(0));
    let change_of = |name, change| administration.change_nodemap(name, &change).unwrap();
    let change = |change| change_of("site", change);
    change(NodemapChange::Add);
    change(NodemapChange::AddNids(NodemapChange::nids(&own.to_string()).unwrap()));
    change(NodemapChange::Set(Property::parse("squash_uid", "99").unwrap()));
    administration.activate_nodemaps(true).unwrap();
    wait(Ok(99));
    wait_at((&local, local_mdt), Ok(65534));
    // `0@lo` counts as the first NID of the node.
    change_of("home", NodemapChange::Add);
    change_of("home", NodemapChange::AddNids(NodemapChange::nids(&nid.to_string()).unwrap()));
    for property in ["admin", "trusted"] {
        change_of("home", NodemapChange::Set(Property::parse(property, "1").unwrap()));
    }
    wait_at((&local, local_mdt), Ok(0));
    change(NodemapChange::Set(Property::parse("deny_unknown", "1").unwrap()));
    wait(Err(Errno::EACCES));
    assert!(session.nodemaps(mgs).unwrap().len() >= 4);
    administration.activate_nodemaps(false).unwrap();
    wait(Ok(0));
    drop((session, local));
    serving.stop();
    client.stop();
    server.stop();
}

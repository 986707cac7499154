//! What clients learn of where a target may be.

use std::time::{Duration, Instant};

use fulmar_client::{Address, FsTarget};
use fulmar_lnet_wire::Nid;
use fulmar_net::Runtime;
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Label, Partners, Placement, TargetLabel};

use crate::rig::{Scratch, TIMEOUT, node, serve, session};

#[test]
fn clients_learn_of_the_nodes_that_may_run_a_target() {
    let scratch = Scratch::new("placement");
    let runtime = Runtime::new(Some(2)).unwrap();
    let (server, nid) = node(&runtime);
    let address: Address = format!("{nid}:/lv").parse().unwrap();
    let directory = |name: &str| scratch.0.join(name);
    let label = |kind, index| TargetLabel { kind, index, address: address.clone() };
    fulmar_server::format_both(&directory("mdt"), &label(TargetKind::Mdt, 0)).unwrap();
    let other: Nid = "127.0.0.99@tcp".parse().unwrap();
    let placements = [
        Placement::default(),
        Placement { partners: Partners::FailNodes(vec![vec![other]]), ..Placement::default() },
        Placement {
            partners: Partners::ServiceNodes(vec![vec![other], vec![nid]]),
            networks: vec![nid.net()],
        },
    ];
    let mut directories = vec![directory("mdt")];
    for (index, placement) in (0..).zip(&placements) {
        let ost = directory(&format!("ost{index}"));
        fulmar_server::format(&ost, &Label::Target(label(TargetKind::Ost, index))).unwrap();
        fulmar_server::place(&ost, placement).unwrap();
        directories.push(ost);
    }
    fulmar_server::place(&directories[0], &placements[1]).unwrap();
    let serving = serve(&server, nid, directories);

    let (client, own) = node(&runtime);
    let mut known = session(&client, own);
    let mgs = known.connect_mgs(&address).unwrap();
    let begun = Instant::now();
    let found = loop {
        match known.file_system(mgs, &address) {
            Ok(found) if found.osts.len() == 3 && !found.mdts.is_empty() => break found,
            other => assert!(begun.elapsed() < TIMEOUT, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let nids = |target: &FsTarget| target.nids.clone();
    assert_eq!(nids(&found.mdts[0]), [nid, other]);
    let osts: Vec<_> = found.osts.iter().map(nids).collect();
    assert_eq!(osts, [vec![nid], vec![nid, other], vec![nid, other]]);
    drop(known);
    serving.stop();
    client.stop();
    server.stop();
}

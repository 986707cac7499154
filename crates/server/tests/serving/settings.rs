//! What an administrator sets for good, applied by the targets of the node, also after a restart.

use std::time::Instant;

use fulmar_client::Address;
use fulmar_net::Runtime;
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Parameters, TargetLabel, Unset};

use crate::rig::{PATIENCE, Scratch, node, serve};

fn value(parameters: &Parameters, name: &str) -> Option<String> {
    let all = parameters.all().into_iter();
    let found = all.map(|(parts, text)| (parts.join("."), text)).find(|(full, _)| full == name);
    found.map(|(_, text)| text.trim_end().to_owned())
}

fn wait(parameters: &Parameters, name: &str, expected: &str) {
    let begun = Instant::now();
    while value(parameters, name).as_deref() != Some(expected) {
        assert!(begun.elapsed() < PATIENCE, "{name} is {:?}", value(parameters, name));
        std::thread::sleep(std::time::Duration::from_millis(50));
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
    let mut serving = serve(&server, nid, vec![scratch.0.clone()]);
    let administration = serving.administration().unwrap();
    let parameters = serving.parameters();
    assert_eq!(value(&parameters, "mdt.lv-MDT0000.root_squash").as_deref(), Some("0:0"));
    assert_eq!(value(&parameters, "timeout").as_deref(), Some("100"));

    let begun = Instant::now();
    while administration.pools("lv").is_err() {
        assert!(begun.elapsed() < PATIENCE, "the MDT does not register");
        std::thread::sleep(std::time::Duration::from_millis(50));
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

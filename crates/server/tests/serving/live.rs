//! Targets that are started and stopped while their node runs.

use std::net::{IpAddr, TcpListener};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::Address;
use fulmar_net::Runtime;
use fulmar_rpc::import::TargetKind;
use fulmar_server::{ChangeError, Label, TargetLabel};

use crate::rig::{PORT, Scratch, node, serve};

#[test]
fn a_target_is_started_and_stopped_while_others_are_served() {
    let scratch = Scratch::new("live");
    let runtime = Runtime::new(Some(1)).unwrap();
    let (server, nid) = node(&runtime);
    let address: Address = format!("{nid}:/lv").parse().unwrap();
    let (mgs, ost) = (scratch.0.join("mgs"), scratch.0.join("ost"));
    fulmar_server::format(&mgs, &Label::Mgs).unwrap();
    let label = TargetLabel { kind: TargetKind::Ost, index: 3, address };
    fulmar_server::format(&ost, &Label::Target(label)).unwrap();
    let serving = serve(&server, nid, vec![mgs.clone()]);
    let names = || -> Vec<String> {
        serving.devices().all().into_iter().map(|device| device.name).collect()
    };
    let administration = serving.administration().unwrap();
    for _ in 0..3 {
        assert_eq!(serving.start_targets(&ost).unwrap(), ["lv-OST0003"]);
        assert_eq!(names(), ["MGS", "lv-OST0003"]);
        let again = serving.start_targets(&ost).unwrap_err();
        assert_eq!(again.errno(), Errno::EALREADY);
        let parameters = serving.parameters().all();
        assert!(parameters.iter().any(|(name, _)| name[1..] == ["lv-OST0003", "stats"]));
        // It does not wait for the MDT that the file system does not have.
        assert_eq!(serving.stop_targets("", &ost).unwrap(), ["lv-OST0003"]);
        let (_, report) = fulmar_server::verify(&ost).unwrap();
        assert!(report.damage.is_empty(), "{:?}", report.damage);
        assert_eq!(names(), ["MGS"]);
        let parameters = serving.parameters().all();
        assert!(!parameters.iter().any(|(name, _)| name.contains(&"lv-OST0003".to_owned())));
        assert!(administration.nodemaps().is_ok());
    }
    let unknown = serving.stop_targets("lv-OST0003", &ost).unwrap_err();
    assert!(matches!(&unknown, ChangeError::Unknown { known, .. } if known == &["MGS"]));
    assert_eq!(serving.stop_targets("MGS", &scratch.0.join("none")).unwrap(), ["MGS"]);
    assert!(serving.administration().is_none());
    assert_eq!(administration.nodemaps().unwrap_err(), Errno::ENODEV);
    assert_eq!(serving.start_targets(&mgs).unwrap(), ["MGS"]);
    assert!(serving.administration().unwrap().nodemaps().is_ok());
    serving.stop();
    let ended = serving.start_targets(&ost).unwrap_err();
    assert_eq!(ended.errno(), Errno::ESHUTDOWN);
    server.stop();
}

#[test]
fn a_target_that_waits_for_another_server_stops() {
    let scratch = Scratch::new("live-mute");
    let runtime = Runtime::new(Some(1)).unwrap();
    let (server, nid) = node(&runtime);
    // This management service accepts connections, and never sends anything.
    let place = IpAddr::from(fulmar_loopback::address());
    let mute = TcpListener::bind((place, PORT)).unwrap();
    let (mgs, ost) = (scratch.0.join("mgs"), scratch.0.join("ost"));
    fulmar_server::format(&mgs, &Label::Mgs).unwrap();
    let address: Address = format!("{place}@tcp:/lv").parse().unwrap();
    let label = TargetLabel { kind: TargetKind::Ost, index: 0, address };
    fulmar_server::format(&ost, &Label::Target(label)).unwrap();
    let serving = serve(&server, nid, vec![mgs]);
    serving.start_targets(&ost).unwrap();
    let called = mute.accept().unwrap();
    let begun = Instant::now();
    assert_eq!(serving.stop_targets("lv-OST0000", &ost).unwrap(), ["lv-OST0000"]);
    // It would wait for a minute by itself.
    assert!(begun.elapsed() < Duration::from_secs(45), "{:?}", begun.elapsed());
    drop(called);
    serving.stop();
    server.stop();
}

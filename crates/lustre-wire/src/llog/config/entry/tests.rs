//! Records as a client's log has them, ptlrpc-ldlm-mgs §31.1 and §39.6.

use super::*;
use crate::Text;
use crate::layout::Pattern;
use crate::llog::config::MarkerFlags;

fn check(config: &Config, lens: &[usize]) {
    for order in [Order::Little, Order::Big] {
        let record = config.record(order);
        let found: Vec<_> = record.buffers.iter().map(|buffer| buffer.data.0.len()).collect();
        assert_eq!(found, lens, "{config:?}");
        assert_eq!(Config::of(&record, order), *config);
        let bytes = crate::testing::encoded(&record, order);
        assert_eq!(ConfigRecord::decode(&bytes, order), Ok(record));
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn member(client: Option<&str>) -> Member {
    Member {
        device: text("lv-clilov"),
        uuid: text("lv-OST0000_UUID"),
        index: text("0"),
        generation: text("1"),
        client: client.map(str::to_owned),
    }
}

#[test]
fn a_device_is_attached_set_up_and_removed() {
    let device = || text("lv-clilov");
    let uuid = text("lv-clilov_UUID");
    check(&Config::Attach { device: device(), kind: text("lov"), uuid }, &[10, 4, 15]);
    let descriptor = TargetDescriptor {
        magic: TargetDescriptor::MAGIC,
        stripe_count: 1,
        pattern: Pattern::RAID0,
        stripe_size: 4 << 20,
        stripe_offset: -1,
        qos_max_age: 5,
        uuid: Text::new("lv-clilov_UUID").unwrap(),
        ..TargetDescriptor::default()
    };
    let arguments = SetupArguments::Descriptor(descriptor);
    check(&Config::Setup { device: device(), arguments }, &[10, 88]);
    let arguments = SetupArguments::Texts(vec![text("lv-OST0000_UUID"), text("10.99.0.2@tcp")]);
    check(&Config::Setup { device: text("lv-OST0000-osc"), arguments }, &[15, 16, 14]);
    check(&Config::Cleanup { device: device() }, &[10]);
    check(&Config::Detach { device: device() }, &[10]);
}

#[test]
fn nodes_have_nids_and_targets_have_nodes() {
    let node = || text("10.99.0.2@tcp");
    let nid = SmallNid(0x0002_0000_0a63_0002);
    check(&Config::AddUuid { nid, node: node(), large_nid: None }, &[0, 14]);
    let large_nid = Some(text("fd00::2@tcp"));
    check(&Config::AddUuid { nid: SmallNid(0), node: node(), large_nid }, &[0, 14, 12]);
    check(&Config::DelUuid { node: node() }, &[0, 14]);
    check(&Config::AddConn { device: text("lv-OST0000-osc"), node: node() }, &[15, 14]);
    check(&Config::DelConn { device: text("lv-OST0000-osc"), node: node() }, &[15, 14]);
}

#[test]
fn targets_join_a_device() {
    check(&Config::AddOst(member(None)), &[10, 16, 2, 2]);
    check(&Config::AddInactiveOst(member(None)), &[10, 16, 2, 2]);
    check(&Config::DelOst(member(None)), &[10, 16, 2, 2]);
    check(&Config::AddMdt(member(Some("lv-MDT0000-mdc_UUID"))), &[10, 16, 2, 2, 20]);
    check(&Config::DelMdt(member(None)), &[10, 16, 2, 2]);
}

#[test]
fn a_mount_has_a_profile() {
    let (profile, data) = (text("lv-client"), text("lv-clilov"));
    let metadata = Some(text("lv-clilmv"));
    check(&Config::MountOpt { profile: profile.clone(), data, metadata }, &[0, 10, 10, 10]);
    check(&Config::DelMountOpt { profile }, &[0, 10]);
}

#[test]
fn parameters_timeouts_and_rules_are_set() {
    let parameters = vec![text("osc.active=0"), text("osc.checksums=1")];
    check(&Config::Param { device: text("lv-OST0000-osc"), parameters }, &[15, 13, 16]);
    let target = text("general");
    let parameter = text("osc.*.max_dirty_mb=512");
    let upcall = Some(text("lctl"));
    check(&Config::SetParam { target, parameter, upcall }, &[8, 23, 5]);
    check(&Config::SetTimeout { device: text(""), seconds: 100 }, &[0]);
    check(&Config::SetLdlmTimeout { device: text(""), seconds: 20 }, &[0]);
    let rule = text("srpc.flavor.default=null");
    check(&Config::SecurityRule { target: text("lv"), rule }, &[3, 25]);
}

#[test]
fn pools_have_osts() {
    let (device, file_system) = (text("lv-clilov"), text("lv"));
    let pool = Pool { device, file_system, pool: text("flash"), ost: None };
    check(&Config::NewPool(pool.clone()), &[10, 3, 6]);
    check(&Config::DestroyPool(pool.clone()), &[10, 3, 6]);
    let pool = Pool { ost: Some(text("lv-OST0000_UUID")), ..pool };
    check(&Config::AddToPool(pool.clone()), &[10, 3, 6, 16]);
    check(&Config::RemoveFromPool(pool), &[10, 3, 6, 16]);
}

#[test]
fn a_marker_keeps_the_end_of_a_longer_text() {
    let mut comment = Text::new("add osc").unwrap();
    comment.0[12] = b'x';
    let marker = Marker {
        step: 1,
        flags: MarkerFlags::START,
        version: 0x0211_393e,
        target: Text::new("lv-OST0000").unwrap(),
        comment,
        ..Marker::default()
    };
    check(&Config::Marker { device: text(""), marker }, &[0, 160]);
    assert_eq!(marker.comment.to_string(), "add osc");
}

#[test]
fn a_record_of_an_unexpected_form_is_kept() {
    let order = Order::Little;
    let other = |record: ConfigRecord| {
        assert_eq!(Config::of(&record, order), Config::Other(record.clone()));
        check(
            &Config::Other(record.clone()),
            &record.buffers.iter().map(|b| b.data.0.len()).collect::<Vec<_>>(),
        );
    };
    let detach = Config::Detach { device: text("a") }.record(order);
    other(ConfigRecord { number: 1, ..detach.clone() });
    other(ConfigRecord { command: ConfigCommand(0xcf099), ..detach });
    other(ConfigRecord::new(ConfigCommand::DETACH, vec![]));
    other(ConfigRecord::new(ConfigCommand::DETACH, vec![ConfigBuffer::new(vec![0])]));
    other(ConfigRecord::new(ConfigCommand::DETACH, vec![ConfigBuffer::new(vec![0xff, 0])]));
    let marker = ConfigBuffer::new(vec![1; 152]);
    other(ConfigRecord::new(ConfigCommand::MARKER, vec![ConfigBuffer::default(), marker]));
}

//! Targets register: recorded ones, and what a service does with wrong ones and after a restart.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{
    CONFIG_RESULT, LLOG_BODY, LLOG_RECORDS, TARGET_INFO, TARGET_NIDS, TARGET_REG,
};
use fulmar_lustre_wire::llog::LogBlock;
use fulmar_lustre_wire::llog::config::{Config, ConfigRecord, Marker, MarkerFlags};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::mgs::{ConfigReadKind, TargetFlags as Flags, TargetInfo, TargetNids};
use fulmar_lustre_wire::{Content, Opcode, Text};
use fulmar_mgs::{ConfigurationChange, Mgs, Target, TargetName};
use fulmar_rpc::import::TargetKind;
use fulmar_trace::lnet;
use fulmar_trace::rpc::{Calls, Rpc};
use fulmar_wire::Order;

const NOW: i64 = 1_795_184_336;
const NEW: Flags = Flags(Flags::OPC_REG.0 | Flags::VIRGIN.0 | Flags::UPDATE.0);

fn name(kind: TargetKind, index: u16) -> TargetName {
    TargetName { file_system: "lv".into(), kind, index }
}

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// The request of a target.
fn request(name: &TargetName, flags: Flags, nids: &[&str]) -> Message<'static> {
    let kind = if name.kind == TargetKind::Mdt { Flags::MDT } else { Flags::OST };
    let info = TargetInfo {
        version: 34_683_198,
        index: name.index.into(),
        flags: flags | kind,
        nid_count: nids.len() as u32,
        file_system: Text::new(&name.file_system).unwrap(),
        name: Text::new(&name.to_string()).unwrap(),
        ..TargetInfo::default()
    };
    let nids: Vec<_> = nids.iter().map(|nid| Text::new(nid).unwrap()).collect();
    let list = TargetNids { count: nids.len() as u32, nids, ..TargetNids::default() };
    Message::request(&TARGET_REG).with(&TARGET_INFO, &info).with(&TARGET_NIDS, &list)
}

fn errno(mgs: &Mgs, request: &Message<'_>) -> Option<Errno> {
    let reply = mgs.clone().register(NOW, request).unwrap_err();
    let info = reply.require(&TARGET_INFO).unwrap();
    assert!(info.flags.has(Flags::ERROR));
    reply.body.status.errno()
}

fn with(request: &Message<'static>, change: impl FnOnce(&mut TargetInfo)) -> Message<'static> {
    let mut info = request.require(&TARGET_INFO).unwrap();
    change(&mut info);
    request.clone().with(&TARGET_INFO, &info)
}

/// A file system with an MDT and `osts` OSTs.
fn file_system(osts: u16) -> Mgs {
    let mut mgs = Mgs::default();
    let osts = (0..osts).map(|index| name(TargetKind::Ost, index));
    for name in std::iter::once(name(TargetKind::Mdt, 0)).chain(osts) {
        mgs.register(NOW, &request(&name, NEW, &["10.99.0.2@tcp"])).unwrap();
    }
    mgs
}

/// What the records of a log say, without the times of markers; `None` of a group that is
/// cancelled.
fn contents(block: &LogBlock) -> Vec<Option<Config>> {
    let mut is_cancelled = false;
    let config = |body: &[u8]| {
        let record = ConfigRecord::decode(body, Order::Little).unwrap();
        let config = match Config::of(&record, Order::Little) {
            Config::Marker { device, marker } => {
                is_cancelled = marker.flags.has(MarkerFlags::SKIP);
                let text = |text: Text<64>| Text::new(&text.to_string()).unwrap();
                let (target, comment) = (text(marker.target), text(marker.comment));
                let marker = Marker { created: 0, version: 0, target, comment, ..marker };
                Config::Marker { device, marker }
            }
            config => config,
        };
        Some(config).filter(|_| !is_cancelled)
    };
    block.records.iter().map(|record| &record.body.0[..]).map(config).collect()
}

fn log(mgs: &Mgs, name: &str) -> Vec<Option<Config>> {
    mgs.log_named(name).map_or(vec![], |log| contents(&log.block(1).unwrap().records))
}

/// Returns the service that another one would find after a restart.
fn restarted(stored: &mut std::collections::BTreeMap<Vec<u8>, Vec<u8>>, mgs: &mut Mgs) -> Mgs {
    for (key, value) in mgs.take_changes() {
        match value {
            Some(value) => stored.insert(key, value),
            None => stored.remove(&key),
        };
    }
    Mgs::load(stored.clone()).unwrap()
}

#[test]
fn a_recorded_ost_joins() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/traces/ost-join.pcapng.gz");
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let items = lnet::items(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let calls = Calls::of(&items);
    let mut mgs = file_system(2);
    let of =
        |opcode| calls.rpcs.iter().filter(move |rpc| rpc.request.message.body.opcode == opcode);
    let mut changes = Vec::new();
    for rpc in of(Opcode::MGS_TARGET_REG) {
        let registered = mgs.register(NOW, &rpc.request.message).unwrap();
        let recorded = &rpc.reply().unwrap().message;
        assert_eq!(registered.reply.require(&TARGET_INFO), recorded.require(&TARGET_INFO));
        assert_eq!(registered.reply.body.status, recorded.body.status);
        changes.extend(registered.changed);
    }
    assert_eq!(
        changes,
        [ConfigurationChange::Configuration("lv".into()), ConfigurationChange::Starts("lv".into())]
    );
    let mut read = 0;
    for rpc in of(Opcode::LLOG_NEXT_BLOCK) {
        let recorded = &rpc.reply().unwrap().message;
        let block: LogBlock = recorded.require(&LLOG_RECORDS).unwrap();
        let last = recorded.require(&LLOG_BODY).unwrap().saved_index;
        let log_name = if last == 4 { "lv-OST0002" } else { "lv-client" };
        let names = |configs: &[Option<Config>]| {
            configs.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>()
        };
        assert_eq!(names(&log(&mgs, log_name)), names(&contents(&block)));
        read += 1;
    }
    assert_eq!(read, 6);
    let is_nodemap = |rpc: &&Rpc<'_>| {
        let asked = rpc.request.message.require(&fulmar_lustre_wire::format::CONFIG_BODY);
        asked.unwrap().kind == ConfigReadKind::NODEMAP
    };
    let nodemap = of(Opcode::MGS_CONFIG_READ).find(is_nodemap).unwrap();
    let (reply, page) = mgs.read_config(&nodemap.request.message).unwrap();
    let recorded = &nodemap.reply().unwrap().message;
    assert_eq!(reply.require(&CONFIG_RESULT), recorded.require(&CONFIG_RESULT));
    let bulk: Vec<u8> = nodemap.bulk.iter().flat_map(|part| part.bytes.to_vec()).collect();
    assert_eq!(page, bulk);
}

#[test]
fn all_logs_name_all_targets_whoever_comes_first() {
    let mut mgs = Mgs::default();
    let (mdt, ost) = (name(TargetKind::Mdt, 0), name(TargetKind::Ost, 3));
    mgs.register(NOW, &request(&ost, NEW, &["10.0.0.3@tcp", "fd00::3@tcp"])).unwrap();
    mgs.register(NOW, &request(&mdt, NEW, &["10.0.0.1@tcp"])).unwrap();
    mgs.register(NOW, &request(&name(TargetKind::Mdt, 1), NEW, &["10.0.0.2@tcp"])).unwrap();
    let text = |log_name: &str| format!("{:?}", log(&mgs, log_name));
    for device in ["lv-OST0003-osc-MDT0000", "lv-MDT0001-osp-MDT0000", "lv-MDT0000-mdtlov"] {
        assert!(text("lv-MDT0000").contains(&format!("{device:?}")), "{device}");
    }
    assert!(text("lv-MDT0001").contains("\"lv-MDT0000-osp-MDT0001\""));
    assert!(text("lv-client").contains("large_nid: Some(\"fd00::3@tcp\")"));
    assert!(text("lv-OST0003").contains("obdfilter"));
}

#[test]
fn wrong_registrations_are_refused() {
    let mut mgs = file_system(1);
    let known = request(&name(TargetKind::Ost, 0), NEW, &["10.0.0.9@tcp"]);
    assert_eq!(errno(&mgs, &known), Some(Errno::EADDRINUSE));
    let unknown = request(&name(TargetKind::Ost, 7), Flags::OPC_REG, &["10.0.0.9@tcp"]);
    assert_eq!(errno(&mgs, &unknown), Some(Errno::ENOENT));
    let ready = with(&unknown, |info| info.flags = Flags::OPC_READY | Flags::OST);
    assert_eq!(errno(&mgs, &ready), Some(Errno::ENOENT));
    let new = request(&name(TargetKind::Ost, 7), NEW, &["10.0.0.9@tcp"]);
    let wrong: [fn(&mut TargetInfo); 6] = [
        |info| info.file_system = Text::new("longer-than-8").unwrap(),
        |info| info.file_system = Text::new("l/v").unwrap(),
        |info| info.flags = info.flags | Flags::MDT,
        |info| info.name = Text::new("lv-OST0008").unwrap(),
        |info| info.index = 70_000,
        |info| info.flags = Flags::OST,
    ];
    for change in wrong {
        assert_eq!(errno(&mgs, &with(&new, change)), Some(Errno::EINVAL));
    }
    for nids in [&["10.0.0.9@tcp, x"][..], &[]] {
        let request = request(&name(TargetKind::Ost, 7), NEW, nids);
        assert_eq!(errno(&mgs, &request), Some(Errno::EINVAL));
    }
    let empty = Message::request(&TARGET_REG);
    let reply = mgs.clone().register(NOW, &empty).unwrap_err();
    assert_eq!(reply.body.status.errno(), Some(Errno::EPROTO));
    assert!(mgs.register(NOW, &new).is_ok());
}

#[test]
fn a_target_gets_the_lowest_free_index() {
    let mut mgs = file_system(2);
    let asked = with(&request(&name(TargetKind::Ost, 0), NEW, &["10.0.0.9@tcp"]), |info| {
        info.flags = info.flags | Flags::NEED_INDEX;
        info.index = u32::from(u16::MAX);
    });
    let reply = mgs.register(NOW, &asked).unwrap().reply;
    let info = reply.require(&TARGET_INFO).unwrap();
    assert_eq!((info.index, info.name.to_string()), (2, "lv-OST0002".to_owned()));
    assert_eq!(info.uuid.to_string(), "lv-OST0002_UUID");
    assert_eq!(info.flags, Flags::OST | Flags::OPC_REG | Flags::REWRITE_LDD);
}

#[test]
fn failover_nodes_follow_the_own_one() {
    let mut mgs = file_system(0);
    let new = request(&name(TargetKind::Ost, 0), NEW, &["10.0.0.1@tcp"]);
    let parameters = "mgsnode=10.0.0.5@tcp failover.node=10.0.0.2@tcp,10.1.0.2@o2ib:10.0.0.3@tcp";
    let new = with(&new, |info| info.parameters = Text::new(parameters).unwrap());
    mgs.register(NOW, &new).unwrap();
    let expected = Target {
        nodes: vec![
            vec![nid("10.0.0.1@tcp")],
            vec![nid("10.0.0.2@tcp"), nid("10.1.0.2@o2ib")],
            vec![nid("10.0.0.3@tcp")],
        ],
    };
    assert_eq!(mgs.target(&name(TargetKind::Ost, 0)), Some(&expected));
    let services = with(&new, |info| {
        info.flags = Flags::OPC_REG | Flags::WRITECONF | Flags::OST | Flags::NO_PRIMNODE
    });
    let services = with(&services, |info| {
        let parameters = format!("{parameters} failover.node=10.0.0.1@tcp");
        info.parameters = Text::new(&parameters).unwrap();
    });
    mgs.register(NOW, &services).unwrap();
    // The node that registers is named twice.
    let twice = [&expected.nodes[..], &expected.nodes[..1]].concat();
    assert_eq!(mgs.target(&name(TargetKind::Ost, 0)).unwrap().nodes, twice);
    // The earlier group is cancelled.
    let client = log(&mgs, "lv-client");
    let osts = client.iter().flatten().filter(|one| matches!(one, Config::AddOst(_)));
    assert_eq!(osts.count(), 1);
    assert_eq!(client.iter().filter(|one| one.is_none()).count(), 11);
}

#[test]
fn a_restarted_service_has_what_was_stored() {
    let mut stored = std::collections::BTreeMap::new();
    let mut mgs = file_system(2);
    let start = request(&name(TargetKind::Ost, 1), Flags::OPC_READY, &["10.99.0.2@tcp"]);
    mgs.register(NOW, &start).unwrap();
    let mut again = restarted(&mut stored, &mut mgs);
    for log_name in ["lv-client", "lv-MDT0000", "lv-OST0000", "lv-OST0001"] {
        assert_eq!(log(&again, log_name), log(&mgs, log_name));
        let headers = [&mgs, &again].map(|one| one.log_named(log_name).unwrap().header());
        assert_eq!(headers[0], headers[1]);
    }
    assert!(again.take_changes().is_empty());
    // Known targets come back, new ones get other indices, and rewritten groups are cancelled.
    let known = request(&name(TargetKind::Ost, 1), Flags::OPC_REG, &["10.99.0.2@tcp"]);
    assert!(again.register(NOW, &known).unwrap().changed.is_empty());
    assert!(again.take_changes().is_empty());
    let moved =
        request(&name(TargetKind::Ost, 1), Flags::OPC_REG | Flags::WRITECONF, &["10.9.9.9@tcp"]);
    again.register(NOW, &moved).unwrap();
    let third = restarted(&mut stored, &mut again);
    assert_eq!(log(&third, "lv-client"), log(&again, "lv-client"));
    assert!(format!("{:?}", log(&third, "lv-MDT0000")).contains("10.9.9.9@tcp"));
    // The configuration of MDT0000 begins the file system anew.
    let mut third = third;
    let rewrite =
        request(&name(TargetKind::Mdt, 0), Flags::OPC_REG | Flags::WRITECONF, &["10.99.0.2@tcp"]);
    third.register(NOW, &rewrite).unwrap();
    let fourth = restarted(&mut stored, &mut third);
    assert!(
        fourth.log_named("lv-OST0001").is_none()
            && fourth.target(&name(TargetKind::Ost, 1)).is_none()
    );
    assert!(!format!("{:?}", log(&fourth, "lv-client")).contains("OST0001"));
    stored.insert(b"x".to_vec(), vec![]);
    assert!(Mgs::load(stored).is_err());
}

#[test]
fn a_target_registers_with_parameters() {
    let mut mgs = file_system(1);
    let new = request(&name(TargetKind::Ost, 1), NEW, &["10.0.0.1@tcp"]);
    let parameters = "mgsnode=10.0.0.5@tcp osc.max_dirty_mb=64 unknown.one=1 ost.degraded=1";
    let new = with(&new, |info| info.parameters = Text::new(parameters).unwrap());
    mgs.register(NOW, &new).unwrap();
    for (log_name, device, parameter) in [
        ("lv-client", "lv-OST0001-osc", "osc.max_dirty_mb=64"),
        ("lv-MDT0000", "lv-OST0001-osc-MDT0000", "osc.max_dirty_mb=64"),
        ("lv-OST0001", "lv-OST0001", "ost.degraded=1"),
    ] {
        let set = Config::Param { device: device.into(), parameters: vec![parameter.into()] };
        assert!(log(&mgs, log_name).contains(&Some(set)), "{log_name}");
    }
    let wrong = with(&new, |info| {
        info.flags = Flags::OPC_REG | Flags::OST | Flags::WRITECONF;
        info.parameters = Text::new("sys.timeout=x").unwrap();
    });
    assert_eq!(errno(&mgs, &wrong), Some(Errno::EINVAL));
}

//! Parameters that an administrator sets, as the records that clients and targets read.

use fulmar_base::Errno;
use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::llog::RecordKind;
use fulmar_lustre_wire::llog::config::{Config, ConfigRecord, MarkerFlags};
use fulmar_mgs::{ConfigurationChange, Mgs, Target, TargetName};
use fulmar_rpc::import::TargetKind;
use fulmar_wire::Order;

const NOW: i64 = 1_795_184_336;

/// A service with a file system of an MDT and two OSTs.
fn file_system() -> Mgs {
    let mut mgs = Mgs::default();
    for (kind, index) in [(TargetKind::Mdt, 0), (TargetKind::Ost, 0), (TargetKind::Ost, 1)] {
        let name = TargetName { file_system: "lv".into(), kind, index };
        mgs.add(NOW, &name, Target { nodes: vec![vec!["10.0.0.1@tcp".parse().unwrap()]] }).unwrap();
    }
    mgs.take_changes();
    mgs
}

/// The records of a log from `from` on, a line for each.
fn lines(mgs: &Mgs, log: &str, from: u32) -> Vec<String> {
    let log = mgs.log_named(log).unwrap();
    let (mut lines, mut index) = (Vec::new(), 1);
    while let Ok(block) = log.block(index) {
        for record in &block.records.records {
            if record.index < from.max(index) || record.kind != RecordKind::CONFIG {
                continue;
            }
            let record = ConfigRecord::decode(&record.body.0, Order::Little).unwrap();
            lines.push(match Config::of(&record, Order::Little) {
                Config::Marker { marker, .. } => {
                    let flags = [
                        (MarkerFlags::START, "start"),
                        (MarkerFlags::END, "end"),
                        (MarkerFlags::SKIP, "skip"),
                        (MarkerFlags::EXCLUDE, "exclude"),
                    ];
                    let flags: Vec<_> =
                        flags.iter().filter(|(flag, _)| marker.flags.has(*flag)).collect();
                    let flags: Vec<_> = flags.iter().map(|(_, name)| *name).collect();
                    format!("{} {} {}", flags.join("+"), marker.target, marker.comment)
                }
                _ => {
                    let texts = record.buffers.iter().map(|one| one.as_text().unwrap_or("-"));
                    let texts: Vec<_> = texts.collect();
                    let number = record.number;
                    format!("{:05x} {number} {}", record.command.0 & 0xfffff, texts.join(" | "))
                }
            });
        }
        index = block.last_index + 1;
    }
    lines
}

/// What is appended to a log.
fn appended(mgs: &Mgs, before: &Mgs, log: &str) -> Vec<String> {
    lines(mgs, log, before.log_named(log).unwrap().last_index() + 1)
}

/// What is appended to a log, without markers.
fn records(mgs: &Mgs, before: &Mgs, log: &str) -> Vec<String> {
    let mut lines = appended(mgs, before, log);
    lines.retain(|line| line.starts_with("cf") || line.starts_with("ce"));
    lines
}

#[test]
fn a_global_parameter_is_in_all_logs_of_its_file_system() {
    let before = file_system();
    let mut mgs = before.clone();
    let changed = mgs.set_parameter(NOW, "lv.sys.timeout=40", false).unwrap();
    assert_eq!(changed, [ConfigurationChange::Configuration("lv".into())]);
    for log in ["lv-client", "lv-MDT0000", "lv-OST0000", "lv-OST0001"] {
        let expected =
            ["start lv sys.timeout", "cf009 40 - | sys.timeout=40", "end lv sys.timeout"];
        assert_eq!(appended(&mgs, &before, log), expected);
    }
    mgs.set_parameter(NOW, "lv.sys.timeout=0x20", false).unwrap();
    let cancelled =
        ["start+skip lv sys.timeout", "cf009 40 - | sys.timeout=40", "end+skip lv sys.timeout"];
    let all = appended(&mgs, &before, "lv-client");
    assert_eq!(
        (&all[..3], all[4].as_str()),
        (&cancelled.map(str::to_owned)[..], "cf009 32 - | sys.timeout=0x20")
    );
    mgs.set_parameter(NOW, "lv.sys.timeout", true).unwrap();
    assert!(appended(&mgs, &before, "lv-client").iter().all(|line| !line.starts_with("start ")));
    mgs.set_parameter(NOW, "lv.sys.jobid_var=procname_uid", false).unwrap();
    mgs.set_parameter(NOW, "lv.sys.at_max=300", false).unwrap();
    mgs.set_parameter(NOW, "lv.quota.ost=ug", false).unwrap();
    let expected = [
        "cf00f 0 - | sys.jobid_var=procname_uid | procname_uid",
        "cf00f 300 - | sys.at_max=300",
        "cf00f 0 lv | quota.ost=ug",
    ];
    assert_eq!(records(&mgs, &before, "lv-OST0001")[2..], expected);
    assert_eq!(records(&mgs, &before, "lv-client")[2..], expected[..2]);
    assert!(mgs.log_named("params").unwrap().last_index() == 0);
}

#[test]
fn a_parameter_of_an_ost_is_for_clients_and_mdts() {
    let before = file_system();
    let mut mgs = before.clone();
    mgs.set_parameter(NOW, "lv-OST0001.osc.max_dirty_mb=64", false).unwrap();
    // Once more is nothing new.
    mgs.set_parameter(NOW, "lv-OST0001-osc.osc.max_dirty_mb=64", false).unwrap();
    let expected = |device: &str| {
        vec![
            format!("start {device} osc.max_dirty_mb"),
            format!("cf00f 0 {device} | osc.max_dirty_mb=64"),
            format!("end {device} osc.max_dirty_mb"),
        ]
    };
    assert_eq!(appended(&mgs, &before, "lv-client"), expected("lv-OST0001-osc"));
    assert_eq!(appended(&mgs, &before, "lv-MDT0000"), expected("lv-OST0001-osc-MDT0000"));
    mgs.set_parameter(NOW, "lv-OST0001.ost.degraded=1", false).unwrap();
    assert_eq!(records(&mgs, &before, "lv-OST0001"), ["cf00f 0 lv-OST0001 | ost.degraded=1"]);
    // It is deleted once, with or without its value.
    mgs.clone().set_parameter(NOW, "lv-OST0001.osc.max_dirty_mb=64", true).unwrap();
    let other = mgs.clone().set_parameter(NOW, "lv-OST0001.osc.max_dirty_mb=32", true);
    assert_eq!(other, Err(Errno::ENOENT));
    mgs.set_parameter(NOW, "lv-OST0001.osc.max_dirty_mb", true).unwrap();
    let again = mgs.clone().set_parameter(NOW, "lv-OST0001.osc.max_dirty_mb", true);
    assert_eq!(again, Err(Errno::ENOENT));
    assert_eq!(appended(&mgs, &before, "lv-client").len(), 3);
}

#[test]
fn an_ost_is_switched_off_and_on() {
    let before = file_system();
    let mut mgs = before.clone();
    mgs.set_parameter(NOW, "lv-OST0000.osc.active=0", false).unwrap();
    for log in ["lv-client", "lv-MDT0000"] {
        assert!(lines(&mgs, log, 1).contains(&"start+exclude lv-OST0000 add osc".to_owned()));
    }
    assert_eq!(records(&mgs, &before, "lv-client"), ["cf00f 0 lv-OST0000-osc | osc.active=0"]);
    mgs.set_parameter(NOW, "lv-OST0000.osc.active=1", false).unwrap();
    assert!(lines(&mgs, "lv-client", 1).contains(&"start lv-OST0000 add osc".to_owned()));
    let mdt0 = mgs.set_parameter(NOW, "lv-MDT0000.mdc.active=0", false);
    assert_eq!(mdt0, Err(Errno::EPERM));
}

#[test]
fn other_parameters_are_where_they_belong() {
    let before = file_system();
    let mut mgs = before.clone();
    for text in [
        "lv.llite.max_read_ahead_mb=64",
        "lv-MDT0000.lov.stripesize=1048576",
        "lv.mdt.root_squash=99:99",
        "lv-MDT0000.mdt.identity_upcall=NONE",
        "lv-MDT0000.mdd.atime_diff=5",
        "lv-MDT0000.mdc.max_rpcs_in_flight=16",
    ] {
        mgs.set_parameter(NOW, text, false).unwrap_or_else(|errno| panic!("{text}: {errno}"));
    }
    let client = [
        "cf00f 0 lv-client | llite.max_read_ahead_mb=64",
        "cf00f 0 lv-clilov | lov.stripesize=1048576",
        "cf00f 0 lv-client | llite.root_squash=99:99",
        "cf00f 0 lv-MDT0000-mdc | mdc.max_rpcs_in_flight=16",
    ];
    assert_eq!(records(&mgs, &before, "lv-client"), client);
    let mdt = [
        "cf00f 0 lv-MDT0000-mdtlov | lov.stripesize=1048576",
        "cf00f 0 lv-MDT0000 | mdt.root_squash=99:99",
        "cf00f 0 lv-MDT0000 | mdt.identity_upcall=NONE",
        "cf00f 0 lv-MDT0000 | mdd.atime_diff=5",
    ];
    assert_eq!(records(&mgs, &before, "lv-MDT0000"), mdt);
}

#[test]
fn parameters_of_all_nodes_have_a_log_of_their_own() {
    let before = file_system();
    let mut mgs = before.clone();
    let mut set = |text: &str, deletes| mgs.set_parameter_of_all(NOW, text, deletes);
    assert_eq!(set("osc.*.max_dirty_mb=64", false), Ok(vec![ConfigurationChange::Parameters]));
    set("osc.*.max_dirty_mb=128", false).unwrap();
    set("osc.lv-OST0000*.active=0", false).unwrap();
    set("timeout=20", false).unwrap();
    // Rules are kept beside each other.
    set("ost.OSS.ost_io.nrs_tbf_rule=start a", false).unwrap();
    set("ost.OSS.ost_io.nrs_tbf_rule=start b", false).unwrap();
    set("ost.OSS.ost_io.nrs_tbf_rule=start  a", false).unwrap();
    set("timeout", true).unwrap();
    assert_eq!(set("timeout", true), Err(Errno::ENOENT));
    assert_eq!(set("llite.*.root_squash=0:0", false), Err(Errno::EINVAL));
    assert_eq!(set("failover.mode=failout", false), Err(Errno::EPERM));
    assert_eq!(set(&"x".repeat(5000), false), Err(Errno::E2BIG));
    assert_eq!(set("=1", false), Err(Errno::EINVAL));
    let expected = [
        "start+skip general osc.*.max_dirty_mb",
        "ce032 0 general | osc.*.max_dirty_mb=64 | lctl",
        "end+skip general osc.*.max_dirty_mb",
        "start general osc.*.max_dirty_mb",
        "ce032 0 general | osc.*.max_dirty_mb=128 | lctl",
        "end general osc.*.max_dirty_mb",
        "start lv osc.lv-OST0000*.active",
        "ce032 0 lv | osc.lv-OST0000*.active=0 | lctl",
        "end lv osc.lv-OST0000*.active",
        "start+skip general timeout",
        "ce032 0 general | timeout=20 | lctl",
        "end+skip general timeout",
    ];
    let all = appended(&mgs, &before, "params");
    assert_eq!(all[..12], expected);
    assert_eq!(all.len(), 18);
}

#[test]
fn wrong_parameters_are_refused() {
    let mgs = file_system();
    let set = |text: &str| mgs.clone().set_parameter(NOW, text, false).unwrap_err();
    for (text, errno) in [
        ("lv", Errno::EINVAL),
        ("lv=3", Errno::EINVAL),
        (".sys.timeout=3", Errno::EINVAL),
        ("other.sys.timeout=3", Errno::EINVAL),
        ("lv.sys.timeout=x", Errno::EINVAL),
        ("lv.sys.nonsense=3", Errno::EINVAL),
        ("lv.nonsense=3", Errno::EINVAL),
        ("lv.osc.max_dirty_mb=3", Errno::EINVAL),
        ("lv-OST0000.llite.max_read_ahead_mb=3", Errno::EINVAL),
        ("lv.llite.root_squash=0:0", Errno::EINVAL),
        ("lv-MDT0000.mdt.root_squash=0:0", Errno::EINVAL),
        ("lv-OST0000.mdt.identity_upcall=NONE", Errno::EINVAL),
        ("lv-OST0007.ost.degraded=1", Errno::ENODEV),
        ("lv.quota.dt=u", Errno::EINVAL),
        ("lv.quota.ost=x", Errno::EINVAL),
        ("lv-OST0000.failover.mode=failout", Errno::EPERM),
        ("lv.srpc.flavor.default=plain", Errno::EOPNOTSUPP),
    ] {
        assert_eq!(set(text), errno, "{text}");
    }
    assert_eq!(set(&format!("{}.sys.timeout=3", "x".repeat(64))), Errno::E2BIG);
    assert_eq!(set(&format!("lv.llite.{}=3", "x".repeat(64))), Errno::EINVAL);
}

#[test]
fn what_is_set_is_there_after_a_restart() {
    let mut mgs = file_system();
    let mut stored = std::collections::BTreeMap::new();
    // All of it is new to the store.
    let mut first = Mgs::default();
    for (kind, index) in [(TargetKind::Mdt, 0), (TargetKind::Ost, 0), (TargetKind::Ost, 1)] {
        let name = TargetName { file_system: "lv".into(), kind, index };
        first
            .add(NOW, &name, Target { nodes: vec![vec!["10.0.0.1@tcp".parse().unwrap()]] })
            .unwrap();
    }
    for mgs in [&mut first, &mut mgs] {
        mgs.set_parameter(NOW, "lv.sys.timeout=40", false).unwrap();
        mgs.set_parameter(NOW, "lv.sys.timeout=50", false).unwrap();
        mgs.set_parameter_of_all(NOW, "osc.*.max_dirty_mb=64", false).unwrap();
    }
    for (key, value) in first.take_changes() {
        stored.insert(key, value.unwrap());
    }
    let again = Mgs::load(stored).unwrap();
    for log in ["lv-client", "lv-MDT0000", "lv-OST0000", "params"] {
        assert_eq!(lines(&again, log, 1), lines(&mgs, log, 1));
    }
}

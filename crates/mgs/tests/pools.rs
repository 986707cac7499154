//! Pools of OSTs, as the records that clients and MDTs read.

use std::collections::BTreeMap;

use fulmar_base::Errno;
use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::llog::config::{Config, ConfigRecord, MarkerFlags};
use fulmar_mgs::{ConfigurationChange, Mgs, PoolChange, Target, TargetName};
use fulmar_rpc::import::TargetKind;
use fulmar_wire::Order;

const NOW: i64 = 1_795_184_336;
/// There is no such pool.
const ENOMEDIUM: Errno = Errno(123);

fn ost(index: u16) -> TargetName {
    TargetName { file_system: "lv".into(), kind: TargetKind::Ost, index }
}

/// A service with a file system of an MDT and two OSTs.
fn file_system() -> Mgs {
    let mut mgs = Mgs::default();
    let mdt = TargetName { kind: TargetKind::Mdt, ..ost(0) };
    for name in [mdt, ost(0), ost(1)] {
        mgs.add(NOW, &name, Target { nodes: vec![vec!["10.0.0.1@tcp".parse().unwrap()]] }).unwrap();
    }
    mgs
}

/// What is appended to a log, a line for each record.
fn appended(mgs: &Mgs, before: &Mgs, log: &str) -> Vec<String> {
    let from = before.log_named(log).unwrap().last_index();
    let block = mgs.log_named(log).unwrap().block(from + 1).unwrap();
    let new = block.records.records.iter().filter(|record| record.index > from);
    let line = |body: &[u8]| {
        let record = ConfigRecord::decode(body, Order::Little).unwrap();
        match Config::of(&record, Order::Little) {
            Config::Marker { marker, .. } => {
                let edge = if marker.flags.has(MarkerFlags::START) { "start" } else { "end" };
                let skip = if marker.flags.has(MarkerFlags::SKIP) { "+skip" } else { "" };
                format!("{edge}{skip} {} {}", marker.target, marker.comment)
            }
            _ => {
                let texts: Vec<_> = record.buffers.iter().filter_map(|one| one.as_text()).collect();
                format!("{:05x} {}", record.command.0 & 0xfffff, texts.join(" | "))
            }
        }
    };
    new.map(|record| line(&record.body.0)).collect()
}

#[test]
fn pools_are_in_the_logs_of_clients_and_mdts() {
    let before = file_system();
    let mut mgs = before.clone();
    let mut change = |change| mgs.change_pool(NOW, "lv", "flash", &change);
    assert_eq!(change(PoolChange::New), Ok(vec![ConfigurationChange::Configuration("lv".into())]));
    for one in [PoolChange::Add(ost(0)), PoolChange::Add(ost(1)), PoolChange::Remove(ost(0))] {
        change(one).unwrap();
    }
    for (log, device) in [("lv-client", "lv-clilov"), ("lv-MDT0000", "lv-MDT0000-mdtlov")] {
        let expected = [
            "start {} new lv.flash",
            "ce020 {} | lv | flash",
            "end {} new lv.flash",
            "start+skip {} add lv.flash.lv-OST0000_UUID",
            "ce021 {} | lv | flash | lv-OST0000_UUID",
            "end+skip {} add lv.flash.lv-OST0000_UUID",
            "start {} add lv.flash.lv-OST0001_UUID",
            "ce021 {} | lv | flash | lv-OST0001_UUID",
            "end {} add lv.flash.lv-OST0001_UUID",
            "start {} rem lv.flash.lv-OST0000_UUID",
            "ce022 {} | lv | flash | lv-OST0000_UUID",
            "end {} rem lv.flash.lv-OST0000_UUID",
        ];
        let expected = expected.map(|line| line.replace("{}", device));
        assert_eq!(appended(&mgs, &before, log), expected);
    }
    let members = |mgs: &Mgs| -> BTreeMap<String, Vec<u16>> {
        let pools = mgs.pools("lv").unwrap().into_iter();
        pools.map(|(name, osts)| (name, osts.iter().map(|ost| ost.index).collect())).collect()
    };
    assert_eq!(members(&mgs), [("flash".to_owned(), vec![1])].into());
    let stored = mgs.take_changes().into_iter().map(|(key, value)| (key, value.unwrap()));
    let stored: BTreeMap<_, _> = stored.collect();
    let mut again = Mgs::load(stored).unwrap();
    assert_eq!(members(&again), members(&mgs));
    again.change_pool(NOW, "lv", "flash", &PoolChange::Remove(ost(1))).unwrap();
    again.change_pool(NOW, "lv", "flash", &PoolChange::Destroy).unwrap();
    assert!(members(&again).is_empty());
    again.change_pool(NOW, "lv", "flash", &PoolChange::New).unwrap();
    assert_eq!(members(&again), [("flash".to_owned(), vec![])].into());
}

#[test]
fn wrong_changes_of_pools_are_refused() {
    let mut mgs = file_system();
    let change = |mgs: &Mgs, fs: &str, pool: &str, change: PoolChange| {
        mgs.clone().change_pool(NOW, fs, pool, &change).unwrap_err()
    };
    for (pool, errno) in [
        ("", Errno::EINVAL),
        ("none", Errno::EINVAL),
        ("a.b", Errno::EINVAL),
        ("a/b", Errno::EINVAL),
        ("sixteen-letters-", Errno::ENAMETOOLONG),
    ] {
        assert_eq!(change(&mgs, "lv", pool, PoolChange::New), errno, "{pool}");
    }
    assert_eq!(change(&mgs, "other", "flash", PoolChange::New), Errno::EINVAL);
    assert_eq!(change(&mgs, "lv", "flash", PoolChange::Add(ost(0))), ENOMEDIUM);
    assert_eq!(change(&mgs, "lv", "flash", PoolChange::Remove(ost(0))), Errno::ENOENT);
    assert_eq!(change(&mgs, "lv", "flash", PoolChange::Destroy), Errno::ENOENT);
    mgs.change_pool(NOW, "lv", "flash", &PoolChange::New).unwrap();
    mgs.change_pool(NOW, "lv", "flash", &PoolChange::Add(ost(0))).unwrap();
    assert_eq!(change(&mgs, "lv", "flash", PoolChange::New), Errno::EEXIST);
    assert_eq!(change(&mgs, "lv", "flash", PoolChange::Add(ost(0))), Errno::EEXIST);
    assert_eq!(change(&mgs, "lv", "flash", PoolChange::Add(ost(7))), Errno::ENODEV);
    let mdt = TargetName { kind: TargetKind::Mdt, ..ost(0) };
    assert_eq!(change(&mgs, "lv", "flash", PoolChange::Add(mdt)), Errno::EINVAL);
    let foreign = TargetName { file_system: "other".into(), ..ost(0) };
    assert_eq!(change(&mgs, "lv", "flash", PoolChange::Add(foreign)), Errno::EINVAL);
    assert_eq!(change(&mgs, "lv", "flash", PoolChange::Remove(ost(1))), Errno::ENOENT);
    assert_eq!(change(&mgs, "lv", "flash", PoolChange::Destroy), Errno::ENOTEMPTY);
}

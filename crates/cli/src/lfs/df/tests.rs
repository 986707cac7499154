//! What `lfs` of a 2.17 client printed of the file system with these answers of its targets.

use super::*;
use fulmar_lustre_wire::Uuid;
use fulmar_lustre_wire::format::STATFS;

const PLACE: &str = "/mnt/lv";

fn target(kind: TargetKind, index: u32) -> FsTarget {
    let name = match kind {
        TargetKind::Mdt => "MDT",
        _ => "OST",
    };
    let uuid = Uuid::new(&format!("lv-{name}{index:04x}_UUID")).unwrap();
    let (device, nids) = (format!("lv-{name}{index:04x}"), Vec::new());
    FsTarget { kind, index, uuid, device, nids, is_active: true }
}

/// Sizes in KiB.
fn statfs(size: u64, used: u64, available: u64, files: u64, free_files: u64) -> Statfs {
    Statfs {
        block_size: 4096,
        blocks: size / 4,
        free: (size - used) / 4,
        available: available / 4,
        files,
        free_files,
        ..Statfs::default()
    }
}

fn rows() -> Vec<Row> {
    vec![
        (target(TargetKind::Mdt, 0), Ok(statfs(342_780, 1636, 299_692, 245_760, 245_475))),
        (target(TargetKind::Ost, 0), Ok(statfs(830_844, 1408, 767_968, 56_280, 55_988))),
        (target(TargetKind::Ost, 1), Ok(statfs(830_844, 1412, 767_964, 56_280, 55_988))),
    ]
}

#[test]
fn space_is_shown_in_kib() {
    let expected = "\
UUID                   1K-blocks        Used   Available Use%  Mounted on
lv-MDT0000_UUID           342780        1636      299692   1%  /mnt/lv[MDT:0] 
lv-OST0000_UUID           830844        1408      767968   1%  /mnt/lv[OST:0] 
lv-OST0001_UUID           830844        1412      767964   1%  /mnt/lv[OST:1] 

filesystem_summary:      1661688        2820     1535932   1%  /mnt/lv 

";
    assert_eq!(table(&rows(), Show::default(), PLACE, true), expected);
}

#[test]
fn space_is_shown_in_units() {
    let expected = "\
UUID                       bytes        Used   Available Use%  Mounted on
lv-MDT0000_UUID         334.7M      1.6M    292.7M   1%  /mnt/lv[MDT:0] 
lv-OST0000_UUID         811.4M      1.4M    750.0M   1%  /mnt/lv[OST:0] 
lv-OST0001_UUID         811.4M      1.4M    750.0M   1%  /mnt/lv[OST:1] 

filesystem_summary:       1.6G      2.8M      1.5G   1%  /mnt/lv 

";
    let human = Show { human: true, ..Show::default() };
    assert_eq!(table(&rows(), human, PLACE, true), expected);
    let si = Show { si: true, ..Show::default() };
    assert_eq!([1000, 1001, 850_784_256].map(|bytes| si.quantity(bytes)).concat(), {
        "       1000     1.0k   850.8M"
    });
    assert_eq!(human.quantity(1024), "       1024");
}

#[test]
fn inodes_are_shown_as_they_are() {
    let expected = "\
UUID                      Inodes       IUsed       IFree IUse%  Mounted on
lv-MDT0000_UUID           245760         285      245475   1%  /mnt/lv[MDT:0] 
lv-OST0000_UUID            56280         292       55988   1%  /mnt/lv[OST:0] 
lv-OST0001_UUID            56280         292       55988   1%  /mnt/lv[OST:1] 

filesystem_summary:       112261         285      111976   1%  /mnt/lv 

";
    let inodes = Show { inodes: true, ..Show::default() };
    assert_eq!(table(&rows(), inodes, PLACE, true), expected);
}

#[test]
fn recorded_answers_are_shown_as_lfs_showed_them_on_a_client() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/traces/lfs-df.pcapng.gz");
    let file = std::fs::read(path).unwrap();
    let items = fulmar_trace::lnet::items(&file).unwrap();
    let calls = fulmar_trace::rpc::Calls::of(&items);
    let answer = |rpc: &fulmar_trace::rpc::Rpc<'_>| rpc.reply()?.message.get(&STATFS).ok()?;
    let answers = calls.rpcs.iter().filter_map(answer);
    let targets = [(TargetKind::Mdt, 0), (TargetKind::Ost, 0), (TargetKind::Ost, 1)];
    let targets = targets.map(|(kind, index)| target(kind, index));
    let rows: Vec<Row> = targets.into_iter().zip(answers.map(Ok)).collect();
    let expected = "\
UUID                   1K-blocks        Used   Available Use%  Mounted on
lv-MDT0000_UUID           245504        2048      241408   1%  /mnt/lv[MDT:0] 
lv-OST0000_UUID           441344        2048      437248   1%  /mnt/lv[OST:0] 
lv-OST0001_UUID           441344        2048      437248   1%  /mnt/lv[OST:1] 

filesystem_summary:       882688        4096      874496   1%  /mnt/lv 

";
    assert_eq!(table(&rows, Show::default(), PLACE, true), expected);
    let expected = "\
UUID                      Inodes       IUsed       IFree IUse%  Mounted on
lv-MDT0000_UUID            59219         332       58887   1%  /mnt/lv[MDT:0] 
lv-OST0000_UUID            14121         393       13728   3%  /mnt/lv[OST:0] 
lv-OST0001_UUID            14121         393       13728   3%  /mnt/lv[OST:1] 

filesystem_summary:        27788         332       27456   2%  /mnt/lv 

";
    let inodes = Show { inodes: true, ..Show::default() };
    assert_eq!(table(&rows, inodes, PLACE, true), expected);
}

#[test]
fn a_target_without_an_answer_has_a_line_and_no_use() {
    let mut rows = rows();
    rows[1].1 = Err(Errno::ETIMEDOUT);
    rows[2].1 = Err(Errno::ENODATA);
    let text = table(&rows, Show::default(), PLACE, true);
    assert!(text.contains("\nlv-OST0000_UUID     : Connection timed out\n\nfilesystem"), "{text}");
    assert!(text.contains("filesystem_summary:            0 "), "{text}");
    let verbose = Show { verbose: true, ..Show::default() };
    let text = table(&rows, verbose, PLACE, true);
    assert!(text.contains("\nOST0001             : inactive device\n"), "{text}");
    drop(rows.remove(1));
    // Without an active OST, the space is that of the MDTs.
    let text = table(&rows, Show::default(), PLACE, true);
    assert!(text.contains("filesystem_summary:       342780 "), "{text}");
}

#[test]
fn states_are_letters() {
    let state = StatfsState::READONLY | StatfsState::ENOSPC | StatfsState::NONROT;
    assert_eq!((states(state, false), states(state, true)), ("RS".into(), "RSf".into()));
    let mut rows = rows();
    if let Ok(statfs) = &mut rows[2].1 {
        statfs.state = state;
    }
    let text = table(&rows[2..], Show::default(), PLACE, false);
    assert_eq!(text.lines().count(), 1);
    assert!(text.ends_with("1%  /mnt/lv[OST:1] RS\n"), "{text}");
}

#[test]
fn programs_get_numbers() {
    let mut rows = rows();
    rows[2].1 = Err(Errno::ENODEV);
    let document = document(&rows, PLACE);
    assert_eq!(document["usage"]["bytes"], 830_844 * 1024);
    assert_eq!(document["targets"][0]["usage"]["used_files"], 285);
    assert_eq!(document["targets"][2]["error"], "No such device");
    assert!(document["targets"][2]["usage"].is_null());
}

#[test]
fn targets_are_selected_by_kind_and_index() {
    let selected = |options: &str| {
        let args: Args = crate::context::parsed(&format!("df 10.0.0.1@tcp:/lv {options}")).unwrap();
        let all = [(TargetKind::Mdt, 0), (TargetKind::Ost, 0), (TargetKind::Ost, 1)];
        all.map(|(kind, index)| if args.wants(kind, index) { '1' } else { '0' }).iter().collect()
    };
    let expected = [("", "111"), ("-m", "100"), ("-o", "011"), ("-o=1", "001"), ("-m -o=0", "110")];
    for (options, selection) in expected {
        let found: String = selected(options);
        assert_eq!(found, selection, "{options}");
    }
    assert_eq!(selected("--ost=7 -h"), "000");
}

//! File systems from records.

use fulmar_lustre_wire::llog::config::{Marker, Pool};
use fulmar_lustre_wire::{SmallNid, Text};

use super::*;

fn marker(flags: MarkerFlags) -> Config {
    let marker = Marker { flags, target: Text::default(), ..Marker::default() };
    Config::Marker { device: String::new(), marker }
}

/// Records between markers.
fn group(records: Vec<Config>) -> Vec<Config> {
    let (start, end) = (marker(MarkerFlags::START), marker(MarkerFlags::END));
    [start].into_iter().chain(records).chain([end]).collect()
}

fn nid(text: &str) -> Config {
    node(text, text)
}

/// Gives a node a NID.
fn node(node: &str, nid: &str) -> Config {
    let parsed: Nid = nid.parse().unwrap();
    let (nid, large_nid) = match parsed.to_small() {
        Some(small) => (SmallNid(small), None),
        None => (SmallNid(0), Some(nid.to_owned())),
    };
    Config::AddUuid { nid, node: node.to_owned(), large_nid }
}

fn attach(index: u32) -> Config {
    let device = format!("lv-OST{index:04x}-osc");
    Config::Attach { device, kind: "osc".to_owned(), uuid: "lv-clilov_UUID".to_owned() }
}

fn setup(index: u32, node: &str, more: &[&str]) -> Config {
    let device = format!("lv-OST{index:04x}-osc");
    let mut texts = vec![format!("lv-OST{index:04x}_UUID"), node.to_owned()];
    texts.extend(more.iter().map(|&text| text.to_owned()));
    Config::Setup { device, arguments: SetupArguments::Texts(texts) }
}

fn member(index: u32) -> Member {
    Member {
        device: "lv-clilov".to_owned(),
        uuid: format!("lv-OST{index:04x}_UUID"),
        index: index.to_string(),
        generation: "1".to_owned(),
        client: None,
    }
}

pub(crate) fn ost(index: u32) -> Vec<Config> {
    let node = "10.0.0.2@tcp";
    group(vec![nid(node), attach(index), setup(index, node, &[]), Config::AddOst(member(index))])
}

fn add_conn(index: u32, node: &str) -> Config {
    Config::AddConn { device: format!("lv-OST{index:04x}-osc"), node: node.to_owned() }
}

/// Returns the indices of the OSTs that are not active, one after the other.
fn inactive(lv: &Configuration) -> String {
    let osts = lv.osts.iter().filter(|ost| !ost.is_active);
    osts.map(|ost| ost.index.to_string()).collect()
}

fn param(index: u32, parameter: &str) -> Config {
    let (device, parameters) = (format!("lv-OST{index:04x}-osc"), vec![parameter.to_owned()]);
    Config::Param { device, parameters }
}

fn read(groups: &[Vec<Config>]) -> Configuration {
    Configuration::of("lv", &groups.concat(), &[])
}

fn nids(target: &FsTarget) -> String {
    target.nids.iter().map(Nid::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_target_has_the_nids_of_its_node_and_of_failover_nodes() {
    let records = group(vec![
        node("10.0.0.2@tcp", "10.0.0.2@tcp"),
        node("10.0.0.2@tcp", "10.1.0.2@tcp1"),
        attach(0),
        setup(0, "10.0.0.2@tcp", &[]),
        node("10.0.0.3@tcp", "10.0.0.3@tcp"),
        node("10.0.0.3@tcp", "fd00::3@tcp1"),
        // A failover node may be listed again.
        node("10.0.0.3@tcp", "10.0.0.3@tcp"),
        add_conn(0, "10.0.0.3@tcp"),
        Config::AddOst(member(0)),
    ]);
    let expected = "10.0.0.2@tcp 10.1.0.2@tcp1 10.0.0.3@tcp fd00::3@tcp1";
    assert_eq!(nids(&read(std::slice::from_ref(&records)).osts[0]), expected);
    let removed = group(vec![Config::DelConn {
        device: "lv-OST0000-osc".to_owned(),
        node: "10.0.0.3@tcp".to_owned(),
    }]);
    assert_eq!(nids(&read(&[records.clone(), removed]).osts[0]), "10.0.0.2@tcp 10.1.0.2@tcp1");
    let moved = group(vec![Config::DelUuid { node: "10.0.0.2@tcp".to_owned() }]);
    assert_eq!(nids(&read(&[records, moved]).osts[0]), "10.0.0.3@tcp fd00::3@tcp1");
}

#[test]
fn targets_are_ordered_by_index_and_there_may_be_holes() {
    let lv = read(&[ost(7), ost(0), ost(26)]);
    let places: Vec<String> = lv.osts.iter().map(FsTarget::place).collect();
    assert_eq!(places, ["OST:0", "OST:7", "OST:26"]);
    let removed = group(vec![Config::DelOst(member(7))]);
    assert_eq!(read(&[ost(7), ost(0), removed]).osts.len(), 1);
}

#[test]
fn only_records_between_markers_count_and_cancelled_ones_do_not() {
    let mut cancelled = ost(0);
    cancelled[0] = marker(MarkerFlags::START | MarkerFlags::SKIP);
    assert_eq!(read(&[cancelled.clone()]).osts, []);
    assert_eq!(read(&[cancelled, ost(1)]).osts.len(), 1);
    let outside = ost(0)[1..].to_vec();
    assert_eq!(read(&[outside]).osts, []);
}

#[test]
fn targets_can_be_switched_off_and_on() {
    let off = group(vec![param(1, "osc.active=0")]);
    let on = group(vec![param(1, "lv-OST0001.osc.active=1")]);
    let mut groups = vec![ost(0), ost(1)];
    assert_eq!(inactive(&read(&groups)), "");
    groups.push(off);
    assert_eq!(inactive(&read(&groups)), "1");
    groups.push(on);
    assert_eq!(inactive(&read(&groups)), "");
    let mut listed = ost(2);
    listed[4] = Config::AddInactiveOst(member(2));
    assert_eq!(inactive(&read(&[ost(0), listed])), "2");
    let mut set_up = ost(3);
    set_up[3] = setup(3, "10.0.0.2@tcp", &["inactive"]);
    assert_eq!(inactive(&read(&[ost(0), set_up])), "3");
}

#[test]
fn parameters_for_all_clients_switch_targets_off() {
    let set = |parameter: &str| {
        let (target, parameter) = ("general".to_owned(), parameter.to_owned());
        group(vec![Config::SetParam { target, parameter, upcall: Some("lctl".to_owned()) }])
    };
    let with = |parameters: &[Vec<Config>]| {
        inactive(&Configuration::of("lv", &[ost(0), ost(1)].concat(), &parameters.concat()))
    };
    assert_eq!(with(&[set("osc.*.max_dirty_mb=512")]), "");
    assert_eq!(with(&[set("osc.lv-OST0001-osc-*.active=0")]), "1");
    assert_eq!(with(&[set("osc.lv-OST0001-osc-[^M]*.active=0")]), "1");
    assert_eq!(with(&[set("osc.*.active=0"), set("osc.*OST0000*.active=1")]), "1");
    assert_eq!(with(&[set("mdc.*.active=0")]), "");
}

fn pool(name: &str, ost: Option<&str>) -> Pool {
    let (device, file_system) = ("lv-clilov".to_owned(), "lv".to_owned());
    Pool { device, file_system, pool: name.to_owned(), ost: ost.map(str::to_owned) }
}

#[test]
fn a_file_system_has_pools() {
    let mut groups = vec![
        group(vec![Config::NewPool(pool("fast", None))]),
        group(vec![Config::NewPool(pool("slow", None))]),
        group(vec![Config::AddToPool(pool("fast", Some("lv-OST0000_UUID")))]),
        group(vec![Config::AddToPool(pool("fast", Some("lv-OST001f_UUID")))]),
        group(vec![Config::AddToPool(pool("slow", Some("nonsense")))]),
    ];
    let pools = |groups: &[Vec<Config>]| {
        let pools = read(groups).pools.into_iter();
        pools.map(|(name, osts)| format!("{name}: {osts:?}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(pools(&groups), "fast: {0, 31} slow: {}");
    let removed = Config::RemoveFromPool(pool("fast", Some("lv-OST0000_UUID")));
    groups.push(group(vec![removed, Config::DestroyPool(pool("slow", None))]));
    assert_eq!(pools(&groups), "fast: {31}");
}

#[test]
fn what_a_client_of_the_targets_does_not_need_is_ignored() {
    let timeout = Config::SetTimeout { device: String::new(), seconds: 20 };
    let mut damaged = ost(1);
    damaged[4] = Config::AddOst(Member { index: "one".to_owned(), ..member(1) });
    let lv = read(&[group(vec![timeout, param(5, "osc.active=0")]), ost(0), damaged]);
    assert_eq!((lv.osts.len(), lv.mdts.len(), lv.name.as_str()), (1, 0, "lv"));
    // Without a device, nothing is known of a target.
    let unknown = group(vec![setup(2, "10.0.0.2@tcp", &[]), Config::AddOst(member(2))]);
    assert_eq!(read(&[unknown]).osts, []);
    // Without a NID, it is known to exist.
    let nowhere = group(vec![attach(3), setup(3, "x", &[]), Config::AddOst(member(3))]);
    assert_eq!(read(&[nowhere]).osts[0].nids, []);
}

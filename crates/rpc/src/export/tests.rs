//! The rules of connecting, in the order in which a server applies them.

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, Release};
use fulmar_lustre_wire::format::{CLIENT_UUID, CONNECT_DATA, CONNECTION, MGS_CONNECT, TARGET_UUID};
use fulmar_lustre_wire::message::{ConnectOpFlags, Message};
use fulmar_lustre_wire::{Handle, Uuid};

use super::*;
use crate::{HandleSource, RELEASE};

const TARGET: TargetId = TargetId(0);

fn node(n: u32) -> ProcessId {
    ProcessId::lustre(Nid::small(Net::TCP, n))
}

fn uuid(text: &str) -> Uuid {
    Uuid::new(text).unwrap()
}

fn exports() -> Exports {
    Exports::new(HandleSource::new(7), ExportLimits::default())
}

/// The first CONNECT of the client `name` on node 1.
fn first(name: &str) -> Connect {
    let asked = ConnectData { flags: ConnectFlags::FULL20, ..ConnectData::default() };
    Connect {
        client: uuid(name),
        peer: node(1),
        flavor: Flavor::NULL,
        connection: Handle(77),
        handle: Handle::NONE,
        count: 1,
        op_flags: ConnectOpFlags::INITIAL,
        estimate: 5,
        asked,
    }
}

fn with_flags(connect: Connect, flags: ConnectFlags) -> Connect {
    let asked = ConnectData { flags: connect.asked.flags | flags, ..connect.asked };
    Connect { asked, ..connect }
}

fn admit(exports: &mut Exports, connect: &Connect) -> Result<Admission, Errno> {
    let result = exports.admit(Time::ZERO, TARGET, connect, false, |_| false);
    exports.check_invariants().unwrap();
    result
}

/// Connects, and returns the export.
fn connect(exports: &mut Exports, connect: &Connect) -> Result<Handle, Errno> {
    let admission = admit(exports, connect)?;
    exports.connected(Time::ZERO, admission.export, connect, &connect.asked)?;
    exports.check_invariants().unwrap();
    Ok(admission.export)
}

#[test]
fn a_client_connects_and_reconnects_with_its_handle() {
    let mut exports = exports();
    let one = first("one");
    let handle = connect(&mut exports, &one).unwrap();
    let again = Connect { handle, count: 2, op_flags: ConnectOpFlags::NONE, ..one };
    let admission = admit(&mut exports, &again).unwrap();
    assert_eq!((admission.export, admission.is_reconnect), (handle, true));
    exports.connected(Time::ZERO, handle, &again, &again.asked).unwrap();
    assert_eq!(exports.get(handle).unwrap().connection_count, 2);
    let other = connect(&mut exports, &first("two")).unwrap();
    assert_ne!(other, handle);
    assert_eq!(exports.len(), 2);
}

#[test]
fn clients_that_are_too_old_or_have_no_kernel_are_refused() {
    let mut exports = exports();
    let one = first("one");
    let old = Connect { asked: ConnectData::default(), ..one };
    assert_eq!(admit(&mut exports, &old).unwrap_err(), Errno::EPROTO);
    let op_flags = ConnectOpFlags::LIBCLIENT;
    assert_eq!(admit(&mut exports, &Connect { op_flags, ..one }).unwrap_err(), Errno::EPROTO);
    assert!(exports.is_empty());
}

#[test]
fn a_server_that_starts_again_does_not_lose_its_export_while_it_must_wait() {
    let mut exports = exports();
    let one = with_flags(first("one"), ConnectFlags::MDS);
    let handle = connect(&mut exports, &one).unwrap();
    let refused = exports.admit(Time::ZERO, TARGET, &one, true, |_| false);
    assert_eq!(refused.unwrap_err(), Errno::EBUSY);
    assert!(exports.get(handle).is_some());
}

#[test]
fn metadata_servers_are_of_almost_the_same_release() {
    let mut exports = exports();
    let flags = ConnectFlags::MDS_MDS | ConnectFlags::FID | ConnectFlags::VERSION;
    let [major, minor, patch, _] = RELEASE.parts();
    let mut result = |major, minor, patch, more: ConnectFlags| {
        let mut one = with_flags(first("mdt"), flags | more);
        one.asked.version = Release::new(major, minor, patch, 9);
        connect(&mut exports, &one).map(|_| ())
    };
    assert_eq!(result(major, minor, patch + 4, ConnectFlags::NONE), Err(Errno::EPROTO));
    assert_eq!(result(major, minor + 1, patch, ConnectFlags::NONE), Err(Errno::EPROTO));
    assert_eq!(result(major, minor + 1, patch, ConnectFlags::LIGHTWEIGHT), Ok(()));
    assert_eq!(result(major, minor, patch - 3, ConnectFlags::NONE), Ok(()));
}

#[test]
fn a_client_has_one_connect_in_progress_and_a_refused_one_leaves_nothing() {
    let mut exports = exports();
    let one = first("one");
    let admission = admit(&mut exports, &one).unwrap();
    assert_eq!(admit(&mut exports, &Connect { count: 2, ..one }).unwrap_err(), Errno::EALREADY);
    exports.refused(admission.export, admission.is_new);
    exports.check_invariants().unwrap();
    assert!(exports.is_empty());
    let handle = connect(&mut exports, &one).unwrap();
    let again = Connect { handle, count: 2, ..one };
    let admission = admit(&mut exports, &again).unwrap();
    exports.refused(admission.export, admission.is_new);
    assert_eq!(exports.get(handle).unwrap().connection_count, 1);
    connect(&mut exports, &Connect { count: 3, ..again }).unwrap();
}

#[test]
fn the_name_of_a_client_belongs_to_one_incarnation_on_one_node() {
    let mut exports = exports();
    let one = first("one");
    let handle = connect(&mut exports, &one).unwrap();
    let elsewhere = Connect { peer: node(2), count: 2, ..one };
    assert_eq!(admit(&mut exports, &elsewhere).unwrap_err(), Errno::EALREADY);
    let restarted = Connect { connection: Handle(78), count: 2, ..one };
    assert_eq!(admit(&mut exports, &restarted).unwrap_err(), Errno::EALREADY);
    // A client that knows its export may come from another interface.
    let moved = Connect { handle, op_flags: ConnectOpFlags::NONE, ..elsewhere };
    connect(&mut exports, &moved).unwrap();
    assert_eq!(exports.get(handle).unwrap().peer, node(2));
}

#[test]
fn requests_in_progress_and_later_attempts_stop_a_connect() {
    let mut exports = exports();
    let one = first("one");
    let handle = connect(&mut exports, &one).unwrap();
    let again = Connect { count: 2, ..one };
    let busy = |exports: &mut Exports, connect: &Connect| {
        exports
            .admit(Time::ZERO, TARGET, connect, false, |_| true)
            .map(|admission| admission.export)
    };
    assert_eq!(busy(&mut exports, &again), Err(Errno::EBUSY));
    // On its export it may: what is in progress is its own.
    let on_it = Connect { handle, ..again };
    assert_eq!(busy(&mut exports, &on_it), Ok(handle));
    exports.connected(Time::ZERO, handle, &on_it, &on_it.asked).unwrap();
    assert_eq!(connect(&mut exports, &on_it), Err(Errno::EALREADY));
    assert_eq!(connect(&mut exports, &Connect { count: 1, ..on_it }), Err(Errno::EALREADY));
    connect(&mut exports, &Connect { count: 3, ..on_it }).unwrap();
}

#[test]
fn a_restarted_server_replaces_its_export() {
    let mut exports = exports();
    for (flags, op_flags) in [
        (ConnectFlags::MDS, ConnectOpFlags::INITIAL),
        (ConnectFlags::LIGHTWEIGHT, ConnectOpFlags::INITIAL),
    ] {
        let one = with_flags(first("server"), flags);
        let old = connect(&mut exports, &one).unwrap();
        let restarted = Connect { connection: Handle(78), op_flags, peer: node(2), ..one };
        let admission = admit(&mut exports, &restarted).unwrap();
        assert_eq!(admission.evicted.unwrap().0, old);
        assert!(admission.is_new && !admission.is_reconnect);
        exports.refused(admission.export, admission.is_new);
        assert!(exports.is_empty());
    }
    // Without INITIAL it is a reconnect, with the rules of clients.
    let one = with_flags(first("server"), ConnectFlags::MDS);
    connect(&mut exports, &one).unwrap();
    let other = Connect { connection: Handle(78), op_flags: ConnectOpFlags::NONE, ..one };
    assert_eq!(admit(&mut exports, &other).unwrap_err(), Errno::EALREADY);
}

#[test]
fn another_metadata_target_keeps_its_export_while_it_stays_on_its_node() {
    let mut exports = exports();
    let mut one = with_flags(first("mdt"), ConnectFlags::MDS_MDS);
    one.count = 5;
    let handle = connect(&mut exports, &one).unwrap();
    let restarted = Connect { connection: Handle(78), count: 1, ..one };
    assert_eq!(connect(&mut exports, &restarted), Ok(handle));
    let elsewhere = Connect { peer: node(2), ..restarted };
    assert_ne!(connect(&mut exports, &elsewhere), Ok(handle));
    assert_eq!(exports.len(), 1);
}

#[test]
fn exports_are_limited_as_a_whole_and_by_node() {
    let limits = ExportLimits { whole: 3, of_node: 2 };
    let mut exports = Exports::new(HandleSource::new(7), limits);
    let one = connect(&mut exports, &first("one")).unwrap();
    connect(&mut exports, &first("two")).unwrap();
    assert_eq!(connect(&mut exports, &first("three")), Err(Errno::ENOMEM));
    connect(&mut exports, &Connect { peer: node(2), ..first("three") }).unwrap();
    let four = Connect { peer: node(3), ..first("four") };
    assert_eq!(connect(&mut exports, &four), Err(Errno::ENOMEM));
    exports.remove(one).unwrap();
    exports.check_invariants().unwrap();
    connect(&mut exports, &four).unwrap();
}

#[test]
fn a_restarted_server_keeps_its_export_if_there_is_no_place_for_another_one() {
    let limits = ExportLimits { whole: 2, of_node: 1 };
    let mut exports = Exports::new(HandleSource::new(7), limits);
    let server = with_flags(first("server"), ConnectFlags::MDS);
    let old = connect(&mut exports, &server).unwrap();
    connect(&mut exports, &Connect { peer: node(2), ..first("one") }).unwrap();
    // Its new node is full.
    let moved = Connect { peer: node(2), connection: Handle(78), ..server };
    assert_eq!(admit(&mut exports, &moved).unwrap_err(), Errno::ENOMEM);
    assert!(exports.get(old).is_some(), "its locks and files are still known");
    // On its own node it takes the place of its earlier export.
    let restarted = Connect { connection: Handle(78), ..server };
    let admission = admit(&mut exports, &restarted).unwrap();
    assert_eq!(admission.evicted.map(|(handle, _)| handle), Some(old));
}

#[test]
fn a_silent_client_is_evicted_and_one_that_need_not_ping_is_not() {
    let mut exports = exports();
    let quiet = connect(&mut exports, &first("quiet")).unwrap();
    let active = connect(&mut exports, &first("active")).unwrap();
    connect(&mut exports, &with_flags(first("pingless"), ConnectFlags::PINGLESS)).unwrap();
    exports.get_mut(active).unwrap().heard(Time::from_secs(100));
    // 150 s before the first request; then (2 * 25 + 5 + 5 + 5) s and a sixteenth.
    let mut evicted = Vec::new();
    while let Some(now) = exports.poll_timeout() {
        while let Some((handle, _)) = exports.pop_silent(now, 5) {
            evicted.push((now.since(Time::ZERO), handle));
        }
        exports.check_invariants().unwrap();
    }
    let after = [Duration::from_secs(150), Duration::from_millis(100_000 + 69_062)];
    assert_eq!(evicted.len(), 2);
    assert_eq!((evicted[0].0, evicted[0].1), (after[0], quiet));
    assert_eq!((evicted[1].0.as_millis(), evicted[1].1), (after[1].as_millis(), active));
    assert_eq!(exports.len(), 1);
}

#[test]
fn a_client_has_a_name_that_can_be_printed() {
    let mut exports = exports();
    for name in ["", "two words", "a\nline", "caf\u{e9}", "\u{1b}[2J"] {
        assert_eq!(admit(&mut exports, &first(name)).unwrap_err(), Errno::EINVAL, "{name:?}");
    }
    admit(&mut exports, &first("2f1c0ab6-9e44-4f8b-8a52-3a1c")).unwrap();
}

#[test]
fn a_connect_without_a_name_or_with_wrong_data_is_refused() {
    let message = |data: Vec<u8>| {
        Message::request(&MGS_CONNECT)
            .with(&TARGET_UUID, &uuid("MGS"))
            .with(&CLIENT_UUID, &uuid("one"))
            .with(&CONNECTION, &Handle(1))
            .with_bytes(&CONNECT_DATA, data)
    };
    let decode = |message: &Message<'_>| Connect::decode(message, node(1)).map(|_| ());
    assert_eq!(decode(&message(vec![0; 192])), Ok(()));
    assert_eq!(decode(&message(vec![0; 8 * 192])), Ok(()));
    assert_eq!(decode(&message(vec![0; 8 * 192 + 1])), Err(Errno::EPROTO));
    assert_eq!(decode(&message(vec![0; 71])), Err(Errno::EPROTO));
    assert_eq!(decode(&message(Vec::new())), Err(Errno::EPROTO));
    for missing in [
        message(vec![0; 192]).with_bytes(&CLIENT_UUID, Vec::new()),
        message(vec![0; 192]).with_bytes(&CONNECTION, Vec::new()),
    ] {
        assert_eq!(decode(&missing), Err(Errno::EINVAL));
    }
}

#[test]
fn ten_thousand_clients_at_rest_need_little_memory() {
    let mut exports = exports();
    for n in 0..10_000 {
        let one = Connect { peer: node(n), ..first(&format!("client-{n}")) };
        connect_quickly(&mut exports, &one);
    }
    assert_eq!(exports.len(), 10_000);
    // The export, its name, its handles and its timer; trees are at worst half full.
    let entry = size_of::<Export>()
        + size_of::<(TargetId, Uuid)>()
        + 4 * size_of::<Handle>()
        + 2 * size_of::<(Time, Handle)>()
        + size_of::<(Nid, u32)>();
    println!("{} bytes of an export, {entry} with its entries", size_of::<Export>());
    assert!(2 * entry < 1024, "{entry} bytes");
}

/// Connects without a check of all tables.
fn connect_quickly(exports: &mut Exports, one: &Connect) {
    let admission = exports.admit(Time::ZERO, TARGET, one, false, |_| false).unwrap();
    exports.connected(Time::ZERO, admission.export, one, &one.asked).unwrap();
}

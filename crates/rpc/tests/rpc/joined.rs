//! An import and a service of ours, joined by LNet.

use std::collections::BTreeSet;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{LLOG_CREATE, PING};
use fulmar_lustre_wire::message::{Flavor, Message};
use fulmar_lustre_wire::{Opcode, Status, Uuid};
use fulmar_rpc::RELEASE;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, State, Target, TargetKind};

use crate::pair::{CONNECTION, Pair, SERVER};

/// A pair whose client is connected.
pub(crate) fn connected(seed: u64, in_flight_max: usize) -> (Pair, ImportId) {
    let mut pair = Pair::new(seed);
    let import = connect(&mut pair, in_flight_max, Flavor::NULL);
    let is_full = |pair: &Pair| pair.states.last() == Some(&State::Full);
    assert!(pair.run(Time::from_secs(100), is_full), "{:?}", pair.states);
    (pair, import)
}

pub(crate) fn connect(pair: &mut Pair, in_flight_max: usize, flavor: Flavor) -> ImportId {
    let flags = ConnectFlags::FULL20
        | ConnectFlags::AT
        | ConnectFlags::VERSION
        | ConnectFlags::BULK_MBITS
        | ConnectFlags::FLAGS2;
    let flags2 = ConnectFlags2::REP_MBITS;
    let data = ConnectData { flags, flags2, version: RELEASE, ..ConnectData::default() };
    let mgs = Uuid::new("MGS").unwrap();
    let target = Target {
        client: Uuid::new("03b71391-9466-45f4-b173-f15791d927e6").unwrap(),
        connection: CONNECTION,
        in_flight_max,
        flavor,
        ..Target::new(TargetKind::Mgs, mgs, vec![SERVER], data)
    };
    let now = pair.now;
    pair.client().connect(now, target)
}

/// Sends `count` requests, and runs until all have ended.
pub(crate) fn request(pair: &mut Pair, import: ImportId, count: usize, message: &Message<'static>) {
    let now = pair.now;
    begin(pair, import, count, message);
    let all = pair.asked;
    let ended = pair.run(now + Duration::from_secs(20_000), |pair| pair.done.len() == all);
    assert!(ended, "{} of {all} have ended", pair.done.len());
}

pub(crate) fn begin(pair: &mut Pair, import: ImportId, count: usize, message: &Message<'static>) {
    let now = pair.now;
    for _ in 0..count {
        pair.client().request(now, import, Request::new(message.clone(), 1024)).unwrap();
    }
    pair.asked += count;
}

pub(crate) fn disconnect(pair: &mut Pair, import: ImportId) {
    pair.work = Duration::from_millis(10);
    let now = pair.now;
    pair.client().disconnect(now, import);
    let closed = |pair: &Pair| matches!(pair.import(import), Some(State::Closed(_)));
    assert!(pair.run(now + Duration::from_secs(60), closed));
    // Until the last events have come.
    pair.run(pair.now + Duration::from_secs(1), |_| false);
    assert!(pair.server().exports().is_empty());
    pair.assert_idle();
}

#[test]
fn a_client_connects_pings_and_disconnects() {
    let (mut pair, import) = connected(1, 8);
    assert_eq!(pair.server().exports().len(), 1);
    request(&mut pair, import, 100, &Message::request(&PING));
    assert!(pair.done.iter().all(|(_, result)| *result == Ok(Status::OK)));
    let stats = pair.server().stats(0).unwrap();
    assert_eq!(stats.operations[&Opcode::OBD_PING].count, 100);
    assert!(stats.dropped.is_empty() && stats.refused.is_empty());
    disconnect(&mut pair, import);
}

#[test]
fn descriptors_that_are_used_up_are_posted_again() {
    let (mut pair, import) = connected(2, 64);
    // A descriptor has room for 4,700 of them.
    request(&mut pair, import, 10_000, &Message::request(&PING));
    assert!(pair.done.iter().all(|(_, result)| *result == Ok(Status::OK)));
    assert!(!pair.states.iter().any(|state| matches!(state, State::Disconnected(_))));
    disconnect(&mut pair, import);
}

#[test]
fn messages_that_are_lost_are_sent_again() {
    let mut repeated = 0;
    for seed in 0..20 {
        let (mut pair, import) = connected(seed, 8);
        pair.loss = 20;
        pair.work = Duration::from_secs(1);
        request(&mut pair, import, 100, &Message::request(&LLOG_CREATE));
        assert!(pair.done.iter().all(|(_, result)| *result == Ok(Status::OK)), "{seed}");
        assert!(!pair.states.contains(&State::Evicted), "{seed}");
        repeated += pair.executed.len() - 101;
        pair.loss = 0;
        disconnect(&mut pair, import);
    }
    assert!(repeated > 0, "what changes nothing may be executed again");
}

#[test]
fn a_request_whose_reply_is_saved_is_executed_once() {
    let mut saved = 0;
    for seed in 0..20 {
        let (mut pair, import) = connected(seed, 1);
        pair.loss = 20;
        pair.saves = true;
        request(&mut pair, import, 50, &Message::request(&LLOG_CREATE));
        assert!(pair.done.iter().all(|(_, result)| *result == Ok(Status::OK)), "{seed}");
        pair.loss = 0;
        saved += pair.server().stats(0).unwrap().repeated;
        let distinct: BTreeSet<u64> = pair.executed.iter().copied().collect();
        assert_eq!(distinct.len(), pair.executed.len(), "{seed}: one was executed twice");
        disconnect(&mut pair, import);
    }
    assert!(saved > 20, "{saved} replies came from the cache");
}

#[test]
fn slow_requests_are_kept_alive_by_early_replies() {
    let (mut pair, import) = connected(3, 8);
    pair.work = Duration::from_secs(100);
    request(&mut pair, import, 30, &Message::request(&LLOG_CREATE));
    assert!(pair.done.iter().all(|(_, result)| *result == Ok(Status::OK)));
    let stats = pair.server().stats(0).unwrap();
    assert!(stats.early > 10, "{}", stats.early);
    assert_eq!(pair.executed.len(), 31, "none was sent again");
    disconnect(&mut pair, import);
}

#[test]
fn a_client_of_a_restarted_server_is_evicted_and_goes_on() {
    for seed in 0..10 {
        let (mut pair, import) = connected(seed, 8);
        pair.work = Duration::from_millis(500);
        request(&mut pair, import, 20, &Message::request(&LLOG_CREATE));
        let now = pair.now;
        begin(&mut pair, import, 20, &Message::request(&LLOG_CREATE));
        pair.run(now + Duration::from_millis(300), |_| false);
        pair.restart_server(seed + 2);
        request(&mut pair, import, 20, &Message::request(&PING));
        assert!(pair.states.contains(&State::Evicted), "{seed}: {:?}", pair.states);
        assert_eq!(pair.states.last(), Some(&State::Full));
        let failures = pair.done.iter().filter_map(|(_, result)| result.err());
        assert!(failures.clone().all(|errno| errno == Errno::EIO), "{seed}");
        assert!(failures.count() > 0, "{seed}: what the server knew is lost");
        request(&mut pair, import, 100, &Message::request(&PING));
        disconnect(&mut pair, import);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let (mut pair, import) = connected(seed, 8);
        pair.loss = 15;
        request(&mut pair, import, 100, &Message::request(&LLOG_CREATE));
        pair.log
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

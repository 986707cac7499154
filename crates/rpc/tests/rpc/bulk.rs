//! Bulk data between an import and a service of ours, joined by LNet.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnd::SendRequest;
use fulmar_lnet::{Bound, Md, MdOptions, Memory, Op, Put};
use fulmar_lnet_wire::{Body, ProcessId};
use fulmar_lustre_wire::ost::{Niobuf, NiobufFlags};
use fulmar_lustre_wire::{Status, portal};
use fulmar_rpc::bulk::Direction::{self, ToClient, ToServer};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::State;
use proptest::prelude::*;

use crate::data::Lie;
use crate::joined::{connected, disconnect};
use crate::pair::{CLIENT, Pair};

const MIB: u32 = 1 << 20;

fn begin(pair: &mut Pair, import: ImportId, direction: Direction, offset: u64, len: u32) {
    let now = pair.now;
    let range = Niobuf { offset, len, flags: NiobufFlags::NONE };
    let (request, note) = pair.data.request(&mut pair.client, direction, range);
    let id = pair.client().request(now, import, request).unwrap();
    note(&mut pair.data, id);
    pair.asked += 1;
}

/// Runs until all requests have ended.
fn finish(pair: &mut Pair) {
    let (all, until) = (pair.asked, pair.now + Duration::from_secs(20_000));
    let ended = pair.run(until, |pair| pair.done.len() == all);
    assert!(ended, "{} of {all} have ended", pair.done.len());
}

fn all_well(pair: &Pair) -> bool {
    pair.done.iter().all(|(_, result)| result.is_ok_and(|status| status.0 >= 0))
}

#[test]
fn data_of_every_size_arrive_in_both_directions() {
    let (mut pair, import) = connected(1, 8);
    pair.data.end = 20 << 20;
    for len in [1, 4095, 4096, MIB - 1, MIB, MIB + 1, 3 * MIB, 16 * MIB] {
        for offset in [0, 1, 4095, 8192, 19 << 20, 30 << 20] {
            // The client has as many parts as the request says.
            if len < 16 * MIB || offset % 4096 == 0 {
                begin(&mut pair, import, ToClient, offset, len);
                begin(&mut pair, import, ToServer, offset, len);
            }
        }
    }
    finish(&mut pair);
    assert!(all_well(&pair) && pair.data.ended.iter().all(Result::is_ok));
    let stats = pair.server().stats(0).unwrap();
    assert_eq!(stats.moved, pair.data.ended.iter().map(|moved| moved.unwrap()).sum::<u64>());
    assert!(stats.not_moved.is_empty() && stats.dropped.is_empty());
    disconnect(&mut pair, import);
}

#[test]
fn nothing_is_wrong_or_left_after_losses_and_resets() {
    let mut failed = 0;
    for seed in 0..20 {
        let (mut pair, import) = connected(seed, 8);
        pair.data.end = 5 << 20;
        (pair.loss, pair.resets) = (40, 40);
        for n in 0..12 {
            let direction = if n % 2 == 0 { ToServer } else { ToClient };
            begin(&mut pair, import, direction, 5000 * n, MIB * (n as u32 % 4) + 77);
        }
        finish(&mut pair);
        assert!(all_well(&pair), "{seed}: {:?}", pair.done);
        failed += pair.data.ended.iter().filter(|result| result.is_err()).count();
        (pair.loss, pair.resets) = (0, 0);
        disconnect(&mut pair, import);
    }
    assert!(failed > 20, "{failed} transfers have failed");
}

#[test]
fn requests_that_a_server_has_forgotten_end_when_their_memory_is_free() {
    for seed in 0..10 {
        let (mut pair, import) = connected(seed, 8);
        pair.data.end = 9 << 20;
        for n in 0..8 {
            begin(&mut pair, import, [ToServer, ToClient][n % 2], 0, 3 * MIB);
        }
        let soon = pair.now + Duration::from_millis(8);
        pair.run(soon, |_| false);
        pair.restart_server(seed + 2);
        finish(&mut pair);
        assert!(pair.states.contains(&State::Evicted) || all_well(&pair), "{seed}");
        begin(&mut pair, import, ToClient, 0, 2 * MIB);
        finish(&mut pair);
        assert!(pair.done.last().unwrap().1.is_ok(), "{seed}: {:?}", pair.done);
        disconnect(&mut pair, import);
    }
}

#[test]
fn a_request_that_is_given_up_ends_when_its_memory_is_free() {
    let mut held = 0;
    for seed in 0..40 {
        let (mut pair, import) = connected(seed, 8);
        pair.data.end = 64 << 20;
        for n in 0..8 {
            begin(&mut pair, import, [ToServer, ToClient][n % 2], 0, 3 * MIB);
        }
        let soon = pair.now + Duration::from_micros(2000 + 200 * seed);
        pair.run(soon, |_| false);
        let now = pair.now;
        pair.client().disconnect(now, import);
        pair.run(now, |_| false);
        held += pair.asked - pair.done.len();
        finish(&mut pair);
        assert!(pair.done.iter().any(|(_, result)| *result == Err(Errno::ESHUTDOWN)), "{seed}");
        let later = pair.now + Duration::from_secs(300);
        pair.run(later, |_| false);
        pair.assert_idle();
        assert!(pair.client().remove(import));
    }
    assert!(held > 20, "LNet had the memory of {held} requests");
}

#[test]
fn a_server_that_sends_more_than_promised_changes_no_other_memory() {
    let (mut pair, import) = connected(4, 8);
    pair.data.end = 5 * u64::from(MIB);
    pair.data.lies = vec![Lie::Longer];
    begin(&mut pair, import, ToClient, 0, 2 * MIB - 5);
    finish(&mut pair);
    // It was sent again, and answered.
    assert_eq!(pair.done.last().unwrap().1, Ok(Status(2 * MIB as i32 - 5)));
    let ended = [Err(Errno::ETIMEDOUT), Ok(u64::from(2 * MIB - 5))];
    assert_eq!(pair.data.ended, ended);
    disconnect(&mut pair, import);
}

#[test]
fn a_server_that_replies_without_data_is_asked_again() {
    let (mut pair, import) = connected(5, 8);
    pair.data.end = 5 * u64::from(MIB);
    pair.data.lies = vec![Lie::Nothing, Lie::Nothing];
    begin(&mut pair, import, ToClient, 0, 2 * MIB);
    finish(&mut pair);
    assert!(all_well(&pair));
    assert_eq!(pair.data.ended, [Ok(u64::from(2 * MIB))]);
    disconnect(&mut pair, import);
}

#[test]
fn a_client_that_does_not_answer_holds_a_transfer_no_longer_than_its_request() {
    let (mut pair, import) = connected(6, 8);
    let is_reply = |request: &SendRequest| {
        matches!(request.header.body, Body::Reply { .. }) && request.ni == CLIENT
    };
    pair.mute = Some(is_reply);
    begin(&mut pair, import, ToServer, 0, MIB);
    let begun = pair.now;
    let until = begun + Duration::from_secs(600);
    assert!(pair.run(until, |pair| !pair.data.ended.is_empty()));
    assert_eq!(pair.data.ended, [Err(Errno::ETIMEDOUT)]);
    assert!(pair.now.since(begun) < Duration::from_secs(110), "{:?}", pair.now.since(begun));
    pair.mute = None;
    finish(&mut pair);
    assert!(all_well(&pair));
    disconnect(&mut pair, import);
}

#[test]
fn data_that_are_not_expected_are_dropped() {
    let (mut pair, import) = connected(7, 8);
    pair.data.end = u64::from(MIB);
    begin(&mut pair, import, ToClient, 0, MIB);
    finish(&mut pair);
    let of_ended = *pair.executed.last().unwrap();
    begin(&mut pair, import, ToClient, 0, MIB);
    let id = pair.server.lnet.open_service(fulmar_lnet::ServiceConfig::default());
    for bits in [of_ended, 0, 1, u64::MAX, of_ended + 64] {
        let user = 1 << 40;
        let md = Md {
            buffer: fulmar_base::BufferId(0),
            offset: 0,
            len: 4,
            threshold: Some(1),
            options: MdOptions::default(),
            max_size: 0,
            auto_unlink: true,
            user,
        };
        let put = Put {
            ack: false,
            source: None,
            target: ProcessId::lustre(CLIENT),
            portal: portal::OST_BULK,
            match_bits: bits,
            offset: 0,
            header_data: 0,
        };
        let from = Bound::New(md, Memory::Bytes([1, 2, 3, 4].into()));
        pair.server.lnet.post(pair.now, id, [Op::Put { from, put }], |posted| {
            posted.unwrap();
        });
    }
    finish(&mut pair);
    assert!(all_well(&pair));
    assert_eq!(pair.data.read, 2 * u64::from(MIB));
    disconnect(&mut pair, import);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn any_requests_are_served_with_the_right_bytes(
        seed in 0..1000_u64,
        end in 0..6_u64 << 20,
        loss in prop_oneof![Just(0_u64), 20..200_u64],
        resets in prop_oneof![Just(0_u64), 20..200_u64],
        requests in prop::collection::vec(
            (any::<bool>(), 0..5_u64 << 20, 1..3_u32 << 20), 1..12),
    ) {
        let (mut pair, import) = connected(seed, 8);
        pair.data.end = end;
        (pair.loss, pair.resets) = (loss, resets);
        for (is_read, offset, len) in requests {
            begin(&mut pair, import, if is_read { ToClient } else { ToServer }, offset, len);
        }
        finish(&mut pair);
        // A client whose pings are lost may be evicted, and its requests end then too.
        let is_evicted = pair.states.contains(&State::Evicted);
        prop_assert!(is_evicted || all_well(&pair), "{:?}", pair.done);
        (pair.loss, pair.resets) = (0, 0);
        let quiet = pair.now + Duration::from_secs(200);
        pair.run(quiet, |_| false);
        disconnect(&mut pair, import);
    }
}

//! Requests of a server to its client, joined by LNet.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::format::{BLOCKING, PING};
use fulmar_lustre_wire::message::{Flavor, Message};
use fulmar_lustre_wire::{Handle, Status};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::export::{Eviction, TargetId};
use fulmar_rpc::import::State;
use fulmar_rpc::reverse::Call;

use crate::joined::{begin, connected, disconnect};
use crate::pair::{CLIENT, CONNECTION, Pair, SERVER};

const LIMIT: Duration = Duration::from_secs(100);

/// A pair whose client takes callbacks.
fn with_callbacks(seed: u64) -> (Pair, ImportId, Handle) {
    let (mut pair, import) = connected(seed, 8);
    let granted = *pair.client().import(import).unwrap().granted();
    let (now, server) = (pair.now, ProcessId::lustre(SERVER));
    pair.callbacks().admit_server(now, TargetId(0), CONNECTION, server, Flavor::NULL, &granted);
    let export = pair.server().exports().iter().next().unwrap().0;
    (pair, import, export)
}

fn call(pair: &mut Pair, export: Handle) {
    let now = pair.now;
    let call = Call::new(Message::request(&BLOCKING), 224, LIMIT);
    pair.server.service.call(now, export, call).expect("the client is connected");
}

/// Runs until all calls have ended.
fn finish(pair: &mut Pair, count: usize) {
    let until = pair.now + Duration::from_secs(1000);
    let ended = pair.run(until, |pair| pair.called.len() == count);
    assert!(ended, "{} of {count} have ended", pair.called.len());
}

fn end(mut pair: Pair, import: ImportId) {
    (pair.loss, pair.resets, pair.mute) = (0, 0, None);
    pair.work = Duration::from_millis(1);
    let until = pair.now + Duration::from_secs(200);
    pair.run(pair.now + Duration::from_secs(1), |_| false);
    assert!(pair.run(until, |pair| pair.import(import) == Some(State::Full)));
    disconnect(&mut pair, import);
    assert!(pair.callbacks().dismiss_server(CONNECTION));
    pair.callbacks().is_idle().unwrap();
    assert!(pair.callbacks().exports().is_empty());
}

#[test]
fn a_client_answers_callbacks() {
    let (mut pair, import, export) = with_callbacks(1);
    for _ in 0..100 {
        call(&mut pair, export);
    }
    finish(&mut pair, 100);
    assert!(pair.called.iter().all(|result| *result == Ok(Status::OK)));
    assert_eq!(pair.answered, 100);
    end(pair, import);
}

#[test]
fn callbacks_that_are_lost_are_sent_again() {
    let mut answered = 0;
    for seed in 0..20 {
        let (mut pair, import, export) = with_callbacks(seed);
        (pair.loss, pair.resets) = (15, 15);
        for _ in 0..20 {
            call(&mut pair, export);
        }
        finish(&mut pair, 20);
        assert!(pair.called.iter().all(|result| *result == Ok(Status::OK)), "{seed}");
        answered += pair.answered;
        end(pair, import);
    }
    assert!(answered > 400, "some replies were lost");
}

#[test]
fn a_client_that_takes_long_announces_it() {
    let (mut pair, import, export) = with_callbacks(2);
    pair.work = Duration::from_secs(90);
    for _ in 0..5 {
        call(&mut pair, export);
    }
    finish(&mut pair, 5);
    assert!(pair.called.iter().all(|result| *result == Ok(Status::OK)));
    assert!(pair.callbacks().stats(0).unwrap().early > 3);
    assert_eq!(pair.answered, 5, "none was sent again");
    end(pair, import);
}

#[test]
fn a_client_that_does_not_answer_is_reported_when_the_time_is_over() {
    let (mut pair, import, export) = with_callbacks(3);
    let begun = pair.now;
    pair.mute = Some(|request| request.ni == CLIENT);
    call(&mut pair, export);
    finish(&mut pair, 1);
    assert_eq!(pair.called, [Err(Errno::ETIMEDOUT)]);
    assert_eq!(pair.now.since(begun), LIMIT);
    assert!(pair.answered > 0, "the client has got it");
    end(pair, import);
}

#[test]
fn a_client_does_not_know_a_connection_that_is_closed() {
    let (mut pair, import, export) = with_callbacks(4);
    pair.callbacks().dismiss_server(CONNECTION);
    call(&mut pair, export);
    finish(&mut pair, 1);
    assert_eq!((pair.called.as_slice(), pair.answered), (&[Err(Errno::ENOTCONN)][..], 0));
    let (now, server) = (pair.now, ProcessId::lustre(SERVER));
    let granted = *pair.client().import(import).unwrap().granted();
    pair.callbacks().admit_server(now, TargetId(0), CONNECTION, server, Flavor::NULL, &granted);
    end(pair, import);
}

#[test]
fn a_client_that_is_evicted_is_not_called_any_more() {
    let (mut pair, import, export) = with_callbacks(5);
    pair.work = Duration::from_secs(5);
    for _ in 0..3 {
        call(&mut pair, export);
    }
    let soon = pair.now + Duration::from_millis(1);
    pair.run(soon, |_| false);
    assert!(pair.server.service.evict(pair.now, export, Eviction::Administrator));
    finish(&mut pair, 3);
    assert_eq!(pair.called, [Err(Errno::ENOTCONN); 3]);
    let call = Call::new(Message::request(&BLOCKING), 224, LIMIT);
    let now = pair.now;
    assert_eq!(pair.server.service.call(now, export, call), None);
    let until = pair.now + Duration::from_secs(100);
    assert!(pair.run(until, |pair| pair.states.contains(&State::Evicted)));
    end(pair, import);
}

#[test]
fn a_call_that_is_forgotten_is_not_reported() {
    let (mut pair, import, export) = with_callbacks(6);
    let now = pair.now;
    let call = Call::new(Message::request(&BLOCKING), 224, LIMIT);
    let id = pair.server.service.call(now, export, call).unwrap();
    let server = &mut pair.server.service;
    assert!(server.forget_call(now, id) && !server.forget_call(now, id));
    let later = pair.now + Duration::from_secs(30);
    pair.run(later, |_| false);
    assert!(pair.called.is_empty());
    end(pair, import);
}

#[test]
fn a_client_that_connects_again_gets_its_callbacks_at_once() {
    let (mut pair, import, export) = with_callbacks(7);
    pair.mute = Some(|_| true);
    begin(&mut pair, import, 1, &Message::request(&PING));
    let later = pair.now + Duration::from_secs(10);
    pair.run(later, |_| false);
    // Both are lost. The client's request is late first.
    call(&mut pair, export);
    let is_lost = |pair: &Pair| pair.import(import) != Some(State::Full);
    let late = pair.now + Duration::from_secs(10);
    assert!(pair.run(late, is_lost) && pair.called.is_empty());
    pair.mute = None;
    let soon = pair.now + Duration::from_secs(6);
    assert!(pair.run(soon, |pair| !pair.called.is_empty()), "{:?}", pair.states);
    assert_eq!((pair.called.as_slice(), pair.answered), (&[Ok(Status::OK)][..], 1));
    end(pair, import);
}

//! Messages that are protected, joined by LNet. Spec: ptlrpc-ldlm-mgs §9.

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::Status;
use fulmar_lustre_wire::format::{BLOCKING, LLOG_CREATE, PING};
use fulmar_lustre_wire::message::{Flavor, HashKind, Message};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::export::TargetId;
use fulmar_rpc::import::State;
use fulmar_rpc::reverse::Call;
use fulmar_rpc::service::DropReason;

use crate::joined::{connect, disconnect, request};
use crate::pair::{CONNECTION, Pair, SERVER};

const LIMIT: Duration = Duration::from_secs(100);

/// A client that connects to a target, each with a flavor.
fn pair(seed: u64, ours: Flavor, theirs: Flavor) -> (Pair, ImportId) {
    let mut pair = Pair::new(seed);
    pair.server.service.set_flavor(TargetId(0), Some(theirs));
    let import = connect(&mut pair, 8, ours);
    (pair, import)
}

fn is_full(pair: &Pair) -> bool {
    pair.states.last() == Some(&State::Full)
}

#[test]
fn a_connection_of_the_flavor_plain_works_as_any() {
    for (seed, hash) in [(1, HashKind::NULL), (2, HashKind::ADLER32)] {
        let flavor = Flavor::plain(hash);
        let (mut pair, import) = pair(seed, flavor, flavor);
        assert!(pair.run(Time::from_secs(100), is_full), "{:?}", pair.states);
        request(&mut pair, import, 100, &Message::request(&PING));
        // Some are slow, and some are lost.
        pair.work = Duration::from_secs(100);
        request(&mut pair, import, 30, &Message::request(&LLOG_CREATE));
        assert!(pair.server().stats(0).unwrap().early > 10);
        assert_eq!(pair.executed.len(), 31, "none was sent again");
        (pair.loss, pair.work, pair.saves) = (20, Duration::from_millis(10), true);
        request(&mut pair, import, 50, &Message::request(&LLOG_CREATE));
        pair.loss = 0;
        assert!(pair.done.iter().all(|(_, result)| *result == Ok(Status::OK)));
        disconnect(&mut pair, import);
    }
}

#[test]
fn callbacks_have_the_flavor_of_the_connection() {
    let (mut pair, import) = pair(3, Flavor::PLAIN, Flavor::PLAIN);
    assert!(pair.run(Time::from_secs(100), is_full), "{:?}", pair.states);
    let granted = *pair.client().import(import).unwrap().granted();
    let export = pair.server().exports().iter().next().unwrap().0;
    let server = ProcessId::lustre(SERVER);
    for (admitted, result) in
        [(Flavor::PLAIN, Ok(Status::OK)), (Flavor::NULL, Err(Errno::ETIMEDOUT))]
    {
        let now = pair.now;
        pair.callbacks().admit_server(now, TargetId(0), CONNECTION, server, admitted, &granted);
        pair.called.clear();
        let call = Call::new(Message::request(&BLOCKING), 224, LIMIT);
        pair.server.service.call(now, export, call).expect("the client is connected");
        let until = now + 2 * LIMIT;
        assert!(pair.run(until, |pair| !pair.called.is_empty()));
        assert_eq!(pair.called, [result]);
    }
    assert!(pair.callbacks().stats(0).unwrap().dropped[&DropReason::Flavor] > 0);
    disconnect(&mut pair, import);
    assert!(pair.callbacks().dismiss_server(CONNECTION));
}

#[test]
fn a_client_of_another_flavor_is_refused() {
    for (ours, theirs) in [(Flavor::NULL, Flavor::PLAIN), (Flavor::PLAIN, Flavor::NULL)] {
        let (mut pair, _) = pair(4, ours, theirs);
        assert!(!pair.run(Time::from_secs(60), is_full), "{:?}", pair.states);
        assert!(pair.server().exports().is_empty());
        assert!(pair.server().stats(0).unwrap().refused[&Errno::EACCES] > 0);
    }
}

#[test]
fn a_flavor_that_changes_is_that_of_the_next_connection() {
    let (mut pair, import) = pair(5, Flavor::PLAIN, Flavor::PLAIN);
    assert!(pair.run(Time::from_secs(100), is_full), "{:?}", pair.states);
    pair.server.service.set_flavor(TargetId(0), Some(Flavor::NULL));
    request(&mut pair, import, 10, &Message::request(&PING));
    assert!(pair.done.iter().all(|(_, result)| *result == Ok(Status::OK)));
    disconnect(&mut pair, import);
    let import = connect(&mut pair, 8, Flavor::PLAIN);
    let until = pair.now + Duration::from_secs(60);
    pair.states.clear();
    assert!(!pair.run(until, is_full), "{:?}", pair.states);
    assert_ne!(pair.import(import), Some(State::Full));
}

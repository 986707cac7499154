//! A recovery, step by step.

use super::*;

const A: Handle = Handle(1);
const B: Handle = Handle(2);
const C: Handle = Handle(3);

fn id(n: u64) -> RequestId {
    RequestId(n)
}

fn at(seconds: u64) -> Time {
    Time::from_secs(1000 + seconds)
}

/// A target with 10 as its last transaction on disk, and these clients.
fn recovery(known: &[Handle], present: &[Handle]) -> Recovery {
    let mut recovery = Recovery::new(Window::default(), known, 10);
    present.iter().for_each(|&export| recovery.join(at(0), export, 5, None, 10));
    recovery
}

fn execute(n: u64) -> Option<Step> {
    Some(Step::Execute(id(n)))
}

#[test]
fn replays_wait_for_all_clients_and_go_in_order() {
    let mut recovery = recovery(&[A, B], &[A]);
    assert_eq!(recovery.replay(A, 12, id(12)), Ok(Turn::Held));
    assert_eq!(recovery.poll(), None, "B is missing");
    recovery.join(at(5), B, 5, None, 10);
    assert_eq!(recovery.poll(), None, "11 may come");
    assert_eq!(recovery.replay(B, 11, id(11)), Ok(Turn::Held));
    assert_eq!(recovery.poll(), execute(11));
    assert_eq!(recovery.poll(), None, "one at a time");
    recovery.ended(at(6), id(11), false);
    assert_eq!(recovery.poll(), execute(12));
    recovery.ended(at(6), id(12), false);
    assert_eq!(recovery.replay(B, 9, id(9)), Ok(Turn::Now), "an open that is on disk");
    assert_eq!(recovery.replay(B, 12, id(13)), Ok(Turn::Now), "a repeat");
    assert_eq!(recovery.poll(), None);
}

#[test]
fn nothing_is_executed_before_all_clients_are_here() {
    let mut recovery = recovery(&[A, B], &[A]);
    recovery.replay(A, 11, id(11)).unwrap();
    assert_eq!(recovery.poll(), None);
    recovery.join(at(5), B, 5, None, 10);
    assert_eq!(recovery.poll(), execute(11));
}

#[test]
fn a_number_that_no_client_has_is_skipped() {
    let mut recovery = recovery(&[A, B], &[A, B]);
    recovery.replay(A, 15, id(15)).unwrap();
    assert_eq!(recovery.poll(), None);
    recovery.replay(B, 14, id(14)).unwrap();
    assert_eq!(recovery.poll(), execute(14));
    recovery.ended(at(1), id(14), false);
    assert_eq!(recovery.replay(A, 15, id(16)), Ok(Turn::Duplicate));
    assert_eq!(recovery.poll(), execute(15));
    recovery.ended(at(1), id(15), false);
    // B has nothing more, so 17 does not wait for 16.
    recovery.replay(A, 17, id(17)).unwrap();
    assert_eq!(recovery.poll(), None);
    assert_eq!(recovery.complete(B, id(20)), Ok(Turn::Held));
    assert_eq!(recovery.poll(), execute(17));
    assert!(!recovery.checks_versions(), "all clients are here");
}

#[test]
fn the_first_transaction_of_a_connect_lowers_the_next_one_only_after_the_disk() {
    let mut recovery = Recovery::new(Window::default(), &[A, B], 10);
    recovery.next = 20;
    recovery.join(at(0), A, 5, Some(10), 10);
    assert_eq!(recovery.next, 20);
    recovery.join(at(0), B, 5, Some(15), 10);
    assert_eq!(recovery.next, 15);
}

#[test]
fn locks_follow_the_requests_and_the_final_pings_end_it() {
    let mut recovery = recovery(&[A, B], &[A, B]);
    assert_eq!(recovery.replay_lock(A, id(1)), Ok(Turn::Held));
    assert_eq!(recovery.replay_lock(A, id(2)), Ok(Turn::Held));
    assert_eq!(recovery.replay_lock(C, id(3)), Err(Errno::ENOTCONN));
    assert_eq!(recovery.poll(), None, "B may still replay");
    assert_eq!(recovery.replay(A, 20, id(4)), Err(Errno::EPROTO), "A has said that it is done");
    assert_eq!(recovery.complete(B, id(10)), Ok(Turn::Held));
    assert_eq!([recovery.poll(), recovery.poll(), recovery.poll()], [execute(1), execute(2), None]);
    recovery.ended(at(1), id(1), false);
    assert_eq!(recovery.complete(A, id(11)), Ok(Turn::Held));
    assert_eq!(recovery.complete(A, id(12)), Ok(Turn::Instead(id(11))));
    assert_eq!(recovery.poll(), None, "a lock is being replayed");
    recovery.ended(at(1), id(2), false);
    let finish = Step::Finish { pings: vec![id(12), id(10)], failed: vec![] };
    assert_eq!(recovery.poll(), Some(finish));
}

#[test]
fn who_is_missing_is_evicted_and_the_others_compare_versions() {
    let mut recovery = recovery(&[A, B, C], &[]);
    assert_eq!(recovery.poll_timeout(), None, "it waits for the first client without end");
    recovery.join(at(0), A, 5, None, 10);
    recovery.join(at(100), B, 5, None, 10);
    assert_eq!(recovery.poll_timeout(), Some(at(300)));
    recovery.replay(A, 12, id(12)).unwrap();
    assert!(recovery.handle_timeout(at(299)).is_empty());
    assert_eq!(recovery.handle_timeout(at(300)), [C]);
    assert!(recovery.leave(C).is_empty());
    assert!(recovery.checks_versions());
    assert_eq!(recovery.poll(), None, "11 may be B's");
    assert_eq!(recovery.poll_timeout(), Some(at(360)));
    assert_eq!(recovery.handle_timeout(at(360)), [B]);
    recovery.leave(B);
    assert_eq!(recovery.poll(), execute(12));
    // Its request is executed: it is not late, however long that takes.
    assert!(recovery.handle_timeout(at(420)).is_empty());
    recovery.ended(at(430), id(12), true);
    recovery.complete(A, id(13)).unwrap();
    let finish = Step::Finish { pings: vec![id(13)], failed: vec![A] };
    assert_eq!(recovery.poll(), Some(finish));
}

#[test]
fn the_window_has_a_hard_limit() {
    let mut recovery = recovery(&[A, B], &[A, B]);
    recovery.replay(A, 11, id(11)).unwrap();
    for transno in 12.. {
        assert_eq!(recovery.poll(), execute(transno - 1));
        let now = at(50 * (transno - 11));
        recovery.ended(now, id(transno - 1), false);
        let late = recovery.handle_timeout(now);
        if now >= at(900) {
            assert_eq!(late, [A, B], "neither has completed");
            break;
        }
        // B sends one request ahead of its turn, so that it is never late.
        recovery.replay(B, 1000 + transno, id(9)).unwrap();
        assert_eq!(late, []);
        recovery.replay(A, transno, id(transno)).unwrap();
    }
    assert_eq!(recovery.leave(B).len(), 17);
    assert!(recovery.leave(A).is_empty());
    assert_eq!(recovery.poll(), Some(Step::Finish { pings: vec![], failed: vec![] }));
}

#[test]
fn a_slow_client_and_imperative_recovery_change_the_window() {
    let short = Window::default().imperative(1);
    assert_eq!(short.soft, Duration::from_secs(30));
    let mut recovery = Recovery::new(short, &[A, B], 10);
    recovery.join(at(0), A, 5, None, 10);
    // 11 s for the service, 10 s for two attempts, 110 s for two rounds of the search.
    assert_eq!(recovery.poll_timeout(), Some(at(131)));
    recovery.join(at(1), B, 100, None, 10);
    assert_eq!(recovery.poll_timeout(), Some(at(250)));
    let window = Window { soft: Duration::ZERO, hard: Duration::ZERO };
    let mut recovery = Recovery::new(window, &[A], 10);
    recovery.join(at(0), A, 600, None, 10);
    assert_eq!(recovery.poll_timeout(), Some(at(120)), "never less than two minutes");
}

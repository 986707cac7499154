//! Settings and limits.

use super::*;

#[test]
fn values_that_do_not_go_together_are_refused() {
    let base = Globals::default;
    let try_set = |globals: Globals| Script::new().lnet.set_globals(Time::ZERO, globals);
    for bad in [
        Globals { health_sensitivity: 1001, ..base() },
        Globals { router_sensitivity: 101, ..base() },
        Globals { transaction_timeout: 0, retry_count: 0, ..base() },
        Globals { transaction_timeout: 2, ..base() },
        Globals { retry_count: 151, ..base() },
        Globals { recovery_interval: 0, ..base() },
        Globals { response_tracking: 4, ..base() },
        Globals { max_recovery_ping_interval: 0, ..base() },
        Globals { max_interfaces: 15, ..base() },
    ] {
        assert_eq!(try_set(bad.clone()), Err(Errno::EINVAL), "{bad:?}");
    }
    assert_eq!(try_set(Globals { transaction_timeout: 3, ..base() }), Ok(()));
    assert_eq!(try_set(Globals { retry_count: 150, ..base() }), Ok(()));
}

#[test]
fn health_that_is_switched_off_takes_the_retries_with_it() {
    let mut s = Script::new();
    let off = Globals { health_sensitivity: 0, ..Globals::default() };
    s.lnet.set_globals(s.now, off.clone()).unwrap();
    assert_eq!(s.lnet.globals().retry_count, 0);
    assert_eq!(s.lnet.globals().lnd_timeout(), 149);
    let retries = Globals { retry_count: 1, ..off };
    assert_eq!(s.lnet.set_globals(s.now, retries), Err(Errno::EINVAL));
}

#[test]
fn reset_statistics_start_from_what_is_alive() {
    let mut s = Script::acquainted();
    let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(tcp(2))).unwrap();
    assert!(s.lnet.stats().send_count > 0);
    s.lnet.reset_stats();
    let stats = s.lnet.stats();
    assert_eq!((stats.send_count, stats.msgs_alloc, stats.msgs_max), (0, 1, 1));
}

#[test]
fn an_idle_peer_is_small() {
    use crate::peers::{Peer, PeerNi};
    assert!(size_of::<Peer>() + size_of::<PeerNi>() < 900);
}

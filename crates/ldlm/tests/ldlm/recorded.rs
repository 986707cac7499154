//! What kernel clients requested of kernel servers, played to a namespace of ours: it answers and
//! calls back as they did.

use fulmar_ldlm::server::Config;
use fulmar_lustre_wire::ldlm::LockType;

use crate::playback::{PlaybackCounts, play};

#[test]
fn locks_of_objects_are_granted_and_called_back_as_recorded() {
    let none = PlaybackCounts::default();
    let contend = play(&["contend"], LockType::EXTENT, Config::ost());
    assert_eq!(
        contend,
        PlaybackCounts { enqueues: 12, blocking: 5, completion: 5, glimpse: 4, ..none }
    );
    let meta = play(&["meta"], LockType::EXTENT, Config::ost());
    let expected =
        PlaybackCounts { enqueues: 159, blocking: 3, completion: 1, local: 2, late: 1, ..none };
    assert_eq!(meta, expected);
}

#[test]
fn locks_are_replayed_to_a_restarted_target_as_recorded() {
    let recovery = play(&["recovery"], LockType::EXTENT, Config::ost());
    let expected =
        PlaybackCounts { enqueues: 51, blocking: 1, completion: 1, ..PlaybackCounts::default() };
    assert_eq!(recovery, expected);
}

#[test]
fn flocks_are_granted_as_recorded() {
    let contend = play(&["contend"], LockType::FLOCK, Config::mdt());
    assert_eq!(contend, PlaybackCounts { enqueues: 8, completion: 1, ..PlaybackCounts::default() });
}

#[test]
fn locks_of_configuration_logs_are_granted_and_called_back_as_recorded() {
    let joined = play(&["mount", "ost-join", "recovery"], LockType::PLAIN, Config::mgs());
    assert_eq!(
        joined,
        PlaybackCounts {
            enqueues: 22,
            blocking: 2,
            local: 1,
            older: 3,
            ..PlaybackCounts::default()
        }
    );
}

#[test]
fn locks_of_intents_are_granted_and_called_back_as_recorded() {
    let names = ["contend", "meta", "recovery", "mount"];
    let played = play(&names, LockType::IBITS, Config::mdt());
    let expected =
        PlaybackCounts { enqueues: 359, blocking: 14, local: 6, ..PlaybackCounts::default() };
    assert_eq!(played, expected);
}

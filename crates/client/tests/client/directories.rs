//! What a client keeps of the names in directories.

use fulmar_client::{Caller, blocking};

use crate::rig::Rig;

const ROOT: Caller = Caller::ROOT;

#[test]
fn the_number_of_the_names_in_a_directory_never_comes_again() {
    let rig = Rig::start("number-of-names", 1);
    let (fs, other) = (rig.mount(), rig.mount());
    let d = blocking::wait(fs.mkdir(&ROOT, fs.root(), b"d", 0o755)).unwrap().fid;
    let mut numbers = Vec::new();
    for round in 0..4 {
        blocking::wait(fs.getattr(&ROOT, d)).unwrap();
        numbers.push(fs.names_of(d).expect("a lock protects the names"));
        let name = format!("file{round}");
        // The client gives up all that it knows of the directory, and forgets it.
        let changes = [&fs, &other][round % 2];
        blocking::wait(changes.mkdir(&ROOT, d, name.as_bytes(), 0o755)).unwrap();
    }
    let distinct: std::collections::BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!(distinct.len(), numbers.len(), "{numbers:?}");
}

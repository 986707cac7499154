//! What a client keeps of the names in directories.

use fulmar_client::{Caller, FileSystem, blocking};
use fulmar_lustre_wire::Opcode;

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

/// Returns how often this client has asked for names.
fn reads(fs: &FileSystem) -> u64 {
    fs.requests().get(&Opcode::MDS_READPAGE).copied().unwrap_or(0)
}

#[test]
fn a_directory_is_read_from_any_position_without_a_request() {
    let rig = Rig::start("kept-names", 1);
    let (fs, other) = (rig.mount(), rig.mount());
    let d = blocking::wait(fs.mkdir(&ROOT, fs.root(), b"d", 0o755)).unwrap().fid;
    for number in 0..1000 {
        let name = format!("file{number}");
        blocking::wait(fs.symlink(&ROOT, d, name.as_bytes(), b"target")).unwrap();
    }
    // A lock protects the names then.
    blocking::wait(other.getattr(&ROOT, d)).unwrap();
    let read = |from| blocking::wait(other.read_directory(&ROOT, d, from)).unwrap();
    let (items, end) = read(0);
    assert_eq!((items.len(), end, reads(&other)), (1002, None, 1));
    for place in (0..1001).step_by(5) {
        let (rest, end) = read(items[place].next);
        assert!(rest == items[place + 1..] && end.is_none(), "from {place}");
    }
    assert!(read(0).0 == items);
    assert_eq!(reads(&other), 1);
    // Somebody else may not be let by the server.
    blocking::wait(other.read_directory(&Caller::new(1000, 1000), d, 0)).unwrap();
    assert_eq!(reads(&other), 2);
    // What is made and removed is seen at once, whoever does it.
    blocking::wait(other.getattr(&ROOT, d)).unwrap();
    let has = |name: &[u8]| read(0).0.iter().any(|item| item.name == name);
    for changes in [&fs, &other] {
        assert!(!has(b"new"));
        blocking::wait(changes.mkdir(&ROOT, d, b"new", 0o755)).unwrap();
        assert!(has(b"new"));
        blocking::wait(other.getattr(&ROOT, d)).unwrap();
        assert!(has(b"new"));
        blocking::wait(changes.rmdir(&ROOT, d, b"new")).unwrap();
    }
    assert!(!has(b"new"));
}

//! What only a directory has: a lock, foreign files, damage.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};

use super::*;

fn error(result: Result<Store, StoreError>) -> (StoreError, String) {
    let error = result.err().expect("it does not open");
    let text = error.to_string();
    (error, text)
}

#[test]
fn a_store_is_open_once() {
    let scratch = Scratch::new();
    let store = Store::create(scratch.path(), b"OST0000 of lv", policy()).unwrap();
    let (locked, text) = error(Store::open(scratch.path(), policy()));
    assert!(matches!(locked, StoreError::Locked { .. }));
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    drop(store);
    let store = Store::open(scratch.path(), policy()).unwrap();
    store.check_label(b"OST0000 of lv").unwrap();
    let text = store.check_label(b"MDT0000 of lv").unwrap_err().to_string();
    assert!(text.contains("is that of OST0000 of lv, not of MDT0000 of lv"), "{text}");
}

#[test]
fn only_a_store_is_opened_and_only_an_empty_directory_gets_one() {
    let scratch = Scratch::new();
    let (not, text) = error(Store::open(scratch.path().join("nowhere").as_path(), policy()));
    assert!(matches!(not, StoreError::NotAStore { .. }) && text.contains("no such directory"));
    let (not, text) = error(Store::open(scratch.path(), policy()));
    assert!(matches!(not, StoreError::NotAStore { .. }) && text.contains("no file named store"));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left there");
    fs::write(scratch.path().join("thesis.tex"), "").unwrap();
    let (occupied, text) = error(Store::create(scratch.path(), b"", policy()));
    assert!(matches!(occupied, StoreError::Occupied { .. }) && text.contains("thesis.tex"));
    fs::remove_file(scratch.path().join("thesis.tex")).unwrap();
    drop(Store::create(scratch.path(), b"", policy()).unwrap());
    let (occupied, _) = error(Store::create(scratch.path(), b"", policy()));
    assert!(matches!(occupied, StoreError::Occupied { .. }), "a store is not overwritten");
    fs::remove_file(scratch.path().join("store")).unwrap();
    fs::create_dir(scratch.path().join("objects")).unwrap();
    let (occupied, _) = error(Store::create(scratch.path(), b"", policy()));
    assert!(matches!(occupied, StoreError::Occupied { .. }), "nor one that has lost a file");
}

#[test]
fn no_store_is_made_through_a_link_or_where_everybody_may_write() {
    let scratch = Scratch::new();
    let (victim, root) = (scratch.path().join("victim"), scratch.path().join("root"));
    fs::write(&victim, "a file of somebody").unwrap();
    fs::create_dir(&root).unwrap();
    for planted in ["lock", "keys", "store"] {
        symlink(&victim, root.join(planted)).unwrap();
        let (refused, text) = error(Store::create(root.as_path(), b"", policy()));
        assert!(matches!(refused, StoreError::Io { .. }), "{planted}: {text}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "a file of somebody", "{planted}");
        fs::remove_dir_all(&root).unwrap();
        fs::create_dir(&root).unwrap();
    }
    fs::set_permissions(&root, Permissions::from_mode(0o1777)).unwrap();
    let (refused, text) = error(Store::create(root.as_path(), b"", policy()));
    assert!(
        matches!(refused, StoreError::OpenToAll { .. }) && text.contains("chmod o-w"),
        "{text}"
    );
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "nothing is left there");
    fs::set_permissions(&root, Permissions::from_mode(0o750)).unwrap();
    drop(Store::create(root.as_path(), b"", policy()).unwrap());
}

#[test]
fn another_version_is_named() {
    let scratch = Scratch::new();
    drop(Store::create(scratch.path(), b"", policy()).unwrap());
    let header = scratch.path().join("store");
    let text = fs::read_to_string(&header).unwrap();
    fs::write(&header, text.replace("version 1", "version 7")).unwrap();
    let (version, text) = error(Store::open(scratch.path(), policy()));
    assert!(matches!(version, StoreError::Version { .. }) && text.contains("version 7"), "{text}");
    fs::write(&header, "something else").unwrap();
    assert!(matches!(error(Store::open(scratch.path(), policy())).0, StoreError::NotAStore { .. }));
}

#[test]
fn an_examination_reads_everything_and_names_what_is_damaged() {
    let scratch = Scratch::new();
    let store = Store::create(scratch.path(), b"", policy()).unwrap();
    for number in 0..200_u8 {
        put(&store, &[number], &[number; 500]);
        write(&store, ObjectId(4, number.into()), 0, &[number; 1000]);
    }
    store.commit().unwrap();
    drop(store);
    let report = Store::verify(scratch.path(), policy()).unwrap();
    assert_eq!((report.keys, report.objects, report.bytes), (200, 200, 200_000));
    assert_eq!(report.damage, [""; 0]);

    let objects = scratch.path().join("objects/00000");
    fs::remove_file(objects.join("003")).unwrap();
    fs::OpenOptions::new().write(true).open(objects.join("004")).unwrap().set_len(10).unwrap();
    let report = Store::verify(scratch.path(), policy()).unwrap();
    assert_eq!((report.objects, report.damage.len()), (200, 2), "{report:?}");
    assert!(report.damage[0].contains("object 0x4:0x3") && report.damage[0].contains("missing"));
    assert!(report.damage[1].contains("object 0x4:0x4") && report.damage[1].contains("short"));
    let store = Store::open(scratch.path(), policy()).unwrap();
    let (damaged, text) = error(try_content(&store, ObjectId(4, 3)).map(|_| unreachable!()));
    assert!(
        matches!(damaged, StoreError::Damaged { .. }) && text.contains("Restore it from a copy")
    );
}

/// Each byte of the tree has a checksum: whichever page is changed, an examination finds it.
#[test]
fn damaged_keys_are_found() {
    let scratch = Scratch::new();
    let store = Store::create(scratch.path(), b"", policy()).unwrap();
    for number in 0..100_u8 {
        put(&store, &[number], &[number; 500]);
    }
    store.commit().unwrap();
    drop(store);
    let path = scratch.path().join("keys");
    let good = fs::read(&path).unwrap();
    let value = good.windows(500).position(|window| window == [77; 500]).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[78], value as u64 + 100).unwrap();
    let verified = Store::verify(scratch.path(), policy());
    assert!(matches!(verified, Err(StoreError::Damaged { .. })), "{verified:?}");
    file.set_len(100).unwrap();
    let (damaged, text) = error(Store::open(scratch.path(), policy()));
    assert!(matches!(damaged, StoreError::Damaged { .. }), "{text}");
}

#[test]
fn files_of_lost_and_of_removed_objects_are_removed() {
    let scratch = Scratch::new();
    let store = Store::create(scratch.path(), b"", policy()).unwrap();
    write(&store, X, 0, b"kept");
    write(&store, Y, 0, b"removed");
    store.commit().unwrap();
    let mut transaction = store.begin();
    transaction.remove(Y);
    transaction.apply().unwrap();
    store.commit().unwrap();
    write(&store, Y, 0, b"lost");
    let files = || fs::read_dir(scratch.path().join("objects/00000")).unwrap().count();
    assert_eq!(files(), 2);
    drop(store);
    let store = Store::open(scratch.path(), policy()).unwrap();
    assert_eq!((files(), content(&store, X)), (1, b"kept".to_vec()));
}

/// The variable that makes this program the process that is killed.
const CHILD: &str = "FULMAR_STORE_CHILD";

/// Creates until it is killed, and prints each number that is committed.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let store = Store::open(Path::new(&path), policy()).unwrap();
    for number in store.applied() + 1.. {
        let bytes = number.to_string().into_bytes();
        let segments = [std::io::IoSlice::new(&bytes)];
        let mut transaction = store.begin();
        transaction.put(A, &bytes, bytes.clone());
        transaction.write(ObjectId(3, number), 5, &segments);
        assert_eq!(transaction.apply().unwrap(), number);
        if number % 3 == 0 {
            println!("committed {}", store.commit().unwrap());
        }
    }
}

#[test]
fn what_a_killed_process_has_committed_is_there() {
    let scratch = Scratch::new();
    drop(Store::create(scratch.path(), b"", policy()).unwrap());
    let mut acknowledged = 0;
    for kill in 1..6 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::directory::child", "--nocapture"])
            .env(CHILD, scratch.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let numbers = lines.filter_map(|line| line.strip_prefix("committed ")?.parse::<u64>().ok());
        acknowledged = numbers.take(2 * kill).last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let store = Store::open(scratch.path(), policy()).unwrap();
        assert!(store.committed() >= acknowledged);
        for number in 1..=store.committed() {
            let bytes = number.to_string().into_bytes();
            assert_eq!(store.get(A, &bytes).unwrap().as_deref(), Some(&bytes[..]));
            assert_eq!(content(&store, ObjectId(3, number))[5..], bytes);
        }
        let next = ObjectId(3, store.committed() + 1);
        assert_eq!(store.size(next).unwrap(), 0, "no part of others");
    }
    assert!(acknowledged >= 30);
    assert_eq!(Store::verify(scratch.path(), policy()).unwrap().damage, [""; 0]);
}

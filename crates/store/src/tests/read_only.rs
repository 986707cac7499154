//! A medium that becomes read-only while a store is open on it.

use std::sync::mpsc;

use super::*;
use crate::Faults;

#[test]
fn a_commit_to_a_read_only_medium_ends_the_store_and_loses_nothing_that_was_committed() {
    let disk = SimulatedDisk::new(1);
    let store = Store::create(&disk, b"", policy()).unwrap();
    let (report, reports) = mpsc::channel();
    store.on_commit(Box::new(move |result| report.send(result.map_err(drop)).unwrap()));
    put(&store, b"k", b"before");
    write(&store, X, 0, &[1; 5000]);
    let last = store.commit().unwrap();
    assert_eq!((reports.recv().unwrap(), store.ended().is_none()), (Ok(last), true));

    disk.set_faults(Faults { read_only: true, ..Faults::default() });
    assert_eq!(content(&store, X), [1; 5000], "reads go on");
    let mut data = store.begin();
    let segments = [std::io::IoSlice::new(&[2; 5000])];
    data.write(X, 0, &segments);
    assert!(matches!(data.apply(), Err(StoreError::ReadOnly { .. })));
    put(&store, b"k", b"after");
    let error = store.commit().unwrap_err();
    assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");
    assert_eq!(reports.recv().unwrap(), Err(()));
    assert_eq!(store.ended().map(StoreError::to_string), Some(error.to_string()));
    drop(store);
    let error = Store::open(&disk, policy()).err().expect("it does not open");
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");

    disk.crash();
    let store = Store::open(&disk, policy()).unwrap();
    assert_eq!(store.get(A, b"k").unwrap().as_deref(), Some(&b"before"[..]));
    assert_eq!(content(&store, X), [1; 5000]);
}

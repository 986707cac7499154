use fulmar_store::{Policy, SimulatedDisk, Space};

use super::*;

const A: Space = Space::new(0);

fn create(disk: &SimulatedDisk) -> Store {
    Store::create(disk, b"OST0000", Policy { reserve: 0, ..Policy::default() }).unwrap()
}

/// Ends the process without a commit, and opens the store again.
fn restart(store: Store, disk: &SimulatedDisk) -> Store {
    drop(store);
    disk.crash();
    Store::open(disk, Policy { reserve: 0, ..Policy::default() }).unwrap()
}

/// Applies a transaction, and returns its number for the client.
fn change(store: &Store, transactions: &Transactions, transno: u64) -> u64 {
    let numbering = transactions.numbering(transno);
    if let Numbering::Applied(transno) = numbering {
        return transno;
    }
    let mut transaction = store.begin();
    transaction.put(A, b"a", *b"1");
    transactions.record(&mut transaction, numbering);
    transactions.applied(transaction.apply().unwrap(), numbering)
}

#[test]
fn the_first_start_numbers_as_a_kernel_target_does() {
    let disk = SimulatedDisk::new(1);
    let store = create(&disk);
    let transactions = Transactions::start(&store, false).unwrap();
    assert_eq!((transactions.instance(), change(&store, &transactions, 0)), (1, 0x1_0000_0001));
    assert_eq!(transactions.last_committed(store.committed()), 0x1_0000_0000);
    store.commit().unwrap();
    assert_eq!(transactions.last_committed(store.committed()), 0x1_0000_0001);
    let store = restart(store, &disk);
    let transactions = Transactions::start(&store, false).unwrap();
    assert_eq!((transactions.instance(), change(&store, &transactions, 0)), (2, 0x2_0000_0001));
}

#[test]
fn a_replay_keeps_its_number_and_counts_as_lost_until_it_is_on_disk_again() {
    let disk = SimulatedDisk::new(2);
    let store = create(&disk);
    let first = Transactions::start(&store, false).unwrap();
    assert_eq!(change(&store, &first, 0), 0x1_0000_0001);
    store.commit().unwrap();
    let lost: Vec<u64> = (0..3).map(|_| change(&store, &first, 0)).collect();
    assert_eq!(lost, [0x1_0000_0002, 0x1_0000_0003, 0x1_0000_0004]);

    let store = restart(store, &disk);
    let second = Transactions::start(&store, true).unwrap();
    assert_eq!(second.last_committed(store.committed()), 0x1_0000_0001);
    // This one is on disk.
    assert_eq!(second.numbering(0x1_0000_0001), Numbering::Applied(0x1_0000_0001));
    assert_eq!(change(&store, &second, lost[0]), lost[0]);
    assert_eq!(second.last_committed(store.committed()), 0x1_0000_0001);
    store.commit().unwrap();
    assert_eq!(second.last_committed(store.committed()), lost[0]);
    // It was applied, so it is not applied again.
    assert_eq!(second.numbering(lost[0]), Numbering::Applied(lost[0]));
    // Another crash, in the middle of the recovery. The client of the second one is missing now.
    assert_eq!(change(&store, &second, lost[1]), lost[1]);

    let store = restart(store, &disk);
    let third = Transactions::start(&store, true).unwrap();
    assert_eq!((third.instance(), third.last_committed(store.committed())), (3, lost[0]));
    assert_eq!(change(&store, &third, lost[2]), lost[2]);
    store.commit().unwrap();
    assert_eq!(third.last_committed(store.committed()), lost[2]);
    third.recovered(&store).unwrap();
    assert!(!third.recovers());
    let new = change(&store, &third, 0);
    assert_eq!(new >> 32, 3);
    assert_eq!(third.last_committed(store.committed()), lost[2]);
    store.commit().unwrap();
    assert_eq!(third.last_committed(store.committed()), new);

    let store = restart(store, &disk);
    let fourth = Transactions::start(&store, true).unwrap();
    assert_eq!(fourth.last_committed(store.committed()), new);
}

#[test]
fn numbers_that_were_lost_at_the_end_of_an_epoch_are_not_given_again() {
    let store = Store::memory(b"", Policy::default());
    store.continue_from((5 << 32) - 2);
    let mut transaction = store.begin();
    transaction.put(A, b"a", *b"1");
    transaction.apply().unwrap();
    store.commit().unwrap();
    Transactions::start(&store, true).unwrap();
    assert_eq!(store.applied() >> 32, 6);
}

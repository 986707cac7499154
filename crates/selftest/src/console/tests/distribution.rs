//! Assignment of servers to clients.

use fulmar_base::Errno;

use crate::console::distribute::Distribution;

#[test]
fn clients_share_servers_as_expected() {
    let servers_of = |clients, servers, distribute| -> Vec<Vec<usize>> {
        let distribution = Distribution::new(clients, servers, distribute).unwrap();
        (0..clients).map(|client| distribution.servers_of(client).collect()).collect()
    };
    assert_eq!(servers_of(4, 4, (1, 1)), [[0], [1], [2], [3]]);
    assert_eq!(servers_of(6, 4, (1, 1)), [[0], [1], [2], [3], [0], [1]]);
    assert_eq!(servers_of(2, 4, (1, 4)), [[0, 1, 2, 3], [0, 1, 2, 3]]);
    assert_eq!(servers_of(8, 2, (4, 1)), [[0], [0], [0], [0], [1], [1], [1], [1]]);
    assert_eq!(servers_of(4, 4, (2, 2)), [[0, 1], [0, 1], [2, 3], [2, 3]]);
    assert_eq!(servers_of(3, 3, (1, 2)), [[0, 1], [2, 0], [1, 2]], "the list wraps");
}

#[test]
fn servers_learn_how_much_they_must_bear() {
    let load = |clients, servers, distribute, concurrency| {
        Distribution::new(clients, servers, distribute).unwrap().server_load(concurrency)
    };
    assert_eq!(load(1, 1, (1, 1), 2), 2);
    assert_eq!(load(6, 4, (1, 1), 1), 2);
    assert_eq!(load(4, 4, (1, 4), 8), 32);
    assert_eq!(load(8, 2, (4, 1), 1), 4);
    assert_eq!(load(4, 4, (2, 2), 3), 6);
    assert_eq!(load(4, 4, (u32::MAX, 1), 1024), 4096, "at most the existing clients");
}

#[test]
fn a_distribution_needs_clients_and_servers_and_a_list_that_fits() {
    for (servers, distribute) in [(4, (0, 1)), (4, (1, 0)), (4, (1, 5)), (1000, (1, 342))] {
        assert_eq!(Distribution::new(4, servers, distribute), Err(Errno::EINVAL));
    }
    assert!(Distribution::new(1, 341, (1, 341)).is_ok());
}

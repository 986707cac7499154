use fulmar_base::Rng;

use super::*;

const NI: Account = Account::Ni(NiId(1));
const PEER: PeerNiId = PeerNiId(1 << 24);

fn table() -> CreditTable {
    let mut table = CreditTable::default();
    table.add_ni(NiId(1), 4);
    table.add_peer_ni(PEER, Allowance { tx: 1, router: 2 });
    table
}

#[test]
fn waiters_are_counted_and_woken_in_order_of_arrival() {
    let (mut table, peer) = (table(), Account::Peer(PEER, 28));
    assert_eq!(table.take(peer, MessageId(1)), Some(true));
    for waiting in 2..=4 {
        assert_eq!(table.take(peer, MessageId(waiting)), Some(false));
    }
    assert_eq!((table.left_of_peer_ni(PEER), table.waiting_for_peer_ni(PEER).count()), (-3, 3));
    assert_eq!(table.queued_bytes(PEER), 400);
    table.withdraw(peer, MessageId(3));
    assert_eq!(table.give_back(peer), Some(MessageId(2)));
    assert_eq!(table.give_back(peer), Some(MessageId(4)));
    assert_eq!((table.waiting_for_peer_ni(PEER).count(), table.queued_bytes(PEER)), (0, 100));
    assert_eq!(table.check_peer_ni(PEER, (1, 28), 0), Ok(()));
    assert_eq!(table.give_back(peer), None);
    assert_eq!((table.check_idle(), table.is_peer_ni_idle(PEER)), (Ok(()), true));
    assert_eq!(table.peer_ni_level(PEER), Level { max: 1, current: 1, min: -3 });
}

#[test]
fn router_credits_are_apart_from_those_of_sending() {
    let mut table = table();
    assert_eq!(table.take(Account::Router(PEER), MessageId(1)), Some(true));
    assert_eq!(table.take(Account::Peer(PEER, 0), MessageId(2)), Some(true));
    assert_eq!((table.router_level(PEER).users(), table.peer_ni_level(PEER).users()), (1, 1));
    assert_eq!(table.check_peer_ni(PEER, (1, 0), 1), Ok(()));
    assert!(table.check_peer_ni(PEER, (1, 0), 0).is_err());
    assert_eq!(table.give_back(Account::Peer(PEER, 0)), None);
    assert!(!table.is_peer_ni_idle(PEER));
}

#[test]
fn credits_of_a_removed_interface_go_nowhere() {
    let mut table = table();
    assert_eq!(table.take(NI, MessageId(1)), Some(true));
    table.remove_ni(NiId(1));
    assert_eq!(table.give_back(NI), None);
    assert_eq!(table.take(NI, MessageId(2)), None);
    assert_eq!(table.ni_level(NiId(1)), Level::default());
}

#[test]
fn a_network_that_becomes_local_gives_credits_once() {
    let (mut table, far) = (table(), PeerNiId(2 << 24 | 1));
    table.add_peer_ni(far, Allowance::default());
    table.allow(far, Allowance { tx: 8, router: 8 });
    table.allow(far, Allowance { tx: 9, router: 9 });
    table.allow(PEER, Allowance { tx: 9, router: 9 });
    assert_eq!((table.left_of_peer_ni(far), table.left_of_peer_ni(PEER)), (8, 1));
}

#[test]
fn whatever_is_taken_given_back_and_withdrawn_the_sums_agree() {
    let (mut rng, mut table) = (Rng::new(5), table());
    let accounts = [NI, Account::Peer(PEER, 100), Account::Router(PEER)];
    let mut users = [const { Vec::new() }; 3];
    for n in 0..5000 {
        let which = rng.below(3) as usize;
        let (account, list) = (accounts[which], &mut users[which]);
        if list.is_empty() || rng.below(2) == 0 {
            let holds = table.take(account, MessageId(n)).unwrap();
            list.push((MessageId(n), holds));
        } else {
            let index = rng.below(list.len() as u64) as usize;
            let (message, holds) = list.remove(index);
            let woken = if holds {
                table.give_back(account)
            } else {
                table.withdraw(account, message);
                None
            };
            let next = list.iter_mut().find(|(_, holds)| !holds).filter(|_| holds);
            assert_eq!(woken, next.as_ref().map(|(message, _)| *message));
            if let Some((_, holds)) = next {
                *holds = true;
            }
        }
        let [ni, peer, router] = users.each_ref().map(|list| list.len() as u64);
        assert_eq!(table.check_ni(NiId(1), ni), Ok(()));
        assert_eq!(table.check_peer_ni(PEER, (peer, peer * 100), router), Ok(()));
        let waiting = users[1].iter().filter(|(_, holds)| !holds).map(|(message, _)| *message);
        assert!(table.waiting_for_peer_ni(PEER).eq(waiting));
    }
}

use fulmar_base::Time;
use fulmar_lnet_wire::ping::{DecodedInfo, Features, NiEntry, PingInfo};
use fulmar_lnet_wire::{Net, Pid};
use fulmar_wire::Order;

use super::*;

const OWN: Own = Own { discovers: true, sequence: 1, max_nids: 16 };
pub(super) const NOW: Time = Time::ZERO;
pub(super) const KNOWN: Surroundings<'_> =
    Surroundings { ours: &[Nid::small(Net::TCP, 1)], behind: &[], gateways: &[] };

pub(super) fn nid(n: u32) -> Nid {
    Nid::small(Net::TCP, n)
}

pub(super) fn peers() -> Peers {
    let mut peers = Peers::default();
    peers.set_own(OWN);
    peers
}

fn info(nids: &[Nid]) -> PingInfo {
    let entries = nids.iter().map(|nid| NiEntry { nid: *nid, status: NiStatus::UP }).collect();
    PingInfo { features: Features(0x1e), pid: Pid::LUSTRE, sequence: 1, entries }
}

fn bytes(info: &PingInfo) -> Vec<u8> {
    let mut bytes = Vec::new();
    info.encode(Order::Little, &mut bytes);
    bytes
}

pub(super) fn decoded(nids: &[Nid]) -> DecodedInfo {
    PingInfo::decode(&bytes(&info(nids))).unwrap()
}

pub(super) fn outputs(peers: &mut Peers) -> Vec<Output> {
    let mut outputs = Vec::new();
    while let Some(output) = peers.poll_output() {
        match output {
            Output::Retired(id) => peers.forget(id),
            Output::Added(..) => {}
            other => outputs.push(other),
        }
    }
    peers.check().unwrap();
    outputs
}

/// Begins the discovery of node 2, which is pinged with descriptor 5.
pub(super) fn pinged(peers: &mut Peers) -> PeerId {
    peers.discover(nid(2), false, QueryId(1));
    let peer = peers.next_to_discover().unwrap();
    assert_eq!(peers.step(peer), Some(Step::Ping(PingInfo::SIZE_MIN)));
    peers.ping_sent(peer, MdId(5));
    assert_eq!(peers.step(peer), None, "its answer is awaited");
    peer
}

#[test]
fn a_multi_rail_peer_is_pinged_then_pushed_to_and_then_discovered() {
    let mut peers = peers();
    let peer = pinged(&mut peers);
    assert_eq!(peers.park(MessageId(7), peer), Ok(()));
    let nids = [nid(2), nid(3)];
    let answer = bytes(&info(&nids));
    let pair = (nid(1), nid(2));
    let decoded = peers.ping_ended(NOW, peer, MdId(5), Ok((pair, &answer))).unwrap();
    assert_eq!(peers.merge(NOW, peer, nid(2), &decoded, KNOWN), peer);
    assert_eq!((peers.owner(nid(3)), peers.primary(nid(3))), (Some(peer), nid(2)));
    assert_eq!(peers.step(peer), Some(Step::Push));
    peers.push_sent(peer, MdId(9));
    assert_eq!((peers.step(peer), peers.is_up_to_date(peer)), (None, false));
    outputs(&mut peers);
    peers.push_ended(peer, MdId(9), 1, Ok(()));
    assert_eq!(outputs(&mut peers), [Output::Advance(peer)]);
    assert_eq!(peers.step(peer), None);
    let found = outputs(&mut peers);
    assert!(matches!(found[0], Output::Notice(Notice::Discovered { nids: 2, .. })));
    assert_eq!(found[1], Output::Launch(MessageId(7)));
    assert!(matches!(&found[2], Output::Answer(QueryId(1), Ok(reply)) if reply.nids == nids));
    assert!(peers.is_up_to_date(peer));
    // The next change of ours makes another push due.
    peers.set_own(Own { sequence: 2, ..OWN });
    peers.push_where_due();
    assert_eq!(peers.next_to_discover(), Some(peer));
    assert_eq!(peers.step(peer), Some(Step::Push));
}

#[test]
fn what_waited_for_a_peer_that_does_not_answer_fails() {
    let mut peers = peers();
    let peer = pinged(&mut peers);
    peers.park(MessageId(7), peer).unwrap();
    outputs(&mut peers);
    let (answer, errno) = (Err(Some(Errno::ETIMEDOUT)), Errno::ETIMEDOUT);
    assert_eq!(peers.ping_ended(NOW, peer, MdId(5), answer), None);
    let notice = Notice::DiscoveryFailed { peer: nid(2), errno };
    let expected = [
        Output::Unlink(MdId(5)),
        Output::Failed(peer, errno),
        Output::Notice(notice),
        Output::Fail(MessageId(7), errno),
        Output::Answer(QueryId(1), Err(errno)),
    ];
    assert_eq!(outputs(&mut peers), expected);
    assert!(!peers.is_up_to_date(peer));
    assert_eq!(peers.next_to_discover(), None);
}

#[test]
fn bad_ping_info_is_requested_again_after_a_pause_and_not_for_ever() {
    let mut peers = peers();
    let peer = pinged(&mut peers);
    for round in 1..=3 {
        let answer = Ok(((nid(1), nid(2)), &[1, 2, 3][..]));
        assert_eq!(peers.ping_ended(NOW, peer, MdId(5), answer), None);
        assert_eq!((peers.step(peer), peers.poll_timeout()), (None, Some(Time::from_secs(1))));
        assert_eq!(peers.pop_due(Time::from_secs(1)), Some(peer), "round {round}");
        assert!(matches!(peers.step(peer), Some(Step::Ping(_))));
        peers.ping_sent(peer, MdId(5));
    }
    outputs(&mut peers);
    peers.ping_ended(NOW, peer, MdId(5), Ok(((nid(1), nid(2)), &[])));
    assert!(outputs(&mut peers).contains(&Output::Failed(peer, Errno::EPROTO)));
}

#[test]
fn neither_our_nids_nor_those_of_configured_peers_are_claimed() {
    let mut peers = peers();
    peers.configure(nid(4), &[nid(5)], true).unwrap();
    let peer = pinged(&mut peers);
    let listed = [nid(2), nid(1), nid(5)];
    peers.merge(NOW, peer, nid(2), &decoded(&listed), KNOWN);
    assert_eq!(peers.nids_of(peer), [nid(2)]);
    assert_eq!(peers.primary(nid(5)), nid(4));
    assert_eq!(peers.configure(nid(6), &[nid(5)], true), Err(Errno::EEXIST));
    assert_eq!(peers.configure(nid(4), &[], false), Err(Errno::EPERM));
    assert_eq!(peers.deconfigure(nid(5), &[]), Err(Errno::ENOENT));
    assert_eq!(peers.deconfigure(nid(4), &[nid(5)]), Ok(()));
    assert_eq!((peers.owner(nid(5)), peers.deconfigure(nid(4), &[])), (None, Ok(())));
    assert_eq!(peers.owner(nid(4)), None);
}

#[test]
fn states_of_interfaces_are_reported_once() {
    let mut peers = peers();
    let peer = peers.create(nid(2));
    let id = peers.find(nid(2)).unwrap();
    let mut down = info(&[nid(2), nid(9)]);
    down.entries[0].status = NiStatus::DOWN;
    assert_eq!(peers.note_statuses(peer, &down), [(id, false)]);
    assert_eq!(peers.note_statuses(peer, &down), []);
    assert!(peers.ni(id).is_some_and(|ni| !ni.is_up() && ni.is_broken()));
    // A response does not show that its node uses the NID; a request does.
    assert_eq!(peers.heard(NOW, id, false), Some(peer));
    assert!(peers.ni(id).is_some_and(|ni| ni.is_alive() && !ni.is_up()));
    peers.heard(NOW, id, true);
    assert!(peers.ni(id).is_some_and(PeerNi::is_up));
}

#[test]
fn a_deleted_peer_ni_exists_until_it_is_forgotten() {
    let mut peers = peers();
    peers.create(nid(2));
    let id = peers.find(nid(2)).unwrap();
    peers.remove_nid(nid(2));
    assert_eq!(peers.poll_output(), Some(Output::Added(id, nid(2))));
    assert_eq!(peers.poll_output(), Some(Output::Retired(id)));
    assert!(peers.is_retired(id) && peers.ni(id).is_some() && peers.find(nid(2)).is_none());
    peers.forget(id);
    assert!(peers.ni(id).is_none());
    assert_eq!(peers.orphans().len(), 1);
}

//! Which incoming connections give way when there are as many as there may be.

use super::*;

/// Half of them may be on probation.
const MOST: usize = 8;

fn few() -> Script {
    Script::with(Config { incoming_max: MOST, ..open_to_all() })
}

/// With room for the connections of a few peers on probation.
fn some() -> Script {
    Script::with(Config { incoming_max: 20, ..open_to_all() })
}

fn honest(number: u32) -> Nid {
    Nid::small(Net::TCP, 0x0b00_0000 | number)
}

fn hostile(number: u32) -> Nid {
    Nid::small(Net::TCP, 0x0c00_0000 | number)
}

impl Script {
    fn connects(&mut self, peer: Nid) -> ConnId {
        self.connects_for(peer, ConnKind::CONTROL)
    }

    fn connects_for(&mut self, peer: Nid, kind: ConnKind) -> ConnId {
        let conn = self.accepted(peer);
        self.greets_for(peer, conn, kind);
        conn
    }

    fn greets(&mut self, peer: Nid, conn: ConnId) {
        self.greets_for(peer, conn, ConnKind::CONTROL);
    }

    /// Sends the handshake.
    fn greets_for(&mut self, peer: Nid, conn: ConnId, kind: ConnKind) {
        let mut bytes = request(OURS);
        hello(peer, kind, Version::V3).encode(Order::Little, &mut bytes);
        assert_eq!(self.feed(conn, &bytes), bytes.len());
        for output in self.actions() {
            if let Output::Stream(Stream::Write { conn: to, head, .. }) = output
                && to == conn
            {
                self.machine.handle_sent(self.now, conn, head.len() as u64);
            }
        }
    }

    /// Connects, and sends the message for which it has connected.
    fn joins(&mut self, peer: Nid) -> ConnId {
        let conn = self.connects(peer);
        self.talks(peer, conn);
        conn
    }

    fn is_open(&self, conn: ConnId) -> bool {
        self.machine.need(conn) != Need::Nothing
    }
}

#[test]
fn a_newcomer_takes_the_place_of_a_peer_that_never_sent_a_message() {
    let mut script = few();
    let first = script.connects(hostile(0));
    for number in 1..200 {
        script.connects(hostile(number));
    }
    assert!(!script.is_open(first));
    assert_eq!(script.machine.conns().len(), MOST / 2);
    let newcomer = script.joins(honest(1));
    for number in 200..400 {
        script.connects(hostile(number));
    }
    script.wait_secs(20);
    assert!(script.is_open(newcomer));
    assert!(script.machine.conns().len() <= MOST);
    assert_eq!(script.machine.counters().gave_way, 396);
}

#[test]
fn a_crowd_of_one_address_displaces_itself() {
    let mut script = some();
    let newcomer = script.accepted(honest(1));
    for _ in 0..200 {
        script.connects(hostile(1));
    }
    script.greets(honest(1), newcomer);
    for _ in 0..200 {
        script.connects(hostile(1));
    }
    assert!(script.is_open(newcomer));
}

#[test]
fn a_newcomer_does_not_displace_itself_while_it_opens_all_its_connections() {
    let mut script = some();
    for number in 0..200 {
        script.connects(hostile(number));
    }
    script.wait_secs(1);
    // It writes its first message, then connects again; the message has not been read yet.
    let kinds = [ConnKind::CONTROL, ConnKind::BULK_OUT, ConnKind::BULK_IN];
    let conns = kinds.map(|kind| script.connects_for(honest(1), kind));
    for number in 0..7 {
        assert_eq!(script.machine.accepts_at(script.now), script.now);
        script.connects(hostile(number));
    }
    assert!(script.machine.accepts_at(script.now) > script.now, "it has the time for it");
    script.talks(honest(1), conns[0]);
    assert!(conns.iter().all(|conn| script.is_open(*conn)));
}

#[test]
fn a_newcomer_has_the_time_for_its_first_message() {
    let mut script = few();
    let newcomer = script.connects(honest(1));
    for number in 1..4 {
        assert_eq!(script.machine.accepts_at(script.now), script.now);
        script.connects(hostile(number));
    }
    let later = script.now + Duration::from_millis(200);
    assert_eq!(script.machine.accepts_at(script.now), later);
    script.talks(honest(1), newcomer);
    assert_eq!(script.machine.accepts_at(script.now), script.now, "there is a place");
    for _ in 0..9 {
        script.accepted(hostile(1));
    }
    assert_eq!(script.machine.accepts_at(script.now), script.now, "one address has many");
    script.wait_secs(1);
    assert_eq!(script.machine.accepts_at(script.now), script.now);
}

#[test]
fn peers_in_use_stay_while_others_send_one_message_each() {
    let mut script = few();
    let members: Vec<_> = (0..3).map(|n| (honest(n), script.joins(honest(n)))).collect();
    for number in 0..400 {
        script.wait(Duration::from_millis(2));
        script.joins(hostile(number));
        for (peer, conn) in &members {
            script.talks(*peer, *conn);
        }
    }
    assert!(members.iter().all(|(_, conn)| script.is_open(*conn)));
    // A newcomer is served meanwhile: half of those on probation have come after it.
    let newcomer = script.joins(honest(9));
    script.joins(hostile(1_000));
    script.talks(honest(9), newcomer);
}

#[test]
fn idle_peers_keep_their_places_until_a_newcomer_has_been_in_use_for_a_second() {
    let mut script = few();
    let [idle, used, ..] = [0, 1, 2, 3].map(|n| script.joins(honest(n)));
    script.wait_secs(20);
    let newcomer = script.joins(honest(8));
    for number in 0..100 {
        script.joins(hostile(number));
    }
    assert!(script.is_open(idle), "one message does not displace it");
    assert!(!script.is_open(newcomer));
    let newcomer = script.joins(honest(8));
    script.wait_secs(1);
    script.talks(honest(1), used);
    script.talks(honest(8), newcomer);
    for number in 100..200 {
        script.connects(hostile(number));
        script.joins(hostile(1_000 + number));
    }
    assert!(script.is_open(newcomer) && script.is_open(used));
    assert!(!script.is_open(idle), "it was idle for longest");
}

#[test]
fn a_peer_with_something_under_way_is_not_idle() {
    let mut script = few();
    let [unsent, unread, unfinished, idle] = [0, 1, 2, 3].map(|n| script.joins(honest(n)));
    // The socket of the first does not accept bytes, and a message of the others is not complete.
    script.send(honest(0), 1, 0);
    let whole = message(honest(1), Version::V3, Order::Little, FrameHeader::lnet(), 0);
    script.feed(unread, &whole);
    script.judge(unread, Verdict::Wait);
    script.feed(unfinished, &whole[..30]);
    script.actions();
    let newcomer = script.joins(honest(8));
    script.wait_secs(2);
    script.talks(honest(8), newcomer);
    for number in 0..100 {
        script.joins(hostile(number));
    }
    for conn in [newcomer, unsent, unread, unfinished] {
        assert!(script.is_open(conn), "{conn:?}");
    }
    assert!(!script.is_open(idle));
}

#[test]
fn the_end_of_a_peer_makes_room() {
    let mut script = few();
    let members = [0, 1, 2, 3].map(|n| script.joins(honest(n)));
    for conn in members {
        script.machine.handle_closed(script.now, conn, fulmar_lnd::CloseCause::Eof);
    }
    let members = [10, 11, 12, 13].map(|n| script.joins(honest(n)));
    for number in 0..100 {
        script.joins(hostile(number));
    }
    assert!(members.iter().all(|conn| script.is_open(*conn)));
    script.machine.close_peer(script.now, Nid::ANY);
    assert_eq!(script.machine.conns(), []);
    script.joins(honest(1));
}

#[test]
fn all_connections_of_an_idle_peer_are_closed_and_it_may_return() {
    let mut script = few();
    let conns = [ConnKind::CONTROL, ConnKind::BULK_IN, ConnKind::BULK_OUT]
        .map(|kind| script.opened_by(honest(0), kind, Version::V3));
    script.talks(honest(0), conns[0]);
    script.wait_secs(5);
    // The owner runs out of descriptors.
    script.machine.limit_incoming(100, true);
    script.connects(hostile(0));
    assert_eq!(conns.map(|conn| script.is_open(conn)), [false; 3]);
    script.machine.limit_incoming(100, false);
    let again = script.joins(honest(0));
    assert!(script.is_open(again));
}

#[test]
fn a_peer_that_this_node_has_connected_to_keeps_its_connections() {
    let mut script = few();
    let dialled = script.opens_all(HIGH);
    let called = script.connects(HIGH);
    for number in 0..200 {
        script.connects(hostile(number));
    }
    assert!(script.is_open(called) && dialled.iter().all(|conn| script.is_open(*conn)));
}

#[test]
fn without_a_place_that_can_be_given_a_connection_is_refused() {
    let mut script = few();
    let member = script.joins(honest(0));
    script.machine.limit_incoming(100, true);
    assert_eq!(script.accepted_from(addr(honest(1), 1023)), None);
    assert!(script.is_open(member));
    assert_eq!(script.machine.counters().refused_handshakes, 1);
}

#[test]
fn one_gives_way_when_the_owner_has_no_place_although_there_may_be_more() {
    let mut script = few();
    let conns = [0, 1].map(|n| script.connects(hostile(n)));
    // The connections that the node has opened itself use the other places.
    let later = script.machine.handle_no_place(script.now);
    assert_eq!(later, script.now + Duration::from_millis(200));
    assert!(conns.iter().all(|conn| script.is_open(*conn)), "they have the time for a message");
    script.wait(Duration::from_millis(200));
    assert_eq!(script.machine.handle_no_place(script.now), script.now);
    script.actions();
    assert_eq!(conns.map(|conn| script.is_open(conn)), [false, true]);
    script.machine.limit_incoming(100, false);
    script.joins(honest(0));
    assert!(script.is_open(conns[1]));
}

/// Whatever peers do, the limits hold, and the books agree with the connections.
#[test]
fn limits_hold_at_random() {
    for seed in 0..200 {
        let mut rng = fulmar_base::Rng::new(seed);
        let mut script = few();
        let mut conns: Vec<(Nid, ConnId)> = Vec::new();
        for _ in 0..300 {
            let peer = honest(rng.below(12) as u32);
            match rng.below(8) {
                0 => drop(script.accepted_from(addr(peer, 1023))),
                1 | 2 => {
                    if let Some(conn) = script.accepted_from(addr(peer, 1023)) {
                        script.greets(peer, conn);
                        conns.push((peer, conn));
                    }
                }
                3 => script.wait(Duration::from_millis(rng.below(1_500))),
                4 if !conns.is_empty() => {
                    let (_, conn) = conns.swap_remove(rng.below(conns.len() as u64) as usize);
                    script.machine.handle_closed(script.now, conn, fulmar_lnd::CloseCause::Eof);
                }
                5 => script.machine.limit_incoming(rng.between(1, 12) as usize, rng.one_in(4)),
                _ if !conns.is_empty() => {
                    let (peer, conn) = conns[rng.below(conns.len() as u64) as usize];
                    script.talks(peer, conn);
                }
                _ => {}
            }
            script.actions();
            conns.retain(|(_, conn)| script.is_open(*conn));
            assert!(script.machine.conns().len() <= 12, "seed {seed}");
        }
        script.machine.close_peer(script.now, Nid::ANY);
        script.wait_secs(20);
        assert_eq!(script.machine.conns(), [], "seed {seed}");
        script.machine.limit_incoming(100, true);
        let refused = script.accepted_from(addr(honest(1), 1023));
        assert_eq!(refused, None, "no place is in use any more, seed {seed}");
    }
}

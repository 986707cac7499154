use super::*;
use crate::options::Control;

const SEGMENT: u64 = 1448;
const PLENTY: u64 = 1 << 40;

/// Returns a sender whose bursts are single packets.
fn sender(buffer: u64) -> Sender {
    let tcp = Tcp { congestion: Control::Reno, ..Tcp::default() };
    Sender::new(&tcp.with_buffers(buffer), 0)
}

/// Sends everything that may be sent, and returns it.
fn send_all(sender: &mut Sender, now: Time, taken: u64) -> Vec<(u64, Range<u64>)> {
    std::iter::from_fn(|| sender.burst(now, taken, u64::MAX)).collect()
}

fn ack(number: u64, upto: u64) -> Ack {
    Ack { number, upto, edge: upto + PLENTY, ..Ack::default() }
}

fn at(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

#[test]
fn data_in_flight_are_limited_by_the_initial_window_and_the_peers_window() {
    let mut wide = sender(PLENTY);
    let sent = send_all(&mut wide, at(0), PLENTY);
    assert_eq!(sent.last().unwrap().1.end, 10 * SEGMENT);
    let mut narrow = sender(5_000);
    assert_eq!(send_all(&mut narrow, at(0), PLENTY).last().unwrap().1.end, 5_000);
}

#[test]
fn a_loss_is_retransmitted_at_once_and_shrinks_the_window_once() {
    let mut sender = sender(PLENTY);
    let sent = send_all(&mut sender, at(0), PLENTY);
    assert_eq!(sent.len(), 10);
    let first = sent[0].1.end;
    assert_eq!(sender.handle_ack(at(100), &ack(0, first), PLENTY), first);
    let before = sender.congestion.window();
    sender.handle_ack(at(101), &ack(3, first), PLENTY);
    assert!(sender.congestion.window() < before);
    let shrunk = sender.congestion.window();
    let resent: Vec<_> = send_all(&mut sender, at(101), PLENTY);
    assert!(resent.is_empty() || resent[0].1.start == first);
    sender.handle_ack(at(102), &ack(5, first), PLENTY);
    assert!(sender.congestion.window() >= shrunk, "of the same round trip");
    for number in 6..10 {
        sender.handle_ack(at(103 + number), &ack(number, first), PLENTY);
        send_all(&mut sender, at(103 + number), PLENTY);
    }
    assert_eq!(sender.resent, 3 * SEGMENT);
}

#[test]
fn a_hole_in_a_burst_is_retransmitted_before_new_data() {
    let mut sender = sender(PLENTY);
    send_all(&mut sender, at(0), PLENTY);
    for number in 0..9 {
        sender.handle_ack(at(100), &ack(number, (number + 1) * SEGMENT), PLENTY);
    }
    let next = sender.next();
    let hole = 9 * SEGMENT..10 * SEGMENT;
    let holed = Ack { holes: vec![hole.clone()], ..ack(9, 9 * SEGMENT) };
    assert_eq!(sender.handle_ack(at(100), &holed, PLENTY), 0);
    let sent = send_all(&mut sender, at(100), PLENTY);
    assert_eq!((&sent[0].1, sent[1].1.start), (&hole, next));
}

#[test]
fn a_tail_loss_probe_is_followed_by_a_full_retransmission() {
    let mut sender = sender(PLENTY);
    send_all(&mut sender, at(0), SEGMENT);
    sender.handle_ack(at(50), &ack(0, SEGMENT), SEGMENT);
    assert_eq!(sender.timeout(), None);
    let taken = 4 * SEGMENT;
    send_all(&mut sender, at(50), taken);
    let due = sender.timeout().unwrap();
    assert_eq!(due, at(160));
    let (number, probe) = sender.handle_timeout(due, taken).unwrap();
    assert_eq!((number, probe), (4, 3 * SEGMENT..taken));
    let due = sender.timeout().unwrap();
    assert_eq!(sender.handle_timeout(due, taken), None);
    let again = send_all(&mut sender, due, taken);
    assert_eq!(again[0].1, SEGMENT..2 * SEGMENT);
    assert_eq!(sender.congestion.window(), SEGMENT);
    let mut waits = Vec::new();
    for _ in 0..5 {
        let due = sender.timeout().unwrap();
        sender.handle_timeout(due, taken);
        send_all(&mut sender, due, taken);
        waits.push(sender.timeout().unwrap().since(due).as_millis());
    }
    assert_eq!(waits.last(), Some(&2_000), "no longer: {waits:?}");
    assert!(sender.timeouts() > 3 && sender.time_without_ack(at(60_000)).is_some());
}

#[test]
fn a_closed_window_is_probed() {
    let mut sender = sender(1_000);
    send_all(&mut sender, at(0), PLENTY);
    sender.handle_ack(at(10), &Ack { edge: 1_000, ..ack(0, 1_000) }, PLENTY);
    assert!(!sender.is_ready(PLENTY));
    let due = sender.timeout().unwrap();
    let (number, probe) = sender.handle_timeout(due, PLENTY).unwrap();
    assert!(probe.is_empty());
    assert!(sender.time_without_ack(due).is_none() || sender.timeouts() == 1);
    sender.handle_ack(due, &Ack { edge: 2_000, ..ack(number, 1_000) }, PLENTY);
    assert_eq!(send_all(&mut sender, due, PLENTY)[0].1, 1_000..2_000);
}

#[test]
fn acknowledged_bytes_free_the_write_buffer() {
    let mut sender = sender(10_000);
    assert_eq!(sender.room(10_000), 0);
    send_all(&mut sender, at(0), 10_000);
    sender.handle_ack(at(10), &ack(0, 4_000), 10_000);
    assert_eq!(sender.room(10_000), 4_000);
}

#[test]
fn a_sender_that_was_idle_starts_with_a_smaller_window() {
    for idle_restart in [true, false] {
        let tcp = Tcp { congestion: Control::Reno, idle_restart, ..Tcp::default() };
        let mut sender = Sender::new(&tcp.with_buffers(PLENTY), 0);
        let taken = 10 * SEGMENT;
        for (number, (_, bytes)) in send_all(&mut sender, at(0), PLENTY).into_iter().enumerate() {
            sender.handle_ack(at(50), &ack(number as u64, bytes.end), taken);
        }
        assert_eq!(sender.window(), 20 * SEGMENT);
        let soon = send_all(&mut sender, at(200), taken + SEGMENT);
        assert_eq!((soon.len(), sender.window()), (1, 20 * SEGMENT), "within a timeout");
        sender.handle_ack(at(250), &ack(10, 11 * SEGMENT), taken + SEGMENT);
        let sent = send_all(&mut sender, at(5_000), PLENTY);
        let most = if idle_restart { 10 } else { 20 };
        assert!((most..most + 2).contains(&(sent.len() as u64)), "{idle_restart}: {}", sent.len());
    }
}

#[test]
fn the_acknowledgement_of_a_single_packet_may_be_late() {
    let tcp = Tcp { delayed_acks: true, ..Tcp::default() };
    let mut sender = Sender::new(&tcp, 0);
    send_all(&mut sender, at(0), SEGMENT);
    sender.handle_ack(at(50), &ack(0, SEGMENT), SEGMENT);
    send_all(&mut sender, at(50), 2 * SEGMENT);
    assert_eq!(sender.timeout(), Some(at(50 + 100 + 200)));
    send_all(&mut sender, at(60), 4 * SEGMENT);
    sender.handle_ack(at(100), &ack(1, 2 * SEGMENT), 4 * SEGMENT);
    assert_eq!(sender.timeout(), Some(at(100 + 100 + 10)));
}
